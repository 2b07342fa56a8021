/* kv_file.c - the format of kv_file.h: heads, blocks and ends, each with its sum.
 *
 * Owns: a file while it is written or read. Not: pools, models, what is worth keeping (run/engine/prompts.c). */
#include "run/pass/kv_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "CDZ-KV\r\n";

/* As they lie in the file; no padding anywhere. */
typedef struct head {
    char magic[8];
    uint32_t version, positions;
    uint32_t n_layers, n_kv_heads, head_dim, type, value_dim, n_vocab;
    uint64_t block_bytes;
    uint8_t model[CDZ_DIGEST_BYTES], numbers[CDZ_DIGEST_BYTES];
    char build[CDZ_KV_FILE_BUILD];
    uint8_t sum[CDZ_DIGEST_BYTES];
} head;

/* Its bytes follow, and then its sum. */
typedef struct record {
    cdz_kv_file_block is;
} record;

typedef struct end {
    char magic[8];
    uint64_t n;
    uint8_t sum[CDZ_DIGEST_BYTES];
} end;

_Static_assert(sizeof(head) == 160 && sizeof(record) == 168 && sizeof(end) == 32,
               "what lies in files has no holes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian");

static head head_of(const cdz_kv_file_facts *facts)
{
    head h = {.version = CDZ_KV_FILE_VERSION,
              .positions = CDZ_KV_BLOCK,
              .n_layers = (uint32_t)facts->shape.n_layers,
              .n_kv_heads = (uint32_t)facts->shape.n_kv_heads,
              .head_dim = (uint32_t)facts->shape.head_dim,
              .type = facts->shape.type,
              .value_dim = (uint32_t)facts->shape.value_dim,
              .n_vocab = facts->n_vocab,
              .block_bytes = facts->block_bytes};
    memcpy(h.magic, magic, sizeof h.magic);
    memcpy(h.model, facts->model, sizeof h.model);
    memcpy(h.numbers, facts->numbers, sizeof h.numbers);
    memcpy(h.build, facts->build, sizeof h.build);
    cdz_digest_state sum;
    cdz_digest_begin(&sum);
    cdz_digest_add(&sum, &h, offsetof(head, sum));
    cdz_digest_end(&sum, h.sum);
    return h;
}

/* Of what stands at a place of a file with this head. */
static void sum_of(const uint8_t head_sum[CDZ_DIGEST_BYTES], uint64_t place, const void *first,
                   size_t n_first, const void *then, size_t n_then, uint8_t out[CDZ_DIGEST_BYTES])
{
    cdz_digest_state sum;
    cdz_digest_begin(&sum);
    cdz_digest_add(&sum, head_sum, CDZ_DIGEST_BYTES);
    cdz_digest_add(&sum, &place, sizeof place);
    cdz_digest_add(&sum, first, n_first);
    cdz_digest_add(&sum, then, n_then);
    cdz_digest_end(&sum, out);
}

/* --- writing ----------------------------------------------------------------------------------------------------- */

cdz_status cdz_kv_file_begin(cdz_kv_file_writer *w, const char *path,
                             const cdz_kv_file_facts *facts, cdz_error *err)
{
    const head h = head_of(facts);
    *w = (cdz_kv_file_writer){.block_bytes = facts->block_bytes};
    memcpy(w->head_sum, h.sum, sizeof w->head_sum);
    CDZ_TRY(cdz_write_begin(&w->file, path, CDZ_WRITE_SYNC | CDZ_WRITE_PRIVATE, err));
    cdz_write(&w->file, &h, sizeof h);
    return CDZ_OK;
}

cdz_status cdz_kv_file_add(cdz_kv_file_writer *w, const cdz_kv_file_block *block, const void *bytes,
                           cdz_error *err)
{
    const record r = {*block};
    uint8_t sum[CDZ_DIGEST_BYTES];
    sum_of(w->head_sum, w->n, &r, sizeof r, bytes, w->block_bytes, sum);
    cdz_write(&w->file, &r, sizeof r);
    cdz_write(&w->file, bytes, w->block_bytes);
    cdz_write(&w->file, sum, sizeof sum);
    w->n++;
    return cdz_write_check(&w->file, err);
}

