/* test_lua_twins.c - the built-in processors written in Lua, against the shared objects: the same bits. */
#include "lua/twins.h"
#include "support/fake.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>

#define VOCAB 5003

/* Scores as models give them, with ties, masks and both zeros. */
static void fill(float *row, size_t n, uint32_t seed)
{
    uint32_t x = seed * 2654435761u + 1;

    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        row[i] = (float)((double)x / 4294967296.0 * 24.0 - 12.0);
        if (x >> 28 == 0) row[i] = -INFINITY;
        if (x >> 28 == 1) row[i] = 1.5f;
        if (x >> 28 == 2) row[i] = (x & 1) ? 0.0f : -0.0f;
    }
}

/* What no model should give. */
static void spoil(float *row, size_t n)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0.0f, -0.0f, 1e-42f};

    for (size_t i = 0; i < n; i += 3) row[i] = odd[i % 8];
}

static const cdz_plugin_base *open_native(const char *name, void **library)
{
    char path[512];

    snprintf(path, sizeof path, "%s/lib/cadenza/%s.so", CADENZA_BUILD_DIR, name);
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*library) fail_msg("%s", dlerror());
    const cdz_entry *entry = dlsym(*library, "cdz_plugin");
    assert_non_null(entry);
    return entry->plugins[0];
}

static void set_all(fake *f, const char *const *settings)
{
    const bool native = !f->step.plugin->loader_data; /* which has no budget */
    if (!native) fake_set(f, "budget_ms", "100000");
    for (; *settings; settings += 2)
        if (!native || strncmp(*settings, "budget_", 7) != 0) fake_set(f, settings[0], settings[1]);
}

/* Runs the plugin of the step on two rows. */
static void run(fake *f, size_t i, float *rows)
{
    const cdz_processor *p = fake_processor(f);
    cdz_scores scores = {rows, f->step.n_rows, VOCAB, VOCAB, 0};

    f->request.max_length = 5; /* the next token is the last */
    for (uint32_t r = 0; r < f->step.n_rows && twins[i].n_ids; r++) f->ids[r].len = twins[i].n_ids;
    set_all(f, twins[i].settings);
    if (p->create && p->create(&f->step) != CDZ_OK) fail_msg("%s", f->err.text);
    if (p->idle) assert_false(p->idle(&f->step));
    if (p->begin && p->begin(&f->step, &f->step.shared) != CDZ_OK) fail_msg("%s", f->err.text);
    if (p->apply(&f->step, &scores) != CDZ_OK) fail_msg("%s: %s", twins[i].name, f->err.text);
    if (p->end) p->end(&f->step);
    f->step.shared = NULL;
}

static void *roomy_scratch(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc_aligned(&fake_of(step)->arena, bytes, 64);
}

static void the_same_bits(void **state)
{
    static float native[2 * VOCAB], lua[2 * VOCAB];

    (void)state;
    for (size_t i = 0; i < N_TWINS; i++) {
        fake *a = fake_new(2, VOCAB), *b = fake_new(2, VOCAB);
        void *library = NULL;
        char path[512];
        fill(native, 2 * VOCAB, (uint32_t)i);
        if (strcmp(twins[i].name, "remove_invalid_values") == 0) spoil(native, 2 * VOCAB);
        memcpy(lua, native, sizeof lua);
        a->host.scratch = roomy_scratch;
        a->step.plugin = open_native(twins[i].name, &library);
        fake_params(a);
        run(a, i, native);
        snprintf(path, sizeof path, "%s/lua/twins/%s.lua", CADENZA_TEST_DATA, twins[i].name);
        fake_use_file(b, path);
        assert_string_equal(b->step.plugin->id, a->step.plugin->id);
        run(b, i, lua);
        for (size_t k = 0; k < 2 * VOCAB; k++)
            if (memcmp(&native[k], &lua[k], sizeof(float)) != 0)
                fail_msg("%s = %s: element %zu is %a in C, %a in Lua", twins[i].name,
                         twins[i].settings[1], k, (double)native[k], (double)lua[k]);
        fake_free(a);
        fake_free(b);
        dlclose(library);
    }
}

static void unset_twins_are_idle(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_TWINS; i++) {
        fake *f = fake_new(1, VOCAB);
        char path[512];
        snprintf(path, sizeof path, "%s/lua/twins/%s.lua", CADENZA_TEST_DATA, twins[i].name);
        fake_use_file(f, path);
        if (fake_processor(f)->idle) assert_true(fake_processor(f)->idle(&f->step));
        fake_free(f);
    }
}

