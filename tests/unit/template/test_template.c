/* test_template.c - the template engine on small templates, each against what the reference gave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "template/template.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static cdz_status render_text(const char *text, size_t len, const cdz_json *context, cdz_buf *out,
                              cdz_error *err)
{
    cdz_template *tpl;
    cdz_template_options options = {.clock = "2026-01-15T12:34:56"};
    cdz_status status = cdz_template_compile(text, len, "t", &tpl, err);
    if (status == CDZ_OK) status = cdz_template_render(tpl, context, &options, out, err);
    cdz_template_free(tpl);
    return status;
}

/* NULL: as expected. */
static const char *micro_differs(const cdz_json *c, cdz_buf *out, cdz_error *err)
{
    const cdz_json *text = cdz_json_get(c, "template"), *output = cdz_json_get(c, "output");
    const cdz_json *error = cdz_json_get(c, "error"), *message = cdz_json_get(c, "message");
    cdz_buf_clear(out);
    const cdz_status status =
        render_text(text->string, text->len, cdz_json_get(c, "context"), out, err);
    if (output && status != CDZ_OK) return err->text;
    if (output)
        return out->len == output->len && (!out->len || !memcmp(out->data, output->string, out->len))
                   ? NULL
                   : "the text differs";
    if (status == CDZ_OK) return "it did not fail";
    return cdz_json_eq(error, "TemplateError") && !cdz_json_eq(message, err->text)
               ? "the message differs"
               : NULL;
}

static void micro_cases(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_json cases;
    cdz_error err = {0};
    cdz_buf out = {0};
    unsigned failed = 0;
    if (cdz_json_read_file(CADENZA_TEST_DATA "/templates/micro.json", 0, NULL, &arena, &cases, &err))
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < cases.len; i++) {
        const char *why = micro_differs(&cases.items[i], &out, &err);
        if (!why) continue;
        failed++;
        print_message("%s: %s\n  %s\n  gave:     %.*s\n",
                      cdz_json_get(&cases.items[i], "id")->string, why,
                      cdz_json_get(&cases.items[i], "template")->string, (int)out.len,
                      out.len ? out.data : "");
    }
    print_message("%u micro cases, %u differ\n", cases.len, failed);
    assert_int_equal(failed, 0);
    assert_true(cases.len > 300);
    cdz_buf_free(&out);
    cdz_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(micro_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
