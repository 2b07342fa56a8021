/* request.c - the request document: which fields there are and what they hold. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "params/settings.h"
#include "prepare/prepare.h"

/* What other programs call generation parameters, at the top of their documents. */
static const char *parameter_called(const char *name)
{
    static const char *const others[][2] = {
        {"max_tokens", "max_new_tokens"},
        {"max_completion_tokens", "max_new_tokens"},
        {"n_predict", "max_new_tokens"},
        {"stop", "stop_strings"},
        {"n", "num_return_sequences"},
        {"temp", "temperature"},
        {"repeat_penalty", "repetition_penalty"},
    };
    if (cdz_generation_slot(name) >= 0) return name;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i][0], name) == 0) return others[i][1];
    return NULL;
}

static cdz_status unknown_field(const char *name, cdz_error *err)
{
    const char *parameter = parameter_called(name);
    if (parameter)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: unknown field \"%s\": generation parameters go into \"kwargs\": "
                       "{\"%s\": ...}",
                       name, parameter);
    const char *names[CDZ_MOST_SETTINGS];
    const cdz_setting *row;
    size_t n = 0;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->member) names[n++] = row->name;
    const char *near = cdz_nearest_name(name, names, n);
    return cdz_err(err, CDZ_E_USAGE, "request: unknown field \"%s\"%s%s%s", name,
                   near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* {"model": FOLDER, "tokenizer": FOLDER, "generation_config": {...}}, or null. */
static cdz_status check_assistant(const cdz_json *assistant, cdz_error *err)
{
    static const char *const names[] = {"model", "generation_config", "tokenizer"};
    static const cdz_json_type types[] = {CDZ_JSON_STRING, CDZ_JSON_OBJECT, CDZ_JSON_STRING};
    if (!assistant || assistant->type == CDZ_JSON_NULL) return CDZ_OK;
    if (assistant->type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_USAGE, "request: \"assistant\" must be an object, found %s",
                       cdz_json_type_name(assistant));
    for (uint32_t i = 0; i < assistant->len; i++) {
        const cdz_json_member *m = &assistant->members[i];
        size_t k = 0;
        while (k < 3 && strcmp(names[k], m->key) != 0) k++;
        if (k == 3)
            return cdz_err(err, CDZ_E_USAGE,
                           "request: assistant: unknown field \"%s\"; it has model, "
                           "generation_config and tokenizer",
                           m->key);
        if (m->value.type != types[k] && m->value.type != CDZ_JSON_NULL)
            return cdz_err(err, CDZ_E_USAGE, "request: assistant.%s must be %s, found %s", m->key,
                           k == 1 ? "an object" : "a folder's path", cdz_json_type_name(&m->value));
    }
    const cdz_json *model = cdz_json_get(assistant, "model");
    if (model && model->type == CDZ_JSON_STRING) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE, "request: assistant needs \"model\", the draft's folder");
}

const char *cdz_request_assistant(const cdz_json *document)
{
    const cdz_json *assistant = cdz_json_get(document, "assistant");
    const cdz_json *model = assistant ? cdz_json_get(assistant, "model") : NULL;
    return cdz_json_is(model, CDZ_JSON_STRING) ? model->string : NULL;
}

/* {"section": {"name": value}}, or null. */
static cdz_status check_sections(const cdz_json *sections, cdz_error *err)
{
    if (!sections || sections->type == CDZ_JSON_NULL) return CDZ_OK;
    if (sections->type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_USAGE, "request: \"sections\" must be an object, found %s",
                       cdz_json_type_name(sections));
    for (uint32_t i = 0; i < sections->len; i++)
        if (sections->members[i].value.type != CDZ_JSON_OBJECT)
            return cdz_err(err, CDZ_E_USAGE, "request: sections.%s must be an object, found %s",
                           sections->members[i].key,
                           cdz_json_type_name(&sections->members[i].value));
    return CDZ_OK;
}

