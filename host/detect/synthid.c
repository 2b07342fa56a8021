/* synthid.c - the g-values of a text, which of them count, and what they say. */
#include <math.h>

#include "detect/detect.h"

/* A row's evidence: n windows of ngram_len ids. */
typedef struct evidence {
    uint32_t n;
    uint8_t *g;    /* (n, n_keys) */
    uint8_t *mask; /* (n) */
} evidence;

static cdz_status open_secret(const cdz_detection_input *in, cdz_arena *arena, cdz_synthid *out,
                              cdz_error *err)
{
    const cdz_watermark *w = &in->watermark;
    const uint32_t size = (uint32_t)w->sampling_table_size;
    uint8_t *table = cdz_arena_alloc(arena, size);
    if (!table) return cdz_err_memory(err, "the watermark");
    cdz_synthid_table(w->sampling_table_seed, size, table);
    *out = (cdz_synthid){.ngram_len = (uint32_t)w->ngram_len,
                         .n_keys = w->keys.len,
                         .keys = w->keys.at,
                         .history = (uint32_t)w->context_history_size,
                         .table_size = size,
                         .table = table};
    return CDZ_OK;
}

/* Was this context among the last `history`? What was never filled counts as 0. */
static bool repeated(const uint64_t *contexts, uint32_t at, uint32_t history)
{
    if (at < history && contexts[at] == 0) return true;
    for (uint32_t i = 1; i <= at && i <= history; i++)
        if (contexts[at - i] == contexts[at]) return true;
    return false;
}

static cdz_status gather(const cdz_detection_input *in, const cdz_synthid *s, uint32_t r,
                         cdz_arena *arena, evidence *out, cdz_error *err)
{
    const int32_t *ids = in->rows[r];
    const uint32_t len = in->lens[r], before = s->ngram_len - 1;
    if (len < s->ngram_len)
        return cdz_err(err, CDZ_E_INPUT,
                       "%u tokens are too few to look for a watermark: ngram_len is %u", len,
                       s->ngram_len);
    const uint32_t n = out->n = len - before;
    uint64_t *contexts = cdz_arena_array(arena, n, sizeof *contexts);
    out->g = cdz_arena_array(arena, n, s->n_keys);
    out->mask = cdz_arena_array(arena, n, 1);
    if (!contexts || !out->g || !out->mask) return cdz_err_memory(err, "the watermark");
    bool ended = false;
    for (uint32_t i = 0; i < before; i++) ended |= cdz_ids_have(in->eos, ids[i]);
    for (uint32_t i = 0; i < n; i++) {
        contexts[i] = cdz_synthid_context(ids + i, before);
        const uint64_t hash = cdz_synthid_fold(contexts[i], ids[i + before]);
        ended |= cdz_ids_have(in->eos, ids[i + before]);
        out->mask[i] = !ended && !repeated(contexts, i, s->history);
        for (uint32_t k = 0; k < s->n_keys; k++)
            out->g[(size_t)i * s->n_keys + k] = cdz_synthid_g(s, hash, s->keys[k]);
    }
    return CDZ_OK;
}

/* Without a watermark every g-value is a fair coin. */
static void judge(const cdz_detection_input *in, const evidence *e, double *mean, double *z,
                  double *p, bool *positive)
{
    const uint32_t n_keys = in->watermark.keys.len;
    double ones = 0, n = 0;
    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t k = 0; e->mask[i] && k < n_keys; k++, n++)
            ones += e->g[(size_t)i * n_keys + k];
    *mean = n > 0 ? ones / n : 0.5;
    *z = n > 0 ? (*mean - 0.5) * 2 * sqrt(n) : 0;
    *p = cdz_detection_p_value(*z);
    *positive = *z > in->z_threshold;
}

static void write_bits(cdz_buf *out, const uint8_t *bits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        cdz_buf_puts(out, i ? (bits[i] ? ", 1" : ", 0") : (bits[i] ? "[1" : "[0"));
    cdz_buf_puts(out, n ? "]" : "[]");
}

static void write_evidence(cdz_buf *out, const evidence *rows, uint32_t n_rows, uint32_t n_keys)
{
    cdz_buf_puts(out, "\"g_values\": [");
    for (uint32_t r = 0; r < n_rows; r++) {
        cdz_buf_puts(out, r ? ", [" : "[");
        for (uint32_t i = 0; i < rows[r].n; i++) {
            if (i) cdz_buf_puts(out, ", ");
            write_bits(out, rows[r].g + (size_t)i * n_keys, n_keys);
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_puts(out, "], \"mask\": [");
    for (uint32_t r = 0; r < n_rows; r++) {
        if (r) cdz_buf_puts(out, ", ");
        write_bits(out, rows[r].mask, rows[r].n);
    }
    cdz_buf_putc(out, ']');
}

/* Fills score and lets it decide. */
static cdz_status ask_detector(const cdz_detection_input *in, const evidence *rows,
                               cdz_arena *arena, double *score, bool *positive, cdz_error *err)
{
    cdz_bayes bayes;
    CDZ_TRY(cdz_bayes_read(in->detector, arena, &bayes, err));
    if (bayes.depth != in->watermark.keys.len)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: the detector was trained for %u keys, but watermarking_config has %u",
                       in->detector, bayes.depth, in->watermark.keys.len);
    for (uint32_t r = 0; r < in->n_rows; r++) {
        score[r] = cdz_bayes_score(&bayes, rows[r].g, rows[r].mask, rows[r].n);
        positive[r] = score[r] > 0.5;
    }
    return CDZ_OK;
}

cdz_status cdz_detection_synthid(const cdz_detection_input *in, cdz_arena *arena, cdz_buf *out,
                                 cdz_error *err)
{
    const uint32_t n = in->n_rows;
    cdz_synthid secret;
    evidence *rows = cdz_arena_array(arena, n, sizeof *rows);
    double *numbers = cdz_arena_array(arena, n, 4 * sizeof *numbers);
    bool *positive = cdz_arena_array(arena, n, sizeof *positive);
    if (!rows || !numbers || !positive) return cdz_err_memory(err, "the watermark");
    double *mean = numbers, *z = mean + n, *p = z + n, *score = p + n;
    CDZ_TRY(open_secret(in, arena, &secret, err));
    for (uint32_t r = 0; r < n; r++) {
        CDZ_TRY(gather(in, &secret, r, arena, &rows[r], err));
        judge(in, &rows[r], &mean[r], &z[r], &p[r], &positive[r]);
    }
    if (in->detector) CDZ_TRY(ask_detector(in, rows, arena, score, positive, err));
    write_evidence(out, rows, n, secret.n_keys);
    cdz_detection_numbers(out, "mean", mean, n);
    cdz_detection_numbers(out, "z_score", z, n);
    cdz_detection_numbers(out, "p_value", p, n);
    if (in->detector) cdz_detection_numbers(out, "score", score, n);
    cdz_detection_truths(out, "prediction", positive, n);
    return CDZ_OK;
}
