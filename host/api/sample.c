/* sample.c - one token from one row of logits, for programs that write their own decode loop. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "random/torch_rng.h"
#include "vec/cut.h"
#include "vec/vec.h"

struct cdz_generator {
    cdz_torch_rng rng;
};

cdz_status cdz_generator_open(uint64_t seed, cdz_generator **out, cdz_error *err)
{
    cdz_generator *generator = malloc(sizeof *generator);
    if (!generator) return cdz_err_memory(err, "a generator");
    cdz_torch_seed(&generator->rng, seed);
    *out = generator;
    return CDZ_OK;
}

void cdz_generator_free(cdz_generator *generator)
{
    free(generator);
}

static cdz_status check(const cdz_generator *generator, size_t n, double temperature, double top_p,
                        cdz_error *err)
{
    if (n == 0 || n > INT32_MAX)
        return cdz_err(err, CDZ_E_USAGE, "sample: %zu logits; expected 1 to %d", n, INT32_MAX);
    if (!(temperature >= 0) || isinf(temperature))
        return cdz_err(err, CDZ_E_USAGE, "sample: temperature %g; expected 0 or more", temperature);
    if (!(top_p >= 0 && top_p <= 1))
        return cdz_err(err, CDZ_E_USAGE, "sample: top_p %g; expected 0 to 1", top_p);
    if (!generator && temperature > 0)
        return cdz_err(err, CDZ_E_USAGE, "sample: no generator; only temperature 0 draws nothing");
    return CDZ_OK;
}

cdz_status cdz_sample(cdz_generator *generator, const float *logits, size_t n, double temperature,
                      size_t top_k, double top_p, int32_t *token, cdz_error *err)
{
    const cdz_vec *vec = cdz_vec_table();
    CDZ_TRY(check(generator, n, temperature, top_p, err));
    if (temperature == 0) {
        *token = vec->argmax(logits, n);
        return CDZ_OK;
    }
    const size_t row = (n * sizeof(float) + 63) / 64 * 64;
    char *memory = aligned_alloc(64, row + (cdz_vec_scratch(n) + 63) / 64 * 64);
    if (!memory) return cdz_err(err, CDZ_E_NOMEM, "out of memory for %zu logits", n);
    float *x = (float *)(void *)memory;
    memcpy(x, logits, n * sizeof *x);
    cdz_vec_cut(vec, x, n, temperature, top_k, top_p, memory + row);
    vec->softmax(x, x, n);
    const int32_t drawn = cdz_torch_multinomial(&generator->rng, x, n);
    free(memory);
    if (drawn < 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "sample: the logits hold nan or inf, or no token is left to draw");
    *token = drawn;
    return CDZ_OK;
}
