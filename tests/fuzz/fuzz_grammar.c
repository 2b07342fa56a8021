/* fuzz_grammar.c - constraints against the definition.
 *
 * The first byte says what the rest is. Of 0: bytes that draw an expression over a, b and c, which is written as a regular
 * expression, GBNF, Lark, a schema's pattern and what separates its items; every text of at most five letters is asked of
 * each, and of a matcher that goes through the expression as it stands: viable, accepted, and the tokens of a small
 * vocabulary that may come next. Of anything else: a constraint of that kind, read or refused in words; what it allows is
 * what keeps a walk alive. */
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"
#include "grammar/grammar.h"

/* --- a small vocabulary ----------------------------------------------------------------------------------------------- */

static const char *const tokens[] = {"a",        "b",        "c",    "ab",   "ba",   "aab",
                                     "bcc",      "",         "a",    "cc",   "abc",  "\"",
                                     "{",        "}",        ":",    ",",    " ",    "\n\n",
                                     "0",        "12",       "-1.",  "\xC3", "\xA9", "\\",
                                     "true",     "\",\"",    "\":",  "x",    "[]",   "a\"}",
                                     "\xC3\xA9", "\xF0\x9F", "null", "\\n",  "e",    "}}"};
enum { N_TOKENS = sizeof tokens / sizeof *tokens };

static const cdz_grammar_vocab *vocabulary(void)
{
    static cdz_grammar_vocab *vocab;
    uint32_t lens[N_TOKENS];
    for (uint32_t i = 0; i < N_TOKENS; i++) lens[i] = (uint32_t)strlen(tokens[i]);
    if (!vocab)
        FUZZ_CHECK(cdz_grammar_vocab_of(tokens, lens, N_TOKENS, NULL, 0, &vocab, NULL) == CDZ_OK);
    return vocab;
}

