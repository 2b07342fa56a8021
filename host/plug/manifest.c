/* manifest.c - plugin.ini: its closed list of keys, what their values must be, and where its entry leads. The text is
 * base/ini.h's business. */
#include "plug/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/ini.h"
#include "base/sha256.h"
#include "describe/abi.h"
#include "describe/descriptor.h"

typedef enum key {
    KEY_ID,
    KEY_VERSION,
    KEY_KIND,
    KEY_ENTRY,
    KEY_FILES,
    KEY_ABI,
    KEY_LICENSE,
    KEY_NEEDS,
    KEY_SHA256,
    KEY_SUMMARY,
    N_KEYS
} key;

static const char *const key_names[N_KEYS] = {"id",  "version", "kind",  "entry",  "files",
                                              "abi", "license", "needs", "sha256", "summary"};

typedef struct reader {
    cdz_manifest *out;
    const cdz_ini_setting *values[N_KEYS]; /* the arena's; NULL: not given */
    cdz_error *err;
} reader;

static cdz_status take(reader *r, const cdz_ini_setting *setting)
{
    const char *path = r->out->path;
    for (size_t k = 0; k < N_KEYS; k++) {
        if (strcmp(setting->name, key_names[k]) != 0) continue;
        r->values[k] = setting;
        return CDZ_OK;
    }
    const char *near = cdz_nearest_name(setting->name, key_names, N_KEYS);
    return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: [plugin] unknown key '%s'%s%s%s", path,
                   setting->line, setting->name, near ? ": did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

/* Arrives whole: the file is at most 64 KiB. */
static cdz_status parse(reader *r)
{
    char *text = NULL;
    size_t len = 0;
    cdz_ini ini = {0};
    CDZ_TRY(cdz_file_read(r->out->path, CDZ_MANIFEST_BYTES, &text, &len, r->err));
    cdz_sha256_hex(text, len, r->out->digest);
    cdz_status st = cdz_ini_read(text, len, r->out->path, &r->out->arena, &ini, r->err);
    free(text);
    for (uint32_t i = 0; st == CDZ_OK && i < ini.n_sections; i++)
        if (strcmp(ini.sections[i].name, "plugin") != 0)
            st = cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: [%s]: only the section [plugin] is known",
                         r->out->path, ini.sections[i].line, ini.sections[i].name);
    for (uint32_t i = 0; st == CDZ_OK && i < ini.n_settings; i++) st = take(r, &ini.settings[i]);
    return st;
}

/* --- what the values must be ------------------------------------------------------------------------------ */

static const char *value(const reader *r, key k)
{
    return r->values[k] ? r->values[k]->value : NULL;
}

static cdz_status check_required(const reader *r)
{
    static const key required[] = {KEY_ID, KEY_VERSION, KEY_KIND, KEY_ENTRY};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        if (!r->values[required[i]])
            return cdz_err(r->err, CDZ_E_INPUT, "%s: [plugin] needs a value for %s", r->out->path,
                           key_names[required[i]]);
    return CDZ_OK;
}

static bool kind_ok(const char *text)
{
    return cdz_kind_of_name(text) != 0;
}

static bool abi_ok(const char *text)
{
    unsigned major, minor;
    char rest;
    return sscanf(text, "%5u.%5u%c", &major, &minor, &rest) == 2;
}

/* What a value must look like wherever it is given. */
static cdz_status check_values(const reader *r)
{
    static const struct {
        key key;
        bool (*ok)(const char *text);
        const char *expected;
    } rules[] = {{KEY_ID, cdz_plugin_id_ok, CDZ_PLUGIN_ID_IS},
                 {KEY_VERSION, cdz_plugin_version_ok, "one as 1.0.0"},
                 {KEY_KIND, kind_ok,
                  "processor, criterion, strategy, drafter, observer, loader, scheduler or press"},
                 {KEY_SHA256, cdz_sha256_is_hex, "64 hexadecimal digits"},
                 {KEY_ABI, abi_ok, "one as 1.0"}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const cdz_ini_setting *s = r->values[rules[i].key];
        if (s && !rules[i].ok(s->value))
            return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:%u: %s = %s: expected %s", r->out->path,
                           s->line, s->column, s->name, s->value, rules[i].expected);
    }
    return CDZ_OK;
}

static cdz_status check_abi(const cdz_manifest *m, cdz_error *err)
{
    unsigned major, minor;
    if (!m->abi || sscanf(m->abi, "%5u.%5u", &major, &minor) != 2) return CDZ_OK;
    if (cdz_abi_spoken(major, minor)) return CDZ_OK;
    return cdz_abi_refusal(m->path, major, minor, err);
}

/* A plain name of a regular file; a symbolic link may not lead out of the folder. */
static cdz_status check_file(const char *folder, const cdz_manifest *m, const char *what,
                             const char *name, const char *path, cdz_error *err)
{
    struct stat s;
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: %s = %s: expected a plain file name in the same folder", m->path, what,
                       name);
    if (stat(path, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: %s = %s: %s", m->path, what, name,
                       errno == ENOENT ? "no such file in the folder; has it been built?"
                                       : strerror(errno));
    if (!S_ISREG(s.st_mode))
        return cdz_err(err, CDZ_E_DENIED, "%s: %s = %s: not a regular file", m->path, what, name);
    char *home = realpath(folder, NULL), *file = realpath(path, NULL);
    size_t n = home ? strlen(home) : 0;
    bool within = home && file && strncmp(file, home, n) == 0 && file[n] == '/';
    free(home);
    free(file);
    if (!within)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: %s = %s: a symbolic link that leads out of the folder", m->path, what,
                       name);
    return CDZ_OK;
}

