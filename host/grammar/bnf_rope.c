/* bnf_rope.c - expressions of GBNF: joined as lists of pieces, and written as text. */
#include "grammar/bnf_rope.h"

#include "base/utf8.h"
#include "grammar/grow.h"

enum { CODE, SET, NAME, REPEAT, OPEN, CLOSE, OR };
enum { LINE = 100 };

const cdz_bnf_rope cdz_bnf_rope_nothing = {.level = CDZ_BNF_SEQUENCE, .nullable = true};

void cdz_bnf_ropes_free(cdz_bnf_ropes *ropes)
{
    free(ropes->pieces);
    free(ropes->spans);
    *ropes = (cdz_bnf_ropes){0};
}

static cdz_bnf_rope piece(cdz_bnf_ropes *ropes, uint32_t kind, uint32_t a, uint32_t b)
{
    if (!ropes->n_pieces) ropes->n_pieces = 1;
    if (!cdz_grow(&ropes->pieces, &ropes->pieces_cap, (size_t)ropes->n_pieces + 1,
                  sizeof *ropes->pieces)) {
        ropes->failed = true;
        return cdz_bnf_rope_nothing;
    }
    const uint32_t at = ropes->n_pieces++;
    ropes->pieces[at] = (cdz_bnf_piece){.kind = kind, .a = a, .b = b};
    return (cdz_bnf_rope){at, at, CDZ_BNF_ITEM, false};
}

static cdz_bnf_rope join(cdz_bnf_ropes *ropes, cdz_bnf_rope a, cdz_bnf_rope b)
{
    if (!a.first) return b;
    if (!b.first) return a;
    ropes->pieces[a.last].next = b.first;
    return (cdz_bnf_rope){a.first, b.last, CDZ_BNF_SEQUENCE, a.nullable && b.nullable};
}

static cdz_bnf_rope grouped(cdz_bnf_ropes *ropes, cdz_bnf_rope of)
{
    cdz_bnf_rope all = join(ropes, piece(ropes, OPEN, 0, 0), of);
    all = join(ropes, all, piece(ropes, CLOSE, 0, 0));
    all.level = CDZ_BNF_ITEM;
    all.nullable = of.nullable;
    return all;
}

cdz_bnf_rope cdz_bnf_rope_set(cdz_bnf_ropes *ropes, const cdz_code_span *at, uint32_t n)
{
    const uint32_t from = ropes->n_spans;
    if (n == 1 && at->lo == at->hi) {
        cdz_bnf_rope one = piece(ropes, CODE, at->lo, 0);
        one.level = CDZ_BNF_SEQUENCE;
        return one;
    }
    if (!cdz_grow(&ropes->spans, &ropes->spans_cap, (size_t)from + n, sizeof *ropes->spans)) {
        ropes->failed = true;
        return cdz_bnf_rope_nothing;
    }
    memcpy(ropes->spans + from, at, n * sizeof *at);
    ropes->n_spans += n;
    return piece(ropes, SET, from, n);
}

cdz_bnf_rope cdz_bnf_rope_name(cdz_bnf_ropes *ropes, uint32_t rule, uint32_t part, bool nullable)
{
    cdz_bnf_rope name = piece(ropes, NAME, rule, part);
    name.nullable = nullable;
    return name;
}

uint32_t cdz_bnf_rope_named(const cdz_bnf_ropes *ropes, uint32_t i)
{
    return i && ropes->pieces[i].kind == NAME ? ropes->pieces[i].a : UINT32_MAX;
}

cdz_bnf_rope cdz_bnf_rope_then(cdz_bnf_ropes *ropes, cdz_bnf_rope a, cdz_bnf_rope b)
{
    if (!a.first) return b;
    if (!b.first) return a;
    if (a.level == CDZ_BNF_CHOICE) a = grouped(ropes, a);
    if (b.level == CDZ_BNF_CHOICE) b = grouped(ropes, b);
    return join(ropes, a, b);
}

cdz_bnf_rope cdz_bnf_rope_or(cdz_bnf_ropes *ropes, cdz_bnf_rope a, cdz_bnf_rope b)
{
    if (!a.first || !b.first) {
        const cdz_bnf_rope some = a.first ? a : b;
        return some.nullable ? some : cdz_bnf_rope_repeat(ropes, some, 0, 1);
    }
    cdz_bnf_rope all = join(ropes, join(ropes, a, piece(ropes, OR, 0, 0)), b);
    all.level = CDZ_BNF_CHOICE;
    all.nullable = a.nullable || b.nullable;
    return all;
}

