/* explain.c - the text of `cadenza explain`: what a request without arguments of its own would run with, and where
 * each part of it comes from. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "config/explain.h"
#include "plug/module.h"

enum { COLUMNS = 4, MAX_CELL = 48 };

typedef struct table {
    cdz_arena *arena;
    const char *(*rows)[COLUMNS];
    uint32_t n, cap;
    bool failed;
} table;

static void add_row(table *t, const char *a, const char *b, const char *c, const char *d)
{
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 32;
        const char *(*rows)[COLUMNS] = cdz_arena_array(t->arena, cap, sizeof *rows);
        if (!rows) {
            t->failed = true;
            return;
        }
        if (t->n) memcpy(rows, t->rows, t->n * sizeof *rows);
        t->rows = rows;
        t->cap = cap;
    }
    const char *const cells[COLUMNS] = {a, b, c, d};
    for (int i = 0; i < COLUMNS; i++) {
        t->rows[t->n][i] = cells[i] ? cells[i] : "";
        if (i == 0 && !cells[i]) t->failed = true;
    }
    t->n++;
}

static size_t width_of(const char *text)
{
    return cdz_utf8_count(text, strlen(text));
}

/* Columns as wide as their widest cell, two blanks between them; very wide cells do not push the others away. */
static void write_table(const table *t, cdz_buf *out)
{
    size_t width[COLUMNS] = {0};
    for (uint32_t r = 0; r < t->n; r++)
        for (int c = 0; c < COLUMNS; c++) {
            size_t w = width_of(t->rows[r][c]);
            if (w <= MAX_CELL && w > width[c]) width[c] = w;
        }
    for (uint32_t r = 0; r < t->n; r++) {
        size_t owed = 2;
        for (int c = 0; c < COLUMNS; c++) {
            const char *cell = t->rows[r][c];
            size_t w = width_of(cell);
            if (*cell) {
                for (; owed; owed--) cdz_buf_putc(out, ' ');
                cdz_buf_puts(out, cell);
            }
            if (!width[c]) continue;
            owed += (*cell ? (w < width[c] ? width[c] - w : 0) : width[c]) + 2;
        }
        cdz_buf_putc(out, '\n');
    }
}

/* --- words ----------------------------------------------------------------------------------------------- */

const char *cdz_explain_where(cdz_arena *arena, const cdz_origin *origin)
{
    switch (origin->source) {
    case CDZ_SOURCE_DEFAULT: return "default";
    case CDZ_SOURCE_MODEL: return origin->file;
    case CDZ_SOURCE_PROFILE:
        return cdz_arena_printf(arena, "%s:%u (profile)", origin->file, origin->line);
    case CDZ_SOURCE_FILE: return cdz_arena_printf(arena, "%s:%u", origin->file, origin->line);
    case CDZ_SOURCE_COMMAND: return "command line";
    case CDZ_SOURCE_REQUEST: return "request";
    }
    return "";
}

static const char *value_text(cdz_arena *arena, const cdz_param *param, const void *params)
{
    cdz_buf text = {0};
    const char *kept = NULL;
    if (!cdz_param_is_set(param, params)) return "none";
    cdz_param_write(param, params, &text);
    if (!text.failed) kept = cdz_arena_strndup(arena, text.data, text.len);
    cdz_buf_free(&text);
    return kept;
}

/* "0.8" for a parameter called like its plugin, "multiplier = 0.8" for others; only what differs from its default. */
static const char *settings_text(cdz_arena *arena, const cdz_instance *instance)
{
    cdz_param_table rows = cdz_params_of(instance->plugin.base);
    void *defaults = cdz_arena_alloc(arena, rows.params_size);
    const char *all = "";
    if (!defaults) return "";
    cdz_params_defaults(&rows, defaults);
    for (uint32_t i = 0; i < rows.n && all; i++) {
        const cdz_param *param = cdz_param_at(&rows, i);
        const char *value = value_text(arena, param, instance->params);
        const char *usual = value_text(arena, param, defaults);
        if (!value || !usual || strcmp(value, usual) == 0) continue;
        bool plain = strcmp(param->name, instance->plugin.base->id) == 0;
        all = cdz_arena_printf(arena, "%s%s%s%s%s", all, *all ? ", " : "", plain ? "" : param->name,
                               plain ? "" : " = ", value);
    }
    return all;
}

