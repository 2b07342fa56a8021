/* kernels.h - the tensor interface: all that the host sees of a compute backend.
 *
 * Knows matrices, strides, devices and positions; no tokens' meaning, no files, no requests.
 *
 * One written order. Whatever the kernel set (scalar, AVX2, AVX-512), the batch, the chunking of
 * a prompt and the number of threads, one output row has the same bits. Plain dot products: the
 * k axis is cut at absolute multiples of 1024; inside a chunk 16 lanes, lane l takes k = l,
 * l+16, ... ascending by fused multiply-add from +0, folded 16->8 (s[l]+s[l+8]), 8->4, then
 * (s0+s1)+(s2+s3); chunks are added ascending. A row counts as padded with zeros to a multiple
 * of 16. ref/ holds these definitions as plain C, attention's order too (ref_attention.c). Work
 * is split over outputs, never over k. Everything is float32; weights are widened exactly, quantised ones
 * as ref/quant_rows.h defines. With int8 activations (ref/ref_int8.c) a block of 32 gives an exact
 * integer and one or two multiply-adds, blocks ascending, one accumulator per output.
 * Compiled with -ffp-contract=off: fused multiply-add only where it is written. */
#ifndef CDZ_KERNELS_H
#define CDZ_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The plain types, then GGUF's block-quantised ones: blocks of 32, then of 256; then blocks of 64 of
 * bitsandbytes' types, laid out by us (ref/quant_rows.h); then types that are read and never made: GGUF's MXFP4 and IQ4
 * ones, and blocks of 64 of float8_e4m3fn, laid out by us too. */
typedef enum cdz_dtype {
    CDZ_F32,
    CDZ_F16,
    CDZ_BF16,
    CDZ_N_PLAIN,
    CDZ_Q8_0 = CDZ_N_PLAIN,
    CDZ_Q4_0,
    CDZ_N_KV, /* keys and values can be kept in those before it */
    CDZ_Q4_1 = CDZ_N_KV,
    CDZ_Q5_0,
    CDZ_Q5_1,
    CDZ_Q2_K,
    CDZ_Q3_K,
    CDZ_Q4_K,
    CDZ_Q5_K,
    CDZ_Q6_K,
    CDZ_N_GGUF,
    CDZ_NF4 = CDZ_N_GGUF,
    CDZ_FP4,
    CDZ_INT8,
    CDZ_N_MADE, /* cdz_quantise makes those before it */
    CDZ_MXFP4 = CDZ_N_MADE,
    CDZ_IQ4_NL,
    CDZ_IQ4_XS,
    CDZ_FP8,
    CDZ_N_DTYPES,
} cdz_dtype;

size_t cdz_dtype_bytes(cdz_dtype dtype); /* of a block; of an element of a plain type */
size_t cdz_dtype_block(cdz_dtype dtype); /* elements of a block; 1 for a plain type */
/* n: a multiple of the block; of CDZ_FP8 any number, a last block is whole and what it has past the row is never read as a number */
size_t cdz_row_bytes(cdz_dtype dtype, size_t n);
const char *cdz_dtype_name(cdz_dtype dtype); /* "F32", "Q4_K" */

/* A whole row of n elements, a multiple of the block but for CDZ_FP8, to float32, exactly; and from it, rounded as
 * the type's reference does (ref/quantise.c), to types before CDZ_N_MADE. Block types may lie anywhere, plain ones aligned. */
void cdz_widen(cdz_dtype dtype, float *y, const void *x, size_t n);
void cdz_quantise(cdz_dtype dtype, void *y, const float *x, size_t n);

/* How a matrix lies, and what multiplies it. Those for int8 are for blocks whose type has whole
 * numbers in it (cdz_backend_api.takes_int8), the one for bf16 is for CDZ_BF16 with k even and data at a multiple of four
 * bytes (cdz_backend_api.takes_bf16): then the k axis is cut at multiples of 2048, columns 2i and 2i + 1 go to lane i % 16,
 * the second first, and what is below the smallest normal number counts as zero.
 *
 * Those for activations in parts (cdz_backend_api.takes_parts) are for CDZ_BF16 too. An activation is the sum of one or three
 * numbers in bf16: the first is x rounded, each further one what the ones before leave, rounded; three of them leave nothing of a
 * float32. What is left of a number whose first part is not finite is zero. Columns are taken 32 at a time, ascending, the last
 * ones padded with zeros; of each 32 the least part comes first. Two sums from +0, one of the even columns and one of the odd ones,
 * by fused multiply-adds, ascending; then y = y + (even + odd). What is below the smallest normal number counts as zero. That is
 * what TDPBF16PS computes (Intel's manual, volume 2). */
