/* test_methods_strategies.c - the zoo's decode loops against what make_strategy_vectors.py worked out: a model that is a
 * table, draws that are given. tests/methods/strategy_vectors.json holds both, the rows that come out and the results. */
#include "support/documents.h"
#include "support/fake_decoder.h"

#include "base/json.h"

enum { V = FAKE_VOCAB, MAX_RESULTS = 8 };

typedef struct bench {
    fake_decoder *d;
    cdz_decoder_api api;
    const cdz_json *table, *models, *draws; /* models: the tables of further ones, by name */
    const cdz_json *heads; /* for values, by the model's name: a row for each newest token; or NULL */
    const cdz_json *of_seq[MAX_SEQS], *head_of_seq[MAX_SEQS];
    float passes[MAX_SEQS * V]; /* scores of seq_forward; those of forward stay beside them */
    uint32_t n_drawn;
    struct {
        char name[32];
        uint64_t n;
        double values[128];
    } results[MAX_RESULTS];
    uint32_t n_results;
} bench;

static bench *bench_of(const cdz_decoder *dec)
{
    return fd_of(dec)->user;
}

static const cdz_json *need(const cdz_json *object, const char *key)
{
    const cdz_json *value = cdz_json_get(object, key);
    if (!value) fail_msg("a case without %s", key);
    return value;
}

static double real_of(const cdz_json *value)
{
    double number = 0;
    assert_true(cdz_json_number(value, &number));
    return number;
}

/* --- the model and the die ------------------------------------------------------------------------------------- */

/* A sequence that is none of the decoder's own is a row. */
static const cdz_json *table_of(const bench *b, const cdz_seq *seq)
{
    const bool own = seq >= b->d->seqs && seq < b->d->seqs + MAX_SEQS;
    return own ? b->of_seq[seq - b->d->seqs] : b->table;
}

static void look_up(const bench *b, const cdz_seq *seq, float *row)
{
    const cdz_json *scores = &table_of(b, seq)->items[seq->ids[seq->len - 1]];
    for (uint32_t v = 0; v < V; v++) row[v] = (float)real_of(&scores->items[v]);
}

static cdz_status forward(cdz_decoder *dec, cdz_scores *out)
{
    fake_decoder *d = fd_of(dec);

    for (uint32_t r = 0; r < d->n_rows; r++) look_up(bench_of(dec), &d->rows[r], d->scores + r * V);
    *out = (cdz_scores){d->scores, d->n_rows, V, V, 1};
    return CDZ_OK;
}

static cdz_status seq_forward(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n,
                              cdz_positions positions, cdz_scores *out)
{
    bench *b = bench_of(dec);

    assert_int_equal(positions, CDZ_POSITIONS_LAST);
    for (uint32_t i = 0; i < n; i++) look_up(b, seqs[i], b->passes + i * V);
    *out = (cdz_scores){b->passes, n, V, V, 3};
    return CDZ_OK;
}

/* Of the model of that name; NULL: there is none. */
static const cdz_json *table_named(const bench *b, const char *model)
{
    return !model || strcmp(model, "target") == 0 ? b->table : cdz_json_get(b->models, model);
}

static const cdz_json *head_named(const bench *b, const char *model)
{
    return model && b->heads ? cdz_json_get(b->heads, model) : NULL;
}

static uint32_t n_values(const cdz_decoder *dec, const char *model)
{
    const cdz_json *head = head_named(bench_of(dec), model);
    return head ? head->items[0].len : 0;
}

static bool facts(const cdz_decoder *dec, const char *model, cdz_model_facts *out)
{
    *out = (cdz_model_facts){.size = sizeof *out, .n_vocab = V, .n_layers = 2, .width = 3};
    return table_named(bench_of(dec), model) != NULL;
}

static cdz_status seq_value(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values,
                            float *out)
{
    const bench *b = bench_of(dec);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *head = b->head_of_seq[seqs[i] - b->d->seqs];
        const cdz_json *row = &head->items[seqs[i]->ids[seqs[i]->len - 1]];
        assert_int_equal(row->len, n_values);
        for (uint32_t v = 0; v < n_values; v++) *out++ = (float)real_of(&row->items[v]);
    }
    return CDZ_OK;
}

static cdz_status seq_new(cdz_decoder *dec, const char *model, cdz_seq **out)
{
    CDZ_TRY(fd_seq_new(dec, model, out));
    bench_of(dec)->of_seq[*out - fd_of(dec)->seqs] = table_named(bench_of(dec), model);
    bench_of(dec)->head_of_seq[*out - fd_of(dec)->seqs] = head_named(bench_of(dec), model);
    return CDZ_OK;
}

static cdz_status seq_fork(cdz_decoder *dec, const cdz_seq *seq, cdz_seq **out)
{
    CDZ_TRY(fd_seq_fork(dec, seq, out));
    bench *b = bench_of(dec);
    const bool own = seq >= b->d->seqs && seq < b->d->seqs + MAX_SEQS;
    b->of_seq[*out - b->d->seqs] = table_of(b, seq);
    b->head_of_seq[*out - b->d->seqs] = own ? b->head_of_seq[seq - b->d->seqs] : NULL;
    return CDZ_OK;
}

