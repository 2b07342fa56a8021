/* param_text.c - parameters as people write and read them: ini and command-line text in, help and sentences out. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "params/param_types.h"

/* --- reading --------------------------------------------------------------------------------------------- */

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A copy without blanks at either end; NULL when memory ran out. */
static char *trimmed(const char *text, size_t len, cdz_arena *arena)
{
    while (len && blank(*text)) text++, len--;
    while (len && blank(text[len - 1])) len--;
    return cdz_arena_strndup(arena, text, len);
}

static cdz_json json_bool(bool value)
{
    return (cdz_json){.type = CDZ_JSON_BOOL, .boolean = value};
}

static cdz_json json_string(const char *text)
{
    return (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)strlen(text), .string = text};
}

static bool read_json(const char *text, cdz_arena *arena, cdz_json *out)
{
    return cdz_json_parse(text, strlen(text), "value", NULL, arena, out, NULL) == CDZ_OK;
}

static const char *const yes_words[] = {"true", "yes", "on", NULL};
static const char *const no_words[] = {"false", "no", "off", NULL};

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcasecmp(text, *words) != 0) words++;
    return *words;
}

bool cdz_param_is_yes_text(const char *text)
{
    return is_one_of(text, yes_words);
}

bool cdz_param_is_boolean_text(const char *text)
{
    return cdz_param_is_yes_text(text) || is_one_of(text, no_words);
}

static bool read_bool(const char *text, cdz_json *out)
{
    const bool yes = cdz_param_is_yes_text(text), no = is_one_of(text, no_words);
    *out = json_bool(yes);
    return yes || no;
}

/* In text an integer is as good as a real: there is nothing to tell them apart by. */
static void integers_to_reals(cdz_json *value)
{
    if (value->type != CDZ_JSON_INT) return;
    int64_t integer = value->integer;
    value->type = CDZ_JSON_REAL;
    value->real = (double)integer;
}

/* A number as JSON has them, also "+1" and ".5"; or the text itself, which cdz_param_set then refuses with the parameter's range. */
static void read_number(const char *text, bool real, cdz_arena *arena, cdz_json *out)
{
    bool minus = *text == '-';
    const char *digits = *text == '+' || minus ? text + 1 : text;
    const char *number =
        cdz_arena_printf(arena, "%s%s%s", minus ? "-" : "", *digits == '.' ? "0" : "", digits);
    double value;
    if (!number || *digits == '-' || !read_json(number, arena, out) || !cdz_json_number(out, &value))
        *out = json_string(text);
    if (real) integers_to_reals(out);
}

/* "quoted as in JSON", or the text as it stands. */
static void read_string(const char *text, cdz_arena *arena, cdz_json *out)
{
    if (*text == '"' && read_json(text, arena, out) && out->type == CDZ_JSON_STRING) return;
    *out = json_string(text);
}

static void read_item(const cdz_param *param, const char *text, cdz_arena *arena, cdz_json *out)
{
    if (param->type == CDZ_T_STRINGS)
        read_string(text, arena, out);
    else
        read_number(text, param->type == CDZ_T_REALS, arena, out);
}

/* The length of the first item of a list separated by commas; commas in quotes do not count. */
static size_t item_length(const char *text)
{
    bool quoted = false;
    size_t len = 0;
    for (; text[len] && (quoted || text[len] != ','); len++) {
        if (quoted && text[len] == '\\' && text[len + 1])
            len++;
        else if (text[len] == '"')
            quoted = !quoted;
    }
    return len;
}

