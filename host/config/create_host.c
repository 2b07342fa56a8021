/* create_host.c - the host table during create, and during a loader's open and close. There is no request yet: config, noise and the clock of a request are
 * answered by what they answer when there is nothing to say. */
#include "config/create_host.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hygiene.h"
#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/observer.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"

typedef struct scope {
    cdz_arena *arena;
    cdz_error *err;
    bool said; /* the plugin gave a sentence */
} scope;

static const void *no_extension(const char *id)
{
    (void)id;
    return NULL;
}

static CDZ_PRINTF(3, 4) cdz_status
    keep_sentence(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    scope *s = step->scope;
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    s->said = true;
    return cdz_err(s->err, code, "%s", text);
}

/* A library does not print; what a plugin logs while it is created has no request to go to. */
static CDZ_PRINTF(3, 4) void drop_line(const cdz_step *step, cdz_log_level level, const char *fmt,
                                       ...)
{
    (void)step, (void)level, (void)fmt;
}

static void *take(const cdz_step *step, size_t bytes)
{
    scope *s = step->scope;
    return cdz_arena_alloc_aligned(s->arena, bytes, 64);
}

static cdz_status no_config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    (void)step, (void)name, (void)type, (void)out;
    return CDZ_E_NOT_FOUND;
}

static void no_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    (void)step, (void)row, (void)position;
    for (int i = 0; i < 4; i++) out[i] = 0;
}

static double now(const cdz_step *step)
{
    (void)step;
    return cdz_now_s();
}

static const cdz_host create_host = {
    .size = sizeof(cdz_host),
    .extension = no_extension,
    .fail = keep_sentence,
    .log = drop_line,
    .alloc = take,
    .scratch = take,
    .config = no_config,
    .noise = no_noise,
    .now_s = now,
};

typedef cdz_status create_fn(const cdz_step *step);

static create_fn *create_of(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->create;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->create;
    case CDZ_KIND_STRATEGY: return ((const cdz_strategy *)whole)->create;
    case CDZ_KIND_DRAFTER: return ((const cdz_drafter *)whole)->create;
    case CDZ_KIND_OBSERVER: return ((const cdz_observer *)whole)->create;
    default: return NULL;
    }
}

/* What a call outside a request may look at. */
static cdz_step step_for(const cdz_plugin_base *plugin, const void *params, scope *s)
{
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = params,
                      .plugin = plugin,
                      .host = &create_host,
                      .scope = s};
}

cdz_status cdz_run_create(const cdz_plugin_base *plugin, const void *params, cdz_arena *arena,
                          cdz_error *err)
{
    create_fn *create = create_of(plugin);
    cdz_error own = {0};
    scope s = {.arena = arena, .err = &own};
    const cdz_step step = step_for(plugin, params, &s);
    cdz_hygiene before;
    cdz_hygiene_note(&before, plugin, "create");
    cdz_status st = create ? create(&step) : CDZ_OK;
    const char *broken = cdz_hygiene_broken(&before);
    if (broken) return cdz_err(err, CDZ_E_PLUGIN, "%s: create %s", plugin->id, broken);
    if (st == CDZ_OK) return CDZ_OK;
    if (!s.said)
        return cdz_err(err, st, "%s refused its parameters without saying why (%s)", plugin->id,
                       cdz_status_text(st));
    return cdz_err(err, st, "%s", own.text);
}

cdz_status cdz_run_open(const cdz_loader *loader, const cdz_plugin_file *file, cdz_arena *arena,
                        cdz_opened *out, cdz_error *err)
{
    const char *id = loader->base.id;
    cdz_error own = {0};
    scope s = {.arena = arena, .err = &own};
    const cdz_step step = step_for(&loader->base, NULL, &s);
    cdz_hygiene before;
    cdz_hygiene_note(&before, &loader->base, "open");
    *out = (cdz_opened){.size = sizeof *out};
    cdz_status st = loader->open(&step, file, out);
    const char *broken = cdz_hygiene_broken(&before);
    if (broken) {
        if (st == CDZ_OK) cdz_run_close(loader, out, arena);
        return cdz_err(err, CDZ_E_PLUGIN, "%s: the loader %s %s", file->path, id, broken);
    }
    if (st == CDZ_OK) return CDZ_OK;
    if (!s.said)
        return cdz_err(err, st, "%s: the loader %s refused it without saying why (%s)", file->path,
                       id, cdz_status_text(st));
    return cdz_err(err, st, "%s", own.text);
}

void cdz_run_close(const cdz_loader *loader, const cdz_opened *opened, cdz_arena *arena)
{
    scope s = {.arena = arena};
    const cdz_step step = step_for(&loader->base, NULL, &s);
    cdz_hygiene before;
    if (!loader->close) return;
    cdz_hygiene_note(&before, &loader->base, "close");
    loader->close(&step, opened->state);
    (void)cdz_hygiene_broken(&before);
}
