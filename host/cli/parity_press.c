/* parity_press.c - cases of presses: what stays of a KV cache, and how greedy decoding goes on.
 *
 * A case names a press of kvpress with its parameters; here it becomes a pipeline: a wrapper stands behind what it wraps, and what
 * is a setting of ours (pieces, blocks, when to press) is one. Compared are positions as sets, lengths of caches, channels, where
 * positions go on, tokens, and the best scores of each step. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "cli/parity.h"

enum { MOST_MODELS = 16, TOP = 8 };

typedef struct opened_model {
    char *folder;
    cdz_model *model;
} opened_model;

typedef struct replay {
    cdz_runtime *runtime;
    const cdz_model_options *how;
    const char *folder;
    opened_model models[MOST_MODELS];
    uint32_t n_models;
} replay;

/* A pipeline while it is written. */
typedef struct writing {
    const char *folder;
    cdz_buf lists[2]; /* press, decoding_press */
    cdz_buf sections, settings;
    uint32_t n;
} writing;

bool cdz_parity_is_press(const cdz_json *cases)
{
    return cdz_json_is(cases, CDZ_JSON_ARRAY) && cases->len > 0 &&
           cdz_json_is(cdz_json_get(&cases->items[0], "press"), CDZ_JSON_OBJECT);
}

/* --- a case as a pipeline ------------------------------------------------------------------------------------------ */

static void put_value(const writing *w, const char *key, const cdz_json *value, cdz_buf *out)
{
    cdz_buf_printf(out, "%s = ", key);
    if (strcmp(key, "filters") == 0 && value->type == CDZ_JSON_STRING)
        cdz_buf_printf(out, "%s/%s", w->folder, value->string);
    else if (value->type == CDZ_JSON_ARRAY)
        for (uint32_t i = 0; i < value->len; i++) {
            if (i) cdz_buf_puts(out, ", ");
            cdz_json_write(out, &value->items[i]);
        }
    else
        cdz_json_write(out, value);
    cdz_buf_putc(out, '\n');
}

/* An entry of a list, with a section for its own parameters. */
static void put_press(writing *w, const cdz_json *press, const char *name, bool decoding)
{
    cdz_buf *list = &w->lists[decoding];
    cdz_buf_printf(list, "%s%s_%u", list->len ? ", " : "", name, w->n);
    cdz_buf_printf(&w->sections, "[%s_%u]\nid = %s\n", name, w->n++, name);
    for (uint32_t i = 0; i < press->len; i++) {
        const cdz_json_member *m = &press->members[i];
        if (strcmp(m->key, "name") != 0 && strcmp(m->key, "press") != 0)
            put_value(w, m->key, &m->value, &w->sections);
    }
}

/* What a wrapper is here: its name, one of its parameters, the setting that it becomes (NULL: it stays a plugin), and the
 * setting's value where the case says none. */
static const struct wrapper {
    const char *name, *parameter, *setting, *otherwise;
    bool decodes;
} wrappers[] = {
    {"adakv", NULL, NULL, NULL, false},
    {"key_rerotation", NULL, NULL, NULL, false},
    {"chunkkv", NULL, NULL, NULL, false},
    {"criticalkv", NULL, NULL, NULL, false},
    {"critical_adakv", NULL, NULL, NULL, false},
    {"chunk", "chunk_length", "compression_chunk_length", "1024", false},
    {"block", "block_size", "compression_block_size", "128", false},
    {"per_layer", "compression_ratios", "compression_ratios", "", false},
    {"decoding", "target_size", "compression_target_size", "2048", true},
    {"decoding_ratio", "target_compression_ratio", "compression_target_ratio", "0.5", true},
};

static void put_setting(writing *w, const cdz_json *press, const char *parameter,
                        const char *setting, const char *otherwise)
{
    const cdz_json *value = cdz_json_get(press, parameter);
    if (value)
        put_value(w, setting, value, &w->settings);
    else
        cdz_buf_printf(&w->settings, "%s = %s\n", setting, otherwise);
}

static bool put_any(writing *w, const cdz_json *press, bool decoding);

static bool put_wrapper(writing *w, const cdz_json *press, const struct wrapper *as, bool decoding)
{
    if (!put_any(w, cdz_json_get(press, "press"), decoding || as->decodes)) return false;
    if (!as->setting)
        put_press(w, press, as->name, decoding);
    else
        put_setting(w, press, as->parameter, as->setting, as->otherwise);
    if (as->decodes) put_setting(w, press, "compression_interval", "compression_interval", "512");
    return true;
}

