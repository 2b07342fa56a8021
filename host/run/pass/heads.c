/* heads.c - what a pass gives: scores of the rows that somebody wants scores of, and hidden states that somebody keeps.
 *
 * Whoever wants them reads them in memory of the host: the CPU writes there itself where it can, a device brings the
 * rows over, as many in one copy as lie one after the other. Rows that stay on the device (away.h) go to their places
 * there, and what comes over is the best token of each, or the best few. Where the head has a screen (screen.h), rows that
 * may stay away are not made: the screen tells the same of them. */
#include <string.h>

#include "run/pass/layers.h"

/* --- scores --------------------------------------------------------------------------------------------- */

/* True when n rows go to evenly spaced places, *ld floats apart: then the product may write there itself. */
static bool evenly_spaced(const head_row *heads, uint32_t n, size_t n_vocab, size_t *ld)
{
    *ld = n_vocab;
    if (n == 1) return true;
    const ptrdiff_t step = heads[1].to - heads[0].to;
    if (step < (ptrdiff_t)n_vocab) return false;
    for (uint32_t i = 2; i < n; i++)
        if (heads[i].to - heads[i - 1].to != step) return false;
    *ld = (size_t)step;
    return true;
}

/* Gathering rows is embedding from them. */
void cdz_layers_pick(cdz_layers *f, float *y, const float *x, size_t width, size_t n)
{
    const cdz_weight table = {x, CDZ_F32, f->m, width, CDZ_WEIGHT_ROWS};
    f->backend->api->embed(f->backend, y, width, &table, f->picked, n);
}

/* The hidden states of n rows whose scores are wanted, into ends. */
static void gather_ends(cdz_layers *f, const head_row *heads, uint32_t n)
{
    const size_t D = f->stack.arch->hidden;
    for (uint32_t i = 0; i < n; i++) {
        f->picked[i] = (int32_t)heads[i].row;
        if (f->backend->api->host_memory)
            memcpy(f->ends + i * D, f->x + heads[i].row * D, D * sizeof(float));
    }
    if (!f->backend->api->host_memory) cdz_layers_pick(f, f->ends, f->x, D, n);
}

/* Rows that follow each other and go the same way. */
static uint32_t run_of(const head_row *heads, uint32_t n, size_t n_vocab)
{
    uint32_t run = 1;
    while (run < n && heads[run].to == heads[0].to + run * n_vocab &&
           !heads[run].away == !heads[0].away && !heads[run].coming == !heads[0].coming)
        run++;
    return run;
}

/* Scores of n rows to where they are wanted; places that follow each other are one copy. */
static void deliver(cdz_layers *f, const head_row *heads, uint32_t n)
{
    const size_t V = f->stack.arch->n_vocab;
    cdz_backend *b = f->backend;
    for (uint32_t i = 0, run; i < n; i += run) {
        const head_row *head = &heads[i];
        const float *from = f->scores + i * V;
        run = run_of(head, n - i, V);
        const size_t bytes = run * V * sizeof(float);
        if (head->away) {
            b->api->copy(b, head->to, from, bytes);
        } else if (head->coming) {
            const uint64_t ticket = b->api->bring(b, head->to, from, bytes);
            for (uint32_t r = 0; r < run; r++) *head[r].coming = ticket;
        } else {
            b->api->download(b, head->to, from, bytes);
        }
    }
}

static uint32_t count_far(const head_row *heads, uint32_t n)
{
    uint32_t far = 0;
    for (uint32_t i = 0; i < n; i++) far += heads[i].away != NULL;
    return far;
}

/* The best token of each of n rows of scores, to those rows that want no more. */
static void tell_best(cdz_layers *f, const head_row *heads, uint32_t n, const float *x, size_t ld)
{
    f->backend->api->argmax(f->backend, f->best, x, ld, n, f->stack.arch->n_vocab);
    for (uint32_t i = 0; i < n; i++)
        if (heads[i].away && heads[i].away->wish.least == 0)
            heads[i].away->best[heads[i].at] = f->best[i];
}

/* What a row that wants several is asked. */
static cdz_leaders asked_of(const head_row *head)
{
    const cdz_away *away = head->away;
    const cdz_edited *edited = &away->edited[head->at];
    cdz_leaders l = away->leaders[head->at];
    l.least = cdz_away_least(away, head->at);
    l.divisor = away->wish.divisor;
    l.edited = edited->ids;
    l.n_edited = edited->n;
    l.was = edited->x;
    l.kept = edited->masked ? edited->kept : NULL;
    return l;
}

