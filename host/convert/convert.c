/* convert.c - the way from one model file to another: read, describe, write, read again and
 * compare, name. */
#include "convert/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "convert/describe.h"
#include "convert/folder_out.h"
#include "load/families.h"
#include "load/gguf_model.h"

typedef struct conversion {
    const cdz_convert_options *o;
    cdz_convert_report *report;
    cdz_weights *w;
    cdz_tokenizer *tok;
    cdz_gguf gguf; /* when `in` is one */
    cdz_target target;
    cdz_gguf_meta meta;
    cdz_out_tensors tensors;
    cdz_error *err;
} conversion;

static void count_in(conversion *c, const cdz_tensors *set)
{
    for (uint32_t i = 0; i < set->n_files; i++) c->report->bytes_in += set->files[i].size;
}

/* --- comparing with what went in ----------------------------------------------------------- */

/* Texts on which tokenizers differ: spaces, lines, digits, contractions, letters of many scripts. */
static const char *const probes[] = {
    "",
    " ",
    "Hello, world! It's 1234567 o'clock; they'll've left.",
    "  two  spaces\tand\ttabs \n\n lines \r\n end  ",
    "café café naïve Ångström STRASSE straße",
    "你好，世界。 こんにちは 한국어",
    "Привет مرحبا हिन्दी",
    "int main(void) { return x->y[0] + 0x1F; } // 3.14e-10",
    "\xf0\x9f\x99\x82 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xe2\x88\x91\xe2\x88\x9a",
    "<s>a</s> b<|endoftext|> c <unk>",
};

static cdz_status compare_text(const conversion *c, const cdz_tokenizer *made, const char *text,
                               unsigned flags)
{
    cdz_encoding a = {0}, b = {0};
    const size_t len = strlen(text);
    cdz_status st = cdz_tokenizer_encode(c->tok, NULL, text, len, flags, &a, c->err);
    if (st == CDZ_OK) st = cdz_tokenizer_encode(made, NULL, text, len, flags, &b, c->err);
    const bool same = st != CDZ_OK ||
                      (a.n == b.n && (a.n == 0 || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) == 0));
    cdz_encoding_free(&a);
    cdz_encoding_free(&b);
    if (same) return st;
    return cdz_err(c->err, CDZ_E_UNSUPPORTED,
                   "%s: GGUF's words for the tokenizer give \"%.60s\" other ids; --no-tokenizer "
                   "leaves the tokenizer out",
                   c->o->in, text);
}

static cdz_status compare_tokenizers(const conversion *c)
{
    cdz_tokenizer *made;
    if (!c->tok) return CDZ_OK;
    CDZ_TRY(cdz_tokenizer_open(c->target.temp, &made, c->err));
    cdz_status st = CDZ_OK;
    for (size_t i = 0; st == CDZ_OK && i < sizeof probes / sizeof *probes; i++) {
        st = compare_text(c, made, probes[i], 0);
        if (st == CDZ_OK) st = compare_text(c, made, probes[i], CDZ_ENCODE_SPECIAL);
    }
    cdz_tokenizer_free(made);
    return st;
}

static cdz_status compare_models(const conversion *c)
{
    cdz_weights *made;
    CDZ_TRY(cdz_weights_open(c->target.temp, &made, c->err));
    const char *what = cdz_convert_arch_difference(&c->w->arch, &made->arch);
    for (uint32_t i = 0; i < made->tensors.n_files; i++)
        c->report->bytes_out += made->tensors.files[i].size;
    cdz_weights_close(made);
    if (!what) return CDZ_OK;
    return cdz_err(c->err, CDZ_E_UNSUPPORTED, "%s: %s cannot be said in %s", c->o->in, what,
                   c->o->to_gguf ? "GGUF" : "a config.json");
}

/* --- a folder to a file -------------------------------------------------------------------- */

