/* plugin.h - the parts of every Cadenza plugin: the entry symbol, descriptors, parameters, the step.
 *
 * Scenario. You write one C file, describe your plugin in constant data, and end the file with
 *     CDZ_EXPORT_PLUGINS(&my_processor.base)
 * The host opens the shared object, reads that data without calling a function of yours, checks versions, allocates your
 * parameter struct, fills it from ini, command line or JSON, checks ranges, and calls your functions. There is no library
 * to link against: all calls go through tables that the host passes to you.
 *
 * Threads. Every function names its thread in brackets:
 *   [load]    the thread that loads or configures; never together with another call on the same plugin
 *   [engine]  the engine thread of one runtime; never two at once for one request
 *   [row]     any thread, several at once on different rows; may not allocate, block or keep pointers
 *   [any]     any thread, any time
 * Stack. [engine] calls may run on a fibre whose stack has 256 KiB: take rows of scores and other large memory from
 * cdz_scratch or cdz_alloc, not from local variables. A stack overflow ends the process; `cadenza` names the plugin first.
 * Ownership. Pointers that a call gets are borrowed until the call returns, unless its comment says otherwise.
 * Errors. Return a cdz_status; before returning one that is not CDZ_OK, give the reason: return cdz_fail(step, ...). No
 * exception of C++ and no panic of another language may leave a function: the host's frames cannot unwind, and the process ends.
 * Versions. A host of ABI 1.n loads plugins built for 1.0 to 1.n. A later minor or another major version is refused with
 * one sentence. Within a major version, functions and fields are only appended, to structs that begin with
 * their size (or with cdz_plugin_base), and the host looks at the size before it reads or fills appended fields. All
 * other structs keep their size. Undefined bits must be zero. Extensions under ext/ whose id ends in "/1" are
 * part of this promise; backends and draft extensions ("cadenza.draft.*") are not. */
#ifndef CADENZA_PLUGIN_H
#define CADENZA_PLUGIN_H

#include "base.h"

