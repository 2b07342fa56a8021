/* on_files.c - loaders and the files they open: the package's examples, cut, spoilt and made up; opened twice, opened often.
 *
 * Whatever the bytes, open makes descriptors that the host's own checks pass, or refuses the file in a sentence that names
 * it. The bytes lie between pages that nobody may touch, read-only while open runs and gone afterwards. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "call/outside.h"
#include "check/checks.h"
#include "params/params.h"

enum { MOST_EXAMPLES = 16, MOST_BYTES = 1 << 16, HUGE_BYTES = 16 << 20, WHAT = 240 };

/* A file's bytes under the name it is opened by. */
typedef struct sample {
    const char *path; /* the check's */
    const char *bytes;
    size_t len;
    bool own; /* an example of the package: it has to open */
} sample;

typedef struct samples {
    sample at[MOST_EXAMPLES];
    uint32_t n;
} samples;

/* --- one opening ---------------------------------------------------------------------------------------------- */

/* The place where files lie while they are opened: cap bytes and a NUL. */
typedef struct place {
    char *at;
    size_t cap;
    bool at_end;
} place;

typedef struct opening {
    cdz_arena arena;
    cdz_opened opened;
    cdz_plugin_file file;
    cdz_status status;
    cdz_error err;
} opening;

static const cdz_loader *loader_of(const cdz_child *c)
{
    return (const cdz_loader *)(const void *)c->ref.base;
}

static bool place_make(place *p, size_t cap, bool at_end)
{
    *p = (place){
        .at = cdz_guarded(cap + 1, 1, at_end, "the file's bytes"), .cap = cap, .at_end = at_end};
    if (!p->at) return false;
    const bool locked =
        cdz_guarded_lock(p->at, cap + 1, 1, "the file's bytes, which are the host's");
    cdz_guarded_unlock(p->at, cap + 1);
    return locked;
}

/* Runs open on the bytes. They are gone when it has returned. */
static void open_at(const cdz_child *c, place *p, const sample *s, opening *o)
{
    const size_t limit = o->arena.limit;
    char *bytes = p->at_end ? p->at + p->cap - s->len : p->at;
    const char *slash = strrchr(s->path, '/');
    cdz_guarded_unlock(p->at, p->cap + 1);
    memcpy(bytes, s->bytes, s->len);
    bytes[s->len] = '\0';
    cdz_guarded_readable(p->at, p->cap + 1, true);
    *o = (opening){.file = {.size = sizeof o->file,
                            .path = s->path,
                            .name = slash ? slash + 1 : s->path,
                            .bytes = bytes,
                            .len = s->len}};
    o->arena.limit = limit;
    o->status = cdz_call_open_file(loader_of(c), &o->file, &o->arena, &o->opened, &o->err);
    cdz_guarded_readable(p->at, p->cap + 1, false);
}

static void close_it(const cdz_child *c, opening *o)
{
    if (o->status == CDZ_OK) cdz_call_close_file(loader_of(c), &o->opened, &o->arena);
    cdz_arena_free(&o->arena);
    *o = (opening){0};
}

/* --- judging it ------------------------------------------------------------------------------------------------ */

static cdz_check_state judge_refusal(cdz_child *c, const opening *o, const char *what)
{
    if (strstr(o->err.text, "which is no status"))
        return cdz_fail_check(c, "%s: %s", what, o->err.text);
    if (strstr(o->err.text, "without saying why") || o->err.text[0] == '\0')
        return cdz_fail_check(c, "%s: it was refused without saying why (%s)", what,
                              cdz_status_text(o->status));
    if (!strstr(o->err.text, o->file.name) && o->status != CDZ_E_NOMEM)
        return cdz_fail_check(c, "%s: its refusal does not name the file: \"%s\"", what,
                              o->err.text);
    return CDZ_CHECK_OK;
}

/* The host checks each descriptor too: what it refuses of a file that is no example is the file's fault. */
static cdz_check_state judge_plugins(cdz_child *c, const opening *o, const char *what,
                                     bool has_to_open)
{
    const uint32_t n = o->opened.n_plugins;
    if (n == 0 || n > CDZ_MAX_PLUGINS || !o->opened.plugins)
        return cdz_fail_check(c, "%s: open said ok and gave %u plugins; expected 1 to %u", what, n,
                              CDZ_MAX_PLUGINS);
    for (uint32_t i = 0; i < n; i++) {
        cdz_descriptor d;
        cdz_error err = {0};
        const bool sound =
            cdz_descriptor_adopt(o->file.path, o->opened.plugins[i], NULL, &d, &err) == CDZ_OK;
        if (!sound && has_to_open)
            return cdz_fail_check(c, "%s: open said ok, but of plugin %u: %s", what, i + 1,
                                  err.text);
        if (sound && d.base.kind == CDZ_KIND_LOADER)
            return cdz_fail_check(c, "%s: open made a loader; loaders are shared objects", what);
    }
    return CDZ_CHECK_OK;
}

