/* kernel_set.h - what one instruction set has to supply: a table of kernels, all with the same
 * bits.
 *
 * Private to kernels/. A set computes; it allocates nothing, knows no threads and no backend.
 * ref/ holds the scalar set, which is the definition; cpu/ holds the sets that are faster and
 * must equal it under memcmp. */
#ifndef CDZ_KERNEL_SET_H
#define CDZ_KERNEL_SET_H

#include "kernels.h"

enum {
    CDZ_LANES = 16,          /* partial sums of one dot product */
    CDZ_K_CHUNK = 1024,      /* the k axis is cut at absolute multiples of this */
    CDZ_BLOCK_ROWS = 64,     /* weight rows a lane-pass block packs at once */
    CDZ_LANE_GAP = 16,       /* floats after each lane of packed weights */
    CDZ_ATTEND_QUERIES = 24, /* query heads one attention tile carries along a sequence, at most */
    CDZ_POSITION_GROUP = 8   /* positions whose keys lie side by side */
};

/* y[r * ldy + j] = dot(w row j, x row r) for j < n, r < m. w has rows of k elements, no gap
 * between them, and is never read past its last element. A row counts as padded with zeros to a
 * multiple of 16 on both sides. */
typedef void cdz_dot_fn(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                        size_t ldx, size_t m);

/* ONE(name, dtype, ...) for every type of gguf, which are those that int8 activations meet; and for
 * every block type. In the order of cdz_dtype. */
#define CDZ_GGUF_TYPES(ONE, ...)                                                                   \
    ONE(q8_0, CDZ_Q8_0, __VA_ARGS__)                                                               \
    ONE(q4_0, CDZ_Q4_0, __VA_ARGS__)                                                               \
    ONE(q4_1, CDZ_Q4_1, __VA_ARGS__)                                                               \
    ONE(q5_0, CDZ_Q5_0, __VA_ARGS__)                                                               \
    ONE(q5_1, CDZ_Q5_1, __VA_ARGS__)                                                               \
    ONE(q2_k, CDZ_Q2_K, __VA_ARGS__)                                                               \
    ONE(q3_k, CDZ_Q3_K, __VA_ARGS__)                                                               \
    ONE(q4_k, CDZ_Q4_K, __VA_ARGS__)                                                               \
    ONE(q5_k, CDZ_Q5_K, __VA_ARGS__)                                                               \
    ONE(q6_k, CDZ_Q6_K, __VA_ARGS__)
#define CDZ_BLOCK_TYPES(ONE, ...)                                                                  \
    CDZ_GGUF_TYPES(ONE, __VA_ARGS__)                                                               \
    ONE(nf4, CDZ_NF4, __VA_ARGS__)                                                                 \
    ONE(fp4, CDZ_FP4, __VA_ARGS__)                                                                 \
    ONE(int8, CDZ_INT8, __VA_ARGS__)                                                               \
    ONE(mxfp4, CDZ_MXFP4, __VA_ARGS__)                                                             \
    ONE(iq4_nl, CDZ_IQ4_NL, __VA_ARGS__)                                                           \
    ONE(iq4_xs, CDZ_IQ4_XS, __VA_ARGS__)                                                           \
    ONE(fp8, CDZ_FP8, __VA_ARGS__)

/* Their kernels prefix_q8_0 and so on: as declarations of a function type, as entries of a table. */
#define CDZ_TYPE_DECLARATION(name, dtype, fn, prefix) fn prefix##_##name;
#define CDZ_TYPE_ENTRY(name, dtype, prefix)           [dtype] = prefix##_##name,
#define CDZ_TYPE_NUMBER(name, dtype, number)          [dtype] = number,
#define CDZ_BLOCK_DECLARE(fn, prefix)                 CDZ_BLOCK_TYPES(CDZ_TYPE_DECLARATION, fn, prefix)
#define CDZ_BLOCK_KERNELS(prefix)                     CDZ_BLOCK_TYPES(CDZ_TYPE_ENTRY, prefix)

typedef void cdz_widen_fn(float *restrict y, const void *restrict x, size_t n);

