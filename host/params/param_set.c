/* param_set.c - one JSON value into one field: type, range, finiteness, then a copy into the arena. */
#include <math.h>
#include <string.h>

#include "params/param_types.h"

enum { SHOWN_VALUE = 80 }; /* bytes of a bad value that a sentence repeats */

/* "window = 0: must be 1 to 65536", with the reason where there is one. */
static cdz_status refuse(const cdz_param *param, const cdz_json *value, const char *why,
                         cdz_error *err)
{
    cdz_buf shown = {0}, range = {0};
    cdz_json_write(&shown, value);
    if (shown.data && shown.len > SHOWN_VALUE) {
        shown.len = SHOWN_VALUE;
        while (((unsigned char)shown.data[shown.len] & 0xC0) == 0x80) shown.len--;
        shown.data[shown.len] = '\0';
        cdz_buf_puts(&shown, "...");
    }
    bool integer = param->type == CDZ_T_INT || param->type == CDZ_T_OPT_INT;
    cdz_param_describe(param, &range);
    const char *whole =
        integer && value->type != CDZ_JSON_INT && range.data && !strstr(range.data, "integer")
            ? "an integer, "
            : "";
    cdz_status st = cdz_err(err, CDZ_E_USAGE, "%s = %s: must be %s%s%s", param->name,
                            shown.data ? shown.data : "?", whole,
                            range.data ? range.data : "another", why ? why : "");
    cdz_buf_free(&shown);
    cdz_buf_free(&range);
    return st;
}

static bool in_range(const cdz_param *param, double value)
{
    if (!isfinite(value) || value < param->min || value > param->max) return false;
    if ((param->flags & CDZ_ABOVE_MIN) && value == param->min) return false;
    return !((param->flags & CDZ_BELOW_MAX) && value == param->max);
}

static bool good_int(const cdz_param *param, const cdz_json *value)
{
    return value->type == CDZ_JSON_INT && in_range(param, (double)value->integer);
}

static bool good_real(const cdz_param *param, const cdz_json *value, double *out)
{
    return cdz_json_number(value, out) && in_range(param, *out);
}

/* --- one value ------------------------------------------------------------------------------------------- */

static cdz_status set_bool(const cdz_param *param, void *field, const cdz_json *value,
                           cdz_error *err)
{
    if (value->type != CDZ_JSON_BOOL) return refuse(param, value, NULL, err);
    if (param->type == CDZ_T_BOOL)
        *(bool *)field = value->boolean;
    else
        *(cdz_opt_bool *)field = (cdz_opt_bool){value->boolean, true};
    return CDZ_OK;
}

static cdz_status set_int(const cdz_param *param, void *field, const cdz_json *value, cdz_error *err)
{
    if (!good_int(param, value)) return refuse(param, value, NULL, err);
    if (param->type == CDZ_T_INT)
        *(int64_t *)field = value->integer;
    else
        *(cdz_opt_int *)field = (cdz_opt_int){value->integer, true};
    return CDZ_OK;
}

static cdz_status set_real(const cdz_param *param, void *field, const cdz_json *value,
                           cdz_error *err)
{
    double number;
    bool is_int = value->type == CDZ_JSON_INT;

    if (!good_real(param, value, &number)) return refuse(param, value, NULL, err);
    if (is_int && (param->flags & CDZ_STRICT_REAL) && number != param->def)
        return refuse(param, value, ", written with a fraction (2.0, not 2)", err);
    if (param->type == CDZ_T_REAL)
        *(double *)field = number;
    else
        *(cdz_opt_real *)field = (cdz_opt_real){number, true, is_int};
    return CDZ_OK;
}

static cdz_status set_string(const cdz_param *param, void *field, const cdz_json *value,
                             cdz_arena *arena, cdz_error *err)
{
    if (value->type != CDZ_JSON_STRING) return refuse(param, value, NULL, err);
    if (memchr(value->string, 0, value->len))
        return refuse(param, value, " without a NUL character", err);
    const char *copy = cdz_arena_strndup(arena, value->string, value->len);
    if (!copy) return cdz_err_memory_in(err, param->name);
    *(const char **)field = copy;
    return CDZ_OK;
}

/* The index of a string among "a|b|c", or -1. */
static int32_t word_index(const cdz_param *param, const cdz_json *value)
{
    int32_t index = 0;
    for (const char *at = param->text; at; index++) {
        size_t len = strcspn(at, "|");
        if (len == value->len && memcmp(at, value->string, len) == 0) return index;
        at = at[len] ? at + len + 1 : NULL;
    }
    return -1;
}