static bool put_any(writing *w, const cdz_json *press, bool decoding)
{
    const cdz_json *name = cdz_json_get(press, "name"), *all = cdz_json_get(press, "presses");
    bool ok = cdz_json_is(name, CDZ_JSON_STRING);
    if (!ok) return false;
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        if (strcmp(wrappers[i].name, name->string) == 0)
            return put_wrapper(w, press, &wrappers[i], decoding);
    if (strcmp(name->string, "prefill_decoding") == 0)
        return put_any(w, cdz_json_get(press, "prefill"), false) &&
               put_any(w, cdz_json_get(press, "decoding"), true);
    if (strcmp(name->string, "composed") != 0) {
        put_press(w, press, name->string, decoding);
        return true;
    }
    for (uint32_t i = 0; ok && all && i < all->len; i++) ok = put_any(w, &all->items[i], decoding);
    return ok && all;
}

static cdz_status make_pipeline(replay *r, const cdz_json *c, cdz_pipeline **out, cdz_error *err)
{
    const cdz_json *question = cdz_json_get(c, "question_ids");
    writing w = {.folder = r->folder};
    cdz_buf text = {0};
    const bool ok = put_any(&w, cdz_json_get(c, "press"), false);
    cdz_buf_puts(&text, "[pipeline]\n");
    if (w.lists[0].len) cdz_buf_printf(&text, "press = %s\n", w.lists[0].data);
    if (w.lists[1].len) cdz_buf_printf(&text, "decoding_press = %s\n", w.lists[1].data);
    cdz_buf_printf(&text, "[generation]\nquirks = yes\n%s", w.settings.len ? w.settings.data : "");
    if (question) cdz_buf_printf(&text, "compression_skip_last = %u\n", question->len);
    if (w.sections.len) cdz_buf_puts(&text, w.sections.data);
    text.failed |= w.sections.failed || w.settings.failed || w.lists[0].failed || w.lists[1].failed;
    cdz_status status = ok ? CDZ_OK : cdz_err(err, CDZ_E_INPUT, "the case has no press with a name");
    if (text.failed) status = cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (status == CDZ_OK)
        status = cdz_pipeline_parse(r->runtime, text.data, text.len, "case", out, err);
    cdz_buf_free(&text);
    cdz_buf_free(&w.lists[0]);
    cdz_buf_free(&w.lists[1]);
    cdz_buf_free(&w.sections);
    cdz_buf_free(&w.settings);
    return status;
}

/* --- running ------------------------------------------------------------------------------------------------------- */

static cdz_status find_model(replay *r, const cdz_json *c, cdz_model **out, cdz_error *err)
{
    const cdz_json *name = cdz_json_get(c, "model");
    cdz_buf path = {0};
    if (!cdz_json_is(name, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "the case has no model");
    cdz_buf_printf(&path, "%s/%s", r->folder, name->string);
    for (uint32_t i = 0; i < r->n_models && !path.failed; i++)
        if (strcmp(r->models[i].folder, path.data) == 0) {
            *out = r->models[i].model;
            cdz_buf_free(&path);
            return CDZ_OK;
        }
    cdz_status status = path.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
    if (r->n_models == MOST_MODELS)
        status = cdz_err(err, CDZ_E_LIMIT, "the cases have more than %d models", MOST_MODELS);
    if (status == CDZ_OK) status = cdz_model_open(r->runtime, path.data, r->how, out, err);
    if (status != CDZ_OK) {
        cdz_buf_free(&path);
        return status;
    }
    r->models[r->n_models++] = (opened_model){path.data, *out};
    return CDZ_OK;
}

static void put_ids(const cdz_json *ids, bool more, cdz_buf *out)
{
    for (uint32_t i = 0; ids && i < ids->len; i++) {
        if (i || more) cdz_buf_puts(out, ", ");
        cdz_json_write(out, &ids->items[i]);
    }
}

static cdz_status run(replay *r, const cdz_json *c, cdz_result **out, cdz_error *err)
{
    const cdz_json *tokens = cdz_json_get(cdz_json_get(c, "expect"), "tokens");
    cdz_pipeline *pipeline = NULL;
    cdz_model *model = NULL;
    cdz_buf text = {0};
    uint64_t id = 0;
    cdz_status status = find_model(r, c, &model, err);
    if (status == CDZ_OK) status = make_pipeline(r, c, &pipeline, err);
    cdz_buf_puts(&text, "{\"prompt_ids\": [[");
    put_ids(cdz_json_get(c, "prompt_ids"), false, &text);
    put_ids(cdz_json_get(c, "question_ids"), true, &text);
    cdz_buf_printf(&text,
                   "]], \"kwargs\": {\"do_sample\": false, \"max_new_tokens\": %u}, "
                   "\"record\": {\"top\": %d, \"press\": true}}",
                   tokens ? tokens->len : 1, TOP);
    if (text.failed) status = cdz_err(err, CDZ_E_NOMEM, "out of memory");
    const cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = pipeline, .json = text.data};
    if (status == CDZ_OK) status = cdz_submit(r->runtime, &request, &id, err);
    if (status == CDZ_OK) status = cdz_wait(r->runtime, id, out, err);
    cdz_pipeline_free(pipeline);
    cdz_buf_free(&text);
    return status;
}

