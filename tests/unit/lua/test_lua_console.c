/* test_lua_console.c - the console behind `cadenza lua`: what statements show, and that mistakes, spent budgets and interrupts
 * end a statement and not the request. */
#include "support/fake_decoder.h"

#include "lua/console.h"
#include "lua/session.h"

typedef struct said {
    const char *text, *shown, *complaint; /* what is written and complained; NULL: nothing */
    cdz_lua_said how;
    int patience; /* questions until the interrupt comes; 0: it does not */
} said;

/* The fake model likes the token after the last one; ids begin 1 3 5 3; tokens are letters. */
static const said talk_of[] = {
    {"1 + 1", "2\n", NULL, CDZ_LUA_RAN, 0},
    {"x = 5", NULL, NULL, CDZ_LUA_RAN, 0},
    {"x, 'a\\n\"b', nil, 2.5", "5\n\"a\\n\\\"b\"\nnil\n2.5\n", NULL, CDZ_LUA_RAN, 0},
    {"'\\27[2J\\xff'", "\"\\x1b[2J\\xff\"\n", NULL, CDZ_LUA_RAN, 0},
    {"local y = 1", NULL, NULL, CDZ_LUA_RAN, 0},
    {"y", "nil\n", NULL, CDZ_LUA_RAN, 0},
    {"for i = 1, 2 do", NULL, NULL, CDZ_LUA_INCOMPLETE, 0},
    {"for i = 1, 2 do\nprint(i, 'x')\nend", "1\tx\n2\tx\n", NULL, CDZ_LUA_RAN, 0},
    {"x = = 1", NULL, "t:1: unexpected symbol near '='", CDZ_LUA_FAILED, 0},
    {"{1, 2, {3}, k = 'v', [7] = true}", "{1, 2, {3}, [7] = true, k = \"v\"}\n", NULL, CDZ_LUA_RAN,
     0},
    {"{{{{}}}}", "{{{table}}}\n", NULL, CDZ_LUA_RAN, 0},
    {"{[{}] = 1}", "table\n", NULL, CDZ_LUA_RAN, 0},
    {"local t = {} for i = 1, 20 do t[i] = i end return t",
     "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, ... 4 more}\n", NULL, CDZ_LUA_RAN, 0},
    {"setmetatable({}, {__tostring = function() error('no') end})", "{}\n", NULL, CDZ_LUA_RAN, 0},
    {"ctx:input_ids()", "ids(4) {1, 3, 5, 3}  \"b\"|\"d\"|\"f\"|\"d\"\n", NULL, CDZ_LUA_RAN, 0},
    {"s = ctx:forward()", NULL, NULL, CDZ_LUA_RAN, 0},
    {"top(s, 2)",
     "scores(1, 16)\n        id      score     prob  text\n         4     5.0000   0.9565  \"e\"\n"
     "         0    -0.0000   0.0064  \"a\"\n",
     NULL, CDZ_LUA_RAN, 0},
    {"s:softmax() top(s, 1)",
     "scores(1, 16)\n        id      score     prob  text\n         4     0.9565   0.9565  \"e\"\n",
     NULL, CDZ_LUA_RAN, 0},
    {"top(vec.new(3))", NULL, "t:1: top: not a row over the vocabulary\n  at t:1", CDZ_LUA_FAILED,
     0},
    {"top(s, 0)", NULL, "expected 1 to 1000", CDZ_LUA_FAILED, 0},
    {"vec.new(3, 0.5)", "vec(3) {0.5, 0.5, 0.5}\n", NULL, CDZ_LUA_RAN, 0},
    {"ctx:append(4)", NULL, NULL, CDZ_LUA_RAN, 0},
    {"#ctx:input_ids()", "5\n", NULL, CDZ_LUA_RAN, 0},
    {"ctx:rewind(1)", NULL, NULL, CDZ_LUA_RAN, 0},
    {"a = ctx:seq_new()", NULL, NULL, CDZ_LUA_RAN, 0},
    {"a:append(ctx:encode('ab'))", "seq(2) {0, 1}  \"a\"|\"b\"\n", NULL, CDZ_LUA_RAN, 0},
    {"a:fork():append(2):ids()", "ids(3) {0, 1, 2}  \"a\"|\"b\"|\"c\"\n", NULL, CDZ_LUA_RAN, 0},
    {"ctx:seq_forward(a):argmax()[1]", "2\n", NULL, CDZ_LUA_RAN, 0},
    {"ctx, print, bitset.new(8)", "object\nfunction\nbitset(8)\n", NULL, CDZ_LUA_RAN, 0},
    {"ctx:nothing()", NULL, "t:1: ctx has no field or verb 'nothing'", CDZ_LUA_FAILED, 0},
    {"ctx:rewind(99)", NULL, "only 0 can be taken back", CDZ_LUA_FAILED, 0},
    {"error({})", NULL, "error object: table", CDZ_LUA_FAILED, 0},
    {"error('no', 0)", NULL, "no", CDZ_LUA_FAILED, 0},
    {"while true do end", NULL, "t:1: interrupted", CDZ_LUA_FAILED, 5},
    {"while true do pcall(function() while true do end end) end", NULL, "t:1: interrupted",
     CDZ_LUA_FAILED, 5},
    {"while true do ctx:forward() end", NULL, "t:1: interrupted", CDZ_LUA_FAILED, 5},
    {"local s = ('x'):rep(1000) while true do s = s .. s end", NULL, "memory budget spent",
     CDZ_LUA_FAILED, 0},
    {"coroutine.yield()", NULL, "coroutine.yield outside a coroutine", CDZ_LUA_FAILED, 0},
    {"coroutine.wrap(function() return ctx:forward():argmax()[1] end)()", "4\n", NULL, CDZ_LUA_RAN,
     0},
    {"io == nil and os == nil and load == nil", "true\n", NULL, CDZ_LUA_RAN, 0},
    {"x", "5\n", NULL, CDZ_LUA_RAN, 0},
    {"help()", "Statements of Lua, in the ctx of a decode loop", NULL, CDZ_LUA_RAN, 0},
};
enum { N_SAID = sizeof talk_of / sizeof talk_of[0] };

