/* write.c - the one writer (write.h): a file without a name or under a secret one beside its target, filled, and then renamed.
 * Owns: the order of those steps, and what is taken away again when one fails. Nothing is written through a link. */
#include "base/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROC_FD "/proc/self/fd/%d"

/* --- what may be written ------------------------------------------------------------------------------------ */

static cdz_status failed(const char *path, int code, cdz_error *err)
{
    return cdz_err(err, code == ENOMEM ? CDZ_E_NOMEM : CDZ_E_IO, "%s: cannot be written: %s", path,
                   strerror(code));
}

static const char *kind_of(mode_t mode)
{
    if (S_ISLNK(mode)) return "a symbolic link";
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a named pipe";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    if (S_ISSOCK(mode)) return "a socket";
    return "no file";
}

static cdz_status check_kind(const char *path, const struct stat *s, cdz_error *err)
{
    if (S_ISREG(s->st_mode)) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected a regular file or a new name", path,
                   kind_of(s->st_mode));
}

/* The path's last part as it is now. *there: something is, of which *s is known. */
static cdz_status look(int folder, const char *name, const char *path, unsigned how, bool *there,
                       struct stat *s, cdz_error *err)
{
    *there = fstatat(folder, name, s, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*there && errno != ENOENT) return failed(path, errno, err);
    if (!*there) return CDZ_OK;
    CDZ_TRY(check_kind(path, s, err));
    if (how & CDZ_WRITE_NEW)
        return cdz_err(err, CDZ_E_INPUT, "%s: is there already, expected a new name", path);
    if (faccessat(folder, name, W_OK, AT_EACCESS) != 0)
        return cdz_err(err, CDZ_E_IO, "%s: not permitted to write this file", path);
    return CDZ_OK;
}

/* Opens the folder of path (links in it are followed, as everywhere) and finds the last part. */
static cdz_status open_folder(const char *path, int *folder, const char **name, cdz_error *err)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!**name || strcmp(*name, ".") == 0 || strcmp(*name, "..") == 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: names a folder, expected a file", path);
    const size_t n = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *of = strndup(slash ? path : ".", n);
    if (!of) return failed(path, ENOMEM, err);
    *folder = open(of, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const cdz_status st = *folder >= 0
                              ? CDZ_OK
                              : cdz_err(err, CDZ_E_IO, "%s: cannot be written: its folder %s: %s",
                                        path, of, strerror(errno));
    free(of);
    return st;
}

cdz_status cdz_write_may(const char *path, unsigned how, cdz_error *err)
{
    const char *name;
    struct stat s;
    bool there;
    int folder;
    CDZ_TRY(open_folder(path, &folder, &name, err));
    cdz_status st = look(folder, name, path, how, &there, &s, err);
    if (st == CDZ_OK && faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) != 0)
        st = failed(path, errno, err);
    close(folder);
    return st;
}

/* --- a file without its name -------------------------------------------------------------------------------- */

static bool random_name(char *out, size_t bytes, const char *before)
{
    unsigned char random[12];
    size_t n = strlen(before);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) return false;
    (void)snprintf(out, bytes, "%s", before);
    for (size_t i = 0; i < sizeof random && n + 2 < bytes; i++, n += 2)
        (void)snprintf(out + n, bytes - n, "%02x", random[i]);
    return true;
}

