/* test_lua_strategy.c - decode loops in Lua, driven with a fake decoder. */
#include "support/fake_decoder.h"

#include <pthread.h>
#include <semaphore.h>

#include "base/file.h"

static void expect_ids(const fake_decoder *d, uint32_t row, const int32_t *want, uint32_t n)
{
    assert_int_equal(d->rows[row].len, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(d->rows[row].ids[i], want[i]);
}

static void greedy(void **state)
{
    static const int32_t want[] = {1, 3, 5, 3, 4, 5, 6};
    fake_decoder *d = fd_new(2, 7);

    (void)state;
    fake_use(d->f, "return cadenza.strategy { greedy = true, run = function(ctx)\n"
                   "  while not ctx:done() do\n"
                   "    ctx:append(ctx:argmax(ctx:process(ctx:forward())))\n"
                   "  end\nend }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    expect_ids(d, 0, want, 7);
    expect_ids(d, 1, want, 7);
    assert_non_null(
        strstr(d->diary, "forward process append(0,4) append(1,4) forward process append(0,5)"));
    fd_free(d);
}

/* The draws are the request's stream: the same tokens as the same loop in C. */
static void sampling(void **state)
{
    fake_decoder *d = fd_new(2, 8), *c = fd_new(2, 8);
    cdz_scores s;

    (void)state;
    fake_use(d->f,
             "return cadenza.strategy { samples = true, generate = function(ctx)\n"
             "  while not ctx:done() do\n"
             "    local scores = ctx:process(ctx:forward()):temperature(ctx.params.temperature)\n"
             "    ctx:append_rows(ctx:multinomial(scores:softmax()))\n  end\nend,\n"
             "params = { temperature = { 4, 'scores are divided by it' } } }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    while (!cdz_done(&c->dec)) {
        int32_t tokens[2];
        assert_int_equal(cdz_forward(&c->dec, &s), CDZ_OK);
        assert_int_equal(cdz_process(&c->dec, &s), CDZ_OK);
        for (uint32_t r = 0; r < 2; r++) cdz_vec_table()->div(cdz_row(&s, r), s.n_vocab, 4);
        assert_int_equal(cdz_softmax(&c->dec, &s), CDZ_OK);
        assert_int_equal(cdz_multinomial(&c->dec, &s, tokens), CDZ_OK);
        assert_int_equal(cdz_append_rows(&c->dec, tokens), CDZ_OK);
    }
    for (uint32_t r = 0; r < 2; r++) expect_ids(d, r, c->rows[r].ids, c->rows[r].len);
    assert_string_equal(d->diary, c->diary);
    fd_free(d);
    fd_free(c);
}

/* The backtracking loop of the style page, in Lua. */
static void backtracking(void **state)
{
    fake_decoder *d = fd_new(1, 8);

    (void)state;
    fake_use(d->f, "return cadenza.strategy { one_row = true, rewinds = true,\n"
                   "params = { retries = { 2, 0, 1024, 'steps back', integer = true } },\n"
                   "run = function(ctx)\n"
                   "  local left, banned = ctx.params.retries, nil\n"
                   "  while not ctx:done() do\n"
                   "    local scores = ctx:process(ctx:forward())\n"
                   "    if banned then ctx:ban(scores, banned) end\n"
                   "    local token, score, prob = ctx:argmax(scores, 1)\n"
                   "    assert(prob == 0.75 and score > -1)\n"
                   "    if token == 6 and left > 0 and ctx:rewindable() > 0 then\n"
                   "      local ids = ctx:input_ids(); banned = ids[#ids]; left = left - 1\n"
                   "      ctx:rewind(1)\n"
                   "    else banned = nil; ctx:append(token) end\n"
                   "  end\nend }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    assert_non_null(strstr(
        d->diary, "append(0,5) forward process rewind(0,1) forward process ban(0,5) append(0,1)"));
    fd_free(d);
}

static void sequences(void **state)
{
    fake_decoder *d = fd_new(2, 30);

    (void)state;
    fake_use(
        d->f,
        "return cadenza.strategy { run = function(ctx)\n"
        "  local a = ctx:seq_new():append({ 3, 4 })\n"
        "  local b = a:fork():append(7)\n"
        "  assert(#a == 2 and #b == 3 and b:ids()[3] == 7)\n"
        "  local s = ctx:seq_forward({ a, b })\n"
        "  assert(#s == 2 and s:argmax()[1] == 5 and s:argmax()[2] == 8)\n"
        "  assert(ctx:seq_process({ a, b }, { 2, 1 }, s) == s and s[1][1] == 77)\n"
        "  assert(#ctx:seq_forward(b, 'all') == 3 and ctx:seq_forward(b, 'none') == nil)\n"
        "  assert(not pcall(s.row, s, 1), 'scores of an earlier step')\n"
        "  b:truncate(1); assert(#b == 1); ctx:seq_append(b, ctx:input_ids(1)); assert(#b == 5)\n"
        "  local r = ctx:seq_of_row(2); assert(#r == 4 and #r:fork() == 4 and not pcall(r.append, "
        "r, 1))\n"
        "  b:free(); assert(not pcall(b.ids, b)); assert(#ctx:seq_fork(a) == 2)\n"
        "  ctx:seq_truncate(a, 0); assert(#ctx:seq_ids(a) == 0 and not pcall(a.truncate, a, 1))\n"
        "  local t = ctx:stop_test({ { 1, 9 }, ctx:input_ids(1), { 9 } }, { 1, 1, 2 })\n"
        "  assert(t[1] == 'eos' and t[2] == false and t[3] == 'nine')\n"
        "  for i = 1, 200 do ctx:seq_new() end\n"
        "  ctx:finish(1, 'enough'); ctx:finish(2, 'eos')\n"
        "end }");
    /* 200 forgotten sequences in room for 32: they are collected. */
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    assert_non_null(
        strstr(d->diary,
               "seq_forward(2,1) seq_process(1) seq_process(0) seq_forward(1,2) seq_forward(1,0)"));
    fd_free(d);
}

static void ends_and_results(void **state)
{
    fake_decoder *d = fd_new(2, 30);

    (void)state;
    fake_use(
        d->f,
        "return cadenza.strategy { run = function(ctx)\n"
        "  local s = ctx:forward(); ctx:record('logits', s); ctx:record('scores', s)\n"
        "  ctx:result('i', { { 1, 2 }, { 3, 4 } }); ctx:result('f', { 0.5 }); ctx:result('b', "
        "true)\n"
        "  ctx:result('v', vec.from{ 1, 2 }); ctx:result('ids', ctx:input_ids(1)); ctx:result('j', "
        "{ 1 }, 'int32')\n"
        "  ctx:result('s', s); ctx:result('none', {}); ctx:result('g', { 1, 2 }, 'float32')\n"
        "  ctx:result('mixed', { { 1 }, { 2, 'a\\n' } }); ctx:result('word', 'text'); ctx:result('real', { 1, 2.5 })\n"
        "  ctx:result('named', { b = { x = { 1e300 } }, a = { vec.from{ 1 }, ctx:input_ids(1) } })\n"
        "  local loop = {}; loop[1] = loop\n"
        "  for _, bad in ipairs { print, { 1, nil, 3 }, { 1, x = 2 }, { print }, bitset.new(3), '\\xff', loop, { [true] = 1 } } do\n"
        "    assert(not pcall(ctx.result, ctx, 'x', bad), _)\n  end\n"
        "  assert(not pcall(ctx.result, ctx, 'x')); assert(not pcall(ctx.result, ctx, 'x', { 1, 2.5 }, 'int64'))\n"
        "  local own = ctx:scratch_scores(2); own:fill(0); ctx:forward(); own:add(1)\n"
        "  assert(own:row(2):sum() == 16)\n"
        "  local c = ctx:topk_flat(own:copy() and own, 1, 2, { 0, 5 }, 2); assert(c[1].row == 2 "
        "and c[1].score == 6)\n"
        "  assert(ctx:multinomial_flat(own, 1, 2, 1)[1].row == 2)\n"
        "  local u = ctx:uniform(2); assert(#u == 2 and u[1] < 1 and ctx:uniform() < 1)\n"
        "  ctx:reorder({ 2, 1 }); assert(ctx:vocab_size() == 16 and ctx:vocab_size('x') == nil)\n"
        "  assert(ctx:deadline_s() == 12.5 and not ctx:cancelled() and ctx:config('top_k') == 50)\n"
        "  assert(ctx:decode({ 1, 2 }) == 'bc' and ctx:encode('bc')[2] == 2 and ctx.n_rows == 2)\n"
        "  assert(not pcall(ctx.input_ids, ctx, 3) and not pcall(ctx.append, ctx, 1, 99))\n"
        "  ctx:finish(1, 'enough'); ctx:finish(2, 'eos'); assert(ctx:row_done(1) and ctx:done(2) "
        "and ctx:done())\n"
        "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    static const char *const said[] = {
        "record(0,2)",
        "record(1,2)",
        "i:0[2x2]=1,2,3,4,",
        "f:2[1]=0.5,",
        "b:3[]=1,",
        "v:2[2]=1,2,",
        "ids:0[4]=1,3,5,3,",
        "j:1[1]=1,",
        "s:2[2x16]=-0,",
        "none:2[0]=",
        "g:2[2]=1,2,",
        "reorder(10)",
        "mixed:4[17]=[[1], [2, \"a\\n\"]] ",
        "word:4[6]=\"text\" ",
        "real:4[8]=[1, 2.5] ",
        "named:4[50]={\"a\": [[1.0], [1, 3, 5, 3]], \"b\": {\"x\": [1e+300]}} "};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(d->diary, said[i])) fail_msg("no %s in %s", said[i], d->diary);
    assert_string_equal(d->reason[0], "5 enough");
    assert_string_equal(d->reason[1], "1 eos");
    fd_free(d);
}

