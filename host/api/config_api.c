/* config_api.c - generation configs for programs: cdz_config_open and what goes with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/write.h"
#include "config/config_file.h"

/* --- reading -------------------------------------------------------------------------------------------------- */

static bool room_for_one(cdz_config *config)
{
    if (config->n < config->cap) return true;
    const uint32_t cap = config->cap ? config->cap * 2 : 32;
    cdz_json_member *grown = cdz_arena_array(&config->arena, cap, sizeof *grown);
    if (!grown) return false;
    if (config->n) memcpy(grown, config->members, config->n * sizeof *grown);
    config->members = grown;
    config->cap = cap;
    return true;
}

static uint32_t find(const cdz_config *config, const char *name)
{
    uint32_t i = 0;
    while (i < config->n && strcmp(config->members[i].key, name) != 0) i++;
    return i;
}

/* null takes a name away. */
static cdz_status put(cdz_config *config, const char *name, const cdz_json *value, cdz_error *err)
{
    const uint32_t i = find(config, name);
    if (value->type == CDZ_JSON_NULL) {
        if (i < config->n) config->members[i] = config->members[--config->n];
        return CDZ_OK;
    }
    if (i == config->n) {
        if (!room_for_one(config)) return cdz_err_memory(err, "the generation config");
        config->members[config->n++] =
            (cdz_json_member){.key = name, .key_len = (uint32_t)strlen(name)};
    }
    config->members[i].value = *value;
    return CDZ_OK;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static cdz_status read_part(cdz_config *config, const char *folder, const char *file, cdz_json *out,
                            bool *there, cdz_error *err)
{
    struct stat st;
    const char *path = cdz_arena_printf(&config->arena, "%s/%s", folder, file);
    if (!path) return cdz_err_memory(err, "the generation config");
    *there = stat(path, &st) == 0;
    if (!*there) return CDZ_OK;
    if (!config->path) config->path = path;
    return cdz_json_read_file(path, 0, NULL, &config->arena, out, err);
}

/* A model's: its generation_config.json alone where there is one, else what config.json says. */
static cdz_status read_folder(cdz_config *config, const char *folder, cdz_json *out, cdz_error *err)
{
    cdz_json own, model;
    bool has_own, has_model;
    CDZ_TRY(read_part(config, folder, "generation_config.json", &own, &has_own, err));
    CDZ_TRY(read_part(config, folder, "config.json", &model, &has_model, err));
    if (!has_own && !has_model)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "%s: neither generation_config.json nor config.json is there", folder);
    config->derived = !has_own;
    return cdz_generation_of_model(has_own ? &own : NULL, has_model ? &model : NULL, &config->arena,
                                   out, err);
}

static cdz_status take_members(cdz_config *config, const cdz_json *object, const char *path,
                               cdz_error *err)
{
    if (object->type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_INPUT, "%s: holds %s, expected an object", path,
                       cdz_json_type_name(object));
    for (uint32_t i = 0; i < object->len; i++)
        CDZ_TRY(put(config, object->members[i].key, &object->members[i].value, err));
    return CDZ_OK;
}

static cdz_status read_path(cdz_config *config, const char *path, cdz_error *err)
{
    cdz_json object;
    if (is_folder(path)) {
        CDZ_TRY(read_folder(config, path, &object, err));
    } else {
        config->path = cdz_arena_strdup(&config->arena, path);
        if (!config->path) return cdz_err_memory(err, "the generation config");
        CDZ_TRY(cdz_json_read_file(path, 0, NULL, &config->arena, &object, err));
    }
    return take_members(config, &object, path, err);
}

static cdz_status read_model(cdz_config *config, const char *path, cdz_error *err)
{
    const cdz_json_limits python = {.infinity = true};
    cdz_json model, object;
    if (is_folder(path)) path = cdz_arena_printf(&config->arena, "%s/config.json", path);
    config->path = path ? cdz_arena_strdup(&config->arena, path) : NULL;
    if (!config->path) return cdz_err_memory(err, "the generation config");
    config->derived = true;
    CDZ_TRY(cdz_json_read_file(config->path, 0, &python, &config->arena, &model, err));
    if (model.type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_INPUT, "%s: holds %s, expected an object", config->path,
                       cdz_json_type_name(&model));
    CDZ_TRY(cdz_generation_of_model(NULL, &model, &config->arena, &object, err));
    return take_members(config, &object, config->path, err);
}

static cdz_status open_by(cdz_status (*read)(cdz_config *, const char *, cdz_error *),
                          const char *path, cdz_config **out, cdz_error *err)
{
    cdz_config *config = calloc(1, sizeof *config);
    if (!config) return cdz_err_memory(err, "the generation config");
    const cdz_status status = path ? read(config, path, err) : CDZ_OK;
    if (status != CDZ_OK) {
        cdz_config_free(config);
        return status;
    }
    *out = config;
    return CDZ_OK;
}

