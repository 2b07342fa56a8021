/* forward.c - gathers rows of wants into one pass and runs the layers; heads.c delivers what comes of them.

 * Shapes are said in layers.h. */
#include "run/pass/layers.h"

#include <stdlib.h>
#include <string.h>

#include "run/pass/model.h"
#include "run/pass/sequence.h"

enum {
    HEAD_ROWS = 32,      /* score rows made at a time when they go to different places */
    FAR_HEAD_ROWS = 128, /* the same on a device: what is brought over in one go */
    SHORT = 8,           /* a want with no more rows than this is served before prompts */
};

static float *floats(cdz_backend *b, size_t rows, size_t columns)
{
    size_t n;
    if (__builtin_mul_overflow(rows, columns, &n) || n > SIZE_MAX / sizeof(float)) return NULL;
    return b->api->alloc(b, n * sizeof(float));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t widest_inner(const cdz_arch *a)
{
    return a->expert_intermediate > a->intermediate ? a->expert_intermediate : a->intermediate;
}

/* One piece of activation memory: where its address goes, its shape; columns 0: not needed. */
typedef struct piece {
    float **at;
    size_t rows, columns;
} piece;

static bool allocate(cdz_layers *f, const piece *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].columns == 0) continue;
        *pieces[i].at = floats(f->backend, pieces[i].rows, pieces[i].columns);
        if (!*pieces[i].at) return false;
    }
    return true;
}

/* What the host itself reads or writes, wherever the activations are. */
static bool allocate_here(cdz_layers *f)
{
    const cdz_arch *a = &f->weights->arch;
    const size_t m = CDZ_PASS_ROWS;
    if (a->rope_limit && !a->long_inv_freq) {
        f->made = calloc(m, a->rope.n_rotated / 2 * sizeof *f->made);
        if (!f->made) return false;
    }
    if (a->n_active == 0) return true;
    f->route_weights = calloc(m, a->n_active * sizeof *f->route_weights);
    f->route_ids = calloc(m, a->n_active * sizeof *f->route_ids);
    return f->route_weights && f->route_ids && cdz_layers_place_experts(f);
}

static bool allocate_all(cdz_layers *f)
{
    const cdz_arch *a = &f->weights->arch;
    const size_t m = CDZ_PASS_ROWS, D = a->hidden, V = a->n_vocab;
    size_t F = widest_inner(a), wide = (size_t)a->n_heads * a->head_dim;
    size_t narrow = (size_t)a->n_kv_heads * a->head_dim;
    if (a->encoder) {
        F = larger(F, widest_inner(a->encoder));
        wide = larger(wide, (size_t)a->encoder->n_heads * a->encoder->head_dim);
        narrow = larger(narrow, (size_t)a->encoder->n_kv_heads * a->encoder->head_dim);
    }
    const bool far = !f->backend->api->host_memory;
    const size_t parallel = a->parallel_residual ? D : 0, sparse = a->n_experts ? D : 0;
    f->head_rows = far ? FAR_HEAD_ROWS : HEAD_ROWS;
    const piece pieces[] = {
        {&f->x, m, D},
        {&f->normed, m, D},
        {&f->given, m, D},
        {&f->also_given, m, parallel},
        {&f->q, m, wide},
        {&f->mixed, m, wide},
        {&f->k, m, narrow},
        {&f->v, m, narrow},
        {&f->gate, m, F},
        {&f->up, m, F},
        {&f->ends, f->head_rows, D},
        {&f->scores, f->head_rows, V},
        {&f->route_scores, m, a->n_experts},
        {&f->gathered, m, sparse},
        {&f->expert_gives, m, sparse},
        {&f->zeros, m, far ? sparse : 0},
    };
    return allocate(f, pieces, sizeof pieces / sizeof *pieces) && allocate_here(f);
}

cdz_status cdz_layers_reach(cdz_layers *f, uint32_t n_positions, cdz_error *err)
{
    const cdz_arch *a = f->own.arch;
    if (a->n_buckets == 0) return CDZ_OK;
    return cdz_relative_reach(&f->relative, f->backend, a, &f->weights->relative, false,
                              n_positions, err);
}

void cdz_layers_set_prompts_first(cdz_layers *f, bool first)
{
    f->prompts_first = first;
}

