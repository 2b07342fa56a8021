/* settings_table.c - the rows: every setting of the host, once. See settings.h.
 *
 * To add one: a row here, and its field in a struct of cadenza.h or in cdz_program_settings. What it does is read from that
 * field; a key of [model] has a line in host/api/runtime.c besides. tools/docs/plugin-pages.sh writes its reference page. */
#include "cadenza/plugin.h"
#include "params/settings.h"

#define FIELD(HOME, T, F, ctype)                                                                   \
    .home = CDZ_HOME_##HOME, .offset = CDZ_FIELD_(T, F, ctype), .field = #T "." #F
#define OPTION(F, ctype)  FIELD(OPTIONS, cdz_options, F, ctype)
#define MODEL(F, ctype)   FIELD(MODEL, cdz_model_options, F, ctype)
#define REQUEST(F, ctype) FIELD(REQUEST, cdz_request, F, ctype)
#define PROGRAM(F, ctype)                                                                          \
    .home = CDZ_HOME_PROGRAM, .offset = CDZ_FIELD_(cdz_program_settings, F, ctype)
#define FLAG(name_, letter_, traits_, value_, ...)                                                 \
    .flag = {                                                                                      \
        .name = name_, .letter = letter_, .traits = traits_, .value = value_, .help = __VA_ARGS__}
/* What is no option has the same column. */
#define HELP(...)    .flag = {.help = __VA_ARGS__}
#define MEMBER(KIND) .member = CDZ_MEMBER_##KIND

/* --- of a command ----------------------------------------------------------------------------------------- */

static const cdz_setting output_rows[] = {
    {.name = "stream_words",
     .group = CDZ_TAKES_TEXT,
     .kind = CDZ_KIND_BIT,
     .most = CDZ_STREAM_WORDS,
     REQUEST(stream, uint32_t),
     FLAG("stream-words", 0, 0, NULL,
          "write whole words, as transformers' TextStreamer does, not characters as they come")},
    {.name = "show_special",
     .group = CDZ_TAKES_TEXT,
     .kind = CDZ_KIND_BIT,
     .most = CDZ_STREAM_SPECIAL,
     REQUEST(stream, uint32_t),
     FLAG("show-special", 0, 0, NULL,
          "write special tokens too, as <|end|>: TextStreamer's skip_special_tokens=False")},
    {.name = "show_prompt",
     .group = CDZ_TAKES_SHOW_PROMPT,
     .kind = CDZ_KIND_BIT,
     .most = CDZ_STREAM_PROMPT,
     REQUEST(stream, uint32_t),
     FLAG("show-prompt", 0, 0, NULL,
          "write the prompt before the answer, as TextStreamer does unless it has skip_prompt")},
    {.name = "dev",
     .group = CDZ_TAKES_DEV,
     .kind = CDZ_KIND_SWITCH,
     PROGRAM(dev, bool),
     FLAG("dev", 0, 0, NULL,
          "reload the pipeline, its scripts and plugins when their files change: processors between "
          "two steps, strategies with the next request")},
    {.name = "profile",
     .group = CDZ_TAKES_PROFILE,
     .kind = CDZ_KIND_SWITCH,
     OPTION(profile, bool),
     FLAG("profile", 0, 0, NULL,
          "at the end: what the engine spent its time on, by kind of work, as a table on standard "
          "error")},
};

static const cdz_setting model_rows[] = {
    {.name = "model",
     .group = CDZ_TAKES_MODEL,
     .kind = CDZ_KIND_TEXT,
     .otherwise = "the shipped model",
     PROGRAM(model, const char *),
     FLAG("model", 'm', CDZ_FLAG_ONCE, "MODEL",
          "the model: a folder, a GGUF file, or the name of one in $CADENZA_MODELS or in the "
          "Hugging Face cache; the same as the word MODEL")},
};

