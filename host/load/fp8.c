/* fp8.c - weights of float8_e4m3fn. X.weight is bytes; X.weight_scale_inv, or X.weight_scale, has what they are multiplied by: one
 * number, one of each row, or one of each block of rows and columns, the last ones being smaller (weight_block_size). Factors may
 * be powers of two (F8_E8M0). Experts that lie in one tensor have theirs in one as well.
 *
 * Blocks become ours, of 64 of a row with their factor before them; a row's last one is filled up with zeros. The bytes stay what
 * they are. */
#include "load/fp8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/bind.h"

enum { BLOCK = 64, OURS = 4 + BLOCK, NAME_BYTES = 320, BAND_BYTES = 1 << 20 };

/* Factors of a weight as float32, and how many rows and columns share one. */
typedef struct factors {
    float *all; /* allocated */
    size_t rows, columns, in_row;
} factors;

static const char *path_of(const cdz_fp8 *f, const cdz_tensor *t)
{
    return f->tensors->files[t->file].path;
}

static cdz_status no_memory(const cdz_fp8 *f, const cdz_tensor *t)
{
    return cdz_err_memory_in(f->err, path_of(f, t));
}

static cdz_status read_rows(const cdz_fp8 *f, const cdz_tensor *t, uint64_t from, void *to,
                            size_t bytes)
{
    const cdz_file *file = &f->tensors->files[t->file];
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    return cdz_file_read_at(file, offset + from, to, bytes, f->err);
}

bool cdz_fp8_is(const cdz_tensor *weight)
{
    return strcmp(weight->dtype, "F8_E4M3") == 0;
}

/* --- factors ------------------------------------------------------------------------------- */

static const cdz_tensor *find_factors(const cdz_fp8 *f, const cdz_tensor *w)
{
    static const char *const endings[] = {"_scale_inv", "_scale"};
    char name[NAME_BYTES];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const int n = snprintf(name, sizeof name, "%s%s", w->name, endings[i]);
        const bool whole = n > 0 && (size_t)n < sizeof name;
        const cdz_tensor *t = whole ? cdz_tensors_find(f->tensors, name) : NULL;
        if (t) return t;
    }
    return NULL;
}

static size_t blocks_of(size_t n, size_t block)
{
    return (n + block - 1) / block;
}

/* How factors of that shape spread over (n, k). False: they do not. */
static bool spread(const cdz_fp8 *f, const cdz_tensor *t, size_t n, size_t k, factors *to)
{
    uint64_t count = 1;
    for (uint32_t d = 0; d < t->n_dims; d++) count *= t->shape[d];
    const bool matrix = t->n_dims == 2;
    to->rows = n, to->columns = k, to->in_row = 1;
    if (count == 1) return true;
    to->rows = 1;
    if (count == n && t->shape[0] == n) return true;
    to->rows = f->block_rows, to->columns = f->block_columns;
    to->in_row = blocks_of(k, to->columns);
    return matrix && t->shape[0] == blocks_of(n, to->rows) && t->shape[1] == to->in_row;
}

static cdz_status wrong_factors(const cdz_fp8 *f, const cdz_tensor *t, size_t n, size_t k)
{
    char shape[128];
    return cdz_err(
        f->err, CDZ_E_INPUT,
        "%s: tensor %s is %s of %s, expected F32, F16, BF16 or F8_E8M0: one number, one for each of "
        "%zu rows, or [%zu, %zu] for blocks of %zux%zu",
        path_of(f, t), t->name, cdz_tensor_shape_text(t, shape, sizeof shape), t->dtype, n,
        blocks_of(n, f->block_rows), blocks_of(k, f->block_columns), f->block_rows,
        f->block_columns);
}

/* A larger factor could leave float32 on the way of a kernel, which doubles its exponent's bias first. */
static cdz_status check_factors(const cdz_fp8 *f, const cdz_tensor *t, const float *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(all[i]) <= 0x1p100f))
            return cdz_err(f->err, CDZ_E_INPUT,
                           "%s: tensor %s: number %zu is %g, expected up to 2^100", path_of(f, t),
                           t->name, i, (double)all[i]);
    return CDZ_OK;
}

