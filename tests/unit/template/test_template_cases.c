/* test_template_cases.c - real chat templates on recorded conversations. The templates are other people's work and not
 * part of the project: the cases run where they lie beside it, and are skipped where they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "template/chat.h"

#define FOLDER CADENZA_SOURCE_DIR "/../shared/templates"

enum { MAX_SPANS = 64 };

typedef struct bench {
    cdz_arena arena;
    cdz_json cases;
    cdz_chat_template *chat;
    const char *chat_name; /* of chat */
    cdz_template_span spans[MAX_SPANS];
    unsigned run, failed;
} bench;

static const cdz_json *conversation(const bench *b, const cdz_json *name)
{
    const cdz_json *all = cdz_json_get(&b->cases, "conversations");
    for (uint32_t i = 0; i < all->len; i++)
        if (cdz_json_eq(cdz_json_get(&all->items[i], "name"), name->string)) return &all->items[i];
    return NULL;
}

/* kwargs with the messages among them. */
static cdz_json context_of(cdz_arena *arena, const cdz_json *talk)
{
    const cdz_json *kwargs = cdz_json_get(talk, "kwargs");
    const uint32_t n = kwargs ? kwargs->len : 0;
    cdz_json_member *at = cdz_arena_array(arena, n + 1u, sizeof *at);
    assert_non_null(at);
    if (n) memcpy(at, kwargs->members, n * sizeof *at);
    at[n] =
        (cdz_json_member){.key = "messages", .key_len = 8, .value = *cdz_json_get(talk, "messages")};
    return (cdz_json){.type = CDZ_JSON_OBJECT, .len = n + 1, .members = at};
}

static bool same_spans(const cdz_json *expected, const cdz_template_options *options)
{
    if (!expected) return true;
    if (expected->len != options->n_spans) return false;
    for (uint32_t i = 0; i < expected->len; i++) {
        const cdz_json *span = &expected->items[i];
        if ((size_t)span->items[0].integer != options->span[i].begin ||
            (size_t)span->items[1].integer != options->span[i].end)
            return false;
    }
    return true;
}

static const char *differs(bench *b, const cdz_json *c, cdz_buf *out, cdz_error *err)
{
    const cdz_json *rendered = cdz_json_get(c, "rendered");
    cdz_template_options options = {.clock = cdz_json_get(&b->cases, "clock")->string,
                                    .span = b->spans,
                                    .spans_cap = MAX_SPANS};
    const cdz_json context = context_of(&b->arena, conversation(b, cdz_json_get(c, "conversation")));
    const cdz_status status = cdz_chat_template_render(b->chat, &context, &options, out, err);
    if (!rendered && status == CDZ_OK) return "it did not fail";
    if (!rendered && cdz_json_eq(cdz_json_get(c, "error"), "TemplateError") &&
        !cdz_json_eq(cdz_json_get(c, "message"), err->text))
        return "the message differs";
    if (!rendered) return NULL;
    if (status != CDZ_OK) return err->text;
    if (out->len != rendered->len ||
        (out->len && memcmp(out->data, rendered->string, out->len) != 0))
        return "the text differs";
    return same_spans(cdz_json_get(c, "generation_spans"), &options) ? NULL : "spans differ";
}

static void run_case(bench *b, const cdz_json *c)
{
    const char *name = cdz_json_get(c, "template")->string;
    char path[512];
    cdz_error err = {0};
    cdz_buf out = {0};
    if (!b->chat_name || strcmp(b->chat_name, name) != 0) {
        cdz_chat_template_free(b->chat);
        b->chat_name = name;
        snprintf(path, sizeof path, "%s/%s%s", FOLDER, name, strstr(name, ".jinja") ? "" : ".jinja");
        if (cdz_chat_template_open(path, &b->chat, &err) != CDZ_OK) fail_msg("%s", err.text);
    }
    const char *why = differs(b, c, &out, &err);
    b->run++;
    if (why) {
        b->failed++;
        print_message("%s, %s: %s\n", name, cdz_json_get(c, "conversation")->string, why);
    }
    cdz_buf_free(&out);
}

static void recorded_cases(void **state)
{
    (void)state;
    bench b = {0};
    cdz_error err = {0};
    if (access(FOLDER "/cases.json", R_OK) != 0) {
        print_message("skipped: %s is not here\n", FOLDER);
        skip();
    }
    if (cdz_json_read_file(FOLDER "/cases.json", 0, NULL, &b.arena, &b.cases, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    const cdz_json *cases = cdz_json_get(&b.cases, "cases");
    for (uint32_t i = 0; i < cases->len; i++) run_case(&b, &cases->items[i]);
    print_message("%u recorded conversations, %u differ\n", b.run, b.failed);
    assert_int_equal(b.failed, 0);
    assert_int_equal(b.run, cases->len);
    cdz_chat_template_free(b.chat);
    cdz_arena_free(&b.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
