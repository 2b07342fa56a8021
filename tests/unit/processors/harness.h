/* harness.h - a host of one plugin: opens a built .so, fills its parameters, and calls it on rows.
 * What a plugin may not do shows here: allocating outside create and begin fails, input_ids are NULL unless asked for. */
#ifndef CDZ_TESTS_UNIT_PROCESSORS_HARNESS_H
#define CDZ_TESTS_UNIT_PROCESSORS_HARNESS_H

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/json.h"
#include "cadenza/criterion.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/vec.h"
#include "cadenza/processor.h"
#include "params/params.h"
#include "vec/vec.h"

enum { MAX_ROWS = 16, MAX_PROMPTS = 8 };

typedef struct harness {
    void *library;
    const cdz_plugin_base *plugin;
    cdz_arena memory, scratch;
    cdz_request_info request;
    cdz_ids prompts[MAX_PROMPTS];
    cdz_step step;
    const char *const *token_texts;
    uint32_t n_tokens;
    cdz_opt_int min_new_tokens, forced_bos;
    bool quirks, may_allocate;
    unsigned stray_allocations;
    double now;
    char sentence[CDZ_ERROR_TEXT];
} harness;

static inline harness *harness_of(const cdz_step *step)
{
    return step->scope;
}

/* --- what the host offers ------------------------------------------------------------------------------------- */

static inline bool host_has_tokens(const cdz_step *step)
{
    return harness_of(step)->n_tokens > 0;
}

static inline cdz_string host_token_text(const cdz_step *step, int32_t id)
{
    const harness *h = harness_of(step);
    if (id < 0 || (uint32_t)id >= h->n_tokens) return (cdz_string){NULL, 0};
    return (cdz_string){h->token_texts[id], (uint32_t)strlen(h->token_texts[id])};
}

static inline uint32_t host_n_tokens(const cdz_step *step)
{
    return harness_of(step)->n_tokens;
}

static const cdz_tokenizer_api tokenizer_api = {
    .size = sizeof tokenizer_api,
    .present = host_has_tokens,
    .token_text = host_token_text,
    .n_tokens = host_n_tokens,
};

static inline const void *host_extension(const char *id)
{
    if (strcmp(id, CDZ_EXT_VEC) == 0) return cdz_vec_table();
    return strcmp(id, CDZ_EXT_TOKENIZER) == 0 ? &tokenizer_api : NULL;
}

static inline cdz_status CDZ_PRINTF(3, 4)
    host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    harness *h = harness_of(step);
    va_list args;
    va_start(args, fmt);
    vsnprintf(h->sentence, sizeof h->sentence, fmt, args);
    va_end(args);
    return code;
}

static inline void CDZ_PRINTF(3, 4)
    host_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
{
    (void)step;
    (void)level;
    (void)fmt;
}

static inline void *host_alloc(const cdz_step *step, size_t bytes)
{
    harness *h = harness_of(step);
    if (!h->may_allocate) h->stray_allocations++;
    return h->may_allocate ? cdz_arena_alloc(&h->memory, bytes) : NULL;
}

static inline void *host_scratch(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc_aligned(&harness_of(step)->scratch, bytes, 64);
}

static inline cdz_status host_config(const cdz_step *step, const char *name, cdz_param_type type,
                                     void *out)
{
    const harness *h = harness_of(step);
    if (strcmp(name, "min_new_tokens") == 0 && type == CDZ_T_OPT_INT)
        *(cdz_opt_int *)out = h->min_new_tokens;
    else if (strcmp(name, "forced_bos_token_id") == 0 && type == CDZ_T_OPT_INT)
        *(cdz_opt_int *)out = h->forced_bos;
    else if (strcmp(name, "quirks") == 0 && type == CDZ_T_BOOL)
        *(bool *)out = h->quirks;
    else
        return CDZ_E_NOT_FOUND;
    return CDZ_OK;
}

static inline void host_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    (void)step;
    for (uint32_t i = 0; i < 4; i++) out[i] = row * 31 + position * 17 + i;
}

static inline double host_now(const cdz_step *step)
{
    return harness_of(step)->now;
}

static const cdz_host the_host = {
    .size = sizeof(cdz_host),
    .extension = host_extension,
    .fail = host_fail,
    .log = host_log,
    .alloc = host_alloc,
    .scratch = host_scratch,
    .config = host_config,
    .noise = host_noise,
    .now_s = host_now,
};

/* --- life ------------------------------------------------------------------------------------------------------- */

static inline const char *plugin_dir(void)
{
    const char *dir = getenv("CADENZA_PLUGIN_DIR");
    return dir && *dir ? dir : CADENZA_BUILD_DIR "/lib/cadenza";
}