/* A power of two, by its exponent plus 127; 255 is NaN. */
static void widen_powers(float *to, const uint8_t *exponents, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = exponents[i] == 255 ? NAN : ldexpf(1.0f, (int)exponents[i] - 127);
}

static cdz_status must_find_factors(const cdz_fp8 *f, const cdz_tensor *w, const cdz_tensor **out)
{
    *out = find_factors(f, w);
    if (*out) return CDZ_OK;
    return cdz_err(f->err, CDZ_E_INPUT,
                   "%s: tensor %s is of F8_E4M3, but neither %s_scale_inv nor %s_scale is there",
                   path_of(f, w), w->name, w->name, w->name);
}

/* t: the factors of a weight of n rows of k. */
static cdz_status read_factors(const cdz_fp8 *f, const cdz_tensor *t, size_t n, size_t k,
                               factors *to)
{
    cdz_dtype dtype = CDZ_F32;
    const bool powers = strcmp(t->dtype, "F8_E8M0") == 0;
    const bool plain = powers || (cdz_tensor_dtype(t, &dtype) && dtype < CDZ_N_PLAIN);
    if (!plain || !spread(f, t, n, k, to)) return wrong_factors(f, t, n, k);
    const size_t count = (size_t)t->n_bytes / (powers ? 1 : cdz_dtype_bytes(dtype));
    void *stored = malloc((size_t)t->n_bytes);
    to->all = malloc(count * sizeof *to->all);
    cdz_status st =
        stored && to->all ? read_rows(f, t, 0, stored, (size_t)t->n_bytes) : no_memory(f, t);
    if (st == CDZ_OK) {
        if (powers)
            widen_powers(to->all, stored, count);
        else
            cdz_widen(dtype, to->all, stored, count);
        st = check_factors(f, t, to->all, count);
    }
    free(stored);
    return st;
}

static float factor_at(const factors *s, size_t row, size_t column)
{
    return s->all[row / s->rows * s->in_row + column / s->columns];
}

/* --- blocks -------------------------------------------------------------------------------- */

static cdz_status check_bytes(const cdz_fp8 *f, const cdz_tensor *t, const uint8_t *bytes, size_t n,
                              size_t row)
{
    for (size_t i = 0; i < n; i++)
        if ((bytes[i] & 0x7f) == 0x7f)
            return cdz_err(f->err, CDZ_E_INPUT, "%s: tensor %s has NaN in row %zu, column %zu",
                           path_of(f, t), t->name, row, i);
    return CDZ_OK;
}

/* A row of k bytes: as blocks, or as the numbers that such blocks have. */
static void lay_row(char *to, const factors *s, const uint8_t *bytes, size_t row, size_t k,
                    bool blocks)
{
    const size_t each = blocks ? BLOCK : 1;
    for (size_t c = 0; c < k; c += each, bytes += each) {
        uint8_t block[OURS] = {0};
        float wide[BLOCK];
        const float factor = factor_at(s, row, c);
        memcpy(block, &factor, sizeof factor);
        memcpy(block + 4, bytes, k - c < each ? k - c : each);
        if (blocks) {
            memcpy(to + c / BLOCK * OURS, block, OURS);
        } else {
            cdz_widen(CDZ_FP8, wide, block, BLOCK);
            memcpy(to + c * sizeof *wide, wide, sizeof *wide);
        }
    }
}

static cdz_status lay_rows(const cdz_fp8 *f, const cdz_tensor *t, const factors *s, uint8_t *band,
                           size_t in_band, char *to, const cdz_weight *w)
{
    const size_t stride = cdz_row_bytes(w->dtype, w->k);
    for (size_t row = 0; row < w->n; row += in_band) {
        const size_t rows = w->n - row < in_band ? w->n - row : in_band;
        CDZ_TRY(read_rows(f, t, (uint64_t)row * w->k, band, rows * w->k));
        for (size_t r = 0; r < rows; r++) {
            CDZ_TRY(check_bytes(f, t, band + r * w->k, w->k, row + r));
            lay_row(to + (row + r) * stride, s, band + r * w->k, row + r, w->k, w->dtype == CDZ_FP8);
        }
    }
    return CDZ_OK;
}

