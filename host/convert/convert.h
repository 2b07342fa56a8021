/* convert.h - a model folder as a GGUF file and back, with its matrices in other types if wanted.
 *
 * What comes out is opened and compared with what went in before it gets its name: what the other
 * format cannot say is a sentence, not another model. OUT appears whole or not at all. */
#ifndef CDZ_HOST_CONVERT_CONVERT_H
#define CDZ_HOST_CONVERT_CONVERT_H

#include "base/error.h"
#include "kernels.h"

/* Told of bytes written, often and in order; false gives up: CDZ_E_CANCELLED, nothing is left. */
typedef struct cdz_watch {
    bool (*tell)(void *user, uint64_t done, uint64_t total); /* NULL: nobody watches */
    void *user;
} cdz_watch;

typedef struct cdz_convert_options {
    const char *in, *out;
    bool to_gguf;      /* also when `in` is a GGUF file already; false: `in` is one, out a folder */
    bool force;        /* a file or an empty folder at `out` may be replaced */
    bool no_tokenizer; /* leave tokenizer and chat templates out */
    cdz_dtype type; /* of matrices; CDZ_N_DTYPES: as they are, for a folder widened if quantised */
    cdz_watch watch;
} cdz_convert_options;

typedef struct cdz_convert_report {
    uint64_t bytes_in, bytes_out;     /* of weight files */
    uint32_t n_tensors;               /* written */
    uint32_t n_kept;                  /* matrices that could not be in the wanted type */
    uint32_t n_by_type[CDZ_N_DTYPES]; /* tensors */
    char first_kept[256];             /* the first of n_kept, and why */
    char notes[1024];                 /* what the format cannot say, a line each; "" for nothing */
} cdz_convert_report;

cdz_status cdz_convert(const cdz_convert_options *options, cdz_convert_report *report,
                       cdz_error *err);

#endif
