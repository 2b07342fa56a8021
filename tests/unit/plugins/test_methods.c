/* test_methods.c - the zoo's processors against values worked out elsewhere: tests/methods/vectors.json, which
 * make_vectors.py beside it writes. A row's generated tokens are accepted one by one before apply is asked, and apply is
 * asked twice: it may change nothing but the scores. */
#include "support/documents.h"
#include "support/fake.h"

#include <dlfcn.h>
#include <math.h>

#include "base/json.h"

/* --- values --------------------------------------------------------------------------------------------------- */

static const cdz_json *need(const cdz_json *object, const char *key)
{
    const cdz_json *value = cdz_json_get(object, key);
    if (!value) fail_msg("a case without %s", key);
    return value;
}

static float float_of(const cdz_json *value)
{
    double number = 0;
    if (cdz_json_eq(value, "-inf")) return -INFINITY;
    assert_true(cdz_json_number(value, &number));
    return (float)number;
}

static void read_ids(fake *f, uint32_t r, const cdz_json *value)
{
    assert_true(value->len < sizeof f->id_store[r] / sizeof f->id_store[r][0]);
    for (uint32_t i = 0; i < value->len; i++) f->id_store[r][i] = (int32_t)value->items[i].integer;
    f->ids[r] = (cdz_ids){f->id_store[r], value->len};
}

/* --- a tokenizer of the case's own: its list of texts, the longest that fits first ------------------------------ */

static const cdz_json *texts; /* of the case at hand; NULL: the model has no tokenizer */

static bool has_texts(const cdz_step *step)
{
    (void)step;
    return texts != NULL;
}

static cdz_string text_of(const cdz_step *step, int32_t id)
{
    (void)step;
    if (id < 0 || (uint32_t)id >= texts->len || texts->items[id].type != CDZ_JSON_STRING)
        return (cdz_string){NULL, 0};
    return (cdz_string){texts->items[id].string, (uint32_t)strlen(texts->items[id].string)};
}

static uint32_t count_texts(const cdz_step *step)
{
    (void)step;
    return texts->len;
}

static int32_t longest_fit(const cdz_step *step, const char *text, size_t len)
{
    int32_t best = -1;
    for (int32_t id = 0; (uint32_t)id < texts->len; id++) {
        const cdz_string t = text_of(step, id);
        if (t.at && t.len <= len && memcmp(t.at, text, t.len) == 0 &&
            (best < 0 || t.len > text_of(step, best).len))
            best = id;
    }
    return best;
}

static cdz_status encode(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *out)
{
    int32_t *ids = cdz_arena_array(&fake_of(step)->arena, len + 1, sizeof *ids);
    uint32_t n = 0;

    (void)special;
    while (len > 0) {
        const int32_t id = longest_fit(step, text, len);
        if (id < 0) return fake_fail(step, CDZ_E_INPUT, "no token begins '%s'", text);
        ids[n++] = id;
        text += text_of(step, id).len;
        len -= text_of(step, id).len;
    }
    *out = (cdz_ids){ids, n};
    return CDZ_OK;
}

static const void *extension(const char *id)
{
    static const cdz_tokenizer_api tokenizer = {.size = sizeof tokenizer,
                                                .present = has_texts,
                                                .token_text = text_of,
                                                .n_tokens = count_texts,
                                                .encode = encode,
                                                .decode = fake_decode,
                                                .convert = fake_convert};

    return strcmp(id, CDZ_EXT_TOKENIZER) == 0 ? &tokenizer : fake_extension(id);
}

static void *roomy_scratch(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc_aligned(&fake_of(step)->arena, bytes, 64);
}

/* --- a case ----------------------------------------------------------------------------------------------------- */

typedef struct bench {
    fake *f;
    void *library; /* of a native package */
    uint32_t n;    /* rows */
    const cdz_json *rows;
} bench;

/* The package as it was built: its folder holds a script or a shared object. */
static void use_package(bench *b, const char *name)
{
    const char *dir = getenv("CADENZA_PLUGIN_DIR");
    char path[4096];

    if (!dir || !*dir) dir = CADENZA_BUILD_DIR "/lib/cadenza";
    snprintf(path, sizeof path, "%s/%s/%s.lua", dir, name, name);
    if (access(path, R_OK) == 0) {
        fake_use_file(b->f, path);
    } else {
        snprintf(path, sizeof path, "%s/%s/%s.so", dir, name, name);
        b->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!b->library) fail_msg("%s", dlerror());
        const cdz_entry *entry = dlsym(b->library, "cdz_plugin");
        assert_non_null(entry);
        b->f->step.plugin = entry->plugins[0];
        fake_params(b->f);
    }
    assert_string_equal(b->f->step.plugin->id, name);
}

static void set_params(bench *b, const cdz_json *params)
{
    const cdz_param_table table = cdz_params_of(b->f->step.plugin);
    cdz_error err = {0};

    for (uint32_t i = 0; i < params->len; i++) {
        const char *name = params->members[i].key;
        const cdz_param *param = cdz_param_find(&table, name);
        if (!param) fail_msg("%s has no parameter %s", b->f->step.plugin->id, name);
        if (cdz_param_set(param, b->f->params, &params->members[i].value, &b->f->arena, &err) !=
            CDZ_OK)
            fail_msg("%s", err.text);
    }
}

