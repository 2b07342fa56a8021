/* cmd_parity.c - cadenza parity: replays the recorded cases of model folders and compares.
 *
 * A case is a request document with "expect"; it takes the same way as any request. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "cli/drafts.h"
#include "cli/parity.h"
#include "load/safetensors.h"

enum { OPT_BATCH = CDZ_OPT_OWN, OPT_CASE, OPT_OPTIONAL, OPT_ALLOW_UNSUPPORTED };

static const cdz_flag flags[] = {
    {"batch", 0, OPT_BATCH, CDZ_FLAG_OFTEN, "one|all",
     "run cases one after the other (default), or all of a folder together"},
    {"case", 0, OPT_CASE, CDZ_FLAG_OFTEN, "TEXT", "only cases whose id contains TEXT"},
    {"optional", 0, OPT_OPTIONAL, CDZ_FLAG_OFTEN, NULL,
     "also run the cases that document a quirk of the reference"},
    {"allow-unsupported", 0, OPT_ALLOW_UNSUPPORTED, CDZ_FLAG_OFTEN, NULL,
     "exit status 0 also when cases need features that this version lacks"},
    {"verbose", 'v', 'v', CDZ_FLAG_OFTEN, NULL, "name the features that are not supported"},
    {0},
};

const cdz_page cdz_page_parity = {
    .name = "parity",
    .summary = "replay recorded cases and compare",
    .usage = "parity PATH... [options]\n",
    .about =
        "Replays recorded cases and compares. PATH is a model folder with cases.json (and "
        "logits.safetensors), a folder of presses' cases, or a file of processor vectors. Prints a table; exit status 1 if any "
        "case failed or was not compared.",
    .flags = flags,
    .takes = CDZ_TAKES_DECODING | CDZ_TAKES_MACHINE | CDZ_TAKES_PLUGINS | CDZ_TAKES_MODEL_PLUGINS |
             CDZ_TAKES_TIME,
    .examples = "cadenza parity tests/golden/llama_gqa\n"
                "cadenza parity tests/golden/llama_* --batch all -v\n"
                "cadenza parity tests/processors/processor_vectors.json\n",
};

typedef struct parity {
    cdz_cli_options options;
    bool all, optional, verbose, many; /* many: several paths */
    bool allows_unsupported;
    bool has_head; /* of the table printed */
    const char *only;
    cdz_runtime *runtime;
    cdz_pipeline *pipeline;
    cdz_parity_count total;
} parity;

/* A folder being replayed. */
typedef struct folder {
    const char *path;
    cdz_model *model;
    cdz_drafts drafts; /* folders beside this one */
    cdz_json cases;
    cdz_tensors outputs; /* n 0: none */
    cdz_tensors logits;  /* n 0: none */
    cdz_parity_count count;
    cdz_arena arena;
} folder;

static const char *case_id(const cdz_json *c)
{
    const cdz_json *id = cdz_json_get(c, "id");
    return cdz_json_is(id, CDZ_JSON_STRING) ? id->string : "(no id)";
}

static void fail_case(folder *f, const cdz_json *c, const char *why)
{
    f->count.failed++;
    printf("FAILED %s: %s\n", case_id(c), why);
}

/* --- comparing -------------------------------------------------------------------------------------------------- */

static bool compare_logits(folder *f, const cdz_json *c, const cdz_result *result,
                           cdz_buf *difference)
{
    const cdz_json *name = cdz_json_get(cdz_json_get(c, "expect"), "tensor");
    const cdz_tensor *tensor =
        cdz_json_is(name, CDZ_JSON_STRING) ? cdz_tensors_find(&f->logits, name->string) : NULL;
    const cdz_outcome *o = result->outcome;
    if (!tensor || strcmp(tensor->dtype, "F32") != 0 || tensor->n_dims != 2 ||
        tensor->shape[0] != result->prompt_len || tensor->shape[1] != o->n_vocab) {
        cdz_buf_puts(difference, "logits.safetensors has no fitting tensor");
        return false;
    }
    const char *bytes = tensor->data; /* aligned to nothing */
    for (size_t i = 0; i < (size_t)result->prompt_len * o->n_vocab; i++) {
        float want;
        memcpy(&want, bytes + i * sizeof want, sizeof want);
        if (cdz_parity_close((double)o->prompt_logits[i], (double)want)) continue;
        cdz_buf_printf(difference, "logits[%zu][%zu]: expected %.7g, got %.7g", i / o->n_vocab,
                       i % o->n_vocab, (double)want, (double)o->prompt_logits[i]);
        return false;
    }
    return true;
}

