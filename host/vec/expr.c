/* expr.c - reads a formula into steps. Grammar and limits: expr.h. Thread: [any]. */
#include "vec/expr.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    cdz_expr *e;
    const char *text;
    size_t len, at;
    uint32_t depth;
    cdz_error *err;
} reader;

typedef cdz_expr_operand operand;

static const struct function {
    const char *name;
    uint8_t op, n_operands;
} functions[] = {
    {"abs", CDZ_EXPR_ABS, 1},     {"clamp", CDZ_EXPR_CLAMP, 3}, {"exp", CDZ_EXPR_EXP, 1},
    {"floor", CDZ_EXPR_FLOOR, 1}, {"log", CDZ_EXPR_LOG, 1},     {"max", CDZ_EXPR_MAX, 2},
    {"min", CDZ_EXPR_MIN, 2},     {"pow", CDZ_EXPR_POW, 2},     {"sqrt", CDZ_EXPR_SQRT, 1},
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

static const char *const reserved[] = {"x", "inf", "nan", "and", "or", "not"};
enum { N_RESERVED = sizeof reserved / sizeof reserved[0] };

/* --- characters ------------------------------------------------------------------------------------------------ */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const reader *r, size_t ahead)
{
    return r->at + ahead < r->len ? r->text[r->at + ahead] : '\0';
}

static void skip_space(reader *r)
{
    while (r->at < r->len && (peek(r, 0) == ' ' || peek(r, 0) == '\t' || peek(r, 0) == '\n'))
        r->at++;
}

static size_t word_len(const reader *r)
{
    size_t n = 0;

    if (!is_letter(peek(r, 0))) return 0;
    while (is_letter(peek(r, n)) || is_digit(peek(r, n))) n++;
    return n;
}

/* What stands here, for sentences. */
static cdz_status unexpected(reader *r, const char *expected)
{
    const size_t word = word_len(r);
    const size_t n = word > 0 ? word : r->at < r->len;

    if (n == 0)
        return cdz_err(r->err, CDZ_E_INPUT, "column %zu: expected %s, found the end", r->at + 1,
                       expected);
    return cdz_err(r->err, CDZ_E_INPUT, "column %zu: expected %s, found '%.*s'", r->at + 1,
                   expected, (int)(n < 40 ? n : 40), r->text + r->at);
}

