/* probe.c - the calls of one processor or criterion, as the engine makes them: made, begun, asked, told of tokens, its state
 * copied and followed along a text; and whether two answers are the same.
 *
 * Owns: one instance and its made-up request. Not: what a check expects (on_*.c). It calls through the host's door, but puts
 * nothing back and judges nothing: what a call leaves behind is what checks look for. */
#include "check/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"

const cdz_made_up cdz_usual_facts = {.n_vocab = 1000, .n_rows = 4, .prompt_len = 12, .seed = 7};

static const cdz_processor *processor_of(const cdz_probe *t)
{
    return (const cdz_processor *)(const void *)t->plugin;
}

static const cdz_criterion *criterion_of(const cdz_probe *t)
{
    return (const cdz_criterion *)(const void *)t->plugin;
}

static bool is_processor(const cdz_probe *t)
{
    return t->plugin->kind == CDZ_KIND_PROCESSOR;
}

/* --- life ------------------------------------------------------------------------------------------------- */

static void fill_info(cdz_probe *t)
{
    static const int32_t eos[] = {1};
    const cdz_made_up *f = &t->facts;
    t->info = (cdz_request_info){
        .size = sizeof t->info,
        .n_prompts = f->n_rows,
        .n_rows = f->n_rows,
        .prompt_len = f->prompt_len,
        .n_vocab = f->n_vocab,
        .max_length = f->prompt_len + f->age + 20,
        .min_length = f->prompt_len + 4,
        .context = 4096,
        .num_beams = 1,
        .do_sample = !f->greedy,
        .seed = f->seed,
        .eos = {eos, f->n_vocab > 1},
        .pad = 0,
        .bos = -1,
        .prompts = t->prompts,
        .start_s = t->now,
    };
}

bool cdz_probe_make(cdz_probe *t, const cdz_plugin_base *plugin, const void *params,
                    const cdz_made_up *facts)
{
    *t = (cdz_probe){.caller = &cdz_probe_caller,
                     .plugin = plugin,
                     .params = params,
                     .facts = *facts,
                     .now = 1000.0};
    const size_t n = (size_t)facts->n_rows * facts->prompt_len;
    if (facts->n_rows > CDZ_PROBE_ROWS ||
        !(t->prompt_ids = calloc(n + 2 * (size_t)CDZ_ROOM, sizeof *t->prompt_ids)))
        return false;
    for (uint32_t r = 0; r < facts->n_rows; r++) {
        int32_t *ids = t->prompt_ids + CDZ_ROOM + (size_t)r * facts->prompt_len;
        cdz_fill_ids(ids, facts->prompt_len, facts->n_vocab, facts->seed * 64 + r);
        t->prompts[r] = (cdz_ids){ids, facts->prompt_len};
    }
    fill_info(t);
    cdz_params_defaults(cdz_generation_table(), &t->config);
    t->config.max_length = (cdz_opt_int){t->info.max_length, true};
    t->config.do_sample = t->info.do_sample;
    (void)cdz_offers_ask(plugin, &t->offers, NULL); /* the host has asked, and complained, before */
    return true;
}

void cdz_probe_free(cdz_probe *t)
{
    cdz_probe_end(t);
    cdz_probe_grammar_free(t);
    cdz_arena_free(&t->memory);
    cdz_scratch_free(&t->scratch);
    free(t->prompt_ids);
    free(t->companion);
    t->prompt_ids = NULL;
    t->companion = NULL;
}

/* --- calls ------------------------------------------------------------------------------------------------- */

static cdz_step step_of(cdz_probe *t)
{
    t->said.code = CDZ_OK;
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = t->params,
                      .shared = t->shared,
                      .request = &t->info,
                      .plugin = t->plugin,
                      .host = &cdz_probe_host,
                      .scope = t};
}

/* What a call does to the thread is the checks' to find: nothing is put back. */
static cdz_call call_of(cdz_probe *t)
{
    return (cdz_call){.scratch = &t->scratch, .raw = true};
}