static uint32_t vocab_size(const cdz_decoder *dec, const char *model)
{
    return table_named(bench_of(dec), model) ? V : 0;
}

static cdz_status process(cdz_decoder *dec, cdz_scores *scores)
{
    (void)dec, (void)scores;
    return CDZ_OK;
}

static cdz_status seq_process(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                              uint32_t n, cdz_scores *scores)
{
    (void)dec, (void)seqs, (void)scores;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(rows[i], 0);
    return CDZ_OK;
}

static double next_draw(bench *b)
{
    if (b->n_drawn >= b->draws->len) fail_msg("more than %u draws", b->draws->len);
    return real_of(&b->draws->items[b->n_drawn++]);
}

static cdz_status multinomial(cdz_decoder *dec, const cdz_scores *p, int32_t *tokens)
{
    for (uint32_t r = 0; r < p->n_rows; r++) {
        double reached = 0, u = next_draw(bench_of(dec));
        for (tokens[r] = 0; tokens[r] < V; tokens[r]++) {
            reached += (double)cdz_row(p, r)[tokens[r]];
            if (u < reached) break;
        }
        if (tokens[r] == V) fail_msg("row %u sums up to %g, the draw is %g", r, reached, u);
    }
    return CDZ_OK;
}

static cdz_status uniform(cdz_decoder *dec, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = (float)next_draw(bench_of(dec));
    return CDZ_OK;
}

/* --- rows end at token 2 and at their length ---------------------------------------------------------------------- */

static cdz_status append(cdz_decoder *dec, uint32_t row, int32_t token)
{
    CDZ_TRY(fd_append(dec, row, token));
    if (token == 2) fd_of(dec)->ended[row] = true;
    return CDZ_OK;
}

static cdz_status append_rows(cdz_decoder *dec, int32_t *tokens)
{
    for (uint32_t r = 0; r < fd_of(dec)->n_rows; r++) {
        if (fd_of(dec)->ended[r]) tokens[r] = 0;
        CDZ_TRY(append(dec, r, tokens[r]));
    }
    return CDZ_OK;
}

static cdz_status append_chunk(cdz_decoder *dec, uint32_t row, const int32_t *tokens, uint32_t n,
                               const cdz_scores *logits, const cdz_scores *scores, uint32_t *taken)
{
    (void)logits, (void)scores;
    for (*taken = 0; *taken < n && !fd_of(dec)->ended[row]; ++*taken)
        CDZ_TRY(append(dec, row, tokens[*taken]));
    return CDZ_OK;
}

static cdz_status stop_test(cdz_decoder *dec, const cdz_ids *ids, const uint32_t *rows, uint32_t n,
                            cdz_stop *stops)
{
    const fake_decoder *d = fd_of(dec);
    for (uint32_t i = 0; i < n; i++) {
        if (d->rows[rows[i]].len + ids[i].len >= d->most) stops[i].reason = CDZ_STOP_LENGTH;
        if (ids[i].at[ids[i].len - 1] == 2) stops[i].reason = CDZ_STOP_EOS;
    }
    return CDZ_OK;
}

static cdz_status put_result(cdz_decoder *dec, const char *name, cdz_result_type type,
                             uint32_t n_dims, const uint64_t *shape, const void *data)
{
    bench *b = bench_of(dec);
    uint64_t n = 1;

    if (type == CDZ_RESULT_JSON) return CDZ_OK;
    assert_true(b->n_results < MAX_RESULTS);
    for (uint32_t i = 0; i < n_dims; i++) n *= shape[i];
    assert_true(n <= 128);
    snprintf(b->results[b->n_results].name, sizeof b->results[0].name, "%s", name);
    b->results[b->n_results].n = n;
    for (uint64_t i = 0; i < n; i++)
        b->results[b->n_results].values[i] = type == CDZ_RESULT_I64
                                                 ? (double)((const int64_t *)data)[i]
                                                 : (double)((const float *)data)[i];
    b->n_results++;
    return CDZ_OK;
}

/* --- text of others: what does not count makes the text longer; every tool says the question backwards -------------------- */

static cdz_status insert(cdz_decoder *dec, uint32_t row, const int32_t *ids, uint32_t n,
                         uint32_t flags, const char *who)
{
    if (!(flags & CDZ_INSERT_COUNTS)) fd_of(dec)->most += n;
    return fd_insert(dec, row, ids, n, flags, who);
}

static cdz_status call_tool(cdz_decoder *dec, const char *name, const char *text, uint32_t len,
                            cdz_tool_answer *out)
{
    static char backwards[256];
    (void)dec, (void)name;
    assert_true(len < sizeof backwards);
    for (uint32_t i = 0; i < len; i++) backwards[i] = text[len - 1 - i];
    out->failed = false;
    out->text = (cdz_string){backwards, len};
    return CDZ_OK;
}

