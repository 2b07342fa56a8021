/* test_settings.c - the tables of the host's settings: each row is sound, fills its field and no other, and refuses what it
 * must. That each is where its row says, in the program and on its page, is tests/whole/e2e/settings.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "params/settings.h"

/* --- rows ------------------------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static void rows_are_sound(void **state)
{
    (void)state;
    const cdz_setting *row, *other;
    size_t n = 0;
    for (; (row = cdz_setting_at(n)) != NULL; n++) {
        if (!row->name || !row->flag.help || !*row->flag.help) fail_msg("row %zu is not whole", n);
        if ((row->flag.name != NULL) != (row->group != 0))
            fail_msg("%s: an option belongs to a group, and a group has options", row->name);
        if ((row->kind == CDZ_KIND_WORD) != (row->words != NULL))
            fail_msg("%s: words are of a word", row->name);
        const bool bare = row->kind == CDZ_KIND_SWITCH || row->kind == CDZ_KIND_BIT;
        if (row->flag.name && bare == (row->flag.value != NULL))
            fail_msg("%s: a switch takes no value, all else has a name for it", row->name);
        if (row->group && row->kind != CDZ_KIND_PARAMETER && row->home == CDZ_HOME_NONE)
            fail_msg("%s: what it is set to goes nowhere", row->name);
        if (!row->flag.name && !row->section && !row->env && !row->member && !row->home)
            fail_msg("%s: can be said nowhere", row->name);
        /* The first of its name; a key of a server's model may be called as the option for all models is. */
        if (!same(row->section, "model NAME")) assert_ptr_equal(cdz_setting_named(row->name), row);
        assert_int_equal(cdz_setting_index(row), n);
        for (size_t k = 0; k < n; k++) {
            other = cdz_setting_at(k);
            if (same(row->flag.name, other->flag.name) || same(row->env, other->env) ||
                (row->field && same(row->field, other->field) && row->kind != CDZ_KIND_BIT))
                fail_msg("%s and %s are said alike", row->name, other->name);
        }
    }
    assert_in_range(n, 60, CDZ_MOST_SETTINGS);
}

/* --- taking -------------------------------------------------------------------------------------------------- */

static const char *sample(const cdz_setting *row)
{
    static char word[64];
    switch (row->kind) {
    case CDZ_KIND_SWITCH:
    case CDZ_KIND_BIT: return NULL;
    case CDZ_KIND_COUNT: return "3";
    case CDZ_KIND_BYTES: return "3k";
    case CDZ_KIND_SECONDS: return "1.5";
    case CDZ_KIND_WORD:
        snprintf(word, sizeof word, "%.*s", (int)strcspn(row->words, "|"), row->words);
        return word;
    default: return "text";
    }
}

static const char *bad(const cdz_setting *row)
{
    static char number[32];
    switch (row->kind) {
    case CDZ_KIND_COUNT:
        snprintf(number, sizeof number, "%.0f", row->most + 1);
        return row->most < UINT32_MAX ? number : "-1";
    case CDZ_KIND_BYTES: return "0";
    case CDZ_KIND_SECONDS: return row->least > 0 ? "0" : "-1";
    case CDZ_KIND_WORD: return row->home == CDZ_HOME_PROGRAM ? "zz" : NULL;
    default: return NULL;
    }
}

typedef struct homes {
    cdz_options options;
    cdz_model_options model;
    cdz_request request;
    cdz_program_settings program;
} homes;

static homes homes_of(const cdz_settings *s)
{
    homes h;
    memset(&h, 0, sizeof h);
    h.options = s->options;
    h.model = s->model;
    h.request = s->request;
    h.program = s->program;
    return h;
}

static size_t bytes_of(const cdz_setting *row)
{
    switch (row->kind) {
    case CDZ_KIND_SWITCH: return sizeof(bool);
    case CDZ_KIND_BIT:
    case CDZ_KIND_COUNT: return sizeof(uint32_t);
    case CDZ_KIND_BYTES: return sizeof(uint64_t);
    case CDZ_KIND_SECONDS: return sizeof(double);
    default: return sizeof(const char *);
    }
}

