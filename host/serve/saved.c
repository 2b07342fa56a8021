/* saved.c - prefix caches in files (saved.h). The format is run/pass/kv_file.h's; here are places, names, and who may have them:
 * of a server with keys each key has names of its own, and blocks are found under the key's salt alone, wherever they come from. */
#include "serve/saved.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/prompts.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/write.h"
#include "kernels.h"
#include "serve/exchange.h"

enum { MOST_NAMES = 256, NAME_BYTES = 64, OWNER_DIGITS = 16 };

static const char ending[] = ".kv";

/* --- places -------------------------------------------------------------------------------------------------------- */

cdz_status cdz_serve_saved_check(const cdz_serve_rules *rules, cdz_error *err)
{
    struct stat s;
    if (rules->kv_save) CDZ_TRY(cdz_write_may(rules->kv_save, 0, err));
    if (!rules->kv_folder || (stat(rules->kv_folder, &s) == 0 && S_ISDIR(s.st_mode))) return CDZ_OK;
    return cdz_err(err, CDZ_E_IO, "kv_folder %s: is no folder", rules->kv_folder);
}

/* FILE.ID, what is no letter, digit, dot, dash or line below as %XX: no two ids have one file. */
static char *file_of(const char *file, const char *id)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    cdz_buf path = {0};
    cdz_buf_printf(&path, "%s.", file);
    for (const char *c = id; *c; c++)
        if (strchr(plain, *c))
            cdz_buf_putc(&path, *c);
        else
            cdz_buf_printf(&path, "%%%02X", (unsigned)(unsigned char)*c);
    if (!path.failed) return path.data;
    cdz_buf_free(&path);
    return NULL;
}

bool cdz_serve_saved_places(const cdz_serve_rules *rules, size_t i, cdz_saved_places *out)
{
    const char *file = rules->kv_save, *folder = rules->kv_folder;
    *out = (cdz_saved_places){0};
    if (file) out->file = i ? file_of(file, rules->models[i].id) : strdup(file);
    if (folder) out->folder = strdup(folder);
    if ((!file || out->file) && (!folder || out->folder)) return true;
    cdz_serve_saved_free(out);
    return false;
}

bool cdz_serve_saved_copy(const cdz_saved_places *from, cdz_saved_places *out)
{
    return cdz_serve_saved_places(
        &(const cdz_serve_rules){.kv_save = from->file, .kv_folder = from->folder}, 0, out);
}

void cdz_serve_saved_free(cdz_saved_places *places)
{
    free(places->file);
    free(places->folder);
    *places = (cdz_saved_places){0};
}

/* --- models come and go ------------------------------------------------------------------------------------------------ */

static void say_blocks(cdz_serve *serve, const char *id, uint32_t n, const char *what,
                       const char *path)
{
    cdz_buf line = {0};
    cdz_buf_printf(&line, "model %s: %u blocks of its prefix cache %s %s", id, (unsigned)n, what,
                   path);
    if (!line.failed) cdz_serve_remark(serve, line.data);
    cdz_buf_free(&line);
}

static void say_trouble(cdz_serve *serve, const char *id, const cdz_error *err, const char *so)
{
    cdz_buf line = {0};
    cdz_buf_printf(&line, "model %s: %s%s", id, err->text, so);
    if (!line.failed) cdz_serve_remark(serve, line.data);
    cdz_buf_free(&line);
}

/* own: the model's own file; of those with names the ones of other models are somebody else's. */
static void read_one(cdz_serve *serve, const char *id, cdz_model *model, const char *path, bool own)
{
    uint32_t n = 0;
    cdz_error err = {0};
    const cdz_status status = cdz_model_load_prompts(model, path, &n, &err);
    if (status == CDZ_OK)
        say_blocks(serve, id, n, "were read from", path);
    else if (own || status != CDZ_E_NOT_FOUND)
        say_trouble(serve, id, &err, "; nothing of it is used");
}

static bool is_saved(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name), m = sizeof ending - 1;
    return n > m && entry->d_name[0] != '.' && strcmp(entry->d_name + n - m, ending) == 0;
}

static int keep_saved(const struct dirent *entry)
{
    return is_saved(entry);
}

static void free_entries(struct dirent **entries, int n)
{
    for (int i = 0; i < n; i++) free(entries[i]);
    free(entries);
}

static void read_folder(cdz_serve *serve, const char *id, cdz_model *model, const char *folder)
{
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, keep_saved, alphasort);
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0) break;
        read_one(serve, id, model, path, false);
        free(path);
    }
    free_entries(entries, n < 0 ? 0 : n);
}

