/* state.c - one rendering: its limits, how it fails, and the call that starts it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "template/ast.h"

enum {
    DEFAULT_STEPS = 1000000,
    DEFAULT_TOUCHED = 1 << 30,
    DEFAULT_OUTPUT = 4 << 20,
    ARENA_BYTES = 256 << 20, /* beside what the context itself takes */
};

/* --- failing and limits ---------------------------------------------------------------------------- */

static value fail_with(state *st, cdz_status status, const char *text)
{
    if (st->failed) return (value){.kind = V_UNDEFINED};
    st->failed = true;
    st->status = cdz_err(st->err, status, "%s:%u:%u: %s", st->tpl->name, st->at ? st->at->line : 1,
                         st->at ? st->at->column : 1, text);
    return (value){.kind = V_UNDEFINED};
}

value tpl_fail(state *st, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_with(st, CDZ_E_INPUT, text);
}

value tpl_fail_limit(state *st, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_with(st, CDZ_E_LIMIT, text);
}

value tpl_fail_memory(state *st)
{
    return fail_with(st, CDZ_E_NOMEM, "out of memory");
}

value tpl_fail_plain(state *st, const char *message, size_t len)
{
    if (!st->failed) {
        st->failed = true;
        st->status = cdz_err(st->err, CDZ_E_INPUT, "%.*s", (int)len, message);
    }
    return (value){.kind = V_UNDEFINED};
}

bool tpl_charge(state *st, uint64_t steps)
{
    st->steps += steps;
    if (st->steps > st->max_steps)
        tpl_fail_limit(st, "the template takes more than %llu steps",
                       (unsigned long long)st->max_steps);
    return !st->failed;
}

bool tpl_touch(state *st, uint64_t units)
{
    st->touched += units;
    if (st->touched > st->max_touched)
        tpl_fail_limit(st, "the template goes through more than %llu MiB of text and lists",
                       (unsigned long long)(st->max_touched >> 20));
    return !st->failed;
}

void *tpl_take(state *st, size_t n, size_t bytes)
{
    void *memory = st->failed ? NULL : cdz_arena_array(st->arena, n ? n : 1, bytes);
    if (!memory && !st->failed) {
        const size_t left = ARENA_BYTES - st->arena->used;
        if ((n ? n : 1) > left / (bytes ? bytes : 1))
            tpl_fail_limit(st, "the template needs more than %d MiB of memory", ARENA_BYTES >> 20);
        else
            tpl_fail_memory(st);
    }
    return memory;
}

/* --- the context --------------------------------------------------------------------------------------- */

static value from_json(state *st, const cdz_json *j, uint32_t depth);

static value from_array(state *st, const cdz_json *j, uint32_t depth)
{
    value list = tpl_v_seq(st, V_LIST, j->len);
    for (uint32_t i = 0; i < j->len && !st->failed; i++)
        tpl_seq_add(st, list, from_json(st, &j->items[i], depth + 1));
    return list;
}

/* The reader has seen to it that no name comes twice. */
static value from_object(state *st, const cdz_json *j, uint32_t depth)
{
    value v = tpl_v_dict(st, V_DICT, j->len);
    for (uint32_t i = 0; i < j->len && !st->failed; i++) {
        const cdz_json_member *m = &j->members[i];
        v.dict->keys[i] = tpl_v_borrow(m->key, m->key_len);
        v.dict->values[i] = from_json(st, &m->value, depth + 1);
        v.dict->n = i + 1;
    }
    return v;
}

static value from_json(state *st, const cdz_json *j, uint32_t depth)
{
    if (depth > 1000) return tpl_fail_limit(st, "the context is nested more than 1000 deep");
    switch (j->type) {
    case CDZ_JSON_BOOL: return tpl_v_bool(j->boolean);
    case CDZ_JSON_INT: return tpl_v_int(j->integer);
    case CDZ_JSON_REAL: return tpl_v_float(j->real);
    case CDZ_JSON_STRING: return tpl_v_borrow(j->string, j->len);
    case CDZ_JSON_ARRAY: return from_array(st, j, depth);
    case CDZ_JSON_OBJECT: return from_object(st, j, depth);
    default: return tpl_v_none();
    }
}

/* Variables by symbol: what the context holds, else what the language has, else nothing. */
static void fill_top(state *st, const cdz_json *context)
{
    const cdz_template *tpl = st->tpl;
    st->top = tpl_take(st, tpl->n_symbols, sizeof *st->top);
    for (uint32_t i = 0; i < tpl->n_symbols && tpl_touch(st, context ? context->len : 0); i++) {
        const cdz_json *given = context ? cdz_json_get(context, tpl->symbols[i]) : NULL;
        const builtin_row *row = tpl_find_global(tpl->symbols[i]);
        if (given)
            st->top[i] = from_json(st, given, 0);
        else if (row)
            st->top[i] = (value){.kind = V_FUNCTION, .row = row};
        else if (strcmp(tpl->symbols[i], "self") == 0)
            st->top[i] = (value){.kind = V_SELF};
    }
}

cdz_status cdz_template_render(const cdz_template *tpl, const cdz_json *context,
                               cdz_template_options *options, cdz_buf *out, cdz_error *err)
{
    cdz_arena arena = {.limit = ARENA_BYTES};
    cdz_template_options defaults = {0};
    cdz_buf text = {0};
    if (!options) options = &defaults;
    options->n_spans = 0;
    options->steps = options->touched = 0;
    state st = {
        .arena = &arena,
        .tpl = tpl,
        .options = options,
        .out = &text,
        .main_out = &text,
        .err = err,
        .max_steps = options->max_steps ? options->max_steps : DEFAULT_STEPS,
        .max_touched = options->max_touched ? options->max_touched : DEFAULT_TOUCHED,
        .max_output = options->max_output ? options->max_output : DEFAULT_OUTPUT,
        .random = 1,
    };
    if (context && !cdz_json_is(context, CDZ_JSON_OBJECT))
        return cdz_err(err, CDZ_E_INPUT, "%s: the context is %s, expected an object", tpl->name,
                       cdz_json_type_name(context));
    fill_top(&st, context);
    if (!st.failed) tpl_run(&st, &st.root, tpl->root);
    if (!st.failed && text.len) cdz_buf_add(out, text.data, text.len);
    options->steps = st.steps;
    options->touched = st.touched;
    cdz_status status = st.failed ? st.status : CDZ_OK;
    if (status == CDZ_OK && (text.failed || out->failed))
        status = cdz_err_memory_in(err, tpl->name);
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
    return status;
}
