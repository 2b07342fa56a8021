/* ask_cadenza.c - "cadenza" of a request: a pipeline by its name, a strategy and processors by their ids, and parameters.
 *
 * What a request names is looked up, never opened: no name has a slash, is a file's, or belongs to a loader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "serve/ask.h"

/* Of a request; and of a pipeline that it has itself: sections, values in all of them, and bytes. */
enum { MOST_PROCESSORS = 32, MOST_SECTIONS = 64, MOST_PARAMETERS = 512, MOST_WRITTEN = 64 << 10 };

/* Letters, digits, '-', '_' and single dots: an id or a name, and no file. */
static bool is_id_text(const char *text, size_t len)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char name[129];
    if (len == 0 || len >= sizeof name) return false;
    memcpy(name, text, len);
    name[len] = '\0';
    return strspn(name, allowed) == len && name[0] != '.' && !strstr(name, "..") &&
           !cdz_ends_with(name, ".so") && !cdz_ends_with(name, ".lua") &&
           !cdz_ends_with(name, ".ini");
}

static bool is_id(const cdz_json *value)
{
    return cdz_json_is(value, CDZ_JSON_STRING) && is_id_text(value->string, value->len);
}

static bool no_id(cdz_asking *a, const char *what, const cdz_json *value)
{
    return cdz_serve_fault_set(
        a->fault, 400, "cadenza", NULL, "cadenza.%s must be the %s, found %s", what,
        strcmp(what, "pipeline") == 0 ? "name of a pipeline of this server, or an object of sections"
                                      : "id of a plugin, no file",
        value->type == CDZ_JSON_STRING ? "another text" : cdz_json_type_name(value));
}

/* Every name is one of `known`; `where` and `has` are for the sentence. */
static bool check_names(cdz_asking *a, const cdz_json *object, const char *const *known, size_t n,
                        const char *where, const char *has)
{
    for (uint32_t i = 0; i < object->len; i++) {
        const char *name = object->members[i].key;
        size_t k = 0;
        while (k < n && strcmp(known[k], name) != 0) k++;
        if (k < n) continue;
        const char *near = cdz_nearest_name(name, known, n);
        return cdz_serve_fault_set(
            a->fault, 400, "cadenza", NULL, "%s: unknown field \"%.60s\"%s%s%s; it has %s", where,
            name, near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "", has);
    }
    return true;
}

/* --- kwargs ------------------------------------------------------------------------------------------------------- */

/* Parameters that take data in ways of their own, and what holds scripts and isolated plugins. */
static bool is_closed(const char *name)
{
    static const char *const closed[] = {
        "inputs_embeds",     "past_key_values",      "position_ids",
        "trust_remote_code", "num_return_sequences", "budget_instructions",
        "budget_ms",         "budget_memory",        "deadline_ms",
        "isolation"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (strcmp(closed[i], name) == 0) return true;
    return false;
}

/* Where a text may name a file, or code. */
static bool opens_something(const char *name, const cdz_json *value)
{
    if (value->type != CDZ_JSON_STRING) return false;
    if (strcmp(name, "prefix_allowed_tokens") == 0) return !is_id(value);
    static const char *const texts[] = {"stop_strings", "json_schema", "regex", "grammar", "choice"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i]) == 0) return false;
    return strchr(value->string, '/') || cdz_ends_with(value->string, ".so") ||
           cdz_ends_with(value->string, ".lua") || strncmp(value->string, "lua:", 4) == 0;
}

static bool opens_any(const char *name, const cdz_json *value)
{
    bool opens = opens_something(name, value);
    for (uint32_t i = 0; value->type == CDZ_JSON_ARRAY && i < value->len; i++)
        opens |= opens_any(name, &value->items[i]);
    return opens;
}

/* "section.name": the section by its name or by its plugin's id, no file; its values, no files either. where: the field
 * that says it. */
static bool may_be_set(cdz_asking *a, const char *where, const cdz_json_member *m)
{
    const char *dot = strrchr(m->key, '.'), *name = dot ? dot + 1 : m->key;
    if (is_closed(name))
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "%s.%.64s cannot be set by a request of this server", where,
                                   m->key);
    if (dot && !is_id_text(m->key, (size_t)(dot - m->key)))
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "%s: \"section.%.64s\": the section must be the id "
                                   "of a plugin or a section's name, no file",
                                   where, name);
    if (dot ? opens_any(name, &m->value) : opens_something(name, &m->value))
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "%s.%.64s: a request may name ids, no files", where, m->key);
    return true;
}

