/* check.c - hashes of model files, those recorded of them, and values that are no numbers. */
#include "load/check.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "load/bind.h"

enum {
    PIECE_BYTES = 4 << 20, /* of a file that is hashed, at once */
    TELL_BYTES = 64 << 20,
    MAX_SUMS = 1 << 20, /* bytes of a list of hashes */
    WIDTH = 256,        /* values that count as a row: the longest block */
    ROWS = 1024,        /* widened at once */
    WIDEST = 4,         /* bytes of a value as stored */
};

/* --- hashes -------------------------------------------------------------------------------- */

cdz_status cdz_hash_check(const cdz_file *file, const cdz_check_progress *progress,
                          char hex[CDZ_SHA256_HEX], cdz_error *err)
{
    cdz_sha256_state state;
    char *piece = malloc(PIECE_BYTES);
    if (!piece) return cdz_err_memory_in(err, file->path);
    cdz_sha256_begin(&state);
    cdz_status st = CDZ_OK;
    for (uint64_t at = 0; st == CDZ_OK && at < file->size; at += PIECE_BYTES) {
        const uint64_t left = file->size - at;
        const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        st = cdz_file_read_at(file, at, piece, n, err);
        if (st == CDZ_OK) cdz_sha256_add(&state, piece, n);
        if (progress && at % TELL_BYTES == 0) progress->tell(progress->user, at, file->size);
    }
    free(piece);
    cdz_sha256_end(&state, hex);
    return st;
}

static bool take_hex(const char *text, size_t len, cdz_known_hash *out, const char *source)
{
    if (len != CDZ_SHA256_HEX - 1) return false;
    for (size_t i = 0; i < len; i++) {
        if (!isxdigit((unsigned char)text[i])) return false;
        out->hex[i] = (char)tolower((unsigned char)text[i]);
    }
    out->hex[len] = '\0';
    out->source = source;
    return true;
}

static char *next_line(char **at)
{
    char *line = *at;
    if (!line || !*line) return NULL;
    char *end = strchr(line, '\n');
    *at = end ? end + 1 : NULL;
    if (end) *end = '\0';
    const size_t len = strlen(line);
    if (len && line[len - 1] == '\r') line[len - 1] = '\0';
    return line;
}

/* Lines of sha256sum: 64 digits, a space, a space or an asterisk, the name. */
static cdz_status find_in_sums(const char *sums, const char *name, cdz_known_hash *out,
                               cdz_error *err)
{
    enum { DIGITS = CDZ_SHA256_HEX - 1 };
    char *text;
    size_t len;
    unsigned number = 0;
    const cdz_status opened = cdz_file_read(sums, MAX_SUMS, &text, &len, err);
    if (opened == CDZ_E_NOT_FOUND) return CDZ_OK;
    CDZ_TRY(opened);
    cdz_status st = CDZ_OK;
    char *at = text;
    for (const char *line; st == CDZ_OK && (line = next_line(&at)) != NULL;) {
        cdz_known_hash here = {0};
        number++;
        if (!*line) continue;
        if (strlen(line) < DIGITS + 3 || !take_hex(line, DIGITS, &here, sums) ||
            line[DIGITS] != ' ' || (line[DIGITS + 1] != ' ' && line[DIGITS + 1] != '*'))
            st = cdz_err(err, CDZ_E_INPUT,
                         "%s:%u: expected 64 hexadecimal digits, two spaces and a file's name",
                         sums, number);
        else if (strcmp(line + DIGITS + 2, name) == 0)
            *out = here;
    }
    free(text);
    return st;
}

/* Of the Hugging Face client: the commit, the file's etag (for large files their SHA-256), the time. */
static cdz_status find_in_metadata(const char *path, cdz_known_hash *out)
{
    char *text;
    size_t len;
    cdz_error nobody;
    if (cdz_file_read(path, MAX_SUMS, &text, &len, &nobody) != CDZ_OK) return CDZ_OK;
    char *at = text;
    (void)next_line(&at);
    const char *etag = next_line(&at);
    if (etag) take_hex(etag, strlen(etag), out, path);
    free(text);
    return CDZ_OK;
}

