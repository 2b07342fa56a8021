/* topics.c - `cadenza help NAME`: a command, a topic, a generation parameter or a plugin. */
#include <stdlib.h>
#include <string.h>

#include "api/plugins.h"
#include "base/error.h"
#include "cli/cli.h"
#include "config/generation.h"
#include "config/profile.h"

typedef struct topic {
    const char *names; /* the first is its own; each between blanks */
    const char *text;
} topic;

static const topic topics[] = {
    {" models model-names hub gguf ",
     "MODEL is a Hugging Face model folder (config.json, tokenizer.json, *.safetensors) or a GGUF\n"
     "file. A name that is no path is searched in the folders of $CADENZA_MODELS, separated by ':',\n"
     "and then in the caches of Hugging Face, Ollama and llama.cpp. Without MODEL the shipped one runs.\n"
     "\n"
     "An id that no cache has is downloaded into Hugging Face's; with --offline nothing is:\n"
     "  cadenza run Qwen/Qwen2.5-0.5B-Instruct -p 'Once upon a time'\n"
     "  cadenza pull Qwen/Qwen2.5-0.5B-Instruct-GGUF:q4_k_m\n"
     "\n"
     "`cadenza list` lists what is there, `cadenza model info MODEL` describes one.\n"},
    {" parameters options settings sampling generation ",
     "Parameters of generation have transformers' names. Each is an option, --top-p 0.9, which is\n"
     "short for -s top_p=0.9; in an ini file it stands in [generation], in a request in \"kwargs\".\n"
     "Later wins: the model's generation_config.json, the ini file, the command line, the request.\n"
     "\n"
     "  cadenza run --help all                 every parameter\n"
     "  cadenza help top_p                     one of them\n"
     "  cadenza run --do-sample --temperature 0.7 --top-p 0.9 -p 'music is'\n"
     "  cadenza explain story.ini my-model     the values in use, and where they came from\n"
     "  cadenza explain --settings             settings of the host: device, threads, plugins, ...\n"
     "More: docs/command-line.md and docs/sampling.md.\n"},
    {" pipelines pipeline ini profiles profile ",
     "A pipeline is an ini file: the decode loop, processors, stopping criteria and settings.\n"
     "\n"
     "  [pipeline]\n"
     "  use        = llamacpp          ; a profile (hf, llamacpp, openai, vllm) or a file\n"
     "  strategy   = auto              ; or the id of a decode loop\n"
     "  processors = dry               ; beside those that parameters ask for\n"
     "  [generation]\n"
     "  temperature = 0.8\n"
     "\n"
     "  cadenza run --pipeline story.ini -p 'Once upon a time'\n"
     "  cadenza explain story.ini\n"
     "More: docs/pipelines.md and docs/profiles.md.\n"},
    {" processor processors logits-processor ",
     "A logits processor changes the scores of a step before a token is chosen. Generation\n"
     "parameters switch the usual ones on; [pipeline] processors names others, and your own.\n"
     "\n"
     "  cadenza plugin list                    all of them\n"
     "  cadenza help dry                       the parameters of one\n"
     "  cadenza run -s processors=dry -s multiplier=0.8 -p 'music is'\n"
     "  cadenza plugin new calmer --kind processor --lang lua\n"
     "How to write one: docs/first-plugin.md and docs/lua.md.\n"},
    {" strategy strategies decode-loop ",
     "A strategy is the decode loop: greedy, sample, beam, assisted and more. `auto` selects one by\n"
     "the parameters, as transformers' generate() does.\n"
     "\n"
     "  cadenza plugin list                    all of them\n"
     "  cadenza run -s strategy=mirostat -p 'music is'\n"
     "  cadenza plugin new mine --kind strategy --lang lua\n"},
    {" custom-generate custom_generate loop ",
     "--custom-generate replaces the decode loop by another: a package folder, a .so, a .lua\n"
     "file or the id of a strategy. Set its parameters with -s NAME=VALUE. A model's own\n"
     "custom_generate script runs with --allow-model-plugins.\n"
     "\n"
     "  cadenza run --custom-generate org.cadenza.simple-sample -n 20 -p 'A dog is'\n"
     "  cadenza run --custom-generate ./mine -p 'A dog is'\n"},
    {" criterion criteria stopping stop ",
     "A stopping criterion ends rows. --stop-strings, --max-new-tokens, --max-time and the model's\n"
     "end-of-sequence token are criteria; [pipeline] stopping names others, and your own.\n"
     "\n"
     "  cadenza run --stop '.' --stop ';' -p 'music is'\n"
     "  cadenza plugin new enough --kind criterion --lang lua\n"},
    {" drafter drafters speculative draft assisted ",
     "A drafter proposes tokens, and the model verifies several in one pass (speculative decoding):\n"
     "the same answer in less time.\n"
     "\n"
     "  cadenza run my-model --assistant small-model -p 'Once upon a time'\n"
     "  cadenza run my-model --prompt-lookup-num-tokens 8 -f chapter.txt\n"
     "  cadenza plugin new mine --kind drafter --lang lua\n"},
    {" observer observers trace ", "An observer watches a request and changes nothing.\n"
                                   "\n"
                                   "  cadenza run -s observers=org.cadenza.trace -p 'music is'\n"
                                   "  cadenza plugin new watcher --kind observer --lang lua\n"},
    {" press presses kv compression snapkv ",
     "A press says which positions of a prompt's KV cache stay; the others' memory is free at once.\n"
     "\n"
     "  cadenza run --press snapkv --compression-ratio 0.5 -f long.txt\n"
     "  cadenza plugin list                                    lists them\n"
     "docs/presses.md says what there is, and how to write one.\n"},
    {" plugins plugin-path consent ",
     "Strategies, processors, stopping criteria, drafters, observers and loaders are plugins: a .lua\n"
     "file, a .so, or a package folder with plugin.ini. Lua runs in a sandbox. Native code runs when\n"
     "you name its path, or after `cadenza plugin add` has pinned it.\n"
     "\n"
     "  cadenza plugin list -v\n"
     "  cadenza plugin new mine --kind processor --lang c\n"
     "  cadenza plugin test ./mine\n"},
    {" requests request json jsonl batch ",
     "A request document is a JSON object; parameters of generation stand in \"kwargs\".\n"
     "\n"
     "  {\"prompt\": \"music is\", \"seed\": 1, \"kwargs\": {\"max_new_tokens\": 20}}\n"
     "\n"
     "  cadenza run --request one.json\n"
     "  cadenza run --input many.jsonl --output answers.jsonl      one document a line\n"
     "docs/requests.md has every field, `cadenza plugin schema` the JSON Schema.\n"},
    {" chat conversation messages ",
     "cadenza chat talks with a model through its chat template; /help lists the commands there.\n"
     "cadenza run --messages answers a conversation in a file.\n"
     "\n"
     "  cadenza chat my-model --system 'Answer briefly.'\n"
     "  cadenza run my-model --messages talk.json\n"},
    {" completions shell bash zsh fish ",
     "Completions for a shell, and the manual:\n"
     "\n"
     "  source <(cadenza completion bash)\n"
     "  cadenza completion zsh > ~/.zfunc/_cadenza\n"
     "  cadenza completion fish > ~/.config/fish/completions/cadenza.fish\n"
     "  cadenza manual run | man -l -\n"},
};
enum { N_TOPICS = sizeof topics / sizeof topics[0] };

