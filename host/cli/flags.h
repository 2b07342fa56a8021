/* flags.h - what the commands take: tables of options, of which parser, help, manual and completions are made.
 *
 * An option is a row. A page is a command: its own rows, the groups of settings (params/settings.h) that it takes, and what
 * help says of it. Generation parameters are options by their own table (config/generation.h), names of other programs by
 * theirs (config/habits.h): neither is listed again. */
#ifndef CDZ_HOST_CLI_FLAGS_H
#define CDZ_HOST_CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cadenza/base.h"
#include "config/habits.h"
#include "params/settings.h"

typedef struct cdz_verb {
    const char *name, *help; /* "list" */
} cdz_verb;

typedef struct cdz_page {
    const char *name;                 /* "run", "plugin test" */
    const char *summary;              /* one line */
    const char *usage;                /* a line each, without "cadenza " */
    const char *about;                /* paragraphs */
    const cdz_verb *verbs;            /* to a row without a name; NULL: none */
    const cdz_flag *flags;            /* its own */
    unsigned takes;                   /* cdz_setting_group */
    const char *more;                 /* what else there is to say, as it stands; or NULL */
    const char *more_title;           /* of that, or of: */
    void (*write_more)(cdz_buf *out); /* the same from a table; or NULL */
    const char *examples;             /* a line each */
} cdz_page;

extern const cdz_page cdz_page_run, cdz_page_chat, cdz_page_lua, cdz_page_explain, cdz_page_plugin,
    cdz_page_plugin_test, cdz_page_model, cdz_page_model_convert, cdz_page_model_quantize,
    cdz_page_tokenize, cdz_page_template, cdz_page_grammar, cdz_page_config, cdz_page_detect,
    cdz_page_steer, cdz_page_score, cdz_page_serve, cdz_page_bench, cdz_page_bench_serve,
    cdz_page_parity, cdz_page_completion, cdz_page_manual, cdz_page_version, cdz_page_pull,
    cdz_page_list;

/* Every page, commands in the order of `cadenza --help`, each before the pages of its verbs. */
extern const cdz_page *const cdz_pages[];
extern const size_t cdz_pages_n;
const cdz_page *cdz_page_named(const char *name); /* or NULL */

/* The i-th option of a page: its own, then those of its groups, then -h; NULL: there are no more. */
const cdz_flag *cdz_page_flag(const cdz_page *page, size_t i);
/* The setting that the i-th option is; NULL: it is one of the command's own, or -h. */
const cdz_setting *cdz_page_setting(const cdz_page *page, size_t i);
/* The commands that take a setting, "run, chat and lua"; how many there are. */
size_t cdz_pages_with(const cdz_setting *setting, cdz_buf *out);
/* Whether a parameter stands among the options of the page, as --seed does, or its name leads to one. */
bool cdz_page_has_option(const cdz_page *page, const char *name);
size_t cdz_page_n_own(const cdz_page *page);
/* The title of what begins with the i-th option, "Decoding"; NULL: nothing begins there. */
const char *cdz_page_title(const cdz_page *page, size_t i);

/* A generation parameter as an option. */
typedef struct cdz_parameter_flag {
    const char *name; /* as the table spells it */
    const char *value; /* what its value is called; NULL: yes, no and its words, and may be left out */
    const char *help, *words;
} cdz_parameter_flag;
/* Of the i-th slot; false: there are no more. */
bool cdz_parameter_flag_at(uint32_t i, cdz_parameter_flag *out);
/* Of the i-th of those that people change most; false: there are no more. */
bool cdz_parameter_flag_often(uint32_t i, cdz_parameter_flag *out);
/* What a name of another program leads to in this page; false: to nothing that it takes. */
bool cdz_cli_habit_leads(const cdz_page *page, const cdz_habit *habit, const cdz_flag **flag,
                         int *slot);

/* From the i-th name of other programs on, the next that leads to an option or parameter of the page; NULL: there are no more.
 * *i goes behind it. flag: the option, or NULL. */
const cdz_habit *cdz_page_habit(const cdz_page *page, size_t *i, const cdz_flag **flag);

/* --- made of the tables: help.c, manual.c, completion.c --- */
void cdz_page_help(const cdz_page *page, bool all, cdz_buf *out);
void cdz_manual_write(const cdz_page *page, cdz_buf *out);  /* NULL: of the program */
bool cdz_completion_write(const char *shell, cdz_buf *out); /* false: no such shell */
/* "max_new_tokens" as an option is written. */
void cdz_cli_put_dashed(cdz_buf *out, const char *name);
/* Text in lines of at most 96 columns, each from `column` on; the first begins where the buffer stands. */
void cdz_cli_put_wrapped(cdz_buf *out, const char *text, size_t column);

/* --- reading a command line: args.c --- */

struct cdz_cli_options;

typedef struct cdz_args {
    const cdz_page *page;
    struct cdz_cli_options *common; /* takes the options of the groups; NULL: the page has none */
    int argc, at;
    char **argv;
    char **words; /* (n_words) what is no option, in order; complete at the end */
    int n_words, next_word;
    const char *cluster; /* letters of one word that are still to come */
    char typed[80];      /* the option as it was written */
    const char *value;   /* of the option, or NULL */
    const char *model;   /* of -m */
    uint64_t seen;       /* by place in the page */
    bool words_only;
    int opt;      /* id of the option */
    bool stopped; /* it is over, with this status: help was shown, or it has been said what is wrong */
    int status;
} cdz_args;

cdz_args cdz_args_of(const cdz_page *page, int argc, char **argv, struct cdz_cli_options *common);
/* The next option of the page's own rows, in opt and value. False: the end, or stopped. */
bool cdz_args_next(cdz_args *args);
/* The next word, or NULL. */
const char *cdz_args_word(cdz_args *args);
/* MODEL, as -m or as the next word; NULL: neither. False: both, which has been said. */
bool cdz_args_take_model(cdz_args *args, const char **model);
/* Refuses further words: true when there is none. */
bool cdz_args_end(cdz_args *args);
/* Ends it with a sentence and status 2. */
void cdz_args_refuse(cdz_args *args, const char *fmt, ...) CDZ_PRINTF(2, 3);
/* The same of a verb that is none of those expected, such as "'make'"; found NULL: there was no word. */
void cdz_args_refuse_verb(cdz_args *args, const char *expected, const char *found);

#endif