static cdz_status set_word(const cdz_param *param, cdz_word *field, const cdz_json *value,
                           cdz_error *err)
{
    bool or_bool = param->type == CDZ_T_BOOL_OR_WORD;
    int32_t index = -1;

    if (or_bool && value->type == CDZ_JSON_BOOL) {
        index = value->boolean;
    } else if (value->type == CDZ_JSON_STRING) {
        index = word_index(param, value);
        if (or_bool && index >= 0) index += 2;
    }
    if (index < 0) return refuse(param, value, NULL, err);
    *field = (cdz_word){index, true};
    return CDZ_OK;
}

/* --- lists ----------------------------------------------------------------------------------------------- */

/* The items of an array, or the value itself as a list of one. */
static const cdz_json *items_of(const cdz_json *value, uint32_t *n)
{
    *n = value->type == CDZ_JSON_ARRAY ? value->len : 1;
    return value->type == CDZ_JSON_ARRAY ? value->items : value;
}

/* whole: the parameter's value, for the sentence. */
static cdz_status ints_from(const cdz_param *param, const cdz_json *whole, const cdz_json *items,
                            uint32_t n, cdz_int_list *out, cdz_arena *arena, cdz_error *err)
{
    int64_t *at = cdz_arena_array(arena, n, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].type != CDZ_JSON_INT ||
            (param->type != CDZ_T_WEIGHTED && !good_int(param, &items[i])))
            return refuse(param, whole, NULL, err);
        at[i] = items[i].integer;
    }
    *out = (cdz_int_list){at, n, true};
    return CDZ_OK;
}

static cdz_status set_ints(const cdz_param *param, cdz_int_list *field, const cdz_json *value,
                           cdz_arena *arena, cdz_error *err)
{
    uint32_t n;
    const cdz_json *items = items_of(value, &n);
    return ints_from(param, value, items, n, field, arena, err);
}

static cdz_status set_reals(const cdz_param *param, cdz_real_list *field, const cdz_json *value,
                            cdz_arena *arena, cdz_error *err)
{
    uint32_t n;
    const cdz_json *items = items_of(value, &n);
    double *at = cdz_arena_array(arena, n, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < n; i++)
        if (!good_real(param, &items[i], &at[i])) return refuse(param, value, NULL, err);
    *field = (cdz_real_list){at, n, true};
    return CDZ_OK;
}

static cdz_status set_strings(const cdz_param *param, cdz_string_list *field, const cdz_json *value,
                              cdz_arena *arena, cdz_error *err)
{
    uint32_t n;
    const cdz_json *items = items_of(value, &n);
    cdz_string *at = cdz_arena_array(arena, n, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].type != CDZ_JSON_STRING) return refuse(param, value, NULL, err);
        at[i].at = cdz_arena_strndup(arena, items[i].string, items[i].len);
        at[i].len = items[i].len;
        if (!at[i].at) return cdz_err_memory_in(err, param->name);
    }
    *field = (cdz_string_list){at, n, true};
    return CDZ_OK;
}

static cdz_status set_int_lists(const cdz_param *param, cdz_int_lists *field, const cdz_json *value,
                                cdz_arena *arena, cdz_error *err)
{
    if (value->type != CDZ_JSON_ARRAY) return refuse(param, value, NULL, err);
    cdz_int_list *at = cdz_arena_array(arena, value->len, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < value->len; i++) {
        const cdz_json *list = &value->items[i];
        if (list->type != CDZ_JSON_ARRAY) return refuse(param, value, NULL, err);
        CDZ_TRY(ints_from(param, value, list->items, list->len, &at[i], arena, err));
    }
    *field = (cdz_int_lists){at, value->len, true};
    return CDZ_OK;
}

/* Weights may be infinite, which JSON cannot say as a number. */
static bool weight_of(const cdz_json *value, cdz_weighted *out)
{
    out->weight_is_int = value->type == CDZ_JSON_INT;
    if (cdz_json_eq(value, "-inf"))
        out->weight = -INFINITY;
    else if (cdz_json_eq(value, "inf"))
        out->weight = INFINITY;
    else
        return cdz_json_number(value, &out->weight);
    return true;
}

/* [[ids, weight], ...]; {"mapping": [[ids, weight], ...]} is the same written as a mapping from sequences. */
static cdz_status set_weighted(const cdz_param *param, cdz_weighted_list *field,
                               const cdz_json *value, cdz_arena *arena, cdz_error *err)
{
    bool is_map = value->type == CDZ_JSON_OBJECT && value->len == 1;
    const cdz_json *pairs = is_map ? cdz_json_get(value, "mapping") : value;
    if (!cdz_json_is(pairs, CDZ_JSON_ARRAY)) return refuse(param, value, NULL, err);

    cdz_weighted *at = cdz_arena_array(arena, pairs->len, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < pairs->len; i++) {
        const cdz_json *pair = &pairs->items[i];
        if (pair->type != CDZ_JSON_ARRAY || pair->len != 2 ||
            pair->items[0].type != CDZ_JSON_ARRAY || !weight_of(&pair->items[1], &at[i]))
            return refuse(param, value, NULL, err);
        CDZ_TRY(ints_from(param, value, pair->items[0].items, pair->items[0].len, &at[i].ids, arena,
                          err));
    }
    *field = (cdz_weighted_list){at, pairs->len, true, is_map};
    return CDZ_OK;
}