static const topic *topic_named(const char *name)
{
    char between[80];
    snprintf(between, sizeof between, " %s ", name);
    for (size_t i = 0; i < N_TOPICS; i++)
        if (strstr(topics[i].names, between)) return &topics[i];
    return NULL;
}

/* A processor or criterion of that name tells more. */
static bool has_plugin(const char *name)
{
    for (uint32_t i = 0; i < cdz_hf_n_processors; i++)
        if (strcmp(cdz_hf_processors[i].id, name) == 0) return true;
    for (uint32_t i = 0; i < cdz_hf_n_criteria; i++)
        if (strcmp(cdz_hf_criteria[i].id, name) == 0) return true;
    return false;
}

static void print_parameter(uint32_t slot)
{
    const cdz_param_table *all = cdz_generation_table();
    const char *name = cdz_generation_slot_name(slot);
    cdz_buf text = {0};
    cdz_parameter_flag flag;
    cdz_parameter_flag_at(slot, &flag);
    cdz_buf_printf(&text, "%s, a generation parameter: %s\n\n", name, flag.help);
    if (slot < all->n) {
        const cdz_param_table one = {cdz_param_at(all, slot), 1, all->param_size, all->params_size};
        cdz_params_help(&one, &text);
        cdz_buf_putc(&text, '\n');
    }
    cdz_buf_puts(&text, "  --");
    cdz_cli_put_dashed(&text, name);
    cdz_buf_printf(&text, "%s%s, or -s %s=VALUE; [generation] %s in an ini file\n",
                   flag.value ? " " : "", flag.value ? flag.value : "", name, name);
    if (text.data && !text.failed) fputs(text.data, stdout);
    cdz_buf_free(&text);
}