static cdz_status read_commas(const cdz_param *param, const char *text, cdz_arena *arena,
                              cdz_json *out, cdz_error *err)
{
    uint32_t n = 1, i = 0;
    for (const char *at = text; at[item_length(at)]; n++) at += item_length(at) + 1;

    cdz_json *items = cdz_arena_array(arena, n, sizeof *items);
    if (!items) return cdz_err_memory_in(err, param->name);
    for (const char *at = text; i < n; i++) {
        size_t len = item_length(at);
        char *item = trimmed(at, len, arena);
        if (!item) return cdz_err_memory_in(err, param->name);
        read_item(param, item, arena, &items[i]);
        at += len + 1;
    }
    *out = (cdz_json){.type = CDZ_JSON_ARRAY, .len = n, .items = items};
    return CDZ_OK;
}

/* The weights of [[ids, weight], ...] as reals, in a copy. */
static cdz_status real_weights(const cdz_param *param, cdz_arena *arena, cdz_json *value,
                               cdz_error *err)
{
    cdz_json *pairs = cdz_arena_array(arena, value->len, sizeof *pairs);
    if (!pairs) return cdz_err_memory_in(err, param->name);
    for (uint32_t i = 0; i < value->len; i++) {
        pairs[i] = value->items[i];
        if (pairs[i].type != CDZ_JSON_ARRAY || pairs[i].len != 2) continue;
        cdz_json *pair = cdz_arena_array(arena, 2, sizeof *pair);
        if (!pair) return cdz_err_memory_in(err, param->name);
        memcpy(pair, pairs[i].items, 2 * sizeof *pair);
        integers_to_reals(&pair[1]);
        pairs[i].items = pair;
    }
    value->items = pairs;
    return CDZ_OK;
}

/* Starts like a number, or has nothing: else it is a word. */
static bool numeric_text(const char *text)
{
    return *text == '\0' || cdz_byte_in(*text, "0123456789-+");
}

static cdz_status read_list(const cdz_param *param, const char *text, cdz_arena *arena,
                            cdz_json *out, cdz_error *err)
{
    bool nested = param->type == CDZ_T_INT_LISTS || param->type == CDZ_T_WEIGHTED ||
                  param->type == CDZ_T_INT_CHOICES;
    if (param->type == CDZ_T_WORD_OR_INTS && *text != '[' && !numeric_text(text)) {
        read_string(text, arena, out);
        return CDZ_OK;
    }
    if (*text == '[' || *text == '{') {
        cdz_error why = {0};
        cdz_status st = cdz_json_parse(text, strlen(text), param->name, NULL, arena, out, &why);
        if (st != CDZ_OK) return cdz_err(err, CDZ_E_USAGE, "%s", why.text);
        if (param->type == CDZ_T_WEIGHTED && out->type == CDZ_JSON_ARRAY)
            return real_weights(param, arena, out, err);
        return CDZ_OK;
    }
    if (nested) {
        *out = json_string(text); /* cdz_param_set says what it must be */
        return CDZ_OK;
    }
    return read_commas(param, text, arena, out, err);
}

cdz_status cdz_param_from_text(const cdz_param *param, const char *text, cdz_arena *arena,
                               cdz_json *out, cdz_error *err)
{
    char *copy = trimmed(text, strlen(text), arena); /* JSON strings may point into it */
    if (!copy) return cdz_err_memory_in(err, param->name);
    if (strcmp(copy, "none") == 0) {
        *out = (cdz_json){.type = CDZ_JSON_NULL};
        return CDZ_OK;
    }
    switch (param->type) {
    case CDZ_T_INT:
    case CDZ_T_OPT_INT: read_number(copy, false, arena, out); return CDZ_OK;
    case CDZ_T_REAL:
    case CDZ_T_OPT_REAL: read_number(copy, true, arena, out); return CDZ_OK;
    case CDZ_T_BOOL:
    case CDZ_T_OPT_BOOL:
    case CDZ_T_BOOL_OR_WORD:
        if (!read_bool(copy, out)) read_string(copy, arena, out);
        return CDZ_OK;
    case CDZ_T_STRING:
    case CDZ_T_WORD: read_string(copy, arena, out); return CDZ_OK;
    default: return read_list(param, copy, arena, out, err);
    }
}