static bool has(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

/* --- expressions ------------------------------------------------------------------------------------------------------- */

typedef enum kind { LETTERS, THEN, OR, REPEAT } kind;

typedef struct expression {
    kind kind;
    unsigned letters; /* bits of a, b, c */
    unsigned min, max;
    int left, right;
} expression;

enum { MOST = 12, LETTERS_LONG = 5, PLACES = 9 }; /* behind a token, too */

typedef struct drawing {
    const uint8_t *at;
    size_t len;
    expression e[MOST];
    int n;
} drawing;

static unsigned draw(drawing *d, unsigned n)
{
    if (!d->len) return 0;
    d->len--;
    return *d->at++ % n;
}

static int draw_expression(drawing *d, int depth)
{
    const int i = d->n++;
    expression *e = &d->e[i];
    *e = (expression){.kind = depth && d->n + 2 < MOST ? (kind)draw(d, 4) : LETTERS};
    if (e->kind == LETTERS) e->letters = 1 + draw(d, 7);
    if (e->kind == REPEAT) {
        e->min = draw(d, 4);
        e->max = e->min + draw(d, 4);
        if (e->max == e->min + 3) e->max = 99; /* no end */
        if (!e->max) e->max = 1;
    }
    if (e->kind != LETTERS) e->left = draw_expression(d, depth - 1);
    if (e->kind == THEN || e->kind == OR)
        e->right = d->n < MOST ? draw_expression(d, depth - 1) : e->left;
    return i;
}

/* A text, and what is known of where expressions lead in it. */
typedef struct matching {
    const drawing *d;
    const char *text;
    size_t len;
    bool open; /* some place is in the middle */
    unsigned to[MOST][PLACES];
    bool known[MOST][PLACES];
} matching;

static unsigned match(matching *m, int i, unsigned from);

static unsigned match_from(matching *m, const expression *e, unsigned from)
{
    unsigned to = 0, now = from;
    switch (e->kind) {
    case LETTERS:
        m->open |= from >> m->len & 1;
        for (size_t k = 0; k < m->len; k++)
            if ((from >> k & 1) && (e->letters >> (m->text[k] - 'a') & 1)) to |= 2u << k;
        return to;
    case THEN: return match(m, e->right, match(m, e->left, from));
    case OR: return match(m, e->left, from) | match(m, e->right, from);
    default:
        /* Past the length of the text nothing new comes. */
        for (unsigned n = 0; n <= e->max && n <= e->min + m->len + 1; n++) {
            if (n >= e->min) to |= now;
            if (n < e->max) now = match(m, e->left, now);
        }
        return to;
    }
}

/* The places that a text may have come to, as bits, from places before: each is followed once. */
static unsigned match(matching *m, int i, unsigned from)
{
    unsigned to = 0;
    for (unsigned k = 0; from >> k; k++) {
        if (!(from >> k & 1)) continue;
        if (!m->known[i][k]) m->to[i][k] = match_from(m, &m->d->e[i], 1u << k);
        m->known[i][k] = true;
        to |= m->to[i][k];
    }
    return to;
}

/* Whether a text is a whole member; *open: whether it is the beginning of a longer one. */
static bool is_member(const drawing *d, const char *text, size_t len, bool *open)
{
    matching m = {.d = d, .text = text, .len = len};
    const bool whole = match(&m, 0, 1) >> len & 1;
    *open = m.open;
    return whole;
}

/* As a regular expression and in Lark's and GBNF's quotes. */
static void write_expression(const drawing *d, int i, bool regex, cdz_buf *out)
{
    const expression *e = &d->e[i];
    if (e->kind == LETTERS && regex) {
        cdz_buf_putc(out, '[');
        for (unsigned k = 0; k < 3; k++)
            if (e->letters >> k & 1) cdz_buf_putc(out, (char)('a' + (int)k));
        cdz_buf_putc(out, ']');
        return;
    }
    cdz_buf_puts(out, regex ? "(?:" : "(");
    if (e->kind == LETTERS) {
        bool first = true;
        for (unsigned k = 0; k < 3; k++) {
            if (!(e->letters >> k & 1)) continue;
            cdz_buf_printf(out, "%s\"%c\"", first ? "" : " | ", (char)('a' + (int)k));
            first = false;
        }
    } else {
        write_expression(d, e->left, regex, out);
        if (e->kind == OR) cdz_buf_putc(out, '|');
        if (e->kind == THEN) cdz_buf_putc(out, regex ? '(' : ' ');
        if (e->kind == THEN && regex) cdz_buf_puts(out, "?:");
        if (e->kind != REPEAT) write_expression(d, e->right, regex, out);
        if (e->kind == THEN && regex) cdz_buf_putc(out, ')');
    }
    cdz_buf_putc(out, ')');
    if (e->kind == REPEAT && e->max == 99) cdz_buf_printf(out, "{%u,}", e->min);
    if (e->kind == REPEAT && e->max < 99) cdz_buf_printf(out, "{%u,%u}", e->min, e->max);
}

/* --- asking ---------------------------------------------------------------------------------------------------------------- */

typedef struct question {
    const drawing *d;
    cdz_grammar *g;
    const char *before,
        *after; /* what the text stands in: a string, a list; empty: it is the whole */
} question;

/* 0: dead; 1: viable; 2: accepted, and perhaps viable. */
static void ask(const question *q, const char *text, size_t len)
{
    bool open;
    const bool inside = q->before[0];
    const bool whole = is_member(q->d, text, len, &open);
    uint32_t state = cdz_grammar_feed(q->g, cdz_grammar_start(q->g), q->before, strlen(q->before));
    state = cdz_grammar_feed(q->g, state, text, len);
    FUZZ_CHECK((state != 0) == (open || whole));
    FUZZ_CHECK((state && cdz_grammar_accepts(q->g, state)) == (whole && !inside));
    if (inside)
        FUZZ_CHECK((cdz_grammar_feed(q->g, state, q->after, strlen(q->after)) != 0) == whole);
    const uint64_t *mask;
    if (!state) return;
    FUZZ_CHECK(cdz_grammar_allowed(q->g, vocabulary(), state, &mask, NULL) == CDZ_OK);
    for (uint32_t id = 0; id < 11; id++) { /* those of the letters alone */
        char longer[16];
        const size_t n = strlen(tokens[id]);
        memcpy(longer, text, len);
        memcpy(longer + len, tokens[id], n);
        const bool then = is_member(q->d, longer, len + n, &open);
        FUZZ_CHECK(has(mask, id) == (n && (open || then)));
    }
}

static void ask_all(const question *q)
{
    char text[LETTERS_LONG];
    for (size_t len = 0, many = 1; len <= LETTERS_LONG; len++, many *= 3)
        for (size_t i = 0; i < many; i++) {
            size_t rest = i;
            for (size_t k = 0; k < len; k++, rest /= 3) text[k] = (char)('a' + (int)(rest % 3));
            ask(q, text, len);
        }
}

static void compare(const drawing *d)
{
    static const char *const around[][4] = {
        {"", "", "", ""},
        {"root ::= ", "\n", "", ""},
        {"start: ", "\n", "", ""},
        {"{\"type\":\"string\",\"pattern\":\"^", "$\"}", "\"", "\""},
        {"{\"const\":[0,0],\"x-guidance\":{\"whitespace_flexible\":false,\"item_separator\":\"",
         "\"}}", "[0", "0]"}};
    for (int form = 0; form < 5; form++) {
        cdz_buf text = {0};
        cdz_error err = {0};
        question q = {.d = d, .before = around[form][2], .after = around[form][3]};
        cdz_buf_puts(&text, around[form][0]);
        write_expression(d, 0, form == 0 || form >= 3, &text);
        cdz_buf_puts(&text, around[form][1]);
        FUZZ_CHECK(!text.failed);
        const cdz_status st =
            form == 0   ? cdz_grammar_from_regex(text.data, text.len, NULL, &q.g, &err)
            : form == 1 ? cdz_grammar_from_gbnf(text.data, text.len, NULL, &q.g, &err)
            : form == 2 ? cdz_grammar_from_lark(text.data, text.len, NULL, &q.g, &err)
                        : cdz_grammar_from_schema(text.data, text.len, NULL, &q.g, &err);
        if (st != CDZ_OK) fprintf(stderr, "%s: %s\n", text.data, err.text);
        FUZZ_CHECK(st == CDZ_OK);
        ask_all(&q);
        cdz_grammar_free(q.g);
        cdz_buf_free(&text);
    }
}

/* --- any text -------------------------------------------------------------------------------------------------------------- */

static cdz_status compile(unsigned which, const char *text, size_t len, cdz_grammar **g,
                          cdz_error *err)
{
    const cdz_grammar_options options = {.limits = {.max_states = 20000, .max_ms = 2000}};
    switch (which) {
    case 0: return cdz_grammar_from_regex(text, len, &options, g, err);
    case 1: return cdz_grammar_from_gbnf(text, len, &options, g, err);
    case 2: return cdz_grammar_from_lark(text, len, &options, g, err);
    default: return cdz_grammar_from_schema(text, len, &options, g, err);
    }
}

static void walk(cdz_grammar *g)
{
    uint32_t state = cdz_grammar_start(g);
    uint64_t seed = 1;
    const uint64_t *mask;
    for (uint32_t n = 0; n < 12 && state; n++) {
        uint32_t next = 0;
        if (cdz_grammar_allowed(g, vocabulary(), state, &mask, NULL) != CDZ_OK)
            return; /* a limit */
        for (uint32_t id = 0; id < N_TOKENS; id++) {
            const uint32_t to =
                tokens[id][0] ? cdz_grammar_feed(g, state, tokens[id], strlen(tokens[id])) : 0;
            FUZZ_CHECK(has(mask, id) == (to != 0));
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (to && (!next || seed >> 62 == 0)) next = to;
        }
        state = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    if (!size || size > 4096) return 0;
    if (data[0] % 5 == 0) {
        drawing d = {.at = data + 1, .len = size - 1};
        draw_expression(&d, 4);
        compare(&d);
        return 0;
    }
    char *text = malloc(size);
    FUZZ_CHECK(text);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (compile(data[0] % 5 - 1u, text, size - 1, &g, &err) != CDZ_OK)
        FUZZ_CHECK(err.text[0]);
    else
        walk(g);
    free(text);
    cdz_grammar_free(g);
    return 0;
}
