/* parity_vectors.c - replays a file of recorded calls of single processors and stopping criteria, and of whole chains.
 *
 * Classes without a plugin, and kinds of cases that are not calls of one, count as unsupported. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/parity_trial.h"

/* --- the kinds ---------------------------------------------------------------------------------------------------------- */

bool cdz_parity_same_score(float got, float want, bool exact)
{
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    if (exact || isinf(got) || isinf(want)) return got == want;
    return fabsf(got - want) <= 1e-5f + 1e-5f * fabsf(want);
}

static cdz_status said(const cdz_trial *t, cdz_status status, cdz_error *err)
{
    return status == CDZ_OK ? CDZ_OK : cdz_err(err, status, "refused: %s", t->sentence);
}

static cdz_status compare_scores(const cdz_trial *t, const float *got, const float *want,
                                 uint32_t n, cdz_error *err)
{
    bool exact = cdz_json_eq(cdz_json_get(t->document, "compare"), "exact");
    for (size_t i = 0; i < (size_t)n * t->request.n_vocab; i++) {
        if (cdz_parity_same_score(got[i], want[i], exact)) continue;
        return cdz_err(err, CDZ_E_INPUT, "row %zu, token %zu: expected %.9g, got %.9g",
                       i / t->request.n_vocab, i % t->request.n_vocab, (double)want[i],
                       (double)got[i]);
    }
    return CDZ_OK;
}

static cdz_status replay_processor(cdz_trial *t, cdz_error *err)
{
    float *scores, *want;
    uint32_t n, n_want;
    CDZ_TRY(cdz_trial_matrix(t, t->document, "scores_in", &scores, &n, err));
    CDZ_TRY(cdz_trial_matrix(t, t->document, "scores_out", &want, &n_want, err));
    if (!scores || !want || n != n_want || !cdz_trial_processor(t))
        return cdz_trial_malformed("scores_in and scores_out differ", err);
    CDZ_TRY(cdz_trial_ids(t, t->document, n, err));
    CDZ_TRY(cdz_trial_params(t, err));
    CDZ_TRY(said(t, cdz_trial_create(t), err));
    CDZ_TRY(said(t, cdz_trial_begin(t), err));
    CDZ_TRY(said(t, cdz_trial_apply(t, scores, n), err));
    return compare_scores(t, scores, want, n, err);
}

/* One call of the case's steps; earlier ones left their tokens in the ids. */
static cdz_status replay_step(cdz_trial *t, const cdz_json *step, cdz_error *err)
{
    float *scores, *want;
    uint32_t n, n_want;
    CDZ_TRY(cdz_trial_matrix(t, step, "scores_in", &scores, &n, err));
    CDZ_TRY(cdz_trial_matrix(t, step, "scores_out", &want, &n_want, err));
    if (!scores || !want || n != n_want)
        return cdz_trial_malformed("scores_in and scores_out differ", err);
    CDZ_TRY(cdz_trial_matrix(t, cdz_json_get(step, "model_call"), "uncond_logits", &t->other,
                             &n_want, err));
    if (n != n_want) return cdz_trial_malformed("uncond_logits and scores_in differ", err);
    CDZ_TRY(cdz_trial_ids(t, step, n, err));
    if (!t->begun) {
        t->begun = true;
        t->request.prompt_len = t->ids[0].len;
        CDZ_TRY(said(t, cdz_trial_begin(t), err));
    }
    CDZ_TRY(said(t, cdz_trial_apply(t, scores, n), err));
    return compare_scores(t, scores, want, n, err);
}

static cdz_status replay_stateful(cdz_trial *t, cdz_error *err)
{
    const cdz_json *steps = cdz_json_get(t->document, "steps");
    if (!cdz_json_is(steps, CDZ_JSON_ARRAY) || !cdz_trial_processor(t))
        return cdz_trial_malformed("it has no steps", err);
    CDZ_TRY(cdz_trial_params(t, err));
    CDZ_TRY(said(t, cdz_trial_create(t), err));
    for (uint32_t i = 0; i < steps->len; i++) {
        cdz_error why = {0};
        cdz_status status = replay_step(t, &steps->items[i], &why);
        if (status != CDZ_OK) return cdz_err(err, status, "step %u: %s", i, why.text);
    }
    return CDZ_OK;
}

