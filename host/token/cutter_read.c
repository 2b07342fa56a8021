/* cutter_read.c - the "pre_tokenizer" part of a tokenizer.json as a chain of cuts. */
#include "token/cutter.h"
#include "token/json_flag.h"
#include "token/text_class.h"

/* --- matchers of one character ---------------------------------------------------------------- */

static size_t scan_space(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    (void)n;
    return cdz_uc_at(t + i, &size) & CDZ_UC_SPACE ? i + size : i;
}

static size_t scan_punctuation(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    (void)n;
    return cdz_text_is(CDZ_TC_PUNCTUATION, cdz_uc_code(t + i, &size)) ? i + size : i;
}

static size_t scan_bert_punctuation(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    (void)n;
    return cdz_text_is(CDZ_TC_BERT_PUNCTUATION, cdz_uc_code(t + i, &size)) ? i + size : i;
}

/* \w+|[^\w\s]+ as the engine of the Whitespace pre-tokenizer sees it. */
static size_t scan_word(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    const unsigned mask = CDZ_UC_WORD | CDZ_UC_SPACE, kind = cdz_uc_at(t + i, &size) & mask;
    if (kind != 0 && kind != CDZ_UC_WORD) return i;
    for (; i < n && (cdz_uc_at(t + i, &size) & mask) == kind; i += size) continue;
    return i;
}

/* --- members ---------------------------------------------------------------------------------- */

/* One character as text. */
static cdz_status read_char(const cdz_json *part, const char *what, const char *key,
                            cdz_pattern *out, cdz_arena *arena, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    size_t size = 0;
    if (cdz_json_is(v, CDZ_JSON_STRING) && v->len > 0)
        cdz_uc_code((const uint8_t *)v->string, &size);
    if (size == 0 || size != v->len)
        return cdz_err(err, CDZ_E_INPUT, "line %u: %s: \"%s\" must be one character", part->line,
                       what, key);
    out->literal = cdz_arena_strndup(arena, v->string, v->len);
    out->literal_len = v->len;
    return out->literal ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status add(cdz_cutter *out, cdz_cut cut, cdz_error *err)
{
    if (out->n == CDZ_CUTTER_MAX)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "pre_tokenizer: more than %d cuts in a row",
                       CDZ_CUTTER_MAX);
    out->cuts[out->n++] = cut;
    return CDZ_OK;
}

static cdz_status add_match(cdz_cutter *out, cdz_match_fn match, cdz_split_behavior behavior,
                            bool invert, cdz_error *err)
{
    const cdz_split split = {.pattern.match = match, .behavior = behavior, .invert = invert};
    return add(out, (cdz_cut){.kind = CDZ_CUT_SPLIT, .split = split}, err);
}

/* --- parts ------------------------------------------------------------------------------------ */

static cdz_status read_behavior(const cdz_json *part, bool optional, cdz_split_behavior *out,
                                cdz_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    const cdz_json *v = cdz_json_get(part, "behavior");
    *out = CDZ_SPLIT_ISOLATED;
    if (!v && optional) return CDZ_OK;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!cdz_json_eq(v, names[i])) continue;
        *out = (cdz_split_behavior)i;
        return CDZ_OK;
    }
    return cdz_err(err, CDZ_E_INPUT,
                   "line %u: pre_tokenizer: %s needs a \"behavior\": Isolated, Removed, Contiguous, "
                   "MergedWithPrevious or MergedWithNext",
                   part->line, cdz_json_get(part, "type")->string);
}

static cdz_status read_split(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                             cdz_regex **regexes, cdz_error *err)
{
    cdz_cut cut = {.kind = CDZ_CUT_SPLIT};
    CDZ_TRY(cdz_pattern_read(part, "pre_tokenizer: Split", &cut.split.pattern, arena, regexes, err));
    CDZ_TRY(read_behavior(part, false, &cut.split.behavior, err));
    CDZ_TRY(cdz_json_flag(part, "pre_tokenizer", "invert", false, &cut.split.invert, err));
    return add(out, cut, err);
}

static cdz_status read_digits(const cdz_json *part, cdz_cutter *out, cdz_error *err)
{
    bool individual;
    CDZ_TRY(cdz_json_flag(part, "pre_tokenizer", "individual_digits", false, &individual, err));
    return add_match(out, cdz_scan_digit, individual ? CDZ_SPLIT_ISOLATED : CDZ_SPLIT_CONTIGUOUS,
                     false, err);
}

static cdz_status read_punctuation(const cdz_json *part, cdz_cutter *out, cdz_error *err)
{
    cdz_split_behavior behavior;
    CDZ_TRY(read_behavior(part, true, &behavior, err));
    return add_match(out, scan_punctuation, behavior, false, err);
}

static cdz_status read_delimiter(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                                 cdz_error *err)
{
    cdz_cut cut = {.kind = CDZ_CUT_SPLIT, .split.behavior = CDZ_SPLIT_REMOVED};
    CDZ_TRY(read_char(part, "pre_tokenizer: CharDelimiterSplit", "delimiter", &cut.split.pattern,
                      arena, err));
    return add(out, cut, err);
}

static cdz_status read_fixed(const cdz_json *part, cdz_cutter *out, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, "length");
    cdz_cut cut = {.kind = CDZ_CUT_FIXED, .length = 5};
    if (v && (!cdz_json_is(v, CDZ_JSON_INT) || v->integer < 1 || v->integer > INT32_MAX))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: pre_tokenizer: FixedLength needs a \"length\" of 1 or more",
                       v->line);
    if (v) cut.length = (uint32_t)v->integer;
    return add(out, cut, err);
}

