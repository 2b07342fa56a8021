/* trust.h - what the locks say of a package that was found in a directory, before any code: whether it is pinned, and then
 * that its files are the pinned ones. Whether it may run is plug/consent.h's. */
#ifndef CDZ_HOST_PLUG_TRUST_H
#define CDZ_HOST_PLUG_TRUST_H

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

/* Whether this package, found in folder, is pinned (out->lock): then its plugin.ini and further files are the pinned ones;
 * the entry's bytes are for who loads them. Not pinned is no error. */
cdz_status cdz_trust_package(const cdz_trust *trust, const char *folder,
                             const cdz_manifest *manifest, cdz_pinned *out, cdz_error *err);

/* The sentence for bytes that are not the pinned ones. */
cdz_status cdz_trust_changed(const char *path, const char *found, const char *pinned,
                             const char *lock, cdz_error *err);

#endif
