/* panels.c - which matrices multiply with rounded activations, and those for int8 brought into panels: a copy in memory of the
 * model's own, made little by little between passes, so that the first token does not wait for it. Until a matrix is
 * whole in panels it is read as it lies; then what it came from is let go, so no more than one is there twice. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/machine_memory.h"
#include "load/model_files.h"

enum {
    ALIGNMENT = 64,
    PASSES = 16,          /* over which the panels are brought in */
    LEAST_BYTES = 1 << 22 /* at a time */
};

/* Of what could be had, the share that panels may take; the rest is for KV and neighbours. */
static const double MEMORY_SHARE = 0.8;

static const char *const activation_names[] = {"auto", "f32", "int8", "bf16", "bf16x1", "bf16x3"};

cdz_status cdz_activations_named(const char *name, cdz_activations *out, cdz_error *err)
{
    enum { KINDS = sizeof activation_names / sizeof *activation_names };
    const char *const *names = activation_names;
    for (int i = 0; i < KINDS; i++)
        if (strcmp(name ? name : "auto", names[i]) == 0) {
            *out = (cdz_activations)i;
            return CDZ_OK;
        }
    const char *near = cdz_nearest_name(name, names, KINDS);
    return cdz_err(
        err, CDZ_E_USAGE,
        "activations: there is no kind '%.40s', expected one of auto, f32, int8, bf16, bf16x1, bf16x3%s%s%s",
        name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* --- which ---------------------------------------------------------------------------------- */

typedef struct list {
    const cdz_backend *backend; /* NULL: any */
    cdz_weight **matrices;      /* NULL: only counted */
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
    if (l->matrices) l->matrices[l->n] = matrix;
    l->n++;
    l->bytes += aligned(matrix_bytes(matrix));
    return CDZ_OK;
}

/* The matrices of layers, and the head. visit does not fail. */
static void each_product(cdz_weights *w, cdz_status (*visit)(void *arg, cdz_weight *matrix),
                         void *arg)
{
    (void)cdz_weights_each_matrix(w, visit, arg);
    if (w->head.w.data) (void)visit(arg, &w->head.w);
}

uint64_t cdz_weights_int8_bytes(cdz_weights *w)
{
    list l = {0};
    each_product(w, note, &l);
    return l.bytes;
}

/* --- bringing them in ----------------------------------------------------------------------- */

struct cdz_panels {
    char *memory; /* (bytes), one mapping */
    uint64_t bytes;
    cdz_weight **matrices; /* (n) */
    size_t n;
    size_t next, row; /* matrix in work, and rows of it that are done */
    char *to;         /* where it goes */
};

bool cdz_weights_panels_fit(uint64_t bytes)
{
    const double limit = cdz_memory_limit(), now = cdz_memory_free();
    const double have = now > 0 && now < limit ? now : limit;
    return (double)bytes < MEMORY_SHARE * have;
}

void cdz_panels_free(cdz_panels *panels)
{
    if (!panels) return;
    if (panels->memory) munmap(panels->memory, (size_t)panels->bytes);
    free(panels->matrices);
    free(panels);
}

/* Pages that nobody has touched. Small ones: large ones read no faster, and finding them cost two seconds a gigabyte
 * where this was measured. */
static char *map(uint64_t bytes)
{
    if (bytes == 0 || bytes > SIZE_MAX / 2 || !cdz_weights_panels_fit(bytes)) return NULL;
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Room for the panels of l; NULL when memory is short for them. Takes the list of matrices. */
static cdz_panels *make_room(list *l)
{
    char *memory = map(l->bytes);
    cdz_panels *panels = memory ? malloc(sizeof *panels) : NULL;
    if (!panels) {
        if (memory) munmap(memory, (size_t)l->bytes);
        return NULL;
    }
    *panels = (cdz_panels){memory, l->bytes, l->matrices, l->n, 0, 0, memory};
    l->matrices = NULL;
    return panels;
}

/* The head may be the embedding too, of both stacks. */
static void set_form(cdz_weights *w, cdz_weight *matrix, const void *data, cdz_weight_form form)
{
    const void *before = matrix->data;
    matrix->form = form;
    matrix->data = data;
    if (matrix != &w->head.w) return;
    if (w->embed.data == before) w->embed = *matrix;
    if (w->encoder.embed.data == before) w->encoder.embed = *matrix;
}

/* All rows of the matrix in work are done but those that make no whole panel. */
static void finish_matrix(cdz_weights *w)
{
    cdz_panels *p = w->panels;
    cdz_weight *matrix = p->matrices[p->next++];
    const cdz_weight came_from = *matrix;
    const size_t stride = cdz_row_bytes(matrix->dtype, matrix->k);
    memcpy(p->to + p->row * stride, (const char *)matrix->data + p->row * stride,
           (matrix->n - p->row) * stride);
    set_form(w, matrix, p->to, CDZ_WEIGHT_PANELS);
    p->to += aligned(matrix_bytes(matrix));
    p->row = 0;
    cdz_weights_let_go(&came_from);
}

/* Some more rows, at most as many as have `bytes`; returns how many bytes they had. */
static uint64_t more_rows(cdz_weights *w, cdz_backend *backend, uint64_t bytes)
{
    cdz_panels *p = w->panels;
    if (p->next == 0 && p->row == 0 && backend->api->spread)
        backend->api->spread(backend, p->memory, (size_t)p->bytes);
    const cdz_weight *matrix = p->matrices[p->next];
    const size_t stride = cdz_row_bytes(matrix->dtype, matrix->k), at = p->row * stride;
    const size_t left = matrix->n / CDZ_PANEL_ROWS - p->row / CDZ_PANEL_ROWS,
                 affordable = (size_t)(bytes / stride / CDZ_PANEL_ROWS);
    const size_t panels = left < affordable ? left : affordable ? affordable : 1;
    if (left > 0)
        backend->api->to_panels(backend, matrix->dtype, p->to + at, (const char *)matrix->data + at,
                                panels * CDZ_PANEL_ROWS, matrix->k);
    p->row += left > 0 ? panels * CDZ_PANEL_ROWS : 0;
    if (left <= panels) finish_matrix(w);
    return (uint64_t)panels * CDZ_PANEL_ROWS * stride;
}

bool cdz_weights_panels_left(const cdz_weights *w)
{
    return w->panels && w->panels->next < w->panels->n;
}

void cdz_weights_more_panels(cdz_weights *w, cdz_backend *backend)
{
    if (!cdz_weights_panels_left(w)) return;
    const uint64_t part = w->panels->bytes / PASSES,
                   wanted = part > LEAST_BYTES ? part : LEAST_BYTES;
    for (uint64_t done = 0; done < wanted && cdz_weights_panels_left(w);)
        done += more_rows(w, backend, wanted - done);
}

/* --- all of it ------------------------------------------------------------------------------ */

/* Pairs of numbers are read as one, so they lie where that may. */
static bool lies_in_pairs(const cdz_weight *w)
{
    return w->k % 2 == 0 && (uintptr_t)w->data % 4 == 0;
}

static cdz_status take_bf16(void *arg, cdz_weight *matrix)
{
    cdz_weights *w = arg;
    const uint64_t parts = w->facts.bf16_parts;
    if (matrix->dtype != CDZ_BF16 || (parts == 0 && !lies_in_pairs(matrix))) return CDZ_OK;
    set_form(w, matrix, matrix->data,
             parts == 3   ? CDZ_WEIGHT_BF16X3
             : parts == 1 ? CDZ_WEIGHT_BF16X1
                          : CDZ_WEIGHT_BF16);
    w->facts.bf16_activation_bytes += matrix_bytes(matrix);
    return CDZ_OK;
}

/* Whether passes on the backend can multiply so. */
static cdz_status check_bf16(cdz_activations how, const cdz_backend *backend, cdz_error *err)
{
    if (!backend) return CDZ_OK;
    const cdz_backend_api *api = backend->api;
    const char *name = activation_names[how];
    if (!api->takes_bf16)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "activations: %s is for passes on the CPU, found %s; expected auto or f32",
                       name, api->device);
    if (how == CDZ_ACTIVATIONS_BF16 || api->takes_parts) return CDZ_OK;
    return cdz_err(
        err, CDZ_E_UNSUPPORTED,
        "activations: %s is for processors with AMX, and the kernels that run here (%s) do "
        "without; expected auto, f32 or bf16",
        name, api->variant);
}

static cdz_status set_bf16(cdz_weights *w, cdz_activations how, const cdz_backend *backend,
                           cdz_error *err)
{
    CDZ_TRY(check_bf16(how, backend, err));
    w->facts.bf16_parts = how == CDZ_ACTIVATIONS_BF16X1 ? 1 : how == CDZ_ACTIVATIONS_BF16X3 ? 3 : 0;
    each_product(w, take_bf16, w);
    if (w->facts.bf16_activation_bytes) return CDZ_OK;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "activations: %s was asked for, but %s has no weights in bf16",
                   activation_names[how], w->folder);
}

cdz_status cdz_weights_set_activations(cdz_weights *w, cdz_activations how,
                                       const cdz_backend *backend, cdz_error *err)
{
    list l = {.backend = backend};
    if (how >= CDZ_ACTIVATIONS_BF16) CDZ_TRY(set_bf16(w, how, backend, err));
    if (how != CDZ_ACTIVATIONS_F32) each_product(w, note, &l);
    if (l.n == 0 && how == CDZ_ACTIVATIONS_INT8)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "activations: int8 was asked for, but %s has no weights of a type that "
                       "multiplies with it (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K)",
                       w->folder);
    if (l.n == 0) return CDZ_OK;
    cdz_weight **matrices = calloc(l.n, sizeof *matrices);
    if (!matrices) return cdz_err_memory_in(err, w->folder);
    list all = {.backend = backend, .matrices = matrices};
    each_product(w, note, &all);
    for (size_t i = 0; i < all.n; i++) set_form(w, matrices[i], matrices[i]->data, CDZ_WEIGHT_INT8);
    w->panels = make_room(&all);
    w->facts.int8_bytes = all.bytes;
    w->facts.panel_bytes = w->panels ? all.bytes : 0;
    free(all.matrices);
    return CDZ_OK;
}
