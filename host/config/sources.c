/* sources.c - reads pipeline files with what they inherit, and command-line settings, into one list. */
#include "config/sources.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ini.h"

enum { MAX_DEPTH = 8, MAX_PROFILES = 64 };

/* The file being read and those that use it. */
typedef struct chain {
    const struct chain *outer;
    const char *canonical; /* NULL: text from memory */
    uint32_t depth;
} chain;

static cdz_status read_text(cdz_sources *s, const char *text, size_t len, const char *name,
                            const chain *here, cdz_error *err);

/* --- growing --------------------------------------------------------------------------------------------- */

static bool grow(cdz_arena *arena, void **at, uint32_t n, uint32_t *cap, size_t bytes)
{
    if (n < *cap) return true;
    uint32_t more = *cap ? *cap * 2 : 16;
    void *bigger = cdz_arena_array(arena, more, bytes);
    if (!bigger) return false;
    if (n) memcpy(bigger, *at, n * bytes);
    *at = bigger;
    *cap = more;
    return true;
}

static cdz_status add_setting(cdz_sources *s, cdz_written setting, cdz_error *err)
{
    void *at = s->at;
    if (!grow(s->arena, &at, s->n, &s->cap, sizeof *s->at))
        return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    s->at = at;
    s->at[s->n++] = setting;
    return CDZ_OK;
}

static cdz_status add_section(cdz_sources *s, cdz_written_section section, cdz_error *err)
{
    void *at = s->sections;
    if (!grow(s->arena, &at, s->n_sections, &s->cap_sections, sizeof *s->sections))
        return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    s->sections = at;
    s->sections[s->n_sections++] = section;
    return CDZ_OK;
}

static cdz_status add_file(cdz_sources *s, const char *path, cdz_error *err)
{
    void *at = s->files;
    const char *copy = cdz_arena_strdup(s->arena, path);
    if (!copy || !grow(s->arena, &at, s->n_files, &s->cap_files, sizeof *s->files))
        return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    s->files = at;
    s->files[s->n_files++] = copy;
    return CDZ_OK;
}

/* --- other names ----------------------------------------------------------------------------------------- */

const cdz_other_name *cdz_sources_other_name(const cdz_sources *sources, const char *name)
{
    for (uint32_t i = sources->n_names; i > 0; i--)
        if (strcmp(sources->names[i - 1].alias, name) == 0) return &sources->names[i - 1];
    return NULL;
}

/* `alias = name` of a generation parameter, or `alias = section.name`. */
static cdz_status add_name(cdz_sources *s, const cdz_ini_setting *set, const char *file,
                           cdz_error *err)
{
    const char *dot = strrchr(set->value, '.');
    cdz_other_name other = {.alias = set->name, .section = "generation", .name = set->value};
    void *at = s->names;
    if (dot) {
        other.section = cdz_arena_strndup(s->arena, set->value, (size_t)(dot - set->value));
        other.name = dot + 1;
    } else if (cdz_generation_slot(set->value) < 0) {
        char hint[120];
        cdz_generation_suggest(set->value, NULL, hint, sizeof hint);
        return cdz_err(err, CDZ_E_USAGE, "%s:%u: [names] %s = %s: no such parameter%s", file,
                       set->line, set->name, set->value, hint);
    }
    if (!other.section || !grow(s->arena, &at, s->n_names, &s->cap_names, sizeof *s->names))
        return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    s->names = at;
    s->names[s->n_names++] = other;
    return CDZ_OK;
}

/* A name of [generation] as it is called there, or somewhere else altogether. */
static void translate(const cdz_sources *s, cdz_written *w)
{
    const cdz_other_name *other = cdz_sources_other_name(s, w->name);
    if (!other) return;
    w->section = other->section;
    w->name = other->name;
    w->origin.said = other->alias;
    w->bare = false;
}

/* --- further models -------------------------------------------------------------------------------------- */

static cdz_named_folder *model_named(const cdz_sources *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_models; i++)
        if (strcmp(s->models[i].name, name) == 0) return &s->models[i];
    return NULL;
}

/* none: whatever a file that is used says. */
static void drop_model(cdz_sources *s, const char *name)
{
    cdz_named_folder *at = model_named(s, name);
    if (at) *at = s->models[--s->n_models];
}