/* Opened or refused, as it should be. */
static cdz_check_state judge(cdz_child *c, const opening *o, const char *what, bool has_to_open)
{
    cdz_check_note(c, "%s, after open returned", what);
    return o->status == CDZ_OK ? judge_plugins(c, o, what, has_to_open) : judge_refusal(c, o, what);
}

static cdz_check_state try_it(cdz_child *c, place *p, const sample *s, const char *what)
{
    opening o = {0};
    cdz_check_note(c, "%s", what);
    open_at(c, p, s, &o);
    const cdz_check_state state = judge(c, &o, what, false);
    cdz_check_note(c, "%s, while it is closed", what);
    if (state == CDZ_CHECK_OK) close_it(c, &o);
    return state;
}

/* --- examples ---------------------------------------------------------------------------------------------------- */

/* The first ending, for made-up names. */
static const char *made_up_path(cdz_child *c)
{
    const char *endings = loader_of(c)->endings;
    const char *path =
        cdz_arena_printf(&c->memory, "made-up.%.*s", (int)strcspn(endings, "|"), endings);
    return path ? path : "made-up";
}

static void take_example(cdz_child *c, const char *path, samples *out)
{
    char *bytes = NULL;
    size_t len = 0;
    const char *dot = strrchr(path, '.');
    if (!dot || !cdz_endings_hold(loader_of(c)->endings, dot + 1, strlen(dot + 1))) return;
    if (out->n == MOST_EXAMPLES || cdz_file_read(path, MOST_BYTES, &bytes, &len, NULL) != CDZ_OK)
        return;
    const char *kept = cdz_arena_strdup(&c->memory, path);
    const char *copy = cdz_arena_strndup(&c->memory, bytes, len);
    free(bytes);
    for (uint32_t i = 0; kept && i < out->n; i++)
        if (strcmp(out->at[i].path, kept) == 0) return;
    if (kept && copy) out->at[out->n++] = (sample){kept, copy, len, true};
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void take_folder(cdz_child *c, const char *folder, samples *out)
{
    struct dirent **names = NULL;
    const int n = scandir(folder, &names, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *path = cdz_arena_printf(&c->memory, "%s/%s", folder, names[i]->d_name);
        struct stat s;
        if (path && stat(path, &s) == 0 && S_ISREG(s.st_mode)) take_example(c, path, out);
        free(names[i]);
    }
    free(names);
}

/* Beside the shared object, and in tests/ and examples/ there. */
static void find_examples(cdz_child *c, samples *out)
{
    static const char *const below[] = {"", "/tests", "/examples"};
    const char *path = cdz_module_path(c->ref.module), *slash = strrchr(path, '/');
    *out = (samples){0};
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        const char *folder = cdz_arena_printf(&c->memory, "%.*s%s", slash ? (int)(slash - path) : 1,
                                              slash ? path : ".", below[i]);
        if (folder) take_folder(c, folder, out);
    }
}

static bool is_sound(const opening *o)
{
    cdz_descriptor d;
    bool sound = o->opened.n_plugins > 0 && o->opened.plugins;
    for (uint32_t i = 0; sound && i < o->opened.n_plugins; i++)
        sound = cdz_descriptor_adopt(o->file.path, o->opened.plugins[i], NULL, &d, NULL) == CDZ_OK;
    return sound;
}

/* Something that opens: an example, or one of the shortest files there are. False: nothing does. */
static bool find_openable(cdz_child *c, place *p, sample *out)
{
    static const char *const tries[] = {"", "\n", "a", "a\n", "1\n", "a 1\n", "a = 1\n", "{}"};
    samples own;
    find_examples(c, &own);
    for (uint32_t i = 0; i < own.n + sizeof tries / sizeof tries[0]; i++) {
        opening o = {0};
        *out = i < own.n
                   ? own.at[i]
                   : (sample){made_up_path(c), tries[i - own.n], strlen(tries[i - own.n]), false};
        open_at(c, p, out, &o);
        const bool opened = o.status == CDZ_OK && is_sound(&o);
        close_it(c, &o);
        if (opened) return true;
    }
    return false;
}

