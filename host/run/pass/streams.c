/* streams.c - rows of several streams (gemma3n). A layer computes on one of them; before it, what all will be is foretold from what
 * they are, and after it that is corrected by how far the one came out otherwise. Layers also get something of the token itself, and add
 * a product of low rank beside attention.
 *
 * Numbers of a row that others are multiplied by are read back by the host, which computes in double and rounds once. On backends whose
 * memory is the host's. */
#include <math.h>
#include <stdlib.h>

#include "run/pass/layers.h"

struct cdz_stream_room {
    float *now, *foretold; /* (n, CDZ_PASS_ROWS, D) */
    float *laurel;         /* (m, D) */
    float *mode, *shares;  /* (m, n), (m, n * n) */
    float *low;            /* (m, rank) */
    float *inputs, *table; /* (m, L inner) what each layer gets, and what the token has of that */
    float *input, *gate;   /* (m, inner) of one layer */
    float *home; /* memory of the host, for the widest of these or a feed-forward's gate */
    int32_t ids[CDZ_PASS_ROWS];
    float factors[CDZ_PASS_ROWS];
    double sizes[CDZ_PASS_ROWS];
};

static const double SMALLEST = 1e-5; /* of a mean square */

static size_t wide_of(const cdz_arch *a)
{
    return (size_t)a->n_layers * a->streams.inner;
}

bool cdz_layers_make_streams(cdz_layers *f)
{
    const cdz_arch *a = &f->weights->arch;
    const cdz_streams *s = &a->streams;
    const size_t m = CDZ_PASS_ROWS, D = a->hidden, n = s->n;
    if (n == 0) return true;
    cdz_stream_room *r = f->streams = calloc(1, sizeof *r);
    if (!r) return false;
    struct {
        float **at;
        size_t columns;
    } const all[] = {{&r->now, n * D},         {&r->foretold, n * D},
                     {&r->laurel, D},          {&r->mode, n},
                     {&r->shares, n * n},      {&r->low, s->rank},
                     {&r->inputs, wide_of(a)}, {&r->table, wide_of(a)},
                     {&r->input, s->inner},    {&r->gate, s->inner}};
    size_t most = D > a->intermediate ? D : a->intermediate, bytes;
    if (most < n * n) most = n * n;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (__builtin_mul_overflow(m * sizeof(float), all[i].columns, &bytes)) return false;
        *all[i].at = f->backend->api->alloc(f->backend, bytes);
        if (!*all[i].at) return false;
    }
    r->home = calloc(m, most * sizeof *r->home);
    return r->home != NULL;
}

void cdz_layers_free_streams(cdz_layers *f)
{
    cdz_stream_room *r = f->streams;
    if (!r) return;
    float *const all[] = {r->now, r->foretold, r->laurel, r->mode,  r->shares,
                          r->low, r->inputs,   r->table,  r->input, r->gate};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) f->backend->api->free(f->backend, all[i]);
    free(r->home);
    free(r);
    f->streams = NULL;
}

static float *stream(const cdz_layers *f, float *all, size_t i)
{
    return all + i * CDZ_PASS_ROWS * f->stack.arch->hidden;
}

static void copy(cdz_layers *f, float *to, const float *from)
{
    f->backend->api->copy(f->backend, to, from, f->m * f->stack.arch->hidden * sizeof *to);
}

static void map(cdz_layers *f, const cdz_linear *linear, const float *x, float *y)
{
    const cdz_product p = cdz_layers_product(linear, y);
    f->backend->api->matmul(f->backend, &p, 1, x, linear->w.k, f->m);
}

/* y += x times a number of each row, which lie in home ld apart, and `more`. */
static void add_shares(cdz_layers *f, float *y, const float *x, size_t at, size_t ld, float more)
{
    const size_t D = f->stack.arch->hidden;
    cdz_stream_room *r = f->streams;
    for (uint32_t i = 0; i < f->m; i++) {
        r->ids[i] = (int32_t)i;
        r->factors[i] = ld ? r->home[i * ld + at] + more : more;
    }
    f->backend->api->add_scaled(f->backend, y, D, r->ids, r->factors, x, D, f->m, D);
}

/* --- sizes of rows ------------------------------------------------------------------------- */

