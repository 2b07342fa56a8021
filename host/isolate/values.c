/* values.c - values, parameter structs and requests as bytes, field by field: no address and no padding of a struct goes
 * over, in either direction. */
#include "isolate/values.h"

#include <string.h>

/* --- lists -------------------------------------------------------------------------------------------------- */

static void put_list(cdz_wire_out *out, const void *at, uint32_t len, bool set, size_t item_bytes)
{
    cdz_put_u32(out, set);
    cdz_put_u32(out, len);
    cdz_put(out, at, (size_t)len * item_bytes);
}

static void put_ints(cdz_wire_out *out, const cdz_int_list *list)
{
    put_list(out, list->at, list->len, list->set, sizeof *list->at);
}

static void put_int_lists(cdz_wire_out *out, const cdz_int_lists *lists)
{
    cdz_put_u32(out, lists->set);
    cdz_put_u32(out, lists->len);
    for (uint32_t i = 0; i < lists->len; i++) put_ints(out, &lists->at[i]);
}

static void put_choices(cdz_wire_out *out, const cdz_int_choices *choices)
{
    cdz_put_u32(out, choices->set);
    cdz_put_u32(out, choices->len);
    for (uint32_t i = 0; i < choices->len; i++) put_int_lists(out, &choices->at[i]);
}

static void put_strings(cdz_wire_out *out, const cdz_string_list *list)
{
    cdz_put_u32(out, list->set);
    cdz_put_u32(out, list->len);
    for (uint32_t i = 0; i < list->len; i++) cdz_put_string(out, list->at[i]);
}

static void put_weighted(cdz_wire_out *out, const cdz_weighted_list *list)
{
    cdz_put_u32(out, list->set);
    cdz_put_u32(out, list->is_map);
    cdz_put_u32(out, list->len);
    for (uint32_t i = 0; i < list->len; i++) {
        put_ints(out, &list->at[i].ids);
        cdz_put_real(out, list->at[i].weight);
        cdz_put_u32(out, list->at[i].weight_is_int);
    }
}

/* Room for len items of which each takes at least a word on the wire: so many there cannot be more. */
static void *room(cdz_wire_in *in, cdz_arena *arena, uint32_t len, size_t item_bytes)
{
    void *at = len <= (in->len - in->pos) / sizeof(uint32_t)
                   ? cdz_arena_array(arena, len, item_bytes)
                   : NULL;
    if (!at) in->bad = true;
    return at;
}

static void *take_list(cdz_wire_in *in, cdz_arena *arena, uint32_t *len, bool *set,
                       size_t item_bytes)
{
    *set = cdz_take_u32(in) != 0;
    *len = cdz_take_u32(in);
    const void *from = cdz_take_items(in, *len, item_bytes);
    void *at = from ? cdz_arena_array(arena, *len, item_bytes) : NULL;
    if (at && *len) memcpy(at, from, (size_t)*len * item_bytes);
    if (at) return at;
    in->bad = true;
    *len = 0;
    return NULL;
}

static void take_ints(cdz_wire_in *in, cdz_arena *arena, cdz_int_list *list)
{
    list->at = take_list(in, arena, &list->len, &list->set, sizeof *list->at);
}

static void take_int_lists(cdz_wire_in *in, cdz_arena *arena, cdz_int_lists *lists)
{
    lists->set = cdz_take_u32(in) != 0;
    const uint32_t len = cdz_take_u32(in);
    cdz_int_list *at = room(in, arena, len, sizeof *at);
    for (uint32_t i = 0; at && i < len; i++) take_ints(in, arena, &at[i]);
    lists->at = at;
    lists->len = at ? len : 0;
}

static void take_choices(cdz_wire_in *in, cdz_arena *arena, cdz_int_choices *choices)
{
    choices->set = cdz_take_u32(in) != 0;
    const uint32_t len = cdz_take_u32(in);
    cdz_int_lists *at = room(in, arena, len, sizeof *at);
    for (uint32_t i = 0; at && i < len; i++) take_int_lists(in, arena, &at[i]);
    choices->at = at;
    choices->len = at ? len : 0;
}

static void take_strings(cdz_wire_in *in, cdz_arena *arena, cdz_string_list *list)
{
    list->set = cdz_take_u32(in) != 0;
    const uint32_t len = cdz_take_u32(in);
    cdz_string *at = room(in, arena, len, sizeof *at);
    for (uint32_t i = 0; at && i < len; i++) at[i] = cdz_take_string(in, arena);
    list->at = at;
    list->len = at ? len : 0;
}

