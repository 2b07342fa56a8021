/* params.c - parameter tables: finding rows, judging a plugin's table, defaults. Values are param_set.c's, text is
 * param_text.c's. */
#include "params/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "params/param_types.h"

/* Limits that no honest table meets; the name limit is that of a key in a pipeline file. */
enum { MAX_ROWS = 1024, MAX_NAME = 48, MAX_STRUCT = 1 << 20 };
/* Bits of cdz_param.flags with a meaning. */
enum {
    KNOWN_FLAGS = CDZ_GENERATION | CDZ_STRICT_REAL | CDZ_ABOVE_MIN | CDZ_BELOW_MAX | CDZ_NAMES_FILE
};

cdz_param_table cdz_params_of(const cdz_plugin_base *plugin)
{
    return (cdz_param_table){plugin->params, plugin->n_params, plugin->param_size,
                             plugin->params_size};
}

const cdz_param *cdz_param_at(const cdz_param_table *table, uint32_t i)
{
    const unsigned char *rows = (const unsigned char *)table->at;
    return (const cdz_param *)(const void *)(rows + (size_t)i * table->param_size);
}

const cdz_param *cdz_param_find(const cdz_param_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->n; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        if (strcmp(param->name, name) == 0) return param;
    }
    return NULL;
}

void cdz_param_suggest(const cdz_param_table *table, const char *name, char *out, size_t out_bytes)
{
    const char *names[MAX_ROWS];
    uint32_t n = table->n < MAX_ROWS ? table->n : MAX_ROWS;
    for (uint32_t i = 0; i < n; i++) names[i] = cdz_param_at(table, i)->name;
    const char *nearest = cdz_nearest_name(name, names, n);
    if (nearest)
        snprintf(out, out_bytes, ": did you mean '%s'?", nearest);
    else if (out_bytes > 0)
        out[0] = '\0';
}

static const cdz_param_shape shapes[] = {
    [CDZ_T_BOOL] = {sizeof(bool), _Alignof(bool), "true or false"},
    [CDZ_T_INT] = {sizeof(int64_t), _Alignof(int64_t), "an integer"},
    [CDZ_T_REAL] = {sizeof(double), _Alignof(double), "a number"},
    [CDZ_T_STRING] = {sizeof(const char *), _Alignof(const char *), "text"},
    [CDZ_T_OPT_BOOL] = {sizeof(cdz_opt_bool), _Alignof(cdz_opt_bool), "true or false"},
    [CDZ_T_OPT_INT] = {sizeof(cdz_opt_int), _Alignof(cdz_opt_int), "an integer"},
    [CDZ_T_OPT_REAL] = {sizeof(cdz_opt_real), _Alignof(cdz_opt_real), "a number"},
    [CDZ_T_WORD] = {sizeof(cdz_word), _Alignof(cdz_word), "a word"},
    [CDZ_T_BOOL_OR_WORD] = {sizeof(cdz_word), _Alignof(cdz_word), "true, false or a word"},
    [CDZ_T_INTS] = {sizeof(cdz_int_list), _Alignof(cdz_int_list), "a list of integers"},
    [CDZ_T_REALS] = {sizeof(cdz_real_list), _Alignof(cdz_real_list), "a list of numbers"},
    [CDZ_T_STRINGS] = {sizeof(cdz_string_list), _Alignof(cdz_string_list), "a list of texts"},
    [CDZ_T_INT_LISTS] = {sizeof(cdz_int_lists), _Alignof(cdz_int_lists),
                         "a list of lists of integers"},
    [CDZ_T_WEIGHTED] = {sizeof(cdz_weighted_list), _Alignof(cdz_weighted_list),
                        "a list of [ids, weight] pairs"},
    [CDZ_T_INT_REAL] = {sizeof(cdz_int_real), _Alignof(cdz_int_real),
                        "a pair of an integer and a number"},
    [CDZ_T_WORD_OR_INTS] = {sizeof(cdz_word_or_ints), _Alignof(cdz_word_or_ints),
                            "a list of integers"},
    [CDZ_T_INT_CHOICES] = {sizeof(cdz_int_choices), _Alignof(cdz_int_choices),
                           "a list whose items are lists of integers or lists of such lists"},
};

const cdz_param_shape *cdz_param_shape_of(uint16_t type)
{
    if (type == 0 || type >= sizeof shapes / sizeof shapes[0]) return NULL;
    return &shapes[type];
}

uint32_t cdz_param_word_count(const cdz_param *param)
{
    uint32_t n = 1;
    if (!param->text || !*param->text) return 0;
    for (const char *c = param->text; *c; c++) n += *c == '|';
    return n;
}

/* --- judging a table ------------------------------------------------------------------------------------- */

/* Names are keys of ini and JSON and fields of Lua: a letter or '_' first, then letters, digits, '_'. */
static bool good_name(const char *name)
{
    size_t len = 0;
    if (!name || (*name >= '0' && *name <= '9')) return false;
    for (; name[len]; len++) {
        char c = name[len];
        bool word =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        if (!word || len == MAX_NAME) return false;
    }
    return len > 0;
}