static cdz_status find_gguf_arch(const conversion *c, const cdz_gguf_arch **out)
{
    *out = cdz_gguf_arch_for(c->w->arch.model_type);
    if (*out && !c->w->arch.encoder) return CDZ_OK;
    return cdz_err(c->err, CDZ_E_UNSUPPORTED, "%s: models of type %s are not supported as GGUF",
                   c->o->in, c->w->arch.model_type);
}

/* The tokenizer is optional: a folder without one takes ids only. */
static cdz_status open_tokenizer(conversion *c)
{
    cdz_error why = {0};
    if (c->o->no_tokenizer) return CDZ_OK;
    const cdz_status st = cdz_tokenizer_open(c->o->in, &c->tok, &why);
    if (st == CDZ_OK || st == CDZ_E_NOT_FOUND) return CDZ_OK;
    return cdz_err(c->err, why.code, "%s", why.text);
}

static cdz_status put_generation(conversion *c)
{
    const cdz_json *generation = cdz_weights_generation_config(c->w);
    cdz_buf text = {0};
    if (!generation) return CDZ_OK;
    cdz_json_write(&text, generation);
    if (!text.failed) cdz_meta_string(&c->meta, "cadenza.generation_config", text.data, text.len);
    const bool failed = text.failed;
    cdz_buf_free(&text);
    return failed ? cdz_err_memory_in(c->err, c->o->in) : CDZ_OK;
}

static cdz_status write_gguf(conversion *c)
{
    cdz_out out = {.watch = &c->o->watch, .err = c->err};
    cdz_status st = cdz_out_open(&c->target, NULL, &out);
    if (st == CDZ_OK) st = cdz_out_write_gguf(&c->meta, &c->tensors, &out);
    return cdz_out_close(&out, st);
}

static cdz_status folder_to_gguf(conversion *c)
{
    const cdz_gguf_arch *arch;
    CDZ_TRY(cdz_weights_open(c->o->in, &c->w, c->err));
    if (c->w->values.n)
        return cdz_err(c->err, CDZ_E_UNSUPPORTED,
                       "%s: has a head for values (%s), which is not written to GGUF", c->o->in,
                       c->w->values.name);
    CDZ_TRY(find_gguf_arch(c, &arch));
    CDZ_TRY(open_tokenizer(c));
    count_in(c, &c->w->tensors);
    const cdz_naming how = {.names = cdz_gguf_part_names(),
                            .gguf = true,
                            .to_pairs = arch->pairs,
                            .norm_add = c->w->arch.norm_offset,
                            .type = c->o->type};
    CDZ_TRY(cdz_describe_arch(c->w, arch, &c->meta, &c->tensors, c->err));
    CDZ_TRY(cdz_out_tensors_of(c->w, &how, &c->tensors, c->report, c->err));
    cdz_describe_types(&c->tensors, &c->meta);
    CDZ_TRY(put_generation(c));
    CDZ_TRY(cdz_describe_tokens(c->w, c->tok, &c->meta, c->report, c->err));
    CDZ_TRY(write_gguf(c));
    CDZ_TRY(cdz_weights_check(c->w, c->err)); /* still the files that were read? */
    CDZ_TRY(compare_models(c));
    return compare_tokenizers(c);
}

/* --- a file to a folder -------------------------------------------------------------------- */

static const char *most_dtype(const cdz_out_tensors *tensors)
{
    static const char *const names[CDZ_N_PLAIN] = {"float32", "float16", "bfloat16"};
    uint64_t bytes[CDZ_N_PLAIN] = {0};
    int most = 0;
    for (size_t i = 0; i < tensors->n; i++)
        if (tensors->items[i].type < CDZ_N_PLAIN)
            bytes[tensors->items[i].type] += tensors->items[i].n_bytes;
    for (int t = 1; t < CDZ_N_PLAIN; t++)
        if (bytes[t] > bytes[most]) most = t;
    return names[most];
}