cdz_status cdz_probe_create(cdz_probe *t)
{
    cdz_call call = call_of(t);
    cdz_step step = step_of(t);
    step.request = NULL;
    t->may_alloc = true;
    const cdz_status status = cdz_call_create(&call, &step);
    t->may_alloc = false;
    return status;
}

bool cdz_probe_idle(cdz_probe *t)
{
    cdz_call call = call_of(t);
    const cdz_step step = step_of(t);
    return cdz_call_idle(&call, &step);
}

/* What guidance compares with: scores of another sequence beside each row that asks for one. */
static cdz_status begin_companions(cdz_probe *t)
{
    if (!t->offers.companion) return CDZ_OK;
    t->companion = calloc((size_t)t->info.n_rows * t->info.n_vocab, sizeof(float));
    if (!t->companion) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < t->info.n_rows; r++) {
        const cdz_step step = step_of(t);
        cdz_companion is = {.size = sizeof is};
        cdz_call call = call_of(t);
        const cdz_status status = cdz_call_companion(&call, t->offers.companion, &step, r, &is);
        if (status != CDZ_OK) return status;
        float *row = t->companion + (size_t)r * t->info.n_vocab;
        cdz_fill_scores(row, t->info.n_vocab, 4711 + r);
        for (uint32_t v = 0; v < t->info.n_vocab; v++) /* raw logits: nothing is masked yet */
            if (row[v] < -100.0f) row[v] = -9.0f;
    }
    return CDZ_OK;
}

cdz_status cdz_probe_begin(cdz_probe *t)
{
    cdz_call call = call_of(t);
    const cdz_step step = step_of(t);
    t->may_alloc = true;
    cdz_status status = cdz_call_begin(&call, &step, &t->shared);
    t->may_alloc = false;
    t->begun = status == CDZ_OK;
    if (t->begun) status = begin_companions(t);
    return status;
}

cdz_status cdz_probe_enter(cdz_probe *t)
{
    const cdz_status status = cdz_probe_create(t);
    if (status != CDZ_OK) return status;
    if (cdz_probe_idle(t)) return cdz_err(&t->said, CDZ_E_STATE, "idle");
    return cdz_probe_begin(t);
}

void cdz_probe_end(cdz_probe *t)
{
    if (!t->begun) return;
    cdz_call call = call_of(t);
    const cdz_step step = step_of(t);
    t->begun = false;
    cdz_call_end(&call, &step);
    t->shared = NULL;
}

static uint32_t hash_text(cdz_string text)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < text.len; i++) hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return hash;
}

/* A criterion's answer as numbers: reason, length of its text, and a sum over the text (FNV-1a, 24 bits). */
static void write_stop(cdz_probe *t, const cdz_stop *stop, float *answer)
{
    const uint32_t hash = hash_text(stop->text);
    answer[0] = (float)stop->reason;
    answer[1] = (float)stop->text.len;
    answer[2] = (float)(hash >> 8);
    answer[3] = 0;
    if (!t->stop_text.at && stop->text.len) t->stop_text = stop->text, t->stop_hash = hash;
}

bool cdz_probe_text_lives(const cdz_probe *t)
{
    return !t->stop_text.at || hash_text(t->stop_text) == t->stop_hash;
}

static cdz_status ask_criterion(cdz_probe *t, cdz_call *call, cdz_step *step,
                                const cdz_scores *scores)
{
    cdz_stop own[CDZ_PROBE_ROWS], *stops = t->stops ? t->stops : own;
    memset(stops, 0, scores->n_rows * sizeof *stops);
    const cdz_status status = cdz_call_test(call, criterion_of(t), step, stops);
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        if (status == CDZ_OK && stops[r].text.len && !stops[r].text.at) {
            cdz_err(&t->said, CDZ_E_PLUGIN, "test gave a text of %u bytes at NULL",
                    stops[r].text.len);
            return (cdz_status)-1;
        }
        if (status == CDZ_OK && stops[r].reason > CDZ_STOP_CUSTOM) {
            cdz_err(&t->said, CDZ_E_PLUGIN, "test gave reason %u, which is none of cdz_stop_reason",
                    stops[r].reason);
            return (cdz_status)-1;
        }
        if (status == CDZ_OK) write_stop(t, &stops[r], cdz_row(scores, r));
    }
    return status;
}

