/* isolate.c - opening a file in a process of its own, and keeping one there.
 *
 * Owns: the file's private copy, its present process, and the book of crashes, by which a new request waits before the next
 * start. Not: calls (exchange.c), starting and ending (peer.c). Invariant: every process says of the file what the first
 * one said. Under the isolate's lock, but for guards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "isolate/answers.h"
#include "isolate/isolate_state.h"
#include "native/native.h"

/* Seconds for opening the file: the dynamic loader, and what the file does when it is opened. */
enum { OPEN_SECONDS = 10 };
/* Seconds that a new request waits after the second crash in a row, doubled with each. */
static const double first_pause = 0.1, longest_pause = 30;

/* --- what the process says ----------------------------------------------------------------------------------- */

bool cdz_isolate_read(cdz_isolate *isolate, cdz_wire_in *out)
{
    const size_t len =
        atomic_load_explicit(&cdz_peer_head(&isolate->process)->down_bytes, memory_order_relaxed);
    if (len > CDZ_ISOLATE_DOWN_BYTES) return false;
    if (len > isolate->reply_cap) {
        unsigned char *more = realloc(isolate->reply, len);
        if (!more) return false;
        isolate->reply = more;
        isolate->reply_cap = len;
    }
    if (len) memcpy(isolate->reply, isolate->process.map + CDZ_ISOLATE_DOWN, len);
    *out = (cdz_wire_in){.at = isolate->reply, .len = len};
    return true;
}

const char *cdz_isolate_clean(cdz_string text, char *out, size_t out_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len && n + 4 < out_bytes;) {
        uint32_t code;
        const size_t len = cdz_utf8_decode(text.at + i, text.len - i, &code);
        const bool good = len && cdz_isolate_is_shown(code);
        if (good) memcpy(out + n, text.at + i, len);
        if (!good) out[n] = '?';
        n += good ? len : 1;
        i += len ? len : 1;
    }
    out[n] = '\0';
    return out;
}

/* --- the process ----------------------------------------------------------------------------------------------- */

/* The sentence of a file that the worker could not open. */
static cdz_status refused(cdz_wire_in *in, const cdz_isolate *isolate, cdz_error *err)
{
    cdz_arena arena = {0};
    char text[CDZ_ERROR_TEXT];
    const uint32_t code = cdz_take_u32(in);
    const cdz_string said = cdz_take_string(in, &arena);
    const bool known = cdz_taken_whole(in) && said.len && code > CDZ_OK && code <= CDZ_E_INTERNAL;
    const cdz_status st =
        known ? cdz_err(err, (cdz_status)code, "%s: %s", isolate->path,
                        cdz_isolate_clean(said, text, sizeof text))
              : cdz_err(err, CDZ_E_PLUGIN, "%s: its process refused it without saying why",
                        isolate->path);
    cdz_arena_free(&arena);
    return st;
}

static cdz_status out_of_turn(const cdz_isolate *isolate, cdz_error *err)
{
    return cdz_err(err, CDZ_E_PLUGIN, "%s: its process spoke out of turn when it was opened",
                   isolate->path);
}

/* A message of a process that is starting, and its first word. */
static cdz_status hear(cdz_isolate *isolate, cdz_wire_in *in, uint32_t *kind, cdz_error *err)
{
    const cdz_peer_state state = cdz_peer_wait(&isolate->process, cdz_now_s() + OPEN_SECONDS);
    char fate[128];
    *in = (cdz_wire_in){.bad = true};
    *kind = 0;
    if (state == CDZ_PEER_LATE)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: opening it took longer than %d s", isolate->path,
                       (int)OPEN_SECONDS);
    if (state == CDZ_PEER_ENDED) {
        cdz_peer_fate(&isolate->process, fate, sizeof fate);
        return cdz_err(err, CDZ_E_PLUGIN, "%s: its process %s when it was opened", isolate->path,
                       fate);
    }
    if (state == CDZ_PEER_FORGED) return out_of_turn(isolate, err);
    if (!cdz_isolate_read(isolate, in)) return CDZ_OK; /* kind 0 */
    *kind = cdz_take_u32(in);
    return CDZ_OK;
}

cdz_status cdz_isolate_hear_ready(cdz_isolate *isolate, cdz_error *err)
{
    cdz_wire_in in;
    uint32_t kind;
    CDZ_TRY(hear(isolate, &in, &kind, err));
    uint32_t guards;
    if (!cdz_take_ready(&in, &guards) || kind != CDZ_DOWN_READY)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: %s is of another build of cadenza", isolate->path,
                       isolate->worker);
    isolate->guards = guards;
    atomic_store_explicit(&cdz_peer_head(&isolate->process)->up_bytes, 0, memory_order_relaxed);
    return CDZ_OK;
}

static cdz_status hear_hello(cdz_isolate *isolate, cdz_wire_in *in, cdz_error *err)
{
    uint32_t kind;
    CDZ_TRY(hear(isolate, in, &kind, err));
    if (kind == CDZ_DOWN_REFUSED) return refused(in, isolate, err);
    if (kind == CDZ_DOWN_HELLO && !in->bad) return CDZ_OK;
    return cdz_err(err, CDZ_E_PLUGIN, "%s: its process does not say what it is", isolate->path);
}

/* The first process says what the file is; later ones have to say the same. */
static cdz_status remember(cdz_isolate *isolate, cdz_wire_in *hello, cdz_error *err)
{
    if (isolate->hello) {
        if (hello->len == isolate->hello_bytes && memcmp(hello->at, isolate->hello, hello->len) == 0)
            return CDZ_OK;
        return cdz_err(err, CDZ_E_PLUGIN, "%s: describes itself otherwise than before",
                       isolate->path);
    }
    isolate->hello = malloc(hello->len);
    if (!isolate->hello) return cdz_err_memory_in(err, isolate->path);
    memcpy(isolate->hello, hello->at, hello->len);
    isolate->hello_bytes = hello->len;
    return cdz_isolate_describe(isolate, hello, err);
}

