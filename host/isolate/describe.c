/* describe.c - descriptors made from what a process says its file holds. All of it may be wrong or meant to harm: texts
 * are copied with their lengths checked, fields of parameters lie where this host puts them, and module.c checks the
 * descriptors as it does those of any file. */
#include <string.h>

#include "base/utf8.h"
#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/processor.h"
#include "isolate/isolate_state.h"
#include "params/param_types.h"

enum { MAX_PARAMS = 1024, DEFAULT_DEADLINE_MS = 1000, MOST_MS = 3600 * 1000 };

static size_t align_up(size_t at, size_t align)
{
    return (at + align - 1) / align * align;
}

/* A field of this parameter at the end of the struct. */
static bool place(cdz_param *param, size_t *bytes)
{
    const cdz_param_shape *shape = cdz_param_shape_of(param->type);
    if (!shape) return false;
    param->offset = (uint32_t)align_up(*bytes, shape->align);
    *bytes = param->offset + shape->bytes;
    return true;
}

/* A text that is shown to people. */
static const char *take_words(cdz_wire_in *in, cdz_arena *arena)
{
    char text[CDZ_ERROR_TEXT];
    const cdz_string words = cdz_take_string(in, arena);
    return words.at ? cdz_arena_strdup(arena, cdz_isolate_clean(words, text, sizeof text)) : NULL;
}

/* Words that a parameter is one of are shown too, and their number counts: none can be changed. */
static bool words_are_shown(const cdz_param *param)
{
    if (param->type != CDZ_T_WORD && param->type != CDZ_T_BOOL_OR_WORD &&
        param->type != CDZ_T_WORD_OR_INTS)
        return true;
    for (const char *at = param->text ? param->text : ""; *at;) {
        uint32_t code;
        const size_t len = cdz_utf8_decode(at, strlen(at), &code);
        if (!len || !cdz_isolate_is_shown(code)) return false;
        at += len;
    }
    return true;
}

static bool take_param(cdz_wire_in *in, cdz_arena *arena, cdz_param *out, size_t *bytes)
{
    *out = (cdz_param){.name = cdz_take_text(in, arena)};
    out->help = take_words(in, arena);
    const uint32_t type = cdz_take_u32(in), flags = cdz_take_u32(in);
    out->type = (uint16_t)type;
    out->flags = (uint16_t)flags;
    out->def = cdz_take_real(in);
    out->min = cdz_take_real(in);
    out->max = cdz_take_real(in);
    out->text = cdz_take_text(in, arena);
    return !in->bad && type <= UINT16_MAX && flags <= UINT16_MAX && out->name &&
           words_are_shown(out) && place(out, bytes);
}

static bool has_name(const cdz_param *params, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(params[i].name, name) == 0) return true;
    return false;
}

/* The plugin's own parameters and, behind them, the deadline of its calls. */
static bool take_params(cdz_wire_in *in, cdz_arena *arena, cdz_proxy *proxy)
{
    static const cdz_param deadline = {
        .name = CDZ_DEADLINE_PARAM,
        .help = "milliseconds a call may take before its process is ended (isolation = process)",
        .type = CDZ_T_INT,
        .def = DEFAULT_DEADLINE_MS,
        .min = 1,
        .max = MOST_MS};
    cdz_plugin_base *base = &proxy->descriptor.base;
    size_t bytes = 0;
    const uint32_t n = cdz_take_u32(in);
    cdz_param *params = n <= MAX_PARAMS ? cdz_arena_array(arena, n + 1, sizeof *params) : NULL;
    if (in->bad || !params) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!take_param(in, arena, &params[i], &bytes)) return false;
    proxy->n_own = n;
    proxy->deadline_at = UINT32_MAX;
    base->n_params = n;
    if (!has_name(params, n, deadline.name)) {
        params[n] = deadline;
        if (!place(&params[n], &bytes)) return false;
        proxy->deadline_at = params[n].offset;
        base->n_params++;
    }
    base->params = params;
    base->param_size = sizeof *params;
    base->params_size = (uint32_t)align_up(bytes, sizeof(double));
    return true;
}

static bool take_plugin(cdz_wire_in *in, cdz_arena *arena, cdz_proxy *proxy)
{
    cdz_plugin_base *base = &proxy->descriptor.base;
    proxy->index = cdz_take_u32(in);
    base->kind = cdz_take_u32(in);
    base->id = cdz_take_text(in, arena);
    base->version = cdz_take_text(in, arena);
    base->summary = take_words(in, arena);
    const uint32_t caps = cdz_take_u32(in);
    proxy->state_size = cdz_take_u32(in);
    const uint32_t state_version = cdz_take_u32(in);
    proxy->has = cdz_take_u32(in);
    base->loader_data = proxy;
    if (base->kind == CDZ_KIND_PROCESSOR) {
        base->size = sizeof(cdz_processor);
        /* a process is asked by one thread at a time: the engine's */
        proxy->descriptor.processor.caps = caps & ~(uint32_t)CDZ_ROWWISE;
        proxy->descriptor.processor.state_size = proxy->state_size;
        proxy->descriptor.processor.state_version = state_version;
    } else if (base->kind == CDZ_KIND_CRITERION) {
        base->size = sizeof(cdz_criterion);
        proxy->descriptor.criterion.caps = caps;
        proxy->descriptor.criterion.state_size = proxy->state_size;
        proxy->descriptor.criterion.state_version = state_version;
    } else if (base->kind == CDZ_KIND_DRAFTER) {
        base->size = sizeof(cdz_drafter);
        proxy->descriptor.drafter.caps = caps;
    } else {
        return false;
    }
    if (proxy->state_size > CDZ_MAX_STATE_SIZE || proxy->has > CDZ_HAS_ALL) return false;
    if (!take_params(in, arena, proxy)) return false;
    cdz_proxy_fill(proxy);
    return !in->bad;
}

cdz_status cdz_isolate_describe(cdz_isolate *isolate, cdz_wire_in *hello, cdz_error *err)
{
    const uint32_t n = cdz_take_u32(hello);
    if (hello->bad || n > CDZ_MAX_PLUGINS)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: its process describes it wrongly", isolate->path);
    if (n == 0)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: holds no processor, criterion or drafter; isolation = process is for "
                       "these: a decode loop or an observer asks the host too much",
                       isolate->path);
    isolate->proxies = cdz_arena_array(&isolate->arena, n, sizeof *isolate->proxies);
    isolate->plugins = cdz_arena_array(&isolate->arena, n, sizeof *isolate->plugins);
    if (!isolate->proxies || !isolate->plugins) return cdz_err_memory_in(err, isolate->path);
    for (; isolate->n < n; isolate->n++) {
        cdz_proxy *proxy = cdz_arena_alloc(&isolate->arena, sizeof *proxy);
        if (!proxy) return cdz_err_memory_in(err, isolate->path);
        proxy->of = isolate;
        if (!take_plugin(hello, &isolate->arena, proxy))
            return cdz_err(err, CDZ_E_PLUGIN, "%s: its process describes plugin %u wrongly",
                           isolate->path, isolate->n + 1);
        isolate->proxies[isolate->n] = proxy;
        isolate->plugins[isolate->n] = &proxy->descriptor.base;
    }
    if (!cdz_taken_whole(hello))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: its process describes more than it announced",
                       isolate->path);
    return CDZ_OK;
}