static void take_weighted(cdz_wire_in *in, cdz_arena *arena, cdz_weighted_list *list)
{
    list->set = cdz_take_u32(in) != 0;
    list->is_map = cdz_take_u32(in) != 0;
    const uint32_t len = cdz_take_u32(in);
    cdz_weighted *at = room(in, arena, len, sizeof *at);
    for (uint32_t i = 0; at && i < len; i++) {
        take_ints(in, arena, &at[i].ids);
        at[i].weight = cdz_take_real(in);
        at[i].weight_is_int = cdz_take_u32(in) != 0;
    }
    list->at = at;
    list->len = at ? len : 0;
}

/* --- values ------------------------------------------------------------------------------------------------- */

/* Plain values are copied as they lie; bools are read as bytes, so that no byte makes an invalid one. */
typedef struct flagged {
    double number;
    int64_t integer;
    uint32_t a, b;
} flagged;

static void put_flagged(cdz_wire_out *out, flagged v)
{
    cdz_put_real(out, v.number);
    cdz_put_u64(out, (uint64_t)v.integer);
    cdz_put_u32(out, v.a);
    cdz_put_u32(out, v.b);
}

static flagged take_flagged(cdz_wire_in *in)
{
    flagged v;
    v.number = cdz_take_real(in);
    v.integer = (int64_t)cdz_take_u64(in);
    v.a = cdz_take_u32(in);
    v.b = cdz_take_u32(in);
    return v;
}

static void put_word(cdz_wire_out *out, const cdz_word *word)
{
    put_flagged(out, (flagged){.integer = word->value, .a = word->set});
}

void cdz_put_value(cdz_wire_out *out, cdz_param_type type, const void *field)
{
    switch (type) {
    case CDZ_T_BOOL: cdz_put_u32(out, *(const bool *)field); break;
    case CDZ_T_INT: cdz_put(out, field, sizeof(int64_t)); break;
    case CDZ_T_REAL: cdz_put(out, field, sizeof(double)); break;
    case CDZ_T_STRING: cdz_put_text(out, *(const char *const *)field); break;
    case CDZ_T_OPT_BOOL: {
        const cdz_opt_bool *v = field;
        put_flagged(out, (flagged){.a = v->set, .b = v->value});
        break;
    }
    case CDZ_T_OPT_INT: {
        const cdz_opt_int *v = field;
        put_flagged(out, (flagged){.integer = v->value, .a = v->set});
        break;
    }
    case CDZ_T_OPT_REAL: {
        const cdz_opt_real *v = field;
        put_flagged(out, (flagged){.number = v->value, .a = v->set, .b = v->is_int});
        break;
    }
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: put_word(out, field); break;
    case CDZ_T_INTS: put_ints(out, field); break;
    case CDZ_T_REALS: {
        const cdz_real_list *v = field;
        put_list(out, v->at, v->len, v->set, sizeof *v->at);
        break;
    }
    case CDZ_T_STRINGS: put_strings(out, field); break;
    case CDZ_T_INT_LISTS: put_int_lists(out, field); break;
    case CDZ_T_WEIGHTED: put_weighted(out, field); break;
    case CDZ_T_INT_REAL: {
        const cdz_int_real *v = field;
        put_flagged(out, (flagged){.number = v->second, .integer = v->first, .a = v->set});
        break;
    }
    case CDZ_T_WORD_OR_INTS:
        put_word(out, &((const cdz_word_or_ints *)field)->word);
        put_ints(out, &((const cdz_word_or_ints *)field)->ints);
        break;
    case CDZ_T_INT_CHOICES: put_choices(out, field); break;
    }
}

static void take_word(cdz_wire_in *in, cdz_word *word)
{
    const flagged v = take_flagged(in);
    *word = (cdz_word){.value = (int32_t)v.integer, .set = v.a != 0};
}

