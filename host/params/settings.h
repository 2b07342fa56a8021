/* settings.h - the host's own settings: what they are, and each a row of one list of tables.
 *
 * A setting is one row: its option, its key in a pipeline file, its environment variable, its member of a request document,
 * its field in a struct of cadenza.h, and what it takes. The program's parser, help, manual and completions, the keys of
 * pipeline files, the schemas, `cadenza explain`, docs/reference/settings.md and the structs that cdz_open and the others
 * get are made from it; tests/whole/e2e/settings.sh goes through all rows. Parameters of generation are not here: they have
 * transformers' names and a table of their own (config/generation.h). */
#ifndef CDZ_HOST_PARAMS_SETTINGS_H
#define CDZ_HOST_PARAMS_SETTINGS_H

#include "base/arena.h"
#include "base/buf.h"
#include "cadenza/cadenza.h"

/* --- an option of the program -------------------------------------------------------------------------- */

typedef enum cdz_flag_trait {
    CDZ_FLAG_OFTEN = 1u << 0, /* in the short help */
    CDZ_FLAG_ONCE = 1u << 1,  /* a second one is refused: the first would be lost */
    CDZ_FLAG_PAIR = 1u << 2,  /* "A:NUMBER", which may also be two words, A and NUMBER */
} cdz_flag_trait;

typedef struct cdz_flag {
    const char *
        name; /* with dashes; NULL: the end of a command's own table; of a setting: it is no option */
    char letter;       /* or 0 */
    int id;            /* what a command switches on; 0: it is a setting's */
    unsigned traits;   /* cdz_flag_trait */
    const char *value; /* what its value is called in help; NULL: it takes none */
    const char *help;
} cdz_flag;

/* --- a setting ------------------------------------------------------------------------------------------- */

/* Settings that a command takes together; a command names them (cdz_page.takes). */
typedef enum cdz_setting_group {
    CDZ_TAKES_MODEL = 1u << 0,    /* -m, beside the word MODEL */
    CDZ_TAKES_DECODING = 1u << 1, /* --pipeline, -s, --log, ... */
    CDZ_TAKES_MACHINE = 1u << 2,  /* --device, --threads, ... */
    CDZ_TAKES_GENERATION =
        1u << 3, /* --temperature and all other generation parameters; no rows of these tables */
    CDZ_SHOWS_PARAMETERS =
        1u << 4, /* no group: the short help names the parameters that people change most */
    CDZ_TAKES_PLUGINS = 1u << 5,       /* --plugin, --safe-mode */
    CDZ_TAKES_MODEL_PLUGINS = 1u << 6, /* --allow-model-plugins */
    CDZ_TAKES_DRAFT = 1u << 7,         /* --assistant */
    CDZ_TAKES_TIME = 1u << 8,          /* --timeout */
    CDZ_TAKES_TEXT = 1u << 9,          /* how the text of an answer is written */
    CDZ_TAKES_DEV = 1u << 10,          /* --dev */
    CDZ_TAKES_PROFILE = 1u << 11,      /* --profile */
    CDZ_TAKES_SHOW_PROMPT = 1u << 12,  /* --show-prompt */
    CDZ_TAKES_DEVICE = 1u << 13,       /* of the machine --device alone */
    CDZ_TAKES_SERVER = 1u << 14,       /* --listen, --max-queue, ... */
    CDZ_TAKES_HUB = 1u << 15,          /* of the model --revision and --offline alone */
    CDZ_TAKES_TOOLS = 1u << 16,        /* --tool */
    CDZ_TAKES_OTHERS = 1u << 17,       /* --with */
    /* What runs requests has all of these. */
    CDZ_TAKES_ALL = CDZ_TAKES_MODEL | CDZ_TAKES_DECODING | CDZ_TAKES_MACHINE |
                    CDZ_TAKES_GENERATION | CDZ_TAKES_PLUGINS | CDZ_TAKES_MODEL_PLUGINS |
                    CDZ_TAKES_DRAFT | CDZ_TAKES_OTHERS | CDZ_TAKES_TIME | CDZ_TAKES_TOOLS,
} cdz_setting_group;

/* What an option, a key or a variable holds, and the field's type. */
typedef enum cdz_setting_kind {
    CDZ_KIND_SWITCH = 1, /* bool; no value: true */
    CDZ_KIND_BIT,        /* uint32_t: the bit `most` of it; no value */
    CDZ_KIND_COUNT,      /* uint32_t, from least to most */
    CDZ_KIND_BYTES,      /* uint64_t: 512M, 2G */
    CDZ_KIND_SECONDS,    /* double */
    CDZ_KIND_TEXT,       /* const char * */
    CDZ_KIND_WORD,       /* const char *: one of `words` */
    CDZ_KIND_TEXTS,      /* const char *const *, and a count: grows by each */
    CDZ_KIND_PARAMETER,  /* a parameter of the pipeline, NAME=VALUE; the caller keeps it */
} cdz_setting_kind;