#ifdef __cplusplus
#include <type_traits>
extern "C" {
#endif

#define CDZ_ABI_MAJOR   1
#define CDZ_ABI_MINOR   0
#define CDZ_ENTRY_MAGIC 0x5A444143u /* "CADZ" in memory order on little-endian machines */

typedef struct cdz_step cdz_step;
typedef struct cdz_host cdz_host;
typedef struct cdz_plugin_base cdz_plugin_base;

/* --- parameters ------------------------------------------------------------------------------------------
 * One table row per parameter, with the offset of a field of your own struct; the field's name is the parameter's. The row
 * also makes the ini key, the `-s` option, the JSON field, the Lua field, the help text and the range check.
 *
 *     typedef struct { double decay; int64_t window; } fading;
 *     static const cdz_param params[] = {
 *         CDZ_REAL(fading, decay, 0.9, 0.0, 1.0, "factor per token of age"),
 *         CDZ_INT(fading, window, 64, 1, 65536, "tokens to look back over"),
 *     };
 * A field of another C type does not compile. Values are checked before you see them: a value that is out of range, of
 * the wrong type or not a number is an error for the user, with file and line.
 *
 * In C++ the same macros are for C++20, whose designated initialisers the descriptors need. */

typedef enum cdz_param_type {
    CDZ_T_BOOL = 1,     /* bool */
    CDZ_T_INT,          /* int64_t */
    CDZ_T_REAL,         /* double, finite */
    CDZ_T_STRING,       /* const char *, NULL when unset */
    CDZ_T_OPT_BOOL,     /* cdz_opt_bool */
    CDZ_T_OPT_INT,      /* cdz_opt_int */
    CDZ_T_OPT_REAL,     /* cdz_opt_real */
    CDZ_T_WORD,         /* cdz_word: one of the words of `text` */
    CDZ_T_BOOL_OR_WORD, /* cdz_word: false is 0, true is 1, the words of `text` are 2, 3, ... */
    CDZ_T_INTS,         /* cdz_int_list; one integer is accepted as a list of one */
    CDZ_T_REALS,        /* cdz_real_list */
    CDZ_T_STRINGS,      /* cdz_string_list; one string is accepted as a list of one */
    CDZ_T_INT_LISTS,    /* cdz_int_lists: a list of lists of integers */
    CDZ_T_WEIGHTED,     /* cdz_weighted_list: token sequences with a weight each */
    CDZ_T_INT_REAL,     /* cdz_int_real: a pair such as (start, factor) */
    CDZ_T_WORD_OR_INTS, /* cdz_word_or_ints: one of the words of `text`, or a list of integers */
    CDZ_T_INT_CHOICES, /* cdz_int_choices: each item a list of integers, or a choice of such lists */
} cdz_param_type;

typedef struct cdz_opt_bool {
    bool value, set;
} cdz_opt_bool;
typedef struct cdz_opt_int {
    int64_t value;
    bool set;
} cdz_opt_int;
/* is_int: the value was written as an integer (JSON 1, not 1.0), which some parameters refuse. */
typedef struct cdz_opt_real {
    double value;
    bool set, is_int;
} cdz_opt_real;
typedef struct cdz_word {
    int32_t value;
    bool set;
} cdz_word;
/* Lists: `set` is false when unset (null); a set list may be empty. Valid as long as the parameter struct. */
typedef struct cdz_int_list {
    const int64_t *at;
    uint32_t len;
    bool set;
} cdz_int_list;
typedef struct cdz_real_list {
    const double *at;
    uint32_t len;
    bool set;
} cdz_real_list;
typedef struct cdz_string_list {
    const cdz_string *at;
    uint32_t len;
    bool set;
} cdz_string_list;
typedef struct cdz_int_lists {
    const cdz_int_list *at;
    uint32_t len;
    bool set;
} cdz_int_lists;
typedef struct cdz_weighted {
    cdz_int_list ids;
    double weight;
    bool weight_is_int;
} cdz_weighted;
/* is_map: written as a mapping from sequences, not as a list of pairs. */
typedef struct cdz_weighted_list {
    const cdz_weighted *at;
    uint32_t len;
    bool set, is_map;
} cdz_weighted_list;
typedef struct cdz_int_real {
    int64_t first;
    double second;
    bool set;
} cdz_int_real;

typedef struct cdz_word_or_ints {
    cdz_word word; /* one of the two is set, or none */
    cdz_int_list ints;
} cdz_word_or_ints;
/* A list of integers is a choice of one. */
typedef struct cdz_int_choices {
    const cdz_int_lists *at;
    uint32_t len;
    bool set;
} cdz_int_choices;

typedef enum cdz_param_flag {
    /* Unless the plugin's own section sets it, the value is that of the generation parameter of the same name. */
    CDZ_GENERATION = 1u << 0,
    /* JSON must write it with a fraction: 2 is refused, 2.0 is accepted, as in the reference. The default is accepted. */
    CDZ_STRICT_REAL = 1u << 1,
    /* The lower or upper bound itself is out of range. */
    CDZ_ABOVE_MIN = 1u << 2,
    CDZ_BELOW_MAX = 1u << 3,
    /* It names a file that the plugin opens: a pipeline or the command line may set it, a request may not. */
    CDZ_NAMES_FILE = 1u << 4,
} cdz_param_flag;

typedef struct cdz_param {
    const char *name;     /* as transformers spells it, where transformers has it */
    const char *help;     /* one line */
    uint32_t offset;      /* of the field in the parameter struct */
    uint16_t type;        /* cdz_param_type */
    uint16_t flags;       /* cdz_param_flag */
    double def, min, max; /* numbers; of lists: bounds of each element */
    const char *text;     /* default of a string (may be NULL); for words "a|b|c" */
} cdz_param;

#ifdef __cplusplus
#define CDZ_FIELD_(T, F, ctype)                                                                    \
    (uint32_t)(offsetof(T, F) +                                                                    \
               0 * sizeof(std::enable_if<std::is_same<decltype(T::F), ctype>::value, char>::type))
/* clang-format off */
#define CDZ_PARAM_(T, F, ctype, kind_, flags_, def_, min_, max_, text_, help_)                     \
    {#F, help_, CDZ_FIELD_(T, F, ctype), (uint16_t)(kind_), (uint16_t)(flags_), (double)(def_),    \
     (double)(min_), (double)(max_), text_}
/* clang-format on */
#else
/* clang-format off */
#define CDZ_FIELD_(T, F, ctype)                                                                    \
    (uint32_t)(offsetof(T, F) + 0 * sizeof(_Generic(((T *)0)->F, ctype : 1)))
#define CDZ_PARAM_(T, F, ctype, kind_, flags_, def_, min_, max_, text_, help_)                     \
    {.name = #F, .help = help_, .offset = CDZ_FIELD_(T, F, ctype), .type = kind_,                  \
     .flags = flags_, .def = def_, .min = min_, .max = max_, .text = text_}
/* clang-format on */
#endif
#define CDZ_NO_LIMIT                1.7976931348623157e308
#define CDZ_BOOL(T, F, def_, help_) CDZ_PARAM_(T, F, bool, CDZ_T_BOOL, 0, def_, 0, 1, NULL, help_)
#define CDZ_INT(T, F, def_, min_, max_, help_)                                                     \
    CDZ_PARAM_(T, F, int64_t, CDZ_T_INT, 0, def_, min_, max_, NULL, help_)
#define CDZ_REAL(T, F, def_, min_, max_, help_)                                                    \
    CDZ_PARAM_(T, F, double, CDZ_T_REAL, 0, def_, min_, max_, NULL, help_)
#define CDZ_STRING(T, F, def_, help_)                                                              \
    CDZ_PARAM_(T, F, const char *, CDZ_T_STRING, 0, 0, 0, 0, def_, help_)
#define CDZ_FILE(T, F, help_) /* NULL when unset */                                                \
    CDZ_PARAM_(T, F, const char *, CDZ_T_STRING, CDZ_NAMES_FILE, 0, 0, 0, NULL, help_)
#define CDZ_OPT_BOOL(T, F, flags_, help_)                                                          \
    CDZ_PARAM_(T, F, cdz_opt_bool, CDZ_T_OPT_BOOL, flags_, 0, 0, 1, NULL, help_)
#define CDZ_OPT_INT(T, F, flags_, min_, max_, help_)                                               \
    CDZ_PARAM_(T, F, cdz_opt_int, CDZ_T_OPT_INT, flags_, 0, min_, max_, NULL, help_)
#define CDZ_OPT_REAL(T, F, flags_, min_, max_, help_)                                              \
    CDZ_PARAM_(T, F, cdz_opt_real, CDZ_T_OPT_REAL, flags_, 0, min_, max_, NULL, help_)
#define CDZ_WORD(T, F, words_, def_index_, help_)                                                  \
    CDZ_PARAM_(T, F, cdz_word, CDZ_T_WORD, 0, def_index_, 0, 0, words_, help_)
#define CDZ_BOOL_OR_WORD(T, F, flags_, words_, help_)                                              \
    CDZ_PARAM_(T, F, cdz_word, CDZ_T_BOOL_OR_WORD, flags_, 0, 0, 0, words_, help_)
#define CDZ_INTS(T, F, flags_, min_, max_, help_)                                                  \
    CDZ_PARAM_(T, F, cdz_int_list, CDZ_T_INTS, flags_, 0, min_, max_, NULL, help_)
#define CDZ_REALS(T, F, flags_, min_, max_, help_)                                                 \
    CDZ_PARAM_(T, F, cdz_real_list, CDZ_T_REALS, flags_, 0, min_, max_, NULL, help_)
#define CDZ_STRINGS(T, F, flags_, help_)                                                           \
    CDZ_PARAM_(T, F, cdz_string_list, CDZ_T_STRINGS, flags_, 0, 0, 0, NULL, help_)
#define CDZ_INT_LISTS(T, F, flags_, min_, max_, help_)                                             \
    CDZ_PARAM_(T, F, cdz_int_lists, CDZ_T_INT_LISTS, flags_, 0, min_, max_, NULL, help_)
#define CDZ_WEIGHTED(T, F, flags_, help_)                                                          \
    CDZ_PARAM_(T, F, cdz_weighted_list, CDZ_T_WEIGHTED, flags_, 0, 0, 0, NULL, help_)
#define CDZ_WORD_OR_INTS(T, F, flags_, words_, min_, max_, help_)                                  \
    CDZ_PARAM_(T, F, cdz_word_or_ints, CDZ_T_WORD_OR_INTS, flags_, 0, min_, max_, words_, help_)
#define CDZ_INT_CHOICES(T, F, flags_, min_, max_, help_)                                           \
    CDZ_PARAM_(T, F, cdz_int_choices, CDZ_T_INT_CHOICES, flags_, 0, min_, max_, NULL, help_)
#define CDZ_INT_REAL(T, F, flags_, help_)                                                          \
    CDZ_PARAM_(T, F, cdz_int_real, CDZ_T_INT_REAL, flags_, 0, 0, 0, NULL, help_)

/* --- descriptors ----------------------------------------------------------------------------------------- */

typedef enum cdz_kind {
    CDZ_KIND_PROCESSOR = 1, /* processor.h */
    CDZ_KIND_CRITERION = 2, /* criterion.h */
    CDZ_KIND_STRATEGY = 3,  /* strategy.h */
    CDZ_KIND_DRAFTER = 4,   /* drafter.h */
    CDZ_KIND_OBSERVER = 5,  /* observer.h */
    CDZ_KIND_LOADER = 6,    /* loader.h */
    CDZ_KIND_SCHEDULER = 7, /* scheduler.h */
    CDZ_KIND_PRESS = 8,     /* press.h */
} cdz_kind;

/* What all kinds begin with. Constant data, alive as long as the plugin is loaded. */
struct cdz_plugin_base {
    uint32_t size; /* of the whole descriptor; set by CDZ_*_BASE */
    uint32_t kind; /* cdz_kind; set by CDZ_*_BASE */
    const char *id; /* reverse domain "org.example.name" [a-z0-9._-]; built-ins use the parameter's name */
    const char *version; /* of the plugin, "1.2.0" */
    const char *summary; /* one line, no full stop */
    const cdz_param *params;
    uint32_t n_params, param_size,
        params_size; /* rows, bytes per row, bytes of the parameter struct */
    uint32_t flags;  /* none yet: 0 */
    /* Optional. The plugin's table for an extension, by string id ("cadenza.state/1"); NULL for ids it lacks. [any] */
    const void *(*extension)(const char *id);
    /* For a loader's own use in descriptors that it made (loader.h); the host does not read it. */
    const void *loader_data;
};

#define CDZ_PARAMS(type, table)                                                                    \
    .params = table, .n_params = (uint32_t)(sizeof(table) / sizeof((table)[0])),                   \
    .param_size = (uint32_t)sizeof(cdz_param), .params_size = (uint32_t)sizeof(type)

/* --- the step: what a plugin may read --------------------------------------------------------------------- */

/* Facts of a request, resolved and constant from `begin` on. */
typedef struct cdz_request_info {
    uint32_t size;
    uint32_t n_prompts;  /* prompts given */
    uint32_t n_rows;     /* rows after expansion by num_beams or num_return_sequences */
    uint32_t prompt_len; /* length of the padded prompt, the same for every row */
    uint32_t n_vocab;    /* columns of a score row */
    uint32_t max_length; /* prompt + new tokens */
    uint32_t min_length;
    uint32_t context; /* positions the model was trained for */
    uint32_t num_beams;
    bool do_sample;
    uint64_t seed;
    cdz_ids eos;            /* empty: none */
    int32_t pad, bos;       /* -1: none */
    const cdz_ids *prompts; /* n_prompts padded prompt rows ("encoder ids" of decoder-only models);
                             * empty where embeddings are the prompt */
    double start_s;         /* monotonic seconds when the request began, before prefill */
} cdz_request_info;

/* Which of the request's prompts, from 0, a row continues: prompts[cdz_prompt_of(step->request, step->row_index[r])]. */
static inline uint32_t cdz_prompt_of(const cdz_request_info *request, uint32_t row)
{
    return request->n_prompts ? row / (request->n_rows / request->n_prompts) : 0;
}

struct cdz_step {
    uint32_t size;
    uint32_t n_rows;    /* rows of this call */
    const void *params; /* your parameter struct, filled */
    const cdz_ids
        *input_ids; /* n_rows: prompt (with pads) and tokens so far. NULL without CDZ_NEEDS_IDS */
    const uint32_t *row_index; /* n_rows: which request row each one belongs to */
    void *const *row_state; /* n_rows: your state_size bytes of each row; NULL when state_size is 0 */
    void *shared;           /* what your begin returned; read-only afterwards */
    const cdz_request_info *request; /* NULL in create */
    const cdz_plugin_base *plugin;   /* your descriptor */
    const cdz_host *host;
    void *scope; /* for the host; do not use */
};

/* A matrix of scores: (n_rows, n_vocab), row-major, stride floats between rows, processed in place.
 * Logits are the model's output; scores are logits that processors may have edited. -inf means masked. */
typedef struct cdz_scores {
    float *data; /* host memory; NULL while on a device (strategies: cdz_map) */
    uint32_t n_rows, n_vocab;
    size_t stride;
    uint64_t id; /* for the host */
} cdz_scores;

static inline float *cdz_row(const cdz_scores *scores, uint32_t row)
{
    return scores->data + (size_t)row * scores->stride;
}

/* Functions of the host for plugins. Within a major version the table only grows at its end. */
struct cdz_host {
    uint32_t size;
    /* [any] A table of further functions by id, e.g. "cadenza.vec/1"; NULL when this host lacks it. Always valid. */
    const void *(*extension)(const char *id);
    /* [any] Records the error sentence for this request and returns code. */
    cdz_status (*fail)(const cdz_step *step, cdz_status code, const char *fmt, ...) CDZ_PRINTF(3, 4);
    /* [any] One line for the host's log. */
    void (*log)(const cdz_step *step, cdz_log_level level, const char *fmt, ...) CDZ_PRINTF(3, 4);
    /* [load, engine; only inside create and begin] Zeroed memory that lives until end; NULL when exhausted. */
    void *(*alloc)(const cdz_step *step, size_t bytes);
    /* [any] Uninitialised memory, 64-byte aligned, until the present call returns; NULL when exhausted. Each call
     * adds to what this call already took. */
    void *(*scratch)(const cdz_step *step, size_t bytes);
    /* [any; from begin on] A resolved generation parameter by transformers' name; out has the C type of `type`.
     * CDZ_E_NOT_FOUND: none, or of another type. decoder_attention_mask is a BOOL: was one given? type 0 asks for the name
     * alone: CDZ_OK if there is such a parameter; else out, a const char **, gets the nearest name or NULL. */
    cdz_status (*config)(const cdz_step *step, const char *name, cdz_param_type type, void *out);
    /* [any] Four random words for (request seed, this plugin, row, position). They do not depend on other draws. */
    void (*noise)(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4]);
    /* [any] Monotonic seconds. */
    double (*now_s)(const cdz_step *step);
};

