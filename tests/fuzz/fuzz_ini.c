/* fuzz_ini.c - any bytes to the ini reader; what it accepts must stand in the text where it says. */
#include <stdint.h>
#include <string.h>

#include "base/ini.h"
#include "config/sources.h"
#include "fuzz.h"
#include "support/memory_meter.h"

/* The start of a line, from 1; a byte order mark is no part of the first. */
static const char *line_at(const char *text, size_t len, uint32_t line)
{
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, len -= 3;
    for (; line > 1; line--) {
        const char *end = memchr(text, '\n', len);
        FUZZ_CHECK(end != NULL);
        len -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    return text;
}

static void check_setting(const cdz_ini_setting *s, const char *text, size_t len)
{
    const char *line = line_at(text, len, s->line);
    size_t rest = len - (size_t)(line - text);
    FUZZ_CHECK(rest >= strlen(s->name) && memcmp(line, s->name, strlen(s->name)) == 0);
    FUZZ_CHECK(s->column >= 1 && *s->value);
    FUZZ_CHECK(rest >= s->column - 1 + strlen(s->value));
    FUZZ_CHECK(memcmp(line + s->column - 1, s->value, strlen(s->value)) == 0);
    FUZZ_CHECK(strlen(s->name) <= 48 && strlen(s->section) <= 48 && strlen(s->value) <= 199);
}

static bool uses_files(const cdz_ini *ini)
{
    for (uint32_t i = 0; i < ini->n_settings; i++)
        if (strcmp(ini->settings[i].name, "use") == 0) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cdz_arena arena = {0};
    cdz_ini ini;
    cdz_error err = {0};
    const char *text = (const char *)data;
    meter_begin();
    if (cdz_ini_read(text, size, "fuzz", &arena, &ini, &err) == CDZ_OK) {
        for (uint32_t i = 0; i < ini.n_settings; i++) check_setting(&ini.settings[i], text, size);
        cdz_sources sources = {.arena = &arena};
        /* Values of [generation] go through the parameter registry too. */
        if (!uses_files(&ini)) (void)cdz_sources_read(&sources, text, size, "fuzz", &err);
    } else {
        FUZZ_CHECK(err.code == CDZ_E_INPUT && strncmp(err.text, "fuzz:", 5) == 0);
    }
    FUZZ_CHECK(meter_most() + size <= meter_allowed(size));
    cdz_arena_free(&arena);
    return 0;
}