void cdz_take_value(cdz_wire_in *in, cdz_param_type type, cdz_arena *arena, void *field)
{
    flagged v;
    switch (type) {
    case CDZ_T_BOOL: *(bool *)field = cdz_take_u32(in) != 0; return;
    case CDZ_T_INT: *(int64_t *)field = (int64_t)cdz_take_u64(in); return;
    case CDZ_T_REAL: *(double *)field = cdz_take_real(in); return;
    case CDZ_T_STRING: *(const char **)field = cdz_take_text(in, arena); return;
    case CDZ_T_OPT_BOOL:
        v = take_flagged(in);
        *(cdz_opt_bool *)field = (cdz_opt_bool){.value = v.b != 0, .set = v.a != 0};
        return;
    case CDZ_T_OPT_INT:
        v = take_flagged(in);
        *(cdz_opt_int *)field = (cdz_opt_int){.value = v.integer, .set = v.a != 0};
        return;
    case CDZ_T_OPT_REAL:
        v = take_flagged(in);
        *(cdz_opt_real *)field =
            (cdz_opt_real){.value = v.number, .set = v.a != 0, .is_int = v.b != 0};
        return;
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: take_word(in, field); return;
    case CDZ_T_INTS: take_ints(in, arena, field); return;
    case CDZ_T_REALS: {
        cdz_real_list *list = field;
        list->at = take_list(in, arena, &list->len, &list->set, sizeof *list->at);
        return;
    }
    case CDZ_T_STRINGS: take_strings(in, arena, field); return;
    case CDZ_T_INT_LISTS: take_int_lists(in, arena, field); return;
    case CDZ_T_WEIGHTED: take_weighted(in, arena, field); return;
    case CDZ_T_INT_REAL:
        v = take_flagged(in);
        *(cdz_int_real *)field =
            (cdz_int_real){.first = v.integer, .second = v.number, .set = v.a != 0};
        return;
    case CDZ_T_WORD_OR_INTS:
        take_word(in, &((cdz_word_or_ints *)field)->word);
        take_ints(in, arena, &((cdz_word_or_ints *)field)->ints);
        return;
    case CDZ_T_INT_CHOICES: take_choices(in, arena, field); return;
    }
    in->bad = true;
}

/* --- structs ------------------------------------------------------------------------------------------------ */

void cdz_put_params(cdz_wire_out *out, const cdz_param_table *table, uint32_t n, const void *params)
{
    for (uint32_t i = 0; i < n; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        cdz_put_value(out, param->type, (const char *)params + param->offset);
    }
}

void cdz_take_params(cdz_wire_in *in, const cdz_param_table *table, cdz_arena *arena, void *params)
{
    for (uint32_t i = 0; i < table->n && !in->bad; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        cdz_take_value(in, param->type, arena, (char *)params + param->offset);
    }
}

/* The facts that are plain numbers, one way and the other. */
void cdz_put_request(cdz_wire_out *out, const cdz_request_info *request)
{
    const uint32_t words[] = {request->n_prompts,     request->n_rows,       request->prompt_len,
                              request->n_vocab,       request->max_length,   request->min_length,
                              request->context,       request->num_beams,    request->do_sample,
                              (uint32_t)request->pad, (uint32_t)request->bos};
    cdz_put(out, words, sizeof words);
    cdz_put_u64(out, request->seed);
    cdz_put_real(out, request->start_s);
    cdz_put_ids(out, request->eos);
    for (uint32_t i = 0; i < request->n_prompts; i++) cdz_put_ids(out, request->prompts[i]);
}

void cdz_take_request(cdz_wire_in *in, cdz_arena *arena, cdz_request_info *request)
{
    *request = (cdz_request_info){.size = sizeof *request};
    request->n_prompts = cdz_take_u32(in);
    request->n_rows = cdz_take_u32(in);
    request->prompt_len = cdz_take_u32(in);
    request->n_vocab = cdz_take_u32(in);
    request->max_length = cdz_take_u32(in);
    request->min_length = cdz_take_u32(in);
    request->context = cdz_take_u32(in);
    request->num_beams = cdz_take_u32(in);
    request->do_sample = cdz_take_u32(in) != 0;
    request->pad = (int32_t)cdz_take_u32(in);
    request->bos = (int32_t)cdz_take_u32(in);
    request->seed = cdz_take_u64(in);
    request->start_s = cdz_take_real(in);
    request->eos = cdz_take_ids(in, arena);
    cdz_ids *prompts = room(in, arena, request->n_prompts, sizeof *prompts);
    for (uint32_t i = 0; prompts && i < request->n_prompts; i++)
        prompts[i] = cdz_take_ids(in, arena);
    request->prompts = prompts;
}
