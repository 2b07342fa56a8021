/* drafts.c - a host of one drafter: its request is an answer that is known, its row keeps to a constraint, and its tokenizer is the
 * answer's. Owns the drafter's object, parameters and memory. One thread. */
#include "drafts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cadenza/drafter.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/tokenizer.h"
#include "params/params.h"

struct bench_drafter {
    void *library;
    const cdz_drafter *drafter;
    const cdz_tokenizer *tok;
    cdz_buf texts;          /* of all tokens */
    cdz_string *text_of;    /* by id, in texts */
    cdz_arena memory, call; /* as long as it, and as one call */
    cdz_row_constraint at;
    cdz_request_info request;
    cdz_step step;
};

/* --- what the host offers --------------------------------------------------------------------------------- */

static bench_drafter *own(const cdz_step *step)
{
    return step->scope;
}

static bool present(const cdz_step *step)
{
    (void)step;
    return true;
}

static cdz_string token_text(const cdz_step *step, int32_t id)
{
    return id >= 0 && (uint32_t)id < step->request->n_vocab ? own(step)->text_of[id]
                                                            : (cdz_string){NULL, 0};
}

static cdz_status encode(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *out)
{
    cdz_encoding encoding = {0};
    cdz_error err = {0};
    if (cdz_tokenizer_encode(own(step)->tok, NULL, text, len, special ? CDZ_ENCODE_SPECIAL : 0,
                             &encoding, &err) != CDZ_OK)
        cdz_bench_give_up(err.text);
    int32_t *ids = cdz_arena_array(&own(step)->call, encoding.n, sizeof *ids);
    if (ids && encoding.n) memcpy(ids, encoding.ids, encoding.n * sizeof *ids);
    *out = (cdz_ids){ids, (uint32_t)encoding.n};
    cdz_encoding_free(&encoding);
    return CDZ_OK;
}

static cdz_status feed(const cdz_step *step, cdz_constraint *constraint, const char *bytes,
                       size_t n, uint32_t *state)
{
    (void)step;
    return cdz_constraint_feed(constraint, bytes, n, state, NULL);
}

static cdz_status feed_token(const cdz_step *step, cdz_constraint *constraint, int32_t id,
                             uint32_t *state)
{
    (void)step;
    return cdz_constraint_feed_token(constraint, id, state, NULL);
}

static cdz_status allowed(const cdz_step *step, cdz_constraint *constraint, uint32_t state,
                          uint64_t *bits, uint32_t n_words)
{
    (void)step;
    return cdz_constraint_allowed(constraint, state, bits, n_words, NULL);
}

static cdz_status nth(const cdz_step *step, uint32_t row, uint32_t n, cdz_row_constraint *out)
{
    *out = row == 0 && n == 0 ? own(step)->at : (cdz_row_constraint){.size = sizeof *out};
    return CDZ_OK;
}

static const void *extension(const char *id)
{
    static const cdz_tokenizer_api tokenizer = {
        .size = sizeof tokenizer, .present = present, .token_text = token_text, .encode = encode};
    static const cdz_grammar_api grammar = {.size = sizeof grammar,
                                            .feed = feed,
                                            .feed_token = feed_token,
                                            .accepts = cdz_constraint_accepts,
                                            .allowed = allowed,
                                            .forced = cdz_constraint_forced};
    static const cdz_constrained_host constrained = {.size = sizeof constrained, .nth = nth};
    if (strcmp(id, CDZ_EXT_TOKENIZER) == 0) return &tokenizer;
    if (strcmp(id, CDZ_EXT_GRAMMAR) == 0) return &grammar;
    return strcmp(id, CDZ_EXT_CONSTRAINED) == 0 ? &constrained : cdz_bench_extension(id);
}

static void *scratch(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc_aligned(&own(step)->call, bytes, 64);
}

/* --- life --------------------------------------------------------------------------------------------------- */

static void find_texts(bench_drafter *d)
{
    const uint32_t n = d->request.n_vocab;
    d->text_of = cdz_arena_array(&d->memory, n + 1, sizeof *d->text_of);
    size_t *from = malloc(((size_t)n + 1) * sizeof *from);
    if (!d->text_of || !from) cdz_bench_give_up("out of memory");
    for (uint32_t id = 0; id < n; id++) {
        from[id] = d->texts.len;
        (void)cdz_tokenizer_text_alone(d->tok, (int32_t)id, &d->texts);
    }
    from[n] = d->texts.len;
    for (uint32_t id = 0; id < n && d->texts.data; id++)
        d->text_of[id] = (cdz_string){d->texts.data + from[id], (uint32_t)(from[id + 1] - from[id])};
    free(from);
}

