/* parity_config.c - replays recorded cases of configuration: what validation refuses or minds, the lengths that come of
 * it, and the chain of processors that a request gets, in its order and, where scores were recorded, in its numbers. */
#include <stdlib.h>
#include <string.h>

#include "cli/parity.h"

static cdz_status malformed(const char *what, cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "the case is malformed: %s", what);
}

static bool is_true(const cdz_json *value)
{
    return cdz_json_is(value, CDZ_JSON_BOOL) && value->boolean;
}

/* Whether something was refused, against what the case says about it. */
static cdz_status compare_refusal(const cdz_json *c, cdz_status got, const cdz_error *why,
                                  cdz_error *err)
{
    const bool expected = is_true(cdz_json_get(c, "error")), refused = got != CDZ_OK;
    if (refused == expected) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   refused ? "refused, the reference accepts it: %s"
                           : "accepted, the reference refuses it%s",
                   why->text);
}

/* --- validation ------------------------------------------------------------------------------------------------- */

/* Unset fields of a fresh config stay unset until generate() fills them: for validate() both look alike. */
static cdz_status resolve_model(cdz_resolution *res, cdz_arena *arena, const cdz_json *model,
                                cdz_error *err)
{
    CDZ_TRY(cdz_resolution_begin(res, arena, err));
    CDZ_TRY(cdz_resolution_put_model(res, model, err));
    return cdz_resolution_finish(res, err);
}

static bool minds(const cdz_resolution *res, const cdz_json *name)
{
    for (uint32_t i = 0; i < res->n_minor; i++)
        if (cdz_json_eq(name, res->minor[i])) return true;
    return false;
}

static cdz_status compare_minor(const cdz_json *c, const cdz_resolution *res, cdz_error *err)
{
    const cdz_json *minor = cdz_json_get(c, "minor_issues");
    if (!cdz_json_is(minor, CDZ_JSON_ARRAY)) return malformed("it has no minor_issues", err);
    if (res->n_minor != minor->len)
        return cdz_err(err, CDZ_E_INPUT, "expected %u minor issues, got %u", minor->len,
                       res->n_minor);
    for (uint32_t i = 0; i < minor->len; i++)
        if (!minds(res, &minor->items[i]))
            return cdz_err(err, CDZ_E_INPUT, "minor issue %u is not among those here", i);
    return CDZ_OK;
}

static cdz_status replay_config(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                                cdz_error *err)
{
    const cdz_json *params = cdz_json_get(c, "params");
    cdz_error why = {0};
    cdz_resolution res;
    (void)registry;
    if (!cdz_json_is(params, CDZ_JSON_OBJECT)) return malformed("it has no params", err);
    const cdz_status got = resolve_model(&res, arena, params, &why);
    CDZ_TRY(compare_refusal(c, got, &why, err));
    return got == CDZ_OK ? compare_minor(c, &res, err) : CDZ_OK;
}

/* {"watermarking_config": the case's params}, with a type where there is one. */
static const cdz_json *watermark_config(cdz_arena *arena, const cdz_json *params, const char *type)
{
    cdz_json *object = cdz_arena_alloc(arena, sizeof *object);
    cdz_json_member *outer = cdz_arena_alloc(arena, sizeof *outer);
    cdz_json_member *inner = cdz_arena_array(arena, (size_t)params->len + 1, sizeof *inner);
    if (!object || !outer || !inner) return NULL;
    uint32_t n = 0;
    for (; n < params->len; n++) inner[n] = params->members[n];
    if (type)
        inner[n++] = (cdz_json_member){
            "type", 4, {.type = CDZ_JSON_STRING, .len = (uint32_t)strlen(type), .string = type}};
    *outer = (cdz_json_member){.key = "watermarking_config", .key_len = 19};
    outer->value = (cdz_json){.type = CDZ_JSON_OBJECT, .len = n, .members = inner};
    *object = (cdz_json){.type = CDZ_JSON_OBJECT, .len = 1, .members = outer};
    return object;
}

/* WatermarkingConfig.validate(): part of the configuration's own. */
static cdz_status replay_green_config(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                                      cdz_error *err)
{
    const cdz_json *params = cdz_json_get(c, "params");
    cdz_error why = {0};
    cdz_resolution res;
    (void)registry;
    if (!cdz_json_is(params, CDZ_JSON_OBJECT)) return malformed("it has no params", err);
    const cdz_json *config = watermark_config(arena, params, NULL);
    if (!config) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    return compare_refusal(c, resolve_model(&res, arena, config, &why), &why, err);
}

