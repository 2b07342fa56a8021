/* settings_server.c - the file of a server: [server] has its options as keys, each [model NAME] is a model, [models] has further
 * ones that decode loops use by name, and the section that is called as the scheduler has its parameters. See settings.h. What the command line said wins. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ini.h"
#include "params/params.h"
#include "params/settings.h"

static const char of_model[] = "model ", of_others[] = "models";

/* The row of a key; sections of models are one section to the table. */
static const cdz_setting *row_of(const char *section, const char *key)
{
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->served && row->section && strcmp(row->section, section) == 0 &&
            strcmp(row->name, key) == 0)
            return row;
    return NULL;
}

static cdz_status unknown_key(const char *file, const cdz_ini_setting *at, const char *section,
                              cdz_error *err)
{
    const char *near = cdz_setting_near(section, at->name);
    return cdz_err(err, CDZ_E_USAGE, "%s:%u:1: [%s] has no key '%.40s'%s%s%s", file, at->line,
                   section, at->name, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

static cdz_status wrong_value(const char *file, const cdz_ini_setting *at, cdz_error *err)
{
    return cdz_err_prefix(err, "%s:%u:%u: %s = %.60s", file, at->line, at->column, at->name,
                          at->value);
}

/* --- values ------------------------------------------------------------------------------------------------- */

/* Names apart by commas. */
static cdz_status take_each(cdz_settings *settings, const cdz_setting *row, const char *value,
                            cdz_arena *arena, cdz_error *err)
{
    for (const char *at = value; *at;) {
        at += strspn(at, " \t,");
        const size_t n = strcspn(at, " \t,");
        if (!n) break;
        const char *one = cdz_arena_strndup(arena, at, n);
        if (!one) return cdz_err_memory(err, "the server's file");
        CDZ_TRY(cdz_settings_take(settings, row, one, err));
        at += n;
    }
    return CDZ_OK;
}

static cdz_status take(cdz_settings *settings, const cdz_setting *row, const char *value,
                       cdz_arena *arena, cdz_error *err)
{
    if (row->kind == CDZ_KIND_TEXTS) return take_each(settings, row, value, arena, err);
    if (row->kind == CDZ_KIND_SWITCH && !cdz_param_is_boolean_text(value))
        return cdz_err(err, CDZ_E_USAGE, "expected yes or no");
    if (row->kind == CDZ_KIND_SWITCH && !cdz_param_is_yes_text(value)) return CDZ_OK;
    const char *kept = cdz_arena_strdup(arena, value);
    return kept ? cdz_settings_take(settings, row, kept, err)
                : cdz_err_memory(err, "the server's file");
}

/* --- sections ------------------------------------------------------------------------------------------------ */

static cdz_status add_model(const char *file, const cdz_ini_section *section,
                            cdz_served_list *models, cdz_arena *arena, cdz_error *err)
{
    const char *name = section->name + sizeof of_model - 1;
    name += strspn(name, " ");
    if (!*name)
        return cdz_err(err, CDZ_E_USAGE, "%s:%u: [%s]: expected [model NAME]", file, section->line,
                       section->name);
    for (size_t i = 0; i < models->n; i++)
        if (strcmp(models->at[i].name, name) == 0)
            return cdz_err(err, CDZ_E_USAGE, "%s:%u: [%s]: there is a model of that name already",
                           file, section->line, section->name);
    models->at[models->n].name = cdz_arena_strdup(arena, name);
    return models->at[models->n++].name ? CDZ_OK : cdz_err_memory(err, "the server's file");
}

const char *cdz_settings_scheduler(const char *said)
{
    return !said || strcmp(said, "fifo") == 0 ? "first_come" : said;
}

/* The file's own; whether it is in use is another matter. */
static bool is_of_scheduler(const cdz_ini *ini, const cdz_settings *before, const char *section)
{
    const char *said = NULL;
    for (uint32_t i = 0; i < ini->n_settings; i++)
        if (strcmp(ini->settings[i].section, "server") == 0 &&
            strcmp(ini->settings[i].name, "scheduler") == 0)
            said = ini->settings[i].value;
    const char *own = cdz_settings_scheduler(section), *line = before->options.scheduler;
    return strcmp(own, cdz_settings_scheduler(said)) == 0 ||
           (line && strcmp(own, cdz_settings_scheduler(line)) == 0);
}

static cdz_status read_sections(const char *file, const cdz_ini *ini, const cdz_settings *before,
                                cdz_served_list *models, cdz_arena *arena, cdz_error *err)
{
    models->n = 0;
    models->at = cdz_arena_array(arena, ini->n_sections + 1, sizeof *models->at);
    if (!models->at) return cdz_err_memory(err, "the server's file");
    memset(models->at, 0, (ini->n_sections + 1) * sizeof *models->at);
    for (uint32_t i = 0; i < ini->n_sections; i++) {
        const char *name = ini->sections[i].name;
        if (strncmp(name, of_model, sizeof of_model - 1) == 0)
            CDZ_TRY(add_model(file, &ini->sections[i], models, arena, err));
        else if (strcmp(name, "server") != 0 && strcmp(name, of_others) != 0 &&
                 !is_of_scheduler(ini, before, name))
            return cdz_err(err, CDZ_E_USAGE,
                           "%s:%u: [%.48s] is no section of a server's file, which has [server], "
                           "[model NAME], [models] and one called as its scheduler",
                           file, ini->sections[i].line, name);
    }
    return CDZ_OK;
}

static cdz_served_settings *model_of(const cdz_served_list *models, const char *section)
{
    const char *name = section + sizeof of_model - 1;
    name += strspn(name, " ");
    for (size_t i = 0; i < models->n; i++)
        if (strcmp(models->at[i].name, name) == 0) return &models->at[i];
    return NULL;
}

static cdz_status take_of_model(const char *file, const cdz_ini_setting *at,
                                const cdz_served_list *models, cdz_arena *arena, cdz_error *err)
{
    const cdz_setting *row = row_of("model NAME", at->name);
    cdz_served_settings *model = model_of(models, at->section);
    if (!row || !model) return unknown_key(file, at, "model NAME", err);
    const char *kept = cdz_arena_strdup(arena, at->value);
    if (!kept) return cdz_err_memory(err, "the server's file");
    return cdz_setting_put(row, model, kept, err) == CDZ_OK ? CDZ_OK : wrong_value(file, at, err);
}

static cdz_status take_of_server(const char *file, const cdz_ini_setting *at,
                                 const cdz_settings *before, cdz_settings *settings,
                                 cdz_arena *arena, cdz_error *err)
{
    const cdz_setting *row = row_of("server", at->name);
    if (!row) return unknown_key(file, at, "server", err);
    if (before->said[cdz_setting_index(row)]) return CDZ_OK;
    return take(settings, row, at->value, arena, err) == CDZ_OK ? CDZ_OK
                                                                : wrong_value(file, at, err);
}

/* Has a list of NAME=VALUE this name? */
static bool has_name(const char *const *list, uint32_t n_list, const char *name)
{
    const size_t n = strlen(name);
    for (uint32_t i = 0; i < n_list; i++)
        if (strncmp(list[i], name, n) == 0 && list[i][n] == '=') return true;
    return false;
}

/* NAME = FOLDER, as --with NAME=FOLDER: a path beside the file, or what --with takes. */
static cdz_status take_other(const char *file, const cdz_ini_setting *at, cdz_settings *settings,
                             cdz_arena *arena, cdz_error *err)
{
    const char *slash = strrchr(file, '/');
    const char *near = slash && at->value[0] != '/'
                           ? cdz_arena_printf(arena, "%.*s/%s", (int)(slash - file), file, at->value)
                           : at->value;
    if (!near) return cdz_err_memory(err, "the server's file");
    const char *folder = access(near, F_OK) == 0 ? near : at->value;
    const char *text = cdz_arena_printf(arena, "%s=%s", at->name, folder);
    if (has_name(settings->program.with, settings->program.n_with, at->name)) return CDZ_OK;
    return text ? cdz_settings_take(settings, cdz_setting_named("with"), text, err)
                : cdz_err_memory(err, "the server's file");
}

/* What the scheduler makes of it is told when it is found. */
static cdz_status take_of_scheduler(const cdz_ini_setting *at, cdz_settings *settings,
                                    cdz_arena *arena, cdz_error *err)
{
    const char *used = cdz_settings_scheduler(settings->options.scheduler);
    if (strcmp(cdz_settings_scheduler(at->section), used) != 0) return CDZ_OK;
    if (has_name(settings->options.scheduler_params, settings->options.n_scheduler_params, at->name))
        return CDZ_OK;
    const char *text = cdz_arena_printf(arena, "%s=%s", at->name, at->value);
    return text ? cdz_settings_take(settings, cdz_setting_named("scheduler_set"), text, err)
                : cdz_err_memory(err, "the server's file");
}

static cdz_status read_all(const char *file, const cdz_ini *ini, const cdz_settings *before,
                           cdz_settings *settings, cdz_served_list *models, cdz_arena *arena,
                           cdz_error *err)
{
    CDZ_TRY(read_sections(file, ini, before, models, arena, err));
    for (uint32_t i = 0; i < ini->n_settings; i++) {
        const cdz_ini_setting *at = &ini->settings[i];
        if (strcmp(at->section, "server") == 0)
            CDZ_TRY(take_of_server(file, at, before, settings, arena, err));
        else if (strncmp(at->section, of_model, sizeof of_model - 1) == 0)
            CDZ_TRY(take_of_model(file, at, models, arena, err));
        else if (strcmp(at->section, of_others) == 0)
            CDZ_TRY(take_other(file, at, settings, arena, err));
    }
    /* When it is known which scheduler there is. */
    for (uint32_t i = 0; i < ini->n_settings; i++) {
        const cdz_ini_setting *at = &ini->settings[i];
        if (strcmp(at->section, "server") == 0 || strcmp(at->section, of_others) == 0 ||
            strncmp(at->section, of_model, sizeof of_model - 1) == 0)
            continue;
        if (take_of_scheduler(at, settings, arena, err) != CDZ_OK)
            return wrong_value(file, at, err);
    }
    for (size_t i = 0; i < models->n; i++)
        if (!models->at[i].path)
            return cdz_err(err, CDZ_E_USAGE, "%s: [model %s] has no path", file, models->at[i].name);
    return CDZ_OK;
}

cdz_status cdz_settings_read_server(const char *path, cdz_settings *settings,
                                    cdz_served_list *models, cdz_arena *arena, cdz_error *err)
{
    char *text = NULL;
    size_t len = 0;
    cdz_ini ini;
    const cdz_settings before = *settings; /* what was said, for who wins; its lists are not read */
    CDZ_TRY(cdz_file_read(path, CDZ_INI_MAX_BYTES, &text, &len, err));
    cdz_status status = cdz_ini_read(text, len, path, arena, &ini, err);
    free(text);
    if (status == CDZ_OK) status = read_all(path, &ini, &before, settings, models, arena, err);
    return status;
}
