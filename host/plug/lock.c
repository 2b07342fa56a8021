/* lock.c - the text of cadenza.lock: read strictly, found, changed in memory. Writing it is lock_write.c. */
#include "plug/lock.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "describe/descriptor.h"

enum { MAX_NAME = 255, MAX_LINE = 1024 };

typedef struct reader {
    cdz_lock *lock;
    uint32_t line;
    cdz_pin *pin; /* whose files come now; NULL: none yet */
    cdz_error *err;
} reader;

bool cdz_lock_file_ok(const char *name)
{
    const size_t n = strlen(name);
    if (n == 0 || n > MAX_NAME || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
    for (const char *c = name; *c; c++)
        if (*c == '/' || (unsigned char)*c < ' ' || *c == 0x7f) return false;
    return true;
}

/* --- finding and changing ----------------------------------------------------------------------------------- */

const cdz_pin *cdz_lock_find(const cdz_lock *lock, const char *id)
{
    for (uint32_t i = 0; i < lock->n_pins; i++)
        if (strcmp(lock->pins[i].id, id) == 0) return &lock->pins[i];
    return NULL;
}

const char *cdz_pin_sha256(const cdz_pin *pin, const char *file)
{
    for (uint32_t i = 0; i < pin->n_files; i++)
        if (strcmp(pin->files[i].name, file) == 0) return pin->files[i].sha256;
    return NULL;
}

static cdz_status make_room(cdz_lock *lock, cdz_error *err)
{
    if (lock->n_pins < lock->cap) return CDZ_OK;
    if (lock->n_pins == CDZ_LOCK_PLUGINS)
        return cdz_err(err, CDZ_E_LIMIT, "%s: more than %u plugins", lock->path, CDZ_LOCK_PLUGINS);
    const uint32_t cap = lock->cap ? 2 * lock->cap : 16;
    cdz_pin *more = cdz_arena_array(&lock->arena, cap, sizeof *more);
    if (!more) return cdz_err_memory_in(err, lock->path);
    if (lock->n_pins) memcpy(more, lock->pins, lock->n_pins * sizeof *more);
    lock->pins = more;
    lock->cap = cap;
    return CDZ_OK;
}

static bool copy_pin(cdz_arena *arena, const cdz_pin *from, cdz_pin *out)
{
    *out = *from;
    out->id = cdz_arena_strdup(arena, from->id);
    out->version = cdz_arena_strdup(arena, from->version);
    out->files = cdz_arena_array(arena, from->n_files + 1u, sizeof *out->files);
    if (!out->id || !out->version || !out->files) return false;
    for (uint32_t i = 0; i < from->n_files; i++) {
        out->files[i].name = cdz_arena_strdup(arena, from->files[i].name);
        out->files[i].sha256 = cdz_arena_strdup(arena, from->files[i].sha256);
        if (!out->files[i].name || !out->files[i].sha256) return false;
    }
    return true;
}

cdz_status cdz_lock_put(cdz_lock *lock, const cdz_pin *pin, cdz_error *err)
{
    cdz_pin copy;
    CDZ_TRY(make_room(lock, err));
    if (!copy_pin(&lock->arena, pin, &copy)) return cdz_err_memory_in(err, lock->path);
    (void)cdz_lock_drop(lock, pin->id);
    lock->pins[lock->n_pins++] = copy;
    return CDZ_OK;
}

bool cdz_lock_drop(cdz_lock *lock, const char *id)
{
    const cdz_pin *pin = cdz_lock_find(lock, id);
    if (!pin) return false;
    const uint32_t at = (uint32_t)(pin - lock->pins);
    lock->n_pins--;
    memmove(lock->pins + at, lock->pins + at + 1, (lock->n_pins - at) * sizeof *lock->pins);
    return true;
}

/* --- reading ------------------------------------------------------------------------------------------------ */

/* What the line should have been. */
static cdz_status unexpected(const reader *r, const char *line, const char *expected)
{
    return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: '%.80s': expected %s", r->lock->path, r->line,
                   line, expected);
}

static cdz_status read_header(reader *r, const char *line)
{
    static const char magic[] = CDZ_LOCK_FILE " ";
    const char *version = line + sizeof magic - 1;
    if (strncmp(line, magic, sizeof magic - 1) != 0)
        return unexpected(r, line, "the first line to be 'cadenza.lock 1'");
    if (strcmp(version, "1") != 0)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s:%u:1: format %.20s; this version of cadenza reads format %d",
                       r->lock->path, r->line, version, CDZ_LOCK_FORMAT);
    return CDZ_OK;
}

