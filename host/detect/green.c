/* green.c - counts green tokens, and how unlikely so many are without a watermark. */
#include <math.h>

#include "detect/detect.h"

/* What is found of every row. */
typedef struct findings {
    uint32_t *scored, *green;
    double *fraction, *z, *p, *confidence;
    bool *positive;
} findings;

static bool make(findings *f, cdz_arena *arena, uint32_t n)
{
    f->scored = cdz_arena_array(arena, n, sizeof *f->scored);
    f->green = cdz_arena_array(arena, n, sizeof *f->green);
    f->fraction = cdz_arena_array(arena, n, sizeof *f->fraction);
    f->z = cdz_arena_array(arena, n, sizeof *f->z);
    f->p = cdz_arena_array(arena, n, sizeof *f->p);
    f->confidence = cdz_arena_array(arena, n, sizeof *f->confidence);
    f->positive = cdz_arena_array(arena, n, sizeof *f->positive);
    return f->scored && f->green && f->fraction && f->z && f->p && f->confidence && f->positive;
}

static cdz_status open_list(const cdz_detection_input *in, cdz_arena *arena, cdz_green *out,
                            cdz_error *err)
{
    const cdz_watermark *w = &in->watermark;
    uint32_t *secret = NULL;
    if (w->seeding_scheme.value == CDZ_WM_SELFHASH) {
        secret = cdz_arena_array(arena, CDZ_GREEN_TABLE, sizeof *secret);
        if (!secret) return cdz_err_memory(err, "the watermark");
        cdz_green_table(w->hashing_key, secret);
    }
    *out = (cdz_green){.key = w->hashing_key,
                       .selfhash = secret != NULL,
                       .width = (uint32_t)w->context_width,
                       .n_vocab = in->n_vocab,
                       .n_green = (uint32_t)((double)in->n_vocab * w->greenlist_ratio),
                       .table = secret};
    return CDZ_OK;
}

/* Every window of the row: the last id of it is green or not after the ids before it. Repeated windows count again. */
static cdz_status count(const cdz_detection_input *in, const cdz_green *list, uint32_t r,
                        uint32_t *room, findings *f, cdz_error *err)
{
    const int32_t *ids = in->rows[r];
    uint32_t n = in->lens[r];
    const uint32_t window = list->selfhash ? list->width : list->width + 1;
    if (n && ids[0] == in->bos) ids++, n--;
    if (n < list->width + 1)
        return cdz_err(err, CDZ_E_INPUT,
                       "%u tokens are too few to look for a watermark: context_width %u needs %u",
                       n, list->width, list->width + 1);
    for (uint32_t at = 0; at + window <= n; at++) {
        const uint32_t last = at + window - 1;
        f->scored[r]++;
        f->green[r] +=
            cdz_green_has(list, ids + at, list->selfhash ? window : window - 1, ids[last], room);
    }
    return CDZ_OK;
}

static void judge(const cdz_detection_input *in, uint32_t r, findings *f)
{
    const double ratio = in->watermark.greenlist_ratio, n = f->scored[r], green = f->green[r];
    f->fraction[r] = green / n;
    f->z[r] = (green - ratio * n) / sqrt(n * ratio * (1 - ratio));
    f->p[r] = cdz_detection_p_value(f->z[r]);
    f->confidence[r] = 1 - f->p[r];
    f->positive[r] = f->z[r] > in->z_threshold;
}

cdz_status cdz_detection_green(const cdz_detection_input *in, cdz_arena *arena, cdz_buf *out,
                               cdz_error *err)
{
    cdz_green list;
    findings f;
    uint32_t *room = cdz_arena_array(arena, in->n_vocab, sizeof *room);
    if (!room || !make(&f, arena, in->n_rows)) return cdz_err_memory(err, "the watermark");
    CDZ_TRY(open_list(in, arena, &list, err));
    for (uint32_t r = 0; r < in->n_rows; r++) {
        CDZ_TRY(count(in, &list, r, room, &f, err));
        judge(in, r, &f);
    }
    cdz_detection_counts(out, "num_tokens_scored", f.scored, in->n_rows);
    cdz_detection_counts(out, "num_green_tokens", f.green, in->n_rows);
    cdz_detection_numbers(out, "green_fraction", f.fraction, in->n_rows);
    cdz_detection_numbers(out, "z_score", f.z, in->n_rows);
    cdz_detection_numbers(out, "p_value", f.p, in->n_rows);
    cdz_detection_numbers(out, "confidence", f.confidence, in->n_rows);
    cdz_detection_truths(out, "prediction", f.positive, in->n_rows);
    return CDZ_OK;
}
