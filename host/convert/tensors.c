/* tensors.c - the bytes of a tensor that is written: rows in another order, numbers in another
 * type. */
#include "convert/tensors.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20, WIDEST = 4 }; /* bytes written at once; of a number in any type */

void cdz_out_tensors_free(cdz_out_tensors *set)
{
    free(set->items);
    cdz_arena_free(&set->arena);
    *set = (cdz_out_tensors){0};
}

bool cdz_out_tensors_add(cdz_out_tensors *set, const cdz_out_tensor *tensor)
{
    if (set->n == set->cap) {
        const size_t cap = set->cap ? set->cap * 2 : 64;
        cdz_out_tensor *grown = realloc(set->items, cap * sizeof *grown);
        if (!grown) return false;
        set->items = grown;
        set->cap = cap;
    }
    cdz_out_tensor *t = &set->items[set->n];
    *t = *tensor;
    if (t->type < CDZ_N_DTYPES) {
        uint64_t rows = 1;
        for (uint32_t d = 0; d + 1 < t->n_dims; d++) rows *= t->shape[d];
        t->dtype = cdz_dtype_name(t->type);
        t->n_bytes = rows * cdz_row_bytes(t->type, (size_t)t->shape[t->n_dims - 1]);
    }
    set->n_bytes += t->n_bytes;
    set->n++;
    return t->name != NULL;
}

/* --- rows ---------------------------------------------------------------------------------- */

/* n rows in all, `heads` heads of d. */
static size_t source_row(const cdz_out_tensor *t, size_t n, size_t i)
{
    if (t->order == CDZ_ROWS_AS_THEY_ARE) return i;
    const size_t d = n / t->heads, in_head = i % d, head = i - in_head;
    if (t->order == CDZ_ROWS_TO_PAIRS) return head + in_head % 2 * (d / 2) + in_head / 2;
    if (t->order == CDZ_ROWS_FROM_PAIRS) return head + in_head % (d / 2) * 2 + in_head / (d / 2);
    const size_t each = d / 3; /* by head: q, k and v of each */
    return (in_head / each * t->heads + i / d) * each + in_head % each;
}

/* Row i of a part as float32. */
static void widened_row(const cdz_weight *w, size_t i, float add, float *row)
{
    cdz_widen(w->dtype, row, (const char *)w->data + i * cdz_row_bytes(w->dtype, w->k), w->k);
    for (size_t c = 0; add != 0.0f && c < w->k; c++) row[c] += add;
}

static cdz_status write_bytes(cdz_out *out, const char *from, uint64_t n)
{
    for (uint64_t at = 0; at < n; at += PIECE)
        CDZ_TRY(cdz_out_write(out, from + at, n - at < PIECE ? (size_t)(n - at) : PIECE));
    return CDZ_OK;
}

static cdz_status write_part(const cdz_out_tensor *t, const cdz_weight *w, cdz_out *out, float *row,
                             char *encoded)
{
    const size_t from_bytes = cdz_row_bytes(w->dtype, w->k), to_bytes = cdz_row_bytes(t->type, w->k);
    const bool same = t->type == w->dtype && t->add == 0.0f;
    if (same && t->order == CDZ_ROWS_AS_THEY_ARE)
        return write_bytes(out, w->data, (uint64_t)from_bytes * w->n);
    for (size_t i = 0; i < w->n; i++) {
        const size_t from = source_row(t, w->n, i);
        if (same) {
            CDZ_TRY(cdz_out_write(out, (const char *)w->data + from * from_bytes, from_bytes));
            continue;
        }
        widened_row(w, from, t->add, row);
        cdz_quantise(t->type, encoded, row, w->k);
        CDZ_TRY(cdz_out_write(out, encoded, to_bytes));
    }
    return CDZ_OK;
}

/* (k, n) from (n, k), by way of all of it in float32. */
static cdz_status write_transposed(const cdz_out_tensor *t, const cdz_weight *w, cdz_out *out,
                                   float *row, char *encoded)
{
    size_t n_numbers;
    float *all = NULL;
    if (!__builtin_mul_overflow(w->n, w->k, &n_numbers)) all = calloc(n_numbers, sizeof *all);
    if (!all) return cdz_err_memory_in(out->err, out->path);
    cdz_status st = CDZ_OK;
    for (size_t i = 0; i < w->n; i++) widened_row(w, i, t->add, all + i * w->k);
    for (size_t c = 0; st == CDZ_OK && c < w->k; c++) {
        for (size_t i = 0; i < w->n; i++) row[i] = all[i * w->k + c];
        cdz_quantise(t->type, encoded, row, w->n);
        st = cdz_out_write(out, encoded, cdz_row_bytes(t->type, w->n));
    }
    free(all);
    return st;
}

cdz_status cdz_out_tensor_write(const cdz_out_tensor *t, cdz_out *out)
{
    if (t->type == CDZ_N_DTYPES) return write_bytes(out, t->parts->data, t->n_bytes);
    const size_t longest = t->parts->n > t->parts->k ? t->parts->n : t->parts->k;
    float *row = calloc(longest ? longest : 1, sizeof *row);
    char *encoded = calloc(longest ? longest : 1, WIDEST);
    cdz_status st = row && encoded ? CDZ_OK : cdz_err_memory_in(out->err, out->path);
    for (size_t p = 0; st == CDZ_OK && p < t->n_parts; p++)
        st = t->order == CDZ_ROWS_TRANSPOSED ? write_transposed(t, &t->parts[p], out, row, encoded)
                                             : write_part(t, &t->parts[p], out, row, encoded);
    free(row);
    free(encoded);
    return st;
}