typedef enum cdz_weight_form {
    CDZ_WEIGHT_ROWS,   /* rows, times float32 */
    CDZ_WEIGHT_INT8,   /* rows, times activations rounded to int8 */
    CDZ_WEIGHT_PANELS, /* the same, in panels of CDZ_PANEL_ROWS rows; rows left over lie as rows */
    CDZ_WEIGHT_BF16,   /* rows, times activations rounded to bf16 */
    CDZ_WEIGHT_BF16X1, /* rows, times activations in one part of bf16 */
    CDZ_WEIGHT_BF16X3, /* in three */
} cdz_weight_form;

enum { CDZ_PANEL_ROWS = 16 };

bool cdz_has_panels(cdz_dtype dtype);
/* n rows of k columns, `stride` bytes apart, as panels: the same bytes in another order. In a panel, blocks
 * one after the other; in a block the two-byte fields of its sixteen rows side by side, then the
 * four-byte words (ref/panels.c). The places of rows that a last panel lacks are left as they are. */
void cdz_to_panels(cdz_dtype dtype, void *to, const void *rows, size_t stride, size_t n, size_t k);
/* The bytes of one row of a panel, for columns [0, k) of what starts at `panel`. */
void cdz_row_of_panel(cdz_dtype dtype, void *to, const void *panel, size_t row, size_t k);

/* A weight matrix (n, k), row-major, one row per output, in memory that outlives the backend's
 * use of it (a mapped file). Vectors (norms, biases) are (1, n). data need only be aligned to
 * its element, and to a byte where it has blocks; k is as cdz_row_bytes takes it. */
typedef struct cdz_weight {
    const void *data; /* NULL: absent */
    cdz_dtype dtype;
    size_t n, k;
    cdz_weight_form form;
} cdz_weight;

/* One product of a fused set that shares its input:
 * y[r*ldy + j] = dot(w row j, x row r) + bias[j]. */
typedef struct cdz_product {
    const cdz_weight *w;    /* (n, k) */
    const cdz_weight *bias; /* (1, n) or NULL; added once, after the chunks */
    float *y;               /* (m, n), stride ldy floats */
    size_t ldy;
} cdz_product;

enum { CDZ_ROPE_REGROUP = 2048 };

/* Which rotation a head's pairs get. Frequencies are made by the host from the model's rope
 * description. */
typedef struct cdz_rope {
    const float *inv_freq; /* (n_rotated / 2) */
    size_t n_rotated;      /* leading dims of a head that rotate; the rest pass through */
    float scale;           /* factor on cos and sin; 1 unless the variant has an attention factor */
    bool interleaved;      /* pairs are (2i, 2i+1) instead of (i, i + n_rotated/2) */
    bool regroup; /* interleaved pairs leave as (i, i + n_rotated/2); n_rotated <= CDZ_ROPE_REGROUP */
} cdz_rope;

/* Activation functions: gelu by the error function, by tanh (gelu_new, gelu_pytorch_tanh), relu,
 * silu and the sigmoid. */
typedef enum cdz_curve {
    CDZ_CURVE_GELU,
    CDZ_CURVE_GELU_TANH,
    CDZ_CURVE_RELU,
    CDZ_CURVE_SILU,
    CDZ_CURVE_SIGMOID,
    CDZ_N_CURVES
} cdz_curve;

/* The matrices of an expert. */
enum { CDZ_EXPERT_GATE, CDZ_EXPERT_UP, CDZ_EXPERT_DOWN, CDZ_EXPERT_PARTS };

/* What gates by clamped numbers, as gpt_oss does it (ref/rows.h). */
#define CDZ_CLAMP_AT    7.0f
#define CDZ_CLAMP_SLOPE 1.702f

