/* value.h - the values a template computes with, and the state of one rendering. Inside template/ only.
 *
 * Values live in the arena of the rendering and die with it. A failure is remembered in the state
 * and makes what follows harmless: every function still returns a value (undefined), nothing is
 * written any more, and loops stop. So only loops and calls that need a result look at failed. */
#ifndef CDZ_HOST_TEMPLATE_VALUE_H
#define CDZ_HOST_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

typedef struct node node;
typedef struct value value;
typedef struct state state;
typedef struct builtin_row builtin_row;

typedef enum value_kind {
    V_MISSING, /* no value at all: an argument not given, a name not set */
    V_UNDEFINED,
    V_NONE,
    V_BOOL,
    V_INT,
    V_BIG, /* a literal past 64 bits: its digits */
    V_FLOAT,
    V_STRING,
    V_BYTES,
    V_LIST,
    V_TUPLE,
    V_GENERATOR, /* a list that is read once */
    V_DICT,
    V_VIEW, /* keys, values or items of a dictionary, as len says */
    V_RANGE,
    V_NAMESPACE,
    V_MACRO,
    V_LOOP,
    V_METHOD,
    V_FUNCTION,
    V_CYCLER,
    V_JOINER,
    V_SELF,
    V_SLICE, /* only between a subscript and its object */
} value_kind;

enum { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

typedef struct seq seq;
typedef struct dict dict;
typedef struct scope scope;

/* Why a value is undefined. */
typedef struct undefined {
    const char *name;     /* of the variable or attribute */
    const value *of;      /* what lacks it; NULL: a variable */
    const value *element; /* the index or key where it is no name */
    bool unsafe;          /* it exists, and the sandbox hides it */
} undefined;

typedef struct range {
    int64_t start, stop, step, n;
} range;

typedef struct macro {
    const node *def;
    scope *env; /* where it was defined */
} macro;

typedef struct loop loop;

typedef struct method {
    const builtin_row *row;
    const value *self;
} method;

struct value {
    uint8_t kind; /* value_kind */
    bool safe;    /* a string that escape leaves alone */
    uint32_t len; /* bytes of a string */
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
        const undefined *undef;
        seq *seq;   /* LIST, TUPLE, GENERATOR, CYCLER */
        dict *dict; /* DICT, VIEW, NAMESPACE */
        const range *range;
        const macro *macro;
        loop *loop;
        const method *method;
        const builtin_row *row;
        value *cell; /* JOINER: a flag and its separator; SLICE: start, stop, step */
    };
};

struct loop {
    const value *items;
    uint32_t n, at, depth;
    value changed; /* what loop.changed saw last: a tuple */
    const node *def;
    scope *env;
};

struct seq {
    value *at;
    uint32_t n, cap;
    uint32_t next; /* GENERATOR: how many were read; CYCLER: whose turn it is */
};

struct dict {
    value *keys, *values;
    uint32_t n, cap;
};

/* Arguments as called: positional, then by keyword. */
typedef struct keyword {
    const char *name;
    value value;
} keyword;

typedef struct args {
    const value *at;
    uint32_t n;
    const keyword *keywords;
    uint32_t n_keywords;
} args;

/* A filter, test, method or global. p holds the arguments in the order of the row's params, V_MISSING where
 * not given; all holds them as called, for params "*". */
typedef value builtin(state *st, value self, const value *p, const args *all);
struct builtin_row {
    const char *name;
    builtin *run;
    const char *params; /* names with a space between; "*": takes what comes */
};
enum { MAX_PARAMS = 8 };

typedef struct slot {
    uint32_t sym;
    value value;
} slot;

struct scope {
    scope *up; /* NULL: the top level, whose names lie in state.top */
    slot *at;
    uint32_t n, cap;
};

