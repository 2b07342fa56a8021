/* forward.c - gathers rows of wants into one pass and runs the layers; heads.c delivers what comes of them.

 * Shapes are said in layers.h. */
#include "run/pass/layers.h"

#include <math.h>
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
    const size_t inner = larger(a->expert_intermediate, a->intermediate);
    return larger(inner, a->shared_intermediate);
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

/* The sinks of all layers, to where a device reads them. */
static bool place_sinks(cdz_layers *f)
{
    const cdz_arch *a = f->own.arch;
    cdz_backend *b = f->backend;
    const size_t row = a->n_heads * sizeof *f->sinks;
    if (b->api->host_memory || !cdz_arch_has(a, CDZ_PART_SINKS)) return true;
    f->sinks = b->api->alloc(b, a->n_layers * row);
    for (uint32_t i = 0; i < a->n_layers && f->sinks; i++)
        b->api->upload(b, f->sinks + (size_t)i * a->n_heads, f->own.layers[i].sinks, row);
    return f->sinks;
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
    if (!f->backend->api->host_memory) {
        f->at_home = calloc(m, a->hidden * sizeof *f->at_home);
        if (!f->at_home) return false;
    }
    if (a->n_active == 0) return true;
    f->route_weights = calloc(m, a->n_active * sizeof *f->route_weights);
    f->route_ids = calloc(m, a->n_active * sizeof *f->route_ids);
    if (!cdz_layers_routes_plainly(a)) {
        f->route_home = calloc(m, a->n_experts * sizeof *f->route_home);
        if (!f->route_home) return false;
    }
    return f->route_weights && f->route_ids && cdz_layers_place_experts(f);
}

static bool allocate_all(cdz_layers *f)
{
    const cdz_arch *a = &f->weights->arch;
    const size_t m = CDZ_PASS_ROWS, D = a->hidden, V = a->n_vocab;
    size_t F = widest_inner(a), wide = (size_t)a->n_heads * a->head_dim;
    size_t narrow = (size_t)a->n_kv_heads * a->head_dim;
    const cdz_latent *l = &a->latent;
    if (l->kv_rank) wide = larger(wide, (size_t)a->n_heads * larger(l->plain, l->value));
    if (a->encoder) {
        F = larger(F, widest_inner(a->encoder));
        wide = larger(wide, (size_t)a->encoder->n_heads * a->encoder->head_dim);
        narrow = larger(narrow, (size_t)a->encoder->n_kv_heads * a->encoder->head_dim);
    }
    const bool far = !f->backend->api->host_memory;
    const cdz_recurrent *r = &a->recurrent;
    const size_t channels = r->kind ? cdz_recurrent_channels(a) : 0,
                 width = r->kind ? cdz_recurrent_width(a) : 0;
    const size_t beside = cdz_arch_mixes(a, 0, CDZ_MIX_ATTENTION) && a->kv_place &&
                                  cdz_arch_mixes(a, 0, CDZ_MIX_RECURRENT)
                              ? D
                              : 0;
    const size_t parallel = a->parallel_residual ? D : beside,
                 sparse = a->n_experts ? larger(D, a->expert_width) : 0;
    f->head_rows = far ? FAR_HEAD_ROWS : HEAD_ROWS;
    const piece pieces[] = {
        {&f->x, m, D},
        {&f->normed, m, D},
        {&f->given, m, D},
        {&f->also_given, m, parallel},
        {&f->q, m, wide},
        {&f->mixed, m, wide},
        {&f->k, m, narrow},
        {&f->v, m, larger(narrow, l->q_rank)},
        {&f->gate, m, F},
        {&f->up, m, F},
        {&f->ends, f->head_rows, D},
        {&f->scores, f->head_rows, V},
        {&f->mix_in, m, channels},
        {&f->mix_conv, m, channels},
        {&f->mix_gate, m, width},
        {&f->mix_y, m, width},
        {&f->mix_share, m, r->kind == CDZ_MIX_CONV ? width : r->heads},
        {&f->mix_decay, m, r->heads},
        {&f->q_gate, m, a->attention_gate ? wide : 0},
        {&f->route_scores, m, a->n_experts},
        {&f->gathered, m, sparse},
        {&f->expert_gives, m, sparse},
        {&f->latent, m, a->expert_width},
        {&f->latent_gives, m, a->expert_width},
    };
    return allocate(f, pieces, sizeof pieces / sizeof *pieces) && allocate_here(f) &&
           place_sinks(f) && cdz_layers_place_vectors(f) && cdz_layers_make_streams(f);
}

