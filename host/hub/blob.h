/* blob.h - one file of a repository, brought into the cache: as blobs/HASH.incomplete, which the next attempt goes on with,
 * and under its own name when it is whole and its hash is the promised one. A lock, the one that huggingface_hub takes, lets
 * one process at a time write it. */
#ifndef CDZ_HOST_HUB_BLOB_H
#define CDZ_HOST_HUB_BLOB_H

#include "hub/choose.h"
#include "hub/http.h"
#include "hub/pull.h"

typedef struct cdz_hub_blob {
    const cdz_hub_file *file;
    const char *url;      /* behind the endpoint */
    const char *path;     /* blobs/HASH */
    const char *lock;     /* .locks/.../HASH.lock */
    const char *endpoint; /* for sentences */
} cdz_hub_blob;

/* Bytes that are here already, in the file or in what there is of it. */
uint64_t cdz_hub_blob_here(const cdz_hub_blob *blob);
cdz_status cdz_hub_blob_fetch(cdz_http *http, const cdz_hub_blob *blob, const cdz_hub_watch *watch,
                              cdz_error *err);

/* Another try after a failure that another try may mend: waits, and says whether there is to be one. tries counts those
 * without any progress. */
bool cdz_hub_try_again(unsigned *tries, unsigned wait_seconds, const cdz_hub_watch *watch);
/* What an answer that is none of 200 and 206 means, as a sentence. what: the id, or the file. */
cdz_status cdz_hub_answer(const char *what, const char *endpoint, const cdz_http_head *head,
                          cdz_error *err);
/* Answers that may be others in a moment: too many requests, or a server in trouble. */
bool cdz_hub_passing(long status);

#endif
