/* quantise.c - the weights of an opened model in blocks: made of the mapped ones, row by row, on
 * all cores, into memory of the model's own; the pages they came from are let go. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load/model_files.h"
#include "load/quant_types.h"

enum { MOST_THREADS = 32, ROWS_AT_ONCE = 16, ALONE = 1 << 18 /* numbers that need no threads */ };

typedef struct quantiser {
    cdz_weights *w;
    cdz_dtype type;
    cdz_error *err;
} quantiser;

/* --- one matrix ---------------------------------------------------------------------------- */

typedef struct job {
    const cdz_weight *from;
    char *to;
    cdz_dtype type;
    atomic_size_t next;
    atomic_bool failed;
} job;

static void *work(void *arg)
{
    job *j = arg;
    const cdz_weight *w = j->from;
    const size_t from_bytes = cdz_row_bytes(w->dtype, w->k), to_bytes = cdz_row_bytes(j->type, w->k);
    float *row = malloc(w->k * sizeof *row);
    if (!row) atomic_store(&j->failed, true);
    for (size_t at; row && (at = atomic_fetch_add(&j->next, ROWS_AT_ONCE)) < w->n;)
        for (size_t i = at; i < at + ROWS_AT_ONCE && i < w->n; i++) {
            cdz_widen(w->dtype, row, (const char *)w->data + i * from_bytes, w->k);
            cdz_quantise(j->type, j->to + i * to_bytes, row, w->k);
        }
    free(row);
    return NULL;
}

/* The caller works too, so that threads which cannot be had only cost time. */
static bool run(job *j)
{
    pthread_t threads[MOST_THREADS];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = j->from->n * j->from->k < ALONE || cores < 2 ? 0 : (size_t)cores - 1, started = 0;
    if (n > MOST_THREADS) n = MOST_THREADS;
    while (started < n && pthread_create(&threads[started], NULL, work, j) == 0) started++;
    work(j);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return !atomic_load(&j->failed);
}

/* Whole pages of the file that only this matrix was in. */
static void let_go(const cdz_weights *w, const cdz_weight *matrix)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGE_SIZE), from = (uintptr_t)matrix->data;
    const uintptr_t end = from + cdz_row_bytes(matrix->dtype, matrix->k) * matrix->n;
    const uintptr_t first = (from + page - 1) / page * page, last = end / page * page;
    for (uint32_t i = 0; i < w->tensors.n_files; i++) {
        const cdz_file *file = &w->tensors.files[i];
        const uintptr_t begin = (uintptr_t)file->data;
        if (from >= begin && end <= begin + file->size && first < last)
            madvise((char *)(uintptr_t)file->data + (first - begin), last - first, MADV_DONTNEED);
    }
}

static cdz_status quantise(quantiser *q, cdz_weight *matrix, cdz_role role)
{
    if (!matrix->data) return CDZ_OK;
    if (matrix->dtype >= CDZ_N_PLAIN)
        return cdz_err(q->err, CDZ_E_UNSUPPORTED,
                       "%s: its weights are %s already; only F32, F16 and BF16 can be quantised",
                       q->w->folder, cdz_dtype_name(matrix->dtype));
    const cdz_dtype type = cdz_type_for(q->type, role, matrix->k, matrix->dtype);
    if (type == matrix->dtype) return CDZ_OK;
    const size_t bytes = cdz_row_bytes(type, matrix->k) * matrix->n;
    job j = {.from = matrix, .type = type};
    j.to = cdz_arena_alloc_aligned(&q->w->tensors.arena, bytes, 64);
    if (!j.to || !run(&j))
        return cdz_err(q->err, CDZ_E_NOMEM, "%s: out of memory for %zu bytes of %s", q->w->folder,
                       bytes, cdz_dtype_name(type));
    cdz_weights_facts *facts = &q->w->facts;
    facts->bytes[matrix->dtype] -= cdz_row_bytes(matrix->dtype, matrix->k) * matrix->n;
    facts->bytes[type] += bytes;
    facts->n_copied++;
    let_go(q->w, matrix);
    *matrix = (cdz_weight){j.to, type, matrix->n, matrix->k};
    return CDZ_OK;
}

/* --- all of them --------------------------------------------------------------------------- */

static cdz_status quantise_feed_forward(quantiser *q, cdz_feed_forward *f)
{
    CDZ_TRY(quantise(q, &f->gate.w, CDZ_ROLE_MATRIX));
    CDZ_TRY(quantise(q, &f->up.w, CDZ_ROLE_MATRIX));
    return quantise(q, &f->down.w, CDZ_ROLE_MATRIX);
}

static cdz_status quantise_layer(quantiser *q, const cdz_arch *a, cdz_layer_weights *l)
{
    cdz_linear *const linears[] = {&l->q,       &l->k,       &l->v,       &l->o,
                                   &l->cross_q, &l->cross_k, &l->cross_v, &l->cross_o};
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        CDZ_TRY(quantise(q, &linears[i]->w, CDZ_ROLE_MATRIX));
    for (uint32_t e = 0; l->experts && e < a->n_experts; e++)
        CDZ_TRY(quantise_feed_forward(q, &l->experts[e]));
    return quantise_feed_forward(q, &l->mlp);
}

/* One memory may be the embedding of both stacks, and the head. */
static cdz_status quantise_ends(quantiser *q)
{
    cdz_weights *w = q->w;
    const void *shared = w->embed.data;
    const bool is_head = w->head.w.data == shared, is_encoders = w->encoder.embed.data == shared;
    CDZ_TRY(quantise(q, &w->embed, is_head ? CDZ_ROLE_HEAD : CDZ_ROLE_EMBED));
    if (is_head)
        w->head.w = w->embed;
    else
        CDZ_TRY(quantise(q, &w->head.w, CDZ_ROLE_HEAD));
    if (!is_encoders) return quantise(q, &w->encoder.embed, CDZ_ROLE_EMBED);
    w->encoder.embed = w->embed;
    return CDZ_OK;
}

cdz_status cdz_weights_quantise(cdz_weights *w, cdz_dtype type, cdz_error *err)
{
    quantiser q = {w, type, err};
    CDZ_TRY(quantise_ends(&q));
    for (uint32_t i = 0; i < w->arch.n_layers; i++)
        CDZ_TRY(quantise_layer(&q, &w->arch, &w->layers[i]));
    for (uint32_t i = 0; w->arch.encoder && i < w->arch.encoder->n_layers; i++)
        CDZ_TRY(quantise_layer(&q, w->arch.encoder, &w->encoder.layers[i]));
    return CDZ_OK;
}