static double mean_square(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

static void read_sizes(cdz_layers *f, const float *x)
{
    const size_t D = f->stack.arch->hidden;
    cdz_stream_room *r = f->streams;
    f->backend->api->download(f->backend, r->home, x, f->m * D * sizeof *x);
    for (uint32_t i = 0; i < f->m; i++) r->sizes[i] = sqrt(mean_square(r->home + i * D, D));
}

/* to = x, its rows as large as those whose sizes were read. */
static void resize(cdz_layers *f, float *to, const float *x)
{
    const size_t D = f->stack.arch->hidden;
    cdz_stream_room *r = f->streams;
    f->backend->api->download(f->backend, r->home, x, f->m * D * sizeof *x);
    for (uint32_t i = 0; i < f->m; i++) {
        const double square = mean_square(r->home + i * D, D);
        const float by = (float)(r->sizes[i] / sqrt(square > SMALLEST ? square : SMALLEST));
        for (size_t j = 0; j < D; j++) r->home[i * D + j] *= by;
    }
    f->backend->api->upload(f->backend, to, r->home, f->m * D * sizeof *x);
}

/* --- before the layers, and behind them ---------------------------------------------------- */

/* What the token itself has for every layer; rows that were given as embeddings have none. */
static void add_table(cdz_layers *f)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_streams *s = &a->streams;
    const size_t wide = wide_of(a);
    const float half = (float)sqrt(0.5);
    cdz_stream_room *r = f->streams;
    cdz_backend *b = f->backend;
    for (uint32_t i = 0; i < f->m; i++) r->ids[i] = (uint32_t)f->ids[i] < s->vocab ? f->ids[i] : 0;
    b->api->embed(b, r->table, wide, &f->weights->layer_embed, r->ids, f->m);
    b->api->scale(b, r->table, wide, f->m, wide, (float)sqrt((double)s->inner));
    for (uint32_t i = 0, n; i < f->m; i += n) {
        n = f->any_embeds ? 1 : f->m;
        if (f->any_embeds && f->embeds[i]) continue;
        b->api->add(b, r->inputs + i * wide, wide, r->table + i * wide, wide, n, wide);
        b->api->scale(b, r->inputs + i * wide, wide, n, wide, half);
    }
}

void cdz_layers_begin_streams(cdz_layers *f)
{
    const cdz_arch *a = f->stack.arch;
    cdz_stream_room *r = f->streams;
    cdz_backend *b = f->backend;
    const size_t wide = wide_of(a);
    if (!r) return;
    map(f, &f->weights->layer_project, f->x, r->inputs);
    b->api->scale(b, r->inputs, wide, f->m, wide, (float)(1 / sqrt((double)a->hidden)));
    cdz_layers_norm(f, r->inputs, r->inputs, f->m * a->n_layers, &f->weights->layer_norm);
    add_table(f);
    copy(f, r->now, f->x);
    read_sizes(f, f->x);
    for (uint32_t i = 1; i < a->streams.n; i++) {
        map(f, &f->weights->stream_in[i - 1], f->x, f->given);
        resize(f, stream(f, r->now, i), f->given);
    }
}

void cdz_layers_end_streams(cdz_layers *f)
{
    const cdz_arch *a = f->stack.arch;
    cdz_stream_room *r = f->streams;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden;
    if (!r) return;
    copy(f, f->x, r->now);
    read_sizes(f, r->now);
    for (uint32_t i = 1; i < a->streams.n; i++) {
        map(f, &f->weights->stream_out[i - 1], stream(f, r->now, i), f->given);
        resize(f, f->normed, f->given);
        b->api->add(b, f->x, D, f->normed, D, f->m, D);
    }
    b->api->scale(b, f->x, D, f->m, D, 1.0f / (float)a->streams.n);
}

/* --- a layer ------------------------------------------------------------------------------- */

/* Numbers of rows of x, and maps of them, to home. */
static void read_shares(cdz_layers *f, uint32_t layer, const float *x, const cdz_linear *of)
{
    const cdz_stream_weights *w = f->stack.layers[layer].streams;
    const cdz_arch *a = f->stack.arch;
    cdz_stream_room *r = f->streams;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden, n = a->streams.n;
    cdz_layers_norm(f, f->normed, x, f->m, &w->router_norm);
    b->api->scale(b, f->normed, D, f->m, D, (float)(1.0 / (double)D));
    map(f, &w->router, f->normed, r->mode);
    b->api->soft_cap(b, r->mode, n, f->m, n, 1.0f); /* tanh */
    map(f, of, r->mode, r->shares);
    b->api->download(b, r->home, r->shares, f->m * of->w.n * sizeof *r->home);
}

