/* drafts.h - draft models that request documents name, opened once each. */
#ifndef CDZ_HOST_CLI_DRAFTS_H
#define CDZ_HOST_CLI_DRAFTS_H

#include "base/json.h"
#include "cadenza/cadenza.h"

struct cdz_named_draft {
    char *name;
    cdz_model *model;
};

/* Zeroed is ready. */
typedef struct cdz_drafts {
    struct cdz_named_draft *at;
    size_t n;
} cdz_drafts;

/* *out becomes the model that the document's "assistant" names; without one it stays as it is. The name is a folder's
 * path, or, where there is no such folder, one beside model_folder. */
cdz_status cdz_drafts_open(cdz_drafts *drafts, cdz_runtime *runtime, const cdz_json *document,
                           const char *model_folder, cdz_model **out, cdz_error *err);
void cdz_drafts_close(cdz_drafts *drafts);

#endif
