/* test_grammar_memory.c - memory that runs out at any point of compiling a constraint is CDZ_E_NOMEM, never another language,
 * and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/store.h"
#include "support/refused_memory.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    cdz_grammar_kind kind;
    const char *text;
} constraints[] = {
    {CDZ_GRAMMAR_REGEX, "(?i)[a-zé]{2,5}(x|[^\\w])*\\p{L}+$"},
    {CDZ_GRAMMAR_GBNF, "root ::= item (\",\" item){1,30}\nitem ::= [^a-z] | \"x\" root? | \"y\""},
    {CDZ_GRAMMAR_LARK, "start: (TEXT call)* TEXT\nTEXT: ~/(?s:.)*<c>(?s:.)*/\n"
                       "call: \"<c>\" %json {\"enum\": [1, \"a\"]} \"</c>\"\n"},
    {CDZ_GRAMMAR_LARK,
     "start: A (B | C)~2..9\nA: /a+/i\nB: \"b\" A?\nC: \"c\"..\"é\"\n%ignore / +/\n"},
    {CDZ_GRAMMAR_SCHEMA,
     "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"^[a-c]+$\", "
     "\"minLength\": 2, \"maxLength\": 9}, \"b\": {\"type\": \"number\", \"minimum\": -1.5, \"maximum\": 20}, "
     "\"c\": {\"type\": \"array\", \"items\": {\"$ref\": \"#\"}, \"maxItems\": 3}}, "
     "\"patternProperties\": {\"^x\": {\"type\": \"integer\", \"multipleOf\": 3}, \"y$\": true}, \"required\": [\"a\"]}"},
    {CDZ_GRAMMAR_SCHEMA,
     "{\"oneOf\": [{\"const\": {\"k\": [1, null]}}, {\"type\": \"string\", \"format\": \"date\"}]}"},
};

static cdz_status compile(size_t i, cdz_grammar **out, cdz_error *err)
{
    const cdz_string text = {constraints[i].text, (uint32_t)strlen(constraints[i].text)};
    const cdz_grammar_source source = {constraints[i].kind, &text, 1, NULL};
    const cdz_grammar_options options = {.after = i % 2 ? "</t>" : NULL};
    return cdz_grammar_compile(&source, &options, out, err);
}

/* What tells two grammars of a constraint apart: their compiled form. */
static void form_of(cdz_grammar *g, cdz_buf *out)
{
    cdz_grammar_show(g, out);
    assert_false(out->failed);
}

/* Returns whether the compiler met the refusal. */
static bool try_at(size_t i, long n, const cdz_buf *whole, cdz_status expected)
{
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    cdz_buf form = {0};
    const long before = atomic_load(&n_held);
    atomic_store(&n_asked, 0);
    atomic_store(&refused_at, n);
    const cdz_status st = compile(i, &g, &err);
    const bool met = atomic_load(&n_asked) > n;
    atomic_store(&refused_at, -1);
    if (st == CDZ_OK) form_of(g, &form);
    if (met && st != CDZ_E_NOMEM && st != CDZ_OK)
        fail_msg("constraint %zu, request %ld: status %d, %s", i, n, (int)st, err.text);
    if (met && st != CDZ_OK && (err.code != CDZ_E_NOMEM || !strstr(err.text, "memory")))
        fail_msg("constraint %zu, request %ld: \"%s\"", i, n, err.text);
    if (!met && st != expected) fail_msg("constraint %zu: %s", i, err.text);
    /* sorting, and states made ahead, may do without; the first line counts the memory of those */
    if (st == CDZ_OK) assert_string_equal(strchr(form.data, '\n'), strchr(whole->data, '\n'));
    cdz_buf_free(&form);
    cdz_grammar_free(g);
    if (atomic_load(&n_held) != before)
        fail_msg("constraint %zu, request %ld: %ld leak", i, n, atomic_load(&n_held) - before);
    return met;
}

static void a_refused_request_is_told(void **state)
{
    (void)state;
    if (taken) skip();
    for (size_t i = 0; i < COUNT(constraints); i++) {
        cdz_grammar *g = NULL;
        cdz_buf whole = {0};
        const cdz_status st = compile(i, &g, NULL);
        if (st == CDZ_OK) form_of(g, &whole);
        long n = 0;
        while (try_at(i, n, &whole, st)) n++;
        assert_true(n > 20);
        cdz_buf_free(&whole);
        cdz_grammar_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_refused_request_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
