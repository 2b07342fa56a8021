/* file.h - reading regular files: mapped in place, or whole into memory.
 *
 * A path is opened without blocking and examined through the open descriptor, so a FIFO cannot
 * hang the program, a device is not read, and what was checked is what is used. Symbolic links
 * are followed: model caches are made of them.
 *
 * A mapped file may be cut short while it is in use. Parsers read headers with cdz_file_read_at,
 * which fails in words, and cdz_file_check tells, before and after a pass over the mapping, whether
 * the file is still as it was. What touches a page past the new end all the same gets SIGBUS, which
 * ends the process unless the guard is up (guard.h). */
#ifndef CDZ_HOST_BASE_FILE_H
#define CDZ_HOST_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Zeroed: nothing open. */
typedef struct cdz_file {
    char *path; /* as given; owned */
    const void *
        data; /* size bytes, read-only, shared with every process that maps the file; NULL: empty */
    uint64_t size;
    int64_t mtime_s, mtime_ns;
    uint32_t watch; /* the guard's; 0: not watched */
    int fd; /* kept open: later checks see this file, not a new one of its name. 0: nothing open */
} cdz_file;

cdz_status cdz_file_map(const char *path, cdz_file *out, cdz_error *err);
void cdz_file_unmap(cdz_file *file); /* zeroed or NULL is fine */

/* CDZ_E_IO when the mapped file has been shortened or rewritten since it was mapped, or could not be read.
 * One system call. */
cdz_status cdz_file_check(const cdz_file *file, cdz_error *err);

/* Copies bytes [offset, offset + len) of the file; CDZ_E_IO when it does not hold them any more. */
cdz_status cdz_file_read_at(const cdz_file *file, uint64_t offset, void *to, size_t len,
                            cdz_error *err);

/* The whole file, allocated (free it) and followed by a NUL that *len does not count. A file of
 * more than max_bytes is CDZ_E_LIMIT. */
cdz_status cdz_file_read(const char *path, size_t max_bytes, char **text, size_t *len,
                         cdz_error *err);

/* Opens a regular file and says where it lies, links followed (*real: free it): what is decided about one is about the
 * other. Close *fd. */
cdz_status cdz_file_open(const char *path, int *fd, char **real, cdz_error *err);
/* The whole of an open file as cdz_file_read has it, from its beginning; path is for sentences. */
cdz_status cdz_file_read_fd(int fd, const char *path, size_t max_bytes, char **text, size_t *len,
                            cdz_error *err);

#endif