static void searches(void **state)
{
    fake_decoder *d = fd_new(2, 30);

    (void)state;
    fake_use(
        d->f,
        "return cadenza.strategy { beams = true, run = function(ctx)\n"
        "  local s = ctx:forward(); local kept = ctx:input_ids(1)\n"
        "  ctx:extend_rows({ 2, 2 }, { 7, 8 }); assert(not pcall(function() return kept[1] end))\n"
        "  local t = ctx:token_scores(s, { 1, 2 }, { 4, 3 })\n"
        "  assert(t[1].score == 5 and t[2].score == -0.375 and t[1].logprob == -0.5 and t[1].raw_logprob == nil)\n"
        "  local own = ctx:scratch_scores(2)\n"
        "  assert(ctx:softmax_flat(s, 1, 2, { 0, 2 }, own) == own and own[2]:sum() == 0.5)\n"
        "  assert(ctx:softmax_flat(s, 2, 1) == s)\n"
        "  assert(not pcall(ctx.softmax_flat, ctx, s, 2, 2) and not pcall(ctx.extend_rows, ctx, { 1 }, { 1 }))\n"
        "  for _, bad in ipairs { {}, { {} }, { { row = 3, ids = {} } }, { { row = 1, ids = { 1 }, n_new = 2 } },\n"
        "      { { row = 1, ids = { 1 }, scores = {} } }, { 1 }, { { row = 1, ids = { 1 }, reason = {} } } } do\n"
        "    assert(not pcall(ctx.return_rows, ctx, bad), _)\n  end\n"
        "  ctx:return_rows { { row = 2, ids = { 7, 9 }, n_new = 1, reason = 'eos', scores = { t[1] } }, { row = 1, ids = { 8 }, reason = false } }\n"
        "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    static const char *const said[] = {"reorder(11) append(0,7) append(1,8)", "softmax_flat(0,2,2)",
                                       "softmax_flat(1,1,0)",
                                       "return(1,1 of 2,1,7,9;5 -0.5 1) return(0,1 of 1,0,8)"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(d->diary, said[i])) fail_msg("no %s in %s", said[i], d->diary);
    fd_free(d);
}

