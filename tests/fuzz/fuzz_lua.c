/* fuzz_lua.c - any bytes as a Lua script: it is refused in words, or it loads, and then its first plugin, if a processor,
 * begins, accepts, applies and ends under small budgets. Nothing it does may crash or outlast them. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cadenza/ext/state.h"
#include "cadenza/processor.h"
#include "fuzz.h"
#include "lua/lua_loader.h"
#include "params/params.h"
#include "plug/loaded.h"
#include "random/torch_rng.h"
#include "vec/vec.h"

enum { VOCAB = 16 };

static cdz_status host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static cdz_status host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;

    (void)step;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    FUZZ_CHECK(text[0] != '\0');
    return code;
}

static void host_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static void host_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
{
    (void)step;
    (void)level;
    (void)fmt;
}

static const void *host_extension(const char *id)
{
    return strcmp(id, CDZ_EXT_VEC) == 0 ? cdz_vec_table() : NULL;
}

static cdz_status host_config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    (void)step;
    (void)name;
    (void)type;
    (void)out;
    return CDZ_E_NOT_FOUND;
}

static void host_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    (void)step;
    cdz_philox(1, 2, row, position, out);
}

static const cdz_host host = {.size = sizeof host,
                              .extension = host_extension,
                              .fail = host_fail,
                              .log = host_log,
                              .config = host_config,
                              .noise = host_noise};

static void set_int(const cdz_param_table *table, char *params, const char *name, int64_t value)
{
    memcpy(params + cdz_param_find(table, name)->offset, &value, sizeof value);
}

static void run_processor(const cdz_processor *p)
{
    static const int32_t tokens[] = {1, 3, 5, 3};
    static const int32_t eos = 2;
    static const uint32_t row_index;
    const cdz_ids ids = {tokens, 4};
    const cdz_request_info request = {.size = sizeof request,
                                      .n_prompts = 1,
                                      .n_rows = 1,
                                      .prompt_len = 2,
                                      .n_vocab = VOCAB,
                                      .max_length = 20,
                                      .num_beams = 1,
                                      .eos = {&eos, 1},
                                      .pad = -1,
                                      .bos = -1,
                                      .prompts = &ids};
    const cdz_param_table table = cdz_params_of(&p->base);
    char *params = calloc(1, table.params_size + 1u);
    uint64_t state = 0;
    void *row_state = &state;
    cdz_step step = {.size = sizeof step,
                     .n_rows = 1,
                     .params = params,
                     .input_ids = &ids,
                     .row_index = &row_index,
                     .row_state = &row_state,
                     .request = &request,
                     .plugin = &p->base,
                     .host = &host};
    float row[VOCAB] = {0};
    cdz_scores scores = {row, 1, VOCAB, VOCAB, 0};

    FUZZ_CHECK(params != NULL);
    cdz_params_defaults(&table, params);
    set_int(&table, params, "budget_instructions", 20000);
    set_int(&table, params, "budget_memory", 1 << 20);
    if (p->begin(&step, &step.shared) == CDZ_OK) {
        if (p->accept) (void)p->accept(&step, 0, 3);
        (void)p->apply(&step, &scores);
        (void)p->apply(&step, &scores);
        const cdz_state_api *api = cdz_get_state_api(&p->base);
        if (api) api->free(&step, &state);
        p->end(&step);
    }
    free(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    const int fd = fuzz_file(data, size, path);
    cdz_loaded *script = NULL;
    uint32_t n;
    cdz_error err = {0};

    if (cdz_loaded_open(&cdz_lua_loader, path, &script, &err) == CDZ_OK) {
        const cdz_plugin_base *const *plugins = cdz_loaded_plugins(script, &n);
        FUZZ_CHECK(n > 0);
        if (plugins[0]->kind == CDZ_KIND_PROCESSOR)
            run_processor((const cdz_processor *)(const void *)plugins[0]);
        cdz_loaded_close(script);
    } else {
        FUZZ_CHECK(err.text[0] != '\0');
    }
    close(fd);
    return 0;
}
