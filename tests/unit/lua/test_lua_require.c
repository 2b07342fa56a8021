/* test_lua_require.c - require: the files that plugin.ini lists, once each, and nothing else. */
#include "support/fake.h"

#include <sys/stat.h>

#define INI "[plugin]\nid = org.example.t\nversion = 1.0.0\nkind = processor\nentry = t.lua\n"
/* A processor whose apply runs `body`; what came before it is the file's. */
#define PLUGIN(body)                                                                               \
    "return cadenza.processor { id = 'org.example.t', apply = function(p, ids, row) " body " end }"

typedef struct part {
    const char *name, *text; /* text NULL: a link to ../outside.lua */
} part;

typedef struct package {
    const char *name, *files; /* the line of plugin.ini; NULL: no plugin.ini */
    part parts[5];
    const char *refused; /* loading, or NULL */
    const char *fails;   /* apply, or NULL */
    float row0;          /* what apply leaves in row[0] */
} package;

static const package packages[] = {
    {"a table of functions",
     "files = words.lua",
     {{"t.lua", "local w = require 'words'\n" PLUGIN("row[0] = w.seven()")},
      {"words.lua", "return { seven = function() return 7 end }"}},
     NULL,
     NULL,
     7},
    {"with the ending",
     "files = words.lua",
     {{"t.lua", "local w = require 'words.lua'\n" PLUGIN("row[0] = w")}, {"words.lua", "return 5"}},
     NULL,
     NULL,
     5},
    {"two names, each loaded once",
     "files = a.lua, b.lua",
     {{"t.lua", "local a, b = require 'a', require 'b'\n" PLUGIN("row[0] = a.n + b.n")},
      {"a.lua", "loads = (loads or 0) + 1 return { n = loads }"},
      {"b.lua", "local a = require 'a' return { n = 10 * a.n + loads }"}},
     NULL,
     NULL,
     12},
    {"at the first call",
     "files = late.lua",
     {{"t.lua", PLUGIN("row[0] = require('late') assert(rawequal(require, require))")},
      {"late.lua", "return 3"}},
     NULL,
     NULL,
     3},
    {"nothing returned",
     "files = a.lua",
     {{"t.lua", "local a = require 'a'\n" PLUGIN("row[0] = a == true and half or 0")},
      {"a.lua", "half = 0.5"}},
     NULL,
     NULL,
     0.5f},
    {"the same tables for all",
     "files = a.lua b.lua",
     {{"t.lua", "require('a').x = 4\n" PLUGIN("row[0] = require('b').x")},
      {"a.lua", "return {}"},
      {"b.lua", "return require 'a'"}},
     NULL,
     NULL,
     4},
    {"data",
     "files = words.txt",
     {{"t.lua", "local text = cadenza.file('words.txt')\n" PLUGIN("row[0] = #text + text:byte(2)")},
      {"words.txt", "\xff\nab"}},
     NULL,
     NULL,
     14},
    {"numbers",
     "files = a.f32",
     {{"t.lua",
       PLUGIN("local v, w = vec.unpack(cadenza.file('a.f32')), vec.unpack('ab\\0\\0\\0?', 1, 0)\n"
              "assert(#v == 2 and #w == 0 and vec.unpack(cadenza.file 'a.f32', 2, 1)[0] == v[1])\n"
              "local good, why = pcall(vec.unpack, 'abcd', 2, 1)\n"
              "assert(not good and why:find('1 numbers from the 2th on; there are 1', 1, true), why)\n"
              "row[0] = v[0] + v[1]")},
      {"a.f32", "AAAAAAAAB"}},
     NULL,
     NULL,
     24.156862f},
    {"data that is not listed",
     "files = words.txt",
     {{"t.lua", "cadenza.file('word.txt')\n" PLUGIN("")}, {"words.txt", ""}},
     "t.lua:1: cadenza.file 'word.txt': not among the files of plugin.ini: did you mean 'words.txt'?",
     NULL,
     0},
    {"data of no package",
     NULL,
     {{"t.lua", "cadenza.file('/etc/passwd')\n" PLUGIN("")}, {"words.txt", ""}},
     "cadenza.file '/etc/passwd': not among the files of plugin.ini",
     NULL,
     0},
    {"data that is a script",
     "files = a.lua",
     {{"t.lua", "cadenza.file('a.lua')\n" PLUGIN("")}, {"a.lua", ""}},
     "cadenza.file 'a.lua': a script is loaded by require",
     NULL,
     0},
    {"a file that is not listed",
     "files = words.lua",
     {{"t.lua", "local w = require 'word'\n" PLUGIN("")},
      {"words.lua", ""},
      {"word.lua", "return 1"}},
     "t.lua:1: require 'word': not among the files of plugin.ini: did you mean 'words'?",
     NULL,
     0},
    {"no list",
     "",
     {{"t.lua", "local w = require 'words'\n" PLUGIN("")}, {"words.lua", ""}},
     "t.lua:1: require 'words': this script has no other files",
     NULL,
     0},
    {"no plugin.ini",
     NULL,
     {{"t.lua", "local w = require 'words'\n" PLUGIN("")}, {"words.lua", ""}},
     "this script has no other files",
     NULL,
     0},
    {"a path upwards",
     "files = a.lua",
     {{"t.lua", "local w = require '../outside'\n" PLUGIN("")}, {"a.lua", ""}},
     "require '../outside': not among the files of plugin.ini",
     NULL,
     0},
    {"a path here",
     "files = a.lua",
     {{"t.lua", "local w = require './a'\n" PLUGIN("")}, {"a.lua", ""}},
     "require './a': not among the files of plugin.ini",
     NULL,
     0},
    {"an absolute path",
     "files = a.lua",
     {{"t.lua", "local w = require '/etc/passwd'\n" PLUGIN("")}, {"a.lua", ""}},
     "require '/etc/passwd': not among",
     NULL,
     0},
    {"a NUL in the name",
     "files = a.lua",
     {{"t.lua", "local w = require 'a\\0b'\n" PLUGIN("")}, {"a.lua", ""}},
     "require 'a': not among",
     NULL,
     0},
    {"a list that leads upwards",
     "files = ../outside.lua",
     {{"t.lua", PLUGIN("row[0] = 2")}},
     NULL,
     NULL,
     2}, /* of the manifest the package loader complains, before any script */
    {"a link that leads out",
     "files = out.lua",
     {{"t.lua", "local w = require 'out'\n" PLUGIN("")}, {"out.lua", NULL}},
     "this script has no other files",
     NULL,
     0},
    {"what is no Lua is no module",
     "files = data.txt",
     {{"t.lua", "local w = require 'data.txt'\n" PLUGIN("")}, {"data.txt", "return 1"}},
     "this script has no other files",
     NULL,
     0},
    {"bytecode",
     "files = a.lua",
     {{"t.lua", "local w = require 'a'\n" PLUGIN("")}, {"a.lua", "\x1bLua"}},
     "a.lua: is compiled Lua; only source text is accepted",
     NULL,
     0},
    {"bytes that are no text",
     "files = a.lua",
     {{"t.lua", PLUGIN("")}, {"a.lua", "return 1\n-- \xff"}},
     "a.lua:2: is not valid UTF-8",
     NULL,
     0},
    {"a mistake in the file",
     "files = a.lua",
     {{"t.lua", "local w = require 'a'\n" PLUGIN("")}, {"a.lua", "return 1\n+"}},
     "a.lua:2: ",
     NULL,
     0},
    {"an error with its place",
     "files = a.lua",
     {{"t.lua", "local w = require 'a'\n" PLUGIN("w()")},
      {"a.lua", "return function()\n  error('no good') end"}},
     NULL,
     "a.lua:2: no good\n  at a.lua:2",
     0},
    {"a file that requires itself",
     "files = a.lua b.lua",
     {{"t.lua", "local w = require 'a'\n" PLUGIN("")},
      {"a.lua", "return require 'b'"},
      {"b.lua", "return require 'a'"}},
     "b.lua:1: require 'a': a.lua requires itself",
     NULL,
     0},
    {"the sandbox is the same",
     "files = a.lua",
     {{"t.lua", "local w = require 'a'\n" PLUGIN("row[0] = w and 1 or 0")},
      {"a.lua", "return io == nil and os == nil and load == nil and package == nil and _G == nil"}},
     NULL,
     NULL,
     1},
    {"globals written late",
     "files = a.lua",
     {{"t.lua", PLUGIN("require 'a'")}, {"a.lua", "leak = 1"}},
     NULL,
     "a.lua:1: global 'leak' written after the script was loaded",
     0},
    {"an endless file",
     "files = a.lua",
     {{"t.lua", "local w = require 'a'\n" PLUGIN("")}, {"a.lua", "while true do end"}},
     "a.lua:1: instruction budget spent: 2000000 per call",
     NULL,
     0},
};