/* --- describing ------------------------------------------------------------------------------------------ */

static bool is_real(const cdz_param *param)
{
    return param->type == CDZ_T_REAL || param->type == CDZ_T_OPT_REAL || param->type == CDZ_T_REALS;
}

static bool has_range(const cdz_param *param)
{
    return is_real(param) || param->type == CDZ_T_INT || param->type == CDZ_T_OPT_INT ||
           param->type == CDZ_T_INTS || param->type == CDZ_T_INT_LISTS ||
           param->type == CDZ_T_WORD_OR_INTS || param->type == CDZ_T_INT_CHOICES;
}

static void write_bound(const cdz_param *param, double bound, cdz_buf *out)
{
    if (is_real(param))
        cdz_json_write_real(out, bound);
    else
        cdz_buf_printf(out, "%.0f", bound);
}

/* "1 to 65536", "from 1", "above 0.0, up to 1.0"; nothing where no bound is set. true when something was written. */
static bool write_range(const cdz_param *param, cdz_buf *out)
{
    /* Integers past 2^53 are no bounds a person means. */
    const double far = is_real(param) ? CDZ_NO_LIMIT : 9007199254740992.0;
    bool low = param->min > -far, high = param->max < far;
    bool open = (low && (param->flags & CDZ_ABOVE_MIN)) || (high && (param->flags & CDZ_BELOW_MAX));

    if (low && high && !open) {
        write_bound(param, param->min, out);
        cdz_buf_puts(out, " to ");
        write_bound(param, param->max, out);
        return true;
    }
    if (low) {
        cdz_buf_puts(out, param->flags & CDZ_ABOVE_MIN ? "above " : "from ");
        write_bound(param, param->min, out);
    }
    if (high) {
        cdz_buf_puts(out, low ? ", " : "");
        cdz_buf_puts(out, param->flags & CDZ_BELOW_MAX ? "below " : "up to ");
        write_bound(param, param->max, out);
    }
    return low || high;
}

/* "a, b or c" from "a|b|c". */
static void write_words(const cdz_param *param, const char *before, cdz_buf *out)
{
    cdz_buf_puts(out, before);
    for (const char *at = param->text; at && *at;) {
        size_t len = strcspn(at, "|");
        bool first = at == param->text && !*before, last = !at[len];
        cdz_buf_puts(out, first ? "" : last ? " or " : ", ");
        cdz_buf_add(out, at, len);
        at += len + (last ? 0 : 1);
        if (last) break;
    }
}

void cdz_param_describe(const cdz_param *param, cdz_buf *out)
{
    const cdz_param_shape *shape = cdz_param_shape_of(param->type);
    bool list = param->type == CDZ_T_INTS || param->type == CDZ_T_REALS ||
                param->type == CDZ_T_INT_LISTS || param->type == CDZ_T_WORD_OR_INTS ||
                param->type == CDZ_T_INT_CHOICES;

    if (param->type == CDZ_T_WORD) {
        write_words(param, "", out);
        return;
    }
    if (param->type == CDZ_T_BOOL_OR_WORD) {
        write_words(param, "false, true", out);
        return;
    }
    if (param->type == CDZ_T_WORD_OR_INTS) {
        write_words(param, "", out);
        cdz_buf_puts(out, ", or ");
    }
    cdz_buf range = {0};
    bool limited = has_range(param) && write_range(param, &range);
    bool both = limited && strstr(range.data ? range.data : "", " to ") && !list;
    bool whole = !is_real(param);
    if (!both || whole) cdz_buf_puts(out, both ? "" : shape ? shape->words : "a value");
    if (limited && !both) cdz_buf_puts(out, list ? ", each " : " ");
    if (limited && range.data) cdz_buf_puts(out, range.data);
    cdz_buf_free(&range);
}

/* --- writing --------------------------------------------------------------------------------------------- */