cdz_bnf_rope cdz_bnf_rope_repeat(cdz_bnf_ropes *ropes, cdz_bnf_rope of, uint32_t min, uint32_t max)
{
    if (!of.first || !max) return cdz_bnf_rope_nothing;
    if (min == 1 && max == 1) return of;
    if (of.first == of.last && ropes->pieces[of.first].kind == CODE) {
        const cdz_code_span one = {ropes->pieces[of.first].a, ropes->pieces[of.first].a};
        const cdz_code_span twice[] = {one,
                                       one}; /* a class, which a text beside it does not swallow */
        of = cdz_bnf_rope_set(ropes, twice, 2);
    }
    if (of.level != CDZ_BNF_ITEM) of = grouped(ropes, of);
    cdz_bnf_rope all = join(ropes, of, piece(ropes, REPEAT, min, max));
    all.level = CDZ_BNF_REPEATED;
    all.nullable = of.nullable || !min;
    return all;
}

/* --- writing ---------------------------------------------------------------------------------------- */

static void put_code(cdz_buf *out, uint32_t code, bool class)
{
    char bytes[4];
    if (code == '\n')
        cdz_buf_puts(out, "\\n");
    else if (code == '\r')
        cdz_buf_puts(out, "\\r");
    else if (code == '\t')
        cdz_buf_puts(out, "\\t");
    else if (code == '\\' || (!class && code == '"'))
        cdz_buf_printf(out, "\\%c", (char)code);
    else if (class && (code == ']' || code == '['))
        cdz_buf_printf(out, "\\%c", (char)code);
    else if (code < 32 || code == 127 || (class && (code == '-' || code == '^')))
        cdz_buf_printf(out, "\\x%02X", code);
    else if (code < 127)
        cdz_buf_putc(out, (char)code);
    else if ((code >= 0xA1 && code < 0x2000) || (code >= 0x3041 && code < 0xD7A4))
        cdz_buf_add(out, bytes, cdz_utf8_encode(code, bytes));
    else
        cdz_buf_printf(out, code > 0xFFFF ? "\\U%08X" : "\\u%04X", code);
}

/* The ranges, or where that is shorter what they leave out. */
static void put_set(cdz_buf *out, const cdz_code_span *at, uint32_t n)
{
    const bool but = n > 1 && at[0].lo == 0 && at[n - 1].hi == CDZ_CODE_MAX;
    const uint32_t count = but ? n - 1 : n;
    if (n == 1 && at->lo == 0 && at->hi == CDZ_CODE_MAX) {
        cdz_buf_putc(out, '.');
        return;
    }
    cdz_buf_puts(out, but ? "[^" : "[");
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t lo = but ? at[i].hi + 1 : at[i].lo, hi = but ? at[i + 1].lo - 1 : at[i].hi;
        if (i && at[i].lo == at[i - 1].lo) continue; /* one character as a class */
        put_code(out, lo, true);
        if (hi > lo + 1) cdz_buf_putc(out, '-');
        if (hi > lo) put_code(out, hi, true);
    }
    cdz_buf_putc(out, ']');
}

static void put_repeat(cdz_buf *out, uint32_t min, uint32_t max)
{
    if (min <= 1 && max == UINT32_MAX)
        cdz_buf_putc(out, min ? '+' : '*');
    else if (!min && max == 1)
        cdz_buf_putc(out, '?');
    else if (max == UINT32_MAX)
        cdz_buf_printf(out, "{%u,}", min);
    else if (max == min)
        cdz_buf_printf(out, "{%u}", min);
    else
        cdz_buf_printf(out, "{%u,%u}", min, max);
}

/* A choice may go on in the next line. */
static void put_or(cdz_buf *out, size_t *line)
{
    cdz_buf_puts(out, " |");
    if (out->len - *line < LINE) return;
    *line = out->len + 1;
    cdz_buf_puts(out, "\n   ");
}

void cdz_bnf_rope_write(const cdz_bnf_ropes *ropes, cdz_bnf_rope rope,
                        cdz_bnf_write_name *write_name, void *user, cdz_buf *out)
{
    uint32_t before = OPEN;
    size_t line = out->len;
    if (!rope.first) cdz_buf_puts(out, "\"\"");
    for (uint32_t i = rope.first; i; i = i == rope.last ? 0 : ropes->pieces[i].next) {
        const cdz_bnf_piece *p = &ropes->pieces[i];
        const bool apart = before != OPEN && p->kind != CLOSE && p->kind != REPEAT && p->kind != OR;
        if (before == CODE && p->kind != CODE) cdz_buf_putc(out, '"');
        if (apart && !(before == CODE && p->kind == CODE)) cdz_buf_putc(out, ' ');
        if (p->kind == CODE && before != CODE) cdz_buf_putc(out, '"');
        switch (p->kind) {
        case CODE: put_code(out, p->a, false); break;
        case SET: put_set(out, ropes->spans + p->a, p->b); break;
        case NAME: write_name(user, p->a, p->b, out); break;
        case REPEAT: put_repeat(out, p->a, p->b); break;
        case OPEN: cdz_buf_putc(out, '('); break;
        case CLOSE: cdz_buf_putc(out, ')'); break;
        default: put_or(out, &line);
        }
        before = p->kind;
    }
    if (before == CODE) cdz_buf_putc(out, '"');
}