/* A case's tensors in outputs.safetensors: "<id without the model>/<tensor>". */
typedef struct comparison {
    folder *f;
    const char *id;
    cdz_buf *difference;
    uint32_t n;
} comparison;

static bool same_output(void *user, const cdz_output *got)
{
    comparison *c = user;
    char name[256];
    snprintf(name, sizeof name, "%s/%s", c->id, got->name);
    const cdz_tensor *want = cdz_tensors_find(&c->f->outputs, name);
    uint64_t n = 1;
    bool fits = want && strcmp(want->dtype, "F32") == 0 && want->n_dims == got->n_dims;
    for (uint32_t i = 0; fits && i < got->n_dims; i++) {
        fits = want->shape[i] == got->shape[i];
        n *= got->shape[i];
    }
    if (!fits) cdz_buf_printf(c->difference, "%s: no such tensor, or of another shape", name);
    for (uint64_t i = 0; fits && i < n; i++) {
        float value;
        memcpy(&value, (const char *)want->data + i * sizeof value, sizeof value);
        if (cdz_parity_close((double)got->data[i], (double)value)) continue;
        cdz_buf_printf(c->difference, "%s[%llu]: expected %.7g, got %.7g", name,
                       (unsigned long long)i, (double)value, (double)got->data[i]);
        return false;
    }
    c->n++;
    return fits;
}

static bool compare_outputs(folder *f, const cdz_json *c, const cdz_result *result,
                            cdz_buf *difference)
{
    const char *slash = strchr(case_id(c), '/');
    comparison how = {f, slash ? slash + 1 : case_id(c), difference, 0};
    if (!cdz_result_each_output(result, same_output, &how)) return false;
    const bool good = how.n > 0 || result->outcome->n_steps == 0; /* without a step there are none */
    if (!good) cdz_buf_puts(difference, "the answer has no tensors");
    return good;
}

static bool compare(folder *f, const cdz_json *c, const cdz_result *result, cdz_buf *difference)
{
    cdz_arena arena = {0};
    cdz_json answer, expect = *cdz_json_get(c, "expect");
    const char *text = cdz_result_json(result);
    cdz_error err = {0};
    bool good = cdz_json_parse(text, strlen(text), "answer", NULL, &arena, &answer, &err) == CDZ_OK;
    if (!good) cdz_buf_puts(difference, err.text);
    if (good && result->outcome->prompt_logits) {
        cdz_json_member argmax = {.key = "argmax", .key_len = 6};
        const cdz_json *want = cdz_json_get(&expect, "argmax");
        if (want) argmax.value = *want;
        cdz_json only = {.type = CDZ_JSON_OBJECT, .len = 1};
        only.members = &argmax;
        good = compare_logits(f, c, result, difference) &&
               cdz_parity_compare(&only, &answer, difference);
    } else if (good) {
        good = cdz_parity_compare(&expect, &answer, difference);
    }
    if (good && result->record.outputs) good = compare_outputs(f, c, result, difference);
    cdz_arena_free(&arena);
    return good;
}

/* --- running ----------------------------------------------------------------------------------------------------- */

/* A mode that nobody knows would otherwise be taken for a plain one. */
static bool mode_is_known(const cdz_json *c)
{
    static const char *const modes[] = {
        "greedy",     "sample",           "beam",        "beam_sample", "assisted", "prompt_lookup",
        "group_beam", "constrained_beam", "contrastive", "dola",        "logits",
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (cdz_json_eq(cdz_json_get(c, "mode"), modes[i])) return true;
    return false;
}

static bool is_list_of_lists(const cdz_json *value)
{
    if (!value || value->type != CDZ_JSON_ARRAY) return false;
    for (uint32_t i = 0; i < value->len; i++)
        if (value->items[i].type != CDZ_JSON_ARRAY) return false;
    return true;
}

/* Cycles of several prompts lie one after the other in a request. */
static void write_cycles(const cdz_json *cycles, cdz_buf *out)
{
    bool first = true;
    cdz_buf_puts(out, "{\"cycle\": [");
    for (uint32_t i = 0; i < cycles->len; i++)
        for (uint32_t k = 0; k < cycles->items[i].len; k++, first = false) {
            if (!first) cdz_buf_puts(out, ", ");
            cdz_json_write(out, &cycles->items[i].items[k]);
        }
    cdz_buf_puts(out, "], \"cycle_lengths\": [");
    for (uint32_t i = 0; i < cycles->len; i++)
        cdz_buf_printf(out, "%s%u", i ? ", " : "", cycles->items[i].len);
    cdz_buf_puts(out, "]}");
}

static void write_members(const cdz_json *object, cdz_buf *out);

/* Further calls have arguments of their own. */
static void write_calls(const cdz_json *calls, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < calls->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        if (calls->items[i].type == CDZ_JSON_OBJECT)
            write_members(&calls->items[i], out);
        else
            cdz_json_write(out, &calls->items[i]);
    }
    cdz_buf_putc(out, ']');
}

