/* cmd_model.c - cadenza model: which verb, and info: what a careful user wants to know before running a model.
 *
 * Not: check (model_check.c), convert and quantize (cmd_convert.c). A model is opened without an engine, so that one which
 * is too large to run can be asked about. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/json.h"
#include "base/machine_memory.h"
#include "base/size_text.h"
#include "cli/cli.h"
#include "cli/convert.h"
#include "load/model_files.h"
#include "token/tokenizer.h"

enum { OPT_CONTEXT = CDZ_OPT_OWN, OPT_JSON };

static const cdz_verb verbs[] = {
    {"info",
     "describes a model folder or GGUF file: architecture, parameters, types, memory, tokenizer, "
     "generation defaults; with --device also that device's memory, for weights and KV blocks"},
    {"check",
     "reads all files and checks them: names and shapes against the architecture, SHA-256 "
     "against recorded ones (SHA256SUMS or FILE.sha256 beside the model, the Hugging Face "
     "cache), weights that are nan or infinite, tokenizer, chat template and generation config; "
     "exit status 1 when something is wrong"},
    {"list", "lists the models of this machine: the shipped one, those of $CADENZA_MODELS and of "
             "caches; the same as `cadenza list`"},
    {"convert", "makes a GGUF file of a folder, and the reverse; see convert --help"},
    {"quantize", "makes a GGUF file with quantised weights; see quantize --help"},
    {0},
};
static const cdz_flag flags[] = {
    {"context", 0, OPT_CONTEXT, CDZ_FLAG_OFTEN, "N",
     "info: positions to compute the KV memory for; default: the model's context"},
    {"json", 0, OPT_JSON, CDZ_FLAG_OFTEN, NULL, "info: the facts as a JSON object"},
    {0},
};

const cdz_page cdz_page_model = {
    .name = "model",
    .summary = "list, describe, check, convert or quantize models",
    .usage = "model info [MODEL] [--context N] [--device NAME] [--json]\n"
             "model check [MODEL]\n"
             "model list\n"
             "model convert IN OUT\n"
             "model quantize IN OUT --type TYPE\n",
    .about = "Lists, describes, checks and converts models. Without MODEL: the shipped one.",
    .verbs = verbs,
    .flags = flags,
    .takes = CDZ_TAKES_MODEL | CDZ_TAKES_DEVICE,
    .examples = "cadenza model info\n"
                "cadenza model list\n"
                "cadenza model check my-model\n"
                "cadenza model info my-model --context 4096\n"
                "cadenza model info my-model --json\n",
};

/* Positions to show KV memory for where a model has no limit. */
enum { NO_CONTEXT = 1024 };

/* What a run takes beside the files and the KV cache: activations, tokenizer, plugins. */
static const double OVERHEAD_BYTES = 64.0 * 1024 * 1024;

static void print_bytes(const char *label, uint64_t bytes)
{
    cdz_size_text size;
    cdz_size_write(&size, bytes);
    printf("%-18s %s\n", label, size.text);
}

static void print_count(const char *label, uint64_t n)
{
    if (n >= 1000000)
        printf("%-18s %.1f million\n", label, (double)n / 1e6);
    else
        printf("%-18s %llu\n", label, (unsigned long long)n);
}

static void print_windows(const cdz_arch *arch)
{
    if (!arch->has_window) return;
    uint32_t n = 0, window = 0;
    for (uint32_t l = 0; l < arch->n_layers; l++) {
        if (!arch->window[l]) continue;
        n++;
        window = arch->window[l];
    }
    printf("%-18s %u positions in %u of %u layers\n", "sliding window", window, n, arch->n_layers);
}

static void print_experts(const cdz_arch *arch)
{
    if (!arch->n_experts) return;
    uint32_t n = 0;
    for (uint32_t l = 0; l < arch->n_layers; l++) n += arch->sparse[l];
    printf("%-18s %u of %u at a time, width %u, in %u of %u layers\n", "experts", arch->n_active,
           arch->n_experts, arch->expert_intermediate, n, arch->n_layers);
    if (arch->shared_intermediate)
        printf("%-18s width %u, read by every row\n", "shared expert", arch->shared_intermediate);
}

