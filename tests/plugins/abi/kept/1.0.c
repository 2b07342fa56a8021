/* kept.c - plugins of every kind that use the whole of ABI 1.0, kept as a binary (plugin-1.0-x86_64.so) for ever.
 *
 * Each says what it saw: processors in the scores, the others in the log and in results. tests/plugins/abi/kept.sh runs the kept
 * binary and today's build of this file side by side: both must say the same. Nothing here may change; what ABI 1.1 adds
 * gets a file and a binary of its own. */
#include <cadenza/drafter.h>
#include <cadenza/ext/companion.h>
#include <cadenza/ext/form.h>
#include <cadenza/ext/state.h>
#include <cadenza/ext/tokenizer.h>
#include <cadenza/ext/vec.h>
#include <cadenza/loader.h>
#include <cadenza/observer.h>
#include <cadenza/processor.h>
#include <cadenza/scheduler.h>
#include <cadenza/strategy.h>

#include <string.h>

/* --- every type of parameter ------------------------------------------------------------------------------------ */

typedef struct all {
    bool flag;
    int64_t whole;
    double real;
    const char *text;
    cdz_opt_bool opt_flag;
    cdz_opt_int opt_whole;
    cdz_opt_real opt_real;
    cdz_word word, flag_or_word;
    cdz_int_list wholes;
    cdz_real_list reals;
    cdz_string_list texts;
    cdz_int_lists lists;
    cdz_weighted_list weighted;
    cdz_int_real pair;
    cdz_word_or_ints word_or_ints;
    cdz_int_choices choices;
} all;

static const cdz_param all_params[] = {
    CDZ_BOOL(all, flag, true, "a flag"),
    CDZ_INT(all, whole, 3, -10, 10, "a whole number"),
    CDZ_REAL(all, real, 0.5, 0, 1, "a number"),
    CDZ_STRING(all, text, "word", "a text"),
    CDZ_OPT_BOOL(all, opt_flag, 0, "a flag or nothing"),
    CDZ_OPT_INT(all, opt_whole, 0, 0, 100, "a whole number or nothing"),
    CDZ_OPT_REAL(all, opt_real, CDZ_ABOVE_MIN, 0, 100, "a number or nothing"),
    CDZ_WORD(all, word, "low|middle|high", 1, "one of three"),
    CDZ_BOOL_OR_WORD(all, flag_or_word, 0, "never|always", "a flag or one of two"),
    CDZ_INTS(all, wholes, 0, 0, 1e9, "whole numbers"),
    CDZ_REALS(all, reals, 0, -1e9, 1e9, "numbers"),
    CDZ_STRINGS(all, texts, 0, "texts"),
    CDZ_INT_LISTS(all, lists, 0, 0, 1e9, "lists of whole numbers"),
    CDZ_WEIGHTED(all, weighted, 0, "sequences with a weight"),
    CDZ_INT_REAL(all, pair, 0, "a whole number and a number"),
    CDZ_WORD_OR_INTS(all, word_or_ints, 0, "every|none", 0, 1e9, "a word or whole numbers"),
    CDZ_INT_CHOICES(all, choices, 0, 0, 1e9, "whole numbers or a choice of lists"),
};

static cdz_status all_begin(const cdz_step *step, void **shared)
{
    const all *p = step->params;
    double sums[6] = {0};
    for (uint32_t i = 0; i < p->wholes.len; i++) sums[0] += (double)p->wholes.at[i];
    for (uint32_t i = 0; i < p->reals.len; i++) sums[1] += p->reals.at[i];
    for (uint32_t i = 0; i < p->texts.len; i++) sums[2] += p->texts.at[i].len;
    for (uint32_t i = 0; i < p->lists.len; i++) sums[3] += p->lists.at[i].len;
    for (uint32_t i = 0; i < p->weighted.len; i++)
        sums[4] += p->weighted.at[i].weight * p->weighted.at[i].ids.len;
    for (uint32_t i = 0; i < p->choices.len; i++) sums[5] += p->choices.at[i].len;
    *shared = NULL;
    cdz_log(step, CDZ_LOG_INFO, "scalars %d %lld %g %s %d/%d %lld/%d %g/%d", p->flag,
            (long long)p->whole, p->real, p->text, p->opt_flag.value, p->opt_flag.set,
            (long long)p->opt_whole.value, p->opt_whole.set, p->opt_real.value, p->opt_real.set);
    cdz_log(step, CDZ_LOG_INFO, "words %d %d/%d %d", p->word.value, p->flag_or_word.value,
            p->flag_or_word.set, p->word_or_ints.word.value);
    cdz_log(step, CDZ_LOG_INFO, "lists %g %g %g %g %g %g pair %lld %g", sums[0], sums[1], sums[2],
            sums[3], sums[4], sums[5], (long long)p->pair.first, p->pair.second);
    return CDZ_OK;
}

static cdz_status all_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

