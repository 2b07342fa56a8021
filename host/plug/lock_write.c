/* lock_write.c - cadenza.lock replaced as a whole, by one process at a time: two that add at once cannot lose each other's
 * pins. */
#include "plug/lock_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/write.h"
#include "describe/descriptor.h"

/* "dir" of "dir/file", "." without one; the arena's. */
static char *folder_of(cdz_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return cdz_arena_strdup(arena, ".");
    return cdz_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

/* Of the folder: the lock is another file after each change. A file system that cannot hold folders goes without. */
static cdz_status hold(const char *path, int *fd, cdz_error *err)
{
    cdz_arena arena = {0};
    char *folder = folder_of(&arena, path);
    cdz_status st = folder ? CDZ_OK : cdz_err_memory_in(err, path);
    if (st == CDZ_OK && (!cdz_write_folders(folder, 0700) ||
                         (*fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0))
        st = cdz_err(err, CDZ_E_IO, "%s: %s", folder, strerror(errno));
    if (st == CDZ_OK && flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        st = cdz_err(err, CDZ_E_STATE, "%s: another cadenza is changing it; try again", path);
    cdz_arena_free(&arena);
    return st;
}

static cdz_status begin_at(const char *path, cdz_lock_edit *out, cdz_error *err)
{
    cdz_lock_edit edit = {.fd = -1};
    cdz_status st = hold(path, &edit.fd, err);
    if (st == CDZ_OK) st = cdz_write_may(path, 0, err);
    if (st == CDZ_OK) st = cdz_lock_read(path, &edit.lock, err);
    if (st == CDZ_OK)
        *out = edit;
    else
        cdz_lock_edit_abort(&edit);
    return st;
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

void cdz_lock_edit_abort(cdz_lock_edit *edit)
{
    if (edit->fd >= 0) close(edit->fd);
    cdz_lock_free(&edit->lock);
    *edit = (cdz_lock_edit){.fd = -1};
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

cdz_status cdz_lock_edit_commit(cdz_lock_edit *edit, cdz_error *err)
{
    cdz_buf text = {0};
    put_lock(&edit->lock, &text);
    const cdz_status st =
        text.failed ? cdz_err_memory_in(err, edit->lock.path)
                    : cdz_write_whole(edit->lock.path, text.data, text.len, CDZ_WRITE_SYNC, err);
    cdz_buf_free(&text);
    cdz_lock_edit_abort(edit);
    return st;
}