/* `name = folder`. That it is there is seen at once; whether it is a model, when a request opens it. */
static cdz_status add_model(cdz_sources *s, const cdz_ini_setting *set, cdz_origin origin,
                            cdz_error *err)
{
    struct stat st;
    void *at = s->models;
    drop_model(s, set->name);
    if (strcmp(set->name, "target") == 0 || strcmp(set->name, "assistant") == 0)
        return cdz_err(err, CDZ_E_USAGE,
                       "%s:%u: [models] %s: is what loops call the request's own %s; give it "
                       "another name",
                       origin.file, origin.line, set->name,
                       set->name[0] == 't' ? "model" : "draft model");
    if (strcmp(set->value, "none") == 0) return CDZ_OK;
    const char *folder = cdz_sources_path(s->arena, &origin, set->value);
    if (!folder || !grow(s->arena, &at, s->n_models, &s->cap_models, sizeof *s->models))
        return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    if (stat(folder, &st) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s:%u: [models] %s = %s: there is no %s", origin.file,
                       origin.line, set->name, set->value, folder);
    s->models = at;
    s->models[s->n_models++] = (cdz_named_folder){set->name, folder, origin};
    return CDZ_OK;
}

/* --- settings of the host --------------------------------------------------------------------------------- */

/* The setting that a key of [model] is; NULL: it is none, and for the drafter that runs a model. */
static const cdz_setting *host_setting(const cdz_written *w)
{
    if (strcmp(w->section, "pipeline") == 0) return NULL; /* the keys of the pipeline itself */
    return cdz_setting_in_file(w->section, w->name);
}

/* none: whatever a file that is used says. */
static cdz_status set_host(cdz_sources *s, const cdz_written *w, const cdz_setting *setting,
                           cdz_error *err)
{
    const size_t i = cdz_setting_index(setting);
    s->host[i] = NULL;
    if (setting->or_null && strcmp(w->text, "none") == 0) return CDZ_OK;
    cdz_written *kept = cdz_arena_alloc(s->arena, sizeof *kept);
    if (!kept) return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    *kept = *w;
    s->host[i] = kept;
    return CDZ_OK;
}

/* --- checking -------------------------------------------------------------------------------------------- */

static bool pipeline_key(const char *name)
{
    return cdz_setting_in_file("pipeline", name) != NULL;
}

/* Sections that have settings of the host and nothing else; [model] is also the drafter's that runs a model. */
static bool is_host_section(const char *section)
{
    return cdz_setting_section(section) && strcmp(section, "model") != 0;
}

static cdz_status check_host_key(const cdz_written *w, cdz_error *err)
{
    char all[200];
    size_t n = 0;
    const cdz_setting *row;
    if (cdz_setting_in_file(w->section, w->name)) return CDZ_OK;
    const char *near = cdz_setting_near(w->section, w->name);
    if (near)
        return cdz_err(err, CDZ_E_USAGE, "%s: no such key: did you mean '%s'?", w->name, near);
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL && n < sizeof all; i++)
        if (row->section && strcmp(row->section, w->section) == 0)
            n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", row->name);
    return cdz_err(err, CDZ_E_USAGE, "%s: no such key; it has %s", w->name, all);
}

static cdz_status check_generation_key(const cdz_written *w, cdz_error *err)
{
    char hint[120];
    int slot = cdz_generation_slot(w->name);
    if (slot >= 0) return CDZ_OK;
    cdz_generation_suggest(w->name, NULL, hint, sizeof hint);
    return cdz_err(err, CDZ_E_USAGE, "%s: no such parameter%s", w->name, hint);
}

static cdz_status check_generation_value(cdz_sources *s, const cdz_written *w, cdz_error *err)
{
    cdz_json value;
    uint32_t slot = (uint32_t)cdz_generation_slot(w->name);
    return cdz_generation_from_text(slot, w->text, s->arena, &value, err);
}

/* Unknown names are reported with their column, bad values with their line. */
static cdz_status check(cdz_sources *s, const cdz_written *w, cdz_error *err)
{
    bool generation = strcmp(w->section, "generation") == 0;
    cdz_error why = {0};
    cdz_status st = CDZ_OK;

    if (is_host_section(w->section)) st = check_host_key(w, &why);
    if (generation) st = check_generation_key(w, &why);
    if (st != CDZ_OK)
        return cdz_err(err, st, "%s:%u:1: [%s] %s", w->origin.file, w->origin.line, w->section,
                       why.text);
    if (generation) st = check_generation_value(s, w, &why);
    if (st != CDZ_OK)
        return cdz_err(err, st, "%s:%u: [%s] %s", w->origin.file, w->origin.line, w->section,
                       why.text);
    return CDZ_OK;
}

/* --- files ----------------------------------------------------------------------------------------------- */