static void write_members(const cdz_json *object, cdz_buf *out)
{
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < object->len; i++) {
        const cdz_json_member *m = &object->members[i];
        const cdz_json *cycles = strcmp(m->key, "prefix_allowed_tokens") == 0
                                     ? cdz_json_get(&m->value, "batch_cycles")
                                     : NULL;
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write_string(out, m->key, m->key_len);
        cdz_buf_puts(out, ": ");
        if (is_list_of_lists(cycles))
            write_cycles(cycles, out);
        else if (strcmp(m->key, "calls") == 0 && m->value.type == CDZ_JSON_ARRAY)
            write_calls(&m->value, out);
        else if (strcmp(m->key, "kwargs") == 0 && m->value.type == CDZ_JSON_OBJECT)
            write_members(&m->value, out);
        else
            cdz_json_write(out, &m->value);
    }
    cdz_buf_putc(out, '}');
}

/* The case as a request; what it expects is recorded, whether it says so or not. */
static void write_request(const cdz_json *c, cdz_buf *out)
{
    write_members(c, out);
    if (cdz_json_get(c, "record") || out->failed || out->len == 0) return;
    out->len--; /* the closing brace */
    cdz_buf_puts(out, ", \"record\": {}}");
}

static cdz_status submit_case(parity *p, folder *f, const cdz_json *c, uint64_t *id, cdz_error *err)
{
    const cdz_json *mode = cdz_json_get(c, "mode");
    if (!mode_is_known(c))
        return cdz_err(err, CDZ_E_UNSUPPORTED, "mode %s is not supported by this version",
                       cdz_json_is(mode, CDZ_JSON_STRING) ? mode->string : "(none)");
    cdz_buf text = {0};
    write_request(c, &text);
    cdz_request request = cdz_settings_to_request(&p->options.host);
    request.model = f->model;
    request.pipeline = p->pipeline;
    request.json = text.data;
    request.inputs_dir = f->path;
    cdz_status status = text.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
    if (status == CDZ_OK)
        status = cdz_drafts_open(&f->drafts, p->runtime, c, f->path, &request.assistant, err);
    if (status == CDZ_OK) status = cdz_submit(p->runtime, &request, id, err);
    cdz_buf_free(&text);
    return status;
}

static void unsupported(const parity *p, folder *f, const cdz_json *c, const char *why)
{
    f->count.unsupported++;
    if (p->verbose) printf("unsupported %s: %s\n", case_id(c), why);
}

static void finish_case(parity *p, folder *f, const cdz_json *c, uint64_t id)
{
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_buf difference = {0};
    cdz_status status = cdz_wait(p->runtime, id, &result, &err);
    if (status == CDZ_E_UNSUPPORTED)
        unsupported(p, f, c, err.text);
    else if (status != CDZ_OK)
        fail_case(f, c, err.text);
    else if (!compare(f, c, result, &difference))
        fail_case(f, c, difference.data ? difference.data : "differs");
    else
        f->count.passed++;
    cdz_buf_free(&difference);
    cdz_result_free(result);
}

static bool wanted(parity *p, folder *f, const cdz_json *c)
{
    if (c->type != CDZ_JSON_OBJECT) {
        fail_case(f, c, "expected an object");
        return false;
    }
    if (p->only && !strstr(case_id(c), p->only)) return false;
    const cdz_json *optional = cdz_json_get(c, "optional");
    if (p->optional || !cdz_json_is(optional, CDZ_JSON_BOOL) || !optional->boolean) return true;
    f->count.optional++;
    return false;
}

