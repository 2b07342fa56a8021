/* pipeline_plugins.h - plugins that live in the test program, and a loader that hands them out for the file
 * pipelines/use/plugins.fake, so that plans can be tested without any shared object. */
#ifndef CDZ_TESTS_UNIT_CONFIG_PIPELINE_PLUGINS_H
#define CDZ_TESTS_UNIT_CONFIG_PIPELINE_PLUGINS_H

#include <string.h>

#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/loader.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "plug/registry.h"

/* --- processors of the profile: each mirrors the parameter it is called like ------------------------------- */

typedef struct {
    double temperature;
} p_temperature;
typedef struct {
    cdz_opt_int top_k, min_tokens_to_keep;
} p_top_k;
typedef struct {
    cdz_opt_real top_p;
} p_top_p;
typedef struct {
    cdz_opt_real repetition_penalty;
} p_repetition;
typedef struct {
    cdz_opt_int no_repeat_ngram_size;
} p_no_repeat;
typedef struct {
    cdz_int_lists bad_words_ids;
} p_bad_words;
typedef struct {
    cdz_opt_int min_length;
} p_min_length;
typedef struct {
    cdz_opt_bool renormalize_logits;
} p_renormalize;

static const cdz_param temperature_params[] = {CDZ_PARAM_(
    p_temperature, temperature, double, CDZ_T_REAL,
    CDZ_GENERATION | CDZ_STRICT_REAL | CDZ_ABOVE_MIN, 1.0, 0.0, CDZ_NO_LIMIT, NULL, "divides")};
static const cdz_param top_k_params[] = {
    CDZ_OPT_INT(p_top_k, top_k, CDZ_GENERATION, 1, CDZ_NO_LIMIT, "keeps"),
    CDZ_OPT_INT(p_top_k, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT, "at least")};
static const cdz_param top_p_params[] = {
    CDZ_OPT_REAL(p_top_p, top_p, CDZ_GENERATION, 0, 1, "keeps")};
static const cdz_param repetition_params[] = {CDZ_OPT_REAL(
    p_repetition, repetition_penalty, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT, "lowers")};
static const cdz_param no_repeat_params[] = {
    CDZ_OPT_INT(p_no_repeat, no_repeat_ngram_size, CDZ_GENERATION, 0, CDZ_NO_LIMIT, "masks")};
static const cdz_param bad_words_params[] = {
    CDZ_INT_LISTS(p_bad_words, bad_words_ids, CDZ_GENERATION, 0, 1000, "masks")};
static const cdz_param min_length_params[] = {
    CDZ_OPT_INT(p_min_length, min_length, CDZ_GENERATION, 0, CDZ_NO_LIMIT, "masks")};
static const cdz_param renormalize_params[] = {
    CDZ_OPT_BOOL(p_renormalize, renormalize_logits, CDZ_GENERATION, "normalises")};