void cdz_serve_saved_read(cdz_serve *serve, const char *id, cdz_model *model,
                          const cdz_saved_places *places)
{
    if (places->file && access(places->file, F_OK) == 0)
        read_one(serve, id, model, places->file, true);
    if (places->folder) read_folder(serve, id, model, places->folder);
}

cdz_status cdz_serve_saved_write(cdz_serve *serve, const char *id, cdz_model *model,
                                 const cdz_saved_places *places)
{
    uint32_t n = 0;
    cdz_error err = {0};
    if (!places->file) return CDZ_OK;
    const cdz_status status = cdz_model_save_prompts(model, places->file, NULL, NULL, 0, &n, &err);
    if (status == CDZ_OK)
        say_blocks(serve, id, n, "are kept in", places->file);
    else
        say_trouble(serve, id, &err, "");
    return status == CDZ_E_UNSUPPORTED ? CDZ_OK : status;
}

/* --- names ------------------------------------------------------------------------------------------------------------- */

/* What the names of this request's key begin with in the folder. */
static void owner_of(const cdz_http_exchange *e, char out[OWNER_DIGITS + 3])
{
    char text[CDZ_SHA256_HEX + 16], digits[CDZ_SHA256_HEX];
    out[0] = '\0';
    if (!e->key[0]) return;
    snprintf(text, sizeof text, "kv_folder:%s", e->key);
    cdz_sha256_hex(text, strlen(text), digits);
    snprintf(out, OWNER_DIGITS + 3, "@%.*s-", OWNER_DIGITS, digits);
}

/* The server's folder (free it); NULL: it has none, and the fault says so. */
static char *folder_of(cdz_http_exchange *e)
{
    cdz_serve *serve = e->serve;
    cdz_mutex_lock(&serve->rules_lock);
    const char *folder = serve->rules->is.kv_folder;
    char *own = folder ? strdup(folder) : NULL;
    cdz_mutex_unlock(&serve->rules_lock);
    if (!folder)
        cdz_serve_fault_set(&e->fault, 404, NULL, NULL,
                            "this server keeps no prefix caches by name; --kv-folder has it do so");
    else if (!own)
        cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory");
    return own;
}

static const char *name_of(const cdz_http_exchange *e)
{
    return e->path + strlen(e->route->path);
}

/* The file of the name in the path (free it); NULL: the fault says why. */
static char *path_of(cdz_http_exchange *e, const char *folder)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
                      others[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = name_of(e);
    char owner[OWNER_DIGITS + 3], *path = NULL;
    const size_t n = strlen(name);
    if (n > NAME_BYTES || !strspn(name, first) || strspn(name, others) != n) {
        cdz_serve_fault_set(&e->fault, 400, NULL, NULL,
                            "a name has 1 to %d letters, digits, dots, dashes and underscores, "
                            "a letter or digit first",
                            NAME_BYTES);
        return NULL;
    }
    owner_of(e, owner);
    if (asprintf(&path, "%s/%s%s%s", folder, owner, name, ending) >= 0) return path;
    cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory");
    return NULL;
}

/* Whether a file of the folder has one of this owner's names. */
static bool is_of(const char *file, const char *owner)
{
    return *owner ? strncmp(file, owner, strlen(owner)) == 0 : *file != '@';
}

/* Of the key's names, in their order. */
static void put_one(const char *folder, const char *file, const char *owner, cdz_buf *out)
{
    struct stat s;
    char *path = NULL;
    const size_t n = strlen(owner);
    if (!is_of(file, owner)) return;
    if (asprintf(&path, "%s/%s", folder, file) < 0) {
        out->failed = true;
        return;
    }
    if (stat(path, &s) == 0) {
        if (out->data[out->len - 1] != '[') cdz_buf_putc(out, ',');
        cdz_buf_puts(out, "{\"id\":");
        cdz_json_write_string(out, file + n, strlen(file) - n - (sizeof ending - 1));
        cdz_buf_printf(out, ",\"object\":\"kv\",\"bytes\":%lld,\"created\":%lld}",
                       (long long)s.st_size, (long long)s.st_mtime);
    }
    free(path);
}

static bool list(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    struct dirent **entries = NULL;
    char owner[OWNER_DIGITS + 3], *folder = folder_of(e);
    (void)body;
    if (!folder) return false;
    owner_of(e, owner);
    const int n = scandir(folder, &entries, keep_saved, alphasort);
    cdz_buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < n && !out->failed; i++) put_one(folder, entries[i]->d_name, owner, out);
    cdz_buf_puts(out, "]}");
    free_entries(entries, n < 0 ? 0 : n);
    free(folder);
    return n >= 0 || cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "the folder cannot be read");
}

void cdz_serve_saved_list(cdz_http_exchange *e)
{
    cdz_serve_with_body(e, list);
}

