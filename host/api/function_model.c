/* function_model.c - cdz_model_of_function: a model of a program's own passes.
 *
 * Owns: what is checked of it. Not: its passes (run/pass/function.h), the rest of a model (runtime.c). Thread: [any]. */
#include <string.h>

#include "api/api.h"

static cdz_status check(const cdz_function_model *given, cdz_error *err)
{
    if (!given->forward)
        return cdz_err(err, CDZ_E_USAGE, "cdz_function_model.forward is NULL: there is no model");
    if (given->n_vocab == 0 || given->n_vocab > INT32_MAX)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_function_model.n_vocab is %u: expected the number of scores in a row",
                       given->n_vocab);
    return CDZ_OK;
}

cdz_status cdz_model_of_function(cdz_runtime *runtime, const cdz_function_model *function,
                                 cdz_model **out, cdz_error *err)
{
    cdz_function_model given = {0};
    cdz_weights *weights;
    const cdz_backend *device;
    CDZ_TRY(cdz_runtime_take_struct(function, "cdz_function_model", &given, sizeof given, err));
    CDZ_TRY(check(&given, err));
    CDZ_TRY(cdz_engine_open_device(runtime->engine, &device, err));
    if (!device->api->host_memory)
        return cdz_err(
            err, CDZ_E_UNSUPPORTED,
            "a function writes its scores to memory of the host, and this runtime computes "
            "on %s: open one on the cpu",
            device->api->device);
    CDZ_TRY(cdz_weights_of_function(given.n_vocab, given.context, given.generation_config, &weights,
                                    err));
    CDZ_TRY(
        cdz_model_of_weights(runtime, given.tokenizer, given.tokenizer != NULL, weights, out, err));
    cdz_run_model_set_function((*out)->run, given.forward, given.user);
    return CDZ_OK;
}
