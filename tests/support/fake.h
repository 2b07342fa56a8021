/* fake.h - a host small enough to watch: a step, a request and a tokenizer for driving Lua plugins directly. */
#ifndef CDZ_TESTS_SUPPORT_FAKE_H
#define CDZ_TESTS_SUPPORT_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Before cmocka, whose fail is a macro. */
#include "cadenza/ext/kv.h"
#include "cadenza/ext/mask.h"

#include <cmocka.h>

#include "base/arena.h"
#include "cadenza/ext/companion.h"
#include "cadenza/ext/state.h"
#include "cadenza/ext/text.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/vec.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "lua/lua_loader.h"
#include "params/params.h"
#include "plug/loaded.h"
#include "random/torch_rng.h"
#include "vec/vec.h"

#define FAKE_ROWS  4
#define FAKE_VOCAB 16

typedef struct fake {
    cdz_host host;
    cdz_step step;
    cdz_request_info request;
    cdz_error err; /* the last sentence recorded on the request */
    char log[8192];
    int n_log;
    cdz_arena arena;
    void *params;
    int32_t id_store[FAKE_ROWS][4096];
    cdz_ids ids[FAKE_ROWS], prompts[FAKE_ROWS];
    uint32_t row_index[FAKE_ROWS];
    uint64_t state_store[FAKE_ROWS];
    void *row_state[FAKE_ROWS];
    int32_t eos;
    /* the script */
    cdz_loaded *module;
    const cdz_plugin_base *const *plugins;
    uint32_t n_plugins;
} fake;

static fake *fake_of(const cdz_step *step)
{
    return step->scope;
}

static cdz_status fake_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static cdz_status fake_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    fake *f = fake_of(step);
    va_list args;

    f->err.code = code;
    va_start(args, fmt);
    vsnprintf(f->err.text, sizeof f->err.text, fmt, args);
    va_end(args);
    return code;
}

static void fake_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static void fake_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
{
    fake *f = fake_of(step);
    const size_t at = strlen(f->log);
    va_list args;

    (void)level;
    f->n_log++;
    va_start(args, fmt);
    vsnprintf(f->log + at, sizeof f->log - at, fmt, args);
    va_end(args);
}

static void *fake_alloc(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc(&fake_of(step)->arena, bytes);
}

static cdz_status fake_config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    (void)step;
    if (strcmp(name, "top_k") == 0 && type == CDZ_T_INT) return *(int64_t *)out = 50, CDZ_OK;
    if (strcmp(name, "temperature") == 0 && type == CDZ_T_OPT_REAL)
        return *(cdz_opt_real *)out = (cdz_opt_real){0.5, true, false}, CDZ_OK;
    if (type == 0) { /* some that are unset */
        *(const char **)out = "top_k";
        const bool known = strcmp(name, "top_p") == 0 || strcmp(name, "min_new_tokens") == 0;
        return known ? CDZ_OK : CDZ_E_NOT_FOUND;
    }
    return CDZ_E_NOT_FOUND;
}

static void fake_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    cdz_philox(step->request->seed, cdz_philox_key(step->plugin->id), row, position, out);
}

static double fake_now_s(const cdz_step *step)
{
    (void)step;
    return 1.0;
}

/* --- a tokenizer: id 0..25 is a letter, 26 is half of a two-byte character, 27 the other half ----------------- */

static bool fake_present(const cdz_step *step)
{
    (void)step;
    return true;
}

static cdz_string fake_token_text(const cdz_step *step, int32_t id)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    static const char halves[] = "\xC3\xA9";

    (void)step;
    if (id >= 0 && id < 26) return (cdz_string){letters + id, 1};
    if (id == 26 || id == 27) return (cdz_string){halves + id - 26, 1};
    return (cdz_string){NULL, 0};
}

static uint32_t fake_n_tokens(const cdz_step *step)
{
    (void)step;
    return 28;
}

static cdz_status fake_encode(const cdz_step *step, const char *text, size_t len, bool special,
                              cdz_ids *out)
{
    int32_t *ids = cdz_arena_array(&fake_of(step)->arena, len + 1, sizeof *ids);

    (void)special;
    for (size_t i = 0; i < len; i++) ids[i] = text[i] - 'a';
    *out = (cdz_ids){ids, (uint32_t)len};
    return CDZ_OK;
}

static cdz_status fake_decode(const cdz_step *step, cdz_ids ids, bool skip_special, cdz_string *out)
{
    char *text = cdz_arena_alloc(&fake_of(step)->arena, ids.len + 1);

    (void)skip_special;
    for (uint32_t i = 0; i < ids.len; i++) text[i] = (char)('a' + ids.at[i]);
    *out = (cdz_string){text, ids.len};
    return CDZ_OK;
}