static bool take_kwargs(cdz_asking *a, const cdz_json *kwargs)
{
    if (!kwargs) return true;
    if (kwargs->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.kwargs must be an object, found %s",
                                   cdz_json_type_name(kwargs));
    for (uint32_t i = 0; i < kwargs->len; i++) {
        const cdz_json_member *m = &kwargs->members[i];
        cdz_buf text = {0};
        if (!may_be_set(a, "cadenza.kwargs", m)) return false;
        cdz_json_write(&text, &m->value);
        const bool good = !text.failed && cdz_ask_set(a, m->key, text.data);
        cdz_buf_free(&text);
        if (!good) return false;
    }
    return true;
}

/* --- processors --------------------------------------------------------------------------------------------------- */

/* What the pipeline of this request alone is made of. */
typedef struct made {
    cdz_buf list; /* of processors */
    const cdz_json *names[MOST_PROCESSORS], *params[MOST_PROCESSORS];
    uint32_t n;
} made;

static bool take_processor(cdz_asking *a, const cdz_json *item, made *m)
{
    static const char *const known[] = {"name", "params"};
    const cdz_json *name = cdz_json_get(item, "name");
    const cdz_json *params = cdz_ask_field(item, "params");
    if (item->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "an entry of cadenza.processors must be {\"name\", \"params\"}");
    if (!check_names(a, item, known, 2, "cadenza.processors", "name and params")) return false;
    if (!is_id(name)) return no_id(a, "processors", name ? name : item);
    if (params && params->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.processors: params must be an object");
    if (m->n == MOST_PROCESSORS)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL, "more than %d processors",
                                   MOST_PROCESSORS);
    m->names[m->n] = name;
    m->params[m->n++] = params;
    cdz_buf_printf(&m->list, "%s%s", m->list.len ? ", " : "", name->string);
    return true;
}

static bool take_processors(cdz_asking *a, const cdz_json *list, made *m)
{
    if (!list) return true;
    if (list->type != CDZ_JSON_ARRAY)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.processors must be a list, found %s",
                                   cdz_json_type_name(list));
    for (uint32_t i = 0; i < list->len; i++)
        if (!take_processor(a, &list->items[i], m)) return false;
    return true;
}

static bool set_param(cdz_asking *a, const char *section, const char *name, const cdz_json *value)
{
    char key[256];
    cdz_buf text = {0};
    cdz_error err = {0};
    snprintf(key, sizeof key, "%s.%s", section, name);
    if (is_closed(name))
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.processors: %.64s.%.64s cannot be set by a request of "
                                   "this server",
                                   section, name);
    if (opens_any(name, value))
        return cdz_serve_fault_set(
            a->fault, 400, "cadenza", NULL,
            "cadenza.processors: %.64s.%.64s: a request may name ids, no files", section, name);
    if (value->type == CDZ_JSON_STRING)
        cdz_buf_add(&text, value->string, value->len);
    else if (value->type == CDZ_JSON_NULL)
        cdz_buf_puts(&text, "none");
    else
        cdz_json_write(&text, value);
    const bool good =
        text.data && !text.failed && cdz_pipeline_set(a->pipeline, key, text.data, &err) == CDZ_OK;
    cdz_buf_free(&text);
    return good || cdz_serve_fault_of(a->fault, "cadenza", &err);
}

static bool set_params(cdz_asking *a, const made *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0; m->params[i] && k < m->params[i]->len; k++) {
            const cdz_json_member *p = &m->params[i]->members[k];
            if (!set_param(a, m->names[i]->string, p->key, &p->value)) return false;
        }
    return true;
}

/* --- the pipeline ------------------------------------------------------------------------------------------------------ */

/* A value of a section of the request's own pipeline: what may be said of it is what "kwargs" may say. */
static bool may_be_written(cdz_asking *a, const char *section, const cdz_json_member *m)
{
    char key[300];
    if (strcmp(m->key, "id") == 0) return true; /* the reader of documents wants an id */
    if (strchr(m->key, '.'))
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.pipeline.%.64s: \"%.64s\" is no name of a parameter",
                                   section, m->key);
    snprintf(key, sizeof key, "%.128s.%.128s", section, m->key);
    const bool bare = strcmp(section, "generation") == 0;
    const cdz_json_member as = {.key = bare ? m->key : key, .value = m->value};
    return may_be_set(a, "cadenza.pipeline", &as);
}

static bool check_section(cdz_asking *a, const cdz_json_member *section, uint32_t *n)
{
    const cdz_json *object = &section->value;
    if (object->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.pipeline.%.64s must be an object, found %s",
                                   section->key, cdz_json_type_name(object));
    if (strcmp(section->key, "pipeline") == 0 && cdz_ask_field(object, "observers"))
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.pipeline.pipeline.observers: who watches requests is "
                                   "said in files of this server alone");
    *n += object->len;
    for (uint32_t i = 0; strcmp(section->key, "pipeline") != 0 && i < object->len; i++)
        if (!may_be_written(a, section->key, &object->members[i])) return false;
    return true;
}

