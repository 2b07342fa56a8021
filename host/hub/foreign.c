/* foreign.c - the models of Ollama and of llama.cpp on this machine, which are GGUF files.
 *
 * Ollama: manifests/HOST/SPACE/NAME/TAG names the blob that is the model. What else it keeps (its template, parameters) is not
 * read: a GGUF file has its own. llama.cpp: ORG_NAME_FILE, flat. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/environment.h"
#include "base/json.h"
#include "base/sha256.h"
#include "hub/caches.h"

enum { MOST_MANIFEST = 1 << 20 };

static const char registry[] = "registry.ollama.ai/";

/* --- Ollama -------------------------------------------------------------------------------------------------- */

/* The blob of the layer that is the model; digests are looked at before they become paths. */
static bool model_layer(const cdz_json *manifest, const char *models, char *path, size_t bytes)
{
    static const char is_model[] = "application/vnd.ollama.image.model", kind[] = "sha256:";
    const cdz_json *layers = cdz_json_get(manifest, "layers");
    unsigned found = 0;
    for (uint32_t i = 0; cdz_json_is(layers, CDZ_JSON_ARRAY) && i < layers->len; i++) {
        const cdz_json *digest = cdz_json_get(&layers->items[i], "digest");
        if (!cdz_json_eq(cdz_json_get(&layers->items[i], "mediaType"), is_model)) continue;
        if (!cdz_json_is(digest, CDZ_JSON_STRING) ||
            strncmp(digest->string, kind, strlen(kind)) != 0 ||
            !cdz_sha256_is_hex(digest->string + strlen(kind)))
            return false;
        const int n =
            snprintf(path, bytes, "%s/blobs/sha256-%s", models, digest->string + strlen(kind));
        found += n > 0 && (size_t)n < bytes;
    }
    return found == 1;
}

static bool read_manifest(const char *models, const char *file, char *path, size_t bytes)
{
    static const cdz_json_limits limits = {.duplicates = true};
    cdz_arena arena = {0};
    cdz_json manifest;
    struct stat s;
    const bool good =
        cdz_json_read_file(file, MOST_MANIFEST, &limits, &arena, &manifest, NULL) == CDZ_OK &&
        model_layer(&manifest, models, path, bytes) && stat(path, &s) == 0 && S_ISREG(s.st_mode);
    cdz_arena_free(&arena);
    return good;
}

/* manifests/HOST/SPACE/NAME/TAG, of what is left out the usual one. */
static bool find_manifest(const char *models, const char *before, const char *name, char *path,
                          size_t bytes)
{
    char relative[CDZ_HUB_FILE], file[CDZ_HUB_PATH];
    const char *slash = strrchr(name, '/'), *tag = strchr(slash ? slash : name, ':');
    const int len = tag ? (int)(tag - name) : (int)strlen(name);
    const int n = snprintf(relative, sizeof relative, "%s%.*s/%s", before, len, name,
                           tag ? tag + 1 : "latest");
    if (n < 0 || (size_t)n >= sizeof relative || !cdz_hub_path_is_safe(relative)) return false;
    const int m = snprintf(file, sizeof file, "%s/manifests/%s", models, relative);
    return m > 0 && (size_t)m < sizeof file && read_manifest(models, file, path, bytes);
}

cdz_hub_state cdz_hub_find_ollama(const char *name, char *path, size_t bytes)
{
    static const char *const before[3][2] = {
        {"registry.ollama.ai/library/", NULL}, {registry, "hf.co/"}, {"", NULL}};
    char models[CDZ_HUB_PATH];
    unsigned slashes = 0;
    for (const char *c = name; *c; c++) slashes += *c == '/';
    if (slashes > 2 || !cdz_env_ollama_models(models, sizeof models)) return CDZ_HUB_NOWHERE;
    for (size_t i = 0; i < 2 && before[slashes][i]; i++)
        if (find_manifest(models, before[slashes][i], name, path, bytes)) return CDZ_HUB_HERE;
    return CDZ_HUB_NOWHERE;
}

typedef struct ollama_walk {
    const char *models;
    cdz_hub_see *see;
    void *user;
} ollama_walk;