/* y = above x^2 + both x where x > 0, else below (e^x - 1 - x) + both x. */
typedef struct cdz_xielu {
    float above, below, both;
} cdz_xielu;

/* A layer's experts: n feed-forwards down(curve(gate) * up), or down(curve(up)). Gates are of one type and shape, and so are
 * ups and downs, and the biases of each. */
typedef struct cdz_experts {
    cdz_weight part[CDZ_EXPERT_PARTS]; /* of the first expert; data of the gate NULL: there are none */
    /* (n, CDZ_EXPERT_PARTS) where the data of each lie, as place gave them; itself in memory from alloc, written by upload */
    const void *const *at;
    cdz_weight bias[CDZ_EXPERT_PARTS]; /* of the first expert; data NULL: the part has none */
    const void *const *bias_at;        /* as `at`, of the biases */
    size_t n, n_active;                /* experts, and those that a row goes to */
    bool normalise;
    bool clamped; /* the gate is clamped_mul's, whatever the curve */
    cdz_curve curve;
} cdz_experts;

/* The paged KV store of one model. A block holds CDZ_KV_BLOCK positions of every layer. Inside,
 * per layer and kv head, keys lie as [CDZ_KV_BLOCK/8][head_dim][8] (eight positions side by
 * side) and values as [CDZ_KV_BLOCK][head_dim], in the type of the shape (blocks: ref/kv_layout.h); the backend alone reads
 * and writes them. Always finite: fresh blocks are zeroed. */
enum { CDZ_KV_BLOCK = 32 };
typedef struct cdz_kv cdz_kv;

typedef struct cdz_kv_shape {
    size_t n_layers, n_kv_heads, head_dim;
    /* One before CDZ_N_KV: keys and values are rounded to it when written, and widened when read. Q8_0, Q4_0: by blocks
     * along head_dim, a multiple of 32. */
    cdz_dtype type;
    /* Values are the first so many numbers of their keys, and only keys are kept: latents (MLA), of a plain type. 0: values
     * are as long as keys. */
    size_t value_dim;
} cdz_kv_shape;

/* How a packed store keeps what a plain one held: numbers in groups, each a whole number of `bits` bits and two float32 of its
 * group, as optimum-quanto does it, or hqq before it looks for better zeros. q is rounded to nearest, ties to even, and kept in [0, most], most = 2^bits - 1.
 *   plain:   scale = (max - min) / most, zero = -min;  q = (x + zero) / scale, 0 where scale is 0;  read: q * scale - zero
 *   centred: s = 1 / (max - min) * most, 1 where max - min <= 1e-4, at most 2e4; zero = -min * s; scale = 1 / s;
 *            q = x * s + zero;  read: (q - zero) * scale
 * Each operation is rounded to float32. A group with a number that is none, or whose range is none, reads as NaN throughout.
 *
 * Groups lie within one kv head: `positions` of a sequence, from an absolute multiple of it, by `dims`, from a multiple of
 * it. A span, cdz_kv_span positions from an absolute multiple of it, is packed as a whole when its last position has been written, from what
 * the plain store holds. Position t reads a span packed when the span ends `residual` positions before t or earlier, t itself
 * counting as one of these, and what follows plain; so a row's bits hang on its position, not on when what was computed. */
typedef struct cdz_kv_grouping {
    uint32_t positions, dims; /* dims a multiple of eight, or 1, and positions a multiple of eight */
} cdz_kv_grouping;

typedef struct cdz_kv_packing {
    uint32_t bits; /* 1 to 4, 8 */
    bool centred;
    cdz_kv_grouping keys, values;
    uint32_t residual;
} cdz_kv_packing;

enum { CDZ_KV_SPAN_MOST = 256 };

/* Positions that are packed together: the least multiple of a block in which whole groups lie. */
static inline uint32_t cdz_kv_span(const cdz_kv_packing *packing)
{
    uint32_t n = CDZ_KV_BLOCK;
    while (n % packing->keys.positions || n % packing->values.positions) n += CDZ_KV_BLOCK;
    return n;
}

