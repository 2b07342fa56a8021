/* sequence.c - ids, visible positions and the block table of a sequence.
 *
 * Owns: which of its positions are in the cache, and that a block is its own before a pass writes into it. Not: blocks (kv.c),
 * passes (forward.c). Invariant: cdz_seq_check, looked at after each change. */
#include "run/pass/sequence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "run/pass/model.h"

/* Blocks of a sequence's first n positions. A model without attention keeps none; a sequence outside an engine has no model. */
static uint32_t blocks_of(const cdz_seq *seq, uint64_t n)
{
    if (seq->model && !cdz_arch_attends(&seq->model->weights->arch)) return 0;
    return cdz_kv_blocks_for(seq->pressed && n ? cdz_press_entries(seq, (uint32_t)n) : n);
}

static cdz_status grow_ids(cdz_seq *seq, uint32_t n, cdz_error *err)
{
    if (n <= seq->cap) return CDZ_OK;
    uint64_t cap = (uint64_t)seq->cap * 2;
    if (cap < n) cap = n;
    if (cap < 16) cap = 16;
    if (cap > INT32_MAX) return cdz_err_memory(err, "a token sequence");
    int32_t *ids = realloc(seq->ids, cap * sizeof *ids);
    if (!ids) return cdz_err_memory(err, "a token sequence");
    seq->ids = ids;
    seq->cap = (uint32_t)cap;
    return CDZ_OK;
}

static cdz_status grow_list(int32_t **list, uint32_t *list_cap, uint32_t n, cdz_error *err)
{
    if (n <= *list_cap) return CDZ_OK;
    uint32_t cap = *list_cap * 2 > n ? *list_cap * 2 : n;
    int32_t *grown = realloc(*list, cap * sizeof *grown);
    if (!grown) return cdz_err_memory(err, "a token sequence");
    *list = grown;
    *list_cap = cap;
    return CDZ_OK;
}

static cdz_status grow_blocks(cdz_seq *seq, uint32_t n, cdz_error *err)
{
    return grow_list(&seq->blocks, &seq->blocks_cap, n, err);
}

cdz_status cdz_seq_init(cdz_seq *seq, cdz_run_model *model, cdz_kv_account *account, uint32_t n_ids,
                        cdz_error *err)
{
    seq->model = model;
    seq->account = account;
    if (model) seq->edits = cdz_steering_hold(model->control);
    CDZ_TRY(grow_ids(seq, n_ids, err));
    return grow_blocks(seq, blocks_of(seq, n_ids), err);
}

/* --- packed sequences --- */

/* NULL: a plain one. */
static const cdz_kv_packing *packing_of(const cdz_seq *seq)
{
    const cdz_kv_account *spans = seq->account ? seq->account->spans : NULL;
    return spans ? cdz_kv_pool_packing(spans->pool) : NULL;
}

/* Of the first n entries of the table, those that are blocks of their own. */
static uint32_t distinct(const cdz_seq *seq, uint32_t n)
{
    const cdz_kv_packing *packing = packing_of(seq);
    const uint32_t ring = packing ? cdz_kv_ring(packing) : UINT32_MAX;
    return n < ring ? n : ring;
}

/* Can a cache be gone on with from its first n positions? The next one reads plain what follows its spans. */
static bool goes_on(const cdz_seq *seq, uint32_t n)
{
    const cdz_kv_packing *packing = packing_of(seq);
    if (!packing) return true;
    const uint32_t blocks = cdz_kv_blocks_for(seq->reached), ring = cdz_kv_ring(packing);
    const uint32_t gone = blocks > ring ? blocks - ring : 0;
    return cdz_kv_packed_before(packing, n) / CDZ_KV_BLOCK >= gone;
}

static uint32_t whole_spans(const cdz_seq *seq, uint32_t n_positions)
{
    const cdz_kv_packing *packing = packing_of(seq);
    return packing ? n_positions / cdz_kv_span(packing) : 0;
}

void cdz_seq_check(const cdz_seq *seq)
{
    cdz_assert(seq->n <= seq->cap && seq->n_blocks <= seq->blocks_cap);
    cdz_assert(blocks_of(seq, seq->computed) <= seq->n_blocks);
    cdz_assert(seq->computed <= cdz_seq_visible(seq));
    cdz_assert(seq->n_blocks == 0 || (seq->account && seq->account->pool));
    cdz_assert(seq->n_listed <= seq->computed / CDZ_KV_BLOCK);
    cdz_assert(seq->n_foreign <= seq->computed / CDZ_KV_BLOCK);
    cdz_assert(!cdz_seq_recurs(seq) || seq->has_state || seq->computed == 0);
    cdz_assert(seq->n_marks <= CDZ_STATE_MARKS);
    for (uint32_t i = 0; i < seq->n_marks; i++) {
        cdz_assert(seq->marks[i].position > 0 && seq->marks[i].position <= seq->computed);
        cdz_assert(i == 0 || seq->marks[i - 1].position < seq->marks[i].position);
    }
    cdz_assert(seq->n_spans <= seq->spans_cap && whole_spans(seq, seq->computed) <= seq->n_spans);
    (void)seq;
}