static void a_refused_bias(void **state)
{
    fake *f = fake_new(1, VOCAB);

    (void)state;
    fake_use_file(f, CADENZA_TEST_DATA "/lua/twins/sequence_bias.lua");
    fake_set_json(f, "sequence_bias", "[[[5], 1]]");
    assert_int_equal(fake_processor(f)->create(&f->step), CDZ_E_USAGE);
    assert_non_null(strstr(f->err.text, "must be written with a fraction"));
    fake_free(f);
}

/* --- stop rules ----------------------------------------------------------------------------------------------------- */

/* Tokens 0 to 25 are letters, 26 and 27 the halves of one. */
static const struct {
    const char *name, *param, *value;
    bool answer; /* in_prompt = no */
} rules[] = {
    {"eos_token_id", NULL, NULL, false},
    {"eos_token_id", "eos_token_id", "[4, 9, 27]", false},
    {"max_time", "max_time", "0.5", false},
    {"max_time", "max_time", "1.5", false},
    {"max_length", NULL, NULL, false},
    {"max_length", "max_length", "5", false},
    {"max_length", "max_length", "0", false},
    {"stop_strings", "stop_strings", "[\"ab\"]", false},
    {"stop_strings", "stop_strings", "[\"ab\", \"bca\"]", true},
    {"stop_strings", "stop_strings", "[\"dcba\", \"ca\", \"\u00e9\"]", false},
    {"stop_strings", "stop_strings", "[\"c\", \"bc\"]", false},
};

static void open_rule(fake *f, size_t i, const cdz_plugin_base *plugin)
{
    if (plugin) {
        f->step.plugin = plugin;
        fake_params(f);
    } else {
        char path[512];
        snprintf(path, sizeof path, "%s/lua/twins/%s.lua", CADENZA_TEST_DATA, rules[i].name);
        fake_use_file(f, path);
    }
    if (rules[i].param) fake_set_json(f, rules[i].param, rules[i].value);
    if (rules[i].answer) fake_set_json(f, "in_prompt", "false");
    f->request.prompt_len = 3;
    const cdz_criterion *c = fake_criterion(f);
    if (c->create && c->create(&f->step) != CDZ_OK) fail_msg("%s", f->err.text);
    if (c->begin && c->begin(&f->step, &f->step.shared) != CDZ_OK) fail_msg("%s", f->err.text);
}

static void expect_equal_stops(size_t i, fake *a, fake *b, uint32_t seed)
{
    static const int32_t letters[] = {0, 1, 2, 3, 26, 27, 4, 9};
    cdz_stop in_c[2] = {{0}}, in_lua[2] = {{0}};

    for (uint32_t r = 0; r < 2; r++) {
        const uint32_t len = 1 + (seed + r) % 7;
        for (uint32_t k = 0; k < len; k++) {
            seed = seed * 1664525u + 1013904223u;
            a->id_store[r][k] = b->id_store[r][k] = letters[seed >> 29];
        }
        a->ids[r].len = b->ids[r].len = len;
    }
    assert_int_equal(fake_criterion(a)->test(&a->step, in_c), CDZ_OK);
    if (fake_criterion(b)->test(&b->step, in_lua) != CDZ_OK) fail_msg("%s", b->err.text);
    for (uint32_t r = 0; r < 2; r++)
        if (in_c[r].reason != in_lua[r].reason || in_c[r].text.len != in_lua[r].text.len ||
            (in_c[r].text.len && memcmp(in_c[r].text.at, in_lua[r].text.at, in_c[r].text.len) != 0))
            fail_msg("%s = %s, %u: reason %u in C, %u in Lua", rules[i].name,
                     rules[i].value ? rules[i].value : "unset", seed, in_c[r].reason,
                     in_lua[r].reason);
}

static void the_same_stops(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        fake *a = fake_new(2, 28), *b = fake_new(2, 28);
        void *library = NULL;
        a->request.max_length = b->request.max_length = 6;
        open_rule(a, i, open_native(rules[i].name, &library));
        open_rule(b, i, NULL);
        assert_string_equal(b->step.plugin->id, a->step.plugin->id);
        for (uint32_t seed = 0; seed < 2000; seed++) {
            expect_equal_stops(i, a, b, seed * 2654435761u);
            if (seed % 100 == 99) { /* a request's budget is for so many calls */
                fake_criterion(b)->end(&b->step);
                if (fake_criterion(b)->begin(&b->step, &b->step.shared) != CDZ_OK)
                    fail_msg("%s", b->err.text);
            }
        }
        if (fake_criterion(a)->end) fake_criterion(a)->end(&a->step);
        a->step.shared = NULL;
        fake_free(a);
        fake_free(b);
        dlclose(library);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(unset_twins_are_idle),
        cmocka_unit_test(the_same_stops),
        cmocka_unit_test(a_refused_bias),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
