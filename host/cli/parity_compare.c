/* parity_compare.c - is this answer what was recorded? */
#include <math.h>
#include <string.h>

#include "cli/parity.h"

bool cdz_parity_close(double got, double want)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    return fabs(got - want) <= CDZ_PARITY_TOLERANCE + CDZ_PARITY_TOLERANCE * fabs(want);
}

/* Where we are in the document: "scores.chosen[3][0]". */
typedef struct place {
    const struct place *up;
    const char *key; /* or NULL: an item */
    uint32_t item;
} place;

static void write_place(const place *at, cdz_buf *out)
{
    if (!at) return;
    write_place(at->up, out);
    if (at->key)
        cdz_buf_printf(out, "%s%s", at->up ? "." : "", at->key);
    else
        cdz_buf_printf(out, "[%u]", at->item);
}

static void write_short(const cdz_json *value, cdz_buf *out)
{
    enum { LONGEST = 60 };
    cdz_buf text = {0};
    if (value) cdz_json_write(&text, value);
    cdz_buf_printf(out, "%.*s%s", LONGEST, text.len ? text.data : "nothing",
                   text.len > LONGEST ? "..." : "");
    cdz_buf_free(&text);
}

static bool differ(const place *at, const cdz_json *want, const cdz_json *got, cdz_buf *out)
{
    write_place(at, out);
    cdz_buf_puts(out, ": expected ");
    write_short(want, out);
    cdz_buf_puts(out, ", got ");
    write_short(got, out);
    return false;
}

/* Numbers, and the words that stand for those JSON lacks. */
static bool as_number(const cdz_json *value, double *out)
{
    if (cdz_json_number(value, out)) return true;
    if (cdz_json_eq(value, "inf"))
        *out = INFINITY;
    else if (cdz_json_eq(value, "-inf"))
        *out = -INFINITY;
    else if (cdz_json_eq(value, "nan"))
        *out = NAN;
    else
        return false;
    return true;
}

static bool same(const place *at, const cdz_json *want, const cdz_json *got, cdz_buf *out);

static bool same_items(const place *at, const cdz_json *want, const cdz_json *got, cdz_buf *out)
{
    if (!cdz_json_is(got, CDZ_JSON_ARRAY)) return differ(at, want, got, out);
    if (got->len != want->len) {
        write_place(at, out);
        cdz_buf_printf(out, ": expected %u items, got %u", want->len, got->len);
        return false;
    }
    for (uint32_t i = 0; i < want->len; i++) {
        place item = {.up = at, .item = i};
        if (!same(&item, &want->items[i], &got->items[i], out)) return false;
    }
    return true;
}

/* A list of ids with a list of as many scores. */
static bool is_top(const cdz_json *ids, const cdz_json *vals)
{
    return cdz_json_is(ids, CDZ_JSON_ARRAY) && cdz_json_is(vals, CDZ_JSON_ARRAY) &&
           ids->len == vals->len;
}

/* Two lists [step][row][k] in each document: the score found at each expected id must agree. An id that is absent may
 * only be one that ties with the last place. */
static bool same_top(const place *at, const cdz_json *ids, const cdz_json *vals,
                     const cdz_json *got_ids, const cdz_json *got_vals, cdz_buf *out)
{
    if (!is_top(ids, vals) || !is_top(got_ids, got_vals)) return differ(at, ids, got_ids, out);
    if (ids->len && ids->items[0].type == CDZ_JSON_ARRAY) {
        if (got_ids->len != ids->len) return differ(at, ids, got_ids, out);
        for (uint32_t i = 0; i < ids->len; i++) {
            place item = {.up = at, .item = i};
            if (!same_top(&item, &ids->items[i], &vals->items[i], &got_ids->items[i],
                          &got_vals->items[i], out))
                return false;
        }
        return true;
    }
    for (uint32_t i = 0; i < ids->len; i++) {
        double want, value, found = -INFINITY;
        const cdz_json *own = NULL, *last = NULL;
        if (!as_number(&vals->items[i], &want)) continue; /* null: a row that had ended */
        for (uint32_t j = 0; j < got_ids->len; j++) {
            const cdz_json *id = &got_ids->items[j];
            if (!as_number(&got_vals->items[j], &value)) continue;
            last = &got_vals->items[j];
            if (ids->items[i].type == CDZ_JSON_INT && id->type == CDZ_JSON_INT &&
                id->integer == ids->items[i].integer)
                own = last;
        }
        if (!own) own = last;
        if (own) as_number(own, &found);
        if (!cdz_parity_close(found, want)) {
            place item = {.up = at, .item = i};
            return differ(&item, &vals->items[i], own ? own : got_vals, out);
        }
    }
    return true;
}

static bool same_members(const place *at, const cdz_json *want, const cdz_json *got, cdz_buf *out)
{
    if (!cdz_json_is(got, CDZ_JSON_OBJECT)) return differ(at, want, got, out);
    for (uint32_t i = 0; i < want->len; i++) {
        const cdz_json_member *member = &want->members[i];
        place here = {.up = at, .key = member->key};
        const cdz_json *other = cdz_json_get(got, member->key);
        if (strcmp(member->key, "top_vals") == 0) continue; /* with top_ids */
        if (strcmp(member->key, "top_ids") == 0) {
            const cdz_json *vals = cdz_json_get(want, "top_vals"),
                           *got_vals = cdz_json_get(got, "top_vals");
            if (!other || !got_vals || !vals) return differ(&here, &member->value, other, out);
            if (!same_top(&here, &member->value, vals, other, got_vals, out)) return false;
            continue;
        }
        if (!same(&here, &member->value, other, out)) return false;
    }
    return true;
}

static bool same(const place *at, const cdz_json *want, const cdz_json *got, cdz_buf *out)
{
    double a, b;
    switch ((cdz_json_type)want->type) {
    case CDZ_JSON_NULL: return true;
    case CDZ_JSON_ARRAY: return same_items(at, want, got, out);
    case CDZ_JSON_OBJECT: return same_members(at, want, got, out);
    case CDZ_JSON_BOOL:
        return (cdz_json_is(got, CDZ_JSON_BOOL) && got->boolean == want->boolean) ||
               differ(at, want, got, out);
    case CDZ_JSON_INT:
        if (cdz_json_is(got, CDZ_JSON_INT) && got->integer == want->integer) return true;
        if (!cdz_json_is(got, CDZ_JSON_REAL)) return differ(at, want, got, out);
        break;
    case CDZ_JSON_STRING:
        if (!as_number(want, &a))
            return (cdz_json_is(got, CDZ_JSON_STRING) && got->len == want->len &&
                    memcmp(got->string, want->string, want->len) == 0) ||
                   differ(at, want, got, out);
        break;
    case CDZ_JSON_REAL: break;
    }
    if (as_number(want, &a) && got && as_number(got, &b) && cdz_parity_close(b, a)) return true;
    return differ(at, want, got, out);
}

bool cdz_parity_compare(const cdz_json *expect, const cdz_json *got, cdz_buf *difference)
{
    return same_members(NULL, expect, got, difference);
}