static bool remove_one(cdz_http_exchange *e, const char *folder, const char *path, cdz_buf *out)
{
    if (unlink(path) != 0)
        return errno == ENOENT ? cdz_serve_fault_set(&e->fault, 404, NULL, NULL,
                                                     "there is no prefix cache of that name")
                               : cdz_serve_fault_set(&e->fault, 500, NULL, NULL,
                                                     "it cannot be removed: %s", strerror(errno));
    cdz_write_sync_folder(folder);
    cdz_buf_printf(out, "{\"id\":\"%s\",\"object\":\"kv\",\"deleted\":true}", name_of(e));
    return true;
}

static bool answer_delete(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    char *folder = folder_of(e), *path = folder ? path_of(e, folder) : NULL;
    (void)body;
    const bool good = path && remove_one(e, folder, path, out);
    free(path);
    free(folder);
    return good;
}

void cdz_serve_saved_delete(cdz_http_exchange *e)
{
    cdz_serve_with_body(e, answer_delete);
}

/* --- keeping ------------------------------------------------------------------------------------------------------------- */

typedef struct keeping {
    cdz_http_exchange *exchange;
    char *folder, *path;
    cdz_buf salt;
    int32_t *ids; /* (n) of the prompt; NULL: all that is cached under the salt */
    size_t n;
} keeping;

