/* prompts.c - what a model's prefix cache holds, to a file and back (run/pass/kv_file.h).
 *
 * Blocks are copied on the engine's thread, some megabytes between two ticks; files are written and read on the caller's. A
 * listed block never changes, so what is copied later is what was listed, or gone: then those behind it are left out too. Owns
 * the copies. Invariant: a block of a file comes after the one before it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cadenza/cadenza.h"
#include "run/engine/engine_parts.h"
#include "run/pass/kv_file.h"

enum { CHUNK_BYTES = 4 << 20, CHUNK_MOST = 256 };

/* A block that was copied, or is to be; its bytes lie beside. */
typedef struct copied {
    cdz_kv_file_block block;
    uint64_t before; /* the serial of the block before it; 0: none */
    bool there;
} copied;

typedef struct chunk {
    copied *at;  /* (most) */
    char *bytes; /* (most, block_bytes) */
    uint32_t n, most;
    uint64_t block_bytes;
} chunk;

static cdz_status open_chunk(chunk *c, uint64_t block_bytes, cdz_error *err)
{
    const uint64_t fit = CHUNK_BYTES / block_bytes;
    c->block_bytes = block_bytes;
    c->most = fit > CHUNK_MOST ? CHUNK_MOST : fit ? (uint32_t)fit : 1;
    c->at = calloc(c->most, sizeof *c->at);
    c->bytes = malloc(c->most * block_bytes);
    if (c->at && c->bytes) return CDZ_OK;
    return cdz_err_memory(err, "blocks of the prefix cache");
}

static void *bytes_of(const chunk *c, uint32_t i)
{
    return c->bytes + i * c->block_bytes;
}

static void free_chunk(chunk *c)
{
    free(c->at);
    free(c->bytes);
}

/* --- what the bits hang on ------------------------------------------------------------------------------------------ */

static cdz_status find_fingerprint(cdz_run_model *model, uint8_t out[CDZ_DIGEST_BYTES],
                                   cdz_error *err)
{
    cdz_engine *engine = model->engine;
    cdz_mutex_lock(&engine->lock);
    const bool has = model->has_fingerprint;
    memcpy(out, model->fingerprint, CDZ_DIGEST_BYTES);
    cdz_mutex_unlock(&engine->lock);
    if (has) return CDZ_OK;
    CDZ_TRY(cdz_weights_fingerprint(model->weights, out, err));
    cdz_mutex_lock(&engine->lock);
    model->has_fingerprint = true;
    memcpy(model->fingerprint, out, CDZ_DIGEST_BYTES);
    cdz_mutex_unlock(&engine->lock);
    return CDZ_OK;
}

static cdz_status find_facts(cdz_run_model *model, cdz_kv_file_facts *out, cdz_error *err)
{
    const cdz_weights_facts *facts = &model->weights->facts;
    cdz_digest_state sum;
    *out = (cdz_kv_file_facts){.shape = model->shape,
                               .block_bytes = model->block_bytes,
                               .n_vocab = (uint32_t)model->weights->arch.n_vocab};
    snprintf(out->build, sizeof out->build, "cadenza %s on %.32s", CDZ_VERSION,
             model->device->api->name);
    cdz_digest_begin(&sum);
    cdz_digest_add(&sum, facts->bytes, sizeof facts->bytes);
    cdz_digest_add(&sum, &facts->int8_bytes, sizeof facts->int8_bytes);
    cdz_digest_add(&sum, &facts->bf16_activation_bytes, sizeof facts->bf16_activation_bytes);
    if (facts->bf16_parts) cdz_digest_add(&sum, &facts->bf16_parts, sizeof facts->bf16_parts);
    cdz_steering_sum(model->control, &sum);
    cdz_digest_end(&sum, out->numbers);
    return find_fingerprint(model, out->model, err);
}

static cdz_status check_model(const cdz_run_model *model, cdz_error *err)
{
    const cdz_backend_api *api = model->device->api;
    if (model->engine->forgets || model->engine->shares_nothing)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "there is no prefix cache to keep: it is off");
    if (!cdz_run_model_shares_prompts(model))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: there is no prefix cache to keep: prompts of this family are not found "
                       "again",
                       model->weights->arch.model_type);
    if (api->kv_read && api->kv_restore) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "the prefix cache cannot be kept: %s does not give its blocks; the cpu does",
                   api->name);
}

static cdz_status is_stopping(cdz_error *err)
{
    return cdz_err(err, CDZ_E_STATE, "the engine is being stopped");
}

/* --- saving --------------------------------------------------------------------------------------------------------- */