const char *cdz_sources_path(cdz_arena *arena, const cdz_origin *origin, const char *path)
{
    const char *slash = origin->file ? strrchr(origin->file, '/') : NULL;
    if (*path == '/' || !slash) return cdz_arena_strdup(arena, path);
    return cdz_arena_printf(arena, "%.*s/%s", (int)(slash - origin->file), origin->file, path);
}

const char *cdz_sources_profile(const cdz_sources *sources, const char *name)
{
    if (!sources->profiles || !*name ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") < strlen(name))
        return NULL;
    const char *path = cdz_arena_printf(sources->arena, "%s/%s.ini", sources->profiles, name);
    return path && access(path, R_OK) == 0 ? path : NULL;
}

/* Adds to the sentence of a file that is not there which profile may have been meant. */
static cdz_status suggest_profile(const cdz_sources *s, const char *name, cdz_error *err)
{
    const char *names[MAX_PROFILES] = {"hf"}, *dot;
    size_t n = 1;
    DIR *dir = s->profiles ? opendir(s->profiles) : NULL;
    for (struct dirent *e; dir && n < MAX_PROFILES && (e = readdir(dir)) != NULL;)
        if ((dot = strrchr(e->d_name, '.')) && strcmp(dot, ".ini") == 0 &&
            (names[n] = cdz_arena_strndup(s->arena, e->d_name, (size_t)(dot - e->d_name))))
            n++;
    if (dir) closedir(dir);
    const char *near = cdz_nearest_name(name, names, n);
    if (!near || !err) return CDZ_E_NOT_FOUND;
    return cdz_err(err, CDZ_E_NOT_FOUND, "%s; did you mean the profile '%s'?", err->text, near);
}

static cdz_status read_file(cdz_sources *s, const char *path, const chain *outer, cdz_error *err)
{
    char canonical[PATH_MAX];
    chain here = {outer, canonical, outer ? outer->depth + 1 : 1};
    char *text = NULL;
    size_t len = 0;

    if (here.depth > MAX_DEPTH)
        return cdz_err(err, CDZ_E_USAGE, "%s: more than %d files that use one another", path,
                       (int)MAX_DEPTH);
    CDZ_TRY(add_file(s, path, err));
    CDZ_TRY(cdz_file_read(path, CDZ_INI_MAX_BYTES, &text, &len, err));
    if (!realpath(path, canonical)) here.canonical = NULL;
    for (const chain *c = outer; c && here.canonical; c = c->outer) {
        if (!c->canonical || strcmp(c->canonical, canonical) != 0) continue;
        free(text);
        return cdz_err(err, CDZ_E_USAGE, "%s: uses itself", path);
    }
    cdz_status st = read_text(s, text, len, path, &here, err);
    free(text);
    return st;
}

/* The file that `use` names comes first, so that own keys win. */
static cdz_status read_used(cdz_sources *s, const cdz_ini *ini, const char *name, const chain *here,
                            cdz_error *err)
{
    for (uint32_t i = 0; i < ini->n_settings; i++) {
        const cdz_ini_setting *set = &ini->settings[i];
        if (strcmp(set->section, "pipeline") != 0 || strcmp(set->name, "use") != 0) continue;
        if (strcmp(set->value, "hf") == 0) return CDZ_OK;
        const cdz_origin origin = {.file = name, .line = set->line};
        const char *path = cdz_sources_profile(s, set->value);
        if (!path && s->no_files)
            return cdz_err(err, CDZ_E_NOT_FOUND, "use = %s: there is no such profile", set->value);
        if (!path) path = cdz_sources_path(s->arena, &origin, set->value);
        if (!path) return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
        cdz_error why = {0};
        cdz_status st = read_file(s, path, here, &why);
        if (st == CDZ_E_NOT_FOUND) st = suggest_profile(s, set->value, &why);
        if (st != CDZ_OK)
            return cdz_err(err, st, "%s:%u: use = %s: %s", name, set->line, set->value, why.text);
    }
    return CDZ_OK;
}

static cdz_status add_ini(cdz_sources *s, const cdz_ini *ini, const char *name, cdz_source source,
                          cdz_error *err)
{
    for (uint32_t i = 0; i < ini->n_sections; i++) {
        const cdz_written_section section = {ini->sections[i].name,
                                             {source, name, ini->sections[i].line, 1, NULL}};
        CDZ_TRY(add_section(s, section, err));
    }
    for (uint32_t i = 0; i < ini->n_settings; i++)
        if (strcmp(ini->settings[i].section, "names") == 0)
            CDZ_TRY(add_name(s, &ini->settings[i], name, err));
    for (uint32_t i = 0; i < ini->n_settings; i++) {
        const cdz_ini_setting *set = &ini->settings[i];
        cdz_written w = {
            set->section, set->name, set->value, {source, name, set->line, set->column, NULL}, false};
        if (strcmp(w.section, "names") == 0) continue;
        if (strcmp(w.section, "models") == 0) {
            CDZ_TRY(add_model(s, set, w.origin, err));
            continue;
        }
        const cdz_setting *setting = host_setting(&w);
        if (setting) {
            CDZ_TRY(set_host(s, &w, setting, err));
            continue;
        }
        if (strcmp(w.section, "generation") == 0) translate(s, &w);
        CDZ_TRY(check(s, &w, err));
        CDZ_TRY(add_setting(s, w, err));
    }
    return CDZ_OK;
}

static cdz_status read_text(cdz_sources *s, const char *text, size_t len, const char *name,
                            const chain *here, cdz_error *err)
{
    cdz_ini ini;
    cdz_source source = here->depth > 1 ? CDZ_SOURCE_PROFILE : CDZ_SOURCE_FILE;
    const char *kept = cdz_arena_strdup(s->arena, name);
    if (!kept) return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    CDZ_TRY(cdz_ini_read(text, len, kept, s->arena, &ini, err));
    CDZ_TRY(read_used(s, &ini, kept, here, err));
    return add_ini(s, &ini, kept, source, err);
}

cdz_status cdz_sources_read(cdz_sources *sources, const char *text, size_t len, const char *name,
                            cdz_error *err)
{
    const chain here = {NULL, NULL, 1};
    return read_text(sources, text ? text : "", text ? len : 0, name, &here, err);
}

cdz_status cdz_sources_read_file(cdz_sources *sources, const char *path, cdz_error *err)
{
    const cdz_status st = read_file(sources, path, NULL, err);
    return st == CDZ_E_NOT_FOUND ? suggest_profile(sources, path, err) : st;
}

/* --- the command line ------------------------------------------------------------------------------------ */

cdz_status cdz_sources_override(cdz_sources *sources, const char *name, const char *value,
                                cdz_error *err)
{
    /* Parameter names hold no dot, section names may: the last one divides. */
    const char *dot = strrchr(name, '.');
    cdz_written w = {.section = "", .origin = {.source = CDZ_SOURCE_COMMAND}};
    cdz_error why = {0};
    cdz_status st = CDZ_OK;

    if (!*name || (dot && (dot == name || !dot[1])))
        return cdz_err(err, CDZ_E_USAGE, "-s %s: expected name=value or section.name=value", name);
    if (dot) w.section = cdz_arena_strndup(sources->arena, name, (size_t)(dot - name));
    w.name = cdz_arena_strdup(sources->arena, dot ? dot + 1 : name);
    w.text = cdz_arena_strdup(sources->arena, value);
    if (!w.section || !w.name || !w.text)
        return cdz_err(err, CDZ_E_NOMEM, "pipeline: out of memory");
    if (!dot && cdz_generation_slot(name) >= 0) w.section = "generation";
    w.bare = !dot;
    if (!dot && pipeline_key(name)) w.section = "pipeline";
    if (!dot || strcmp(w.section, "generation") == 0) translate(sources, &w);

    if (is_host_section(w.section)) st = check_host_key(&w, &why);
    if (st == CDZ_OK && strcmp(w.section, "pipeline") == 0 && strcmp(w.name, "use") == 0)
        st = cdz_err(&why, CDZ_E_USAGE,
                     "use: a profile belongs in a file, or is the pipeline itself: --pipeline %s",
                     w.text);
    if (st == CDZ_OK && strcmp(w.section, "models") == 0)
        st = cdz_err(&why, CDZ_E_USAGE, "models.%s: belongs in a file; else say --with %s=FOLDER",
                     w.name, w.name);
    const cdz_setting *setting = host_setting(&w);
    if (setting)
        st = cdz_err(&why, CDZ_E_USAGE, "%s.%s: belongs in a file; else say --%s", w.section,
                     setting->name, setting->flag.name);
    if (strcmp(w.section, "generation") == 0) {
        st = check_generation_key(&w, &why);
        if (st == CDZ_OK && !w.bare) st = check_generation_value(sources, &w, &why);
    }
    if (st != CDZ_OK) return cdz_err(err, st, "-s %s", why.text);
    return add_setting(sources, w, err);
}

const cdz_written *cdz_sources_find(const cdz_sources *sources, const char *section,
                                    const char *name)
{
    for (uint32_t i = sources->n; i > 0; i--) {
        const cdz_written *w = &sources->at[i - 1];
        if (strcmp(w->section, section) == 0 && strcmp(w->name, name) == 0) return w;
    }
    return NULL;
}