/* Takes the sign or the word if it stands here. */
static bool take(reader *r, const char *what)
{
    const size_t n = strlen(what);

    skip_space(r);
    if (r->len - r->at < n || memcmp(r->text + r->at, what, n) != 0) return false;
    if (is_letter(what[0]) && word_len(r) != n) return false;
    r->at += n;
    return true;
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

static uint32_t cost_of(uint8_t op)
{
    switch (op) {
    case CDZ_EXPR_POW: return 16;
    case CDZ_EXPR_EXP:
    case CDZ_EXPR_LOG: return 4;
    default: return 1;
    }
}

static cdz_status add_step(reader *r, uint8_t op, operand a, operand b, operand c, operand *out)
{
    cdz_expr *e = r->e;

    if (e->n_steps == CDZ_EXPR_STEPS)
        return cdz_err(r->err, CDZ_E_LIMIT, "column %zu: more than %d operations", r->at + 1,
                       CDZ_EXPR_STEPS);
    e->steps[e->n_steps] = (cdz_expr_step){op, {a, b, c}};
    e->cost += cost_of(op);
    *out = (operand){CDZ_EXPR_STEP, (uint8_t)e->n_steps++};
    return CDZ_OK;
}

static cdz_status add_number(reader *r, float number, operand *out)
{
    cdz_expr *e = r->e;

    if (e->n_numbers == CDZ_EXPR_NUMBERS)
        return cdz_err(r->err, CDZ_E_LIMIT, "column %zu: more than %d numbers", r->at + 1,
                       CDZ_EXPR_NUMBERS);
    e->numbers[e->n_numbers] = number;
    *out = (operand){CDZ_EXPR_NUMBER, (uint8_t)e->n_numbers++};
    return CDZ_OK;
}

/* --- the grammar, from the tightest up ---------------------------------------------------------------------------- */

static cdz_status formula(reader *r, operand *out);

/* In every locale with a point. NaN when it is not a number to its end. */
static double real_of(const char *text)
{
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *end = NULL;

    if (!c_locale) return NAN;
    const double value = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    return *end ? NAN : value;
}

static cdz_status number(reader *r, operand *out)
{
    const size_t start = r->at;
    char text[64];

    while (is_digit(peek(r, 0)) || peek(r, 0) == '.') r->at++;
    if ((peek(r, 0) | 32) == 'e') {
        r->at++;
        if (peek(r, 0) == '+' || peek(r, 0) == '-') r->at++;
        while (is_digit(peek(r, 0))) r->at++;
    }
    const size_t n = r->at - start;
    if (n < sizeof text) {
        memcpy(text, r->text + start, n);
        text[n] = '\0';
        const double value = real_of(text);
        if (!isnan(value)) return add_number(r, (float)value, out);
    }
    r->at = start;
    return cdz_err(r->err, CDZ_E_INPUT, "column %zu: this is no number", start + 1);
}

static cdz_status unknown_name(reader *r, size_t n)
{
    const char *known[N_FUNCTIONS + N_RESERVED + CDZ_EXPR_NAMES];
    char word[64];
    size_t k = 0;

    for (size_t i = 0; i < N_FUNCTIONS; i++) known[k++] = functions[i].name;
    for (size_t i = 0; i < N_RESERVED; i++) known[k++] = reserved[i];
    for (size_t i = 0; i < r->e->n_names; i++) known[k++] = r->e->names[i];
    if (n >= sizeof word) n = sizeof word - 1;
    memcpy(word, r->text + r->at, n);
    word[n] = '\0';
    const char *near = cdz_nearest_name(word, known, k);
    return cdz_err(r->err, CDZ_E_INPUT, "column %zu: unknown name '%s'%s%s%s", r->at + 1, word,
                   near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* function(operands); f's name stands here. */
static cdz_status call(reader *r, const struct function *f, operand *out)
{
    operand o[3] = {{0}};

    r->at += strlen(f->name);
    if (!take(r, "(")) return unexpected(r, "'('");
    for (uint8_t i = 0; i < f->n_operands; i++) {
        if (i > 0 && !take(r, ",")) return unexpected(r, "','");
        CDZ_TRY(formula(r, &o[i]));
    }
    if (!take(r, ")")) return unexpected(r, "')'");
    return add_step(r, f->op, o[0], o[1], o[2], out);
}

static bool is_word(const reader *r, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(r->text + r->at, word, n) == 0;
}

static cdz_status name(reader *r, size_t n, operand *out)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        if (is_word(r, n, functions[i].name)) return call(r, &functions[i], out);
    for (size_t i = 0; i < r->e->n_names; i++)
        if (is_word(r, n, r->e->names[i])) {
            r->at += n;
            *out = (operand){CDZ_EXPR_ARG, (uint8_t)i};
            return CDZ_OK;
        }
    const bool inf = is_word(r, n, "inf"), nan = is_word(r, n, "nan"), x = is_word(r, n, "x");
    if (!inf && !nan && !x) return unknown_name(r, n);
    r->at += n;
    *out = (operand){CDZ_EXPR_X, 0};
    return x ? CDZ_OK : add_number(r, inf ? INFINITY : NAN, out);
}

static cdz_status atom(reader *r, operand *out)
{
    skip_space(r);
    if (is_digit(peek(r, 0)) || (peek(r, 0) == '.' && is_digit(peek(r, 1)))) return number(r, out);
    if (word_len(r) > 0) return name(r, word_len(r), out);
    if (!take(r, "(")) return unexpected(r, "a number, a name or '('");
    CDZ_TRY(formula(r, out));
    return take(r, ")") ? CDZ_OK : unexpected(r, "')'");
}

static cdz_status sign(reader *r, operand *out);

static cdz_status power(reader *r, operand *out)
{
    operand a, b;

    CDZ_TRY(atom(r, &a));
    if (!take(r, "^")) return *out = a, CDZ_OK;
    CDZ_TRY(sign(r, &b));
    return add_step(r, CDZ_EXPR_POW, a, b, (operand){0}, out);
}

static cdz_status deeper(reader *r)
{
    if (++r->depth <= CDZ_EXPR_DEPTH) return CDZ_OK;
    return cdz_err(r->err, CDZ_E_LIMIT, "column %zu: nested more than %d deep", r->at + 1,
                   CDZ_EXPR_DEPTH);
}

static bool starts_not(reader *r)
{
    if (take(r, "not")) return true;
    return peek(r, 0) == '!' && peek(r, 1) != '=' && take(r, "!");
}

static cdz_status sign(reader *r, operand *out)
{
    const bool minus = take(r, "-"), plus = !minus && take(r, "+"),
               negated = !minus && !plus && starts_not(r);
    operand a = {0};

    CDZ_TRY(deeper(r));
    CDZ_TRY(minus || plus || negated ? sign(r, &a) : power(r, &a));
    r->depth--;
    *out = a;
    if (minus && a.from == CDZ_EXPR_NUMBER) {
        r->e->numbers[a.at] = -r->e->numbers[a.at];
        return CDZ_OK;
    }
    if (!minus && !negated) return CDZ_OK;
    return add_step(r, minus ? CDZ_EXPR_NEG : CDZ_EXPR_NOT, a, (operand){0}, (operand){0}, out);
}

/* Operators of one strength, left to right; signs ends with an empty one. */
typedef struct level {
    struct {
        const char *sign;
        uint8_t op;
    } signs[3];
} level;

static cdz_status chain(reader *r, const level *l, cdz_status (*tighter)(reader *, operand *),
                        operand *out)
{
    operand b;

    CDZ_TRY(tighter(r, out));
    for (size_t i = 0; i < 3 && l->signs[i].sign;) {
        if (!take(r, l->signs[i].sign)) {
            i++;
            continue;
        }
        CDZ_TRY(tighter(r, &b));
        CDZ_TRY(add_step(r, l->signs[i].op, *out, b, (operand){0}, out));
        i = 0;
    }
    return CDZ_OK;
}

static cdz_status product(reader *r, operand *out)
{
    static const level l = {{{"*", CDZ_EXPR_MUL}, {"/", CDZ_EXPR_DIV}, {NULL, 0}}};
    return chain(r, &l, sign, out);
}

static cdz_status sum(reader *r, operand *out)
{
    static const level l = {{{"+", CDZ_EXPR_ADD}, {"-", CDZ_EXPR_SUB}, {NULL, 0}}};
    return chain(r, &l, product, out);
}

static cdz_status compare(reader *r, operand *out)
{
    static const struct {
        const char *sign;
        uint8_t op;
        bool swapped;
    } signs[] = {
        {"<=", CDZ_EXPR_LESS_EQUAL, false}, {">=", CDZ_EXPR_LESS_EQUAL, true},
        {"==", CDZ_EXPR_EQUAL, false},      {"!=", CDZ_EXPR_NOT_EQUAL, false},
        {"~=", CDZ_EXPR_NOT_EQUAL, false},  {"<", CDZ_EXPR_LESS, false},
        {">", CDZ_EXPR_LESS, true},
    };
    operand a, b;

    CDZ_TRY(sum(r, &a));
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (!take(r, signs[i].sign)) continue;
        CDZ_TRY(sum(r, &b));
        return add_step(r, signs[i].op, signs[i].swapped ? b : a, signs[i].swapped ? a : b,
                        (operand){0}, out);
    }
    *out = a;
    return CDZ_OK;
}

static cdz_status both(reader *r, operand *out)
{
    static const level l = {{{"and", CDZ_EXPR_AND}, {"&&", CDZ_EXPR_AND}, {NULL, 0}}};
    return chain(r, &l, compare, out);
}

static cdz_status either(reader *r, operand *out)
{
    static const level l = {{{"or", CDZ_EXPR_OR}, {"||", CDZ_EXPR_OR}, {NULL, 0}}};
    return chain(r, &l, both, out);
}

static cdz_status formula(reader *r, operand *out)
{
    operand c, yes, no;

    CDZ_TRY(deeper(r));
    CDZ_TRY(either(r, &c));
    if (take(r, "?")) {
        CDZ_TRY(formula(r, &yes));
        if (!take(r, ":")) return unexpected(r, "':'");
        CDZ_TRY(formula(r, &no));
        CDZ_TRY(add_step(r, CDZ_EXPR_SELECT, c, yes, no, &c));
    }
    r->depth--;
    *out = c;
    return CDZ_OK;
}

/* --- the door ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_expr_add_name(cdz_expr *e, const char *name, cdz_error *err)
{
    const size_t n = strlen(name);
    bool ok = is_letter(name[0]), taken = false;

    for (size_t i = 0; i < n; i++) ok = ok && (is_letter(name[i]) || is_digit(name[i]));
    for (size_t i = 0; i < N_RESERVED; i++) taken = taken || strcmp(name, reserved[i]) == 0;
    for (size_t i = 0; i < N_FUNCTIONS; i++) taken = taken || strcmp(name, functions[i].name) == 0;
    for (size_t i = 0; i < e->n_names; i++) taken = taken || strcmp(name, e->names[i]) == 0;
    if (!ok || n >= CDZ_EXPR_NAME)
        return cdz_err(err, CDZ_E_USAGE,
                       "name '%.40s': expected letters, digits and _, at most %d, a letter first",
                       name, CDZ_EXPR_NAME - 1);
    if (taken) return cdz_err(err, CDZ_E_USAGE, "name '%s' has a meaning already", name);
    if (e->n_names == CDZ_EXPR_NAMES)
        return cdz_err(err, CDZ_E_LIMIT, "more than %d names", CDZ_EXPR_NAMES);
    memcpy(e->names[e->n_names++], name, n + 1);
    return CDZ_OK;
}

cdz_status cdz_expr_read(cdz_expr *e, const char *text, size_t len, cdz_error *err)
{
    reader r = {.e = e, .text = text, .len = len, .err = err};
    operand result;

    if (len > CDZ_EXPR_TEXT)
        return cdz_err(err, CDZ_E_LIMIT, "a formula of %zu bytes; at most %d", len, CDZ_EXPR_TEXT);
    CDZ_TRY(formula(&r, &result));
    skip_space(&r);
    if (r.at < len) return unexpected(&r, "an operator or the end");
    if (result.from == CDZ_EXPR_STEP) return CDZ_OK;
    return add_step(&r, CDZ_EXPR_COPY, result, (operand){0}, (operand){0}, &result);
}

size_t cdz_expr_scratch(const cdz_expr *e)
{
    return (size_t)(1 + e->n_names + e->n_numbers + e->n_steps) * CDZ_EXPR_BLOCK * sizeof(float);
}