static cdz_status fake_convert(const cdz_step *step, const char *from, cdz_ids ids, const char *to,
                               bool special, cdz_ids *out)
{
    (void)step, (void)from, (void)to, (void)special;
    *out = ids;
    return CDZ_OK;
}

/* What the model says beside row r: a slope with steps. */
static const float *fake_companion(const cdz_step *step, uint32_t r)
{
    float *logits = cdz_arena_array(&fake_of(step)->arena, step->request->n_vocab, sizeof *logits);

    for (uint32_t v = 0; logits && v < step->request->n_vocab; v++)
        logits[v] = (float)((v * 7919u + r) % 613u) * 0.031f - 9.0f;
    return logits;
}

/* What fake_decoder.h adds. */
static const cdz_mask_host *fake_mask;
static const cdz_kv_host *fake_kv;
static const cdz_steer_host *fake_steer;
static cdz_ids (*fake_row_ids)(const cdz_step *step, uint32_t r); /* of a decoder's rows */

/* The last n bytes of row r's new text, in one place that the next call writes over. */
static cdz_status fake_tail(const cdz_step *step, uint32_t r, uint32_t n, cdz_string *out)
{
    static char text[4096];
    size_t len = 0, from = 0;
    const cdz_ids ids = fake_row_ids ? fake_row_ids(step, r) : step->input_ids[r];
    for (uint32_t i = step->request->prompt_len; i < ids.len; i++) {
        const cdz_string added = fake_token_text(step, ids.at[i]);
        assert_true(len + added.len < sizeof text);
        if (added.len) memcpy(text + len, added.at, added.len);
        len += added.len;
    }
    for (from = len > n ? len - n : 0; from < len && ((unsigned char)text[from] & 0xC0) == 0x80;)
        from++;
    *out = (cdz_string){text + from, (uint32_t)(len - from)};
    return CDZ_OK;
}

static cdz_status fake_text(const cdz_step *step, uint32_t r, cdz_string *out)
{
    return fake_tail(step, r, UINT32_MAX, out);
}

static const void *fake_extension(const char *id)
{
    static const cdz_text_api row_text = {sizeof row_text, fake_tail, fake_text};
    static const cdz_companion_host companions = {sizeof companions, fake_companion};
    static const cdz_tokenizer_api tokenizer = {sizeof tokenizer, fake_present, fake_token_text,
                                                fake_n_tokens,    fake_encode,  fake_decode,
                                                fake_convert};

    if (strcmp(id, CDZ_EXT_VEC) == 0) return cdz_vec_table();
    if (strcmp(id, CDZ_EXT_TOKENIZER) == 0) return &tokenizer;
    if (strcmp(id, CDZ_EXT_TEXT) == 0) return &row_text;
    if (cdz_is_companion(id)) return &companions;
    if (strcmp(id, CDZ_EXT_MASK) == 0) return fake_mask;
    if (cdz_is_kv(id)) return fake_kv;
    if (strcmp(id, CDZ_EXT_STEER) == 0) return fake_steer;
    return NULL;
}

/* --- setting up ----------------------------------------------------------------------------------------------- */

static fake *fake_new(uint32_t n_rows, uint32_t n_vocab)
{
    fake *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_true(n_rows <= FAKE_ROWS);
    f->host = (cdz_host){sizeof f->host, fake_extension, fake_fail,  fake_log,  fake_alloc,
                         fake_alloc,     fake_config,    fake_noise, fake_now_s};
    f->eos = 2;
    f->request = (cdz_request_info){.size = sizeof f->request,
                                    .n_prompts = n_rows,
                                    .n_rows = n_rows,
                                    .prompt_len = 2,
                                    .n_vocab = n_vocab,
                                    .max_length = 20,
                                    .context = 64,
                                    .num_beams = 1,
                                    .seed = 7,
                                    .eos = {&f->eos, 1},
                                    .pad = -1,
                                    .bos = 1,
                                    .prompts = f->prompts};
    for (uint32_t r = 0; r < n_rows; r++) {
        const int32_t first[] = {1, 3, 5, 3};
        memcpy(f->id_store[r], first, sizeof first);
        f->ids[r] = (cdz_ids){f->id_store[r], 4};
        f->prompts[r] = (cdz_ids){f->id_store[r], 2};
        f->row_index[r] = r;
        f->row_state[r] = &f->state_store[r];
    }
    f->step = (cdz_step){.size = sizeof f->step,
                         .n_rows = n_rows,
                         .input_ids = f->ids,
                         .row_index = f->row_index,
                         .row_state = f->row_state,
                         .request = &f->request,
                         .host = &f->host,
                         .scope = f};
    return f;
}