static const cdz_processor parameters = {
    .base = {CDZ_PROCESSOR_BASE, .id = "kept.parameters", .version = "1.0.0",
             .summary = "Logs a parameter of every type", CDZ_PARAMS(all, all_params)},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX,
    .begin = all_begin,
    .apply = all_apply,
};

/* --- a processor with plain state, the bulk operations, noise, facts ---------------------------------------------- */

typedef struct counts {
    uint32_t tokens, last;
} counts;

typedef struct facts {
    double temperature;
    uint32_t n_tokens;
} facts;

static cdz_status counting_begin(const cdz_step *step, void **shared)
{
    facts *f = cdz_alloc(step, sizeof *f);
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    cdz_opt_real temperature = {0};
    cdz_ids ids = {0};
    cdz_string text = {0};
    if (!f || !tokenizer) return cdz_fail(step, CDZ_E_NOMEM, "kept: no memory or no tokenizer");
    if (step->host->config(step, "temperature", CDZ_T_OPT_REAL, &temperature) == CDZ_OK)
        f->temperature = temperature.value;
    f->n_tokens = tokenizer->n_tokens(step);
    CDZ_TRY(tokenizer->encode(step, "music is", 8, false, &ids));
    CDZ_TRY(tokenizer->decode(step, ids, true, &text));
    const cdz_request_info *r = step->request;
    cdz_log(step, CDZ_LOG_INFO, "request %u prompts %u rows %u long, %u to %u of %u, vocabulary %u",
            r->n_prompts, r->n_rows, r->prompt_len, r->min_length, r->max_length, r->context,
            r->n_vocab);
    cdz_log(step, CDZ_LOG_INFO, "beams %u sample %d seed %llu eos %u pad %d bos %d first %d",
            r->num_beams, r->do_sample, (unsigned long long)r->seed, r->eos.len, r->pad, r->bos,
            r->prompts[0].len ? r->prompts[0].at[0] : -1);
    cdz_log(step, CDZ_LOG_INFO, "temperature %g tokenizer %d, %u tokens, %u ids of \"%.*s\"",
            f->temperature, tokenizer->present(step), f->n_tokens, ids.len, (int)text.len, text.at);
    *shared = f;
    return step->host->now_s(step) > 0 ? CDZ_OK : cdz_fail(step, CDZ_E_PLUGIN, "kept: no clock");
}

/* One row through the bulk operations; what they leave is a function of all of them. */
static cdz_status churn(const cdz_step *step, const cdz_vec *vec, float *row, uint32_t n,
                        cdz_ids ids)
{
    float *copy = cdz_scratch(step, 2 * (size_t)n * sizeof *copy), *other = copy + n;
    void *room = cdz_scratch(step, cdz_vec_scratch(n));
    int32_t top[4];
    float values[4];
    if (!copy || !room) return cdz_fail(step, CDZ_E_NOMEM, "kept: no scratch memory");
    vec->clamp(row, n, -10000.0f, 10000.0f);
    vec->softmax(copy, row, n);
    const float entropy = vec->entropy(row, n), sum = vec->sum(copy, n), least = vec->min(row, n);
    vec->log_softmax(other, row, n);
    vec->clamp(other, n, -20.0f, 0.0f);
    vec->axpy(row, other, n, 0.25f);
    vec->lerp(row, copy, n, 0.125f * sum);
    vec->topk(row, n, n < 4 ? n : 4, values, top, room);
    vec->cumsum(other, copy, n);
    vec->mul(other, n, 0.5f);
    vec->max_v(copy, other, n);
    vec->sub_v(row, copy, n);
    vec->add(row, n, entropy > 1.0f ? 0.5f : 0.25f);
    vec->penalize(row, n, ids.at, ids.len, 1.1f, room);
    vec->ban_ngrams(row, n, ids.at, ids.len, 4);
    vec->keep_topk(row, n, 40, room);
    vec->keep_minp(row, n, 0.001, 1, room);
    const bool odd = vec->any_nan(row, n);
    const size_t above = vec->count_above(row, n, least);
    if (!odd && above && vec->kth_largest(row, n, 1, room) != vec->max(row, n))
        return cdz_fail(step, CDZ_E_PLUGIN, "kept: the best is not the best");
    row[vec->argmax(row, n)] += values[0] > 0 ? 0.125f : 0.25f;
    return CDZ_OK;
}

static cdz_status counting_apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_vec *vec = cdz_get_vec(step);
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const counts *state = step->row_state[r];
        const cdz_ids ids = step->input_ids[r];
        float *row = cdz_row(scores, r);
        uint32_t words[4];
        CDZ_TRY(churn(step, vec, row, scores->n_vocab, ids));
        step->host->noise(step, step->row_index[r], ids.len, words);
        row[words[0] % scores->n_vocab] += (float)(words[1] % 4);
        if (state->tokens % 3 == 2) row[state->last] -= 2.0f;
    }
    return CDZ_OK;
}