/* Packs rows [0, n) by columns [0, kc) of w (row stride k elements; kc <= 1024) as
 * [panel][16 lanes in the order of their turns, cpu/lane_turns.h][groups of 16 in kc][n_tile], rows past n and columns past kc
 * as zeros. After each lane there is a gap: without it those of 1024 columns would fall on one set of the first-level cache,
 * where writing them takes up to 1.8 times as long. */
typedef void cdz_pack_weights_fn(float *packed, const void *w, size_t n, size_t k, size_t kc);

static inline size_t cdz_lane_floats(size_t groups, size_t n_tile)
{
    return groups * n_tile + CDZ_LANE_GAP;
}

static inline size_t cdz_panel_floats(size_t kc, size_t n_tile)
{
    return CDZ_LANES * cdz_lane_floats((kc + CDZ_LANES - 1) / CDZ_LANES, n_tile);
}

/* Weights that are to be packed next, which tiles ask memory for while they multiply. rows 0: nothing is known of them. */
typedef struct cdz_coming {
    const char *at;
    size_t rows, stride; /* a tile asks for at most 16 rows */
    size_t bytes;        /* of each */
} cdz_coming;

/* A lane-pass product of one packed panel by one packed tile of activations: y (rows, n_tile),
 * stride ldy, is set when first and added to otherwise. */
typedef struct cdz_lane_tile {
    const float *w; /* [16][groups][n_tile], gaps between lanes */
    const float *x; /* [16][groups][height] */
    size_t groups;  /* of 16 columns */
    size_t height;  /* rows of the packed tile, one of the set's heights */
    size_t rows;    /* rows to store, <= height */
    float *y;
    size_t ldy;
    bool first;
    cdz_coming coming;
} cdz_lane_tile;

/* 32 activations rounded to whole numbers of a step: q = round(x / d), d = largest / 127; so -128 does
 * not occur. All zero when the largest magnitude is below 2^-100; d NaN, q zero when one is no finite
 * number. */
typedef struct cdz_x8 {
    int8_t q[32];
    float d;
    float s;         /* d * sum, rounded */
    int32_t sum;     /* of q */
    int16_t half[2]; /* of its first and second 16 */
} cdz_x8;

enum { CDZ_X8 = 32 };

/* A product of panels with a tile of rounded activations: y[r * ldy + 16 * p + i], r < height, is set
 * when first and gone on with otherwise. */
typedef struct cdz_int8_tile {
    const void *w;
    size_t panels, stride; /* and bytes from a panel to the next */
    size_t blocks;         /* of 32 columns, a multiple of a weight block's */
    const cdz_x8 *x;       /* (blocks, height), or as quantise_in_tile says */
    size_t height;         /* one of the set's */
    float *y;
    size_t ldy;
    bool first;
    bool cold; /* no tile has met these panels before: they come from memory */
} cdz_int8_tile;

typedef void cdz_int8_fn(const cdz_int8_tile *tile);

/* Sixteen rows of k columns, `stride` bytes apart, as a panel: cdz_to_panels of them. ahead: how many bytes after them
 * those lie that will be wanted next, asked for meanwhile; 0: none. */
typedef void cdz_to_panel_fn(cdz_dtype dtype, void *to, const void *rows, size_t stride, size_t k,
                             size_t ahead);

/* The kernels of one instruction set, in the table of a set: CDZ_INT8_TILES(cdz_avx2_int8). */
#define CDZ_INT8_DECLARE(prefix) CDZ_GGUF_TYPES(CDZ_TYPE_DECLARATION, cdz_int8_fn, prefix)
/* clang-format off */
#define CDZ_INT8_TILES(prefix) {CDZ_GGUF_TYPES(CDZ_TYPE_ENTRY, prefix)}
/* clang-format on */

/* The definition: one row of blocks by one of activations, `step` apart, on top of acc. */
float cdz_int8_dot(cdz_dtype dtype, const void *row, const cdz_x8 *x, size_t step, size_t blocks,
                   float acc);

/* Attention of up to CDZ_ATTEND_QUERIES query heads of one sequence that read the same kv head. */
typedef struct cdz_attend_query {
    const float *q;    /* (head_dim) */
    float *out;        /* (head_dim) */
    size_t begin, end; /* positions seen: [begin, end) */
    const float *bias; /* bias[p] is added to the scaled score of position p; NULL: none */
    const float *sink; /* a score at which there is no value; NULL: none */
} cdz_attend_query;

