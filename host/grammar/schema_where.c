/* schema_where.c - where a $ref leads: JSON pointers, anchors, and schemas with an $id of their own. The document is walked
 * once, when the first reference needs it. */
#include <string.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "grammar/grow.h"
#include "grammar/schema.h"

/* --- the walk ------------------------------------------------------------------------------------------ */

typedef struct where_open {
    const cdz_json *at;
    uint32_t resource;
    bool names;  /* its members are schemas by a name, not keywords */
    bool hidden; /* below what is no keyword, where schemas have no names */
} where_open;

typedef struct where_walk {
    cdz_schema *s;
    where_open *open;
    uint32_t n_open, cap;
} where_walk;

/* What a reference means, read at a base. NULL: out of memory. */
static const char *absolute(const cdz_schema *s, const char *base, const char *ref, size_t len)
{
    const size_t scheme =
        strspn(ref, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    const char *path = strstr(base, "://");
    size_t keep = 0;
    if (!len) return base;
    if (scheme < len && ref[scheme] == ':' && scheme) return cdz_arena_strndup(s->arena, ref, len);
    path = path ? strchr(path + 3, '/') : NULL;
    if (*ref == '/')
        keep = path ? (size_t)(path - base) : 0;
    else if (strrchr(base, '/'))
        keep = (size_t)(strrchr(base, '/') - base) + 1;
    return cdz_arena_printf(s->arena, "%.*s%.*s", (int)keep, base, (int)len, ref);
}

/* --- tables ----------------------------------------------------------------------------------------------- */

static uint32_t bytes_hash(const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ at[i]) * 16777619u;
    return h ^ h >> 15;
}

static uint32_t text_hash(const char *text)
{
    return bytes_hash(text, strlen(text));
}

static uint32_t resource_hash(const void *of, uint32_t number)
{
    return text_hash(((const cdz_schema_where *)of)->resources[number - 1].uri);
}

static uint32_t anchor_hash(const void *of, uint32_t number)
{
    return text_hash(((const cdz_schema_where *)of)->anchors[number - 1].name);
}

static uint32_t ref_hash(const void *of, uint32_t number)
{
    const cdz_json *ref = ((const cdz_schema_where *)of)->refs[number - 1].ref;
    return bytes_hash(&ref, sizeof(const cdz_json *));
}

/* An item, the n-th, finds its place: behind those of its hash. */
static void put_item(cdz_item_table *t, uint32_t hash, uint32_t n)
{
    uint32_t at = hash & (t->size - 1);
    while (t->at[at]) at = (at + 1) & (t->size - 1);
    t->at[at] = n;
}

/* The resource of a uri, the first one, + 1; 0: there is none. */
static uint32_t find_resource(const cdz_schema_where *w, const char *uri)
{
    const cdz_item_table *t = &w->resource_table;
    uint32_t at = text_hash(uri) & (t->size - 1);
    while (t->at[at] && strcmp(w->resources[t->at[at] - 1].uri, uri) != 0)
        at = (at + 1) & (t->size - 1);
    return t->at[at];
}

/* --- names ------------------------------------------------------------------------------------------------ */

static cdz_status add_anchor(cdz_schema *s, uint32_t resource, const char *name, bool dynamic,
                             const cdz_json *schema)
{
    cdz_schema_where *w = &s->where;
    if (!cdz_item_table_room(&w->anchor_table, w->n_anchors, anchor_hash, w) ||
        !cdz_grow(&w->anchors, &w->anchors_cap, (size_t)w->n_anchors + 1, sizeof *w->anchors))
        return cdz_schema_no_memory(s);
    w->anchors[w->n_anchors++] = (cdz_schema_anchor){name, schema, resource, dynamic};
    put_item(&w->anchor_table, text_hash(name), w->n_anchors);
    return CDZ_OK;
}

static cdz_status add_resource(cdz_schema *s, const cdz_json *schema, const char *base,
                               const cdz_json *id, uint32_t *resource)
{
    cdz_schema_where *w = &s->where;
    const char *uri = base;
    if (id) uri = absolute(s, base, id->string, strcspn(id->string, "#"));
    if (!uri || !cdz_item_table_room(&w->resource_table, w->n_resources, resource_hash, w) ||
        !cdz_grow(&w->resources, &w->resources_cap, (size_t)w->n_resources + 1,
                  sizeof *w->resources))
        return cdz_schema_no_memory(s);
    *resource = w->n_resources;
    w->resources[w->n_resources++] = (cdz_schema_resource){uri, schema};
    put_item(&w->resource_table, text_hash(uri), w->n_resources);
    return CDZ_OK;
}

static cdz_status add_ref(cdz_schema *s, const cdz_json *ref, uint32_t resource)
{
    cdz_schema_where *w = &s->where;
    if (!resource) return CDZ_OK; /* those of the document itself need no note */
    if (!cdz_item_table_room(&w->ref_table, w->n_refs, ref_hash, w) ||
        !cdz_grow(&w->refs, &w->refs_cap, (size_t)w->n_refs + 1, sizeof *w->refs))
        return cdz_schema_no_memory(s);
    w->refs[w->n_refs++] = (cdz_schema_ref){ref, resource};
    put_item(&w->ref_table, ref_hash(w, w->n_refs), w->n_refs);
    return CDZ_OK;
}

