/* flags.c - the rows that commands have in common, and the list of their pages. See flags.h. */
#include "cli/flags.h"

#include <string.h>

#include "cli/cli.h"
#include "config/generation.h"

/* --- the options of a page ---------------------------------------------------------------------------------------------- */

static const cdz_flag help_flag = {"help", 'h',  'h',
                                   0,      NULL, "this text; --help all: every option"};

static size_t count(const cdz_flag *flags)
{
    size_t n = 0;
    while (flags && flags[n].name) n++;
    return n;
}

/* Where an option stands: in a table of settings, or in none. */
typedef struct place {
    const cdz_flag *flag;
    const cdz_setting *setting;
    const cdz_setting_table *table;
    bool first; /* of those that the page takes of the table */
} place;

/* The i-th of the settings that a page takes; flag NULL: there are no more, and *left is how many of i are. */
static place setting_at(const cdz_page *page, size_t i, size_t *left)
{
    for (size_t t = 0; t < cdz_setting_tables_n; t++) {
        const cdz_setting_table *table = &cdz_setting_tables[t];
        bool first = true;
        for (size_t r = 0; r < table->n; r++) {
            const cdz_setting *row = &table->rows[r];
            if (!row->flag.name || !(row->group & page->takes)) continue;
            if (i == 0) return (place){&row->flag, row, table, first};
            first = false;
            i--;
        }
    }
    *left = i;
    return (place){0};
}

static place place_of(const cdz_page *page, size_t i)
{
    const size_t n = count(page->flags);
    size_t left = 0;
    if (i < n) return (place){.flag = &page->flags[i]};
    const place at = setting_at(page, i - n, &left);
    return at.flag || left ? at : (place){.flag = &help_flag};
}

size_t cdz_page_n_own(const cdz_page *page)
{
    return count(page->flags);
}

const cdz_flag *cdz_page_flag(const cdz_page *page, size_t i)
{
    return place_of(page, i).flag;
}

const cdz_setting *cdz_page_setting(const cdz_page *page, size_t i)
{
    return place_of(page, i).setting;
}

bool cdz_page_has_option(const cdz_page *page, const char *name)
{
    const cdz_flag *flag;
    for (size_t i = 0; (flag = cdz_page_flag(page, i)) != NULL; i++)
        if (strcmp(flag->name, name) == 0) return true;
    const cdz_habit *habit = cdz_habit_find(name, strlen(name));
    int slot;
    return habit && cdz_cli_habit_leads(page, habit, &flag, &slot);
}

const char *cdz_page_title(const cdz_page *page, size_t i)
{
    const place at = place_of(page, i);
    if (at.flag == &help_flag) return "Help";
    if (i == 0 && !(at.table && at.table->title)) return "Options";
    return at.first ? at.table->title : NULL;
}

size_t cdz_pages_with(const cdz_setting *setting, cdz_buf *out)
{
    size_t n = 0, left = 0;
    for (size_t i = 0; i < cdz_pages_n; i++) left += (cdz_pages[i]->takes & setting->group) != 0;
    for (size_t i = 0; i < cdz_pages_n; i++) {
        if (!(cdz_pages[i]->takes & setting->group)) continue;
        left--;
        cdz_buf_printf(out, "%s%s", n == 0 ? "" : left ? ", " : " and ", cdz_pages[i]->name);
        n++;
    }
    return n;
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

bool cdz_cli_habit_leads(const cdz_page *page, const cdz_habit *habit, const cdz_flag **flag,
                         int *slot)
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
        if (cdz_cli_habit_leads(page, &all[*i], flag, &slot)) return &all[(*i)++];
    return NULL;
}

/* --- pages --------------------------------------------------------------------------------------------------------------- */

const cdz_page *const cdz_pages[] = {
    &cdz_page_run,         &cdz_page_chat,     &cdz_page_serve,         &cdz_page_lua,
    &cdz_page_explain,     &cdz_page_plugin,   &cdz_page_plugin_test,   &cdz_page_pull,
    &cdz_page_list,        &cdz_page_model,    &cdz_page_model_convert, &cdz_page_model_quantize,
    &cdz_page_tokenize,    &cdz_page_template, &cdz_page_grammar,       &cdz_page_config,
    &cdz_page_detect,      &cdz_page_steer,    &cdz_page_score,         &cdz_page_bench,
    &cdz_page_bench_serve, &cdz_page_parity,   &cdz_page_completion,    &cdz_page_manual,
    &cdz_page_version,
};
const size_t cdz_pages_n = sizeof cdz_pages / sizeof cdz_pages[0];

const cdz_page *cdz_page_named(const char *name)
{
    for (size_t i = 0; i < cdz_pages_n; i++)
        if (strcmp(cdz_pages[i]->name, name) == 0) return cdz_pages[i];
    return NULL;
}