static void write_package(const package *k, const char *folder)
{
    char path[256], text[1024];

    if (k->files) {
        snprintf(path, sizeof path, "%s/plugin.ini", folder);
        snprintf(text, sizeof text, INI "%s\n", k->files);
        fake_write(path, text, strlen(text));
    }
    for (const part *p = k->parts; p->name; p++) {
        snprintf(path, sizeof path, "%s/%s", folder, p->name);
        if (p->text)
            fake_write(path, p->text, strlen(p->text));
        else
            assert_int_equal(symlink("../outside.lua", path), 0);
    }
}

static void remove_package(const package *k, const char *folder)
{
    char path[256];

    for (const part *p = k->parts; p->name; p++) {
        snprintf(path, sizeof path, "%s/%s", folder, p->name);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/plugin.ini", folder);
    unlink(path);
    rmdir(folder);
}

static void expect_package(const package *k, const char *root)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};
    char folder[128], entry[160];
    cdz_error err = {0};

    snprintf(folder, sizeof folder, "%s/pack", root);
    snprintf(entry, sizeof entry, "%s/t.lua", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_package(k, folder);
    cdz_status st = fake_open(f, entry, &err);
    remove_package(k, folder); /* what is required later was read before */
    if (k->refused) {
        if (st == CDZ_OK || !strstr(err.text, k->refused)) fail_msg("%s: %s", k->name, err.text);
        fake_free(f);
        return;
    }
    if (st != CDZ_OK) fail_msg("%s: %s", k->name, err.text);
    f->step.plugin = f->plugins[0];
    fake_params(f);
    fake_begin(f);
    st = fake_apply(f, row);
    if (k->fails ? st != CDZ_E_PLUGIN || !strstr(f->err.text, k->fails)
                 : st != CDZ_OK || row[0] != k->row0)
        fail_msg("%s: %s, row[0] = %g", k->name, f->err.text, (double)row[0]);
    fake_free(f);
}

