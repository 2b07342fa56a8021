/* settings.c - finds rows, and brings what was said of them into the structs they have fields in. See settings.h. */
#include "params/settings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/error.h"

/* --- finding ---------------------------------------------------------------------------------------------- */

const cdz_setting *cdz_setting_at(size_t i)
{
    for (size_t t = 0; t < cdz_setting_tables_n; t++) {
        if (i < cdz_setting_tables[t].n) return &cdz_setting_tables[t].rows[i];
        i -= cdz_setting_tables[t].n;
    }
    return NULL;
}

size_t cdz_setting_index(const cdz_setting *setting)
{
    size_t i = 0;
    while (cdz_setting_at(i) && cdz_setting_at(i) != setting) i++;
    return i;
}

const cdz_setting *cdz_setting_named(const char *name)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

static bool same_flag(const char *flag, const char *typed, size_t len)
{
    size_t i = 0;
    while (i < len && flag[i] && (flag[i] == typed[i] || (flag[i] == '-' && typed[i] == '_'))) i++;
    return i == len && !flag[i];
}

const cdz_setting *cdz_setting_of_flag(const char *name, size_t len)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->flag.name && same_flag(row->flag.name, name, len)) return row;
    return NULL;
}

const cdz_setting *cdz_setting_in_file(const char *section, const char *key)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->section && !row->served && strcmp(row->section, section) == 0 &&
            strcmp(row->name, key) == 0)
            return row;
    return NULL;
}

bool cdz_setting_section(const char *section)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->section && !row->served && strcmp(row->section, section) == 0) return true;
    return false;
}

const char *cdz_setting_near(const char *section, const char *key)
{
    const char *names[CDZ_MOST_SETTINGS];
    const cdz_setting *row;
    size_t n = 0;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->section && strcmp(row->section, section) == 0) names[n++] = row->name;
    return cdz_nearest_name(key, names, n);
}

const cdz_setting *cdz_setting_member(const char *name)
{
    const cdz_setting *row = cdz_setting_named(name);
    return row && row->member ? row : NULL;
}

const char *cdz_setting_env(const cdz_setting *setting)
{
    return setting->env ? cdz_env_named(setting->env) : NULL;
}

/* --- values ------------------------------------------------------------------------------------------------- */

bool cdz_parse_size(const char *text, uint64_t *bytes)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || errno || text[0] == '-') return false;
    unsigned shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        end++;
        break;
    case 'm':
    case 'M':
        shift = 20;
        end++;
        break;
    case 'g':
    case 'G':
        shift = 30;
        end++;
        break;
    default: break;
    }
    if (*end == 'B') end++;
    if (*end || value > UINT64_MAX >> shift) return false;
    *bytes = (uint64_t)value << shift;
    return true;
}

static bool number_within(const cdz_setting *row, const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) && *out >= row->least && *out <= row->most;
}

