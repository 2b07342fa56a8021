/* caches.c - the Hugging Face cache: repositories, revisions, and whether a snapshot is a whole model. */
#include "hub/caches.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/environment.h"
#include "base/file.h"
#include "hub/choose.h"

static const char head[] = "models--";

/* --- folders ------------------------------------------------------------------------------------------------- */

static bool join(char *out, size_t bytes, const char *folder, const char *name)
{
    const int n = snprintf(out, bytes, "%s/%s", folder, name);
    return n > 0 && (size_t)n < bytes;
}

static bool has(const char *folder, const char *name)
{
    char path[CDZ_HUB_PATH];
    return join(path, sizeof path, folder, name) && access(path, F_OK) == 0;
}

typedef struct walking {
    size_t root; /* bytes of the folder's path and its slash */
    cdz_hub_see_file *see;
    void *user;
} walking;

static bool walk(const walking *w, const char *folder, int depth)
{
    struct dirent **names;
    const int n = scandir(folder, &names, NULL, alphasort);
    bool on = true;
    for (int i = 0; i < n; i++) {
        char path[CDZ_HUB_PATH];
        struct stat s;
        if (on && names[i]->d_name[0] != '.' && join(path, sizeof path, folder, names[i]->d_name) &&
            stat(path, &s) == 0) {
            if (S_ISDIR(s.st_mode) && depth > 0)
                on = walk(w, path, depth - 1);
            else if (S_ISREG(s.st_mode))
                on = w->see(w->user, path + w->root, path, &s);
        }
        free(names[i]);
    }
    if (n >= 0) free((void *)names);
    return on;
}

bool cdz_hub_walk(const char *folder, int depth, cdz_hub_see_file *see, void *user)
{
    return walk(&(walking){strlen(folder) + 1, see, user}, folder, depth);
}

/* --- GGUF ---------------------------------------------------------------------------------------------------- */

typedef struct gguf_search {
    const char *wanted;
    char *path;
    size_t bytes;
    unsigned n;
    bool exact;
} gguf_search;

static bool see_gguf(void *user, const char *relative, const char *path, const struct stat *s)
{
    gguf_search *g = user;
    (void)s;
    if (!cdz_hub_is_gguf(relative) || (g->wanted[0] && !cdz_hub_file_fits(relative, g->wanted)))
        return true;
    const int n = snprintf(g->path, g->bytes, "%s", path);
    g->n += n > 0 && (size_t)n < g->bytes;
    g->exact = strcmp(relative, g->wanted) == 0;
    return !g->exact;
}

/* Of "a-00001-of-00003.gguf" all three. */
static bool has_all_parts(const char *path)
{
    static const char of[] = "-00001-of-00003.gguf";
    const size_t len = strlen(path);
    char part[CDZ_HUB_PATH];
    if (len < sizeof of || strncmp(path + len + 1 - sizeof of, of, 10) != 0) return true;
    const size_t at = len + 1 - sizeof of;
    const long n = strtol(path + at + strlen("-00001-of-"), NULL, 10);
    for (long i = 1; i <= n; i++) {
        const int bytes = snprintf(part, sizeof part, "%.*s-%05ld%s", (int)at, path, i,
                                   path + at + strlen("-00001"));
        if (bytes < 0 || (size_t)bytes >= sizeof part || access(part, F_OK) != 0) return false;
    }
    return true;
}

cdz_hub_state cdz_hub_find_gguf(const char *folder, const char *wanted, char *path, size_t bytes)
{
    gguf_search g = {wanted, path, bytes, 0, false};
    cdz_hub_walk(folder, 1, see_gguf, &g);
    if (g.n == 0) return CDZ_HUB_NOWHERE;
    if ((g.n == 1 || g.exact) && has_all_parts(path)) return CDZ_HUB_HERE;
    const int n = snprintf(path, bytes, "%s", folder);
    return n > 0 && (size_t)n < bytes ? CDZ_HUB_PART : CDZ_HUB_NOWHERE;
}

/* --- a snapshot ---------------------------------------------------------------------------------------------- */

static cdz_status see_shard(void *user, const char *shard, cdz_error *err)
{
    return has(user, shard) ? CDZ_OK : cdz_err(err, CDZ_E_NOT_FOUND, "%s is not here", shard);
}

static bool has_weights(char *folder)
{
    static const char index_name[] = "model.safetensors.index.json";
    char index[CDZ_HUB_PATH];
    cdz_arena arena = {0};
    if (has(folder, "model.safetensors")) return true;
    if (!has(folder, index_name) || !join(index, sizeof index, folder, index_name)) return false;
    const bool all = cdz_hub_each_shard(index, &arena, see_shard, folder, NULL) == CDZ_OK;
    cdz_arena_free(&arena);
    return all;
}

