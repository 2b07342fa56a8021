/* pretok.c - reading pre-tokenizers and making one cut. */
#include "token/pretok.h"

#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */

static cdz_status read_bool(const cdz_json *part, const char *key, bool absent, bool *out,
                            cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    *out = absent;
    if (!v) return CDZ_OK;
    if (!cdz_json_is(v, CDZ_JSON_BOOL))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: pre_tokenizer: \"%s\" is %s, expected true or false", v->line, key,
                       cdz_json_type_name(v));
    *out = v->boolean;
    return CDZ_OK;
}

static cdz_status add_split(cdz_pretok *out, cdz_split split, cdz_error *err)
{
    if (out->n == CDZ_PRETOK_MAX)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "pre_tokenizer: more than %d cuts in a row",
                       CDZ_PRETOK_MAX);
    out->splits[out->n++] = split;
    return CDZ_OK;
}

static cdz_status read_behavior(const cdz_json *part, cdz_split_behavior *out, cdz_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    const cdz_json *v = cdz_json_get(part, "behavior");
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!cdz_json_eq(v, names[i])) continue;
        *out = (cdz_split_behavior)i;
        return CDZ_OK;
    }
    return cdz_err(
        err, CDZ_E_INPUT,
        "line %u: pre_tokenizer: Split needs a \"behavior\": Isolated, Removed, Contiguous, "
        "MergedWithPrevious or MergedWithNext",
        part->line);
}

static cdz_status read_pattern(const cdz_json *part, cdz_split *out, cdz_arena *arena,
                               cdz_error *err)
{
    const cdz_json *pattern = cdz_json_get(part, "pattern");
    const cdz_json *literal = cdz_json_get(pattern, "String"),
                   *regex = cdz_json_get(pattern, "Regex");
    if (cdz_json_is(literal, CDZ_JSON_STRING) && literal->len > 0) {
        out->literal = cdz_arena_strndup(arena, literal->string, literal->len);
        out->literal_len = literal->len;
        return out->literal ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
    }
    if (!cdz_json_is(regex, CDZ_JSON_STRING))
        return cdz_err(
            err, CDZ_E_INPUT,
            "line %u: pre_tokenizer: Split needs a \"pattern\" with a \"Regex\" or a \"String\" "
            "that is not empty",
            part->line);
    out->match = cdz_scanner_find(regex->string, regex->len);
    if (out->match) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "line %u: pre_tokenizer: the pattern of Split is none of the known ones (GPT-2, "
                   "cl100k, Llama-3, "
                   "Qwen2, Qwen3.5, o200k, Tekken, DeepSeek): %.200s",
                   regex->line, regex->string);
}

static cdz_status read_split(const cdz_json *part, cdz_pretok *out, cdz_arena *arena,
                             cdz_error *err)
{
    cdz_split split = {0};
    CDZ_TRY(read_pattern(part, &split, arena, err));
    CDZ_TRY(read_behavior(part, &split.behavior, err));
    CDZ_TRY(read_bool(part, "invert", false, &split.invert, err));
    return add_split(out, split, err);
}

static cdz_status read_digits(const cdz_json *part, cdz_pretok *out, cdz_error *err)
{
    bool individual;
    CDZ_TRY(read_bool(part, "individual_digits", false, &individual, err));
    const cdz_split split = {.match = cdz_scan_digit,
                             .behavior = individual ? CDZ_SPLIT_ISOLATED : CDZ_SPLIT_CONTIGUOUS};
    return add_split(out, split, err);
}

static cdz_status read_byte_level(const cdz_json *part, cdz_pretok *out, cdz_error *err)
{
    bool use_regex;
    CDZ_TRY(read_bool(part, "add_prefix_space", true, &out->add_prefix_space, err));
    CDZ_TRY(read_bool(part, "use_regex", true, &use_regex, err));
    out->n_before_prefix = out->n;
    out->byte_level = true;
    if (!use_regex) return CDZ_OK;
    return add_split(out, (cdz_split){.match = cdz_scan_gpt2, .behavior = CDZ_SPLIT_ISOLATED}, err);
}