/* --- comparing ----------------------------------------------------------------------------------------------------- */

static bool has(const cdz_json *list, int64_t value)
{
    for (uint32_t i = 0; i < list->len; i++)
        if (list->items[i].integer == value) return true;
    return false;
}

static bool same_set(const cdz_json *want, const cdz_json *got)
{
    bool same = cdz_json_is(got, CDZ_JSON_ARRAY) && want->len == got->len;
    for (uint32_t i = 0; same && i < want->len; i++) same = has(got, want->items[i].integer);
    return same;
}

/* [layer][head] of sets; null: nothing is said of the layer. */
static bool same_heads(const char *what, const cdz_json *want, const cdz_json *got, cdz_buf *out)
{
    for (uint32_t l = 0; l < want->len; l++) {
        const cdz_json *heads = &want->items[l];
        const cdz_json *own = got && l < got->len ? &got->items[l] : NULL;
        for (uint32_t g = 0; heads->type == CDZ_JSON_ARRAY && g < heads->len; g++) {
            const cdz_json *head =
                cdz_json_is(own, CDZ_JSON_ARRAY) && g < own->len ? &own->items[g] : NULL;
            if (head && same_set(&heads->items[g], head)) continue;
            cdz_buf_printf(out, "%s[%u][%u]: expected ", what, l, g);
            cdz_json_write(out, &heads->items[g]);
            cdz_buf_puts(out, " as a set, got ");
            if (head) cdz_json_write(out, head);
            return false;
        }
    }
    return true;
}

static bool same_number(const char *what, const cdz_json *want, int64_t got, cdz_buf *out)
{
    if (!want || want->integer == got) return true;
    cdz_buf_printf(out, "%s: expected %lld, got %lld", what, (long long)want->integer,
                   (long long)got);
    return false;
}

static bool same_lengths(const cdz_json *want, const cdz_json *got, cdz_buf *out)
{
    for (uint32_t l = 0; want && l < want->len; l++)
        if (!same_number("cache_len", &want->items[l],
                         got && l < got->len ? got->items[l].integer : -1, out))
            return false;
    return true;
}

/* A prompt that nothing went of: all of it is there. */
static bool same_untouched(const cdz_json *kept, uint32_t n, cdz_buf *out)
{
    for (uint32_t l = 0; kept && l < kept->len; l++)
        for (uint32_t g = 0; g < kept->items[l].len; g++)
            if (!same_number(
                    "kept",
                    &(cdz_json){.type = CDZ_JSON_INT, .integer = kept->items[l].items[g].len}, n,
                    out))
                return false;
    return true;
}

static bool same_event(const cdz_json *want, const cdz_json *got, bool lengths, cdz_buf *out)
{
    const cdz_json *zeroed = cdz_json_get(want, "zeroed_channels"),
                   *seen = cdz_json_get(want, "seen");
    const cdz_json *next = cdz_json_get(want, "next_position");
    if (seen && !same_number("seen", seen, cdz_json_get(got, "seen")->integer, out)) return false;
    if (next && !seen &&
        !same_number("next_position", next, cdz_json_get(got, "next_position")->integer, out))
        return false;
    if (!same_heads("kept", cdz_json_get(want, "kept"), cdz_json_get(got, "kept"), out))
        return false;
    if (lengths &&
        !same_lengths(cdz_json_get(want, "cache_len"), cdz_json_get(got, "cache_len"), out))
        return false;
    return !zeroed ||
           same_heads("zeroed_channels", zeroed, cdz_json_get(got, "zeroed_channels"), out);
}

/* Those that drop nothing but mask keep their length there. */
static bool has_lengths(const cdz_json *press)
{
    const cdz_json *name = cdz_json_get(press, "name");
    return !cdz_json_eq(name, "adakv") && !cdz_json_eq(name, "critical_adakv");
}

static bool same_presses(const cdz_json *c, const cdz_json *answer, cdz_buf *out)
{
    const cdz_json *expect = cdz_json_get(c, "expect"), *events = cdz_json_get(expect, "events");
    const cdz_json *rows = cdz_json_get(cdz_json_get(answer, "results"), "press");
    const bool lengths = has_lengths(cdz_json_get(c, "press"));
    if (!cdz_json_is(rows, CDZ_JSON_ARRAY) || rows->len != 1) {
        cdz_buf_puts(out, "the answer has no presses");
        return false;
    }
    const cdz_json *got = &rows->items[0];
    const uint32_t n = events ? events->len : got->len ? 1 : 0;
    if (got->len != n) {
        cdz_buf_printf(out, "presses: expected %u, got %u", n, got->len);
        return false;
    }
    if (!events && n == 0)
        return same_untouched(cdz_json_get(expect, "kept"), cdz_json_get(c, "prompt_ids")->len, out);
    for (uint32_t i = 0; i < n; i++)
        if (!same_event(events ? &events->items[i] : expect, &got->items[i], lengths, out))
            return false;
    return true;
}

