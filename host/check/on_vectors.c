/* on_vectors.c - what a package says itself should come out: tests/NAME.json in its folder. docs/plugin-test.md has the
 * format; a file is {"cases": [...]}. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/checks.h"
#include "check/setups.h"

enum { FILE_BYTES = 4 << 20, MOST_FILES = 64, MOST_VOCAB = 1 << 24 };

/* Where a sentence is about. */
typedef struct place {
    const char *file, *name;
    size_t number;
} place;

static cdz_check_state wrong(cdz_child *c, const place *at, const char *what)
{
    return cdz_fail_check(c, "%s, case %zu (%s): %s", at->file, at->number, at->name, what);
}

/* --- reading -------------------------------------------------------------------------------------------------- */

/* A number, or one of the words for what JSON has no number for. */
static bool read_float(const cdz_json *v, float *out)
{
    double x;
    if (cdz_json_number(v, &x))
        *out = (float)x;
    else if (cdz_json_eq(v, "-inf"))
        *out = -INFINITY;
    else if (cdz_json_eq(v, "inf"))
        *out = INFINITY;
    else if (cdz_json_eq(v, "nan"))
        *out = NAN;
    else
        return false;
    return true;
}

/* Rows of equally many numbers into a matrix of answers; false: they are not that. */
static bool read_matrix(cdz_child *c, const cdz_json *rows, const cdz_probe *t, float **out)
{
    const size_t len = cdz_answer_len(&t->facts);
    if (!cdz_json_is(rows, CDZ_JSON_ARRAY) || rows->len != t->facts.n_rows) return false;
    *out = cdz_answers_new(c, rows->len * len);
    for (uint32_t r = 0; *out && r < rows->len; r++) {
        const cdz_json *row = &rows->items[r];
        if (!cdz_json_is(row, CDZ_JSON_ARRAY) || row->len != t->facts.n_vocab) return false;
        for (uint32_t v = 0; v < row->len; v++)
            if (!read_float(&row->items[v], *out + r * len + v)) return false;
    }
    return *out != NULL;
}

static bool read_ids(cdz_child *c, const cdz_json *row, cdz_ids *out)
{
    if (!cdz_json_is(row, CDZ_JSON_ARRAY) || row->len == 0) return false;
    int32_t *ids = cdz_arena_array(&c->memory, row->len, sizeof *ids);
    if (!ids) return false;
    for (uint32_t i = 0; i < row->len; i++) {
        const cdz_json *id = &row->items[i];
        if (id->type != CDZ_JSON_INT || id->integer < 0 || id->integer > INT32_MAX) return false;
        ids[i] = (int32_t)id->integer;
    }
    *out = (cdz_ids){ids, row->len};
    return true;
}

static cdz_check_state read_params(cdz_child *c, const place *at, const cdz_json *values,
                                   void **params)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    cdz_error err = {0};
    char what[256];
    *params = cdz_check_params_new(c);
    if (!*params) return wrong(c, at, "out of memory");
    for (uint32_t i = 0; values && i < values->len; i++) {
        const cdz_json_member *m = &values->members[i];
        const cdz_param *param = cdz_param_find(&table, m->key);
        snprintf(what, sizeof what, "params: there is no %s", m->key);
        if (!param) return wrong(c, at, what);
        if (cdz_param_set(param, *params, &m->value, &c->memory, &err) != CDZ_OK)
            return wrong(c, at, err.text);
    }
    return CDZ_CHECK_OK;
}

/* --- one case --------------------------------------------------------------------------------------------------- */

/* A number of the case, or what it is without one. */
typedef struct count {
    const char *name;
    uint32_t least, most;
    uint32_t *to;
} count;

static cdz_check_state read_count(cdz_child *c, const place *at, const cdz_json *test, count one)
{
    char what[120];
    const cdz_json *v = cdz_json_get(test, one.name);
    if (!v) return CDZ_CHECK_OK;
    snprintf(what, sizeof what, "%s: expected a whole number from %u to %u", one.name, one.least,
             one.most);
    if (v->type != CDZ_JSON_INT || v->integer < one.least || v->integer > one.most)
        return wrong(c, at, what);
    *one.to = (uint32_t)v->integer;
    return CDZ_CHECK_OK;
}

/* The host makes sure of this before it calls a plugin. */
static bool in_vocabulary(const cdz_ids *ids, uint32_t n, uint32_t n_vocab)
{
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < ids[r].len; i++)
            if ((uint32_t)ids[r].at[i] >= n_vocab) return false;
    return true;
}

