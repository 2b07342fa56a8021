/* test_plug.c - the registry: what is refused and in which words, who wins, what stays loaded.
 * The shared objects come from tests/plugins/zoo; every case works in a fresh folder of its own. */
#include "plug/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/sha256.h"
#include "cadenza/loader.h"
#include "cadenza/processor.h"
#include "params/params.h"
#include "support/folder.h"

#define ZOO CADENZA_BUILD_DIR "/tests/zoo/"

/* --- a folder per case ------------------------------------------------------------------------------------ */

static const char *home;

static int enter(void **state)
{
    (void)state;
    home = folder_make("test");
    return 0;
}

static int leave(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

static void write_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    close(fd);
}

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t len;
    cdz_error err = {0};
    assert_int_equal(cdz_file_read(from, 1 << 24, &data, &len, &err), CDZ_OK);
    write_file(to, data, len);
    free(data);
}

static const char *folder(const char *name)
{
    const char *path = folder_path(name);
    if (mkdir(path, 0755) != 0) assert_int_equal(errno, EEXIST);
    return path;
}

static cdz_registry *registry_of(const char *builtin, const char *search, bool safe)
{
    cdz_registry *r = NULL;
    cdz_registry_options options = {
        .builtin_dir = builtin, .search_path = search, .safe_mode = safe};
    cdz_error err = {0};
    assert_int_equal(cdz_registry_create(&options, &r, &err), CDZ_OK);
    return r;
}

static void expect_sentence(const char *name, const cdz_error *err, const char *want)
{
    if (!strstr(err->text, want)) fail_msg("%s: '%s' lacks '%s'", name, err->text, want);
}

/* Adds what the plugin adds to a score of 0. */
static float applied(const cdz_plugin_ref *ref)
{
    const cdz_processor *p = (const cdz_processor *)ref->base;
    float score = 0;
    cdz_step step = {.size = sizeof step, .n_rows = 1};
    cdz_scores scores = {.data = &score, .n_rows = 1, .n_vocab = 1, .stride = 1};
    assert_int_equal(p->apply(&step, &scores), CDZ_OK);
    return score;
}

/* --- the zoo ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *file, *sentence;
} zoo[] = {
    {"wrong_magic", "'cdz_plugin' is no Cadenza entry: magic 0xdeadbeef, expected 0x5a444143"},
    {"other_major", "built for ABI 7.0, this host speaks 1.0; rebuild it with this SDK"},
    {"other_minor", "built for ABI 1.9, this host speaks 1.0; use a newer Cadenza, or rebuild it "
                    "with this SDK"},
    {"other_flags", "other_flags.so: its entry sets 0x80 in flags, which ABI 1.0 does not have"},
    {"other_caps", "processor 'org.example.zoo' sets 0x10000000 in caps, which ABI 1.0 does not"},
    {"other_base_flags", "processor 'org.example.zoo' sets 0x4 in flags, which ABI 1.0 does not"},
    {"other_param_flags", "parameter strength: it has a flag that is unknown"},
    {"other_extension",
     "needs the extension 'cadenza.sky/1', which this host (ABI 1.0) lacks; it "
     "has cadenza.companion/1, cadenza.constrained/1, cadenza.draft.thread-check/1, cadenza.ended/1, cadenza.files/1, cadenza.form/1, "
     "cadenza.grammar/1, cadenza.inserted/1, cadenza.kv/1, cadenza.mask/1, cadenza.observe/1, cadenza.phase/1, cadenza.scores/1, cadenza.state/1, "
     "cadenza.steer/1, cadenza.text/1, cadenza.tokenizer/1, cadenza.trace/1, cadenza.vec/1"},
    {"reserved_field", "a reserved field of its entry is not 0"},
    {"other_size", "its entry has 24 bytes, this host expects"},
    {"other_fingerprint", "built where cdz_step has"},
    {"null_apply", "processor 'org.example.zoo' has no apply function"},
    {"null_id", "a processor has no id"},
    {"bad_id", "'../Zoo' is no plugin id; expected 1 to 64 of a-z 0-9 . _ -"},
    {"long_id", "is no plugin id; expected 1 to 64 of a-z 0-9 . _ -"},
    {"null_version", "'org.example.zoo' has no version; expected one as \"1.0.0\""},
    {"unknown_kind", "has a plugin of kind 99; this host knows 1 (processor)"},
    {"short_descriptor", "a processor's descriptor has 40 bytes, expected at least"},
    {"huge_state", "wants 1073741824 bytes of state per row; the limit is 1048576"},
    {"min_above_max", "parameter strength: its minimum is above its maximum"},
    {"default_out_of_range", "parameter strength: its default is out of range"},
    {"default_no_integer", "parameter strength: its default is no integer of 64 bits"},
    {"duplicate_parameter", "parameter strength is declared twice"},
    {"offset_outside", "parameter strength: its field lies outside the parameter struct"},
    {"wild_descriptor", "lists a plugin that lies outside the file"},
    {"null_plugin", "lists a plugin that lies outside the file"},
    {"null_list", "its list of 1 plugins lies outside the file"},
    {"no_plugins", "exports 0 plugins; expected 1 to 256"},
    {"million_plugins", "exports 1000000 plugins; expected 1 to 256"},
    {"twice", "exports processor 'org.example.zoo' twice"},
    {"undefined_symbol", "cannot be loaded: undefined symbol: zoo_missing"},
    {"no_symbol", "no symbol 'cdz_plugin': not a Cadenza plugin"},
    {"small_symbol", "'cdz_plugin' is no Cadenza entry: it has 4 bytes"},
};

static void every_animal_is_refused(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    for (size_t i = 0; i < sizeof zoo / sizeof zoo[0]; i++) {
        char path[512];
        cdz_plugin_ref ref = {0};
        cdz_error err = {0};
        snprintf(path, sizeof path, ZOO "%s.so", zoo[i].file);
        if (cdz_registry_load(r, path, 0, &ref, &err) != CDZ_E_PLUGIN)
            fail_msg("%s: status %d, '%s'", zoo[i].file, (int)err.code, err.text);
        expect_sentence(zoo[i].file, &err, zoo[i].sentence);
        expect_sentence("the file is named", &err, path);
        assert_null(ref.module);
    }
    cdz_registry_free(r);
}

/* --- files that are no shared objects ------------------------------------------------------------------------ */