static void run_cases(parity *p, folder *f)
{
    bool progress = isatty(STDERR_FILENO);
    uint32_t n = f->cases.len;
    uint64_t *ids = calloc(n ? n : 1, sizeof *ids);
    for (uint32_t i = 0; ids && i < n; i++) {
        const cdz_json *c = &f->cases.items[i];
        cdz_error err = {0};
        if (!wanted(p, f, c)) continue;
        if (progress) fprintf(stderr, "\r%s: %u of %u\033[K", f->path, i + 1, n);
        cdz_status status = cdz_json_is(cdz_json_get(c, "expect"), CDZ_JSON_OBJECT)
                                ? submit_case(p, f, c, &ids[i], &err)
                                : cdz_err(&err, CDZ_E_INPUT, "the case has no \"expect\"");
        if (status == CDZ_E_UNSUPPORTED)
            unsupported(p, f, c, err.text);
        else if (status != CDZ_OK)
            fail_case(f, c, err.text);
        else if (!p->all)
            finish_case(p, f, c, ids[i]);
    }
    for (uint32_t i = 0; ids && p->all && i < n; i++)
        if (ids[i]) finish_case(p, f, &f->cases.items[i], ids[i]);
    if (progress) fputs("\r\033[K", stderr);
    free(ids);
}

/* --- folders ------------------------------------------------------------------------------------------------------ */

static cdz_status open_folder(parity *p, folder *f, cdz_error *err)
{
    char path[4096];
    cdz_json_limits limits = {.nodes = 100u << 20};
    snprintf(path, sizeof path, "%s/cases.json", f->path);
    CDZ_TRY(cdz_json_read_file(path, 0, &limits, &f->arena, &f->cases, err));
    if (f->cases.type != CDZ_JSON_ARRAY)
        return cdz_err(err, CDZ_E_INPUT, "%s: expected a list of cases, found %s", path,
                       cdz_json_type_name(&f->cases));
    if (cdz_parity_is_press(&f->cases)) return CDZ_OK; /* each names its model */
    snprintf(path, sizeof path, "%s/logits.safetensors", f->path);
    if (access(path, F_OK) == 0) CDZ_TRY(cdz_tensors_open(path, &f->logits, err));
    snprintf(path, sizeof path, "%s/outputs.safetensors", f->path);
    if (access(path, F_OK) == 0) CDZ_TRY(cdz_tensors_open(path, &f->outputs, err));
    const cdz_model_options how = cdz_settings_to_model(&p->options.host);
    return cdz_model_open(p->runtime, f->path, &how, &f->model, err);
}

/* Once, when there is something to say below it: a folder or file that cannot be read has no table. */
static void need_head(parity *p)
{
    if (p->has_head) return;
    p->has_head = true;
    printf("%-40s %7s %7s %12s %9s\n", "cases of", "passed", "failed", "unsupported", "optional");
}

static void print_row(const char *name, const cdz_parity_count *c)
{
    printf("%-40s %7u %7u %12u %9u\n", name, c->passed, c->failed, c->unsupported, c->optional);
}

static void add(cdz_parity_count *total, const cdz_parity_count *c)
{
    total->passed += c->passed;
    total->failed += c->failed;
    total->unsupported += c->unsupported;
    total->optional += c->optional;
}

/* A folder of cases that name their models. */
static void replay_presses(parity *p, folder *f)
{
    const cdz_model_options how = cdz_settings_to_model(&p->options.host);
    const cdz_parity_presses_how presses = {.runtime = p->runtime,
                                            .model = &how,
                                            .folder = f->path,
                                            .only = p->only,
                                            .optional = p->optional,
                                            .verbose = p->verbose};
    cdz_parity_presses(&f->cases, &presses, &f->count);
}

static int replay_folder(parity *p, const char *path)
{
    folder f = {.path = path};
    cdz_error err = {0};
    int status = CDZ_EXIT_OK;
    const cdz_status opened = open_folder(p, &f, &err);
    if (opened == CDZ_OK || opened == CDZ_E_UNSUPPORTED) need_head(p);
    if (opened == CDZ_OK) {
        if (cdz_parity_is_press(&f.cases))
            replay_presses(p, &f);
        else
            run_cases(p, &f);
        print_row(path, &f.count);
        add(&p->total, &f.count);
    } else if (opened == CDZ_E_UNSUPPORTED) {
        for (uint32_t i = 0; i < f.cases.len; i++)
            f.count.unsupported += wanted(p, &f, &f.cases.items[i]);
        print_row(path, &f.count);
        if (p->verbose) printf("unsupported %s\n", err.text);
        add(&p->total, &f.count);
    } else {
        status = cdz_cli_fail(&err);
    }
    cdz_drafts_close(&f.drafts);
    cdz_model_close(f.model);
    cdz_tensors_close(&f.logits);
    cdz_tensors_close(&f.outputs);
    cdz_arena_free(&f.arena);
    return status;
}

