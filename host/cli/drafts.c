/* drafts.c - from the name of a draft model to the model. */
#include "cli/drafts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "prepare/prepare.h"

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The name as a path, or the folder of that name beside the model's. */
static bool find_folder(const char *name, const char *model_folder, char *out, size_t bytes)
{
    int n = snprintf(out, bytes, "%s", name);
    if (is_folder(name) || *name == '/' || !model_folder) return n >= 0 && (size_t)n < bytes;
    size_t len = strlen(model_folder);
    while (len > 1 && model_folder[len - 1] == '/') len--;
    while (len && model_folder[len - 1] != '/') len--;
    n = snprintf(out, bytes, "%.*s%s", (int)len, model_folder, name);
    return n >= 0 && (size_t)n < bytes;
}

static cdz_status open_named(cdz_drafts *drafts, cdz_runtime *runtime, const char *name,
                             const char *model_folder, cdz_model **out, cdz_error *err)
{
    char path[4096];
    if (!find_folder(name, model_folder, path, sizeof path))
        return cdz_err(err, CDZ_E_USAGE, "request: assistant.model: the path is too long");
    struct cdz_named_draft *grown = realloc(drafts->at, (drafts->n + 1) * sizeof *grown);
    if (!grown) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    drafts->at = grown;
    struct cdz_named_draft *added = &grown[drafts->n];
    added->name = strdup(name);
    if (!added->name) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    const cdz_status status = cdz_model_open(runtime, path, NULL, &added->model, err);
    if (status != CDZ_OK) {
        free(added->name);
        return status;
    }
    drafts->n++;
    *out = added->model;
    return CDZ_OK;
}

cdz_status cdz_drafts_open(cdz_drafts *drafts, cdz_runtime *runtime, const cdz_json *document,
                           const char *model_folder, cdz_model **out, cdz_error *err)
{
    const char *name = cdz_request_assistant(document);
    if (!name) return CDZ_OK;
    for (size_t i = 0; i < drafts->n; i++) {
        if (strcmp(drafts->at[i].name, name) != 0) continue;
        *out = drafts->at[i].model;
        return CDZ_OK;
    }
    return open_named(drafts, runtime, name, model_folder, out, err);
}

void cdz_drafts_close(cdz_drafts *drafts)
{
    for (size_t i = 0; i < drafts->n; i++) {
        cdz_model_close(drafts->at[i].model);
        free(drafts->at[i].name);
    }
    free(drafts->at);
    *drafts = (cdz_drafts){0};
}
