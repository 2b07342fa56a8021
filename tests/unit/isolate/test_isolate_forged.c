/* test_isolate_forged.c - a program in the worker's place that breaks the protocol in every message: each field with each
 * extreme value, cut, too long, out of order, twice, unasked, late, and changed while it is read. The host says one
 * sentence for each, ends the process, and goes on. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cadenza/drafter.h"
#include "cadenza/processor.h"
#include "plugins/isolate/forger.h"
#include "support/isolated.h"
#include "support/mock_host.h"

static const char forger_path[] = CADENZA_BUILD_DIR "/tests/isolate/forger";

enum { ROOM = 2048, STATE = 16, DRAFT = 3 };

/* --- scripts --------------------------------------------------------------------------------------------------------- */

typedef struct script {
    unsigned char *at;
    size_t len, cap;
} script;

static void add_bytes(script *s, const void *bytes, size_t n)
{
    while (s->len + n > s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4096;
        s->at = realloc(s->at, s->cap);
        assert_non_null(s->at);
    }
    if (n) memcpy(s->at + s->len, bytes, n);
    s->len += n;
}

static void add_step(script *s, forge_step step, const void *bytes)
{
    add_bytes(s, &step, sizeof step);
    add_bytes(s, bytes, step.bytes);
}

static void act(script *s, forge_op op, uint32_t value)
{
    add_step(s, (forge_step){.op = op, .said = value}, NULL);
}

/* --- messages, field by field ------------------------------------------------------------------------------------------ */

typedef struct field {
    const char *name;
    size_t at; /* of a word */
} field;

typedef struct message {
    const char *name;
    unsigned char bytes[ROOM];
    cdz_wire_out out;
    field fields[32];
    size_t n_fields;
} message;

static void begin_message(message *m, const char *name)
{
    m->name = name;
    m->n_fields = 0;
    m->out = (cdz_wire_out){.at = m->bytes, .cap = sizeof m->bytes};
}

/* The next word of the message is this field. */
static void name_field(message *m, const char *name)
{
    assert_true(m->n_fields < sizeof m->fields / sizeof m->fields[0]);
    m->fields[m->n_fields++] = (field){name, m->out.len};
}

static void put_word(message *m, const char *name, uint32_t value)
{
    name_field(m, name);
    cdz_put_u32(&m->out, value);
}

static void put_words(message *m, const char *name, const char *text)
{
    name_field(m, name);
    cdz_put_text(&m->out, text);
}

static void put_ready(message *m)
{
    begin_message(m, "ready");
    put_word(m, "kind", CDZ_DOWN_READY);
    put_word(m, "version", CDZ_ISOLATE_VERSION);
    put_word(m, "guards", CDZ_GUARDS_ALL);
}

static void put_plugin(message *m, uint32_t index, uint32_t kind, uint32_t state, uint32_t has)
{
    char id[32];
    snprintf(id, sizeof id, "test.forged%u", index);
    cdz_put_u32(&m->out, index);
    put_word(m, "plugin kind", kind);
    cdz_put_text(&m->out, id);
    cdz_put_text(&m->out, "1.0.0");
    put_words(m, "summary", "STMP");
    put_word(m, "caps", 0);
    put_word(m, "state", state);
    cdz_put_u32(&m->out, 1);
    put_word(m, "has", has);
    put_word(m, "params", 0);
}

static void put_hello(message *m)
{
    begin_message(m, "hello");
    put_word(m, "kind", CDZ_DOWN_HELLO);
    put_word(m, "n", 3);
    put_plugin(m, 0, CDZ_KIND_PROCESSOR, STATE, CDZ_HAS_CREATE | CDZ_HAS_IDLE | CDZ_HAS_ACCEPT);
    put_plugin(m, 1, CDZ_KIND_CRITERION, 0, 0);
    put_plugin(m, 2, CDZ_KIND_DRAFTER, 0, CDZ_HAS_JUDGED);
}

/* What an honest plugin gives to each call. */
static void put_done(message *m, const char *call)
{
    begin_message(m, call);
    put_word(m, "kind", CDZ_DOWN_DONE);
    put_word(m, "status", CDZ_OK);
    put_words(m, "sentence", NULL);
    if (strcmp(call, "idle") == 0) put_word(m, "answer", 1);
    for (uint32_t i = 0; strcmp(call, "accept") == 0 && i < STATE / 4; i++) put_word(m, "state", i);
    for (uint32_t r = 0; strcmp(call, "test") == 0 && r < MOCK_ROWS; r++) {
        put_word(m, "reason", r ? CDZ_GO_ON : CDZ_STOP_CUSTOM);
        put_words(m, r ? "no text" : "text", r ? NULL : "enough");
    }
    if (strcmp(call, "propose") != 0) return;
    put_word(m, "tokens", DRAFT);
    for (uint32_t i = 0; i < DRAFT; i++) put_word(m, "token", i);
}

static void say(script *s, const message *m)
{
    assert_false(m->out.full);
    add_step(s,
             (forge_step){.op = FORGE_SAY,
                          .said = (uint32_t)m->out.len,
                          .turns = 1,
                          .bytes = (uint32_t)m->out.len},
             m->bytes);
}