static void only_what_is_listed(void **state)
{
    char root[] = "/tmp/cadenza_require_XXXXXX", outside[128];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(outside, sizeof outside, "%s/outside.lua", root);
    fake_write(outside, "return 1", 8);
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        expect_package(&packages[i], root);
    unlink(outside);
    rmdir(root);
}

/* What one request's copy of a file holds, no other request sees. */
static void each_request_its_own(void **state)
{
    const package k = {
        .files = "files = a.lua",
        .parts = {{"t.lua", PLUGIN("local a = require 'a' a.n = a.n + 1 row[0] = a.n")},
                  {"a.lua", "return { n = 0 }"}}};
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};
    char folder[] = "/tmp/cadenza_require_XXXXXX", entry[64];
    cdz_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_package(&k, folder);
    snprintf(entry, sizeof entry, "%s/t.lua", folder);
    assert_int_equal(fake_open(f, entry, &err), CDZ_OK);
    remove_package(&k, folder);
    f->step.plugin = f->plugins[0];
    fake_params(f);
    for (int request = 0; request < 2; request++) {
        fake_begin(f);
        for (int call = 1; call <= 2; call++) {
            assert_int_equal(fake_apply(f, row), CDZ_OK);
            assert_true(row[0] == (float)call);
        }
        fake_processor(f)->end(&f->step);
        f->step.shared = NULL;
    }
    fake_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_listed),
        cmocka_unit_test(each_request_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