cdz_status cdz_layers_create(cdz_backend *backend, const cdz_weights *weights, cdz_kv_pool *pool,
                             cdz_profile *profile, cdz_layers **out, cdz_error *err)
{
    cdz_layers *f = calloc(1, sizeof *f);
    if (!f) return cdz_err(err, CDZ_E_NOMEM, "out of memory for activations");
    f->backend = backend;
    f->profile = profile;
    f->weights = weights;
    f->own = f->stack = (cdz_layer_stack){.arch = &weights->arch,
                                          .layers = weights->layers,
                                          .store = cdz_kv_pool_store(pool),
                                          .relative = &f->relative};
    cdz_status status = CDZ_OK;
    if (!allocate_all(f))
        status =
            cdz_err(err, CDZ_E_NOMEM, "out of memory for activations of %d rows", CDZ_PASS_ROWS);
    if (status == CDZ_OK && weights->arch.encoder) status = cdz_encoder_create(f, err);
    if (status == CDZ_OK)
        *out = f;
    else
        cdz_layers_free(f);
    return status;
}

void cdz_layers_free(cdz_layers *f)
{
    if (!f) return;
    cdz_encoder_free(f);
    cdz_relative_free(&f->relative, f->backend);
    void *const all[] = {f->x,
                         f->normed,
                         f->given,
                         f->also_given,
                         f->q,
                         f->mixed,
                         f->k,
                         f->v,
                         f->gate,
                         f->up,
                         f->ends,
                         f->scores,
                         f->route_scores,
                         f->gathered,
                         f->expert_gives,
                         f->zeros,
                         f->expert_table};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) f->backend->api->free(f->backend, all[i]);
    free(f->route_ids);
    free(f->route_weights);
    free(f->made);
    free(f);
}

/* --- gathering ------------------------------------------------------------------------------------------ */

/* Positions of a sequence that the want is for. */
static uint32_t end_of(const cdz_want *want, const cdz_seq *seq)
{
    const uint32_t visible = cdz_seq_visible(seq);
    return want->until && want->until < visible ? want->until : visible;
}

void cdz_want_begin(cdz_want *want)
{
    want->at = 0;
    want->rows_left = 0;
    for (uint32_t i = 0; i < want->n_seqs; i++) {
        const cdz_seq *seq = want->seqs[i].seq;
        const uint32_t end = end_of(want, seq);
        if (end > seq->computed) want->rows_left += end - seq->computed;
    }
}

/* Notes where position p of a sequence sends its scores, if anywhere. */
static void want_scores(cdz_layers *f, const cdz_want *want, const cdz_want_seq *ws, uint32_t p,
                        uint32_t visible)
{
    if (want->positions == CDZ_POSITIONS_NONE) return;
    if (want->positions == CDZ_POSITIONS_LAST && p + 1 != visible) return;
    if (want->positions == CDZ_POSITIONS_ALL && p < ws->from) return;
    int64_t row = ws->row0;
    if (want->positions == CDZ_POSITIONS_ALL) row += want->by_index ? cdz_seq_slot(ws->seq, p) : p;
    cdz_away *away = want->away;
    const bool far = away && away->on;
    if (away && row < away->n_rows) away->there[row] = far;
    float *out = far ? away->rows : want->out;
    f->heads[f->n_heads++] = (head_row){
        .row = f->m,
        .to = out + (size_t)row * want->stride,
        .away = far ? away : NULL,
        .at = far ? (uint32_t)row : 0,
        .coming = !far && row < want->n_coming ? &want->coming[row] : NULL,
    };
}

/* What the pass's next row reads. */
static void read_slot(cdz_layers *f, const cdz_seq *seq, uint32_t slot)
{
    const bool given = slot < seq->n_embeds;
    f->embeds[f->m] = given ? seq->embeds + (size_t)slot * f->weights->arch.hidden : NULL;
    f->ids[f->m] = given ? 0 : seq->ids[slot - seq->n_embeds + seq->n_beside];
    f->any_embeds |= given;
}

static void want_hidden(cdz_layers *f, const cdz_want *want, const cdz_want_seq *ws, uint32_t p,
                        uint32_t visible)
{
    const bool all = want->hidden_positions == CDZ_POSITIONS_ALL;
    if (want->n_hidden == 0 || ws->no_hidden || (all ? p < ws->from : p + 1 != visible)) return;
    f->kept[f->n_kept++] = (kept_row){f->m, want, all ? ws->hidden0 + p : ws->hidden0};
}