static inline void fake_write(const char *path, const char *source, size_t len)
{
    FILE *out = fopen(path, "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(source, 1, len, out), len);
    fclose(out);
}

static inline cdz_status fake_open(fake *f, const char *path, cdz_error *err)
{
    CDZ_TRY(cdz_loaded_open(&cdz_lua_loader, path, &f->module, err));
    f->plugins = cdz_loaded_plugins(f->module, &f->n_plugins);
    return CDZ_OK;
}

/* Loads a script from memory under the name t.lua. */
static inline cdz_status fake_load_bytes(fake *f, const char *source, size_t len, cdz_error *err)
{
    char folder[] = "/tmp/cadenza_lua_XXXXXX", path[64];

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.lua", folder);
    fake_write(path, source, len);
    const cdz_status st = fake_open(f, path, err);
    unlink(path);
    rmdir(folder);
    return st;
}

static void fake_params(fake *f)
{
    const cdz_param_table table = cdz_params_of(f->step.plugin);
    cdz_error err = {0};

    if (cdz_param_table_check(&table, "test", &err) != CDZ_OK) fail_msg("%s", err.text);
    f->params = calloc(1, table.params_size + 1);
    assert_non_null(f->params);
    cdz_params_defaults(&table, f->params);
    f->step.params = f->params;
}

/* Loads a script that must load and makes its i-th plugin the one of the step. */
static inline void fake_use(fake *f, const char *source)
{
    cdz_error err = {0};

    if (fake_load_bytes(f, source, strlen(source), &err) != CDZ_OK) fail_msg("%s", err.text);
    f->step.plugin = f->plugins[0];
    fake_params(f);
}

static inline void fake_use_file(fake *f, const char *path)
{
    cdz_error err = {0};

    if (fake_open(f, path, &err) != CDZ_OK) fail_msg("%s", err.text);
    f->step.plugin = f->plugins[0];
    fake_params(f);
}

static inline void fake_set(fake *f, const char *name, const char *text)
{
    const cdz_param_table table = cdz_params_of(f->step.plugin);
    const cdz_param *param = cdz_param_find(&table, name);
    cdz_json value = {0};
    cdz_error err = {0};

    assert_non_null(param);
    if (cdz_param_from_text(param, text, &f->arena, &value, &err) != CDZ_OK ||
        cdz_param_set(param, f->params, &value, &f->arena, &err) != CDZ_OK)
        fail_msg("%s", err.text);
}

/* As a request file would: JSON says whether a number is an integer. */
static inline void fake_set_json(fake *f, const char *name, const char *text)
{
    const cdz_param_table table = cdz_params_of(f->step.plugin);
    cdz_json value = {0};
    cdz_error err = {0};

    if (cdz_json_parse(text, strlen(text), name, NULL, &f->arena, &value, &err) != CDZ_OK ||
        cdz_param_set(cdz_param_find(&table, name), f->params, &value, &f->arena, &err) != CDZ_OK)
        fail_msg("%s", err.text);
}

static inline const cdz_processor *fake_processor(const fake *f)
{
    assert_int_equal(f->step.plugin->kind, CDZ_KIND_PROCESSOR);
    return (const cdz_processor *)(const void *)f->step.plugin;
}

static inline const cdz_criterion *fake_criterion(const fake *f)
{
    assert_int_equal(f->step.plugin->kind, CDZ_KIND_CRITERION);
    return (const cdz_criterion *)(const void *)f->step.plugin;
}

static inline void fake_begin(fake *f)
{
    if (fake_processor(f)->begin(&f->step, &f->step.shared) != CDZ_OK) fail_msg("%s", f->err.text);
}

static inline cdz_status fake_apply(fake *f, float *rows)
{
    cdz_scores scores = {rows, f->step.n_rows, f->request.n_vocab, f->request.n_vocab, 0};

    return fake_processor(f)->apply(&f->step, &scores);
}

static void fake_free(fake *f)
{
    if (f->step.shared && f->step.plugin->kind == CDZ_KIND_PROCESSOR)
        ((const cdz_processor *)(const void *)f->step.plugin)->end(&f->step);
    if (f->step.shared && f->step.plugin->kind == CDZ_KIND_CRITERION)
        ((const cdz_criterion *)(const void *)f->step.plugin)->end(&f->step);
    cdz_loaded_close(f->module);
    free(f->params);
    cdz_arena_free(&f->arena);
    free(f);
}

#endif