/* The end of the one sequence. */
static bool same_tokens(const cdz_json *want, const cdz_json *answer, cdz_buf *out)
{
    const cdz_json *rows = cdz_json_get(answer, "sequences");
    const cdz_json *row = cdz_json_is(rows, CDZ_JSON_ARRAY) && rows->len ? &rows->items[0] : NULL;
    for (uint32_t i = 0; want && i < want->len; i++) {
        const bool there = row && row->len >= want->len;
        const int64_t got = there ? row->items[row->len - want->len + i].integer : -1;
        if (!same_number("token", &want->items[i], got, out)) return false;
    }
    return true;
}

static bool same_scores(const cdz_json *expect, const cdz_json *answer, cdz_buf *out)
{
    const cdz_json *ids = cdz_json_get(expect, "top_ids"), *vals = cdz_json_get(expect, "top_vals");
    const cdz_json *scores = cdz_json_get(answer, "scores");
    const cdz_json *own_ids = cdz_json_get(scores, "top_ids"),
                   *own_vals = cdz_json_get(scores, "top_vals");
    for (uint32_t s = 0; ids && s < ids->len; s++)
        for (uint32_t k = 0; k < ids->items[s].len; k++) {
            double want = 0, got = 0;
            bool found = false;
            cdz_json_number(&vals->items[s].items[k], &want);
            for (uint32_t j = 0; own_ids && s < own_ids->len && j < TOP && !found; j++) {
                found =
                    own_ids->items[s].items[0].items[j].integer == ids->items[s].items[k].integer;
                if (found) cdz_json_number(&own_vals->items[s].items[0].items[j], &got);
            }
            if (found && cdz_parity_close(got, want)) continue;
            cdz_buf_printf(out, "top_vals[%u][%u]: expected %.7g, got %.7g", s, k, want, got);
            return false;
        }
    return true;
}

static bool compare(const cdz_json *c, const cdz_result *result, cdz_buf *out)
{
    const cdz_json *expect = cdz_json_get(c, "expect");
    const char *text = cdz_result_json(result);
    cdz_arena arena = {0};
    cdz_error err = {0};
    cdz_json answer;
    bool good = cdz_json_parse(text, strlen(text), "answer", NULL, &arena, &answer, &err) == CDZ_OK;
    if (!good) cdz_buf_puts(out, err.text);
    good = good && same_presses(c, &answer, out) &&
           same_tokens(cdz_json_get(expect, "tokens"), &answer, out) &&
           same_scores(expect, &answer, out);
    cdz_arena_free(&arena);
    return good;
}

/* --- the whole ----------------------------------------------------------------------------------------------------- */

static void replay_one(replay *r, const cdz_json *c, const char *id, bool verbose,
                       cdz_parity_count *count)
{
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_buf difference = {0};
    const cdz_status status = cdz_json_get(c, "expect")
                                  ? run(r, c, &result, &err)
                                  : cdz_err(&err, CDZ_E_INPUT, "the case has no \"expect\"");
    if (status == CDZ_E_UNSUPPORTED) {
        count->unsupported++;
        if (verbose) printf("unsupported %s: %s\n", id, err.text);
    } else if (status != CDZ_OK || !compare(c, result, &difference)) {
        count->failed++;
        printf("FAILED %s: %s\n", id, status != CDZ_OK ? err.text : difference.data);
    } else {
        count->passed++;
    }
    cdz_buf_free(&difference);
    cdz_result_free(result);
}

void cdz_parity_presses(const cdz_json *cases, const cdz_parity_presses_how *how,
                        cdz_parity_count *count)
{
    replay r = {.runtime = how->runtime, .how = how->model, .folder = how->folder};
    for (uint32_t i = 0; i < cases->len; i++) {
        const cdz_json *c = &cases->items[i], *id = cdz_json_get(c, "id");
        const cdz_json *optional = cdz_json_get(c, "optional");
        const char *name = cdz_json_is(id, CDZ_JSON_STRING) ? id->string : "(no id)";
        if (how->only && !strstr(name, how->only)) continue;
        if (!how->optional && cdz_json_is(optional, CDZ_JSON_BOOL) && optional->boolean)
            count->optional++;
        else
            replay_one(&r, c, name, how->verbose, count);
    }
    for (uint32_t i = 0; i < r.n_models; i++) {
        cdz_model_close(r.models[i].model);
        free(r.models[i].folder);
    }
}
