/* host_table.c - a request as a caller of plugins: what its plugins say, take and ask (call/host.h). */
#include <string.h>

#include "cadenza/ext/companion.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/grammar.h"
#include "cadenza/ext/inserted.h"
#include "cadenza/ext/scores.h"
#include "cadenza/ext/text.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/trace.h"
#include "call/files.h"
#include "random/torch_rng.h"
#include "run/stages/stages.h"

static const cdz_scope *scope_of(const cdz_step *step)
{
    return step->scope;
}

static const float *logits(const cdz_step *step, uint32_t r)
{
    const cdz_scope *scope = scope_of(step);
    return r < step->n_rows ? cdz_stages_shown_logits(scope->set, scope->stage, scope->first + r)
                            : NULL;
}

const void *cdz_stage_extension(const char *id)
{
    static const cdz_companion_host companion = {.size = sizeof companion, .logits = logits};
    if (strcmp(id, CDZ_EXT_TOKENIZER) == 0) return cdz_stages_tokenizer();
    if (strcmp(id, CDZ_EXT_GRAMMAR) == 0) return cdz_stages_grammar();
    if (strcmp(id, CDZ_EXT_CONSTRAINED) == 0) return cdz_stages_constrained();
    if (strcmp(id, CDZ_EXT_INSERTED) == 0) return cdz_stages_inserted();
    if (strcmp(id, CDZ_EXT_TEXT) == 0) return cdz_stages_text();
    if (strcmp(id, CDZ_EXT_TRACE) == 0) return cdz_stages_trace();
    if (strcmp(id, CDZ_EXT_SCORES) == 0) return cdz_stages_scores();
    if (strcmp(id, CDZ_EXT_COMPANION) == 0) return &companion;
    return cdz_host_extension(id);
}

/* A place goes before what was said with the same status: by the plugin, or by the host about a verb of this plugin's.
 * False: neither. */
static bool place(const cdz_scope *scope, cdz_status code, const char *text)
{
    cdz_error *own = scope->error, *verb = &scope->rows->error;
    const char *id = scope->plugin->id;
    const size_t n = strlen(id), len = strlen(text);
    if (len < 2 || strcmp(text + len - 2, ": ") != 0) return false;
    if (own->code == code) {
        cdz_err_write(own, code, "%s%s", text, own->text);
        return true;
    }
    if (verb->code != code) return false;
    if (strncmp(verb->text, id, n) == 0 && strncmp(verb->text + n, ": ", 2) == 0)
        cdz_err_write(verb, code, "%s: %s%s", id, text, verb->text + n + 2);
    return true;
}

static cdz_status fail(const cdz_step *step, cdz_status code, const char *text)
{
    if (place(scope_of(step), code, text)) return code;
    return cdz_err(scope_of(step)->error, code, "%s", text);
}

static void log_line(const cdz_step *step, cdz_log_level level, const char *text)
{
    const cdz_scope *scope = scope_of(step);
    cdz_rows_log(scope->rows, level, scope->plugin->id, text);
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

static cdz_status config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    const cdz_rows *rows = scope_of(step)->rows;
    if (type == CDZ_T_BOOL && strcmp(name, "decoder_attention_mask") == 0) { /* was one given? */
        *(bool *)out = rows->gives_decoder_mask;
        return CDZ_OK;
    }
    return cdz_generation_value(&rows->config, name, type, out);
}

static void noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    cdz_philox(step->request->seed, cdz_philox_key(step->plugin->id), row, position, out);
}

static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    const cdz_module *module = scope_of(step)->instance->plugin.module;
    return cdz_call_find_file(step, cdz_module_data(module), name, out);
}

static const cdz_caller caller = {
    .fail = fail,
    .log = log_line,
    .alloc = alloc,
    .scratch = scratch,
    .config = config,
    .noise = noise,
    .file = file,
};

cdz_scope cdz_stage_scope(const cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage)
{
    return (cdz_scope){.rows = rows,
                       .set = set,
                       .plugin = stage->plugin,
                       .scratch = &rows->workers[0].scratch,
                       .error = &rows->workers[0].error,
                       .stage = stage};
}

cdz_step cdz_step_for(cdz_scope *scope, const cdz_instance *instance, void *shared)
{
    scope->error->code = CDZ_OK;
    scope->caller = &caller;
    scope->instance = instance;
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = instance->params,
                      .shared = shared,
                      .request = &scope->rows->info,
                      .plugin = scope->plugin,
                      .host = scope->rows->host,
                      .scope = scope};
}