static const cdz_setting decoding_rows[] = {
    {.name = "pipeline",
     .group = CDZ_TAKES_DECODING,
     .kind = CDZ_KIND_TEXT,
     .otherwise = "the profile hf",
     PROGRAM(pipeline, const char *),
     MEMBER(TEXT),
     FLAG("pipeline", 0, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
          "an ini file: strategy, processors, stopping, settings")},
    {.name = "set",
     .group = CDZ_TAKES_DECODING,
     .kind = CDZ_KIND_PARAMETER,
     FLAG("set", 's', CDZ_FLAG_OFTEN, "NAME=VALUE",
          "any setting by name; or SECTION.NAME=VALUE; wins over the file; may be repeated")},
    {.name = "seed",
     .group = CDZ_TAKES_DECODING,
     .kind = CDZ_KIND_PARAMETER,
     MEMBER(INT),
     FLAG("seed", 0, CDZ_FLAG_OFTEN, "N",
          "the seed of the random draws, as torch.manual_seed; short for -s seed=N")},
    {.name = "custom_generate",
     .group = CDZ_TAKES_DECODING,
     .kind = CDZ_KIND_TEXT,
     PROGRAM(custom_generate, const char *),
     FLAG("custom-generate", 0, CDZ_FLAG_ONCE, "PATH",
          "replace the decode loop by a package folder, a .so, a .lua file or a plugin id")},
    {.name = "assistant",
     .group = CDZ_TAKES_DRAFT,
     .kind = CDZ_KIND_TEXT,
     PROGRAM(assistant, const char *),
     MEMBER(OBJECT),
     .or_null = true,
     FLAG("assistant", 0, CDZ_FLAG_ONCE, "FOLDER", "a draft model, for strategies that use one")},
    {.name = "log",
     .group = CDZ_TAKES_DECODING,
     .kind = CDZ_KIND_WORD,
     .words = "debug|info|warning|none",
     .otherwise = "info",
     PROGRAM(log, const char *),
     FLAG("log", 0, 0, "LEVEL",
          "which log lines of plugins go to standard error: debug, info (the default; print() of a "
          "Lua script is info), warning or none")},
    {.name = "timeout",
     .group = CDZ_TAKES_TIME,
     .kind = CDZ_KIND_SECONDS,
     .least = 0.001,
     .most = 1e9,
     REQUEST(timeout_s, double),
     FLAG("timeout", 0, 0, "SECONDS", "end each request after that time, with the tokens it has")},
};

static const cdz_setting plugin_rows[] = {
    {.name = "plugin",
     .group = CDZ_TAKES_PLUGINS,
     .kind = CDZ_KIND_TEXTS,
     OPTION(plugins, const char *const *),
     .count = CDZ_FIELD_(cdz_options, n_plugins, uint32_t),
     FLAG("plugin", 0, 0, "PATH", "load a plugin file or package folder too; may be repeated")},
    {.name = "safe_mode",
     .group = CDZ_TAKES_PLUGINS,
     .kind = CDZ_KIND_SWITCH,
     OPTION(safe_mode, bool),
     FLAG("safe-mode", 0, 0, NULL, "built-in plugins only")},
    {.name = "allow_model_plugins",
     .group = CDZ_TAKES_MODEL_PLUGINS,
     .kind = CDZ_KIND_SWITCH,
     OPTION(allow_model_plugins, bool),
     FLAG("allow-model-plugins", 0, 0, NULL,
          "let the model's own custom_generate script replace the decode loop")},
};

static const cdz_setting machine_rows[] = {
    {.name = "device",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_TEXT,
     .otherwise = "cpu",
     .section = "model",
     .or_null = true,
     .env = "CADENZA_DEVICE",
     OPTION(device, const char *),
     FLAG("device", 0, CDZ_FLAG_OFTEN, "NAME",
          "the device that computes: cpu, cuda, cuda:1 (the second one) or auto; default: cpu; auto "
          "takes a device if there is one, else the CPU")},
    {.name = "precision",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_WORD,
     .words = "auto|f32",
     .otherwise = "auto",
     OPTION(precision, const char *),
     FLAG("precision", 0, 0, "KIND",
          "how a device computes: f32, as the CPU does; or auto, which is faster for weights of 16 "
          "bits; default: auto, in parity f32")},
    {.name = "determinism",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_WORD,
     .words = "default|strict",
     .otherwise = "default",
     OPTION(determinism, const char *),
     FLAG("determinism", 0, 0, "KIND",
          "strict: on a device, too, a row's numbers do not depend on the other rows; or default; in "
          "parity the default is strict")},
    {.name = "quantize",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_WORD,
     .words = "q8_0|q4_0|q4_1|q5_0|q5_1|q2_k|q3_k|q4_k|q5_k|q6_k|nf4|fp4|int8",
     .otherwise = "as stored",
     MODEL(quantize, const char *),
     FLAG("quantize", 0, 0, "TYPE",
          "quantise the weights at load: q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k, nf4, fp4 or "
          "int8")},
    {.name = "activations",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_WORD,
     .words = "auto|f32|int8|bf16",
     .otherwise = "auto",
     MODEL(activations, const char *),
     FLAG("activations", 0, 0, "KIND",
          "type of the activations that quantised weights are multiplied with: int8 (faster), f32, "
          "or auto (default): int8 where the type of the weights allows it, in parity f32; bf16: as "
          "auto, and bf16 for weights in bf16, which may make prompts faster")},
    {.name = "threads",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_COUNT,
     .least = 1,
     .most = 1024,
     .otherwise = "the physical cores",
     .env = "CADENZA_THREADS",
     OPTION(n_threads, uint32_t),
     FLAG("threads", 0, 0, "N", "threads for the kernels; default: the physical cores")},
    {.name = "numa",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_WORD,
     .words = "off|spread",
     .otherwise = "off",
     .section = "model",
     .or_null = true,
     OPTION(numa, const char *),
     FLAG("numa", 0, 0, "KIND",
          "memory and threads on a NUMA machine: spread, evenly over its nodes; or off, the "
          "default")},
    {.name = "kv_cache",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_WORD,
     .words = "f32|f16|bf16|q8_0",
     .otherwise = "f32",
     .section = "model",
     .or_null = true,
     OPTION(kv_cache, const char *),
     FLAG("kv-cache", 0, 0, "TYPE",
          "type of the KV caches: f32 (default); f16 or bf16, which take half of the memory; or "
          "q8_0, which takes little more than a quarter")},
    {.name = "kv_memory",
     .group = CDZ_TAKES_MACHINE,
     .kind = CDZ_KIND_BYTES,
     .least = 1,
     .otherwise = "a quarter of the machine's",
     OPTION(kv_bytes, uint64_t),
     FLAG("kv-memory", 0, 0, "SIZE",
          "memory for KV caches, as 512M or 2G; default: a quarter of the machine's, or most of what "
          "a device has free")},
};

