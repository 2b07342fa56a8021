/* function_weights.c - the weights of a model whose passes are a program's function: none, and an architecture without layers.
 *
 * Owns: what stands where files would. Not: the function (run/pass/function.h). */
#include <stdlib.h>
#include <string.h>

#include "load/families.h"
#include "load/model_files.h"

static const cdz_family no_family = {.model_type = "function"};
static const char *const no_names[CDZ_N_PARTS];
static const uint8_t no_mixers[1]; /* of no layers: nothing attends, so no keys and values are kept */

static cdz_status read_generation(cdz_weights *w, const char *text, cdz_error *err)
{
    if (!text) return CDZ_OK;
    const char *copy = cdz_arena_strdup(&w->arena, text);
    if (!copy) return cdz_err_memory(err, "the model");
    CDZ_TRY(cdz_json_parse(copy, strlen(copy), "generation_config", NULL, &w->arena,
                           &w->generation_config, err));
    if (w->generation_config.type == CDZ_JSON_OBJECT) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE, "generation_config: is %s, expected an object",
                   cdz_json_type_name(&w->generation_config));
}

cdz_status cdz_weights_of_function(uint32_t n_vocab, uint32_t context, const char *generation,
                                   cdz_weights **out, cdz_error *err)
{
    cdz_weights *w = calloc(1, sizeof *w);
    if (!w) return cdz_err_memory(err, "the model");
    w->folder = "function";
    w->config = (cdz_json){.type = CDZ_JSON_OBJECT};
    w->arch = (cdz_arch){.family = &no_family,
                         .names = no_names,
                         .model_type = no_family.model_type,
                         .architecture = "Function",
                         .dtype = "",
                         .n_vocab = n_vocab,
                         .context = context,
                         .mixers = no_mixers};
    const cdz_status status = read_generation(w, generation, err);
    if (status == CDZ_OK)
        *out = w;
    else
        cdz_weights_close(w);
    return status;
}
