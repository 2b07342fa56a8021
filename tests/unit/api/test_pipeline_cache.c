/* test_pipeline_cache.c - pipelines by their texts: found again, the longest unused let go when there is no room, and never one that
 * somebody still holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "support/must.h"
#include "support/opened.h"

enum { ROOM = 3 };

typedef struct shelf {
    cdz_runtime *rt;
    cdz_pipeline_cache cache;
    unsigned n_gone;
} shelf;

static void count_gone(void *user, cdz_pipeline *pipeline)
{
    ++*(unsigned *)user;
    cdz_pipeline_free(pipeline);
}

static void open_shelf(shelf *s)
{
    *s = (shelf){.rt = opened_runtime(NULL)};
    cdz_pipeline_cache_open(&s->cache, ROOM * (CDZ_PIPELINE_WEIGHT + 1), count_gone, &s->n_gone);
}

static void close_shelf(shelf *s)
{
    cdz_pipeline_cache_close(&s->cache);
    cdz_pipeline_cache_close(&s->cache); /* again: nothing */
    cdz_close(s->rt);
}

/* Keeps one of this name and lets go of it. */
static void keep(shelf *s, const char *name)
{
    cdz_pipeline *pipeline = opened_pipeline(s->rt, "[generation]\nmax_new_tokens = 3\n");
    cdz_pipeline_cache_keep(&s->cache, name, strlen(name), pipeline);
    cdz_pipeline_free(pipeline);
}

static bool has(shelf *s, const char *name)
{
    cdz_pipeline *found = cdz_pipeline_cache_find(&s->cache, name, strlen(name));
    cdz_pipeline_free(found);
    return found;
}

static void the_longest_unused_goes(void **state)
{
    shelf s;
    (void)state;
    open_shelf(&s);
    assert_false(has(&s, "a"));
    for (const char *name = "abc"; *name; name++) keep(&s, (char[]){*name, '\0'});
    assert_int_equal(s.n_gone, 0);
    assert_true(has(&s, "a"));
    keep(&s, "d");
    assert_int_equal(s.n_gone, 1);
    assert_true(has(&s, "a") && !has(&s, "b") && has(&s, "c") && has(&s, "d"));
    keep(&s, "a"); /* there already: nothing */
    assert_int_equal(s.n_gone, 1);
    keep(&s, "ab"); /* a byte too long for three */
    assert_int_equal(s.n_gone, 3);
    assert_true(has(&s, "ab") && has(&s, "a") && !has(&s, "c"));
    close_shelf(&s);
    assert_int_equal(s.n_gone, 5);
}

static void one_that_is_held_stays(void **state)
{
    shelf s;
    (void)state;
    open_shelf(&s);
    keep(&s, "a");
    cdz_pipeline *held = cdz_pipeline_cache_find(&s.cache, "a", 1);
    for (const char *name = "bcd"; *name; name++) keep(&s, (char[]){*name, '\0'});
    assert_false(has(&s, "a"));
    assert_non_null(cdz_pipeline_name(held));
    cdz_pipeline_free(held);
    close_shelf(&s);
}

/* --- of documents ---------------------------------------------------------------------------------------------------- */

static cdz_pipeline *of(cdz_runtime *rt, const char *text, bool alone)
{
    cdz_arena arena = {0};
    cdz_json object;
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    must(cdz_json_parse(text, strlen(text), "test", NULL, &arena, &object, &err), &err);
    must((alone ? cdz_pipeline_of_object_alone : cdz_pipeline_of_object)(rt, &object, &pipeline,
                                                                         &err),
         &err);
    cdz_arena_free(&arena);
    return pipeline;
}

/* Values are the request's own: what is shared is what the pipeline is made of. */
static void documents_share(void **state)
{
    static const char calm[] =
        "{\"pipeline\": {\"processors\": [\"calm\"]}, \"calm\": {\"id\": \"dry\", \"multiplier\": 1}}";
    static const char warm[] =
        "{\"pipeline\": {\"processors\": \"calm\"}, \"calm\": {\"id\": \"dry\", \"multiplier\": 2}, "
        "\"generation\": {\"max_new_tokens\": 9}}";
    static const char other[] =
        "{\"pipeline\": {\"processors\": \"calm\"}, \"calm\": {\"id\": \"top_n_sigma\"}}";
    (void)state;
    cdz_runtime *rt = opened_runtime(NULL);
    cdz_pipeline *a = of(rt, calm, false), *b = of(rt, warm, false), *c = of(rt, other, false),
                 *d = of(rt, calm, true);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_ptr_not_equal(a, d);
    cdz_pipeline_free(a);
    cdz_pipeline_free(b);
    cdz_pipeline_free(c);
    cdz_pipeline_free(d);
    cdz_close(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_unused_goes),
        cmocka_unit_test(one_that_is_held_stays),
        cmocka_unit_test(documents_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