typedef struct bytes {
    char *data;
    size_t len;
} bytes;

static bytes zoo_bytes(const char *path)
{
    bytes b;
    cdz_error err = {0};
    assert_int_equal(cdz_file_read(path, 1 << 24, &b.data, &b.len, &err), CDZ_OK);
    return b;
}

static void expect_refusal(const char *name, const char *path, cdz_status status, const char *want)
{
    cdz_registry *r = registry_of(home, NULL, false);
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    cdz_status st = cdz_registry_load(r, path, 0, &ref, &err);
    if (st != status) fail_msg("%s: status %d, '%s'", name, (int)st, err.text);
    expect_sentence(name, &err, want);
    cdz_registry_free(r);
}

/* At every length: the dynamic loader would map a short file and die of SIGBUS. */
static void cut_short_anywhere(void **state)
{
    (void)state;
    bytes b = zoo_bytes(ZOO "good.so");
    const char *path = folder_path("cut.so");
    for (size_t len = 0; len < b.len; len += len < 1200 ? 61 : 1777) {
        cdz_registry *r = registry_of(home, NULL, false);
        cdz_plugin_ref ref = {0};
        cdz_error err = {0};
        write_file(path, b.data, len);
        /* What only lacks its section table is whole as far as loading goes. */
        if (cdz_registry_load(r, path, 0, &ref, &err) == CDZ_OK)
            cdz_module_release(ref.module);
        else
            expect_sentence("cut short", &err, len < 4 ? "not a shared object" : "cut short");
        cdz_registry_free(r);
    }
    write_file(path, b.data, b.len / 2);
    expect_refusal("half", path, CDZ_E_PLUGIN, "cut short");
    free(b.data);
}

