/* trust.h - whether a file may be loaded at all, by where it lies: what was found in a directory, what lies in a model's
 * folder. Decided from plugin.ini and cadenza.lock, before any code. A script is a file whose loader comes with the host
 * and sandboxes it (CDZ_SANDBOXES); a file of any other loader counts as native code, as the loader itself does.
 *
 * | where                           | native                 | script                          |
 * |---------------------------------|------------------------|---------------------------------|
 * | named by the user               | yes                    | yes                             |
 * | in a directory, pinned          | the pinned bytes       | the pinned bytes                |
 * | in a directory, not pinned      | no                     | yes                             |
 * | in a model's folder             | never                  | custom_generate/: when allowed  |
 * | built-in                        | yes                    | yes                             | */
#ifndef CDZ_HOST_TRUST_H
#define CDZ_HOST_TRUST_H

#include "plug/lock.h"
#include "plug/manifest.h"

/* The locks in force. Zeroed: none. */
typedef struct cdz_trust {
    cdz_lock locks[2];
    cdz_error broken[2]; /* code 0: the lock was read or is not there */
} cdz_trust;

void cdz_trust_read(cdz_trust *trust, const char *const paths[2]); /* NULL paths are passed over */
void cdz_trust_free(cdz_trust *trust);

/* What a package found in a directory must hash to. */
typedef struct cdz_pinned {
    const char *lock;   /* the file that pins it; NULL: not pinned */
    const char *sha256; /* of the entry */
    const cdz_pin *pin; /* all of it; the lock's */
} cdz_pinned;

/* Whether this package, found in folder, may be loaded: a pinned one whose plugin.ini and further files are the pinned
 * ones (the entry's bytes are for who loads them), or a script. */
cdz_status cdz_trust_package(const cdz_trust *trust, const char *folder,
                             const cdz_manifest *manifest, bool native, cdz_pinned *out,
                             cdz_error *err);

/* Refuses a file (canonical path) that lies in a model's folder: native code in it or up to two levels below, always;
 * a script in its custom_generate folder unless allowed. */
cdz_status cdz_trust_model_folder(const char *file, bool native, bool allowed, cdz_error *err);

/* The sentence for bytes that are not the pinned ones. */
cdz_status cdz_trust_changed(const char *path, const char *found, const char *pinned,
                             const char *lock, cdz_error *err);

#endif