cdz_status cdz_layers_reach(cdz_layers *f, uint32_t n_positions, cdz_error *err)
{
    const cdz_arch *a = f->own.arch;
    if (!cdz_arch_adds_by_distance(a)) return CDZ_OK;
    return cdz_relative_reach(&f->relative, f->backend, a, &f->weights->relative, false,
                              n_positions, err);
}

void cdz_layers_set_prompts_first(cdz_layers *f, bool first)
{
    f->prompts_first = first;
}

void cdz_layers_set_bite(cdz_layers *f, uint32_t rows)
{
    f->bite = rows;
}

uint32_t cdz_layers_n_decoding(const cdz_layers *f)
{
    return f->n_decoding;
}

cdz_status cdz_layers_create(cdz_backend *backend, const cdz_weights *weights, cdz_kv_pool *pool,
                             cdz_profile *profile, cdz_layers **out, cdz_error *err)
{
    cdz_layers *f = calloc(1, sizeof *f);
    if (!f) return cdz_err_memory(err, "activations");
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
    cdz_layers_free_streams(f);
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
                         f->latent,
                         f->latent_gives,
                         f->mix_in,
                         f->mix_conv,
                         f->mix_gate,
                         f->mix_y,
                         f->mix_share,
                         f->mix_decay,
                         f->q_gate,
                         f->expert_table,
                         f->sinks,
                         f->mix_vectors};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) f->backend->api->free(f->backend, all[i]);
    free(f->route_home);
    free(f->route_ids);
    free(f->route_weights);
    free(f->made);
    free(f->at_home);
    free(f);
}

/* --- gathering ------------------------------------------------------------------------------------------ */

/* Positions of a sequence that the want is for. */
static uint32_t end_of(const cdz_want *want, const cdz_seq *seq)
{
    const uint32_t visible = cdz_seq_visible(seq);
    return want->until && want->until < visible ? want->until : visible;
}

bool cdz_want_reads_all(const cdz_want *want, const cdz_want_seq *ws)
{
    const bool hidden = want->n_hidden && want->hidden_positions != CDZ_POSITIONS_LAST;
    return want->positions == CDZ_POSITIONS_ALL || hidden || ws->capture;
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
    float *out = far && away->rows ? away->rows : want->out;
    f->heads[f->n_heads++] = (head_row){
        .row = f->m,
        .to = out + (size_t)row * want->stride,
        .away = far ? away : NULL,
        .at = far ? (uint32_t)row : 0,
        .coming = !far && row < want->n_coming ? &want->coming[row] : NULL,
    };
}