/* Said only where it is not plain from the name: another id, or a file that is not built in. */
static const char *plugin_text(cdz_arena *arena, const cdz_instance *instance)
{
    const char *id = instance->plugin.base->id;
    const char *origin = instance->plugin.module ? cdz_module_origin(instance->plugin.module) : "";
    bool other_name = strcmp(id, instance->name) != 0;
    const char *apart = cdz_module_apart(instance->plugin.module, arena);
    if (strcmp(origin, "built-in") == 0)
        return cdz_arena_printf(arena, "%s%s%s%s", other_name ? "is " : "", other_name ? id : "",
                                other_name && *apart ? ", " : "", apart);
    return cdz_arena_printf(arena, "%s%s%sfrom %s%s%s", other_name ? "is " : "",
                            other_name ? id : "", other_name ? ", " : "",
                            instance->plugin.module ? cdz_module_path(instance->plugin.module)
                                                    : "memory",
                            *apart ? ", " : "", apart);
}

/* --- sections -------------------------------------------------------------------------------------------- */

const char *cdz_explain_asked(cdz_arena *arena, const cdz_origin *origins,
                              const cdz_instance *instance)
{
    if (instance->custom) return cdz_explain_where(arena, &instance->origin);
    int slot = cdz_generation_slot(instance->plugin.base->id);
    if (slot < 0) return "";
    const cdz_origin *origin = &origins[slot];
    /* min_length may be there for min_new_tokens' sake, max_length for max_new_tokens'. */
    static const char *const pairs[][2] = {{"min_length", "min_new_tokens"},
                                           {"max_length", "max_new_tokens"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const cdz_origin *other = &origins[cdz_generation_slot(pairs[i][1])];
        if (strcmp(instance->plugin.base->id, pairs[i][0]) == 0 &&
            other->source != CDZ_SOURCE_DEFAULT)
            return cdz_arena_printf(arena, "%s, %s", pairs[i][1], cdz_explain_where(arena, other));
    }
    return cdz_explain_where(arena, origin);
}

const char *cdz_explain_strategy(cdz_arena *arena, const cdz_plan *plan)
{
    const cdz_origin *sampling = &plan->origins[cdz_generation_slot("do_sample")];
    if (plan->strategy.custom) return cdz_explain_where(arena, &plan->strategy.origin);
    return cdz_arena_printf(arena, "auto: do_sample = %s (%s)",
                            plan->generation.do_sample ? "true" : "false",
                            cdz_explain_where(arena, sampling));
}

static void write_strategy(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    const cdz_instance *s = &plan->strategy;
    table t = {.arena = arena};
    cdz_buf_puts(out, "\nStrategy\n");
    add_row(&t, s->name, settings_text(arena, s), cdz_explain_strategy(arena, plan),
            plugin_text(arena, s));
    write_table(&t, out);
}

bool cdz_explain_shows(const cdz_setting *setting)
{
    const unsigned groups = CDZ_TAKES_MACHINE | CDZ_TAKES_PLUGINS | CDZ_TAKES_MODEL_PLUGINS;
    return (setting->group & groups) &&
           (setting->home == CDZ_HOME_MODEL || setting->kind != CDZ_KIND_TEXTS);
}

/* What was said of it; of texts all. NULL: nothing. */
static const char *said_of(cdz_arena *arena, const cdz_settings *said, const cdz_setting *setting)
{
    uint32_t n = 0;
    const char *all = said ? said->said[cdz_setting_index(setting)] : NULL;
    const char *const *texts = all ? cdz_settings_texts(said, setting, &n) : NULL;
    for (uint32_t i = 0; all && i < n; i++)
        all = i ? cdz_arena_printf(arena, "%s, %s", all, texts[i]) : texts[i];
    return all;
}

bool cdz_explain_setting(cdz_arena *arena, const cdz_pipeline *pipeline, const cdz_settings *said,
                         const cdz_setting *setting, cdz_explained *out)
{
    cdz_origin at;
    out->from = "command line";
    out->value = said_of(arena, said, setting);
    if (out->value) {
        if (!*out->value) out->value = "yes"; /* a switch */
        return true;
    }
    out->value = cdz_pipeline_host_setting(pipeline, setting, &at);
    if (out->value) {
        out->from = cdz_explain_where(arena, &at);
        return true;
    }
    out->value = cdz_setting_env(setting);
    out->from = setting->env;
    return out->value != NULL;
}

/* What the model runs as, where somebody says it. */
static void write_settings(cdz_arena *arena, const cdz_pipeline *pipeline, const cdz_settings *said,
                           cdz_buf *out)
{
    table t = {.arena = arena};
    const cdz_setting *setting;
    cdz_explained one;
    for (size_t i = 0; (setting = cdz_setting_at(i)) != NULL; i++)
        if (cdz_explain_shows(setting) && cdz_explain_setting(arena, pipeline, said, setting, &one))
            add_row(&t, setting->name, one.value, one.from, "");
    if (t.n == 0) return;
    cdz_buf_puts(out, "\nSettings that were set\n");
    write_table(&t, out);
}

static void write_instances(cdz_arena *arena, const cdz_plan *plan, const char *title,
                            const cdz_instance *at, uint32_t n, bool places, cdz_buf *out)
{
    table t = {.arena = arena};
    cdz_buf_printf(out, "\n%s\n", title);
    for (uint32_t i = 0; i < n; i++) {
        const char *name =
            places ? cdz_arena_printf(arena, "%2u  %s", at[i].place, at[i].name) : at[i].name;
        add_row(&t, name, settings_text(arena, &at[i]),
                cdz_explain_asked(arena, plan->origins, &at[i]), plugin_text(arena, &at[i]));
    }
    if (n == 0) cdz_buf_puts(out, "  none\n");
    write_table(&t, out);
}

/* The processors that run in phase n, below a heading. */
static void write_phase_chain(cdz_arena *arena, const cdz_plan *plan, const cdz_origin *origins,
                              uint32_t n, cdz_buf *out)
{
    table t = {.arena = arena};
    for (uint32_t i = 0; i < plan->n_processors; i++) {
        const cdz_instance *p = &plan->processors[i];
        if (p->phases & 1u << n)
            add_row(&t, cdz_arena_printf(arena, "%2u  %s", p->place, p->name),
                    settings_text(arena, p), cdz_explain_asked(arena, origins, p),
                    plugin_text(arena, p));
    }
    if (t.n == 0) cdz_buf_puts(out, "  none\n");
    write_table(&t, out);
}

static bool runs_outside(const cdz_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_phases; i++)
        if (plan->phases[i].begin) return true;
    return plan->phases[plan->n_phases - 1].until != NULL;
}

