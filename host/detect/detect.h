/* detect.h - does this text carry a watermark?
 *
 * The reverse of processors/watermarking_config.c, from the same settings (cadenza/watermark.h). Statistics are those of
 * transformers' WatermarkDetector, SynthIDTextWatermarkLogitsProcessor and BayesianDetectorModel.
 * Thread: [any]; nothing is shared. */
#ifndef CDZ_HOST_DETECT_DETECT_H
#define CDZ_HOST_DETECT_DETECT_H

#include "base/arena.h"
#include "base/json.h"
#include "cadenza/watermark.h"
#include "params/params.h"

typedef struct cdz_detection_input {
    cdz_watermark watermark;
    double z_threshold;         /* positive above it */
    const char *detector;       /* folder of a BayesianDetectorModel for SynthID; NULL: none */
    uint32_t n_vocab;           /* */
    int32_t bos;                /* dropped where a green-list text begins with it; -1: none */
    const int32_t *const *rows; /* (n_rows) ids without the prompt */
    const uint32_t *lens;
    uint32_t n_rows;
    cdz_ids eos; /* a SynthID text ends before the first of them */
} cdz_detection_input;

/* Reads and checks a watermarking_config. Lists live in the arena. */
cdz_status cdz_watermark_read(const cdz_json *config, cdz_arena *arena, cdz_watermark *out,
                              cdz_error *err);

void cdz_watermark_write(const cdz_watermark *watermark, cdz_buf *out); /* the reverse */

/* An order to detect, as JSON: {"watermarking_config": {...}, "z_threshold": 3.0, "model": FOLDER or null, "bos": id or
 * null, "eos": [ids]}. Fills what of `in` it speaks of; what it points to lives in the arena. */
cdz_status cdz_detection_read(const cdz_json *order, cdz_arena *arena, cdz_detection_input *in,
                              cdz_error *err);
/* Writes one. detector NULL: none; generation: of the model, for bos and eos. */
void cdz_detection_order(const cdz_watermark *watermark, double z_threshold, const char *detector,
                         const cdz_json *generation, cdz_buf *out);

/* Appends a JSON object with a list per statistic, an entry a row. Green lists: num_tokens_scored, num_green_tokens,
 * green_fraction, z_score, p_value, confidence, prediction. SynthID: g_values [row][position][key], mask [row][position],
 * mean (of the g-values under the mask), z_score and p_value of the mean, prediction; with a detector also score, the
 * probability that the text is marked, and prediction follows it (score > 0.5). */
cdz_status cdz_detection_write_json(const cdz_detection_input *in, cdz_buf *out, cdz_error *err);

/* --- the two kinds; for cdz_detection_write_json --- */
cdz_status cdz_detection_green(const cdz_detection_input *in, cdz_arena *arena, cdz_buf *out,
                               cdz_error *err);
cdz_status cdz_detection_synthid(const cdz_detection_input *in, cdz_arena *arena, cdz_buf *out,
                                 cdz_error *err);

/* "name": [x, ...], of n numbers (or n whole numbers, or n truth values). */
void cdz_detection_numbers(cdz_buf *out, const char *name, const double *x, uint32_t n);
void cdz_detection_counts(cdz_buf *out, const char *name, const uint32_t *x, uint32_t n);
void cdz_detection_truths(cdz_buf *out, const char *name, const bool *x, uint32_t n);

/* One-sided p-value of a z-score, by the reference's formula; negative z gives more than a half. */
double cdz_detection_p_value(double z);

/* --- bayes.c: a trained detector of SynthID --- */
typedef struct cdz_bayes {
    uint32_t depth;
    float prior;
    const float *beta;  /* (depth) */
    const float *delta; /* (depth, depth) */
} cdz_bayes;

/* Opens a folder with config.json and model.safetensors. */
cdz_status cdz_bayes_read(const char *folder, cdz_arena *arena, cdz_bayes *out, cdz_error *err);
/* The probability that a text with these g-values (n, depth) is marked; mask (n): which positions count. */
double cdz_bayes_score(const cdz_bayes *bayes, const uint8_t *g, const uint8_t *mask, uint32_t n);

#endif