cdz_status cdz_config_open(const char *path, cdz_config **out, cdz_error *err)
{
    return open_by(read_path, path, out, err);
}

cdz_status cdz_config_from_model(const char *path, cdz_config **out, cdz_error *err)
{
    return open_by(read_model, path, out, err);
}

void cdz_config_free(cdz_config *config)
{
    if (!config) return;
    cdz_arena_free(&config->arena);
    free(config);
}

cdz_status cdz_config_set(cdz_config *config, const char *name, const char *value, cdz_error *err)
{
    const int slot = cdz_generation_slot(name);
    cdz_json read;
    if (slot < 0) {
        char hint[120];
        cdz_generation_suggest(name, NULL, hint, sizeof hint);
        return cdz_err(err, CDZ_E_USAGE, "%s: no such parameter%s", name, hint);
    }
    CDZ_TRY(cdz_generation_from_text((uint32_t)slot, value, &config->arena, &read, err));
    return put(config, cdz_generation_slot_name((uint32_t)slot), &read, err);
}

/* --- updating ------------------------------------------------------------------------------------------------ */

/* Whether update takes a member; a null that is set nowhere changes nothing and is taken all the same. */
static bool takes(const cdz_config *config, const cdz_json_member *member, bool defaults_only)
{
    const bool set = find(config, member->key) < config->n;
    if (set) return !defaults_only;
    return cdz_generation_slot(member->key) >= 0;
}

static cdz_status update(cdz_config *config, const cdz_json *object, bool defaults_only,
                         cdz_buf *unused, cdz_error *err)
{
    bool *taken = cdz_arena_array(&config->arena, object->len + (size_t)1, sizeof *taken);
    if (!taken) return cdz_err_memory(err, "the generation config");
    for (uint32_t i = 0; i < object->len; i++)
        taken[i] = takes(config, &object->members[i], defaults_only);
    cdz_buf_putc(unused, '{');
    const char *comma = "";
    for (uint32_t i = 0; i < object->len; i++) {
        const cdz_json_member *member = &object->members[i];
        if (taken[i]) {
            CDZ_TRY(put(config, member->key, &member->value, err));
            continue;
        }
        cdz_buf_puts(unused, comma);
        cdz_json_write_string(unused, member->key, member->key_len);
        cdz_buf_puts(unused, ": ");
        cdz_json_write(unused, &member->value);
        comma = ", ";
    }
    cdz_buf_putc(unused, '}');
    return unused->failed ? cdz_err_memory(err, "the generation config")
                          : cdz_config_validate(config, false, NULL, err);
}

cdz_status cdz_config_update(cdz_config *config, const char *json, bool defaults_only,
                             char **unused, cdz_error *err)
{
    cdz_json object;
    cdz_buf rest = {0};
    const char *text = cdz_arena_strdup(&config->arena, json);
    if (!text) return cdz_err_memory(err, "the generation config");
    CDZ_TRY(cdz_json_parse(text, strlen(text), "update", NULL, &config->arena, &object, err));
    if (object.type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_INPUT, "update: holds %s, expected an object",
                       cdz_json_type_name(&object));
    cdz_json_member *before = cdz_arena_array(&config->arena, config->n + (size_t)1, sizeof *before);
    if (!before) return cdz_err_memory(err, "the generation config");
    const uint32_t n = config->n;
    if (n) memcpy(before, config->members, n * sizeof *before);
    const cdz_status status = update(config, &object, defaults_only, &rest, err);
    if (status != CDZ_OK) {
        config->n = n;
        if (n) memcpy(config->members, before, n * sizeof *before);
    }
    if (status == CDZ_OK && unused)
        *unused = rest.data;
    else
        cdz_buf_free(&rest);
    return status;
}

/* --- the mode ------------------------------------------------------------------------------------------------- */

cdz_status cdz_config_mode(const cdz_config *config, bool has_assistant, const char **mode,
                           cdz_error *err)
{
    static const char *const names[] = {
        [CDZ_MODE_GREEDY] = "greedy_search",
        [CDZ_MODE_SAMPLE] = "sample",
        [CDZ_MODE_CONTRASTIVE] = "contrastive_search",
        [CDZ_MODE_BEAM] = "beam_search",
        [CDZ_MODE_BEAM_SAMPLE] = "beam_sample",
        [CDZ_MODE_GROUP_BEAM] = "group_beam_search",
        [CDZ_MODE_CONSTRAINED_BEAM] = "constrained_beam_search",
        [CDZ_MODE_ASSISTED] = "assisted_generation",
        [CDZ_MODE_PROMPT_LOOKUP] = "assisted_generation",
        [CDZ_MODE_EARLY_EXIT] = "assisted_generation",
        [CDZ_MODE_DOLA] = "dola_generation",
    };
    cdz_arena arena = {0};
    cdz_resolution res;
    const cdz_status status = cdz_resolve_config(config, &arena, &res, err);
    if (status == CDZ_OK) {
        /* The default is filled in by generate(), not by the config. */
        if (find(config, "top_k") == config->n) res.generation.top_k.set = false;
        *mode = names[cdz_generation_mode(&res, has_assistant)];
    }
    cdz_arena_free(&arena);
    return status;
}

