/* host_table.c - what the host does for plugins: the functions behind step->host. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cadenza/ext/companion.h"
#include "cadenza/ext/tokenizer.h"
#include "run/companion.h"
#include "run/engine_parts.h"
#include "run/task.h"
#include "vec/vec.h"

static const cdz_scope *scope_of(const cdz_step *step)
{
    return step->scope;
}

static const void *extension(const char *id)
{
    if (strcmp(id, CDZ_EXT_VEC) == 0) return cdz_vec_table();
    if (strcmp(id, CDZ_EXT_TOKENIZER) == 0) return cdz_tokenizer_extension();
    if (strcmp(id, CDZ_EXT_COMPANION) == 0) return &cdz_companion_table;
    return NULL;
}

static cdz_status fail(const cdz_step *step, cdz_status code, const char *fmt, ...) CDZ_PRINTF(3, 4);
static cdz_status fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return cdz_err(scope_of(step)->error, code, "%s", text);
}

static void log_line(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static void log_line(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
{
    const cdz_scope *scope = scope_of(step);
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cdz_engine_log(scope->loop->task->engine, level, scope->plugin->id, text);
}

static void *alloc(const cdz_step *step, size_t bytes)
{
    const cdz_scope *scope = scope_of(step);
    return scope->may_alloc ? cdz_arena_alloc(cdz_scope_arena(scope), bytes) : NULL;
}

static void *scratch(const cdz_step *step, size_t bytes)
{
    return cdz_scratch_take(scope_of(step)->scratch, bytes);
}

/* Bytes of the C type behind a parameter type; 0: no such type. */
static size_t type_bytes(cdz_param_type type)
{
    switch (type) {
    case CDZ_T_BOOL: return sizeof(bool);
    case CDZ_T_INT: return sizeof(int64_t);
    case CDZ_T_REAL: return sizeof(double);
    case CDZ_T_STRING: return sizeof(const char *);
    case CDZ_T_OPT_BOOL: return sizeof(cdz_opt_bool);
    case CDZ_T_OPT_INT: return sizeof(cdz_opt_int);
    case CDZ_T_OPT_REAL: return sizeof(cdz_opt_real);
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: return sizeof(cdz_word);
    case CDZ_T_INTS: return sizeof(cdz_int_list);
    case CDZ_T_REALS: return sizeof(cdz_real_list);
    case CDZ_T_STRINGS: return sizeof(cdz_string_list);
    case CDZ_T_INT_LISTS: return sizeof(cdz_int_lists);
    case CDZ_T_WEIGHTED: return sizeof(cdz_weighted_list);
    case CDZ_T_INT_REAL: return sizeof(cdz_int_real);
    case CDZ_T_WORD_OR_INTS: return sizeof(cdz_word_or_ints);
    case CDZ_T_INT_CHOICES: return sizeof(cdz_int_choices);
    }
    return 0;
}

static cdz_status config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    const cdz_param *param = cdz_param_find(cdz_generation_table(), name);
    if (!param || param->type != type) return CDZ_E_NOT_FOUND;
    memcpy(out, (const char *)&scope_of(step)->loop->config + param->offset, type_bytes(type));
    return CDZ_OK;
}

static void noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    cdz_philox(step->request->seed, cdz_plugin_key(step->plugin->id), row, position, out);
}

static double now_s(const cdz_step *step)
{
    (void)step;
    return cdz_now_s();
}

const cdz_host cdz_run_host = {
    .size = sizeof(cdz_host),
    .extension = extension,
    .fail = fail,
    .log = log_line,
    .alloc = alloc,
    .scratch = scratch,
    .config = config,
    .noise = noise,
    .now_s = now_s,
};

cdz_step cdz_step_for(cdz_scope *scope, const void *params, void *shared)
{
    scope->error->code = CDZ_OK;
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = params,
                      .shared = shared,
                      .request = &scope->loop->info,
                      .plugin = scope->plugin,
                      .host = &cdz_run_host,
                      .scope = scope};
}
