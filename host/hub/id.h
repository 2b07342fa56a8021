/* id.h - the ids of models: "Qwen/Qwen3-0.6B", with ":FILE" or ":Q4_K_M" behind it where a repository has several models.
 *
 * Ids and names of files become paths and addresses, so they are looked at strictly, those that a hub gave too: no "..", no
 * absolute path, no byte that a file system or an address could take for something else. */
#ifndef CDZ_HOST_HUB_ID_H
#define CDZ_HOST_HUB_ID_H

#include <stdbool.h>

#include "base/error.h"

enum { CDZ_HUB_NAME = 97, CDZ_HUB_FILE = 256, CDZ_HUB_REVISION = 256, CDZ_HUB_PATH = 4096 };

typedef struct cdz_hub_id {
    char name[CDZ_HUB_NAME]; /* "Qwen/Qwen3-0.6B" */
    char file[CDZ_HUB_FILE]; /* a file, or a part of its name such as "Q4_K_M"; "": the repository is one model */
} cdz_hub_id;

/* "ORG/NAME" or "ORG/NAME:FILE", also with "hf.co/" or "huggingface.co/" before it. CDZ_E_USAGE: why it is none. */
cdz_status cdz_hub_id_read(const char *text, cdz_hub_id *out, cdz_error *err);
/* A branch, a tag or a commit. */
cdz_status cdz_hub_check_revision(const char *revision, cdz_error *err);
/* Whether a path below a folder stays there. */
bool cdz_hub_path_is_safe(const char *path);
bool cdz_hub_is_commit(const char *text); /* 40 lower-case hexadecimal digits */

/* Whether "NAME-Q4_K_M-00001-of-00002.gguf" is meant by "Q4_K_M", whatever its case, or by its own name. */
bool cdz_hub_file_fits(const char *path, const char *wanted);
/* A file of weights in GGUF, and no part of one but the first: other parts are opened by it. */
bool cdz_hub_is_gguf(const char *path);
/* Whether a file is the same model as that one: the file itself, or a further part of it. */
bool cdz_hub_same_parts(const char *first, const char *path);

#endif