static cdz_status start(cdz_isolate *isolate, cdz_error *err)
{
    cdz_wire_in hello;
    cdz_peer_stop(&isolate->process);
    isolate->incarnation++;
    CDZ_TRY(cdz_peer_start(isolate->worker, isolate->plugin_fd, &isolate->process, err));
    cdz_status st = cdz_isolate_hear_ready(isolate, err);
    if (st == CDZ_OK && !cdz_peer_give_turn(&isolate->process)) st = out_of_turn(isolate, err);
    if (st == CDZ_OK) st = hear_hello(isolate, &hello, err);
    if (st == CDZ_OK) st = remember(isolate, &hello, err);
    if (st != CDZ_OK) cdz_isolate_crashed(isolate);
    return st;
}

cdz_status cdz_isolate_ensure(cdz_isolate *isolate, bool fresh, cdz_error *err)
{
    if (isolate->process.pid > 0) /* requests begin again in the new one, as after a crash */
        return cdz_peer_is_old(&isolate->process) ? start(isolate, err) : CDZ_OK;
    const double now = cdz_now_s();
    if (fresh && now < isolate->not_before)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "its process ended badly %u times in a row; it is started again in %.1f s",
                       isolate->crashes, isolate->not_before - now);
    return start(isolate, err);
}

void cdz_isolate_crashed(cdz_isolate *isolate)
{
    cdz_peer_stop(&isolate->process);
    isolate->crashes++;
    double pause = isolate->crashes > 1 ? first_pause : 0;
    for (uint32_t i = 2; i < isolate->crashes && pause < longest_pause; i++) pause *= 2;
    isolate->not_before = cdz_now_s() + (pause < longest_pause ? pause : longest_pause);
}

/* --- life ---------------------------------------------------------------------------------------------------- */

static cdz_status make(const char *path, const char *worker, cdz_isolate **out, cdz_error *err)
{
    pthread_mutexattr_t checked;
    cdz_isolate *isolate = calloc(1, sizeof *isolate);
    if (!isolate) return cdz_err_memory_in(err, path);
    /* A call out of the middle of a call of the same file is told, not waited for. */
    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&isolate->lock, &checked);
    pthread_mutexattr_destroy(&checked);
    isolate->plugin_fd = -1;
    isolate->path = strdup(path);
    isolate->worker = strdup(worker);
    *out = isolate;
    return isolate->path && isolate->worker ? CDZ_OK : cdz_err_memory_in(err, path);
}

cdz_status cdz_isolate_open(const char *path, const char *bytes, size_t len, const char *worker,
                            cdz_isolate **out, const cdz_plugin_base *const **plugins, uint32_t *n,
                            cdz_error *err)
{
    cdz_isolate *isolate = NULL;
    cdz_status st = make(path, worker, &isolate, err);
    if (st == CDZ_OK && (isolate->plugin_fd = cdz_native_copy(path, bytes, len)) < 0)
        st = cdz_err(err, CDZ_E_IO, "%s: no place for a private copy: %s", path, strerror(errno));
    if (st == CDZ_OK && access(worker, X_OK) != 0)
        st = cdz_err(err, CDZ_E_NOT_FOUND, "%s: isolation = process needs the program %s: %s", path,
                     worker, strerror(errno));
    if (st == CDZ_OK) st = start(isolate, err);
    if (st != CDZ_OK) {
        cdz_isolate_close(isolate);
        return st;
    }
    *plugins = isolate->plugins;
    *n = isolate->n;
    *out = isolate;
    return CDZ_OK;
}

void cdz_isolate_close(cdz_isolate *isolate)
{
    if (!isolate) return;
    cdz_peer_stop(&isolate->process);
    if (isolate->plugin_fd >= 0) close(isolate->plugin_fd);
    cdz_arena_free(&isolate->arena);
    pthread_mutex_destroy(&isolate->lock);
    free(isolate->hello);
    free(isolate->reply);
    free(isolate->path);
    free(isolate->worker);
    free(isolate);
}

/* --- what holds it in ------------------------------------------------------------------------------------------ */

static void guards_text(uint32_t guards, char *out, size_t out_bytes)
{
    static const char *const names[] = {"system calls filtered", "files closed to it",
                                        "signals kept in", "namespaces of its own"};
    size_t n = 0;
    snprintf(out, out_bytes, "limits only");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (guards & 1u << i && n < out_bytes)
            n += (size_t)snprintf(out + n, out_bytes - n, "%s%s", n ? ", " : "", names[i]);
}

void cdz_isolate_guards(const cdz_isolate *isolate, char *out, size_t out_bytes)
{
    guards_text(isolate->guards, out, out_bytes);
}

/* A process without a file: it says what it could do before it looks for one. */
cdz_status cdz_isolate_probe(const char *worker, char *out, size_t out_bytes, cdz_error *err)
{
    cdz_isolate *isolate = NULL;
    cdz_status st = make("isolation", worker, &isolate, err);
    if (st == CDZ_OK && (isolate->plugin_fd = cdz_native_copy("none", "", 0)) < 0)
        st = cdz_err(err, CDZ_E_IO, "no memory file can be made: %s", strerror(errno));
    if (st == CDZ_OK) st = cdz_peer_start(worker, isolate->plugin_fd, &isolate->process, err);
    if (st == CDZ_OK) st = cdz_isolate_hear_ready(isolate, err);
    if (st == CDZ_OK) guards_text(isolate->guards, out, out_bytes);
    cdz_isolate_close(isolate);
    return st;
}