static void write_word(const cdz_param *param, const cdz_word *word, cdz_buf *out)
{
    int32_t index = word->value;
    if (param->type == CDZ_T_BOOL_OR_WORD) {
        if (index < 2) {
            cdz_buf_puts(out, index ? "true" : "false");
            return;
        }
        index -= 2;
    }
    const char *at = param->text;
    for (; at && index > 0; index--) {
        const char *bar = strchr(at, '|');
        at = bar ? bar + 1 : NULL;
    }
    if (at) cdz_json_write_string(out, at, strcspn(at, "|"));
}

static void write_ints(const cdz_int_list *list, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < list->len; i++)
        cdz_buf_printf(out, "%s%lld", i ? ", " : "", (long long)list->at[i]);
    cdz_buf_putc(out, ']');
}

static void write_reals(const cdz_real_list *list, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < list->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write_real(out, list->at[i]);
    }
    cdz_buf_putc(out, ']');
}

static void write_strings(const cdz_string_list *list, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < list->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write_string(out, list->at[i].at, list->at[i].len);
    }
    cdz_buf_putc(out, ']');
}

static void write_int_lists(const cdz_int_lists *lists, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < lists->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        write_ints(&lists->at[i], out);
    }
    cdz_buf_putc(out, ']');
}

/* A choice of one is written as the list it is. */
static void write_int_choices(const cdz_int_choices *choices, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < choices->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        if (choices->at[i].len == 1)
            write_ints(&choices->at[i].at[0], out);
        else
            write_int_lists(&choices->at[i], out);
    }
    cdz_buf_putc(out, ']');
}

static void write_word_or_ints(const cdz_param *param, const cdz_word_or_ints *value, cdz_buf *out)
{
    if (value->word.set)
        write_word(param, &value->word, out);
    else
        write_ints(&value->ints, out);
}

static void write_weighted(const cdz_weighted_list *list, cdz_buf *out)
{
    cdz_buf_puts(out, list->is_map ? "{\"mapping\": [" : "[");
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_weighted *pair = &list->at[i];
        cdz_buf_puts(out, i ? ", [" : "[");
        write_ints(&pair->ids, out);
        cdz_buf_puts(out, ", ");
        if (pair->weight_is_int)
            cdz_buf_printf(out, "%.0f", pair->weight);
        else
            cdz_json_write_real(out, pair->weight);
        cdz_buf_putc(out, ']');
    }
    cdz_buf_puts(out, list->is_map ? "]}" : "]");
}

static void write_int_real(const cdz_int_real *pair, cdz_buf *out)
{
    cdz_buf_printf(out, "[%lld, ", (long long)pair->first);
    cdz_json_write_real(out, pair->second);
    cdz_buf_putc(out, ']');
}

bool cdz_param_is_set(const cdz_param *param, const void *params)
{
    const void *field = cdz_param_field_const(param, params);
    switch (param->type) {
    case CDZ_T_STRING: return *(const char *const *)field != NULL;
    case CDZ_T_OPT_BOOL: return ((const cdz_opt_bool *)field)->set;
    case CDZ_T_OPT_INT: return ((const cdz_opt_int *)field)->set;
    case CDZ_T_OPT_REAL: return ((const cdz_opt_real *)field)->set;
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: return ((const cdz_word *)field)->set;
    case CDZ_T_INTS: return ((const cdz_int_list *)field)->set;
    case CDZ_T_REALS: return ((const cdz_real_list *)field)->set;
    case CDZ_T_STRINGS: return ((const cdz_string_list *)field)->set;
    case CDZ_T_INT_LISTS: return ((const cdz_int_lists *)field)->set;
    case CDZ_T_WEIGHTED: return ((const cdz_weighted_list *)field)->set;
    case CDZ_T_INT_REAL: return ((const cdz_int_real *)field)->set;
    case CDZ_T_INT_CHOICES: return ((const cdz_int_choices *)field)->set;
    case CDZ_T_WORD_OR_INTS:
        return ((const cdz_word_or_ints *)field)->word.set ||
               ((const cdz_word_or_ints *)field)->ints.set;
    default: return true;
    }
}