bool cdz_request_is_id(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t len = strlen(text);
    return len > 0 && len <= 128 && strspn(text, allowed) == len && text[0] != '.' &&
           !strstr(text, "..") && !cdz_ends_with(text, ".so") && !cdz_ends_with(text, ".lua") &&
           !cdz_ends_with(text, ".ini");
}

/* Parameters as they are collected. */
typedef struct collected {
    cdz_arena *arena;
    cdz_json_member *at; /* room for all there are */
    uint32_t n, n_weak;  /* the first ones give way to those of the same name */
} collected;

static cdz_status put(collected *c, const char *section, const cdz_json_member *m, cdz_error *err)
{
    const char *key = section ? cdz_arena_printf(c->arena, "%s.%s", section, m->key) : m->key;
    if (!key) return cdz_err_memory(err, "the request");
    uint32_t i = 0;
    while (i < c->n_weak && strcmp(c->at[i].key, key) != 0) i++;
    if (i == c->n_weak) i = c->n;
    c->at[i] = (cdz_json_member){.key = key, .key_len = (uint32_t)strlen(key), .value = m->value};
    if (i == c->n) c->n++;
    return CDZ_OK;
}

/* The members of "sections", each as "section.name". */
static cdz_status put_sections(collected *c, const cdz_json *sections, cdz_error *err)
{
    for (uint32_t i = 0; i < sections->len; i++) {
        const cdz_json_member *s = &sections->members[i];
        for (uint32_t k = 0; k < s->value.len; k++)
            CDZ_TRY(put(c, s->key, &s->value.members[k], err));
    }
    return CDZ_OK;
}

/* What a pipeline that is an object says beside what it is made of: [pipeline], and the sections' ids. */
static cdz_status put_written(collected *c, const cdz_json *pipeline, cdz_error *err)
{
    for (uint32_t i = 0; i < pipeline->len; i++) {
        const cdz_json_member *s = &pipeline->members[i];
        const bool bare = strcmp(s->key, "generation") == 0;
        if (strcmp(s->key, "pipeline") == 0 || s->value.type != CDZ_JSON_OBJECT) continue;
        for (uint32_t k = 0; k < s->value.len; k++)
            if (bare || strcmp(s->value.members[k].key, "id") != 0)
                CDZ_TRY(put(c, bare ? NULL : s->key, &s->value.members[k], err));
    }
    return CDZ_OK;
}

static uint32_t count_members(const cdz_json *sections)
{
    uint32_t n = 0;
    for (uint32_t i = 0; cdz_json_is(sections, CDZ_JSON_OBJECT) && i < sections->len; i++)
        if (sections->members[i].value.type == CDZ_JSON_OBJECT) n += sections->members[i].value.len;
    return n;
}

cdz_status cdz_request_kwargs(const cdz_json *document, cdz_arena *arena, const cdz_json **out,
                              cdz_error *err)
{
    const cdz_json *kwargs = document ? cdz_json_get(document, "kwargs") : NULL;
    const cdz_json *sections = document ? cdz_json_get(document, "sections") : NULL;
    const cdz_json *pipeline = document ? cdz_json_get(document, "pipeline") : NULL;
    const bool in_sections = cdz_json_is(sections, CDZ_JSON_OBJECT),
               written = cdz_json_is(pipeline, CDZ_JSON_OBJECT);
    *out = kwargs;
    if (!in_sections && !written) return CDZ_OK;
    const uint32_t own = kwargs ? kwargs->len : 0;
    const size_t n = (size_t)own + count_members(sections) + count_members(pipeline);
    cdz_json *all = cdz_arena_alloc(arena, sizeof *all);
    collected c = {.arena = arena, .at = cdz_arena_array(arena, n + 1, sizeof *c.at)};
    if (!all || !c.at) return cdz_err_memory(err, "the request");
    if (written) CDZ_TRY(put_written(&c, pipeline, err));
    c.n_weak = c.n;
    for (uint32_t i = 0; i < own; i++) CDZ_TRY(put(&c, NULL, &kwargs->members[i], err));
    if (in_sections) CDZ_TRY(put_sections(&c, sections, err));
    *all = (cdz_json){.type = CDZ_JSON_OBJECT, .len = c.n, .members = c.at};
    *out = all;
    return CDZ_OK;
}