static void coroutines(void **state)
{
    static const int32_t want[] = {1, 3, 5, 3, 4, 5, 6};
    fake_decoder *d = fd_new(1, 7);

    (void)state;
    fake_use(d->f,
             "return cadenza.strategy { run = function(ctx)\n"
             "  local inner = coroutine.wrap(function()\n"
             "    while true do coroutine.yield((ctx:argmax(ctx:forward(), 1))) end\n  end)\n"
             "  local outer = coroutine.create(function(a) while not ctx:done() do "
             "ctx:append(inner()); a = coroutine.yield(a) end\n"
             "    return 'end' end)\n"
             "  local last\n"
             "  while coroutine.status(outer) ~= 'dead' do\n"
             "    local ok, v = coroutine.resume(outer, 5); assert(ok, v); last = v\n  end\n"
             "  assert(last == 'end' and not coroutine.resume(outer))\n"
             "  assert(not pcall(coroutine.wrap(function() error('x') end)))\n"
             /* across pcall, its handler and goto */
             "  local over = coroutine.wrap(function() ::again:: local ok, v = pcall(function()\n"
             "    coroutine.yield(1); error(coroutine.yield(2), 0) end)\n"
             "    xpcall(error, function() coroutine.yield(v) end) goto again end)\n"
             "  assert(over() == 1 and over() == 2 and over('e') == 'e' and over() == 1)\nend }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    expect_ids(d, 0, want, 7);
    fd_free(d);
}

static const struct {
    const char *name, *body, *sentence;
} failing[] = {
    {"an error has file, line and traceback", "local function f() error('no luck') end\nf()",
     "t.lua:2: no luck\n  at t.lua:2 in f\n  at t.lua:3"},
    {"after a verb, too", "ctx:forward()\nlocal x = nil + 1",
     "t.lua:3: attempt to perform arithmetic on a nil value"},
    {"an endless loop", "while true do end", "t.lua:2: instruction budget spent: 2000000 per call"},
    {"an endless loop within pcall, between verbs",
     "while true do pcall(function() while true do end end) ctx:forward() end",
     "instruction budget spent"},
    {"many short coroutines", "while true do coroutine.wrap(function() end)() end",
     "instruction budget spent"},
    {"coroutines within coroutines", "local function f() coroutine.wrap(f)() end f()",
     "C stack overflow"},
    {"a close left behind by a dead coroutine",
     "local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end\n"
     "local co = coroutine.create(function() local x <close> = t error('x') end)\n"
     "coroutine.resume(co) coroutine.resume(co) error('past')",
     "past"},
    {"a yield of its own", "coroutine.yield()", "coroutine.yield outside a coroutine of its own"},
    {"a verb within sort", "table.sort({ 1, 2 }, function() ctx:forward() end)",
     "cannot be used inside a sort or gsub callback"},
    {"a yield to the loop with a verb that found no way out",
     "local co = coroutine.create(function() ctx:forward() end)\n"
     "local good, why = pcall(table.sort, { 2, 1 }, function() coroutine.resume(co) end)\n"
     "assert(not good and why:find('inside a sort', 1, true), why)\n"
     "assert(coroutine.status(co) == 'normal' and not coroutine.resume(co)) co = nil\n"
     "for i = 1, 100 do local s = ('x'):rep(20000 + i) end coroutine.yield()",
     "coroutine.yield outside a coroutine of its own"},
    {"ids that are others at the second look",
     "local n, many = 0, {} for i = 1, 1000 do many[i] = 3 end\n"
     "ctx:return_rows { setmetatable({ row = 1 }, { __index = function(_, key)\n"
     "  if key == 'ids' then n = n + 1 return n == 1 and { 1 } or many end end }) }",
     "list of ids expected, got nil"},
    {"vectors that nobody holds",
     "ctx:seq_new():steer { setmetatable({ layer = 1 }, { __index = function(_, key)\n"
     "  if key == 'vector' then return vec.new(3, 1) end end }), 7 }",
     "edit 2 is a number, expected a table"},
    {"edits of too many numbers",
     "local v, list = vec.new(16), {} for i = 1, 70 do list[i] = { layer = 0, vector = v } end\n"
     "for i = 1, 16 do table.move(list, 1, #list, #list + 1) if #list > 65536 then break end end\n"
     "ctx:seq_new():steer(list)",
     "edits; at most 65536"},
    {"addends by a function",
     "local s = ctx:scratch_scores(1)\n"
     "ctx:topk_flat(s, 1, 1, setmetatable({}, { __index = function() return 1 end }), 1)",
     "number expected, got nil"},
    {"a vector in the place of a list of lists",
     "ctx:result('x', { { { 1.5, 2 }, { 1, 2 } }, vec.new(2) }, 'float32')",
     "the table is not rectangular"},
    {"tokens for too few rows", "ctx:append({})", "0 tokens for 1 rows"},
    {"a token out of range", "ctx:append(16)", "token 16 is outside 0 to 15"},
    {"a rewind of a strategy that takes nothing back", "ctx:rewind(1)",
     "the strategy does not declare rewinds = true (CDZ_REWINDS)"},
    {"all of argmax's answers appended", "ctx:append(ctx:argmax(ctx:forward(), 1))",
     "did you pass all of argmax's answers? put it in ( )"},
    {"a token for a row that ended", "ctx:finish(1, 'eos') ctx:append(1, 5)",
     "append: row 1 has ended"},
    {"a score that is a text", "local s = ctx:forward() s:row(1)[1] = 'x'",
     "element 1: a string cannot be a score; expected a number"},
    {"a row too many", "ctx:input_ids(2)", "row 2 is outside 1 to 1"},
    {"scores kept over a step", "local s = ctx:forward() ctx:forward() s:softmax()",
     "this row is no longer valid"},
    {"ids kept over a step", "local i = ctx:input_ids() ctx:append(1) return i[1]",
     "this row is no longer valid"},
    {"a stop reason that is none", "ctx:finish(1, {})", "string expected, got table"},
    {"an unknown verb", "ctx:nothing()", "ctx has no field or verb 'nothing'"},
    {"a verb nearly right", "ctx:appnd(1)", "'appnd': did you mean 'append'?"},
    {"a prompt of no row", "ctx:prompt_of(2)", "row 2 is outside 1 to 1"},
};

static void failing_scripts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        fake_decoder *d = fd_new(1, 1000);
        char source[1024];
        snprintf(source, sizeof source, "return cadenza.strategy { run = function(ctx)\n%s\nend }",
                 failing[i].body);
        fake_use(d->f, source);
        fake_set(d->f, "budget_ms", "10000");
        const cdz_status st = fd_run(d);
        if (st != CDZ_E_PLUGIN || !strstr(d->f->err.text, failing[i].sentence))
            fail_msg("%s: status %d, %s", failing[i].name, (int)st, d->f->err.text);
        fd_free(d);
    }
}

