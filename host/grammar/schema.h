/* schema.h - JSON Schema as a network. Inside grammar/ only.
 *
 * A place in a schema is a list of schemas that must all hold: $ref and allOf only make the list longer. Each list has one
 * rule, made when it is first met and given its body later, off a queue: so recursion in a schema is a rule that calls
 * itself, and nothing here recurses by a schema's depth. */
#ifndef CDZ_HOST_GRAMMAR_SCHEMA_H
#define CDZ_HOST_GRAMMAR_SCHEMA_H

#include "base/json.h"
#include "grammar/net.h"

enum {
    CDZ_SCHEMA_MAX_DEPTH = 256,    /* of the document, as JSON */
    CDZ_SCHEMA_MAX_LISTS = 200000, /* places */
    CDZ_SCHEMA_MAX_LIST = 2000,    /* schemas that hold at one place */
    CDZ_SCHEMA_MAX_PATTERNS = 5,   /* patternProperties at one place */
    CDZ_SCHEMA_MAX_MULTIPLE = 5000,
    CDZ_SCHEMA_MAX_DIGITS = 60, /* of a bound */
};

typedef enum cdz_schema_type {
    CDZ_TYPE_NULL = 1,
    CDZ_TYPE_BOOLEAN = 2,
    CDZ_TYPE_INTEGER = 4,
    CDZ_TYPE_FRACTION = 8, /* numbers that are no integers */
    CDZ_TYPE_STRING = 16,
    CDZ_TYPE_ARRAY = 32,
    CDZ_TYPE_OBJECT = 64,
    CDZ_TYPE_ALL = 127,
} cdz_schema_type;

typedef struct cdz_schema_entry {
    const cdz_json *schema; /* an object */
    uint32_t chosen;        /* CDZ_CHOSEN_*: alternatives that the list holds already */
} cdz_schema_entry;

enum { CDZ_CHOSEN_ANY = 1, CDZ_CHOSEN_ONE = 2, CDZ_CHOSEN_VALUE = 4 };

/* Zeroed: nothing is asked of a value. */
typedef struct cdz_schema_list {
    cdz_schema_entry *at;
    uint32_t n, cap;
    bool never; /* nothing satisfies it */
} cdz_schema_list;

typedef struct cdz_schema_place {
    cdz_schema_list list;
    uint32_t rule;
} cdz_schema_place;

typedef struct cdz_schema {
    cdz_net *net;
    const cdz_json *root;
    bool siblings_of_ref; /* false: drafts up to 7, where $ref stands alone */
    bool compact;         /* no whitespace between tokens */
    cdz_schema_place *places;
    uint32_t n_places, places_cap, done, *table, table_size;
    uint32_t string_rule; /* + 1; any string */
    cdz_error *err;
} cdz_schema;

typedef struct cdz_text_ref {
    const char *text;
    uint32_t len;
} cdz_text_ref;

/* A schema, as text, becomes a rule of a network. */
cdz_status cdz_schema_part(cdz_net *net, const char *text, size_t len, uint32_t *rule,
                           cdz_error *err);

cdz_status cdz_schema_no_memory(const cdz_schema *s);
/* A sentence that names a keyword and where it stands: by line and column. */
cdz_status cdz_schema_wrong(const cdz_schema *s, const cdz_json *at, const char *keyword,
                            const char *text);
cdz_status cdz_schema_refuse(const cdz_schema *s, const cdz_json *at, const char *keyword,
                             const char *text);

/* Adds a schema and all that it leads to by $ref and allOf. */
cdz_status cdz_schema_add(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema);
void cdz_schema_list_free(cdz_schema_list *list);
/* The rule of a place; the list is taken over. */
cdz_status cdz_schema_rule(cdz_schema *s, cdz_schema_list *list, uint32_t *rule);
cdz_status cdz_schema_types(const cdz_schema *s, const cdz_schema_list *list, uint32_t *types);
/* A keyword's count, or fallback; whole numbers only. */
cdz_status cdz_schema_count(const cdz_schema *s, const cdz_json *schema, const char *keyword,
                            uint32_t *out, bool *found);

/* Whitespace between tokens, from a node on; returns where it ends. */
uint32_t cdz_schema_blank(cdz_schema *s, uint32_t from);
uint32_t cdz_schema_byte(cdz_schema *s, uint32_t from, char byte);

/* One file each: the values of a type from one node to another. */
cdz_status cdz_schema_numbers(cdz_schema *s, const cdz_schema_list *list, bool fractions,
                              uint32_t from, uint32_t to);
cdz_status cdz_schema_strings(cdz_schema *s, const cdz_schema_list *list, uint32_t from,
                              uint32_t to);
cdz_status cdz_schema_arrays(cdz_schema *s, const cdz_schema_list *list, uint32_t from, uint32_t to);
cdz_status cdz_schema_objects(cdz_schema *s, const cdz_schema_list *list, uint32_t from,
                              uint32_t to);

/* schema_string.c: strings of a list, or all but those: the inside of a JSON string. names is sorted. */
cdz_status cdz_schema_names(cdz_schema *s, cdz_text_ref *names, uint32_t n, bool but, uint32_t from,
                            uint32_t to);
/* The pattern as an automaton over the characters of a string. */
cdz_status cdz_schema_pattern(const cdz_schema *s, const cdz_json *pattern, cdz_chars *out);
/* schema_formats.c: NULL: no format of this name is known. */
const char *cdz_schema_format(const char *name);

/* schema_value.c */
cdz_status cdz_schema_literal(cdz_schema *s, const cdz_json *value, uint32_t from, uint32_t to);
/* Whether a value satisfies a list, told of all keywords that are not refused. */
cdz_status cdz_schema_valid(cdz_schema *s, const cdz_schema_list *list, const cdz_json *value,
                            uint32_t depth, bool *valid);
/* schema_apart.c: whether no value satisfies both lists; true only where that is certain. */
cdz_status cdz_schema_apart(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                            bool *apart);

#endif
