/* ask_tokens.c - fields about single tokens: those that end an answer, those that it may not have, the only ones that it may have, and
 * whether special ones are shown. */
#include <stdlib.h>
#include <string.h>

#include "serve/ask.h"

static bool out_of_memory(const cdz_asking *a)
{
    return cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory for the request");
}

/* A list of ids into the arena. */
static bool take_ids(cdz_asking *a, const char *name, cdz_ids *out)
{
    const cdz_json *list = cdz_ask_field(&a->body, name);
    int32_t *ids = NULL;
    size_t n = 0;
    if (!list) return true;
    if (list->type != CDZ_JSON_ARRAY) return cdz_ask_wrong(a->fault, name, "a list of ids", list);
    if (!cdz_ask_ids(a->world, list, name, &ids, &n, a->fault)) return false;
    int32_t *kept = cdz_arena_array(&a->arena, n ? n : 1, sizeof *kept);
    if (kept && n) memcpy(kept, ids, n * sizeof *ids);
    free(ids);
    *out = (cdz_ids){kept, (uint32_t)n};
    return kept || out_of_memory(a);
}

/* --- the end ---------------------------------------------------------------------------------------------------------- */

/* The client's, then the model's own. */
static bool gather_ends(cdz_asking *a, const cdz_ids *stops, bool endless)
{
    const cdz_json *eos = endless ? NULL : cdz_model_default(a->world->model, "eos_token_id");
    const bool list = cdz_json_is(eos, CDZ_JSON_ARRAY);
    const uint32_t n_own = !eos ? 0 : list ? eos->len : 1;
    int32_t *ids = cdz_arena_array(&a->arena, (size_t)stops->len + n_own + 1, sizeof *ids);
    uint32_t n = stops->len;
    if (!ids) return out_of_memory(a);
    if (n && stops->at) memcpy(ids, stops->at, n * sizeof *ids);
    for (uint32_t i = 0; i < n_own; i++) {
        const cdz_json *id = list ? &eos->items[i] : eos;
        if (id->type == CDZ_JSON_INT) ids[n++] = (int32_t)id->integer;
    }
    a->ends = (cdz_ids){ids, n};
    a->n_stops = stops->len;
    return true;
}

/* The model's own first: the first of all fills rows that have ended. */
static bool set_ends(cdz_asking *a)
{
    cdz_buf text = {0};
    cdz_buf_putc(&text, '[');
    cdz_ask_write_ids(&text, a->ends.at + a->n_stops, a->ends.len - a->n_stops);
    if (a->n_stops && a->ends.len > a->n_stops) cdz_buf_putc(&text, ',');
    cdz_ask_write_ids(&text, a->ends.at, a->n_stops);
    cdz_buf_putc(&text, ']');
    const bool good = text.failed ? out_of_memory(a) : cdz_ask_set(a, "eos_token_id", text.data);
    cdz_buf_free(&text);
    return good;
}

static bool is_given(const cdz_asking *a, const char *name)
{
    const cdz_json *cadenza = cdz_ask_field(&a->body, "cadenza");
    return cdz_json_is(cadenza, CDZ_JSON_OBJECT) && cdz_ask_field(cadenza, name);
}

static bool take_ends(cdz_asking *a)
{
    bool endless;
    cdz_ids stops = {0};
    if (!cdz_ask_bool(&a->body, "ignore_eos", false, &endless, a->fault) ||
        !take_ids(a, "stop_token_ids", &stops))
        return false;
    if (endless && !stops.len) return cdz_ask_set(a, "eos_token_id", "[]");
    if (!stops.len) return !a->all_text || gather_ends(a, &stops, false);
    if (!endless && is_given(a, "pipeline"))
        return cdz_serve_fault_set(a->fault, 400, "stop_token_ids", NULL,
                                   "'stop_token_ids' does not go with cadenza.pipeline: write "
                                   "eos_token_id into the pipeline's file");
    return gather_ends(a, &stops, endless) && set_ends(a);
}

/* --- words -------------------------------------------------------------------------------------------------------------- */

