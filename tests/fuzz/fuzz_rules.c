/* fuzz_rules.c - any bytes as a .rules file: read or refused in words, what comes of it passes the host's checks or is
 * refused by them, and memory stays in proportion. The loader is the package's own, linked in. */
#include <string.h>

#include "call/outside.h"
#include "describe/descriptor.h"
#include "fuzz.h"
#include "support/memory_meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const cdz_loader *loader = (const cdz_loader *)(const void *)cdz_plugin.plugins[0];
    cdz_plugin_file file = {.size = sizeof file, .path = "t.rules", .name = "t.rules", .len = size};
    cdz_arena arena = {0};
    cdz_opened opened;
    cdz_descriptor d;
    cdz_error err = {0};
    if (size > loader->max_bytes) return 0;
    char *bytes = malloc(size + 1);
    FUZZ_CHECK(bytes);
    memcpy(bytes, data, size);
    bytes[size] = '\0';
    file.bytes = bytes;
    meter_begin();
    const cdz_status st = cdz_call_open_file(loader, &file, &arena, &opened, &err);
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    free(bytes); /* nothing may point into it */
    if (st == CDZ_OK) FUZZ_CHECK(opened.n_plugins == 1);
    if (st == CDZ_OK && cdz_descriptor_adopt("t.rules", opened.plugins[0], NULL, &d, &err) != CDZ_OK)
        FUZZ_CHECK(err.text[0]);
    if (st != CDZ_OK) FUZZ_CHECK(strncmp(err.text, "t.rules:", 8) == 0);
    if (st == CDZ_OK) cdz_call_close_file(loader, &opened, &arena);
    cdz_arena_free(&arena);
    return 0;
}
