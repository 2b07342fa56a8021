/* pull.c - a repository's model into the cache: what there is, what of it lacks, whether there is room, and file by file. */
#include "hub/pull.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/environment.h"
#include "base/size_text.h"
#include "base/write.h"
#include "hub/blob.h"
#include "hub/caches.h"
#include "hub/choose.h"
#include "hub/http.h"

static const char hub_address[] = "https://huggingface.co", main_branch[] = "main";

enum { MOST_LISTING = 64 << 20 };

typedef struct pull {
    const cdz_hub_wish *wish;
    const cdz_hub_watch *watch;
    cdz_arena arena;
    cdz_http *http;
    const char *endpoint, *revision;
    char folder[CDZ_HUB_PATH]; /* models--ORG--NAME, in the cache */
    const char *locks;
    cdz_hub_repo repo;
    const cdz_hub_file *gguf, *index;
} pull;

/* --- what there is ----------------------------------------------------------------------------------------- */

/* As it stands in an address; the slashes of a file's path are its folders, those of a revision a part of its name. */
static const char *escaped(cdz_arena *arena, const char *text, bool folders)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    char *out = cdz_arena_alloc(arena, 3 * strlen(text) + 1);
    size_t n = 0;
    for (; out && *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (strchr(plain, *text) || (folders && *text == '/')) {
            out[n++] = *text;
            continue;
        }
        out[n++] = '%';
        out[n++] = digits[c >> 4];
        out[n++] = digits[c & 15];
    }
    return out;
}

typedef struct listing {
    cdz_buf text;
    const cdz_hub_watch *watch;
} listing;

static bool begin_listing(void *user, const cdz_http_head *head)
{
    listing *l = user;
    (void)head;
    cdz_buf_clear(&l->text);
    return true;
}

static bool add_listing(void *user, const void *bytes, size_t n)
{
    listing *l = user;
    cdz_buf_add(&l->text, bytes, n);
    return !l->text.failed;
}

static bool stop_listing(void *user)
{
    const listing *l = user;
    return l->watch->stop && l->watch->stop(l->watch->user);
}

/* The hub's answer about the revision, into l; tried again where that may help. */
static cdz_status ask_listing(pull *p, listing *l, cdz_error *err)
{
    const char *name = p->wish->id.name;
    const char *revision = escaped(&p->arena, p->revision, false);
    const char *path =
        revision
            ? cdz_arena_printf(&p->arena, "/api/models/%s/revision/%s?blobs=true", name, revision)
            : NULL;
    const cdz_http_ask ask = {
        .path = path, .head = begin_listing, .bytes = add_listing, .stop = stop_listing, .user = l};
    if (!path) return cdz_err_memory_in(err, p->wish->id.name);
    for (unsigned tries = 0;;) {
        cdz_http_head head = {0};
        const cdz_status st = cdz_http_get(p->http, &ask, &head, err);
        if (st == CDZ_OK && head.status == 200) return CDZ_OK;
        if (l->text.failed)
            return cdz_err(err, CDZ_E_LIMIT, "%s: the hub's list of files is too long", name);
        const bool passing = st == CDZ_E_IO || (st == CDZ_OK && cdz_hub_passing(head.status));
        if (passing && cdz_hub_try_again(&tries, head.wait, p->watch)) continue;
        if (stop_listing(l)) return cdz_err(err, CDZ_E_CANCELLED, "stopped");
        return st != CDZ_OK ? cdz_err_prefix(err, "%s", name)
                            : cdz_hub_answer(name, p->endpoint, &head, err);
    }
}

static cdz_status list(pull *p, cdz_error *err)
{
    listing l = {.text = {.limit = MOST_LISTING}, .watch = p->watch};
    cdz_status st = ask_listing(p, &l, err);
    if (st == CDZ_OK) {
        const char *kept = cdz_arena_strndup(&p->arena, l.text.data ? l.text.data : "", l.text.len);
        st = kept ? cdz_hub_repo_read(kept, l.text.len, p->wish->id.name, &p->arena, &p->repo, err)
                  : cdz_err_memory_in(err, p->wish->id.name);
    }
    cdz_buf_free(&l.text);
    return st;
}

/* --- where it goes ----------------------------------------------------------------------------------------- */