cdz_status cdz_probe_ask(cdz_probe *t, const cdz_probe_rows *rows, cdz_scores *scores)
{
    const bool shows_ids = !is_processor(t) || processor_of(t)->caps & CDZ_NEEDS_IDS;
    cdz_step step = step_of(t);
    step.n_rows = rows->n;
    step.input_ids = shows_ids ? rows->ids : NULL;
    step.row_index = rows->index;
    step.row_state = cdz_probe_state_size(t) ? rows->states : NULL;
    /* A criterion's text may lie in its scratch memory until the answer is written. */
    cdz_call call = {.raw = true};
    const cdz_status status = is_processor(t)
                                  ? cdz_call_apply(&call, processor_of(t), &step, scores)
                                  : ask_criterion(t, &call, &step, scores);
    t->n_answered += status == CDZ_OK;
    cdz_scratch_reset(&t->scratch);
    return status;
}

cdz_status cdz_probe_accept(cdz_probe *t, cdz_ids ids, uint32_t row, void *state, int32_t token)
{
    cdz_call call = call_of(t);
    cdz_step step = step_of(t);
    step.n_rows = 1;
    step.input_ids = &ids;
    step.row_index = &row;
    step.row_state = state ? &state : NULL;
    return cdz_call_accept(&call, &step, 0, token);
}

/* --- state ------------------------------------------------------------------------------------------------- */

bool cdz_probe_form(cdz_probe *t, cdz_form *out)
{
    cdz_call call = call_of(t);
    *out = (cdz_form){.size = sizeof *out};
    if (!t->offers.form) return false;
    const cdz_step step = step_of(t);
    const bool says = cdz_call_form(&call, t->offers.form, &step, out);
    return says && out->kind != CDZ_FORM_OTHER;
}

/* Of one row, of a processor. */
static cdz_step step_of_row(cdz_probe *t, const cdz_ids *ids, const uint32_t *row,
                            void *const *state)
{
    cdz_step step = step_of(t);
    step.n_rows = 1;
    step.input_ids = processor_of(t)->caps & CDZ_NEEDS_IDS ? ids : NULL;
    step.row_index = row;
    step.row_state = processor_of(t)->state_size ? state : NULL;
    return step;
}

bool cdz_probe_edits(cdz_probe *t, cdz_ids ids, uint32_t row, cdz_ids *out)
{
    cdz_call call = {.raw = true};
    void *const none = NULL;
    const cdz_step step = step_of_row(t, &ids, &row, &none);
    *out = (cdz_ids){0};
    return cdz_call_edits(&call, t->offers.form, &step, 0, out);
}

bool cdz_probe_mask(cdz_probe *t, cdz_ids ids, uint32_t row, void *state, uint64_t *bits,
                    uint32_t n_words)
{
    cdz_call call = {.raw = true};
    const cdz_step step = step_of_row(t, &ids, &row, &state);
    return cdz_call_mask(&call, t->offers.form, &step, 0, bits, n_words);
}

cdz_status cdz_probe_constraint(cdz_probe *t, cdz_ids ids, uint32_t row, void *state,
                                cdz_row_constraint *out)
{
    cdz_call call = call_of(t);
    const cdz_step step = step_of_row(t, &ids, &row, &state);
    *out = (cdz_row_constraint){.size = sizeof *out};
    return cdz_call_constrained(&call, t->offers.constrained, &step, 0, out);
}

cdz_status cdz_probe_steer(cdz_probe *t, uint32_t row, uint32_t n_layers, uint32_t width,
                           const cdz_edit **edits, uint32_t *n)
{
    cdz_call call = call_of(t);
    const cdz_step step = step_of(t);
    const cdz_steered whom = {.size = sizeof whom,
                              .row = row,
                              .prompt_index = row,
                              .prompt_len = t->facts.prompt_len,
                              .n_layers = n_layers,
                              .width = width};
    t->may_alloc = true;
    const cdz_status status = cdz_call_steer(&call, t->offers.steer, &step, &whom, edits, n);
    t->may_alloc = false;
    return status;
}