typedef struct listener {
    size_t at; /* the statement that runs is at - 1 */
    int asked;
    char shown[8192], complaint[2048];
} listener;

static void check(const listener *l, const said *s, cdz_lua_said how)
{
    const char *shown = s->shown ? s->shown : "";
    const bool begins = shown[0] && shown[strlen(shown) - 1] != '\n'; /* only how it begins */

    if (how != s->how) fail_msg("%s: went %d: %s", s->text, (int)how, l->complaint);
    if (begins ? strncmp(l->shown, shown, strlen(shown)) != 0 : strcmp(l->shown, shown) != 0)
        fail_msg("%s: showed %s", s->text, l->shown);
    if (s->complaint ? !strstr(l->complaint, s->complaint) : l->complaint[0] != '\0')
        fail_msg("%s: complained %s", s->text, l->complaint);
}

static bool give_next(void *user, cdz_lua_said how, cdz_lua_statement *out)
{
    listener *l = user;

    if (l->at > 0) check(l, &talk_of[l->at - 1], how);
    l->shown[0] = l->complaint[0] = '\0';
    l->asked = 0;
    if (l->at == N_SAID) return false;
    const char *text = talk_of[l->at++].text;
    *out = (cdz_lua_statement){text, strlen(text), "t", false};
    return true;
}

static void hear(void *user, const char *text, size_t len)
{
    listener *l = user;
    const size_t at = strlen(l->shown);

    snprintf(l->shown + at, sizeof l->shown - at, "%.*s", (int)len, text);
}

static void hear_complaint(void *user, const char *sentence)
{
    listener *l = user;

    snprintf(l->complaint, sizeof l->complaint, "%s", sentence);
}

static bool is_enough(void *user)
{
    listener *l = user;
    const int patience = talk_of[l->at - 1].patience;

    return patience > 0 && ++l->asked >= patience;
}

static void a_conversation(void **state)
{
    fake_decoder *d = fd_new(1, 60);
    listener l = {0};
    cdz_lua_console console = {.next = give_next,
                               .write = hear,
                               .complain = hear_complaint,
                               .interrupted = is_enough,
                               .user = &l};
    cdz_error err = {0};

    (void)state;
    assert_int_equal(cdz_lua_module_empty("t", &console.module, &err), CDZ_OK);
    d->f->step.plugin = &cdz_lua_console_strategy.base;
    d->f->step.params = &console;
    if (fd_run(d) != CDZ_OK) fail_msg("%s", d->f->err.text);
    assert_int_equal(l.at, N_SAID);
    d->f->step.params = NULL;
    cdz_lua_module_free(console.module);
    fd_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