static cdz_status set_int_real(const cdz_param *param, cdz_int_real *field, const cdz_json *value,
                               cdz_error *err)
{
    double second;
    if (value->type != CDZ_JSON_ARRAY || value->len != 2 || value->items[0].type != CDZ_JSON_INT ||
        !cdz_json_number(&value->items[1], &second))
        return refuse(param, value, NULL, err);
    *field = (cdz_int_real){value->items[0].integer, second, true};
    return CDZ_OK;
}

static cdz_status set_word_or_ints(const cdz_param *param, cdz_word_or_ints *field,
                                   const cdz_json *value, cdz_arena *arena, cdz_error *err)
{
    *field = (cdz_word_or_ints){0};
    if (value->type != CDZ_JSON_STRING) return set_ints(param, &field->ints, value, arena, err);
    return set_word(param, &field->word, value, err);
}

/* One item: [ids] or [[ids], ...]; none of them empty. */
static cdz_status choice_from(const cdz_param *param, const cdz_json *whole, const cdz_json *item,
                              cdz_int_lists *out, cdz_arena *arena, cdz_error *err)
{
    if (item->type != CDZ_JSON_ARRAY || item->len == 0) return refuse(param, whole, NULL, err);
    const bool several = item->items[0].type == CDZ_JSON_ARRAY;
    const uint32_t n = several ? item->len : 1;
    const cdz_json *lists = several ? item->items : item;
    cdz_int_list *at = cdz_arena_array(arena, n, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < n; i++) {
        if (lists[i].type != CDZ_JSON_ARRAY || lists[i].len == 0)
            return refuse(param, whole, NULL, err);
        CDZ_TRY(ints_from(param, whole, lists[i].items, lists[i].len, &at[i], arena, err));
    }
    *out = (cdz_int_lists){at, n, true};
    return CDZ_OK;
}

static cdz_status set_int_choices(const cdz_param *param, cdz_int_choices *field,
                                  const cdz_json *value, cdz_arena *arena, cdz_error *err)
{
    if (value->type != CDZ_JSON_ARRAY) return refuse(param, value, NULL, err);
    cdz_int_lists *at = cdz_arena_array(arena, value->len, sizeof *at);
    if (!at) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < value->len; i++)
        CDZ_TRY(choice_from(param, value, &value->items[i], &at[i], arena, err));
    *field = (cdz_int_choices){at, value->len, true};
    return CDZ_OK;
}

/* Unset; plain fields that cannot be unset take their default. */
static void set_null(const cdz_param *param, void *params)
{
    if (param->type == CDZ_T_BOOL || param->type == CDZ_T_INT || param->type == CDZ_T_REAL)
        cdz_param_set_default(param, params);
    else
        memset(cdz_param_field(param, params), 0, cdz_param_shape_of(param->type)->bytes);
}

cdz_status cdz_param_set(const cdz_param *param, void *params, const cdz_json *value,
                         cdz_arena *arena, cdz_error *err)
{
    void *field = cdz_param_field(param, params);

    if (value->type == CDZ_JSON_NULL) {
        set_null(param, params);
        return CDZ_OK;
    }
    switch (param->type) {
    case CDZ_T_BOOL:
    case CDZ_T_OPT_BOOL: return set_bool(param, field, value, err);
    case CDZ_T_INT:
    case CDZ_T_OPT_INT: return set_int(param, field, value, err);
    case CDZ_T_REAL:
    case CDZ_T_OPT_REAL: return set_real(param, field, value, err);
    case CDZ_T_STRING: return set_string(param, field, value, arena, err);
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: return set_word(param, field, value, err);
    case CDZ_T_INTS: return set_ints(param, field, value, arena, err);
    case CDZ_T_REALS: return set_reals(param, field, value, arena, err);
    case CDZ_T_STRINGS: return set_strings(param, field, value, arena, err);
    case CDZ_T_INT_LISTS: return set_int_lists(param, field, value, arena, err);
    case CDZ_T_WEIGHTED: return set_weighted(param, field, value, arena, err);
    case CDZ_T_INT_REAL: return set_int_real(param, field, value, err);
    case CDZ_T_WORD_OR_INTS: return set_word_or_ints(param, field, value, arena, err);
    case CDZ_T_INT_CHOICES: return set_int_choices(param, field, value, arena, err);
    default:
        return cdz_err(err, CDZ_E_INTERNAL, "%s: parameter type %u is unknown", param->name,
                       param->type);
    }
}
