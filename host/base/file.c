/* file.c - opening safely, mapping, reading. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"

static cdz_status open_error(const char *path, int code, cdz_error *err)
{
    switch (code) {
    case ENOENT: return cdz_err(err, CDZ_E_NOT_FOUND, "%s: no such file", path);
    case ENOTDIR:
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: no such file, a part of the path is no folder",
                       path);
    case EACCES: return cdz_err(err, CDZ_E_IO, "%s: not permitted to read this file", path);
    case ENXIO: return cdz_err(err, CDZ_E_INPUT, "%s: is a socket, expected a regular file", path);
    default: return cdz_err(err, CDZ_E_IO, "%s: cannot be opened: %s", path, strerror(code));
    }
}

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a named pipe";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISSOCK(mode)) return "a socket";
    return "not a file";
}

static cdz_status open_regular(const char *path, int *fd, struct stat *info, cdz_error *err)
{
    do {
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0) return open_error(path, errno, err);

    cdz_status st = CDZ_OK;
    if (fstat(*fd, info) != 0)
        st = open_error(path, errno, err);
    else if (!S_ISREG(info->st_mode))
        st = cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected a regular file", path,
                     kind_of(info->st_mode));
    if (st != CDZ_OK) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

/* Descriptor 0 means "nothing open" in a zeroed cdz_file, so a file that got it (the host closed
 * its standard input) moves to another. */
static int off_zero(int fd)
{
    if (fd != 0) return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

static cdz_status map_whole(cdz_file *file, cdz_error *err)
{
    if (file->size == 0) return CDZ_OK;
    if (file->size > SIZE_MAX / 2)
        return cdz_err(err, CDZ_E_LIMIT, "%s: %llu bytes are too many to map", file->path,
                       (unsigned long long)file->size);
    void *data = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, file->fd, 0);
    if (data == MAP_FAILED)
        return cdz_err(err, errno == ENOMEM ? CDZ_E_NOMEM : CDZ_E_IO, "%s: cannot be mapped: %s",
                       file->path, strerror(errno));
    file->data = data;
    file->watch = cdz_guard_watch(data, (size_t)file->size);
    return CDZ_OK;
}

cdz_status cdz_file_map(const char *path, cdz_file *out, cdz_error *err)
{
    *out = (cdz_file){0};
    struct stat info;
    int fd;
    CDZ_TRY(open_regular(path, &fd, &info, err));
    fd = off_zero(fd);
    if (fd < 0) return open_error(path, errno, err);

    cdz_status st = CDZ_OK;
    out->fd = fd;
    out->size = (uint64_t)info.st_size;
    out->mtime_s = info.st_mtim.tv_sec;
    out->mtime_ns = info.st_mtim.tv_nsec;
    out->path = strdup(path);
    if (!out->path) st = cdz_err_memory_in(err, path);
    if (st == CDZ_OK) st = map_whole(out, err);
    if (st != CDZ_OK) cdz_file_unmap(out);
    return st;
}

void cdz_file_unmap(cdz_file *file)
{
    if (!file) return;
    cdz_guard_unwatch(file->watch);
    /* munmap wants a plain pointer; the memory stays read-only until then. */
    if (file->data) munmap((void *)(uintptr_t)file->data, (size_t)file->size);
    if (file->fd > 0) close(file->fd);
    free(file->path);
    *file = (cdz_file){0};
}

cdz_status cdz_file_check(const cdz_file *file, cdz_error *err)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0) return open_error(file->path, errno, err);
    if ((uint64_t)info.st_size < file->size)
        return cdz_err(err, CDZ_E_IO, "%s: was cut from %llu to %lld bytes while it was in use",
                       file->path, (unsigned long long)file->size, (long long)info.st_size);
    if (info.st_mtim.tv_sec != file->mtime_s || info.st_mtim.tv_nsec != file->mtime_ns)
        return cdz_err(err, CDZ_E_IO, "%s: was changed while it was in use", file->path);
    if (cdz_guard_torn(file->watch))
        return cdz_err(err, CDZ_E_IO, "%s: a part of it could not be read while it was in use",
                       file->path);
    return CDZ_OK;
}

/* read or pread until len bytes or the end of the file; *got tells how many came. offset < 0:
 * read on. */
