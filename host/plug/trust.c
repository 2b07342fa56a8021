/* trust.c - the files of a package against the pins of the locks in force: first the manifest's digest, then that of each file
 * that goes with the entry, so that what is opened later is what the user pinned. It reads files and runs nothing. */
#include "plug/trust.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

cdz_status cdz_trust_package(const cdz_trust *trust, const char *folder,
                             const cdz_manifest *manifest, cdz_pinned *out, cdz_error *err)
{
    *out = (cdz_pinned){0};
    for (size_t i = 0; i < 2; i++) {
        const cdz_error *broken = &trust->broken[i];
        if (broken->code != CDZ_OK)
            return cdz_err(err, broken->code, "%s: its pin cannot be read: %s", folder,
                           broken->text);
        const cdz_pin *pin = cdz_lock_find(&trust->locks[i], manifest->id);
        if (pin) return check_pin(manifest, pin, trust->locks[i].path, out, err);
    }
    return CDZ_OK;
}