static int replay_vectors(parity *p, const char *path)
{
    cdz_arena arena = {0};
    cdz_error err = {0};
    const cdz_json *cases;
    cdz_parity_count count = {0};
    const cdz_status read = cdz_parity_read_vectors(path, &arena, &cases, &err);
    if (read == CDZ_OK) {
        need_head(p);
        cdz_parity_vectors(cases, p->runtime->registry, p->verbose, &count);
        print_row(path, &count);
        add(&p->total, &count);
    }
    cdz_arena_free(&arena);
    return read == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

static bool has_cases(const char *at)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/cases.json", at);
    return access(path, F_OK) == 0 || access(at, F_OK) != 0;
}

static int replay(parity *p, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) return replay_vectors(p, path);
    if (p->many && !has_cases(path)) { /* a detector, a tokenizer beside the models */
        need_head(p);
        printf("%-40s no cases\n", path);
        return CDZ_EXIT_OK;
    }
    return replay_folder(p, path);
}

/* What was not compared is no success. */
static int judge(const parity *p)
{
    const cdz_parity_count *all = &p->total;
    if (all->failed) return CDZ_EXIT_FAILURE;
    if (p->allows_unsupported) return CDZ_EXIT_OK;
    if (all->unsupported)
        fprintf(stderr,
                "cadenza: %u cases were not compared: this version does not support them%s; "
                "--allow-unsupported passes over them\n",
                all->unsupported, p->verbose ? "" : " (-v says why)");
    else if (all->passed == 0)
        fprintf(stderr, "cadenza: nothing was compared\n");
    return all->unsupported || all->passed == 0 ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
}

/* What was recorded was computed in f32, a row whatever the others. */
static void as_recorded(cdz_settings *said)
{
    const char *asked = said->model.activations;
    if (!asked || strcmp(asked, "auto") == 0) said->model.activations = "f32";
    if (!said->options.precision) said->options.precision = "f32";
    if (!said->options.determinism) said->options.determinism = "strict";
}

static int replay_all(parity *p, char **paths, int n)
{
    cdz_error err = {0};
    cdz_session session = {0};
    as_recorded(&p->options.host);
    cdz_status opened = cdz_session_runtime(&session, &p->options, &err);
    p->runtime = session.runtime;
    if (opened == CDZ_OK)
        opened = cdz_session_pipeline(&session, &p->options, NULL, &p->pipeline, &err);
    if (opened == CDZ_OK) opened = cdz_pipeline_set(p->pipeline, "quirks", "yes", &err);
    int status = opened == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
    for (int i = 0; opened == CDZ_OK && i < n; i++) {
        int one = replay(p, paths[i]);
        if (status == CDZ_EXIT_OK) status = one;
    }
    if (p->has_head && n > 1) print_row("all", &p->total);
    cdz_pipeline_free(p->pipeline);
    cdz_close(p->runtime);
    return status == CDZ_EXIT_OK ? judge(p) : status;
}

static void take_batch(parity *p, cdz_args *a)
{
    p->all = strcmp(a->value, "all") == 0;
    if (!p->all && strcmp(a->value, "one") != 0)
        cdz_args_refuse(a, "--batch %s: expected one or all", a->value);
}

static void take_option(parity *p, cdz_args *a)
{
    switch (a->opt) {
    case 'v': p->verbose = true; break;
    case OPT_BATCH: take_batch(p, a); break;
    case OPT_CASE: p->only = a->value; break;
    case OPT_OPTIONAL: p->optional = true; break;
    case OPT_ALLOW_UNSUPPORTED: p->allows_unsupported = true; break;
    default: break;
    }
}

int cdz_cmd_parity(int argc, char **argv)
{
    parity p = {0};
    cdz_args a = cdz_args_of(&cdz_page_parity, argc, argv, &p.options);
    while (cdz_args_next(&a)) take_option(&p, &a);
    if (!a.stopped && a.n_words == 0)
        cdz_args_refuse(&a, "expected model folders or a file of vectors");
    p.many = a.n_words > 1;
    const int status = a.stopped ? a.status : replay_all(&p, a.words, a.n_words);
    cdz_cli_options_free(&p.options);
    return status;
}