/* Where a listed block came to lie in the file. */
typedef struct placed_block {
    uint64_t serial;
    uint32_t place;
} placed_block;

typedef struct saving {
    cdz_run_model *model;
    const cdz_prompt_choice *which;
    cdz_kv_pool *pool;     /* that was listed; NULL: there is none */
    cdz_kv_listed *listed; /* (n) */
    uint32_t n, at;
    placed_block *placed; /* (n) by serial */
    chunk chunk;
    cdz_kv_file_writer file;
    bool failed;
} saving;

/* The blocks of one text from its first on. */
static void list_text(saving *s, uint32_t kind)
{
    const cdz_prompt_choice *which = s->which;
    cdz_prefix_key key = {.salt = which->salt, .kind = kind, .ids = which->ids};
    const size_t most = which->n / CDZ_KV_BLOCK;
    while (s->n < most &&
           cdz_kv_peek(s->pool, s->n ? &s->listed[s->n - 1] : NULL, &key, &s->listed[s->n])) {
        key.ids += CDZ_KV_BLOCK;
        s->n++;
    }
}

/* [engine] */
static void list_all(void *arg)
{
    saving *s = arg;
    s->pool = s->model->pool;
    if (!s->pool) return;
    if (!s->which || !s->which->ids) {
        s->listed = cdz_kv_listing(s->pool, &s->n);
        s->failed = !s->listed;
        return;
    }
    s->listed = calloc(s->which->n / CDZ_KV_BLOCK + 1, sizeof *s->listed);
    s->failed = !s->listed;
    for (uint32_t kind = 0; s->listed && kind < 2 && s->n == 0; kind++) list_text(s, kind);
}

/* [engine] The next ones, as far as they are still there. */
static void copy_some(void *arg)
{
    saving *s = arg;
    chunk *c = &s->chunk;
    for (c->n = 0; c->n < c->most && s->at < s->n; c->n++, s->at++) {
        copied *to = &c->at[c->n];
        cdz_prefix_key key;
        to->there = s->pool == s->model->pool &&
                    cdz_kv_read(s->pool, &s->listed[s->at], &key, bytes_of(c, c->n));
        if (!to->there) continue;
        to->before = key.before;
        to->block.kind = key.kind;
        memcpy(to->block.salt, key.salt, sizeof to->block.salt);
        memcpy(to->block.ids, key.ids, sizeof to->block.ids);
    }
}

