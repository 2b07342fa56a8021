/* normalizer_read.c - the "normalizer" part of a tokenizer.json as a chain of steps. */
#include "token/json_flag.h"
#include "token/normalizer.h"

static cdz_status read_text(const cdz_json *part, const char *key, cdz_norm_step *step,
                            cdz_arena *arena, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    if (!cdz_json_is(v, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "line %u: normalizer: \"%s\" is %s, expected a string",
                       part->line, key, cdz_json_type_name(v));
    step->content = cdz_arena_strndup(arena, v->string, v->len);
    step->content_len = v->len;
    return step->content ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

/* A form of text that is in that form already changes nothing. */
static cdz_status add(cdz_normalizer *out, cdz_norm_step step, cdz_error *err)
{
    if (out->n > 0 && step.kind == CDZ_NORM_FORM) {
        const cdz_norm_step *last = &out->steps[out->n - 1];
        if (last->kind == CDZ_NORM_FORM && last->form == step.form) return CDZ_OK;
    }
    if (out->n == CDZ_NORM_MAX_STEPS)
        return cdz_err(err, CDZ_E_LIMIT, "normalizer: more than %d steps in a row",
                       CDZ_NORM_MAX_STEPS);
    out->steps[out->n++] = step;
    return CDZ_OK;
}

static cdz_status add_class(cdz_normalizer *out, cdz_tok_norm_kind kind, cdz_text_class text_class,
                            cdz_error *err)
{
    return add(out, (cdz_norm_step){.kind = kind, .text_class = text_class}, err);
}

/* --- parts ------------------------------------------------------------------------------------ */

static cdz_status read_bert(const cdz_json *part, cdz_normalizer *out, cdz_error *err)
{
    bool clean, chinese, lower, accents;
    CDZ_TRY(cdz_json_flag(part, "normalizer", "clean_text", true, &clean, err));
    CDZ_TRY(cdz_json_flag(part, "normalizer", "handle_chinese_chars", true, &chinese, err));
    CDZ_TRY(cdz_json_flag(part, "normalizer", "lowercase", true, &lower, err));
    CDZ_TRY(cdz_json_flag(part, "normalizer", "strip_accents", lower, &accents, err));
    if (clean) {
        CDZ_TRY(add_class(out, CDZ_NORM_DROP, CDZ_TC_BERT_DROPPED, err));
        CDZ_TRY(add_class(out, CDZ_NORM_BLANK, CDZ_TC_BERT_BLANK, err));
    }
    if (chinese) CDZ_TRY(add(out, (cdz_norm_step){.kind = CDZ_NORM_CHINESE}, err));
    if (accents) {
        CDZ_TRY(add(out, (cdz_norm_step){.kind = CDZ_NORM_FORM, .form = CDZ_NFD}, err));
        CDZ_TRY(add_class(out, CDZ_NORM_DROP, CDZ_TC_BERT_ACCENT, err));
    }
    return lower ? add(out, (cdz_norm_step){.kind = CDZ_NORM_LOWER}, err) : CDZ_OK;
}

static cdz_status read_strip(const cdz_json *part, cdz_normalizer *out, cdz_error *err)
{
    cdz_norm_step step = {.kind = CDZ_NORM_STRIP};
    CDZ_TRY(cdz_json_flag(part, "normalizer", "strip_left", true, &step.left, err));
    CDZ_TRY(cdz_json_flag(part, "normalizer", "strip_right", true, &step.right, err));
    return add(out, step, err);
}

static cdz_status read_replace(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                               cdz_regex **regexes, cdz_error *err)
{
    cdz_norm_step step = {.kind = CDZ_NORM_REPLACE};
    CDZ_TRY(cdz_pattern_read(part, "normalizer: Replace", &step.pattern, arena, regexes, err));
    CDZ_TRY(read_text(part, "content", &step, arena, err));
    return add(out, step, err);
}

static cdz_status read_prepend(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                               cdz_error *err)
{
    cdz_norm_step step = {.kind = CDZ_NORM_PREPEND};
    CDZ_TRY(read_text(part, "prepend", &step, arena, err));
    return add(out, step, err);
}

static cdz_status read_charsmap(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                                cdz_error *err)
{
    const cdz_json *map = cdz_json_get(part, "precompiled_charsmap");
    cdz_norm_step step = {.kind = CDZ_NORM_CHARSMAP};
    if (cdz_json_is(map, CDZ_JSON_NULL) || (cdz_json_is(map, CDZ_JSON_STRING) && map->len == 0))
        return CDZ_OK;
    if (!cdz_json_is(map, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: normalizer: \"precompiled_charsmap\" is %s, expected a string",
                       part->line, cdz_json_type_name(map));
    CDZ_TRY(cdz_json_flag(part, "normalizer", "longest", false, &step.longest, err));
    CDZ_TRY(cdz_charsmap_read(map, &step.map, arena, err));
    return add(out, step, err);
}

static cdz_status read_sequence(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                                cdz_regex **regexes, cdz_error *err);

static cdz_status read_plain(const cdz_json *type, cdz_normalizer *out, cdz_error *err)
{
    static const struct {
        const char *name;
        cdz_norm_step step;
    } plain[] = {
        {"NFC", {.kind = CDZ_NORM_FORM, .form = CDZ_NFC}},
        {"NFD", {.kind = CDZ_NORM_FORM, .form = CDZ_NFD}},
        {"NFKC", {.kind = CDZ_NORM_FORM, .form = CDZ_NFKC}},
        {"NFKD", {.kind = CDZ_NORM_FORM, .form = CDZ_NFKD}},
        {"Lowercase", {.kind = CDZ_NORM_LOWER}},
        {"StripAccents", {.kind = CDZ_NORM_DROP, .text_class = CDZ_TC_ACCENT}},
        {"ByteLevel", {.kind = CDZ_NORM_BYTES}},
    };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (cdz_json_eq(type, plain[i].name)) return add(out, plain[i].step, err);
    return cdz_err(
        err, CDZ_E_UNSUPPORTED,
        "line %u: normalizer of type \"%.60s\"; supported: NFC, NFD, NFKC, NFKD, Lowercase, "
        "StripAccents, Strip, Replace, Prepend, Precompiled, Nmt, BertNormalizer, ByteLevel, "
        "Sequence",
        type->line, type->string);
}

static cdz_status read_part(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *type = cdz_json_get(part, "type");
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: normalizer is %s, expected an object with a \"type\"", part->line,
                       cdz_json_type_name(part));
    if (cdz_json_eq(type, "Sequence")) return read_sequence(part, out, arena, regexes, err);
    if (cdz_json_eq(type, "Replace")) return read_replace(part, out, arena, regexes, err);
    if (cdz_json_eq(type, "Prepend")) return read_prepend(part, out, arena, err);
    if (cdz_json_eq(type, "Strip")) return read_strip(part, out, err);
    if (cdz_json_eq(type, "BertNormalizer")) return read_bert(part, out, err);
    if (cdz_json_eq(type, "Precompiled")) return read_charsmap(part, out, arena, err);
    if (!cdz_json_eq(type, "Nmt")) return read_plain(type, out, err);
    CDZ_TRY(add_class(out, CDZ_NORM_DROP, CDZ_TC_NMT_DROPPED, err));
    return add_class(out, CDZ_NORM_BLANK, CDZ_TC_NMT_BLANK, err);
}

/* As deep as the JSON reader lets a file nest. */
static cdz_status read_sequence(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                                cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *list = cdz_json_get(part, "normalizers");
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: normalizer: Sequence needs a list \"normalizers\"", part->line);
    for (uint32_t i = 0; i < list->len; i++)
        CDZ_TRY(read_part(&list->items[i], out, arena, regexes, err));
    return CDZ_OK;
}

cdz_status cdz_normalizer_read(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                               cdz_regex **regexes, cdz_error *err)
{
    if (!part || cdz_json_is(part, CDZ_JSON_NULL)) return CDZ_OK;
    out->steps = cdz_arena_array(arena, CDZ_NORM_MAX_STEPS, sizeof *out->steps);
    if (!out->steps) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    return read_part(part, out, arena, regexes, err);
}