/* --- of programs that embed the library -------------------------------------------------------------------- */

static const cdz_setting runtime_rows[] = {
    {.name = "max_queue",
     .kind = CDZ_KIND_COUNT,
     .most = UINT32_MAX,
     .otherwise = "no limit",
     OPTION(max_queue, uint32_t),
     HELP("submitted requests that may wait; further ones are refused")},
    {.name = "max_running",
     .kind = CDZ_KIND_COUNT,
     .most = UINT32_MAX,
     .otherwise = "256",
     OPTION(max_running, uint32_t),
     HELP("requests decoded together")},
    {.name = "scheduler",
     .kind = CDZ_KIND_WORD,
     .words = "fifo|prefill_first",
     .otherwise = "fifo",
     OPTION(scheduler, const char *),
     HELP("which rows go into a pass first when not all fit: fifo, those that decode; or "
          "prefill_first, prompts")},
    {.name = "block_sharing",
     .kind = CDZ_KIND_WORD,
     .words = "on|off",
     .otherwise = "on",
     OPTION(block_sharing, const char *),
     HELP("whether sequences that begin alike share KV blocks; off: the same answers in more memory "
          "and time")},
    {.name = "guard_files",
     .kind = CDZ_KIND_SWITCH,
     OPTION(guard_files, bool),
     HELP("a model file that is cut short fails its requests, and sends no SIGBUS; the program "
          "always has it")},
    {.name = "lock",
     .kind = CDZ_KIND_TEXT,
     .otherwise = "the working folder's cadenza.lock, then the user's",
     OPTION(lock, const char *),
     HELP("the cadenza.lock that says which packages may load")},
    {.name = "no_tokenizer",
     .kind = CDZ_KIND_SWITCH,
     MODEL(no_tokenizer, bool),
     HELP("tokenizer.json is not loaded; prompts are ids then")},
    {.name = "plugin_dir",
     .kind = CDZ_KIND_TEXT,
     .otherwise = "beside the program",
     .env = "CADENZA_PLUGIN_DIR",
     OPTION(plugin_dir, const char *),
     HELP("folder of the built-in plugins; default: beside the program")},
};

/* --- of a pipeline file ------------------------------------------------------------------------------------ */

#define KEY(name_) .name = name_, .section = "pipeline", .kind = CDZ_KIND_TEXT

static const cdz_setting file_rows[] = {
    {KEY("use"), HELP("a profile or a file that this one adds to")},
    {KEY("strategy"),
     HELP("the decode loop: an id, lua:FILE or a section's name; auto: as generate() chooses")},
    {KEY("drafter"), HELP("the drafter: an id, lua:FILE, a section's name, auto or none")},
    {.name = "drafting",
     .section = "pipeline",
     .kind = CDZ_KIND_WORD,
     .words = "adaptive|fixed",
     HELP("how many tokens a draft has: measured for speed, or set by the drafter")},
    {KEY("processors"), HELP("further processors beside the configured ones, in order")},
    {KEY("stopping"), HELP("further stopping criteria")},
    {KEY("observers"), HELP("observers")},
    {KEY("chain"), HELP("all processors, in place of the configured ones")},
    {.name = "isolation",
     .section = "pipeline",
     .kind = CDZ_KIND_WORD,
     .words = "none|process",
     HELP("where plugins that are not built in run")},
};

/* --- of a request document ---------------------------------------------------------------------------------- */

#define NOTE(name_)                                                                                \
    {                                                                                              \
        .name = name_, .kind = CDZ_KIND_TEXT, MEMBER(NOTE), HELP("a note of a golden case")        \
    }