static bool has_texts(const char *folder)
{
    return has(folder, "tokenizer.json") || has(folder, "tokenizer_config.json");
}

/* What a folder is for who wants that file of it, or all; path is then the model. */
static cdz_hub_state look(const char *folder, const char *file, bool texts, char *path, size_t bytes)
{
    char gguf[CDZ_HUB_PATH];
    if (file[0]) return cdz_hub_find_gguf(folder, file, path, bytes);
    const int n = snprintf(path, bytes, "%s", folder);
    if (n <= 0 || (size_t)n >= bytes) return CDZ_HUB_NOWHERE;
    if (texts && has_texts(folder)) return CDZ_HUB_HERE;
    if (has(folder, "config.json") && has_weights(path)) return CDZ_HUB_HERE;
    if (has(folder, "config.json") && has(folder, "model.safetensors.index.json"))
        return CDZ_HUB_PART;
    const cdz_hub_state found = cdz_hub_find_gguf(folder, "", gguf, sizeof gguf);
    if (found == CDZ_HUB_HERE) (void)snprintf(path, bytes, "%s", gguf);
    return found == CDZ_HUB_HERE ? found : CDZ_HUB_PART;
}

static bool snapshot_at(const char *repository, const char *commit, char *path, size_t bytes)
{
    struct stat s;
    const int n = snprintf(path, bytes, "%s/snapshots/%s", repository, commit);
    return n > 0 && (size_t)n < bytes && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* What refs/REVISION names; a commit is its own. */
static bool snapshot_of_ref(const char *repository, const char *revision, char *path, size_t bytes)
{
    char file[CDZ_HUB_PATH], *ref = NULL;
    size_t len = 0;
    const int n = snprintf(file, sizeof file, "%s/refs/%s", repository, revision);
    if (cdz_hub_is_commit(revision)) return snapshot_at(repository, revision, path, bytes);
    if (n < 0 || (size_t)n >= sizeof file || cdz_file_read(file, 256, &ref, &len, NULL) != CDZ_OK)
        return false;
    ref[strcspn(ref, " \r\n")] = '\0';
    const bool good =
        cdz_hub_path_is_safe(ref) && !strchr(ref, '/') && snapshot_at(repository, ref, path, bytes);
    free(ref);
    return good;
}

/* Without a revision: what main names, else the only one that is there. */
static bool snapshot_of(const char *repository, const char *revision, char *path, size_t bytes)
{
    char folder[CDZ_HUB_PATH];
    unsigned found = 0;
    if (snapshot_of_ref(repository, revision ? revision : "main", path, bytes)) return true;
    if (revision || !join(folder, sizeof folder, repository, "snapshots")) return false;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        found += e->d_name[0] != '.' && snapshot_at(repository, e->d_name, path, bytes);
    if (dir) closedir(dir);
    return found == 1;
}

/* --- names --------------------------------------------------------------------------------------------------- */

cdz_status cdz_hub_repository(const cdz_hub_id *id, char *folder, size_t bytes, cdz_error *err)
{
    char hub[CDZ_HUB_PATH];
    const char *slash = strchr(id->name, '/');
    if (!cdz_env_hub_cache(hub, sizeof hub))
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "there is no place for a cache: HF_HUB_CACHE, HF_HOME and HOME are not set");
    const int n = slash ? snprintf(folder, bytes, "%s/%s%.*s--%s", hub, head,
                                   (int)(slash - id->name), id->name, slash + 1)
                        : snprintf(folder, bytes, "%s/%s%s", hub, head, id->name);
    if (n > 0 && (size_t)n < bytes) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT, "%s: its path in the cache is too long", id->name);
}

/* Names of before there were organisations, "gpt2", are in caches too. */
static bool read_name(const char *name, cdz_hub_id *id)
{
    char text[CDZ_HUB_NAME + CDZ_HUB_FILE];
    if (cdz_hub_id_read(name, id, NULL) == CDZ_OK) return true;
    const int n = snprintf(text, sizeof text, "x/%s", name);
    if (n < 0 || (size_t)n >= sizeof text || cdz_hub_id_read(text, id, NULL) != CDZ_OK)
        return false;
    memmove(id->name, id->name + 2, strlen(id->name) - 1);
    return true;
}

