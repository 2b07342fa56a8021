/* press_report.c - what the presses of a plan give back of a prompt's KV cache, by config.json alone. */
#include <math.h>

#include "cadenza/press.h"
#include "load/arch.h"
#include "params/params.h"
#include "run/stages/plan_report.h"

enum { POSITIONS = 4096 };

/* The share that one press lets go, by its own parameter; 0: it has none, or nobody has said. */
static double ratio_of(const cdz_instance *instance)
{
    const cdz_param_table table = cdz_params_of(instance->plugin.base);
    const cdz_param *param = cdz_param_find(&table, "compression_ratio");
    if (!param || param->type != CDZ_T_OPT_REAL) return 0;
    const cdz_opt_real *value = (const void *)((const char *)instance->params + param->offset);
    return value->set ? value->value : 0;
}

/* Entries of the longest head that are left of n. */
static double left_of(const cdz_plan *plan, const cdz_arch *arch, double n)
{
    const cdz_real_list *ratios = &plan->generation.compression.ratios;
    double left = n, least = 1;
    for (uint32_t i = 0; i < plan->n_prompt_presses; i++) {
        const cdz_press *press = (const void *)plan->presses[i].plugin.base;
        if (!(press->caps & CDZ_PRESS_WRAPS) && !ratios->set)
            left = floor(left * (1 - ratio_of(&plan->presses[i])));
    }
    for (uint32_t i = 0; i < ratios->len; i++) least = fmin(least, ratios->at[i]);
    if (ratios->set) left = floor(n * (1 - least));
    for (uint32_t i = 0; i < arch->n_layers; i++)
        if (arch->window[i] && arch->window[i] - 1 > left) left = arch->window[i] - 1;
    return fmin(fmax(left, 1), n);
}

cdz_status cdz_stages_report_presses(const cdz_plan *plan, const cdz_json *config, const char *path,
                                     cdz_arena *arena, cdz_buf *out, cdz_error *err)
{
    cdz_arch arch;
    if (plan->n_prompt_presses == 0) return CDZ_OK;
    CDZ_TRY(cdz_arch_read(config, path, arena, &arch, err));
    const double position =
        2.0 * cdz_arch_kv_layers(&arch) * arch.n_kv_heads * arch.head_dim * sizeof(float);
    const double all = POSITIONS * position, left = left_of(plan, &arch, POSITIONS) * position;
    cdz_buf_printf(
        out,
        "\nKV cache of a prompt of %d positions, in float32: %.1f MiB; at most %.1f MiB of it come "
        "back with the press\n",
        POSITIONS, all / (1 << 20), (all - left) / (1 << 20));
    return CDZ_OK;
}