cdz_status cdz_request_check(const cdz_json *document, cdz_error *err)
{
    if (!cdz_json_is(document, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_USAGE, "request: expected an object, found %s",
                       cdz_json_type_name(document));
    for (uint32_t i = 0; i < document->len; i++) {
        const cdz_json_member *member = &document->members[i];
        if (!cdz_setting_member(member->key)) return unknown_field(member->key, err);
    }
    const cdz_json *kwargs = cdz_json_get(document, "kwargs");
    if (kwargs && !cdz_json_is(kwargs, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_USAGE, "request: \"kwargs\" must be an object, found %s",
                       cdz_json_type_name(kwargs));
    CDZ_TRY(check_sections(cdz_json_get(document, "sections"), err));
    const cdz_json *pipeline = cdz_json_get(document, "pipeline");
    if (pipeline && pipeline->type != CDZ_JSON_STRING && pipeline->type != CDZ_JSON_OBJECT &&
        pipeline->type != CDZ_JSON_NULL)
        return cdz_err(err, CDZ_E_USAGE,
                       "request: \"pipeline\" must be the path of an ini file or an object of its "
                       "sections, found %s",
                       cdz_json_type_name(pipeline));
    CDZ_TRY(check_assistant(cdz_json_get(document, "assistant"), err));
    const cdz_json *seed = cdz_json_get(document, "seed");
    if (seed && !cdz_json_is(seed, CDZ_JSON_INT))
        return cdz_err(err, CDZ_E_USAGE, "request: \"seed\" must be an integer, found %s",
                       cdz_json_type_name(seed));
    return CDZ_OK;
}

cdz_status cdz_request_read_record(const cdz_json *document, cdz_record_spec *out, cdz_error *err)
{
    *out = (cdz_record_spec){0};
    const cdz_json *record = document ? cdz_json_get(document, "record") : NULL;
    if (!record || record->type == CDZ_JSON_NULL) return CDZ_OK;
    if (!cdz_json_is(record, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_USAGE, "request: \"record\" must be an object, found %s",
                       cdz_json_type_name(record));
    out->present = true;
    for (uint32_t i = 0; i < record->len; i++) {
        const cdz_json_member *member = &record->members[i];
        if (strcmp(member->key, "top") == 0 && member->value.type == CDZ_JSON_INT &&
            member->value.integer >= 0 && member->value.integer <= 1000)
            out->top = (uint32_t)member->value.integer;
        else if (strcmp(member->key, "transition") == 0 && member->value.type == CDZ_JSON_BOOL)
            out->transition |= member->value.boolean;
        else if (strcmp(member->key, "outputs") == 0 && member->value.type == CDZ_JSON_BOOL)
            out->outputs = member->value.boolean;
        else if (strcmp(member->key, "press") == 0 && member->value.type == CDZ_JSON_BOOL)
            out->press = member->value.boolean;
        else if (strcmp(member->key, "normalized") == 0 && member->value.type == CDZ_JSON_BOOL)
            out->transition |= member->value.boolean; /* both ways are written */
        else if (strcmp(member->key, "detect") == 0 && member->value.type == CDZ_JSON_OBJECT)
            out->detect = &member->value;
        else
            return cdz_err(
                err, CDZ_E_UNSUPPORTED,
                "request: record \"%s\" is not supported by this version; known: \"top\" "
                "(an integer from 0 to 1000), \"transition\", \"normalized\", \"press\" (true or false), "
                "\"detect\" (an object)",
                member->key);
    }
    return CDZ_OK;
}