static cdz_status counting_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    counts *state = step->row_state[r];
    state->tokens++;
    state->last = (uint32_t)token;
    return CDZ_OK;
}

static const cdz_processor counting = {
    .base = {CDZ_PROCESSOR_BASE, .id = "kept.counting", .version = "1.0.0",
             .summary = "Plain state, bulk operations, noise"},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .state_size = sizeof(counts),
    .state_version = 1,
    .begin = counting_begin,
    .apply = counting_apply,
    .accept = counting_accept,
};

/* --- row state that owns something: a slot of the request's pool ---------------------------------------------------- */

enum { SLOTS = 4096 };

typedef struct pool {
    uint32_t sum[SLOTS]; /* of the tokens of the row that has the slot */
    bool used[SLOTS];
} pool;

typedef struct owned {
    uint32_t slot; /* from 1; 0: none yet */
} owned;

static cdz_status take_slot(const cdz_step *step, owned *state, uint32_t sum)
{
    pool *all_slots = step->shared;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (!all_slots->used[i]) {
            all_slots->used[i] = true;
            all_slots->sum[i] = sum;
            state->slot = i + 1;
            return CDZ_OK;
        }
    return cdz_fail(step, CDZ_E_LIMIT, "kept: no slot is left");
}

static cdz_status owned_clone(const cdz_step *step, const void *from, void *to)
{
    const owned *old = from;
    const pool *all_slots = step->shared;
    return old->slot ? take_slot(step, to, all_slots->sum[old->slot - 1]) : CDZ_OK;
}

static void owned_free(const cdz_step *step, void *state)
{
    owned *mine = state;
    if (mine->slot) ((pool *)step->shared)->used[mine->slot - 1] = false;
    mine->slot = 0;
}

static const cdz_state_api owned_api = {
    .size = sizeof owned_api, .clone = owned_clone, .free = owned_free};

static const void *owned_extension(const char *id)
{
    return strcmp(id, CDZ_EXT_STATE) == 0 ? &owned_api : NULL;
}

static cdz_status owned_begin(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(pool));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "kept: no memory for slots");
}

static cdz_status owned_apply(const cdz_step *step, cdz_scores *scores)
{
    const pool *all_slots = step->shared;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const owned *state = step->row_state[r];
        if (state->slot)
            cdz_row(scores, r)[all_slots->sum[state->slot - 1] % scores->n_vocab] += 0.5f;
    }
    return CDZ_OK;
}

static cdz_status owned_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    owned *state = step->row_state[r];
    pool *all_slots = step->shared;
    if (!state->slot) CDZ_TRY(take_slot(step, state, 0));
    all_slots->sum[state->slot - 1] += (uint32_t)token;
    return CDZ_OK;
}

static const cdz_processor owning = {
    .base = {CDZ_PROCESSOR_BASE, .id = "kept.owning", .version = "1.0.0",
             .summary = "Row state that is more than bytes", .extension = owned_extension},
    .caps = CDZ_ROWWISE,
    .state_size = sizeof(owned),
    .begin = owned_begin,
    .apply = owned_apply,
    .accept = owned_accept,
};

/* --- a form that the planner knows, and a companion ---------------------------------------------------------------- */

static bool cooling_form(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_DIVIDE;
    out->amount = 0.75;
    return true;
}

static const cdz_form_api form_api = {.size = sizeof form_api, .describe = cooling_form};

static const void *cooling_extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form_api : NULL;
}

static cdz_status cooling_apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_vec *vec = cdz_get_vec(step);
    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->div(cdz_row(scores, r), scores->n_vocab, 0.75f);
    return CDZ_OK;
}

static const cdz_processor cooling = {
    .base = {CDZ_PROCESSOR_BASE, .id = "kept.cooling", .version = "1.0.0",
             .summary = "A temperature that can be fused", .extension = cooling_extension},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX,
    .apply = cooling_apply,
};

static cdz_status beside(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    (void)row;
    out->from = step->request->prompt_len - 1;
    return CDZ_OK;
}

static const cdz_companion_api companion_api = {.size = sizeof companion_api, .describe = beside};

static const void *guiding_extension(const char *id)
{
    return cdz_is_companion(id) ? &companion_api : NULL;
}

static cdz_status guiding_apply(const cdz_step *step, cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const float *other = cdz_companion_logits(step, r);
        if (!other) return cdz_fail(step, CDZ_E_PLUGIN, "kept: row %u has no companion", r);
        cdz_companion_guide(cdz_row(scores, r), other, scores->n_vocab, 1.25f);
    }
    return CDZ_OK;
}

static const cdz_processor guiding = {
    .base = {CDZ_PROCESSOR_BASE, .id = "kept.guiding", .version = "1.0.0",
             .summary = "Asks the model beside each row", .extension = guiding_extension},
    .caps = CDZ_ROWWISE,
    .apply = guiding_apply,
};

