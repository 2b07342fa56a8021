/* args.c - reads a command line by the table of its page. See flags.h.
 *
 * A name may be written with dashes or underscores, may be cut short where that is unambiguous, and may be what another
 * program calls it. Whatever is not understood is one sentence. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/flags.h"
#include "config/generation.h"

enum { MOST_NAMES = 320 };

/* What a typed name means: one of the three, or nothing. */
typedef struct meaning {
    const cdz_flag *flag;
    size_t place; /* of flag in the page */
    int slot;     /* below 0: no generation parameter */
    bool negated; /* --no-do-sample */
    const cdz_habit *habit;
} meaning;

cdz_args cdz_args_of(const cdz_page *page, int argc, char **argv, cdz_cli_options *common)
{
    return (cdz_args){
        .page = page, .common = common, .argc = argc, .argv = argv, .at = 1, .words = argv + 1};
}

void cdz_args_refuse(cdz_args *a, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    a->stopped = true;
    a->status = cdz_cli_misuse(a->page->name, "%s", text);
}

void cdz_args_refuse_verb(cdz_args *a, const char *expected, const char *found)
{
    const char *quote = found ? "'" : "";
    cdz_args_refuse(a, "expected %s, found %s%s%s", expected, quote, found ? found : "nothing",
                    quote);
}

/* --- finding --------------------------------------------------------------------------------------------------------- */

static bool takes_parameters(const cdz_args *a)
{
    return a->page->takes & CDZ_TAKES_GENERATION;
}

static int slot_named(const char *name, size_t len)
{
    for (uint32_t i = 0; i < cdz_generation_slots(); i++)
        if (cdz_habit_same(name, len, cdz_generation_slot_name(i))) return (int)i;
    return -1;
}

static bool is_switch(int slot)
{
    cdz_parameter_flag p;
    return slot >= 0 && cdz_parameter_flag_at((uint32_t)slot, &p) && !p.value;
}

static bool find_exact(const cdz_args *a, const char *name, size_t len, meaning *m)
{
    const cdz_flag *flag;
    for (size_t i = 0; (flag = cdz_page_flag(a->page, i)) != NULL; i++) {
        if (!cdz_habit_same(name, len, flag->name)) continue;
        m->flag = flag;
        m->place = i;
        return true;
    }
    return false;
}

static bool find_habit(const cdz_args *a, const char *name, size_t len, meaning *m)
{
    size_t n;
    const cdz_habit *all = cdz_habits(&n);
    for (size_t i = 0; i < n; i++) {
        if (!cdz_habit_same(name, len, all[i].name)) continue;
        if (all[i].says && !(a->page->takes & CDZ_TAKES_DECODING)) continue;
        if (!all[i].says && !cdz_cli_habit_leads(a->page, &all[i], &m->flag, &m->slot)) continue;
        m->habit = &all[i];
        if (m->flag) find_exact(a, m->flag->name, strlen(m->flag->name), m);
        return true;
    }
    return false;
}

static bool find_parameter(const cdz_args *a, const char *name, size_t len, meaning *m)
{
    if (!takes_parameters(a)) return false;
    m->slot = slot_named(name, len);
    if (m->slot >= 0) return true;
    if (len < 4 || strncmp(name, "no", 2) != 0 || (name[2] != '-' && name[2] != '_')) return false;
    m->slot = slot_named(name + 3, len - 3);
    m->negated = is_switch(m->slot);
    if (!m->negated) m->slot = -1;
    return m->negated;
}

static bool begins(const cdz_flag *flag, const char *name, size_t len)
{
    char start[64];
    snprintf(start, sizeof start, "%.*s", (int)len, flag->name);
    return len < sizeof start && cdz_habit_same(name, len, start);
}

/* The only option that begins so. Says so and returns true when there are several. */
static bool find_beginning(cdz_args *a, const char *name, size_t len, meaning *m)
{
    const cdz_flag *flag;
    for (size_t i = 0; len && (flag = cdz_page_flag(a->page, i)) != NULL; i++) {
        if (!begins(flag, name, len)) continue;
        if (m->flag) {
            cdz_args_refuse(a, "--%.*s may be --%s or --%s", (int)len, name, m->flag->name,
                            flag->name);
            return true;
        }
        m->flag = flag;
        m->place = i;
    }
    return m->flag != NULL;
}