/* Position t reads those before this one packed: whole spans. */
static inline uint32_t cdz_kv_packed_before(const cdz_kv_packing *packing, uint32_t t)
{
    const uint32_t span = cdz_kv_span(packing);
    return t + 1 > packing->residual ? (t + 1 - packing->residual) / span * span : 0;
}

/* One query row of an attention call: position p of a sequence sees the positions
 * [max(0, p - window + 1), p + ahead]. */
typedef struct cdz_kv_row {
    const int32_t *blocks; /* of the sequence: position p is in blocks[p / CDZ_KV_BLOCK] */
    uint32_t position;
    uint32_t ahead; /* 0: causal */
    /* (n_layers, n_kv_heads) of a pressed cache whose heads hold differently many entries: for that layer and head the row's
     * position is so much less. NULL: nothing is. Rows of one sequence share the pointer. */
    const uint32_t *less;
} cdz_kv_row;

/* What attention does beside reading its operands. */
typedef struct cdz_attention {
    size_t n_heads;  /* query heads */
    float scale;     /* of the scores */
    float soft_cap;  /* of the scaled and biased scores; 0: none */
    uint32_t window; /* 0: everything */
    /* (n_heads) a score more of each head, neither scaled nor capped, at which there is no value. Like weights: read until
     * sync. NULL: none. */
    const float *sinks;
    /* Added to scaled scores by distance: head h's for key position k and query position q is
     * bias[h * bias_stride + bias_zero + k - q]. Like weights: read until sync. NULL: none. */
    const float *bias;
    size_t bias_stride, bias_zero;
    /* A packed store beside the plain one, and for each row of the call where its spans lie there: span s is in
     * packed_blocks[row][s]. The plain blocks of what a row reads packed are not read. NULL: none. */
    const cdz_kv *packed;
    const int32_t *const *packed_blocks;
} cdz_attention;

/* Recurrent layers. What a sequence has of them lies in one piece of memory from alloc: for each of its layers a window, the newest
 * inputs of a convolution, oldest first, and for each head a matrix. The rows of a pass that are one sequence's stand together, in the
 * order of their positions, and run one after the other: the recurrence itself, never a form that takes several at once. So what
 * a row gives, and what it leaves behind, hangs on the rows before it alone, however a sequence was cut into passes. */
typedef struct cdz_state_run {
    uint32_t first, n; /* rows [first, first + n) of the call */
    float *state;      /* of all layers; what it held is as if there had been rows before */
} cdz_state_run;

enum { CDZ_CONV_TAPS_MOST = 16 };

/* A causal convolution of each channel by itself: with u the input, times in_gate,
 * y[t] = f(sum of w[j] * u[t - taps + 1 + j], j ascending by fused multiply-add from +0, plus bias) times out_gate; f is silu or
 * nothing. A run's window is (taps - 1, channels). */
typedef struct cdz_conv {
    size_t channels, taps; /* taps from 2 to CDZ_CONV_TAPS_MOST */
    size_t at;             /* where in a run's state the window lies, in floats */
    const float *w;        /* (taps, channels), like weights; the last one meets the newest input */
    const float *bias;     /* (channels), the same, or NULL */
    const float *in_gate, *out_gate; /* (m, channels), as x lies; or NULL */
    bool silu;
} cdz_conv;

enum { CDZ_STATE_CHAINS = 4 };

/* A head's state S (rows, columns), by k and q (rows) of its group, v (columns), a and b:
 *   t = softplus(a + shift), at least low and at most high;  e = exp(rate * t)
 *   S *= e;  d = t * v, or where it corrects d = (v - S^T k) * sigmoid(b);  S += k d^T;  y = S^T q (+ skip * v)
 * Sums over rows are CDZ_STATE_CHAINS chains, chain i % CDZ_STATE_CHAINS takes row i, ascending by fused multiply-add from +0, then
 * (0 + 1) + (2 + 3); S += and the last sum are fused multiply-adds. A run's matrices are (heads, rows, columns). */