/* A request of one prompt token in a vocabulary of 32, without an end of sequence. */
static inline void harness_open(harness *h, const char *id)
{
    static const int32_t first[1] = {0};
    char path[4096];

    memset(h, 0, sizeof *h);
    snprintf(path, sizeof path, "%s/%s.so", plugin_dir(), id);
    h->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!h->library) fail_msg("%s", dlerror());
    const cdz_entry *entry = dlsym(h->library, "cdz_plugin");
    if (!entry) fail_msg("%s exports no cdz_plugin", path);
    h->plugin = entry->plugins[0];
    assert_string_equal(h->plugin->id, id);

    const cdz_param_table table = cdz_params_of(h->plugin);
    cdz_error err = {0};
    if (cdz_param_table_check(&table, id, &err) != CDZ_OK) fail_msg("%s", err.text);
    void *params = cdz_arena_alloc(&h->memory, table.params_size);
    cdz_params_defaults(&table, params);
    h->prompts[0] = (cdz_ids){first, 1};
    h->request = (cdz_request_info){.size = sizeof h->request,
                                    .n_prompts = 1,
                                    .n_rows = 1,
                                    .prompt_len = 1,
                                    .n_vocab = 32,
                                    .max_length = 20,
                                    .num_beams = 1,
                                    .pad = -1,
                                    .bos = -1,
                                    .prompts = h->prompts};
    h->step = (cdz_step){
        .size = sizeof h->step, .params = params, .plugin = h->plugin, .host = &the_host, .scope = h};
}

static inline void harness_close(harness *h)
{
    if (h->stray_allocations)
        fail_msg("%s allocated %u times", h->plugin->id, h->stray_allocations);
    cdz_arena_free(&h->memory);
    cdz_arena_free(&h->scratch);
    dlclose(h->library);
}

static inline const cdz_processor *processor_of(const harness *h)
{
    assert_int_equal(h->plugin->kind, CDZ_KIND_PROCESSOR);
    return (const cdz_processor *)(const void *)h->plugin;
}

static inline const cdz_criterion *criterion_of(const harness *h)
{
    assert_int_equal(h->plugin->kind, CDZ_KIND_CRITERION);
    return (const cdz_criterion *)(const void *)h->plugin;
}

/* One parameter; the plugin must know it. */
static inline cdz_status harness_set(harness *h, const char *name, const cdz_json *value)
{
    const cdz_param_table table = cdz_params_of(h->plugin);
    const cdz_param *param = cdz_param_find(&table, name);
    cdz_error err = {0};

    if (!param) fail_msg("%s has no parameter %s", h->plugin->id, name);
    void *params = (void *)(uintptr_t)h->step.params;
    const cdz_status st = cdz_param_set(param, params, value, &h->memory, &err);
    snprintf(h->sentence, sizeof h->sentence, "%s", err.text);
    return st;
}

/* From text, as an ini file or -s has it. */
static inline void harness_set_text(harness *h, const char *name, const char *text)
{
    const cdz_param_table table = cdz_params_of(h->plugin);
    cdz_json value;
    cdz_error err = {0};

    const cdz_status st =
        cdz_param_from_text(cdz_param_find(&table, name), text, &h->memory, &value, &err);
    if (st != CDZ_OK || harness_set(h, name, &value) != CDZ_OK) fail_msg("%s %s", name, err.text);
}

static inline cdz_status harness_create(harness *h)
{
    const bool is_processor = h->plugin->kind == CDZ_KIND_PROCESSOR;
    cdz_status (*create)(const cdz_step *) =
        is_processor ? processor_of(h)->create : criterion_of(h)->create;

    h->step.request = NULL;
    h->may_allocate = true;
    const cdz_status st = create ? create(&h->step) : CDZ_OK;
    h->may_allocate = false;
    h->step.request = &h->request;
    return st;
}

static inline bool harness_idle(harness *h)
{
    const bool is_processor = h->plugin->kind == CDZ_KIND_PROCESSOR;
    bool (*idle)(const cdz_step *) = is_processor ? processor_of(h)->idle : criterion_of(h)->idle;
    return idle && idle(&h->step);
}

static inline cdz_status harness_begin(harness *h)
{
    const bool is_processor = h->plugin->kind == CDZ_KIND_PROCESSOR;
    cdz_status (*begin)(const cdz_step *, void **) =
        is_processor ? processor_of(h)->begin : criterion_of(h)->begin;

    h->may_allocate = true;
    const cdz_status st = begin ? begin(&h->step, &h->step.shared) : CDZ_OK;
    h->may_allocate = false;
    return st;
}

/* Rows [first, first + n) of the request; scores (n, n_vocab). */
static inline cdz_status harness_apply(harness *h, uint32_t first, uint32_t n, const cdz_ids *ids,
                                       float *scores)
{
    const cdz_processor *p = processor_of(h);
    uint32_t index[MAX_ROWS];
    cdz_scores matrix = {
        .data = scores, .n_rows = n, .n_vocab = h->request.n_vocab, .stride = h->request.n_vocab};

    for (uint32_t r = 0; r < n; r++) index[r] = first + r;
    h->step.n_rows = n;
    h->step.row_index = index;
    h->step.input_ids = p->caps & CDZ_NEEDS_IDS ? ids : NULL;
    const cdz_status st = p->apply(&h->step, &matrix);
    cdz_arena_reset(&h->scratch);
    return st;
}

static inline cdz_status harness_test(harness *h, uint32_t n, const cdz_ids *ids, cdz_stop *stops)
{
    memset(stops, 0, n * sizeof *stops);
    h->step.n_rows = n;
    h->step.input_ids = ids;
    const cdz_status st = criterion_of(h)->test(&h->step, stops);
    cdz_arena_reset(&h->scratch);
    return st;
}

#endif
