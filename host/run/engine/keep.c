/* keep.c - KV state that outlives its request: made at its end, held by outcomes and later jobs, freed by the engine.
 *
 * Owns: what cdz_kept_create took over. Invariant: holders > 0, or it is condemned. Thread: [any] for holding, else
 * [engine]. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "run/engine/engine_parts.h"

/* --- holding --------------------------------------------------------------------------------------------------- */

void cdz_kept_retain(cdz_kept *kept)
{
    if (kept) atomic_fetch_add(&kept->holders, 1);
}

/* Frees what is not the engine's. */
static void free_shell(cdz_kept *kept)
{
    for (uint32_t i = 0; kept->seqs && i < kept->n; i++) cdz_seq_free_memory(&kept->seqs[i]);
    for (uint32_t i = 0; kept->masks && i < kept->n; i++) free(kept->masks[i]);
    free(kept->seqs);
    free(kept->masks);
    if (kept->model) cdz_run_model_release(kept->model);
    free(kept);
}

/* Once the engine has gone its blocks have too. */
static void free_orphans(cdz_kept *kept)
{
    while (kept) {
        cdz_kept *past = kept->past;
        free_shell(kept);
        kept = past && atomic_fetch_sub(&past->holders, 1) == 1 ? past : NULL;
    }
}

void cdz_kept_release(cdz_kept *kept)
{
    if (!kept || atomic_fetch_sub(&kept->holders, 1) != 1) return;
    cdz_engine *engine = kept->model->engine;
    if (!engine) {
        free_orphans(kept);
        return;
    }
    cdz_mutex_lock(&engine->lock);
    kept->condemned = true;
    cdz_engine_wake(engine);
    cdz_mutex_unlock(&engine->lock);
}

const cdz_run_model *cdz_kept_model(const cdz_kept *kept)
{
    return kept->model;
}

static void unlink_kept(cdz_engine *engine, const cdz_kept *kept)
{
    cdz_mutex_lock(&engine->lock);
    for (cdz_kept **at = &engine->kept; *at; at = &(*at)->next)
        if (*at == kept) {
            *at = kept->next;
            break;
        }
    cdz_mutex_unlock(&engine->lock);
}

/* States continue states: a long conversation is a long chain of them. */
void cdz_kept_destroy(cdz_kept *kept)
{
    cdz_assert_serves(kept->model->engine);
    while (kept) {
        cdz_kept *past = kept->past;
        unlink_kept(kept->model->engine, kept);
        for (uint32_t i = 0; i < kept->n; i++) cdz_seq_clear(&kept->seqs[i]);
        cdz_kv_close(&kept->account);
        cdz_kv_close(&kept->states);
        free_shell(kept);
        kept = past && atomic_fetch_sub(&past->holders, 1) == 1 ? past : NULL;
    }
}

/* --- making ---------------------------------------------------------------------------------------------------- */

static bool copy_mask(cdz_kept *kept, uint32_t i, const cdz_seq *seq)
{
    if (!seq->mask) return true;
    kept->masks[i] = malloc(seq->mask_len);
    if (!kept->masks[i]) return false;
    memcpy(kept->masks[i], seq->mask, seq->mask_len);
    return true;
}

static cdz_kept *new_kept(cdz_seq *const *rows, uint32_t n)
{
    cdz_kept *kept = calloc(1, sizeof *kept);
    if (!kept) return NULL;
    atomic_init(&kept->holders, 1);
    kept->n = n;
    kept->seqs = calloc(n ? n : 1, sizeof *kept->seqs);
    kept->masks = calloc(n ? n : 1, sizeof *kept->masks);
    bool ok = kept->seqs && kept->masks;
    for (uint32_t i = 0; ok && i < n; i++) ok = copy_mask(kept, i, rows[i]);
    if (ok) return kept;
    free_shell(kept);
    return NULL;
}

cdz_kept *cdz_kept_create(cdz_run_model *model, cdz_seq *const *rows, uint32_t n,
                          cdz_kv_account *account, cdz_kept *past)
{
    cdz_engine *engine = model->engine;
    cdz_assert_serves(engine);
    cdz_kept *kept = new_kept(rows, n);
    if (!kept) return NULL;
    kept->model = model;
    cdz_run_model_retain(model);
    kept->past = past;
    cdz_kept_retain(past);
    for (uint32_t i = 0; i < n; i++) {
        cdz_seq_list_all(rows[i]);
        kept->seqs[i] = *rows[i];
        kept->seqs[i].mask = kept->masks[i];
        kept->seqs[i].account = &kept->account;
        kept->seqs[i].is_row = false;
        *rows[i] = (cdz_seq){.model = model, .account = account};
    }
    kept->account = *account;
    if (account->states) {
        kept->states = *account->states;
        kept->account.states = &kept->states;
        *account->states = (cdz_kv_account){0};
    }
    *account = (cdz_kv_account){0};
    cdz_kv_trim(&kept->account);
    cdz_kv_trim(&kept->states);
    cdz_mutex_lock(&engine->lock);
    kept->next = engine->kept;
    engine->kept = kept;
    cdz_mutex_unlock(&engine->lock);
    return kept;
}
