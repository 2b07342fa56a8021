/* manifest.c - plugin.ini through inih, behind a scan that refuses what inih would quietly bend: long lines (split in
 * two), repeated keys (both delivered), indented lines (taken for a continuation). */
#include "plug/manifest.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "plug/check.h"

#define MAX_LINE 199u /* bytes; inih's buffer is 200 */

typedef enum key {
    KEY_ID,
    KEY_VERSION,
    KEY_KIND,
    KEY_ENTRY,
    KEY_ABI,
    KEY_LICENSE,
    KEY_NEEDS,
    KEY_SHA256,
    KEY_SUMMARY,
    N_KEYS
} key;

static const char *const key_names[N_KEYS] = {"id",      "version", "kind",   "entry",  "abi",
                                              "license", "needs",   "sha256", "summary"};

typedef struct reader {
    cdz_manifest *out;
    const char *values[N_KEYS];
    cdz_status status;
    cdz_error *err;
} reader;

static cdz_status scan_line(const char *path, const char *line, size_t len, unsigned number,
                            cdz_error *err)
{
    if (len > MAX_LINE)
        return cdz_err(err, CDZ_E_INPUT, "%s:%u: a line of %zu bytes; at most %u", path, number,
                       len, MAX_LINE);
    if (len > 0 && (line[0] == ' ' || line[0] == '\t') && line[strspn(line, " \t\r")] != '\n' &&
        strspn(line, " \t\r") < len)
        return cdz_err(err, CDZ_E_INPUT, "%s:%u: an indented line; keys begin in the first column",
                       path, number);
    return CDZ_OK;
}

static cdz_status scan(const char *path, const char *text, size_t len, cdz_error *err)
{
    if (memchr(text, '\0', len)) return cdz_err(err, CDZ_E_INPUT, "%s: holds a NUL byte", path);
    if (!cdz_utf8_valid(text, len)) return cdz_err(err, CDZ_E_INPUT, "%s: not valid UTF-8", path);
    unsigned number = 1;
    for (size_t at = 0; at < len; number++) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line = end ? (size_t)(end - (text + at)) : len - at;
        CDZ_TRY(scan_line(path, text + at, line, number, err));
        at += line + 1;
    }
    return CDZ_OK;
}

/* inih's callback: 1 goes on, 0 marks the line as wrong; the first sentence is kept. */
static int take(void *user, const char *section, const char *name, const char *value)
{
    reader *r = user;
    if (r->status != CDZ_OK) return 0;
    if (strcmp(section, "plugin") != 0) {
        r->status = cdz_err(r->err, CDZ_E_INPUT, "%s: [%s] %s: only the section [plugin] is known",
                            r->out->path, section, name);
        return 0;
    }
    for (size_t k = 0; k < N_KEYS; k++) {
        if (strcmp(name, key_names[k]) != 0) continue;
        if (r->values[k]) {
            r->status =
                cdz_err(r->err, CDZ_E_INPUT, "%s: [plugin] %s is given twice", r->out->path, name);
            return 0;
        }
        r->values[k] = cdz_arena_strdup(&r->out->arena, value);
        if (!r->values[k])
            r->status = cdz_err(r->err, CDZ_E_NOMEM, "%s: out of memory", r->out->path);
        return r->values[k] != NULL;
    }
    const char *near = cdz_nearest_name(name, key_names, N_KEYS);
    r->status = cdz_err(r->err, CDZ_E_INPUT, "%s: [plugin] unknown key '%s'%s%s%s", r->out->path,
                        name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 0;
}

static cdz_status parse(reader *r)
{
    char *text = NULL;
    size_t len = 0;
    cdz_status st = cdz_file_read(r->out->path, CDZ_MANIFEST_BYTES, &text, &len, r->err);
    if (st != CDZ_OK) return st;
    st = scan(r->out->path, text, len, r->err);
    if (st == CDZ_OK) {
        int line = ini_parse_string(text, take, r);
        st = r->status;
        if (st == CDZ_OK && line > 0)
            st = cdz_err(r->err, CDZ_E_INPUT, "%s:%d: expected [plugin] or key = value",
                         r->out->path, line);
        if (st == CDZ_OK && line < 0)
            st = cdz_err(r->err, CDZ_E_NOMEM, "%s: out of memory", r->out->path);
    }
    free(text);
    return st;
}

/* --- what the values must be ------------------------------------------------------------------------------ */

static cdz_status check_required(const reader *r)
{
    static const key required[] = {KEY_ID, KEY_VERSION, KEY_KIND, KEY_ENTRY};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        if (!r->values[required[i]] || !r->values[required[i]][0])
            return cdz_err(r->err, CDZ_E_INPUT, "%s: [plugin] needs a value for %s", r->out->path,
                           key_names[required[i]]);
    return CDZ_OK;
}

static cdz_status check_values(const reader *r)
{
    const cdz_manifest *m = r->out;
    if (!cdz_plugin_id_ok(m->id))
        return cdz_err(r->err, CDZ_E_INPUT, "%s: id = %s: expected 1 to %u of a-z 0-9 . _ -",
                       m->path, m->id, CDZ_MAX_ID);
    if (!cdz_plugin_version_ok(m->version))
        return cdz_err(r->err, CDZ_E_INPUT, "%s: version = %s: expected one as 1.0.0", m->path,
                       m->version);
    if (m->kind == 0)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: kind = %s: expected processor, criterion or strategy", m->path,
                       r->values[KEY_KIND]);
    if (m->sha256 && !cdz_sha256_is_hex(m->sha256))
        return cdz_err(r->err, CDZ_E_INPUT, "%s: sha256 = %s: expected 64 hexadecimal digits",
                       m->path, m->sha256);
    if (!m->abi) return CDZ_OK;
    unsigned major, minor;
    char rest;
    if (sscanf(m->abi, "%5u.%5u%c", &major, &minor, &rest) != 2)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: abi = %s: expected one as %d.%d", m->path, m->abi,
                       CDZ_ABI_MAJOR, CDZ_ABI_MINOR);
    if (major != CDZ_ABI_MAJOR || minor != CDZ_ABI_MINOR)
        return cdz_abi_refusal(m->path, major, minor, r->err);
    return CDZ_OK;
}