/* "registry.ollama.ai/library/llama3.2/1b" as "llama3.2:1b". */
static void typed_name(const char *relative, char *name, size_t bytes)
{
    static const char library[] = "library/";
    if (strncmp(relative, registry, strlen(registry)) == 0) relative += strlen(registry);
    if (strncmp(relative, library, strlen(library)) == 0) relative += strlen(library);
    (void)snprintf(name, bytes, "%s", relative);
    char *slash = strrchr(name, '/');
    if (slash) *slash = ':';
}

static bool see_manifest(void *user, const char *relative, const char *path, const struct stat *s)
{
    const ollama_walk *w = user;
    char name[CDZ_HUB_PATH], blob[CDZ_HUB_PATH];
    cdz_hub_model model = {.name = name, .where = "Ollama"};
    (void)s;
    if (!read_manifest(w->models, path, blob, sizeof blob)) return true;
    typed_name(relative, name, sizeof name);
    cdz_hub_describe(blob, &model);
    return w->see(w->user, &model);
}

bool cdz_hub_each_ollama(cdz_hub_see *see, void *user)
{
    char models[CDZ_HUB_PATH], manifests[CDZ_HUB_PATH];
    if (!cdz_env_ollama_models(models, sizeof models)) return true;
    const int n = snprintf(manifests, sizeof manifests, "%s/manifests", models);
    ollama_walk w = {models, see, user};
    return n <= 0 || (size_t)n >= sizeof manifests || cdz_hub_walk(manifests, 3, see_manifest, &w);
}

/* --- llama.cpp ------------------------------------------------------------------------------------------------ */

typedef struct llama_search {
    const char *before, *wanted, *name;
    char *path;
    size_t bytes;
    unsigned n;
} llama_search;

static bool see_llama_file(void *user, const char *relative, const char *path, const struct stat *s)
{
    llama_search *l = user;
    const size_t len = strlen(l->before), n = strlen(l->name);
    (void)s;
    if (!cdz_hub_is_gguf(relative)) return true;
    const bool named =
        strncmp(relative, l->name, n) == 0 && (!relative[n] || strcmp(relative + n, ".gguf") == 0);
    const bool fits = len && strncmp(relative, l->before, len) == 0 &&
                      (!l->wanted[0] || cdz_hub_file_fits(relative + len, l->wanted));
    if (!named && !fits) return true;
    const int bytes = snprintf(l->path, l->bytes, "%s", path);
    l->n = named ? 1 : l->n + 1;
    return bytes > 0 && (size_t)bytes < l->bytes && !named;
}

cdz_hub_state cdz_hub_find_llama(const char *name, char *path, size_t bytes)
{
    cdz_hub_id id = {0};
    char cache[CDZ_HUB_PATH], before[CDZ_HUB_NAME + 1] = "";
    if (!cdz_env_llama_cache(cache, sizeof cache)) return CDZ_HUB_NOWHERE;
    if (cdz_hub_id_read(name, &id, NULL) == CDZ_OK) {
        (void)snprintf(before, sizeof before, "%s_", id.name);
        *strchr(before, '/') = '_';
    }
    llama_search l = {before, id.file, name, path, bytes, 0};
    cdz_hub_walk(cache, 0, see_llama_file, &l);
    return l.n == 1 ? CDZ_HUB_HERE : CDZ_HUB_NOWHERE;
}

typedef struct llama_walk {
    cdz_hub_see *see;
    void *user;
} llama_walk;

static bool see_llama_model(void *user, const char *relative, const char *path, const struct stat *s)
{
    const llama_walk *w = user;
    char name[CDZ_HUB_FILE];
    (void)s;
    if (!cdz_hub_is_gguf(relative)) return true;
    (void)snprintf(name, sizeof name, "%.*s", (int)(strlen(relative) - strlen(".gguf")), relative);
    cdz_hub_model model = {.name = name, .where = "llama.cpp"};
    cdz_hub_describe(path, &model);
    return w->see(w->user, &model);
}

bool cdz_hub_each_llama(cdz_hub_see *see, void *user)
{
    char cache[CDZ_HUB_PATH];
    llama_walk w = {see, user};
    return !cdz_env_llama_cache(cache, sizeof cache) || cdz_hub_walk(cache, 0, see_llama_model, &w);
}