/* What the pass's next row, position p, reads. */
static void read_slot(cdz_layers *f, const cdz_seq *seq, uint32_t p, uint32_t slot)
{
    const float *vector = slot < seq->n_embeds
                              ? seq->embeds + (size_t)slot * f->weights->arch.hidden
                              : cdz_given_at(seq->given, seq->given_to, p);
    f->embeds[f->m] = vector;
    f->ids[f->m] = vector ? 0 : seq->ids[slot - seq->n_embeds + seq->n_beside];
    f->any_embeds |= vector != NULL;
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

static void note_edits(cdz_layers *f, const cdz_seq *seq, uint32_t p)
{
    const bool edited = cdz_steering_reaches(seq->edits, p);
    f->edited[f->m] = edited ? seq : NULL;
    f->any_edited |= edited;
}

/* The pass's next rows are this sequence's, whose state they go on from. */
static void begin_run(cdz_layers *f, const cdz_seq *seq)
{
    if (!cdz_seq_recurs(seq)) return;
    f->runs[f->n_runs++] = (cdz_state_run){
        .first = f->m, .state = cdz_kv_state(seq->account->states->pool, seq->state)};
}

static void end_run(cdz_layers *f, const cdz_seq *seq)
{
    if (!cdz_seq_recurs(seq)) return;
    cdz_state_run *run = &f->runs[f->n_runs - 1];
    run->n = f->m - run->first;
    if (run->n == 0) f->n_runs--;
}

/* The end of what one pass takes of a sequence: no more than `chunk` positions, and none beyond where its state is noted or
 * its cache is pressed. */
static uint32_t end_of_pass(const cdz_seq *seq, uint32_t whole, uint32_t chunk)
{
    uint32_t end = whole;
    if (chunk && whole > seq->computed && whole - seq->computed > chunk)
        end = seq->computed + chunk;
    const uint32_t pressed = cdz_press_next(seq);
    if (pressed < end) end = pressed;
    const uint32_t dropped = cdz_drop_next(seq);
    if (dropped < end) end = dropped;
    const uint32_t noted = (seq->computed / CDZ_STATE_EVERY + 1) * CDZ_STATE_EVERY;
    return cdz_seq_recurs(seq) && noted < end ? noted : end;
}

/* Takes up to the pass's room of a sequence's missing positions. Its cache counts them at once: nothing reads the
 * count before the pass has run. True when none is missing any more. */
static bool take_rows(cdz_layers *f, cdz_want *want, const cdz_want_seq *ws)
{
    cdz_seq *seq = ws->seq;
    const uint32_t visible = cdz_seq_visible(seq);
    uint32_t slot = seq->computed < visible ? cdz_seq_slot(seq, seq->computed) : 0;
    const uint32_t whole = end_of(want, seq);
    const uint32_t end = end_of_pass(seq, whole, most_at_once(want, seq));
    if (seq->computed < end) cdz_seq_mark(seq);
    const cdz_pressed *pressed = seq->pressed;
    const uint32_t gone = pressed ? pressed->at - pressed->n : 0, back = pressed ? pressed->back : 0;
    const uint32_t *less = pressed ? pressed->less : NULL;
    begin_run(f, seq);
    while (seq->computed < end && f->m < f->room) {
        const uint32_t p = seq->computed++;
        while (slot < seq->mask_len && !seq->mask[slot]) slot++;
        f->positions[f->m] = (f->own.arch->hidden_count ? slot : p) - back;
        cdz_layers_see_row(f, ws->capture, seq, slot);
        read_slot(f, seq, p, slot++);
        f->rows[f->m] = (cdz_kv_row){seq->blocks, p - gone, 0, less};
        f->noted[f->m] = (cdz_press_row){seq->notes, p};
        f->any_noted |= seq->notes != NULL;
        note_packed(f, seq);
        note_edits(f, seq, p);
        if (seq->source) f->sources[f->m] = cdz_encoded_row(seq->source);
        want_scores(f, want, ws, p, visible);
        want_hidden(f, want, ws, p, visible);
        f->m++;
        want->rows_left--;
    }
    end_run(f, seq);
    if (seq->computed > seq->reached) seq->reached = seq->computed;
    if (seq->computed > seq->known) seq->known = seq->computed;
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
static uint32_t step_length(const cdz_layers *f, const cdz_want_seq *ws, uint32_t row)
{
    const uint32_t after = cdz_seq_visible(ws->seq) - ws->seq->computed + (f->m - 1 - row);
    const uint32_t length = ws->length > after ? ws->length - after : 0;
    return length > ws->begun ? length : ws->begun;
}

/* With dynamic rope a step rotates by its own length. So that drafts change no answer, positions that are read together have
 * the lengths that they would have had one by one. Longrope has one set of frequencies for a whole cache. */
static void note_steps(cdz_layers *f, const cdz_want_seq *ws, uint32_t from)
{
    if (!f->made || ws->begun == 0) {
        note_span(f, ws->length, from, f->m);
        return;
    }
    for (uint32_t row = from, next; row < f->m; row = next) {
        const uint32_t length = step_length(f, ws, row);
        for (next = row + 1; next < f->m && step_length(f, ws, next) == length;) next++;
        note_span(f, length, row, next);
    }
}

/* Takes rows of a want's sequences, as many as there is room for. */
static void serve(cdz_layers *f, cdz_want *want)
{
    uint32_t row = f->m;
    want->served = true;
    for (uint32_t s = want->at; s < want->n_seqs && f->m < f->room; s++) {
        const cdz_want_seq *ws = &want->seqs[s];
        const uint32_t first = f->m;
        if (take_rows(f, want, ws) && s == want->at) want->at++;
        if (ws->length == 0) continue;
        note_span(f, want->length, row, first);
        note_steps(f, ws, first);
        row = f->m;
    }
    note_span(f, want->length, row, f->m);
}

static bool is_prompt(const cdz_want *want)
{
    return want->rows_left > SHORT;
}

/* What decodes waits for the prompts' rows that come now. */
static void limit_prompts(cdz_layers *f)
{
    const uint32_t left = CDZ_PASS_ROWS - f->m;
    if (f->bite && f->bite < left) f->room = f->m + f->bite;
}

static bool any_decodes(cdz_want *const *wants, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!is_prompt(wants[i])) return true;
    return false;
}

/* Those of one group that are not in the pass yet, as many as there is room for. */
static void serve_group(cdz_layers *f, cdz_want *const *wants, uint32_t n, bool prompts)
{
    for (uint32_t i = 0; i < n && f->m < f->room; i++) {
        const uint32_t before = f->m;
        if (wants[i]->served || is_prompt(wants[i]) != prompts) continue;
        serve(f, wants[i]);
        if (!prompts) f->n_decoding += f->m - before;
    }
}

static void gather(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    f->m = f->n_heads = f->n_kept = f->n_spans = f->n_runs = 0;
    f->any_embeds = f->any_seen = f->any_packed = f->any_noted = f->any_edited = false;
    for (uint32_t i = 0; i < n; i++) wants[i]->served = false;
    f->room = CDZ_PASS_ROWS;
    f->n_decoding = 0;
    if (f->prompts_first && any_decodes(wants, n)) limit_prompts(f);
    serve_group(f, wants, n, f->prompts_first);
    f->room = CDZ_PASS_ROWS;
    if (!f->prompts_first && f->n_decoding) limit_prompts(f);
    serve_group(f, wants, n, !f->prompts_first);
}

/* --- the layers ----------------------------------------------------------------------------------------- */

cdz_product cdz_layers_product(const cdz_linear *l, float *y)
{
    return (cdz_product){&l->w, l->bias.data ? &l->bias : NULL, y, l->w.n};
}

void cdz_layers_norm(cdz_layers *f, float *y, const float *x, size_t m, const cdz_norm *norm)
{
    cdz_layers_norm_of(f, f->stack.arch, y, x, m, norm);
}

void cdz_layers_norm_of(cdz_layers *f, const cdz_arch *a, float *y, const float *x, size_t m,
                        const cdz_norm *norm)
{
    const size_t n = norm->w.k;
    cdz_backend *b = f->backend;
    if (a->norm == CDZ_NORM_LAYER)
        b->api->layernorm(b, y, n, x, n, m, &norm->w, &norm->bias, a->norm_eps);
    else
        b->api->rmsnorm(b, y, n, x, n, m, &norm->w, a->norm_eps, a->norm_offset);
}

const float *cdz_layers_enter(cdz_layers *f, const cdz_norm *norm)
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
    const float scale = f->stack.arch->residual_scale;
    if (norm->w.data && !after) cdz_layers_norm(f, given, given, f->m, norm);
    if (scale != 1.0f) f->backend->api->scale(f->backend, given, D, f->m, D, scale);
    f->backend->api->add(f->backend, f->x, D, given, D, f->m, D);
    if (norm->w.data && after) cdz_layers_norm(f, f->x, f->x, f->m, norm);
}

