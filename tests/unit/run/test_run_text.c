/* test_run_text.c - "cadenza.text/1": what rows say so far is what all of their tokens spell, whatever was taken back, copied or
 * broken off within a character; and asking at each step goes through the newest tokens' bytes alone. */
#include "support/run_strategies.h"

#include "base/utf8.h"
#include "cadenza/ext/text.h"
#include "run/stages/stages.h"

enum { PROMPT = 3, ROWS = 3, MOST_BYTES = 1 << 14, MOST_PIECES = 400 };
static const int32_t prompt[PROMPT] = {360, 336, 292};

static int32_t pieces[MOST_PIECES]; /* tokens of the vocabulary that are no text by themselves */
static uint32_t n_pieces;

static cdz_rows *rows_of(const cdz_step *step)
{
    return ((const cdz_scope *)step->scope)->rows;
}

/* --- from the beginning --------------------------------------------------------------------------------------------- */

static void spell(const cdz_step *step, int32_t id, cdz_buf *out)
{
    cdz_run_model *model = rows_of(step)->model;
    const cdz_string text = cdz_run_model_token_text(model, id);
    const bool broken = strstr(text.at, CDZ_UTF8_REPLACEMENT) != NULL;
    if (!broken || !cdz_tokenizer_token_bytes(model->tokenizer, id, out))
        cdz_buf_add(out, text.at, text.len);
}

/* All bytes of all tokens; then what is no character replaced, and a beginning at the end left out. */
static cdz_buf text_of(const cdz_step *step, cdz_ids ids)
{
    cdz_buf bytes = {0}, text = {0};
    for (uint32_t i = PROMPT; i < ids.len; i++) spell(step, ids.at[i], &bytes);
    for (size_t at = 0; at < bytes.len;) {
        const size_t left = bytes.len - at, n = cdz_utf8_valid_prefix(bytes.data + at, left);
        bool begins = false;
        cdz_buf_add(&text, bytes.data + at, n);
        at += n;
        if (n == left) break;
        at += cdz_utf8_bad(bytes.data + at, left - n, &begins);
        if (!begins) cdz_buf_puts(&text, CDZ_UTF8_REPLACEMENT);
    }
    cdz_buf_free(&bytes);
    cdz_buf_putc(&text, '\0');
    return text;
}

static cdz_status compare(const cdz_step *step, uint32_t r, cdz_ids ids, uint32_t most)
{
    const cdz_text_api *api = cdz_get_text(step);
    cdz_string all, tail;
    cdz_buf want = text_of(step, ids);
    const size_t len = want.len - 1;
    size_t from = len > most ? len - most : 0;
    while (from < len && ((unsigned char)want.data[from] & 0xC0) == 0x80) from++;
    cdz_status status = api->since_prompt(step, r, &all);
    bool same = status == CDZ_OK && all.len == len && memcmp(all.at, want.data, len + 1) == 0;
    if (status == CDZ_OK) status = api->tail(step, r, most, &tail);
    same = same && status == CDZ_OK && tail.len == len - from &&
           memcmp(tail.at, want.data + from, tail.len + 1) == 0;
    cdz_buf_free(&want);
    if (status == CDZ_OK && !same)
        return SAY("row %u, %u tokens: another text, or its last %u bytes", r, ids.len, most);
    return status;
}

/* --- rewinds, forks, broken characters -------------------------------------------------------------------------------- */

static int32_t draw_token(uint32_t *seed)
{
    return draw(seed, 3) ? pieces[draw(seed, n_pieces)] : (int32_t)(5 + draw(seed, 4000));
}

static cdz_status run_walk(cdz_decoder *dec, const cdz_step *step)
{
    uint32_t seed = 11, parents[ROWS];
    for (uint32_t i = 0; i < 900; i++) {
        const uint32_t what = draw(&seed, 6), r = draw(&seed, ROWS);
        const uint32_t most = cdz_rewindable(dec, r), step_back = most > 150 ? 100 : 9;
        if (what == 0 || most > 150) {
            CDZ_TRY(cdz_rewind(dec, r, draw(&seed, (most < step_back ? most : step_back) + 1)));
        } else if (what == 1 && i % 3 == 0) {
            for (uint32_t k = 0; k < ROWS; k++) parents[k] = draw(&seed, ROWS);
            CDZ_TRY(cdz_reorder(dec, parents));
        } else {
            CDZ_TRY(cdz_append(dec, r, draw_token(&seed)));
        }
        const uint32_t asked =
            draw(&seed, ROWS); /* the others are brought on later, by several tokens */
        CDZ_TRY(compare(step, asked, cdz_input_ids(dec, asked), draw(&seed, 40)));
    }
    return CDZ_OK;
}
STRATEGY(walks, run_walk, CDZ_REWINDS);