uint32_t cdz_seq_own_blocks(const cdz_seq *seq)
{
    return distinct(seq, seq->n_blocks);
}

/* --- recurrent states --- */

bool cdz_seq_recurs(const cdz_seq *seq)
{
    return seq->account && seq->account->states;
}

static cdz_kv_pool *states_of(const cdz_seq *seq)
{
    return seq->account->states->pool;
}

static void drop_state(cdz_seq *seq)
{
    if (seq->has_state) cdz_kv_drop(seq->account->states, seq->state);
    seq->has_state = false;
}

static void drop_mark(cdz_seq *seq, uint32_t i)
{
    cdz_kv_drop(seq->account->states, seq->marks[i].state);
    seq->n_marks--;
    memmove(&seq->marks[i], &seq->marks[i + 1], (seq->n_marks - i) * sizeof *seq->marks);
}

uint32_t cdz_seq_resumes(const cdz_seq *seq, uint32_t n)
{
    if (n > seq->computed) n = seq->computed;
    if (!goes_on(seq, n)) return 0;
    if (seq->pressed && n < seq->pressed->at) return 0;
    if (n < seq->computed && cdz_press_is_reading(seq)) return 0;
    if (!cdz_seq_recurs(seq) || n == seq->computed) return n;
    uint32_t best = 0;
    for (uint32_t i = 0; i < seq->n_marks && seq->marks[i].position <= n; i++)
        best = seq->marks[i].position;
    return best;
}

/* The state goes back to n positions, where a mark is. */
static void cut_states(cdz_seq *seq, uint32_t n)
{
    if (!cdz_seq_recurs(seq)) return;
    while (seq->n_marks && seq->marks[seq->n_marks - 1].position > n)
        drop_mark(seq, seq->n_marks - 1);
    if (n == seq->computed && n > 0) return;
    drop_state(seq);
    if (n == 0) return;
    cdz_assert(seq->n_marks && seq->marks[seq->n_marks - 1].position == n);
    seq->state = seq->marks[seq->n_marks - 1].state;
    seq->has_state = true;
    cdz_kv_share(states_of(seq), seq->state);
}

/* Of the marks between the first and the last, the one that others lie nearest to. */
static void thin_marks(cdz_seq *seq)
{
    uint32_t least = 1, gap = UINT32_MAX;
    for (uint32_t i = 1; i + 1 < seq->n_marks; i++)
        if (seq->marks[i + 1].position - seq->marks[i - 1].position <= gap) {
            gap = seq->marks[i + 1].position - seq->marks[i - 1].position;
            least = i;
        }
    drop_mark(seq, least);
}

/* One state for each row stays free of marks, so that what a row must have can be had. */
static bool room_for_mark(const cdz_seq *seq)
{
    const cdz_kv_account *states = seq->account->states;
    const uint32_t free_of_them = states->reserved / CDZ_STATES_A_ROW * CDZ_STATES_FREE;
    return states->used < states->reserved - free_of_them;
}

/* Notes the state after the computed positions; where another holds it too, that is a mark already. */
static void note_state(cdz_seq *seq)
{
    cdz_kv_pool *pool = states_of(seq);
    cdz_error unheard = {0};
    int32_t copy = seq->state;
    if (seq->n_marks && seq->marks[seq->n_marks - 1].position == seq->computed) return;
    if (seq->n_marks == CDZ_STATE_MARKS) thin_marks(seq);
    if (cdz_kv_shared(pool, seq->state)) {
        cdz_kv_share(pool, seq->state);
    } else {
        if (!room_for_mark(seq) && seq->n_marks > 1) thin_marks(seq);
        if (!room_for_mark(seq) || cdz_kv_take(seq->account->states, &copy, &unheard) != CDZ_OK)
            return;
        cdz_kv_clone(pool, copy, seq->state);
    }
    seq->marks[seq->n_marks++] = (cdz_state_mark){seq->computed, copy};
}

void cdz_seq_mark(cdz_seq *seq)
{
    if (cdz_seq_recurs(seq) && seq->computed && seq->computed % CDZ_STATE_EVERY == 0)
        note_state(seq);
}

static cdz_status take_state(cdz_seq *seq, int32_t *state, cdz_error *err)
{
    cdz_error unheard = {0};
    while (seq->n_marks && cdz_kv_take(seq->account->states, state, &unheard) != CDZ_OK)
        drop_mark(seq, seq->n_marks - 1);
    return seq->n_marks ? CDZ_OK : cdz_kv_take(seq->account->states, state, err);
}

