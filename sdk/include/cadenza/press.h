/* press.h - presses: they say which positions of a KV cache stay, so that the others' memory is free for other requests.
 *
 * Scenario. A pipeline lists presses: `press = snapkv`, or `press = snapkv, adakv`. When the prompt has been read, attended in full,
 * each layer's keys and values are shown to them; for each KV head they give every entry a score, and say how many stay.
 * The host keeps the entries with the highest scores in their order, moves them together, and gives whole pages back. Tokens
 * after that see what stayed, at the positions that they would have had anyway. `decoding_press` is a list of its own, which is
 * asked again every compression_interval tokens. Calls of a request:
 *
 *     create -> begin -> needs -> { press of each layer } ... -> end
 *
 * Two sorts. A press without CDZ_PRESS_WRAPS begins a step of its own: its scores arrive as 0. One with it goes on from the
 * press before it in the list, whose scores and counts it is shown and may change (adakv, chunkkv). Presses that begin a step
 * follow one another: the second one sees what the first one left.
 *
 * What is there. `needs` asks for what costs something; what was not asked for is NULL in the view. Everything is float32, in the
 * host's memory, computed in an order that depends on nothing but the row. A press that runs while decoding has one query, that
 * of the newest token, whatever the window.
 *
 * What holds. The answer of a press may depend on its view and its parameters alone: a sequence that went back to before a
 * press is read again and pressed again, and has to come out the same. Layers with a sliding window are not shown: the host
 * keeps their windows. Of equal scores the lower position stays; a NaN counts as the lowest.
 *
 * All functions are [engine] and may use cdz_scratch. In step, params, shared, request, plugin and host are set; n_rows is 0. */
#ifndef CADENZA_PRESS_H
#define CADENZA_PRESS_H

#include "plugin.h"

typedef enum cdz_press_cap {
    CDZ_PRESS_WRAPS = 1u << 0, /* it changes what the press before it in the list says */
} cdz_press_cap;

typedef enum cdz_press_need {
    CDZ_PRESS_KEYS = 1u << 0,
    CDZ_PRESS_VALUES = 1u << 1,
    CDZ_PRESS_QUERIES = 1u << 2,   /* of the window */
    CDZ_PRESS_HIDDEN = 1u << 3,    /* of the window */
    CDZ_PRESS_ATTENTION = 1u << 4, /* of the window */
    CDZ_PRESS_SUMS = 1u << 5,      /* of prompts alone, and they take attention's time once more */
    CDZ_PRESS_MOMENTS = 1u << 6,   /* of prompts alone */
    CDZ_PRESS_OUTPUT = 1u << 7,
} cdz_press_need;

/* What a press wants to be shown, asked once for each request. Arrives as 0 but for size and ratio. */
typedef struct cdz_press_needs {
    uint32_t size;
    uint32_t what;   /* cdz_press_need */
    uint32_t window; /* the newest so many positions, at most 4096 */
    uint32_t skip;   /* of CDZ_PRESS_MOMENTS: the first so many positions are left out */
    double ratio; /* compression_ratio: the share that is to go; NaN: nobody said. It may be changed */
    bool free_count; /* the press says how many stay without a ratio */
} cdz_press_needs;

/* One layer of one sequence, G kv heads, H query heads; query head h reads kv head h / (H / G). */
typedef struct cdz_press_view {
    uint32_t size;
    uint32_t layer, n_layers; /* the layer, from 0, and how many the model has */
    uint32_t n_heads, n_kv_heads, head_dim, hidden_dim;
    uint32_t n;             /* a row of an array has room for so many; no head has more */
    const uint32_t *counts; /* (G) entries of each; what is behind them in a row has no meaning */
    const uint32_t *positions; /* (G, n) where each entry stands in the text; rising */
    uint32_t seen;             /* positions that have been read */
    uint32_t length; /* of them, those that this is about: all, or a piece of compression_chunk_length */
    uint32_t decoding;    /* 0: the prompt has just been read; 1: later */
    double ratio;         /* the share that is to go; NaN: nobody said */
    uint32_t window;      /* asked for */
    uint32_t n_queries;   /* rows that queries, hidden and attention have: the window's, or fewer */
    float scale;          /* of attention's scores */
    const float *keys;    /* (G, n, d) as attention reads them: rotated */
    const float *values;  /* (G, n, d) */
    const float *queries; /* (H, n_queries, d) rotated, oldest first */
    const float *hidden;  /* (n_queries, D) what the attention block reads */
    const float *attention; /* (H, n_queries, n) after the softmax; 0 where a query does not see */
    const float *sums; /* (H, n) attention that an entry got from all queries, over how many see it */
    const float *mean;       /* (H, d) of queries before their rotation */
    const float *covariance; /* (H, d, d) likewise, divided by their number */
    const float *
        output; /* (H, n) sum of the absolute values of what an entry's value adds to the layer's output */
    /* Rotation: pair i of n_rotated / 2 turns by position * inv_freq[i], its cosine and sine times rope_scale; pairs are (i, i +
     * n_rotated / 2), or (2i, 2i + 1) where interleaved. n_rotated 0: the layer does not rotate. */
    const float *inv_freq;
    uint32_t n_rotated, interleaved;
    float rope_scale;
} cdz_press_view;

/* The answer for a layer. */
typedef struct cdz_press_choice {
    uint32_t size;
    uint32_t renumber; /* not 0: keys are turned to their new places, and tokens go on behind the last of those. All heads of all
                        * layers keep equally many then */
    float *scores;     /* (G, n) as in the view; 0, or what the press before said */
    uint32_t *counts; /* (G) how many stay, from 0 to the view's; arrives as max(1, int(count * (1 - ratio))), all without a ratio */
    uint8_t *zeroed;  /* (G, d) not 0: that number of every key that stays becomes 0 */
} cdz_press_choice;

typedef struct cdz_press {
    cdz_plugin_base base;
    uint32_t caps; /* cdz_press_cap */

    cdz_status (*create)(
        const cdz_step *step); /* [load] Optional: checks parameters, as in processor.h */
    cdz_status (*begin)(const cdz_step *step, void **shared); /* Optional, once a request */
    cdz_status (*needs)(const cdz_step *step,
                        cdz_press_needs *out); /* Optional: nothing but the text's length */
    cdz_status (*press)(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice);
    void (*end)(const cdz_step *step); /* Optional. The last call */
} cdz_press;

#define CDZ_PRESS_BASE .size = sizeof(cdz_press), .kind = CDZ_KIND_PRESS

#endif
