/* quantise.c - the weights of an opened model in blocks: made of the mapped ones, row by row, on
 * all cores, into memory of the model's own; the pages they came from are let go. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cores.h"
#include "load/model_files.h"
#include "load/quant_types.h"

enum { ROWS_AT_ONCE = 16, ALONE = 1 << 18 /* numbers that need no threads */ };

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

static bool run(job *j)
{
    cdz_on_all_cores(work, j, j->from->n * j->from->k >= ALONE);
    return !atomic_load(&j->failed);
}

/* Not copied: others may share memory of our own. */
static bool in_files(const cdz_weights *w, const cdz_weight *matrix)
{
    const uintptr_t at = (uintptr_t)matrix->data;
    for (uint32_t i = 0; i < w->tensors.n_files; i++) {
        const uintptr_t begin = (uintptr_t)w->tensors.files[i].data;
        if (at >= begin && at < begin + w->tensors.files[i].size) return true;
    }
    return false;
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
    if (in_files(q->w, matrix)) cdz_weights_let_go(matrix);
    *matrix = (cdz_weight){j.to, type, matrix->n, matrix->k, CDZ_WEIGHT_ROWS};
    return CDZ_OK;
}

/* --- all of them --------------------------------------------------------------------------- */

static cdz_status quantise_matrix(void *arg, cdz_weight *matrix)
{
    return quantise(arg, matrix, CDZ_ROLE_MATRIX);
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
    return cdz_weights_each_matrix(w, quantise_matrix, &q);
}