static void say_honest(script *s)
{
    message m;
    put_ready(&m);
    say(s, &m);
    put_hello(&m);
    say(s, &m);
}

static void say_done(script *s, const char *call)
{
    message m;
    put_done(&m, call);
    say(s, &m);
}

/* --- the host's part ------------------------------------------------------------------------------------------------------ */

/* What a call is made with and what it left. */
typedef struct scene {
    cdz_isolate *isolate;
    const cdz_plugin_base *const *plugins;
    uint32_t n;
    cdz_arena arena;
    cdz_step step; /* of the plugin that was begun */
    void *states[MOCK_ROWS];
    unsigned char state_bytes[MOCK_ROWS][STATE];
    float rows[MOCK_ROWS * MOCK_VOCAB];
    cdz_stop stops[MOCK_ROWS];
    cdz_draft draft;
    bool answer;
} scene;

static cdz_status open_scene(scene *s, const script *what)
{
    cdz_error err = {0};
    *s = (scene){0};
    mock_said[0] = '\0';
    const cdz_status st = cdz_isolate_open("forged", (const char *)what->at, what->len, forger_path,
                                           &s->isolate, &s->plugins, &s->n, &err);
    if (st != CDZ_OK) snprintf(mock_said, sizeof mock_said, "%s", err.text);
    return st;
}

static void end(scene *s)
{
    const cdz_processor *p = (const cdz_processor *)s->step.plugin;
    const cdz_criterion *c = (const cdz_criterion *)s->step.plugin;
    const cdz_drafter *d = (const cdz_drafter *)s->step.plugin;
    if (!s->step.shared) return;
    switch (s->step.plugin->kind) {
    case CDZ_KIND_PROCESSOR: p->end(&s->step); break;
    case CDZ_KIND_CRITERION: c->end(&s->step); break;
    default: d->end(&s->step); break;
    }
    s->step.shared = NULL;
}

/* Its script has no answer to the request's end: a process that is gone is not asked. */
static void close_scene(scene *s)
{
    if (s->isolate) cdz_peer_stop(&s->isolate->process);
    end(s);
    cdz_isolate_close(s->isolate);
    cdz_arena_free(&s->arena);
}

static const int32_t three_ids[] = {1, 2, 3};
static const cdz_ids histories[MOCK_ROWS] = {{three_ids, 3}, {three_ids, 2}};
static const uint32_t both[MOCK_ROWS] = {0, 1};

/* A plugin of the file, with its defaults and this deadline. */
static void choose(scene *s, uint32_t which, int64_t deadline_ms)
{
    const cdz_plugin_base *base = s->plugins[which];
    const cdz_param_table table = cdz_params_of(base);
    void *params = cdz_arena_alloc(&s->arena, table.params_size);
    assert_non_null(params);
    cdz_params_defaults(&table, params);
    const cdz_param *deadline = cdz_param_find(&table, CDZ_DEADLINE_PARAM);
    *(int64_t *)(void *)((char *)params + deadline->offset) = deadline_ms;
    for (uint32_t r = 0; r < MOCK_ROWS; r++) s->states[r] = s->state_bytes[r];
    s->step = (cdz_step){.size = sizeof s->step,
                         .n_rows = which == 2 ? 1 : MOCK_ROWS,
                         .params = params,
                         .input_ids = histories,
                         .row_index = both,
                         .row_state = which == 0 ? s->states : NULL,
                         .request = &mock_request,
                         .plugin = base,
                         .host = &mock_host};
}

static uint32_t plugin_of(const char *call)
{
    if (strcmp(call, "test") == 0) return 1;
    return strcmp(call, "propose") == 0 || strcmp(call, "judged") == 0 ? 2 : 0;
}

/* Whether a request has to be begun for it. */
static bool is_begun(const char *call)
{
    return strcmp(call, "create") != 0 && strcmp(call, "idle") != 0 && strcmp(call, "begin") != 0;
}

static cdz_status begin(scene *s)
{
    cdz_decoder dec = {.api = &mock_verbs};
    switch (s->step.plugin->kind) {
    case CDZ_KIND_PROCESSOR:
        return ((const cdz_processor *)s->step.plugin)->begin(&s->step, &s->step.shared);
    case CDZ_KIND_CRITERION:
        return ((const cdz_criterion *)s->step.plugin)->begin(&s->step, &s->step.shared);
    default: return ((const cdz_drafter *)s->step.plugin)->begin(&dec, &s->step, &s->step.shared);
    }
}