static void load(bench_drafter *d, const char *id)
{
    char path[4096];
    (void)snprintf(path, sizeof path, CADENZA_BUILD_DIR "/lib/cadenza/%s.so", id);
    d->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const cdz_entry *entry = d->library ? dlsym(d->library, "cdz_plugin") : NULL;
    if (!entry) cdz_bench_give_up(dlerror());
    if (entry->plugins[0]->kind != CDZ_KIND_DRAFTER) cdz_bench_give_up("the plugin is no drafter");
    d->drafter = (const cdz_drafter *)(const void *)entry->plugins[0];
}

/* NAME=VALUE */
static void set(bench_drafter *d, const cdz_param_table *table, void *params, const char *setting)
{
    const char *value = strchr(setting, '=');
    cdz_error err = {.text = "expected NAME=VALUE, of a parameter of the drafter"};
    cdz_json json;
    if (!value) cdz_bench_give_up(err.text);
    const char *name = cdz_arena_strndup(&d->memory, setting, (size_t)(value - setting));
    const cdz_param *param = name ? cdz_param_find(table, name) : NULL;
    if (!param || cdz_param_from_text(param, value + 1, &d->memory, &json, &err) != CDZ_OK ||
        cdz_param_set(param, params, &json, &d->memory, &err) != CDZ_OK)
        cdz_bench_give_up(err.text);
}

bench_drafter *bench_drafter_open(const char *id, char *const *settings, int n_settings,
                                  const cdz_tokenizer *tok)
{
    static const cdz_host host = {.size = sizeof host,
                                  .extension = extension,
                                  .fail = cdz_bench_fail,
                                  .config = cdz_bench_config,
                                  .scratch = scratch};
    bench_drafter *d = calloc(1, sizeof *d);
    if (!d) cdz_bench_give_up("out of memory");
    load(d, id);
    d->tok = tok;
    d->request = (cdz_request_info){.size = sizeof d->request,
                                    .n_rows = 1,
                                    .n_vocab = cdz_tokenizer_n_ids(tok),
                                    .pad = -1,
                                    .bos = -1};
    const cdz_param_table table = cdz_params_of(&d->drafter->base);
    void *params = cdz_arena_alloc(&d->memory, table.params_size);
    if (!params) cdz_bench_give_up("out of memory");
    cdz_params_defaults(&table, params);
    for (int i = 0; i < n_settings; i++) set(d, &table, params, settings[i]);
    find_texts(d);
    d->step = (cdz_step){.size = sizeof d->step,
                         .params = params,
                         .request = &d->request,
                         .plugin = &d->drafter->base,
                         .host = &host,
                         .scope = d};
    return d;
}

void bench_drafter_close(bench_drafter *drafter)
{
    cdz_arena_free(&drafter->call);
    cdz_arena_free(&drafter->memory);
    cdz_buf_free(&drafter->texts);
    dlclose(drafter->library);
    free(drafter);
}

/* --- an answer ------------------------------------------------------------------------------------------------ */

/* How many of the tokens proposed behind `at` tokens of the answer are its own. */
static uint32_t ask(bench_drafter *d, cdz_ids answer, uint32_t at, bench_drafts *sum)
{
    cdz_draft draft = {.size = sizeof draft, .history = {answer.at, at}, .room = UINT32_MAX};
    uint32_t right = 0;
    cdz_arena_reset(&d->call);
    const double t0 = cdz_thread_s();
    if (d->drafter->propose(NULL, &d->step, &draft) != CDZ_OK)
        cdz_bench_give_up("the drafter failed");
    sum->us += (cdz_thread_s() - t0) * 1e6;
    while (right < draft.tokens.len && at + right < answer.len &&
           draft.tokens.at[right] == answer.at[at + right])
        right++;
    sum->proposed += draft.tokens.len;
    return right;
}

void bench_drafts_of(bench_drafter *d, cdz_constraint *constraint, cdz_ids answer, bench_drafts *sum)
{
    d->at = (cdz_row_constraint){
        .size = sizeof d->at, .constraint = constraint, .state = cdz_constraint_start(constraint)};
    for (uint32_t at = 0; at < answer.len;) {
        const uint32_t right = ask(d, answer, at, sum);
        const uint32_t next = at + right < answer.len ? at + right + 1 : answer.len;
        while (at < next)
            (void)cdz_constraint_feed_token(constraint, answer.at[at++], &d->at.state, NULL);
        sum->accepted += right;
        sum->passes++;
    }
    sum->tokens += answer.len;
}