/* Parts that collect.c does not write. */
static cdz_status refuse_parts(const conversion *c)
{
    static const cdz_arch_part parts[] = {CDZ_PART_SINKS,       CDZ_PART_KV_A,
                                          CDZ_PART_ROUTER_BIAS, CDZ_PART_EXPERTS_GATE_UP,
                                          CDZ_PART_SHARED_GATE, CDZ_PART_XIELU};
    const cdz_arch *a = &c->w->arch;
    const cdz_family *f = a->family;
    const bool own_keys = f->layout_keys || f->alibi || f->mscales || f->recurrent || f->streams ||
                          a->slopes || a->qk_norm == CDZ_QK_EACH;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (own_keys || f->names[parts[i]])
            return cdz_err(c->err, CDZ_E_UNSUPPORTED,
                           "%s: models of type %s are read from GGUF and not written as a folder",
                           c->o->in, a->model_type);
    return CDZ_OK;
}

static cdz_status gguf_to_folder(conversion *c)
{
    CDZ_TRY(cdz_weights_open(c->o->in, &c->w, c->err));
    CDZ_TRY(refuse_parts(c));
    CDZ_TRY(cdz_gguf_open(c->o->in, &c->gguf, c->err));
    count_in(c, &c->w->tensors);
    const cdz_arch *a = &c->w->arch;
    const cdz_naming how = {.names = a->family->names,
                            .from_pairs = a->rope.interleaved && !a->family->interleaved,
                            .transposed = a->family->conv1d,
                            .by_head = a->family->fused == CDZ_FUSED_HEADS,
                            .norm_add = -a->family->norm_offset,
                            .type = c->o->type};
    CDZ_TRY(cdz_out_tensors_of(c->w, &how, &c->tensors, c->report, c->err));
    CDZ_TRY(cdz_folder_configs(&c->target, c->w, most_dtype(&c->tensors), c->err));
    if (!c->o->no_tokenizer) CDZ_TRY(cdz_folder_tokenizer(&c->target, &c->gguf, c->err));
    cdz_out out = {.watch = &c->o->watch, .err = c->err};
    CDZ_TRY(cdz_safetensors_write(&c->target, &c->tensors, &out));
    CDZ_TRY(cdz_weights_check(c->w, c->err));
    return compare_models(c);
}

/* --- a file to a file ---------------------------------------------------------------------- */

/* Keys that are written anew, or that no longer hold. */
static bool is_own_key(const char *key)
{
    return strcmp(key, "general.file_type") == 0 || strcmp(key, "general.alignment") == 0 ||
           strcmp(key, "general.quantization_version") == 0 || strncmp(key, "split.", 6) == 0;
}

static cdz_role role_by_name(const cdz_tensor *t, bool has_output)
{
    if (t->n_dims < 2 || !cdz_ends_with(t->name, ".weight") || strstr(t->name, "norm") ||
        strstr(t->name, "ffn_gate_inp") || strstr(t->name, "position_embd"))
        return CDZ_ROLE_KEPT;
    if (strcmp(t->name, "output.weight") == 0) return CDZ_ROLE_HEAD;
    if (strcmp(t->name, "token_embd.weight") == 0)
        return has_output ? CDZ_ROLE_EMBED : CDZ_ROLE_HEAD;
    return CDZ_ROLE_MATRIX;
}

static cdz_dtype dtype_named(const char *name)
{
    for (int t = 0; t < CDZ_N_DTYPES; t++)
        if (strcmp(cdz_dtype_name((cdz_dtype)t), name) == 0) return (cdz_dtype)t;
    return CDZ_N_DTYPES;
}

/* A tensor of the file in the wanted type, or byte by byte. Blocks are not made of blocks: what
 * is lost twice is lost without need. */