/* Lua counts the instructions of each coroutine apart and drops what is left when it ends, so that work cut into pieces of less
 * than a thousand would cost nothing. Making one and resuming one are charged a thousand each: of two million, a thousand
 * coroutines are the most, whatever they do. */
static void work_in_fresh_coroutines_is_charged(void **state)
{
    static const struct {
        int n, work; /* coroutines, and turns of a loop in each */
        bool spent;
    } cases[] = {
        {950, 0, false}, {950, 30, false}, {1001, 0, true}, {1001, 700, true}, {16180, 120, true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_decoder *d = fd_new(1, 1000);
        char source[400];
        snprintf(source, sizeof source,
                 "return cadenza.strategy { run = function(ctx)\n"
                 "for i = 1, %d do coroutine.wrap(function() for k = 1, %d do end end)() end\n"
                 "error('all of them ran') end }",
                 cases[i].n, cases[i].work);
        fake_use(d->f, source);
        fake_set(d->f, "budget_ms", "100000");
        const char *want =
            cases[i].spent ? "instruction budget spent: 2000000 per call" : "all of them ran";
        if (fd_run(d) != CDZ_E_PLUGIN || !strstr(d->f->err.text, want))
            fail_msg("%d coroutines of %d turns: %s", cases[i].n, cases[i].work, d->f->err.text);
        fd_free(d);
    }
}

/* A cancelled request leaves at its next verb, whatever pcall says, and with the host's status. */
static void cancellation(void **state)
{
    fake_decoder *d = fd_new(1, 1000);

    (void)state;
    d->fail_forward = CDZ_E_CANCELLED;
    fake_use(d->f, "return cadenza.strategy { run = function(ctx)\n"
                   "while true do pcall(ctx.forward, ctx) end end }");
    assert_int_equal(fd_run(d), CDZ_E_CANCELLED);
    assert_string_equal(d->diary, "forward ");
    assert_int_equal(d->f->err.code, CDZ_OK);
    fd_free(d);
}

/* --- two requests whose fibres suspend in each other's forward -------------------------------------------------------------- */

typedef struct baton {
    sem_t turn[2];
} baton;

typedef struct player {
    fake_decoder *d;
    baton *b;
    int me;
    cdz_status st;
} player;

static void pass_baton(fake_decoder *d)
{
    player *p = d->user;

    sem_post(&p->b->turn[1 - p->me]);
    sem_wait(&p->b->turn[p->me]);
}

static void *play(void *user)
{
    player *p = user;

    sem_wait(&p->b->turn[p->me]);
    p->st = fd_run(p->d);
    p->d->on_forward = NULL;
    sem_post(&p->b->turn[1 - p->me]);
    return NULL;
}

static void suspended_runs_interleave(void **state)
{
    static const int32_t want[] = {1, 3, 5, 3, 4, 5, 6, 7, 8, 9};
    fake_decoder *d = fd_new(1, 10), *e = fd_new(1, 10);
    baton b;
    player p[2] = {{d, &b, 0, CDZ_OK}, {e, &b, 1, CDZ_OK}};
    pthread_t threads[2];

    (void)state;
    fake_use(d->f, "return cadenza.strategy { run = function(ctx)\n"
                   "while not ctx:done() do ctx:append(ctx:argmax(ctx:forward())) end end }");
    e->f->step.plugin = d->f->step.plugin; /* one script, two requests */
    e->f->step.params = d->f->step.params;
    for (int i = 0; i < 2; i++) {
        sem_init(&b.turn[i], 0, 0);
        p[i].d->on_forward = pass_baton;
        p[i].d->user = &p[i];
        assert_int_equal(pthread_create(&threads[i], NULL, play, &p[i]), 0);
    }
    sem_post(&b.turn[0]);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p[i].st, CDZ_OK);
        expect_ids(p[i].d, 0, want, 10);
        sem_destroy(&b.turn[i]);
    }
    fd_free(e);
    fd_free(d);
}

