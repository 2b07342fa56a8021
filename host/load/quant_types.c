/* quant_types.c - which type a matrix gets, after ggml's practice; names of types. */
#include "load/quant_types.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Of a type, as people write it: "q4_k". */
typedef struct type_name {
    char text[12];
} type_name;

static void in_small(type_name *out, const char *name)
{
    size_t i = 0;
    for (; name[i] && i + 1 < sizeof out->text; i++)
        out->text[i] = (char)tolower((unsigned char)name[i]);
    out->text[i] = '\0';
}

cdz_status cdz_type_named(const char *name, cdz_dtype from, cdz_dtype to, cdz_dtype *out,
                          cdz_error *err)
{
    type_name asked, types[CDZ_N_DTYPES];
    const char *names[CDZ_N_DTYPES];
    char known[256];
    size_t n = 0, at = 0;
    in_small(&asked, name);
    for (cdz_dtype t = from; t < to; t++, n++) {
        in_small(&types[n], cdz_dtype_name(t));
        names[n] = types[n].text;
        if (strlen(name) < sizeof asked.text && strcmp(names[n], asked.text) == 0) {
            *out = t;
            return CDZ_OK;
        }
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", names[n]);
    }
    const char *near = cdz_nearest_name(asked.text, names, n);
    return cdz_err(err, CDZ_E_USAGE, "there is no type '%.40s' here, expected one of %s%s%s%s",
                   name, known, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* What llama.cpp takes where rows are no multiple of 256. */
static cdz_dtype smaller_blocks(cdz_dtype type)
{
    switch (type) {
    case CDZ_Q2_K:
    case CDZ_Q3_K: return CDZ_Q4_0;
    case CDZ_Q4_K: return CDZ_Q5_0;
    case CDZ_Q5_K: return CDZ_Q5_1;
    case CDZ_Q6_K: return CDZ_Q8_0;
    default: return type;
    }
}

cdz_dtype cdz_type_for(cdz_dtype wanted, cdz_role role, size_t k, cdz_dtype own)
{
    if (wanted == CDZ_N_DTYPES || role == CDZ_ROLE_KEPT) return own;
    if (wanted < CDZ_N_PLAIN) return wanted;
    if (wanted >= CDZ_N_GGUF && role != CDZ_ROLE_MATRIX) return own;
    cdz_dtype type = role == CDZ_ROLE_HEAD && wanted != CDZ_Q8_0 ? CDZ_Q6_K : wanted;
    if (k % cdz_dtype_block(type)) type = smaller_blocks(type);
    return k % cdz_dtype_block(type) ? own : type;
}