static bool check_size(cdz_asking *a, const cdz_json *object)
{
    cdz_buf text = {0};
    cdz_json_write(&text, object);
    const bool failed = text.failed, fits = text.len <= MOST_WRITTEN;
    cdz_buf_free(&text);
    if (failed) return cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory");
    return fits || cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                       "cadenza.pipeline is longer than %d bytes", MOST_WRITTEN);
}

/* A pipeline of the request's own: ids, by the rules of request documents, and parameters, by those of "kwargs". */
static bool take_written(cdz_asking *a, const cdz_json *object)
{
    uint32_t n = 0;
    if (object->len > MOST_SECTIONS)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.pipeline has more than %d sections", MOST_SECTIONS);
    if (!check_size(a, object)) return false;
    for (uint32_t i = 0; i < object->len; i++)
        if (!check_section(a, &object->members[i], &n)) return false;
    if (n > MOST_PARAMETERS)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.pipeline says more than %d values", MOST_PARAMETERS);
    a->written = object;
    a->named_pipeline = true;
    a->pipeline_name = "inline";
    return true;
}

/* What the object says itself. */
static bool goes_with_written(cdz_asking *a, const cdz_json *object)
{
    static const char *const names[] = {"strategy", "processors"};
    for (size_t i = 0; a->written && i < sizeof names / sizeof *names; i++)
        if (cdz_ask_field(object, names[i]))
            return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                       "cadenza.%s does not go with an object in cadenza.pipeline: "
                                       "its [pipeline] says %s",
                                       names[i], names[i]);
    return true;
}

static bool take_pipeline(cdz_asking *a, const cdz_json *name, const char **file)
{
    *file = NULL;
    if (!name) return true;
    if (name->type == CDZ_JSON_OBJECT) return take_written(a, name);
    if (!is_id(name)) return no_id(a, "pipeline", name);
    a->named_pipeline = true;
    if (a->world->pipeline && a->world->pipeline(a->world->user, name->string, &a->pipeline, file)) {
        a->pipeline_name = name->string;
        return true;
    }
    return cdz_serve_fault_set(a->fault, 400, "cadenza", "pipeline_not_found",
                               "there is no pipeline '%.80s' here; /v1/pipelines lists them",
                               name->string);
}

/* A pipeline of the request's own, over the one that it names. */
static bool make_pipeline(cdz_asking *a, const char *file, const made *m)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    if (!a->strategy && !m->list.len) return true;
    cdz_buf_printf(&text, "[pipeline]\nuse = %s\n", file ? file : "hf");
    if (a->strategy) cdz_buf_printf(&text, "strategy = %s\n", a->strategy);
    if (m->list.len) cdz_buf_printf(&text, "processors = %s\n", m->list.data);
    cdz_pipeline *own = NULL;
    const cdz_status status = text.failed ? cdz_err(&err, CDZ_E_NOMEM, "out of memory")
                                          : cdz_pipeline_parse(a->world->runtime, text.data,
                                                               text.len, "cadenza", &own, &err);
    cdz_buf_free(&text);
    if (status != CDZ_OK) return cdz_serve_fault_of(a->fault, "cadenza", &err);
    a->pipeline = own;
    a->own_pipeline = true;
    return set_params(a, m) && cdz_ask_set_own(a, &a->own);
}

static bool take_all(cdz_asking *a, const cdz_json *object, made *m)
{
    static const char *const known[] = {"pipeline", "strategy", "kwargs", "processors"};
    const char *file = NULL;
    const cdz_json *strategy = cdz_ask_field(object, "strategy");
    if (!check_names(a, object, known, 4, "cadenza", "pipeline, strategy, kwargs and processors") ||
        !take_pipeline(a, cdz_ask_field(object, "pipeline"), &file) || !goes_with_written(a, object))
        return false;
    if (strategy && !is_id(strategy)) return no_id(a, "strategy", strategy);
    a->strategy = strategy ? strategy->string : NULL;
    return take_kwargs(a, cdz_ask_field(object, "kwargs")) &&
           take_processors(a, cdz_ask_field(object, "processors"), m) &&
           cdz_ask_samplers(a, &a->own) && cdz_ask_allowed(a, &a->own) && make_pipeline(a, file, m);
}

bool cdz_ask_cadenza(cdz_asking *a)
{
    static const cdz_json nothing = {.type = CDZ_JSON_OBJECT};
    const cdz_json *object = cdz_ask_field(&a->body, "cadenza");
    made m = {0};
    a->own.list = &m.list;
    if (object && object->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "'cadenza' must be an object, found %s",
                                   cdz_json_type_name(object));
    const bool good = take_all(a, object ? object : &nothing, &m);
    cdz_buf_free(&m.list);
    a->own.list = NULL;
    return good;
}
