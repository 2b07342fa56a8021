/* explain_json.c - `cadenza explain --json`: the same plan as a JSON object. See explain.h. */
#include <string.h>

#include "config/explain.h"

static void put_string(cdz_buf *out, const char *text)
{
    if (text)
        cdz_json_write_string(out, text, strlen(text));
    else
        out->failed = true;
}

static void put_member(cdz_buf *out, const char *name, const char *text)
{
    cdz_buf_printf(out, "\"%s\": ", name);
    put_string(out, text);
}

/* Only what differs from its default, as in the text. */
static void put_parameters_of(const cdz_instance *instance, void *defaults, cdz_buf *out)
{
    const cdz_param_table rows = cdz_params_of(instance->plugin.base);
    const char *comma = "";
    cdz_params_defaults(&rows, defaults);
    cdz_buf_puts(out, ", \"parameters\": {");
    for (uint32_t i = 0; i < rows.n; i++) {
        const cdz_param *param = cdz_param_at(&rows, i);
        cdz_buf value = {0}, usual = {0};
        cdz_param_write(param, instance->params, &value);
        cdz_param_write(param, defaults, &usual);
        if (value.data && usual.data && strcmp(value.data, usual.data) != 0) {
            cdz_buf_printf(out, "%s\"%s\": %s", comma, param->name, value.data);
            comma = ", ";
        }
        out->failed |= value.failed || usual.failed;
        cdz_buf_free(&value);
        cdz_buf_free(&usual);
    }
    cdz_buf_putc(out, '}');
}

static void put_phases(const cdz_plan *plan, const cdz_instance *instance, cdz_buf *out)
{
    const char *comma = "";
    if (!plan->n_phases || !instance->phases) return;
    cdz_buf_puts(out, ", \"phases\": [");
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        if (!(instance->phases & 1u << (i + 1))) continue;
        cdz_buf_puts(out, comma);
        put_string(out, plan->phases[i].name);
        comma = ", ";
    }
    cdz_buf_putc(out, ']');
}

static void put_instance(cdz_arena *arena, const cdz_plan *plan, const cdz_instance *instance,
                         const char *from, cdz_buf *out)
{
    void *defaults = cdz_arena_alloc(arena, cdz_params_of(instance->plugin.base).params_size + 1u);
    cdz_buf_putc(out, '{');
    put_member(out, "name", instance->name);
    cdz_buf_puts(out, ", ");
    put_member(out, "id", instance->plugin.base->id);
    cdz_buf_puts(out, ", ");
    put_member(out, "from", from);
    if (defaults)
        put_parameters_of(instance, defaults, out);
    else
        out->failed = true;
    put_phases(plan, instance, out);
    cdz_buf_putc(out, '}');
}

static void put_list(cdz_arena *arena, const cdz_plan *plan, const char *title,
                     const cdz_instance *at, uint32_t n, cdz_buf *out)
{
    cdz_buf_printf(out, ",\n  \"%s\": [", title);
    for (uint32_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? ",\n    " : "\n    ");
        put_instance(arena, plan, &at[i], cdz_explain_asked(arena, plan->origins, &at[i]), out);
    }
    cdz_buf_puts(out, n ? "\n  ]" : "]");
}

/* Of the host every setting, also what nobody says: value null then. */
static void put_settings(cdz_arena *arena, const cdz_pipeline *pipeline, const cdz_settings *said,
                         cdz_buf *out)
{
    const cdz_setting *row;
    const char *comma = "";
    cdz_buf_puts(out, ",\n  \"settings\": {");
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        cdz_explained one;
        if (!cdz_explain_shows(row)) continue;
        cdz_buf_printf(out, "%s\n    \"%s\": {\"value\": ", comma, row->name);
        comma = ",";
        const bool set = cdz_explain_setting(arena, pipeline, said, row, &one);
        if (!set)
            cdz_buf_puts(out, "null");
        else if (row->kind == CDZ_KIND_SWITCH)
            cdz_buf_puts(out, "true");
        else
            put_string(out, one.value);
        cdz_buf_puts(out, ", ");
        put_member(out, "from", set ? one.from : "default");
        cdz_buf_putc(out, '}');
    }
    cdz_buf_puts(out, "\n  }");
}