/* True when the plugin says no somewhere on the way; an idle one is never called, which is as good. */
static bool refuses(cdz_trial *t, cdz_error *err)
{
    float *scores = NULL;
    uint32_t n = 0;
    bool expected =
        cdz_json_get(t->document, "error") && cdz_json_get(t->document, "error")->boolean;
    if (cdz_trial_matrix(t, t->document, "scores_in", &scores, &n, err) != CDZ_OK) return true;
    if (cdz_json_get(t->document, "input_ids") && cdz_trial_ids(t, t->document, n, err) != CDZ_OK)
        return true;
    if (cdz_trial_params(t, err) != CDZ_OK || cdz_trial_create(t) != CDZ_OK) return true;
    if (cdz_trial_idle(t)) return expected;
    if (!expected && !cdz_json_eq(cdz_json_get(t->document, "at"), "call")) return false;
    if (cdz_trial_begin(t) != CDZ_OK) return true;
    return scores && cdz_trial_processor(t) && cdz_trial_apply(t, scores, n) != CDZ_OK;
}

/* The reference takes true for 1, since a Python bool is an int; Cadenza refuses it: not a difference to fail on. */
static bool has_bool(const cdz_json *params)
{
    for (uint32_t i = 0; params && i < params->len; i++)
        if (params->members[i].value.type == CDZ_JSON_BOOL) return true;
    return false;
}

static cdz_status replay_error(cdz_trial *t, cdz_error *err)
{
    cdz_error why = {0};
    const cdz_json *flag = cdz_json_get(t->document, "error");
    bool expected = flag && flag->boolean, refused = refuses(t, &why);
    if (refused == expected || (refused && has_bool(cdz_json_get(t->document, "params"))))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   refused ? "refused, the reference accepts it: %s%s"
                           : "accepted, the reference refuses it%s%s",
                   why.text, t->sentence);
}

/* Tests every row of the case once. stops: (CDZ_PARITY_ROWS) */
static cdz_status call_criterion(cdz_trial *t, cdz_stop *stops, cdz_error *err)
{
    if (!cdz_trial_criterion(t)) return cdz_trial_malformed("no criterion", err);
    CDZ_TRY(cdz_trial_ids(t, t->document, 0, err));
    CDZ_TRY(cdz_trial_params(t, err));
    CDZ_TRY(said(t, cdz_trial_create(t), err));
    CDZ_TRY(said(t, cdz_trial_begin(t), err));
    return said(t, cdz_trial_test(t, stops), err);
}

cdz_status cdz_parity_stops(cdz_registry *registry, const cdz_json *c, bool *stopped, uint32_t *n,
                            cdz_error *err)
{
    cdz_stop stops[CDZ_PARITY_ROWS] = {{0}};
    cdz_trial *t = malloc(sizeof *t);
    if (!t) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    cdz_status status = cdz_trial_open(t, registry, c, err);
    if (status == CDZ_OK) status = call_criterion(t, stops, err);
    *n = status == CDZ_OK ? t->request.n_rows : 0;
    for (uint32_t r = 0; r < *n; r++) stopped[r] = stops[r].reason != CDZ_GO_ON;
    cdz_trial_close(t);
    free(t);
    return status;
}

/* --- a whole chain -------------------------------------------------------------------------------------------------------- */

static cdz_status apply_instance(cdz_trial *t, const cdz_instance *instance, float *scores,
                                 uint32_t n)
{
    t->plugin = instance->plugin;
    t->step.plugin = instance->plugin.base;
    t->step.params = instance->params;
    t->step.shared = NULL;
    if (cdz_trial_idle(t)) return CDZ_OK;
    CDZ_TRY(cdz_trial_begin(t));
    return cdz_trial_apply(t, scores, n);
}

static cdz_status replay_chain(cdz_trial *t, const cdz_plan *plan, cdz_error *err)
{
    const cdz_json *prompts = cdz_json_get(t->document, "prompt_ids");
    cdz_ids *rows;
    float *scores, *want;
    uint32_t n, n_want;
    CDZ_TRY(cdz_trial_matrix(t, t->document, "scores_in", &scores, &n, err));
    CDZ_TRY(cdz_trial_matrix(t, t->document, "scores_out", &want, &n_want, err));
    if (!scores || !want || n != n_want)
        return cdz_trial_malformed("scores_in and scores_out differ", err);
    CDZ_TRY(cdz_trial_ids(t, t->document, n, err));
    CDZ_TRY(cdz_trial_rows(t, prompts, &rows, &t->request.n_prompts, err));
    t->request.prompts = rows;
    for (uint32_t i = 0; i < plan->n_processors; i++)
        CDZ_TRY(said(t, apply_instance(t, &plan->processors[i], scores, n), err));
    return compare_scores(t, scores, want, n, err);
}