/* The entry is a plain name of a regular file; a symbolic link may not lead out of the folder. */
static cdz_status check_entry(const char *folder, const cdz_manifest *m, cdz_error *err)
{
    struct stat s;
    if (strchr(m->entry, '/') || strcmp(m->entry, ".") == 0 || strcmp(m->entry, "..") == 0)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: entry = %s: expected a plain file name in the same folder", m->path,
                       m->entry);
    if (stat(m->entry_path, &s) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: entry = %s: %s", m->path, m->entry,
                       errno == ENOENT ? "no such file in the folder" : strerror(errno));
    if (!S_ISREG(s.st_mode))
        return cdz_err(err, CDZ_E_DENIED, "%s: entry = %s: not a regular file", m->path, m->entry);
    char *home = realpath(folder, NULL), *file = realpath(m->entry_path, NULL);
    size_t n = home ? strlen(home) : 0;
    bool within = home && file && strncmp(file, home, n) == 0 && file[n] == '/';
    free(home);
    free(file);
    if (!within)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: entry = %s: a symbolic link that leads out of the folder", m->path,
                       m->entry);
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
    if (!m->path) return cdz_err(r->err, CDZ_E_NOMEM, "%s: out of memory", folder);
    if (!cdz_manifest_present(folder))
        return cdz_err(r->err, CDZ_E_NOT_FOUND, "%s: no plugin package: it has no %s", folder,
                       CDZ_MANIFEST_FILE);
    CDZ_TRY(parse(r));
    CDZ_TRY(check_required(r));
    m->id = r->values[KEY_ID];
    m->version = r->values[KEY_VERSION];
    m->kind = cdz_kind_of_name(r->values[KEY_KIND]);
    m->entry = r->values[KEY_ENTRY];
    m->abi = r->values[KEY_ABI];
    m->license = r->values[KEY_LICENSE];
    m->needs = r->values[KEY_NEEDS];
    m->sha256 = r->values[KEY_SHA256];
    m->summary = r->values[KEY_SUMMARY];
    m->entry_path = cdz_arena_printf(&m->arena, "%s/%s", folder, m->entry);
    if (!m->entry_path) return cdz_err(r->err, CDZ_E_NOMEM, "%s: out of memory", m->path);
    CDZ_TRY(check_values(r));
    return check_entry(folder, m, r->err);
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
