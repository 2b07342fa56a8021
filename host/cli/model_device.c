/* model_device.c - `cadenza model info --device`: what a model would run on, what memory that has, and what of it weights
 * and KV blocks would take. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/environment.h"
#include "base/json.h"
#include "base/machine_memory.h"
#include "base/size_text.h"
#include "cli/cli.h"
#include "device/device.h"
#include "load/model_files.h"

enum { MANY_POSITIONS = 1024 };

typedef struct device_facts {
    cdz_device_found found;
    uint64_t free_bytes, total_bytes;
    uint64_t weights; /* bytes */
    uint64_t kv;      /* bytes of MANY_POSITIONS positions */
} device_facts;

static uint64_t bytes_of(const cdz_weights *w)
{
    uint64_t bytes = 0;
    for (int t = 0; t < CDZ_N_DTYPES; t++) bytes += w->facts.bytes[t];
    return bytes;
}

/* A device is asked itself: it lays out blocks in a way of its own. */
static cdz_status ask(const cdz_device_wish *wish, const cdz_arch *a, device_facts *out,
                      cdz_error *err)
{
    cdz_backend *b;
    size_t free_bytes, total;
    const cdz_kv_shape shape = {cdz_arch_kv_layers(a), a->n_kv_heads, a->head_dim, CDZ_F32,
                                a->latent.kv_rank};
    CDZ_TRY(cdz_device_create(wish, &out->found, &b, err));
    b->api->memory(b, &free_bytes, &total);
    out->free_bytes = free_bytes;
    out->total_bytes = total;
    out->kv = (uint64_t)b->api->kv_block_bytes(b, &shape) * (MANY_POSITIONS / CDZ_KV_BLOCK);
    b->api->destroy(b);
    return CDZ_OK;
}

bool cdz_cli_device_is_there(const char *device, int *status)
{
    const cdz_device_wish wish = {.name = device, .folder = cdz_env_backends()};
    cdz_device_found found;
    cdz_error err = {0};
    if (cdz_device_find(&wish, &found, &err) == CDZ_OK) return true;
    *status = cdz_cli_fail(&err);
    return false;
}

static bool look(const cdz_weights *w, const char *device, device_facts *out)
{
    const cdz_device_wish wish = {.name = device, .folder = cdz_env_backends()};
    cdz_error err = {0};
    *out =
        (device_facts){.weights = bytes_of(w), .kv = w->facts.kv_bytes_per_token * MANY_POSITIONS};
    cdz_status status = cdz_device_find(&wish, &out->found, &err);
    if (status == CDZ_OK && out->found.entry) status = ask(&wish, &w->arch, out, &err);
    if (status == CDZ_OK && !out->found.entry) {
        out->free_bytes = (uint64_t)cdz_memory_free();
        out->total_bytes = (uint64_t)cdz_memory_limit();
    }
    if (status != CDZ_OK) cdz_cli_fail(&err);
    return status == CDZ_OK;
}

static void print(const char *label, uint64_t bytes, const char *more)
{
    cdz_size_text text;
    cdz_size_write(&text, bytes);
    printf("%-18s %s%s\n", label, text.text, more);
}

bool cdz_cli_model_device(const cdz_weights *weights, const char *device)
{
    device_facts f;
    cdz_size_text all;
    char of[64];
    if (!look(weights, device, &f)) return false;
    cdz_size_write(&all, f.total_bytes);
    snprintf(of, sizeof of, " of %s are free", all.text);
    printf("%-18s %s%s%s\n", "device", f.found.name, f.found.why[0] ? ": " : "", f.found.why);
    print("its memory", f.free_bytes, of);
    print("weights there", f.weights, f.weights < f.free_bytes ? "" : ", which do not fit");
    print("KV at 1024 tokens", f.kv, "");
    if (f.weights < f.free_bytes && f.kv)
        printf("%-18s for about %.0f tokens of all requests together\n", "room beside them",
               (double)(f.free_bytes - f.weights) * 0.9 / (double)f.kv * MANY_POSITIONS);
    return true;
}

bool cdz_cli_model_device_json(const cdz_weights *weights, const char *device, cdz_buf *out)
{
    device_facts f;
    if (!look(weights, device, &f)) return false;
    out->data[--out->len] = '\0'; /* the brace that ends the object */
    cdz_buf_puts(out, ", \"device\": {\"name\": ");
    cdz_json_write_string(out, f.found.name, strlen(f.found.name));
    cdz_buf_printf(out,
                   ", \"free_bytes\": %llu, \"total_bytes\": %llu, \"weight_bytes\": %llu, "
                   "\"kv_bytes_at_1024\": %llu}}",
                   (unsigned long long)f.free_bytes, (unsigned long long)f.total_bytes,
                   (unsigned long long)f.weights, (unsigned long long)f.kv);
    return true;
}
