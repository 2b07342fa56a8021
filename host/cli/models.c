/* models.c - which model a word means: a path, a name in $CADENZA_MODELS, one in a cache, or an id that is downloaded; what to
 * say when it is none; and the list of models. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/json.h"
#include "base/size_text.h"
#include "cli/cli.h"
#include "config/generation.h"
#include "hub/caches.h"
#include "hub/pull.h"

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
           has_file(path, "tokenizer.model") || has_file(path, "spiece.model") ||
           has_file(path, "source.spm") || has_file(path, "tekken.json") ||
           has_file(path, "generation_config.json") || has_file(path, "tokenizer_config.json");
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
            (cdz_ends_with(name, ".gguf") || (is_folder(path) && is_model_folder(path))))
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
    const size_t len = strlen(name) - (cdz_ends_with(name, ".gguf") ? strlen(".gguf") : 0);
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
    return w.found;
}

/* --- what to say --------------------------------------------------------------------------------------------------------- */

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
        cdz_cli_say("%s: an address is no MODEL; an id is, such as Qwen/Qwen3-0.6B", url);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)len, at);
    cdz_cli_say("%s: an address is no MODEL; its id is: cadenza run %s", url, name);
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
    if (strstr(model, "://"))
        say_url(model);
    else if (strpbrk(model, " \t\n"))
        cdz_cli_say("'%.60s%s' is no model; did you mean -p '%.60s%s'?", model,
                    strlen(model) > 60 ? "..." : "", model, strlen(model) > 60 ? "..." : "");
    else if (is_setting(model))
        cdz_cli_say("%s is no model; did you mean -s %s?", model, model);
    else if (!strchr(model, '/') && !strchr(model, '.'))
        cdz_cli_say(
            "%s: no such model folder; `cadenza list` lists what is here, `cadenza run ORG/NAME` "
            "downloads",
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
    if (!cdz_ends_with(path, ".safetensors") && !cdz_ends_with(path, ".bin") &&
        !cdz_ends_with(path, ".json"))
        return true;
    const char *slash = strrchr(path, '/');
    if (slash)
        cdz_cli_say("%s: its folder is the model: cadenza run %.*s", path, (int)(slash - path),
                    path);
    else
        cdz_cli_say("%s: its folder is the model: cadenza run .", path);
    return false;
}

/* --- ids ------------------------------------------------------------------------------------------------------------------- */

/* "org/name", and no path to a file of weights that is not there. */
static bool is_id(const char *model, cdz_hub_id *id)
{
    const char *colon = strchr(model, ':');
    if (!colon && (cdz_ends_with(model, ".gguf") || cdz_ends_with(model, ".safetensors")))
        return false;
    return cdz_hub_id_read(model, id, NULL) == CDZ_OK;
}

static const char *download(const cdz_program_settings *how, const char *model, cdz_cli_need need,
                            char *path, size_t bytes)
{
    cdz_hub_wish wish = {.revision = how->revision, .texts = need == CDZ_NEED_TEXTS};
    if (!is_id(model, &wish.id)) {
        say_missing(model);
    } else if (need == CDZ_NEED_HERE) {
        cdz_cli_say(
            "%s is neither here nor in a cache of this machine; `cadenza pull %s` downloads it",
            model, model);
    } else if (how->offline || cdz_env_hub_offline()) {
        cdz_cli_say(
            "%s is neither here nor in a cache of this machine, and --offline or HF_HUB_OFFLINE forbids "
            "to download it",
            model);
    } else if (cdz_cli_download(&wish, path, bytes) == CDZ_EXIT_OK) {
        return path;
    }
    return NULL;
}

/* In a cache, or, where that is allowed, brought there. A folder that lacks files is still one to speak of. */
static const char *from_hub(const cdz_program_settings *how, const char *model, cdz_cli_need need,
                            char *path, size_t bytes)
{
    cdz_hub_id id;
    const cdz_hub_state found =
        cdz_hub_find(model, how->revision, need == CDZ_NEED_TEXTS, path, bytes);
    const bool may = need != CDZ_NEED_HERE && !how->offline && !cdz_env_hub_offline();
    if (found == CDZ_HUB_HERE || (found == CDZ_HUB_PART && (!may || !is_id(model, &id))))
        return can_be_model(path) ? path : NULL;
    return download(how, model, need, path, bytes);
}

const char *cdz_cli_model_folder(const cdz_program_settings *how, const char *model,
                                 cdz_cli_need need, char *path, size_t bytes)
{
    cdz_error err = {0};
    if (!model && cdz_cli_shipped_model(path, bytes)) return path;
    if (!model) {
        cdz_cli_say(
            "no MODEL was given, and the shipped one is not in ../share/cadenza/models beside "
            "the program");
        return NULL;
    }
    if (how->revision && cdz_hub_check_revision(how->revision, &err) != CDZ_OK) {
        cdz_cli_fail(&err);
        return NULL;
    }
    if (access(model, F_OK) == 0) return can_be_model(model) ? model : NULL;
    if (find_named(model, path, bytes)) return can_be_model(path) ? path : NULL;
    return from_hub(how, model, need, path, bytes);
}

/* --- the list ---------------------------------------------------------------------------------------------------------------- */

typedef struct listed {
    bool json;
    unsigned n;
    const char *where;
    cdz_buf out;
} listed;

static void put_member(cdz_buf *out, const char *name, const char *value)
{
    cdz_buf_printf(out, "\"%s\": ", name);
    cdz_json_write_string(out, value, strlen(value));
    cdz_buf_puts(out, ", ");
}

static bool see_model(void *user, const cdz_hub_model *m)
{
    listed *l = user;
    cdz_size_text size;
    cdz_size_write(&size, m->bytes);
    l->n++;
    if (!l->json) {
        cdz_buf_printf(&l->out, "%-44s %10s  %-11s  %-15s %s\n", m->name, size.text, m->format,
                       m->where, m->path);
        return true;
    }
    cdz_buf_puts(&l->out, l->n > 1 ? ",\n {" : "\n {");
    put_member(&l->out, "id", m->name);
    put_member(&l->out, "format", m->format);
    put_member(&l->out, "where", m->where);
    put_member(&l->out, "path", m->path);
    cdz_buf_printf(&l->out, "\"bytes\": %llu}", (unsigned long long)m->bytes);
    return true;
}

static bool see_path(void *user, const char *name, const char *path)
{
    const listed *l = user;
    cdz_hub_model model = {.name = name, .where = l->where};
    cdz_hub_describe(path, &model);
    return see_model(user, &model);
}

static void list_all(listed *l)
{
    char path[4096];
    const model_visit visit = {see_path, l};
    const char *places = cdz_env_models();
    l->where = "shipped";
    if (cdz_cli_shipped_model(path, sizeof path)) see_path(l, "(the shipped model)", path);
    l->where = "$CADENZA_MODELS";
    while (next_place(&places, path, sizeof path)) each_below(path, &visit);
    cdz_hub_each(see_model, l);
}

int cdz_cli_model_list(bool json)
{
    listed l = {.json = json};
    if (json) cdz_buf_putc(&l.out, '[');
    list_all(&l);
    if (json) cdz_buf_puts(&l.out, l.n ? "\n]\n" : "]\n");
    if (!json && l.n == 0)
        cdz_buf_puts(
            &l.out,
            "there are no models in $CADENZA_MODELS and in the caches of Hugging Face, Ollama and "
            "llama.cpp\n");
    const bool good = !l.out.failed && l.out.data && fputs(l.out.data, stdout) != EOF;
    cdz_buf_free(&l.out);
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}
