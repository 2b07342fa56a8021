/* golden.c - see golden.h. */
#include "support/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/must.h"

const char *const golden_folder = CADENZA_TEST_DATA "/golden/";

golden golden_open(const char *model)
{
    golden g = {0};
    char path[512];
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s%s/cases.json", golden_folder, model);
    must(cdz_json_read_file(path, 0, NULL, &g.arena, &g.cases, &err), &err);
    return g;
}

bool golden_has(const golden *g, const char *id)
{
    for (uint32_t i = 0; i < g->cases.len; i++)
        if (cdz_json_eq(cdz_json_get(&g->cases.items[i], "id"), id)) return true;
    return false;
}

const cdz_json *golden_case(const golden *g, const char *id)
{
    for (uint32_t i = 0; i < g->cases.len; i++)
        if (cdz_json_eq(cdz_json_get(&g->cases.items[i], "id"), id)) return &g->cases.items[i];
    fail_msg("no golden case %s", id);
    return NULL;
}

int32_t *golden_rows(const cdz_json *rows, uint32_t *n, uint32_t *len)
{
    *n = rows->len;
    *len = rows->items[0].len;
    int32_t *ids = calloc((size_t)*n * *len, sizeof *ids);
    for (uint32_t r = 0; r < *n; r++) {
        assert_int_equal(rows->items[r].len, *len);
        for (uint32_t i = 0; i < *len; i++)
            ids[r * *len + i] = (int32_t)rows->items[r].items[i].integer;
    }
    return ids;
}
