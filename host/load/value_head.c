/* value_head.c - the head for values of a classifier or a reward model: what transformers calls `score` (and the families'
 * ...ForSequenceClassification have in place of lm_head) and TRL `v_head.summary` (beside lm_head).
 *
 * It is small and read for few rows, so it lies as float32 in the host's memory, whatever runs the model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load/bind.h"

enum { MOST_VALUES = 65536, LABEL_BYTES = 16 };

typedef struct reader {
    cdz_weights *w;
    const char *source;
    bool *used; /* by tensor */
    cdz_error *err;
} reader;

static const char *const stems[] = {"score", "v_head.summary"};

static const cdz_tensor *find(const reader *r, const char *stem, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", stem, suffix);
    return cdz_tensors_find(&r->w->tensors, name);
}

/* A tensor of n numbers as float32. */
static cdz_status read_floats(const reader *r, const cdz_tensor *t, size_t n, const float **out)
{
    cdz_dtype dtype;
    const cdz_file *file = &r->w->tensors.files[t->file];
    if (!cdz_tensor_dtype(t, &dtype) || dtype >= CDZ_N_PLAIN)
        return cdz_err(r->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s has dtype %s; supported are F32, F16, BF16", file->path,
                       t->name, t->dtype);
    float *wide = cdz_arena_array(&r->w->arena, n, sizeof *wide);
    void *raw = cdz_arena_alloc_aligned(&r->w->tensors.arena, (size_t)t->n_bytes, 64);
    if (!wide || !raw) return cdz_err_memory_in(r->err, file->path);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    CDZ_TRY(cdz_file_read_at(file, offset, raw, (size_t)t->n_bytes, r->err));
    cdz_widen(dtype, wide, raw, n);
    r->used[t - r->w->tensors.items] = true;
    r->w->facts.n_parameters += n;
    r->w->facts.bytes[dtype] += t->n_bytes;
    *out = wide;
    return CDZ_OK;
}

static cdz_status wrong_shape(const reader *r, const cdz_tensor *t, const char *expected)
{
    char shape[128];
    return cdz_err(r->err, CDZ_E_INPUT, "%s: tensor %s is %s, expected %s",
                   r->w->tensors.files[t->file].path, t->name,
                   cdz_tensor_shape_text(t, shape, sizeof shape), expected);
}

static cdz_status read_matrix(const reader *r, const cdz_tensor *t, cdz_value_head *out)
{
    char expected[96];
    const uint32_t hidden = r->w->arch.hidden;
    if (t->n_dims != 2 || t->shape[0] < 1 || t->shape[0] > MOST_VALUES || t->shape[1] != hidden) {
        snprintf(expected, sizeof expected, "[1 to %d values, %" PRIu32 "]", MOST_VALUES, hidden);
        return wrong_shape(r, t, expected);
    }
    out->n = (uint32_t)t->shape[0];
    return read_floats(r, t, (size_t)out->n * hidden, &out->w);
}

static cdz_status read_bias(const reader *r, const cdz_tensor *t, cdz_value_head *out)
{
    char expected[32];
    if (t->n_dims != 1 || t->shape[0] != out->n) {
        snprintf(expected, sizeof expected, "[%" PRIu32 "]", out->n);
        return wrong_shape(r, t, expected);
    }
    return read_floats(r, t, out->n, &out->bias);
}

/* A key of the whole model's, which may stand in the text part's. */
static const cdz_json *key_of(const reader *r, const char *name)
{
    const cdz_json *at = cdz_json_get(&r->w->config, name);
    const cdz_json *part = cdz_json_get(&r->w->config, "text_config");
    return at || !cdz_json_is(part, CDZ_JSON_OBJECT) ? at : cdz_json_get(part, name);
}