cdz_status cdz_probe_on_hidden(cdz_probe *t, const cdz_hidden_chunk *hidden)
{
    cdz_call call = call_of(t);
    const cdz_step step = step_of(t);
    return cdz_call_on_hidden(&call, t->offers.on_hidden, &step, hidden);
}

uint32_t cdz_probe_state_size(const cdz_probe *t)
{
    return is_processor(t) ? processor_of(t)->state_size : criterion_of(t)->state_size;
}

uint32_t cdz_probe_caps(const cdz_plugin_base *plugin)
{
    const void *whole = plugin;
    switch (plugin->kind) {
    case CDZ_KIND_PROCESSOR: return ((const cdz_processor *)whole)->caps;
    case CDZ_KIND_CRITERION: return ((const cdz_criterion *)whole)->caps;
    default: return 0;
    }
}

/* Room round the bytes: what lies outside is another check's business. */
enum { STATE_SLACK = 256 };

void *cdz_probe_state(cdz_probe *t)
{
    const uint32_t size = cdz_probe_state_size(t);
    if (size == 0) return NULL;
    unsigned char *at = cdz_arena_alloc(&t->memory, (size_t)size + 2 * STATE_SLACK);
    return at ? at + STATE_SLACK : NULL;
}

cdz_status cdz_probe_copy_state(cdz_probe *t, void *to, const void *from)
{
    const uint32_t size = cdz_probe_state_size(t);
    const cdz_state_api *api = t->offers.state;
    if (size == 0) return CDZ_OK;
    if (!api) {
        memcpy(to, from, size);
        return CDZ_OK;
    }
    cdz_call call = call_of(t);
    const cdz_step step = step_of(t);
    cdz_call_free(&call, api, &step, to);
    memset(to, 0, size);
    return cdz_call_clone(&call, api, &step, from, to);
}

static bool script_plugin; /* a check's process has one plugin */

void cdz_probe_is_script(bool script)
{
    script_plugin = script;
}

/* Sentences of lua 5.4 (ldebug.c, lauxlib.c, lvm.c, lstrlib.c), none of which a script would say of its parameters. */
bool cdz_is_lua_mistake(const char *sentence)
{
    static const char *const own[] = {"attempt to ",
                                      "bad argument #",
                                      "stack overflow",
                                      "has no integer representation",
                                      "'for' initial value",
                                      "'for' limit",
                                      "'for' step",
                                      "table index is ",
                                      "invalid value (at index",
                                      "invalid option '%",
                                      "string length overflow"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strstr(sentence, own[i])) return true;
    return false;
}

uint32_t cdz_nth_row(uint32_t r)
{
    return r + script_plugin;
}

const char *cdz_probe_broken(const cdz_probe *t, cdz_status status)
{
    if (status == CDZ_OK) return NULL;
    if ((unsigned)status > CDZ_E_INTERNAL)
        return t->said.code == CDZ_OK ? "returned a number that is no status" : t->said.text;
    if (t->said.code == CDZ_OK) return "failed without saying why (cdz_fail)";
    if (script_plugin && cdz_is_lua_mistake(t->said.text)) return t->said.text;
    return NULL;
}

const char *cdz_probe_broken_late(cdz_probe *t, cdz_status status)
{
    const char *broken = cdz_probe_broken(t, status);
    if (broken || status == CDZ_OK || t->n_answered == 0) return broken;
    char text[CDZ_ERROR_TEXT];
    snprintf(text, sizeof text, "%s", t->said.text);
    cdz_err(&t->said, status,
            "it fails in the middle of a request, where create, begin and the first row alone may "
            "refuse: %s",
            text);
    return t->said.text;
}

/* --- one row followed through time -------------------------------------------------------------------------- */

void cdz_follow_start_at(cdz_follow *f, cdz_probe *probe, uint32_t row, void *state)
{
    const cdz_ids prompt = probe->prompts[row];
    const uint64_t from = probe->facts.seed * 97 + row * 31;
    *f = (cdz_follow){.probe = probe, .row = row, .len = prompt.len, .state = state};
    memcpy(f->ids, prompt.at, prompt.len * sizeof *f->ids);
    for (uint32_t i = 0; i < probe->facts.age; i++)
        (void)cdz_follow_take(f, i % 16 < 8 ? cdz_probe_text_token(&probe->facts, from + i)
                                            : cdz_some_token(&probe->facts, from + i));
}

