/* trust.c - pins and model folders. */
#include "plug/trust.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"

#define MAX_FILE_BYTES (256u << 20)

/* --- locks -------------------------------------------------------------------------------------------------- */

void cdz_trust_read(cdz_trust *trust, const char *const paths[2])
{
    for (size_t i = 0; i < 2; i++)
        if (paths[i]) (void)cdz_lock_read(paths[i], &trust->locks[i], &trust->broken[i]);
}

void cdz_trust_free(cdz_trust *trust)
{
    for (size_t i = 0; i < 2; i++) cdz_lock_free(&trust->locks[i]);
    *trust = (cdz_trust){0};
}

/* --- pins --------------------------------------------------------------------------------------------------- */

/* The folder of a package in a sentence that tells the user to add it again. */
cdz_status cdz_trust_changed(const char *path, const char *found, const char *pinned,
                             const char *lock, cdz_error *err)
{
    const char *slash = strrchr(path, '/');
    return cdz_err(err, CDZ_E_DENIED,
                   "%s: its sha256 is %s, %s pins %s; if you trust the change, pin it anew with "
                   "`cadenza plugin add %.*s`",
                   path, found, lock, pinned, slash ? (int)(slash - path) : 1, slash ? path : ".");
}

static cdz_status check_manifest(const cdz_manifest *m, const cdz_pin *pin, const char *lock,
                                 cdz_error *err)
{
    const char *pinned = cdz_pin_sha256(pin, CDZ_MANIFEST_FILE);
    if (!pinned || strcasecmp(pinned, m->digest) != 0)
        return cdz_trust_changed(m->path, m->digest, pinned ? pinned : "none", lock, err);
    return CDZ_OK;
}

/* What goes with the entry. The loader's bytes are compared again when they are read. */
static cdz_status check_file(const cdz_manifest *m, uint32_t i, const cdz_pin *pin,
                             const char *lock, cdz_error *err)
{
    char found[CDZ_SHA256_HEX], *bytes = NULL;
    size_t len = 0;
    const char *pinned = cdz_pin_sha256(pin, m->files[i]);
    if (!pinned)
        return cdz_err(err, CDZ_E_DENIED, "%s: %s pins %s, but not its %s", m->path, lock, m->id,
                       m->files[i]);
    CDZ_TRY(cdz_file_read(m->file_paths[i], MAX_FILE_BYTES, &bytes, &len, err));
    cdz_sha256_hex(bytes, len, found);
    free(bytes);
    if (strcasecmp(found, pinned) == 0) return CDZ_OK;
    return cdz_trust_changed(m->file_paths[i], found, pinned, lock, err);
}

static cdz_status check_pin(const cdz_manifest *m, const cdz_pin *pin, const char *lock,
                            cdz_pinned *out, cdz_error *err)
{
    CDZ_TRY(check_manifest(m, pin, lock, err));
    const char *entry = cdz_pin_sha256(pin, m->entry);
    if (!entry)
        return cdz_err(err, CDZ_E_DENIED, "%s: %s pins %s, but not its %s", m->path, lock, m->id,
                       m->entry);
    for (uint32_t i = 0; i < m->n_files; i++) CDZ_TRY(check_file(m, i, pin, lock, err));
    *out = (cdz_pinned){lock, entry, pin};
    return CDZ_OK;
}

static cdz_status not_pinned(const char *folder, cdz_error *err)
{
    return cdz_err(
        err, CDZ_E_DENIED,
        "%s: native code found in a directory is not loaded unless it is pinned; "
        "`cadenza plugin add %s` shows and pins it, --plugin %s loads it once, and "
        "isolation = process in its section of a pipeline runs it in a process of its own",
        folder, folder, folder);
}

cdz_status cdz_trust_package(const cdz_trust *trust, const char *folder,
                             const cdz_manifest *manifest, bool native, cdz_pinned *out,
                             cdz_error *err)
{
    *out = (cdz_pinned){0};
    for (size_t i = 0; i < 2; i++) {
        const cdz_error *broken = &trust->broken[i];
        if (broken->code != CDZ_OK)
            return cdz_err(err, broken->code, "%s: what pins it cannot be read: %s", folder,
                           broken->text);
        const cdz_pin *pin = cdz_lock_find(&trust->locks[i], manifest->id);
        if (pin) return check_pin(manifest, pin, trust->locks[i].path, out, err);
    }
    return native ? not_pinned(folder, err) : CDZ_OK;
}

/* --- model folders ------------------------------------------------------------------------------------------ */

static bool holds(const char *folder, int len, const char *name)
{
    cdz_arena arena = {0};
    struct stat s;
    const char *path = cdz_arena_printf(&arena, "%.*s/%s", len, folder, name);
    const bool there = !path || stat(path, &s) == 0; /* out of memory: assume the worst */
    cdz_arena_free(&arena);
    return there;
}

/* A config.json alone may be anybody's. */
static bool is_model(const char *folder, int len)
{
    static const char *const beside[] = {"tokenizer.json", "generation_config.json",
                                         "model.safetensors", "model.safetensors.index.json"};
    if (!holds(folder, len, "config.json")) return false;
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (holds(folder, len, beside[i])) return true;
    return false;
}

/* Bytes of path before its last '/', looking at the first len only. */
static int parent(const char *path, int len)
{
    while (len > 0 && path[len - 1] != '/') len--;
    return len > 0 ? len - 1 : 0;
}

/* Whether path[0, len) ends in "/custom_generate". */
static bool is_custom_generate(const char *path, int len)
{
    static const char name[] = "/" CDZ_CUSTOM_GENERATE;
    const int n = (int)sizeof name - 1;
    return len >= n && strncmp(path + len - n, name, (size_t)n) == 0;
}

cdz_status cdz_trust_model_folder(const char *file, bool native, bool allowed, cdz_error *err)
{
    int len = parent(file, (int)strlen(file));
    const bool custom = is_custom_generate(file, len);
    for (int level = 0; level < 3 && len > 0; level++, len = parent(file, len)) {
        if (!is_model(file, len)) continue;
        if (native)
            return cdz_err(err, CDZ_E_DENIED,
                           "%s: native code inside a model's folder is never loaded; if you trust "
                           "it, move its package out of %.*s and name it there",
                           file, len, file);
        if (custom && level == 1 && !allowed)
            return cdz_err(err, CDZ_E_DENIED,
                           "%s: the model %.*s brings this script; --allow-model-plugins lets it "
                           "run, in the sandbox",
                           file, len, file);
    }
    return CDZ_OK;
}
