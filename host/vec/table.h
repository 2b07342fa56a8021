/* table.h - the bodies of the vector operations, put together into one table. Included once per instruction set by a
 * file that says which: vec_scalar.c, vec_avx2.c. */
#include "vec/body_filter.h"
#include "vec/body_fused.h"
#include "vec/history.h"
#include "vec/vec.h"

static const cdz_vec table = {
    .size = sizeof(cdz_vec),
    .fill = fill,
    .add = add,
    .mul = mul,
    .div = divide,
    .clamp = clamp,
    .exp = exponential,
    .log = logarithm,
    .abs = absolute,
    .pow = power,
    .add_v = add_v,
    .sub_v = sub_v,
    .mul_v = mul_v,
    .div_v = div_v,
    .max_v = max_v,
    .min_v = min_v,
    .axpy = axpy,
    .lerp = lerp,
    .mask_below = mask_below,
    .mask_ids = cdz_history_mask_ids,
    .mask_except = cdz_history_mask_except,
    .max = maximum,
    .min = minimum,
    .argmax = argmax,
    .sum = sum,
    .dot = dot,
    .logsumexp = logsumexp,
    .entropy = entropy,
    .count_above = count_above,
    .any_nan = any_nan,
    .softmax = softmax,
    .log_softmax = log_softmax,
    .cumsum = cumsum,
    .topk = topk,
    .sort = sort,
    .kth_largest = kth_largest,
    .keep_topk = keep_topk,
    .keep_topp = keep_topp,
    .keep_minp = keep_minp,
    .keep_typical = keep_typical,
    .keep_epsilon = keep_epsilon,
    .keep_eta = keep_eta,
    .penalize = cdz_history_penalize,
    .ban_ngrams = cdz_history_ban_ngrams,
};

static const cdz_fuser fuser = {.run = fused_run,
                                .run_leading = fused_run_leading,
                                .softmax = fused_softmax,
                                .write = fused_write};