/* Records the error sentence: return cdz_fail(step, CDZ_E_INPUT, "token %d ...", id); A text that ends in ": " says where the
 * error happened: it is put before the sentence that a host function recorded with that status. */
#define cdz_fail(step, ...) ((step)->host->fail((step), __VA_ARGS__))
#define cdz_log(step, ...)  ((step)->host->log((step), __VA_ARGS__))

static inline void *cdz_alloc(const cdz_step *step, size_t bytes)
{
    return step->host->alloc(step, bytes);
}

static inline void *cdz_scratch(const cdz_step *step, size_t bytes)
{
    return step->host->scratch(step, bytes);
}

/* --- the entry: the one symbol a shared object exports ------------------------------------------------------ */

/* Sizes that both sides must agree on; the refusal names the first that differs. */
typedef struct cdz_fingerprint {
    uint32_t pointer, status_enum, boolean, size_t_, param, base, request_info, step, scores, host;
} cdz_fingerprint;

/* clang-format off */
#define CDZ_FINGERPRINT                                                                            \
    {sizeof(void *), sizeof(cdz_status), sizeof(bool), sizeof(size_t), sizeof(cdz_param),          \
     sizeof(cdz_plugin_base), sizeof(cdz_request_info), sizeof(cdz_step), sizeof(cdz_scores),      \
     sizeof(cdz_host)}