/* Before positions up to `visible` are read: the state is this sequence's own, and noted where it may be wanted again. */
static cdz_status prepare_state(cdz_seq *seq, uint32_t visible, cdz_error *err)
{
    int32_t mine;
    if (!cdz_seq_recurs(seq)) return CDZ_OK;
    if (!seq->has_state) {
        CDZ_TRY(take_state(seq, &seq->state, err));
        seq->has_state = true;
        cdz_kv_state_clear(states_of(seq), seq->state);
        return CDZ_OK;
    }
    const bool likely = visible - seq->computed > 1 || seq->computed == seq->begun;
    if (seq->computed && likely) note_state(seq);
    cdz_seq_mark(seq);
    if (!cdz_kv_shared(states_of(seq), seq->state)) return CDZ_OK;
    CDZ_TRY(take_state(seq, &mine, err));
    cdz_kv_clone(states_of(seq), mine, seq->state);
    cdz_kv_drop(seq->account->states, seq->state);
    seq->state = mine;
    return CDZ_OK;
}

/* What from's cache has after n positions, and before. */
static void share_states(cdz_seq *to, const cdz_seq *from, uint32_t n)
{
    if (!cdz_seq_recurs(from) || n == 0) return;
    cdz_kv_pool *pool = states_of(from);
    for (uint32_t i = 0; i < from->n_marks && from->marks[i].position <= n; i++) {
        to->marks[to->n_marks++] = from->marks[i];
        cdz_kv_share(pool, from->marks[i].state);
    }
    to->state = n == from->computed ? from->state : to->marks[to->n_marks - 1].state;
    to->has_state = true;
    cdz_kv_share(pool, to->state);
}

/* --- blocks that are found again --- */

/* Do the ids alone tell what its cache holds? */
static bool is_plain(const cdz_seq *seq)
{
    return !seq->embeds && !seq->mask && !seq->source && seq->n_layers == 0 && !packing_of(seq) &&
           !seq->press && !seq->n_drops;
}

static bool may_list(const cdz_seq *seq)
{
    return seq->account && seq->account->lists && is_plain(seq);
}

uint32_t cdz_seq_parts(const cdz_seq *a, const cdz_seq *b)
{
    const cdz_steering *every = a->model ? a->model->control : NULL;
    const uint32_t edited = cdz_steering_parts(a->edits, b ? b->edits : every);
    const uint32_t given =
        cdz_given_parts(a->given, a->given_to, b ? b->given : NULL, b ? b->given_to : 0);
    const uint32_t same = edited < given ? edited : given;
    const uint32_t dropped =
        cdz_drops_parts(a->drops, a->n_drops, b ? b->drops : NULL, b ? b->n_drops : 0);
    return same < dropped ? same : dropped;
}

/* Of its first n positions those before any that is edited or given. */
static uint32_t unedited(const cdz_seq *seq, uint32_t n)
{
    const uint32_t first = cdz_seq_parts(seq, NULL);
    return first < n ? first : n;
}

static cdz_prefix_key key_of(const cdz_seq *seq, uint32_t block)
{
    const cdz_kv_account *account = seq->account;
    return (cdz_prefix_key){
        .salt = account->salt,
        .before = block ? cdz_kv_serial(account->pool, seq->blocks[block - 1]) : 0,
        .kind = seq->long_rope,
        .ids = seq->ids + (size_t)block * CDZ_KV_BLOCK,
    };
}

/* Up to the first that is not listed: a block is found by way of those before it. alone: those that others share are left to
 * them. */
static void list_blocks(cdz_seq *seq, uint32_t n_positions, bool alone)
{
    const uint32_t whole = unedited(seq, n_positions) / CDZ_KV_BLOCK;
    if (seq->n_listed >= whole || !may_list(seq)) return;
    while (seq->n_listed < whole) {
        int32_t *block = &seq->blocks[seq->n_listed];
        const bool listed = cdz_kv_serial(seq->account->pool, *block) != 0;
        if (!listed && seq->n_listed < seq->n_foreign) return;
        if (!listed && alone && cdz_kv_shared(seq->account->pool, *block)) return;
        const cdz_prefix_key key = key_of(seq, seq->n_listed);
        if (!listed && !cdz_kv_list(seq->account, &key, block)) return;
        seq->n_listed++;
    }
}

void cdz_seq_list(cdz_seq *seq)
{
    list_blocks(seq, seq->computed < seq->begun ? seq->computed : seq->begun, false);
}

void cdz_seq_list_all(cdz_seq *seq)
{
    list_blocks(seq, seq->computed, false);
}

