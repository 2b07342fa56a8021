/* choose.h - the files of a repository, and which of them are taken: what a model is read from, and nothing that runs. */
#ifndef CDZ_HOST_HUB_CHOOSE_H
#define CDZ_HOST_HUB_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "hub/id.h"

typedef struct cdz_hub_file {
    const char *path; /* safe */
    uint64_t bytes;
    char hash[CDZ_SHA256_HEX]; /* 64 digits: SHA-256 of its bytes; 40: the name that git has for it */
    bool take;
} cdz_hub_file;

/* A repository at a commit, as the hub lists it. Texts lie in the arena that it was read into. */
typedef struct cdz_hub_repo {
    char commit[41];
    cdz_hub_file *files;
    size_t n;
} cdz_hub_repo;

/* Reads what the hub answers about a revision. name is for sentences. */
cdz_status cdz_hub_repo_read(const char *text, size_t len, const char *name, cdz_arena *arena,
                             cdz_hub_repo *out, cdz_error *err);

/* Marks what is taken: configuration, tokenizer and templates; and of the weights, unless `texts`, the one GGUF model that the
 * id names (or that there is), or model.safetensors, or its index: *index is then that file, and cdz_hub_choose_shards comes
 * after it. *gguf: the first part of a GGUF model, else NULL. */
cdz_status cdz_hub_choose(cdz_hub_repo *repo, const cdz_hub_id *id, bool texts,
                          const cdz_hub_file **gguf, const cdz_hub_file **index, cdz_error *err);
/* Marks the shards that the index at that path names. */
cdz_status cdz_hub_choose_shards(cdz_hub_repo *repo, const char *index, cdz_arena *arena,
                                 cdz_error *err);

/* Calls see with each shard that the index at that path names; several times where a shard has several tensors. */
typedef cdz_status cdz_hub_see_shard(void *user, const char *shard, cdz_error *err);
cdz_status cdz_hub_each_shard(const char *index, cdz_arena *arena, cdz_hub_see_shard *see,
                              void *user, cdz_error *err);

#endif