static const cdz_setting request_rows[] = {
    {.name = "prompt", MEMBER(TEXTS), HELP("text, or a list of texts")},
    {.name = "prompt_ids",
     MEMBER(IDS),
     .or_null = true,
     HELP("ids, or rows of ids already padded; null starts from bos_token_id")},
    {.name = "attention_mask", MEMBER(LIST), .or_null = true, HELP("rows of 0 and 1")},
    {.name = "kwargs", MEMBER(PARAMETERS), HELP("generation parameters and the strategy's own")},
    {.name = "record", MEMBER(OBJECT), .or_null = true, HELP("asks for an answer in recorded form")},
    {.name = "mode", MEMBER(TEXT), HELP("logits or score: no generation")},
    {.name = "id", MEMBER(ANY), HELP("yours")},
    NOTE("expect"),
    NOTE("min_margin"),
    NOTE("margins"),
    NOTE("optional"),
    NOTE("prompt_text"),
    NOTE("reference"),
    {.name = "inputs_embeds", MEMBER(ANY), HELP("embeddings as prompt")},
    {.name = "calls", MEMBER(LIST), HELP("further calls, one after the other")},
    {.name = "messages", MEMBER(LIST), HELP("a conversation, or a list of them")},
    {.name = "tools", MEMBER(ANY), HELP("for the chat template")},
    {.name = "documents", MEMBER(ANY), HELP("for the chat template")},
    {.name = "chat_template", MEMBER(TEXT), .or_null = true, HELP("the name of a template")},
    {.name = "chat_template_kwargs",
     MEMBER(OBJECT),
     .or_null = true,
     HELP("further variables of the template")},
    {.name = "special_in_messages",
     MEMBER(BOOL),
     .or_null = true,
     HELP("special tokens spelt in messages are read as such")},
};

/* --- of the environment alone -------------------------------------------------------------------------------- */

#define VARIABLE(name_, env_, ...)                                                                 \
    {                                                                                              \
        .name = name_, .env = env_, .kind = CDZ_KIND_TEXT, HELP(__VA_ARGS__)                       \
    }

static const cdz_setting environment_rows[] = {
    VARIABLE("cpu", "CADENZA_CPU", "force a kernel variant: scalar, avx2 or avx512"),
    VARIABLE("backends", "CADENZA_BACKENDS",
             "folder of device backends; default: backends/ beside the built-in plugins"),
    VARIABLE("fibres", "CADENZA_FIBRES", "how requests are suspended: ucontext or threads"),
    VARIABLE("plan", "CADENZA_PLAN", "off: processors run one by one, never fused"),
    VARIABLE("plugin_path", "CADENZA_PLUGIN_PATH", "further plugin folders, separated by ':'"),
    VARIABLE("models", "CADENZA_MODELS",
             "folders of models, separated by ':', where MODEL may be a name"),
    VARIABLE("hf_home", "HF_HOME",
             "holds hub/, the Hugging Face cache; default: ~/.cache/huggingface"),
    VARIABLE("hf_hub_cache", "HF_HUB_CACHE", "the Hugging Face cache itself"),
    VARIABLE("cache_home", "XDG_CACHE_HOME", "holds huggingface/, where HF_HOME is not set"),
    VARIABLE("config_home", "XDG_CONFIG_HOME", "holds cadenza/cadenza.lock; default: ~/.config"),
    VARIABLE("data_home", "XDG_DATA_HOME", "holds cadenza/plugins; default: ~/.local/share"),
};

/* --- all of them ------------------------------------------------------------------------------------------------ */

#define TABLE(title_, rows_)                                                                       \
    {                                                                                              \
        title_, rows_, sizeof rows_ / sizeof rows_[0]                                              \
    }

const cdz_setting_table cdz_setting_tables[] = {
    TABLE(NULL, output_rows),
    TABLE("Model", model_rows),
    TABLE("Decoding", decoding_rows),
    TABLE("Plugins", plugin_rows),
    TABLE("Machine", machine_rows),
    TABLE("Programs that embed the library", runtime_rows),
    TABLE("Keys of [pipeline]", file_rows),
    TABLE("Request documents", request_rows),
    TABLE("Environment", environment_rows),
};
const size_t cdz_n_setting_tables = sizeof cdz_setting_tables / sizeof cdz_setting_tables[0];

_Static_assert(sizeof output_rows + sizeof model_rows + sizeof decoding_rows + sizeof plugin_rows +
                       sizeof machine_rows + sizeof runtime_rows + sizeof file_rows +
                       sizeof request_rows + sizeof environment_rows <=
                   CDZ_MOST_SETTINGS * sizeof(cdz_setting),
               "cdz_settings.said has a place for each row");