static cdz_check_state nothing_opens(cdz_child *c)
{
    const char *endings = loader_of(c)->endings;
    return cdz_skip_check(c, "no file to try it on: put one that ends in .%.*s beside plugin.ini",
                          (int)strcspn(endings, "|"), endings);
}

/* --- opens ------------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_opens(cdz_child *c)
{
    samples own;
    place p;
    find_examples(c, &own);
    if (own.n == 0) return nothing_opens(c);
    if (!place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    for (uint32_t i = 0; i < own.n; i++) {
        opening o = {0};
        cdz_check_note(c, "%s", own.at[i].path);
        open_at(c, &p, &own.at[i], &o);
        if (o.status != CDZ_OK) return cdz_fail_check(c, "an example is refused: %s", o.err.text);
        CDZ_CHECK_TRY(judge(c, &o, own.at[i].path, true));
        close_it(c, &o);
    }
    return cdz_pass_check(c, "%u example%s", own.n, own.n == 1 ? "" : "s");
}

/* --- file-bounds --------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_file_bounds(cdz_child *c)
{
    for (int end = 0; end < 2; end++) {
        sample s;
        place p;
        if (!place_make(&p, MOST_BYTES, end)) return cdz_fail_check(c, "out of memory");
        if (!find_openable(c, &p, &s)) return nothing_opens(c);
        CDZ_CHECK_TRY(try_it(c, &p, &s, s.path));
        s = (sample){made_up_path(c), "", 0, false};
        CDZ_CHECK_TRY(try_it(c, &p, &s, "an empty file"));
    }
    return CDZ_CHECK_OK;
}

/* --- garbage --------------------------------------------------------------------------------------------------------- */

static void fill_random(uint64_t *random, char *to, size_t n, bool text)
{
    static const char letters[] = "abz019 \t\n\"'\\=|:,.;#-+%(){}[]<>$@!?*/_AZ\r\xc3\xa9";
    for (size_t i = 0; i < n; i++)
        to[i] = text ? letters[cdz_random_below(random, sizeof letters - 1)]
                     : (char)cdz_random_below(random, 256);
}

/* Some bytes changed, taken out, doubled or cut. Returns the new length, at most cap. */
static size_t spoil(uint64_t *random, char *at, size_t len, size_t cap)
{
    for (uint32_t edits = 1 + cdz_random_below(random, 8); edits > 0 && len > 0; edits--) {
        const size_t from = cdz_random_below(random, (uint32_t)len);
        const size_t some =
            1 + cdz_random_below(random, (uint32_t)(len - from < 32 ? len - from : 32));
        switch (cdz_random_below(random, 4)) {
        case 0: fill_random(random, at + from, some, true); break;
        case 1: at[from] = (char)cdz_random_below(random, 256); break;
        case 2:
            memmove(at + from, at + from + some, len - from - some);
            len -= some;
            break;
        default:
            if (len + some > cap) break;
            memmove(at + from + some, at + from, len - from);
            len += some;
        }
    }
    return len;
}