/* --- what cannot be found ---------------------------------------------------------------------------------------------- */

/* Names that something near may have been meant by: options, parameters with dashes, other programs' names. */
typedef struct names {
    const char *at[MOST_NAMES];
    size_t n;
    cdz_arena arena;
} names;

static void add_name(names *all, const char *name)
{
    if (name && all->n < MOST_NAMES) all->at[all->n++] = name;
}

static const char *dashed(cdz_arena *arena, const char *name, size_t len)
{
    char *copy = cdz_arena_strndup(arena, name, len);
    for (char *c = copy; c && *c; c++)
        if (*c == '_') *c = '-';
    return copy;
}

static void collect(const cdz_args *a, names *all)
{
    const cdz_flag *flag;
    const cdz_habit *habit;
    for (size_t i = 0; (flag = cdz_page_flag(a->page, i)) != NULL; i++) add_name(all, flag->name);
    for (uint32_t i = 0; takes_parameters(a) && i < cdz_generation_slots(); i++) {
        const char *name = cdz_generation_slot_name(i);
        add_name(all, dashed(&all->arena, name, strlen(name)));
    }
    for (size_t i = 0; (habit = cdz_page_habit(a->page, &i, &flag)) != NULL;)
        if (strlen(habit->name) > 3) add_name(all, habit->name);
}

static void say_unknown(cdz_args *a, const char *name, size_t len)
{
    names all = {0};
    collect(a, &all);
    const char *kept = dashed(&all.arena, name, len);
    const char *near = kept ? cdz_nearest_name(kept, all.at, all.n) : NULL;
    if (near)
        cdz_args_refuse(a, "--%.*s is not an option; did you mean --%s?", (int)len, name, near);
    else
        cdz_args_refuse(a, "--%.*s is not an option", (int)len, name);
    cdz_arena_free(&all.arena);
}

/* A setting that other commands take is not taken in silence, nor for the beginning of another name. */
static bool is_elsewhere(cdz_args *a, const char *name, size_t len)
{
    const cdz_setting *setting = cdz_setting_of_flag(name, len);
    cdz_buf pages = {0};
    if (!setting) return false;
    const size_t n = cdz_pages_with(setting, &pages);
    if (pages.data && !pages.failed)
        cdz_args_refuse(a, "--%.*s is not an option here; %s %s it", (int)len, name, pages.data,
                        n == 1 ? "has" : "have");
    cdz_buf_free(&pages);
    return a->stopped;
}

/* --- taking ---------------------------------------------------------------------------------------------------------- */

static void no_memory(cdz_args *a)
{
    a->stopped = true;
    a->status = CDZ_EXIT_FAILURE;
    cdz_cli_say("out of memory for the options");
}

static bool is_word_of(const char *text, const char *words)
{
    const size_t len = strlen(text);
    for (const char *at = words; at && *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == len && strncmp(at, text, len) == 0) return true;
    return false;
}

/* The next word of the command line as a value; NULL, which has been said, when there is none. */
static const char *next_value(cdz_args *a)
{
    if (a->at < a->argc) return a->argv[a->at++];
    cdz_args_refuse(a, "%s needs a value", a->typed);
    return NULL;
}

/* Texts that end a row are taken as they are, commas included, and add up: the list so far ends in "]". */
static const char *add_text(cdz_args *a, const char *name, const char *value)
{
    cdz_cli_options *o = a->common;
    cdz_buf text = {0};
    const size_t len = strlen(name);
    const char *before = NULL, *kept = NULL;
    for (uint32_t i = 0; i < o->n_settings; i++)
        if (o->typed[i] && strncmp(o->settings[i], name, len) == 0 && o->settings[i][len] == '=')
            before = o->settings[i] + len + 1;
    if (value[0] == '[') return cdz_arena_printf(&o->kept, "%s=%s", name, value);
    cdz_buf_printf(&text, "%s=", name);
    if (before && before[0] == '[')
        cdz_buf_printf(&text, "%.*s, ", (int)(strlen(before) - 1), before);
    else
        cdz_buf_putc(&text, '[');
    if (value[0] == '"')
        cdz_buf_puts(&text, value);
    else
        cdz_json_write_string(&text, value, strlen(value));
    cdz_buf_putc(&text, ']');
    if (!text.failed) kept = cdz_arena_strdup(&o->kept, text.data);
    cdz_buf_free(&text);
    return kept;
}