typedef struct cdz_recurrence {
    size_t heads, groups, rows, columns; /* groups divide heads */
    size_t at;                           /* where in a run's state the matrices lie, in floats */
    bool corrects;                       /* the delta rule */
    bool groups_alternate;            /* head h's group is h % groups, not h / (heads / groups) */
    const float *rate, *shift, *skip; /* (heads), like weights; skip may be NULL */
    float low, high;
    const float *k, *q; /* (m, groups * rows), each ldk apart */
    size_t ldk;
    const float *v; /* (m, heads * columns) */
    size_t ldv;
    const float *a, *b; /* (m, heads), one after the other; b where it corrects */
} cdz_recurrence;

/* The best of one row of scores. Asked: how many, and where to; told: all scores that are not below `low`, by rising index.
 * In host memory, all of it. */
enum { CDZ_LEADERS_MOST = 1024 };
typedef struct cdz_leaders {
    uint32_t least; /* asked: about so many, or some more; 0: this row is left alone */
    float divisor;  /* asked: of the scores that mass is for; 0: it is not wanted */
    int32_t *ids;   /* (CDZ_LEADERS_MOST) */
    float *x;       /* (CDZ_LEADERS_MOST) */
    uint32_t n; /* told: how many there are; above CDZ_LEADERS_MOST: too many, or a NaN in the row, and no list */
    float low; /* a little below the score that many are not below; -FLT_MAX: all else is -inf */
    double mass; /* the sum of exp(x / divisor - top / divisor), off by less than 16 roundings of float32 */
    const int32_t
        *edited; /* (n_edited) asked: indices of scores that are wanted whatever the others are */
    uint32_t n_edited;
    float *was; /* (n_edited) told, NaN in the row or not: those scores */
    /* ((n + 63) / 64) asked: a score without its bit, i % 64 of word i / 64, counts as -inf, but for `was`. NULL: all count as
     * they are. */
    const uint64_t *kept;
} cdz_leaders;

typedef struct cdz_backend cdz_backend;

/* Activations are float32, row-major (m, n) with a stride in floats.
 * Where what lies. On the CPU everything is host memory. On a device, memory from alloc (activations, scores, states, the
 * tables of attention's bias and sinks, the vectors of recurrent layers) and from place (weights, norms, biases: cdz_weight.data) is the device's; the host reads and
 * writes it through upload, download and copy alone. Host memory on every backend: the structures themselves, ids,
 * positions, frequencies, rows and their blocks, runs, route's outputs, add_scaled's `to` and `factors`, what
 * attention_weights gives.
 * Calls on one backend come from one thread at a time, not always the same; each returns when its outputs are visible to
 * the next call and, in host memory, to the caller. What a call has read may change or go away as soon as it has returned,
 * with one exception: a late thread may still be reading weights, so these are unmapped only
 * after sync. */