/* --- a stopping criterion ------------------------------------------------------------------------------------------ */

typedef struct enough {
    int64_t tokens;
} enough;

static const cdz_param enough_params[] = {
    CDZ_INT(enough, tokens, 12, 1, 4096, "tokens that are enough"),
};

static cdz_status enough_test(const cdz_step *step, cdz_stop *stops)
{
    const enough *p = step->params;
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (step->input_ids[r].len >= step->request->prompt_len + (uint64_t)p->tokens)
            stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"kept: enough", 12}};
    return CDZ_OK;
}

static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "kept.enough", .version = "1.0.0",
             .summary = "Stops after so many tokens", CDZ_PARAMS(enough, enough_params)},
    .test = enough_test,
};

/* --- a drafter: what followed the last token the last time, by a sequence of its own once ----------------------------- */

static cdz_status draft_begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    cdz_log(step, CDZ_LOG_INFO, "drafting for %u rows of vocabulary %u", cdz_n_rows(dec),
            cdz_vocab_size(dec, "target"));
    *shared = NULL;
    return CDZ_OK;
}

static cdz_status draft_propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const cdz_ids past = draft->history;
    (void)dec, (void)step;
    for (uint32_t i = past.len - 1; i-- > 0;)
        if (past.at[i] == past.at[past.len - 1]) {
            const uint32_t n = past.len - 1 - i;
            draft->tokens = (cdz_ids){past.at + i + 1, n < draft->room ? n : draft->room};
            break;
        }
    return CDZ_OK;
}

static cdz_status draft_judged(cdz_decoder *dec, const cdz_step *step, uint32_t row,
                               uint32_t n_proposed, uint32_t n_accepted)
{
    (void)dec;
    cdz_log(step, CDZ_LOG_INFO, "row %u: %u of %u", row, n_accepted, n_proposed);
    return CDZ_OK;
}

static const cdz_drafter drafter = {
    .base = {CDZ_DRAFTER_BASE, .id = "kept.again", .version = "1.0.0",
             .summary = "What came after this token the last time"},
    .begin = draft_begin,
    .propose = draft_propose,
    .judged = draft_judged,
};

/* --- an observer ----------------------------------------------------------------------------------------------------- */

typedef struct heard {
    uint32_t stages, scores, tokens, stops, rewinds, reorders, last;
} heard;

static cdz_status watch_begin(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(heard));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "kept: no memory for counts");
}

static cdz_status watch_stage(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    heard *h = step->shared;
    h->stages += by->id != NULL && seen->before[0] != NULL;
    return CDZ_OK;
}

static cdz_status watch_scores(const cdz_step *step, const cdz_seen *seen)
{
    heard *h = step->shared;
    h->scores += seen->n_vocab > 0 && seen->after[0] != NULL;
    return CDZ_OK;
}

static cdz_status watch_token(const cdz_step *step, int32_t token)
{
    heard *h = step->shared;
    h->tokens++;
    h->last = (uint32_t)token;
    return CDZ_OK;
}

static cdz_status watch_stop(const cdz_step *step, const cdz_stop *stop)
{
    heard *h = step->shared;
    h->stops += stop->reason;
    return CDZ_OK;
}

static cdz_status watch_rewind(const cdz_step *step, uint32_t n)
{
    heard *h = step->shared;
    h->rewinds += n;
    return CDZ_OK;
}

static cdz_status watch_reorder(const cdz_step *step, const uint32_t *parents)
{
    heard *h = step->shared;
    h->reorders += 1 + parents[0];
    return CDZ_OK;
}

static void watch_end(const cdz_step *step)
{
    const heard *h = step->shared;
    cdz_log(step, CDZ_LOG_INFO, "heard %u stages %u scores %u tokens %u stops %u back %u reorders",
            h->stages, h->scores, h->tokens, h->stops, h->rewinds, h->reorders);
}

static const cdz_observer observer = {
    .base = {CDZ_OBSERVER_BASE, .id = "kept.watch", .version = "1.0.0",
             .summary = "Counts what it hears"},
    .begin = watch_begin,
    .stage = watch_stage,
    .scores = watch_scores,
    .token = watch_token,
    .stop = watch_stop,
    .rewind = watch_rewind,
    .reorder = watch_reorder,
    .end = watch_end,
};

/* --- a strategy that uses the verbs ------------------------------------------------------------------------------------ */