cdz_status cdz_parity_chain(const cdz_json *c, const cdz_plan *plan,
                            const cdz_request_info *request, cdz_error *err)
{
    cdz_trial *t = malloc(sizeof *t);
    if (!t) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    *t = (cdz_trial){.caller = &cdz_trial_caller, .document = c, .request = *request};
    t->step = (cdz_step){.size = sizeof t->step,
                         .request = &t->request,
                         .row_index = t->row_index,
                         .host = &cdz_trial_host,
                         .scope = t};
    for (uint32_t r = 0; r < CDZ_PARITY_ROWS; r++) t->row_index[r] = r;
    const cdz_status status = replay_chain(t, plan, err);
    cdz_arena_free(&t->memory);
    free(t);
    return status;
}

/* --- the file ------------------------------------------------------------------------------------------------------------- */

static cdz_status replay_case(cdz_registry *registry, const cdz_json *c, cdz_error *err)
{
    const cdz_json *kind = cdz_json_get(c, "kind");
    cdz_status (*replay)(cdz_trial *, cdz_error *) =
        cdz_json_eq(kind, "processor")  ? replay_processor
        : cdz_json_eq(kind, "error")    ? replay_error
        : cdz_json_eq(kind, "stateful") ? replay_stateful
                                        : NULL;
    cdz_status known;
    if (cdz_parity_config_case(registry, c, &known, err) ||
        cdz_parity_loop_case(registry, c, &known, err) || cdz_parity_stream_case(c, &known, err))
        return known;
    if (!replay) return cdz_trial_unsupported(err);
    cdz_trial *t = malloc(sizeof *t);
    if (!t) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    cdz_status status = cdz_trial_open(t, registry, c, err);
    if (status == CDZ_OK) status = replay(t, err);
    cdz_trial_close(t);
    free(t);
    return status;
}

static void print_case(const char *word, const cdz_json *c, const char *why)
{
    const cdz_json *kind = cdz_json_get(c, "kind"), *name = cdz_json_get(c, "name"),
                   *id = cdz_json_get(c, "id");
    printf("%s %s %s %lld: %s\n", word, cdz_json_is(kind, CDZ_JSON_STRING) ? kind->string : "?",
           cdz_json_is(name, CDZ_JSON_STRING) ? name->string : "?",
           cdz_json_is(id, CDZ_JSON_INT) ? (long long)id->integer : -1LL, why);
}

cdz_status cdz_parity_read_vectors(const char *path, cdz_arena *arena, const cdz_json **cases,
                                   cdz_error *err)
{
    cdz_json *document = cdz_arena_alloc(arena, sizeof *document);
    if (!document) return cdz_err_memory_in(err, path);
    CDZ_TRY(cdz_json_read_file(path, 0, NULL, arena, document, err));
    *cases = cdz_json_get(document, "cases");
    if (cdz_json_is(*cases, CDZ_JSON_ARRAY)) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: expected an object with a list of \"cases\"", path);
}

void cdz_parity_vectors(const cdz_json *cases, cdz_registry *registry, bool verbose,
                        cdz_parity_count *count)
{
    for (uint32_t i = 0; i < cases->len; i++) {
        const cdz_json *c = &cases->items[i];
        cdz_error why = {0};
        if (c->type != CDZ_JSON_OBJECT) {
            count->failed++;
            printf("FAILED case %u of %u: expected an object, found %s\n", i + 1, cases->len,
                   cdz_json_type_name(c));
            continue;
        }
        const char *optional = cdz_parity_optional(c);
        if (optional) {
            count->optional++;
            if (verbose) print_case("optional", c, optional);
            continue;
        }
        cdz_status replayed = replay_case(registry, c, &why);
        if (replayed == CDZ_OK) {
            count->passed++;
        } else if (replayed == CDZ_E_UNSUPPORTED) {
            count->unsupported++;
            if (verbose) print_case("unsupported", c, why.text);
        } else {
            count->failed++;
            print_case("FAILED", c, why.text);
        }
    }
}