static cdz_status make_call(scene *s, const char *call)
{
    const cdz_processor *p = (const cdz_processor *)s->step.plugin;
    const cdz_criterion *c = (const cdz_criterion *)s->step.plugin;
    const cdz_drafter *d = (const cdz_drafter *)s->step.plugin;
    cdz_decoder dec = {.api = &mock_verbs};
    cdz_scores scores = {s->rows, MOCK_ROWS, MOCK_VOCAB, MOCK_VOCAB, 1};
    cdz_step alone = s->step;
    alone.request = NULL;
    if (strcmp(call, "create") == 0) return p->create(&alone);
    if (strcmp(call, "begin") == 0) return begin(s);
    if (strcmp(call, "apply") == 0) return p->apply(&s->step, &scores);
    if (strcmp(call, "accept") == 0) return p->accept(&s->step, 0, 1);
    if (strcmp(call, "test") == 0) return c->test(&s->step, s->stops);
    s->draft = (cdz_draft){.size = sizeof s->draft, .room = DRAFT};
    if (strcmp(call, "propose") == 0) return d->propose(&dec, &s->step, &s->draft);
    if (strcmp(call, "judged") == 0) return d->judged(&dec, &s->step, 0, DRAFT, 1);
    if (strcmp(call, "idle") == 0) s->answer = p->idle(&s->step);
    return CDZ_OK; /* end: below */
}

/* Opened, begun, called, ended; what came of it, with what was said in mock_said. lost: whether the process was ended for
 * it. */
static cdz_status play(const script *what, const char *call, int64_t deadline_ms, bool *lost)
{
    scene s;
    cdz_status st = open_scene(&s, what);
    *lost = st != CDZ_OK;
    if (st != CDZ_OK || strcmp(call, "ready") == 0 || strcmp(call, "hello") == 0) {
        close_scene(&s);
        return st;
    }
    choose(&s, plugin_of(call), deadline_ms);
    if (is_begun(call)) st = begin(&s);
    if (st == CDZ_OK) st = make_call(&s, call);
    *lost = s.isolate->process.pid <= 0;
    if (strcmp(call, "end") == 0) {
        end(&s);
        *lost = s.isolate->process.pid <= 0;
    }
    if (*lost) assert_int_equal(s.isolate->crashes, 1);
    close_scene(&s);
    return st;
}

/* --- every field with every extreme value ---------------------------------------------------------------------------------- */

/* What the host has to say of a field with a value between two: the first rule that fits. NULL: it takes it; "": it fails
 * with the plugin's own status, no more. */
typedef struct rule {
    const char *message, *field; /* NULL: any */
    uint32_t from, to;
    const char *want;
    bool stays; /* the process is not at fault */
} rule;

static const char improper[] = "gave no proper answer in",
                  unknown[] = "asked for what there is not",
                  other_build[] = "is of another build of cadenza",
                  not_said[] = "does not say what it is", wrongly[] = "its process describes";

static const rule rules[] = {
    {"ready", "kind", CDZ_DOWN_READY, CDZ_DOWN_READY, NULL, true},
    {"ready", "kind", 0, UINT32_MAX, other_build, false},
    {"ready", "version", CDZ_ISOLATE_VERSION, CDZ_ISOLATE_VERSION, NULL, true},
    {"ready", "version", 0, UINT32_MAX, other_build, false},
    {"ready", "guards", 0, UINT32_MAX, NULL, true},
    {"hello", "kind", CDZ_DOWN_HELLO, CDZ_DOWN_HELLO, NULL, true},
    {"hello", "kind", CDZ_DOWN_REFUSED, CDZ_DOWN_REFUSED, "refused it without saying why", false},
    {"hello", "kind", 0, UINT32_MAX, not_said, false},
    {"hello", "n", 3, 3, NULL, true},
    {"hello", "n", 0, 0, "holds no processor", false},
    {"hello", "n", 0, UINT32_MAX, wrongly, false},
    {"hello", "plugin kind", CDZ_KIND_PROCESSOR, CDZ_KIND_PROCESSOR, NULL, true},
    {"hello", "plugin kind", CDZ_KIND_CRITERION, CDZ_KIND_CRITERION, NULL, true},
    {"hello", "plugin kind", CDZ_KIND_DRAFTER, CDZ_KIND_DRAFTER, NULL, true},
    {"hello", "plugin kind", 0, UINT32_MAX, wrongly, false},
    {"hello", "summary", 4, 4, NULL, true},
    {"hello", "summary", 0, UINT32_MAX, wrongly, false},
    {"hello", "caps", 0, UINT32_MAX, NULL, true}, /* the host that opens the file checks these */
    {"hello", "state", 0, CDZ_MAX_STATE_SIZE, NULL, true},
    {"hello", "state", 0, UINT32_MAX, wrongly, false},
    {"hello", "has", 0, CDZ_HAS_ALL, NULL, true},
    {"hello", "has", 0, UINT32_MAX, wrongly, false},
    {"hello", "params", 0, 0, NULL, true},
    {"hello", "params", 0, UINT32_MAX, wrongly, false},
    {NULL, "kind", CDZ_DOWN_DONE, CDZ_DOWN_DONE, NULL, true},
    {NULL, "kind", 0, UINT32_MAX, unknown, false},
    {NULL, "status", CDZ_OK, CDZ_OK, NULL, true},
    {NULL, "sentence", UINT32_MAX, UINT32_MAX, NULL, true},
    {NULL, "sentence", 0, UINT32_MAX, improper, false},
    {"idle", "answer", 0, 1, NULL, true},
    {"idle", "answer", 0, UINT32_MAX, improper, false},
    {"accept", "state", 0, UINT32_MAX, NULL, true},
    {"test", "reason", 0, UINT32_MAX, NULL, true}, /* the engine checks these */
    {"test", "text", 6, 6, NULL, true},
    {"test", "text", 0, UINT32_MAX, improper, false},
    {"test", "no text", UINT32_MAX, UINT32_MAX, NULL, true},
    {"test", "no text", 0, 0, NULL, true},
    {"test", "no text", 0, UINT32_MAX, improper, false},
    {"propose", "tokens", DRAFT, DRAFT, NULL, true},
    {"propose", "tokens", 0, UINT32_MAX, improper, false},
    {"propose", "token", 0, UINT32_MAX, NULL, true}, /* and these */
};