/* The struct that has the field. */
typedef enum cdz_setting_home {
    CDZ_HOME_NONE,
    CDZ_HOME_OPTIONS, /* cdz_options */
    CDZ_HOME_MODEL,   /* cdz_model_options */
    CDZ_HOME_REQUEST, /* cdz_request */
    CDZ_HOME_PROGRAM, /* cdz_program_settings */
} cdz_setting_home;

/* What a member of a request document holds. */
typedef enum cdz_member_kind {
    CDZ_MEMBER_NONE, /* documents have no such member */
    CDZ_MEMBER_ANY,
    CDZ_MEMBER_TEXT,
    CDZ_MEMBER_TEXTS, /* a text, or a list of them */
    CDZ_MEMBER_INT,
    CDZ_MEMBER_BOOL,
    CDZ_MEMBER_IDS, /* ids, or rows of ids */
    CDZ_MEMBER_LIST,
    CDZ_MEMBER_OBJECT,
    CDZ_MEMBER_PARAMETERS, /* generation parameters */
    CDZ_MEMBER_NOTE,       /* of golden cases, for nobody to set; no schema has it */
} cdz_member_kind;

typedef struct cdz_setting {
    cdz_flag flag; /* first; help is there for all, said so that it holds for option, key and member alike */
    const char *name; /* with underscores: the key, the member, the field */
    unsigned group;   /* cdz_setting_group, of which a command takes one; 0: no command takes it */
    cdz_setting_kind kind;
    cdz_setting_home home;
    uint32_t offset, count; /* of the field there; of TEXTS: of its count */
    const char *field;      /* "cdz_options.kv_cache"; NULL: none that embedders see */
    double least, most;
    const char *
        words; /* "a|b"; who reads them counts them (cdz_setting_word): the first is the default, if any is */
    const char *otherwise; /* what holds when nobody says it, in words; NULL: nothing, or no */
    const char *section;   /* of a pipeline file, where `name` is its key; NULL: no key */
    bool served;           /* the section is one of a server's file, not of a pipeline's */
    const char *env;       /* the variable; NULL: none */
    cdz_member_kind member;
    bool or_null; /* the member may be null, the key none */
} cdz_setting;

/* A table of settings, as help has them together. */
typedef struct cdz_setting_table {
    const char *title; /* "Machine"; NULL: they stand among a command's own options */
    const cdz_setting *rows;
    size_t n;
} cdz_setting_table;

extern const cdz_setting_table cdz_setting_tables[];
extern const size_t cdz_setting_tables_n;
enum { CDZ_MOST_SETTINGS = 160 }; /* of all tables together */

/* The i-th of all, tables in order; NULL: there are no more. */
const cdz_setting *cdz_setting_at(size_t i);
size_t cdz_setting_index(const cdz_setting *setting);
/* The one of that name; NULL: there is none. */
const cdz_setting *cdz_setting_named(const char *name);
/* The one that is this option, written with dashes or underscores. */
const cdz_setting *cdz_setting_of_flag(const char *name, size_t len);

/* --- keys of files, and words ----------------------------------------------------------------------------- */

/* The setting that is a key of that section of a pipeline file; NULL: there is none. */
const cdz_setting *cdz_setting_in_file(const char *section, const char *key);
/* Has a section of that name settings? */
bool cdz_setting_section(const char *section);
/* The key that was probably meant, or NULL. */
const char *cdz_setting_near(const char *section, const char *key);
/* Members of a JSON Schema: the keys of a section, `"properties": {...}`; those of a request document, without the braces. */
void cdz_settings_file_schema(const char *section, cdz_buf *out);
void cdz_settings_member_schema(cdz_buf *out);
/* The setting that is that member of a request document; NULL: there is none. */
const cdz_setting *cdz_setting_member(const char *name);

/* Which of its words, counted from 0; CDZ_E_USAGE: none. */
cdz_status cdz_setting_word(const cdz_setting *setting, const char *text, uint32_t *which,
                            cdz_error *err);
/* "one of f32, f16", "a number from 1 to 1024", "a size such as 512M or 2G" */
void cdz_setting_takes(const cdz_setting *setting, cdz_buf *out);
/* docs/reference/settings.md; commands writes the names of the commands that take a setting. */
typedef void cdz_setting_commands(const cdz_setting *setting, cdz_buf *out);
void cdz_settings_page(cdz_setting_commands *commands, cdz_buf *out);

