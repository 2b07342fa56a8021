/* params.h - the one registry of parameters: tables of cdz_param serve ini, command line, JSON and help. */
#ifndef CDZ_HOST_PARAMS_PARAMS_H
#define CDZ_HOST_PARAMS_PARAMS_H

#include "base/json.h"
#include "cadenza/plugin.h"

/* A table of parameters and the struct they are offsets into. */
typedef struct cdz_param_table {
    const cdz_param *at;
    uint32_t n, param_size, params_size;
} cdz_param_table;

cdz_param_table cdz_params_of(const cdz_plugin_base *plugin);
const cdz_param *cdz_param_at(const cdz_param_table *table, uint32_t i);
const cdz_param *cdz_param_find(const cdz_param_table *table, const char *name);
/* How many words the row's `text` lists ("a|b|c" has three). */
uint32_t cdz_param_word_count(const cdz_param *param);
/* ": did you mean 'x'?" or "" into out, for unknown names. */
void cdz_param_suggest(const cdz_param_table *table, const char *name, char *out, size_t out_bytes);

/* Checks that a plugin's table itself is sane (names, types, offsets inside params_size, min <= max, defaults in range). */
cdz_status cdz_param_table_check(const cdz_param_table *table, const char *who, cdz_error *err);

/* Fills a struct of params_size bytes with the defaults: lists unset, strings from text. An optional number is unset,
 * unless its row has a `text`: then `def` is its default (a generation parameter that transformers fills in). */
void cdz_params_defaults(const cdz_param_table *table, void *params);

/* Writes one value into its field after checking type, range and finiteness; null means unset (or, for plain numbers,
 * the default). Lists are copied into the arena. The sentence has no source position: the caller prefixes it. */
cdz_status cdz_param_set(const cdz_param *param, void *params, const cdz_json *value,
                         cdz_arena *arena, cdz_error *err);

/* Text of ini or `-s name=value` into a JSON value of the parameter's type: "none" is null; numbers, booleans in
 * any of the words below, words; lists as JSON or separated by commas; strings as they are or in JSON quotes. */
cdz_status cdz_param_from_text(const cdz_param *param, const char *text, cdz_arena *arena,
                               cdz_json *out, cdz_error *err);

/* true, false, yes, no, on or off, in letters of any size; and those of them that say yes. */
bool cdz_param_is_boolean_text(const char *text);
bool cdz_param_is_yes_text(const char *text);

/* False for an optional field, string or list that is unset; true for plain fields. */
bool cdz_param_is_set(const cdz_param *param, const void *params);

/* A field's present value as JSON (for explain, --json, config). */
void cdz_param_write(const cdz_param *param, const void *params, cdz_buf *out);
/* What the field holds when nobody says anything, as JSON; "none" when that is unset. */
void cdz_param_write_default(const cdz_param *param, cdz_buf *out);
/* "0.0 to 1.0", "an integer from 1", "false, true or never" for help and error sentences. */
void cdz_param_describe(const cdz_param *param, cdz_buf *out);
/* The table as help lines: name, type, default, range, help. */
void cdz_params_help(const cdz_param_table *table, cdz_buf *out);

#endif