/* Positions of a sequence that one pass takes; 0: no limit. */
static uint32_t most_at_once(const cdz_want *want, const cdz_seq *seq)
{
    if (!seq->account->spans || (want->chunk && want->chunk < CDZ_KV_CHUNK)) return want->chunk;
    return CDZ_KV_CHUNK;
}

/* Where the pass's next row packs its positions, if anywhere. */
static void note_packed(cdz_layers *f, const cdz_seq *seq)
{
    const cdz_kv_account *spans = seq->account->spans;
    f->packed[f->m] = spans ? cdz_kv_pool_store(spans->pool) : NULL;
    f->spans_of[f->m] = seq->spans;
    f->any_packed |= spans != NULL;
}

/* Takes up to the pass's room of a sequence's missing positions. Its cache counts them at once: nothing reads the
 * count before the pass has run. True when none is missing any more. */
static bool take_rows(cdz_layers *f, cdz_want *want, const cdz_want_seq *ws)
{
    cdz_seq *seq = ws->seq;
    const uint32_t visible = cdz_seq_visible(seq);
    uint32_t slot = seq->computed < visible ? cdz_seq_slot(seq, seq->computed) : 0;
    const uint32_t whole = end_of(want, seq);
    uint32_t end = whole;
    const uint32_t chunk = most_at_once(want, seq);
    if (chunk && whole > seq->computed && whole - seq->computed > chunk)
        end = seq->computed + chunk;
    while (seq->computed < end && f->m < CDZ_PASS_ROWS) {
        const uint32_t p = seq->computed++;
        while (slot < seq->mask_len && !seq->mask[slot]) slot++;
        f->positions[f->m] = f->own.arch->hidden_count ? slot : p;
        cdz_layers_see_row(f, ws->capture, seq, slot);
        read_slot(f, seq, slot++);
        f->rows[f->m] = (cdz_kv_row){seq->blocks, p, 0};
        note_packed(f, seq);
        if (seq->source) f->sources[f->m] = cdz_encoded_row(seq->source);
        want_scores(f, want, ws, p, visible);
        want_hidden(f, want, ws, p, visible);
        f->m++;
        want->rows_left--;
    }
    if (seq->computed > seq->reached) seq->reached = seq->computed;
    return seq->computed >= whole;
}

/* Rows [from, to) rotate by the frequencies of a length. */
static void note_span(cdz_layers *f, uint32_t length, uint32_t from, uint32_t to)
{
    const cdz_arch *a = &f->weights->arch;
    if (a->rope_limit == 0 || to == from) return;
    float *made = f->made ? f->made + (size_t)f->n_spans * (a->rope.n_rotated / 2) : NULL;
    f->spans[f->n_spans++] = (rope_span){from, to - from, cdz_rope_at(a, length, made)};
}

/* The length of the step that the pass's row, one of seq's last, would have been read in by itself; a prompt is one step. */
static uint32_t step_length(const cdz_layers *f, const cdz_want *want, const cdz_seq *seq,
                            uint32_t row)
{
    const uint32_t after = cdz_seq_visible(seq) - seq->computed + (f->m - 1 - row);
    const uint32_t length = want->length > after ? want->length - after : 0;
    return length > seq->begun ? length : seq->begun;
}

/* With dynamic rope a step rotates by its own length. So that drafts change no answer, positions that are read together have
 * the lengths that they would have had one by one. */
static void note_steps(cdz_layers *f, const cdz_want *want, const cdz_seq *seq, uint32_t from)
{
    for (uint32_t row = from, next; row < f->m; row = next) {
        const uint32_t length = step_length(f, want, seq, row);
        for (next = row + 1; next < f->m && step_length(f, want, seq, next) == length;) next++;
        note_span(f, length, row, next);
    }
}

/* Takes rows of a want's sequences, as many as there is room for. */
static void serve(cdz_layers *f, cdz_want *want)
{
    uint32_t row = f->m;
    want->served = true;
    for (uint32_t s = want->at; s < want->n_seqs && f->m < CDZ_PASS_ROWS; s++) {
        const cdz_seq *seq = want->seqs[s].seq;
        const uint32_t first = f->m;
        if (take_rows(f, want, &want->seqs[s]) && s == want->at) want->at++;
        if (!f->made || !want->as_they_came || seq->begun == 0) continue;
        note_span(f, want->length, row, first);
        note_steps(f, want, seq, first);
        row = f->m;
    }
    note_span(f, want->length, row, f->m);
}