const float *cdz_layers_scaled(cdz_layers *f, float *to, const float *x, float factor)
{
    const size_t D = f->stack.arch->hidden;
    if (factor == 1.0f) return x;
    f->backend->api->copy(f->backend, to, x, f->m * D * sizeof *x);
    f->backend->api->scale(f->backend, to, D, f->m, D, factor);
    return to;
}

uint32_t cdz_layers_store(const cdz_layers *f, uint32_t layer)
{
    return f->stack.one_layer ? 0 : cdz_arch_kv_place(f->stack.arch, layer);
}

void cdz_layers_rotate(cdz_layers *f, float *x, size_t ldx, size_t heads, size_t head_dim,
                       const cdz_rope *rope)
{
    cdz_backend *b = f->backend;
    if (f->n_spans == 0) b->api->rope(b, x, ldx, f->m, heads, head_dim, f->positions, rope);
    for (uint32_t i = 0; i < f->n_spans; i++) {
        const rope_span *s = &f->spans[i];
        b->api->rope(b, x + s->row * ldx, ldx, s->n, heads, head_dim, f->positions + s->row,
                     &s->rope);
    }
}

static void rotate(cdz_layers *f, float *x, size_t heads, const cdz_rope *rope)
{
    const size_t d = f->stack.arch->head_dim;
    cdz_layers_rotate(f, x, heads * d, heads, d, rope);
}

/* Each head of rows of so many normed with weights of its own, which lie side by side. */
static void norm_each(cdz_layers *f, float *x, size_t heads, const cdz_norm *norm)
{
    const cdz_arch *a = f->stack.arch;
    const size_t d = a->head_dim, wide = heads * d;
    cdz_weight w = norm->w, bias = norm->bias;
    w.k = bias.k = d;
    for (size_t h = 0; h < heads; h++) {
        w.data = (const char *)norm->w.data + cdz_row_bytes(w.dtype, h * d);
        f->backend->api->layernorm(f->backend, x + h * d, wide, x + h * d, wide, f->m, &w, &bias,
                                   a->norm_eps);
    }
}