static void drafts(void **state)
{
    fake_decoder *d = fd_new(2, 10);

    (void)state;
    fake_use(d->f,
             "return cadenza.strategy { run = function(ctx)\n"
             "  assert(ctx:has_drafter())\n"
             "  local s = ctx:seq_new_exit('target', 3)\n"
             "  assert(#s:hide_as(2) == 0)\n"
             "  ctx:seq_hide_as(s, 1)\n"
             "  local p = ctx:pipeline_derive({ 'a' }, { 'top_k', 'top_p' })\n"
             "  assert(p == 3 and ctx:pipeline_derive() == 3)\n"
             "  local scores = ctx:scratch_scores(2)\n"
             "  assert(ctx:process_ids(p, { { 1, 4 }, { 2 } }, { 2, 1 }, scores)[2][1] == 55)\n"
             "  local tokens, from = ctx:propose(1)\n"
             "  assert(#tokens == 2 and tokens[2] == 7 and #from == 2)\n"
             "  local bare, none = ctx:propose(2)\n"
             "  assert(bare[1] == 6 and none == nil)\n"
             "  assert(ctx:append_chunk(1, tokens, nil, scores) == 2)\n"
             "  ctx:judged(1, 2)\n"
             "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    static const char want[] =
        "exit(target,3) seq_new(target) hide_as(1) hide_as(0) derive(1 a,2 top_k) derive(0 ,0 ) process_ids(3,1,2,4) "
        "process_ids(3,0,1,2) propose(0) propose(1) chunk(0,2,-,scores) append(0,6) append(0,7) "
        "judged(0,2) ";
    if (!strstr(d->diary, want)) fail_msg("%s", d->diary);
    fd_free(d);
}

static void caches(void **state)
{
    fake_decoder *d = fd_new(1, 10);

    (void)state;
    fake_use(d->f,
             "return cadenza.strategy { one_row = true, drops = true, run = function(ctx)\n"
             "  local s = ctx:seq_of_row()\n"
             "  assert(s:drop(2, 5) == s)\n"
             "  ctx:seq_drop(s, 1, 1, { renumber = true })\n"
             "  local keys, values, tokens = s:kv(1, 0, 1, 5)\n"
             "  assert(#keys == 2 and keys[2][1] == 3 and values[1][2] == 6)\n"
             "  assert(tokens[1] == 1 and tokens[2] == 5)\n"
             "  ctx:kv(0, 1, 2, 3)\n"
             "  ctx:seq_kv(s, 0, 1, 2, 3)\n"
             "  local rows = s:attention({ 2, 0 })\n"
             "  assert(#rows == 2 and #rows[1] == 2 and #rows[1][1] == 1)\n"
             "  assert(rows[1][1][1][2] == 0.75 and rows[2][2][1][1] == 0)\n"
             "  assert(#ctx:seq_attention(s, { 1 }, 2)[1][2] == 2)\n"
             "  for _, wrong in ipairs { { 0, 1 }, { 2, 1 }, { 1, 2, { renumbers = true } } } do\n"
             "    assert(not pcall(s.drop, s, table.unpack(wrong)))\n"
             "  end\n"
             "  assert(not pcall(s.kv, s, -1, 0))\n"
             "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    if (!strstr(d->diary, "drop(1,5,0) drop(0,1,1) kv(1,0,0,5) kv(0,1,1,3) kv(0,1,1,3) "
                          "attention(1,2,0) attention(2,1,1) "))
        fail_msg("%s", d->diary);
    fd_free(d);
}