/* The ids of a word at an answer's beginning, or within a text: behind a blank. */
static bool read_word(const cdz_asking *a, const cdz_json *word, bool within, int32_t **ids,
                      size_t *n)
{
    const char *bare = word->string + strspn(word->string, " ");
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_buf_puts(&text, within ? " " : "");
    cdz_buf_puts(&text, bare);
    const cdz_status status =
        text.failed ? CDZ_E_NOMEM
                    : cdz_tokenize(a->world->model, text.data, text.len, false, ids, n, &err);
    cdz_buf_free(&text);
    if (status == CDZ_OK) return true;
    return err.code == CDZ_OK ? out_of_memory(a) : cdz_serve_fault_of(a->fault, "bad_words", &err);
}

static void put_word(cdz_buf *out, const int32_t *ids, size_t n)
{
    cdz_buf_puts(out, out->len > 1 ? ", [" : "[");
    cdz_ask_write_ids(out, ids, n);
    cdz_buf_putc(out, ']');
}

/* Is the blank a token of its own, so that the word's own ids follow it? */
static bool stands_apart(const int32_t *first, size_t n_first, const int32_t *within,
                         size_t n_within)
{
    const size_t more = n_within - n_first;
    if (n_within < n_first) return false;
    return !first || !within || memcmp(within + more, first, n_first * sizeof *first) == 0;
}

static bool put_both(const cdz_asking *a, const cdz_json *word, cdz_buf *out)
{
    int32_t *first = NULL, *within = NULL;
    size_t n_first = 0, n_within = 0;
    const bool good =
        read_word(a, word, false, &first, &n_first) && read_word(a, word, true, &within, &n_within);
    if (good && n_first) put_word(out, first, n_first);
    if (good && n_within && !stands_apart(first, n_first, within, n_within))
        put_word(out, within, n_within);
    cdz_free(first);
    cdz_free(within);
    return good;
}

static bool take_bad_words(cdz_asking *a)
{
    const cdz_json *words = cdz_ask_field(&a->body, "bad_words");
    cdz_buf text = {0};
    if (!words) return true;
    if (words->type != CDZ_JSON_ARRAY)
        return cdz_ask_wrong(a->fault, "bad_words", "a list of strings", words);
    bool good = true;
    cdz_buf_putc(&text, '[');
    for (uint32_t i = 0; good && i < words->len; i++) {
        const cdz_json *word = &words->items[i];
        good = word->type == CDZ_JSON_STRING && word->string[strspn(word->string, " ")] &&
               strlen(word->string) == word->len;
        if (!good)
            cdz_serve_fault_set(a->fault, 400, "bad_words", NULL,
                                "'bad_words' entry %u: expected a string that is not empty and "
                                "has no NUL",
                                i);
        good = good && put_both(a, word, &text);
    }
    cdz_buf_putc(&text, ']');
    if (good && words->len)
        good = text.failed ? out_of_memory(a) : cdz_ask_set(a, "bad_words_ids", text.data);
    cdz_buf_free(&text);
    return good;
}

bool cdz_ask_allowed(cdz_asking *a, cdz_ask_own *own)
{
    static const char field[] = "allowed_token_ids";
    cdz_ids ids = {0};
    cdz_buf text = {0};
    if (!take_ids(a, field, &ids)) return false;
    if (!ids.at) return true;
    if (!ids.len)
        return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s' allows no token", field);
    cdz_buf_putc(&text, '['); /* of one place, which all are */
    put_word(&text, ids.at, ids.len);
    cdz_buf_putc(&text, ']');
    bool good = text.failed
                    ? out_of_memory(a)
                    : cdz_ask_want(a, own, field, "prefix_allowed_tokens") &&
                          cdz_ask_own_set(a, own, field, "prefix_allowed_tokens.cycle", text.data);
    cdz_buf_free(&text);
    return good;
}

bool cdz_ask_tokens(cdz_asking *a)
{
    bool left_out;
    if (!cdz_ask_bool(&a->body, "skip_special_tokens", true, &left_out, a->fault)) return false;
    a->all_text = !left_out;
    a->special |= a->all_text;
    return take_ends(a) && take_bad_words(a);
}