/* A look ahead: two sequences, forked, grown, cut, run and scored; they leave no trace but a number. */
static cdz_status look_ahead(cdz_decoder *dec, const int32_t *best, double *out)
{
    cdz_seq *pair[2] = {0};
    const uint32_t rows[2] = {0, 0};
    cdz_scores scores;
    for (int i = 0; i < 2; i++) {
        CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &pair[i]));
        CDZ_TRY(cdz_seq_append(dec, pair[i], &best[i], 1));
    }
    CDZ_TRY(cdz_seq_forward(dec, pair, 2, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(cdz_seq_process(dec, pair, rows, 2, &scores));
    CDZ_TRY(cdz_log_softmax(dec, &scores));
    CDZ_TRY(cdz_map(dec, &scores));
    for (int i = 0; i < 2; i++) {
        cdz_pick pick;
        CDZ_TRY(cdz_argmax(dec, &scores, (uint32_t)i, &pick));
        *out += (double)pick.score / (1.0 + cdz_seq_length(dec, pair[i]));
        CDZ_TRY(cdz_seq_truncate(dec, pair[i], 1));
        *out += cdz_seq_ids(dec, pair[i]).len;
        cdz_seq_free(dec, pair[i]);
    }
    return CDZ_OK;
}

/* Draws one of the four best tokens of row 0. */
static cdz_status choose(cdz_decoder *dec, cdz_scores *scores, int32_t *token, double *sum)
{
    const float none = 0;
    cdz_candidate best[4], drawn;
    int32_t two[2];
    float u;
    cdz_scores probs;
    CDZ_TRY(cdz_topk_flat(dec, scores, 0, 1, &none, 4, best));
    CDZ_TRY(cdz_scratch_scores(dec, 1, &probs));
    CDZ_TRY(cdz_softmax_flat(dec, scores, 0, 1, &none, &probs));
    CDZ_TRY(cdz_multinomial_flat(dec, &probs, 0, 1, 1, &drawn));
    CDZ_TRY(cdz_uniform(dec, 1, &u));
    two[0] = best[0].token, two[1] = best[1].token;
    CDZ_TRY(look_ahead(dec, two, sum));
    *token = u < 0.5f ? best[(uint32_t)(u * 8.0f)].token : drawn.token;
    *sum += (double)best[0].score + drawn.score;
    return CDZ_OK;
}

static cdz_status would_stop(cdz_decoder *dec, int32_t token, bool *stops)
{
    const cdz_ids suffix = {&token, 1};
    const uint32_t row = 0;
    cdz_stop stop = {0};
    CDZ_TRY(cdz_stop_test(dec, &suffix, &row, 1, &stop));
    *stops = stop.reason != CDZ_GO_ON;
    return CDZ_OK;
}

static cdz_status search(cdz_decoder *dec, const cdz_step *step)
{
    double sum = 0;
    uint32_t steps = 0;
    int64_t asked = 0;
    cdz_model_facts target = {.size = sizeof target};
    if (!cdz_facts(dec, NULL, &target)) return cdz_fail(step, CDZ_E_PLUGIN, "kept: no model");
    while (!cdz_done(dec)) {
        cdz_scores scores;
        int32_t token;
        bool stops;
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_LOGITS, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_SCORES, &scores));
        CDZ_TRY(choose(dec, &scores, &token, &sum));
        CDZ_TRY(would_stop(dec, token, &stops));
        asked += stops;
        if (!cdz_row_done(dec, 0)) CDZ_TRY(cdz_append(dec, 0, token));
        if (++steps % 5 == 0 && !cdz_done(dec) && cdz_rewindable(dec, 0) > 2)
            CDZ_TRY(cdz_rewind(dec, 0, 2));
        if (steps > 40) CDZ_TRY(cdz_finish(dec, 0, CDZ_STOP_CUSTOM, "kept: long enough"));
    }
    const int64_t facts_of[5] = {steps, asked, target.n_vocab, target.n_layers, target.width};
    const uint64_t five = 5, one = 1;
    const float total = (float)sum;
    CDZ_TRY(cdz_put_result(dec, "kept_facts", CDZ_RESULT_I64, 1, &five, facts_of));
    return cdz_put_result(dec, "kept_sum", CDZ_RESULT_F32, 1, &one, &total);
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "kept.search", .version = "1.0.0",
             .summary = "Uses the verbs of a search"},
    .caps = CDZ_ONE_ROW | CDZ_REWINDS | CDZ_SAMPLES,
    .run = search,
};

