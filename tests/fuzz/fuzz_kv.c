/* fuzz_kv.c - any bytes as a file of the prefix cache, for a model of small blocks: refused with its name, or blocks of which each
 * comes after the one before it, with ids of the vocabulary. So that more than the first sum is looked at, every input is read a
 * second time with its sums put right. */
#include <string.h>

#include "fuzz.h"
#include "run/pass/kv_file.h"
#include "support/memory_meter.h"

enum { HEAD = 160, RECORD = 168, BLOCK = 16, END = 32, VOCAB = 64 };

static const cdz_kv_file_facts facts = {.shape = {1, 1, 8, CDZ_F32, 0},
                                        .block_bytes = BLOCK,
                                        .n_vocab = VOCAB,
                                        .model = "model",
                                        .numbers = "numbers",
                                        .build = "build"};

static void look(const uint8_t *data, size_t size)
{
    char path[64];
    cdz_kv_file f;
    cdz_error err = {0};
    const int fd = fuzz_file(data, size, path);
    meter_begin();
    if (cdz_kv_file_open(path, &facts, &f, &err) == CDZ_OK) {
        FUZZ_CHECK(size == HEAD + f.n * (size_t)(RECORD + BLOCK + CDZ_DIGEST_BYTES) + END);
        for (uint32_t i = 0; i < f.n; i++) {
            cdz_kv_file_block b;
            const void *bytes;
            FUZZ_CHECK(cdz_kv_file_read(&f, i, &b, &bytes, &err) == CDZ_OK);
            FUZZ_CHECK(b.before == CDZ_KV_FILE_NONE || b.before < i);
            for (int k = 0; k < CDZ_KV_BLOCK; k++) FUZZ_CHECK(b.ids[k] >= 0 && b.ids[k] < VOCAB);
            for (int k = 0; k < BLOCK; k++) (void)((const volatile char *)bytes)[k];
        }
        cdz_kv_file_close(&f);
    } else {
        FUZZ_CHECK(strstr(err.text, path) != NULL);
    }
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    close(fd);
}

/* The sum of what stands at a place. */
static void put_sum(const uint8_t *head_sum, uint64_t place, const uint8_t *at, size_t n,
                    uint8_t *sum)
{
    cdz_digest_state state;
    cdz_digest_begin(&state);
    if (head_sum) cdz_digest_add(&state, head_sum, CDZ_DIGEST_BYTES);
    if (head_sum) cdz_digest_add(&state, &place, sizeof place);
    cdz_digest_add(&state, at, n);
    cdz_digest_end(&state, sum);
}

static void put_right(uint8_t *data, size_t size)
{
    const size_t each = RECORD + BLOCK + CDZ_DIGEST_BYTES;
    if (size < HEAD + END) return;
    const uint8_t *head_sum = data + HEAD - CDZ_DIGEST_BYTES;
    put_sum(NULL, 0, data, HEAD - CDZ_DIGEST_BYTES, data + HEAD - CDZ_DIGEST_BYTES);
    const uint64_t n = (size - HEAD - END) / each;
    for (uint64_t i = 0; i < n; i++)
        put_sum(head_sum, i, data + HEAD + i * each, RECORD + BLOCK,
                data + HEAD + i * each + RECORD + BLOCK);
    put_sum(head_sum, n, data + size - END, END - CDZ_DIGEST_BYTES, data + size - CDZ_DIGEST_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *own = malloc(size ? size : 1);
    look(data, size);
    FUZZ_CHECK(own != NULL);
    if (size) memcpy(own, data, size);
    put_right(own, size);
    look(own, size);
    free(own);
    return 0;
}