typedef struct cdz_backend_api {
    uint32_t size;
    const char *name;    /* "cpu" */
    const char *variant; /* "scalar", "avx2", "avx512", "neon" */
    const char *device;  /* for people: "cpu", "cuda:0 NVIDIA H100" */
    bool host_memory;    /* memory from alloc and place is the host's too */

    void *(*alloc)(cdz_backend *b, size_t bytes); /* 64-byte aligned, zeroed; NULL: out of memory */
    void (*free)(cdz_backend *b, void *memory);
    void (*sync)(cdz_backend *b); /* until nothing is read or written any more */
    uint32_t (*n_threads)(const cdz_backend *b);
    /* Later calls run on at most n of these threads; results have the same bits. The pointer is NULL where it would not
     * matter. */
    void (*use_threads)(cdz_backend *b, uint32_t n);

    /* Whole pages of the host's memory that nobody has touched come from all its nodes in turns, once cdz_cpu_spread has been
     * called; before, nothing is done. NULL where no thread reads the host's memory. */
    void (*spread)(cdz_backend *b, void *memory, size_t bytes);

    /* Copies, ordered after earlier calls; the places do not overlap. upload: from host to device; `from` may change
     * once it has returned. download: the other way; returns when `to` is filled. copy: within the device. clear: to zeros. */
    void (*upload)(cdz_backend *b, void *to, const void *from, size_t bytes);
    void (*download)(cdz_backend *b, void *to, const void *from, size_t bytes);
    void (*copy)(cdz_backend *b, void *to, const void *from, size_t bytes);
    void (*clear)(cdz_backend *b, void *to, size_t bytes);
    /* A download that returns at once: `to` is the backend's until arrive is called with what comes back, and filled
     * then; whoever calls it waits for this copy, not for what was given after it. 0: it is filled already. NULL, both of
     * them, where memory is the host's. */
    uint64_t (*bring)(cdz_backend *b, void *to, const void *from, size_t bytes);
    void (*arrive)(cdz_backend *b, uint64_t ticket); /* 0 and what has arrived are fine */
    /* Bytes of a weight to where the operations read it, until unplace; the CPU reads them as they lie and returns
     * data itself. NULL: out of memory. */
    const void *(*place)(cdz_backend *b, const void *data, size_t bytes);
    void (*unplace)(cdz_backend *b, const void *placed); /* NULL is fine */
    /* What has gone wrong on the device, as a sentence; NULL: nothing. Operations give no status: after trouble they do
     * nothing, and results since an unknown call before are worthless, so the host asks after each pass. It stays: the
     * backend is of no use any more. The pointer is NULL where nothing can go wrong. */
    const char *(*trouble)(const cdz_backend *b);
    /* Bytes that can still be had, and in all. [any thread] */
    void (*memory)(const cdz_backend *b, size_t *free_bytes, size_t *total_bytes);

    /* May a weight of this type be in the forms for int8 activations? [any thread] */
    bool (*takes_int8)(const cdz_backend *b, cdz_dtype dtype);
    bool takes_bf16;    /* the form for activations in bf16 */
    bool takes_parts;   /* those for activations in parts of bf16 */
    bool takes_sinks;   /* cdz_attention.sinks */
    bool takes_latents; /* cdz_kv_shape.value_dim */
    bool takes_masks;   /* cdz_leaders.kept; no host asks for it where memory is its own */
    /* May a weight be of this type? NULL: of every one before CDZ_N_MADE. [any thread] */
    bool (*takes_type)(const cdz_backend *b, cdz_dtype dtype);
    /* cdz_to_panels of n rows, a multiple of CDZ_PANEL_ROWS, that lie one after the other, of a type that takes_int8. The
     * pointer is NULL where there is none. */
    void (*to_panels)(cdz_backend *b, cdz_dtype dtype, void *to, const void *rows, size_t n,
                      size_t k);
    /* n products over the same x (m, k), e.g. q, k, v. */
    void (*matmul)(cdz_backend *b, const cdz_product *products, size_t n, const float *x,
                   size_t ldx, size_t m);
    /* y[r] = table[ids[r]] widened; ids are in range. */
    void (*embed)(cdz_backend *b, float *y, size_t ldy, const cdz_weight *table, const int32_t *ids,
                  size_t m);
    /* y = x / sqrt(dot(x, x) / n + eps) * (offset + w), rounded as in LlamaRMSNorm: the product
     * with the reciprocal root first, then the one with the weight. */
    void (*rmsnorm)(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                    const cdz_weight *w, float eps, float offset);
    /* y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + bias */
    void (*layernorm)(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                      const cdz_weight *w, const cdz_weight *bias, float eps);
    /* In place on (m, n_heads * head_dim); row r is at positions[r]. An angle is the float32
     * product of position and inv_freq. */
    void (*rope)(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n_heads, size_t head_dim,
                 const uint32_t *positions, const cdz_rope *rope);
    /* y = gate / (1 + exp(-gate)) * up */
    void (*silu_mul)(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                     size_t ldg, size_t m, size_t n);
    /* y = curve(gate) * up; up NULL: y = curve(gate) */
    void (*activate)(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                     size_t ldg, size_t m, size_t n, cdz_curve curve);
    /* y = (min(up, 7) and at least -7, + 1) * (g * sigmoid(1.702 g)), g = min(gate, 7). NULL: the backend has none. */
    void (*clamped_mul)(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                        size_t ldg, size_t m, size_t n);
    /* As cdz_xielu says. NULL: the backend has none. */
    void (*xielu)(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                  size_t n, const cdz_xielu *how);
    /* y += x */
    void (*add)(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                size_t n);
    /* x *= factor */
    void (*scale)(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float factor);
    /* x = tanh(x / cap) * cap */
    void (*soft_cap)(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float cap);
    /* Which k of n experts a row goes to: softmax over its scores, the k largest, largest first,
     * the lower index first among equals; weights divided by their sum when normalised. weights
     * and ids (m, k). */
    void (*route)(cdz_backend *b, float *weights, int32_t *ids, size_t k, const float *scores,
                  size_t lds, size_t m, size_t n, bool normalise);
    /* y[to[r]] += factors[r] * x[r]; the rows `to` are distinct. */
    void (*add_scaled)(cdz_backend *b, float *y, size_t ldy, const int32_t *to,
                       const float *factors, const float *x, size_t ldx, size_t m, size_t n);

    /* y (m, D) = what experts give of x (m, D): each row's n_active of n, as route finds them in scores (m, n), times their
     * weights, added to zero in ascending index. The choice stays on the device: nobody waits for it. y lies apart from x.
     * False: nothing has been done, and the caller goes by way of route, as always where the pointer is NULL. */
    bool (*experts)(cdz_backend *b, float *y, size_t ldy, const cdz_experts *experts,
                    const float *scores, size_t lds, const float *x, size_t ldx, size_t m);

    /* The best of each row of x (m, n): the lowest index of the largest, the first NaN over everything. ids (m) are host
     * memory. NULL where memory is the host's, which looks itself. */
    void (*argmax)(cdz_backend *b, int32_t *ids, const float *x, size_t ldx, size_t m, size_t n);

    /* The best of each row of x (m, n), as told and asked in rows (m). NULL where argmax is. */
    void (*leaders)(cdz_backend *b, cdz_leaders *rows, const float *x, size_t ldx, size_t m,
                    size_t n);

    /* KV memory of n_blocks blocks; NULL: out of memory. */
    cdz_kv *(*kv_create)(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks);
    void (*kv_destroy)(cdz_backend *b, cdz_kv *kv);
    /* 0: a shape that does not fit, or a type that this backend does not keep. */
    size_t (*kv_block_bytes)(cdz_backend *b, const cdz_kv_shape *shape);
    /* A whole block, all layers. */
    void (*kv_copy)(cdz_backend *b, cdz_kv *kv, int32_t to, int32_t from);
    /* A whole block of a plain store as bytes, as many as kv_block_bytes says: into the host's memory, and back from what a
     * backend of the same name and build has read out of a store of the same shape. NULL, both: it cannot be had. */
    void (*kv_read)(cdz_backend *b, const cdz_kv *kv, int32_t block, void *to);
    void (*kv_restore)(cdz_backend *b, cdz_kv *kv, int32_t block, const void *from);
    /* Pressing: the positions of a sequence become entries, fewer of them. Of one layer and head, the first n: keys and values
     * (n, head_dim), widened, into the host's memory; v may be NULL. The three pointers are NULL where caches are not pressed. */
    void (*kv_get)(cdz_backend *b, const cdz_kv *kv, size_t layer, size_t head,
                   const int32_t *blocks, size_t n, float *k, float *v);
    /* Entry i becomes what entry from[i] was, for i in [0, n) ascending; from rises. No bit of an entry changes. */
    void (*kv_keep)(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head, const int32_t *blocks,
                    const uint32_t *from, size_t n);
    /* Other keys (n, head_dim) for the first n entries. */
    void (*kv_put_keys)(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head,
                        const int32_t *blocks, size_t n, const float *k);
    /* Stores keys and values (m, n_kv_heads * head_dim) of one layer at their rows' positions; v NULL where keys hold the
     * values. */
    void (*kv_write)(cdz_backend *b, cdz_kv *kv, size_t layer, const float *k, size_t ldk,
                     const float *v, size_t ldv, const cdz_kv_row *rows, size_t m);
    /* A packed store beside a plain one of this shape in float32, a span a block; NULL: out of memory. kv_destroy ends it.
     * Bytes of a block, 0: heads of that size are not packed so. The three pointers are NULL where nothing is packed. */
    cdz_kv *(*packed_create)(cdz_backend *b, const cdz_kv_shape *shape,
                             const cdz_kv_packing *packing, size_t n_blocks);
    size_t (*packed_block_bytes)(cdz_backend *b, const cdz_kv_shape *shape,
                                 const cdz_kv_packing *packing);
    /* After kv_write of these rows: packs the spans of this layer that end with one of them. */
    void (*kv_pack)(cdz_backend *b, cdz_kv *packed, const cdz_kv *kv, size_t layer,
                    const cdz_kv_row *rows, const int32_t *const *packed_blocks, size_t m);
    /* out and q (m, n_heads * head_dim), out (m, n_heads * value_dim) where the shape has that; grouped-query: query head h reads kv head h / (n_heads
     * / n_kv_heads). Scores are q.k * scale + bias, drawn into (-soft_cap, soft_cap) unless that is
     * 0; softmax as in ref_attention.c, by absolute position. Rows of one sequence that stand
     * together and share the pointer to its blocks are computed together. */
    void (*attention)(cdz_backend *b, float *out, size_t ldo, const float *q, size_t ldq,
                      const cdz_kv *kv, size_t layer, const cdz_kv_row *rows, size_t m,
                      const cdz_attention *how);

    /* The weights of one row of q (n_heads * head_dim): out[h * ldo + p] for every position p up to the last it sees,
     * after the softmax; zero before the window. For looking at, not for speed. */
    void (*attention_weights)(cdz_backend *b, float *out, size_t ldo, const float *q,
                              const cdz_kv *kv, size_t layer, const cdz_kv_row *row,
                              const cdz_attention *how);

    /* y (m, channels) of x, m the rows of all runs, which are distinct sequences'; y lies apart from what is read. The next two
     * are NULL where there are no such layers. */
    void (*conv)(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx,
                 const cdz_state_run *runs, size_t n_runs, const cdz_conv *how);
    /* y (m, heads * columns), apart from what is read. */
    void (*recur)(cdz_backend *b, float *y, size_t ldy, const cdz_state_run *runs, size_t n_runs,
                  const cdz_recurrence *how);

    /* Runs task(arg, i) for i in [0, n) on the backend's threads; used for row-wise native
     * processors. */
    void (*parallel)(cdz_backend *b, void (*task)(void *arg, size_t i), void *arg, size_t n);

    void (*destroy)(cdz_backend *b);
} cdz_backend_api;