static cdz_status read_part(const cdz_json *part, cdz_pretok *out, cdz_arena *arena, cdz_error *err)
{
    const cdz_json *type = cdz_json_get(part, "type"), *list = cdz_json_get(part, "pretokenizers");
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: pre_tokenizer is %s, expected an object with a \"type\"",
                       part->line, cdz_json_type_name(part));
    if (out->byte_level)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: pre_tokenizer: %.60s comes after ByteLevel; supported: ByteLevel "
                       "as the last part",
                       part->line, type->string);
    if (cdz_json_eq(type, "ByteLevel")) return read_byte_level(part, out, err);
    if (cdz_json_eq(type, "Split")) return read_split(part, out, arena, err);
    if (cdz_json_eq(type, "Digits")) return read_digits(part, out, err);
    if (!cdz_json_eq(type, "Sequence"))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: pre_tokenizer of type \"%.60s\"; supported: ByteLevel, Split, "
                       "Digits, Sequence",
                       part->line, type->string);
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: pre_tokenizer: Sequence needs a list \"pretokenizers\"",
                       part->line);
    for (uint32_t i = 0; i < list->len; i++) CDZ_TRY(read_part(&list->items[i], out, arena, err));
    return CDZ_OK;
}

cdz_status cdz_pretok_read(const cdz_json *part, cdz_pretok *out, cdz_arena *arena, cdz_error *err)
{
    if (part && !cdz_json_is(part, CDZ_JSON_NULL)) CDZ_TRY(read_part(part, out, arena, err));
    if (out->byte_level) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "pre_tokenizer has no ByteLevel, so the model's tokens are not bytes; "
                   "supported: byte-level BPE");
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* The span not given out yet, and what came last. */
typedef struct split_state {
    const cdz_split *split;
    const uint8_t *text;
    cdz_piece_fn piece;
    void *context;
    size_t begin, end; /* equal: none is held */
    bool last_match;
} split_state;

static bool flush(split_state *s)
{
    const size_t begin = s->begin, end = s->end;
    s->begin = s->end;
    return begin == end || s->piece(s->context, s->text, begin, end);
}

/* Whether a new span joins the one that is held. */
static bool joins(const split_state *s, bool match)
{
    if (s->begin == s->end) return false;
    switch (s->split->behavior) {
    case CDZ_SPLIT_CONTIGUOUS: return match == s->last_match;
    case CDZ_SPLIT_MERGED_WITH_PREVIOUS: return match && !s->last_match;
    case CDZ_SPLIT_MERGED_WITH_NEXT: return !match && s->last_match;
    case CDZ_SPLIT_ISOLATED:
    case CDZ_SPLIT_REMOVED: break;
    }
    return false;
}

/* Takes the next span, which begins where the last one ended. */
static bool take_span(split_state *s, size_t begin, size_t end, bool match)
{
    if (begin == end) return true;
    match = match != s->split->invert;
    if (!joins(s, match)) {
        if (!flush(s)) return false;
        s->begin = begin;
    }
    s->end = end;
    s->last_match = match;
    if (match && s->split->behavior == CDZ_SPLIT_REMOVED) s->begin = end;
    return true;
}

static bool run_matcher(split_state *s, size_t begin, size_t end)
{
    const uint8_t *text = s->text + begin; /* a pattern sees nothing before or after the piece */
    const size_t n = end - begin;
    size_t done = 0, size;
    for (size_t i = 0; i < n;) {
        const size_t match_end = s->split->match(text, n, i);
        if (match_end == i) {
            cdz_uc_code(text + i, &size);
            i += size;
            continue;
        }
        if (!take_span(s, begin + done, begin + i, false)) return false;
        if (!take_span(s, begin + i, begin + match_end, true)) return false;
        i = done = match_end;
    }
    return take_span(s, begin + done, end, false);
}

static bool run_literal(split_state *s, size_t begin, size_t end)
{
    const cdz_split *split = s->split;
    while (begin < end) {
        const uint8_t *found =
            memmem(s->text + begin, end - begin, split->literal, split->literal_len);
        if (!found) break;
        const size_t at = (size_t)(found - s->text);
        if (!take_span(s, begin, at, false)) return false;
        if (!take_span(s, at, at + split->literal_len, true)) return false;
        begin = at + split->literal_len;
    }
    return take_span(s, begin, end, false);
}

bool cdz_split_run(const cdz_split *split, const uint8_t *text, size_t begin, size_t end,
                   cdz_piece_fn piece, void *context)
{
    split_state s = {.split = split, .text = text, .piece = piece, .context = context};
    const bool ok = split->match ? run_matcher(&s, begin, end) : run_literal(&s, begin, end);
    return ok && flush(&s);
}
