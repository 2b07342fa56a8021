/* flags.c - the rows that commands have in common, and the list of their pages. See flags.h. */
#include "cli/flags.h"

#include <string.h>

#include "cli/cli.h"
#include "config/generation.h"

/* --- rows of several commands ------------------------------------------------------------------------------------------- */

static const cdz_flag model_flags[] = {
    {"model", 'm', CDZ_OPT_MODEL, CDZ_FLAG_ONCE, "MODEL",
     "the model: a folder, a GGUF file, or the name of one in $CADENZA_MODELS or in the Hugging Face "
     "cache; the same as the word MODEL"},
    {0},
};

static const cdz_flag decoding_flags[] = {
    {"pipeline", 0, CDZ_OPT_PIPELINE, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "an ini file: strategy, processors, stopping, settings"},
    {"set", 's', 's', CDZ_FLAG_OFTEN, "NAME=VALUE",
     "any setting by name; or SECTION.NAME=VALUE; wins over the file; may be repeated"},
    {"seed", 0, CDZ_OPT_SEED, CDZ_FLAG_OFTEN, "N",
     "the seed of the random draws; short for -s seed=N"},
    {"custom-generate", 0, CDZ_OPT_CUSTOM_GENERATE, CDZ_FLAG_ONCE, "PATH",
     "replace the decode loop by a package folder, a .so, a .lua file or a plugin id"},
    {"assistant", 0, CDZ_OPT_ASSISTANT, CDZ_FLAG_ONCE, "FOLDER",
     "a draft model, for strategies that use one"},
    {"plugin", 0, CDZ_OPT_PLUGIN, 0, "PATH",
     "load a plugin file or package folder; may be repeated"},
    {"safe-mode", 0, CDZ_OPT_SAFE_MODE, 0, NULL, "built-in plugins only"},
    {"log", 0, CDZ_OPT_LOG, 0, "LEVEL",
     "which log lines of plugins go to standard error: debug, info (the default; print() of a "
     "Lua script is info), warning or none"},
    {"allow-model-plugins", 0, CDZ_OPT_ALLOW_MODEL_PLUGINS, 0, NULL,
     "let the model's own custom_generate script replace the decode loop"},
    {"timeout", 0, CDZ_OPT_TIMEOUT, 0, "SECONDS",
     "end each request after that time, with the tokens it has"},
    {0},
};

static const cdz_flag machine_flags[] = {
    {"device", 0, CDZ_OPT_DEVICE, CDZ_FLAG_OFTEN, "NAME",
     "the device that computes: cpu, cuda, cuda:1 (the second one) or auto; default: cpu; auto "
     "takes a device if there is one, else the CPU"},
    {"precision", 0, CDZ_OPT_PRECISION, 0, "KIND",
     "how a device computes: f32, as the CPU does; or auto, which is faster for weights of 16 "
     "bits; default: auto, in parity f32"},
    {"determinism", 0, CDZ_OPT_DETERMINISM, 0, "KIND",
     "strict: on a device, too, a row's numbers do not depend on the other rows; or default; in "
     "parity the default is strict"},
    {"quantize", 0, CDZ_OPT_QUANTIZE, 0, "TYPE",
     "quantise the weights at load: q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k, nf4, fp4 or "
     "int8"},
    {"activations", 0, CDZ_OPT_ACTIVATIONS, 0, "KIND",
     "type of the activations that quantised weights are multiplied with: int8 (faster), f32, "
     "or auto (default): int8 where the type of the weights allows it, in parity f32; bf16: as "
     "auto, and bf16 for weights in bf16, which may make prompts faster"},
    {"threads", 0, CDZ_OPT_THREADS, 0, "N", "threads for the kernels; default: the physical cores"},
    {"numa", 0, CDZ_OPT_NUMA, 0, "KIND",
     "spread: threads and memory evenly over the nodes of a NUMA machine; or off, the default"},
    {"kv-cache", 0, CDZ_OPT_KV_CACHE, 0, "TYPE",
     "type of the KV caches: f32 (default); f16 or bf16, which take half of the memory; or "
     "q8_0, which takes little more than a quarter"},
    {"kv-memory", 0, CDZ_OPT_KV_MEMORY, 0, "SIZE",
     "memory for KV caches, as 512M or 2G; default: a quarter of the machine's, or most of what "
     "a device has free"},
    {0},
};

static const cdz_flag help_flags[] = {
    {"help", 'h', 'h', 0, NULL, "this text; --help all: every option"},
    {0},
};

typedef struct group {
    unsigned takes;
    const char *title;
    const cdz_flag *flags;
} group;

static const group groups[] = {
    {CDZ_TAKES_MODEL, "Model", model_flags},
    {CDZ_TAKES_DECODING, "Decoding", decoding_flags},
    {CDZ_TAKES_MACHINE, "Machine", machine_flags},
    {0, "Help", help_flags},
};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

static size_t count(const cdz_flag *flags)
{
    size_t n = 0;
    while (flags && flags[n].name) n++;
    return n;
}

static bool has_group(const cdz_page *page, const group *g)
{
    return !g->takes || (page->takes & g->takes);
}