static cdz_check_state read_facts(cdz_child *c, const place *at, const cdz_json *test,
                                  const cdz_ids *ids, uint32_t n, cdz_made_up *out)
{
    const cdz_json *in = cdz_json_get(test, "scores_in");
    const bool scored = cdz_json_is(in, CDZ_JSON_ARRAY) && in->len > 0;
    uint32_t shortest = ids[0].len, n_vocab = scored ? in->items[0].len : 1000, seed = 0;
    for (uint32_t r = 1; r < n; r++)
        if (ids[r].len < shortest) shortest = ids[r].len;
    uint32_t prompt_len = shortest;
    CDZ_CHECK_TRY(read_count(c, at, test, (count){"prompt_len", 1, shortest, &prompt_len}));
    CDZ_CHECK_TRY(read_count(c, at, test, (count){"seed", 0, UINT32_MAX, &seed}));
    if (!scored)
        CDZ_CHECK_TRY(read_count(c, at, test, (count){"n_vocab", 1, MOST_VOCAB, &n_vocab}));
    if (!in_vocabulary(ids, n, n_vocab))
        return wrong(c, at, "input_ids: an id is outside the vocabulary");
    *out = (cdz_made_up){.n_vocab = n_vocab, .n_rows = n, .prompt_len = prompt_len, .seed = seed};
    return CDZ_CHECK_OK;
}

/* Every row's state takes what follows the prompt. */
static cdz_status accept_all(cdz_probe *t, const cdz_ids *ids, void **states)
{
    for (uint32_t r = 0; r < t->facts.n_rows; r++) {
        states[r] = cdz_probe_state(t);
        for (uint32_t len = t->facts.prompt_len + 1; len <= ids[r].len; len++)
            CDZ_TRY(
                cdz_probe_accept(t, (cdz_ids){ids[r].at, len}, r, states[r], ids[r].at[len - 1]));
    }
    return CDZ_OK;
}

static cdz_status ask_all(cdz_probe *t, const cdz_ids *ids, float *matrix)
{
    uint32_t index[CDZ_PROBE_ROWS];
    void *states[CDZ_PROBE_ROWS];
    for (uint32_t r = 0; r < t->facts.n_rows; r++) index[r] = r;
    CDZ_TRY(cdz_probe_enter(t));
    CDZ_TRY(accept_all(t, ids, states));
    const cdz_probe_rows rows = {.n = t->facts.n_rows, .ids = ids, .index = index, .states = states};
    cdz_scores scores = {.data = matrix,
                         .n_rows = t->facts.n_rows,
                         .n_vocab = t->facts.n_vocab,
                         .stride = cdz_answer_len(&t->facts)};
    return cdz_probe_ask(t, &rows, &scores);
}

static bool near(float got, float want, double tolerance)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    return fabs((double)got - (double)want) <= tolerance * fmax(1.0, fabs((double)want));
}

static cdz_check_state compare_scores(cdz_child *c, const place *at, const cdz_probe *t,
                                      const float *got, const float *want, double tolerance)
{
    char what[160];
    for (uint32_t r = 0; r < t->facts.n_rows; r++)
        for (uint32_t v = 0; v < t->facts.n_vocab; v++) {
            const size_t i = r * cdz_answer_len(&t->facts) + v;
            if (near(got[i], want[i], tolerance)) continue;
            snprintf(what, sizeof what, "row %u, token %u: the score is %.9g, expected %.9g", r, v,
                     (double)got[i], (double)want[i]);
            return wrong(c, at, what);
        }
    return CDZ_CHECK_OK;
}

/* "": goes on; "eos", "length", "time", "string"; anything else is a reason of the criterion's own. */
static cdz_check_state compare_stops(cdz_child *c, const place *at, const cdz_probe *t,
                                     const float *got, const cdz_json *stops)
{
    enum { N_REASONS = 6 };
    static const char *const names[N_REASONS] = {"", "eos", "length", "time", "string", "custom"};
    char what[160];
    if (!cdz_json_is(stops, CDZ_JSON_ARRAY) || stops->len != t->facts.n_rows)
        return wrong(c, at, "stops: expected a word for each row");
    for (uint32_t r = 0; r < stops->len; r++) {
        const cdz_json *word = &stops->items[r];
        const float reason = got[r * cdz_answer_len(&t->facts)];
        const bool known = reason >= 0 && reason < (float)N_REASONS;
        const char *found = known ? names[(size_t)reason] : "no reason there is";
        if (word->type != CDZ_JSON_STRING) return wrong(c, at, "stops: expected words");
        if (strcmp(word->string, found) == 0) continue;
        snprintf(what, sizeof what, "row %u: the reason is '%s', expected '%.60s'", r, found,
                 word->string);
        return wrong(c, at, what);
    }
    return CDZ_CHECK_OK;
}