static void gather(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    f->m = f->n_heads = f->n_kept = f->n_spans = 0;
    f->any_embeds = f->any_seen = f->any_packed = false;
    for (uint32_t i = 0; i < n; i++) wants[i]->served = false;
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < n && f->m < CDZ_PASS_ROWS; i++) {
            const bool prompt = wants[i]->rows_left > SHORT;
            if (!wants[i]->served && (turn || prompt == f->prompts_first)) serve(f, wants[i]);
        }
}

/* --- the layers ----------------------------------------------------------------------------------------- */

cdz_product cdz_layers_product(const cdz_linear *l, float *y)
{
    return (cdz_product){&l->w, l->bias.data ? &l->bias : NULL, y, l->w.n};
}

void cdz_layers_norm(cdz_layers *f, float *y, const float *x, size_t m, const cdz_norm *norm)
{
    const cdz_arch *a = f->stack.arch;
    const size_t n = norm->w.k;
    cdz_backend *b = f->backend;
    if (a->norm == CDZ_NORM_LAYER)
        b->api->layernorm(b, y, n, x, n, m, &norm->w, &norm->bias, a->norm_eps);
    else
        b->api->rmsnorm(b, y, n, x, n, m, &norm->w, a->norm_eps, a->norm_offset);
}

/* What a sublayer reads: x, or x normed. */
static const float *entering(cdz_layers *f, const cdz_norm *norm)
{
    if (!norm->w.data) return f->x;
    cdz_layers_norm(f, f->normed, f->x, f->m, norm);
    return f->normed;
}

/* x += what a sublayer gave; that or the sum is normed if the family does. */
static void leave(cdz_layers *f, float *given, const cdz_norm *norm)
{
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    const size_t D = f->stack.arch->hidden;
    const bool after = f->stack.arch->norm_after_sum;
    if (norm->w.data && !after) cdz_layers_norm(f, given, given, f->m, norm);
    f->backend->api->add(f->backend, f->x, D, given, D, f->m, D);
    if (norm->w.data && after) cdz_layers_norm(f, f->x, f->x, f->m, norm);
}

static void rotate(cdz_layers *f, float *x, size_t heads, const cdz_rope *rope)
{
    const size_t d = f->stack.arch->head_dim, wide = heads * d;
    cdz_backend *b = f->backend;
    if (f->n_spans == 0) b->api->rope(b, x, wide, f->m, heads, d, f->positions, rope);
    for (uint32_t i = 0; i < f->n_spans; i++) {
        const rope_span *s = &f->spans[i];
        b->api->rope(b, x + s->row * wide, wide, s->n, heads, d, f->positions + s->row, &s->rope);
    }
}

/* Norm and rotation of queries or keys (m, heads * d); a norm as wide as a head takes each alone. */
static void place_heads(cdz_layers *f, float *x, size_t heads, const cdz_norm *norm,
                        const cdz_rope *rope)
{
    const size_t d = f->stack.arch->head_dim, wide = heads * d;
    if (norm->w.data) cdz_layers_norm(f, x, x, f->m * (wide / norm->w.k), norm);
    if (rope) rotate(f, x, heads, rope);
}

/* Rows from r on whose older positions lie in the same store. */
static uint32_t same_store(const cdz_layers *f, uint32_t r)
{
    uint32_t n = 1;
    while (r + n < f->m && f->packed[r + n] == f->packed[r]) n++;
    return n;
}

static void pack_rows(cdz_layers *f, uint32_t layer)
{
    for (uint32_t r = 0, n; r < f->m; r += n) {
        n = same_store(f, r);
        if (f->packed[r])
            f->backend->api->kv_pack(f->backend, f->packed[r], f->stack.store, layer, f->rows + r,
                                     f->spans_of + r, n);
    }
}

