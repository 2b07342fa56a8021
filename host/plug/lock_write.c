/* lock_write.c - cadenza.lock replaced as a whole. The new text is written beside it under a name that only one process
 * can make, so two that add at once cannot lose each other's pins, and renamed over it once it is on the disk. */
#include "plug/lock_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "plug/check.h"

/* "dir" of "dir/file", "." without one; the arena's. */
static char *folder_of(cdz_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return cdz_arena_strdup(arena, ".");
    return cdz_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

bool cdz_make_folders(char *path)
{
    for (char *c = path + 1; *c; c++) {
        if (*c != '/') continue;
        *c = '\0';
        const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *c = '/';
        if (!made) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static cdz_status hold(cdz_lock_edit *edit, const char *path, cdz_error *err)
{
    cdz_arena *arena = &edit->lock.arena;
    char *folder = folder_of(arena, path);
    edit->held = cdz_arena_printf(arena, "%s.new", path);
    if (!folder || !edit->held) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
    if (!cdz_make_folders(folder)) return cdz_err(err, CDZ_E_IO, "%s: %s", folder, strerror(errno));
    edit->fd = open(edit->held, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (edit->fd >= 0) return CDZ_OK;
    const bool busy = errno == EEXIST;
    cdz_status st =
        busy
            ? cdz_err(err, CDZ_E_STATE,
                      "%s is there: another cadenza is changing %s; if none runs, delete that file",
                      edit->held, path)
            : cdz_err(err, CDZ_E_IO, "%s: %s", edit->held, strerror(errno));
    edit->held = NULL;
    return st;
}

static cdz_status begin_at(const char *path, cdz_lock_edit *out, cdz_error *err)
{
    cdz_lock_edit edit = {.fd = -1};
    cdz_lock read = {0};
    cdz_status st = hold(&edit, path, err);
    if (st == CDZ_OK) st = cdz_lock_read(path, &read, err);
    if (st != CDZ_OK) {
        cdz_lock_edit_abort(&edit);
        return st;
    }
    const char *held = cdz_arena_strdup(&read.arena, edit.held);
    cdz_lock_free(&edit.lock);
    *out = (cdz_lock_edit){.lock = read, .held = held, .fd = edit.fd};
    if (held) return CDZ_OK;
    cdz_lock_edit_abort(out);
    return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
}

/* A symbolic link stays one: what it leads to is replaced. */
cdz_status cdz_lock_edit_begin(const char *path, cdz_lock_edit *out, cdz_error *err)
{
    struct stat s;
    if (lstat(path, &s) != 0 || !S_ISLNK(s.st_mode)) return begin_at(path, out, err);
    char *real = realpath(path, NULL);
    if (!real) return cdz_err(err, CDZ_E_IO, "%s: a symbolic link that leads nowhere", path);
    cdz_status st = begin_at(real, out, err);
    free(real);
    return st;
}

static void end_edit(cdz_lock_edit *edit)
{
    if (edit->fd >= 0) close(edit->fd);
    cdz_lock_free(&edit->lock);
    *edit = (cdz_lock_edit){.fd = -1};
}

void cdz_lock_edit_abort(cdz_lock_edit *edit)
{
    if (edit->held) unlink(edit->held);
    end_edit(edit);
}

/* --- the text ----------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const cdz_pin *)a)->id, ((const cdz_pin *)b)->id);
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const cdz_pin_file *)a)->name, ((const cdz_pin_file *)b)->name);
}

/* Sorted, so that the same pins are the same bytes. */
static void put_lock(const cdz_lock *lock, cdz_buf *out)
{
    cdz_buf_printf(out,
                   "%s %d\n# Plugins that may be loaded from directories, by the sha256 of their "
                   "files.\n# Written by `cadenza plugin add` and `cadenza plugin remove`.\n",
                   CDZ_LOCK_FILE, CDZ_LOCK_FORMAT);
    if (lock->n_pins) qsort(lock->pins, lock->n_pins, sizeof *lock->pins, by_id);
    for (uint32_t i = 0; i < lock->n_pins; i++) {
        const cdz_pin *pin = &lock->pins[i];
        cdz_buf_printf(out, "\nplugin %s %s %s\n", pin->id, pin->version, cdz_kind_name(pin->kind));
        qsort(pin->files, pin->n_files, sizeof *pin->files, by_file);
        for (uint32_t k = 0; k < pin->n_files; k++)
            cdz_buf_printf(out, "  %s  %s\n", pin->files[k].sha256, pin->files[k].name);
    }
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        len -= (size_t)n;
    }
    return fsync(fd) == 0;
}

static void sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

cdz_status cdz_lock_edit_commit(cdz_lock_edit *edit, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_lock *lock = &edit->lock;
    cdz_status st = CDZ_OK;
    put_lock(lock, &text);
    if (text.failed)
        st = cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", lock->path);
    else if (!write_all(edit->fd, text.data, text.len) || rename(edit->held, lock->path) != 0)
        st = cdz_err(err, CDZ_E_IO, "%s: %s", lock->path, strerror(errno));
    cdz_buf_free(&text);
    if (st != CDZ_OK) {
        cdz_lock_edit_abort(edit);
        return st;
    }
    edit->held = NULL;
    const char *folder = folder_of(&lock->arena, lock->path);
    if (folder) sync_folder(folder);
    end_edit(edit);
    return CDZ_OK;
}