cdz_status cdz_kv_file_finish(cdz_kv_file_writer *w, cdz_error *err)
{
    end e = {.n = w->n};
    memcpy(e.magic, magic, sizeof e.magic);
    sum_of(w->head_sum, w->n, &e, offsetof(end, sum), NULL, 0, e.sum);
    cdz_write(&w->file, &e, sizeof e);
    return cdz_write_finish(&w->file, err);
}

void cdz_kv_file_drop(cdz_kv_file_writer *w)
{
    cdz_write_drop(&w->file);
}

/* --- the head ---------------------------------------------------------------------------------------------------- */

static cdz_status check_form(const char *path, const head *h, cdz_error *err)
{
    uint8_t sum[CDZ_DIGEST_BYTES];
    cdz_digest_state state;
    if (memcmp(h->magic, magic, sizeof magic) != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: is no file of a prefix cache", path);
    if (h->version != CDZ_KV_FILE_VERSION)
        return cdz_err(err, CDZ_E_INPUT, "%s: is in version %" PRIu32 " of its format, expected %d",
                       path, h->version, CDZ_KV_FILE_VERSION);
    cdz_digest_begin(&state);
    cdz_digest_add(&state, h, offsetof(head, sum));
    cdz_digest_end(&state, sum);
    if (memcmp(sum, h->sum, sizeof sum) == 0 && memchr(h->build, '\0', sizeof h->build))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: its head is damaged", path);
}

static const char *type_name(uint32_t type)
{
    return type < CDZ_N_KV ? cdz_dtype_name((cdz_dtype)type) : "another type";
}

/* Are its blocks those that would be computed here? */
static cdz_status check_facts(const char *path, const head *h, const head *mine, cdz_error *err)
{
    if (memcmp(h->model, mine->model, sizeof h->model) != 0)
        return cdz_err(err, CDZ_E_NOT_FOUND, "%s: is of another model", path);
    if (h->type != mine->type)
        return cdz_err(err, CDZ_E_INPUT, "%s: has keys and values in %s, expected %s", path,
                       type_name(h->type), type_name(mine->type));
    if (memcmp(h->build, mine->build, sizeof h->build) != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: was written by %.63s, expected %.63s", path, h->build,
                       mine->build);
    if (memcmp(h->numbers, mine->numbers, sizeof h->numbers) != 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: was computed with other types of weights or activations", path);
    if (memcmp(h->sum, mine->sum, sizeof h->sum) != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: has blocks of another shape", path);
    return CDZ_OK;
}

static cdz_status check_head(cdz_kv_file *f, const cdz_kv_file_facts *facts, cdz_error *err)
{
    head h;
    const head mine = head_of(facts);
    if (f->file.size < sizeof h)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: is no file of a prefix cache: %" PRIu64 " bytes, expected %zu or more",
                       f->file.path, f->file.size, sizeof h);
    CDZ_TRY(cdz_file_read_at(&f->file, 0, &h, sizeof h, err));
    CDZ_TRY(check_form(f->file.path, &h, err));
    CDZ_TRY(check_facts(f->file.path, &h, &mine, err));
    memcpy(f->head_sum, h.sum, sizeof f->head_sum);
    f->block_bytes = facts->block_bytes;
    f->n_vocab = facts->n_vocab;
    return CDZ_OK;
}

/* --- blocks ------------------------------------------------------------------------------------------------------ */

static uint64_t record_bytes(const cdz_kv_file *f)
{
    return sizeof(record) + f->block_bytes + CDZ_DIGEST_BYTES;
}

/* How many blocks there are: the length says it, and the end has to say the same. */
static cdz_status count_blocks(cdz_kv_file *f, cdz_error *err)
{
    end e;
    uint8_t sum[CDZ_DIGEST_BYTES];
    const uint64_t bytes = f->file.size - sizeof(head), each = record_bytes(f);
    if (bytes < sizeof e || (bytes - sizeof e) % each != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: has been cut, or bytes were added to it",
                       f->file.path);
    const uint64_t n = (bytes - sizeof e) / each;
    CDZ_TRY(cdz_file_read_at(&f->file, f->file.size - sizeof e, &e, sizeof e, err));
    sum_of(f->head_sum, n, &e, offsetof(end, sum), NULL, 0, sum);
    if (n >= CDZ_KV_FILE_NONE || e.n != n || memcmp(e.magic, magic, sizeof magic) != 0 ||
        memcmp(e.sum, sum, sizeof sum) != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: has been cut, or its end is damaged", f->file.path);
    f->n = (uint32_t)n;
    return CDZ_OK;
}

static cdz_status check_block(const cdz_kv_file *f, uint32_t place, const cdz_kv_file_block *block,
                              cdz_error *err)
{
    if (block->before != CDZ_KV_FILE_NONE && block->before >= place)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: block %" PRIu32 " follows block %" PRIu32 ", which is not before it",
                       f->file.path, place, block->before);
    if (block->kind > 1)
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: block %" PRIu32 " is of kind %" PRIu32 ", expected 0 or 1",
                       f->file.path, place, block->kind);
    for (uint32_t i = 0; i < CDZ_KV_BLOCK; i++)
        if (block->ids[i] < 0 || (uint32_t)block->ids[i] >= f->n_vocab)
            return cdz_err(err, CDZ_E_INPUT,
                           "%s: block %" PRIu32 ": token %" PRId32
                           " is outside the vocabulary of %" PRIu32,
                           f->file.path, place, block->ids[i], f->n_vocab);
    return CDZ_OK;
}

cdz_status cdz_kv_file_read(cdz_kv_file *f, uint32_t place, cdz_kv_file_block *block,
                            const void **bytes, cdz_error *err)
{
    const uint64_t each = record_bytes(f);
    uint8_t sum[CDZ_DIGEST_BYTES];
    record r;
    const uint8_t *at = f->record, *data = at + sizeof r;
    CDZ_TRY(cdz_file_read_at(&f->file, sizeof(head) + place * each, f->record, each, err));
    memcpy(&r, at, sizeof r);
    sum_of(f->head_sum, place, &r, sizeof r, data, f->block_bytes, sum);
    if (memcmp(sum, data + f->block_bytes, sizeof sum) != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: block %" PRIu32 " of %" PRIu32 " is damaged",
                       f->file.path, place, f->n);
    CDZ_TRY(check_block(f, place, &r.is, err));
    *block = r.is;
    *bytes = data;
    return CDZ_OK;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

static cdz_status check_all(cdz_kv_file *f, const cdz_kv_file_facts *facts, cdz_error *err)
{
    cdz_kv_file_block block;
    const void *bytes;
    CDZ_TRY(check_head(f, facts, err));
    CDZ_TRY(count_blocks(f, err));
    f->record = malloc(record_bytes(f));
    if (!f->record) return cdz_err_memory_in(err, f->file.path);
    for (uint32_t i = 0; i < f->n; i++) CDZ_TRY(cdz_kv_file_read(f, i, &block, &bytes, err));
    return CDZ_OK;
}

cdz_status cdz_kv_file_open(const char *path, const cdz_kv_file_facts *mine, cdz_kv_file *out,
                            cdz_error *err)
{
    *out = (cdz_kv_file){0};
    CDZ_TRY(cdz_file_map(path, &out->file, err));
    const cdz_status status = check_all(out, mine, err);
    if (status != CDZ_OK) cdz_kv_file_close(out);
    return status;
}

void cdz_kv_file_close(cdz_kv_file *f)
{
    free(f->record);
    cdz_file_unmap(&f->file);
    *f = (cdz_kv_file){0};
}