static cdz_status apply_nothing(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

static cdz_status create_bad_words(const cdz_step *step)
{
    const p_bad_words *p = step->params;
    if (p->bad_words_ids.set && p->bad_words_ids.len == 0)
        return cdz_fail(step, CDZ_E_USAGE, "bad_words_ids is an empty list");
    return CDZ_OK;
}

/* --- processors of one's own -------------------------------------------------------------------------------- */

typedef struct {
    double multiplier;
    int64_t allowed_length;
} p_dry;
typedef struct {
    int64_t low, high;
} p_picky;

static const cdz_param dry_params[] = {CDZ_REAL(p_dry, multiplier, 0.8, 0.0, 5.0, "strength"),
                                       CDZ_INT(p_dry, allowed_length, 2, 1, 100, "free tokens")};
static const cdz_param picky_params[] = {CDZ_INT(p_picky, low, 1, 0, 10, "low"),
                                         CDZ_INT(p_picky, high, 5, 0, 10, "high")};

/* Refuses what ranges cannot express; high = 9 is refused without a word. */
static cdz_status create_picky(const cdz_step *step)
{
    const p_picky *p = step->params;
    int32_t *table = cdz_alloc(step, 64);
    if (!table || step->request || step->n_rows) return CDZ_E_INTERNAL;
    if (p->high == 9) return CDZ_E_INPUT;
    if (p->low > p->high)
        return cdz_fail(step, CDZ_E_USAGE, "low %d is above high %d", (int)p->low, (int)p->high);
    return CDZ_OK;
}

/* --- strategies and criteria -------------------------------------------------------------------------------- */

typedef struct {
    double floor;
    int64_t retries;
    cdz_opt_real temperature;
    cdz_opt_int top_k;
} p_backtrack;
typedef struct {
    int64_t words;
} p_enough;

static const cdz_param backtrack_params[] = {
    CDZ_REAL(p_backtrack, floor, 0.15, 0.0, 1.0, "lowest probability"),
    CDZ_INT(p_backtrack, retries, 8, 0, 1024, "steps back"),
    CDZ_OPT_REAL(p_backtrack, temperature, CDZ_GENERATION, 0, 100, "of the draws"),
    CDZ_OPT_INT(p_backtrack, top_k, 0, 0, 100, "its own, not the generation parameter")};
static const cdz_param enough_params[] = {CDZ_INT(p_enough, words, 10, 1, 1000, "words")};

static cdz_status run_nothing(cdz_decoder *dec, const cdz_step *step)
{
    (void)dec, (void)step;
    return CDZ_OK;
}

static cdz_status test_nothing(const cdz_step *step, cdz_stop *stops)
{
    (void)step, (void)stops;
    return CDZ_OK;
}

#define BASE(kind_, id_) kind_, .id = id_, .version = "1.0.0", .summary = "for the tests"
#define PROCESSOR(name_, id_, type_, caps_)                                                        \
    static const cdz_processor name_ = {                                                           \
        .base = {BASE(CDZ_PROCESSOR_BASE, id_), CDZ_PARAMS(type_, name_##_params)},                \
        .caps = caps_,                                                                             \
        .apply = apply_nothing,                                                                    \
    }
#define CRITERION(name_, id_)                                                                      \
    static const cdz_criterion name_ = {.base = {BASE(CDZ_CRITERION_BASE, id_)},                   \
                                        .test = test_nothing}
#define STRATEGY(name_, id_, caps_)                                                                \
    static const cdz_strategy name_ = {                                                            \
        .base = {BASE(CDZ_STRATEGY_BASE, id_)}, .caps = caps_, .run = run_nothing}

PROCESSOR(temperature, "temperature", p_temperature,
          CDZ_SAMPLING_ONLY | CDZ_KEEPS_ARGMAX | CDZ_ELEMENTWISE);
PROCESSOR(top_k, "top_k", p_top_k, CDZ_SAMPLING_ONLY | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP);
PROCESSOR(top_p, "top_p", p_top_p, CDZ_SAMPLING_ONLY | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP);
PROCESSOR(repetition, "repetition_penalty", p_repetition, CDZ_HISTORY_SPARSE | CDZ_NEEDS_IDS);
PROCESSOR(no_repeat, "no_repeat_ngram_size", p_no_repeat, CDZ_HISTORY_SPARSE | CDZ_NEEDS_IDS);
PROCESSOR(min_length, "min_length", p_min_length, CDZ_NEEDS_IDS);
PROCESSOR(renormalize, "renormalize_logits", p_renormalize, 0);
PROCESSOR(dry, "dry", p_dry, CDZ_NEEDS_IDS);
static const cdz_processor bad_words = {
    .base = {BASE(CDZ_PROCESSOR_BASE, "bad_words_ids"), CDZ_PARAMS(p_bad_words, bad_words_params)},
    .create = create_bad_words,
    .apply = apply_nothing,
};
static const cdz_processor picky = {
    .base = {BASE(CDZ_PROCESSOR_BASE, "org.example.picky"), CDZ_PARAMS(p_picky, picky_params)},
    .create = create_picky,
    .apply = apply_nothing,
};
CRITERION(max_length, "max_length");
CRITERION(max_time, "max_time");
CRITERION(stop_strings, "stop_strings");
CRITERION(eos, "eos_token_id");
static const cdz_criterion enough = {
    .base = {BASE(CDZ_CRITERION_BASE, "enough"), CDZ_PARAMS(p_enough, enough_params)},
    .test = test_nothing,
};
STRATEGY(greedy, "greedy", CDZ_GREEDY);
STRATEGY(sample, "sample", CDZ_SAMPLES);
STRATEGY(beam, "beam", CDZ_BEAMS | CDZ_GREEDY);
STRATEGY(group_beam, "org.cadenza.group-beam-search", CDZ_BEAMS | CDZ_GREEDY);
STRATEGY(constrained_beam, "org.cadenza.constrained-beam-search", CDZ_BEAMS | CDZ_GREEDY);
STRATEGY(contrastive, "org.cadenza.contrastive-search", CDZ_GREEDY);
STRATEGY(dola, "org.cadenza.dola", 0);
static const cdz_strategy backtrack = {
    .base = {BASE(CDZ_STRATEGY_BASE, "org.example.backtrack"),
             CDZ_PARAMS(p_backtrack, backtrack_params)},
    .caps = CDZ_ONE_ROW | CDZ_REWINDS,
    .run = run_nothing,
};

STRATEGY(assisted, "assisted", CDZ_ONE_ROW);

typedef struct p_drafter {
    int64_t num_assistant_tokens;
} p_drafter;
static const cdz_param drafter_params[] = {
    CDZ_INT(p_drafter, num_assistant_tokens, 20, 1, 1000, "tokens of a draft"),
};
static cdz_status propose_nothing(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    (void)dec, (void)step, (void)draft;
    return CDZ_OK;
}
#define DRAFTER(name_, id_)                                                                        \
    static const cdz_drafter name_ = {                                                             \
        .base = {BASE(CDZ_DRAFTER_BASE, id_), CDZ_PARAMS(p_drafter, drafter_params)},              \
        .propose = propose_nothing}
DRAFTER(draft_model, "model");
DRAFTER(prompt_lookup, "prompt_lookup");
DRAFTER(early_exit, "early_exit");
DRAFTER(guess, "guess");

static const cdz_plugin_base *const own_plugins[] = {
    &temperature.base,  &top_k.base,
    &top_p.base,        &repetition.base,
    &no_repeat.base,    &min_length.base,
    &renormalize.base,  &dry.base,
    &bad_words.base,    &picky.base,
    &max_length.base,   &max_time.base,
    &eos.base,          &enough.base,
    &greedy.base,       &sample.base,
    &stop_strings.base, &beam.base,
    &backtrack.base,    &assisted.base,
    &draft_model.base,  &prompt_lookup.base,
    &early_exit.base,   &guess.base,
    &group_beam.base,   &constrained_beam.base,
    &contrastive.base,  &dola.base,
};

static cdz_status open_own(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    (void)step, (void)file;
    out->plugins = own_plugins;
    out->n_plugins = sizeof own_plugins / sizeof own_plugins[0];
    return CDZ_OK;
}

static const cdz_loader own_loader = {
    .base = {BASE(CDZ_LOADER_BASE, "fakes")}, .endings = "fake", .open = open_own};

#endif