struct state {
    cdz_arena *arena;
    const struct cdz_template *tpl;
    struct cdz_template_options *options;
    cdz_buf *out, *main_out;
    cdz_error *err;
    cdz_status status;
    bool failed, autoescape;
    uint8_t leaving; /* N_BREAK or N_CONTINUE while a loop body is being left, else 0 */
    uint64_t steps, max_steps, touched, max_touched;
    size_t max_output, buffered; /* of one text; what lies in buffers now */
    uint32_t depth, macro_depth;
    uint64_t random;
    size_t counted, counted_codes; /* of the output, for generation spans */
    value *top;                    /* by symbol */
    seq no_seq;                    /* what is given out after a failure; stay empty */
    dict no_dict;
    scope root;
    const node *at; /* what is being evaluated, for sentences */
};

enum {
    EVAL_DEPTH = 2000, /* C frames of the evaluator */
    MACRO_DEPTH = 100,
    DATA_DEPTH = 100, /* lists in lists */
    RANGE_ITEMS = 100000,
    FORMAT_WIDTH = 10000,
    BUFFER_BYTES = 64 << 20, /* texts being written, inside each other */
};

/* What tpl_touch is told: a byte that is copied, compared or searched counts 1. */
enum {
    PER_CODE = 8,        /* a byte of text that is read character by character */
    PER_ITEM = 16,       /* a value that is copied or looked at: its size */
    PER_CONVERSION = 64, /* a character or a number that printf or the like makes */
    PER_FLOAT = 1024,    /* the shortest digits that read back as the number */
};

/* --- failing and limits (state.c) ------------------------------------------------------------------- */

value tpl_fail(state *st, const char *fmt, ...) CDZ_PRINTF(2, 3);
value tpl_fail_limit(state *st, const char *fmt, ...) CDZ_PRINTF(2, 3);
value tpl_fail_memory(state *st); /* of the machine, not of the template's share */
value tpl_fail_plain(state *st, const char *message, size_t len); /* without the place */
bool tpl_charge(state *st, uint64_t steps);                       /* false: failed */
/* What an operation goes through, in units of about a nanosecond: see the weights. An operation that is not
 * constant says so before it begins, or as it goes where it cannot know. False: failed. */
bool tpl_touch(state *st, uint64_t units);
void *tpl_take(state *st, size_t n, size_t bytes); /* NULL: failed */
value tpl_use_undefined(state *st, value v);       /* fails in the words of v */

/* --- making values (value.c) -------------------------------------------------------------------------- */

value tpl_v_undefined(state *st, const char *name);
value tpl_v_lacks(state *st, value of, value what, bool unsafe);
value tpl_v_int(int64_t i);
value tpl_v_bool(bool b);
value tpl_v_float(double d);
value tpl_v_none(void);
value tpl_v_missing(void);
value tpl_v_literal(const char *text);
value tpl_v_string(state *st, const char *text, size_t len); /* copies */
value tpl_v_borrow(const char *text, size_t len);
value tpl_v_seq(state *st, value_kind kind, uint32_t room);
void tpl_seq_add(state *st, value list, value item);
value tpl_v_dict(state *st, value_kind kind, uint32_t room);
void tpl_dict_set(state *st, value d, value key, value item);
const value *tpl_dict_get(state *st, const dict *d, value key); /* NULL: absent */
const value *tpl_dict_name(const dict *d, const char *name);
value tpl_v_pair(state *st, value a, value b);

bool tpl_is_string(value v);
bool tpl_is_number(value v); /* bool, int or float */
bool tpl_is_hashable(state *st, value v);
double tpl_as_double(value v);
int64_t tpl_as_int(value v); /* bool or int */
const char *tpl_type_name(value v);
bool tpl_truth(state *st, value v);
bool tpl_has_length(value v, uint64_t *n);
/* The items of anything that can be iterated, not to be changed. */
bool tpl_items_of(state *st, value v, const value **items, uint32_t *n);
bool tpl_equal(state *st, value a, value b);
/* Below, at or above zero; fails when they have no order. op is the word for the sentence. */
int tpl_order(state *st, value a, value b, const char *op);
bool tpl_contains(state *st, value container, value item);
int64_t tpl_range_at(const range *r, int64_t i);

