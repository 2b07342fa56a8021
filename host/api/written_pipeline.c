/* written_pipeline.c - a pipeline that a request document has as an object, its sections being objects.
 *
 * It names what is there: profiles and plugins by their ids, never a file, and says nothing of the machine. From its [pipeline]
 * and the ids of its sections comes a text as of a file; all other values are the request's parameters (cdz_request_kwargs), and
 * so never a part of a text. */
#include <string.h>

#include "api/api.h"
#include "params/settings.h"

static bool is_id(const cdz_json *value)
{
    return cdz_json_is(value, CDZ_JSON_STRING) && strlen(value->string) == value->len &&
           cdz_request_is_id(value->string);
}

static cdz_status no_id(const char *section, const char *key, const cdz_json *value, cdz_error *err)
{
    return cdz_err(err, CDZ_E_USAGE,
                   "request: pipeline.%s.%s must be an id, or a list of them, and no file; found %s",
                   section, key,
                   value->type == CDZ_JSON_STRING ? "another text" : cdz_json_type_name(value));
}

/* `key = a, b` */
static cdz_status put_ids(const char *section, const char *key, const cdz_json *value, cdz_buf *out,
                          cdz_error *err)
{
    const bool list = value->type == CDZ_JSON_ARRAY;
    if (value->type == CDZ_JSON_NULL) return CDZ_OK;
    if (!list && !is_id(value)) return no_id(section, key, value, err);
    cdz_buf_printf(out, "%s = ", key);
    for (uint32_t i = 0; i < (list ? value->len : 1); i++) {
        const cdz_json *one = list ? &value->items[i] : value;
        if (!is_id(one)) return no_id(section, key, one, err);
        cdz_buf_printf(out, "%s%s", i ? ", " : "", one->string);
    }
    cdz_buf_putc(out, '\n');
    return CDZ_OK;
}

static cdz_status put_pipeline(const cdz_json *object, cdz_buf *out, cdz_error *err)
{
    cdz_buf_puts(out, "[pipeline]\n");
    for (uint32_t i = 0; i < object->len; i++) {
        const cdz_json_member *m = &object->members[i];
        if (!cdz_setting_in_file("pipeline", m->key) || strcmp(m->key, "isolation") == 0) {
            const char *near = cdz_setting_near("pipeline", m->key);
            if (near && strcmp(near, m->key) == 0) near = NULL; /* one of files alone */
            return cdz_err(err, CDZ_E_USAGE,
                           "request: pipeline.pipeline has no field \"%.40s\"%s%s%s", m->key,
                           near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
        }
        CDZ_TRY(put_ids("pipeline", m->key, &m->value, out, err));
    }
    return CDZ_OK;
}

static cdz_status put_section(const char *name, const cdz_json *object, cdz_buf *out, cdz_error *err)
{
    const cdz_json *id = cdz_json_get(object, "id");
    if (!cdz_request_is_id(name))
        return cdz_err(err, CDZ_E_USAGE,
                       "request: pipeline: the section \"%.40s\" must be called as a plugin's id, or "
                       "have a name like one, and no file",
                       name);
    if (!id) return CDZ_OK;
    if (!is_id(id)) return no_id(name, "id", id, err);
    cdz_buf_printf(out, "[%s]\nid = %s\n", name, id->string);
    return CDZ_OK;
}

/* What a request has no say in. */
static bool is_closed(const char *section)
{
    return strcmp(section, "model") == 0 || strcmp(section, "models") == 0 ||
           strcmp(section, "names") == 0;
}

static cdz_status put_all(const cdz_json *object, cdz_buf *out, cdz_error *err)
{
    for (uint32_t i = 0; i < object->len; i++) {
        const cdz_json_member *m = &object->members[i];
        if (m->value.type != CDZ_JSON_OBJECT)
            return cdz_err(err, CDZ_E_USAGE, "request: pipeline.%.40s must be an object, found %s",
                           m->key, cdz_json_type_name(&m->value));
        if (is_closed(m->key) || strncmp(m->key, "phase:", 6) == 0)
            return cdz_err(err, CDZ_E_USAGE,
                           "request: pipeline: a request has no section \"%.40s\"; a file has",
                           m->key);
        if (strcmp(m->key, "pipeline") == 0)
            CDZ_TRY(put_pipeline(&m->value, out, err));
        else if (strcmp(m->key, "generation") != 0)
            CDZ_TRY(put_section(m->key, &m->value, out, err));
    }
    return CDZ_OK;
}

cdz_status cdz_pipeline_text(const cdz_json *object, cdz_buf *out, cdz_error *err)
{
    cdz_buf_add(out, "", 0);
    CDZ_TRY(put_all(object, out, err));
    return out->failed ? cdz_err(err, CDZ_E_NOMEM, "request: out of memory for its pipeline")
                       : CDZ_OK;
}

typedef cdz_status make_fn(cdz_runtime *runtime, const cdz_buf *text, cdz_pipeline **out,
                           cdz_error *err);

static cdz_status make(cdz_runtime *runtime, const cdz_buf *text, cdz_pipeline **out, cdz_error *err)
{
    return cdz_pipeline_create_written(runtime->registry, text->data, text->len, out, err);
}

static cdz_status find_or_make(cdz_runtime *runtime, const cdz_buf *text, cdz_pipeline **out,
                               cdz_error *err)
{
    *out = cdz_pipeline_cache_find(&runtime->written, text->data, text->len);
    if (*out) return CDZ_OK;
    CDZ_TRY(make(runtime, text, out, err));
    cdz_pipeline_cache_keep(&runtime->written, text->data, text->len, *out);
    return CDZ_OK;
}

static cdz_status of_object(cdz_runtime *runtime, const cdz_json *object, make_fn *by,
                            cdz_pipeline **out, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_status status = cdz_pipeline_text(object, &text, err);
    if (status == CDZ_OK) status = by(runtime, &text, out, err);
    cdz_buf_free(&text);
    return status;
}

cdz_status cdz_pipeline_of_object(cdz_runtime *runtime, const cdz_json *object, cdz_pipeline **out,
                                  cdz_error *err)
{
    return of_object(runtime, object, find_or_make, out, err);
}

cdz_status cdz_pipeline_of_object_alone(cdz_runtime *runtime, const cdz_json *object,
                                        cdz_pipeline **out, cdz_error *err)
{
    return of_object(runtime, object, make, out, err);
}
