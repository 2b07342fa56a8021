/* forward.h - the decoder block, run over rows of any number of sequences at once.
 *
 * What a fibre waits for is a want: sequences whose caches lack positions, and where the scores go. One pass takes
 * rows from many wants, at most CDZ_PASS_ROWS; a long prompt needs several passes. The backend's written order makes
 * a row's bits independent of what else is in its pass.
 * Thread: [engine]. Before a want is handed in, cdz_seq_prepare has made its blocks; a pass cannot fail. */
#ifndef CDZ_HOST_RUN_PASS_FORWARD_H
#define CDZ_HOST_RUN_PASS_FORWARD_H

#include "cadenza/strategy.h"
#include "load/model_files.h"
#include "run/job.h"
#include "run/pass/away.h"
#include "run/pass/encoded.h"
#include "run/pass/kv.h"
#include "run/pass/profile.h"

enum { CDZ_PASS_ROWS = 512 };

typedef struct cdz_want_seq {
    cdz_seq *seq;
    int64_t row0; /* score row: LAST row0; ALL row0 + position; with by_index row0 + the id's index */
    uint32_t from;              /* ALL: the first position whose scores are wanted */
    int64_t hidden0;            /* the row of hidden states, by the same rule */
    const cdz_capture *capture; /* or NULL */
    bool no_hidden;             /* a companion: only its scores are asked for */
    /* For frequencies that depend on the length: its own in place of the want's; 0: the want's. begun: it was read step by
     * step, the first one so long, and each position has the length of the step that it belongs to; 0: all have length. */
    uint32_t length, begun;
} cdz_want_seq;

typedef struct cdz_want {
    cdz_run_model *model;
    cdz_want_seq *seqs;  /* (n_seqs) */
    uint32_t n_layers;   /* how deep the pass goes; 0: all layers */
    uint32_t n_seqs, at; /* the first one that still lacks positions */
    cdz_positions positions;
    bool by_index;
    float *out; /* rows of n_vocab, stride floats apart */
    size_t stride;
    cdz_away *away; /* of LAST, by row0: where rows of scores go if it is on; NULL: there is no such place */
    uint64_t *coming; /* (n_coming) of LAST, by row0: rows that need not be there at once; or NULL */
    uint32_t n_coming;
    /* Hidden states to keep, besides: which, of which positions, and where: (n_hidden, ., hidden) */
    const uint32_t *hidden_layers; /* as transformers counts them */
    uint32_t n_hidden;
    cdz_positions hidden_positions;
    float *hidden;
    size_t hidden_stride; /* floats between layers */
    uint32_t until;       /* runs positions below this alone; 0: all */
    uint32_t length; /* positions of the request's longest row, for frequencies that depend on it */
    uint32_t chunk;  /* at most so many positions of one sequence in one pass; 0: no limit */
    bool served;     /* has rows in the pass that is being put together */
    uint64_t rows_left; /* positions still to run */
} cdz_want;

typedef struct cdz_layers cdz_layers; /* activations for one model */

/* profile: what passes take goes there; NULL: nowhere. */
cdz_status cdz_layers_create(cdz_backend *backend, const cdz_weights *weights, cdz_kv_pool *pool,
                             cdz_profile *profile, cdz_layers **out, cdz_error *err);
void cdz_layers_free(cdz_layers *layers); /* NULL is fine */

/* The head, without the final norm, on n rows of hidden states: scores (n, n_vocab). */
void cdz_layers_head(cdz_layers *layers, const float *hidden, uint32_t n, float *scores);
/* All that follows the layers: final norm, scale, head, cap. As a pass does it, to the bit. */
void cdz_layers_lens(cdz_layers *layers, const float *hidden, uint32_t n, float *scores);
/* What vectors that are given in place of n ids (given.h, prompts as embeddings) would have to be for the same bits: out (n, hidden). */
void cdz_layers_inputs(cdz_layers *layers, const int32_t *ids, uint32_t n, float *out);
/* Before a pass that has sequences of up to n positions, or that has to encode a source: makes room, so that the pass
 * cannot fail. */
cdz_status cdz_layers_reach(cdz_layers *layers, uint32_t n_positions, cdz_error *err);
cdz_status cdz_layers_expect(cdz_layers *layers, const cdz_encoded *source, cdz_error *err);

/* Are scores or states of all its positions asked for? Then all have to be computed. */
bool cdz_want_reads_all(const cdz_want *want, const cdz_want_seq *ws);
/* Sets rows_left and at from what the sequences' caches lack. */
void cdz_want_begin(cdz_want *want);

/* Which wants of a pass are served first: those with many rows left, or (as it is made) those with few. */
void cdz_layers_set_prompts_first(cdz_layers *layers, bool first);
/* While something decodes, at most so many rows of prompts go into a pass, whoever is first; 0: as many as fit. */
void cdz_layers_set_bite(cdz_layers *layers, uint32_t rows);
/* Of the last pass: rows that were no prompt's. */
uint32_t cdz_layers_n_decoding(const cdz_layers *layers);
/* One pass over rows of these wants, all of one depth: those served first, then the others, each in the order given.
 * Returns the rows run; a want is
 * satisfied when its rows_left is 0. */
uint32_t cdz_layers_pass(cdz_layers *layers, cdz_want *const *wants, uint32_t n);
/* After a pass: has the device had trouble? Then what it gave is worth nothing. */
cdz_status cdz_layers_check(const cdz_layers *layers, cdz_error *err);

#endif