/* In the place of a block of its own, where there is one. */
static bool find_block(cdz_seq *seq, uint32_t i)
{
    int32_t found;
    const cdz_prefix_key key = key_of(seq, i);
    if (grow_blocks(seq, i + 1, NULL) != CDZ_OK || !cdz_kv_find(seq->account, &key, &found))
        return false;
    if (i < seq->n_blocks)
        cdz_kv_drop(seq->account, seq->blocks[i]);
    else
        seq->n_blocks = i + 1;
    seq->blocks[i] = found;
    return true;
}

/* Once for each sequence. */
static void note_look(cdz_seq *seq, bool refused, uint32_t visible)
{
    cdz_kv_pool *pool = seq->account ? seq->account->pool : NULL;
    if (seq->looked || !pool || !cdz_kv_pool_lists(pool) || visible <= CDZ_KV_BLOCK) return;
    seq->looked = true;
    if (refused)
        cdz_kv_note_refused(pool);
    else
        cdz_kv_note_looked(pool, visible);
}

uint32_t cdz_seq_find(cdz_seq *seq, bool reads_all)
{
    const uint32_t from = seq->computed, visible = cdz_seq_visible(seq);
    const uint32_t most = visible ? unedited(seq, visible - 1) / CDZ_KV_BLOCK : 0;
    const bool refused = reads_all || !may_list(seq);
    if (from == 0) note_look(seq, refused, visible);
    if (refused) return 0;
    while (seq->computed == seq->n_listed * CDZ_KV_BLOCK && seq->n_listed < most &&
           find_block(seq, seq->n_listed)) {
        seq->n_listed++;
        seq->computed += CDZ_KV_BLOCK;
    }
    if (seq->computed > seq->reached) seq->reached = seq->computed;
    if (seq->computed > seq->known) {
        cdz_kv_note_found(seq->account->pool,
                          seq->computed - (from > seq->known ? from : seq->known));
        seq->known = seq->computed;
    }
    cdz_seq_check(seq);
    return seq->computed - from;
}

/* --- caches --- */

static void forget_presses(cdz_seq *seq)
{
    cdz_press_leave(seq->pressed);
    seq->pressed = NULL;
    cdz_press_forget_notes(seq);
}

/* Keeps what can be gone on with of the first `computed` positions. */
static void cut_cache(cdz_seq *seq, uint32_t computed)
{
    computed = cdz_seq_resumes(seq, computed);
    list_blocks(seq, seq->computed, true);
    if (seq->n_listed > computed / CDZ_KV_BLOCK) seq->n_listed = computed / CDZ_KV_BLOCK;
    if (seq->n_foreign > computed / CDZ_KV_BLOCK) seq->n_foreign = computed / CDZ_KV_BLOCK;
    const uint32_t n = blocks_of(seq, computed), keep = distinct(seq, n),
                   spans = whole_spans(seq, computed);
    uint32_t held = distinct(seq, seq->n_blocks);
    while (held > keep) cdz_kv_drop(seq->account, seq->blocks[--held]);
    if (seq->n_blocks > n) seq->n_blocks = n;
    while (seq->n_spans > spans) cdz_kv_drop(seq->account->spans, seq->spans[--seq->n_spans]);
    cut_states(seq, computed);
    if (seq->press_done > computed) seq->press_done = computed;
    seq->n_dropped = cdz_drops_by(seq->drops, seq->n_dropped, computed);
    seq->computed = computed;
    if (computed == 0) forget_presses(seq);
    if (computed == 0) seq->reached = 0;
}

void cdz_seq_clear(cdz_seq *seq)
{
    if (!seq) return;
    cut_cache(seq, 0);
    cdz_seq_free_memory(seq);
}

void cdz_seq_free_memory(cdz_seq *seq)
{
    cdz_steering_release(seq->edits);
    cdz_given_release(seq->given);
    cdz_drops_release(seq->drops);
    free(seq->ids);
    free(seq->blocks);
    free(seq->spans);
    *seq = (cdz_seq){0};
}

static uint32_t count_visible(const uint8_t *mask, uint32_t len)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < len; i++) n += mask[i] != 0;
    return n;
}

void cdz_seq_set_mask(cdz_seq *seq, const uint8_t *mask, uint32_t len)
{
    const uint32_t n = count_visible(mask, len);
    const bool plain = n == len; /* nothing hidden: no mask needed */
    seq->mask = plain ? NULL : mask;
    seq->mask_len = plain ? 0 : len;
    seq->mask_visible = plain ? 0 : n;
}

void cdz_seq_embed(cdz_seq *seq, const float *embeds, uint32_t n)
{
    seq->embeds = embeds;
    seq->n_embeds = n;
    seq->n_beside = seq->n;
}