static cdz_status push(where_walk *w, const cdz_json *at, const where_open *from, bool names,
                       bool hidden)
{
    if (at->type != CDZ_JSON_OBJECT && at->type != CDZ_JSON_ARRAY) return CDZ_OK;
    if (!cdz_grow(&w->open, &w->cap, (size_t)w->n_open + 1, sizeof *w->open))
        return cdz_schema_no_memory(w->s);
    w->open[w->n_open++] = (where_open){at, from->resource, names, hidden};
    return CDZ_OK;
}

/* A schema's own names: $id, anchors. */
static cdz_status note_names(where_walk *w, const cdz_json *at, uint32_t *resource)
{
    cdz_schema *s = w->s;
    const cdz_json *id = cdz_json_get(at, s->id);
    const bool alone = cdz_json_get(at, "$ref") && !s->siblings_of_ref;
    if (cdz_json_is(id, CDZ_JSON_STRING) && !alone) {
        if (*id->string == '#')
            CDZ_TRY(add_anchor(s, *resource, id->string + 1, false, at));
        else if (at != s->root)
            CDZ_TRY(add_resource(s, at, s->where.resources[*resource].uri, id, resource));
    }
    const cdz_json *anchor = cdz_json_get(at, "$anchor"),
                   *dynamic = cdz_json_get(at, "$dynamicAnchor");
    if (cdz_json_is(anchor, CDZ_JSON_STRING))
        CDZ_TRY(add_anchor(s, *resource, anchor->string, false, at));
    return cdz_json_is(dynamic, CDZ_JSON_STRING)
               ? add_anchor(s, *resource, dynamic->string, true, at)
               : CDZ_OK;
}

static cdz_status note_refs(where_walk *w, const cdz_json *at, uint32_t resource)
{
    static const char *const names[] = {"$ref", "$recursiveRef", "$dynamicRef"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cdz_json *ref = cdz_json_get(at, names[i]);
        if (ref) CDZ_TRY(add_ref(w->s, ref, resource));
    }
    return CDZ_OK;
}

static cdz_status step(where_walk *w, where_open o)
{
    static const char *const values[] = {"enum", "const", "default", "examples", NULL};
    static const char *const named[] = {
        "properties",   "patternProperties", "$defs", "definitions", "dependentSchemas",
        "dependencies", "dependentRequired", NULL};
    static const char *const schemas[] = {"allOf",
                                          "anyOf",
                                          "oneOf",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "items",
                                          "prefixItems",
                                          "contains",
                                          "additionalItems",
                                          "unevaluatedItems",
                                          "propertyNames",
                                          "additionalProperties",
                                          "unevaluatedProperties",
                                          "contentSchema",
                                          "extends",
                                          NULL};
    if (o.at->type == CDZ_JSON_ARRAY) {
        for (uint32_t i = 0; i < o.at->len; i++)
            CDZ_TRY(push(w, &o.at->items[i], &o, false, o.hidden));
        return CDZ_OK;
    }
    if (!o.names && !o.hidden) CDZ_TRY(note_names(w, o.at, &o.resource));
    if (!o.names) CDZ_TRY(note_refs(w, o.at, o.resource));
    for (uint32_t i = 0; i < o.at->len; i++) {
        const cdz_json_member *m = &o.at->members[i];
        const bool by_name = !o.names && cdz_is_one_of(m->key, named);
        if (!o.names && cdz_is_one_of(m->key, values)) continue;
        const bool known = o.names || by_name || cdz_is_one_of(m->key, schemas);
        CDZ_TRY(push(w, &m->value, &o, by_name, o.hidden || !known));
    }
    return CDZ_OK;
}

static cdz_status walk(cdz_schema *s)
{
    where_walk w = {.s = s};
    uint32_t resource;
    if (s->where.n_resources) return CDZ_OK;
    const cdz_json *id = cdz_json_get(s->root, s->id);
    cdz_status st =
        add_resource(s, s->root, "", cdz_json_is(id, CDZ_JSON_STRING) ? id : NULL, &resource);
    const where_open document = {0};
    if (st == CDZ_OK) st = push(&w, s->root, &document, false, false);
    while (st == CDZ_OK && w.n_open) {
        st = cdz_schema_in_time(s);
        if (st == CDZ_OK) st = step(&w, w.open[--w.n_open]);
    }
    free(w.open);
    return st;
}

void cdz_schema_where_free(cdz_schema_where *w)
{
    free(w->resources);
    free(w->anchors);
    free(w->refs);
    free(w->resource_table.at);
    free(w->anchor_table.at);
    free(w->ref_table.at);
}

/* --- pointers -------------------------------------------------------------------------------------------- */

