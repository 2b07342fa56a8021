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
    *out = (cdz_template_part){.ids = list, .n_ids = 1};
    return CDZ_OK;
}

/* single: cls a sep. pair: the same with b sep (bert) or sep b sep (roberta). */
static cdz_status read_around(const cdz_json *part, bool roberta, cdz_postproc *out,
                              cdz_arena *arena, cdz_error *err)
{
    const uint32_t n = roberta ? 6 : 5;
    if (out->parts)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: post_processor: two that add tokens; supported: one", part->line);
    cdz_template_part *single = cdz_arena_array(arena, 3, sizeof *single),
                      *pair = cdz_arena_array(arena, n, sizeof *pair);
    if (!single || !pair) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(read_pair_id(part, "cls", &single[0], arena, err));
    CDZ_TRY(read_pair_id(part, "sep", &single[2], arena, err));
    for (uint32_t i = 0; i < 3; i++) pair[i] = single[i];
    if (roberta) pair[3] = single[2];
    pair[n - 2] = (cdz_template_part){.second = true, .type = roberta ? 0 : 1};
    pair[n - 1] = single[2];
    pair[n - 1].type = roberta ? 0 : 1;
    out->parts = single;
    out->n_parts = 3;
    out->n_special = 2;
    out->pair_parts = pair;
    out->n_pair_parts = n;
    out->n_pair_special = n - 2;
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
    *out = (cdz_template_part){.ids = list, .n_ids = ids->len};
    return CDZ_OK;
}

static cdz_status read_type(const cdz_json *piece, cdz_template_part *to, cdz_error *err)
{
    const cdz_json *type = cdz_json_get(piece, "type_id");
    if (!type) return CDZ_OK;
    if (!cdz_json_is(type, CDZ_JSON_INT) || type->integer < 0 || type->integer > INT32_MAX)
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: post_processor: a type_id is %s, expected a whole number from 0",
                       type->line, cdz_json_type_name(type));
    to->type = (uint32_t)type->integer;
    return CDZ_OK;
}

/* The pieces of one list: its parts, how many, and the ids they add. */
static cdz_status read_pieces(const cdz_json *part, const cdz_json *list, cdz_template_part **parts,
                              uint32_t *n_parts, uint32_t *n_special, cdz_arena *arena,
                              cdz_error *err)
{
    *parts = cdz_arena_array(arena, list->len + 1u, sizeof **parts);
    if (!*parts) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *special = cdz_json_get(&list->items[i], "SpecialToken"),
                       *text = cdz_json_get(&list->items[i], "Sequence");
        cdz_template_part *to = &(*parts)[(*n_parts)++];
        if (cdz_json_is(text, CDZ_JSON_OBJECT)) {
            to->second = cdz_json_eq(cdz_json_get(text, "id"), "B");
            CDZ_TRY(read_type(text, to, err));
            continue;
        }
        CDZ_TRY(read_special(part, cdz_json_get(special, "id"), to, arena, err));
        CDZ_TRY(read_type(special, to, err));
        *n_special += to->n_ids;
    }
    return CDZ_OK;
}

static cdz_status read_template(const cdz_json *part, cdz_postproc *out, cdz_arena *arena,
                                cdz_error *err)
{
    const cdz_json *single = cdz_json_get(part, "single"), *pair = cdz_json_get(part, "pair");
    if (out->parts)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "line %u: post_processor: two that add tokens; supported: one", part->line);
    if (!cdz_json_is(single, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: post_processor: TemplateProcessing needs a list \"single\"",
                       part->line);
    CDZ_TRY(read_pieces(part, single, &out->parts, &out->n_parts, &out->n_special, arena, err));
    if (!cdz_json_is(pair, CDZ_JSON_ARRAY)) return CDZ_OK;
    return read_pieces(part, pair, &out->pair_parts, &out->n_pair_parts, &out->n_pair_special,
                       arena, err);
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
