/* blob.c - one file over the network: gone on with after every cut, hashed as it comes, named when it is whole. */
#include "hub/blob.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha1.h"
#include "base/write.h"

enum { MOST_TRIES = 4, MOST_WAIT_SECONDS = 20, PIECE = 1 << 16 };

/* --- hashes ------------------------------------------------------------------------------------------------ */

typedef struct digest {
    bool git;
    cdz_sha256_state sha256;
    cdz_sha1_state sha1;
} digest;

static void digest_begin(digest *d, const cdz_hub_file *file)
{
    char head[64];
    *d = (digest){.git = strlen(file->hash) == CDZ_SHA1_HEX - 1};
    cdz_sha256_begin(&d->sha256);
    cdz_sha1_begin(&d->sha1);
    const int n = snprintf(head, sizeof head, "blob %" PRIu64, file->bytes);
    cdz_sha1_add(&d->sha1, head, (size_t)n + 1); /* with its NUL, as git has it */
}

static void digest_add(digest *d, const void *bytes, size_t n)
{
    if (d->git)
        cdz_sha1_add(&d->sha1, bytes, n);
    else
        cdz_sha256_add(&d->sha256, bytes, n);
}

static void digest_end(digest *d, char hex[CDZ_SHA256_HEX])
{
    if (d->git)
        cdz_sha1_end(&d->sha1, hex);
    else
        cdz_sha256_end(&d->sha256, hex);
}

/* --- a file on its way ------------------------------------------------------------------------------------- */

typedef struct fetch {
    const cdz_hub_blob *blob;
    const cdz_hub_watch *watch;
    cdz_error *err;
    const char *part; /* its path while it is incomplete */
    FILE *out;
    int fd;
    uint64_t have;
    bool inherited; /* bytes of an earlier attempt are in it */
    char etag[128]; /* of the answer that the bytes are of; "": not known */
    digest sum;
    cdz_status failed; /* what ended a transfer from our side */
    unsigned anew;     /* times that the hub refused to go on where we were */
} fetch;

static cdz_status io_error(const fetch *f, int error, cdz_error *err)
{
    return cdz_err(err, CDZ_E_IO, "%s: %s", f->part, strerror(error));
}

static bool stopped(const cdz_hub_watch *watch)
{
    return watch->stop && watch->stop(watch->user);
}

static void tell(const fetch *f)
{
    if (f->watch->progress)
        f->watch->progress(f->watch->user, f->blob->file->path, f->have, f->blob->file->bytes);
}

static cdz_status begin_anew(fetch *f, cdz_error *err)
{
    f->have = 0;
    f->inherited = false;
    f->etag[0] = '\0';
    digest_begin(&f->sum, f->blob->file);
    if (ftruncate(f->fd, 0) == 0 && lseek(f->fd, 0, SEEK_SET) == 0) return CDZ_OK;
    return io_error(f, errno, err);
}

/* Hashes what an earlier attempt left. More than there should be is no part of it. */
static cdz_status take_up(fetch *f, cdz_error *err)
{
    struct stat s;
    char piece[PIECE];
    digest_begin(&f->sum, f->blob->file);
    if (fstat(f->fd, &s) != 0) return io_error(f, errno, err);
    if ((uint64_t)s.st_size > f->blob->file->bytes) return begin_anew(f, err);
    while (f->have < (uint64_t)s.st_size) {
        const ssize_t n = pread(f->fd, piece, sizeof piece, (off_t)f->have);
        if (n <= 0) return io_error(f, n < 0 ? errno : EIO, err);
        digest_add(&f->sum, piece, (size_t)n);
        f->have += (uint64_t)n;
        if (stopped(f->watch)) return cdz_err(err, CDZ_E_CANCELLED, "stopped");
    }
    f->inherited = f->have > 0;
    return lseek(f->fd, 0, SEEK_END) < 0 ? io_error(f, errno, err) : CDZ_OK;
}

/* --- an answer's bytes ------------------------------------------------------------------------------------- */

static bool refuse(fetch *f, cdz_status code)
{
    f->failed = code;
    return false;
}

/* A server that has no ranges, or another file by now, sends all of it. */
static bool on_head(void *user, const cdz_http_head *head)
{
    fetch *f = user;
    const cdz_hub_file *file = f->blob->file;
    const bool part = head->status == 206;
    if (part && (!head->has_range || head->from != f->have || head->total != file->bytes))
        return refuse(f, cdz_err(f->err, CDZ_E_INPUT,
                                 "%s: the hub sent another part than the one from byte %" PRIu64
                                 " of %" PRIu64,
                                 file->path, f->have, file->bytes));
    if (!part && head->has_bytes && head->bytes != file->bytes)
        return refuse(f, cdz_err(f->err, CDZ_E_INPUT,
                                 "%s: the hub sent %" PRIu64 " bytes, expected %" PRIu64,
                                 file->path, head->bytes, file->bytes));
    if (!part && begin_anew(f, f->err) != CDZ_OK) return refuse(f, CDZ_E_IO);
    (void)snprintf(f->etag, sizeof f->etag, "%s", head->etag);
    return true;
}

