/* outside.c - see outside.h. There is no request yet: no configuration is known, nothing is logged (a library does not
 * print), and memory is the arena's. */
#include "call/outside.h"

#include "call/calls.h"
#include "call/host.h"

typedef struct scope {
    const cdz_caller *caller; /* first */
    cdz_arena *arena;
    const cdz_call_files *files; /* that were read with it; or NULL */
    cdz_error said;              /* by the plugin */
} scope;

static cdz_status keep_sentence(const cdz_step *step, cdz_status code, const char *text)
{
    scope *s = step->scope;
    return cdz_err(&s->said, code, "%s", text);
}

static void *take(const cdz_step *step, size_t bytes)
{
    scope *s = step->scope;
    return cdz_arena_alloc_aligned(s->arena, bytes, 64);
}

static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    const scope *s = step->scope;
    return cdz_call_find_file(step, s->files, name, out);
}

static scope scope_of(cdz_arena *arena)
{
    static const cdz_caller outside = {
        .fail = keep_sentence, .alloc = take, .scratch = take, .file = file};
    return (scope){.caller = &outside, .arena = arena};
}

static cdz_step step_for(const cdz_plugin_base *plugin, const void *params, scope *s)
{
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = params,
                      .plugin = plugin,
                      .host = &cdz_bare_host,
                      .scope = s};
}

/* What the plugin says stands alone: the caller knows where it was asked for. */
cdz_status cdz_call_create_plugin(const cdz_plugin_base *plugin, const void *params,
                                  const cdz_call_files *files, cdz_arena *arena, cdz_error *err)
{
    scope s = scope_of(arena);
    s.files = files;
    const cdz_step step = step_for(plugin, params, &s);
    cdz_call call = {0};
    cdz_error fault;
    const cdz_status returned = cdz_call_create(&call, &step);
    if (cdz_call_fault(&call, returned, &s.said, &fault) != CDZ_OK)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: %s", plugin->id, fault.text);
    return returned == CDZ_OK ? CDZ_OK : cdz_err(err, returned, "%s", s.said.text);
}

cdz_status cdz_call_open_file(const cdz_loader *loader, const cdz_plugin_file *file,
                              cdz_arena *arena, cdz_opened *out, cdz_error *err)
{
    scope s = scope_of(arena);
    const cdz_step step = step_for(&loader->base, NULL, &s);
    cdz_call call = {0};
    cdz_error fault;
    *out = (cdz_opened){.size = sizeof *out};
    const cdz_status returned = cdz_call_open(&call, loader, &step, file, out);
    if (cdz_call_fault(&call, returned, &s.said, &fault) != CDZ_OK) {
        if (returned == CDZ_OK) cdz_call_close_file(loader, out, arena);
        return cdz_err(err, CDZ_E_PLUGIN, "%s: the loader %s: %s", file->path, loader->base.id,
                       fault.text);
    }
    return returned == CDZ_OK ? CDZ_OK : cdz_err(err, returned, "%s", s.said.text);
}

void cdz_call_close_file(const cdz_loader *loader, const cdz_opened *opened, cdz_arena *arena)
{
    scope s = scope_of(arena);
    const cdz_step step = step_for(&loader->base, NULL, &s);
    cdz_call call = {0};
    cdz_call_close(&call, loader, &step, opened->state);
}