static void print_recurrent(const cdz_arch *a)
{
    static const struct {
        cdz_mixer kind;
        const char *name;
    } kinds[] = {{CDZ_MIX_CONV, "short convolution"},
                 {CDZ_MIX_DELTA, "gated delta rule"},
                 {CDZ_MIX_SSD, "Mamba-2"}};
    uint32_t n = 0;
    for (uint32_t l = 0; l < a->n_layers; l++) n += cdz_arch_mixes(a, l, CDZ_MIX_RECURRENT);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (a->recurrent.kind == kinds[i].kind)
            printf("%-18s %s in %u of %u layers\n", "recurrent", kinds[i].name, n, a->n_layers);
}

static void print_stack(const char *label, const cdz_arch *arch)
{
    printf("%-18s %u layers, width %u, feed-forward %u\n", label, arch->n_layers, arch->hidden,
           arch->intermediate);
}

static void print_positions(const cdz_arch *a)
{
    static const char *const ropes[] = {"default", "linear",  "llama3",
                                        "yarn",    "dynamic", "longrope"};
    if (cdz_arch_positions_learned(a))
        printf("%-18s learned\n", "positions");
    else if (cdz_arch_has_positions(a))
        printf("%-18s sinusoidal\n", "positions");
    else if (a->slopes)
        printf("%-18s none; scores fall with distance (ALiBi)\n", "positions");
    else if (a->buckets.n)
        printf("%-18s relative, %u buckets up to %u\n", "positions", a->buckets.n,
               a->buckets.distance);
    else if (a->rope.n_rotated == 0)
        printf("%-18s none\n", "positions");
    else
        printf("%-18s %s, theta %g%s\n", "rope", ropes[a->rope_type], a->rope_theta,
               a->rope_factor != 1.0 ? ", scaled" : "");
}

static void print_arch(const cdz_weights *w)
{
    const cdz_arch *a = cdz_weights_arch(w);
    printf("%-18s %s (%s)\n", "architecture", a->model_type, a->architecture);
    if (a->part_of) printf("%-18s of %s; its other parts are left out\n", "text part", a->part_of);
    print_count("parameters", w->facts.n_parameters);
    if (a->encoder) print_stack("encoder", a->encoder);
    print_stack(a->encoder ? "decoder" : "shape", a);
    if (a->latent.kv_rank)
        printf("%-18s %u query heads, latents of %u and a rotated key of %u\n", "attention",
               a->n_heads, a->latent.kv_rank, a->latent.rotated);
    else if (a->n_heads)
        printf("%-18s %u query heads, %u key-value heads of %u\n", "attention", a->n_heads,
               a->n_kv_heads, a->head_dim);
    print_recurrent(a);
    print_windows(a);
    print_positions(a);
    print_experts(a);
    printf("%-18s %u tokens%s\n", "vocabulary", a->n_vocab,
           w->tied ? ", head tied to the embedding" : "");
    if (w->values.n)
        printf("%-18s %u, by %s%s\n", "values", w->values.n, w->values.name,
               w->values.alone ? "; there is no head for tokens" : "");
    if (a->context)
        printf("%-18s %u positions\n", "context", a->context);
    else
        printf("%-18s no limit\n", "context");
}

/* Of a model in blocks: what a run does with them. */
static void print_activations(cdz_weights *w)
{
    const uint64_t bytes = cdz_weights_int8_bytes(w);
    if (!bytes) return;
    print_bytes("int8 activations", bytes);
    printf("%-18s %s\n", "",
           cdz_weights_panels_fit(bytes)
               ? "repacked into panels by the first passes, in place of the mapped pages"
               : "there is too little memory for panels: they stay mapped, which is slower");
}

static void print_screen(const cdz_weights *w)
{
    const uint64_t bytes = cdz_screen_auto_bytes(w);
    if (!bytes) return;
    print_bytes("head screen", bytes);
    printf("%-18s %s\n", "", "a copy of the head that finds the best tokens, made once it pays");
}