/* --- lengths ---------------------------------------------------------------------------------------------------- */

static cdz_status put_all(cdz_resolution *res, const cdz_json *object, cdz_source source,
                          cdz_error *err)
{
    const cdz_origin origin = {.source = source};
    if (!cdz_json_is(object, CDZ_JSON_OBJECT))
        return malformed("expected an object of parameters", err);
    for (uint32_t i = 0; i < object->len; i++) {
        const int slot = cdz_generation_slot(object->members[i].key);
        if (slot < 0) return malformed("an unknown parameter", err);
        cdz_resolution_put(res, (uint32_t)slot, &object->members[i].value, &origin);
    }
    return CDZ_OK;
}

static cdz_status resolve_sources(cdz_resolution *res, cdz_arena *arena, const cdz_json *c,
                                  cdz_error *err)
{
    CDZ_TRY(cdz_resolution_begin(res, arena, err));
    CDZ_TRY(put_all(res, cdz_json_get(c, "model_generation_config"), CDZ_SOURCE_MODEL, err));
    CDZ_TRY(put_all(res, cdz_json_get(c, "user_generation_config"), CDZ_SOURCE_FILE, err));
    CDZ_TRY(put_all(res, cdz_json_get(c, "params"), CDZ_SOURCE_REQUEST, err));
    return cdz_resolution_finish(res, err);
}

static cdz_status read_count(const cdz_json *c, const char *key, uint32_t *out, cdz_error *err)
{
    const cdz_json *value = cdz_json_get(c, key);
    if (!cdz_json_is(value, CDZ_JSON_INT) || value->integer < 0 || value->integer > UINT32_MAX)
        return cdz_err(err, CDZ_E_INPUT, "the case is malformed: %s is no count", key);
    *out = (uint32_t)value->integer;
    return CDZ_OK;
}

static cdz_status compare_count(const cdz_json *c, const char *key, int64_t got, cdz_error *err)
{
    const cdz_json *want = cdz_json_get(c, key);
    if (!cdz_json_is(want, CDZ_JSON_INT))
        return cdz_err(err, CDZ_E_INPUT, "the case is malformed: it has no %s", key);
    if (want->integer == got) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: expected %lld, got %lld", key, (long long)want->integer,
                   (long long)got);
}

/* The lengths stand in a case that is refused too; its warnings do not. */
static cdz_status replay_lengths(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                                 cdz_error *err)
{
    cdz_resolution res;
    cdz_lengths lengths;
    cdz_error why = {0};
    uint32_t prompt, positions;
    (void)registry;
    CDZ_TRY(read_count(c, "prompt_len", &prompt, err));
    CDZ_TRY(read_count(c, "max_position_embeddings", &positions, err));
    CDZ_TRY(resolve_sources(&res, arena, c, err));
    const cdz_status got =
        cdz_resolve_lengths(&res.generation, prompt, positions, 0, &lengths, &why);
    CDZ_TRY(compare_refusal(c, got, &why, err));
    CDZ_TRY(compare_count(c, "max_length", lengths.max_length, err));
    CDZ_TRY(compare_count(c, "min_length", lengths.min_length, err));
    return got == CDZ_OK ? compare_count(c, "warnings", lengths.n_warnings, err) : CDZ_OK;
}

/* --- chains ------------------------------------------------------------------------------------------------------- */

/* The plan of a request with these parameters; ini: the pipeline file. What refuses is the caller's to judge. */
static cdz_status make_plan(cdz_registry *registry, const char *ini, const cdz_json *kwargs,
                            cdz_plan **out, cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    *out = NULL;
    cdz_status status = cdz_pipeline_create(registry, ini, strlen(ini), "case", &pipeline, err);
    if (status == CDZ_OK) status = cdz_pipeline_plan(pipeline, NULL, kwargs, NULL, out, err);
    cdz_pipeline_release(pipeline); /* the plan keeps what it needs */
    return status;
}

