/* press.c - when a sequence is pressed, and what is noted for that while its positions are read.
 *
 * Owns: the notes of a sequence, and the count of who holds what a press has left. Not: the press itself (press_run.c), whose
 * blocks they are (sequence.c). Sums over positions are in the order of positions, and products of queries are summed over runs of
 * absolute positions, so they hang on no pass. */
#include "run/pass/press.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/families.h"
#include "run/pass/layers.h"
#include "run/pass/model.h"
#include "run/pass/press_notes.h"
#include "run/pass/sequence.h"
#include "vec/vec.h"

/* --- what can be pressed ------------------------------------------------------------------------------------------ */

bool cdz_press_reads_layer(const cdz_arch *arch, uint32_t layer)
{
    return cdz_arch_mixes(arch, layer, CDZ_MIX_ATTENTION) && arch->window[layer] == 0;
}

const char *cdz_press_obstacle(const cdz_run_model *model)
{
    const cdz_arch *a = &model->weights->arch;
    const cdz_backend_api *api = model->device->api;
    if (model->function.forward) return "passes of its own";
    if (!api->kv_get || !api->kv_keep || !api->kv_put_keys) return "its caches on a device";
    if (a->encoder) return "an encoder";
    if (a->latent.kv_rank) return "latent attention";
    if (model->state_bytes) return "recurrent layers";
    if (a->n_kv_shared) return "layers that share keys and values";
    if (a->window_blocks) return "windows of blocks";
    if (cdz_arch_adds_by_distance(a)) return "positions that are relative";
    if (a->rope_limit) return "frequencies that depend on the length";
    return NULL;
}

bool cdz_press_turns(const cdz_arch *arch)
{
    return arch->qk_norm == CDZ_QK_NONE || !arch->qk_norm_last || arch->family->qk_norm_bare;
}

cdz_status cdz_press_fits(const cdz_run_model *model, cdz_error *err)
{
    const cdz_arch *a = &model->weights->arch;
    const char *why = cdz_press_obstacle(model);
    if (why)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "press: a model with %s cannot be pressed", why);
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (cdz_press_reads_layer(a, i)) return CDZ_OK;
    return cdz_err(
        err, CDZ_E_UNSUPPORTED,
        "press: every layer of this model has a sliding window, and these are kept whole");
}

/* --- when --------------------------------------------------------------------------------------------------------- */

/* What comes after the press of the prompt counts as one step, as long as it is; as a press of its own where it alone is more
 * than is to stay. */
static uint32_t next_of_decoding(const cdz_seq *seq)
{
    const cdz_press_plan *plan = seq->press;
    const uint32_t begun = seq->press_begun, skip = plan->skip_last;
    const bool at_once = skip && isnan(plan->target_ratio) && skip >= plan->target_size;
    uint32_t next = at_once ? begun : begun + plan->interval - (skip ? 1 : 0);
    if (next > seq->press_done) return next;
    const uint32_t times = (seq->press_done - next) / plan->interval + 1;
    return times > (UINT32_MAX - next) / plan->interval ? UINT32_MAX : next + times * plan->interval;
}

uint32_t cdz_press_next(const cdz_seq *seq)
{
    if (!seq->press || seq->n_layers) return UINT32_MAX;
    if (seq->press_from > seq->press_done) return seq->press_from;
    return seq->press->interval ? next_of_decoding(seq) : UINT32_MAX;
}

uint32_t cdz_press_entries(const cdz_seq *seq, uint32_t n)
{
    return seq->pressed ? n - seq->pressed->at + seq->pressed->n : n;
}

bool cdz_press_is_reading(const cdz_seq *seq)
{
    const cdz_press_notes *notes = seq->notes;
    return notes && (notes->sums || notes->mean || notes->window > 1) && seq->computed > 0 &&
           seq->computed < notes->to;
}

/* --- holding ------------------------------------------------------------------------------------------------------ */

void cdz_press_hold(cdz_pressed *pressed)
{
    if (pressed) pressed->holders++;
}

void cdz_press_leave(cdz_pressed *pressed)
{
    if (!pressed || --pressed->holders > 0) return;
    free(pressed->counts);
    free(pressed->less);
    free(pressed->positions);
    free(pressed->zeroed);
    free(pressed);
}