static int by_serial(const void *a, const void *b)
{
    const placed_block *x = a, *y = b;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

static placed_block *placed_of(const saving *s, uint64_t serial)
{
    const placed_block key = {.serial = serial};
    return s->n ? bsearch(&key, s->placed, s->n, sizeof *s->placed, by_serial) : NULL;
}

static cdz_status begin_saving(saving *s, cdz_error *err)
{
    if (!cdz_engine_call(s->model->engine, list_all, s)) return is_stopping(err);
    if (!s->failed) s->placed = calloc(s->n ? s->n : 1, sizeof *s->placed);
    if (!s->placed) return cdz_err_memory(err, "the list of the prefix cache");
    for (uint32_t i = 0; i < s->n; i++)
        s->placed[i] = (placed_block){s->listed[i].serial, CDZ_KV_FILE_NONE};
    qsort(s->placed, s->n, sizeof *s->placed, by_serial);
    return open_chunk(&s->chunk, s->model->block_bytes, err);
}

/* A block whose beginning is not in the file would never be found. */
static cdz_status write_block(saving *s, uint64_t serial, copied *from, const void *bytes,
                              cdz_error *err)
{
    const placed_block *before = from->before ? placed_of(s, from->before) : NULL;
    from->block.before = before ? before->place : CDZ_KV_FILE_NONE;
    if (from->before && from->block.before == CDZ_KV_FILE_NONE) return CDZ_OK;
    if (s->which && memcmp(s->which->salt, from->block.salt, sizeof from->block.salt) != 0)
        return CDZ_OK;
    placed_block *own = placed_of(s, serial);
    if (own) own->place = s->file.n;
    return cdz_kv_file_add(&s->file, &from->block, bytes, err);
}

static cdz_status write_all(saving *s, cdz_error *err)
{
    while (s->at < s->n) {
        const uint32_t first = s->at;
        if (!cdz_engine_call(s->model->engine, copy_some, s)) return is_stopping(err);
        for (uint32_t i = 0; i < s->chunk.n; i++)
            if (s->chunk.at[i].there)
                CDZ_TRY(write_block(s, s->listed[first + i].serial, &s->chunk.at[i],
                                    bytes_of(&s->chunk, i), err));
    }
    return CDZ_OK;
}

static cdz_status save(saving *s, const char *path, cdz_error *err)
{
    cdz_kv_file_facts facts;
    CDZ_TRY(check_model(s->model, err));
    CDZ_TRY(find_facts(s->model, &facts, err));
    CDZ_TRY(begin_saving(s, err));
    CDZ_TRY(cdz_kv_file_begin(&s->file, path, &facts, err));
    CDZ_TRY(write_all(s, err));
    return cdz_kv_file_finish(&s->file, err);
}

cdz_status cdz_run_model_save_prompts(cdz_run_model *model, const char *path,
                                      const cdz_prompt_choice *which, uint32_t *n_blocks,
                                      cdz_error *err)
{
    saving s = {.model = model, .which = which};
    const cdz_status status = save(&s, path, err);
    *n_blocks = status == CDZ_OK ? s.file.n : 0;
    cdz_kv_file_drop(&s.file);
    free_chunk(&s.chunk);
    free(s.placed);
    free(s.listed);
    return status;
}

/* --- loading -------------------------------------------------------------------------------------------------------- */

struct listed_block {
    cdz_kv_listed listed;
    bool there;
};

typedef struct restoring {
    cdz_run_model *model;
    cdz_kv_file file;
    chunk chunk;
    uint32_t at;                /* the place of the chunk's first */
    struct listed_block *known; /* (file.n) */
    uint32_t n_taken;
    cdz_status status;
    cdz_error *err;
} restoring;

/* [engine] */
static void get_ready(void *arg)
{
    restoring *r = arg;
    const cdz_kv_need none = {0};
    r->status = cdz_run_model_ready(r->model->engine, r->model, &none, r->err);
}

/* [engine] Those whose beginnings are there, while there is room. */
static void restore_some(void *arg)
{
    restoring *r = arg;
    for (uint32_t i = 0; r->model->pool && i < r->chunk.n; i++) {
        const cdz_kv_file_block *block = &r->chunk.at[i].block;
        const bool first = block->before == CDZ_KV_FILE_NONE;
        cdz_prefix_key key = {.salt = block->salt, .kind = block->kind, .ids = block->ids};
        if (!first && !r->known[block->before].there) continue;
        r->known[r->at + i].there =
            cdz_kv_restore(r->model->pool, first ? NULL : &r->known[block->before].listed, &key,
                           bytes_of(&r->chunk, i), &r->known[r->at + i].listed);
        r->n_taken += r->known[r->at + i].there;
    }
}

static cdz_status read_some(restoring *r, cdz_error *err)
{
    chunk *c = &r->chunk;
    for (c->n = 0; c->n < c->most && r->at + c->n < r->file.n; c->n++) {
        const void *bytes;
        CDZ_TRY(cdz_kv_file_read(&r->file, r->at + c->n, &c->at[c->n].block, &bytes, err));
        memcpy(bytes_of(c, c->n), bytes, c->block_bytes);
    }
    return CDZ_OK;
}

static cdz_status restore_all(restoring *r, cdz_error *err)
{
    bool room = true;
    for (r->at = 0; room && r->at < r->file.n; r->at += r->chunk.n) {
        const uint32_t taken = r->n_taken;
        CDZ_TRY(read_some(r, err));
        if (!cdz_engine_call(r->model->engine, restore_some, r)) return is_stopping(err);
        room = r->n_taken > taken;
    }
    return CDZ_OK;
}

static cdz_status load(restoring *r, const char *path, cdz_error *err)
{
    cdz_kv_file_facts facts;
    CDZ_TRY(check_model(r->model, err));
    CDZ_TRY(find_facts(r->model, &facts, err));
    CDZ_TRY(cdz_kv_file_open(path, &facts, &r->file, err));
    CDZ_TRY(open_chunk(&r->chunk, r->file.block_bytes, err));
    r->known = calloc(r->file.n ? r->file.n : 1, sizeof *r->known);
    if (!r->known) return cdz_err_memory_in(err, path);
    r->err = err;
    if (!cdz_engine_call(r->model->engine, get_ready, r)) return is_stopping(err);
    CDZ_TRY(r->status);
    return restore_all(r, err);
}

cdz_status cdz_run_model_load_prompts(cdz_run_model *model, const char *path, uint32_t *n_blocks,
                                      cdz_error *err)
{
    restoring r = {.model = model};
    const cdz_status status = load(&r, path, err);
    *n_blocks = r.n_taken;
    cdz_kv_file_close(&r.file);
    free_chunk(&r.chunk);
    free(r.known);
    return status;
}