static void hidden(void **state)
{
    fake_decoder *d = fd_new(2, 10);

    (void)state;
    fake_use(d->f, "return cadenza.strategy { run = function(ctx)\n"
                   "  local facts = ctx:facts()\n"
                   "  assert(facts.n_layers == 2 and facts.width == 3 and facts.tied == false)\n"
                   "  assert(facts.n_positions == 0 and ctx:facts('assistant') == nil)\n"
                   "  ctx:keep_hidden('last', { 0, 2 })\n"
                   "  local h = ctx:hidden_states()\n"
                   "  assert(#h == 2 and #h[1] == 2 and #h[2][2] == 3 and h[2][2][3] == 2)\n"
                   "  local scores = ctx:head({ h[1][2], h[2][2] })\n"
                   "  assert(#scores == 2 and #scores[2] == facts.n_vocab and scores[2][2] == 4)\n"
                   "  assert(ctx:lens({ h[1][2], h[2][2] })[2][2] == 8)\n"
                   "  local good, why = pcall(ctx.head, ctx, { scores[1] })\n"
                   "  assert(not good and why:find('has %d+ numbers'))\n"
                   "  ctx:keep_hidden('all', {})\n"
                   "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    if (!strstr(d->diary, "keep_hidden(1,0,2) keep_hidden(2) ")) fail_msg("%s", d->diary);
    fd_free(d);
}

/* --- what is outside, what others wrote, branches ------------------------------------------------------------------------------- */

static void outside_and_branches(void **state)
{
    fake_decoder *d = fd_new(1, 30);

    (void)state;
    fake_use(
        d->f,
        "return cadenza.strategy { one_row = true, rewinds = true, run = function(ctx)\n"
        "  ctx:sleep(0.5)\n"
        "  assert(ctx:call('echo', 'abc') == 'abc')\n"
        "  local said, why = ctx:call('broken', 'abc')\n"
        "  assert(said == nil and why == 'out of order')\n"
        "  assert(ctx:text() == 'fd' and ctx:text_tail(3) == 'fd')\n"
        "  ctx:append(4); ctx:append(5)\n"
        "  assert(ctx:insert({ 7, 8, 7 }, { shown = true, who = 'echo' }) == false)\n"
        "  assert(ctx:text() == 'fdefhih' and ctx:text_tail(2, 1) == 'ih')\n"
        "  ctx:insert(1, { 6 }, { counts = true, stops = true }); ctx:insert({ 6 })\n"
        "  ctx:commit(2); ctx:commit(1, 3)\n"
        "  local good, why = pcall(ctx.insert, ctx, { 6 }, { hidden = true })\n"
        "  assert(not good and why:find(\"no option 'hidden'; there are shown, counts, stops and who\"))\n"
        "  good, why = pcall(ctx.insert, ctx, { 1 }, { shwon = true })\n"
        "  assert(not good and why:find(\"no option 'shwon'; did you mean 'shown'?\", 1, true))\n"
        "  good, why = pcall(ctx.rollouts, ctx, {}, 1, { greedi = true })\n"
        "  assert(not good and why:find(\"no option 'greedi'; did you mean 'greedy'?\", 1, true))\n"
        "  assert(#ctx:convert({ 1, 2 }, 'target', 'assistant') == 2)\n"
        "  local a, b = ctx:seq_of_row():fork():append(9), ctx:seq_of_row():fork():append(3)\n"
        "  local worth = ctx:seq_score({ a, b }, 1)\n"
        "  assert(#worth == 2 and worth[1] == -#a and worth[2] == -#b)\n"
        "  local r, s = ctx:seq_new('reward'):append({ 3, 8 }), ctx:seq_new('reward'):append(5)\n"
        "  local values = ctx:seq_value({ r:fork(), s })\n"
        "  assert(#values == 2 and #values[1] == 2 and values[1][1] == 2 and values[1][2] == 8)\n"
        "  assert(values[2][1] == 1 and ctx:seq_value(r)[1][2] == 8)\n"
        "  assert(ctx:facts().n_values == 0)\n"
        "  assert(ctx:value_label(1, 'reward') == 'dull' and ctx:value_label(2, 'reward') == 'lively')\n"
        "  for _, i in ipairs { 0, 3, -1, math.maxinteger } do assert(ctx:value_label(i, 'reward') == nil) end\n"
        "  assert(ctx:value_label(1) == nil)\n"
        "  assert(#ctx:seq_append_forward({ a, b }, { 1, 2 }) == 2)\n"
        "  local out = ctx:rollouts({ a, b }, 3, { greedy = true, rows = 1 })\n"
        "  assert(out[2].n_new == 3 and math.type(out[2].logprob) == 'float', out[2].n_new .. out[1].n_new)\n"
        "  assert(out[1].n_new == 1 and out[1].stop == 'eos')\n"
        "  assert(not pcall(ctx.rollouts, ctx, { a }, 3, { draws = true }))\n"
        "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    if (!strstr(d->diary,
                "insert(0,3,1,echo) insert(0,1,6,-) insert(0,1,0,-) commit(0,2) commit(0,3)"))
        fail_msg("%s", d->diary);
    fd_free(d);
}