static void free_notes(cdz_press_notes *notes)
{
    if (!notes) return;
    free(notes->queries);
    free(notes->hidden);
    free(notes->mean);
    free(notes->square);
    free(notes->turned);
    free(notes->sums);
    free(notes);
}

void cdz_press_forget_notes(cdz_seq *seq)
{
    free_notes(seq->notes);
    seq->notes = NULL;
}

/* --- notes -------------------------------------------------------------------------------------------------------- */

enum { N_PIECES = 6 };

/* A part of the notes: where its address goes, how many numbers it has. */
typedef struct part {
    void **at;
    size_t n, width, item;
} part;

/* What of it is wanted; width 0: it is not. */
static void list_parts(cdz_press_notes *notes, const cdz_arch *a, part out[N_PIECES])
{
    const size_t wide = (size_t)a->n_heads * a->head_dim, d = a->head_dim;
    const size_t pieces = (size_t)a->n_layers * notes->n_pieces, rows = pieces * notes->window;
    const uint32_t what = notes->what;
    out[0] = (part){(void **)&notes->queries, rows,
                    what & (CDZ_PRESS_QUERIES | CDZ_PRESS_ATTENTION) ? wide : 0, sizeof(float)};
    out[1] = (part){(void **)&notes->hidden, rows, what & CDZ_PRESS_HIDDEN ? a->hidden : 0,
                    sizeof(float)};
    out[2] =
        (part){(void **)&notes->mean, pieces, what & CDZ_PRESS_MOMENTS ? wide : 0, sizeof(double)};
    out[3] = (part){(void **)&notes->square, pieces, what & CDZ_PRESS_MOMENTS ? wide * d : 0,
                    sizeof(double)};
    out[4] = (part){(void **)&notes->sums, (size_t)a->n_layers * a->n_heads,
                    what & CDZ_PRESS_SUMS ? notes->to : 0, sizeof(double)};
    out[5] = (part){(void **)&notes->turned, pieces,
                    what & CDZ_PRESS_MOMENTS ? wide * CDZ_MOMENT_ROWS : 0, sizeof(float)};
}

/* Zeros, or a copy of what lies there; nothing where nobody asks. */
static bool make_part(part *p, bool copies)
{
    const void *from = *p->at;
    size_t bytes;
    *p->at = NULL;
    if (p->width == 0 || p->n == 0) return true;
    if (__builtin_mul_overflow(p->n, p->width, &bytes) ||
        __builtin_mul_overflow(bytes, p->item, &bytes))
        return false;
    *p->at = calloc(bytes, 1);
    if (*p->at && copies) memcpy(*p->at, from, bytes);
    return *p->at != NULL;
}

static bool make_room(cdz_press_notes *notes, const cdz_arch *a, bool copies)
{
    part parts[N_PIECES];
    bool ok = true;
    list_parts(notes, a, parts);
    for (size_t i = 0; i < N_PIECES; i++) ok = make_part(&parts[i], copies && ok) && ok;
    return ok;
}

/* All that the steps of one time ask for. */
static void ask(cdz_press_notes *notes, const cdz_press_plan *plan, bool decoding)
{
    const uint32_t first = decoding ? plan->n_prompt : 0,
                   end = decoding ? plan->n_steps : plan->n_prompt;
    for (uint32_t i = first; i < end; i++) {
        const cdz_press_step *step = &plan->steps[i];
        notes->what |= step->what;
        if (step->what & CDZ_PRESS_OF_WINDOW && step->window > notes->window)
            notes->window = step->window;
        if (step->what & CDZ_PRESS_MOMENTS) notes->skip = step->skip;
    }
    if (decoding && notes->window > 1) notes->window = 1;
    if (notes->window > notes->to) notes->window = notes->to;
}