static void norm_heads(cdz_layers *f, float *x, size_t heads, const cdz_norm *norm)
{
    const size_t wide = heads * f->stack.arch->head_dim;
    if (norm->w.data && f->stack.arch->qk_norm == CDZ_QK_EACH)
        norm_each(f, x, heads, norm);
    else if (norm->w.data)
        cdz_layers_norm(f, x, x, f->m * (wide / norm->w.k), norm);
}

/* Norm and rotation of queries or keys (m, heads * d), in the family's order; a norm as wide as a head takes each alone. */
static void place_heads(cdz_layers *f, float *x, size_t heads, const cdz_norm *norm,
                        const cdz_rope *rope)
{
    const bool last = f->stack.arch->qk_norm_last;
    if (rope && last) rotate(f, x, heads, rope);
    norm_heads(f, x, heads, norm);
    if (rope && !last) rotate(f, x, heads, rope);
}

/* Queries grow with their positions; the memory of what attention gives is free until then. */
static void temper(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_temper *t = &a->temper;
    const size_t wide = (size_t)a->n_heads * a->head_dim;
    uint32_t n = 0;
    if (t->every == 0 || (t->unrotated && cdz_arch_rope(a, layer))) return;
    for (uint32_t r = 0; r < f->m; r++) {
        f->picked[r] = (int32_t)r;
        f->shares[r] =
            (float)(t->by * log(1 + floor(((double)f->positions[r] + t->ahead) / t->every)));
        n += f->shares[r] != 0.0f;
    }
    if (n == 0) return;
    f->backend->api->copy(f->backend, f->mixed, f->q, f->m * wide * sizeof *f->q);
    f->backend->api->add_scaled(f->backend, f->q, wide, f->picked, f->shares, f->mixed, wide, f->m,
                                wide);
}

static void place_queries(cdz_layers *f, uint32_t layer, const cdz_norm *norm, const cdz_rope *rope)
{
    const cdz_arch *a = f->stack.arch;
    if (!f->any_noted || a->qk_norm_last) {
        place_heads(f, f->q, a->n_heads, norm, rope);
    } else {
        norm_heads(f, f->q, a->n_heads, norm);
        cdz_press_see_plain(f, layer);
        if (rope) rotate(f, f->q, a->n_heads, rope);
    }
    temper(f, layer);
    if (f->any_noted) cdz_press_see_queries(f, layer);
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
            f->backend->api->kv_pack(f->backend, f->packed[r], f->stack.store,
                                     cdz_layers_store(f, layer), f->rows + r, f->spans_of + r, n);
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
    const float *x = cdz_layers_enter(f, &w->attn_norm);
    if (a->attention_in != 1.0f) x = cdz_layers_scaled(f, f->given, x, a->attention_in);
    if (f->any_noted) cdz_press_see_hidden(f, layer, x);
    if (w->latent) {
        cdz_latent_project(f, layer, x, queries, keys);
        return;
    }

    const cdz_product qkv[] = {cdz_layers_product(&w->q, f->q), cdz_layers_product(&w->k, f->k),
                               cdz_layers_product(&w->v, f->v),
                               cdz_layers_product(&w->q_gate, f->q_gate)};
    const size_t n = (queries ? 1u : 0u) + (keys ? 2u : 0u) + (w->q_gate.w.data ? 1u : 0u);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, queries ? qkv : qkv + 1, n, x, a->hidden, f->m);
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    if (a->key_scale != 1.0f && keys) b->api->scale(b, f->k, narrow, f->m, narrow, a->key_scale);
    if (queries) {
        place_queries(f, layer, &w->q_norm, rope);
    }
    if (!keys) return;
    place_heads(f, f->k, a->n_kv_heads, &w->k_norm, rope);
    if (w->v_norm.w.data) cdz_layers_norm(f, f->v, f->v, f->m * a->n_kv_heads, &w->v_norm);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    b->api->kv_write(b, f->stack.store, cdz_layers_store(f, layer), f->k, narrow, f->v, narrow,
                     f->rows, f->m);
    if (f->any_packed) pack_rows(f, layer);
}