/* --- checking -------------------------------------------------------------------------------------------------- */

static void list_minor(const cdz_resolution *res, cdz_buf *out)
{
    for (uint32_t i = 0; i < res->n_minor; i++)
        cdz_buf_printf(out, "%s%s", i ? ", " : "", res->minor[i]);
}

/* Names of an object that no version of transformers' config knows: kept, and worth a word. */
static void list_unknown(const cdz_config *config, cdz_buf *out)
{
    static const char *const metadata[] = {"_from_model_config", "_commit_hash",
                                           "transformers_version"};
    for (uint32_t i = 0; i < config->n; i++) {
        const char *name = config->members[i].key;
        bool known = cdz_generation_slot(name) >= 0;
        char hint[120];
        for (size_t k = 0; k < sizeof metadata / sizeof metadata[0]; k++)
            known |= strcmp(metadata[k], name) == 0;
        if (known) continue;
        cdz_generation_suggest(name, NULL, hint, sizeof hint);
        cdz_buf_printf(out, "%s: not a generation parameter%s\n", name, hint);
    }
}

cdz_status cdz_config_validate(const cdz_config *config, bool strict, char **report, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_resolution res;
    cdz_buf out = {0}, names = {0};
    cdz_buf_puts(&out, "");
    cdz_status status = cdz_resolve_config(config, &arena, &res, err);
    if (status == CDZ_OK) {
        list_unknown(config, &out);
        list_minor(&res, &names);
        if (res.n_minor) cdz_buf_printf(&out, "%s: set, but would do nothing\n", names.data);
        if (strict && res.n_minor)
            status = cdz_err(err, CDZ_E_USAGE, "%s: set, but would do nothing", names.data);
    }
    if (status == CDZ_OK && (out.failed || names.failed))
        status = cdz_err_memory(err, "the generation config");
    cdz_buf_free(&names);
    cdz_arena_free(&arena);
    if (status == CDZ_OK && report)
        *report = out.data;
    else
        cdz_buf_free(&out);
    return status;
}

/* --- writing --------------------------------------------------------------------------------------------------- */

/* Every parameter with the value generate() would have. */
static void write_all(const cdz_resolution *res, cdz_buf *out)
{
    const cdz_param_table *table = cdz_generation_table();
    for (uint32_t i = 0; i < table->n; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        cdz_buf_printf(out, "%s\n  \"%s\": ", i ? "," : "{", param->name);
        cdz_param_write(param, &res->generation, out);
    }
    for (uint32_t i = table->n; i < cdz_generation_slots(); i++) {
        cdz_buf_printf(out, ",\n  \"%s\": ", cdz_generation_slot_name(i));
        if (res->values[i])
            cdz_json_write(out, res->values[i]);
        else
            cdz_buf_puts(out, "null");
    }
    cdz_buf_puts(out, "\n}\n");
}

static void write_set(const cdz_config *config, cdz_buf *out)
{
    const cdz_json object = {.type = CDZ_JSON_OBJECT, .len = config->n, .members = config->members};
    cdz_generation_write_pretty(&object, 0, out);
    cdz_buf_putc(out, '\n');
}

cdz_status cdz_config_json(const cdz_config *config, bool all, char **json, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_resolution res;
    cdz_buf out = {0};
    cdz_status status = all ? cdz_resolve_config(config, &arena, &res, err) : CDZ_OK;
    if (status == CDZ_OK && all) write_all(&res, &out);
    if (status == CDZ_OK && !all) write_set(config, &out);
    cdz_arena_free(&arena);
    if (status == CDZ_OK && out.failed) status = cdz_err_memory(err, "the generation config");
    if (status == CDZ_OK)
        *json = out.data;
    else
        cdz_buf_free(&out);
    return status;
}

cdz_status cdz_config_save(const cdz_config *config, const char *path, cdz_error *err)
{
    char inside[4096], *json;
    if (is_folder(path)) {
        if (snprintf(inside, sizeof inside, "%s/generation_config.json", path) >= (int)sizeof inside)
            return cdz_err(err, CDZ_E_USAGE, "%s: the path is too long", path);
        path = inside;
    }
    cdz_status status = cdz_config_validate(config, true, NULL, err);
    if (status != CDZ_OK) return cdz_err_prefix(err, "not saved");
    CDZ_TRY(cdz_config_json(config, false, &json, err));
    status = cdz_write_whole(path, json, strlen(json), CDZ_WRITE_SYNC, err);
    cdz_free(json);
    return status;
}
