/* model_files.c - opens a model folder or a GGUF file; bind.c ties the weights to the files' tensors. */
#include "load/model_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "load/bind.h"
#include "load/gguf_model.h"

static const size_t MAX_CONFIG = (size_t)4 << 20; /* bytes of config.json */
static const size_t MAX_MEMORY = (size_t)56
                                 << 20; /* for both configurations and the tables made from them */

/* --- the files of a folder ----------------------------------------------------------------- */

static cdz_status check_folder(const char *folder, cdz_error *err)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: no such model folder", folder);
    if (!S_ISDIR(info.st_mode))
        return cdz_err(
            err, CDZ_E_INPUT,
            "%s: is neither a folder nor a GGUF file; a model is a folder with config.json and "
            "model.safetensors, or a GGUF file",
            folder);
    return CDZ_OK;
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0; /* a link to nowhere exists: opening it says what is wrong */
}

static char *path_in(cdz_weights *w, const char *name)
{
    size_t len = strlen(w->folder);
    return cdz_arena_printf(&w->arena, "%s%s%s", w->folder,
                            len && w->folder[len - 1] == '/' ? "" : "/", name);
}

static cdz_status read_configs(cdz_weights *w, cdz_error *err)
{
    const char *path = path_in(w, "config.json"), *generation = path_in(w, "generation_config.json");
    if (!path || !generation) return cdz_err_memory_in(err, w->folder);
    const cdz_json_limits python = {.infinity = true}; /* time_step_limit of older files */
    CDZ_TRY(cdz_json_read_file(path, MAX_CONFIG, &python, &w->arena, &w->config, err));
    CDZ_TRY(cdz_arch_read(&w->config, path, &w->arena, &w->arch, err));
    if (!exists(generation)) return CDZ_OK;
    CDZ_TRY(cdz_json_read_file(generation, MAX_CONFIG, NULL, &w->arena, &w->generation_config, err));
    if (w->generation_config.type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_INPUT, "%s: is %s, expected an object", generation,
                       cdz_json_type_name(&w->generation_config));
    return CDZ_OK;
}

/* As transformers looks: one file first, then the index of shards. */
static cdz_status open_tensors(cdz_weights *w, const char **source, cdz_error *err)
{
    const char *single = path_in(w, "model.safetensors"),
               *index = path_in(w, "model.safetensors.index.json");
    const char *pickle = path_in(w, "pytorch_model.bin"),
               *pickles = path_in(w, "pytorch_model.bin.index.json");
    if (!single || !index || !pickle || !pickles) return cdz_err_memory_in(err, w->folder);
    *source = exists(single) || !exists(index) ? single : index;
    if (exists(*source))
        return *source == single ? cdz_tensors_open(single, &w->tensors, err)
                                 : cdz_tensors_open_shards(index, &w->tensors, err);
    if (exists(pickle) || exists(pickles))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: has its weights as pytorch_model.bin only, which cannot be read "
                       "safely; save them as safetensors",
                       w->folder);
    return cdz_err(err, CDZ_E_NOT_FOUND,
                   "%s: has neither model.safetensors nor model.safetensors.index.json", w->folder);
}

static void count_files(cdz_weights *w)
{
    const cdz_arch *a = &w->arch;
    w->facts.n_files = w->tensors.n_files;
    for (uint32_t i = 0; i < w->tensors.n_files; i++)
        w->facts.file_bytes += w->tensors.files[i].size;
    w->facts.kv_bytes_per_token = (uint64_t)(a->latent.kv_rank ? 1 : 2) * cdz_arch_kv_layers(a) *
                                  a->n_kv_heads * a->head_dim * sizeof(float);
    w->facts.state_bytes = cdz_arch_state_floats(a) * sizeof(float);
}

static cdz_status load_gguf(cdz_weights *w, cdz_error *err)
{
    cdz_gguf gguf;
    CDZ_TRY(cdz_gguf_open(w->folder, &gguf, err));
    const cdz_status st = cdz_gguf_to_weights(&gguf, w, err);
    cdz_gguf_close(&gguf);
    CDZ_TRY(st);
    count_files(w);
    return cdz_weights_bind(w, w->folder, err);
}

static cdz_status load(cdz_weights *w, const char *folder, cdz_error *err)
{
    w->arena.limit = MAX_MEMORY;
    w->folder = cdz_arena_strdup(&w->arena, folder);
    if (!w->folder) return cdz_err_memory_in(err, folder);
    if (cdz_gguf_is(folder)) return load_gguf(w, err);
    CDZ_TRY(check_folder(folder, err));
    CDZ_TRY(read_configs(w, err));

    const char *source;
    CDZ_TRY(open_tensors(w, &source, err));
    count_files(w);
    return cdz_weights_bind(w, source, err);
}

/* --- outside ------------------------------------------------------------------------------- */

cdz_status cdz_weights_open(const char *folder, cdz_weights **out, cdz_error *err)
{
    *out = NULL;
    cdz_weights *w = calloc(1, sizeof *w);
    if (!w) return cdz_err_memory_in(err, folder);
    cdz_status st = load(w, folder, err);
    if (st == CDZ_OK)
        *out = w;
    else
        cdz_weights_close(w);
    return st;
}

void cdz_weights_close(cdz_weights *weights)
{
    if (!weights) return;
    cdz_tensors_close(&weights->tensors);
    cdz_arena_free(&weights->arena);
    cdz_panels_free(weights->panels);
    free(weights);
}

const cdz_arch *cdz_weights_arch(const cdz_weights *weights)
{
    return &weights->arch;
}

const cdz_json *cdz_weights_config(const cdz_weights *weights)
{
    return &weights->config;
}

const cdz_json *cdz_weights_generation_config(const cdz_weights *weights)
{
    return weights->generation_config.type == CDZ_JSON_OBJECT ? &weights->generation_config : NULL;
}

cdz_status cdz_weights_check(const cdz_weights *weights, cdz_error *err)
{
    for (uint32_t i = 0; i < weights->tensors.n_files; i++)
        CDZ_TRY(cdz_file_check(&weights->tensors.files[i], err));
    return CDZ_OK;
}
