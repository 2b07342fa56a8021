/* cli.c - sentences, common options, small readers. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Names and texts from files may hold anything; a terminal is not told to do things by them. */
static void put_printable(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c < 0x20 && c != '\n') || c == 0x7F)
            fprintf(stderr, "\\x%02x", c);
        else
            fputc(c, stderr);
    }
}

void cdz_cli_say(const char *fmt, ...)
{
    char text[2 * CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fputs("cadenza: ", stderr);
    put_printable(text);
    fputc('\n', stderr);
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

enum { MAX_OPTION_NAMES = 64 };

/* "--name" that no row has, or the beginning of several. */
static void say_unknown_name(const char *command, const char *word, const struct option *table)
{
    const char *names[MAX_OPTION_NAMES], *starts = NULL;
    size_t n = 0, len = strcspn(word + 2, "=");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), word + 2);
    for (; table->name && n < MAX_OPTION_NAMES; table++) {
        names[n++] = table->name;
        if (strncmp(table->name, name, len) != 0) continue;
        if (starts) {
            cdz_cli_misuse(command, "--%s may be --%s or --%s", name, starts, table->name);
            return;
        }
        starts = table->name;
    }
    const char *near = cdz_nearest_name(name, names, n);
    if (near)
        cdz_cli_misuse(command, "--%s is not an option; did you mean --%s?", name, near);
    else
        cdz_cli_misuse(command, "--%s is not an option", name);
}

int cdz_cli_next_option(const char *command, int argc, char **argv, const char *letters,
                        const struct option *table)
{
    opterr = 0; /* the sentences are ours */
    const int opt = getopt_long(argc, argv, letters, table, NULL);
    if (opt != '?' && opt != ':') return opt;
    /* optopt: 0 for an unknown name, else a letter or the val of a row */
    const char *word = argv[optind - 1];
    const bool named = strncmp(word, "--", 2) == 0;
    if (opt == ':' && named)
        cdz_cli_misuse(command, "%s needs a value", word);
    else if (opt == ':')
        cdz_cli_misuse(command, "-%c needs a value", optopt);
    else if (optopt == 0)
        say_unknown_name(command, word, table);
    else if (named && strchr(word, '='))
        cdz_cli_misuse(command, "%.*s takes no value", (int)strcspn(word, "="), word);
    else
        cdz_cli_misuse(command, "-%c is not an option", optopt);
    return '?';
}

const char cdz_cli_common_help[] =
    "Decoding:\n"
    "  --pipeline FILE          an ini file: strategy, processors, stopping, settings\n"
    "  -s, --set NAME=VALUE     a generation parameter (temperature=0.7) or SECTION.NAME=VALUE;\n"
    "                           wins over the file; may be repeated\n"
    "  --seed N                 short for -s seed=N\n"
    "  --custom-generate PATH   replace the decode loop by a package folder, a .so, a\n"
    "                           .lua file or a plugin id\n"
    "  --assistant FOLDER       a draft model for strategies that use one\n"
    "  --plugin PATH            load a plugin file or package folder; may be repeated\n"
    "  --safe-mode              built-in plugins only\n"
    "  --log LEVEL              what plugins log, to stderr: debug, info (the default; print() of a\n"
    "                           Lua script is info), warning or none\n"
    "  --allow-model-plugins    let the model's own custom_generate script replace the loop\n"
    "  --timeout SECONDS        end each request after that time, with what it has\n"
    "Machine:\n"
    "  --device NAME            what computes: cpu (the default), cuda, cuda:1 for the second one, or\n"
    "                           auto: a device there is, else the CPU\n"
    "  --precision KIND         how a device computes: f32 as the CPU does, or auto: faster where\n"
    "                           weights are 16 bits wide; f32 in parity\n"
    "  --determinism KIND       strict: a row's bits hang on the row alone, on a device too; or\n"
    "                           default; strict in parity\n"
    "  --quantize TYPE          the model's weights in blocks, made at load: q8_0, q4_0, q4_1, q5_0,\n"
    "                           q5_1, q2_k to q6_k, nf4, fp4 or int8\n"
    "  --activations KIND       what quantised weights meet: int8 (faster), f32 (as if they were\n"
    "                           plain), or auto: int8 where the type has it, f32 in parity;\n"
    "                           bf16: as auto, and weights in bf16 meet bf16, which may make\n"
    "                           prompts faster\n"
    "  --threads N              threads for the kernels; default: the physical cores\n"
    "  --numa KIND              spread: threads and memory evenly over the nodes of a machine that has\n"
    "                           several; or off, the default\n"
    "  --kv-cache TYPE          what KV caches hold: f32; f16 or bf16, which take half; or q8_0,\n"
    "                           which takes little more than a quarter\n"
    "  --kv-memory SIZE         memory for KV caches, as 512M or 2G; default: a quarter of all,\n"
    "                           or what a device has free\n";

