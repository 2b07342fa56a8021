/* schema.h - JSON Schema as a network. Inside grammar/ only.
 *
 * A place in a schema is a list of schemas that must all hold: $ref and allOf only make the list longer. Each list has one
 * rule, made when it is first met and given its body later, off a queue: so recursion in a schema is a rule that calls
 * itself, and nothing here recurses by a schema's depth. */
#ifndef CDZ_HOST_GRAMMAR_SCHEMA_H
#define CDZ_HOST_GRAMMAR_SCHEMA_H

#include "base/arena.h"
#include "base/json.h"
#include "grammar/grow.h"
#include "grammar/net.h"

enum {
    CDZ_SCHEMA_MAX_DEPTH = 256,    /* of the document, as JSON */
    CDZ_SCHEMA_MAX_LISTS = 200000, /* places */
    CDZ_SCHEMA_MAX_LIST = 2000,    /* schemas that hold at one place */
    CDZ_SCHEMA_FEW_STATES = 3000,  /* of a pattern with lengths: so many are made */
    CDZ_SCHEMA_MAX_PATTERNS = 5,   /* patternProperties at one place */
    CDZ_SCHEMA_MAX_MULTIPLE = 5000,
    CDZ_SCHEMA_MAX_OVERLAPS = 200,      /* pairs of a oneOf */
    CDZ_SCHEMA_MAX_HOPS = 8,            /* from reference to reference */
    CDZ_SCHEMA_MAX_WANTED = 3,          /* contains at one place */
    CDZ_SCHEMA_MAX_DENIED_PLACES = 200, /* of an array: what is denied repeats those before */
    CDZ_SCHEMA_MAX_DENIED_ONE = 8,      /* alternatives of a oneOf that is denied */
    CDZ_SCHEMA_MAX_UNION = 5,   /* alternatives that may hold together, below unevaluated* */
    CDZ_SCHEMA_MAX_MADE = 1024, /* alternatives of a place that not, if and dependents multiply to */
    CDZ_SCHEMA_FEW_MADE = 6,    /* so many of those keywords may make more */
    CDZ_SCHEMA_MAX_GRID = 50000, /* places of a counted object or array */
    CDZ_SCHEMA_MAX_DIGITS = 60,  /* of a bound */
    CDZ_SCHEMA_MAX_UNIQUE = 12,  /* values of items that must differ: each set of them is a place */
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
    uint32_t parent;        /* entry that it came from, + 1; 0: none */
    uint32_t via; /* by which member of that entry's schema; CDZ_VIA_LAST: by none that has a place */
    bool silent; /* made by a `not`: what it names, it says nothing about */
    bool shared; /* came from another entry too */
} cdz_schema_entry;

#define CDZ_VIA_LAST UINT32_MAX

enum {
    CDZ_CHOSEN_ANY = 1,
    CDZ_CHOSEN_ONE = 2,
    CDZ_CHOSEN_VALUE = 4,
    CDZ_CHOSEN_MADE = 8, /* nothing is: the schema was made of a keyword */
};

/* Zeroed: nothing is asked of a value. */
typedef struct cdz_schema_list {
    cdz_schema_entry *at;
    uint32_t n, cap;
    bool never;           /* nothing satisfies it */
    uint32_t parent, via; /* of entries that are pushed now */
    bool silent;          /* so are they */
} cdz_schema_list;

typedef struct cdz_schema_place {
    cdz_schema_list list;
    uint32_t rule;
    /* of an alternative: after how many choices, and of how many schemas that were made, at which place */
    uint32_t depth, n_made, origin;
    uint32_t deepest, n_deepest; /* alternatives of this place after most choices */
} cdz_schema_place;

/* A schema that was made of a keyword. */
typedef struct cdz_schema_made {
    const void *from;
    uint32_t kind;
    const char *keyword;
    const cdz_json *schema;
} cdz_schema_made;

typedef struct cdz_schema_resource {
    const char *uri; /* without a fragment */
    const cdz_json *schema;
} cdz_schema_resource;

typedef struct cdz_schema_anchor {
    const char *name;
    const cdz_json *schema;
    uint32_t resource;
    bool dynamic;
} cdz_schema_anchor;

typedef struct cdz_schema_ref {
    const cdz_json *ref;
    uint32_t resource;
} cdz_schema_ref;

/* The document's own names; no resources: not walked yet. The first resource is the document. */
typedef struct cdz_schema_where {
    cdz_schema_resource *resources;
    cdz_schema_anchor *anchors;
    cdz_schema_ref *refs; /* that stand in another resource than the document */
    uint32_t n_resources, resources_cap, n_anchors, anchors_cap, n_refs, refs_cap;
    cdz_item_table resource_table, anchor_table, ref_table; /* by uri, by name, by the reference */
} cdz_schema_where;