static cdz_status read_matrix(const cdz_fp8 *f, const cdz_tensor *t, const cdz_tensor *by, size_t n,
                              size_t k, cdz_weight *out)
{
    factors s = {0};
    cdz_status st = read_factors(f, by, n, k, &s);
    const bool fits = s.columns >= k || s.columns % BLOCK == 0;
    *out = (cdz_weight){.dtype = fits ? CDZ_FP8 : CDZ_F32, .n = n, .k = k};
    if (st == CDZ_OK) {
        const size_t in_band = k < BAND_BYTES ? BAND_BYTES / k : 1;
        char *data = cdz_arena_alloc_aligned(f->arena, n * cdz_row_bytes(out->dtype, k), 64);
        uint8_t *band = malloc(in_band * k);
        out->data = data;
        st = data && band ? lay_rows(f, t, &s, band, in_band, data, out) : no_memory(f, t);
        free(band);
    }
    free(s.all);
    return st;
}

static void mark(const cdz_fp8 *f, const cdz_tensor *weight, const cdz_tensor *by)
{
    f->used[weight - f->tensors->items] = f->used[by - f->tensors->items] = true;
}

cdz_status cdz_fp8_read(const cdz_fp8 *f, const cdz_tensor *t, size_t n, size_t k, cdz_weight *out)
{
    const cdz_tensor *by;
    CDZ_TRY(must_find_factors(f, t, &by));
    mark(f, t, by);
    return read_matrix(f, t, by, n, k, out);
}

/* Part e of a tensor of so many. */
static cdz_tensor part_of(const cdz_tensor *all, size_t parts, size_t e)
{
    cdz_tensor one = *all;
    one.n_dims--;
    one.shape++;
    one.n_bytes /= parts;
    one.data = (const char *)all->data + e * one.n_bytes;
    return one;
}

cdz_status cdz_fp8_read_stack(const cdz_fp8 *f, const cdz_tensor *t, size_t parts, size_t n,
                              size_t k, cdz_weight *out)
{
    const cdz_tensor *by;
    CDZ_TRY(must_find_factors(f, t, &by));
    const bool apart = by->n_dims > 0 && by->shape[0] == parts;
    mark(f, t, by);
    for (size_t e = 0; e < parts; e++) {
        const cdz_tensor one = part_of(t, parts, e);
        const cdz_tensor own = apart ? part_of(by, parts, e) : *by;
        CDZ_TRY(read_matrix(f, &one, &own, n, k, &out[e]));
    }
    return CDZ_OK;
}

/* Block c of rows [row, row + 64) as blocks of 64 rows of the transposed matrix, one each; fewer where the matrix ends. */
static bool turn_block(const cdz_weight *from, size_t row, size_t c, uint8_t *to)
{
    const size_t n_rows = from->n - row < BLOCK ? from->n - row : BLOCK,
                 n_columns = from->k - c * BLOCK < BLOCK ? from->k - c * BLOCK : BLOCK;
    const size_t stride = cdz_row_bytes(CDZ_FP8, from->k),
                 to_stride = cdz_row_bytes(CDZ_FP8, from->n);
    const uint8_t *first = (const uint8_t *)from->data + row * stride + c * OURS;
    uint8_t *to_first = to + c * BLOCK * to_stride + row / BLOCK * OURS;
    for (size_t r = 0; r < n_rows; r++)
        if (memcmp(first + r * stride, first, 4) != 0) return false;
    for (size_t i = 0; i < n_columns; i++) {
        uint8_t *block = to_first + i * to_stride;
        memset(block, 0, OURS);
        memcpy(block, first, 4);
        for (size_t r = 0; r < n_rows; r++) block[4 + r] = first[r * stride + 4 + i];
    }
    return true;
}

bool cdz_fp8_turn(const cdz_weight *from, void *to)
{
    for (size_t row = 0; row < from->n; row += BLOCK)
        for (size_t c = 0; c * BLOCK < from->k; c++)
            if (!turn_block(from, row, c, to)) return false;
    return true;
}