void cdz_layers_project(cdz_layers *f, uint32_t layer, bool queries, bool keys)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_layer_weights *w = &f->stack.layers[layer];
    const cdz_rope *rope = cdz_arch_rope(a, layer);
    cdz_backend *b = f->backend;
    const size_t narrow = (size_t)a->n_kv_heads * a->head_dim;
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    const float *x = entering(f, &w->attn_norm);

    const cdz_product qkv[] = {cdz_layers_product(&w->q, f->q), cdz_layers_product(&w->k, f->k),
                               cdz_layers_product(&w->v, f->v)};
    const size_t n = (queries ? 1u : 0u) + (keys ? 2u : 0u);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, queries ? qkv : qkv + 1, n, x, a->hidden, f->m);
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    if (queries) place_heads(f, f->q, a->n_heads, &w->q_norm, rope);
    if (!keys) return;
    place_heads(f, f->k, a->n_kv_heads, &w->k_norm, rope);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    b->api->kv_write(b, f->stack.store, f->stack.one_layer ? 0 : layer, f->k, narrow, f->v, narrow,
                     f->rows, f->m);
    if (f->any_packed) pack_rows(f, layer);
}

/* Attention of all rows, those of one packed store at a time. */
static void mix(cdz_layers *f, uint32_t layer, cdz_attention how)
{
    const size_t wide = (size_t)f->stack.arch->n_heads * f->stack.arch->head_dim;
    for (uint32_t r = 0, n; r < f->m; r += n) {
        n = f->any_packed ? same_store(f, r) : f->m;
        how.packed = f->any_packed ? f->packed[r] : NULL;
        how.packed_blocks = how.packed ? f->spans_of + r : NULL;
        f->backend->api->attention(f->backend, f->mixed + r * wide, wide, f->q + r * wide, wide,
                                   f->stack.store, f->stack.one_layer ? 0 : layer, f->rows + r, n,
                                   &how);
    }
}

/* given = o(attention(q, k, v)) */
static void attend(cdz_layers *f, uint32_t layer, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const size_t wide = (size_t)a->n_heads * a->head_dim;
    cdz_backend *b = f->backend;
    cdz_attention how = {.n_heads = a->n_heads,
                         .scale = a->attention_scale,
                         .soft_cap = a->attention_cap,
                         .window = a->window[layer]};
    if (a->scale_by_layer) how.scale /= (float)(layer + 1);
    if (a->n_buckets) cdz_relative_apply(f->stack.relative, &how);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    mix(f, layer, how);
    if (f->any_seen) cdz_layers_see_attention(f, layer, &how);
    const cdz_product o = cdz_layers_product(&f->stack.layers[layer].o, given);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, &o, 1, f->mixed, wide, f->m);
}

/* given = o(attention(q of x, what the encoder made)) */
static void attend_source(cdz_layers *f, uint32_t layer, const float *x, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_layer_weights *w = &f->stack.layers[layer];
    const size_t wide = (size_t)a->n_heads * a->head_dim;
    cdz_backend *b = f->backend;
    const cdz_product q = cdz_layers_product(&w->cross_q, f->q),
                      o = cdz_layers_product(&w->cross_o, given);
    const cdz_attention how = {.n_heads = a->n_heads, .scale = a->attention_scale};
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, &q, 1, x, a->hidden, f->m);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    b->api->attention(b, f->mixed, wide, f->q, wide, f->stack.store, layer, f->sources, f->m, &how);
    if (f->any_seen) cdz_layers_see_cross(f, layer, &how);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, &o, 1, f->mixed, wide, f->m);
}

cdz_curve cdz_layers_curve(const cdz_arch *a)
{
    static const cdz_curve curves[] = {[CDZ_ACT_SILU] = CDZ_CURVE_SILU,
                                       [CDZ_ACT_GELU] = CDZ_CURVE_GELU,
                                       [CDZ_ACT_GELU_TANH] = CDZ_CURVE_GELU_TANH,
                                       [CDZ_ACT_RELU] = CDZ_CURVE_RELU};
    return curves[a->activation];
}

void cdz_layers_feed(cdz_layers *f, const cdz_feed_forward *w, const float *x, size_t m,
                     float *given)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const cdz_backend_api *api = b->api;
    const bool gated = w->gate.w.data;
    const size_t D = a->hidden, F = w->up.w.n;
    const float *inner = gated ? f->gate : f->up, *factor = gated ? f->up : NULL;

    const cdz_product halves[] = {cdz_layers_product(&w->up, f->up),
                                  cdz_layers_product(&w->gate, f->gate)};
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    api->matmul(b, halves, gated ? 2 : 1, x, D, m);
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    if (a->activation == CDZ_ACT_SILU && gated)
        api->silu_mul(b, f->gate, F, inner, factor, F, m, F);
    else
        api->activate(b, f->gate, F, inner, factor, F, m, F, cdz_layers_curve(a));
    const cdz_product down = cdz_layers_product(&w->down, given);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    api->matmul(b, &down, 1, f->gate, F, m);
}

