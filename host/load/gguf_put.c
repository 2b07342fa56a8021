/* gguf_put.c - numbers and words of a GGUF file's metadata, put into the text of a config.json. */
#include "load/gguf_put.h"

#include <float.h>
#include <math.h>
#include <string.h>

void cdz_gguf_put_key(cdz_gguf_writer *w, const char *key)
{
    cdz_buf_printf(w->out, "%s\"%s\":", w->out->len > 1 ? "," : "", key);
}

void cdz_gguf_put_uint(cdz_gguf_writer *w, const char *key, uint64_t value)
{
    cdz_gguf_put_key(w, key);
    cdz_buf_printf(w->out, "%llu", (unsigned long long)value);
}

void cdz_gguf_put_bool(cdz_gguf_writer *w, const char *key, bool value)
{
    cdz_gguf_put_key(w, key);
    cdz_buf_puts(w->out, value ? "true" : "false");
}

void cdz_gguf_put_text(cdz_gguf_writer *w, const char *key, const char *text)
{
    cdz_gguf_put_key(w, key);
    cdz_json_write_string(w->out, text, strlen(text));
}

bool cdz_gguf_has_key(const cdz_gguf_writer *w, const char *rest)
{
    char key[CDZ_GGUF_KEY_BYTES];
    return cdz_gguf_find(w->g, cdz_gguf_arch_key(w->arch, rest, key)) != NULL;
}

/* Of an array with a number of each layer: the one that they all have, but for layers without what it counts. */
static cdz_status one_of_all(const cdz_gguf_writer *w, const cdz_gguf_value *v, uint64_t *out)
{
    const bool may_lack = w->family->recurrent != NULL;
    int64_t one = 0;
    if (!cdz_gguf_is_integer(v->type))
        return cdz_err(w->err, CDZ_E_INPUT, "%s: %s is no array of integers", w->g->path, v->key);
    for (uint64_t i = 0; i < v->n; i++) {
        const int64_t each = cdz_gguf_int_at(v, i);
        if (each < 0 || each > UINT32_MAX || (each == 0 && !may_lack))
            return cdz_err(w->err, CDZ_E_INPUT, "%s: %s has %lld for layer %llu", w->g->path,
                           v->key, (long long)each, (unsigned long long)i);
        if (one && each && each != one)
            return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                           "%s: %s has %lld for one layer and %lld for another, which is not "
                           "supported; expected one number",
                           w->g->path, v->key, (long long)one, (long long)each);
        if (each) one = each;
    }
    *out = (uint64_t)one;
    return CDZ_OK;
}

cdz_status cdz_gguf_get_uint(const cdz_gguf_writer *w, const char *rest, uint64_t *out)
{
    char key[CDZ_GGUF_KEY_BYTES];
    const cdz_gguf_value *v = cdz_gguf_find(w->g, cdz_gguf_arch_key(w->arch, rest, key));
    if (v && v->is_array && v->type != CDZ_GGUF_STRING) return one_of_all(w, v, out);
    return cdz_gguf_uint(w->g, cdz_gguf_arch_key(w->arch, rest, key), UINT32_MAX, out, w->err);
}

/* Copies a count where the file has it; where it must have it, its absence is a sentence that
 * names GGUF's own key. */
cdz_status cdz_gguf_copy_uint(cdz_gguf_writer *w, const char *to, const char *rest, bool required)
{
    char key[CDZ_GGUF_KEY_BYTES];
    uint64_t value = 0;
    if (!cdz_gguf_has_key(w, rest))
        return required ? cdz_err(w->err, CDZ_E_INPUT, "%s: %s is missing", w->g->path,
                                  cdz_gguf_arch_key(w->arch, rest, key))
                        : CDZ_OK;
    CDZ_TRY(cdz_gguf_get_uint(w, rest, &value));
    cdz_gguf_put_uint(w, to, value);
    return CDZ_OK;
}

static cdz_status get_number(const cdz_gguf_writer *w, const char *key, double *out)
{
    CDZ_TRY(cdz_gguf_real(w->g, key, out, w->err));
    if (fabs(*out) <= (double)FLT_MAX) return CDZ_OK;
    return cdz_err(w->err, CDZ_E_INPUT, "%s: %s is %g, expected a finite number in float32",
                   w->g->path, key, *out);
}

cdz_status cdz_gguf_get_real(const cdz_gguf_writer *w, const char *rest, double *out)
{
    char key[CDZ_GGUF_KEY_BYTES];
    return get_number(w, cdz_gguf_arch_key(w->arch, rest, key), out);
}

/* Stored in float32, written so that the decimal it came from comes back. */
cdz_status cdz_gguf_copy_number(cdz_gguf_writer *w, const char *to, const char *key)
{
    double value = 0;
    if (!cdz_gguf_find(w->g, key)) return CDZ_OK;
    CDZ_TRY(get_number(w, key, &value));
    cdz_gguf_put_key(w, to);
    cdz_json_write_f32(w->out, (float)value);
    return CDZ_OK;
}

cdz_status cdz_gguf_copy_real(cdz_gguf_writer *w, const char *to, const char *rest)
{
    char key[CDZ_GGUF_KEY_BYTES];
    return to ? cdz_gguf_copy_number(w, to, cdz_gguf_arch_key(w->arch, rest, key)) : CDZ_OK;
}

cdz_status cdz_gguf_copy_bool(cdz_gguf_writer *w, const char *to, const char *rest, bool usual)
{
    char key[CDZ_GGUF_KEY_BYTES];
    CDZ_TRY(cdz_gguf_bool(w->g, cdz_gguf_arch_key(w->arch, rest, key), &usual, w->err));
    cdz_gguf_put_bool(w, to, usual);
    return CDZ_OK;
}