/* Positions among the first n ids, and the embeddings before them. */
static uint32_t visible_among(const cdz_seq *seq, uint32_t n)
{
    const uint32_t after = n > seq->n_beside ? n - seq->n_beside : 0;
    const uint32_t slots = seq->embeds ? seq->n_embeds + after : n;
    if (slots >= seq->mask_len) return seq->mask_visible + (slots - seq->mask_len);
    return count_visible(seq->mask, slots);
}

uint32_t cdz_seq_visible(const cdz_seq *seq)
{
    return visible_among(seq, seq->n);
}

uint32_t cdz_seq_slot(const cdz_seq *seq, uint32_t position)
{
    if (position >= seq->mask_visible) return seq->mask_len + (position - seq->mask_visible);
    uint32_t at = 0;
    for (uint32_t seen = 0;; at++)
        if (seq->mask[at] && seen++ == position) return at;
}

/* Where among the sequence's own ids this lies; cap: elsewhere. */
static uint32_t place_among(const cdz_seq *seq, const int32_t *ids)
{
    const uintptr_t first = (uintptr_t)seq->ids, at = (uintptr_t)ids;
    const bool own = ids && at >= first && at - first < (uintptr_t)seq->cap * sizeof *ids;
    return own ? (uint32_t)((at - first) / sizeof *ids) : seq->cap;
}

cdz_status cdz_seq_push(cdz_seq *seq, const int32_t *ids, uint32_t n, cdz_error *err)
{
    if (n > INT32_MAX - seq->n) return cdz_err_memory(err, "a token sequence");
    const uint32_t own = place_among(seq, ids), cap = seq->cap;
    CDZ_TRY(grow_ids(seq, seq->n + n, err));
    if (own < cap) ids = seq->ids + own; /* they have moved with the sequence */
    if (n > 0) memmove(seq->ids + seq->n, ids, n * sizeof *ids);
    seq->n += n;
    cdz_seq_check(seq);
    return CDZ_OK;
}

uint64_t cdz_seq_weight(const cdz_seq *seq)
{
    return sizeof *seq + (uint64_t)seq->cap * sizeof *seq->ids + cdz_given_share(seq->given) +
           cdz_steering_share(seq->edits);
}

void cdz_seq_cut(cdz_seq *seq, uint32_t len)
{
    if (len >= seq->n) return;
    seq->n = len;
    const uint32_t visible = cdz_seq_visible(seq);
    if (seq->computed > visible) cut_cache(seq, visible);
    if (seq->known > visible) seq->known = visible;
    if (seq->given_to > visible) seq->given_to = visible;
    seq->n_drops = cdz_drops_by(seq->drops, seq->n_drops, visible);
    cdz_seq_check(seq);
}

void cdz_seq_forget(cdz_seq *seq)
{
    cut_cache(seq, 0);
    seq->known = 0;
}

void cdz_seq_reread(cdz_seq *seq, uint32_t n)
{
    if (seq->computed > n) cut_cache(seq, n);
    if (seq->known > n) seq->known = n;
    cdz_seq_check(seq);
}

void cdz_seq_set_edits(cdz_seq *seq, cdz_steering *edits)
{
    cdz_seq_reread(seq, cdz_steering_parts(seq->edits, edits));
    cdz_steering_hold(edits);
    cdz_steering_release(seq->edits);
    seq->edits = edits;
    cdz_seq_check(seq);
}

/* Takes over one hold of the list. */
static void set_given(cdz_seq *seq, cdz_given *given, uint32_t to)
{
    cdz_seq_reread(seq, cdz_given_parts(seq->given, seq->given_to, given, to));
    cdz_given_release(seq->given);
    seq->given = given;
    seq->given_to = to;
    cdz_seq_check(seq);
}

cdz_status cdz_seq_give(cdz_seq *seq, uint32_t from, const float *vectors, uint32_t n,
                        cdz_error *err)
{
    cdz_given *all;
    cdz_assert((uint64_t)from + n <= cdz_seq_visible(seq));
    if (!cdz_given_make(seq->given, seq->given_to, from, vectors, n,
                        seq->model->weights->arch.hidden, &all))
        return cdz_err_memory(err, "a token sequence");
    set_given(seq, all, cdz_seq_visible(seq));
    return CDZ_OK;
}

/* Takes over one hold of the list, none of which the cache has behind it. */
static void set_drops(cdz_seq *seq, cdz_drops *drops, uint32_t n)
{
    cdz_seq_forget(seq);
    cdz_drops_release(seq->drops);
    seq->drops = drops;
    seq->n_drops = n;
    cdz_seq_check(seq);
}

void cdz_seq_undrop(cdz_seq *seq)
{
    set_drops(seq, NULL, 0);
}

