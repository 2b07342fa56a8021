/* main.c - cadenza-worker: started by a host with a mapping and a plugin, which are descriptors 3 and 4. Nothing of the
 * plugin is mapped before the process is held in for good. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cadenza/ext/companion.h"
#include "cadenza/ext/phase.h"
#include "cadenza/ext/state.h"
#include "isolate/futex.h"
#include "params/params.h"
#include "plug/entry.h"
#include "worker/worker.h"

enum { MAX_FILE_BYTES = 256 << 20, LOOK_EVERY_MS = 1000 };

/* --- talking ---------------------------------------------------------------------------------------------------- */

cdz_wire_out cdz_worker_down(cdz_worker *w)
{
    return (cdz_wire_out){.at = w->map + CDZ_ISOLATE_DOWN, .cap = CDZ_ISOLATE_DOWN_BYTES};
}

/* A host that is gone gives no turn: then nobody needs this process. (Nearly always the kernel ends it before:
 * die_with_host in confine.c.) */
static void wait_for_turn(cdz_worker *w)
{
    while (!cdz_turn_wait(&w->head->turn, w->turn, LOOK_EVERY_MS))
        if (getppid() != w->host) _exit(0);
}

cdz_wire_in cdz_worker_turn(cdz_worker *w, const cdz_wire_out *out)
{
    w->head->down_bytes = out->full ? 0 : (uint32_t)out->len;
    cdz_turn_give(&w->head->turn, ++w->turn);
    w->turn++;
    wait_for_turn(w);
    return (cdz_wire_in){.at = w->map + CDZ_ISOLATE_UP, .len = w->head->up_bytes};
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* Behind the mapping, where scores end, lies a page that cannot be touched. */
static bool map_shared(cdz_worker *w)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *at = mmap(NULL, CDZ_ISOLATE_MAP_BYTES + page, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    if (mmap(at, CDZ_ISOLATE_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             CDZ_ISOLATE_MAP_FD, 0) == MAP_FAILED)
        return false;
    w->map = at;
    w->head = (cdz_isolate_head *)(void *)at;
    w->host = getppid();
    w->turn = CDZ_TURN_FIRST;
    close(CDZ_ISOLATE_MAP_FD);
    return true;
}

static cdz_status adopt(cdz_worker *w, const cdz_entry *entry, cdz_error *err)
{
    const cdz_bounds within = cdz_module_bounds(&w->native);
    w->plugins = calloc(entry->n_plugins, sizeof *w->plugins);
    w->offers = calloc(entry->n_plugins, sizeof *w->offers);
    if (!w->plugins || !w->offers) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (; w->n_plugins < entry->n_plugins; w->n_plugins++) {
        cdz_descriptor *d = &w->plugins[w->n_plugins];
        CDZ_TRY(cdz_descriptor_adopt("the plugin", entry->plugins[w->n_plugins], &within, d, err));
        CDZ_TRY(cdz_offers_ask(&d->base, &w->offers[w->n_plugins], err));
    }
    return CDZ_OK;
}

/* A library of the system that the plugin needs. Found here it need not be looked for when the plugin is opened, which
 * is when no file can be. */
static cdz_status open_needed(void *user, const char *name, cdz_error *err)
{
    (void)user;
    if (strchr(name, '/'))
        return cdz_err(err, CDZ_E_DENIED,
                       "needs the library '%s' by its path; in a process of its own it has the "
                       "system's libraries, by their names",
                       name);
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL)) return CDZ_OK;
    const char *why = dlerror();
    return cdz_err(err, CDZ_E_PLUGIN, "cannot be loaded: %s", why ? why : name);
}

/* What is read of the plugin before it is opened: these are bytes, nothing runs. */
static cdz_status prepare(cdz_worker *w, cdz_error *err)
{
    struct stat s;
    cdz_elf_layout layout;
    if (fstat(CDZ_ISOLATE_PLUGIN_FD, &s) != 0 || s.st_size <= 0 || s.st_size > MAX_FILE_BYTES)
        return cdz_err(err, CDZ_E_IO, "its bytes did not arrive");
    w->n_bytes = (size_t)s.st_size;
    w->bytes = mmap(NULL, w->n_bytes, PROT_READ, MAP_PRIVATE, CDZ_ISOLATE_PLUGIN_FD, 0);
    if (w->bytes == MAP_FAILED) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(cdz_elf_check("the plugin", w->bytes, w->n_bytes, &layout, err));
    return cdz_elf_each_needed("the plugin", w->bytes, w->n_bytes, open_needed, NULL, err);
}

static cdz_status open_plugin(cdz_worker *w, cdz_error *err)
{
    cdz_entry entry;
    (void)lseek(CDZ_ISOLATE_PLUGIN_FD, 0, SEEK_SET); /* the loader reads from where it stands */
    cdz_filter_loading(true);
    const cdz_status st = cdz_native_open_fd("the plugin", CDZ_ISOLATE_PLUGIN_FD, w->bytes,
                                             w->n_bytes, &w->native, err);
    cdz_filter_loading(false);
    munmap(w->bytes, w->n_bytes);
    CDZ_TRY(st);
    CDZ_TRY(cdz_module_check_entry("the plugin", &w->native, &entry, err));
    return adopt(w, &entry, err);
}

/* --- what it is -------------------------------------------------------------------------------------------------- */