static bool numeric(const cdz_param *param)
{
    return param->type == CDZ_T_INT || param->type == CDZ_T_REAL ||
           ((param->type == CDZ_T_OPT_INT || param->type == CDZ_T_OPT_REAL) && param->text);
}

/* Whether 64 bits hold the number, and it is whole. */
static bool is_int64(double value)
{
    const double end = 9223372036854775808.0;
    return value >= -end && value < end && value == floor(value);
}

static const char *why_row_is_bad(const cdz_param *param, uint32_t params_size)
{
    const cdz_param_shape *shape = cdz_param_shape_of(param->type);
    bool words = param->type == CDZ_T_WORD || param->type == CDZ_T_BOOL_OR_WORD ||
                 param->type == CDZ_T_WORD_OR_INTS;
    bool integer = param->type == CDZ_T_INT || param->type == CDZ_T_OPT_INT;

    if (!shape) return "its type is unknown";
    if (!param->help) return "it has no help text";
    if (param->flags & ~KNOWN_FLAGS) return "it has a flag that is unknown";
    if (param->offset > params_size || shape->bytes > params_size - param->offset)
        return "its field lies outside the parameter struct";
    if (param->offset % shape->align) return "its field is not aligned";
    if (isnan(param->min) || isnan(param->max) || isnan(param->def)) return "a bound is NaN";
    if (param->min > param->max) return "its minimum is above its maximum";
    if (numeric(param) && (param->def < param->min || param->def > param->max))
        return "its default is out of range";
    if (integer && numeric(param) && !is_int64(param->def))
        return "its default is no integer of 64 bits";
    if (words && cdz_param_word_count(param) == 0) return "it names no words";
    if (param->type == CDZ_T_WORD && param->def >= cdz_param_word_count(param))
        return "its default is none of its words";
    return NULL;
}

static cdz_status check_row(const cdz_param_table *table, uint32_t i, const char *who,
                            cdz_error *err)
{
    const cdz_param *param = cdz_param_at(table, i);
    if (!good_name(param->name))
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: parameter %u has a bad name; letters, digits and '_', at most %d", who,
                       i, (int)MAX_NAME);
    for (uint32_t j = 0; j < i; j++)
        if (strcmp(cdz_param_at(table, j)->name, param->name) == 0)
            return cdz_err(err, CDZ_E_PLUGIN, "%s: parameter %s is declared twice", who,
                           param->name);
    const char *why = why_row_is_bad(param, table->params_size);
    if (why) return cdz_err(err, CDZ_E_PLUGIN, "%s: parameter %s: %s", who, param->name, why);
    return CDZ_OK;
}

cdz_status cdz_param_table_check(const cdz_param_table *table, const char *who, cdz_error *err)
{
    if (table->n == 0) return CDZ_OK;
    if (!table->at) return cdz_err(err, CDZ_E_PLUGIN, "%s: its parameter table is missing", who);
    if (table->n > MAX_ROWS)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: %u parameters, at most %d are allowed", who,
                       table->n, (int)MAX_ROWS);
    if (table->param_size < sizeof(cdz_param))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: parameter rows of %u bytes, expected %zu", who,
                       table->param_size, sizeof(cdz_param));
    if (table->params_size > MAX_STRUCT)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: a parameter struct of %u bytes, at most %d", who,
                       table->params_size, (int)MAX_STRUCT);
    for (uint32_t i = 0; i < table->n; i++) CDZ_TRY(check_row(table, i, who, err));
    return CDZ_OK;
}

/* --- defaults -------------------------------------------------------------------------------------------- */

void cdz_param_set_default(const cdz_param *param, void *params)
{
    void *field = cdz_param_field(param, params);
    memset(field, 0, cdz_param_shape_of(param->type)->bytes);
    switch (param->type) {
    case CDZ_T_BOOL: *(bool *)field = param->def != 0; break;
    case CDZ_T_INT: *(int64_t *)field = (int64_t)param->def; break;
    case CDZ_T_REAL: *(double *)field = param->def; break;
    case CDZ_T_STRING: *(const char **)field = param->text; break;
    case CDZ_T_OPT_BOOL:
        *(cdz_opt_bool *)field = (cdz_opt_bool){param->def != 0, param->text};
        break;
    case CDZ_T_OPT_INT:
        if (param->text) *(cdz_opt_int *)field = (cdz_opt_int){(int64_t)param->def, true};
        break;
    case CDZ_T_OPT_REAL:
        if (param->text) *(cdz_opt_real *)field = (cdz_opt_real){param->def, true, false};
        break;
    case CDZ_T_WORD:
        if (param->def >= 0) *(cdz_word *)field = (cdz_word){(int32_t)param->def, true};
        break;
    default: break; /* lists and bool-or-word: unset */
    }
}

void cdz_params_defaults(const cdz_param_table *table, void *params)
{
    for (uint32_t i = 0; i < table->n; i++) cdz_param_set_default(cdz_param_at(table, i), params);
}