/* The plain loop, over all rows in step. */
static cdz_status plain(cdz_decoder *dec, const cdz_step *step)
{
    int32_t *tokens = cdz_alloc(step, cdz_n_rows(dec) * sizeof *tokens);
    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "kept: no memory for tokens");
    while (!cdz_done(dec)) {
        cdz_scores scores;
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_draw_rows(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}

static const cdz_strategy sampling = {
    .base = {CDZ_STRATEGY_BASE, .id = "kept.sample", .version = "1.0.0",
             .summary = "Draws for all rows in step"},
    .caps = CDZ_SAMPLES,
    .run = plain,
};

/* --- the other verbs: hidden states, derived pipelines, drafts, sequences of its own, an answer of two rows -------------- */

/* The head on the newest hidden state gives the scores of forward again; so much do they differ. */
static cdz_status head_again(cdz_decoder *dec, const cdz_scores *scores, double *sum)
{
    cdz_hidden hidden;
    cdz_scores again;
    CDZ_TRY(cdz_hidden_states(dec, &hidden));
    CDZ_TRY(cdz_head(dec, cdz_hidden_row(&hidden, 1, 0), 1, &again));
    *sum += (double)cdz_row(&again, 0)[0] - cdz_row(scores, 0)[0];
    *sum += (double)cdz_hidden_row(&hidden, 0, 0)[hidden.width - 1];
    return CDZ_OK;
}

/* The user's processors without one of them, on a history that was made up. */
static cdz_status without_counting(cdz_decoder *dec, const cdz_scores *scores, double *sum)
{
    const char *const exclude[] = {"kept.counting"}, *const append[] = {"kept.cooling"};
    const cdz_ids ids = cdz_input_ids(dec, 0);
    const uint32_t row = 0;
    uint32_t pipeline;
    cdz_scores copy;
    int32_t token;
    CDZ_TRY(cdz_scratch_scores(dec, 1, &copy));
    memcpy(copy.data, scores->data, scores->n_vocab * sizeof(float));
    CDZ_TRY(cdz_pipeline_derive(dec, exclude, 1, append, 1, &pipeline));
    CDZ_TRY(cdz_process_ids(dec, pipeline, &ids, &row, 1, &copy));
    CDZ_TRY(cdz_softmax(dec, &copy));
    CDZ_TRY(cdz_multinomial(dec, &copy, &token));
    *sum += (double)cdz_row(&copy, 0)[token];
    return CDZ_OK;
}

/* A sequence that was not forked from a row, once through all layers and once through the first. */
static cdz_status from_nothing(cdz_decoder *dec, double *sum)
{
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_seq *seq[2];
    CDZ_TRY(cdz_seq_new(dec, "target", &seq[0]));
    CDZ_TRY(cdz_seq_new_exit(dec, NULL, 1, &seq[1]));
    for (int i = 0; i < 2; i++) {
        cdz_scores scores;
        int32_t tokens[64];
        CDZ_TRY(cdz_seq_append(dec, seq[i], ids.at, ids.len));
        CDZ_TRY(cdz_seq_forward(dec, &seq[i], 1, CDZ_POSITIONS_ALL, &scores));
        if (scores.n_rows > 64) scores.n_rows = 64;
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        for (uint32_t r = 0; r < scores.n_rows; r++) *sum += tokens[r];
        cdz_seq_free(dec, seq[i]);
    }
    return CDZ_OK;
}

static cdz_status chunk(cdz_decoder *dec, const cdz_scores *scores, int64_t *drafted)
{
    cdz_draft draft = {.size = sizeof draft};
    cdz_pick best;
    uint32_t taken = 0;
    CDZ_TRY(cdz_argmax(dec, scores, 0, &best));
    if (cdz_has_drafter(dec)) {
        CDZ_TRY(cdz_propose(dec, 0, &draft));
        *drafted += draft.tokens.len;
        CDZ_TRY(cdz_judged(dec, 0, draft.tokens.len && draft.tokens.at[0] == best.token ? 1 : 0));
    }
    return cdz_append_chunk(dec, 0, &best.token, 1, scores, scores, &taken);
}

static cdz_status verbs(cdz_decoder *dec, const cdz_step *step)
{
    uint32_t last[2] = {0, 0};
    cdz_model_facts facts_of = {.size = sizeof facts_of};
    double sum = cdz_deadline_s(dec) > 0 ? 1.0 : 0.0;
    int64_t drafted = 0;
    bool first = true;
    if (!cdz_facts(dec, NULL, &facts_of)) return cdz_fail(step, CDZ_E_PLUGIN, "kept: no model");
    last[1] = facts_of.n_layers;
    while (!cdz_done(dec) && !cdz_cancelled(dec)) {
        cdz_scores scores;
        CDZ_TRY(cdz_keep_hidden(dec, CDZ_POSITIONS_LAST, last, first ? 2 : 0));
        CDZ_TRY(cdz_forward(dec, &scores));
        if (first) {
            CDZ_TRY(head_again(dec, &scores, &sum));
            CDZ_TRY(without_counting(dec, &scores, &sum));
            CDZ_TRY(from_nothing(dec, &sum));
        }
        first = false;
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_ban(dec, &scores, 0, 7));
        CDZ_TRY(chunk(dec, &scores, &drafted));
    }
    const uint64_t one = 1;
    CDZ_TRY(cdz_put_result(dec, "kept_verbs", CDZ_RESULT_F32, 1, &one, &(float){(float)sum}));
    return cdz_put_result(dec, "kept_drafted", CDZ_RESULT_I64, 1, &one, &drafted);
}