static bool is_covered(const cdz_descriptor *d)
{
    return d->base.kind == CDZ_KIND_PROCESSOR || d->base.kind == CDZ_KIND_CRITERION ||
           d->base.kind == CDZ_KIND_DRAFTER;
}

static void put_params(cdz_wire_out *out, const cdz_plugin_base *base)
{
    const cdz_param_table table = cdz_params_of(base);
    cdz_put_u32(out, table.n);
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        cdz_put_text(out, param->name);
        cdz_put_text(out, param->help);
        cdz_put_u32(out, param->type);
        cdz_put_u32(out, param->flags);
        cdz_put_real(out, param->def);
        cdz_put_real(out, param->min);
        cdz_put_real(out, param->max);
        cdz_put_text(out, param->text);
    }
}

typedef struct facts {
    uint32_t caps, state_size, state_version, has;
} facts;

static facts facts_of(const cdz_descriptor *d, const cdz_offers *offers)
{
    facts f = {0};
    const cdz_plugin_base *base = &d->base;
    if (base->kind == CDZ_KIND_PROCESSOR) {
        const cdz_processor *p = &d->processor;
        f = (facts){p->caps, p->state_size, p->state_version, 0};
        f.has |= p->create ? CDZ_HAS_CREATE : 0;
        f.has |= p->idle ? CDZ_HAS_IDLE : 0;
        f.has |= p->accept ? CDZ_HAS_ACCEPT : 0;
        f.has |= offers->companion ? CDZ_HAS_COMPANION : 0;
        f.has |= offers->steer ? CDZ_HAS_STEER : 0;
        f.has |= offers->phase ? CDZ_HAS_PHASES : 0;
    } else if (base->kind == CDZ_KIND_CRITERION) {
        const cdz_criterion *c = &d->criterion;
        f = (facts){c->caps, c->state_size, c->state_version, 0};
        f.has |= c->create ? CDZ_HAS_CREATE : 0;
        f.has |= c->idle ? CDZ_HAS_IDLE : 0;
        f.has |= c->accept ? CDZ_HAS_ACCEPT : 0;
    } else {
        f.caps = d->drafter.caps;
        f.has |= d->drafter.create ? CDZ_HAS_CREATE : 0;
        f.has |= d->drafter.judged ? CDZ_HAS_JUDGED : 0;
    }
    f.has |= offers->ended ? CDZ_HAS_ENDED : 0;
    if (f.state_size && offers->state) f.has |= CDZ_HAS_STATE_API;
    return f;
}

static cdz_wire_out hello(cdz_worker *w)
{
    cdz_wire_out out = cdz_worker_down(w);
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_plugins; i++) n += is_covered(&w->plugins[i]);
    cdz_put_u32(&out, CDZ_DOWN_HELLO);
    cdz_put_u32(&out, n);
    for (uint32_t i = 0; i < w->n_plugins; i++) {
        const cdz_plugin_base *base = &w->plugins[i].base;
        if (!is_covered(&w->plugins[i])) continue;
        const facts f = facts_of(&w->plugins[i], &w->offers[i]);
        cdz_put_u32(&out, i);
        cdz_put_u32(&out, base->kind);
        cdz_put_text(&out, base->id);
        cdz_put_text(&out, base->version);
        cdz_put_text(&out, base->summary);
        cdz_put_u32(&out, f.caps);
        cdz_put_u32(&out, f.state_size);
        cdz_put_u32(&out, f.state_version);
        cdz_put_u32(&out, f.has);
        put_params(&out, base);
    }
    return out;
}

static cdz_wire_out refusal(cdz_worker *w, const cdz_error *err)
{
    cdz_wire_out out = cdz_worker_down(w);
    cdz_put_u32(&out, CDZ_DOWN_REFUSED);
    cdz_put_u32(&out, err->code);
    cdz_put_text(&out, err->text);
    return out;
}

static cdz_wire_out ready(cdz_worker *w, uint32_t guards)
{
    cdz_wire_out out = cdz_worker_down(w);
    cdz_put_u32(&out, CDZ_DOWN_READY);
    cdz_put_u32(&out, CDZ_ISOLATE_VERSION);
    cdz_put_u32(&out, guards);
    return out;
}

int main(void)
{
    cdz_worker w = {0};
    cdz_error err = {0};
    if (!map_shared(&w)) {
        static const char alone[] = "cadenza-worker is started by cadenza, for plugins with "
                                    "isolation = process\n";
        (void)!write(STDERR_FILENO, alone, sizeof alone - 1);
        return 2;
    }
    bool limited;
    uint32_t guards = cdz_confine_start(w.head, &limited);
    cdz_status st = prepare(&w, &err);
    if (!limited)
        st = cdz_err(&err, CDZ_E_UNSUPPORTED, "its process cannot be limited (setrlimit)");
    guards &= cdz_confine_for_good();
    cdz_wire_out out = ready(&w, guards);
    (void)cdz_worker_turn(&w, &out);
    if (st == CDZ_OK) st = open_plugin(&w, &err);
    cdz_confine_opened(guards);
    close(CDZ_ISOLATE_PLUGIN_FD);
    out = st == CDZ_OK ? hello(&w) : refusal(&w, &err);
    for (;;) {
        cdz_wire_in in = cdz_worker_turn(&w, &out);
        cdz_worker_call(&w, &in, &out);
    }
}
