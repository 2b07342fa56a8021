/* fuzz_safetensors.c - any bytes as a .safetensors file, and as an index of shards. Whatever is
 * accepted lies inside the file, in order, without overlap. */
#include <string.h>

#include "fuzz.h"
#include "load/safetensors.h"
#include "support/memory_meter.h"

static void check(const cdz_tensors *set, size_t size)
{
    uint64_t total = 0;
    for (size_t i = 0; i < set->n_items; i++) {
        const cdz_tensor *t = &set->items[i];
        const char *start = set->files[t->file].data, *data = t->data;
        FUZZ_CHECK(data >= start && data <= start + size);
        FUZZ_CHECK(t->n_bytes <= (uint64_t)(start + size - data));
        FUZZ_CHECK(cdz_tensors_find(set, t->name) == t);
        total += t->n_bytes;
    }
    FUZZ_CHECK(total < size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    cdz_tensors set;
    cdz_error err;
    int fd = fuzz_file(data, size, path);
    meter_begin();
    if (cdz_tensors_open(path, &set, &err) == CDZ_OK) check(&set, size);
    cdz_tensors_close(&set);
    FUZZ_CHECK(cdz_tensors_open_shards(path, &set, &err) != CDZ_OK); /* no shard is beside it */
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    close(fd);
    return 0;
}
