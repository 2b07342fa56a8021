/* documents.c - JSON from texts and from recorded files. See documents.h. */
#include "support/documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static cdz_json *room(cdz_arena *arena)
{
    cdz_json *value = cdz_arena_alloc(arena, sizeof *value);
    assert_non_null(value);
    return value;
}

const cdz_json *document_of(cdz_arena *arena, const char *text)
{
    cdz_json *value = room(arena);
    cdz_error err = {0};
    if (cdz_json_parse(text, strlen(text), "test", NULL, arena, value, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    return value;
}

const cdz_json *document_in(cdz_arena *arena, const char *path)
{
    cdz_json *value = room(arena);
    cdz_error err = {0};
    if (cdz_json_read_file(path, 0, NULL, arena, value, &err) != CDZ_OK) fail_msg("%s", err.text);
    return value;
}