/* The values of a long list, found by their hashes. */
typedef struct cdz_schema_index {
    const cdz_json *list;
    cdz_item_table table;
} cdz_schema_index;

/* What stands between tokens, by the top's x-guidance: a rule + 1 of each pattern; 0: the usual. */
typedef struct cdz_schema_layout {
    uint32_t blank, item, key;
    bool flexible;      /* any whitespace where there is no pattern of it */
    bool coerce_one_of; /* a oneOf is read as an anyOf */
} cdz_schema_layout;

typedef struct cdz_schema {
    cdz_net *net;
    const cdz_json *root;
    cdz_arena *arena; /* the document's, and of what is made of it */
    cdz_schema_made *made;
    uint32_t n_made, made_cap;
    cdz_item_table made_table; /* by what they were made of */
    cdz_schema_where where;
    bool siblings_of_ref; /* false: drafts up to 7, where $ref stands alone */
    const char *id;       /* the keyword of a schema's name: "$id"; "id" in drafts up to 4 */
    cdz_schema_layout layout;
    cdz_schema_place *places;
    uint32_t n_places, places_cap, done;
    cdz_item_table table; /* places by their lists */
    uint32_t string_rule; /* + 1; any string */
    cdz_schema_index *indexes;
    uint32_t n_indexes, indexes_cap;
    cdz_item_table index_table; /* by their lists */
    const char *keyword;        /* what of the place is being made, for the sentences of limits */
    cdz_error *err;
} cdz_schema;

typedef struct cdz_text_ref {
    const char *text;
    uint32_t len;
} cdz_text_ref;

/* A schema, as text, becomes a rule of a network. */
cdz_status cdz_schema_part(cdz_net *net, const char *text, size_t len, uint32_t *rule,
                           cdz_error *err);
/* The same of one that was read, and stands in a document; what is made of it goes into the arena. */
cdz_status cdz_schema_part_of(cdz_net *net, const cdz_json *root, cdz_arena *arena, uint32_t *rule,
                              cdz_error *err);

cdz_status cdz_schema_no_memory(const cdz_schema *s);
/* A sentence that names a keyword and where it stands: by line and column. */
cdz_status cdz_schema_wrong(const cdz_schema *s, const cdz_json *at, const char *keyword,
                            const char *text);
cdz_status cdz_schema_refuse(const cdz_schema *s, const cdz_json *at, const char *keyword,
                             const char *text);

/* Where a value stands among the members of its object. */
uint32_t cdz_schema_place_of(const cdz_json *object, const cdz_json *value);
/* A bound by its keyword; NULL: it has none. Draft 4 says by a boolean beside minimum or maximum whether that is reached. */
const cdz_json *cdz_schema_bound(const cdz_json *schema, const char *keyword);

/* Whether there is time left (grammar_max_ms). What may go on for long asks again and again. */
cdz_status cdz_schema_in_time(const cdz_schema *s);

/* schema_unevaluated.c: whether entry i came from another one, or is it, and says something about what it names. */
bool cdz_schema_came_from(const cdz_schema_list *list, uint32_t i, uint32_t entry);
/* unevaluatedProperties or unevaluatedItems of an entry, where no entry that came from it has it too; NULL: nothing. */
const cdz_json *cdz_schema_unevaluated(const cdz_schema_list *list, uint32_t entry,
                                       const char *name);
/* Which of them an entry has, or one that it came from; NULL: none. */
const char *cdz_schema_unevaluated_above(const cdz_schema_list *list, uint32_t entry);
/* Refuses those of a list that cannot be told. */
cdz_status cdz_schema_check_unevaluated(const cdz_schema *s, const cdz_schema_list *list);

/* schema_same.c: what is looked for by a name that may hold a NUL; whether values are equal. */
const cdz_json *cdz_schema_member(const cdz_json *object, const char *name, uint32_t len);
bool cdz_schema_same(const cdz_json *a, const cdz_json *b);
uint32_t cdz_schema_same_hash(const cdz_json *value);
/* Whether an array has a value. */
cdz_status cdz_schema_list_has(cdz_schema *s, const cdz_json *list, const cdz_json *value,
                               bool *has);
void cdz_schema_lists_free(cdz_schema *s);

/* schema_where.c: where a reference leads. */
cdz_status cdz_schema_resolve(cdz_schema *s, const cdz_json *ref, const char *keyword,
                              const cdz_json **out);
void cdz_schema_where_free(cdz_schema_where *w);