static const rule *rule_for(const char *name, const char *of, uint32_t value)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const rule *r = &rules[i];
        if (r->message && strcmp(r->message, name) != 0) continue;
        if (strcmp(r->field, of) == 0 && value >= r->from && value <= r->to) return r;
    }
    return NULL;
}

/* A status that is none of DONE's: with more behind it than a failure has, else the plugin's own. */
static const rule *rule_of_status(const message *m, uint32_t value)
{
    static const rule own = {NULL, "status", 0, 0, "", true};
    static const rule none = {NULL, "status", 0, 0, ", which is no status", true};
    static const rule behind = {NULL, "status", 0, 0, improper, false};
    if (m->n_fields > 3) return &behind;
    return value <= CDZ_E_INTERNAL ? &own : &none;
}

static void judge(const char *what, const rule *r, cdz_status st, bool lost)
{
    const char *want = r->want ? r->want : "";
    const bool said = *want ? strstr(mock_said, want) != NULL : mock_said[0] == '\0';
    if (!said || (!r->want && st != CDZ_OK))
        fail_msg("%s: %d, '%s', expected '%s'", what, (int)st, mock_said, *want ? want : "nothing");
    if (strchr(mock_said, '\n')) fail_msg("%s: more than a sentence: '%s'", what, mock_said);
    if (lost == r->stays) fail_msg("%s: its process was%s ended", what, lost ? "" : " not");
}

/* The message in its place in an exchange that is honest otherwise. */
static void perform(const message *m, const char *what, const rule *r)
{
    script s = {0};
    message hello;
    const bool is_ready = strcmp(m->name, "ready") == 0, is_hello = strcmp(m->name, "hello") == 0;
    const bool late = r->want && strstr(r->want, "took longer");
    bool lost;
    if (is_ready) {
        put_hello(&hello);
        say(&s, m);
        say(&s, &hello);
    } else if (is_hello) {
        message ready;
        put_ready(&ready);
        say(&s, &ready);
        say(&s, m);
    } else {
        say_honest(&s);
        if (is_begun(m->name)) say_done(&s, "begin");
        say(&s, m);
    }
    const cdz_status st = play(&s, m->name, late ? 300 : 20000, &lost);
    judge(what, r, st, lost);
    free(s.at);
}

static const uint32_t extremes[] = {
    0,    1,    2,      3,       4,          5,          6,          7,          8,
    9,    10,   11,     12,      13,         14,         16,         0x7f,       0x80,
    0xff, 4096, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, UINT32_MAX,
};

/* The words of an empty answer are those of a question, too: the host answers it and hears no more. */
static bool is_question(const message *m, const char *name, uint32_t value)
{
    return strcmp(name, "kind") == 0 && m->n_fields == 3 && strcmp(m->name, "ready") != 0 &&
           (value == CDZ_DOWN_CONFIG || value == CDZ_DOWN_ENCODE || value == CDZ_DOWN_DECODE);
}

static void change_field(const message *honest, const field *f, uint32_t value)
{
    static const rule asked = {NULL, NULL, 0, 0, "took longer than 300 ms", false};
    const bool question = is_question(honest, f->name, value);
    const rule *r = question ? &asked : rule_for(honest->name, f->name, value);
    message m = *honest;
    char what[128];
    if (question && strcmp(m.name, "apply") != 0) return; /* each takes its deadline */
    if (!r) r = rule_of_status(&m, value);
    snprintf(what, sizeof what, "%s: %s = %u", m.name, f->name, value);
    memcpy(m.bytes + f->at, &value, sizeof value);
    perform(&m, what, r);
}

/* Cut at every byte, and with one more. */
static void change_length(const message *honest)
{
    const bool is_ready = strcmp(honest->name, "ready") == 0,
               is_hello = strcmp(honest->name, "hello") == 0;
    const rule opened = {.want = is_ready ? other_build : not_said};
    const rule described = {.want = wrongly}, answered = {.want = improper},
               empty = {.want = unknown};
    for (size_t len = 0; len <= honest->out.len + 1; len++) {
        char what[64];
        message m = *honest;
        if (len == honest->out.len) continue;
        const rule *r = len < 4 ? &empty : &answered;
        if (is_ready || is_hello) r = is_hello && len >= 4 ? &described : &opened;
        m.out.len = len;
        snprintf(what, sizeof what, "%s: of %zu bytes", m.name, len);
        perform(&m, what, r);
    }
}

