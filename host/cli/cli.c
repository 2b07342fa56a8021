/* cli.c - sentences, common options, small readers. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/printable.h"

enum { SENTENCE = 2 * CDZ_ERROR_TEXT };

/* One write, so that lines of several threads, or programs, stay apart. */
void cdz_cli_say(const char *fmt, ...)
{
    static const char who[] = "cadenza: ";
    char text[SENTENCE], line[sizeof who + (size_t)CDZ_PRINTABLE_BYTES * (SENTENCE + 1)];
    unsigned char held = 0;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    memcpy(line, who, sizeof who - 1);
    size_t n = sizeof who - 1;
    n += cdz_printable(line + n, text, strlen(text), "\n", &held);
    line[n++] = '\n';
    fwrite(line, 1, n, stderr);
}

int cdz_cli_fail(const cdz_error *err)
{
    cdz_cli_say("%s", err->text);
    if (err->code == CDZ_E_USAGE) return CDZ_EXIT_USAGE;
    return err->code == CDZ_E_CANCELLED ? CDZ_EXIT_INTERRUPTED : CDZ_EXIT_FAILURE;
}

int cdz_cli_misuse(const char *command, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const size_t n = strlen(text);
    cdz_cli_say("%s: %s%s `cadenza %s --help`", command, text,
                n && text[n - 1] == '?' ? " See" : "; see", command);
    return CDZ_EXIT_USAGE;
}

/* --- options ----------------------------------------------------------------------------------------- */

static bool push(const char ***list, uint32_t *n, const char *value)
{
    const char **grown = realloc((void *)*list, (*n + 1) * sizeof *grown);
    if (!grown) return false;
    grown[(*n)++] = value;
    *list = grown;
    return true;
}

bool cdz_cli_add_setting(cdz_cli_options *o, const char *setting, const char *typed)
{
    char *copy = typed ? cdz_arena_strdup(&o->kept, typed) : NULL;
    char **grown = realloc(o->typed, (o->n_settings + 1) * sizeof *grown);
    if (!grown) return false;
    o->typed = grown;
    if (typed && !copy) return false;
    grown[o->n_settings] = copy;
    return push(&o->settings, &o->n_settings, setting);
}

void cdz_cli_as_typed(const cdz_cli_options *o, cdz_error *err)
{
    if (strncmp(err->text, "-s ", 3) != 0) return;
    const char *name = err->text + 3;
    const size_t len = strcspn(name, " =:");
    for (uint32_t i = o->n_settings; i > 0; i--) {
        const char *setting = o->settings[i - 1];
        if (strncmp(setting, name, len) != 0 || setting[len] != '=') continue;
        if (o->typed[i - 1]) cdz_err(err, err->code, "%s%s", o->typed[i - 1], name + len);
        return;
    }
}

/* "-s 42" was the seed of another program. */
static bool is_whole_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* --- what plugins log ---------------------------------------------------------------------------------- */

static void log_all(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    static const char *const marks[] = {"debug: ", "", "warning: "};
    cdz_session *session = user;
    if (session && atomic_exchange(&session->mid_line, false)) fputc('\n', stderr);
    cdz_cli_say("%s: %s%s", plugin, marks[level <= CDZ_LOG_WARNING ? level : CDZ_LOG_WARNING], text);
}

static void log_info(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    if (level >= CDZ_LOG_INFO) log_all(user, level, plugin, text);
}

static void log_warnings(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    if (level >= CDZ_LOG_WARNING) log_all(user, level, plugin, text);
}

cdz_cli_log *cdz_cli_log_for(const cdz_cli_options *options)
{
    /* The words of --log in their order: "debug", "info" and "warning" are numbered as cdz_log_level. */
    static cdz_cli_log *const by_level[] = {log_all, log_info, log_warnings, NULL};
    const char *level = options->host.program.log;
    uint32_t which;
    if (!level || cdz_setting_word(cdz_setting_named("log"), level, &which, NULL) != CDZ_OK)
        return log_info;
    return by_level[which];
}

bool cdz_cli_is_inline(const char *schema)
{
    return schema[strspn(schema, " \t\r\n")] == '{';
}