static const cdz_strategy other_verbs = {
    .base = {CDZ_STRATEGY_BASE, .id = "kept.verbs", .version = "1.0.0",
             .summary = "Uses the verbs that the search does not"},
    .caps = CDZ_ONE_ROW | CDZ_GREEDY,
    .run = verbs,
};

/* A search over the rows of each prompt: they take the best continuations of the first. */
typedef struct rows {
    uint32_t n, per_prompt, steps;
    uint32_t *parents;     /* (n) */
    int32_t *tokens;       /* (n) */
    cdz_token_score *said; /* (n, steps) of the row's tokens */
    cdz_returned *answer;  /* (n) */
} rows;

static cdz_status make_rows(cdz_decoder *dec, const cdz_step *step, rows *s)
{
    const cdz_request_info *r = step->request;
    const uint32_t room = r->max_length - r->prompt_len;
    s->n = cdz_n_rows(dec);
    s->per_prompt = s->n / r->n_prompts;
    s->steps = room < 6 ? room : 6;
    s->parents = cdz_alloc(step, s->n * sizeof *s->parents);
    s->tokens = cdz_alloc(step, s->n * sizeof *s->tokens);
    s->said = cdz_alloc(step, (size_t)s->steps * s->n * sizeof *s->said);
    s->answer = cdz_alloc(step, s->n * sizeof *s->answer);
    return s->parents && s->tokens && s->said && s->answer
               ? CDZ_OK
               : cdz_fail(step, CDZ_E_NOMEM, "kept: no memory for rows");
}

/* Where each row goes on from, and with what; what is said of it follows the row. */
static cdz_status spread(cdz_decoder *dec, rows *s, const cdz_scores *scores, uint32_t i)
{
    const float none = 0;
    for (uint32_t r = 0; r < s->n; r++) {
        const uint32_t first = r - r % s->per_prompt, rank = r % s->per_prompt % 4;
        cdz_candidate best[4];
        CDZ_TRY(cdz_topk_flat(dec, scores, first, 1, &none, 4, best));
        s->parents[r] = first;
        s->tokens[r] = best[rank].token;
        cdz_token_score *said = s->said + (size_t)r * s->steps;
        if (r != first) memcpy(said, s->said + (size_t)first * s->steps, i * sizeof *said);
    }
    for (uint32_t r = 0; r < s->n; r++)
        CDZ_TRY(cdz_token_scores(dec, scores, &s->parents[r], &s->tokens[r], 1,
                                 s->said + (size_t)r * s->steps + i));
    return CDZ_OK;
}

static cdz_status hand_back(cdz_decoder *dec, const cdz_step *step, rows *s)
{
    int64_t wanted = 1;
    uint32_t n = 0;
    if (step->host->config(step, "num_return_sequences", CDZ_T_INT, &wanted) != CDZ_OK)
        return cdz_fail(step, CDZ_E_PLUGIN, "kept: num_return_sequences is not known");
    for (uint32_t r = 0; r < s->n; r++) {
        const cdz_ids ids = cdz_input_ids(dec, r);
        if (r % s->per_prompt >= (uint64_t)wanted) continue;
        s->answer[n++] = (cdz_returned){.row = r,
                                        .ids = {ids.at + ids.len - s->steps, s->steps},
                                        .n_new = s->steps,
                                        .stop = {CDZ_STOP_LENGTH, {"six", 3}},
                                        .scores = s->said + (size_t)r * s->steps};
    }
    return cdz_return_rows(dec, s->answer, n);
}

static cdz_status spreading(cdz_decoder *dec, const cdz_step *step)
{
    rows s;
    CDZ_TRY(make_rows(dec, step, &s));
    for (uint32_t i = 0; i < s.steps; i++) {
        cdz_scores scores;
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(spread(dec, &s, &scores, i));
        if (i == 2) CDZ_TRY(cdz_reorder(dec, s.parents));
        CDZ_TRY(cdz_extend_rows(dec, s.parents, s.tokens));
    }
    return hand_back(dec, step, &s);
}

static const cdz_strategy pair = {
    .base = {CDZ_STRATEGY_BASE, .id = "kept.pair", .version = "1.0.0",
             .summary = "A search that hands rows back"},
    .caps = CDZ_BEAMS,
    .run = spreading,
};

/* --- a loader: files of "TOKEN AMOUNT" lines, each file a processor that adds to scores ------------------------------------ */

typedef struct additions {
    uint32_t n;
    uint32_t *tokens; /* (n) */
    float *amounts;   /* (n) */
    cdz_processor processor;
    const cdz_plugin_base *list[1];
} additions;

static cdz_status add_all(const cdz_step *step, cdz_scores *scores)
{
    const additions *a = step->plugin->loader_data;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (uint32_t i = 0; i < a->n; i++)
            if (a->tokens[i] < scores->n_vocab) cdz_row(scores, r)[a->tokens[i]] += a->amounts[i];
    return CDZ_OK;
}

