/* parity_loop.c - recorded cases of what a decode loop does round its plugins: stopping rules together, the doubt of a
 * draft model, guidance of a doubled batch. Cases that others replay or that have no counterpart are named here too. */
#include <stdlib.h>

#include "cadenza/drafter.h"
#include "cadenza/ext/companion.h"
#include "cli/parity.h"
#include "vec/vec.h"

static cdz_status malformed(const char *what, cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "the case is malformed: %s", what);
}

/* --- stopping ------------------------------------------------------------------------------------------------------ */

/* One boolean of the reference stands for all rows. */
static cdz_status compare_stops(const cdz_json *c, const bool *stopped, uint32_t n, cdz_error *err)
{
    const cdz_json *out = cdz_json_get(c, "out");
    bool each = cdz_json_is(out, CDZ_JSON_ARRAY);
    if (n == 0 || (each ? out->len != n : !cdz_json_is(out, CDZ_JSON_BOOL)))
        return malformed("expected an answer for each row", err);
    for (uint32_t r = 0; r < n; r++) {
        const cdz_json *want = each ? &out->items[r] : out;
        if (want->type != CDZ_JSON_BOOL) return malformed("expected booleans", err);
        if (want->boolean != stopped[r])
            return cdz_err(err, CDZ_E_INPUT, "row %u: %s, the reference says otherwise", r,
                           stopped[r] ? "stops" : "goes on");
    }
    return CDZ_OK;
}

/* A member of a list as a case of its own: its class is the name, its one parameter the key. */
static cdz_status stops_of_member(cdz_registry *registry, const cdz_json *c, const cdz_json *member,
                                  bool *stopped, uint32_t *n, cdz_error *err)
{
    static const struct {
        const char *name, *key;
        uint32_t key_len;
    } rules[] = {{"MaxLength", "max_length", 10}, {"EosToken", "eos_token_id", 12}};
    size_t i = 0;
    const size_t n_rules = sizeof rules / sizeof rules[0];
    if (member->type != CDZ_JSON_ARRAY || member->len != 2)
        return malformed("expected pairs of a criterion and its value", err);
    while (i < n_rules && !cdz_json_eq(&member->items[0], rules[i].name)) i++;
    if (i == n_rules)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "a list with other rules than length and eos");
    cdz_json_member param = {
        .key = rules[i].key, .key_len = rules[i].key_len, .value = member->items[1]};
    const cdz_json params = {.type = CDZ_JSON_OBJECT, .len = 1, .members = &param};
    cdz_json_member members[] = {
        {.key = "name", .key_len = 4, .value = member->items[0]},
        {.key = "params", .key_len = 6, .value = params},
        {.key = "input_ids", .key_len = 9, .value = *cdz_json_get(c, "input_ids")},
    };
    const cdz_json one = {.type = CDZ_JSON_OBJECT, .len = 3, .members = members};
    return cdz_parity_stops(registry, &one, stopped, n, err);
}

/* All rules are asked, and a row that one of them ends is done. */
static cdz_status replay_list(cdz_registry *registry, const cdz_json *c, cdz_error *err)
{
    const cdz_json *list = cdz_json_get(cdz_json_get(c, "params"), "criteria");
    bool stopped[CDZ_PARITY_ROWS] = {false};
    uint32_t n = 0;
    if (!cdz_json_is(list, CDZ_JSON_ARRAY) || !cdz_json_get(c, "input_ids"))
        return malformed("expected a list of criteria and ids", err);
    for (uint32_t i = 0; i < list->len; i++) {
        bool its[CDZ_PARITY_ROWS] = {false};
        CDZ_TRY(stops_of_member(registry, c, &list->items[i], its, &n, err));
        for (uint32_t r = 0; r < n; r++) stopped[r] |= its[r];
    }
    return compare_stops(c, stopped, n, err);
}

static cdz_status replay_rule(cdz_registry *registry, const cdz_json *c, cdz_error *err)
{
    bool stopped[CDZ_PARITY_ROWS];
    uint32_t n;
    CDZ_TRY(cdz_parity_stops(registry, c, stopped, &n, err));
    return compare_stops(c, stopped, n, err);
}

/* --- matrices ------------------------------------------------------------------------------------------------------ */

typedef struct matrix {
    float *at; /* (n, width), the caller's to free */
    uint32_t n, width;
} matrix;

static cdz_status read_matrix(const cdz_json *rows, matrix *out, cdz_error *err)
{
    *out = (matrix){0};
    if (!cdz_json_is(rows, CDZ_JSON_ARRAY) || rows->len == 0 || rows->len > CDZ_PARITY_ROWS ||
        rows->items[0].type != CDZ_JSON_ARRAY || rows->items[0].len == 0)
        return malformed("expected 1 to 64 rows of scores", err);
    const uint32_t width = rows->items[0].len;
    for (uint32_t r = 0; r < rows->len; r++)
        if (rows->items[r].type != CDZ_JSON_ARRAY || rows->items[r].len != width)
            return malformed("rows of scores differ in length", err);
    *out = (matrix){calloc((size_t)rows->len * width, sizeof(float)), rows->len, width};
    if (!out->at) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t r = 0; r < rows->len; r++)
        for (uint32_t v = 0; v < width; v++)
            out->at[(size_t)r * width + v] = cdz_parity_float(&rows->items[r].items[v]);
    return CDZ_OK;
}