cdz_check_state cdz_check_garbage(cdz_child *c)
{
    enum { TRIES = 400 };
    samples own;
    place p;
    uint32_t opened = 0;
    char what[WHAT], *bytes = cdz_arena_alloc(&c->memory, MOST_BYTES);
    find_examples(c, &own);
    if (!bytes || !place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    for (uint32_t i = 0; i < TRIES; i++) {
        const sample *from = own.n && i % 4 ? &own.at[i % own.n] : NULL;
        sample s = {made_up_path(c), bytes, 0, false};
        if (from) {
            memcpy(bytes, from->bytes, from->len);
            s.len = spoil(&c->random, bytes, from->len, MOST_BYTES);
        } else {
            s.len = cdz_random_below(&c->random, i % 3 ? 64 : 4096);
            fill_random(&c->random, bytes, s.len, i % 2);
        }
        snprintf(what, sizeof what, "%s %u, of %zu bytes",
                 from ? "a spoilt example" : "made-up bytes", i, s.len);
        opening o = {0};
        cdz_check_note(c, "%s", what);
        open_at(c, &p, &s, &o);
        opened += o.status == CDZ_OK;
        CDZ_CHECK_TRY(judge(c, &o, what, false));
        close_it(c, &o);
    }
    return cdz_pass_check(c, "%u files, %u of them opened", (unsigned)TRIES, opened);
}

/* --- cut ----------------------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_cut(cdz_child *c)
{
    enum { MOST_CUTS = 2048 };
    samples own;
    place p;
    char what[WHAT];
    uint32_t cuts = 0;
    find_examples(c, &own);
    if (own.n == 0) return nothing_opens(c);
    if (!place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    for (uint32_t i = 0; i < own.n; i++) {
        const size_t step = 1 + own.at[i].len / MOST_CUTS;
        for (size_t len = 0; len < own.at[i].len; len += step, cuts++) {
            sample s = own.at[i];
            s.len = len;
            snprintf(what, sizeof what, "%.160s cut after %zu bytes", s.path, len);
            CDZ_CHECK_TRY(try_it(c, &p, &s, what));
        }
    }
    return cdz_pass_check(c, "%u cuts", cuts);
}

/* --- huge ------------------------------------------------------------------------------------------------------------------ */

static size_t huge_bytes(const cdz_child *c)
{
    const uint32_t limit = loader_of(c)->max_bytes;
    return limit > 0 && limit < HUGE_BYTES ? limit : HUGE_BYTES;
}

static void repeat(char *to, size_t n, const sample *from)
{
    for (size_t at = 0; at < n; at += from->len)
        memcpy(to + at, from->bytes, n - at < from->len ? n - at : from->len);
}

/* bytes: room for n, which s is about. */
static cdz_check_state try_huge(cdz_child *c, const samples *own, char *bytes, const sample *s)
{
    static const char all_through[] = {'\0', '\n', ' ', 'a', '1', '"', '(', '\xff'};
    char what[WHAT];
    place p;
    if (!place_make(&p, s->len, true)) return cdz_fail_check(c, "out of memory");
    for (size_t i = 0; i < sizeof all_through; i++) {
        memset(bytes, all_through[i], s->len);
        snprintf(what, sizeof what, "%zu times the byte 0x%02x", s->len,
                 (unsigned char)all_through[i]);
        CDZ_CHECK_TRY(try_it(c, &p, s, what));
    }
    for (uint32_t i = 0; i < own->n; i++) {
        if (own->at[i].len == 0) continue;
        repeat(bytes, s->len, &own->at[i]);
        snprintf(what, sizeof what, "%.160s again and again, %zu bytes", own->at[i].path, s->len);
        CDZ_CHECK_TRY(try_it(c, &p, s, what));
    }
    return CDZ_CHECK_OK;
}

/* As long as a file may be: of one byte all through, and of an example again and again. */
cdz_check_state cdz_check_huge(cdz_child *c)
{
    const size_t n = huge_bytes(c);
    samples own;
    char *bytes = malloc(n);
    if (!bytes) return cdz_fail_check(c, "out of memory");
    find_examples(c, &own);
    const sample s = {made_up_path(c), bytes, n, false};
    const cdz_check_state state = try_huge(c, &own, bytes, &s);
    free(bytes);
    return state == CDZ_CHECK_OK ? cdz_pass_check(c, "%zu bytes", n) : state;
}

/* --- twice ------------------------------------------------------------------------------------------------------------------- */

/* All that the host reads of the descriptors. */
static char *told(cdz_child *c, const opening *o)
{
    cdz_buf text = {0};
    for (uint32_t i = 0; i < o->opened.n_plugins; i++) {
        const cdz_plugin_base *base = o->opened.plugins[i];
        const cdz_param_table table = cdz_params_of(base);
        cdz_buf_printf(&text, "%u %s %s %s\n", base->kind, base->id, base->version,
                       base->summary ? base->summary : "");
        for (uint32_t k = 0; k < table.n; k++) {
            const cdz_param *p = cdz_param_at(&table, k);
            cdz_buf_printf(&text, "  %s %u %u %g %g %g %s %s\n", p->name, p->type, p->offset,
                           p->def, p->min, p->max, p->text ? p->text : "", p->help ? p->help : "");
        }
    }
    char *copy = text.failed ? NULL : cdz_arena_strndup(&c->memory, text.data, text.len);
    cdz_buf_free(&text);
    return copy;
}

static cdz_check_state still_says(cdz_child *c, const opening *o, const char *before,
                                  const char *when)
{
    cdz_check_note(c, "looking at the first opening's plugins %s", when);
    const char *now = told(c, o);
    if (!now || !before) return cdz_fail_check(c, "out of memory");
    if (strcmp(now, before) == 0) return CDZ_CHECK_OK;
    return cdz_fail_check(c,
                          "what the first opening made is another %s: each opening needs "
                          "descriptors of its own",
                          when);
}

static cdz_check_state compare_openings(cdz_child *c, const sample *s, const opening *a,
                                        const opening *b)
{
    const char *first = told(c, a), *second = told(c, b);
    if (!first || !second) return cdz_fail_check(c, "out of memory");
    if (strcmp(first, second) != 0)
        return cdz_fail_check(c, "%s opened twice gives different plugins", s->path);
    if (a->opened.plugins[0] == b->opened.plugins[0])
        return cdz_fail_check(c,
                              "%s opened twice gave one descriptor: each opening needs its own, "
                              "they are closed one by one",
                              s->path);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_twice(cdz_child *c)
{
    opening a = {0}, b = {0};
    samples own;
    sample s;
    place p;
    if (!place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    if (!find_openable(c, &p, &s)) return nothing_opens(c);
    open_at(c, &p, &s, &a);
    if (a.status != CDZ_OK) return cdz_fail_check(c, "%s: refused the second time", s.path);
    const char *before = told(c, &a);
    find_examples(c, &own);
    for (uint32_t i = 0; i < own.n; i++) {
        opening other = {0};
        open_at(c, &p, &own.at[i], &other);
        CDZ_CHECK_TRY(still_says(c, &a, before, "after another file was opened"));
        close_it(c, &other);
    }
    open_at(c, &p, &s, &b);
    if (b.status != CDZ_OK)
        return cdz_fail_check(c, "%s: refused while it is open already: %s", s.path, b.err.text);
    CDZ_CHECK_TRY(compare_openings(c, &s, &a, &b));
    close_it(c, &b);
    CDZ_CHECK_TRY(still_says(c, &a, before, "after the other was closed"));
    close_it(c, &a);
    return CDZ_CHECK_OK;
}

/* --- open-close --------------------------------------------------------------------------------------------------------------- */

/* What every one of some rounds keeps; what is kept once (a table made when it is first needed) is let off. */
cdz_check_state cdz_check_open_close(cdz_child *c)
{
    enum { ROUNDS = 3, TIMES = 350 };
    int64_t least = INT64_MAX;
    char what[WHAT];
    sample s;
    place p;
    if (!place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    if (!find_openable(c, &p, &s)) return nothing_opens(c);
    const cdz_surroundings *before = cdz_surroundings_note(&c->memory);
    if (!before) return cdz_fail_check(c, "out of memory");
    for (int round = 0; round < ROUNDS; round++) {
        cdz_allocations_watch();
        for (int i = 0; i < TIMES; i++) {
            opening o = {0};
            open_at(c, &p, &s, &o);
            if (o.status != CDZ_OK)
                return cdz_fail_check(c, "%s is refused at last: %s", s.path, o.err.text);
            close_it(c, &o);
        }
        const int64_t kept = cdz_allocations_kept();
        if (kept < least) least = kept;
    }
    if (cdz_surroundings_changed(before, what, sizeof what))
        return cdz_fail_check(c, "opening and closing %s %d times changed %s", s.path,
                              ROUNDS * TIMES, what);
    if (least >= 8 * TIMES)
        return cdz_fail_check(
            c, "opening and closing %s %d times left %" PRId64 " bytes of the heap in use", s.path,
            TIMES, least);
    return cdz_pass_check(c, "%d times", ROUNDS * TIMES);
}

/* --- no-memory ------------------------------------------------------------------------------------------------------------------ */

/* cdz_alloc gives so many bytes and no more. */
cdz_check_state cdz_check_no_memory(cdz_child *c)
{
    char what[WHAT];
    sample s;
    place p;
    bool opened = false;
    if (!place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    if (!find_openable(c, &p, &s)) return nothing_opens(c);
    for (size_t limit = 1; !opened && limit < (64u << 20); limit += limit / 4 + 16) {
        opening o = {.arena = {.limit = limit}};
        snprintf(what, sizeof what, "%.160s with %zu bytes of cdz_alloc", s.path, limit);
        cdz_check_note(c, "%s", what);
        open_at(c, &p, &s, &o);
        opened = o.status == CDZ_OK;
        CDZ_CHECK_TRY(judge(c, &o, what, opened));
        close_it(c, &o);
    }
    return CDZ_CHECK_OK;
}

/* --- surroundings ---------------------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_open_leaves(cdz_child *c)
{
    char what[WHAT];
    opening o = {0};
    sample s;
    place p;
    cdz_surroundings_forgive_files(c->before);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "opening the loader changed %s and left it so", what);
    if (!place_make(&p, MOST_BYTES, true)) return cdz_fail_check(c, "out of memory");
    if (!find_openable(c, &p, &s)) return nothing_opens(c);
    open_at(c, &p, &s, &o);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "opening %s changed %s and left it so", s.path, what);
    close_it(c, &o);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "closing %s changed %s and left it so", s.path, what);
    return CDZ_CHECK_OK;
}