/* A link of its cache leads to blobs/SHA256. */
static void find_in_link(const char *path, cdz_arena *arena, cdz_known_hash *out)
{
    char target[4096];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0) return;
    target[n] = '\0';
    const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
    const char *source = cdz_arena_printf(arena, "the name of the blob that %s leads to", path);
    if (source) take_hex(name, strlen(name), out, source);
}

cdz_status cdz_hash_known(const char *path, cdz_arena *arena, cdz_known_hash *out, cdz_error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const int folder = (int)(name - path);
    *out = (cdz_known_hash){.source = ""};
    const char *sums = cdz_arena_printf(arena, "%.*sSHA256SUMS", folder, path);
    const char *own = cdz_arena_printf(arena, "%s.sha256", path);
    const char *recorded =
        cdz_arena_printf(arena, "%.*s.cache/huggingface/download/%s.metadata", folder, path, name);
    if (!sums || !own || !recorded) return cdz_err_memory_in(err, path);
    CDZ_TRY(find_in_sums(sums, name, out, err));
    if (!*out->hex) CDZ_TRY(find_in_sums(own, name, out, err));
    if (!*out->hex) CDZ_TRY(find_in_metadata(recorded, out));
    if (!*out->hex) find_in_link(path, arena, out);
    return CDZ_OK;
}

/* --- values -------------------------------------------------------------------------------- */

struct cdz_value_scan {
    cdz_backend *backend;
    void *bytes;   /* as they are stored */
    float *values; /* (ROWS, WIDTH) */
    int32_t ids[ROWS];
};

cdz_value_scan *cdz_value_scan_new(cdz_backend *backend)
{
    cdz_value_scan *scan = calloc(1, sizeof *scan);
    if (!scan) return NULL;
    scan->backend = backend;
    scan->values = malloc(sizeof *scan->values * ROWS * WIDTH);
    scan->bytes = malloc((size_t)WIDEST * ROWS * WIDTH);
    for (int32_t i = 0; i < ROWS; i++) scan->ids[i] = i;
    if (scan->values && scan->bytes) return scan;
    cdz_value_scan_free(scan);
    return NULL;
}

void cdz_value_scan_free(cdz_value_scan *scan)
{
    if (!scan) return;
    free(scan->bytes);
    free(scan->values);
    free(scan);
}

static void count(cdz_value_counts *counts, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i])) continue;
        if (isinf(values[i]))
            counts->n_infinite++;
        else if (counts->n_nan++ == 0)
            counts->first_nan = counts->n + i;
    }
    counts->n += n;
}

cdz_status cdz_value_scan_tensor(cdz_value_scan *scan, const cdz_file *file,
                                 const cdz_tensor *tensor, cdz_value_counts *out, cdz_error *err)
{
    cdz_dtype dtype;
    *out = (cdz_value_counts){0};
    if (!cdz_tensor_dtype(tensor, &dtype)) return CDZ_OK;
    const uint64_t total = tensor->n_bytes / cdz_dtype_bytes(dtype) * cdz_dtype_block(dtype);
    const uint64_t begin = (uint64_t)((const char *)tensor->data - (const char *)file->data);
    size_t n;
    for (uint64_t done = 0; out->n < total; done += n) {
        const uint64_t left = total - out->n;
        const size_t k = left < WIDTH ? (size_t)left : WIDTH;
        const size_t rows = left / k < ROWS ? (size_t)(left / k) : ROWS;
        const cdz_weight table = {.data = scan->bytes, .dtype = dtype, .n = rows, .k = k};
        n = rows * cdz_row_bytes(dtype, k);
        CDZ_TRY(cdz_file_read_at(file, begin + done, scan->bytes, n, err));
        scan->backend->api->embed(scan->backend, scan->values, k, &table, scan->ids, rows);
        count(out, scan->values, rows * k);
    }
    return CDZ_OK;
}
