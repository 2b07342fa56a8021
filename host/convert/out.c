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

/* What is there already may be replaced on request, as far as rename does it. */
static cdz_status check_free(const cdz_target *t, bool force, cdz_error *err)
{
    struct stat info;
    if (lstat(t->path, &info) != 0) return CDZ_OK;
    const bool folder = S_ISDIR(info.st_mode);
    if (folder != t->folder)
        return cdz_err(err, CDZ_E_INPUT, "%s: is %s already, expected a name for a new %s", t->path,
                       folder ? "a folder" : "a file", t->folder ? "folder" : "file");
    if (force) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: exists already; --force replaces %s", t->path,
                   folder ? "an empty folder" : "a file");
}

cdz_status cdz_target_begin(cdz_target *t, const char *path, bool folder, bool force, cdz_error *err)
{
    *t = (cdz_target){.path = strdup(path), .folder = folder};
    if (!t->path) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
    for (size_t n = strlen(t->path); n > 1 && t->path[n - 1] == '/'; n--) t->path[n - 1] = '\0';
    CDZ_TRY(check_free(t, force, err));
    char *temp = joined(t->path, ".part-", "XXXXXX");
    if (!temp) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
    const int fd = folder ? -1 : mkstemp(temp);
    const bool made = folder ? mkdtemp(temp) != NULL : fd >= 0;
    if (fd >= 0) close(fd);
    if (!made) {
        const cdz_status st = failed(t->path, err);
        free(temp);
        return st;
    }
    t->temp = temp;
    const mode_t mask = umask(0);
    umask(mask);
    chmod(temp, (folder ? 0777 : 0666) & ~mask); /* mkstemp gives it to its owner alone */
    return CDZ_OK;
}

cdz_status cdz_target_finish(cdz_target *t, cdz_error *err)
{
    if (rename(t->temp, t->path) != 0) return failed(t->path, err);
    free(t->temp);
    t->temp = NULL;
    return CDZ_OK;
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    rmdir(path);
}

void cdz_target_drop(cdz_target *t)
{
    if (t->temp && t->folder) remove_folder(t->temp);
    if (t->temp && !t->folder) unlink(t->temp);
    free(t->temp);
    free(t->path);
    *t = (cdz_target){0};
}

/* --- one file ------------------------------------------------------------------------------ */

cdz_status cdz_out_open(const cdz_target *target, const char *name, cdz_out *out)
{
    char *path = name ? joined(target->temp, "/", name) : strdup(target->temp);
    out->path = target->path;
    out->at = 0;
    out->file = path ? fopen(path, name ? "wbxe" : "wbe") : NULL;
    const cdz_status st = out->file ? CDZ_OK
                          : path
                              ? failed(path, out->err)
                              : cdz_err(out->err, CDZ_E_NOMEM, "%s: out of memory", target->path);
    free(path);
    return st;
}

cdz_status cdz_out_write(cdz_out *out, const void *bytes, size_t n)
{
    if (n && fwrite(bytes, 1, n, out->file) != n) return failed(out->path, out->err);
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

cdz_status cdz_out_close(cdz_out *out, cdz_status status)
{
    if (!out->file) return status;
    const bool good = fflush(out->file) == 0 && fsync(fileno(out->file)) == 0;
    if (status == CDZ_OK && !good) status = failed(out->path, out->err);
    if (fclose(out->file) != 0 && status == CDZ_OK) status = failed(out->path, out->err);
    out->file = NULL;
    return status;
}

cdz_status cdz_out_text(const cdz_target *target, const char *name, const char *text, size_t len,
                        cdz_error *err)
{
    cdz_out out = {.err = err};
    cdz_status st = cdz_out_open(target, name, &out);
    if (st == CDZ_OK) st = cdz_out_write(&out, text, len);
    return cdz_out_close(&out, st);
}
