/* write.h - files that are written: whole or not at all, and never over what nobody meant. Every file that the project
 * writes comes from here; lint refuses other ways.
 *
 * A file is made without a name, or, where the file system has no such files, under one that nobody can guess, in the
 * folder of its path. It gets its name when it is whole, by rename, so that who reads the path sees the old file or the
 * new one; given up, it is gone, and so it is when the program is killed (with a name that nobody can guess: then it stays).
 * No link is followed: a path that is a symbolic link, a folder, a device, a pipe or a socket is refused, and so is a file
 * that this user may not write. What is replaced hands on its mode and, where that is permitted, its owner. */
#ifndef CDZ_HOST_BASE_WRITE_H
#define CDZ_HOST_BASE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

typedef enum cdz_write_how {
    CDZ_WRITE_NEW = 1,     /* a file that is there already is refused */
    CDZ_WRITE_SYNC = 2,    /* file and folder are on the disk when it has its name */
    CDZ_WRITE_PRIVATE = 4, /* nobody but its owner may read it */
} cdz_write_how;

enum { CDZ_WRITE_BUFFER = 65536, CDZ_WRITE_TEMP = 40 };

/* Zeroed: nothing. */
typedef struct cdz_writer {
    char *path;       /* as given; owned */
    const char *name; /* its last part */
    char *buffer;
    size_t held; /* bytes in buffer */
    unsigned how;
    int fd, folder;            /* valid while path is set */
    char temp[CDZ_WRITE_TEMP]; /* its name in folder; "": it has none */
    bool replaces;
    mode_t mode; /* then, with the owner */
    uid_t uid;
    gid_t gid;
    int error; /* errno of the first write that failed; later ones do nothing */
} cdz_writer;

/* how: of cdz_write_how. */
cdz_status cdz_write_begin(cdz_writer *w, const char *path, unsigned how, cdz_error *err);
/* A failure is remembered and told by finish, or by cdz_write_check where it is worth knowing before. */
void cdz_write(cdz_writer *w, const void *bytes, size_t n);
cdz_status cdz_write_check(cdz_writer *w, cdz_error *err);
/* What was written so far can then be read under cdz_write_read_at's name. */
cdz_status cdz_write_flush(cdz_writer *w, cdz_error *err);
/* Where the file can be read before it has its name; bytes of the name are at least 64. */
void cdz_write_read_at(const cdz_writer *w, char *name, size_t bytes);
/* Gives it its name; on failure nothing is left of it. Frees in either case. */
cdz_status cdz_write_finish(cdz_writer *w, cdz_error *err);
void cdz_write_drop(cdz_writer *w); /* zeroed is fine */

/* All of that at once. */
cdz_status cdz_write_whole(const char *path, const void *bytes, size_t n, unsigned how,
                           cdz_error *err);

/* Whether path may be written, before work that takes long: what begin would refuse now. */
cdz_status cdz_write_may(const char *path, unsigned how, cdz_error *err);

/* A file that grows in place, for who follows it: opened, emptied unless `keep`, and never one of the inputs (descriptors,
 * n of them; below 0: none). What is kept can be read from it, too, so that nothing is opened by name again; it stands at its end. "-" and /dev/stdout are standard output. */
cdz_status cdz_write_grow(const char *path, bool keep, const int *inputs, size_t n, FILE **out,
                          cdz_error *err);

/* Refuses a path to write that is the file `input` (not there: fine): what is read would be gone. */
cdz_status cdz_write_not_over(const char *path, const char *input, cdz_error *err);

/* mkdir -p; false with errno. path is written to, and as it was afterwards. */
bool cdz_write_folders(char *path, mode_t mode);
/* A new folder beside path: "path.part-" and a name that nobody can guess. Allocated. */
cdz_status cdz_write_folder_beside(const char *path, char **out, cdz_error *err);
/* A new file in a folder, its entry on the disk. Errors are not told: what is written there has been. */
void cdz_write_sync_folder(const char *path);

#endif