static void put_named(message *m, const char *name)
{
    if (strcmp(name, "ready") == 0)
        put_ready(m);
    else if (strcmp(name, "hello") == 0)
        put_hello(m);
    else
        put_done(m, name);
    m->name = name;
}

static const char *const messages[] = {"ready",  "hello", "create",  "idle",   "begin", "apply",
                                       "accept", "test",  "propose", "judged", "end"};

static void every_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        message m;
        put_named(&m, messages[i]);
        for (size_t f = 0; f < m.n_fields; f++)
            for (size_t v = 0; v < sizeof extremes / sizeof extremes[0]; v++)
                change_field(&m, &m.fields[f], extremes[v]);
    }
}

static void every_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        message m;
        put_named(&m, messages[i]);
        change_length(&m);
    }
}

/* What an honest answer leaves with the host. */
static void honest_answers(void **state)
{
    (void)state;
    for (size_t i = 2; i < sizeof messages / sizeof messages[0]; i++) {
        script what = {0};
        scene s;
        const char *call = messages[i];
        say_honest(&what);
        if (is_begun(call)) say_done(&what, "begin");
        say_done(&what, call);
        assert_int_equal(open_scene(&s, &what), CDZ_OK);
        choose(&s, plugin_of(call), 20000);
        if (is_begun(call)) assert_int_equal(begin(&s), CDZ_OK);
        assert_int_equal(make_call(&s, call), CDZ_OK);
        if (strcmp(call, "accept") == 0) {
            const uint32_t counted[] = {0, 1, 2, 3};
            assert_memory_equal(s.state_bytes[0], counted, STATE);
        }
        if (strcmp(call, "test") == 0) {
            assert_int_equal(s.stops[0].reason, CDZ_STOP_CUSTOM);
            assert_memory_equal(s.stops[0].text.at, "enough", 7);
            assert_int_equal(s.stops[1].reason, CDZ_GO_ON);
        }
        if (strcmp(call, "propose") == 0) {
            assert_int_equal(s.draft.tokens.len, DRAFT);
            for (int32_t t = 0; t < DRAFT; t++) assert_int_equal(s.draft.tokens.at[t], t);
        }
        assert_true(s.answer == (strcmp(call, "idle") == 0));
        assert_string_equal(mock_said, "");
        close_scene(&s);
        free(what.at);
    }
}

/* --- order, turns, time, ends ------------------------------------------------------------------------------------------- */

static void say_words(script *s, forge_step step, uint32_t n, const uint32_t *words)
{
    step.bytes = n * (uint32_t)sizeof *words;
    if (!step.said) step.said = step.bytes;
    add_step(s, step, words);
}

static const uint32_t done_words[] = {CDZ_DOWN_DONE, CDZ_OK, UINT32_MAX};
static const uint32_t present_words[] = {CDZ_DOWN_PRESENT};

static void say_again(script *s, uint32_t turns, uint32_t nap, uint32_t said)
{
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = turns, .nap = nap, .said = said}, 3,
              done_words);
}

static void say_ready(script *s)
{
    message m;
    put_ready(&m);
    say(s, &m);
}
static void say_hello(script *s)
{
    message m;
    put_hello(&m);
    say(s, &m);
}
static void ready_twice(script *s)
{
    const uint32_t words[] = {CDZ_DOWN_READY, CDZ_ISOLATE_VERSION, 0};
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = 2}, 3, words);
}
static void refuse(script *s)
{
    cdz_wire_out out = {.at = (unsigned char[64]){0}, .cap = 64};
    cdz_put_u32(&out, CDZ_DOWN_REFUSED);
    cdz_put_u32(&out, CDZ_E_INPUT);
    cdz_put_text(&out, "not \033this\n");
    add_step(s,
             (forge_step){
                 .op = FORGE_SAY, .said = (uint32_t)out.len, .turns = 1, .bytes = (uint32_t)out.len},
             out.at);
}
static void refuse_mutely(script *s)
{
    const uint32_t words[] = {CDZ_DOWN_REFUSED, CDZ_E_INPUT, 0};
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = 1}, 3, words);
}
static void ask(script *s)
{
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = 1}, 1, present_words);
}
static void ask_twice(script *s)
{
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = 2}, 1, present_words);
}
static void blurt_ask(script *s)
{
    say_words(s, (forge_step){.op = FORGE_BLURT, .turns = 1}, 1, present_words);
}
static void blurt_done(script *s)
{
    say_words(s, (forge_step){.op = FORGE_BLURT, .turns = 1}, 3, done_words);
}
static void done(script *s)
{
    say_again(s, 1, 0, 0);
}
static void done_late(script *s)
{
    say_again(s, 1, 1000, 0);
}
static void done_thrice(script *s)
{
    say_again(s, 3, 0, 0);
}
static void done_back(script *s)
{
    say_again(s, UINT32_MAX, 0, 0);
}
static void done_half(script *s)
{
    say_again(s, 1u << 31, 0, 0);
}
static void done_whole(script *s)
{
    say_again(s, 1, 0, CDZ_ISOLATE_DOWN_BYTES);
}
static void done_over(script *s)
{
    say_again(s, 1, 0, CDZ_ISOLATE_DOWN_BYTES + 1);
}
static void done_endless(script *s)
{
    say_again(s, 1, 0, UINT32_MAX);
}
static void leave(script *s)
{
    act(s, FORGE_LEAVE, 0);
}
static void reach(script *s)
{
    act(s, FORGE_REACH, 0);
}
static void exit_3(script *s)
{
    act(s, FORGE_EXIT, 3);
}
static void exit_denied(script *s)
{
    act(s, FORGE_DENY, 0xfffffff0);
    act(s, FORGE_EXIT, 97);
}
static void crash(script *s)
{
    act(s, FORGE_KILL, 11);
}
static void stop(script *s)
{
    act(s, FORGE_KILL, 19);
}
static void draft_much(script *s)
{
    static uint32_t words[4 + CDZ_ASK_DRAFT + 1] = {CDZ_DOWN_DONE, CDZ_OK, UINT32_MAX,
                                                    CDZ_ASK_DRAFT + 1};
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = 1}, sizeof words / sizeof words[0], words);
}
static void draft_enough(script *s)
{
    static uint32_t words[4 + CDZ_ASK_DRAFT] = {CDZ_DOWN_DONE, CDZ_OK, UINT32_MAX, CDZ_ASK_DRAFT};
    say_words(s, (forge_step){.op = FORGE_SAY, .turns = 1}, sizeof words / sizeof words[0], words);
}