void cdz_layers_finish(cdz_layers *f, uint32_t layer)
{
    const cdz_layer_weights *w = &f->stack.layers[layer];
    const bool parallel = f->stack.arch->parallel_residual;
    attend(f, layer, f->given);
    if (!parallel) leave(f, f->given, &w->attn_post_norm);
    if (w->cross_q.w.data) {
        attend_source(f, layer, entering(f, &w->cross_norm), f->given);
        leave(f, f->given, &w->cross_post_norm);
    }
    const float *x = entering(f, &w->mlp_norm);
    float *given = parallel ? f->also_given : f->given;
    if (w->router.w.data)
        cdz_layers_feed_experts(f, layer, x, given);
    else
        cdz_layers_feed(f, &w->mlp, x, f->m, given);
    if (parallel) leave(f, f->given, &w->attn_post_norm);
    leave(f, given, &w->mlp_post_norm);
}

static bool follows(const float *first, const float *next, size_t floats)
{
    return first && next == first + floats;
}

/* Rows that lie one after the other go over together. */
static void place_embeds(cdz_layers *f)
{
    const size_t D = f->stack.arch->hidden;
    cdz_backend *b = f->backend;
    for (uint32_t r = 0, n; r < f->m; r += n) {
        for (n = 1; r + n < f->m && follows(f->embeds[r], f->embeds[r + n], n * D); n++) continue;
        if (f->embeds[r]) b->api->upload(b, f->x + r * D, f->embeds[r], n * D * sizeof *f->x);
    }
}

static void run_layer(cdz_layers *f, uint32_t layer)
{
    cdz_layers_project(f, layer, true, true);
    cdz_layers_finish(f, layer);
}

void cdz_layers_embed(cdz_layers *f, const cdz_weight *table, const cdz_weight *positions,
                      const cdz_norm *norm)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden;
    cdz_profile_mark(f->profile, CDZ_WORK_EMBED);
    b->api->embed(b, f->x, D, table, f->ids, f->m);
    if (f->any_embeds && a->scales_given) place_embeds(f);
    if (a->embed_scale != 1.0f) b->api->scale(b, f->x, D, f->m, D, a->embed_scale);
    if (f->any_embeds && !a->scales_given) place_embeds(f);
    if (positions->data) {
        for (uint32_t r = 0; r < f->m; r++)
            f->picked[r] = (int32_t)(f->positions[r] + a->position_offset);
        b->api->embed(b, f->normed, D, positions, f->picked, f->m);
        b->api->add(b, f->x, D, f->normed, D, f->m, D);
    }
    if (norm->w.data) cdz_layers_norm(f, f->x, f->x, f->m, norm);
}

/* --- a pass -------------------------------------------------------------------------------------------- */

uint32_t cdz_layers_pass(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    const cdz_arch *a = f->stack.arch;
    const uint32_t encoded = f->encoder ? cdz_encoder_run(f, wants, n) : 0;
    gather(f, wants, n);
    if (f->m == 0) return encoded;
    cdz_layers_embed(f, &f->weights->embed, &f->weights->positions, &f->weights->embed_norm);
    const uint32_t depth = wants[0]->n_layers ? wants[0]->n_layers : a->n_layers;
    for (uint32_t layer = 0; layer < depth; layer++) {
        cdz_layers_keep_hidden(f, layer);
        if (f->any_seen) cdz_layers_see_hidden(f, layer, f->x);
        run_layer(f, layer);
    }
    cdz_layers_keep_last(f, depth);
    cdz_layers_score(f);
    return f->m + encoded;
}

cdz_status cdz_layers_check(const cdz_layers *f, cdz_error *err)
{
    const cdz_backend_api *api = f->backend->api;
    const char *trouble = api->trouble ? api->trouble(f->backend) : NULL;
    return trouble ? cdz_err(err, CDZ_E_IO, "the device has failed: %s", trouble) : CDZ_OK;
}