static bool on_bytes(void *user, const void *bytes, size_t n)
{
    fetch *f = user;
    const char *at = bytes;
    if (n > f->blob->file->bytes - f->have)
        return refuse(f, cdz_err(f->err, CDZ_E_INPUT,
                                 "%s: the hub sent more than its %" PRIu64 " bytes",
                                 f->blob->file->path, f->blob->file->bytes));
    while (n) {
        const ssize_t wrote = write(f->fd, at, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return refuse(f, io_error(f, wrote < 0 ? errno : ENOSPC, f->err));
        digest_add(&f->sum, at, (size_t)wrote);
        f->have += (uint64_t)wrote;
        at += wrote;
        n -= (size_t)wrote;
    }
    tell(f);
    return true;
}

static bool on_stop(void *user)
{
    const fetch *f = user;
    return stopped(f->watch);
}

/* --- trying ------------------------------------------------------------------------------------------------ */

bool cdz_hub_try_again(unsigned *tries, unsigned wait_seconds, const cdz_hub_watch *watch)
{
    static const struct timespec tick = {0, 50000000};
    if (++*tries > MOST_TRIES || wait_seconds > MOST_WAIT_SECONDS) return false;
    unsigned ticks = wait_seconds ? wait_seconds * 20 : 5u << (*tries - 1);
    while (ticks-- && !stopped(watch)) nanosleep(&tick, NULL);
    return !stopped(watch);
}

bool cdz_hub_passing(long status)
{
    return status == 408 || status == 429 || (status >= 500 && status != 501);
}

static cdz_status missing(const char *what, const char *endpoint, const char *code, cdz_error *err)
{
    if (strcmp(code, "RevisionNotFound") == 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: the hub has no such revision (404)", what);
    if (strcmp(code, "EntryNotFound") == 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: the hub has no such file any more (404)", what);
    return cdz_err(err, CDZ_E_NOT_FOUND, "%s is not at %s (404); look at how it is spelt", what,
                   endpoint);
}

cdz_status cdz_hub_answer(const char *what, const char *endpoint, const cdz_http_head *head,
                          cdz_error *err)
{
    switch (head->status) {
    case 401:
        return cdz_err(
            err, CDZ_E_DENIED,
            "%s: %s knows no such model, or shows it to some alone (401): look at how it is spelt, or set "
            "HF_TOKEN to a token that may read it",
            what, endpoint);
    case 403:
        return cdz_err(
            err, CDZ_E_DENIED,
            "%s: %s does not give access (403): ask for it on the model's page, and set HF_TOKEN to a token "
            "of that account",
            what, endpoint);
    case 404:
    case 410: return missing(what, endpoint, head->code, err);
    case 429:
        if (head->wait)
            return cdz_err(err, CDZ_E_IO,
                           "%s: too many requests for %s (429); it asks to wait %u seconds", what,
                           endpoint, head->wait);
        return cdz_err(err, CDZ_E_IO, "%s: too many requests for %s (429); wait a little", what,
                       endpoint);
    default:
        if (head->status >= 500)
            return cdz_err(err, CDZ_E_IO,
                           "%s: %s is in trouble (%ld); the same command goes on later", what,
                           endpoint, head->status);
        return cdz_err(err, CDZ_E_IO, "%s: %s answered with status %ld", what, endpoint,
                       head->status);
    }
}

/* What a transfer came to: CDZ_OK goes on, whole or not. A part that does not fit (416) begins anew. */
static cdz_status judge(fetch *f, const cdz_error *net, const cdz_http_head *head, uint64_t before,
                        unsigned *tries, cdz_error *err)
{
    const cdz_hub_file *file = f->blob->file;
    if (f->failed) return f->failed;
    if (net->code != CDZ_OK && net->code != CDZ_E_IO)
        return cdz_err(err, net->code, "%s: %s", file->path, net->text);
    const bool answered = net->code == CDZ_OK && head->status != 200 && head->status != 206;
    if (answered && head->status == 416 && f->have && f->anew++ < MOST_TRIES)
        return begin_anew(f, err);
    if (answered && !cdz_hub_passing(head->status))
        return cdz_hub_answer(file->path, f->blob->endpoint, head, err);
    if (!answered && f->have == file->bytes) return CDZ_OK;
    if (f->have > before) *tries = 0; /* it gets on: as often as it takes, and at once */
    if (f->have > before || cdz_hub_try_again(tries, head->wait, f->watch)) return CDZ_OK;
    if (stopped(f->watch)) return cdz_err(err, CDZ_E_CANCELLED, "stopped");
    if (answered) return cdz_hub_answer(file->path, f->blob->endpoint, head, err);
    return cdz_err(err, CDZ_E_IO,
                   "%s: %" PRIu64 " of %" PRIu64 " bytes are here, the same command goes on: %s",
                   file->path, f->have, file->bytes,
                   net->code ? net->text : "the answer ended early");
}

static cdz_status transfer(fetch *f, cdz_http *http, cdz_error *err)
{
    unsigned tries = 0;
    cdz_status st = CDZ_OK;
    f->err = err;
    while (st == CDZ_OK && f->have < f->blob->file->bytes) {
        const uint64_t before = f->have;
        char etag[sizeof f->etag];
        cdz_http_head head = {0};
        memcpy(etag, f->etag, sizeof etag);
        const cdz_http_ask ask = {.path = f->blob->url,
                                  .from = f->have,
                                  .if_range = etag[0] ? etag : NULL,
                                  .head = on_head,
                                  .bytes = on_bytes,
                                  .stop = on_stop,
                                  .user = f};
        cdz_error net = {0};
        net.code = cdz_http_get(http, &ask, &head, &net);
        st = judge(f, &net, &head, before, &tries, err);
    }
    return st;
}

/* All bytes are there: are they the right ones? What is wrong is not kept. */
static cdz_status check(fetch *f, bool *again, cdz_error *err)
{
    char hex[CDZ_SHA256_HEX];
    const cdz_hub_file *file = f->blob->file;
    digest_end(&f->sum, hex);
    *again = false;
    if (strcmp(hex, file->hash) == 0) return CDZ_OK;
    *again = f->inherited;
    CDZ_TRY(begin_anew(f, err));
    if (*again) return CDZ_OK;
    (void)unlink(f->part);
    return cdz_err(err, CDZ_E_INPUT, "%s: its %s is %s, the hub promised %s; it was not kept",
                   file->path, f->sum.git ? "git SHA-1" : "SHA-256", hex, file->hash);
}

static cdz_status finish(fetch *f, cdz_error *err)
{
    if (fsync(f->fd) != 0 || rename(f->part, f->blob->path) != 0) return io_error(f, errno, err);
    return CDZ_OK;
}

static cdz_status fetch_held(fetch *f, cdz_http *http, cdz_error *err)
{
    bool again = true;
    CDZ_TRY(cdz_write_grow(f->part, true, NULL, 0, &f->out, err));
    f->fd = fileno(f->out);
    cdz_status st = take_up(f, err);
    tell(f);
    while (st == CDZ_OK &&
           again) { /* a second time where an earlier attempt had left something else */
        st = transfer(f, http, err);
        if (st == CDZ_OK) st = check(f, &again, err);
    }
    if (st == CDZ_OK) st = finish(f, err);
    (void)fclose(f->out);
    return st;
}

/* --- one at a time ------------------------------------------------------------------------------------------ */

static bool is_here(const cdz_hub_blob *blob)
{
    struct stat s;
    return stat(blob->path, &s) == 0 && S_ISREG(s.st_mode) &&
           (uint64_t)s.st_size == blob->file->bytes;
}

/* Where a file system has no locks, the hash is what there is. */
static cdz_status hold(const cdz_hub_blob *blob, const cdz_hub_watch *watch, FILE **lock,
                       cdz_error *err)
{
    static const struct timespec tick = {0, 100000000};
    bool told = false;
    CDZ_TRY(cdz_write_grow(blob->lock, true, NULL, 0, lock, err));
    while (flock(fileno(*lock), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (!told && watch->wait) watch->wait(watch->user, blob->file->path);
        told = true;
        nanosleep(&tick, NULL);
        if (!stopped(watch)) continue;
        (void)fclose(*lock);
        return cdz_err(err, CDZ_E_CANCELLED, "stopped");
    }
    return CDZ_OK;
}

static char *part_of(const cdz_hub_blob *blob)
{
    static const char ending[] = ".incomplete";
    const size_t bytes = strlen(blob->path) + sizeof ending;
    char *path = malloc(bytes);
    if (path) (void)snprintf(path, bytes, "%s%s", blob->path, ending);
    return path;
}

uint64_t cdz_hub_blob_here(const cdz_hub_blob *blob)
{
    struct stat s;
    uint64_t here = 0;
    if (is_here(blob)) return blob->file->bytes;
    char *part = part_of(blob);
    if (part && stat(part, &s) == 0 && (uint64_t)s.st_size <= blob->file->bytes)
        here = (uint64_t)s.st_size;
    free(part);
    return here;
}

cdz_status cdz_hub_blob_fetch(cdz_http *http, const cdz_hub_blob *blob, const cdz_hub_watch *watch,
                              cdz_error *err)
{
    FILE *lock;
    fetch f = {.blob = blob, .watch = watch};
    if (is_here(blob)) return CDZ_OK;
    CDZ_TRY(hold(blob, watch, &lock, err));
    cdz_status st = CDZ_OK;
    if (!is_here(blob)) { /* who held the lock before may have brought it */
        char *part = part_of(blob);
        f.part = part;
        st = part ? fetch_held(&f, http, err) : cdz_err_memory_in(err, blob->file->path);
        free(part);
    }
    (void)fclose(lock);
    return st;
}
