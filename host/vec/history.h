/* history.h - operations on few elements of a row, chosen by ids; the same code for every instruction set. */
#ifndef CDZ_HOST_VEC_HISTORY_H
#define CDZ_HOST_VEC_HISTORY_H

#include <stddef.h>
#include <stdint.h>

/* As in cadenza/ext/vec.h. scratch: n / 8 + 8 bytes. */
void cdz_history_mask_ids(float *x, size_t n, const int32_t *ids, size_t n_ids);
void cdz_history_mask_except(float *x, size_t n, const int32_t *ids, size_t n_ids, void *scratch);
void cdz_history_penalize(float *x, size_t n, const int32_t *ids, size_t n_ids, float p,
                          void *scratch);
/* What would complete an n-gram of `of` after the last g - 1 of ids. */
void cdz_history_ban_ngrams_of(float *x, size_t n, const int32_t *ids, size_t n_ids,
                               const int32_t *of, size_t n_of, size_t g);
void cdz_history_ban_ngrams(float *x, size_t n, const int32_t *ids, size_t n_ids, size_t g);

#endif