static void put_way(cdz_buf *out, const char *way, const char *where)
{
    cdz_buf_printf(out, "  %-26s  ", way);
    cdz_cli_put_wrapped(out, where, 30);
    cdz_buf_putc(out, '\n');
}

static void put_takes(const cdz_setting *row, cdz_buf *out)
{
    const bool named = row->words || row->kind == CDZ_KIND_COUNT || row->kind == CDZ_KIND_BYTES;
    if (!named && !row->otherwise) return;
    cdz_buf_puts(out, named ? "\nIt takes " : "\nWhen nothing is said: ");
    if (named) cdz_setting_takes(row, out);
    if (named && row->otherwise) cdz_buf_puts(out, "; when nothing is said: ");
    cdz_buf_printf(out, "%s.\n", row->otherwise ? row->otherwise : "");
}

/* Every way to say it, and what it takes. */
static void put_setting(const cdz_setting *row, cdz_buf *out)
{
    char way[80];
    cdz_buf pages = {0};
    cdz_buf_printf(out, "%s, a setting of the host: ", row->name);
    cdz_cli_put_wrapped(out, row->flag.help, 0);
    cdz_buf_puts(out, "\n\n");
    if (row->flag.name) {
        snprintf(way, sizeof way, "--%s%s%s", row->flag.name, row->flag.value ? " " : "",
                 row->flag.value ? row->flag.value : "");
        cdz_pages_with(row, &pages);
        put_way(out, way, pages.data && !pages.failed ? pages.data : "");
        cdz_buf_free(&pages);
    }
    snprintf(way, sizeof way, "[%s] of a pipeline file", row->section ? row->section : "");
    if (row->section) put_way(out, row->name, way);
    if (row->env) put_way(out, row->env, "in the environment");
    snprintf(way, sizeof way, "\"%s\"", row->name);
    if (row->member) put_way(out, way, "in a request document");
    if (row->field) put_way(out, row->field, "in programs that embed the library");
    put_takes(row, out);
}