/* One step of a JSON pointer, without its escapes, into name; returns what follows. */
static const char *pointer_step(const char *at, char *name, size_t size)
{
    size_t n = 0;
    for (; *at && *at != '/'; at++) {
        char c = *at;
        if (c == '%' && cdz_hex_digit(at[1]) >= 0 && cdz_hex_digit(at[2]) >= 0) {
            c = (char)(cdz_hex_digit(at[1]) * 16 + cdz_hex_digit(at[2]));
            at += 2;
        }
        if (c == '~' && (at[1] == '0' || at[1] == '1')) {
            c = at[1] == '0' ? '~' : '/';
            at++;
        }
        if (n + 1 < size) name[n++] = c;
    }
    name[n] = '\0';
    return at;
}

static const cdz_json *pointed(const cdz_json *at, const char *pointer)
{
    char name[1024], *end;
    while (at && *pointer == '/') {
        pointer = pointer_step(pointer + 1, name, sizeof name);
        if (at->type == CDZ_JSON_ARRAY) {
            const unsigned long i = strtoul(name, &end, 10);
            at = *name && !*end && i < at->len ? &at->items[i] : NULL;
        } else {
            at = cdz_json_get(at, name);
        }
    }
    return *pointer ? NULL : at;
}

/* --- a reference -------------------------------------------------------------------------------------------- */

/* Where a dynamic reference leads is certain where its anchor is not dynamic, or one schema alone has the name. */
static cdz_status anchored(const cdz_schema *s, const cdz_json *ref, const char *keyword,
                           const char *name, uint32_t resource, const cdz_json **out)
{
    const cdz_schema_where *w = &s->where;
    uint32_t n_dynamic = 0;
    bool dynamic = false;
    *out = NULL;
    const cdz_item_table *t = &w->anchor_table;
    for (uint32_t at = text_hash(name), i; t->size && (i = t->at[at & (t->size - 1)]) != 0; at++) {
        const cdz_schema_anchor *anchor = &w->anchors[i - 1];
        if (strcmp(anchor->name, name) != 0) continue;
        n_dynamic += anchor->dynamic;
        if (anchor->resource != resource) continue;
        *out = anchor->schema;
        dynamic |= anchor->dynamic;
    }
    if (dynamic && n_dynamic > 1 && strcmp(keyword, "$ref") != 0)
        return cdz_schema_refuse(s, ref, keyword, "several schemas have this $dynamicAnchor");
    return CDZ_OK;
}

static bool recurses(const cdz_json *schema)
{
    const cdz_json *v = cdz_json_get(schema, "$recursiveAnchor");
    return cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean;
}

/* Where $recursiveRef leads is certain where the resource that it stands in has no $recursiveAnchor, or is alone in that. */
static cdz_status check_recursion(const cdz_schema *s, const cdz_json *ref, uint32_t resource)
{
    const cdz_schema_where *w = &s->where;
    if (strcmp(ref->string, "#") != 0)
        return cdz_schema_wrong(s, ref, "$recursiveRef", "expected \"#\"");
    for (uint32_t i = 0; recurses(w->resources[resource].schema) && i < w->n_resources; i++)
        if (i != resource && recurses(w->resources[i].schema))
            return cdz_schema_refuse(s, ref, "$recursiveRef",
                                     "several schemas have $recursiveAnchor");
    return CDZ_OK;
}

static uint32_t resource_of(const cdz_schema *s, const cdz_json *ref)
{
    const cdz_item_table *t = &s->where.ref_table;
    uint32_t at = bytes_hash(&ref, sizeof ref);
    for (uint32_t i; t->size && (i = t->at[at & (t->size - 1)]) != 0; at++)
        if (s->where.refs[i - 1].ref == ref) return s->where.refs[i - 1].resource;
    return 0;
}

cdz_status cdz_schema_resolve(cdz_schema *s, const cdz_json *ref, const char *keyword,
                              const cdz_json **out)
{
    if (ref->type != CDZ_JSON_STRING) return cdz_schema_wrong(s, ref, keyword, "expected a text");
    CDZ_TRY(walk(s));
    CDZ_TRY(cdz_schema_in_time(s));
    const char *text = ref->string;
    const size_t n = strcspn(text, "#");
    uint32_t resource = resource_of(s, ref);
    if (n) {
        const char *uri = absolute(s, s->where.resources[resource].uri, text, n);
        if (!uri) return cdz_schema_no_memory(s);
        const uint32_t found = find_resource(&s->where, uri);
        if (!found) return cdz_schema_refuse(s, ref, keyword, "it leads out of the document");
        resource = found - 1;
    }
    if (strcmp(keyword, "$recursiveRef") == 0) CDZ_TRY(check_recursion(s, ref, resource));
    const char *fragment = text[n] ? text + n + 1 : "";
    if (*fragment && *fragment != '/')
        CDZ_TRY(anchored(s, ref, keyword, fragment, resource, out));
    else
        *out = pointed(s->where.resources[resource].schema, fragment);
    if (*out) return CDZ_OK;
    return cdz_err(s->err, CDZ_E_INPUT, "schema:%u:%u: %s: nothing is at '%s'", ref->line,
                   ref->column, keyword, ref->string);
}