size_t cdz_page_n_own(const cdz_page *page)
{
    return count(page->flags);
}

const cdz_flag *cdz_page_flag(const cdz_page *page, size_t i)
{
    size_t n = count(page->flags);
    if (i < n) return &page->flags[i];
    i -= n;
    for (size_t g = 0; g < N_GROUPS; g++) {
        if (!has_group(page, &groups[g])) continue;
        n = count(groups[g].flags);
        if (i < n) return &groups[g].flags[i];
        i -= n;
    }
    return NULL;
}

bool cdz_page_has_option(const cdz_page *page, const char *name)
{
    const cdz_flag *flag;
    for (size_t i = 0; (flag = cdz_page_flag(page, i)) != NULL; i++)
        if (strcmp(flag->name, name) == 0) return true;
    const cdz_habit *habit = cdz_habit_find(name, strlen(name));
    int slot;
    return habit && cdz_habit_leads(page, habit, &flag, &slot);
}

const char *cdz_page_title(const cdz_page *page, size_t i)
{
    size_t n = count(page->flags);
    if (i < n) return i == 0 ? "Options" : NULL;
    for (size_t g = 0; g < N_GROUPS; g++) {
        if (!has_group(page, &groups[g])) continue;
        if (i == n) return groups[g].title;
        n += count(groups[g].flags);
    }
    return NULL;
}

/* --- generation parameters ---------------------------------------------------------------------------------------------- */

/* What people change; the short help has these. */
static const char *const often[] = {
    "max_new_tokens", "do_sample",          "temperature", "top_k",        "top_p",
    "min_p",          "repetition_penalty", "num_beams",   "stop_strings",
};

static const char *value_name(const cdz_param *param)
{
    switch (param->type) {
    case CDZ_T_BOOL:
    case CDZ_T_OPT_BOOL:
    case CDZ_T_BOOL_OR_WORD: return NULL;
    case CDZ_T_INT:
    case CDZ_T_OPT_INT: return "N";
    case CDZ_T_REAL:
    case CDZ_T_OPT_REAL: return "X";
    case CDZ_T_STRINGS: return "TEXT";
    case CDZ_T_WORD:
    case CDZ_T_STRING: return "WORD";
    default: return "LIST";
    }
}

bool cdz_parameter_flag_at(uint32_t i, cdz_parameter_flag *out)
{
    const cdz_param_table *table = cdz_generation_table();
    if (i >= cdz_generation_slots()) return false;
    *out =
        (cdz_parameter_flag){.name = cdz_generation_slot_name(i),
                             .value = "JSON",
                             .help = "as in transformers; `cadenza explain` and docs/requests.md"};
    if (i >= table->n) return true;
    const cdz_param *param = cdz_param_at(table, i);
    out->value = value_name(param);
    out->help = param->help;
    if (param->type == CDZ_T_BOOL_OR_WORD) out->words = param->text;
    return true;
}

bool cdz_parameter_flag_often(uint32_t i, cdz_parameter_flag *out)
{
    if (i >= sizeof often / sizeof often[0]) return false;
    const int slot = cdz_generation_slot(often[i]);
    return slot >= 0 && cdz_parameter_flag_at((uint32_t)slot, out);
}

bool cdz_habit_leads(const cdz_page *page, const cdz_habit *habit, const cdz_flag **flag, int *slot)
{
    *slot = -1;
    if (!habit->ours) return false;
    for (size_t i = 0; (*flag = cdz_page_flag(page, i)) != NULL; i++)
        if (strcmp((*flag)->name, habit->ours) == 0) return true;
    if (page->takes & CDZ_TAKES_GENERATION) *slot = cdz_generation_slot(habit->ours);
    return *slot >= 0;
}

const cdz_habit *cdz_page_habit(const cdz_page *page, size_t *i, const cdz_flag **flag)
{
    size_t n;
    int slot;
    const cdz_habit *all = cdz_habits(&n);
    for (; *i < n; (*i)++)
        if (cdz_habit_leads(page, &all[*i], flag, &slot)) return &all[(*i)++];
    return NULL;
}

/* --- pages --------------------------------------------------------------------------------------------------------------- */

const cdz_page *const cdz_pages[] = {
    &cdz_page_run,      &cdz_page_chat,          &cdz_page_lua,
    &cdz_page_explain,  &cdz_page_plugin,        &cdz_page_plugin_test,
    &cdz_page_model,    &cdz_page_model_convert, &cdz_page_model_quantize,
    &cdz_page_tokenize, &cdz_page_template,      &cdz_page_grammar,
    &cdz_page_config,   &cdz_page_detect,        &cdz_page_score,
    &cdz_page_bench,    &cdz_page_parity,        &cdz_page_completion,
    &cdz_page_manual,   &cdz_page_version,
};
const size_t cdz_n_pages = sizeof cdz_pages / sizeof cdz_pages[0];

const cdz_page *cdz_page_named(const char *name)
{
    for (size_t i = 0; i < cdz_n_pages; i++)
        if (strcmp(cdz_pages[i]->name, name) == 0) return cdz_pages[i];
    return NULL;
}