void cdz_seq_yield(cdz_seq *seq)
{
    cut_cache(seq, 0);
    cdz_seq_check(seq);
}

/* The first n blocks of a sequence that holds none, with the contents of another's. */
static cdz_status copy_blocks(cdz_seq *to, const cdz_seq *from, uint32_t n, cdz_error *err)
{
    const uint32_t ring = distinct(from, UINT32_MAX);
    for (uint32_t i = 0; i < n; i++) {
        if (i < ring) {
            CDZ_TRY(cdz_kv_take(to->account, &to->blocks[i], err));
            cdz_kv_clone(to->account->pool, to->blocks[i], from->blocks[i]);
        } else {
            to->blocks[i] = to->blocks[i - ring];
        }
        to->n_blocks = i + 1;
    }
    return CDZ_OK;
}

static cdz_kv_pool *spans_pool(const cdz_seq *seq)
{
    return seq->account->spans ? seq->account->spans->pool : NULL;
}

/* Who goes on with a pressed cache is pressed likewise when it has to be read again. */
static void take_press(cdz_seq *to, const cdz_seq *from)
{
    to->press = from->press;
    to->press_from = from->press_from;
    to->press_begun = from->press_begun;
    to->press_row = from->press_row;
}

/* Before to has positions: what fails leaves it without a cache. */
static cdz_status share_presses(cdz_seq *to, const cdz_seq *from, uint32_t n, cdz_error *err)
{
    if (n == 0) return CDZ_OK;
    to->n_dropped = cdz_drops_by(from->drops, from->n_dropped, n);
    if (from->press) take_press(to, from);
    if (cdz_press_is_reading(from)) {
        const cdz_status status = cdz_press_copy_notes(to, from, err);
        if (status != CDZ_OK) cut_cache(to, 0);
        CDZ_TRY(status);
    }
    to->press_done = from->press_done < n ? from->press_done : n;
    cdz_press_hold(from->pressed);
    to->pressed = from->pressed;
    return CDZ_OK;
}

cdz_status cdz_seq_share(cdz_seq *to, const cdz_seq *from, uint32_t n_positions, cdz_error *err)
{
    const uint32_t same = cdz_seq_parts(to, from);
    if (n_positions > same) n_positions = same;
    n_positions = spans_pool(to) == spans_pool(from) ? cdz_seq_resumes(from, n_positions) : 0;
    const uint32_t n = blocks_of(from, n_positions), held = distinct(from, n),
                   n_spans = whole_spans(from, n_positions);
    CDZ_TRY(grow_blocks(to, n, err));
    CDZ_TRY(grow_list(&to->spans, &to->spans_cap, n_spans, err));
    const bool shares = cdz_kv_pool_shares(from->account->pool);
    for (uint32_t i = 0; shares && i < held; i++)
        cdz_kv_share(from->account->pool, from->blocks[i]);
    for (uint32_t i = 0; i < n_spans; i++) cdz_kv_share(spans_pool(from), from->spans[i]);
    cdz_seq_forget(to);
    if (n_spans) memcpy(to->spans, from->spans, n_spans * sizeof *to->spans);
    to->n_spans = n_spans;
    if (shares) {
        if (n) memcpy(to->blocks, from->blocks, n * sizeof *to->blocks);
        to->n_blocks = n;
        const uint32_t whole = n_positions / CDZ_KV_BLOCK;
        to->n_listed = from->n_listed < whole ? from->n_listed : whole;
        to->n_foreign =
            from->n_foreign < whole && from->account == to->account ? from->n_foreign : whole;
    } else {
        const cdz_status status = copy_blocks(to, from, n, err);
        if (status != CDZ_OK) cut_cache(to, 0);
        CDZ_TRY(status);
    }
    share_states(to, from, n_positions);
    CDZ_TRY(share_presses(to, from, n_positions, err));
    to->computed = to->known = n_positions;
    to->reached = n_positions ? from->reached : 0;
    to->long_rope = from->long_rope;
    return CDZ_OK;
}

cdz_status cdz_seq_adopt(cdz_seq *to, const cdz_seq *from, cdz_error *err)
{
    return cdz_seq_share(to, from, from->computed, err);
}

/* The next visible id from index *at on, which ends after it; false: there is none. */
static bool next_visible(const cdz_seq *seq, uint32_t *at, int32_t *id)
{
    while (*at < seq->mask_len && !seq->mask[*at]) (*at)++;
    if (*at >= seq->n) return false;
    *id = seq->ids[(*at)++];
    return true;
}