/* Steps, then the call that meets them. The process is ended for it, also when it has first taken a turn that was the
 * host's, before the call; or it goes on. */
typedef enum how { ENDED, WAITS, STAYS } how;
typedef struct order_case {
    const char *name;
    void (*steps[8])(script *s);
    const char *call, *want;
    how how;
} order_case;

#define OPENED say_ready, say_hello

static const order_case orders[] = {
    {"ends at once", {exit_3}, "begin", "its process exited with status 3 when it was opened", ENDED},
    {"ends after READY",
     {say_ready, exit_3},
     "begin",
     "exited with status 3 when it was opened",
     ENDED},
    {"crashes after READY",
     {say_ready, crash},
     "begin",
     "crashed (SIGSEGV) when it was opened",
     ENDED},
    {"HELLO first", {say_hello}, "begin", other_build, ENDED},
    {"DONE first", {done}, "begin", other_build, ENDED},
    {"a question first", {ask}, "begin", other_build, ENDED},
    {"READY twice", {say_ready, say_ready}, "begin", not_said, ENDED},
    {"READY, DONE", {say_ready, done}, "begin", not_said, ENDED},
    {"READY, a question", {say_ready, ask}, "begin", not_said, ENDED},
    {"READY, two turns", {ready_twice, say_hello}, "begin", "spoke out of turn when it was", ENDED},
    {"refuses", {say_ready, refuse}, "begin", "forged: not ?this?", ENDED},
    {"refuses mutely",
     {say_ready, refuse_mutely},
     "begin",
     "its process refused it without saying why",
     ENDED},
    {"refuses later", {OPENED, refuse}, "begin", unknown, ENDED},
    {"HELLO again", {OPENED, say_hello}, "begin", unknown, ENDED},
    {"READY again", {OPENED, say_ready}, "begin", unknown, ENDED},
    {"READY in a call", {OPENED, done, say_ready}, "apply", unknown, ENDED},
    {"asks, then DONE", {OPENED, ask, done}, "begin", NULL, STAYS},
    {"asks, two turns", {OPENED, ask_twice}, "begin", "spoke out of turn in begin", ENDED},
    {"DONE, then asks", {OPENED, done, blurt_ask}, "apply", "its process ", WAITS},
    {"DONE twice", {OPENED, done, blurt_done}, "apply", "spoke out of turn in ", WAITS},
    {"DONE unasked", {OPENED, blurt_done}, "begin", "its process ", WAITS},
    {"three turns", {OPENED, done_thrice}, "begin", "spoke out of turn in begin", ENDED},
    {"a turn back", {OPENED, done_back}, "begin", "spoke out of turn in begin", ENDED},
    {"turns past the end", {OPENED, done_half}, "begin", "spoke out of turn in begin", ENDED},
    {"late", {OPENED, done_late}, "begin", "begin took longer than 300 ms", ENDED},
    {"stopped", {OPENED, stop}, "begin", "begin took longer than 300 ms", ENDED},
    {"silent", {OPENED, done}, "apply", "apply took longer than 300 ms", ENDED},
    {"all of it", {OPENED, done_whole}, "begin", improper, ENDED},
    {"more than there is", {OPENED, done_over}, "begin", improper, ENDED},
    {"endless", {OPENED, done_endless}, "begin", improper, ENDED},
    {"as many drafts as can be", {OPENED, done, draft_enough}, "propose", NULL, STAYS},
    {"one draft more", {OPENED, done, draft_much}, "propose", improper, ENDED},
    {"ends in a call", {OPENED, done, exit_3}, "apply", "exited with status 3 in ", ENDED},
    {"crashes in a call", {OPENED, crash}, "begin", "crashed (SIGSEGV) in begin", ENDED},
    {"says what it was refused", {OPENED, exit_denied}, "begin", "for call 4294967280, which", ENDED},
    {"leaves a child", {OPENED, leave, exit_3}, "begin", "its process", ENDED},
    {"reaches for what it has",
     {say_ready, reach, say_hello, done, reach, done},
     "apply",
     NULL,
     STAYS},
};

