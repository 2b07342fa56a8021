/* out.c - writing files that appear whole or not at all. */
#include "convert/out.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cdz_status failed(const char *path, cdz_error *err)
{
    return cdz_err(err, CDZ_E_IO, "%s: %s", path, strerror(errno));
}

static char *joined(const char *a, const char *between, const char *b)
{
    const size_t n = strlen(a) + strlen(between) + strlen(b) + 1;
    char *text = malloc(n);
    if (text) snprintf(text, n, "%s%s%s", a, between, b);
    return text;
}

/* --- the target ---------------------------------------------------------------------------- */

cdz_status cdz_target_may(const char *path, bool folder, bool force, cdz_error *err)
{
    struct stat info;
    if (lstat(path, &info) != 0) return CDZ_OK;
    if (S_ISDIR(info.st_mode) != folder)
        return cdz_err(err, CDZ_E_INPUT, "%s: is %s already, expected a name for a new %s", path,
                       folder ? "a file" : "a folder", folder ? "folder" : "file");
    if (force) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: exists already; force (--force) replaces %s", path,
                   folder ? "an empty folder" : "a file");
}

static cdz_status begin_folder(cdz_target *t, cdz_error *err)
{
    return cdz_write_folder_beside(t->path, &t->temp, err);
}

static cdz_status begin_file(cdz_target *t, cdz_error *err)
{
    char at[64];
    CDZ_TRY(cdz_write_begin(&t->writer, t->path, CDZ_WRITE_SYNC, err));
    cdz_write_read_at(&t->writer, at, sizeof at);
    t->temp = strdup(at);
    return t->temp ? CDZ_OK : cdz_err_memory_in(err, t->path);
}

cdz_status cdz_target_begin(cdz_target *t, const char *path, bool folder, bool force,
                            const char *input, cdz_error *err)
{
    *t = (cdz_target){.path = strdup(path), .folder = folder};
    if (!t->path) return cdz_err_memory_in(err, path);
    for (size_t n = strlen(t->path); n > 1 && t->path[n - 1] == '/'; n--) t->path[n - 1] = '\0';
    CDZ_TRY(cdz_target_may(t->path, folder, force, err));
    CDZ_TRY(cdz_write_not_over(t->path, input, err));
    return folder ? begin_folder(t, err) : begin_file(t, err);
}

/* The folder that holds path. */
static void sync_around(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *around = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (around) cdz_write_sync_folder(around);
    free(around);
}

cdz_status cdz_target_finish(cdz_target *t, cdz_error *err)
{
    if (!t->folder) return cdz_write_finish(&t->writer, err);
    cdz_write_sync_folder(t->temp);
    if (rename(t->temp, t->path) != 0) return failed(t->path, err);
    sync_around(t->path);
    free(t->temp);
    t->temp = NULL;
    return CDZ_OK;
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    rmdir(path);
}

void cdz_target_drop(cdz_target *t)
{
    if (t->temp && t->folder) remove_folder(t->temp);
    cdz_write_drop(&t->writer);
    free(t->temp);
    free(t->path);
    *t = (cdz_target){0};
}

/* --- one file ------------------------------------------------------------------------------ */

static cdz_status open_inside(const cdz_target *target, const char *name, cdz_out *out)
{
    char *path = joined(target->temp, "/", name);
    if (!path) return cdz_err_memory_in(out->err, target->path);
    const cdz_status st = cdz_write_begin(&out->own, path, CDZ_WRITE_NEW | CDZ_WRITE_SYNC, out->err);
    free(path);
    if (st == CDZ_OK) out->writer = &out->own;
    return st;
}

cdz_status cdz_out_open(cdz_target *target, const char *name, cdz_out *out)
{
    out->path = target->path;
    out->at = 0;
    out->writer = NULL;
    if (name) return open_inside(target, name, out);
    out->writer = &target->writer;
    return CDZ_OK;
}

cdz_status cdz_out_write(cdz_out *out, const void *bytes, size_t n)
{
    cdz_write(out->writer, bytes, n);
    CDZ_TRY(cdz_write_check(out->writer, out->err));
    out->at += n;
    const cdz_watch *w = out->watch;
    if (w && w->tell && !w->tell(w->user, out->at, out->total))
        return cdz_err(out->err, CDZ_E_CANCELLED, "%s: given up; nothing was written", out->path);
    return CDZ_OK;
}

cdz_status cdz_out_pad(cdz_out *out, uint64_t alignment)
{
    static const char zeros[64] = {0};
    while (out->at % alignment) {
        const uint64_t rest = alignment - out->at % alignment;
        CDZ_TRY(cdz_out_write(out, zeros, rest < sizeof zeros ? (size_t)rest : sizeof zeros));
    }
    return CDZ_OK;
}

/* A file in a folder has its name there at once; the target itself when it has been read again. */
cdz_status cdz_out_close(cdz_out *out, cdz_status status)
{
    cdz_writer *w = out->writer;
    out->writer = NULL;
    if (!w) return status;
    if (w != &out->own) return status == CDZ_OK ? cdz_write_flush(w, out->err) : status;
    if (status == CDZ_OK) return cdz_write_finish(w, out->err);
    cdz_write_drop(w);
    return status;
}

cdz_status cdz_out_text(cdz_target *target, const char *name, const char *text, size_t len,
                        cdz_error *err)
{
    cdz_out out = {.err = err};
    cdz_status st = cdz_out_open(target, name, &out);
    if (st == CDZ_OK) st = cdz_out_write(&out, text, len);
    return cdz_out_close(&out, st);
}