static cdz_status read_byte_level(const cdz_json *part, cdz_cutter *out, cdz_error *err)
{
    cdz_cut cut = {.kind = CDZ_CUT_BYTE_LEVEL, .split.pattern.match = cdz_scan_gpt2};
    CDZ_TRY(cdz_json_flag(part, "pre_tokenizer", "add_prefix_space", true, &cut.prefix, err));
    CDZ_TRY(cdz_json_flag(part, "pre_tokenizer", "use_regex", true, &cut.cuts_first, err));
    return add(out, cut, err);
}

/* Old files say add_prefix_space in place of prepend_scheme. */
static cdz_status read_scheme(const cdz_json *part, const char *what, cdz_prepend_scheme *out,
                              cdz_error *err)
{
    const cdz_json *scheme = cdz_json_get(part, "prepend_scheme"),
                   *prefix = cdz_json_get(part, "add_prefix_space");
    *out = CDZ_PREPEND_ALWAYS;
    if (cdz_json_eq(scheme, "first")) *out = CDZ_PREPEND_FIRST;
    if (cdz_json_eq(scheme, "never")) *out = CDZ_PREPEND_NEVER;
    if (scheme && *out == CDZ_PREPEND_ALWAYS && !cdz_json_eq(scheme, "always"))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: %s: \"prepend_scheme\" must be \"always\", \"first\" or \"never\"",
                       scheme->line, what);
    if (!cdz_json_is(prefix, CDZ_JSON_BOOL) || prefix->boolean) return CDZ_OK;
    if (scheme && *out != CDZ_PREPEND_NEVER)
        return cdz_err(
            err, CDZ_E_INPUT,
            "line %u: %s: \"add_prefix_space\" and \"prepend_scheme\" contradict each other",
            part->line, what);
    *out = CDZ_PREPEND_NEVER;
    return CDZ_OK;
}

cdz_status cdz_metaspace_read(const cdz_json *part, const char *what, cdz_cut *out,
                              cdz_arena *arena, cdz_error *err)
{
    *out = (cdz_cut){.kind = CDZ_CUT_METASPACE, .split.behavior = CDZ_SPLIT_MERGED_WITH_NEXT};
    CDZ_TRY(read_char(part, what, "replacement", &out->split.pattern, arena, err));
    CDZ_TRY(read_scheme(part, what, &out->scheme, err));
    return cdz_json_flag(part, "pre_tokenizer", "split", true, &out->cuts_first, err);
}

static cdz_status read_metaspace(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                                 cdz_error *err)
{
    cdz_cut cut;
    CDZ_TRY(cdz_metaspace_read(part, "pre_tokenizer: Metaspace", &cut, arena, err));
    return add(out, cut, err);
}

static cdz_status read_bert(cdz_cutter *out, cdz_error *err)
{
    CDZ_TRY(add_match(out, scan_space, CDZ_SPLIT_REMOVED, false, err));
    return add_match(out, scan_bert_punctuation, CDZ_SPLIT_ISOLATED, false, err);
}

static cdz_status read_part(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err);

static cdz_status read_sequence(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                                cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *list = cdz_json_get(part, "pretokenizers");
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: pre_tokenizer: Sequence needs a list \"pretokenizers\"",
                       part->line);
    for (uint32_t i = 0; i < list->len; i++)
        CDZ_TRY(read_part(&list->items[i], out, arena, regexes, err));
    return CDZ_OK;
}

static cdz_status read_plain(const cdz_json *type, cdz_cutter *out, cdz_error *err)
{
    if (cdz_json_eq(type, "Whitespace"))
        return add_match(out, scan_word, CDZ_SPLIT_REMOVED, true, err);
    if (cdz_json_eq(type, "WhitespaceSplit"))
        return add_match(out, scan_space, CDZ_SPLIT_REMOVED, false, err);
    if (cdz_json_eq(type, "BertPreTokenizer")) return read_bert(out, err);
    if (cdz_json_eq(type, "UnicodeScripts"))
        return add(out, (cdz_cut){.kind = CDZ_CUT_SCRIPTS}, err);
    return cdz_err(
        err, CDZ_E_UNSUPPORTED,
        "line %u: pre_tokenizer of type \"%.60s\"; supported: ByteLevel, Split, Metaspace, "
        "Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, "
        "CharDelimiterSplit, UnicodeScripts, FixedLength, Sequence",
        type->line, type->string);
}

static cdz_status read_part(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *type = cdz_json_get(part, "type");
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: pre_tokenizer is %s, expected an object with a \"type\"",
                       part->line, cdz_json_type_name(part));
    if (cdz_json_eq(type, "ByteLevel")) return read_byte_level(part, out, err);
    if (cdz_json_eq(type, "Split")) return read_split(part, out, arena, regexes, err);
    if (cdz_json_eq(type, "Digits")) return read_digits(part, out, err);
    if (cdz_json_eq(type, "Metaspace")) return read_metaspace(part, out, arena, err);
    if (cdz_json_eq(type, "Punctuation")) return read_punctuation(part, out, err);
    if (cdz_json_eq(type, "CharDelimiterSplit")) return read_delimiter(part, out, arena, err);
    if (cdz_json_eq(type, "FixedLength")) return read_fixed(part, out, err);
    if (cdz_json_eq(type, "Sequence")) return read_sequence(part, out, arena, regexes, err);
    return read_plain(type, out, err);
}

cdz_status cdz_cutter_read(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                           cdz_regex **regexes, cdz_error *err)
{
    if (!part || cdz_json_is(part, CDZ_JSON_NULL)) return CDZ_OK;
    return read_part(part, out, arena, regexes, err);
}