/* clang-format on */

typedef enum cdz_entry_flag {
    CDZ_RESIDENT =
        1u << 0, /* never unload: the file keeps threads, thread keys or at-exit handlers */
} cdz_entry_flag;

typedef struct cdz_entry {
    uint32_t magic, size; /* these four keep their place in every major version */
    uint16_t abi_major, abi_minor;
    uint32_t flags; /* cdz_entry_flag */
    cdz_fingerprint fingerprint;
    const cdz_plugin_base *const *plugins;
    uint32_t n_plugins, reserved; /* reserved: 0 */
    /* Extensions that the plugins need, ids separated by spaces ("cadenza.vec/1"): a host that lacks one refuses
     * the file with a sentence that names both. NULL: the plugins ask for extensions and work without them. */
    const char *needs;
} cdz_entry;

extern CDZ_EXPORT const cdz_entry cdz_plugin;

#define CDZ_EXPORT_PLUGINS_AS(flags_, needs_, ...)                                                 \
    static const cdz_plugin_base *const cdz_exported_[] = {__VA_ARGS__};                           \
    const cdz_entry cdz_plugin = {.magic = CDZ_ENTRY_MAGIC,                                        \
                                  .size = sizeof(cdz_entry),                                       \
                                  .abi_major = CDZ_ABI_MAJOR,                                      \
                                  .abi_minor = CDZ_ABI_MINOR,                                      \
                                  .flags = flags_,                                                 \
                                  .fingerprint = CDZ_FINGERPRINT,                                  \
                                  .plugins = cdz_exported_,                                        \
                                  .n_plugins =                                                     \
                                      (uint32_t)(sizeof cdz_exported_ / sizeof cdz_exported_[0]),  \
                                  .needs = needs_};
#define CDZ_EXPORT_PLUGINS(...) CDZ_EXPORT_PLUGINS_AS(0, NULL, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