static int print_setting(const cdz_setting *row)
{
    cdz_buf text = {0};
    put_setting(row, &text);
    const bool good = text.data && !text.failed;
    if (good) fputs(text.data, stdout);
    cdz_buf_free(&text);
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

/* "--kv-cache", "kv_cache" and "CADENZA_THREADS" as the tables have them; NULL: no setting. */
static const cdz_setting *setting_named(const char *name)
{
    const cdz_setting *row;
    name += strspn(name, "-");
    const cdz_habit *habit = cdz_habit_find(name, strlen(name));
    if (habit && habit->ours) name = habit->ours;
    const cdz_setting *found = cdz_setting_of_flag(name, strlen(name));
    for (size_t i = 0; !found && (row = cdz_setting_at(i)) != NULL; i++)
        if (cdz_habit_same(name, strlen(name), row->name) ||
            (row->env && strcmp(row->env, name) == 0))
            found = row;
    return found && found->member != CDZ_MEMBER_NOTE ? found : NULL;
}

static int print_plugin(const char *id)
{
    char *copy = strdup(id), info[] = "info", plugin[] = "plugin";
    char *words[] = {plugin, info, copy, NULL};
    const int status = copy ? cdz_cmd_plugin(3, words) : CDZ_EXIT_FAILURE;
    free(copy);
    return status;
}

static bool is_plugin(const char *id)
{
    const cdz_registry_options want = {0};
    cdz_registry *registry = NULL;
    cdz_plugin_ref ref;
    bool found = false;
    if (cdz_plugins_open_user(&want, NULL, 0, &registry, NULL) == CDZ_OK &&
        cdz_registry_find(registry, 0, id, &ref, NULL) == CDZ_OK) {
        cdz_module_release(ref.module);
        found = true;
    }
    cdz_registry_free(registry);
    return found;
}

static int say_unknown(const char *name)
{
    const char *names[400];
    char own[N_TOPICS][32];
    size_t n = 0;
    for (size_t i = 0; i < cdz_pages_n; i++) names[n++] = cdz_pages[i]->name;
    for (size_t i = 0; i < N_TOPICS; i++) {
        snprintf(own[i], sizeof own[i], "%.*s", (int)strcspn(topics[i].names + 1, " "),
                 topics[i].names + 1);
        names[n++] = own[i];
    }
    const cdz_setting *row;
    for (uint32_t i = 0; i < cdz_generation_slots() && n < 300; i++)
        names[n++] = cdz_generation_slot_name(i);
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL && n < 400; i++)
        if (row->member != CDZ_MEMBER_NOTE) names[n++] = row->name;
    const char *near = cdz_nearest_name(name, names, n);
    cdz_cli_say("help: there is no command, topic, parameter, setting or plugin '%s'%s%s%s", name,
                near ? ": did you mean '" : "; `cadenza help` lists commands and topics",
                near ? near : "", near ? "'?" : "");
    return CDZ_EXIT_USAGE;
}

void cdz_cli_print_topics(void)
{
    for (size_t i = 0; i < N_TOPICS; i++)
        printf("%s%.*s", i ? ", " : "", (int)strcspn(topics[i].names + 1, " "), topics[i].names + 1);
    putchar('\n');
}

/* "--top-p", "temp" and "top-p" as the table spells them; below 0: no parameter. */
static int parameter_named(const char *name)
{
    name += strspn(name, "-");
    const size_t len = strlen(name);
    for (uint32_t i = 0; i < cdz_generation_slots(); i++)
        if (cdz_habit_same(name, len, cdz_generation_slot_name(i))) return (int)i;
    const cdz_habit *habit = cdz_habit_find(name, len);
    return habit && habit->ours ? cdz_generation_slot(habit->ours) : -1;
}

int cdz_cli_help_on(const char *name)
{
    const cdz_page *page = cdz_page_named(name);
    const topic *found = page ? NULL : topic_named(name);
    const int slot = page || found ? -1 : parameter_named(name);
    if (page) {
        cdz_buf text = {0};
        cdz_page_help(page, false, &text);
        if (text.data && !text.failed) fputs(text.data, stdout);
        cdz_buf_free(&text);
        return CDZ_EXIT_OK;
    }
    if (found) {
        fputs(found->text, stdout);
        return CDZ_EXIT_OK;
    }
    if (slot >= 0 && has_plugin(cdz_generation_slot_name((uint32_t)slot)))
        return print_plugin(cdz_generation_slot_name((uint32_t)slot));
    if (slot >= 0) {
        print_parameter((uint32_t)slot);
        return CDZ_EXIT_OK;
    }
    const cdz_setting *setting = setting_named(name);
    if (setting) return print_setting(setting);
    return strchr(name, '/') || is_plugin(name) ? print_plugin(name) : say_unknown(name);
}
