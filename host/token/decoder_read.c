/* decoder_read.c - the "decoder" part of a tokenizer.json as a chain of steps. */
#include "token/decoder.h"

#include <string.h>

#include "token/json_flag.h"

#define MAX_CONTENT 1024 /* bytes put for one match: bounds what a step can make of a token */

static cdz_status add(cdz_tok_decoder *out, cdz_dec_step step, cdz_error *err)
{
    if (out->n == CDZ_DECODER_MAX)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "decoder: more than %d steps in a row",
                       CDZ_DECODER_MAX);
    out->steps[out->n++] = step;
    return CDZ_OK;
}

/* absent NULL: the member must be there. */
static cdz_status read_text(const cdz_json *part, const char *key, const char *absent,
                            const char **out, size_t *len, cdz_arena *arena, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    const cdz_json standard = {
        .type = CDZ_JSON_STRING, .string = absent, .len = absent ? (uint32_t)strlen(absent) : 0};
    if (!v && absent) v = &standard;
    if (!cdz_json_is(v, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "line %u: decoder: \"%s\" is %s, expected a string",
                       part->line, key, cdz_json_type_name(v));
    *out = cdz_arena_strndup(arena, v->string, v->len);
    *len = v->len;
    return *out ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status read_count(const cdz_json *part, const char *key, size_t *out, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    if (!cdz_json_is(v, CDZ_JSON_INT) || v->integer < 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: decoder: Strip needs \"%s\", a whole number from 0", part->line,
                       key);
    *out = (size_t)v->integer;
    return CDZ_OK;
}

static cdz_status read_replace(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                               cdz_regex **regexes, cdz_error *err)
{
    cdz_dec_step step = {.kind = CDZ_DEC_REPLACE};
    CDZ_TRY(cdz_pattern_read(part, "decoder: Replace", &step.pattern, arena, regexes, err));
    CDZ_TRY(read_text(part, "content", NULL, &step.text, &step.text_len, arena, err));
    if (step.text_len > MAX_CONTENT)
        return cdz_err(err, CDZ_E_LIMIT,
                       "line %u: decoder: Replace puts %zu bytes; at most %d are supported",
                       part->line, step.text_len, MAX_CONTENT);
    return add(out, step, err);
}

static cdz_status read_strip(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                             cdz_error *err)
{
    cdz_dec_step step = {.kind = CDZ_DEC_STRIP};
    size_t size = 0;
    CDZ_TRY(read_text(part, "content", NULL, &step.text, &step.text_len, arena, err));
    CDZ_TRY(read_count(part, "start", &step.start, err));
    CDZ_TRY(read_count(part, "stop", &step.stop, err));
    if (step.text_len > 0) cdz_uc_code((const uint8_t *)step.text, &size);
    if (size == 0 || size != step.text_len)
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: decoder: Strip: \"content\" must be one character", part->line);
    return add(out, step, err);
}

static cdz_status read_metaspace(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                                 cdz_error *err)
{
    cdz_cut cut;
    CDZ_TRY(cdz_metaspace_read(part, "decoder: Metaspace", &cut, arena, err));
    return add(out,
               (cdz_dec_step){.kind = CDZ_DEC_METASPACE,
                              .pattern = cut.split.pattern,
                              .keeps_first = cut.scheme == CDZ_PREPEND_NEVER},
               err);
}

static cdz_status read_wordpiece(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                                 cdz_error *err)
{
    cdz_dec_step step = {.kind = CDZ_DEC_WORDPIECE};
    CDZ_TRY(read_text(part, "prefix", "##", &step.text, &step.text_len, arena, err));
    CDZ_TRY(cdz_json_flag(part, "decoder", "cleanup", true, &step.cleanup, err));
    return add(out, step, err);
}

static cdz_status read_bpe(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                           cdz_error *err)
{
    cdz_dec_step step = {.kind = CDZ_DEC_BPE};
    CDZ_TRY(read_text(part, "suffix", "</w>", &step.text, &step.text_len, arena, err));
    if (step.text_len == 0)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: decoder: BPEDecoder with an empty \"suffix\"", part->line);
    return add(out, step, err);
}

