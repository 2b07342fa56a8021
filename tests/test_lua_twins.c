/* test_lua_twins.c - the built-in processors written in Lua, against the shared objects: the same bits. */
#include "lua/fake.h"

#include <dlfcn.h>
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

static const struct {
    const char *name, *value, *extra, *extra_value;
    uint32_t n_ids; /* of the 4 there are; 0: all */
} twins[] = {
    {"temperature", "0.7", NULL, NULL, 0},
    {"temperature", "1.9", NULL, NULL, 0},
    {"top_k", "50", NULL, NULL, 0},
    {"top_k", "1", "min_tokens_to_keep", "7", 0},
    {"top_p", "0.9", NULL, NULL, 0},
    {"top_p", "0.1", "min_tokens_to_keep", "3", 0},
    {"min_p", "0.05", NULL, NULL, 0},
    {"repetition_penalty", "1.3", NULL, NULL, 0},
    {"repetition_penalty", "0.8", "prompt_ignore_length", "2", 0},
    {"no_repeat_ngram_size", "2", NULL, NULL, 0},
    {"no_repeat_ngram_size", "1", NULL, NULL, 0},
    {"min_length", "5", NULL, NULL, 0},
    {"min_length", "4", NULL, NULL, 0},
    {"min_new_tokens", "3", NULL, NULL, 0},
    {"min_new_tokens", "1", NULL, NULL, 0},
    {"epsilon_cutoff", "0.0003", NULL, NULL, 0},
    {"epsilon_cutoff", "0.9", "min_tokens_to_keep", "3", 0},
    {"eta_cutoff", "0.0006", NULL, NULL, 0},
    {"typical_p", "0.5", NULL, NULL, 0},
    {"typical_p", "0.01", "min_tokens_to_keep", "4", 0},
    {"suppress_tokens", "[3, 5002, 17]", NULL, NULL, 0},
    {"begin_suppress_tokens", "[3, 5002, 17]", NULL, NULL, 2},
    {"begin_suppress_tokens", "[3, 5002, 17]", NULL, NULL, 3},
    {"renormalize_logits", "true", NULL, NULL, 0},
    {"forced_bos_token_id", "4", NULL, NULL, 1},
    {"forced_eos_token_id", "[4, 9]", NULL, NULL, 0},
    {"encoder_repetition_penalty", "1.7", NULL, NULL, 0},
    {"encoder_no_repeat_ngram_size", "1", NULL, NULL, 0},
    {"encoder_no_repeat_ngram_size", "2", NULL, NULL, 0},
    {"bad_words_ids", "[[5], [3, 9], [5, 3, 9], [7, 7]]", NULL, NULL, 0},
    {"exponential_decay_length_penalty", "[1, 1.3]", NULL, NULL, 0},
    {"sequence_bias", "[[[5], 0.7], [[3, 9], -1.3], [[5, 3, 9], 0.4], [[5], 0.9], [[7, 7], 2.5]]",
     NULL, NULL, 0},
};

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

/* Runs the plugin of the step on two rows. */
static void run(fake *f, size_t i, float *rows)
{
    const cdz_processor *p = fake_processor(f);
    cdz_scores scores = {rows, f->step.n_rows, VOCAB, VOCAB, 0};

    f->request.max_length = 5; /* the next token is the last */
    for (uint32_t r = 0; r < f->step.n_rows && twins[i].n_ids; r++) f->ids[r].len = twins[i].n_ids;
    fake_set(f, twins[i].name, twins[i].value);
    if (twins[i].extra) fake_set(f, twins[i].extra, twins[i].extra_value);
    if (p->create && p->create(&f->step) != CDZ_OK) fail_msg("%s", f->err.text);
    assert_false(p->idle(&f->step));
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
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        fake *a = fake_new(2, VOCAB), *b = fake_new(2, VOCAB);
        void *library = NULL;
        char path[512];
        fill(native, 2 * VOCAB, (uint32_t)i);
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
                         twins[i].value, k, (double)native[k], (double)lua[k]);
        fake_free(a);
        fake_free(b);
        dlclose(library);
    }
}

static void unset_twins_are_idle(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        fake *f = fake_new(1, VOCAB);
        char path[512];
        snprintf(path, sizeof path, "%s/lua/twins/%s.lua", CADENZA_TEST_DATA, twins[i].name);
        fake_use_file(f, path);
        assert_true(fake_processor(f)->idle(&f->step));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(unset_twins_are_idle),
        cmocka_unit_test(a_refused_bias),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