/* --- a draft model's doubt ------------------------------------------------------------------------------------------- */

/* The newest token of row 0 decides for all. */
static cdz_status replay_confidence(const cdz_json *c, cdz_error *err)
{
    double threshold;
    matrix scores;
    const cdz_json *ids = cdz_json_get(c, "input_ids");
    const cdz_json *row = cdz_json_is(ids, CDZ_JSON_ARRAY) && ids->len ? &ids->items[0] : NULL;
    const cdz_json *last =
        cdz_json_is(row, CDZ_JSON_ARRAY) && row->len ? &row->items[row->len - 1] : NULL;
    if (!cdz_json_is(last, CDZ_JSON_INT) ||
        !cdz_json_number(cdz_json_get(cdz_json_get(c, "params"), "assistant_confidence_threshold"),
                         &threshold))
        return malformed("expected ids and a threshold", err);
    CDZ_TRY(read_matrix(cdz_json_get(c, "last_scores"), &scores, err));
    cdz_status status = CDZ_OK;
    if (last->integer < 0 || last->integer >= scores.width) {
        status = malformed("an id outside the vocabulary", err);
    } else {
        cdz_vec_table()->softmax(scores.at, scores.at, scores.width);
        const bool stopped = cdz_draft_doubted(scores.at[last->integer], threshold);
        status = compare_stops(c, &stopped, 1, err);
    }
    free(scores.at);
    return status;
}

/* --- guidance of a doubled batch ---------------------------------------------------------------------------------------- */

/* got: (2n rows) conditional ones first, guided in place; the reference keeps them as logits. */
static cdz_status compare_guided(const cdz_json *c, matrix *got, const matrix *want, float scale,
                                 cdz_error *err)
{
    const size_t n = (size_t)want->n * want->width;
    const bool exact = cdz_json_eq(cdz_json_get(c, "compare"), "exact");
    if (got->n != 2 * want->n || got->width != want->width)
        return malformed("scores_in and scores_out differ", err);
    for (uint32_t r = 0; r < want->n; r++) {
        float *row = got->at + (size_t)r * got->width;
        cdz_companion_guide(row, row + n, got->width, scale);
    }
    for (size_t i = 0; i < n; i++)
        if (!cdz_parity_same_score(got->at[i], want->at[i], exact))
            return cdz_err(err, CDZ_E_INPUT, "row %zu, token %zu: expected %.9g, got %.9g",
                           i / want->width, i % want->width, (double)want->at[i],
                           (double)got->at[i]);
    return CDZ_OK;
}

static cdz_status replay_guidance(const cdz_json *c, cdz_error *err)
{
    double scale;
    matrix got = {0}, want = {0};
    if (!cdz_json_number(cdz_json_get(cdz_json_get(c, "params"), "guidance_scale"), &scale))
        return malformed("expected a guidance_scale", err);
    cdz_status status = read_matrix(cdz_json_get(c, "scores_in"), &got, err);
    if (status == CDZ_OK) status = read_matrix(cdz_json_get(c, "scores_out"), &want, err);
    if (status == CDZ_OK) status = compare_guided(c, &got, &want, (float)scale, err);
    free(got.at);
    free(want.at);
    return status;
}

/* --- which is which ----------------------------------------------------------------------------------------------------- */

const char *cdz_parity_optional(const cdz_json *c)
{
    const cdz_json *kind = cdz_json_get(c, "kind");
    if (cdz_json_eq(kind, "loop"))
        return "needs a model that says what is written: the test test_run_vectors replays it";
    return NULL;
}

bool cdz_parity_loop_case(cdz_registry *registry, const cdz_json *c, cdz_status *replayed,
                          cdz_error *err)
{
    const cdz_json *kind = cdz_json_get(c, "kind"), *name = cdz_json_get(c, "name");
    const bool stopping = cdz_json_eq(kind, "stopping");
    if (stopping && cdz_json_eq(name, "List"))
        *replayed = replay_list(registry, c, err);
    else if (stopping && cdz_json_eq(name, "Confidence"))
        *replayed = replay_confidence(c, err);
    else if (stopping)
        *replayed = replay_rule(registry, c, err);
    else if (cdz_json_eq(kind, "processor") && cdz_json_eq(name, "ClassifierFreeGuidance"))
        *replayed = replay_guidance(c, err);
    else
        return false;
    return true;
}