static bool is_text_list(int slot)
{
    const cdz_param_table *table = cdz_generation_table();
    return slot >= 0 && (uint32_t)slot < table->n &&
           cdz_param_at(table, (uint32_t)slot)->type == CDZ_T_STRINGS;
}

static void take_parameter(cdz_args *a, const meaning *m, const char *value)
{
    const char *name = cdz_generation_slot_name((uint32_t)m->slot), *setting;
    cdz_parameter_flag p;
    cdz_parameter_flag_at((uint32_t)m->slot, &p);
    if (m->negated && value) {
        cdz_args_refuse(a, "%s takes no value", a->typed);
        return;
    }
    if (!value && p.value) {
        value = next_value(a);
        if (!value) return;
    } else if (!value) {
        const bool follows =
            !m->negated && a->at < a->argc &&
            (cdz_param_is_boolean_text(a->argv[a->at]) || is_word_of(a->argv[a->at], p.words));
        value = m->negated ? "no" : follows ? a->argv[a->at++] : "yes";
    }
    setting = is_text_list(m->slot) ? add_text(a, name, value)
                                    : cdz_arena_printf(&a->common->kept, "%s=%s", name, value);
    if (!setting || !cdz_cli_add_setting(a->common, setting, a->typed)) no_memory(a);
}

static void show_help(cdz_args *a, const char *value)
{
    cdz_buf text = {0};
    if (!value && a->at < a->argc && strcmp(a->argv[a->at], "all") == 0) value = "all";
    a->stopped = true;
    if (value && strcmp(value, "all") != 0) {
        cdz_args_refuse(a, "%s=%s: expected all, or nothing", a->typed, value);
        return;
    }
    cdz_page_help(a->page, value != NULL, &text);
    if (!text.failed && text.data) fputs(text.data, stdout);
    a->status = text.failed ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
    cdz_buf_free(&text);
}

static bool is_number(const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return end != text && !*end;
}

/* "A:NUMBER" as it is; A and the number that follows as one text of that form. */
static const char *take_pair(cdz_args *a, const char *value)
{
    const char *colon = strrchr(value, ':');
    if ((colon && is_number(colon + 1)) || a->at >= a->argc || !is_number(a->argv[a->at]))
        return value;
    value = cdz_arena_printf(&a->common->kept, "%s:%s", value, a->argv[a->at++]);
    if (!value) no_memory(a);
    return value;
}

/* True: it is for the command to take. */
static bool take_flag(cdz_args *a, const meaning *m, const char *value)
{
    const cdz_flag *flag = m->flag;
    const uint64_t bit = m->place < 64 ? UINT64_C(1) << m->place : 0;
    if (flag->id == 'h') {
        show_help(a, value);
        return false;
    }
    if (flag->value && !value) value = next_value(a);
    if (value && (flag->traits & CDZ_FLAG_PAIR)) value = take_pair(a, value);
    if (a->stopped) return false;
    if (!flag->value && value)
        cdz_args_refuse(a, "%s takes no value", a->typed);
    else if ((flag->traits & CDZ_FLAG_ONCE) && (a->seen & bit))
        cdz_args_refuse(a, "%s is given twice; give it once", a->typed);
    if (a->stopped) return false;
    a->seen |= bit;
    a->value = value;
    a->opt = flag->id;
    if (m->place < cdz_page_n_own(a->page)) return true;
    const cdz_setting *setting = cdz_page_setting(a->page, m->place);
    if (setting == cdz_setting_named("model"))
        a->model = value;
    else if (!cdz_cli_take_setting(a->common, setting, value, a->page->name, &a->status))
        a->stopped = true;
    if (a->stopped && a->status == CDZ_EXIT_OK) no_memory(a);
    return false;
}

