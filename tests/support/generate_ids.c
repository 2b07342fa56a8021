/* generate_ids.c - one prompt of ids through the embedding API. See generate_ids.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/generate_ids.h"
#include "support/must.h"

char *ids_document(const int32_t *ids, uint32_t n, const char *kwargs)
{
    cdz_buf out = {0};
    cdz_buf_puts(&out, "{\"prompt_ids\": [");
    for (uint32_t i = 0; i < n; i++) cdz_buf_printf(&out, "%s%d", i ? ", " : "", ids[i]);
    cdz_buf_printf(&out,
                   "], \"seed\": 3, \"kwargs\": {\"eos_token_id\": null, \"pad_token_id\": null%s}}",
                   kwargs);
    assert_false(out.failed);
    return out.data;
}

cdz_result *generate_ids(cdz_runtime *rt, cdz_model *model, const int32_t *ids, uint32_t n,
                         const char *kwargs, const cdz_result *past, bool keep)
{
    char *json = ids_document(ids, n, kwargs);
    const cdz_request request = {
        .size = sizeof request, .model = model, .json = json, .past = past, .keep_cache = keep};
    cdz_result *result = NULL;
    cdz_error err = {0};
    must(cdz_generate(rt, &request, &result, &err), &err);
    free(json);
    return result;
}