/* Whether /proc can give a file that has no name one. */
static bool has_proc(int fd)
{
    char at[32];
    struct stat a, b;
    (void)snprintf(at, sizeof at, PROC_FD, fd);
    return fstat(fd, &a) == 0 && stat(at, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int open_nameless(int folder)
{
    const int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 || has_proc(fd)) return fd;
    close(fd);
    return -1;
}

static int open_temp(cdz_writer *w)
{
    if (!random_name(w->temp, sizeof w->temp, ".cadenza-")) return -1;
    const int fd =
        openat(w->folder, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) w->temp[0] = '\0';
    return fd;
}

static cdz_status open_writer(cdz_writer *w, cdz_error *err)
{
    struct stat s;
    CDZ_TRY(open_folder(w->path, &w->folder, &w->name, err));
    CDZ_TRY(look(w->folder, w->name, w->path, w->how, &w->replaces, &s, err));
    w->fd = open_nameless(w->folder);
    if (w->fd < 0) w->fd = open_temp(w);
    if (w->fd < 0) return failed(w->path, errno, err);
    if ((w->how & CDZ_WRITE_PRIVATE) && fchmod(w->fd, 0600) != 0)
        return failed(w->path, errno, err);
    w->mode = s.st_mode & (w->how & CDZ_WRITE_PRIVATE ? 0700 : 0777);
    w->uid = s.st_uid;
    w->gid = s.st_gid;
    return CDZ_OK;
}

cdz_status cdz_write_begin(cdz_writer *w, const char *path, unsigned how, cdz_error *err)
{
    *w = (cdz_writer){.path = strdup(path), .how = how, .fd = -1, .folder = -1};
    w->buffer = malloc(CDZ_WRITE_BUFFER);
    cdz_status st = w->path && w->buffer ? open_writer(w, err) : failed(path, ENOMEM, err);
    if (st != CDZ_OK) cdz_write_drop(w);
    return st;
}

/* --- bytes -------------------------------------------------------------------------------------------------- */

static void put(cdz_writer *w, const char *bytes, size_t n)
{
    while (n > 0 && !w->error) {
        const ssize_t wrote = write(w->fd, bytes, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            w->error = wrote < 0 ? errno : ENOSPC;
            return;
        }
        bytes += wrote;
        n -= (size_t)wrote;
    }
}

static void empty_buffer(cdz_writer *w)
{
    const size_t n = w->held;
    w->held = 0;
    put(w, w->buffer, n);
} /* NOLINT(clang-analyzer-unix.Malloc): drop frees it */

void cdz_write(cdz_writer *w, const void *bytes, size_t n)
{
    if (n == 0 || w->error) return;
    if (n > CDZ_WRITE_BUFFER - w->held) empty_buffer(w);
    if (n >= CDZ_WRITE_BUFFER) {
        put(w, bytes, n);
        return;
    }
    memcpy(w->buffer + w->held, bytes, n);
    w->held += n;
}

cdz_status cdz_write_check(cdz_writer *w, cdz_error *err)
{
    return w->error ? failed(w->path, w->error, err) : CDZ_OK;
}

cdz_status cdz_write_flush(cdz_writer *w, cdz_error *err)
{
    empty_buffer(w);
    if (!w->error && (w->how & CDZ_WRITE_SYNC) && fsync(w->fd) != 0) w->error = errno;
    return cdz_write_check(w, err);
}

void cdz_write_read_at(const cdz_writer *w, char *name, size_t bytes)
{
    (void)snprintf(name, bytes, PROC_FD, w->fd); /* also of one that has a name: it may be moved */
}

/* --- its name ----------------------------------------------------------------------------------------------- */

/* A name for what has none. False with errno. */
static bool link_as(const cdz_writer *w, const char *name)
{
    char at[32];
    (void)snprintf(at, sizeof at, PROC_FD, w->fd);
    return linkat(AT_FDCWD, at, w->folder, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Where nothing was, nothing is replaced: a name that somebody has made since is refused. */
static bool name_new(cdz_writer *w)
{
    if (!w->temp[0]) return link_as(w, w->name);
    if (linkat(w->folder, w->temp, w->folder, w->name, 0) == 0) {
        (void)unlinkat(w->folder, w->temp, 0);
        w->temp[0] = '\0';
        return true;
    }
    return false;
}

static bool rename_over(cdz_writer *w)
{
    char temp[CDZ_WRITE_TEMP];
    if (!w->temp[0]) {
        if (!random_name(temp, sizeof temp, ".cadenza-") || !link_as(w, temp)) return false;
        memcpy(w->temp, temp, sizeof temp);
    }
    if (renameat(w->folder, w->temp, w->folder, w->name) != 0) return false;
    w->temp[0] = '\0';
    return true;
}

/* Another file may have come there meanwhile; one that may be replaced is. File systems without links rename. */
static bool give_name(cdz_writer *w)
{
    struct stat s;
    bool there;
    if (!w->replaces && name_new(w)) return true;
    if (!w->replaces && errno != EEXIST && !(errno == EPERM && w->temp[0])) return false;
    if (look(w->folder, w->name, w->path, w->how, &there, &s, NULL) != CDZ_OK) {
        errno = EEXIST;
        return false;
    }
    return rename_over(w);
}

static void sync_folder(int folder)
{
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

void cdz_write_sync_folder(const char *path)
{
    const int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    sync_folder(fd);
    close(fd);
}

/* The owner first: a change of it may clear bits of the mode. */
static void hand_on(const cdz_writer *w)
{
    struct stat s;
    if (!w->replaces || fstat(w->fd, &s) != 0) return;
    const bool same = s.st_uid == w->uid && s.st_gid == w->gid;
    if (same || fchown(w->fd, w->uid, w->gid) == 0 || s.st_uid == geteuid())
        (void)fchmod(w->fd, w->mode);
}

cdz_status cdz_write_finish(cdz_writer *w, cdz_error *err)
{
    hand_on(w);
    cdz_status st = cdz_write_flush(w, err);
    if (st == CDZ_OK && !give_name(w)) st = failed(w->path, errno, err);
    if (st == CDZ_OK && (w->how & CDZ_WRITE_SYNC)) sync_folder(w->folder);
    cdz_write_drop(w);
    return st;
}

void cdz_write_drop(cdz_writer *w)
{
    if (!w->path && !w->buffer) return;
    if (w->temp[0]) (void)unlinkat(w->folder, w->temp, 0);
    if (w->fd >= 0) close(w->fd);
    if (w->folder >= 0) close(w->folder);
    free(w->buffer);
    free(w->path);
    *w = (cdz_writer){.fd = -1, .folder = -1};
}

cdz_status cdz_write_whole(const char *path, const void *bytes, size_t n, unsigned how,
                           cdz_error *err)
{
    cdz_writer w;
    CDZ_TRY(cdz_write_begin(&w, path, how, err));
    cdz_write(&w, bytes, n);
    return cdz_write_finish(&w, err);
}

/* --- files that are read too -------------------------------------------------------------------------------- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static cdz_status is_input(const char *path, const char *input, cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "%s: is %s, which is read; expected another file", path, input);
}

cdz_status cdz_write_not_over(const char *path, const char *input, cdz_error *err)
{
    struct stat out, in;
    if (stat(path, &out) != 0 || stat(input, &in) != 0 || !same_file(&out, &in)) return CDZ_OK;
    return is_input(path, strcmp(path, input) == 0 ? "the file" : input, err);
}

/* --- growing ------------------------------------------------------------------------------------------------ */

static cdz_status check_grown(int fd, const char *path, const int *inputs, size_t n, cdz_error *err)
{
    struct stat out, in;
    if (fstat(fd, &out) != 0) return failed(path, errno, err);
    CDZ_TRY(check_kind(path, &out, err));
    for (size_t i = 0; i < n; i++)
        if (inputs[i] >= 0 && fstat(inputs[i], &in) == 0 && same_file(&out, &in))
            return is_input(path, "the input", err);
    return CDZ_OK;
}

/* What was looked at may be another by now; what was opened is asked once more. */
static cdz_status open_grown(const char *path, bool read, const int *inputs, size_t n, int *fd,
                             cdz_error *err)
{
    const int how = O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const char *name;
    struct stat s;
    bool there;
    int folder;
    CDZ_TRY(open_folder(path, &folder, &name, err));
    cdz_status st = look(folder, name, path, 0, &there, &s, err);
    *fd = -1;
    if (st == CDZ_OK) {
        *fd = openat(folder, name, how | (read ? O_RDWR : O_WRONLY), 0666);
        if (*fd < 0) st = failed(path, errno, err);
    }
    close(folder);
    if (st == CDZ_OK) st = check_grown(*fd, path, inputs, n, err);
    if (st != CDZ_OK && *fd >= 0) close(*fd);
    return st;
}

cdz_status cdz_write_grow(const char *path, bool keep, const int *inputs, size_t n, FILE **out,
                          cdz_error *err)
{
    int fd;
    *out = stdout;
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) return CDZ_OK;
    CDZ_TRY(open_grown(path, keep, inputs, n, &fd, err));
    const bool ready = keep ? lseek(fd, 0, SEEK_END) >= 0 : ftruncate(fd, 0) == 0;
    *out = ready ? fdopen(fd, keep ? "r+" : "w") : NULL;
    if (*out) return CDZ_OK;
    const cdz_status st = failed(path, errno, err);
    close(fd);
    return st;
}

/* --- folders ------------------------------------------------------------------------------------------------ */

bool cdz_write_folders(char *path, mode_t mode)
{
    for (char *c = path + 1; *c; c++) {
        if (*c != '/') continue;
        *c = '\0';
        const bool made = mkdir(path, mode) == 0 || errno == EEXIST;
        *c = '/';
        if (!made) return false;
    }
    return mkdir(path, mode) == 0 || errno == EEXIST;
}

cdz_status cdz_write_folder_beside(const char *path, char **out, cdz_error *err)
{
    char part[CDZ_WRITE_TEMP];
    if (!random_name(part, sizeof part, ".part-")) return failed(path, errno, err);
    const size_t bytes = strlen(path) + strlen(part) + 1;
    char *folder = malloc(bytes);
    if (!folder) return failed(path, ENOMEM, err);
    (void)snprintf(folder, bytes, "%s%s", path, part);
    if (mkdir(folder, 0777) == 0) {
        *out = folder;
        return CDZ_OK;
    }
    free(folder);
    return failed(path, errno, err);
}
