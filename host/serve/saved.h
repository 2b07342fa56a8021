/* saved.h - prefix caches in files: one of each model's, read when it is opened and written when it goes, and those that requests
 * name. docs/serving.md says what clients see. Inside serve/ only. */
#ifndef CDZ_HOST_SERVE_SAVED_H
#define CDZ_HOST_SERVE_SAVED_H

#include "serve/serve.h"

/* Where a model's are; texts are owned. */
typedef struct cdz_saved_places {
    char *file;   /* of what it has when it goes; NULL: nowhere */
    char *folder; /* of those that have names; NULL: none */
} cdz_saved_places;

/* Whether the rules' file can be written, and the folder is one. */
cdz_status cdz_serve_saved_check(const cdz_serve_rules *rules, cdz_error *err);
/* The places of the rules' model i; the first has the file, others that file's name and theirs. False: out of memory. */
bool cdz_serve_saved_places(const cdz_serve_rules *rules, size_t i, cdz_saved_places *out);
bool cdz_serve_saved_copy(const cdz_saved_places *from, cdz_saved_places *out);
void cdz_serve_saved_free(cdz_saved_places *places);

/* Reads what there is for a model. What is not whole or not its own is left out, and said. Not the engine's thread. */
void cdz_serve_saved_read(cdz_serve *serve, const char *id, cdz_model *model,
                          const cdz_saved_places *places);
/* Writes what it has now; says so, or why not. Without a file, and of a model without a prefix cache, nothing is done. */
cdz_status cdz_serve_saved_write(cdz_serve *serve, const char *id, cdz_model *model,
                                 const cdz_saved_places *places);

struct cdz_http_exchange;
/* /v1/kv and /v1/kv/NAME, of a worker. */
void cdz_serve_saved_list(struct cdz_http_exchange *exchange);
void cdz_serve_saved_put(struct cdz_http_exchange *exchange);
void cdz_serve_saved_delete(struct cdz_http_exchange *exchange);

#endif