cdz_status cdz_press_expect(cdz_seq *seq, cdz_error *err)
{
    const uint32_t to = cdz_press_next(seq);
    if (seq->notes && seq->notes->to == to) return CDZ_OK;
    cdz_press_forget_notes(seq);
    const bool decoding = to != seq->press_from;
    const uint32_t chunk = decoding ? 0 : seq->press->chunk;
    cdz_press_notes *notes = calloc(1, sizeof *notes);
    if (!notes) return cdz_err_memory(err, "a press");
    notes->to = to;
    notes->piece = chunk && chunk < to ? chunk : to;
    notes->n_pieces = (to + notes->piece - 1) / notes->piece;
    ask(notes, seq->press, decoding);
    seq->notes = notes;
    if (make_room(notes, &seq->model->weights->arch, false)) return CDZ_OK;
    cdz_press_forget_notes(seq);
    return cdz_err(err, CDZ_E_NOMEM,
                   "out of memory for what presses want to know of %" PRIu32 " positions", to);
}

cdz_status cdz_press_copy_notes(cdz_seq *to, const cdz_seq *from, cdz_error *err)
{
    cdz_press_notes *notes = malloc(sizeof *notes);
    if (notes) *notes = *from->notes;
    const bool ok = notes && make_room(notes, &from->model->weights->arch, true);
    cdz_press_forget_notes(to);
    to->notes = notes;
    if (ok) return CDZ_OK;
    cdz_press_forget_notes(to);
    return cdz_err_memory(err, "what presses want to know");
}

/* --- of a pass's rows --------------------------------------------------------------------------------------------- */

/* Where a position lies: its piece, and its place in the piece's window, or at least `window` before that. */
static bool in_window(const cdz_press_notes *notes, uint32_t position, uint32_t *piece,
                      uint32_t *place)
{
    *piece = position / notes->piece;
    const uint32_t n = cdz_press_piece_queries(notes, *piece),
                   end = cdz_press_piece_end(notes, *piece);
    if (position >= notes->to || position + n < end) return false;
    *place = position + n - end;
    return true;
}

static void keep_rows(cdz_layers *f, uint32_t layer, bool queries, const float *x, size_t wide)
{
    for (uint32_t r = 0; r < f->m; r++) {
        const cdz_press_notes *notes = f->noted[r].notes;
        float *to = notes ? (queries ? notes->queries : notes->hidden) : NULL;
        uint32_t piece, place;
        if (!to || !in_window(notes, f->noted[r].position, &piece, &place)) continue;
        const size_t row = ((size_t)layer * notes->n_pieces + piece) * notes->window + place;
        f->backend->api->download(f->backend, to + row * wide, x + r * wide, wide * sizeof *x);
    }
}

void cdz_press_see_hidden(cdz_layers *f, uint32_t layer, const float *x)
{
    keep_rows(f, layer, false, x, f->stack.arch->hidden);
}

void cdz_press_see_queries(cdz_layers *f, uint32_t layer)
{
    keep_rows(f, layer, true, f->q, (size_t)f->stack.arch->n_heads * f->stack.arch->head_dim);
}

/* Queries of a layer that are to be counted. */
typedef struct counting {
    cdz_layers *f;
    uint32_t layer;
} counting;

/* Adds the queries at hand, and their products, all of them over each other. */
static void add_moments(double *mean, double *square, float *turned, size_t d)
{
    const cdz_vec *vec = cdz_vec_table();
    for (size_t i = 0; i < d; i++) {
        mean[i] += (double)vec->sum(turned + i * CDZ_MOMENT_ROWS, CDZ_MOMENT_ROWS);
        for (size_t j = 0; j <= i; j++)
            square[i * d + j] += (double)vec->dot(turned + i * CDZ_MOMENT_ROWS,
                                                  turned + j * CDZ_MOMENT_ROWS, CDZ_MOMENT_ROWS);
    }
    memset(turned, 0, d * CDZ_MOMENT_ROWS * sizeof *turned);
}