void cdz_layers_foretell(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_layer_weights *layer_weights = &f->stack.layers[layer];
    const cdz_stream_weights *w = layer_weights->streams;
    cdz_stream_room *r = f->streams;
    const size_t D = a->hidden, n = a->streams.n;
    if (!r) return;
    read_shares(f, layer, stream(f, r->now, a->streams.active), &w->foretell);
    for (size_t i = 0; i < n; i++) {
        copy(f, stream(f, r->foretold, i), stream(f, r->now, i));
        for (size_t j = 0; j < n; j++)
            add_shares(f, stream(f, r->foretold, i), stream(f, r->now, j), i * n + j, n * n, 0.0f);
    }
    copy(f, f->x, stream(f, r->foretold, a->streams.active));
    cdz_layers_norm(f, f->normed, f->x, f->m, &layer_weights->attn_norm);
    map(f, &w->laurel_in, f->normed, r->low);
    map(f, &w->laurel_out, r->low, r->laurel);
    cdz_layers_norm(f, r->laurel, r->laurel, f->m, &w->laurel_norm);
    f->backend->api->add(f->backend, r->laurel, D, f->normed, D, f->m, D);
}

void cdz_layers_add_laurel(cdz_layers *f)
{
    const size_t D = f->stack.arch->hidden;
    cdz_backend *b = f->backend;
    if (!f->streams) return;
    b->api->add(b, f->x, D, f->streams->laurel, D, f->m, D);
    b->api->scale(b, f->x, D, f->m, D, (float)sqrt(0.5));
}

/* What a layer makes of its input for the streams behind the first. */
static void add_input(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_stream_weights *w = f->stack.layers[layer].streams;
    cdz_stream_room *r = f->streams;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden, p = a->streams.inner;
    const cdz_weight rows = {r->inputs, CDZ_F32, (size_t)f->m * a->n_layers, p, CDZ_WEIGHT_ROWS};
    for (uint32_t i = 0; i < f->m; i++) r->ids[i] = (int32_t)(i * a->n_layers + layer);
    b->api->embed(b, r->input, p, &rows, r->ids, f->m);
    map(f, &w->gate, stream(f, r->now, a->streams.active), r->gate);
    b->api->activate(b, r->gate, p, r->gate, r->input, p, f->m, p, cdz_layers_curve(a));
    map(f, &w->up, r->gate, f->given);
    cdz_layers_norm(f, f->given, f->given, f->m, &w->norm);
    for (uint32_t i = 1; i < a->streams.n; i++)
        b->api->add(b, stream(f, r->now, i), D, f->given, D, f->m, D);
}

void cdz_layers_correct(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    cdz_stream_room *r = f->streams;
    if (!r) return;
    read_shares(f, layer, f->x, &f->stack.layers[layer].streams->correct);
    copy(f, f->given, f->x);
    add_shares(f, f->given, stream(f, r->foretold, a->streams.active), 0, 0, -1.0f);
    for (uint32_t i = 0; i < a->streams.n; i++) {
        copy(f, stream(f, r->now, i), stream(f, r->foretold, i));
        add_shares(f, stream(f, r->now, i), f->given, i, a->streams.n, 1.0f);
    }
    add_input(f, layer);
    copy(f, f->x,
         stream(f, r->now, a->streams.active)); /* what is kept as the next layer's hidden state */
}

/* Of each row the numbers above its mean by so many deviations stay, less that. */
void cdz_layers_cut(cdz_layers *f, float *x, size_t n, size_t m, float deviations)
{
    float *home = f->streams->home;
    f->backend->api->download(f->backend, home, x, m * n * sizeof *x);
    for (size_t r = 0; r < m; r++) {
        float *row = home + r * n;
        double mean = 0, square = 0;
        for (size_t i = 0; i < n; i++) mean += (double)row[i];
        mean /= (double)n;
        for (size_t i = 0; i < n; i++) square += ((double)row[i] - mean) * ((double)row[i] - mean);
        const float least = (float)(mean + (double)deviations * sqrt(square / (double)n));
        for (size_t i = 0; i < n; i++) row[i] = row[i] > least ? row[i] - least : 0.0f;
    }
    f->backend->api->upload(f->backend, x, home, m * n * sizeof *x);
}
