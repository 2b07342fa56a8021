/* test_lock.c - cadenza.lock: every malformed text in a sentence; pins that hold, pins that do not; model folders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "lua/lua_loader.h"
#include "plug/lock_write.h"
#include "plug/module.h"
#include "plug/package.h"
#include "plug/registry.h"

#define ZOO CADENZA_BUILD_DIR "/tests/zoo/"
#define H1  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define H2  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define TOP "cadenza.lock 1\n"
#define PIN "plugin org.example.a 1.0.0 processor\n  " H1 "  a.so\n  " H2 "  plugin.ini\n"

/* --- files -------------------------------------------------------------------------------------------------- */

static char home[200];

/* A path in the test's folder; four are alive at a time. */
static const char *at(const char *name)
{
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", home, name);
    return path;
}

static int make_home(void **state)
{
    (void)state;
    snprintf(home, sizeof home, "/tmp/cadenza-test-lock-XXXXXX");
    return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    FILE *p = popen(command, "r"); /* the shortest way to take a tree away */
    return p && pclose(p) == 0 ? 0 : -1;
}

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, sizeof bytes, f);
    assert_true(n > 0 && n < sizeof bytes);
    assert_int_equal(fclose(f), 0);
    write_bytes(to, bytes, n);
}

static void expect(const char *name, cdz_status got, const cdz_error *err, cdz_status status,
                   const char *sentence)
{
    if (got != status) fail_msg("%s: status %d, '%s'", name, (int)got, err->text);
    if (status != CDZ_OK && !strstr(err->text, sentence))
        fail_msg("%s: '%s' lacks '%s'", name, err->text, sentence);
}