/* Without a prompt all that is cached is kept: a misspelt one must not ask for that. */
static bool check_names(keeping *k, const cdz_json *body)
{
    static const char *const names[] = {"model", "cache_salt", "prompt", "messages"};
    enum { N_NAMES = sizeof names / sizeof *names };
    for (uint32_t i = 0; i < body->len; i++) {
        const char *name = body->members[i].key;
        size_t known = 0;
        while (known < N_NAMES && strcmp(name, names[known]) != 0) known++;
        if (known < N_NAMES) continue;
        const char *near = cdz_nearest_name(name, names, N_NAMES);
        return cdz_serve_fault_set(
            &k->exchange->fault, 400, name, NULL, "'%.40s' is not known here%s%s%s", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    return true;
}

static bool read_prompt(keeping *k, const cdz_json *body)
{
    cdz_http_exchange *e = k->exchange;
    const cdz_json *prompt = cdz_ask_field(body, "prompt");
    if (!cdz_ask_model(&e->served->world, body, &e->fault)) return false;
    if (!prompt && !cdz_ask_field(body, "messages")) return check_names(k, body);
    const bool is_list = cdz_json_is(prompt, CDZ_JSON_ARRAY);
    if (is_list ? !cdz_ask_ids(&e->served->world, prompt, "prompt", &k->ids, &k->n, &e->fault)
                : !cdz_serve_tokenize(e, body, &k->ids, &k->n))
        return false;
    if (k->n >= CDZ_KV_BLOCK) return true;
    return cdz_serve_fault_set(&e->fault, 400, "prompt", NULL,
                               "a prompt of %zu tokens: whole blocks of %d are kept", k->n,
                               CDZ_KV_BLOCK);
}

static bool read_salt(keeping *k, const cdz_json *body)
{
    cdz_http_exchange *e = k->exchange;
    const cdz_json *salt = cdz_ask_field(body, "cache_salt");
    if (salt && salt->type != CDZ_JSON_STRING)
        return cdz_serve_fault_set(&e->fault, 400, "cache_salt", NULL,
                                   "'cache_salt' must be a string");
    cdz_complete_salt(e, salt ? salt->string : NULL, &k->salt);
    return !k->salt.failed || cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory");
}

/* The request that computes the prompt, among the exchange's, so that it ends when nobody waits any more. */
static bool compute(keeping *k)
{
    cdz_http_exchange *e = k->exchange;
    cdz_buf json = {0};
    cdz_error err = {0};
    uint64_t id = 0;
    cdz_generation_run *run = calloc(1, sizeof *run);
    cdz_buf_puts(&json, "{\"prompt_ids\":[[");
    cdz_ask_write_ids(&json, k->ids, k->n);
    cdz_buf_puts(&json, "]],\"kwargs\":{\"max_new_tokens\":1,\"do_sample\":false}}");
    const cdz_request request = {.size = sizeof request,
                                 .model = e->served->model,
                                 .json = json.data,
                                 .cache_salt = k->salt.data};
    cdz_status status = json.failed || !run
                            ? cdz_err_memory(&err, "the prompt")
                            : cdz_submit(e->serve->options.runtime, &request, &id, &err);
    cdz_buf_free(&json);
    cdz_mutex_lock(&e->lock);
    if (run) *run = (cdz_generation_run){.exchange = e, .id = id};
    e->runs = run;
    e->n_runs = run != NULL;
    const bool gone = e->gone;
    cdz_mutex_unlock(&e->lock);
    if (status == CDZ_OK && gone) cdz_cancel(e->serve->options.runtime, id, NULL);
    if (status == CDZ_OK) status = cdz_wait(e->serve->options.runtime, id, &run->result, &err);
    cdz_mutex_lock(&e->lock);
    if (run) run->done = true;
    cdz_mutex_unlock(&e->lock);
    return status == CDZ_OK || cdz_serve_fault_of(&e->fault, "prompt", &err);
}

/* How many names the request's key has. */
static int count_names(const keeping *k)
{
    struct dirent **entries = NULL;
    char owner[OWNER_DIGITS + 3];
    owner_of(k->exchange, owner);
    const int n = scandir(k->folder, &entries, keep_saved, NULL);
    int names = 0;
    for (int i = 0; i < n; i++) names += is_of(entries[i]->d_name, owner);
    free_entries(entries, n < 0 ? 0 : n);
    return names;
}

static bool check_room(keeping *k)
{
    if (access(k->path, F_OK) == 0 || count_names(k) < MOST_NAMES) return true;
    return cdz_serve_fault_set(&k->exchange->fault, 400, NULL, NULL,
                               "there are %d prefix caches already; remove one", MOST_NAMES);
}

/* What is said of files stays here: it names a path of the machine. */
static bool save(keeping *k, cdz_buf *out)
{
    cdz_http_exchange *e = k->exchange;
    uint32_t n = 0;
    cdz_error err = {0};
    const cdz_status status =
        cdz_model_save_prompts(e->served->model, k->path, k->salt.data, k->ids, k->n, &n, &err);
    if (status == CDZ_E_UNSUPPORTED) return cdz_serve_fault_of(&e->fault, "model", &err);
    if (status != CDZ_OK) {
        say_trouble(e->serve, e->served->id, &err, "");
        return cdz_serve_fault_set(&e->fault, 500, NULL, NULL,
                                   "the file could not be written; the server's log says why");
    }
    cdz_buf_printf(out, "{\"id\":\"%s\",\"object\":\"kv\",\"model\":", name_of(e));
    cdz_json_write_string(out, e->served->id, strlen(e->served->id));
    cdz_buf_printf(out, ",\"blocks\":%u,\"tokens\":%u}", (unsigned)n, (unsigned)n * CDZ_KV_BLOCK);
    return true;
}

/* One at a time. */
static bool take_turn(cdz_http_exchange *e)
{
    cdz_served_set *set = &e->serve->served;
    cdz_mutex_lock(&set->lock);
    const bool busy = set->keeps;
    set->keeps = true;
    cdz_mutex_unlock(&set->lock);
    return !busy || cdz_serve_fault_set(&e->fault, 429, NULL, NULL,
                                        "another prefix cache is being kept; try again");
}

static void end_turn(cdz_http_exchange *e)
{
    cdz_served_set *set = &e->serve->served;
    cdz_mutex_lock(&set->lock);
    set->keeps = false;
    cdz_mutex_unlock(&set->lock);
}

static bool keep(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    keeping k = {.exchange = e};
    if (!take_turn(e)) return false;
    k.folder = folder_of(e);
    if (k.folder) k.path = path_of(e, k.folder);
    const bool good = k.path && check_room(&k) && read_salt(&k, body) && read_prompt(&k, body) &&
                      (!k.ids || compute(&k)) && save(&k, out);
    cdz_buf_free(&k.salt);
    cdz_free(k.ids);
    free(k.path);
    free(k.folder);
    end_turn(e); /* before the answer: who has it may ask again */
    return good;
}

static void *keep_alone(void *user)
{
    cdz_http_exchange *e = user;
    cdz_serve *serve = e->serve;
    cdz_serve_with_body(e, keep);
    cdz_mutex_lock(&serve->served.lock);
    serve->served.n_loading--;
    pthread_cond_broadcast(&serve->served.changed);
    cdz_mutex_unlock(&serve->served.lock);
    return NULL;
}

/* On a thread of its own, since disks and prompts take long and workers are few. */
void cdz_serve_saved_put(cdz_http_exchange *e)
{
    pthread_t thread;
    cdz_serve *serve = e->serve;
    cdz_mutex_lock(&serve->served.lock);
    const bool runs = !serve->served.closing && pthread_create(&thread, NULL, keep_alone, e) == 0;
    if (runs) {
        pthread_detach(thread);
        serve->served.n_loading++;
    }
    cdz_mutex_unlock(&serve->served.lock);
    if (runs) return;
    cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "there is no thread for it now");
    cdz_serve_exchange_refuse(e);
    cdz_serve_exchange_release(e);
}
