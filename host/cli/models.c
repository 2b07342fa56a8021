/* models.c - which model a word means: a path, a name in $CADENZA_MODELS, or one in the Hugging Face cache; what to say when
 * it is none; and `cadenza model list`. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "config/generation.h"

/* --- what a path is ------------------------------------------------------------------------------------------------------ */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_file(const char *folder, const char *name)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

/* Folders that hold a tokenizer or a template alone are models for some commands. */
static bool is_model_folder(const char *path)
{
    return has_file(path, "config.json") || has_file(path, "tokenizer.json") ||
           has_file(path, "generation_config.json") || has_file(path, "tokenizer_config.json");
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* --- places of models ---------------------------------------------------------------------------------------------------- */

typedef struct model_visit {
    bool (*see)(void *user, const char *name, const char *path); /* false: enough */
    void *user;
} model_visit;

/* The models right below a folder: folders and GGUF files. False: the visitor has had enough. */
static bool each_below(const char *folder, const model_visit *v)
{
    struct dirent **names;
    const int n = scandir(folder, &names, NULL, alphasort);
    bool on = true;
    for (int i = 0; i < n; i++) {
        char path[4096];
        const char *name = names[i]->d_name;
        const int len = snprintf(path, sizeof path, "%s/%s", folder, name);
        const bool fits = len > 0 && (size_t)len < sizeof path;
        if (on && fits && name[0] != '.' &&
            (ends_in(name, ".gguf") || (is_folder(path) && is_model_folder(path))))
            on = v->see(v->user, name, path);
        free(names[i]);
    }
    if (n >= 0) free((void *)names);
    return on;
}

/* "$CADENZA_MODELS/a", a folder at a time; false: there are no more. */
static bool next_place(const char **list, char *folder, size_t bytes)
{
    while (*list && **list) {
        const size_t len = strcspn(*list, ":");
        const char *start = *list;
        *list += len + ((*list)[len] == ':');
        const int n = snprintf(folder, bytes, "%.*s", (int)len, start);
        if (len && n > 0 && (size_t)n < bytes) return true;
    }
    return false;
}

/* The snapshot that a cached repository stands for: what refs/main names, else the only one. */
static bool snapshot_of(const char *repository, char *path, size_t bytes)
{
    char file[4096], *ref = NULL;
    size_t len = 0;
    if ((size_t)snprintf(file, sizeof file, "%s/refs/main", repository) >= sizeof file)
        return false;
    if (cdz_file_read(file, 256, &ref, &len, NULL) == CDZ_OK) {
        ref[strcspn(ref, " \r\n")] = '\0';
        const int n = snprintf(path, bytes, "%s/snapshots/%s", repository, ref);
        const bool good = n > 0 && (size_t)n < bytes && !strchr(ref, '/') && is_folder(path);
        free(ref);
        if (good) return true;
    }
    if ((size_t)snprintf(file, sizeof file, "%s/snapshots", repository) >= sizeof file)
        return false;
    DIR *dir = opendir(file);
    unsigned found = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        const int n = snprintf(path, bytes, "%s/%s", file, e->d_name);
        found += n > 0 && (size_t)n < bytes;
    }
    if (dir) closedir(dir);
    return found == 1;
}

/* "models--org--name" as "org/name" into name; false: it is no model's. */
static bool cached_name(const char *folder, char *name, size_t bytes)
{
    static const char head[] = "models--";
    if (strncmp(folder, head, sizeof head - 1) != 0) return false;
    snprintf(name, bytes, "%s", folder + sizeof head - 1);
    char *dashes = strstr(name, "--");
    if (!dashes) return true;
    *dashes = '/';
    memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    return true;
}

static void each_cached(const model_visit *v)
{
    char hub[4096], path[8192], repository[8192], name[300];
    struct dirent **names;
    if (!cdz_env_hub_cache(hub, sizeof hub)) return;
    const int n = scandir(hub, &names, NULL, alphasort);
    bool on = true;
    for (int i = 0; i < n; i++) {
        snprintf(repository, sizeof repository, "%s/%s", hub, names[i]->d_name);
        if (on && cached_name(names[i]->d_name, name, sizeof name) &&
            snapshot_of(repository, path, sizeof path))
            on = v->see(v->user, name, path);
        free(names[i]);
    }
    if (n >= 0) free((void *)names);
}

/* --- finding a name ------------------------------------------------------------------------------------------------------ */

typedef struct wanted {
    const char *name;
    char *path;
    size_t bytes;
    bool found;
} wanted;

static bool same_name(void *user, const char *name, const char *path)
{
    wanted *w = user;
    const size_t len = strlen(name) - (ends_in(name, ".gguf") ? strlen(".gguf") : 0);
    if (strcmp(name, w->name) != 0 && (strlen(w->name) != len || strncmp(name, w->name, len) != 0))
        return true;
    const int n = snprintf(w->path, w->bytes, "%s", path);
    w->found = n > 0 && (size_t)n < w->bytes;
    return false;
}

static bool find_named(const char *name, char *path, size_t bytes)
{
    wanted w = {name, path, bytes, false};
    const model_visit visit = {same_name, &w};
    const char *places = cdz_env_models();
    char folder[4096];
    while (!w.found && next_place(&places, folder, sizeof folder)) {
        const int n = snprintf(path, bytes, "%s/%s", folder, name);
        if (n > 0 && (size_t)n < bytes && access(path, F_OK) == 0) return true;
        each_below(folder, &visit);
    }
    if (!w.found) each_cached(&visit);
    return w.found;
}

