/* postproc.c - the "post_processor" part of a tokenizer.json. */
#include "token/parts.h"

static cdz_status read_byte_level(const cdz_json *part, cdz_postproc *out)
{
    const cdz_json *trim = cdz_json_get(part, "trim_offsets"),
                   *prefix = cdz_json_get(part, "add_prefix_space");
    if (cdz_json_is(trim, CDZ_JSON_BOOL) && !trim->boolean) return CDZ_OK;
    out->trim_offsets = true;
    out->add_prefix_space = !cdz_json_is(prefix, CDZ_JSON_BOOL) || prefix->boolean;
    return CDZ_OK;
}

/* BertProcessing and RobertaProcessing: cls, the text, sep, each given as ["token", id]. */
static cdz_status read_pair_id(const cdz_json *part, const char *key, cdz_template_part *out,
                               cdz_arena *arena, cdz_error *err)
{
    const cdz_json *pair = cdz_json_get(part, key);
    const cdz_json *id =
        cdz_json_is(pair, CDZ_JSON_ARRAY) && pair->len == 2 ? &pair->items[1] : NULL;
    int32_t *list = cdz_arena_array(arena, 1, sizeof *list);
    if (!list) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (!id || !cdz_json_is(id, CDZ_JSON_INT) || id->integer < 0 || id->integer > INT32_MAX)
        return cdz_err(err, CDZ_E_INPUT, "line %u: post_processor: \"%s\" must be [\"token\", id]",
                       part->line, key);
    list[0] = (int32_t)id->integer;
    *out = (cdz_template_part){list, 1};
    return CDZ_OK;
}

static cdz_status read_around(const cdz_json *part, bool roberta, cdz_postproc *out,
                              cdz_arena *arena, cdz_error *err)
{
    if (out->parts)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: post_processor: two that add tokens; supported: one", part->line);
    out->parts = cdz_arena_array(arena, 3, sizeof *out->parts);
    if (!out->parts) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(read_pair_id(part, "cls", &out->parts[0], arena, err));
    CDZ_TRY(read_pair_id(part, "sep", &out->parts[2], arena, err));
    out->n_parts = 3;
    out->n_special = 2;
    return roberta ? read_byte_level(part, out) : CDZ_OK;
}

/* The ids of a special token of the template. They are the file's own: the reference does not
 * look them up. */
static cdz_status read_special(const cdz_json *part, const cdz_json *name, cdz_template_part *out,
                               cdz_arena *arena, cdz_error *err)
{
    const cdz_json *specials = cdz_json_get(part, "special_tokens");
    const cdz_json *entry =
        cdz_json_is(name, CDZ_JSON_STRING) ? cdz_json_get(specials, name->string) : NULL;
    const cdz_json *ids = cdz_json_get(entry, "ids");
    if (!cdz_json_is(ids, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: post_processor: TemplateProcessing uses the special token "
                       "\"%.80s\", which its "
                       "\"special_tokens\" do not give ids for",
                       part->line, cdz_json_is(name, CDZ_JSON_STRING) ? name->string : "");
    int32_t *list = cdz_arena_array(arena, ids->len + 1u, sizeof *list);
    if (!list) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < ids->len; i++) {
        const cdz_json *id = &ids->items[i];
        if (!cdz_json_is(id, CDZ_JSON_INT) || id->integer < 0 || id->integer > INT32_MAX)
            return cdz_err(err, CDZ_E_INPUT,
                           "line %u: post_processor: an id is %s, expected a whole number from 0",
                           id->line, cdz_json_type_name(id));
        list[i] = (int32_t)id->integer;
    }
    *out = (cdz_template_part){list, ids->len};
    return CDZ_OK;
}

static cdz_status read_template(const cdz_json *part, cdz_postproc *out, cdz_arena *arena,
                                cdz_error *err)
{
    const cdz_json *single = cdz_json_get(part, "single");
    if (out->parts)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: post_processor: two that add tokens; supported: one", part->line);
    if (!cdz_json_is(single, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: post_processor: TemplateProcessing needs a list \"single\"",
                       part->line);
    out->parts = cdz_arena_array(arena, single->len + 1u, sizeof *out->parts);
    if (!out->parts) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < single->len; i++) {
        const cdz_json *piece = &single->items[i], *special = cdz_json_get(piece, "SpecialToken");
        cdz_template_part *to = &out->parts[out->n_parts++];
        if (cdz_json_is(cdz_json_get(piece, "Sequence"), CDZ_JSON_OBJECT)) continue;
        CDZ_TRY(read_special(part, cdz_json_get(special, "id"), to, arena, err));
        out->n_special += to->n_ids;
    }
    return CDZ_OK;
}

cdz_status cdz_postproc_read(const cdz_json *part, cdz_postproc *out, cdz_arena *arena,
                             cdz_error *err)
{
    if (!part || cdz_json_is(part, CDZ_JSON_NULL)) return CDZ_OK;
    const cdz_json *type = cdz_json_get(part, "type"), *list = cdz_json_get(part, "processors");
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: post_processor is %s, expected an object with a \"type\"",
                       part->line, cdz_json_type_name(part));
    if (cdz_json_eq(type, "ByteLevel")) return read_byte_level(part, out);
    if (cdz_json_eq(type, "TemplateProcessing")) return read_template(part, out, arena, err);
    if (cdz_json_eq(type, "BertProcessing")) return read_around(part, false, out, arena, err);
    if (cdz_json_eq(type, "RobertaProcessing")) return read_around(part, true, out, arena, err);
    if (!cdz_json_eq(type, "Sequence") || !cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: post_processor of type \"%.60s\"; supported: ByteLevel, "
                       "TemplateProcessing, BertProcessing, RobertaProcessing, Sequence",
                       part->line, type->string);
    for (uint32_t i = 0; i < list->len; i++)
        CDZ_TRY(cdz_postproc_read(&list->items[i], out, arena, err));
    return CDZ_OK;
}