/* --- text (text.c, text_json.c, text_case.c, text_format.c, text_time.c) ---------------------------------- */

/* Appends within the limit of one string. */
void tpl_put(state *st, cdz_buf *to, const char *text, size_t len);
void tpl_put_value(state *st, cdz_buf *to, value v); /* str() */
void tpl_put_repr(state *st, cdz_buf *to, value v);
void tpl_put_escaped(state *st, cdz_buf *to, const char *text, size_t len);
value tpl_take_text(state *st, cdz_buf *from); /* a string of it; frees it */
value tpl_to_text(state *st, value v);         /* str() as a value */
size_t tpl_format_double(double d, char out[40]);
void tpl_put_json(state *st, cdz_buf *to, value v, bool ascii, value indent, value separators,
                  bool sorted);

typedef enum letter_case {
    TO_UPPER,
    TO_LOWER,
    TO_TITLE,
    TO_CAPITAL,
    TO_SWAPPED,
    TO_FOLDED
} letter_case;
value tpl_change_case(state *st, value text, letter_case to);
bool tpl_is_space(uint32_t code);
bool tpl_is_printable(uint32_t code);
bool tpl_is_alpha(uint32_t code);
bool tpl_is_decimal(uint32_t code);
bool tpl_is_lower(uint32_t code);
bool tpl_is_upper(uint32_t code);
/* Decodes at *at < len and moves on; malformed bytes count as U+FFFD. */
uint32_t tpl_next_code(const char *text, size_t len, size_t *at);
size_t tpl_count_codes(value text);
/* The byte where a code point begins; len when there is none. */
size_t tpl_byte_of(value text, size_t code);
value tpl_sub_text(value text, size_t begin, size_t end); /* bytes */
/* st may be NULL where chars is missing: then whitespace goes. */
value tpl_strip(state *st, value text, value chars, bool left, bool right);
bool tpl_same_text(value v, const char *word);
/* First place of what from a byte on; SIZE_MAX: none. */
size_t tpl_find_text(value in, value what, size_t from);

/* maps: the argument could be a mapping, whose items need not all be used. */
value tpl_format_percent(state *st, value format, const args *all, bool maps);
value tpl_format_braces(state *st, value format, const args *all);
value tpl_format_time(state *st, value format);

/* --- looking up and calling (lookup.c, eval.c) ------------------------------------------------------------ */

value tpl_get_attribute(state *st, value of, value name);
value tpl_get_item(state *st, value of, value key);
value tpl_get_path(state *st, value of, value path); /* attribute= of filters: "a.b.0" or an int */
value tpl_call_value(state *st, value f, const args *all);
value tpl_call_builtin(state *st, const builtin_row *row, value self, const args *all);
value tpl_arithmetic(state *st, int op, value a, value b);
value tpl_negate(state *st, value v);

const builtin_row *tpl_find_row(const builtin_row *rows, const char *name);
const builtin_row *tpl_find_filter(const char *name);
const builtin_row *tpl_find_test(const char *name);
const builtin_row *tpl_find_method(value of, const char *name, bool *unsafe);
const builtin_row *tpl_find_global(const char *name);
extern const builtin_row tpl_text_filters[], tpl_list_filters[], tpl_number_filters[],
    tpl_select_filters[];
extern const builtin_row tpl_string_methods[], tpl_string_more_methods[], tpl_compare_tests[];

/* --- walking the tree (eval.c, run.c) ------------------------------------------------------------------------ */

value tpl_eval(state *st, scope *sc, const node *n);
value tpl_apply_filters(state *st, scope *sc, const node *chain, value input);
bool tpl_eval_args(state *st, scope *sc, const node *call, args *out);
void tpl_run(state *st, scope *sc, const node *n);
value tpl_call_macro(state *st, const macro *m, const args *all);
value tpl_call_loop(state *st, const loop *l, const args *all);
value *tpl_scope_find(state *st, scope *sc, uint32_t sym);
void tpl_scope_set(state *st, scope *sc, uint32_t sym, value v);
scope *tpl_scope_new(state *st, scope *up);

#endif