/* --- the text ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
    cdz_status status;
    const char *sentence;
} texts[] = {
    {"nothing pinned", TOP, CDZ_OK, NULL},
    {"one", TOP "# why\n\n" PIN, CDZ_OK, NULL},
    {"two", TOP PIN "plugin b 2.0.1 drafter\n  " H1 "  b.lua\n  " H2 "  plugin.ini\n", CDZ_OK, NULL},
    {"empty", "", CDZ_E_INPUT, "x.lock: the file is empty"},
    {"comments only", "# hello\n", CDZ_E_INPUT, "expected 'cadenza.lock 1'"},
    {"another file", "[plugin]\n", CDZ_E_INPUT, "x.lock:1:1: '[plugin]': expected the first line"},
    {"a later format", "cadenza.lock 2\n", CDZ_E_INPUT,
     "format 2; this version of cadenza reads format 1"},
    {"cut in a hash", TOP "plugin org.example.a 1.0.0 processor\n  0123", CDZ_E_INPUT,
     "the file was cut short"},
    {"cut after a hash line", TOP "plugin org.example.a 1.0.0 processor\n  " H1 "  a.so\n",
     CDZ_E_INPUT, "plugin org.example.a has no line for its plugin.ini"},
    {"cut after the plugin line", TOP "plugin org.example.a 1.0.0 processor\n", CDZ_E_INPUT,
     "has no line for its plugin.ini"},
    {"no code", TOP "plugin a 1.0.0 processor\n  " H1 "  plugin.ini\n", CDZ_E_INPUT,
     "plugin a has no line for its code"},
    {"a short hash", TOP "plugin a 1.0.0 processor\n  0123abcd  a.so\n", CDZ_E_INPUT,
     "x.lock:3:3: '0123abcd' has 8 characters: expected 64 hexadecimal digits"},
    {"a long hash", TOP "plugin a 1.0.0 processor\n  " H1 "0  a.so\n", CDZ_E_INPUT,
     "has 65 characters"},
    {"a hash of other letters",
     TOP "plugin a 1.0.0 processor\n  "
         "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  a.so\n",
     CDZ_E_INPUT, "expected 64 hexadecimal digits"},
    {"an id twice", TOP PIN PIN, CDZ_E_INPUT, "x.lock:5:1: plugin org.example.a is there twice"},
    {"a file twice", TOP "plugin a 1.0.0 processor\n  " H1 "  a.so\n  " H1 "  a.so\n", CDZ_E_INPUT,
     "x.lock:4:1: a.so of plugin a is there twice"},
    {"an unknown key", TOP PIN "trust full\n", CDZ_E_INPUT,
     "x.lock:5:1: 'trust full': expected 'plugin ID VERSION KIND' or '  SHA256  FILE'"},
    {"a word too many", TOP "plugin a 1.0.0 processor full\n", CDZ_E_INPUT,
     "expected 'plugin ID VERSION KIND'"},
    {"no version", TOP "plugin a\n", CDZ_E_INPUT, "expected 'plugin ID VERSION KIND'"},
    {"an id with a slash", TOP "plugin a/b 1.0.0 processor\n", CDZ_E_INPUT,
     "expected 'plugin ID VERSION KIND'"},
    {"an unknown kind", TOP "plugin a 1.0.0 butler\n", CDZ_E_INPUT, "'butler' is no kind"},
    {"a file above the folder", TOP "plugin a 1.0.0 processor\n  " H1 "  ../a.so\n", CDZ_E_INPUT,
     "x.lock:3:69: '../a.so': expected a plain file name"},
    {"an absolute file", TOP "plugin a 1.0.0 processor\n  " H1 "  /a.so\n", CDZ_E_INPUT,
     "expected a plain file name"},
    {"the folder as a file", TOP "plugin a 1.0.0 processor\n  " H1 "  ..\n", CDZ_E_INPUT,
     "expected a plain file name"},
    {"no file name", TOP "plugin a 1.0.0 processor\n  " H1 "\n", CDZ_E_INPUT,
     "expected '  SHA256  FILE'"},
    {"a file before any plugin", TOP "  " H1 "  a.so\n", CDZ_E_INPUT,
     "expected a 'plugin ID VERSION KIND' line before its files"},
    {"a carriage return", "cadenza.lock 1\r\n", CDZ_E_INPUT, "format 1\r"},
    {"not UTF-8", TOP "# \xff\n", CDZ_E_INPUT, "is not UTF-8 text"},
};

static void lock_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cdz_lock lock = {0};
        cdz_error err = {0};
        cdz_status st = cdz_lock_parse("x.lock", texts[i].text, strlen(texts[i].text), &lock, &err);
        expect(texts[i].name, st, &err, texts[i].status, texts[i].sentence);
        cdz_lock_free(&lock);
    }
}

/* Cut at any byte, the text is refused, or pins less: never something else. */
static void cut_anywhere(void **state)
{
    (void)state;
    static const char text[] = TOP PIN;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        cdz_lock lock = {0};
        cdz_error err = {0};
        if (cdz_lock_parse("x.lock", text, n, &lock, &err) == CDZ_OK) {
            assert_int_equal(n, strlen(TOP));
            assert_int_equal(lock.n_pins, 0);
        } else {
            assert_true(strncmp(err.text, "x.lock:", 7) == 0);
        }
        cdz_lock_free(&lock);
    }
}

