/* save.c - a result's tensors in files: one .safetensors, or a folder of .npy. Beside the tensors of steps there are
 * the sequences and what the strategy itself put out, as int64 and under their names. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/api.h"
#include "base/json.h"
#include "base/write.h"
#include "load/npy.h"

/* A tensor to be written. */
typedef struct item {
    const char *name;
    cdz_result_type type;
    uint32_t n_dims;
    const uint64_t *shape;
    const void *data;
} item;

typedef struct saving {
    const cdz_result *whole, *result; /* the one whose turn it is */
    char prefix[32];                  /* of its names: "", or "calls/0/" */
    int64_t *sequences;               /* (rows, sequences_shape[1]) */
    uint64_t sequences_shape[2];
    const char *path;
    cdz_writer file;
    cdz_buf header;
    uint64_t at; /* bytes of data so far */
    bool (*put)(struct saving *s, const item *what);
    cdz_error *err; /* of writing; memory is told at the end */
} saving;

static const struct {
    const char *safetensors, *npy;
    size_t bytes;
} types[] = {[CDZ_RESULT_I64] = {"I64", "<i8", 8},
             [CDZ_RESULT_I32] = {"I32", "<i4", 4},
             [CDZ_RESULT_F32] = {"F32", "<f4", 4},
             [CDZ_RESULT_BOOL] = {"BOOL", "|b1", 1},
             [CDZ_RESULT_JSON] = {"U8", "|u1", 1}};

static size_t n_bytes(const item *it)
{
    size_t n = types[it->type].bytes;
    for (uint32_t i = 0; i < it->n_dims; i++) n *= (size_t)it->shape[i];
    return n;
}

/* --- what there is -------------------------------------------------------------------------------------------------- */

/* Sequences of different lengths, which only rows without a pad can have, are filled up with -1. */
static bool gather_sequences(saving *s)
{
    const cdz_outcome *o = s->result->outcome;
    uint32_t longest = 0;
    for (uint32_t r = 0; r < o->n_rows; r++)
        if (o->rows[r].len > longest) longest = o->rows[r].len;
    s->sequences_shape[0] = o->n_rows;
    s->sequences_shape[1] = longest;
    s->sequences = calloc((size_t)o->n_rows * longest + 1, sizeof *s->sequences);
    if (!s->sequences) return false;
    for (uint32_t r = 0; r < o->n_rows; r++)
        for (uint32_t i = 0; i < longest; i++)
            s->sequences[(size_t)r * longest + i] = i < o->rows[r].len ? o->rows[r].ids[i] : -1;
    return true;
}

/* Hands a tensor on under its full name; `under` is "" or ends in '/'. */
static bool put_named(saving *s, const char *under, item it)
{
    cdz_buf name = {0};
    cdz_buf_printf(&name, "%s%s%s", s->prefix, under, it.name);
    it.name = name.data;
    const bool good = !name.failed && s->put(s, &it);
    cdz_buf_free(&name);
    return good;
}

static bool put_output(void *user, const cdz_output *out)
{
    return put_named(user, "",
                     (item){out->name, CDZ_RESULT_F32, out->n_dims, out->shape, out->data});
}

/* What transformers has no name for could have any: it stands under "results". */
static bool put_result(saving *s, const cdz_named_result *res)
{
    return put_named(s, cdz_record_has_field(res->name) ? "" : "results/",
                     (item){res->name, res->type, res->n_dims, res->shape, res->data});
}

/* A column of all steps as one tensor, (steps, rows) or (steps, rows, k). */
static bool put_steps(saving *s, const char *name, cdz_result_type type, uint32_t n_dims,
                      uint64_t k, size_t field)
{
    const cdz_outcome *o = s->result->outcome;
    const uint64_t shape[] = {o->n_steps, o->n_step_rows, k};
    const size_t each = (size_t)(o->n_step_rows * k) * types[type].bytes;
    char *all = malloc(o->n_steps * each + 1);
    if (!all) return false;
    for (uint32_t i = 0; i < o->n_steps; i++) {
        const void *from;
        memcpy(&from, (const char *)&o->steps[i] + field, sizeof from);
        memcpy(all + i * each, from, each);
    }
    const bool good = put_named(s, "", (item){name, type, n_dims, shape, all});
    free(all);
    return good;
}

/* What output_scores_top keeps. */
static bool put_top(saving *s)
{
    const cdz_outcome *o = s->result->outcome;
    const uint64_t k = s->result->keep_top;
    for (uint32_t i = 0; i < o->n_steps; i++)
        if (!o->steps[i].top_ids || !o->steps[i].logsumexp) return true;
    if (o->n_steps == 0) return true;
    return put_steps(s, "top_ids", CDZ_RESULT_I32, 3, k, offsetof(cdz_recorded_step, top_ids)) &&
           put_steps(s, "top_scores", CDZ_RESULT_F32, 3, k,
                     offsetof(cdz_recorded_step, top_values)) &&
           put_steps(s, "logsumexp", CDZ_RESULT_F32, 2, 1, offsetof(cdz_recorded_step, logsumexp));
}

