/* tensors.c - the tensors of a result as a list, where they lie. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

typedef struct listing {
    cdz_result_tensor *at; /* NULL: they are only counted */
    size_t n, name_bytes;
    char *names;
} listing;

/* Names lie behind the list, in the same block. */
static void list(listing *l, const char *under, const cdz_result_tensor *what)
{
    const size_t before = strlen(under), bytes = before + strlen(what->name) + 1;
    if (l->at) {
        cdz_result_tensor *t = &l->at[l->n];
        *t = *what;
        t->name = memcpy(l->names + l->name_bytes, under, before);
        memcpy(l->names + l->name_bytes + before, what->name, bytes - before);
    }
    l->name_bytes += bytes;
    l->n++;
}

static bool list_output(void *user, const cdz_output *out)
{
    cdz_result_tensor t = {
        .name = out->name, .type = "f32", .n_dims = out->n_dims, .data = out->data};
    memcpy(t.shape, out->shape, sizeof out->shape);
    list(user, "", &t);
    return true;
}

static void list_result(listing *l, const cdz_named_result *res)
{
    static const char types[][8] = {[CDZ_RESULT_I64] = "i64",
                                    [CDZ_RESULT_I32] = "i32",
                                    [CDZ_RESULT_F32] = "f32",
                                    [CDZ_RESULT_BOOL] = "bool",
                                    [CDZ_RESULT_JSON] = "json"};
    cdz_result_tensor t = {.name = res->name, .n_dims = res->n_dims, .data = res->data};
    memcpy(t.type, types[res->type], sizeof t.type);
    memcpy(t.shape, res->shape, sizeof res->shape);
    list(l, cdz_record_has_field(res->name) ? "" : "results/", &t);
}

static void list_all(const cdz_result *result, listing *l)
{
    const cdz_outcome *o = result->outcome;
    l->n = l->name_bytes = 0;
    for (uint32_t i = 0; i < o->n_results; i++) list_result(l, &o->results[i]);
    (void)cdz_result_each_output(result, list_output, l);
}

cdz_status cdz_result_tensors(const cdz_result *result, cdz_result_tensor **tensors, size_t *n,
                              cdz_error *err)
{
    listing l = {0};
    list_all(result, &l);
    const size_t bytes = l.n * sizeof *l.at;
    char *block = malloc(bytes + l.name_bytes + 1);
    if (!block) return cdz_err_memory(err, "a list of tensors");
    l.at = (cdz_result_tensor *)(void *)block;
    l.names = block + bytes;
    list_all(result, &l);
    *tensors = l.at;
    *n = l.n;
    return CDZ_OK;
}
