/* caches.h - the models that this machine has already: in the Hugging Face cache, in Ollama's and in llama.cpp's. Nothing here
 * writes or asks a network. */
#ifndef CDZ_HOST_HUB_CACHES_H
#define CDZ_HOST_HUB_CACHES_H

#include <stdint.h>
#include <sys/stat.h>

#include "hub/id.h"

/* The folder that a repository has, or would have, in the Hugging Face cache. */
cdz_status cdz_hub_repository(const cdz_hub_id *id, char *folder, size_t bytes, cdz_error *err);

typedef enum cdz_hub_state {
    CDZ_HUB_NOWHERE,
    CDZ_HUB_PART, /* the path is a folder that lacks files, or has several models */
    CDZ_HUB_HERE,
} cdz_hub_state;

/* The model of a name as it was typed: an id, or a name of Ollama's, "llama3.2:1b". texts: tokenizer and templates will do.
 * revision: NULL for main, or the one that is there. */
cdz_hub_state cdz_hub_find(const char *name, const char *revision, bool texts, char *path,
                           size_t bytes);

typedef struct cdz_hub_model {
    const char *name, *path;
    const char *format; /* "safetensors", "gguf", "incomplete", "texts" */
    const char *where;  /* "Hugging Face", "Ollama", "llama.cpp" */
    uint64_t bytes;
} cdz_hub_model;

/* False: enough. */
typedef bool cdz_hub_see(void *user, const cdz_hub_model *model);
void cdz_hub_each(cdz_hub_see *see, void *user);
/* Format and bytes of a folder or file. */
void cdz_hub_describe(const char *path, cdz_hub_model *out);

/* --- for the files of this room ----------------------------------------------------------------------------- */

/* Files below a folder, down to that depth, in order of names; relative: from the folder on. Returns false when see did. */
typedef bool cdz_hub_see_file(void *user, const char *relative, const char *path,
                              const struct stat *s);
bool cdz_hub_walk(const char *folder, int depth, cdz_hub_see_file *see, void *user);

/* foreign.c: those of Ollama and llama.cpp. */
cdz_hub_state cdz_hub_find_ollama(const char *name, char *path, size_t bytes);
cdz_hub_state cdz_hub_find_llama(const char *name, char *path, size_t bytes);
bool cdz_hub_each_ollama(cdz_hub_see *see, void *user);
bool cdz_hub_each_llama(cdz_hub_see *see, void *user);

/* Of the GGUF models below a folder the only one that fits, or the one whose path it is; wanted "": any. */
cdz_hub_state cdz_hub_find_gguf(const char *folder, const char *wanted, char *path, size_t bytes);

#endif