/* --- what was said ---------------------------------------------------------------------------------------- */

/* What `cadenza serve` is told of the network, of who may ask, and of limits. 0: as it is made. */
typedef struct cdz_server_settings {
    const char *config; /* its file, or NULL */
    bool check_config;
    const char *listen; /* "ADDRESS:PORT" or "unix:PATH"; NULL: host and port */
    const char *host;
    uint32_t port;
    const char *api_key_file, *pipelines, *model_name, *log_format, *kv_save, *kv_folder;
    const char *const *allowed_hosts, *const *cors_origins;
    uint32_t n_allowed_hosts, n_cors_origins;
    uint32_t max_queue_tokens, max_connections;
    uint64_t max_body, max_unread;
    double drain_timeout, head_timeout, body_timeout, idle_timeout, read_timeout;
    bool open_metrics;
} cdz_server_settings;

/* What a section [model NAME] of a server's file says. */
typedef struct cdz_served_settings {
    const char *name, *path;
    const char *load; /* "start", "first_use" or NULL: the second */
    double idle;      /* seconds; 0: it stays */
    const char *control_vector, *control_vector_scaled, *control_vector_layer_range; /* or NULL */
} cdz_served_settings;

/* What the program itself needs, beside the structs of cadenza.h. */
typedef struct cdz_program_settings {
    const char *model;     /* NULL: the shipped one */
    const char *revision;  /* of a model that is an id; NULL: main */
    bool offline;          /* no network */
    const char *assistant; /* NULL: none */
    const char *pipeline;  /* ini file or NULL */
    const char *custom_generate;
    const char *log; /* lowest level of plugins' lines that is shown, or "none"; NULL: info */
    bool dev;        /* reload what changes */
    const char *const *tools; /* (n_tools) NAME=COMMAND: who answers decode loops */
    uint32_t n_tools;
    const char *const *with; /* (n_with) NAME=FOLDER: further models */
    uint32_t n_with;
    const char *observe; /* file of the observers' lines; NULL: none */
    cdz_server_settings server;
} cdz_program_settings;

/* The structs as the command line filled them. Zeroed is empty. */
typedef struct cdz_settings {
    cdz_options options;
    cdz_model_options model;
    cdz_request request;
    cdz_program_settings program;
    const char *said[CDZ_MOST_SETTINGS]; /* by index: as it was typed, "" of a switch; NULL: it was not */
} cdz_settings;

/* Takes a value into its field; NULL of what takes none. The sentence says what was expected, and not of what. */
cdz_status cdz_settings_take(cdz_settings *settings, const cdz_setting *setting, const char *value,
                             cdz_error *err);
/* Of TEXTS: the list, n of them; of others NULL. */
const char *const *cdz_settings_texts(const cdz_settings *settings, const cdz_setting *setting,
                                      uint32_t *n);
void cdz_settings_free(cdz_settings *settings);
/* A copy with lists of its own; texts are those of `from`. */
cdz_status cdz_settings_copy(const cdz_settings *from, cdz_settings *out, cdz_error *err);

/* --- a server's file: settings_server.c ------------------------------------------------------------------- */

/* What the file says: [server] into settings, where nobody said it before, and a model for each [model NAME]. Texts and
 * models lie in the arena. */
typedef struct cdz_served_list {
    cdz_served_settings *at;
    size_t n;
} cdz_served_list;
cdz_status cdz_settings_read_server(const char *path, cdz_settings *settings,
                                    cdz_served_list *models, cdz_arena *arena, cdz_error *err);

/* The id of the scheduler that a text names: NULL and "fifo" are first_come. */
const char *cdz_settings_scheduler(const char *said);

/* The first that was said, of any of the groups; NULL: none was. */
const cdz_setting *cdz_settings_first(const cdz_settings *settings, unsigned groups);

/* The structs, ready for cdz_open, cdz_model_open and cdz_submit: what was said is in them, and all of it. */
cdz_options cdz_settings_to_options(const cdz_settings *settings);
cdz_model_options cdz_settings_to_model(const cdz_settings *settings);
cdz_request cdz_settings_to_request(const cdz_settings *settings);

/* A value into the field that the row has in that home. The sentence says what was expected, and not of what. */
cdz_status cdz_setting_put(const cdz_setting *setting, void *home, const char *value,
                           cdz_error *err);
/* Fills fields of options that nobody set from their variables. */
cdz_status cdz_settings_from_environment(cdz_options *options, cdz_error *err);
/* The text of its variable, or NULL. */
const char *cdz_setting_env(const cdz_setting *setting);

/* "512M", "2G", "1048576" to bytes; false when it is none of these. */
bool cdz_parse_size(const char *text, uint64_t *bytes);

#endif