/* files = a.lua, b.lua: names apart by commas or spaces. */
static cdz_status read_files(const char *folder, cdz_manifest *m, const char *list, cdz_error *err)
{
    static const char between[] = ", \t";
    const char **names = cdz_arena_array(&m->arena, CDZ_MANIFEST_FILES, sizeof *names);
    const char **paths = cdz_arena_array(&m->arena, CDZ_MANIFEST_FILES, sizeof *paths);
    if (!names || !paths) return cdz_err_memory_in(err, m->path);
    m->files = names;
    m->file_paths = paths;
    for (const char *p = list; p && *(p += strspn(p, between));) {
        const size_t len = strcspn(p, between);
        if (m->n_files == CDZ_MANIFEST_FILES)
            return cdz_err(err, CDZ_E_INPUT, "%s: files: at most %u names", m->path,
                           CDZ_MANIFEST_FILES);
        const char *name = cdz_arena_strndup(&m->arena, p, len);
        const char *path = cdz_arena_printf(&m->arena, "%s/%.*s", folder, (int)len, p);
        if (!name || !path) return cdz_err_memory_in(err, m->path);
        CDZ_TRY(check_file(folder, m, "files", name, path, err));
        names[m->n_files] = name;
        paths[m->n_files++] = path;
        p += len;
    }
    return CDZ_OK;
}

bool cdz_manifest_present(const char *folder)
{
    cdz_arena arena = {0};
    struct stat s;
    const char *path = cdz_arena_printf(&arena, "%s/%s", folder, CDZ_MANIFEST_FILE);
    bool present = path && lstat(path, &s) == 0;
    cdz_arena_free(&arena);
    return present;
}

static cdz_status read_manifest(const char *folder, reader *r)
{
    cdz_manifest *m = r->out;
    m->path = cdz_arena_printf(&m->arena, "%s/%s", folder, CDZ_MANIFEST_FILE);
    if (!m->path) return cdz_err_memory_in(r->err, folder);
    if (!cdz_manifest_present(folder))
        return cdz_err(r->err, CDZ_E_NOT_FOUND, "%s: no plugin package: it has no %s", folder,
                       CDZ_MANIFEST_FILE);
    CDZ_TRY(parse(r));
    CDZ_TRY(check_required(r));
    CDZ_TRY(check_values(r));
    m->id = value(r, KEY_ID);
    m->version = value(r, KEY_VERSION);
    m->kind = cdz_kind_of_name(value(r, KEY_KIND));
    m->entry = value(r, KEY_ENTRY);
    m->abi = value(r, KEY_ABI);
    m->license = value(r, KEY_LICENSE);
    m->needs = value(r, KEY_NEEDS);
    m->sha256 = value(r, KEY_SHA256);
    m->summary = value(r, KEY_SUMMARY);
    m->entry_path = cdz_arena_printf(&m->arena, "%s/%s", folder, m->entry);
    if (!m->entry_path) return cdz_err_memory_in(r->err, m->path);
    CDZ_TRY(check_abi(m, r->err));
    CDZ_TRY(cdz_needs_check(m->path, m->needs, r->err));
    CDZ_TRY(check_file(folder, m, "entry", m->entry, m->entry_path, r->err));
    return read_files(folder, m, value(r, KEY_FILES), r->err);
}

cdz_status cdz_manifest_read(const char *folder, cdz_manifest *out, cdz_error *err)
{
    *out = (cdz_manifest){0};
    reader r = {.out = out, .err = err};
    cdz_status st = read_manifest(folder, &r);
    if (st != CDZ_OK) cdz_manifest_free(out);
    return st;
}

void cdz_manifest_free(cdz_manifest *manifest)
{
    if (!manifest) return;
    cdz_arena_free(&manifest->arena);
    *manifest = (cdz_manifest){0};
}

cdz_status cdz_manifest_match(const cdz_manifest *manifest, const cdz_plugin_base *plugin,
                              uint32_t n_plugins, cdz_error *err)
{
    if (strcmp(plugin->id, manifest->id) != 0)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: id = %s, but %s exports '%s'", manifest->path,
                       manifest->id, manifest->entry, plugin->id);
    if (plugin->kind != manifest->kind)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: kind = %s, but %s exports a %s", manifest->path,
                       cdz_kind_name(manifest->kind), manifest->entry, cdz_kind_name(plugin->kind));
    if (strcmp(plugin->version, manifest->version) != 0)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: version = %s, but %s is %s", manifest->path,
                       manifest->version, manifest->entry, plugin->version);
    if (n_plugins != 1)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: %s exports %u plugins; a package holds the one it names",
                       manifest->path, manifest->entry, n_plugins);
    return CDZ_OK;
}