static void write_set(const cdz_param *param, const void *field, cdz_buf *out)
{
    switch (param->type) {
    case CDZ_T_BOOL: cdz_buf_puts(out, *(const bool *)field ? "true" : "false"); break;
    case CDZ_T_OPT_BOOL:
        cdz_buf_puts(out, ((const cdz_opt_bool *)field)->value ? "true" : "false");
        break;
    case CDZ_T_INT: cdz_buf_printf(out, "%lld", (long long)*(const int64_t *)field); break;
    case CDZ_T_OPT_INT:
        cdz_buf_printf(out, "%lld", (long long)((const cdz_opt_int *)field)->value);
        break;
    case CDZ_T_REAL: cdz_json_write_real(out, *(const double *)field); break;
    case CDZ_T_OPT_REAL:
        if (((const cdz_opt_real *)field)->is_int)
            cdz_buf_printf(out, "%.0f", ((const cdz_opt_real *)field)->value);
        else
            cdz_json_write_real(out, ((const cdz_opt_real *)field)->value);
        break;
    case CDZ_T_STRING: {
        const char *text = *(const char *const *)field;
        cdz_json_write_string(out, text, strlen(text));
        break;
    }
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: write_word(param, field, out); break;
    case CDZ_T_INTS: write_ints(field, out); break;
    case CDZ_T_REALS: write_reals(field, out); break;
    case CDZ_T_STRINGS: write_strings(field, out); break;
    case CDZ_T_INT_LISTS: write_int_lists(field, out); break;
    case CDZ_T_WEIGHTED: write_weighted(field, out); break;
    case CDZ_T_INT_REAL: write_int_real(field, out); break;
    case CDZ_T_INT_CHOICES: write_int_choices(field, out); break;
    case CDZ_T_WORD_OR_INTS: write_word_or_ints(param, field, out); break;
    default: cdz_buf_puts(out, "null"); break;
    }
}

void cdz_param_write(const cdz_param *param, const void *params, cdz_buf *out)
{
    if (cdz_param_is_set(param, params))
        write_set(param, cdz_param_field_const(param, params), out);
    else
        cdz_buf_puts(out, "null");
}

/* --- help ------------------------------------------------------------------------------------------------ */

void cdz_param_write_default(const cdz_param *param, cdz_buf *out)
{
    /* One field of the largest type is enough to hold any default. */
    union {
        cdz_weighted_list list;
        cdz_int_real pair;
        cdz_opt_real real;
        cdz_opt_int integer;
    } room;
    cdz_param here = *param;
    here.offset = 0;
    cdz_param_set_default(&here, &room);
    if (cdz_param_is_set(&here, &room))
        cdz_param_write(&here, &room, out);
    else
        cdz_buf_puts(out, "none");
}

static void pad_to(cdz_buf *out, size_t start, size_t column)
{
    do cdz_buf_putc(out, ' ');
    while (!out->failed && out->len - start < column);
}

void cdz_params_help(const cdz_param_table *table, cdz_buf *out)
{
    size_t widest = 0;
    for (uint32_t i = 0; i < table->n; i++) {
        size_t len = strlen(cdz_param_at(table, i)->name);
        if (len > widest) widest = len;
    }
    for (uint32_t i = 0; i < table->n; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        size_t start = out->len;
        cdz_buf_printf(out, "  %s", param->name);
        pad_to(out, start, widest + 4);
        cdz_buf_puts(out, "default ");
        cdz_param_write_default(param, out);
        pad_to(out, start, widest + 20);
        cdz_param_describe(param, out);
        pad_to(out, start, widest + 42);
        cdz_buf_puts(out, param->help);
        cdz_buf_putc(out, '\n');
    }
}