/* schema_deny.c: what a schema does not allow, as a schema. */
cdz_status cdz_schema_denied(cdz_schema *s, const cdz_json *schema, const cdz_json **out);
/* What it does not allow, and all objects. */
cdz_status cdz_schema_denied_but_objects(cdz_schema *s, const cdz_json *schema,
                                         const cdz_json **out);
/* Whether `not` around it is read as it stands: a type, an enum, a const, a pattern or a format, alone. */
bool cdz_schema_is_atom(const cdz_json *denied);
/* Pushes what not, if and dependents of a schema come down to. */
cdz_status cdz_schema_push_made(cdz_schema *s, cdz_schema_list *list, const cdz_json *at);

/* The keyword that a schema was made of. */
const char *cdz_schema_made_of(const cdz_schema *s, const cdz_json *made);

/* The list, with a choice of an entry made: bit says of which keyword. */
cdz_status cdz_schema_alternative(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                                  uint32_t bit, const cdz_json *choice, cdz_schema_list *out);
/* Adds a schema alone; cdz_schema_add: and all that it leads to by $ref and allOf. */
cdz_status cdz_schema_push(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema);
cdz_status cdz_schema_add(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema);
void cdz_schema_list_free(cdz_schema_list *list);
/* The rule of a place; the list is taken over. */
cdz_status cdz_schema_rule(cdz_schema *s, cdz_schema_list *list, uint32_t *rule);
cdz_status cdz_schema_types(const cdz_schema *s, const cdz_schema_list *list, uint32_t *types);
/* A keyword's count, or fallback; whole numbers only. */
cdz_status cdz_schema_count(const cdz_schema *s, const cdz_json *schema, const char *keyword,
                            uint32_t *out, bool *found);

/* schema_layout.c: the options of the top's x-guidance; NULL: there are none. */
cdz_status cdz_schema_read_layout(cdz_schema *s, const cdz_json *x);
/* Whitespace between tokens, from a node on; returns where it ends. */
uint32_t cdz_schema_blank(cdz_schema *s, uint32_t from);
/* What separates items and members, and a key from its value, whitespace around it included. */
uint32_t cdz_schema_comma(cdz_schema *s, uint32_t from);
uint32_t cdz_schema_colon(cdz_schema *s, uint32_t from);
uint32_t cdz_schema_byte(cdz_schema *s, uint32_t from, char byte);

/* One file each: the values of a type from one node to another. */
cdz_status cdz_schema_numbers(cdz_schema *s, const cdz_schema_list *list, uint32_t types,
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
/* Strings of a list of schemas, as an automaton. CDZ_E_UNSUPPORTED: the list has alternatives. */
cdz_status cdz_schema_keys(cdz_schema *s, const cdz_schema_list *list, cdz_chars_dfa *out);
/* Texts as an automaton. */
cdz_status cdz_schema_texts(const cdz_schema *s, const cdz_text_ref *texts, uint32_t n,
                            cdz_chars_dfa *out);
/* What `not` denies of a schema where it is read as it stands, of a keyword; NULL: nothing. */
bool cdz_schema_has_denials(const cdz_schema_list *list);
const cdz_json *cdz_schema_denies(const cdz_json *schema, const char *keyword);
/* schema_formats.c: NULL: no format of this name is known. */
const char *cdz_schema_format(const char *name);
/* Whether every text of a format is in its language: what is not may be denied. */
bool cdz_schema_format_is_whole(const cdz_json *format);

/* schema_value.c */
cdz_status cdz_schema_literal(cdz_schema *s, const cdz_json *value, uint32_t from, uint32_t to);
/* Whether a value satisfies a list, told of all keywords that are not refused. */
cdz_status cdz_schema_valid(cdz_schema *s, const cdz_schema_list *list, const cdz_json *value,
                            uint32_t depth, bool *valid);
/* schema_apart.c: the values that a list spells out, by const or enum, and perhaps others; NULL: it spells out none. */
void cdz_schema_spelt(const cdz_schema_list *list, const cdz_json **values, uint32_t *n);
/* Whether alternatives of a oneOf spell out values, of their own or of a key that all require, that no two
 * of them share. list has entry, whose choices they are; true only where that is certain. */
cdz_status cdz_schema_told_apart(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                                 const cdz_json *choices, bool *apart);
/* Whether no value satisfies both lists; true only where that is certain. */
cdz_status cdz_schema_apart(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                            bool *apart);
/* Whether no object does. */
cdz_status cdz_schema_objects_apart(cdz_schema *s, const cdz_schema_list *a,
                                    const cdz_schema_list *b, bool *apart);
/* Whether nothing satisfies a list; true only where that is certain. */
cdz_status cdz_schema_void(cdz_schema *s, const cdz_schema_list *list, bool *nothing);

#endif