static void limits_of_a_lock(void **state)
{
    (void)state;
    cdz_lock lock = {0};
    cdz_error err = {0};
    cdz_buf text = {0};
    cdz_buf_puts(&text, TOP);
    for (unsigned i = 0; i < CDZ_LOCK_PLUGINS + 1; i++)
        cdz_buf_printf(&text, "plugin p%u 1.0.0 processor\n  " H1 "  a.so\n  " H2 "  plugin.ini\n",
                       i);
    expect("plugins", cdz_lock_parse("x.lock", text.data, text.len, &lock, &err), &err, CDZ_E_LIMIT,
           "more than 1024 plugins");
    cdz_buf_clear(&text);
    cdz_buf_puts(&text, TOP "plugin p 1.0.0 processor\n");
    for (unsigned i = 0; i < CDZ_LOCK_FILES + 1; i++) cdz_buf_printf(&text, "  " H1 "  f%u\n", i);
    expect("files", cdz_lock_parse("x.lock", text.data, text.len, &lock, &err), &err, CDZ_E_LIMIT,
           "plugin p has more than 64 files");
    cdz_buf_clear(&text);
    cdz_buf_puts(&text, TOP "#");
    while (text.len < CDZ_LOCK_BYTES) cdz_buf_puts(&text, "xxxxxxxxxxxxxxxx");
    cdz_buf_puts(&text, "\n");
    write_bytes(at("big.lock"), text.data, text.len);
    expect("size", cdz_lock_read(at("big.lock"), &lock, &err), &err, CDZ_E_LIMIT,
           "big.lock: larger than 1048576 bytes");
    text.len = 3000;
    text.data[2999] = '\n';
    expect("line", cdz_lock_parse("x.lock", text.data, text.len, &lock, &err), &err, CDZ_E_INPUT,
           "x.lock:2:1: a line of ");
    expect("NUL", cdz_lock_parse("x.lock", "cadenza.lock 1\n\0\n", 17, &lock, &err), &err,
           CDZ_E_INPUT, "is not UTF-8 text");
    cdz_buf_free(&text);
}