/* --- a case ------------------------------------------------------------------------------------------------------- */

static const int32_t end_token = 2;

static void open_case(bench *b, const cdz_json *c)
{
    const char *dir = getenv("CADENZA_PLUGIN_DIR"), *name = need(c, "strategy")->string;
    const cdz_json *params = need(c, "params");
    char path[4096];
    cdz_error err = {0};

    b->d = fd_new((uint32_t)need(c, "n_rows")->integer, (uint32_t)need(c, "most")->integer);
    b->d->user = b;
    b->api = fake_decoder_api;
    b->api.forward = forward;
    b->api.process = process;
    b->api.seq_new = seq_new;
    b->api.seq_fork = seq_fork;
    b->api.vocab_size = vocab_size;
    b->api.facts = facts;
    b->api.n_values = n_values;
    b->api.seq_value = seq_value;
    b->api.seq_forward = seq_forward;
    b->api.seq_process = seq_process;
    b->api.multinomial = multinomial;
    b->api.uniform = uniform;
    b->api.append = append;
    b->api.append_rows = append_rows;
    b->api.append_chunk = append_chunk;
    b->api.stop_test = stop_test;
    b->api.put_result = put_result;
    b->api.insert = insert;
    b->api.call_tool = call_tool;
    b->d->f->request.prompt_len = 4; /* START */
    b->d->f->request.eos = (cdz_ids){&end_token, 1};
    b->d->dec.api = &b->api;
    b->table = need(c, "table");
    b->models = need(c, "models");
    b->heads = cdz_json_get(c, "heads");
    b->draws = need(c, "draws");
    b->d->f->request.do_sample = need(c, "do_sample")->boolean;
    if (!dir || !*dir) dir = CADENZA_BUILD_DIR "/lib/cadenza";
    snprintf(path, sizeof path, "%s/%s/%s.lua", dir, name, name);
    fake_use_file(b->d->f, path);
    const cdz_param_table table = cdz_params_of(b->d->f->step.plugin);
    for (uint32_t i = 0; i < params->len; i++)
        if (cdz_param_set(cdz_param_find(&table, params->members[i].key), b->d->f->params,
                          &params->members[i].value, &b->d->f->arena, &err) != CDZ_OK)
            fail_msg("%s: %s", name, err.text);
    const cdz_strategy *s = (const cdz_strategy *)(const void *)b->d->f->step.plugin;
    if (s->create && s->create(&b->d->f->step) != CDZ_OK) fail_msg("%s", b->d->f->err.text);
}

static void check_rows(const bench *b, const char *name, const cdz_json *rows)
{
    for (uint32_t r = 0; r < rows->len; r++) {
        const cdz_json *want = &rows->items[r];
        const cdz_seq *got = &b->d->rows[r];
        if (got->len != want->len)
            fail_msg("%s: row %u has %u ids, expected %u", name, r, got->len, want->len);
        for (uint32_t i = 0; i < want->len; i++)
            if (got->ids[i] != want->items[i].integer)
                fail_msg("%s: row %u, id %u is %d, expected %d", name, r, i, (int)got->ids[i],
                         (int)want->items[i].integer);
    }
}

static void check_result(const bench *b, const char *name, const char *key, const cdz_json *want)
{
    for (uint32_t i = 0; i < b->n_results; i++) {
        if (strcmp(b->results[i].name, key) != 0) continue;
        assert_int_equal(b->results[i].n, want->len);
        for (uint32_t k = 0; k < want->len; k++) {
            const double w = real_of(&want->items[k]), got = b->results[i].values[k];
            if (!(fabs(w - got) <= 1e-5 * (1 + fabs(w))))
                fail_msg("%s: %s[%u] is %g, expected %g", name, key, k, got, w);
        }
        return;
    }
    fail_msg("%s: no result %s", name, key);
}

static void the_recorded_answers(void **state)
{
    (void)state;
    cdz_arena memory = {0};
    const cdz_json *vectors =
        document_in(&memory, CADENZA_TEST_DATA "/methods/strategy_vectors.json");
    const cdz_json *cases = need(vectors, "cases");
    for (uint32_t i = 0; i < cases->len; i++) {
        const cdz_json *c = &cases->items[i], *results = need(c, "results");
        bench *b = calloc(1, sizeof *b);
        char name[128];
        assert_non_null(b);
        snprintf(name, sizeof name, "%s, %s", need(c, "strategy")->string, need(c, "name")->string);
        open_case(b, c);
        if (fd_run(b->d) != CDZ_OK) fail_msg("%s: %s", name, b->d->f->err.text);
        check_rows(b, name, need(c, "rows"));
        if (b->n_drawn != b->draws->len)
            fail_msg("%s: %u draws, expected %u", name, b->n_drawn, b->draws->len);
        for (uint32_t k = 0; k < results->len; k++)
            check_result(b, name, results->members[k].key, &results->members[k].value);
        fd_free(b->d);
        free(b);
    }
    print_message("  %u cases\n", cases->len);
    assert_true(cases->len > 30);
    cdz_arena_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_recorded_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