bool cdz_follow_start(cdz_follow *f, cdz_probe *probe, uint32_t row)
{
    void *state = cdz_probe_state(probe);
    cdz_follow_start_at(f, probe, row, state);
    return state || cdz_probe_state_size(probe) == 0;
}

cdz_status cdz_follow_take(cdz_follow *f, int32_t token)
{
    if (f->len == CDZ_PROBE_MOST) return CDZ_E_LIMIT;
    f->ids[f->len++] = token;
    return cdz_probe_accept(f->probe, (cdz_ids){f->ids, f->len}, f->row, f->state, token);
}

cdz_status cdz_follows_ask(cdz_follow *follows, uint32_t n, cdz_scores *scores)
{
    cdz_ids ids[CDZ_PROBE_ROWS];
    uint32_t index[CDZ_PROBE_ROWS];
    void *states[CDZ_PROBE_ROWS];
    for (uint32_t r = 0; r < n; r++) {
        ids[r] = (cdz_ids){follows[r].ids, follows[r].len};
        index[r] = follows[r].row;
        states[r] = follows[r].state;
    }
    const cdz_probe_rows rows = {.n = n, .ids = ids, .index = index, .states = states};
    return cdz_probe_ask(follows[0].probe, &rows, scores);
}

cdz_status cdz_follow_ask(cdz_follow *f, float *answer)
{
    const uint32_t n_vocab = f->probe->info.n_vocab;
    cdz_scores scores = {
        .data = answer, .n_rows = 1, .n_vocab = n_vocab, .stride = cdz_answer_len(&f->probe->facts)};
    cdz_fill_scores(answer, n_vocab, (uint64_t)f->row << 32 | f->len);
    const cdz_status status = cdz_follows_ask(f, 1, &scores);
    if (status == CDZ_OK) return status;
    memset(answer, 0, cdz_answer_len(&f->probe->facts) * sizeof *answer);
    answer[0] = -1000.0f - (float)status;
    return status;
}

bool cdz_follow_fork(const cdz_follow *from, cdz_follow *to)
{
    *to = *from;
    to->state = cdz_probe_state(from->probe);
    if (!to->state) return cdz_probe_state_size(from->probe) == 0;
    return cdz_probe_copy_state(from->probe, to->state, from->state) == CDZ_OK;
}

void cdz_follow_walk(cdz_follow *f, uint32_t steps, uint64_t key, float *answers)
{
    const size_t len = cdz_answer_len(&f->probe->facts);
    for (uint32_t i = 0; i < steps; i++) {
        (void)cdz_follow_ask(f, answers + i * len);
        (void)cdz_follow_take(f, cdz_some_token(&f->probe->facts, key * 100 + i));
    }
}

bool cdz_same_bits(const float *a, const float *b, size_t n)
{
    const unsigned char *x = (const void *)a, *y = (const void *)b;
    return memcmp(x, y, n * sizeof(float)) == 0;
}

bool cdz_answers_differ(const cdz_probe *t, const float *got, const float *want, char *what,
                        size_t bytes)
{
    const size_t len = t->facts.n_vocab > CDZ_ANSWER_LEAST ? t->facts.n_vocab : CDZ_ANSWER_LEAST;
    if (cdz_same_bits(got, want, len)) return false;
    if (!is_processor(t)) {
        snprintf(what, bytes, "the reason is %g, not %g", (double)got[0], (double)want[0]);
        return true;
    }
    size_t at = 0, n = 0;
    for (size_t i = len; i > 0; i--)
        if (!cdz_same_bits(&got[i - 1], &want[i - 1], 1)) at = i - 1, n++;
    snprintf(what, bytes, "the score of token %zu is %.9g, not %.9g (%zu of %zu differ)", at,
             (double)got[at], (double)want[at], n, len);
    return true;
}