uint32_t cdz_seq_common(const cdz_seq *a, const cdz_seq *b)
{
    uint32_t n = 0, in_a = 0, in_b = 0;
    int32_t x, y;
    if (a->embeds || b->embeds) return 0; /* ids do not tell what the cache holds */
    const uint32_t same = cdz_seq_parts(a, b), most = b->computed < same ? b->computed : same;
    while (n < most && next_visible(a, &in_a, &x) && next_visible(b, &in_b, &y) && x == y) n++;
    return n;
}

cdz_status cdz_seq_copy(cdz_seq *to, const cdz_seq *from, cdz_error *err)
{
    CDZ_TRY(grow_ids(to, from->n, err));
    set_drops(to, cdz_drops_hold(from->drops), from->n_drops);
    cdz_seq_set_edits(to, from->edits);
    set_given(to, cdz_given_hold(from->given), from->given_to);
    CDZ_TRY(cdz_seq_adopt(to, from, err));
    to->known = from->known;
    if (from->n) memcpy(to->ids, from->ids, from->n * sizeof *to->ids);
    to->n = from->n;
    to->n_layers = from->n_layers;
    to->embeds = from->embeds;
    to->n_embeds = from->n_embeds;
    to->n_beside = from->n_beside;
    to->mask = from->mask;
    to->mask_len = from->mask_len;
    to->mask_visible = from->mask_visible;
    to->begun = from->begun;
    to->behind = from->behind;
    if (from->press) take_press(to, from);
    to->source = from->source;
    cdz_seq_check(to);
    return CDZ_OK;
}

/* Copy-on-write: block i becomes this sequence's alone. keep: its contents matter. */
static cdz_status own_block(cdz_seq *seq, uint32_t i, bool keep, cdz_error *err)
{
    cdz_kv_pool *pool = seq->account->pool;
    if (!cdz_kv_shared(pool, seq->blocks[i])) {
        cdz_kv_claim(seq->account, seq->blocks[i]);
        return CDZ_OK;
    }
    int32_t mine;
    CDZ_TRY(cdz_kv_take(seq->account, &mine, err));
    if (keep) cdz_kv_clone(pool, mine, seq->blocks[i]);
    cdz_kv_drop(seq->account, seq->blocks[i]);
    seq->blocks[i] = mine;
    return CDZ_OK;
}

/* Learned positions end where their table does. A sequence outside an engine has no model. */
static cdz_status check_positions(const cdz_seq *seq, uint32_t visible, cdz_error *err)
{
    const cdz_arch *arch = seq->model ? &seq->model->weights->arch : NULL;
    if (!arch || !cdz_arch_has_positions(arch)) return CDZ_OK;
    const uint32_t n = arch->hidden_count ? seq->n : visible;
    if (n <= arch->context) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT,
                   "a sequence of %" PRIu32 " tokens: the model has %s %" PRIu32
                   " positions and no more",
                   n, cdz_arch_positions_learned(arch) ? "learned" : "made", arch->context);
}

/* What the layers need beside blocks. A sequence outside an engine has no model. */
static cdz_status prepare_layers(cdz_seq *seq, uint32_t visible, cdz_error *err)
{
    cdz_layers *layers = seq->model ? seq->model->layers : NULL;
    if (!layers) return CDZ_OK;
    CDZ_TRY(cdz_layers_reach(layers, visible, err));
    if (!seq->source && seq->model->weights->arch.encoder)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: a sequence without a prompt for the encoder has no scores",
                       seq->model->weights->arch.architecture);
    if (!seq->source || seq->source->ready) return CDZ_OK;
    CDZ_TRY(cdz_encoded_prepare(seq->source, err));
    return cdz_layers_expect(layers, seq->source, err);
}

void cdz_seq_rotate_for(cdz_seq *seq, uint32_t length)
{
    const cdz_arch *arch = seq->model ? &seq->model->weights->arch : NULL;
    if (!arch || !arch->long_inv_freq) return;
    const bool is_long = length > arch->rope_limit;
    if (is_long != seq->long_rope) cdz_seq_forget(seq);
    seq->long_rope = is_long;
}

/* Block n_blocks and so on, up to `need` of them. */
static cdz_status take_blocks(cdz_seq *seq, uint32_t need, cdz_error *err)
{
    while (seq->n_blocks < need) {
        CDZ_TRY(cdz_kv_take(seq->account, &seq->blocks[seq->n_blocks], err));
        seq->n_blocks++;
    }
    return CDZ_OK;
}

static cdz_status take_spans(cdz_seq *seq, uint32_t need, cdz_error *err)
{
    CDZ_TRY(grow_list(&seq->spans, &seq->spans_cap, need, err));
    while (seq->n_spans < need) {
        CDZ_TRY(cdz_kv_take(seq->account->spans, &seq->spans[seq->n_spans], err));
        seq->n_spans++;
    }
    return CDZ_OK;
}

/* Likewise of a ring: what a block held before is read on, until it is written over. Spans are written once, when they are
 * whole, and so never while others hold them. */