static cdz_status read_ctc(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                           cdz_error *err)
{
    cdz_dec_step step = {.kind = CDZ_DEC_CTC};
    CDZ_TRY(read_text(part, "pad_token", "<pad>", &step.text, &step.text_len, arena, err));
    CDZ_TRY(read_text(part, "word_delimiter_token", "|", &step.delimiter, &step.delimiter_len,
                      arena, err));
    CDZ_TRY(cdz_json_flag(part, "decoder", "cleanup", true, &step.cleanup, err));
    return add(out, step, err);
}

static cdz_status read_stretches(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                                 cdz_error *err)
{
    const cdz_json *list = cdz_json_get(part, "between");
    cdz_dec_step step = {.kind = CDZ_DEC_STRETCHES};
    bool again;
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "line %u: decoder: SentencePiece needs a list \"between\"",
                       part->line);
    if (!cdz_strmap_init(&step.between, arena, list->len + 1))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *v = &list->items[i];
        if (!cdz_json_is(v, CDZ_JSON_STRING))
            return cdz_err(err, CDZ_E_INPUT, "line %u: decoder: \"between\" has %s, expected texts",
                           v->line, cdz_json_type_name(v));
        const char *text = cdz_arena_strndup(arena, v->string, v->len);
        if (!text) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
        cdz_strmap_put(&step.between, text, v->len, 0, &again);
    }
    return add(out, step, err);
}

static cdz_status read_part(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err);

static cdz_status read_sequence(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                                cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *list = cdz_json_get(part, "decoders");
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "line %u: decoder: Sequence needs a list \"decoders\"",
                       part->line);
    for (uint32_t i = 0; i < list->len; i++)
        CDZ_TRY(read_part(&list->items[i], out, arena, regexes, err));
    return CDZ_OK;
}

static cdz_status read_part(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *type = cdz_json_get(part, "type");
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: decoder is %s, expected an object with a \"type\"", part->line,
                       cdz_json_type_name(part));
    if (cdz_json_eq(type, "ByteLevel"))
        return add(out, (cdz_dec_step){.kind = CDZ_DEC_BYTE_LEVEL}, err);
    if (cdz_json_eq(type, "Fuse")) return add(out, (cdz_dec_step){.kind = CDZ_DEC_FUSE}, err);
    if (cdz_json_eq(type, "Replace")) return read_replace(part, out, arena, regexes, err);
    if (cdz_json_eq(type, "Strip")) return read_strip(part, out, arena, err);
    if (cdz_json_eq(type, "Metaspace")) return read_metaspace(part, out, arena, err);
    if (cdz_json_eq(type, "WordPiece")) return read_wordpiece(part, out, arena, err);
    if (cdz_json_eq(type, "BPEDecoder")) return read_bpe(part, out, arena, err);
    if (cdz_json_eq(type, "CTC")) return read_ctc(part, out, arena, err);
    if (cdz_json_eq(type, "SentencePiece")) return read_stretches(part, out, arena, err);
    if (cdz_json_eq(type, "Sequence")) return read_sequence(part, out, arena, regexes, err);
    if (!cdz_json_eq(type, "ByteFallback"))
        return cdz_err(
            err, CDZ_E_UNSUPPORTED,
            "line %u: decoder of type \"%.60s\"; supported: ByteLevel, ByteFallback, Fuse, "
            "Strip, Replace, Metaspace, WordPiece, BPEDecoder, CTC, Sequence",
            type->line, type->string);
    out->byte_fallback = true;
    return add(out, (cdz_dec_step){.kind = CDZ_DEC_BYTE_FALLBACK}, err);
}

cdz_status cdz_decoder_read(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err)
{
    if (!part || cdz_json_is(part, CDZ_JSON_NULL))
        return add(out, (cdz_dec_step){.kind = CDZ_DEC_JOIN}, err);
    CDZ_TRY(read_part(part, out, arena, regexes, err));
    out->byte_level = out->n == 1 && out->steps[0].kind == CDZ_DEC_BYTE_LEVEL;
    return CDZ_OK;
}