static cdz_status make_folder(pull *p, const char *path, cdz_error *err)
{
    char *copy = path ? cdz_arena_strdup(&p->arena, path) : NULL;
    if (!copy) return cdz_err_memory_in(err, p->wish->id.name);
    if (cdz_write_folders(copy, 0777)) return CDZ_OK;
    return cdz_err(err, CDZ_E_IO, "%s: %s", path, strerror(errno));
}

static cdz_status make_folders(pull *p, cdz_error *err)
{
    const char *name = strrchr(p->folder, '/');
    p->locks =
        cdz_arena_printf(&p->arena, "%.*s/.locks%s", (int)(name - p->folder), p->folder, name);
    CDZ_TRY(make_folder(p, cdz_arena_printf(&p->arena, "%s/blobs", p->folder), err));
    CDZ_TRY(make_folder(p, cdz_arena_printf(&p->arena, "%s/refs", p->folder), err));
    return make_folder(p, p->locks, err);
}

static cdz_status blob_of(pull *p, const cdz_hub_file *file, cdz_hub_blob *out, cdz_error *err)
{
    const char *name = escaped(&p->arena, file->path, true);
    *out = (cdz_hub_blob){.file = file, .endpoint = p->endpoint};
    if (name)
        out->url = cdz_arena_printf(&p->arena, "/%s/resolve/%s/%s", p->wish->id.name,
                                    p->repo.commit, name);
    out->path = cdz_arena_printf(&p->arena, "%s/blobs/%s", p->folder, file->hash);
    out->lock = cdz_arena_printf(&p->arena, "%s/%s.lock", p->locks, file->hash);
    return out->url && out->path && out->lock ? CDZ_OK : cdz_err_memory_in(err, p->wish->id.name);
}

/* A link to the blob at snapshots/COMMIT/FILE. Where there are no links, the file itself, as huggingface_hub does. */
static cdz_status link_file(pull *p, const cdz_hub_file *file, const char *blob, cdz_error *err)
{
    cdz_buf target = {0};
    char there[CDZ_HUB_PATH];
    const char *path =
        cdz_arena_printf(&p->arena, "%s/snapshots/%s/%s", p->folder, p->repo.commit, file->path);
    if (!path) return cdz_err_memory_in(err, p->wish->id.name);
    CDZ_TRY(make_folder(p, cdz_arena_strndup(&p->arena, path, (size_t)(strrchr(path, '/') - path)),
                        err));
    for (const char *c = file->path; *c; c++)
        if (*c == '/') cdz_buf_puts(&target, "../");
    cdz_buf_printf(&target, "../../blobs/%s", file->hash);
    const ssize_t n = target.failed ? 0 : readlink(path, there, sizeof there - 1);
    const bool same = n == (ssize_t)target.len && memcmp(there, target.data, target.len) == 0;
    cdz_status st = target.failed ? cdz_err_memory_in(err, p->wish->id.name) : CDZ_OK;
    if (st == CDZ_OK && !same) {
        (void)unlink(path);
        const bool made = symlink(target.data, path) == 0 || errno == EEXIST;
        if (!made && !((errno == EPERM || errno == EOPNOTSUPP) && rename(blob, path) == 0))
            st = cdz_err(err, CDZ_E_IO, "%s: %s", path, strerror(errno));
    }
    cdz_buf_free(&target);
    return st;
}

/* --- file by file -------------------------------------------------------------------------------------------- */

static cdz_status fetch(pull *p, const cdz_hub_file *file, cdz_error *err)
{
    cdz_hub_blob blob;
    CDZ_TRY(blob_of(p, file, &blob, err));
    CDZ_TRY(cdz_hub_blob_fetch(p->http, &blob, p->watch, err));
    return link_file(p, file, blob.path, err);
}

static cdz_status look_at_room(const pull *p, uint64_t lacking, cdz_error *err)
{
    struct statvfs s;
    cdz_size_text need, there;
    if (statvfs(p->folder, &s) != 0) return CDZ_OK;
    const uint64_t room = (uint64_t)s.f_bavail * s.f_frsize;
    if (room >= lacking) return CDZ_OK;
    cdz_size_write(&need, lacking);
    cdz_size_write(&there, room);
    return cdz_err(err, CDZ_E_LIMIT,
                   "%s: %s are to come, and %s has room for %s: free some, or set HF_HOME to a "
                   "folder elsewhere",
                   p->wish->id.name, need.text, p->folder, there.text);
}