static void open_case(bench *b, const cdz_json *c)
{
    static const cdz_json *none = NULL;
    const cdz_json *eos = need(c, "eos");
    int32_t *ends;

    b->rows = need(c, "rows");
    b->n = b->rows->len;
    b->f = fake_new(b->n, need(&b->rows->items[0], "scores")->len);
    texts = need(c, "tokens")->type == CDZ_JSON_ARRAY ? need(c, "tokens") : none;
    b->f->host.extension = extension;
    b->f->host.scratch = roomy_scratch;
    b->f->request.prompt_len = (uint32_t)need(c, "prompt_len")->integer;
    b->f->request.seed = (uint64_t)need(c, "seed")->integer;
    b->f->request.max_length = (uint32_t)need(c, "max_length")->integer;
    ends = cdz_arena_array(&b->f->arena, eos->len + 1, sizeof *ends);
    for (uint32_t i = 0; i < eos->len; i++) ends[i] = (int32_t)eos->items[i].integer;
    b->f->request.eos = (cdz_ids){ends, eos->len};
    use_package(b, need(c, "plugin")->string);
    set_params(b, need(c, "params"));
    for (uint32_t r = 0; r < b->n; r++) read_ids(b->f, r, need(&b->rows->items[r], "ids"));
}

/* The step of one row. */
static cdz_step row_step(const bench *b, uint32_t r)
{
    cdz_step step = b->f->step;

    step.n_rows = 1;
    step.input_ids += r;
    step.row_index += r;
    step.row_state += r;
    return step;
}

/* As a request would: begin, then every generated token is accepted. */
static void begin(bench *b, const char *name)
{
    const cdz_processor *p = fake_processor(b->f);

    if (p->create && p->create(&b->f->step) != CDZ_OK) fail_msg("%s: %s", name, b->f->err.text);
    if (p->begin && p->begin(&b->f->step, &b->f->step.shared) != CDZ_OK)
        fail_msg("%s: %s", name, b->f->err.text);
    for (uint32_t r = 0; r < b->n; r++) {
        b->f->row_state[r] = cdz_arena_alloc(&b->f->arena, p->state_size + 8);
        const cdz_step step = row_step(b, r);
        const uint32_t len = b->f->ids[r].len;
        for (uint32_t i = b->f->request.prompt_len; p->accept && i < len; i++) {
            b->f->ids[r].len = i + 1;
            if (p->accept(&step, 0, b->f->ids[r].at[i]) != CDZ_OK)
                fail_msg("%s: %s", name, b->f->err.text);
        }
        b->f->ids[r].len = len;
    }
}

static void check_row(const char *name, const char *what, uint32_t r, const cdz_json *want,
                      const float *got)
{
    for (uint32_t v = 0; v < want->len; v++) {
        const float w = float_of(&want->items[v]);
        const bool same = isinf(w)
                              ? w == got[v]
                              : fabs((double)w - (double)got[v]) <= 2e-6 + 2e-6 * fabs((double)w);
        if (!same)
            fail_msg("%s, %s: row %u, token %u is %.9g, expected %.9g", name, what, r, v,
                     (double)got[v], (double)w);
    }
}

/* All rows in one call, then, a second time, each in a call of its own. */
static void apply_and_check(bench *b, const char *name)
{
    const cdz_processor *p = fake_processor(b->f);
    const uint32_t n_vocab = b->f->request.n_vocab;
    float *data = cdz_arena_array(&b->f->arena, (size_t)b->n * n_vocab, sizeof *data);

    for (int alone = 0; alone < 2; alone++) {
        for (uint32_t r = 0; r < b->n; r++)
            for (uint32_t v = 0; v < n_vocab; v++)
                data[r * n_vocab + v] = float_of(&need(&b->rows->items[r], "scores")->items[v]);
        cdz_scores all = {data, b->n, n_vocab, n_vocab, 0};
        if (!alone && p->apply(&b->f->step, &all) != CDZ_OK)
            fail_msg("%s: %s", name, b->f->err.text);
        for (uint32_t r = 0; r < b->n; r++) {
            const cdz_step step = row_step(b, r);
            cdz_scores one = {data + r * n_vocab, 1, n_vocab, n_vocab, 0};
            if (alone && p->apply(&step, &one) != CDZ_OK) fail_msg("%s: %s", name, b->f->err.text);
            check_row(name, alone ? "alone" : "together", r, need(&b->rows->items[r], "want"),
                      one.data);
        }
    }
}

static void close_case(bench *b)
{
    const cdz_state_api *api = cdz_get_state_api(b->f->step.plugin);

    for (uint32_t r = 0; api && r < b->n; r++) api->free(&b->f->step, b->f->row_state[r]);
    if (b->library && fake_processor(b->f)->end) fake_processor(b->f)->end(&b->f->step);
    if (b->library) b->f->step.shared = NULL;
    fake_free(b->f);
    if (b->library) dlclose(b->library);
}

static void the_recorded_values(void **state)
{
    (void)state;
    cdz_arena memory = {0};
    const cdz_json *vectors = document_in(&memory, CADENZA_TEST_DATA "/methods/vectors.json");
    const cdz_json *cases = need(vectors, "cases");
    for (uint32_t i = 0; i < cases->len; i++) {
        const cdz_json *c = &cases->items[i];
        bench b = {0};
        char name[128];
        snprintf(name, sizeof name, "%s, %s", need(c, "plugin")->string, need(c, "name")->string);
        open_case(&b, c);
        begin(&b, name);
        apply_and_check(&b, name);
        close_case(&b);
    }
    print_message("  %u cases\n", cases->len);
    assert_true(cases->len > 50);
    cdz_arena_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recorded_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