static size_t count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

/* The turn is taken from the host: no longer than a busy machine needs. */
static void wait_until_taken(const scene *s)
{
    const uint32_t ours = s->isolate->process.turn;
    for (int i = 0; atomic_load(&cdz_peer_head(&s->isolate->process)->turn) == ours; i++) {
        if (i == 30000) fail_msg("it took no turn");
        usleep(1000);
    }
}

static void one_order(const order_case *c)
{
    const rule r = {.want = c->want, .stays = c->how == STAYS};
    const size_t open = count_open();
    script what = {0};
    scene s;
    for (size_t i = 0; i < 8 && c->steps[i]; i++) c->steps[i](&what);
    cdz_status st = open_scene(&s, &what);
    bool lost = st != CDZ_OK;
    if (st == CDZ_OK) {
        choose(&s, plugin_of(c->call), c->want && strstr(c->want, "took longer") ? 300 : 20000);
        if (is_begun(c->call)) st = begin(&s);
        if (st == CDZ_OK && c->how == WAITS) wait_until_taken(&s);
        if (st == CDZ_OK) st = make_call(&s, c->call);
        lost = s.isolate->process.pid <= 0;
    }
    judge(c->name, &r, st, lost);
    close_scene(&s);
    free(what.at);
    assert_int_equal(count_open(), open);
}

static void every_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) one_order(&orders[i]);
}

/* Opening has a deadline of its own. */
static void never_says_what_it_is(void **state)
{
    static const order_case silent = {
        "says nothing", {say_ready}, "begin", "forged: opening it took longer than 10 s", ENDED};
    (void)state;
    one_order(&silent);
}

/* A later process that is another file than the first was. */
static void turncoat(void **state)
{
    script what = {0};
    scene s;
    (void)state;
    say_ready(&what);
    add_step(&what, (forge_step){.op = FORGE_STAMP, .bytes = 4}, "STMP");
    say_hello(&what);
    done(&what);
    exit_3(&what);
    assert_int_equal(open_scene(&s, &what), CDZ_OK);
    choose(&s, 0, 20000);
    assert_int_equal(begin(&s), CDZ_OK);
    assert_int_not_equal(make_call(&s, "apply"), CDZ_OK);
    assert_non_null(strstr(mock_said, "exited with status 3 in apply"));
    assert_int_not_equal(make_call(&s, "apply"), CDZ_OK);
    assert_non_null(strstr(mock_said, "describes itself otherwise than before"));
    close_scene(&s);
    free(what.at);
}

/* --- changed while it is read --------------------------------------------------------------------------------------------- */

/* The host copies, then checks: whatever it meets is an answer or is none, and what it took is what it checked. */
static void changed_while_read(void **state)
{
    enum { ENOUGH = 20, MOST_CALLS = 4000000 };
    static const char *const meets[] = {"idle", "apply", "accept", "test", "propose"};
    (void)state;
    for (size_t i = 0; i < sizeof meets / sizeof meets[0]; i++) {
        script what = {0};
        scene s;
        size_t taken = 0, refused = 0;
        say_honest(&what);
        if (is_begun(meets[i])) say_done(&what, "begin");
        say_done(&what, meets[i]);
        act(&what, FORGE_FLIP, 0);
        act(&what, FORGE_FROM_HERE, 0);
        say_done(&what, meets[i]);
        assert_int_equal(open_scene(&s, &what), CDZ_OK);
        choose(&s, plugin_of(meets[i]), 20000);
        if (is_begun(meets[i])) assert_int_equal(begin(&s), CDZ_OK);
        for (int n = 0; n < MOST_CALLS && (taken < ENOUGH || refused < ENOUGH); n++) {
            mock_said[0] = '\0';
            const cdz_status st = make_call(&s, meets[i]);
            s.isolate->not_before = 0; /* started again at once */
            taken += !mock_said[0];
            refused += mock_said[0] != '\0';
            if (mock_said[0] && !strstr(mock_said, "its process ") &&
                !strstr(mock_said, ", which is no status"))
                fail_msg("%s: %d, '%s'", meets[i], (int)st, mock_said);
        }
        if (!taken || !refused) fail_msg("%s: %zu taken, %zu refused", meets[i], taken, refused);
        close_scene(&s);
        free(what.at);
    }
}

/* --- through the whole program ------------------------------------------------------------------------------------------- */

static const char built_in[] = CADENZA_BUILD_DIR "/lib/cadenza";