static void write_mark(const char *name, const char *value, cdz_buf *out)
{
    if (value) cdz_buf_printf(out, ", %s %s", name, value);
}

static void write_phases(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        const cdz_plan_phase *phase = &plan->phases[i];
        cdz_buf_printf(out, "\nProcessors in phase %s (%s", phase->name,
                       cdz_explain_where(arena, &phase->origin));
        write_mark("begin", phase->begin, out);
        write_mark("until", phase->until, out);
        write_mark("max_tokens", phase->max_tokens, out);
        cdz_buf_puts(out, "), in order\n");
        write_phase_chain(arena, plan, phase->origins, i + 1, out);
    }
    if (!runs_outside(plan)) return;
    cdz_buf_puts(out, "\nProcessors outside of phases, in order\n");
    write_phase_chain(arena, plan, plan->origins, 0, out);
}

static void write_models(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    uint32_t n;
    const cdz_named_folder *at = cdz_edition_models(plan->edition, &n);
    table t = {.arena = arena};
    for (uint32_t i = 0; i < n; i++)
        add_row(&t, at[i].name, at[i].folder, cdz_explain_where(arena, &at[i].origin), "");
    if (!n) return;
    cdz_buf_puts(out, "\nFurther models\n");
    write_table(&t, out);
}

const char *cdz_explain_parameter(cdz_arena *arena, const cdz_plan *plan, uint32_t slot)
{
    if (plan->origins[slot].source != CDZ_SOURCE_DEFAULT)
        return cdz_explain_where(arena, &plan->origins[slot]);
    const bool pad = strcmp(cdz_generation_slot_name(slot), "pad_token_id") == 0;
    return pad && plan->generation.pad_token_id.set ? "the first eos_token_id" : NULL;
}

static void write_parameters(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    const cdz_param_table *rows = cdz_generation_table();
    table t = {.arena = arena};
    for (uint32_t i = 0; i < rows->n; i++) {
        const cdz_param *param = cdz_param_at(rows, i);
        const char *from = cdz_explain_parameter(arena, plan, i);
        if (from) add_row(&t, param->name, value_text(arena, param, &plan->generation), from, "");
    }
    cdz_buf_puts(out, "\nGeneration parameters that were set\n");
    if (t.n == 0) cdz_buf_puts(out, "  none\n");
    write_table(&t, out);
}

/* --- orders that defeat a processor ------------------------------------------------------------------------ */

static uint32_t caps_of(const cdz_instance *instance)
{
    return ((const cdz_processor *)(const void *)instance->plugin.base)->caps;
}

static bool is(const cdz_instance *instance, const char *id)
{
    return strcmp(instance->plugin.base->id, id) == 0;
}