static cdz_check_state judge(cdz_child *c, const place *at, const cdz_json *test, cdz_probe *t,
                             const cdz_ids *ids)
{
    const bool processor = t->plugin->kind == CDZ_KIND_PROCESSOR;
    const cdz_json *refusal = cdz_json_get(test, "refused");
    float *got, *want = NULL;
    double tolerance = 1e-6;
    (void)cdz_json_number(cdz_json_get(test, "tolerance"), &tolerance);
    if (processor && !read_matrix(c, cdz_json_get(test, "scores_in"), t, &got))
        return wrong(c, at, "scores_in: expected a row of n_vocab numbers for each of input_ids");
    if (processor && !refusal && !read_matrix(c, cdz_json_get(test, "scores_out"), t, &want))
        return wrong(c, at, "scores_out: expected rows like those of scores_in");
    if (!processor && !(got = cdz_answers_new(c, t->facts.n_rows * cdz_answer_len(&t->facts))))
        return wrong(c, at, "out of memory");
    cdz_check_note(c, "%s, case %zu (%s)", at->file, at->number, at->name);
    const cdz_status status = ask_all(t, ids, got);
    if (refusal) return status == CDZ_OK ? wrong(c, at, "expected a refusal") : CDZ_CHECK_OK;
    if (status != CDZ_OK) return wrong(c, at, t->said.text);
    return processor ? compare_scores(c, at, t, got, want, tolerance)
                     : compare_stops(c, at, t, got, cdz_json_get(test, "stops"));
}

static cdz_check_state run_case(cdz_child *c, const place *at, const cdz_json *test)
{
    const cdz_json *rows = cdz_json_get(test, "input_ids");
    cdz_ids ids[CDZ_PROBE_ROWS], eos;
    void *params;
    cdz_probe t;
    if (!cdz_json_is(rows, CDZ_JSON_ARRAY) || rows->len == 0 || rows->len > CDZ_PROBE_ROWS)
        return wrong(c, at, "input_ids: expected 1 to 8 rows of ids");
    for (uint32_t r = 0; r < rows->len; r++)
        if (!read_ids(c, &rows->items[r], &ids[r])) return wrong(c, at, "input_ids: expected ids");
    CDZ_CHECK_TRY(read_params(c, at, cdz_json_get(test, "params"), &params));
    cdz_made_up facts = {0};
    CDZ_CHECK_TRY(read_facts(c, at, test, ids, rows->len, &facts));
    if (facts.n_vocab == 0 || !cdz_probe_make(&t, c->ref.base, params, &facts))
        return wrong(c, at, "out of memory");
    for (uint32_t r = 0; r < rows->len; r++) t.prompts[r] = (cdz_ids){ids[r].at, facts.prompt_len};
    if (read_ids(c, cdz_json_get(test, "eos"), &eos)) t.info.eos = eos;
    CDZ_CHECK_TRY(judge(c, at, test, &t, ids));
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static cdz_check_state run_file(cdz_child *c, const char *folder, const char *name, uint32_t *n)
{
    cdz_json file;
    cdz_error err = {0};
    const char *path = cdz_arena_printf(&c->memory, "%s/%s", folder, name);
    if (!path) return cdz_fail_check(c, "out of memory");
    if (cdz_json_read_file(path, FILE_BYTES, NULL, &c->memory, &file, &err) != CDZ_OK)
        return cdz_fail_check(c, "%s", err.text);
    const cdz_json *cases = cdz_json_get(&file, "cases");
    if (!cdz_json_is(cases, CDZ_JSON_ARRAY))
        return cdz_fail_check(c, "%s: expected {\"cases\": [...]}", path);
    for (uint32_t i = 0; i < cases->len; i++, ++*n) {
        const cdz_json *label = cdz_json_get(&cases->items[i], "name");
        const place at = {name, cdz_json_is(label, CDZ_JSON_STRING) ? label->string : "no name", i};
        CDZ_CHECK_TRY(run_case(c, &at, &cases->items[i]));
    }
    return CDZ_CHECK_OK;
}

static int is_vectors(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".json") == 0;
}

cdz_check_state cdz_check_vectors(cdz_child *c)
{
    const char *folder =
        c->options->is_path ? cdz_arena_printf(&c->memory, "%s/tests", c->options->what) : NULL;
    struct dirent **names = NULL;
    const int n_files = folder ? scandir(folder, &names, is_vectors, alphasort) : 0;
    cdz_check_state state = CDZ_CHECK_OK;
    uint32_t n = 0;
    for (int i = 0; i < n_files; i++) {
        if (state == CDZ_CHECK_OK) state = run_file(c, folder, names[i]->d_name, &n);
        free(names[i]);
    }
    free(names);
    if (n_files <= 0)
        return cdz_skip_check(c, "there is no tests/NAME.json in the package's folder");
    return state == CDZ_CHECK_OK ? cdz_pass_check(c, "%u cases of its own", n) : state;
}