static rig open_shipped(void)
{
    cdz_error err = {0};
    cdz_weights *weights;
    cdz_tokenizer *tokenizer;
    const char *folder = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
    rig r = {0};
    const cdz_engine_options options = {.kv_bytes = 64 << 20, .n_threads = 2};
    must(cdz_weights_open(folder, &weights, &err), &err);
    must(cdz_tokenizer_open(folder, &tokenizer, &err), &err);
    must(cdz_engine_create(&options, &r.engine, &err), &err);
    must(cdz_run_model_create(r.engine, weights, tokenizer, &r.model, &err), &err);
    n_pieces = 0;
    for (int32_t id = 5; id < 4096 && n_pieces < MOST_PIECES; id++)
        if (strstr(cdz_run_model_token_text(r.model, id).at, CDZ_UTF8_REPLACEMENT))
            pieces[n_pieces++] = id;
    assert_in_range(n_pieces, 64, MOST_PIECES);
    return r;
}

static void run_rows(const cdz_strategy *strategy, const cdz_processor *with, uint32_t n)
{
    rig r = open_shipped();
    int32_t ids[ROWS * PROMPT];
    hand_plan plan;
    answer a;
    for (uint32_t i = 0; i < n; i++) memcpy(ids + (size_t)i * PROMPT, prompt, sizeof prompt);
    plan_init(&plan, &strategy->base, NULL);
    if (with) plan_add_processor(&plan, with, NULL);
    new_job(&r, &plan, ids, NULL, n, PROMPT, 400, &a);
    run_well(&r, &a);
    answer_free(&a);
    rig_close(&r);
}

static void walks_about(void **state)
{
    (void)state;
    run_rows(&walks, NULL, ROWS);
}

/* --- what it costs -------------------------------------------------------------------------------------------------- */

enum { STEPS = 200, TAIL = 16 };

static uint64_t bytes_of(const cdz_step *step, int32_t id)
{
    cdz_buf bytes = {0};
    spell(step, id, &bytes);
    const uint64_t n = bytes.len;
    cdz_buf_free(&bytes);
    return n;
}

/* A character in parts stands at the beginning of all that follows. */
static cdz_status run_long(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_text_api *api = cdz_get_text(step);
    uint64_t spelled = 0;
    cdz_string text;
    for (uint32_t i = 0; i < STEPS; i++) {
        const int32_t token = i % 7 == 1 ? pieces[i % n_pieces] : (int32_t)(700 + i);
        CDZ_TRY(cdz_append(dec, 0, token));
        spelled += bytes_of(step, token);
        CDZ_TRY(api->tail(step, 0, TAIL, &text));
        CDZ_TRY(api->since_prompt(step, 0, &text));
        if (i % 50 == 49) { /* a cut costs what is put in its place */
            CDZ_TRY(cdz_rewind(dec, 0, 3));
            CDZ_TRY(api->tail(step, 0, TAIL, &text));
        }
        if (rows_of(step)->text_work != spelled)
            return SAY("%u tokens of %u bytes: %u bytes gone through", i + 1, (unsigned)spelled,
                       (unsigned)rows_of(step)->text_work);
    }
    CDZ_TRY(api->since_prompt(step, 0, &text));
    CHECK(text.len > STEPS && rows_of(step)->text_work == spelled);
    return CDZ_OK;
}
STRATEGY(grows, run_long, CDZ_REWINDS);

static void costs_new_bytes(void **state)
{
    (void)state;
    run_rows(&grows, NULL, 1);
}

static cdz_status ask_tail(const cdz_step *step, cdz_scores *scores)
{
    cdz_string text;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        CDZ_TRY(cdz_get_text(step)->tail(step, r, TAIL, &text));
    return CDZ_OK;
}
static const cdz_processor asks_tail = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.asks_tail", .version = "1.0.0", .summary = "asks"},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .apply = ask_tail,
};

static cdz_status run_asked(cdz_decoder *dec, const cdz_step *step)
{
    uint64_t spelled = 0;
    for (uint32_t i = 0; i < 60; i++) {
        const int32_t token = i % 5 == 1 ? pieces[i % n_pieces] : (int32_t)(700 + i);
        cdz_scores scores;
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CHECK(rows_of(step)->text_work <= spelled + (uint64_t)i * TAIL);
        CHECK(rows_of(step)->text_work >= spelled);
        CDZ_TRY(cdz_append(dec, 0, token));
        spelled += bytes_of(step, token);
    }
    return CDZ_OK;
}
STRATEGY(is_asked, run_asked, CDZ_GREEDY);

static void costs_of_a_processor(void **state)
{
    (void)state;
    run_rows(&is_asked, &asks_tail, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_about),
        cmocka_unit_test(costs_new_bytes),
        cmocka_unit_test(costs_of_a_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