static void damaged_headers(void **state)
{
    (void)state;
    bytes b = zoo_bytes(ZOO "good.so");
    const char *path = folder_path("odd.so");
    const struct {
        size_t offset;
        char value;
        const char *sentence;
    } cases[] = {
        {4, 1, "built for a 32-bit machine, this host is 64-bit"},
        {18, 8, "built for another machine (ELF machine 8"},
        {16, 2, "not a shared object (ELF type 2)"},
        {39, 0x7f, "its program headers lie outside its"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *copy = malloc(b.len);
        assert_non_null(copy);
        memcpy(copy, b.data, b.len);
        copy[cases[i].offset] = cases[i].value;
        write_file(path, copy, b.len);
        free(copy);
        expect_refusal(cases[i].sentence, path, CDZ_E_PLUGIN, cases[i].sentence);
    }
    free(b.data);
}

/* A library that is needed by a relative path would be looked for in the current directory. */
static void relative_library(void **state)
{
    (void)state;
    bytes b = zoo_bytes(ZOO "rounding.so");
    static const char from[] = "libm.so.6", to[] = "li/m.so.6";
    unsigned changed = 0;
    for (size_t i = 0; i + sizeof from <= b.len; i++)
        if (memcmp(b.data + i, from, sizeof from) == 0) {
            memcpy(b.data + i, to, sizeof to);
            changed++;
        }
    assert_true(changed > 0);
    write_file(folder_path("relative.so"), b.data, b.len);
    free(b.data);
    expect_refusal("relative", folder_path("relative.so"), CDZ_E_DENIED,
                   "needs the library 'li/m.so.6' by a relative path");
}

static void what_is_no_plugin_file(void **state)
{
    (void)state;
    write_text(folder_path("text.so"), "hello, I am a shared object\n");
    expect_refusal("text", folder_path("text.so"), CDZ_E_PLUGIN,
                   "does not begin with an ELF header");
    write_text(folder_path("empty.so"), "");
    expect_refusal("empty", folder_path("empty.so"), CDZ_E_PLUGIN,
                   "does not begin with an ELF header");
    expect_refusal("missing", folder_path("missing.so"), CDZ_E_NOT_FOUND,
                   "no such plugin file or folder");
    write_text(folder_path("notes.txt"), "x");
    expect_refusal("other suffix", folder_path("notes.txt"), CDZ_E_INPUT,
                   "its name ends in none of .so");
    assert_int_equal(mkfifo(folder_path("pipe.so"), 0644), 0);
    expect_refusal("fifo", folder_path("pipe.so"), CDZ_E_INPUT, "not a regular file");
    expect_refusal("device", "/dev/null", CDZ_E_INPUT, "not a regular file");
    expect_refusal("plain folder", folder("plain"), CDZ_E_NOT_FOUND, "it has no plugin.ini");
}

/* --- loading and unloading ----------------------------------------------------------------------------------- */

static void a_good_one(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    cdz_plugin_ref a, b;
    cdz_error err = {0};
    assert_int_equal(cdz_registry_load(r, ZOO "good.so", 0, &a, &err), CDZ_OK);
    assert_string_equal(a.base->id, "org.example.zoo");
    assert_string_equal(a.base->version, "1.0.0");
    assert_int_equal(a.base->size, sizeof(cdz_processor));
    assert_string_equal(cdz_module_path(a.module), ZOO "good.so");
    assert_string_equal(cdz_module_origin(a.module), "named by the user");
    assert_true(applied(&a) == 1.0f);
    assert_int_equal(cdz_registry_find(r, CDZ_KIND_PROCESSOR, "org.example.zoo", &b, &err), CDZ_OK);
    assert_ptr_equal(a.base, b.base);
    cdz_module_release(b.module);
    assert_int_equal(cdz_registry_load(r, ZOO "../zoo/good.so", 0, &b, &err), CDZ_OK);
    assert_ptr_equal(a.module, b.module);
    cdz_module_release(b.module);
    cdz_registry_free(r);
    assert_true(applied(&a) == 1.0f); /* a reference outlives the registry */
    cdz_module_release(a.module);
}

static void wrong_kind(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    assert_int_equal(cdz_registry_load(r, ZOO "good.so", CDZ_KIND_STRATEGY, &ref, &err),
                     CDZ_E_INPUT);
    expect_sentence("load", &err, "holds no strategy; it has the processor 'org.example.zoo'");
    assert_int_equal(cdz_registry_find(r, CDZ_KIND_STRATEGY, "org.example.zoo", &ref, &err),
                     CDZ_E_NOT_FOUND);
    expect_sentence("find", &err, "'org.example.zoo' is of the kind processor; expected strategy");
    assert_int_equal(cdz_registry_find(r, CDZ_KIND_PROCESSOR, "org.example.zop", &ref, &err),
                     CDZ_E_NOT_FOUND);
    expect_sentence("near", &err, "no processor 'org.example.zop': did you mean 'org.example.zoo'?");
    cdz_registry_free(r);
}

/* Rewritten in place, then replaced by a new file: both generations run side by side. */
static void generations(void **state)
{
    (void)state;
    const char *path = folder_path("p.so"), *fresh = folder_path("fresh.so");
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    cdz_plugin_ref a, b, c;
    cdz_error err = {0};
    copy_file(ZOO "good.so", path);
    assert_int_equal(cdz_registry_load(r, path, 0, &a, &err), CDZ_OK);
    write_text(path, "cut"); /* what would be SIGBUS for a mapped file */
    assert_true(applied(&a) == 1.0f);
    assert_int_equal(cdz_registry_load(r, path, 0, &b, &err), CDZ_E_PLUGIN);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.zoo", &b, &err), CDZ_OK);
    assert_ptr_equal(a.module, b.module); /* a failed load leaves the old one serving */
    cdz_module_release(b.module);

    copy_file(ZOO "good_second.so", fresh);
    assert_int_equal(rename(fresh, path), 0);
    assert_int_equal(cdz_registry_load(r, path, 0, &b, &err), CDZ_OK);
    assert_string_equal(b.base->version, "2.0.0");
    assert_true(applied(&a) == 1.0f);
    assert_true(applied(&b) == 2.0f);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.zoo", &c, &err), CDZ_OK);
    assert_ptr_equal(b.module, c.module);
    cdz_module_release(c.module);
    cdz_module_release(a.module);
    cdz_registry_free(r);
    assert_true(applied(&b) == 2.0f);
    cdz_module_release(b.module);
}

static size_t open_files(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static void nothing_stays_open(void **state)
{
    (void)state;
    const size_t before = open_files();
    const char *none = folder("none");
    for (int i = 0; i < 50; i++) {
        cdz_registry *r = registry_of(none, NULL, false);
        cdz_plugin_ref ref;
        cdz_error err = {0};
        assert_int_equal(cdz_registry_load(r, ZOO "good.so", 0, &ref, &err), CDZ_OK);
        cdz_module_release(ref.module);
        assert_int_equal(cdz_registry_load(r, ZOO "null_apply.so", 0, &ref, &err), CDZ_E_PLUGIN);
        cdz_registry_free(r);
    }
    assert_int_equal(open_files(), before);
}

static void resident_code_stays(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    cdz_plugin_ref ref;
    cdz_error err = {0};
    assert_int_equal(cdz_registry_load(r, ZOO "resident.so", 0, &ref, &err), CDZ_OK);
    cdz_status (*apply)(const cdz_step *, cdz_scores *) = ((const cdz_processor *)ref.base)->apply;
    cdz_module_release(ref.module);
    cdz_registry_free(r);
    float score = 0;
    cdz_scores scores = {.data = &score, .n_rows = 1, .n_vocab = 1, .stride = 1};
    assert_int_equal(apply(NULL, &scores), CDZ_OK);
    assert_true(score == 1.0f);
}

static void the_floating_point_mode_stays(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    cdz_plugin_ref ref;
    cdz_error err = {0};
    assert_int_equal(fegetround(), FE_TONEAREST);
    assert_int_equal(cdz_registry_load(r, ZOO "rounding.so", 0, &ref, &err), CDZ_OK);
    assert_int_equal(fegetround(), FE_TONEAREST);
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

/* --- directories ------------------------------------------------------------------------------------------ */

/* A loader of ".note" files: the first word is the id of a processor. Counts what is loaded. */
typedef struct note {
    cdz_processor processor;
    const cdz_plugin_base *list[1];
    char id[65];
} note;

static int notes_loaded;

static cdz_status note_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    (void)scores;
    return CDZ_OK;
}

static cdz_status note_open(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    (void)step;
    note *made = calloc(1, sizeof *made);
    assert_non_null(made);
    snprintf(made->id, sizeof made->id, "%.64s", file->bytes);
    made->processor = (cdz_processor){
        .base = {CDZ_PROCESSOR_BASE, .id = made->id, .version = "1.0.0"}, .apply = note_apply};
    made->list[0] = &made->processor.base;
    *out = (cdz_opened){sizeof *out, 1, made->list, made};
    notes_loaded++;
    return CDZ_OK;
}

static void note_close(const cdz_step *step, void *state)
{
    (void)step;
    notes_loaded--;
    free(state);
}

static const cdz_loader note_loader = {
    .base = {CDZ_LOADER_BASE, .id = "notes", .version = "1.0.0"},
    .caps = CDZ_SANDBOXES,
    .max_bytes = 4096,
    .endings = "memo|note",
    .open = note_open,
    .close = note_close,
};

typedef struct listing {
    size_t n;
    char lines[32][600]; /* "id origin problem" */
} listing;

/* Loaders of the test's own are left out. */
static void take_line(void *user, const cdz_plugin_line *line)
{
    listing *l = user;
    if (strcmp(line->path, "libcadenza") == 0) return;
    assert_true(l->n < 32);
    const char *slash = strrchr(line->path, '/');
    snprintf(l->lines[l->n++], sizeof l->lines[0], "%s | %s | %s | %s",
             slash ? slash + 1 : line->path, line->ref.base ? line->ref.base->id : "-",
             line->origin, line->problem ? line->problem : "");
}

static void expect_line(const listing *l, const char *start, const char *problem)
{
    for (size_t i = 0; i < l->n; i++)
        if (strncmp(l->lines[i], start, strlen(start)) == 0 && strstr(l->lines[i], problem)) return;
    for (size_t i = 0; i < l->n; i++) print_message("  %s\n", l->lines[i]);
    fail_msg("no line '%s...%s'", start, problem);
}

static void consent_and_order(void **state)
{
    (void)state;
    const char *builtin = folder("builtin"), *search = folder("search");
    char search_path[600];
    listing l = {0};
    cdz_plugin_ref ref;
    cdz_error err = {0};
    copy_file(ZOO "good.so", folder_path("builtin/good.so"));
    write_text(folder_path("builtin/both.note"), "org.example.both");
    write_text(folder_path("search/both.note"), "org.example.both");
    write_text(folder_path("search/mine.note"), "org.example.mine");
    write_text(folder_path("search/.hidden.note"), "org.example.hidden");
    write_text(folder_path("search/bad.note"), "No Good");
    copy_file(ZOO "resident.so", folder_path("search/resident.so"));
    snprintf(search_path, sizeof search_path, ":%s::/nonexistent/plugins", search);

    cdz_registry *r = registry_of(builtin, search_path, false);
    assert_int_equal(cdz_registry_add_linked(r, &note_loader.base, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.zoo", &ref, &err), CDZ_OK);
    assert_string_equal(cdz_module_origin(ref.module), "built-in");
    cdz_module_release(ref.module);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.both", &ref, &err), CDZ_OK);
    assert_string_equal(cdz_module_origin(ref.module), "path");
    cdz_module_release(ref.module);
    assert_int_equal(cdz_registry_find(r, 0, "resident", &ref, &err), CDZ_E_DENIED);
    expect_sentence("consent", &err,
                    "search/resident.so: native code found in a directory is not "
                    "loaded, and only a package folder with a plugin.ini can be pinned");

    assert_int_equal(cdz_registry_visit(r, take_line, &l, &err), CDZ_OK);
    assert_int_equal(l.n, 6);
    expect_line(&l, "both.note | org.example.both | path | ", "");
    expect_line(&l, "both.note | org.example.both | built-in | ", "shadowed by ");
    expect_line(&l, "mine.note | org.example.mine | path | ", "");
    expect_line(&l, "bad.note | - | path | ", "'No Good' is no plugin id");
    expect_line(&l, "resident.so | - | path | ", "--plugin");
    expect_line(&l, "good.so | org.example.zoo | built-in | ", "");
    cdz_registry_free(r);
    assert_int_equal(notes_loaded, 0);
}

/* Loaders that come late see the files nobody could load before; what was named wins over directories. */
static void late_loader_and_named_files(void **state)
{
    (void)state;
    const char *builtin = folder("builtin");
    cdz_plugin_ref ref;
    cdz_error err = {0};
    write_text(folder_path("builtin/a.note"), "org.example.a");
    write_text(folder_path("mine.note"), "org.example.a");
    cdz_registry *r = registry_of(builtin, NULL, false);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.a", &ref, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_registry_add_linked(r, &note_loader.base, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.a", &ref, &err), CDZ_OK);
    assert_string_equal(cdz_module_origin(ref.module), "built-in");
    cdz_module_release(ref.module);
    assert_int_equal(cdz_registry_load(r, folder_path("mine.note"), 0, NULL, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.a", &ref, &err), CDZ_OK);
    assert_string_equal(cdz_module_origin(ref.module), "named by the user");
    cdz_module_release(ref.module);
    cdz_registry_free(r);
    assert_int_equal(notes_loaded, 0);
}

static void safe_mode(void **state)
{
    (void)state;
    const char *builtin = folder("builtin"), *search = folder("search");
    cdz_plugin_ref ref;
    cdz_error err = {0};
    copy_file(ZOO "good.so", folder_path("builtin/good.so"));
    write_text(folder_path("search/a.note"), "org.example.a");
    cdz_registry *r = registry_of(builtin, search, true);
    assert_int_equal(cdz_registry_add_linked(r, &note_loader.base, &err), CDZ_OK);
    assert_int_equal(cdz_registry_load(r, ZOO "good.so", 0, &ref, &err), CDZ_E_DENIED);
    expect_sentence("load", &err, "in safe mode only built-in plugins are loaded");
    assert_int_equal(cdz_registry_find(r, 0, "org.example.a", &ref, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.zoo", &ref, &err), CDZ_OK);
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

static void directories_anyone_may_write_to(void **state)
{
    (void)state;
    const char *builtin = folder("builtin"), *open_dir = folder("open");
    listing l = {0};
    cdz_plugin_ref ref;
    cdz_error err = {0};
    write_text(folder_path("open/a.note"), "org.example.a");
    assert_int_equal(chmod(open_dir, 0777), 0);
    cdz_registry *r = registry_of(builtin, open_dir, false);
    assert_int_equal(cdz_registry_add_linked(r, &note_loader.base, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.a", &ref, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_registry_visit(r, take_line, &l, &err), CDZ_OK);
    assert_int_equal(l.n, 1);
    expect_line(&l, "open | - | path | ", "anyone may write to this directory");
    cdz_registry_free(r);
}

static void missing_builtins_are_told(void **state)
{
    (void)state;
    cdz_plugin_ref ref;
    cdz_error err = {0};
    cdz_registry *r = registry_of(folder_path("nowhere"), NULL, false);
    assert_int_equal(cdz_registry_find(r, CDZ_KIND_STRATEGY, "greedy", &ref, &err), CDZ_E_NOT_FOUND);
    expect_sentence("missing", &err, "the built-in plugins are not where they should be: ");
    expect_sentence("missing", &err, "nowhere");
    cdz_registry_free(r);
}

/* The default place, seen from this program in build/tests. */
static void built_in_directory_is_located(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(NULL, NULL, false);
    cdz_plugin_ref ref;
    cdz_error err = {0};
    cdz_status st = cdz_registry_find(r, CDZ_KIND_STRATEGY, "org.cadenza.simple-sample", &ref, &err);
    if (st != CDZ_OK) fail_msg("%s", err.text);
    assert_string_equal(cdz_module_origin(ref.module), "built-in");
    assert_non_null(strstr(cdz_module_path(ref.module), "/lib/cadenza/simple_sample/"));
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

/* --- packages --------------------------------------------------------------------------------------------- */

#define GOOD_INI                                                                                   \
    "[plugin]\nid = org.example.zoo\nversion = 1.0.0\nkind = processor\nentry = good.so\n"

static const struct {
    const char *name, *ini;
    cdz_status status;
    const char *sentence;
} manifests[] = {
    {"good", GOOD_INI "abi = 1.0\nlicense = MIT\nneeds = logits.write\nsummary = An animal\n",
     CDZ_OK, NULL},
    {"comments and blank lines", "; a\n\n" GOOD_INI "  \n# b\n", CDZ_OK, NULL},
    {"unknown key", GOOD_INI "licence = MIT\n", CDZ_E_INPUT,
     "unknown key 'licence': did you mean 'license'?"},
    {"unknown section", GOOD_INI "[extra]\na = 1\n", CDZ_E_INPUT, "only the section [plugin]"},
    {"repeated key", GOOD_INI "id = org.example.other\n", CDZ_E_INPUT,
     "plugin.ini:6:1: [plugin] id was set on line 2 already"},
    {"no id", "[plugin]\nversion = 1.0.0\nkind = processor\nentry = good.so\n", CDZ_E_INPUT,
     "needs a value for id"},
    {"empty entry", "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\nentry =\n", CDZ_E_INPUT,
     "[plugin] entry has no value"},
    {"bad id", "[plugin]\nid = a/b\nversion = 1.0.0\nkind = processor\nentry = good.so\n",
     CDZ_E_INPUT, "id = a/b: expected 1 to 64 of"},
    {"bad version", "[plugin]\nid = a\nversion = new\nkind = processor\nentry = good.so\n",
     CDZ_E_INPUT, "version = new: expected one as 1.0.0"},
    {"bad kind", "[plugin]\nid = a\nversion = 1.0.0\nkind = butler\nentry = good.so\n", CDZ_E_INPUT,
     "kind = butler: expected processor, criterion, strategy, drafter, observer, loader, scheduler or press"},
    {"newer ABI", GOOD_INI "abi = 1.9\n", CDZ_E_PLUGIN,
     "plugin.ini: built for ABI 1.9, this host speaks 1.0; use a newer Cadenza"},
    {"other ABI", GOOD_INI "abi = 2.0\n", CDZ_E_PLUGIN,
     "plugin.ini: built for ABI 2.0, this host speaks 1.0; rebuild it with this SDK"},
    {"odd ABI", GOOD_INI "abi = new\n", CDZ_E_INPUT, "abi = new: expected one as 1.0"},
    {"extensions that are there",
     GOOD_INI "needs = logits.write cadenza.vec/1 cadenza.steer/1 cadenza.constrained/1\n", CDZ_OK,
     NULL},
    {"an extension that is not", GOOD_INI "needs = cadenza.vec/1, cadenza.vec/2\n", CDZ_E_PLUGIN,
     "plugin.ini: needs the extension 'cadenza.vec/2', which this host (ABI 1.0) lacks"},
    {"other id than the code",
     "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\n"
     "entry = good.so\n",
     CDZ_E_PLUGIN, "id = a, but good.so exports 'org.example.zoo'"},
    {"other version than the code",
     "[plugin]\nid = org.example.zoo\nversion = 1.0.1\n"
     "kind = processor\nentry = good.so\n",
     CDZ_E_PLUGIN, "version = 1.0.1, but good.so is 1.0.0"},
    {"other kind than the code",
     "[plugin]\nid = org.example.zoo\nversion = 1.0.0\n"
     "kind = strategy\nentry = good.so\n",
     CDZ_E_PLUGIN, "kind = strategy, but good.so exports a processor"},
    {"entry above the folder",
     "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\n"
     "entry = ../good.so\n",
     CDZ_E_DENIED, "entry = ../good.so: expected a plain file name"},
    {"absolute entry",
     "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\n"
     "entry = /bin/good.so\n",
     CDZ_E_DENIED, "expected a plain file name in the same folder"},
    {"entry is the folder", "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\nentry = ..\n",
     CDZ_E_DENIED, "expected a plain file name in the same folder"},
    {"missing entry", "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\nentry = none.so\n",
     CDZ_E_NOT_FOUND, "entry = none.so: no such file in the folder"},
    {"entry of no known type",
     "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\n"
     "entry = plugin.ini\n",
     CDZ_E_INPUT, "its name ends in none of .so"},
    {"link out of the folder",
     "[plugin]\nid = org.example.zoo\nversion = 1.0.0\n"
     "kind = processor\nentry = link.so\n",
     CDZ_E_DENIED, "entry = link.so: a symbolic link that leads out of the folder"},
    {"link inside the folder",
     "[plugin]\nid = org.example.zoo\nversion = 1.0.0\n"
     "kind = processor\nentry = inner.so\n",
     CDZ_OK, NULL},
    {"FIFO as entry", "[plugin]\nid = a\nversion = 1.0.0\nkind = processor\nentry = pipe.so\n",
     CDZ_E_DENIED, "entry = pipe.so: not a regular file"},
    {"other files", GOOD_INI "files = inner.so, good.so\n", CDZ_OK, NULL},
    {"files above the folder", GOOD_INI "files = good.so, ../outside.so\n", CDZ_E_DENIED,
     "files = ../outside.so: expected a plain file name"},
    {"files that are not there", GOOD_INI "files = good.so none.lua\n", CDZ_E_NOT_FOUND,
     "files = none.lua: no such file in the folder"},
    {"files that lead out", GOOD_INI "files = link.so\n", CDZ_E_DENIED,
     "files = link.so: a symbolic link that leads out of the folder"},
    {"odd hash", GOOD_INI "sha256 = 12ab\n", CDZ_E_INPUT, "expected 64 hexadecimal digits"},
    {"other hash",
     GOOD_INI "sha256 = 0000000000000000000000000000000000000000000000000000000000000000\n",
     CDZ_E_DENIED, "plugin.ini pins 00000000"},
    {"indented line", "[plugin]\nid = a\n version = 1.0.0\n", CDZ_E_INPUT, "indented"},
    {"no section", "id = a\n", CDZ_E_INPUT, "plugin.ini:1:1: a setting before the first"},
    {"not ini", "hello\n", CDZ_E_INPUT, "plugin.ini:1"},
    {"not UTF-8", "[plugin]\nid = \xff\n", CDZ_E_INPUT, "UTF-8"},
    {"empty", "", CDZ_E_INPUT, "needs a value for id"},
};

static void make_package(void)
{
    folder("pack");
    copy_file(ZOO "good.so", folder_path("pack/good.so"));
    copy_file(ZOO "good.so", folder_path("outside.so"));
    assert_int_equal(symlink("../outside.so", folder_path("pack/link.so")), 0);
    assert_int_equal(symlink("good.so", folder_path("pack/inner.so")), 0);
    assert_int_equal(mkfifo(folder_path("pack/pipe.so"), 0644), 0);
}

static void expect_package(const char *name, cdz_status status, const char *sentence)
{
    cdz_registry *r = registry_of(home, NULL, false);
    cdz_plugin_ref ref = {0};
    cdz_error err = {0};
    cdz_status st = cdz_registry_load(r, folder_path("pack"), 0, &ref, &err);
    if (st != status) fail_msg("%s: status %d, '%s'", name, (int)st, err.text);
    if (st == CDZ_OK)
        cdz_module_release(ref.module);
    else
        expect_sentence(name, &err, sentence);
    cdz_registry_free(r);
}

static void manifest_cases(void **state)
{
    (void)state;
    make_package();
    for (size_t i = 0; i < sizeof manifests / sizeof manifests[0]; i++) {
        write_text(folder_path("pack/plugin.ini"), manifests[i].ini);
        expect_package(manifests[i].name, manifests[i].status, manifests[i].sentence);
    }
}

static void manifest_sizes(void **state)
{
    (void)state;
    make_package();
    char text[70000];
    int n = snprintf(text, sizeof text, GOOD_INI "summary = ");
    memset(text + n, 'x', 300);
    text[n + 300] = '\0';
    write_text(folder_path("pack/plugin.ini"), text);
    expect_package("a long line", CDZ_E_INPUT, "plugin.ini:6:");
    n = snprintf(text, sizeof text, GOOD_INI);
    memset(text + n, '\n', sizeof text - (size_t)n);
    write_file(folder_path("pack/plugin.ini"), text, sizeof text);
    expect_package("70 KB", CDZ_E_LIMIT, "plugin.ini");
    write_file(folder_path("pack/plugin.ini"), "[plugin]\nid = a\0b\n", 18);
    expect_package("NUL", CDZ_E_INPUT, "a control character");
}

static void pinned_hash(void **state)
{
    (void)state;
    char text[512], hex[CDZ_SHA256_HEX];
    make_package();
    bytes b = zoo_bytes(ZOO "good.so");
    cdz_sha256_hex(b.data, b.len, hex);
    free(b.data);
    snprintf(text, sizeof text, GOOD_INI "sha256 = %s\n", hex);
    write_text(folder_path("pack/plugin.ini"), text);
    expect_package("the right hash", CDZ_OK, NULL);
    copy_file(ZOO "good_second.so", folder_path("pack/good.so"));
    expect_package("another file under a pinned hash", CDZ_E_DENIED, "its sha256 is ");
}

static void packages_in_directories(void **state)
{
    (void)state;
    char search[300];
    listing l = {0};
    cdz_plugin_ref ref;
    cdz_error err = {0};
    folder("search");
    folder("search/native");
    folder("search/script");
    folder("search/other");
    folder("search/open");
    copy_file(ZOO "good.so", folder_path("search/native/good.so"));
    write_text(folder_path("search/native/plugin.ini"), GOOD_INI);
    write_text(folder_path("search/script/s.note"), "org.example.s");
    write_text(folder_path("search/script/plugin.ini"),
               "[plugin]\nid = org.example.s\nversion = 1.0.0\nkind = processor\nentry = s.note\n");
    write_text(folder_path("search/other/readme"), "no package");
    write_text(folder_path("search/open/plugin.ini"), GOOD_INI);
    assert_int_equal(chmod(folder_path("search/open"), 0777), 0);
    snprintf(search, sizeof search, "%s", folder_path("search"));

    cdz_registry *r = registry_of(folder("none"), search, false);
    assert_int_equal(cdz_registry_add_linked(r, &note_loader.base, &err), CDZ_OK);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.s", &ref, &err), CDZ_OK);
    cdz_module_release(ref.module);
    assert_int_equal(cdz_registry_find(r, 0, "org.example.zoo", &ref, &err), CDZ_E_DENIED);
    expect_sentence("by id", &err, "search/native: native code found in a directory");
    assert_int_equal(cdz_registry_visit(r, take_line, &l, &err), CDZ_OK);
    assert_int_equal(l.n, 3);
    expect_line(&l, "native | - | path | ", "--plugin");
    expect_line(&l, "open | - | path | ", "anyone may write to this folder");
    expect_line(&l, "script | org.example.s | path | ", "");
    assert_int_equal(cdz_registry_load(r, folder_path("search/native"), 0, &ref, &err), CDZ_OK);
    cdz_module_release(ref.module);
    cdz_registry_free(r);
}

/* --- threads ---------------------------------------------------------------------------------------------- */

static void *load_and_find(void *user)
{
    cdz_registry *r = user;
    for (int i = 0; i < 20; i++) {
        cdz_plugin_ref ref;
        if (cdz_registry_load(r, i % 2 ? ZOO "good.so" : ZOO "resident.so", 0, &ref, NULL) != CDZ_OK)
            return r;
        cdz_module_release(ref.module);
        if (cdz_registry_find(r, 0, "org.example.resident", &ref, NULL) != CDZ_OK) return r;
        cdz_module_release(ref.module);
    }
    return NULL;
}

static void two_threads(void **state)
{
    (void)state;
    cdz_registry *r = registry_of(folder("none"), NULL, false);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_and_find, r), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    cdz_registry_free(r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_animal_is_refused),
        CASE(cut_short_anywhere),
        CASE(damaged_headers),
        CASE(relative_library),
        CASE(what_is_no_plugin_file),
        CASE(a_good_one),
        CASE(wrong_kind),
        CASE(generations),
        CASE(nothing_stays_open),
        CASE(resident_code_stays),
        CASE(the_floating_point_mode_stays),
        CASE(consent_and_order),
        CASE(late_loader_and_named_files),
        CASE(safe_mode),
        CASE(directories_anyone_may_write_to),
        CASE(missing_builtins_are_told),
        CASE(built_in_directory_is_located),
        CASE(manifest_cases),
        CASE(manifest_sizes),
        CASE(pinned_hash),
        CASE(packages_in_directories),
        CASE(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