static cdz_status read_fully(int fd, const char *path, char *to, size_t len, int64_t offset,
                             size_t *got, cdz_error *err)
{
    *got = 0;
    while (*got < len) {
        ssize_t n = offset < 0 ? read(fd, to + *got, len - *got)
                               : pread(fd, to + *got, len - *got, (off_t)(offset + (int64_t)*got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return cdz_err(err, CDZ_E_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (n == 0) break;
        *got += (size_t)n;
    }
    return CDZ_OK;
}

cdz_status cdz_file_read_at(const cdz_file *file, uint64_t offset, void *to, size_t len,
                            cdz_error *err)
{
    if (offset > file->size || len > file->size - offset)
        return cdz_err(err, CDZ_E_INPUT, "%s: bytes %llu to %llu are wanted of a file of %llu bytes",
                       file->path, (unsigned long long)offset, (unsigned long long)offset + len,
                       (unsigned long long)file->size);
    size_t got;
    CDZ_TRY(read_fully(file->fd, file->path, to, len, (int64_t)offset, &got, err));
    if (got < len)
        return cdz_err(err, CDZ_E_IO, "%s: was cut while it was in use: byte %llu of %llu is gone",
                       file->path, (unsigned long long)(offset + got),
                       (unsigned long long)file->size);
    return CDZ_OK;
}

/* The size that fstat gives is where reading starts, not what is believed: a file may grow, and
 * those of /proc say 0. */
static cdz_status read_growing(int fd, const char *path, size_t expected, size_t max_bytes,
                               char **text, size_t *len, cdz_error *err)
{
    size_t cap = expected < max_bytes ? expected + 1 : max_bytes + 1;
    char *data = NULL;
    *len = 0;
    for (;;) {
        char *grown = realloc(data, cap + 1);
        size_t got = 0;
        cdz_status st = CDZ_OK;
        if (!grown)
            st = cdz_err_memory_in(err, path);
        else
            data = grown;
        if (st == CDZ_OK) st = read_fully(fd, path, data + *len, cap - *len, -1, &got, err);
        if (st == CDZ_OK && *len + got > max_bytes)
            st = cdz_err(err, CDZ_E_LIMIT, "%s: is larger than the limit of %zu bytes", path,
                         max_bytes);
        if (st != CDZ_OK) {
            free(data);
            return st;
        }
        *len += got;
        if (*len < cap) break;
        cap = cap < max_bytes / 2 ? cap * 2 : max_bytes + 1;
    }
    data[*len] = '\0';
    *text = data;
    return CDZ_OK;
}

static cdz_status read_whole(int fd, const struct stat *info, const char *path, size_t max_bytes,
                             char **text, size_t *len, cdz_error *err)
{
    if (max_bytes > SIZE_MAX - 2) max_bytes = SIZE_MAX - 2;
    if ((uint64_t)info->st_size > max_bytes)
        return cdz_err(err, CDZ_E_LIMIT, "%s: has %lld bytes, the limit is %zu", path,
                       (long long)info->st_size, max_bytes);
    return read_growing(fd, path, (size_t)info->st_size, max_bytes, text, len, err);
}

cdz_status cdz_file_read(const char *path, size_t max_bytes, char **text, size_t *len,
                         cdz_error *err)
{
    struct stat info;
    int fd;
    CDZ_TRY(open_regular(path, &fd, &info, err));
    const cdz_status st = read_whole(fd, &info, path, max_bytes, text, len, err);
    close(fd);
    return st;
}

cdz_status cdz_file_read_fd(int fd, const char *path, size_t max_bytes, char **text, size_t *len,
                            cdz_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || lseek(fd, 0, SEEK_SET) != 0) return open_error(path, errno, err);
    return read_whole(fd, &info, path, max_bytes, text, len, err);
}

cdz_status cdz_file_open(const char *path, int *fd, char **real, cdz_error *err)
{
    struct stat open_one, named;
    CDZ_TRY(open_regular(path, fd, &open_one, err));
    *real = realpath(path, NULL);
    if (*real && stat(*real, &named) == 0 && named.st_dev == open_one.st_dev &&
        named.st_ino == open_one.st_ino)
        return CDZ_OK;
    free(*real);
    *real = NULL;
    close(*fd);
    *fd = -1;
    return cdz_err(err, CDZ_E_IO, "%s: became another file while it was opened; try again", path);
}
