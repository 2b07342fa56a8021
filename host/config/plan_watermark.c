/* plan_watermark.c - what a plan's requests are marked with. */
#include <string.h>

#include "cadenza/watermark.h"
#include "config/pipeline.h"

/* Whoever else takes the id has other parameters. */
const cdz_watermark *cdz_plan_watermark(const cdz_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_processors; i++) {
        const cdz_plugin_base *plugin = plan->processors[i].plugin.base;
        if (strcmp(plugin->id, "watermarking_config") == 0 &&
            plugin->params_size == sizeof(cdz_watermark))
            return plan->processors[i].params;
    }
    return NULL;
}
