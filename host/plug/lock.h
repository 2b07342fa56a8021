/* lock.h - cadenza.lock: which packages may be loaded from directories, by the sha256 of their files.
 *
 *     cadenza.lock 1
 *
 *     plugin org.example.calmer 1.0.0 processor
 *       9f2c...  calmer.so
 *       07ab...  plugin.ini
 *
 * One "plugin ID VERSION KIND" line for each package, below it "  SHA256  FILE" for each of its files; '#' begins a
 * comment line, which a rewrite drops. Nothing else is accepted: a lock that cannot be read pins nothing. */
#ifndef CDZ_HOST_PLUG_LOCK_H
#define CDZ_HOST_PLUG_LOCK_H

#include "base/arena.h"
#include "base/error.h"

#define CDZ_LOCK_FILE    "cadenza.lock"
#define CDZ_LOCK_FORMAT  1
#define CDZ_LOCK_BYTES   (1u << 20)
#define CDZ_LOCK_PLUGINS 1024u
#define CDZ_LOCK_FILES   64u /* of one package */

typedef struct cdz_pin_file {
    const char *name, *sha256; /* a plain file name; 64 hexadecimal digits */
} cdz_pin_file;

typedef struct cdz_pin {
    const char *id, *version;
    uint32_t kind;
    cdz_pin_file *files;
    uint32_t n_files;
} cdz_pin;

/* Strings are the arena's. Zeroed: nothing read. */
typedef struct cdz_lock {
    cdz_arena arena;
    const char *path;
    bool present; /* the file exists */
    cdz_pin *pins;
    uint32_t n_pins, cap;
} cdz_lock;

/* A file that does not exist is an empty lock. Refused: what is not a regular file, belongs to another user, or may be
 * written by anyone. */
cdz_status cdz_lock_read(const char *path, cdz_lock *out, cdz_error *err);
/* The same from text in memory; path for sentences. */
cdz_status cdz_lock_parse(const char *path, const char *text, size_t len, cdz_lock *out,
                          cdz_error *err);
void cdz_lock_free(cdz_lock *lock); /* zeroed is fine */

const cdz_pin *cdz_lock_find(const cdz_lock *lock, const char *id); /* NULL: not pinned */
const char *cdz_pin_sha256(const cdz_pin *pin, const char *file);   /* NULL: no such file */

/* A plain name of 1 to 255 printable bytes: no '/', not "." or "..". */
bool cdz_lock_file_ok(const char *name);

/* Copies the pin into the lock, in place of one with its id. */
cdz_status cdz_lock_put(cdz_lock *lock, const cdz_pin *pin, cdz_error *err);
bool cdz_lock_drop(cdz_lock *lock, const char *id); /* false: it was not there */

#endif