/* SynthIDTextWatermarkingConfig.validate(): here the plugin's parameters say what is allowed. */
static cdz_status replay_synthid_config(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                                        cdz_error *err)
{
    const cdz_json *params = cdz_json_get(c, "params");
    cdz_error why = {0};
    cdz_plan *plan;
    if (!cdz_json_is(params, CDZ_JSON_OBJECT)) return malformed("it has no params", err);
    const cdz_json *config = watermark_config(arena, params, "synthid");
    if (!config) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    const cdz_status got = make_plan(registry, "", config, &plan, &why);
    cdz_plan_free(plan);
    return compare_refusal(c, got, &why, err);
}

/* An entry of a list of processors: the name of a class, or [the name, its value or null]. */
static const cdz_json *entry_name(const cdz_json *entry)
{
    return cdz_json_is(entry, CDZ_JSON_ARRAY) && entry->len == 2 ? &entry->items[0] : entry;
}

static const cdz_json *entry_value(const cdz_json *entry)
{
    const bool pair = cdz_json_is(entry, CDZ_JSON_ARRAY) && entry->len == 2;
    return pair && entry->items[1].type != CDZ_JSON_NULL ? &entry->items[1] : NULL;
}

/* The parameter called like its plugin, as a number. */
static bool value_of(const cdz_instance *instance, double *out)
{
    const cdz_param_table table = cdz_params_of(instance->plugin.base);
    const cdz_param *param = cdz_param_find(&table, instance->plugin.base->id);
    cdz_buf text = {0};
    char *end = NULL;
    if (!param) return false;
    cdz_param_write(param, instance->params, &text);
    const char *at = text.data ? text.data : "";
    *out = strtod(at, &end);
    const bool number = end != at && *end == '\0';
    cdz_buf_free(&text);
    return number;
}

static cdz_status compare_entry(const cdz_json *entry, uint32_t i, const cdz_instance *got,
                                cdz_error *err)
{
    const char *id = cdz_parity_plugin(entry_name(entry));
    const cdz_json *value = entry_value(entry);
    double want, have = 0;
    if (!id) return cdz_err(err, CDZ_E_UNSUPPORTED, "place %u: a class without a plugin", i);
    if (strcmp(id, got->plugin.base->id) != 0)
        return cdz_err(err, CDZ_E_INPUT, "place %u: expected %s, got %s", i, id,
                       got->plugin.base->id);
    if (!value) return CDZ_OK;
    if (!cdz_json_number(value, &want)) return malformed("a value that is no number", err);
    if (value_of(got, &have) && have == want) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "place %u: expected %s = %.9g, got %.9g", i, id, want, have);
}

static cdz_status compare_order(const cdz_json *c, const cdz_plan *plan, cdz_error *err)
{
    const cdz_json *order = cdz_json_get(c, "order");
    if (!cdz_json_is(order, CDZ_JSON_ARRAY)) return malformed("it has no order", err);
    for (uint32_t i = 0; i < order->len && i < plan->n_processors; i++)
        CDZ_TRY(compare_entry(&order->items[i], i, &plan->processors[i], err));
    if (order->len == plan->n_processors) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "expected %u processors, got %u", order->len,
                   plan->n_processors);
}

/* What the request tells its processors, besides the prompts. */
static cdz_status request_of(const cdz_json *c, const cdz_plan *plan, cdz_arena *arena,
                             cdz_request_info *out, cdz_error *err)
{
    const cdz_int_list *eos = &plan->generation.eos_token_id;
    cdz_lengths lengths;
    int32_t *ids = cdz_arena_array(arena, (size_t)eos->len + 1, sizeof *ids);
    *out = (cdz_request_info){.size = sizeof *out, .pad = -1, .bos = -1};
    if (!ids) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < eos->len; i++) ids[i] = (int32_t)eos->at[i];
    out->eos = (cdz_ids){ids, eos->len};
    out->num_beams = (uint32_t)plan->generation.num_beams;
    CDZ_TRY(read_count(c, "prompt_len", &out->prompt_len, err));
    CDZ_TRY(cdz_resolve_lengths(&plan->generation, out->prompt_len, 0, 0, &lengths, err));
    out->max_length = (uint32_t)lengths.max_length;
    out->min_length = (uint32_t)(lengths.min_length < lengths.max_length ? lengths.min_length
                                                                         : lengths.max_length);
    return CDZ_OK;
}

static cdz_status compare_chain(const cdz_json *c, const cdz_plan *plan, cdz_arena *arena,
                                cdz_error *err)
{
    cdz_request_info request;
    CDZ_TRY(compare_order(c, plan, err));
    CDZ_TRY(request_of(c, plan, arena, &request, err));
    return cdz_parity_chain(c, plan, &request, err);
}