/* --- what to say --------------------------------------------------------------------------------------------------------- */

static void say_download(const char *name, const char *lead)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    cdz_cli_say(
        "%s%sCadenza does not download: `hf download %s --local-dir %s`, then `cadenza run %s`",
        name, lead, name, last, last);
}

/* "https://huggingface.co/org/name/tree/main" -> "org/name" */
static void say_url(const char *url)
{
    char name[300];
    const char *at = strstr(url, "://") + 3;
    at += strcspn(at, "/");
    at += *at == '/';
    size_t len = strcspn(at, "/?#");
    if (at[len] == '/') len += 1 + strcspn(at + len + 1, "/?#");
    if (len == 0) {
        cdz_cli_say("%s: Cadenza does not download; MODEL is a folder or a GGUF file", url);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)len, at);
    say_download(name, ": ");
}

static bool is_setting(const char *word)
{
    const size_t len = strcspn(word, "=");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : 63), word);
    return word[len] == '=' && (cdz_generation_slot(name) >= 0 || cdz_habit_find(name, len));
}

static void say_missing(const char *model)
{
    const char *slash = strchr(model, '/');
    if (strstr(model, "://"))
        say_url(model);
    else if (strpbrk(model, " \t\n"))
        cdz_cli_say("'%.60s%s' is no model; did you mean -p '%.60s%s'?", model,
                    strlen(model) > 60 ? "..." : "", model, strlen(model) > 60 ? "..." : "");
    else if (is_setting(model))
        cdz_cli_say("%s is no model; did you mean -s %s?", model, model);
    else if (slash && slash != model && model[0] != '.' && model[0] != '~' &&
             !strchr(slash + 1, '/') && slash[1] && !ends_in(model, ".gguf") &&
             !ends_in(model, ".safetensors"))
        say_download(model, " is neither here nor in the Hugging Face cache. ");
    else if (!slash && !strchr(model, '.'))
        cdz_cli_say(
            "%s: no such model folder; `cadenza model list` lists what is here. Cadenza does not "
            "download: `hf download ORG/NAME --local-dir NAME`, then `cadenza run NAME`",
            model);
    else
        cdz_cli_say("%s: no such model folder or GGUF file", model);
}

/* "models/a, models/b" of what lies below a folder that is no model. */
typedef struct below {
    cdz_buf names;
    unsigned n;
} below;

static bool list_below(void *user, const char *name, const char *path)
{
    (void)name;
    below *b = user;
    if (b->n < 4)
        cdz_buf_printf(&b->names, "%s%s", b->n ? ", " : "", path);
    else if (b->n == 4)
        cdz_buf_puts(&b->names, ", ...");
    b->n++;
    return true;
}

/* Whether a path that is there can be a model; it is said when not. */
static bool can_be_model(const char *path)
{
    below b = {0};
    if (is_folder(path)) {
        if (is_model_folder(path)) return true;
        const model_visit visit = {list_below, &b};
        char bare[4096];
        snprintf(bare, sizeof bare, "%s", path);
        for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--) bare[n - 1] = '\0';
        each_below(bare, &visit);
        if (b.n == 1)
            cdz_cli_say("%s holds a model and is none: cadenza run %s", path, b.names.data);
        else if (b.n)
            cdz_cli_say("%s holds %u models and is none: %s", path, b.n, b.names.data);
        const bool good = b.n == 0;
        cdz_buf_free(&b.names);
        return good; /* what is missing is said by who looks for it */
    }
    if (!ends_in(path, ".safetensors") && !ends_in(path, ".bin") && !ends_in(path, ".json"))
        return true;
    const char *slash = strrchr(path, '/');
    if (slash)
        cdz_cli_say("%s: its folder is the model: cadenza run %.*s", path, (int)(slash - path),
                    path);
    else
        cdz_cli_say("%s: its folder is the model: cadenza run .", path);
    return false;
}

const char *cdz_cli_model_folder(const char *model, char *path, size_t bytes)
{
    if (!model && cdz_cli_shipped_model(path, bytes)) return path;
    if (!model) {
        cdz_cli_say(
            "no MODEL was given, and the shipped one is not in ../share/cadenza/models beside "
            "the program");
        return NULL;
    }
    if (access(model, F_OK) == 0) return can_be_model(model) ? model : NULL;
    if (find_named(model, path, bytes)) return can_be_model(path) ? path : NULL;
    say_missing(model);
    return NULL;
}

/* --- model list ---------------------------------------------------------------------------------------------------------- */

static bool print_model(void *user, const char *name, const char *path)
{
    unsigned *n = user;
    printf("%-40s %s\n", name, path);
    (*n)++;
    return true;
}

int cdz_cli_model_list(void)
{
    char path[4096];
    unsigned n = 0;
    const model_visit visit = {print_model, &n};
    const char *places = cdz_env_models();
    if (cdz_cli_shipped_model(path, sizeof path)) print_model(&n, "(the shipped model)", path);
    while (next_place(&places, path, sizeof path)) each_below(path, &visit);
    each_cached(&visit);
    if (n == 0) puts("there are no models in $CADENZA_MODELS and in the Hugging Face cache");
    return CDZ_EXIT_OK;
}