/* Is anything set beside the row's field, and its count? */
static void is_alone(const cdz_setting *row, const homes *h)
{
    static const size_t starts[] = {[CDZ_HOME_OPTIONS] = offsetof(homes, options),
                                    [CDZ_HOME_MODEL] = offsetof(homes, model),
                                    [CDZ_HOME_REQUEST] = offsetof(homes, request),
                                    [CDZ_HOME_PROGRAM] = offsetof(homes, program)};
    const unsigned char *bytes = (const unsigned char *)h;
    const size_t at = starts[row->home] + row->offset, end = at + bytes_of(row);
    const size_t count = starts[row->home] + row->count;
    bool set = false;
    for (size_t i = 0; i < sizeof *h; i++) {
        if (i >= at && i < end)
            set |= bytes[i] != 0;
        else if (bytes[i] && !(row->kind == CDZ_KIND_TEXTS && i >= count && i < count + 4))
            fail_msg("%s: byte %zu beside its field is set", row->name, i);
    }
    if (!set) fail_msg("%s: its field is not set", row->name);
}

static void each_fills_its_field(void **state)
{
    (void)state;
    const cdz_setting *row;
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (row->home == CDZ_HOME_NONE) continue;
        cdz_settings *s = calloc(1, sizeof *s);
        cdz_error err = {0};
        if (bad(row)) {
            assert_int_equal(cdz_settings_take(s, row, bad(row), &err), CDZ_E_USAGE);
            if (strncmp(err.text, "expected ", 9) != 0)
                fail_msg("%s: said '%s'", row->name, err.text);
            assert_null(s->said[i]);
            memset(s, 0, sizeof *s);
        }
        const char *value = sample(row);
        if (cdz_settings_take(s, row, value, &err) != CDZ_OK)
            fail_msg("%s: %s", row->name, err.text);
        const homes filled = homes_of(s);
        is_alone(row, &filled);
        assert_string_equal(s->said[i], value ? value : "");
        assert_ptr_equal(cdz_settings_first(s, row->group), row->group ? row : NULL);
        assert_null(cdz_settings_first(s, ~(unsigned)row->group));
        const cdz_options options = cdz_settings_to_options(s);
        const cdz_model_options model = cdz_settings_to_model(s);
        const cdz_request request = cdz_settings_to_request(s);
        assert_int_equal(options.size, sizeof options);
        assert_int_equal(model.size, sizeof model);
        assert_int_equal(request.size, sizeof request);
        assert_memory_equal((const char *)&options + sizeof(uint32_t) * 2,
                            (const char *)&s->options + sizeof(uint32_t) * 2,
                            sizeof options - sizeof(uint32_t) * 2);
        cdz_settings_free(s);
        free(s);
    }
}

static void texts_add_up(void **state)
{
    (void)state;
    cdz_settings s = {0};
    cdz_error err = {0};
    const cdz_setting *row = cdz_setting_named("plugin");
    assert_int_equal(cdz_settings_take(&s, row, "a", &err), CDZ_OK);
    assert_int_equal(cdz_settings_take(&s, row, "b", &err), CDZ_OK);
    assert_int_equal(s.options.n_plugins, 2);
    assert_string_equal(s.options.plugins[0], "a");
    assert_string_equal(s.options.plugins[1], "b");
    cdz_settings_free(&s);
    assert_null(s.options.plugins);
}

static void bits_add_up(void **state)
{
    (void)state;
    cdz_settings s = {0};
    cdz_error err = {0};
    for (const char *const *name = (const char *const[]){"stream_words", "show_prompt", NULL};
         *name; name++)
        assert_int_equal(cdz_settings_take(&s, cdz_setting_named(*name), NULL, &err), CDZ_OK);
    assert_int_equal(s.request.stream, CDZ_STREAM_WORDS | CDZ_STREAM_PROMPT);
}

/* --- variables ------------------------------------------------------------------------------------------------ */