static cdz_status count(pull *p, uint64_t *lacking, size_t *files, cdz_error *err)
{
    *lacking = 0;
    *files = 0;
    for (size_t i = 0; i < p->repo.n; i++) {
        cdz_hub_blob blob;
        if (!p->repo.files[i].take) continue;
        CDZ_TRY(blob_of(p, &p->repo.files[i], &blob, err));
        const uint64_t bytes = blob.file->bytes, here = cdz_hub_blob_here(&blob);
        *files += here < bytes;
        if (bytes - here > UINT64_MAX - *lacking)
            return cdz_err(err, CDZ_E_INPUT, "%s: the hub's sizes cannot be", p->wish->id.name);
        *lacking += bytes - here;
    }
    return CDZ_OK;
}

/* The index tells the shards, so it comes first. */
static cdz_status choose(pull *p, cdz_error *err)
{
    CDZ_TRY(cdz_hub_choose(&p->repo, &p->wish->id, p->wish->texts, &p->gguf, &p->index, err));
    if (!p->index) return CDZ_OK;
    const char *path = cdz_arena_printf(&p->arena, "%s/snapshots/%s/%s", p->folder, p->repo.commit,
                                        p->index->path);
    CDZ_TRY(fetch(p, p->index, err));
    return path ? cdz_hub_choose_shards(&p->repo, path, &p->arena, err)
                : cdz_err_memory_in(err, p->wish->id.name);
}

static cdz_status fetch_all(pull *p, cdz_error *err)
{
    uint64_t lacking;
    size_t files;
    CDZ_TRY(choose(p, err));
    CDZ_TRY(count(p, &lacking, &files, err));
    CDZ_TRY(look_at_room(p, lacking, err));
    if (files && p->watch->begin) p->watch->begin(p->watch->user, files, lacking, p->folder);
    for (size_t i = 0; i < p->repo.n; i++)
        if (p->repo.files[i].take) CDZ_TRY(fetch(p, &p->repo.files[i], err));
    return CDZ_OK;
}

/* What the branch or tag stands for; written last, so that it does not lead to a model that is not whole. */
static cdz_status write_ref(pull *p, cdz_error *err)
{
    if (cdz_hub_is_commit(p->revision)) return CDZ_OK;
    const char *path = cdz_arena_printf(&p->arena, "%s/refs/%s", p->folder, p->revision);
    char *folder =
        path ? cdz_arena_strndup(&p->arena, path, (size_t)(strrchr(path, '/') - path)) : NULL;
    CDZ_TRY(make_folder(p, folder, err));
    return cdz_write_whole(path, p->repo.commit, strlen(p->repo.commit), 0, err);
}

static cdz_status work(pull *p, char *path, size_t bytes, cdz_error *err)
{
    CDZ_TRY(cdz_hub_check_revision(p->revision, err));
    CDZ_TRY(cdz_http_open(p->endpoint, cdz_env_hub_token(), &p->http, err));
    CDZ_TRY(cdz_hub_repository(&p->wish->id, p->folder, sizeof p->folder, err));
    CDZ_TRY(list(p, err));
    CDZ_TRY(make_folders(p, err));
    CDZ_TRY(fetch_all(p, err));
    CDZ_TRY(write_ref(p, err));
    const int n = snprintf(path, bytes, "%s/snapshots/%s%s%s", p->folder, p->repo.commit,
                           p->gguf ? "/" : "", p->gguf ? p->gguf->path : "");
    return n > 0 && (size_t)n < bytes ? CDZ_OK : cdz_err_memory_in(err, p->wish->id.name);
}

cdz_status cdz_hub_pull(const cdz_hub_wish *wish, const cdz_hub_watch *watch, char *path,
                        size_t bytes, cdz_error *err)
{
    const char *endpoint = cdz_env_hub_endpoint();
    pull p = {.wish = wish,
              .watch = watch,
              .endpoint = endpoint ? endpoint : hub_address,
              .revision = wish->revision ? wish->revision : main_branch};
    const cdz_status st = work(&p, path, bytes, err);
    cdz_http_close(p.http);
    cdz_arena_free(&p.arena);
    return st;
}