static cdz_status prepare_packed(cdz_seq *seq, uint32_t first, uint32_t need, cdz_error *err)
{
    const uint32_t ring = distinct(seq, UINT32_MAX), held = distinct(seq, seq->n_blocks);
    for (uint32_t i = first; i < need && i - first < ring; i++)
        if (i % ring < held) CDZ_TRY(own_block(seq, i % ring, true, err));
    CDZ_TRY(take_blocks(seq, distinct(seq, need), err));
    for (uint32_t i = ring; i < need; i++) seq->blocks[i] = seq->blocks[i - ring];
    if (seq->n_blocks < need) seq->n_blocks = need;
    CDZ_TRY(take_spans(seq, whole_spans(seq, cdz_seq_visible(seq)), err));
    cdz_seq_check(seq);
    return CDZ_OK;
}

/* A press or a drop that comes due moves entries about: blocks before those that are written to are its own then as well. */
static cdz_status prepare_press(cdz_seq *seq, uint32_t visible, uint32_t n, cdz_error *err)
{
    const uint32_t next = cdz_press_next(seq), drop = cdz_drop_next(seq);
    if (next != UINT32_MAX) CDZ_TRY(cdz_press_expect(seq, err));
    if (next > visible && drop > visible) return CDZ_OK;
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(own_block(seq, i, true, err));
    return CDZ_OK;
}

uint32_t cdz_seq_needs(const cdz_seq *seq)
{
    const uint32_t visible = cdz_seq_visible(seq);
    if (!seq->n_drops) return blocks_of(seq, visible);
    return cdz_kv_blocks_for(cdz_drop_entries(seq, visible));
}

void cdz_seq_pressed(cdz_seq *seq, cdz_pressed *pressed)
{
    cdz_press_leave(seq->pressed);
    seq->pressed = pressed;
    const uint32_t need = cdz_seq_needs(seq);
    while (seq->n_blocks > need) cdz_kv_drop(seq->account, seq->blocks[--seq->n_blocks]);
    if (seq->account->yields) cdz_kv_trim(seq->account);
    cdz_seq_check(seq);
}

cdz_status cdz_seq_own(cdz_seq *seq, uint32_t block, cdz_error *err)
{
    if (seq->n_listed > block) seq->n_listed = block;
    for (uint32_t i = block; i < seq->n_blocks; i++) CDZ_TRY(own_block(seq, i, true, err));
    if (seq->n_foreign > block) seq->n_foreign = block;
    return CDZ_OK;
}

cdz_status cdz_seq_take_out(cdz_seq *seq, uint32_t from, uint32_t to, bool renumber, cdz_error *err)
{
    const uint32_t before = seq->n_drops;
    const cdz_drop drop = {.at = seq->known, .from = from, .to = to, .renumber = renumber};
    cdz_assert(from < to && to <= seq->known);
    if (!cdz_drops_add(&seq->drops, &seq->n_drops, &drop)) return cdz_err_memory(err, "a drop");
    if (seq->n_drops == before || seq->computed < seq->known) return CDZ_OK;
    const cdz_status status = cdz_drop_run(seq->model->layers, seq, err);
    if (status == CDZ_OK) return CDZ_OK;
    if (status == CDZ_E_LIMIT && seq->account->yields) {
        cut_cache(seq, 0); /* the next pass has blocks from others, and reads it again */
        return CDZ_OK;
    }
    seq->n_drops = before;
    cdz_seq_check(seq);
    return status;
}

cdz_status cdz_seq_prepare(cdz_seq *seq, cdz_error *err)
{
    const uint32_t visible = cdz_seq_visible(seq);
    if (visible == 0)
        return cdz_err(err, CDZ_E_INPUT, "a sequence without a visible token has no scores");
    CDZ_TRY(check_positions(seq, visible, err));
    CDZ_TRY(prepare_layers(seq, visible, err));
    if (seq->computed >= visible) cut_cache(seq, visible - 1);

    const uint32_t held = seq->computed ? cdz_press_entries(seq, seq->computed) : 0;
    const uint32_t first = held / CDZ_KV_BLOCK, need = cdz_seq_needs(seq);
    CDZ_TRY(prepare_state(seq, visible, err));
    CDZ_TRY(grow_blocks(seq, need, err));
    if (packing_of(seq)) return prepare_packed(seq, first, need, err);
    CDZ_TRY(prepare_press(seq, visible, first, err));
    for (uint32_t i = first; i < seq->n_blocks; i++)
        CDZ_TRY(own_block(seq, i, i == first && held % CDZ_KV_BLOCK != 0, err));
    CDZ_TRY(take_blocks(seq, need, err));
    cdz_seq_check(seq);
    return CDZ_OK;
}
