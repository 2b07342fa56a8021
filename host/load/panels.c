/* panels.c - which matrices multiply with int8 activations, and these brought into panels: a copy in one
 * mapping, made on all cores, matrix after matrix, each let go where it came from as soon as its copy is whole. So
 * no more than a matrix is there twice, and none waits for another. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cores.h"
#include "base/machine_memory.h"
#include "load/model_files.h"

enum {
    PANELS_AT_ONCE = 4,
    ALIGNMENT = 64,
    ALONE = 1 << 20, /* bytes that need no threads */
};

/* Of what could be had, the share that panels may take; the rest is for KV and neighbours. */
static const double MEMORY_SHARE = 0.8;

cdz_status cdz_activations_named(const char *name, cdz_activations *out, cdz_error *err)
{
    static const char *const names[] = {"auto", "f32", "int8"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name ? name : "auto", names[i]) == 0) {
            *out = (cdz_activations)i;
            return CDZ_OK;
        }
    return cdz_err(err, CDZ_E_USAGE,
                   "activations: there is no kind '%.40s', expected one of auto, f32, int8", name);
}

/* --- which ---------------------------------------------------------------------------------- */

/* A matrix to bring into panels. */
typedef struct item {
    cdz_weight *matrix;
    char *to;
    atomic_size_t left; /* rows not yet copied */
} item;

typedef struct list {
    const cdz_backend *backend; /* NULL: any */
    item *items;                /* NULL: only counted */
    size_t n;
    uint64_t bytes;
} list;

static size_t matrix_bytes(const cdz_weight *w)
{
    return cdz_row_bytes(w->dtype, w->k) * w->n;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static cdz_status note(void *arg, cdz_weight *matrix)
{
    list *l = arg;
    const cdz_backend *b = l->backend;
    if (b ? !b->api->takes_int8(b, matrix->dtype) : !cdz_has_panels(matrix->dtype)) return CDZ_OK;
    if (l->items) l->items[l->n].matrix = matrix;
    l->n++;
    l->bytes += aligned(matrix_bytes(matrix));
    return CDZ_OK;
}

static void note_all(cdz_weights *w, list *l)
{
    (void)cdz_weights_each_matrix(w, note, l); /* noting does not fail */
    if (w->head.w.data) (void)note(l, &w->head.w);
}

uint64_t cdz_weights_int8_bytes(cdz_weights *w)
{
    list l = {0};
    note_all(w, &l);
    return l.bytes;
}

/* --- copying -------------------------------------------------------------------------------- */

typedef struct job {
    item *items;
    size_t n;
    atomic_size_t next; /* piece of work: rows of an item, numbered through */
} job;

static size_t pieces_of(const cdz_weight *w)
{
    const size_t rows = (size_t)PANELS_AT_ONCE * CDZ_PANEL_ROWS;
    return (w->n + rows - 1) / rows;
}

/* Whole panels, and rows left over as they are. */
static void copy_rows(const item *it, size_t from, size_t n)
{
    const cdz_weight *w = it->matrix;
    const size_t stride = cdz_row_bytes(w->dtype, w->k), whole = n / CDZ_PANEL_ROWS * CDZ_PANEL_ROWS;
    const char *rows = (const char *)w->data + from * stride;
    char *to = it->to + from * stride;
    cdz_to_panels(w->dtype, to, rows, stride, whole, w->k);
    memcpy(to + whole * stride, rows + whole * stride, (n - whole) * stride);
}

static void *work(void *arg)
{
    job *j = arg;
    size_t first = 0, i = 0; /* piece number at which item i begins; pieces only go up */
    for (;;) {
        const size_t piece = atomic_fetch_add(&j->next, 1);
        while (i < j->n && piece >= first + pieces_of(j->items[i].matrix))
            first += pieces_of(j->items[i++].matrix);
        if (i == j->n) return NULL;
        item *it = &j->items[i];
        const size_t rows = (size_t)PANELS_AT_ONCE * CDZ_PANEL_ROWS, from = (piece - first) * rows;
        const size_t n = it->matrix->n - from < rows ? it->matrix->n - from : rows;
        copy_rows(it, from, n);
        if (atomic_fetch_sub(&it->left, n) == n) cdz_weights_let_go(it->matrix);
    }
}

bool cdz_weights_panels_fit(uint64_t bytes)
{
    const double limit = cdz_memory_limit(), now = cdz_memory_free();
    const double have = now > 0 && now < limit ? now : limit;
    return (double)bytes < MEMORY_SHARE * have;
}

/* Pages that nobody has touched. Small ones: large ones read no faster, and finding them cost two seconds a gigabyte
 * where this was measured. */
static char *map(cdz_weights *w, uint64_t bytes)
{
    if (bytes == 0 || bytes > SIZE_MAX / 2 || !cdz_weights_panels_fit(bytes)) return NULL;
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    w->panels = memory;
    w->panels_size = (size_t)bytes;
    return memory;
}

static void bring_into_panels(list *l, char *memory)
{
    job j = {.items = l->items, .n = l->n};
    for (size_t i = 0; i < l->n; i++) {
        item *it = &l->items[i];
        it->to = memory;
        atomic_init(&it->left, it->matrix->n);
        memory += aligned(matrix_bytes(it->matrix));
    }
    cdz_on_all_cores(work, &j, l->bytes > ALONE);
}

/* --- all of it ------------------------------------------------------------------------------ */

/* The head may be the embedding too, of both stacks. */
static void set_forms(cdz_weights *w, const list *l, bool panels)
{
    const void *head = w->head.w.data;
    for (size_t i = 0; i < l->n; i++) {
        cdz_weight *matrix = l->items[i].matrix;
        matrix->form = panels ? CDZ_WEIGHT_PANELS : CDZ_WEIGHT_INT8;
        if (panels) matrix->data = l->items[i].to;
    }
    if (head && w->embed.data == head) w->embed = w->head.w;
    if (head && w->encoder.embed.data == head) w->encoder.embed = w->head.w;
}

cdz_status cdz_weights_set_activations(cdz_weights *w, cdz_activations how,
                                       const cdz_backend *backend, cdz_error *err)
{
    list l = {.backend = backend};
    if (how != CDZ_ACTIVATIONS_F32) note_all(w, &l);
    if (l.n == 0 && how == CDZ_ACTIVATIONS_INT8)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "activations: int8 was asked for, but %s has no weights of a type that "
                       "multiplies with it (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K)",
                       w->folder);
    if (l.n == 0) return CDZ_OK;
    item *items = calloc(l.n, sizeof *items);
    if (!items) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", w->folder);
    list all = {.backend = backend, .items = items};
    note_all(w, &all);
    char *memory = map(w, all.bytes);
    if (memory) bring_into_panels(&all, memory);
    set_forms(w, &all, memory != NULL);
    w->facts.int8_bytes = all.bytes;
    w->facts.panel_bytes = memory ? all.bytes : 0;
    free(items);
    return CDZ_OK;
}