/* Cuts by probability, so the scale of the scores matters to it. */
static bool cuts_by_probability(const cdz_instance *instance)
{
    static const char *const ids[] = {"top_p",     "top_h",          "min_p",
                                      "typical_p", "epsilon_cutoff", "eta_cutoff"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (is(instance, ids[i])) return true;
    return false;
}

/* Masks with -inf, which remove_invalid_values turns into an ordinary low score. */
static bool masks(const cdz_instance *instance)
{
    static const char *const ids[] = {"no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
                                      "bad_words_ids",        "min_length",
                                      "min_new_tokens",       "prefix_allowed_tokens",
                                      "forced_bos_token_id",  "forced_eos_token_id",
                                      "suppress_tokens",      "begin_suppress_tokens"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (is(instance, ids[i])) return true;
    return (caps_of(instance) & CDZ_KEEPS_TOP) != 0;
}

/* What `later` spoils of `earlier`, or NULL. */
static const char *conflict(const cdz_instance *earlier, const cdz_instance *later)
{
    if (is(later, "temperature") && cuts_by_probability(earlier))
        return "cuts before the scores are scaled; put temperature first";
    if (is(later, "remove_invalid_values") && masks(earlier))
        return "masks tokens that are then unmasked again";
    if (is(earlier, "renormalize_logits") && !is(later, "renormalize_logits"))
        return "normalises scores that are changed afterwards";
    if ((caps_of(earlier) & CDZ_KEEPS_TOP) && (caps_of(later) & CDZ_HISTORY_SPARSE))
        return "selects tokens before their scores are changed";
    if (strcmp(earlier->plugin.base->id, later->plugin.base->id) == 0)
        return "the same processor, applied twice";
    return NULL;
}

static void find_conflicts(cdz_arena *arena, const cdz_plan *plan, cdz_explain_say *say, void *user)
{
    for (uint32_t i = 0; i < plan->n_processors; i++) {
        for (uint32_t k = i + 1; k < plan->n_processors; k++) {
            const cdz_instance *a = &plan->processors[i], *b = &plan->processors[k];
            const bool meet = !a->phases || !b->phases || (a->phases & b->phases);
            const char *why = meet ? conflict(a, b) : NULL;
            if (why) say(user, cdz_arena_printf(arena, "%s before %s: %s", a->name, b->name, why));
        }
    }
}

static void find_idle(cdz_arena *arena, const cdz_plan *plan, cdz_explain_say *say, void *user)
{
    const cdz_strategy *s = (const cdz_strategy *)(const void *)plan->strategy.plugin.base;
    for (uint32_t i = 0; i < plan->n_processors && (s->caps & CDZ_GREEDY); i++) {
        const cdz_instance *p = &plan->processors[i];
        if (caps_of(p) & CDZ_KEEPS_ARGMAX)
            say(user, cdz_arena_printf(arena,
                                       "%s never changes which token is best, so it has no effect "
                                       "with strategy %s",
                                       p->name, plan->strategy.name));
    }
}

void cdz_explain_warnings(cdz_arena *arena, const cdz_plan *plan, cdz_explain_say *say, void *user)
{
    for (uint32_t i = 0; i < plan->n_warnings; i++) say(user, plan->warnings[i]);
    find_conflicts(arena, plan, say, user);
    find_idle(arena, plan, say, user);
}

static void add_warning(void *user, const char *sentence)
{
    add_row(user, sentence, "", "", "");
}

static void write_warnings(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    table t = {.arena = arena};
    cdz_explain_warnings(arena, plan, add_warning, &t);
    if (t.n == 0) return;
    cdz_buf_puts(out, "\nWarnings\n");
    write_table(&t, out);
}

cdz_status cdz_pipeline_explain_text(cdz_pipeline *pipeline, const cdz_json *model_generation,
                                     const cdz_settings *said, cdz_buf *out, cdz_error *err)
{
    cdz_plan *plan = NULL;
    CDZ_TRY(cdz_pipeline_plan(pipeline, model_generation, NULL, NULL, &plan, err));
    cdz_arena *arena = &plan->arena;
    cdz_buf_printf(out, "%s\n", pipeline->name);
    write_settings(arena, pipeline, said, out);
    write_strategy(arena, plan, out);
    write_models(arena, plan, out);
    if (plan->drafter.plugin.base)
        write_instances(arena, plan, "Drafter", &plan->drafter, 1, false, out);
    if (plan->n_phases)
        write_phases(arena, plan, out);
    else
        write_instances(arena, plan, "Processors, in order", plan->processors, plan->n_processors,
                        true, out);
    write_instances(arena, plan, "Stopping criteria", plan->criteria, plan->n_criteria, false, out);
    if (plan->n_observers)
        write_instances(arena, plan, "Observers", plan->observers, plan->n_observers, false, out);
    if (plan->n_prompt_presses)
        write_instances(arena, plan, "Presses of the prompt, in order", plan->presses,
                        plan->n_prompt_presses, false, out);
    if (plan->n_presses > plan->n_prompt_presses)
        write_instances(arena, plan, "Presses while decoding, in order",
                        plan->presses + plan->n_prompt_presses,
                        plan->n_presses - plan->n_prompt_presses, false, out);
    write_parameters(arena, plan, out);
    write_warnings(arena, plan, out);
    cdz_plan_free(plan);
    if (out->failed) return cdz_err(err, CDZ_E_NOMEM, "explain: out of memory");
    return CDZ_OK;
}