/* The next word of *at, ended by one blank or the end; "" when there is none. */
static const char *next_word(char **at)
{
    char *word = *at;
    const size_t n = strcspn(word, " ");
    *at = word + n + (word[n] == ' ');
    word[n] = '\0';
    return word;
}

/* A package is pinned with its manifest and what that names, so one file alone is a lock cut short. */
static cdz_status end_plugin(const reader *r)
{
    const cdz_pin *pin = r->pin;
    if (!pin) return CDZ_OK;
    if (!cdz_pin_sha256(pin, "plugin.ini"))
        return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: plugin %s has no line for its plugin.ini",
                       r->lock->path, r->line, pin->id);
    if (pin->n_files < 2)
        return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: plugin %s has no line for its code",
                       r->lock->path, r->line, pin->id);
    return CDZ_OK;
}

static cdz_status read_plugin(reader *r, char *line)
{
    static const char expected[] = "'plugin ID VERSION KIND'";
    cdz_lock *lock = r->lock;
    CDZ_TRY(end_plugin(r));
    char *at = cdz_arena_strdup(&lock->arena, line);
    if (!at) return cdz_err_memory_in(r->err, lock->path);
    (void)next_word(&at);
    const char *id = next_word(&at), *version = next_word(&at), *kind = next_word(&at);
    if (!cdz_plugin_id_ok(id) || !cdz_plugin_version_ok(version) || *at)
        return unexpected(r, line, expected);
    if (cdz_kind_of_name(kind) == 0)
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s:%u:1: '%.40s' is no kind: expected processor, criterion, strategy, "
                       "drafter, observer, loader, scheduler or press",
                       lock->path, r->line, kind);
    if (cdz_lock_find(lock, id))
        return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: plugin %s is there twice", lock->path,
                       r->line, id);
    CDZ_TRY(make_room(lock, r->err));
    cdz_pin_file *files = cdz_arena_array(&lock->arena, CDZ_LOCK_FILES, sizeof *files);
    if (!files) return cdz_err_memory_in(r->err, lock->path);
    r->pin = &lock->pins[lock->n_pins++];
    *r->pin =
        (cdz_pin){.id = id, .version = version, .kind = cdz_kind_of_name(kind), .files = files};
    return CDZ_OK;
}

static cdz_status read_file(reader *r, char *line)
{
    cdz_lock *lock = r->lock;
    cdz_pin *pin = r->pin;
    if (!pin) return unexpected(r, line, "a 'plugin ID VERSION KIND' line before its files");
    char *text = cdz_arena_strdup(&lock->arena, line + 2);
    if (!text) return cdz_err_memory_in(r->err, lock->path);
    const size_t n = strcspn(text, " ");
    if (text[n] != ' ' || text[n + 1] != ' ') return unexpected(r, line, "'  SHA256  FILE'");
    char *name = text + n + 2;
    text[n] = '\0';
    if (!cdz_sha256_is_hex(text))
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s:%u:3: '%.70s' has %zu characters: expected 64 hexadecimal digits",
                       lock->path, r->line, text, n);
    if (!cdz_lock_file_ok(name))
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s:%u:%zu: '%.80s': expected a plain file name in the package's folder",
                       lock->path, r->line, n + 5, name);
    if (cdz_pin_sha256(pin, name))
        return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: %s of plugin %s is there twice", lock->path,
                       r->line, name, pin->id);
    if (pin->n_files == CDZ_LOCK_FILES)
        return cdz_err(r->err, CDZ_E_LIMIT, "%s:%u:1: plugin %s has more than %u files", lock->path,
                       r->line, pin->id, CDZ_LOCK_FILES);
    pin->files[pin->n_files++] = (cdz_pin_file){name, text};
    return CDZ_OK;
}

static cdz_status read_line(reader *r, char *line, bool first)
{
    if (first) return read_header(r, line);
    if (strncmp(line, "plugin ", 7) == 0) return read_plugin(r, line);
    if (strncmp(line, "  ", 2) == 0) return read_file(r, line);
    return unexpected(r, line, "'plugin ID VERSION KIND' or '  SHA256  FILE'");
}

