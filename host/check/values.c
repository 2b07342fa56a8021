/* values.c - random values of each parameter type, written as a user would write them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "check/setups.h"

/* Doubles that int64_t holds exactly are far enough for any bound. */
#define FAR 9.0e15

static double within(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* --- numbers ---------------------------------------------------------------------------------------------- */

static int64_t some_integer(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild,
                            uint64_t *random)
{
    const double lo = within(p->min, -FAR, FAR), hi = within(p->max, -FAR, FAR);
    if (wild == CDZ_WILD && cdz_random_below(random, 3) == 0)
        return (int64_t)(cdz_random_below(random, 2) ? hi : lo);
    const uint32_t span = cdz_random_below(random, 4) ? 8 : n_vocab;
    const double base = lo < 0 && hi >= 0 ? 0 : lo;
    return (int64_t)within(base + cdz_random_below(random, span), lo, hi);
}

static double some_real(const cdz_param *p, cdz_wildness wild, uint64_t *random)
{
    const bool open_below = p->min < -1e6;
    const bool open_above = p->max > 1e6;
    const double lo = open_below ? (open_above ? -3.0 : p->max - 3.0) : p->min;
    const double hi = open_above ? lo + (open_below ? 6.0 : 3.0) : p->max;
    if (wild == CDZ_WILD && cdz_random_below(random, 4) == 0)
        return cdz_random_below(random, 2) ? p->max : p->min;
    return lo + (hi - lo) * (0.02 + 0.96 * cdz_random_unit(random));
}

static void put_integer(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild, uint64_t *random,
                        cdz_buf *out)
{
    cdz_buf_printf(out, "%" PRId64, some_integer(p, n_vocab, wild, random));
}

static void put_real(double x, cdz_buf *out)
{
    cdz_json_write_real(out, x);
}

/* --- lists ------------------------------------------------------------------------------------------------- */

static uint32_t list_len(cdz_wildness wild, uint64_t *random)
{
    return wild == CDZ_WILD ? cdz_random_below(random, 5) : 1 + cdz_random_below(random, 3);
}

/* An id that histories hold too, more often than not. */
static void put_element(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild, uint64_t *random,
                        cdz_buf *out)
{
    const uint32_t few = n_vocab < 24 ? n_vocab : 24;
    const uint32_t id = cdz_random_below(random, cdz_random_below(random, 2) ? few : n_vocab);
    if (wild == CDZ_WILD && cdz_random_below(random, 6) == 0)
        put_integer(p, n_vocab, wild, random, out);
    else
        cdz_buf_printf(out, "%" PRId64, (int64_t)within(id, p->min, within(p->max, -FAR, FAR)));
}

static void put_ids(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild, uint64_t *random,
                    cdz_buf *out)
{
    /* Rows such as CDZ_WEIGHTED bound nothing: their elements are ids. */
    cdz_param ids = *p;
    if (ids.min >= ids.max) ids.min = 0, ids.max = FAR;
    const uint32_t n = list_len(wild, random);
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i) cdz_buf_puts(out, ", ");
        put_element(&ids, n_vocab, wild, random, out);
    }
    cdz_buf_putc(out, ']');
}

static void put_reals(const cdz_param *p, cdz_wildness wild, uint64_t *random, cdz_buf *out)
{
    const uint32_t n = list_len(wild, random);
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i) cdz_buf_puts(out, ", ");
        put_real(some_real(p, wild, random), out);
    }
    cdz_buf_putc(out, ']');
}

static const char *some_text(uint64_t *random)
{
    static const char *const texts[] = {"stop", "a", "river", "the end", "x y", "\xC3\xBC"};
    return texts[cdz_random_below(random, sizeof texts / sizeof texts[0])];
}

static void put_texts(cdz_wildness wild, uint64_t *random, cdz_buf *out)
{
    const uint32_t n = list_len(wild, random);
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++)
        cdz_buf_printf(out, "%s\"%s\"", i ? ", " : "", some_text(random));
    cdz_buf_putc(out, ']');
}

static void put_id_lists(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild, uint64_t *random,
                         cdz_buf *out)
{
    const uint32_t n = list_len(wild, random);
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i) cdz_buf_puts(out, ", ");
        put_ids(p, n_vocab, wild, random, out);
    }
    cdz_buf_putc(out, ']');
}

static void put_weighted(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild, uint64_t *random,
                         cdz_buf *out)
{
    const uint32_t n = list_len(wild, random);
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? ", [" : "[");
        put_ids(p, n_vocab, CDZ_MILD, random, out);
        cdz_buf_puts(out, ", ");
        put_real(4.0 * cdz_random_unit(random) - 2.0, out);
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, ']');
}

/* --- words ------------------------------------------------------------------------------------------------- */

static void put_word(const cdz_param *p, uint64_t *random, cdz_buf *out)
{
    const char *at = p->text;
    for (uint32_t i = cdz_random_below(random, cdz_param_word_count(p)); i > 0; i--)
        at = strchr(at, '|') + 1;
    cdz_buf_add(out, at, strcspn(at, "|"));
}

static void put_flag(uint64_t *random, cdz_buf *out)
{
    cdz_buf_puts(out, cdz_random_below(random, 2) ? "true" : "false");
}

void cdz_check_value_random(const cdz_param *p, uint32_t n_vocab, cdz_wildness wild,
                            uint64_t *random, cdz_buf *out)
{
    switch (p->type) {
    case CDZ_T_BOOL:
    case CDZ_T_OPT_BOOL: put_flag(random, out); break;
    case CDZ_T_INT:
    case CDZ_T_OPT_INT: put_integer(p, n_vocab, wild, random, out); break;
    case CDZ_T_REAL:
    case CDZ_T_OPT_REAL: put_real(some_real(p, wild, random), out); break;
    case CDZ_T_STRING: cdz_buf_puts(out, some_text(random)); break;
    case CDZ_T_WORD: put_word(p, random, out); break;
    case CDZ_T_BOOL_OR_WORD:
        if (cdz_random_below(random, 2))
            put_flag(random, out);
        else
            put_word(p, random, out);
        break;
    case CDZ_T_INTS: put_ids(p, n_vocab, wild, random, out); break;
    case CDZ_T_REALS: put_reals(p, wild, random, out); break;
    case CDZ_T_STRINGS: put_texts(wild, random, out); break;
    case CDZ_T_INT_LISTS:
    case CDZ_T_INT_CHOICES: put_id_lists(p, n_vocab, wild, random, out); break;
    case CDZ_T_WEIGHTED: put_weighted(p, n_vocab, wild, random, out); break;
    case CDZ_T_INT_REAL:
        cdz_buf_printf(out, "[%u, ", 1 + cdz_random_below(random, 12));
        put_real(0.5 + cdz_random_unit(random), out);
        cdz_buf_putc(out, ']');
        break;
    case CDZ_T_WORD_OR_INTS:
        if (cdz_random_below(random, 2))
            put_word(p, random, out);
        else
            put_ids(p, n_vocab, wild, random, out);
        break;
    default: cdz_buf_puts(out, "none");
    }
}
