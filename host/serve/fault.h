/* fault.h - why a request is refused, as OpenAI's clients read it. */
#ifndef CDZ_HOST_SERVE_FAULT_H
#define CDZ_HOST_SERVE_FAULT_H

#include "base/buf.h"
#include "base/error.h"

typedef struct cdz_serve_fault {
    int status;       /* 0: none */
    const char *type; /* constant */
    const char *code; /* constant or NULL */
    char param[64];   /* the field, or "" */
    char text[CDZ_ERROR_TEXT];
} cdz_serve_fault;

/* Returns false, so that a refusal is one line. param and code may be NULL. */
bool cdz_serve_fault_set(cdz_serve_fault *fault, int status, const char *param, const char *code,
                         const char *fmt, ...) CDZ_PRINTF(5, 6);
/* The same for what the library says. */
bool cdz_serve_fault_of(cdz_serve_fault *fault, const char *param, const cdz_error *err);
/* {"error": {...}} */
void cdz_serve_fault_write(const cdz_serve_fault *fault, cdz_buf *out);

#endif