/* The best tokens, to those rows that want several. */
static void tell_leaders(cdz_layers *f, const head_row *heads, uint32_t n, const float *x, size_t ld)
{
    for (uint32_t i = 0; i < n; i++) {
        const cdz_away *away = heads[i].away;
        const bool several = away && away->leaders && away->wish.least;
        f->leaders[i] = several ? asked_of(&heads[i]) : (cdz_leaders){0};
    }
    f->backend->api->leaders(f->backend, f->leaders, x, ld, n, f->stack.arch->n_vocab);
    for (uint32_t i = 0; i < n; i++)
        if (heads[i].away && f->leaders[i].least)
            heads[i].away->leaders[heads[i].at] = f->leaders[i];
}

/* What the rows that stay on the device want to be told. */
static void tell(cdz_layers *f, const head_row *heads, uint32_t n, const float *x, size_t ld)
{
    uint32_t several = 0, one = 0;
    for (uint32_t i = 0; i < n; i++) {
        cdz_away *away = heads[i].away;
        if (!away) continue;
        away->best[heads[i].at] = -1;
        if (away->leaders) away->leaders[heads[i].at].least = 0;
        if (away->wish.least)
            several++;
        else
            one++;
    }
    if (one) tell_best(f, heads, n, x, ld);
    if (several) tell_leaders(f, heads, n, x, ld);
}

/* Can a screen tell of all n rows? Then f->leaders are what they ask: as many as are wanted are found beside those that are
 * edited. */
static bool ask_screen(cdz_layers *f, const head_row *heads, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const cdz_away *away = heads[i].away;
        if (!away || !away->screen || n > cdz_screen_most(away->screen)) return false;
        f->leaders[i] = asked_of(&heads[i]);
        f->leaders[i].least = away->wish.least;
    }
    return true;
}

/* Tells of those rows whose scores nobody reads, without making them. The others, which are to be made, and are at home then,
 * move to the front with their hidden states; returns how many these are. */
static uint32_t screen_rows(cdz_layers *f, head_row *heads, uint32_t n)
{
    const size_t D = f->stack.arch->hidden, row_bytes = D * sizeof(float);
    uint32_t left = 0;
    const bool told = ask_screen(f, heads, n) && cdz_screen_tell(heads[0].away->screen, f->backend,
                                                                 f->ends, n, f->leaders, f->scores);
    for (uint32_t i = 0; i < n; i++) {
        cdz_away *away = heads[i].away;
        const bool screened = away && away->screen;
        if (screened && told && f->leaders[i].least) {
            away->best[heads[i].at] = -1;
            away->leaders[heads[i].at] = f->leaders[i];
            memcpy(away->hidden + heads[i].at * D, f->ends + i * D, row_bytes);
            continue;
        }
        if (screened) away->there[heads[i].at] = false;
        if (left < i) memcpy(f->ends + left * D, f->ends + i * D, row_bytes);
        heads[left] = heads[i];
        if (screened) heads[left].away = NULL;
        left++;
    }
    return left;
}

/* Final norm and head of n <= head_rows rows. */
static void score_rows(cdz_layers *f, head_row *heads, uint32_t n)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden, V = a->n_vocab;
    cdz_profile_mark(f->profile, CDZ_WORK_HEAD);
    gather_ends(f, heads, n);
    if (f->weights->final_norm.w.data)
        cdz_layers_norm(f, f->ends, f->ends, n, &f->weights->final_norm);
    if (a->head_scale != 1.0f) b->api->scale(b, f->ends, D, n, D, a->head_scale);
    size_t ld = V;
    n = screen_rows(f, heads, n);
    if (n == 0) return;
    const uint32_t n_far = count_far(heads, n);
    const bool in_place = b->api->host_memory || n_far == n;
    const bool direct = in_place && evenly_spaced(heads, n, V, &ld);
    cdz_product head = cdz_layers_product(&f->weights->head, direct ? heads[0].to : f->scores);
    head.ldy = ld;
    b->api->matmul(b, &head, 1, f->ends, D, n);
    if (a->final_cap != 0.0f) b->api->soft_cap(b, head.y, ld, n, V, a->final_cap);
    if (!direct) deliver(f, heads, n);
    if (n_far) tell(f, heads, n, head.y, ld);
}

void cdz_layers_score(cdz_layers *f)
{
    for (uint32_t i = 0; i < f->n_heads; i += f->head_rows) {
        const uint32_t left = f->n_heads - i;
        score_rows(f, f->heads + i, left < f->head_rows ? left : f->head_rows);
    }
}