/* All rows of one head, in their order. */
static void count_head(void *arg, size_t h)
{
    const counting *c = arg;
    const cdz_layers *f = c->f;
    const size_t H = f->stack.arch->n_heads, d = f->stack.arch->head_dim;
    for (uint32_t r = 0; r < f->m; r++) {
        const cdz_press_notes *notes = f->noted[r].notes;
        const uint32_t p = f->noted[r].position;
        if (!notes || !notes->mean || p >= notes->to || p % notes->piece < notes->skip) continue;
        const uint32_t piece = p / notes->piece;
        const size_t at = ((size_t)c->layer * notes->n_pieces + piece) * H + h;
        const float *q = f->q + (r * H + h) * d;
        float *turned = notes->turned + at * d * CDZ_MOMENT_ROWS;
        for (size_t i = 0; i < d; i++) turned[i * CDZ_MOMENT_ROWS + p % CDZ_MOMENT_ROWS] = q[i];
        if ((p + 1) % CDZ_MOMENT_ROWS == 0 || p + 1 == cdz_press_piece_end(notes, piece))
            add_moments(notes->mean + at * d, notes->square + at * d * d, turned, d);
    }
}

static bool any_notes(const cdz_layers *f, uint32_t what)
{
    for (uint32_t r = 0; r < f->m; r++)
        if (f->noted[r].notes && f->noted[r].notes->what & what) return true;
    return false;
}

void cdz_press_see_plain(cdz_layers *f, uint32_t layer)
{
    counting c = {f, layer};
    if (!cdz_press_reads_layer(f->stack.arch, layer) || !any_notes(f, CDZ_PRESS_MOMENTS)) return;
    f->backend->api->parallel(f->backend, count_head, &c, f->stack.arch->n_heads);
}

/* Rows from r on whose notes are the same. */
static uint32_t same_notes(const cdz_layers *f, uint32_t r)
{
    uint32_t n = 1;
    while (r + n < f->m && f->noted[r + n].notes == f->noted[r].notes) n++;
    return n;
}

/* sums[j] += what each query gives to entry j, in the order of queries. */
static void add_sums(const cdz_weighing *w, double *sums)
{
    for (uint32_t i = 0; i < w->m; i++)
        for (uint32_t j = 0; j < w->n; j++) sums[j] += (double)w->out[(size_t)i * w->n + j];
}

static void sum_rows(cdz_layers *f, uint32_t layer, const cdz_attention *how, uint32_t r,
                     uint32_t n, float *room_of)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_press_notes *notes = f->noted[r].notes;
    const size_t d = a->head_dim, group = a->n_heads / a->n_kv_heads, wide = a->n_heads * d;
    const uint32_t end = f->noted[r + n - 1].position + 1;
    float *keys = room_of, *out = keys + (size_t)end * d;
    for (size_t h = 0; h < a->n_heads; h++) {
        if (h % group == 0)
            f->backend->api->kv_get(f->backend, f->stack.store, cdz_layers_store(f, layer),
                                    h / group, f->rows[r].blocks, end, keys, NULL);
        for (uint32_t i = 0; i < n; i += CDZ_WEIGH_ROWS) {
            cdz_weighing w = {.backend = f->backend,
                              .how = how,
                              .head = h,
                              .dim = d,
                              .q = f->q + (r + i) * wide + h * d,
                              .ldq = wide,
                              .m = n - i < CDZ_WEIGH_ROWS ? n - i : CDZ_WEIGH_ROWS,
                              .keys = keys,
                              .n = end,
                              .sees = f->noted[r + i].position + 1,
                              .ldo = end,
                              .out = out};
            cdz_press_weigh(&w);
            add_sums(&w, notes->sums + ((size_t)layer * a->n_heads + h) * notes->to);
        }
    }
}

/* Behind attention: once more, with the weights in memory, some rows and one head at a time. */
void cdz_press_see_attention(cdz_layers *f, uint32_t layer, const cdz_attention *how)
{
    if (!cdz_press_reads_layer(f->stack.arch, layer)) return;
    for (uint32_t r = 0, n; r < f->m; r += n) {
        n = same_notes(f, r);
        cdz_press_notes *notes = f->noted[r].notes;
        if (!notes || !notes->sums || notes->failed) continue;
        const size_t end = (size_t)f->noted[r + n - 1].position + 1;
        float *floats = malloc(end * (f->stack.arch->head_dim + CDZ_WEIGH_ROWS) * sizeof *floats);
        notes->failed = !floats;
        if (floats) sum_rows(f, layer, how, r, n, floats);
        free(floats);
    }
}