static void put_generation(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    const cdz_param_table *rows = cdz_generation_table();
    const char *comma = "";
    cdz_buf_puts(out, ",\n  \"generation\": {");
    for (uint32_t i = 0; i < rows->n; i++) {
        const cdz_param *param = cdz_param_at(rows, i);
        const char *from = cdz_explain_parameter(arena, plan, i);
        if (!from) continue;
        cdz_buf_printf(out, "%s\n    \"%s\": {\"value\": ", comma, param->name);
        if (cdz_param_is_set(param, &plan->generation))
            cdz_param_write(param, &plan->generation, out);
        else
            cdz_buf_puts(out, "null");
        cdz_buf_puts(out, ", ");
        put_member(out, "from", from);
        cdz_buf_putc(out, '}');
        comma = ",";
    }
    cdz_buf_puts(out, *comma ? "\n  }" : "}");
}

static void put_models(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    uint32_t n;
    const cdz_named_folder *at = cdz_edition_models(plan->edition, &n);
    if (n) cdz_buf_puts(out, ",\n  \"models\": {");
    for (uint32_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? ",\n    " : "\n    ");
        put_string(out, at[i].name);
        cdz_buf_puts(out, ": {");
        put_member(out, "value", at[i].folder);
        cdz_buf_puts(out, ", ");
        put_member(out, "from", cdz_explain_where(arena, &at[i].origin));
        cdz_buf_putc(out, '}');
    }
    if (n) cdz_buf_puts(out, "\n  }");
}

typedef struct sentences {
    cdz_buf *out;
    uint32_t n;
} sentences;

static void put_warning(void *user, const char *sentence)
{
    sentences *all = user;
    cdz_buf_puts(all->out, all->n++ ? ",\n    " : "\n    ");
    put_string(all->out, sentence);
}

static void put_plan(cdz_arena *arena, const cdz_plan *plan, cdz_buf *out)
{
    sentences warnings = {.out = out};
    cdz_buf_puts(out, ",\n  \"strategy\": ");
    put_instance(arena, plan, &plan->strategy, cdz_explain_strategy(arena, plan), out);
    if (plan->drafter.plugin.base) {
        cdz_buf_puts(out, ",\n  \"drafter\": ");
        put_instance(arena, plan, &plan->drafter,
                     cdz_explain_asked(arena, plan->origins, &plan->drafter), out);
    }
    put_list(arena, plan, "processors", plan->processors, plan->n_processors, out);
    put_list(arena, plan, "stopping", plan->criteria, plan->n_criteria, out);
    put_list(arena, plan, "observers", plan->observers, plan->n_observers, out);
    if (plan->n_presses) {
        put_list(arena, plan, "press", plan->presses, plan->n_prompt_presses, out);
        put_list(arena, plan, "decoding_press", plan->presses + plan->n_prompt_presses,
                 plan->n_presses - plan->n_prompt_presses, out);
    }
    put_models(arena, plan, out);
    put_generation(arena, plan, out);
    cdz_buf_puts(out, ",\n  \"warnings\": [");
    cdz_explain_warnings(arena, plan, put_warning, &warnings);
    cdz_buf_puts(out, warnings.n ? "\n  ]\n}\n" : "]\n}\n");
}

cdz_status cdz_pipeline_explain_json(cdz_pipeline *pipeline, const cdz_json *model_generation,
                                     const cdz_settings *said, cdz_buf *out, cdz_error *err)
{
    cdz_plan *plan = NULL;
    CDZ_TRY(cdz_pipeline_plan(pipeline, model_generation, NULL, NULL, &plan, err));
    cdz_buf_puts(out, "{\n  ");
    put_member(out, "pipeline", pipeline->name);
    put_settings(&plan->arena, pipeline, said, out);
    put_plan(&plan->arena, plan, out);
    cdz_plan_free(plan);
    return out->failed ? cdz_err(err, CDZ_E_NOMEM, "explain: out of memory") : CDZ_OK;
}