static void whose_lock_it_is(void **state)
{
    (void)state;
    cdz_lock lock = {0};
    cdz_error err = {0};
    const char *path = at("x.lock");
    assert_int_equal(cdz_lock_read(path, &lock, &err), CDZ_OK);
    assert_false(lock.present);
    cdz_lock_free(&lock);
    write_text(path, TOP PIN);
    assert_int_equal(chmod(path, 0646), 0);
    expect("open", cdz_lock_read(path, &lock, &err), &err, CDZ_E_DENIED,
           "anyone may write to this file");
    assert_int_equal(chmod(path, 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        expect("other user", cdz_lock_read(path, &lock, &err), &err, CDZ_E_DENIED,
               "belongs to another user");
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_int_equal(cdz_lock_read(path, &lock, &err), CDZ_OK);
    assert_string_equal(cdz_pin_sha256(cdz_lock_find(&lock, "org.example.a"), "a.so"), H1);
    cdz_lock_free(&lock);
    expect("a folder", cdz_lock_read(home, &lock, &err), &err, CDZ_E_INPUT,
           "expected a regular file");
    assert_int_equal(symlink("nowhere", at("dangling.lock")), 0);
    assert_int_not_equal(cdz_lock_read(at("dangling.lock"), &lock, &err), CDZ_OK);
}

/* --- writing ------------------------------------------------------------------------------------------------ */

static void edit(const char *path, const char *id, const char *sha256)
{
    cdz_lock_edit e = {.fd = -1};
    cdz_error err = {0};
    cdz_pin_file files[] = {{"plugin.ini", H2}, {"a.so", sha256}};
    const cdz_pin pin = {
        .id = id, .version = "1.0.0", .kind = CDZ_KIND_PROCESSOR, .files = files, .n_files = 2};
    assert_int_equal(cdz_lock_edit_begin(path, &e, &err), CDZ_OK);
    assert_int_equal(cdz_lock_put(&e.lock, &pin, &err), CDZ_OK);
    expect("commit", cdz_lock_edit_commit(&e, &err), &err, CDZ_OK, NULL);
}

static void written_locks(void **state)
{
    (void)state;
    cdz_lock_edit e = {.fd = -1}, other = {.fd = -1};
    cdz_lock lock = {0};
    cdz_error err = {0};
    const char *path = at("deep/er/cadenza.lock");
    edit(path, "org.example.b", H1);
    edit(path, "org.example.a", H1);
    edit(path, "org.example.a", H2); /* the second of one id replaces the first */
    assert_int_equal(cdz_lock_read(path, &lock, &err), CDZ_OK);
    assert_int_equal(lock.n_pins, 2);
    assert_string_equal(lock.pins[0].id, "org.example.a"); /* sorted */
    assert_string_equal(cdz_pin_sha256(&lock.pins[0], "a.so"), H2);
    cdz_lock_free(&lock);

    assert_int_equal(cdz_lock_edit_begin(path, &e, &err), CDZ_OK);
    expect("two at once", cdz_lock_edit_begin(path, &other, &err), &err, CDZ_E_STATE,
           "another cadenza is changing");
    assert_true(cdz_lock_drop(&e.lock, "org.example.b"));
    assert_false(cdz_lock_drop(&e.lock, "org.example.b"));
    cdz_lock_edit_abort(&e);
    assert_int_equal(cdz_lock_read(path, &lock, &err), CDZ_OK);
    assert_int_equal(lock.n_pins, 2); /* given up: as it was */
    cdz_lock_free(&lock);
    assert_int_equal(cdz_lock_edit_begin(path, &e, &err), CDZ_OK); /* and free again */
    cdz_lock_edit_abort(&e);

    write_text(at("broken.lock"), "hello\n");
    assert_int_not_equal(cdz_lock_edit_begin(at("broken.lock"), &e, &err), CDZ_OK);
    assert_int_not_equal(access(at("broken.lock.new"), F_OK), 0);
    assert_int_equal(symlink("deep/er/cadenza.lock", at("link.lock")), 0);
    edit(at("link.lock"), "org.example.c", H1);
    struct stat s;
    assert_true(lstat(at("link.lock"), &s) == 0 && S_ISLNK(s.st_mode));
    assert_int_equal(cdz_lock_read(path, &lock, &err), CDZ_OK);
    assert_int_equal(lock.n_pins, 3);
    cdz_lock_free(&lock);
}

/* --- pins in force ------------------------------------------------------------------------------------------ */

#define GOOD_INI                                                                                   \
    "[plugin]\nid = org.example.zoo\nversion = 1.0.0\nkind = processor\nentry = good.so\n"
#define SCRIPT_INI                                                                                 \
    "[plugin]\nid = org.example.s\nversion = 1.0.0\nkind = processor\nentry = s.lua\n"
#define SCRIPT "return cadenza.processor{id='org.example.s',version='1.0.0',apply=function() end}\n"

/* dir/zoo with native code, dir/s with a script. */
static void make_packages(void)
{
    assert_int_equal(mkdir(at("dir"), 0755), 0);
    assert_int_equal(mkdir(at("dir/zoo"), 0755), 0);
    assert_int_equal(mkdir(at("dir/s"), 0755), 0);
    copy_file(ZOO "good.so", at("dir/zoo/good.so"));
    write_text(at("dir/zoo/plugin.ini"), GOOD_INI);
    write_text(at("dir/s/s.lua"), SCRIPT);
    write_text(at("dir/s/plugin.ini"), SCRIPT_INI);
}

static void pin_folder(const char *lock, const char *folder)
{
    cdz_package *p = calloc(1, sizeof *p);
    cdz_pin_file files[CDZ_LOCK_FILES];
    cdz_lock_edit e = {.fd = -1};
    cdz_error err = {0};
    assert_non_null(p);
    expect(folder, cdz_package_read(folder, p, &err), &err, CDZ_OK, NULL);
    const cdz_pin pin = cdz_package_pin(p, files);
    assert_true(cdz_package_matches(p, &pin));
    assert_int_equal(cdz_lock_edit_begin(lock, &e, &err), CDZ_OK);
    assert_int_equal(cdz_lock_put(&e.lock, &pin, &err), CDZ_OK);
    assert_int_equal(cdz_lock_edit_commit(&e, &err), CDZ_OK);
    cdz_package_free(p);
    free(p);
}

/* Looks id up in `dir` as the user's folder with two locks; what the registry says. */
static void find(const char *name, const char *id, const char *lock, const char *second,
                 cdz_status status, const char *sentence)
{
    char dir[300], first_path[300], second_path[300];
    cdz_registry *r = NULL;
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    snprintf(dir, sizeof dir, "%s/dir", home);
    snprintf(first_path, sizeof first_path, "%s/%s", home, lock);
    snprintf(second_path, sizeof second_path, "%s/%s", home, second);
    const cdz_registry_options options = {
        .builtin_dir = home, .user_dir = dir, .locks = {first_path, second_path}};
    assert_int_equal(cdz_registry_create(&options, &r, &err), CDZ_OK);
    assert_int_equal(cdz_registry_add_linked(r, &cdz_lua_loader.base, &err), CDZ_OK);
    expect(name, cdz_registry_find(r, 0, id, &ref, &err), &err, status, sentence);
    if (ref.module) assert_string_equal(cdz_module_origin(ref.module), "user folder");
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

static void pinned_and_not(void **state)
{
    (void)state;
    make_packages();
    find("not pinned", "org.example.zoo", "a.lock", "b.lock", CDZ_E_DENIED,
         "dir/zoo: native code found in a directory is not loaded unless it is pinned; `cadenza "
         "plugin add ");
    find("a script", "org.example.s", "a.lock", "b.lock", CDZ_OK, NULL);
    pin_folder(at("b.lock"), at("dir/zoo"));
    pin_folder(at("b.lock"), at("dir/s"));
    find("pinned", "org.example.zoo", "a.lock", "b.lock", CDZ_OK, NULL);
    find("a pinned script", "org.example.s", "a.lock", "b.lock", CDZ_OK, NULL);
    write_text(at("a.lock"), TOP "plugin org.example.zoo 1.0.0 processor\n  " H1 "  good.so\n  " H1
                                 "  plugin.ini\n");
    find("the first lock counts", "org.example.zoo", "a.lock", "b.lock", CDZ_E_DENIED,
         "a.lock pins " H1);
    write_text(at("a.lock"), "cadenza.lock 1\nplugin");
    find("a broken lock pins nothing", "org.example.zoo", "a.lock", "b.lock", CDZ_E_INPUT,
         "dir/zoo: its pin cannot be read: ");
    find("not even behind a good one", "org.example.zoo", "b.lock", "a.lock", CDZ_OK, NULL);
}

static void changed_since_pinned(void **state)
{
    (void)state;
    char hash[CDZ_SHA256_HEX], sentence[200];
    make_packages();
    pin_folder(at("a.lock"), at("dir/zoo"));
    pin_folder(at("a.lock"), at("dir/s"));
    copy_file(ZOO "good_second.so", at("dir/zoo/good.so"));
    find("other code", "org.example.zoo", "a.lock", "none", CDZ_E_DENIED,
         "dir/zoo/good.so: its sha256 is ");
    copy_file(ZOO "good.so", at("dir/zoo/good.so"));
    find("the old code again", "org.example.zoo", "a.lock", "none", CDZ_OK, NULL);
    write_text(at("dir/zoo/plugin.ini"), GOOD_INI "summary = New\n");
    cdz_sha256_hex(GOOD_INI "summary = New\n", strlen(GOOD_INI "summary = New\n"), hash);
    snprintf(sentence, sizeof sentence, "dir/zoo/plugin.ini: its sha256 is %s, ", hash);
    find("another manifest", "org.example.zoo", "a.lock", "none", CDZ_E_DENIED, sentence);
    find("and what to do", "org.example.zoo", "a.lock", "none", CDZ_E_DENIED,
         "pin it anew with `cadenza plugin add ");
    write_text(at("dir/s/s.lua"), SCRIPT "-- changed\n");
    find("a script", "org.example.s", "a.lock", "none", CDZ_E_DENIED, "s.lua: its sha256 is ");
    write_text(at("dir/s/plugin.ini"), SCRIPT_INI "files = more.lua, s.lua\n");
    write_text(at("dir/s/more.lua"), "return 1\n");
    pin_folder(at("a.lock"), at("dir/s"));
    find("a script of two files", "org.example.s", "a.lock", "none", CDZ_OK, NULL);
    write_text(at("dir/s/more.lua"), "return 2\n");
    find("its second file", "org.example.s", "a.lock", "none", CDZ_E_DENIED,
         "more.lua: its sha256 is ");
    write_text(at("dir/zoo/plugin.ini"),
               "[plugin]\nid = org.example.zoo\nversion = 1.0.0\nkind = processor\nentry = b.so\n");
    copy_file(ZOO "good.so", at("dir/zoo/b.so"));
    find("another entry", "org.example.zoo", "a.lock", "none", CDZ_E_DENIED,
         "dir/zoo/plugin.ini: its sha256 is ");
}

/* --- packages ----------------------------------------------------------------------------------------------- */

static void package_bounds(void **state)
{
    (void)state;
    cdz_package *p = calloc(1, sizeof *p);
    cdz_error err = {0};
    char staged_old[400];
    assert_non_null(p);
    make_packages();
    write_text(at("outside"), SCRIPT);
    assert_int_equal(unlink(at("dir/s/s.lua")), 0);
    assert_int_equal(symlink("../../outside", at("dir/s/s.lua")), 0);
    expect("a link out", cdz_package_read(at("dir/s"), p, &err), &err, CDZ_E_DENIED,
           "a symbolic link that leads out of the folder");
    assert_int_equal(unlink(at("dir/s/s.lua")), 0);
    write_text(at("dir/s/s.lua"), "");
    assert_int_equal(truncate(at("dir/s/s.lua"), (off_t)CDZ_PACKAGE_FILE_BYTES + 1), 0);
    expect("too large", cdz_package_read(at("dir/s"), p, &err), &err, CDZ_E_LIMIT, "s.lua");
    write_text(at("dir/s/s.lua"), SCRIPT);
    write_text(at("dir/s/plugin.ini"), SCRIPT_INI "sha256 = " H1 "\n");
    expect("its own hash", cdz_package_read(at("dir/s"), p, &err), &err, CDZ_E_DENIED,
           "plugin.ini pins " H1);

    cdz_arena arena = {0};
    char *staged = NULL;
    write_text(at("dir/s/plugin.ini"), SCRIPT_INI);
    assert_int_equal(cdz_package_read(at("dir/s"), p, &err), CDZ_OK);
    assert_int_equal(cdz_package_stage(p, at("to"), &arena, &staged, &err), CDZ_OK);
    expect("install", cdz_package_install(p, staged, at("to"), NULL, &err), &err, CDZ_OK, NULL);
    assert_int_equal(access(at("to/org.example.s/s.lua"), R_OK), 0);
    assert_int_equal(cdz_package_stage(p, at("to"), &arena, &staged, &err), CDZ_OK);
    expect("again", cdz_package_install(p, staged, at("to"), NULL, &err), &err, CDZ_OK, NULL);
    write_text(at("to/org.example.s/notes"), "mine");
    assert_int_equal(cdz_package_stage(p, at("to"), &arena, &staged, &err), CDZ_OK);
    snprintf(staged_old, sizeof staged_old, "%s", staged);
    expect("not over others' files", cdz_package_install(p, staged, at("to"), NULL, &err), &err,
           CDZ_E_STATE, "holds notes, which is not pinned");
    cdz_package_unstage(staged);
    assert_int_not_equal(access(staged_old, F_OK), 0);

    cdz_pin_file files[CDZ_LOCK_FILES];
    const cdz_pin pin = cdz_package_pin(p, files);
    bool gone = true;
    write_text(at("to/org.example.s/plugin.ini"), "changed");
    cdz_package_delete(at("to/org.example.s"), &pin, &gone);
    assert_false(gone); /* what changed, and what was never pinned, stays */
    assert_int_not_equal(access(at("to/org.example.s/s.lua"), F_OK), 0);
    assert_int_equal(access(at("to/org.example.s/plugin.ini"), F_OK), 0);
    assert_int_equal(access(at("to/org.example.s/notes"), F_OK), 0);
    cdz_package_free(p);
    cdz_arena_free(&arena);
    free(p);
}

/* --- model folders ------------------------------------------------------------------------------------------ */

static void load(const char *name, const char *path, bool allowed, cdz_status status,
                 const char *sentence)
{
    cdz_registry *r = NULL;
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    const cdz_registry_options options = {.builtin_dir = home, .allow_model_plugins = allowed};
    assert_int_equal(cdz_registry_create(&options, &r, &err), CDZ_OK);
    assert_int_equal(cdz_registry_add_linked(r, &cdz_lua_loader.base, &err), CDZ_OK);
    expect(name, cdz_registry_load(r, at(path), 0, &ref, &err), &err, status, sentence);
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

static void inside_a_model(void **state)
{
    (void)state;
    make_packages();
    assert_int_equal(mkdir(at("model"), 0755), 0);
    write_text(at("model/config.json"), "{}");
    assert_int_equal(rename(at("dir/s"), at("model/custom_generate")), 0);
    load("no model yet: a folder like any other", "model/custom_generate", false, CDZ_OK, NULL);
    write_text(at("model/tokenizer.json"), "{}");
    load("a script", "model", false, CDZ_E_DENIED, "--allow-model-plugins lets it run");
    load("named itself", "model/custom_generate", false, CDZ_E_DENIED, "--allow-model-plugins");
    load("its file", "model/custom_generate/s.lua", false, CDZ_E_DENIED, "--allow-model-plugins");
    load("allowed", "model", true, CDZ_OK, NULL);
    load("allowed, named itself", "model/custom_generate", true, CDZ_OK, NULL);
    assert_int_equal(symlink("model/custom_generate", at("elsewhere")), 0);
    load("by another name", "elsewhere", false, CDZ_E_DENIED, "--allow-model-plugins");
    write_text(at("model/own.lua"), SCRIPT);
    load("a script the user put beside the weights", "model/own.lua", false, CDZ_OK, NULL);

    assert_int_equal(rename(at("model/custom_generate"), at("model/script")), 0);
    assert_int_equal(rename(at("dir/zoo"), at("model/custom_generate")), 0);
    load("native", "model", false, CDZ_E_DENIED,
         "native code inside a model's folder is never loaded");
    load("native, whatever is allowed", "model", true, CDZ_E_DENIED, "is never loaded");
    load("native by its file", "model/custom_generate/good.so", true, CDZ_E_DENIED,
         "is never loaded");
    load("and what to do", "model", true, CDZ_E_DENIED, "move its package to another folder");
    assert_int_equal(mkdir(at("model/a"), 0755), 0);
    copy_file(ZOO "good.so", at("model/a/good.so"));
    copy_file(ZOO "good.so", at("model/good.so"));
    load("native in the folder", "model/good.so", true, CDZ_E_DENIED, "is never loaded");
    load("native deeper", "model/a/good.so", true, CDZ_E_DENIED, "is never loaded");
    assert_int_equal(mkdir(at("model/a/b"), 0755), 0);
    assert_int_equal(mkdir(at("model/a/b/c"), 0755), 0);
    copy_file(ZOO "good.so", at("model/a/b/c/good.so"));
    load("native deep", "model/a/b/c/good.so", true, CDZ_E_DENIED, "is never loaded");
    assert_int_equal(rename(at("model/custom_generate"), at("moved")), 0);
    load("moved out", "moved", false, CDZ_OK, NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make_home, remove_home)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lock_texts),           CASE(cut_anywhere),   CASE(limits_of_a_lock),
        CASE(whose_lock_it_is),     CASE(written_locks),  CASE(pinned_and_not),
        CASE(changed_since_pinned), CASE(package_bounds), CASE(inside_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