static cdz_status add_tensor(conversion *c, const cdz_tensor *t)
{
    const cdz_role role =
        role_by_name(t, cdz_tensors_find(&c->gguf.tensors, "output.weight") != NULL);
    const cdz_dtype own = dtype_named(t->dtype);
    cdz_out_tensor out = {.name = t->name, .dtype = t->dtype, .n_dims = t->n_dims, .n_parts = 1};
    out.parts = cdz_arena_alloc(&c->tensors.arena, sizeof *out.parts);
    if (!out.parts || t->n_dims > 3)
        return out.parts ? cdz_err(c->err, CDZ_E_UNSUPPORTED, "%s: tensor %s has four dimensions",
                                   c->o->in, t->name)
                         : cdz_err_memory_in(c->err, c->o->in);
    if (role != CDZ_ROLE_KEPT && own >= CDZ_N_PLAIN)
        return cdz_err(c->err, CDZ_E_UNSUPPORTED,
                       "%s: tensor %s is %s already; quantise from a file of F32, F16 or BF16",
                       c->o->in, t->name, t->dtype);
    if (own < CDZ_N_PLAIN && (uintptr_t)t->data % cdz_dtype_bytes(own))
        return cdz_err(c->err, CDZ_E_UNSUPPORTED, "%s: tensor %s is not aligned to its numbers",
                       c->o->in, t->name);
    const size_t k = (size_t)t->shape[t->n_dims - 1];
    size_t rows = 1;
    for (uint32_t d = 0; d < t->n_dims; d++) out.shape[d] = t->shape[d];
    for (uint32_t d = 0; d + 1 < t->n_dims; d++) rows *= (size_t)t->shape[d];
    *out.parts = (cdz_weight){t->data, own, rows, k, CDZ_WEIGHT_ROWS};
    out.n_bytes = t->n_bytes;
    out.type = own < CDZ_N_DTYPES ? cdz_type_for(c->o->type, role, k, own) : CDZ_N_DTYPES;
    if (role != CDZ_ROLE_KEPT && out.type == own && c->report->n_kept++ == 0)
        snprintf(c->report->first_kept, sizeof c->report->first_kept, "%.160s has rows of %zu",
                 t->name, k);
    if (out.type < CDZ_N_DTYPES) c->report->n_by_type[out.type]++;
    return cdz_out_tensors_add(&c->tensors, &out) ? CDZ_OK : cdz_err_memory_in(c->err, c->o->in);
}

static cdz_status gguf_to_gguf(conversion *c)
{
    CDZ_TRY(cdz_weights_open(c->o->in, &c->w, c->err));
    CDZ_TRY(cdz_gguf_open(c->o->in, &c->gguf, c->err));
    count_in(c, &c->gguf.tensors);
    for (size_t i = 0; i < c->gguf.n_values; i++)
        if (!is_own_key(c->gguf.values[i].key)) cdz_meta_copy(&c->meta, &c->gguf.values[i]);
    for (size_t i = 0; i < c->gguf.tensors.n_items; i++)
        CDZ_TRY(add_tensor(c, &c->gguf.tensors.items[i]));
    c->report->n_tensors = (uint32_t)c->tensors.n;
    cdz_describe_types(&c->tensors, &c->meta);
    CDZ_TRY(write_gguf(c));
    for (uint32_t i = 0; i < c->gguf.tensors.n_files; i++)
        CDZ_TRY(cdz_file_check(&c->gguf.tensors.files[i], c->err));
    return compare_models(c);
}

/* --- outside ------------------------------------------------------------------------------- */

static cdz_status work(conversion *c)
{
    const bool file = cdz_gguf_is(c->o->in);
    CDZ_TRY(cdz_target_begin(&c->target, c->o->out, !c->o->to_gguf, c->o->force, c->o->in, c->err));
    CDZ_TRY(!file ? folder_to_gguf(c) : c->o->to_gguf ? gguf_to_gguf(c) : gguf_to_folder(c));
    return cdz_target_finish(&c->target, c->err);
}

cdz_status cdz_convert(const cdz_convert_options *options, cdz_convert_report *report,
                       cdz_error *err)
{
    conversion c = {.o = options, .report = report, .err = err};
    *report = (cdz_convert_report){0};
    const cdz_status st = work(&c);
    cdz_target_drop(&c.target);
    cdz_buf_free(&c.meta.bytes);
    cdz_out_tensors_free(&c.tensors);
    cdz_tokenizer_free(c.tok);
    cdz_weights_close(c.w);
    cdz_gguf_close(&c.gguf);
    return st;
}