struct cdz_backend {
    const cdz_backend_api *api;
};

/* What each of a backend's own threads does first, and last with what came of that. */
typedef struct cdz_on_thread {
    void *(*begin)(void);
    void (*end)(void *begun);
} cdz_on_thread;

typedef struct cdz_cpu_options {
    const char *variant; /* "scalar", "avx2", "avx512", "neon"; NULL: the best this machine runs */
    uint32_t n_threads;  /* 0: physical cores in this process's affinity mask */
    const cdz_on_thread *on_thread; /* outlives the backend; NULL: nothing */
} cdz_cpu_options;

/* NULL with a sentence in why (at least 256 bytes) when the variant is unknown or the machine
 * lacks it. */
cdz_backend *cdz_cpu_backend_create(const cdz_cpu_options *options, char *why, size_t why_bytes);
void cdz_cpu_free(
    void *memory); /* its free, for memory that is used for longer than the backend; any thread */

/* On a machine with several nodes of memory: binds the calling thread, which is to be the one that makes calls, to the first
 * node and the backend's own threads evenly to the others, and spreads what `spread` and kv_create are asked for from now
 * on. How many nodes there are, 1: nothing is done. folder: of the system's nodes, NULL: /sys/devices/system/node. */
uint32_t cdz_cpu_spread(cdz_backend *b, const char *folder);
uint32_t cdz_cpu_nodes(
    const char *folder); /* with processors that this process may run on, at least 1 */

/* The variants for this kind of processor, best first, NULL-terminated; whether one is in this build (one that is for a
 * single machine has not all), and whether it runs on this machine. */
const char *const *cdz_cpu_variants(void);
bool cdz_cpu_variant_is_built(const char *variant);
bool cdz_cpu_variant_runs_here(const char *variant);

#endif