/* The head of n <= head_rows rows, by way of the device. */
static void head_far(cdz_layers *f, const float *hidden, uint32_t n, float *scores)
{
    cdz_backend *b = f->backend;
    const size_t D = f->weights->arch.hidden, V = f->weights->arch.n_vocab;
    const cdz_product head = cdz_layers_product(&f->weights->head, f->scores);
    b->api->upload(b, f->ends, hidden, n * D * sizeof(float));
    b->api->matmul(b, &head, 1, f->ends, D, n);
    b->api->download(b, scores, f->scores, n * V * sizeof(float));
}

void cdz_layers_head(cdz_layers *f, const float *hidden, uint32_t n, float *scores)
{
    cdz_backend *b = f->backend;
    const cdz_product head = cdz_layers_product(&f->weights->head, scores);
    const size_t D = f->weights->arch.hidden, V = f->weights->arch.n_vocab;
    const uint32_t most = f->head_rows;
    const cdz_work was = cdz_profile_mark(f->profile, CDZ_WORK_HEAD);
    if (b->api->host_memory) b->api->matmul(b, &head, 1, hidden, D, n);
    for (uint32_t i = 0; !b->api->host_memory && i < n; i += most)
        head_far(f, hidden + i * D, n - i < most ? n - i : most, scores + i * V);
    cdz_profile_mark(f->profile, was);
}

/* n <= head_rows rows, in memory of the backend, to f->scores or where the host reads them. */
static void lens_rows(cdz_layers *f, const float *hidden, uint32_t n, float *scores)
{
    const cdz_arch *a = &f->weights->arch;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden, V = a->n_vocab;
    const bool here = b->api->host_memory;
    const cdz_product head = cdz_layers_product(&f->weights->head, here ? scores : f->scores);
    b->api->upload(b, f->ends, hidden, n * D * sizeof(float));
    if (f->weights->final_norm.w.data)
        cdz_layers_norm_of(f, a, f->ends, f->ends, n, &f->weights->final_norm);
    if (a->head_scale != 1.0f) b->api->scale(b, f->ends, D, n, D, a->head_scale);
    b->api->matmul(b, &head, 1, f->ends, D, n);
    if (a->final_cap != 0.0f) b->api->soft_cap(b, head.y, V, n, V, a->final_cap);
    if (!here) b->api->download(b, scores, f->scores, n * V * sizeof(float));
}

void cdz_layers_lens(cdz_layers *f, const float *hidden, uint32_t n, float *scores)
{
    const size_t D = f->weights->arch.hidden, V = f->weights->arch.n_vocab;
    const uint32_t most = f->head_rows;
    const cdz_work was = cdz_profile_mark(f->profile, CDZ_WORK_HEAD);
    for (uint32_t i = 0; i < n; i += most)
        lens_rows(f, hidden + i * D, n - i < most ? n - i : most, scores + i * V);
    cdz_profile_mark(f->profile, was);
}

/* --- hidden states -------------------------------------------------------------------------------------- */

static void keep_row(const cdz_layers *f, const kept_row *kept, uint32_t layer, const float *x)
{
    const size_t D = f->weights->arch.hidden;
    const cdz_want *want = kept->want;
    cdz_backend *b = f->backend;
    for (uint32_t i = 0; i < want->n_hidden; i++)
        if (want->hidden_layers[i] == layer)
            b->api->download(b, want->hidden + i * want->hidden_stride + (size_t)kept->at * D, x,
                             D * sizeof *x);
}

void cdz_layers_keep_hidden(const cdz_layers *f, uint32_t layer)
{
    const size_t D = f->weights->arch.hidden;
    for (uint32_t i = 0; i < f->n_kept; i++)
        keep_row(f, &f->kept[i], layer, f->x + f->kept[i].row * D);
}

static void see_last(cdz_layers *f, uint32_t layer)
{
    const cdz_norm *norm = &f->weights->final_norm;
    if (norm->w.data) cdz_layers_norm(f, f->normed, f->x, f->m, norm);
    cdz_layers_see_hidden(f, layer, norm->w.data ? f->normed : f->x);
}

void cdz_layers_keep_last(cdz_layers *f, uint32_t layer)
{
    const size_t D = f->weights->arch.hidden;
    for (uint32_t i = 0; i < f->n_kept; i++) {
        const float *x = f->x + f->kept[i].row * D;
        if (f->weights->final_norm.w.data)
            cdz_layers_norm(f, f->ends, x, 1, &f->weights->final_norm);
        keep_row(f, &f->kept[i], layer, f->weights->final_norm.w.data ? f->ends : x);
    }
    if (f->any_seen) see_last(f, layer);
}
