/* gguf_values.c - looking at what gguf.c has read and checked: values by key and type, strings of
 * an array, the tensor types of the format. */
#include "load/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tensor types -------------------------------------------------------------------------- */

static const cdz_gguf_layout layouts[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};

const cdz_gguf_layout *cdz_gguf_layout_number(uint32_t number)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].number == number) return &layouts[i];
    return NULL;
}

const cdz_gguf_layout *cdz_gguf_layout_name(const char *name)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (strcmp(layouts[i].name, name) == 0) return &layouts[i];
    return NULL;
}

/* --- values -------------------------------------------------------------------------------- */

static const char *const type_names[CDZ_GGUF_N_TYPES] = {
    "uint8", "int8",     "uint16",   "int16",  "uint32", "int32",   "float32",
    "bool",  "a string", "an array", "uint64", "int64",  "float64",
};

size_t cdz_gguf_type_bytes(cdz_gguf_type type)
{
    static const uint8_t bytes[CDZ_GGUF_N_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[type];
}

static int by_key(const void *key, const void *value)
{
    return strcmp(key, ((const cdz_gguf_value *)value)->key);
}

const cdz_gguf_value *cdz_gguf_find(const cdz_gguf *gguf, const char *key)
{
    return gguf->n_values ? bsearch(key, gguf->values, gguf->n_values, sizeof *gguf->values, by_key)
                          : NULL;
}

static uint64_t bits_at(const cdz_gguf_value *v, uint64_t i, size_t bytes)
{
    const uint8_t *at = v->data + i * bytes;
    uint64_t bits = 0;
    for (size_t b = bytes; b-- > 0;) bits = bits << 8 | at[b];
    return bits;
}

int64_t cdz_gguf_int_at(const cdz_gguf_value *v, uint64_t i)
{
    switch (v->type) {
    case CDZ_GGUF_U8:
    case CDZ_GGUF_BOOL: return (int64_t)bits_at(v, i, 1);
    case CDZ_GGUF_I8: return (int8_t)bits_at(v, i, 1);
    case CDZ_GGUF_U16: return (int64_t)bits_at(v, i, 2);
    case CDZ_GGUF_I16: return (int16_t)bits_at(v, i, 2);
    case CDZ_GGUF_U32: return (int64_t)bits_at(v, i, 4);
    case CDZ_GGUF_I32: return (int32_t)bits_at(v, i, 4);
    case CDZ_GGUF_I64: return (int64_t)bits_at(v, i, 8);
    case CDZ_GGUF_U64: {
        const uint64_t bits = bits_at(v, i, 8);
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    }
    default: return 0;
    }
}

double cdz_gguf_real_at(const cdz_gguf_value *v, uint64_t i)
{
    if (v->type == CDZ_GGUF_F32) {
        const uint32_t bits = (uint32_t)bits_at(v, i, 4);
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    if (v->type == CDZ_GGUF_F64) {
        const uint64_t bits = bits_at(v, i, 8);
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    return (double)cdz_gguf_int_at(v, i);
}

bool cdz_gguf_is_integer(cdz_gguf_type type)
{
    return type <= CDZ_GGUF_I32 || type == CDZ_GGUF_U64 || type == CDZ_GGUF_I64;
}

const char *cdz_gguf_next_string(const uint8_t **at, size_t *len)
{
    uint64_t n = 0;
    for (size_t b = 8; b-- > 0;) n = n << 8 | (*at)[b];
    const char *text = (const char *)*at + 8;
    *at += 8 + n;
    *len = (size_t)n;
    return text;
}

cdz_status cdz_gguf_floats(const cdz_gguf *g, const cdz_tensor *t, float *to, size_t n,
                           cdz_error *err)
{
    const cdz_file *file = &g->tensors.files[t->file];
    if (t->n_dims != 1 || t->shape[0] != n || strcmp(t->dtype, "F32") != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: tensor %s is not a vector of %zu float32", file->path,
                       t->name, n);
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    return cdz_file_read_at(file, offset, to, n * sizeof *to, err);
}

static cdz_status wrong_type(const cdz_gguf *g, const cdz_gguf_value *v, const char *expected,
                             cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "%s: %s is %s%s, expected %s", g->path, v->key,
                   v->is_array ? "an array of " : "", type_names[v->type], expected);
}

cdz_status cdz_gguf_uint(const cdz_gguf *g, const char *key, uint64_t max, uint64_t *out,
                         cdz_error *err)
{
    const cdz_gguf_value *v = cdz_gguf_find(g, key);
    if (!v) return CDZ_OK;
    if (v->is_array || !cdz_gguf_is_integer(v->type)) return wrong_type(g, v, "an integer", err);
    const int64_t value = cdz_gguf_int_at(v, 0);
    const uint64_t size = v->type == CDZ_GGUF_U64 ? bits_at(v, 0, 8) : (uint64_t)value;
    const bool minus = v->type != CDZ_GGUF_U64 && value < 0;
    if (minus || size > max)
        return cdz_err(err, CDZ_E_INPUT, "%s: %s is %s%" PRIu64 ", expected 0 to %" PRIu64, g->path,
                       key, minus ? "-" : "", minus ? 0 - size : size, max);
    *out = size;
    return CDZ_OK;
}

cdz_status cdz_gguf_real(const cdz_gguf *g, const char *key, double *out, cdz_error *err)
{
    const cdz_gguf_value *v = cdz_gguf_find(g, key);
    if (!v) return CDZ_OK;
    if (v->is_array || v->type == CDZ_GGUF_BOOL || v->type == CDZ_GGUF_STRING)
        return wrong_type(g, v, "a number", err);
    *out = cdz_gguf_real_at(v, 0);
    return CDZ_OK;
}

cdz_status cdz_gguf_bool(const cdz_gguf *g, const char *key, bool *out, cdz_error *err)
{
    const cdz_gguf_value *v = cdz_gguf_find(g, key);
    if (!v) return CDZ_OK;
    if (v->is_array || v->type != CDZ_GGUF_BOOL) return wrong_type(g, v, "bool", err);
    *out = cdz_gguf_int_at(v, 0) != 0;
    return CDZ_OK;
}

cdz_status cdz_gguf_string(const cdz_gguf *g, const char *key, const char **text, size_t *len,
                           cdz_error *err)
{
    const cdz_gguf_value *v = cdz_gguf_find(g, key);
    if (!v) return CDZ_OK;
    if (v->is_array || v->type != CDZ_GGUF_STRING) return wrong_type(g, v, "a string", err);
    const uint8_t *at = v->data;
    *text = cdz_gguf_next_string(&at, len);
    return CDZ_OK;
}

cdz_status cdz_gguf_array(const cdz_gguf *g, const char *key, cdz_gguf_type type,
                          const cdz_gguf_value **out, cdz_error *err)
{
    static const cdz_gguf_value none = {.key = "", .is_array = true};
    const cdz_gguf_value *v = cdz_gguf_find(g, key);
    *out = v ? v : &none;
    if (!v || (v->is_array && v->type == type)) return CDZ_OK;
    char expected[48];
    snprintf(expected, sizeof expected, "an array of %s", type_names[type]);
    return wrong_type(g, v, expected, err);
}