typedef struct cdz_attend {
    cdz_attend_query query[CDZ_ATTEND_QUERIES];
    size_t n_queries, head_dim;
    size_t value_dim;      /* head_dim, or less where latents are read */
    bool latents;          /* values are the first numbers of their keys */
    const void *base;      /* keys of block 0 for this layer and kv head; the values follow them */
    cdz_dtype type;        /* of both */
    size_t block_stride;   /* bytes from a block to the next */
    const int32_t *blocks; /* of the sequence */
    float scale;
    float soft_cap; /* of the scaled and biased scores; 0: none */
    float *scores; /* room to work in: n_queries times the positions of all of them, rounded out to whole blocks */
    float *queries; /* likewise: (n_queries, head_dim) */

    /* Of attend_packed alone: positions below n_packed, whole spans, are read there. */
    const cdz_kv_packing *packing;
    size_t n_packed, span;
    const void *packed_base;      /* of block 0 for this layer and kv head */
    size_t packed_stride;         /* bytes from a block to the next */
    const int32_t *packed_blocks; /* of the sequence, a span each */
    float *room;                  /* (CDZ_KV_BLOCK, head_dim); of latents and widened blocks too */
} cdz_attend;

/* Channels [from, from + n) of one run; at most CDZ_STATE_TILE of them. */
enum { CDZ_STATE_TILE = 64 };
typedef struct cdz_conv_tile {
    const cdz_conv *how;
    const cdz_state_run *run;
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx, from, n;
} cdz_conv_tile;

/* One head of one run. */
typedef struct cdz_recur_head {
    const cdz_recurrence *how;
    const cdz_state_run *run;
    float *y;
    size_t ldy, head;
} cdz_recur_head;

/* A product of rows in bf16 with activations that are sums of parts in bf16 (kernels.h, CDZ_WEIGHT_BF16X3). Activations come
 * packed, sixteen rows a tile: [tile][group of 32 columns][part, the least first][16 pairs of columns][16 rows][2]. The rows of a
 * last tile and the columns of a last group that are not there are zeros. */
enum { CDZ_PART_COLUMNS = 32, CDZ_PART_ROWS = 16, CDZ_PART_BLOCK = 64, CDZ_MOST_PARTS = 3 };

typedef struct cdz_parts_product {
    const char *w;           /* weight rows, at the first column */
    size_t n, stride;        /* bytes from a row to the next */
    size_t k;                /* columns; only the last ones are not whole groups */
    const uint16_t *x;       /* of the first of `tiles` tiles */
    size_t tiles, tile_step; /* numbers from a tile to the next */
    size_t parts;
    float *sums; /* to go on with from call to call: (n, rounded up to CDZ_PART_BLOCK, 16 * tiles) */
    bool first, last;
    float *y; /* set by the last: y[r * ldy + j], r < m, j < n */
    size_t ldy, m;
} cdz_parts_product;

/* Numbers of a tile of activations of k columns. */
static inline size_t cdz_tile_numbers(size_t k, size_t parts)
{
    return (k + CDZ_PART_COLUMNS - 1) / CDZ_PART_COLUMNS * parts * CDZ_PART_COLUMNS * CDZ_PART_ROWS;
}