uint32_t cdz_layers_window(const cdz_layers *f, uint32_t layer, uint32_t row)
{
    const uint32_t window = f->stack.arch->window[layer], p = f->rows[row].position;
    if (!f->stack.arch->window_blocks || window == 0) return window;
    return p < window ? 0 : p % window + 1;
}

/* Rows from r on, of n, that see as many positions: only blocks differ. */
static uint32_t same_window(const cdz_layers *f, uint32_t layer, uint32_t r, uint32_t n)
{
    uint32_t run = 1;
    if (!f->stack.arch->window_blocks) return n;
    while (run < n && cdz_layers_window(f, layer, r + run) == cdz_layers_window(f, layer, r)) run++;
    return run;
}

/* Attention of all rows, those of one packed store and of one window at a time. */
static void mix(cdz_layers *f, uint32_t layer, cdz_attention how)
{
    const size_t wide = (size_t)f->stack.arch->n_heads * f->stack.arch->head_dim;
    const size_t given = f->stack.arch->latent.kv_rank ? cdz_latent_width(f->stack.arch) : wide;
    for (uint32_t r = 0, n; r < f->m; r += n) {
        n = same_window(f, layer, r, f->any_packed ? same_store(f, r) : f->m - r);
        how.window = cdz_layers_window(f, layer, r);
        how.packed = f->any_packed ? f->packed[r] : NULL;
        how.packed_blocks = how.packed ? f->spans_of + r : NULL;
        f->backend->api->attention(f->backend, f->mixed + r * given, given, f->q + r * wide, wide,
                                   f->stack.store, cdz_layers_store(f, layer), f->rows + r, n, &how);
    }
}

cdz_attention cdz_layers_attention(const cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    cdz_attention how = {.n_heads = a->n_heads,
                         .scale = a->attention_scale,
                         .soft_cap = a->attention_cap,
                         .window = a->window[layer],
                         .sinks = f->sinks && a == f->own.arch
                                      ? f->sinks + (size_t)layer * a->n_heads
                                      : f->stack.layers[layer].sinks};
    if (a->scale_by_layer) how.scale /= (float)(layer + 1);
    if (cdz_arch_adds_by_distance(a)) cdz_relative_apply(f->stack.relative, layer, &how);
    return how;
}

/* given = o(attention(q, k, v)) */
static void attend(cdz_layers *f, uint32_t layer, float *given)
{
    const cdz_arch *a = f->stack.arch;
    size_t wide = (size_t)a->n_heads * a->head_dim;
    const float *mixed = f->mixed;
    cdz_backend *b = f->backend;
    const cdz_attention how = cdz_layers_attention(f, layer);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    mix(f, layer, how);
    if (f->any_seen) cdz_layers_see_attention(f, layer, &how);
    if (f->any_noted) cdz_press_see_attention(f, layer, &how);
    if (a->attention_gate) {
        b->api->activate(b, f->q_gate, wide, f->q_gate, f->mixed, wide, f->m, wide,
                         CDZ_CURVE_SIGMOID);
        mixed = f->q_gate;
    }
    const cdz_product o = cdz_layers_product(&f->stack.layers[layer].o, given);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    if (a->latent.kv_rank) {
        wide = cdz_latent_values(f, layer);
        mixed = f->q;
    }
    b->api->matmul(b, &o, 1, mixed, wide, f->m);
    if (a->attention_out != 1.0f)
        b->api->scale(b, given, a->hidden, f->m, a->hidden, a->attention_out);
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
                                       [CDZ_ACT_RELU] = CDZ_CURVE_RELU,
                                       [CDZ_ACT_RELU2] = CDZ_CURVE_RELU,
                                       [CDZ_ACT_CLAMPED] = CDZ_CURVE_SILU /* clamped_mul */,
                                       [CDZ_ACT_XIELU] = CDZ_CURVE_SILU /* xielu */};
    return curves[a->activation];
}