bool cdz_cli_parse_size(const char *text, uint64_t *bytes)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || errno || text[0] == '-') return false;
    unsigned shift = 0;
    switch (*end) {
    case 'k':
    case 'K':
        shift = 10;
        end++;
        break;
    case 'm':
    case 'M':
        shift = 20;
        end++;
        break;
    case 'g':
    case 'G':
        shift = 30;
        end++;
        break;
    default: break;
    }
    if (*end == 'B') end++;
    if (*end || value > UINT64_MAX >> shift) return false;
    *bytes = (uint64_t)value << shift;
    return true;
}

static bool push(const char ***list, uint32_t *n, const char *value)
{
    const char **grown = realloc((void *)*list, (*n + 1) * sizeof *grown);
    if (!grown) return false;
    grown[(*n)++] = value;
    *list = grown;
    return true;
}

static bool take_number(const char *value, double low, double high, double *out)
{
    char *end;
    *out = strtod(value, &end);
    return end != value && !*end && isfinite(*out) && *out >= low && *out <= high;
}

/* --- what plugins log ---------------------------------------------------------------------------------- */

/* "debug", "info" and "warning" are numbered as cdz_log_level; "none" is above all. */
static const char *const log_levels[] = {"debug", "info", "warning", "none"};
enum { N_LOG_LEVELS = sizeof log_levels / sizeof log_levels[0] };

static bool is_log_level(const char *word)
{
    for (size_t i = 0; i < N_LOG_LEVELS; i++)
        if (strcmp(word, log_levels[i]) == 0) return true;
    return false;
}

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
    static cdz_cli_log *const by_level[] = {log_all, log_info, log_warnings, NULL};
    for (size_t i = 0; options->log && i < N_LOG_LEVELS; i++)
        if (strcmp(options->log, log_levels[i]) == 0) return by_level[i];
    return log_info;
}

bool cdz_cli_take_option(cdz_cli_options *o, int opt, const char *value, const char *command,
                         int *status)
{
    double number;
    *status = CDZ_EXIT_OK;
    switch (opt) {
    case CDZ_OPT_PIPELINE: o->pipeline = value; return true;
    case CDZ_OPT_CUSTOM_GENERATE: o->custom_generate = value; return true;
    case CDZ_OPT_ASSISTANT: o->assistant = value; return true;
    case CDZ_OPT_QUANTIZE: o->quantize = value; return true;
    case CDZ_OPT_ACTIVATIONS: o->activations = value; return true;
    case CDZ_OPT_DEVICE: o->device = value; return true;
    case CDZ_OPT_PRECISION: o->precision = value; return true;
    case CDZ_OPT_DETERMINISM: o->determinism = value; return true;
    case CDZ_OPT_SAFE_MODE: o->safe_mode = true; return true;
    case CDZ_OPT_DEV: o->dev = true; return true;
    case CDZ_OPT_LOG:
        if (is_log_level(value)) {
            o->log = value;
            return true;
        }
        *status = cdz_cli_misuse(command, "--log %s: expected debug, info, warning or none", value);
        return false;
    case CDZ_OPT_ALLOW_MODEL_PLUGINS: o->allow_model_plugins = true; return true;
    case CDZ_OPT_PLUGIN: return push(&o->plugins, &o->n_plugins, value);
    case CDZ_OPT_SEED:
        value = cdz_arena_printf(&o->kept, "seed=%s", value);
        return value && push(&o->settings, &o->n_settings, value);
    case 's':
        if (!strchr(value, '=') || value[0] == '=') {
            *status = cdz_cli_misuse(command, "-s %s: expected NAME=VALUE", value);
            return false;
        }
        return push(&o->settings, &o->n_settings, value);
    case CDZ_OPT_THREADS:
        if (take_number(value, 1, 1024, &number) && number == floor(number)) {
            o->n_threads = (uint32_t)number;
            return true;
        }
        *status = cdz_cli_misuse(command, "--threads %s: expected a number from 1 to 1024", value);
        return false;
    case CDZ_OPT_KV_MEMORY:
        if (cdz_cli_parse_size(value, &o->kv_bytes) && o->kv_bytes > 0) return true;
        *status =
            cdz_cli_misuse(command, "--kv-memory %s: expected a size such as 512M or 2G", value);
        return false;
    case CDZ_OPT_KV_CACHE: o->kv_cache = value; return true;
    case CDZ_OPT_NUMA: o->numa = value; return true;
    case CDZ_OPT_TIMEOUT:
        if (take_number(value, 0.001, 1e9, &o->timeout_s)) return true;
        *status = cdz_cli_misuse(command, "--timeout %s: expected seconds above 0", value);
        return false;
    case '?': /* cdz_cli_next_option has said what is wrong */
        *status = CDZ_EXIT_USAGE;
        return false;
    default: return false;
    }
}

void cdz_cli_options_free(cdz_cli_options *options)
{
    free((void *)options->settings);
    free((void *)options->plugins);
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
        char *grown = realloc(data, cap * 2 + 1);
        if (!grown) free(data);
        data = grown;
        cap *= 2;
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
