/* route.h - how a row finds its experts, where the kernels' own choice (cdz_backend_api.route) is not the model's. */
#ifndef CDZ_HOST_RUN_PASS_ROUTE_H
#define CDZ_HOST_RUN_PASS_ROUTE_H

#include "load/arch.h"

float cdz_route_sigmoid(float x);

/* The k of n experts that a row with these scores goes to, best first, the lower index first among equals, and their
 * weights. bias (n): what they are chosen by besides, or NULL. scores are overwritten. */
void cdz_route_row(const cdz_router *router, const float *bias, float *scores, size_t n, size_t k,
                   float *weights, int32_t *ids);

#endif