static void print_memory(const cdz_weights *w, uint64_t context)
{
    static const char *const types[] = {"float32", "float16", "bfloat16"};
    for (int t = 0; t < CDZ_N_DTYPES; t++)
        if (w->facts.bytes[t])
            print_bytes(t < CDZ_N_PLAIN ? types[t] : cdz_dtype_name((cdz_dtype)t),
                        w->facts.bytes[t]);
    char label[32];
    snprintf(label, sizeof label, "KV at %llu", (unsigned long long)context);
    const uint64_t kv = w->facts.kv_bytes_per_token * context;
    printf("%-18s %llu bytes a token\n", "KV", (unsigned long long)w->facts.kv_bytes_per_token);
    if (w->facts.state_bytes)
        printf("%-18s %llu bytes a sequence\n", "recurrent state",
               (unsigned long long)w->facts.state_bytes);
    print_bytes(label, kv);
    print_bytes("  in f16 or bf16", kv / 2); /* --kv-cache */
    if (w->arch.head_dim % cdz_dtype_block(CDZ_Q8_0) == 0 && w->arch.latent.kv_rank == 0) {
        print_bytes("  in q8_0", cdz_row_bytes(CDZ_Q8_0, kv / sizeof(float)));
        print_bytes("  in q4_0", cdz_row_bytes(CDZ_Q4_0, kv / sizeof(float)));
    }
    static const double GIB = 1024.0 * 1024 * 1024;
    const double have = cdz_memory_limit(), available = cdz_memory_free(),
                 need = (double)w->facts.file_bytes + (double)kv + OVERHEAD_BYTES;
    printf("%-18s %s (needs %.1f of %.1f GiB", "runs here",
           need < 0.9 * have ? "yes" : "memory is short", need / GIB, have / GIB);
    printf(available > 0 ? ", %.1f are free now)\n" : ")\n", available / GIB);
    if (w->facts.n_unexpected)
        printf("%-18s %u tensors the architecture does not have, first %s\n", "ignored",
               w->facts.n_unexpected, w->facts.first_unexpected);
}

static cdz_status print_tokenizer(const char *folder, cdz_error *err)
{
    cdz_tokenizer *tok = NULL;
    cdz_error why = {0};
    cdz_status status = cdz_tokenizer_open(folder, &tok, &why);
    if (status == CDZ_E_NOT_FOUND) {
        printf("%-18s none: prompts are ids\n", "tokenizer");
        return CDZ_OK;
    }
    if (status != CDZ_OK) return cdz_err(err, why.code, "%s", why.text);
    printf("%-18s %s, %u tokens, %u added to each text\n", "tokenizer", cdz_tokenizer_kind(tok),
           cdz_tokenizer_n_tokens(tok), cdz_tokenizer_n_special_added(tok));
    printf("%-18s %s\n", "chat template",
           cdz_tokenizer_get_config(tok)->chat_template ? "yes" : "none");
    cdz_tokenizer_free(tok);
    return CDZ_OK;
}

static cdz_status print_generation(const cdz_weights *w, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json generation;
    cdz_status status = cdz_generation_of_model(cdz_weights_generation_config(w),
                                                cdz_weights_config(w), &arena, &generation, err);
    cdz_buf buf = {0};
    for (uint32_t i = 0; status == CDZ_OK && i < generation.len; i++) {
        const cdz_json_member *m = &generation.members[i];
        if (strcmp(m->key, "transformers_version") == 0) continue;
        cdz_buf_printf(&buf, "%s%s = ", buf.len ? ", " : "", m->key);
        cdz_json_write(&buf, &m->value);
    }
    if (status == CDZ_OK)
        printf("%-18s %s\n", "generation", buf.len ? buf.data : "transformers' defaults");
    cdz_buf_free(&buf);
    cdz_arena_free(&arena);
    return status;
}