static bool word_of(const cdz_setting *row, const char *text, uint32_t *which)
{
    const size_t len = strlen(text);
    *which = 0;
    for (const char *at = row->words; at; (*which)++) {
        const size_t n = strcspn(at, "|");
        if (n == len && strncmp(at, text, n) == 0) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

/* Its word that is nearest to text; "": none is near. */
static void near_word(const cdz_setting *row, const char *text, char *out, size_t bytes)
{
    char words[128], *rest = words;
    const char *each[16];
    size_t n = 0;
    snprintf(words, sizeof words, "%s", row->words);
    for (char *word; n < sizeof each / sizeof each[0] && (word = strsep(&rest, "|")) != NULL;)
        each[n++] = word;
    const char *near = cdz_nearest_name(text, each, n);
    snprintf(out, bytes, "%s", near ? near : "");
}

/* "expected a number from 1 to 1024" */
static cdz_status expected(const cdz_setting *row, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_setting_takes(row, &text);
    cdz_err(err, CDZ_E_USAGE, "expected %s", text.data && !text.failed ? text.data : "another");
    cdz_buf_free(&text);
    return CDZ_E_USAGE;
}

cdz_status cdz_setting_word(const cdz_setting *row, const char *text, uint32_t *which,
                            cdz_error *err)
{
    cdz_error why = {0};
    char near[32];
    if (word_of(row, text, which)) return CDZ_OK;
    const cdz_status status = expected(row, &why);
    near_word(row, text, near, sizeof near);
    return cdz_err(err, status, "%s: there is no '%.40s', %s%s%s%s", row->name, text, why.text,
                   *near ? ": did you mean '" : "", near, *near ? "'?" : "");
}

static cdz_status add_text(const char *const **list, uint32_t *n, const char *value, cdz_error *err)
{
    const char **grown = realloc((void *)(uintptr_t)*list, (*n + 1) * sizeof *grown);
    if (!grown) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    grown[(*n)++] = value;
    *list = grown;
    return CDZ_OK;
}

/* Into the field; the words of a field that a library function reads are judged there. */
cdz_status cdz_setting_put(const cdz_setting *row, void *home, const char *value, cdz_error *err)
{
    void *field = (unsigned char *)home + row->offset;
    double number;
    uint32_t which;
    switch (row->kind) {
    case CDZ_KIND_SWITCH: *(bool *)field = true; return CDZ_OK;
    case CDZ_KIND_BIT: *(uint32_t *)field |= (uint32_t)row->most; return CDZ_OK;
    case CDZ_KIND_COUNT:
        if (!number_within(row, value, &number) || number != floor(number))
            return expected(row, err);
        *(uint32_t *)field = (uint32_t)number;
        return CDZ_OK;
    case CDZ_KIND_SECONDS: return number_within(row, value, field) ? CDZ_OK : expected(row, err);
    case CDZ_KIND_BYTES:
        if (!cdz_parse_size(value, field) || *(uint64_t *)field < (uint64_t)row->least)
            return expected(row, err);
        return CDZ_OK;
    case CDZ_KIND_WORD:
        if ((row->home == CDZ_HOME_PROGRAM || row->served) && !word_of(row, value, &which))
            return expected(row, err);
        *(const char **)field = value;
        return CDZ_OK;
    case CDZ_KIND_TEXTS:
        return add_text(field, (void *)((unsigned char *)home + row->count), value, err);
    case CDZ_KIND_TEXT: *(const char **)field = value; return CDZ_OK;
    case CDZ_KIND_PARAMETER: break;
    }
    return CDZ_OK;
}

static unsigned char *home_of(cdz_settings *s, const cdz_setting *row)
{
    switch (row->home) {
    case CDZ_HOME_OPTIONS: return (unsigned char *)&s->options;
    case CDZ_HOME_MODEL: return (unsigned char *)&s->model;
    case CDZ_HOME_REQUEST: return (unsigned char *)&s->request;
    case CDZ_HOME_PROGRAM: return (unsigned char *)&s->program;
    case CDZ_HOME_NONE: break;
    }
    return NULL;
}

cdz_status cdz_settings_take(cdz_settings *settings, const cdz_setting *row, const char *value,
                             cdz_error *err)
{
    if (row->home != CDZ_HOME_NONE)
        CDZ_TRY(cdz_setting_put(row, home_of(settings, row), value, err));
    settings->said[cdz_setting_index(row)] = value ? value : "";
    return CDZ_OK;
}

const char *const *cdz_settings_texts(const cdz_settings *settings, const cdz_setting *row,
                                      uint32_t *n)
{
    const unsigned char *home = home_of((cdz_settings *)(uintptr_t)settings, row);
    *n = 0;
    if (row->kind != CDZ_KIND_TEXTS || !home) return NULL;
    *n = *(const uint32_t *)(const void *)(home + row->count);
    return *(const char *const *const *)(const void *)(home + row->offset);
}

static void free_texts(void *home)
{
    const char *const **texts = home;
    free((void *)(uintptr_t)*texts);
}

void cdz_settings_free(cdz_settings *settings)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->kind == CDZ_KIND_TEXTS) free_texts(home_of(settings, row) + row->offset);
    *settings = (cdz_settings){0};
}

cdz_status cdz_settings_copy(const cdz_settings *from, cdz_settings *out, cdz_error *err)
{
    const cdz_setting *row;
    cdz_status status = CDZ_OK;
    *out = *from;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (row->kind != CDZ_KIND_TEXTS) continue;
        const char *const **list = (void *)(home_of(out, row) + row->offset);
        uint32_t *n = (void *)(home_of(out, row) + row->count);
        const char *const *old = *list;
        const uint32_t n_old = *n;
        *list = NULL;
        *n = 0;
        for (uint32_t k = 0; k < n_old && status == CDZ_OK; k++)
            status = add_text(list, n, old[k], err);
    }
    return status;
}

const cdz_setting *cdz_settings_first(const cdz_settings *settings, unsigned groups)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (settings->said[i] && (row->group & groups)) return row;
    return NULL;
}

cdz_options cdz_settings_to_options(const cdz_settings *settings)
{
    cdz_options options = settings->options;
    options.size = sizeof options;
    return options;
}

cdz_model_options cdz_settings_to_model(const cdz_settings *settings)
{
    cdz_model_options options = settings->model;
    options.size = sizeof options;
    return options;
}

cdz_request cdz_settings_to_request(const cdz_settings *settings)
{
    cdz_request request = settings->request;
    request.size = sizeof request;
    return request;
}

/* --- variables ------------------------------------------------------------------------------------------------ */

static bool is_set(const cdz_setting *row, const void *field)
{
    switch (row->kind) {
    case CDZ_KIND_SWITCH: return *(const bool *)field;
    case CDZ_KIND_BIT:
    case CDZ_KIND_COUNT: return *(const uint32_t *)field != 0;
    case CDZ_KIND_BYTES: return *(const uint64_t *)field != 0;
    case CDZ_KIND_SECONDS: return *(const double *)field > 0;
    default: return *(const char *const *)field != NULL;
    }
}

cdz_status cdz_settings_from_environment(cdz_options *options, cdz_error *err)
{
    unsigned char *home = (unsigned char *)options;
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        const char *text = row->home == CDZ_HOME_OPTIONS ? cdz_setting_env(row) : NULL;
        if (!text || is_set(row, home + row->offset)) continue;
        cdz_error why = {0};
        const cdz_status status = cdz_setting_put(row, home, text, &why);
        if (status != CDZ_OK) return cdz_err(err, status, "%s=%s: %s", row->env, text, why.text);
    }
    return CDZ_OK;
}