/* A number of at most six digits at *at, which moves behind it and one more byte. */
static bool number(const char **at, const char *end, uint32_t *out)
{
    const char *start = *at;
    for (*out = 0; *at < end && **at >= '0' && **at <= '9' && *at - start < 6; ++*at)
        *out = *out * 10 + (uint32_t)(**at - '0');
    const bool some = *at > start && *at < end && (**at == ' ' || **at == '\n');
    if (some) ++*at;
    return some;
}

static uint32_t lines_of(const cdz_plugin_file *file)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < file->len; i++) n += file->bytes[i] == '\n';
    return n;
}

static cdz_status open_lines(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    additions *a = cdz_alloc(step, sizeof *a);
    const uint32_t n = lines_of(file);
    if (!a || !(a->tokens = cdz_alloc(step, (n + 1) * sizeof *a->tokens)) ||
        !(a->amounts = cdz_alloc(step, (n + 1) * sizeof *a->amounts)))
        return cdz_fail(step, CDZ_E_NOMEM, "%s: no memory for its lines", file->path);
    const char *at = file->bytes, *end = at + file->len;
    for (uint32_t token, amount; at < end; a->n++) {
        if (!number(&at, end, &token) || !number(&at, end, &amount) || at[-1] != '\n')
            return cdz_fail(step, CDZ_E_INPUT, "%s:%u: expected a token and an amount", file->name,
                            a->n + 1);
        a->tokens[a->n] = token;
        a->amounts[a->n] = (float)amount;
    }
    a->processor = (cdz_processor){
        .base = {CDZ_PROCESSOR_BASE, .id = "kept.lines-of-a-file", .version = "1.0.0",
                 .summary = "Adds to the scores of some tokens", .loader_data = a},
        .caps = CDZ_ROWWISE,
        .apply = add_all,
    };
    a->list[0] = &a->processor.base;
    out->plugins = a->list;
    out->n_plugins = 1;
    out->state = a;
    return CDZ_OK;
}

static void close_lines(const cdz_step *step, void *state)
{
    (void)step;
    ((additions *)state)->n = 0;
}

static const cdz_loader loader = {
    .base = {CDZ_LOADER_BASE, .id = "kept.lines", .version = "1.0.0",
             .summary = "Makes processors of .kept files"},
    .max_bytes = 1 << 20,
    .endings = "kept",
    .open = open_lines,
    .close = close_lines,
};

/* --- a scheduler: the tenant with least running, then long prompts first ------------------------------------ */

typedef struct tally {
    uint64_t n_ended, n_orders;
} tally;

static cdz_status begin_tally(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(tally));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "no memory for its counts");
}

static uint64_t weight(const cdz_contest *contest, const cdz_contender *request)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < contest->n_running; i++)
        n += contest->running[i]->tenant == request->tenant;
    return request->age_passes > 300 ? 0
                                     : (n << 32) + (1u << 20) - request->prompt_tokens % (1u << 20);
}

static cdz_status admit_lightest(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    uint32_t best = 0;
    (void)step;
    for (uint32_t i = 1; i < contest->n_waiting; i++)
        if (weight(contest, contest->waiting[i]) < weight(contest, contest->waiting[best]))
            best = i;
    turns->list[turns->n++] = best;
    return CDZ_OK;
}

static cdz_status order_backwards(const cdz_step *step, const cdz_contest *contest,
                                  cdz_lineup *turns)
{
    tally *c = step->shared;
    c->n_orders++;
    while (turns->n < turns->cap) {
        turns->list[turns->n] = contest->n_running - 1 - turns->n;
        turns->n++;
    }
    turns->first = contest->n_running < 4 ? CDZ_PROMPTS_FIRST : CDZ_DECODING_FIRST;
    turns->prompt_rows = contest->pass_rows / 4;
    return CDZ_OK;
}

static void count_ended(const cdz_step *step, const cdz_contender *request)
{
    tally *c = step->shared;
    c->n_ended += request->new_tokens > 0;
}

static void end_tally(const cdz_step *step)
{
    const tally *c = step->shared;
    cdz_log(step, CDZ_LOG_DEBUG, "%u requests", (unsigned)c->n_ended);
}

static const cdz_scheduler scheduler = {
    .base = {CDZ_SCHEDULER_BASE, .id = "kept.turns", .version = "1.0.0",
             .summary = "The tenant with least running"},
    .caps = CDZ_HAS_PRIORITIES,
    .begin = begin_tally,
    .admit = admit_lightest,
    .order = order_backwards,
    .ended = count_ended,
    .end = end_tally,
};

CDZ_EXPORT_PLUGINS_AS(0, "cadenza.vec/1 cadenza.tokenizer/1", &parameters.base, &counting.base,
                      &owning.base, &cooling.base, &guiding.base, &criterion.base, &drafter.base,
                      &observer.base, &strategy.base, &sampling.base, &other_verbs.base, &pair.base,
                      &loader.base, &scheduler.base)