static void edits_of_hidden_states(void **state)
{
    fake_decoder *d = fd_new(2, 10);

    (void)state;
    fake_use(
        d->f,
        "return cadenza.strategy { run = function(ctx)\n"
        "  local s, v = ctx:seq_new(), vec.new(3, 1)\n"
        "  assert(s:steer { { layer = 1, vector = v, scale = 2, from = 3, to = 4 },\n"
        "                   { layer = 0, place = 'mlp', op = 'scale', scale = 0 } } == s)\n"
        "  ctx:seq_steer(ctx:seq_of_row(2), { { layer = 0, place = 'embedding', op = 'replace', vector = v } })\n"
        "  s:steer {}\n"
        "  local words = ctx:embed({ 4, 7 })\n"
        "  assert(#words == 2 and words[2][3] == 7.5)\n"
        "  assert(s:append({ 1, 2, 3 }):embeds(2, words) == s)\n"
        "  s:append_embeds({ v }, 5); s:embeds(1, 2)\n"
        "  ctx:seq_embeds(ctx:seq_of_row(1), 1, { v })\n"
        "  local good, why = pcall(s.embeds, s, 1, { v, vec.new(2) })\n"
        "  assert(not good and why:find('embeds: vector 2 has 2 numbers; expected 3', 1, true), why)\n"
        "  good, why = pcall(s.append_embeds, ctx:seq_of_row(1), { v })\n"
        "  assert(not good and why:find('a row gets vectors by ctx:insert', 1, true), why)\n"
        "  for _, case in ipairs {\n"
        "    { { { leyer = 1 } }, \"edit 1 has no field 'leyer'; did you mean 'layer'?\" },\n"
        "    { { {} }, 'edit 1: layer must be an integer from 0' },\n"
        "    { { { layer = 1.5 } }, 'edit 1: layer must be an integer from 0' },\n"
        "    { { { layer = -1 } }, 'edit 1: layer must be an integer from 0' },\n"
        "    { { { layer = 0, from = 0 } }, 'edit 1: from must be an integer from 1' },\n"
        "    { { { layer = 0, to = math.maxinteger } }, 'edit 1: to must be an integer from 0' },\n"
        "    { { { layer = 0 }, { layer = 0, op = 'ad' } },\n"
        "      \"edit 2: op 'ad' is none of add, replace, scale, project_out, call; did you mean 'add'?\" },\n"
        "    { { { layer = 0, scale = 'x' } }, 'edit 1: scale must be a number' },\n"
        "    { { { layer = 0, vector = { 1 } } }, 'edit 1: vector must be a vec' },\n"
        "    { { 7 }, 'edit 1 is a number, expected a table' },\n"
        "    { 7, 'table expected, got number' } } do\n"
        "    local good, why = pcall(s.steer, s, case[1])\n"
        "    assert(not good and why:find(case[2], 1, true), why)\n"
        "  end\n"
        "end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    if (!strstr(d->diary, "steer(1 3 0 2 3 2 4) steer(0 2 2 0 0 0 0) steer(0 0 1 1 3 0 0) "))
        fail_msg("%s", d->diary);
    if (!strstr(d->diary, "embeds(1 2 3 4 4.25 4.5 7 7.25 7.5) embeds(3 1 3 1 1 1) embeds(0 2 0) "
                          "embeds(0 1 3 1 1 1) "))
        fail_msg("%s", d->diary);
    fd_free(d);
}

/* The script's own views outlive the call, what it is shown does not, and no verb can be called there. */
static void hidden_states_by_a_function(void **state)
{
    fake_decoder *d = fd_new(2, 10);

    (void)state;
    fake_use(
        d->f,
        "local kept, held, n, waiting, other = nil, nil, 0, nil, nil\n"
        "return cadenza.strategy {\n"
        "  on_hidden = function(ctx, row, layer, h)\n"
        "    n = n + 1\n"
        "    assert(row == 2 and layer == 1 and #h == 2 and h.from == 3 and h.to == 4 and h.width == 3)\n"
        "    assert(h.place == 'mlp' and h.scale == 0.5 and h.vector[2] == 1)\n"
        "    assert(h[1][0] == 1 and h[2][2] == 6 and h[2]:norm() > 8)\n"
        "    h[1]:axpy(h.scale, h.vector)\n"
        "    h[2] = h[1]\n"
        "    h[2][0] = 9\n"
        "    for what, wrong in pairs {\n"
        "      ['is read'] = function() h.vector[0] = 1 end,\n"
        "      ['position 3 of 2'] = function() return h[3] end,\n"
        "      ['position 0 of 2'] = function() h[0] = h.vector end,\n"
        "      ['positions can be set'] = function() h.scale = 1 end,\n"
        "      ['different length: 3 and 2'] = function() h[1] = vec.new(2) end,\n"
        "      [\"have no 'layer'\"] = function() return h.layer end,\n"
        "      ['and not in its on_hidden'] = function() ctx:append(3) end,\n"
        "      ['ctx works inside a'] = coroutine.wrap(function() other:attention({ 0 }) end),\n"
        "      ['resume normal coroutine'] = function() error(select(2, coroutine.resume(waiting))) end } "
        "do\n"
        "      local good, why = pcall(wrong)\n"
        "      assert(not good and (what == 'is read' or why:find(what, 1, true)), why)\n"
        "    end\n"
        "    kept, held = h, h[1]\n"
        "  end,\n"
        "  run = function(ctx)\n"
        "    other = ctx:seq_new()\n"
        "    local s, scores = ctx:seq_new():append({ 1, 2, 3 }), ctx:forward()\n"
        "    s:steer { { layer = 1, place = 'mlp', op = 'call', scale = 0.5, vector = vec.new(3, 1) } }\n"
        "    waiting = coroutine.create(function() ctx:seq_forward({ s }, 'last') return 'done' end)\n"
        "    local good, said = coroutine.resume(waiting)\n"
        "    assert(good and said == 'done', said)\n"
        "    waiting = coroutine.create(function() ctx:seq_forward({ s }, 'last') end)\n"
        "    assert(coroutine.resume(waiting))\n"
        "    assert(n == 2 and scores:row(1)[1])\n"
        "    local good, why = pcall(function() return #kept end)\n"
        "    assert(not good and why:find('belong to the call', 1, true), why)\n"
        "    assert(not pcall(function() return held[0] end))\n"
        "    s:steer {}\n"
        "    ctx:seq_forward({ s }, 'last')\n"
        "    assert(n == 2)\n"
        "  end }");
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    if (!strstr(d->diary,
                "on_hidden steer(1 2 4 0.5 3 0 0) h(1.5 2.5 3.5 9 2.5 3.5) seq_forward(1,"))
        fail_msg("%s", d->diary);
    fd_free(d);
}

/* --- every verb of the header has a face in Lua --------------------------------------------------------------------------------- */

static void every_verb_has_a_face(void **state)
{
    fake_decoder *d = fd_new(1, 10);
    cdz_error err = {0};
    char *text = NULL, source[4096];
    size_t len, at, n = 0;

    (void)state;
    if (cdz_file_read(CADENZA_SOURCE_DIR "/sdk/include/cadenza/strategy.h", 1 << 20, &text, &len,
                      &err) != CDZ_OK)
        fail_msg("%s", err.text);
    const char *p = strstr(text, "typedef struct cdz_decoder_api {"),
               *end = strstr(text, "} cdz_decoder_api;");
    assert_non_null(p);
    assert_non_null(end);
    at = (size_t)snprintf(source, sizeof source,
                          "return cadenza.strategy { run = function(ctx) local f\n");
    while ((p = strstr(p, "(*")) != NULL && p < end) {
        const size_t name = strcspn(p += 2, ")");
        if (name == 6 && memcmp(p, "n_rows", 6) == 0) continue; /* a field: ctx.n_rows */
        /* Of files and of functions in C, fn being such a one: scripts have neither. */
        if (name == 7 && (memcmp(p, "wait_fd", 7) == 0 || memcmp(p, "offload", 7) == 0)) continue;
        if (name == 2 && memcmp(p, "fn", 2) == 0) continue;
        at += (size_t)snprintf(source + at, sizeof source - at,
                               "assert(type(ctx.%.*s) == 'function', '%.*s')\n", (int)name, p,
                               (int)name, p);
        n++;
    }
    snprintf(source + at, sizeof source - at, "end }");
    assert_true(n > 30);
    fake_use(d->f, source);
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    free(text);
    fd_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy),
        cmocka_unit_test(drafts),
        cmocka_unit_test(caches),
        cmocka_unit_test(hidden),
        cmocka_unit_test(edits_of_hidden_states),
        cmocka_unit_test(hidden_states_by_a_function),
        cmocka_unit_test(sampling),
        cmocka_unit_test(backtracking),
        cmocka_unit_test(sequences),
        cmocka_unit_test(ends_and_results),
        cmocka_unit_test(searches),
        cmocka_unit_test(coroutines),
        cmocka_unit_test(work_in_fresh_coroutines_is_charged),
        cmocka_unit_test(failing_scripts),
        cmocka_unit_test(cancellation),
        cmocka_unit_test(suspended_runs_interleave),
        cmocka_unit_test(outside_and_branches),
        cmocka_unit_test(every_verb_has_a_face),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