static bool take(cdz_args *a, const meaning *m, const char *value)
{
    if (m->habit && m->habit->says) {
        cdz_args_refuse(a, "%s is not an option here: %s", a->typed, m->habit->says);
        return false;
    }
    if (m->flag) return take_flag(a, m, value);
    take_parameter(a, m, value);
    return false;
}

/* "--name" or "--name=value". */
static bool take_name(cdz_args *a, const char *word, const char *name)
{
    meaning m = {.slot = -1};
    const size_t len = strcspn(name, "=");
    const char *value = name[len] ? name + len + 1 : NULL;
    snprintf(a->typed, sizeof a->typed, "%.*s", (int)(name + len - word), word);
    if (!find_exact(a, name, len, &m) && !find_habit(a, name, len, &m) &&
        !find_parameter(a, name, len, &m) && !is_elsewhere(a, name, len) &&
        !find_beginning(a, name, len, &m))
        say_unknown(a, name, len);
    return !a->stopped && take(a, &m, value);
}

/* "-ngl 99", "-temp=0.7": names of several letters after one dash, as llama-cli has them. */
static bool take_long_letter(cdz_args *a, const char *word)
{
    meaning m = {.slot = -1};
    const size_t len = strcspn(word + 1, "=");
    if (len < 2 || (!find_habit(a, word + 1, len, &m) && !find_parameter(a, word + 1, len, &m)))
        return false;
    return true;
}

static bool take_letter(cdz_args *a)
{
    meaning m = {.slot = -1};
    const char letter = *a->cluster++;
    const cdz_flag *flag;
    snprintf(a->typed, sizeof a->typed, "-%c", letter);
    for (size_t i = 0; !m.flag && (flag = cdz_page_flag(a->page, i)) != NULL; i++)
        if (flag->letter == letter) {
            m.flag = flag;
            m.place = i;
        }
    if (!m.flag && !find_habit(a, &letter, 1, &m)) {
        cdz_args_refuse(a, "-%c is not an option", letter);
        return false;
    }
    const char *value = NULL;
    if (*a->cluster && ((m.flag && m.flag->value) || m.slot >= 0)) {
        value = a->cluster;
        a->cluster = NULL;
    }
    return take(a, &m, value);
}

bool cdz_args_next(cdz_args *a)
{
    while (!a->stopped) {
        if (a->cluster && *a->cluster) {
            if (take_letter(a)) return true;
            continue;
        }
        a->cluster = NULL;
        if (a->at >= a->argc) return false;
        char *word = a->argv[a->at++];
        if (a->words_only || word[0] != '-' || !word[1])
            a->words[a->n_words++] = word;
        else if (strcmp(word, "--") == 0)
            a->words_only = true;
        else if (word[1] != '-' && !take_long_letter(a, word))
            a->cluster = word + 1;
        else if (take_name(a, word, word + 1 + (word[1] == '-')))
            return true;
    }
    return false;
}

/* --- words ------------------------------------------------------------------------------------------------------------- */

const char *cdz_args_word(cdz_args *a)
{
    return a->next_word < a->n_words ? a->words[a->next_word++] : NULL;
}

bool cdz_args_take_model(cdz_args *a, const char **model)
{
    const char *word = cdz_args_word(a);
    *model = a->model ? a->model : word;
    if (!a->model || !word) return true;
    if (strpbrk(word, " \t\n"))
        cdz_args_refuse(a, "unexpected argument '%.60s'; did you mean -p '%.60s'?", word, word);
    else
        cdz_args_refuse(a, "the model is given twice: as -m %s and as '%s'", a->model, word);
    return false;
}

bool cdz_args_end(cdz_args *a)
{
    const char *word = cdz_args_word(a);
    if (!word) return true;
    if (strpbrk(word, " \t\n"))
        cdz_args_refuse(a, "unexpected argument '%.60s'; did you mean -p '%.60s'?", word, word);
    else
        cdz_args_refuse(a, "unexpected argument '%s'%s", word,
                        a->page->takes & CDZ_TAKES_MODEL ? " after the model" : "");
    return false;
}