void cdz_layers_feed(cdz_layers *f, const cdz_feed_forward *w, const float *x, size_t m,
                     float *given)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const cdz_backend_api *api = b->api;
    const bool gated = w->gate.w.data;
    const size_t D = w->up.w.k, F = w->up.w.n;
    const float *inner = gated ? f->gate : f->up;
    /* relu squared is relu times what it is of: there is no gate then. */
    const float *factor = gated || a->activation == CDZ_ACT_RELU2 ? f->up : NULL;

    const cdz_product halves[] = {cdz_layers_product(&w->up, f->up),
                                  cdz_layers_product(&w->gate, f->gate)};
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    api->matmul(b, halves, gated ? 2 : 1, x, D, m);
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    if (w->cut) cdz_layers_cut(f, f->gate, F, m, *w->cut);
    if (gated && a->gate_scale != 1.0f) api->scale(b, f->gate, F, m, F, a->gate_scale);
    if (a->activation == CDZ_ACT_CLAMPED)
        api->clamped_mul(b, f->gate, F, inner, factor, F, m, F);
    else if (a->activation == CDZ_ACT_XIELU)
        api->xielu(b, f->gate, F, inner, F, m, F, &w->xielu);
    else if (a->activation == CDZ_ACT_SILU && gated)
        api->silu_mul(b, f->gate, F, inner, factor, F, m, F);
    else
        api->activate(b, f->gate, F, inner, factor, F, m, F, cdz_layers_curve(a));
    const cdz_product down = cdz_layers_product(&w->down, given);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    api->matmul(b, &down, 1, f->gate, F, m);
    if (a->down_scale != 1.0f) api->scale(b, given, D, m, D, a->down_scale);
}

/* Rows from r on that are of one sequence, and all edited: their positions follow one another. */
static uint32_t edited_together(const cdz_layers *f, uint32_t r)
{
    uint32_t n = 1;
    while (r + n < f->m && f->edited[r + n] == f->edited[r]) n++;
    return n;
}

static void edit_rows(cdz_layers *f, uint32_t layer, cdz_edit_place place, uint32_t r, uint32_t n,
                      float *x)
{
    cdz_backend *b = f->backend;
    const size_t bytes = n * (size_t)f->stack.arch->hidden * sizeof *x;
    const bool far = !b->api->host_memory;
    float *h = far ? f->at_home : x;
    if (far) b->api->download(b, h, x, bytes);
    cdz_steering_apply(f->edited[r]->edits, layer, place, f->noted[r].position, n, h);
    if (far) b->api->upload(b, x, h, bytes);
}

/* Rows that have edits of a layer at this place, in x (m, D). On a device they come home for it and go back. */
static void edit(cdz_layers *f, uint32_t layer, cdz_edit_place place, float *x)
{
    const size_t D = f->stack.arch->hidden;
    if (!f->any_edited) return;
    const cdz_work was = cdz_profile_mark(f->profile, CDZ_WORK_PROCESSORS);
    for (uint32_t r = 0, n; r < f->m; r += n) {
        n = edited_together(f, r);
        if (f->edited[r] && cdz_steering_edits(f->edited[r]->edits, layer, place))
            edit_rows(f, layer, place, r, n, x + r * D);
    }
    cdz_profile_mark(f->profile, was);
}

/* given = what the layer's mixers give together. */
static void mix_positions(cdz_layers *f, uint32_t layer, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const size_t D = a->hidden;
    const bool attends = cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION);
    const cdz_norm *norm = &f->stack.layers[layer].attn_norm;
    if (attends) attend(f, layer, given);
    if (!cdz_arch_mixes(a, layer, CDZ_MIX_RECURRENT)) return;
    if (!attends) {
        cdz_layers_recur(f, layer, cdz_layers_enter(f, norm), given);
        return;
    }
    cdz_layers_recur(f, layer, norm->w.data ? f->normed : f->x, f->also_given);
    f->backend->api->add(f->backend, given, D, f->also_given, D, f->m, D);
}

void cdz_layers_finish(cdz_layers *f, uint32_t layer)
{
    const cdz_layer_weights *w = &f->stack.layers[layer];
    const bool parallel = f->stack.arch->parallel_residual;
    const bool mixes = !f->stack.arch->mixers || f->stack.arch->mixers[layer];
    if (mixes) mix_positions(f, layer, f->given);
    if (mixes) edit(f, layer, CDZ_EDIT_ATTENTION, f->given);
    if (mixes && !parallel) leave(f, f->given, &w->attn_post_norm);
    cdz_layers_add_laurel(f);
    if (w->cross_q.w.data) {
        attend_source(f, layer, cdz_layers_enter(f, &w->cross_norm), f->given);
        leave(f, f->given, &w->cross_post_norm);
    }
    if (!cdz_arch_feeds(f->stack.arch, layer)) return;
    /* A layer with one norm has its rows still there. */
    const bool once = parallel && !w->mlp_norm.w.data;
    const float *x = once ? f->normed : cdz_layers_enter(f, &w->mlp_norm);
    float *given = parallel ? f->also_given : f->given;
    if (w->router.w.data)
        cdz_layers_feed_experts(f, layer, x, given);
    else
        cdz_layers_feed(f, &w->mlp, x, f->m, given);
    edit(f, layer, CDZ_EDIT_MLP, given);
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
    const cdz_arch *a = f->stack.arch;
    cdz_layers_foretell(f, layer);
    if (cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION))
        cdz_layers_project(f, layer, true, layer + a->n_kv_shared < a->n_layers);
    cdz_layers_finish(f, layer);
    cdz_layers_correct(f, layer);
    edit(f, layer, CDZ_EDIT_BLOCK, f->x);
}