/* An option's value as the text of its parameter: files are named, and a pattern is quoted, so that its own quotes stay. */
static const char *parameter_text(cdz_cli_options *o, const char *name, const char *value)
{
    const bool grammar = strcmp(name, "gbnf") == 0 || strcmp(name, "lark") == 0;
    const bool schema = strcmp(name, "json_schema") == 0 || strcmp(name, "structural_tag") == 0;
    if (grammar || (schema && !cdz_cli_is_inline(value)))
        return cdz_arena_printf(&o->kept, "%s=file:%s", grammar ? "grammar" : name, value);
    if (strcmp(name, "regex") != 0) return cdz_arena_printf(&o->kept, "%s=%s", name, value);
    cdz_buf quoted = {0};
    cdz_json_write_string(&quoted, value, strlen(value));
    const char *text = quoted.failed ? NULL : cdz_arena_printf(&o->kept, "regex=%s", quoted.data);
    cdz_buf_free(&quoted);
    return text;
}

/* A parameter of the pipeline: --seed 5 is -s seed=5, and of -s NAME=VALUE the name is the parameter's. */
static bool take_parameter(cdz_cli_options *o, const cdz_setting *setting, const char *value,
                           const char *command, int *status)
{
    char typed[64];
    if (setting->flag.letter != 's') {
        snprintf(typed, sizeof typed, "--%s", setting->flag.name);
        value = parameter_text(o, setting->name, value);
        return value && cdz_cli_add_setting(o, value, typed);
    }
    if (strchr(value, '=') && value[0] != '=') return cdz_cli_add_setting(o, value, NULL);
    const bool seed = is_whole_number(value);
    *status = cdz_cli_misuse(command, "-s %s: expected NAME=VALUE%s%s", value,
                             seed ? "; a seed is --seed " : "", seed ? value : "");
    return false;
}

bool cdz_cli_take_setting(cdz_cli_options *o, const cdz_setting *setting, const char *value,
                          const char *command, int *status)
{
    cdz_error err = {0};
    *status = CDZ_EXIT_OK;
    if (setting->kind == CDZ_KIND_PARAMETER)
        return take_parameter(o, setting, value, command, status);
    if (cdz_settings_take(&o->host, setting, value, &err) == CDZ_OK) return true;
    if (err.code == CDZ_E_USAGE)
        *status = cdz_cli_misuse(command, "--%s %s: %s", setting->flag.name, value, err.text);
    return false;
}

void cdz_cli_options_free(cdz_cli_options *options)
{
    free((void *)options->settings);
    free(options->typed);
    cdz_settings_free(&options->host);
    cdz_arena_free(&options->kept);
    *options = (cdz_cli_options){0};
}

cdz_status cdz_cli_read_stream(FILE *file, const char *name, size_t max, char **text, size_t *len,
                               cdz_error *err)
{
    size_t cap = 65536, n = 0;
    char *data = malloc(cap + 1);
    while (data) {
        size_t got = fread(data + n, 1, cap - n, file);
        n += got;
        if (n < cap || n > max) break;
        cap = cap <= max / 2 ? cap * 2
                             : max + 1; /* one byte past the limit shows that it is passed */
        char *grown = realloc(data, cap + 1);
        if (!grown) free(data);
        data = grown;
    }
    cdz_status status = CDZ_OK;
    if (!data) {
        status = CDZ_E_NOMEM;
        snprintf(err->text, sizeof err->text, "%s: out of memory", name);
    } else if (ferror(file)) {
        status = CDZ_E_IO;
        snprintf(err->text, sizeof err->text, "%s: cannot be read: %s", name, strerror(errno));
    } else if (n > max) {
        status = CDZ_E_LIMIT;
        snprintf(err->text, sizeof err->text, "%s: longer than %zu bytes", name, max);
    }
    if (status != CDZ_OK) {
        err->code = status;
        free(data);
        return status;
    }
    data[n] = '\0';
    *text = data;
    *len = n;
    return CDZ_OK;
}

const char *cdz_cli_folder_of(const char *path, cdz_arena *arena)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash) return ".";
    const char *folder =
        slash == path ? "/" : cdz_arena_strndup(arena, path, (size_t)(slash - path));
    return folder ? folder : ".";
}