/* What must be true of the whole before its lines are looked at. */
static cdz_status check_text(const reader *r, const char *text, size_t len)
{
    const char *path = r->lock->path;
    if (len == 0) return cdz_err(r->err, CDZ_E_INPUT, "%s: the file is empty", path);
    if (len > CDZ_LOCK_BYTES)
        return cdz_err(r->err, CDZ_E_LIMIT, "%s: larger than %u bytes", path, CDZ_LOCK_BYTES);
    if (memchr(text, '\0', len) || cdz_utf8_valid_prefix(text, len) < len)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: is not UTF-8 text", path);
    if (text[len - 1] != '\n')
        return cdz_err(r->err, CDZ_E_INPUT,
                       "%s: the last line does not end: the file was cut short", path);
    return CDZ_OK;
}

static cdz_status parse(reader *r, const char *text, size_t len)
{
    bool first = true;
    char line[MAX_LINE];
    CDZ_TRY(check_text(r, text, len));
    for (const char *at = text, *end = text + len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)(stop - at);
        r->line++;
        if (n >= sizeof line)
            return cdz_err(r->err, CDZ_E_INPUT, "%s:%u:1: a line of %zu bytes: at most %d",
                           r->lock->path, r->line, n, MAX_LINE - 1);
        memcpy(line, at, n);
        line[n] = '\0';
        at = stop + 1;
        if (n == 0 || line[0] == '#') continue;
        CDZ_TRY(read_line(r, line, first));
        first = false;
    }
    if (first)
        return cdz_err(r->err, CDZ_E_INPUT, "%s: expected 'cadenza.lock 1' in it", r->lock->path);
    return end_plugin(r);
}

cdz_status cdz_lock_parse(const char *path, const char *text, size_t len, cdz_lock *out,
                          cdz_error *err)
{
    *out = (cdz_lock){.present = true};
    out->path = cdz_arena_strdup(&out->arena, path);
    reader r = {.lock = out, .err = err};
    cdz_status st = out->path ? parse(&r, text, len) : cdz_err_memory_in(err, path);
    if (st != CDZ_OK) cdz_lock_free(out);
    return st;
}

/* Who could write it could grant any file all rights. Asked of the open file, not of its name. */
static cdz_status check_owner(const cdz_file *file, cdz_error *err)
{
    struct stat s;
    if (fstat(file->fd, &s) != 0) return cdz_err(err, CDZ_E_IO, "%s: cannot be read", file->path);
    if (s.st_uid != geteuid() && s.st_uid != 0)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: belongs to another user; copy it if you trust what it pins", file->path);
    if (s.st_mode & S_IWOTH)
        return cdz_err(err, CDZ_E_DENIED, "%s: anyone may write to this file; chmod o-w it",
                       file->path);
    return CDZ_OK;
}

static cdz_status read_open(const cdz_file *file, cdz_lock *out, cdz_error *err)
{
    cdz_arena arena = {0};
    CDZ_TRY(check_owner(file, err));
    if (file->size > CDZ_LOCK_BYTES)
        return cdz_err(err, CDZ_E_LIMIT, "%s: larger than %u bytes", file->path, CDZ_LOCK_BYTES);
    char *text = cdz_arena_array(&arena, (size_t)file->size + 1, 1);
    cdz_status st = text ? cdz_file_read_at(file, 0, text, (size_t)file->size, err)
                         : cdz_err_memory_in(err, file->path);
    if (st == CDZ_OK) st = cdz_lock_parse(file->path, text, (size_t)file->size, out, err);
    cdz_arena_free(&arena);
    return st;
}

cdz_status cdz_lock_read(const char *path, cdz_lock *out, cdz_error *err)
{
    struct stat s;
    cdz_file file = {0};
    *out = (cdz_lock){0};
    if (stat(path, &s) != 0 && lstat(path, &s) != 0) {
        out->path = cdz_arena_strdup(&out->arena, path);
        return out->path ? CDZ_OK : cdz_err_memory_in(err, path);
    }
    CDZ_TRY(cdz_file_map(path, &file, err));
    cdz_status st = read_open(&file, out, err);
    cdz_file_unmap(&file);
    return st;
}

void cdz_lock_free(cdz_lock *lock)
{
    if (!lock) return;
    cdz_arena_free(&lock->arena);
    *lock = (cdz_lock){0};
}