typedef struct cdz_kernel_set {
    const char *name;
    cdz_dot_fn *dot[CDZ_N_DTYPES]; /* of blocks NULL: by way of widen */

    /* Lane passes: the general matrix product with the bits of dot. n_tile 0: the set has none. */
    size_t n_tile; /* weight rows of a panel; divides CDZ_BLOCK_ROWS */
    /* Heights of a tile, tallest first; the rows left over take the lowest that holds them. */
    size_t heights[3];
    /* From this many activation rows on they beat dot, which widens blocks again for every few rows. */
    uint8_t lane_min_rows[CDZ_N_DTYPES], lane_min_pairs;
    cdz_pack_weights_fn *pack_weights[CDZ_N_PLAIN];
    /* Packs x (rows, kc) as [16 lanes][groups][height], zeros past rows and kc. */
    void (*pack_rows)(float *packed, const float *x, size_t ldx, size_t rows, size_t height,
                      size_t kc);
    void (*lane_tile)(const cdz_lane_tile *tile);

    /* The same two for weights in bf16 times activations rounded to it: a column is two numbers of each, packed as if it
     * were a float. A lane adds the product of the second ones, then that of the first, each rounded once; what is below
     * the smallest normal number counts as zero. */
    cdz_dot_fn *dot_pairs;
    void (*lane_tile_pairs)(const cdz_lane_tile *tile); /* NULL: by dot_pairs, however many rows */
    void (*round_bf16)(uint16_t *y, const float *x, size_t n); /* to the nearest, ties to even */

    /* NULL: the set has no products with activations in parts. pack_parts makes one tile of up to sixteen rows. */
    void (*parts_product)(const cdz_parts_product *p);
    void (*pack_parts)(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t k,
                       size_t parts);

    /* Products with int8 activations. NULL: the type has none. */
    cdz_to_panel_fn *to_panel;
    cdz_int8_fn *int8_tile[CDZ_N_DTYPES];
    size_t int8_heights[8]; /* tallest first, 1 last */
    size_t int8_full;       /* a tile of no more rows is taken whatever is missing, */
    size_t int8_spare;      /* a taller one if no more than 1 row in so many is */
    /* to[i * step] = block i of x */
    void (*quantise_x)(cdz_x8 *to, size_t step, const float *x, size_t blocks);
    /* Row `row` of a tile of `height`, as the set's own kernels want it (cpu/amx.h, cpu/avx512_int8.c). NULL: as (blocks, height). */
    void (*quantise_in_tile)(cdz_x8 *tile, size_t height, size_t row, const float *x, size_t blocks);

    /* Row operations: one value in, one value out, but for sum. */
    cdz_widen_fn *widen[CDZ_N_DTYPES];
    void (*add)(float *y, const float *x, size_t n);
    void (*scale_norm)(float *y, const float *x, const float *w, float inverse, float offset,
                       size_t n);
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t n);
    void (*clamped_mul)(float *y, const float *gate, const float *up, size_t n);
    void (*xielu)(float *y, const float *x, const cdz_xielu *how, size_t n);
    void (*activate[CDZ_N_CURVES])(float *y, const float *x, size_t n);
    void (*mul)(float *y, const float *x, size_t n);                      /* y *= x */
    void (*scale)(float *x, float factor, size_t n);                      /* x *= factor */
    void (*add_scaled)(float *y, const float *x, float factor, size_t n); /* y += factor * x */
    void (*soft_cap)(float *x, float cap, size_t n);
    void (*subtract)(float *y, const float *x, float from_each, size_t n);
    void (*scale_shift)(float *y, const float *w, const float *b, float inverse, size_t n);
    float (*sum)(const float *x, size_t n);
    /* Pairs (a[i], b[i]), or (x[2i], x[2i + 1]), turned by cosine[i] and sine[i]. */
    void (*rotate)(float *restrict a, float *restrict b, const float *cosine, const float *sine,
                   size_t n);
    void (*rotate_pairs)(float *x, const float *cosine, const float *sine, size_t n);

    void (*conv)(const cdz_conv_tile *tile);
    void (*recur)(const cdz_recur_head *head);

    void (*attend[CDZ_N_KV])(const cdz_attend *tile); /* by the store's type */
    void (*attend_packed)(const cdz_attend *tile);    /* float32, and a packed store beside it */
    /* Queries of a tile from which on attend_packed is faster than attend of the type, for it widens a block once for all of them.
     * 0: it does not read the type. */
    size_t attend_widens[CDZ_N_KV];
} cdz_kernel_set;

extern const cdz_kernel_set cdz_scalar_set;
#if defined(CDZ_HAVE_X86)
extern const cdz_kernel_set cdz_avx2_set;
extern const cdz_kernel_set cdz_avx2_vnni_set;
extern const cdz_kernel_set cdz_avx512_set;
extern const cdz_kernel_set cdz_avx512_vnni_set;
extern const cdz_kernel_set cdz_avx512_bf16_set; /* and VNNI */
extern const cdz_kernel_set cdz_amx_set;         /* and both */
#elif defined(__aarch64__)
extern const cdz_kernel_set cdz_neon_set;
extern const cdz_kernel_set cdz_neon_dotprod_set;
extern const cdz_kernel_set cdz_neon_i8mm_set;
#endif

#endif
