/* package.h - a package folder as bytes: what is shown to the user, pinned, and copied is one and the same. */
#ifndef CDZ_HOST_PLUG_PACKAGE_H
#define CDZ_HOST_PLUG_PACKAGE_H

#include "plug/lock.h"
#include "plug/manifest.h"

#define CDZ_PACKAGE_FILE_BYTES (256u << 20) /* of one file */

typedef struct cdz_package_file {
    const char *name;
    char *bytes;
    size_t len;
    char sha256[CDZ_SHA256_HEX];
} cdz_package_file;

typedef struct cdz_package {
    cdz_manifest manifest;
    cdz_package_file files[CDZ_LOCK_FILES]; /* plugin.ini, the entry, what else the manifest names */
    uint32_t n_files;
} cdz_package;

/* Reads the manifest and every file it names, each a plain name of a regular file inside the folder. Runs nothing. */
cdz_status cdz_package_read(const char *folder, cdz_package *out, cdz_error *err);
void cdz_package_free(cdz_package *package); /* zeroed is fine */

/* files: CDZ_LOCK_FILES of them, which the pin then points to. */
cdz_pin cdz_package_pin(const cdz_package *package, cdz_pin_file *files);
bool cdz_package_matches(const cdz_package *package, const cdz_pin *pin); /* all files, no other */

/* Writes the files into a new hidden folder in `parent` (made when missing); *staged is its path, the arena's. */
cdz_status cdz_package_stage(const cdz_package *package, const char *parent, cdz_arena *arena,
                             char **staged, cdz_error *err);
/* Makes it parent/ID. A folder that is there already gives way when it holds nothing but files of `old` (may be NULL) or
 * of this package. */
cdz_status cdz_package_install(const cdz_package *package, const char *staged, const char *parent,
                               const cdz_pin *old, cdz_error *err);
void cdz_package_unstage(const char *staged); /* deletes it; NULL is fine */

/* Deletes folder's files that still are what the pin says, and the folder when nothing is left in it (*gone). */
void cdz_package_delete(const char *folder, const cdz_pin *pin, bool *gone);

#endif
