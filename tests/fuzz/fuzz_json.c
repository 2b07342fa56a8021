/* fuzz_json.c - any bytes to the reader; what it accepts is written and read again as the same. */
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cdz_arena arena = {0};
    cdz_json value, again;
    cdz_error err;
    const cdz_json_limits limits = {.depth = size % 7 ? 0 : 300, .duplicates = size % 5 == 0};
    if (cdz_json_parse((const char *)data, size, "fuzz", &limits, &arena, &value, &err) == CDZ_OK) {
        cdz_buf first = {0}, second = {0};
        cdz_json_write(&first, &value);
        FUZZ_CHECK(cdz_json_parse(first.data, first.len, "again", &limits, &arena, &again, &err) ==
                   CDZ_OK);
        cdz_json_write(&second, &again);
        FUZZ_CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
        for (uint32_t i = 0; value.type == CDZ_JSON_OBJECT && i < value.len; i++)
            if (strlen(value.members[i].key) == value.members[i].key_len)
                FUZZ_CHECK(cdz_json_get(&value, value.members[i].key) == &value.members[i].value);
        cdz_buf_free(&first);
        cdz_buf_free(&second);
    } else {
        FUZZ_CHECK(strncmp(err.text, "fuzz:", 5) == 0);
    }
    cdz_arena_free(&arena);
    return 0;
}