static void variables_fill_what_is_unset(void **state)
{
    (void)state;
    cdz_error err = {0};
    setenv("CADENZA_THREADS", "5", 1);
    setenv("CADENZA_DEVICE", "cuda:1", 1);
    setenv("CADENZA_PLUGIN_DIR", "/somewhere", 1);
    cdz_options options = {.n_threads = 2};
    assert_int_equal(cdz_settings_from_environment(&options, &err), CDZ_OK);
    assert_int_equal(options.n_threads, 2);
    assert_string_equal(options.device, "cuda:1");
    assert_string_equal(options.plugin_dir, "/somewhere");
    cdz_options wrong = {.device = "cpu"};
    setenv("CADENZA_THREADS", "many", 1);
    assert_int_equal(cdz_settings_from_environment(&wrong, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "CADENZA_THREADS=many: expected a number from 1 to 1024");
    unsetenv("CADENZA_THREADS");
    unsetenv("CADENZA_DEVICE");
    unsetenv("CADENZA_PLUGIN_DIR");
}

/* --- names and words -------------------------------------------------------------------------------------------- */

static void names_are_found(void **state)
{
    (void)state;
    const cdz_setting *kv = cdz_setting_named("kv_cache");
    assert_ptr_equal(cdz_setting_of_flag("kv-cache", 8), kv);
    assert_ptr_equal(cdz_setting_of_flag("kv_cache=f16", 8), kv);
    assert_null(cdz_setting_of_flag("kv-cach", 7));
    assert_null(cdz_setting_of_flag("kv-cachet", 9));
    assert_ptr_equal(cdz_setting_in_file("model", "kv_cache"), kv);
    assert_null(cdz_setting_in_file("pipeline", "kv_cache"));
    assert_null(cdz_setting_in_file("model", "threads"));
    assert_string_equal(cdz_setting_near("model", "kv_cach"), "kv_cache");
    assert_null(cdz_setting_near("model", "thread"));
    assert_null(cdz_setting_member("kv_cache"));
    assert_non_null(cdz_setting_member("seed"));
    assert_non_null(cdz_setting_member("expect"));
}

static void words_are_counted(void **state)
{
    (void)state;
    uint32_t which = 9;
    cdz_error err = {0};
    const cdz_setting *numa = cdz_setting_named("numa");
    assert_int_equal(cdz_setting_word(numa, "off", &which, &err), CDZ_OK);
    assert_int_equal(which, 0);
    assert_int_equal(cdz_setting_word(numa, "spread", &which, &err), CDZ_OK);
    assert_int_equal(which, 1);
    for (const char *const *word = (const char *const[]){"", "o", "off|spread", "spreads", NULL};
         *word; word++)
        assert_int_equal(cdz_setting_word(numa, *word, &which, &err), CDZ_E_USAGE);
    assert_string_equal(
        err.text, "numa: there is no 'spreads', expected off or spread: did you mean 'spread'?");
    assert_int_equal(cdz_setting_word(numa, "on", &which, NULL), CDZ_E_USAGE);
}

/* --- a server's file ---------------------------------------------------------------------------------------------- */

/* Every key of it is taken, and what was said before stays. */
static void a_servers_file_is_read(void **state)
{
    (void)state;
    char path[] = "server.ini-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    const cdz_setting *row;
    fprintf(file, "[server]\n");
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->served && strcmp(row->section, "server") == 0)
            fprintf(file, "%s = %s\n", row->name, sample(row) ? sample(row) : "yes");
    fprintf(file, "[model small]\npath = a\nload = start\nidle = 3\n[model large]\npath = b\n");
    assert_int_equal(fclose(file), 0);
    cdz_settings *line = calloc(1, sizeof *line), *all = calloc(1, sizeof *all);
    cdz_served_list models;
    cdz_arena arena = {0};
    cdz_error err = {0};
    assert_int_equal(cdz_settings_take(line, cdz_setting_named("port"), "7", &err), CDZ_OK);
    assert_int_equal(cdz_settings_take(line, cdz_setting_named("allowed_host"), "own", &err),
                     CDZ_OK);
    assert_int_equal(cdz_settings_copy(line, all, &err), CDZ_OK);
    if (cdz_settings_read_server(path, all, &models, &arena, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++)
        if (row->served && strcmp(row->section, "server") == 0 && !all->said[i])
            fail_msg("%s was not taken", row->name);
    assert_int_equal(all->program.server.port, 7);
    assert_int_equal(all->program.server.n_allowed_hosts, 1);
    assert_string_equal(all->program.server.allowed_hosts[0], "own");
    assert_int_equal(all->program.server.n_cors_origins, 1);
    assert_true(all->program.server.open_metrics);
    assert_int_equal(models.n, 2);
    assert_string_equal(models.at[0].name, "small");
    assert_string_equal(models.at[0].load, "start");
    assert_true(models.at[0].idle > 2.5);
    assert_null(models.at[1].load);
    assert_false(cdz_setting_section("server")); /* pipelines have no such section */
    unlink(path);
    cdz_settings_free(all);
    cdz_settings_free(line);
    cdz_arena_free(&arena);
    free(all);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(each_fills_its_field),
        cmocka_unit_test(texts_add_up),
        cmocka_unit_test(bits_add_up),
        cmocka_unit_test(variables_fill_what_is_unset),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(words_are_counted),
        cmocka_unit_test(a_servers_file_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