/* The pad that transformers passes over when it looks for a text's last token. */
static cdz_status read_pad(const reader *r, cdz_value_head *out)
{
    const cdz_json *pad = key_of(r, "pad_token_id");
    out->pad = -1;
    if (!pad || cdz_json_is(pad, CDZ_JSON_NULL)) return CDZ_OK;
    if (!cdz_json_is(pad, CDZ_JSON_INT) || pad->integer < -1 || pad->integer > INT32_MAX)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: config.json: pad_token_id is no token's id",
                       r->w->folder);
    out->pad = (int32_t)pad->integer;
    return CDZ_OK;
}

/* What transformers calls a value that config.json has no word for. */
static cdz_status number_label(const reader *r, uint32_t i, cdz_string *out)
{
    char *text = cdz_arena_alloc(&r->w->arena, LABEL_BYTES);
    if (!text) return cdz_err_memory_in(r->err, r->w->folder);
    const int len = snprintf(text, LABEL_BYTES, "LABEL_%" PRIu32, i);
    *out = (cdz_string){text, (uint32_t)len};
    return CDZ_OK;
}

static cdz_status take_label(const reader *r, const cdz_json *labels, uint32_t i, cdz_string *out)
{
    char key[LABEL_BYTES];
    snprintf(key, sizeof key, "%" PRIu32, i);
    const cdz_json *label = cdz_json_get(labels, key);
    if (!label)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: config.json: id2label has no label of value %" PRIu32, r->w->folder, i);
    if (!cdz_json_is(label, CDZ_JSON_STRING))
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: config.json: id2label: the label of value %" PRIu32
                       " is %s, expected a string",
                       r->w->folder, i, cdz_json_type_name(label));
    *out = (cdz_string){label->string, label->len};
    return CDZ_OK;
}

static cdz_status read_labels(const reader *r, cdz_value_head *out)
{
    const cdz_json *labels = key_of(r, "id2label");
    const bool told = labels && !cdz_json_is(labels, CDZ_JSON_NULL);
    if (told && !cdz_json_is(labels, CDZ_JSON_OBJECT))
        return cdz_err(r->err, CDZ_E_INPUT, "%s: config.json: id2label is %s, expected an object",
                       r->w->folder, cdz_json_type_name(labels));
    if (told && labels->len != out->n)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: config.json: id2label has %" PRIu32 " labels; %s.weight gives %" PRIu32
                       " values",
                       r->w->folder, labels->len, out->name, out->n);
    cdz_string *all = cdz_arena_array(&r->w->arena, out->n, sizeof *all);
    if (!all) return cdz_err_memory_in(r->err, r->w->folder);
    out->labels = all;
    for (uint32_t i = 0; i < out->n; i++)
        CDZ_TRY(told ? take_label(r, labels, i, &all[i]) : number_label(r, i, &all[i]));
    return CDZ_OK;
}

cdz_status cdz_value_head_read(cdz_weights *w, const char *source, bool *used, bool may_be_tied,
                               cdz_error *err)
{
    const reader r = {w, source, used, err};
    const char *stem = NULL;
    for (size_t i = 0; !stem && i < sizeof stems / sizeof *stems; i++)
        if (find(&r, stems[i], "weight")) stem = stems[i];
    if (!stem && w->arch.classifier)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: config.json makes it a classifier, but tensor "
                       "score.weight is missing",
                       source);
    if (!stem) return CDZ_OK;
    cdz_value_head *out = &w->values;
    out->name = stem;
    out->alone = w->arch.classifier || !may_be_tied;
    CDZ_TRY(read_matrix(&r, find(&r, stem, "weight"), out));
    if (find(&r, stem, "bias")) CDZ_TRY(read_bias(&r, find(&r, stem, "bias"), out));
    if (stem == stems[0]) CDZ_TRY(read_labels(&r, out));
    return read_pad(&r, out);
}

void cdz_value_head_apply(const cdz_value_head *head, const float *hidden, size_t width, float *out)
{
    for (uint32_t v = 0; v < head->n; v++) {
        const float *w = head->w + v * width;
        double sum = 0;
        for (size_t i = 0; i < width; i++) sum += (double)w[i] * (double)hidden[i];
        out[v] = (float)(sum + (head->bias ? (double)head->bias[v] : 0.0));
    }
}