/* The folder of the built-in plugins, with the forger in the worker's place; or away with it again. */
static void dress_folder(const char *folder, bool on)
{
    char path[1024], target[512];
    DIR *dir = opendir(built_in);
    assert_non_null(dir);
    assert_int_equal(on ? mkdir(folder, 0700) : 0, 0);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        snprintf(target, sizeof target, "%s/%s", built_in, e->d_name);
        if (e->d_name[0] == '.' || strcmp(e->d_name, "worker") == 0) continue;
        assert_int_equal(on ? symlink(target, path) : unlink(path), 0);
    }
    closedir(dir);
    snprintf(target, sizeof target, "%s/worker", folder);
    snprintf(path, sizeof path, "%s/cadenza-worker", target);
    assert_int_equal(on ? mkdir(target, 0700) : unlink(path), 0);
    assert_int_equal(on ? symlink(forger_path, path) : rmdir(target), 0);
    if (!on) assert_int_equal(rmdir(folder), 0);
}

typedef struct engine_case {
    const char *key;
    uint32_t words[5], n;
    const char *want;
} engine_case;

/* What the readers of messages take and the engine does not, and what neither does. */
static const engine_case engine_cases[] = {
    {"processors", {CDZ_DOWN_DONE, 0, UINT32_MAX, 0}, 4, "gave no proper answer in apply"},
    {"processors", {CDZ_DOWN_READY, 2, 15}, 3, "asked for what there is not in apply"},
    {"processors",
     {CDZ_DOWN_DONE, CDZ_E_DEADLINE, 4, 0x6574616c},
     4,
     "test.forged0: apply failed (deadline passed): late"},
    {"stopping",
     {CDZ_DOWN_DONE, CDZ_E_CANCELLED, 4, 0x6574616c},
     4,
     "test.forged1: test failed (cancelled): late"},
    {"drafter",
     {CDZ_DOWN_DONE, CDZ_E_CANCELLED, 4, 0x6574616c},
     4,
     "test.forged2: propose failed (cancelled): late"},
    {"stopping", {CDZ_DOWN_DONE, 0, UINT32_MAX, 77, UINT32_MAX}, 5, "test gave reason 77, which is"},
    {"stopping", {CDZ_DOWN_DONE, 0, UINT32_MAX, 1}, 4, "gave no proper answer in test"},
    {"drafter", {CDZ_DOWN_DONE, 0, UINT32_MAX, 1, 1 << 30}, 5, "named token 1073741824, which is"},
    {"drafter", {CDZ_DOWN_DONE, 0, UINT32_MAX, 2, 1}, 5, "gave no proper answer in propose"},
};

static void write_script(const char *path, const engine_case *c)
{
    script s = {0};
    message m;
    say_ready(&s);
    begin_message(&m, "hello");
    cdz_put_u32(&m.out, CDZ_DOWN_HELLO);
    cdz_put_u32(&m.out, 3);
    for (uint32_t i = 0; i < 3; i++)
        put_plugin(&m, i, i == 2 ? CDZ_KIND_DRAFTER : CDZ_KIND_PROCESSOR + i, 0, 0);
    say(&s, &m);
    done(&s);
    say_words(&s, (forge_step){.op = FORGE_SAY, .turns = 1}, c->n, c->words);
    act(&s, FORGE_FROM_HERE, 0);
    done(&s);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(s.at, 1, s.len, out), s.len);
    fclose(out);
    free(s.at);
}

/* The request fails by that sentence; the next one, without the file, is served. */
static void through_the_engine(void **state)
{
    static const char prompt[] = "{\"prompt_ids\": [[360,336]]}";
    char folder[] = "/tmp/cadenza-forged-XXXXXX", plugins[128], path[128], ini[512];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(plugins, sizeof plugins, "%s/plugins", folder);
    snprintf(path, sizeof path, "%s/forged.so", folder);
    dress_folder(plugins, true);
    fixture *f = fixture_open(plugins, 1);
    for (size_t i = 0; i < sizeof engine_cases / sizeof engine_cases[0]; i++) {
        const engine_case *c = &engine_cases[i];
        cdz_error err = {0};
        write_script(path, c);
        snprintf(ini, sizeof ini,
                 "[pipeline]\n%s = mine\n[generation]\nmax_new_tokens = 4\ndo_sample = false\n"
                 "eos_token_id = none\n[mine]\nid = %s\nisolation = process\n"
                 "deadline_ms = 20000\n",
                 c->key, path);
        assert_int_not_equal(run_ini(f, ini, prompt, &err), CDZ_OK);
        if (!strstr(err.text, c->want))
            fail_msg("%s: '%s', expected '%s'", c->key, err.text, c->want);
        must(run_ini(f, "[generation]\nmax_new_tokens = 2\n", prompt, &err), &err);
        unlink(path);
    }
    fixture_close(f);
    dress_folder(plugins, false);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_answers),     cmocka_unit_test(every_field),
        cmocka_unit_test(every_length),       cmocka_unit_test(every_order),
        cmocka_unit_test(turncoat),           cmocka_unit_test(never_says_what_it_is),
        cmocka_unit_test(changed_while_read), cmocka_unit_test(through_the_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