static void add_positions(cdz_layers *f, const cdz_weight *positions)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden;
    for (uint32_t r = 0; r < f->m; r++) {
        const bool unplaced =
            a->placing.unplaced >= 0 && f->ids[r] == a->placing.unplaced && !f->embeds[r];
        f->picked[r] =
            unplaced ? a->placing.unplaced : (int32_t)(f->positions[r] + a->placing.offset);
    }
    b->api->embed(b, f->normed, D, positions, f->picked, f->m);
    b->api->add(b, f->x, D, f->normed, D, f->m, D);
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
    if (norm->w.data && a->placing.after_norm) cdz_layers_norm(f, f->x, f->x, f->m, norm);
    if (positions->data) add_positions(f, positions);
    if (norm->w.data && !a->placing.after_norm) cdz_layers_norm(f, f->x, f->x, f->m, norm);
}

/* n <= head_rows rows. */
static void inputs_of(cdz_layers *f, const int32_t *ids, uint32_t n, float *out)
{
    const cdz_arch *a = &f->weights->arch;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden;
    b->api->embed(b, f->ends, D, &f->weights->embed, ids, n);
    if (a->embed_scale != 1.0f && !a->scales_given)
        b->api->scale(b, f->ends, D, n, D, a->embed_scale);
    b->api->download(b, out, f->ends, n * D * sizeof *out);
}

void cdz_layers_inputs(cdz_layers *f, const int32_t *ids, uint32_t n, float *out)
{
    const size_t D = f->weights->arch.hidden;
    const uint32_t most = f->head_rows;
    const cdz_work was = cdz_profile_mark(f->profile, CDZ_WORK_EMBED);
    for (uint32_t i = 0; i < n; i += most)
        inputs_of(f, ids + i, n - i < most ? n - i : most, out + i * D);
    cdz_profile_mark(f->profile, was);
}

/* --- a pass -------------------------------------------------------------------------------------------- */

/* What is due where sequences have come to now. A drop that fails counts as done, and the sequence has failed. */
static void press_all(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < wants[i]->n_seqs; s++) {
            cdz_seq *seq = wants[i]->seqs[s].seq;
            cdz_error unheard = {0};
            if (seq->press) cdz_press_run(f, seq);
            if (cdz_drop_run(f, seq, &unheard) == CDZ_OK) continue;
            seq->drop_failed = true;
            seq->n_dropped = cdz_drops_by(seq->drops, seq->n_drops, seq->computed);
        }
}

uint32_t cdz_layers_pass(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    const cdz_arch *a = f->stack.arch;
    const uint32_t encoded = f->encoder ? cdz_encoder_run(f, wants, n) : 0;
    gather(f, wants, n);
    if (f->m == 0) return encoded;
    cdz_layers_embed(f, &f->weights->embed, &f->weights->positions, &f->weights->embed_norm);
    edit(f, 0, CDZ_EDIT_EMBEDDING, f->x);
    cdz_layers_begin_streams(f);
    const uint32_t depth = wants[0]->n_layers ? wants[0]->n_layers : a->n_layers;
    for (uint32_t layer = 0; layer < depth; layer++) {
        cdz_layers_keep_hidden(f, layer);
        if (f->any_seen) cdz_layers_see_hidden(f, layer, f->x);
        run_layer(f, layer);
    }
    cdz_layers_end_streams(f);
    cdz_layers_keep_last(f, depth);
    cdz_layers_score(f);
    press_all(f, wants, n);
    return f->m + encoded;
}

cdz_status cdz_layers_check(const cdz_layers *f, cdz_error *err)
{
    const cdz_backend_api *api = f->backend->api;
    const char *trouble = api->trouble ? api->trouble(f->backend) : NULL;
    return trouble ? cdz_err(err, CDZ_E_IO, "the device has failed: %s", trouble) : CDZ_OK;
}