cdz_hub_state cdz_hub_find(const char *name, const char *revision, bool texts, char *path,
                           size_t bytes)
{
    cdz_hub_id id;
    char repository[CDZ_HUB_PATH], folder[CDZ_HUB_PATH];
    cdz_hub_state found = CDZ_HUB_NOWHERE;
    if (read_name(name, &id) &&
        cdz_hub_repository(&id, repository, sizeof repository, NULL) == CDZ_OK &&
        snapshot_of(repository, revision, folder, sizeof folder))
        found = look(folder, id.file, texts, path, bytes);
    if (found == CDZ_HUB_HERE || revision) return found;
    char other[CDZ_HUB_PATH];
    cdz_hub_state there = cdz_hub_find_ollama(name, other, sizeof other);
    if (there != CDZ_HUB_HERE) there = cdz_hub_find_llama(name, other, sizeof other);
    if (there != CDZ_HUB_HERE) return found;
    const int n = snprintf(path, bytes, "%s", other);
    return n > 0 && (size_t)n < bytes ? there : found;
}

/* --- listing ------------------------------------------------------------------------------------------------- */

static bool add_size(void *user, const char *relative, const char *path, const struct stat *s)
{
    (void)relative;
    (void)path;
    *(uint64_t *)user += (uint64_t)s->st_size;
    return true;
}

void cdz_hub_describe(const char *path, cdz_hub_model *out)
{
    struct stat s;
    char model[CDZ_HUB_PATH], folder[CDZ_HUB_PATH];
    out->path = path;
    out->bytes = 0;
    out->format = "gguf";
    if (stat(path, &s) != 0) return;
    if (!S_ISDIR(s.st_mode)) {
        out->bytes = (uint64_t)s.st_size;
        return;
    }
    cdz_hub_walk(path, 1, add_size, &out->bytes);
    (void)snprintf(folder, sizeof folder, "%s", path);
    if (has(path, "config.json") && has_weights(folder))
        out->format = "safetensors";
    else if (look(path, "", false, model, sizeof model) != CDZ_HUB_HERE)
        out->format = has(path, "config.json") ? "incomplete" : "texts";
}

/* "models--org--name" as "org/name" into name; false: it is no model's. */
static bool cached_name(const char *folder, char *name, size_t bytes)
{
    if (strncmp(folder, head, sizeof head - 1) != 0) return false;
    (void)snprintf(name, bytes, "%s", folder + sizeof head - 1);
    char *dashes = strstr(name, "--");
    if (!dashes) return true;
    *dashes = '/';
    memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    return true;
}

typedef struct files_seen {
    const char *name; /* of the repository */
    cdz_hub_see *see;
    void *user;
    unsigned n;
} files_seen;

static uint64_t bytes_of_parts(const char *path, uint64_t first)
{
    char part[CDZ_HUB_PATH];
    struct stat s;
    uint64_t bytes = first;
    const char *at = strstr(path, "-00001-of-");
    for (unsigned i = 2; at; i++) {
        const int n = snprintf(part, sizeof part, "%.*s-%05u%s", (int)(at - path), path, i,
                               at + strlen("-00001"));
        if (n < 0 || (size_t)n >= sizeof part || stat(part, &s) != 0) break;
        bytes += (uint64_t)s.st_size;
    }
    return bytes;
}

static bool see_cached_gguf(void *user, const char *relative, const char *path, const struct stat *s)
{
    files_seen *f = user;
    char name[2 * CDZ_HUB_FILE];
    if (!cdz_hub_is_gguf(relative)) return true;
    f->n++;
    (void)snprintf(name, sizeof name, "%s:%s", f->name, relative);
    return f->see(f->user,
                  &(cdz_hub_model){name, path, has_all_parts(path) ? "gguf" : "incomplete",
                                   "Hugging Face", bytes_of_parts(path, (uint64_t)s->st_size)});
}

/* A repository with a configuration is one model; one with GGUF files as many as it has of them. */
static bool see_repository(const char *hub, const char *folder, cdz_hub_see *see, void *user)
{
    char repository[CDZ_HUB_PATH], path[CDZ_HUB_PATH], name[300];
    files_seen f = {name, see, user, 0};
    if (!cached_name(folder, name, sizeof name) ||
        !join(repository, sizeof repository, hub, folder) ||
        !snapshot_of(repository, NULL, path, sizeof path))
        return true;
    if (!cdz_hub_walk(path, 1, see_cached_gguf, &f)) return false;
    if (f.n && !has(path, "config.json")) return true;
    cdz_hub_model model = {.name = name, .where = "Hugging Face"};
    cdz_hub_describe(path, &model);
    return see(user, &model);
}

void cdz_hub_each(cdz_hub_see *see, void *user)
{
    char hub[CDZ_HUB_PATH];
    struct dirent **names;
    bool on = true;
    const int n = cdz_env_hub_cache(hub, sizeof hub) ? scandir(hub, &names, NULL, alphasort) : -1;
    for (int i = 0; i < n; i++) {
        on = on && see_repository(hub, names[i]->d_name, see, user);
        free(names[i]);
    }
    if (n >= 0) free((void *)names);
    if (on && cdz_hub_each_ollama(see, user)) (void)cdz_hub_each_llama(see, user);
}