static cdz_status replay_pipeline(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                                  cdz_error *err)
{
    cdz_error why = {0};
    cdz_plan *plan;
    cdz_status status = make_plan(registry, "", cdz_json_get(c, "params"), &plan, &why);
    status = status == CDZ_OK ? compare_chain(c, plan, arena, err)
                              : cdz_err(err, CDZ_E_INPUT, "refused: %s", why.text);
    cdz_plan_free(plan);
    return status;
}

/* --- processors of the caller's own --------------------------------------------------------------------------------- */

/* [["TemperatureLogitsWarper", 0.9], ...] as instances c0, c1, ... of a pipeline. */
static cdz_status write_custom(const cdz_json *custom, cdz_buf *out, cdz_error *err)
{
    if (!cdz_json_is(custom, CDZ_JSON_ARRAY)) return malformed("it has no custom", err);
    cdz_buf_puts(out, "[pipeline]\nprocessors = ");
    for (uint32_t i = 0; i < custom->len; i++) cdz_buf_printf(out, "%sc%u", i ? ", " : "", i);
    for (uint32_t i = 0; i < custom->len; i++) {
        const char *id = cdz_parity_plugin(entry_name(&custom->items[i]));
        const cdz_json *value = entry_value(&custom->items[i]);
        double number;
        if (!id) return cdz_err(err, CDZ_E_UNSUPPORTED, "custom %u: a class without a plugin", i);
        if (!cdz_json_number(value, &number)) return malformed("a value that is no number", err);
        cdz_buf_printf(out, "\n[c%u]\nid = %s\n%s = ", i, id, id);
        cdz_json_write(out, value);
    }
    cdz_buf_putc(out, '\n');
    return CDZ_OK;
}

static cdz_status without_custom(const cdz_json *params, cdz_arena *arena, cdz_json *out,
                                 cdz_error *err)
{
    if (!cdz_json_is(params, CDZ_JSON_OBJECT)) return malformed("it has no params", err);
    cdz_json_member *members = cdz_arena_array(arena, (size_t)params->len + 1, sizeof *members);
    if (!members) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    *out = (cdz_json){.type = CDZ_JSON_OBJECT, .members = members};
    for (uint32_t i = 0; i < params->len; i++)
        if (strcmp(params->members[i].key, "custom") != 0) members[out->len++] = params->members[i];
    return CDZ_OK;
}

static cdz_status replay_order(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                               cdz_error *err)
{
    const cdz_json *params = cdz_json_get(c, "params");
    cdz_json kwargs;
    cdz_error why = {0};
    cdz_buf ini = {0};
    cdz_plan *plan = NULL;
    cdz_status status = without_custom(params, arena, &kwargs, err);
    if (status == CDZ_OK) status = write_custom(cdz_json_get(params, "custom"), &ini, err);
    if (status == CDZ_OK)
        status = make_plan(registry, ini.data, &kwargs, &plan, &why) == CDZ_OK
                     ? compare_order(c, plan, err)
                     : cdz_err(err, CDZ_E_INPUT, "refused: %s", why.text);
    cdz_plan_free(plan);
    cdz_buf_free(&ini);
    return status;
}

/* --- the kinds -------------------------------------------------------------------------------------------------------- */

typedef cdz_status replay(cdz_registry *registry, const cdz_json *c, cdz_arena *arena,
                          cdz_error *err);

static const struct {
    const char *kind, *name;
    replay *replay;
} kinds[] = {
    {"config", "GenerationConfig", replay_config},
    {"error", "WatermarkingConfig", replay_green_config},
    {"error", "SynthIDTextWatermarkingConfig", replay_synthid_config},
    {"lengths", "resolve", replay_lengths},
    {"pipeline", "assembled", replay_pipeline},
    {"pipeline_order", "custom_merge", replay_order},
};

bool cdz_parity_config_case(cdz_registry *registry, const cdz_json *c, cdz_status *replayed,
                            cdz_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        cdz_arena arena = {0};
        if (!cdz_json_eq(cdz_json_get(c, "kind"), kinds[i].kind) ||
            !cdz_json_eq(cdz_json_get(c, "name"), kinds[i].name))
            continue;
        *replayed = kinds[i].replay(registry, c, &arena, err);
        cdz_arena_free(&arena);
        return true;
    }
    return false;
}