static bool each_of(saving *s, const cdz_result *result)
{
    const cdz_outcome *o = result->outcome;
    s->result = result;
    if (!gather_sequences(s)) return false;
    bool good =
        put_named(s, "", (item){"sequences", CDZ_RESULT_I64, 2, s->sequences_shape, s->sequences});
    free(s->sequences);
    for (uint32_t i = 0; good && i < o->n_results; i++) good = put_result(s, &o->results[i]);
    return good && put_top(s) && cdz_result_each_output(result, put_output, s);
}

/* The request's own tensors, then those of its later calls. */
static bool each(saving *s)
{
    s->prefix[0] = '\0';
    if (!each_of(s, s->whole)) return false;
    for (uint32_t i = 0; i < s->whole->n_calls; i++) {
        snprintf(s->prefix, sizeof s->prefix, "calls/%" PRIu32 "/", i);
        if (!each_of(s, s->whole->calls[i])) return false;
    }
    return true;
}

/* --- one file ------------------------------------------------------------------------------------------------------- */

static bool put_header(saving *s, const item *it)
{
    if (s->header.len > 1) cdz_buf_puts(&s->header, ", ");
    cdz_json_write_string(&s->header, it->name, strlen(it->name));
    cdz_buf_printf(&s->header, ": {\"dtype\": \"%s\", \"shape\": [", types[it->type].safetensors);
    for (uint32_t i = 0; i < it->n_dims; i++)
        cdz_buf_printf(&s->header, "%s%" PRIu64, i ? ", " : "", it->shape[i]);
    cdz_buf_printf(&s->header, "], \"data_offsets\": [%" PRIu64 ", ", s->at);
    s->at += n_bytes(it);
    cdz_buf_printf(&s->header, "%" PRIu64 "]}", s->at);
    return !s->header.failed;
}

static bool put_values(saving *s, const item *it)
{
    cdz_write(&s->file, it->data, n_bytes(it));
    return cdz_write_check(&s->file, s->err) == CDZ_OK;
}

static bool write_tensors(saving *s)
{
    cdz_buf_putc(&s->header, '{');
    s->put = put_header;
    if (!each(s)) return false;
    cdz_buf_putc(&s->header, '}');
    while (s->header.len % 8) cdz_buf_putc(&s->header, ' ');
    if (s->header.failed) return false;
    unsigned char size[8];
    for (int i = 0; i < 8; i++) size[i] = (unsigned char)(s->header.len >> (8 * i) & 255);
    s->put = put_values;
    cdz_write(&s->file, size, sizeof size);
    cdz_write(&s->file, s->header.data, s->header.len);
    return each(s);
}

static bool save_file(saving *s)
{
    if (cdz_write_begin(&s->file, s->path, 0, s->err) != CDZ_OK) return false;
    if (write_tensors(s)) return cdz_write_finish(&s->file, s->err) == CDZ_OK;
    cdz_write_drop(&s->file);
    return false;
}

/* --- a folder of arrays --------------------------------------------------------------------------------------------- */

static bool put_array(saving *s, const item *it)
{
    cdz_buf path = {0}, header = {0};
    cdz_buf_printf(&path, "%s/", s->path);
    for (const char *c = it->name; *c; c++) cdz_buf_putc(&path, *c == '/' ? '.' : *c);
    cdz_buf_puts(&path, ".npy");
    cdz_npy_put_header(&header, types[it->type].npy, it->shape, it->n_dims);
    bool good =
        !path.failed && !header.failed && cdz_write_begin(&s->file, path.data, 0, s->err) == CDZ_OK;
    if (good) {
        cdz_write(&s->file, header.data, header.len);
        cdz_write(&s->file, it->data, n_bytes(it));
        good = cdz_write_finish(&s->file, s->err) == CDZ_OK;
    }
    cdz_buf_free(&path);
    cdz_buf_free(&header);
    return good;
}

static bool save_folder(saving *s)
{
    s->put = put_array;
    if (mkdir(s->path, 0777) == 0 || errno == EEXIST) return each(s);
    (void)cdz_err(s->err, CDZ_E_IO, "%s: cannot be written: %s", s->path, strerror(errno));
    return false;
}

static bool names_folder(const char *path)
{
    struct stat st;
    const size_t len = strlen(path);
    return (len && path[len - 1] == '/') || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

cdz_status cdz_result_save(const cdz_result *result, const char *path, cdz_error *err)
{
    cdz_error own = {0};
    saving s = {.whole = result, .path = path, .err = &own};
    const bool good = names_folder(path) ? save_folder(&s) : save_file(&s);
    cdz_buf_free(&s.header);
    if (good) return CDZ_OK;
    if (own.code != CDZ_OK) return cdz_err(err, own.code, "%s", own.text);
    return cdz_err(err, CDZ_E_NOMEM, "%s: cannot be written: out of memory", path);
}