static int info_json(const cdz_weights *weights, const char *device)
{
    cdz_buf out = {0};
    cdz_model_write_facts(weights, &out);
    if (device && !out.failed && !cdz_cli_model_device_json(weights, device, &out)) {
        cdz_buf_free(&out);
        return CDZ_EXIT_FAILURE;
    }
    int status = out.failed || puts(out.data) == EOF ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
    cdz_buf_free(&out);
    return status;
}

static int info(const char *folder, uint64_t context, const char *device, bool json)
{
    cdz_error err = {0};
    cdz_weights *weights;
    int refused;
    if (device && !cdz_cli_device_is_there(device, &refused)) return refused;
    if (cdz_weights_open(folder, &weights, &err) != CDZ_OK) return cdz_cli_fail(&err);
    if (json) {
        int status = info_json(weights, device);
        cdz_weights_close(weights);
        return status;
    }
    printf("%-18s %s\n", "model", folder);
    print_arch(weights);
    if (!context) context = cdz_weights_arch(weights)->context;
    print_activations(weights);
    print_screen(weights);
    print_memory(weights, context ? context : NO_CONTEXT);
    cdz_status status = print_tokenizer(folder, &err);
    if (status == CDZ_OK) status = print_generation(weights, &err);
    const bool good = status == CDZ_OK && (!device || cdz_cli_model_device(weights, device));
    cdz_weights_close(weights);
    if (status != CDZ_OK) return cdz_cli_fail(&err);
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

typedef struct model_job {
    cdz_cli_options common;
    const char *verb, *model;
    uint64_t context;
    bool json;
} model_job;

static void take_option(model_job *job, cdz_args *a)
{
    switch (a->opt) {
    case OPT_JSON: job->json = true; break;
    default:
        if (!cdz_parse_size(a->value, &job->context) || job->context == 0 ||
            job->context > UINT32_MAX)
            cdz_args_refuse(a, "--context %s: expected a number of positions", a->value);
    }
}

static void check_words(cdz_args *a, model_job *job)
{
    const char *verb = cdz_args_word(a);
    job->verb = verb ? verb : "";
    const bool info = strcmp(job->verb, "info") == 0, check = strcmp(job->verb, "check") == 0,
               list = strcmp(job->verb, "list") == 0 || strcmp(job->verb, "ls") == 0;
    if (!info && !check && !list) {
        cdz_args_refuse(a, "expected `info`, `check`, `list`, `convert` or `quantize`%s%s",
                        verb ? ", found " : "", job->verb);
        return;
    }
    if (!info && (job->json || job->context || job->common.host.options.device))
        cdz_args_refuse(a, "%s takes no --json, no --context and no --device", job->verb);
    else if (list)
        cdz_args_end(a);
    else if (cdz_args_take_model(a, &job->model))
        cdz_args_end(a);
}

static const char *device_of(const model_job *job)
{
    const char *said = job->common.host.options.device;
    return said ? said : cdz_setting_env(cdz_setting_named("device"));
}

static int work(const model_job *job)
{
    char path[4096];
    if (job->verb[0] == 'l') return cdz_cli_model_list(false);
    const char *folder = cdz_cli_model_folder(&job->common.host.program, job->model, CDZ_NEED_HERE,
                                              path, sizeof path);
    if (!folder) return CDZ_EXIT_FAILURE;
    return job->verb[0] == 'c' ? cdz_cli_model_check(folder)
                               : info(folder, job->context, device_of(job), job->json);
}

int cdz_cmd_model(int argc, char **argv)
{
    model_job job = {0};
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "convert") == 0 || strcmp(verb, "quantize") == 0)
        return cdz_cmd_model_convert(argc - 1, argv + 1, strcmp(verb, "quantize") == 0);
    cdz_args a = cdz_args_of(&cdz_page_model, argc, argv, &job.common);
    while (cdz_args_next(&a)) take_option(&job, &a);
    if (!a.stopped) check_words(&a, &job);
    const int status = a.stopped ? a.status : work(&job);
    cdz_cli_options_free(&job.common);
    return status;
}
