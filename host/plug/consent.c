/* consent.c - the table, where a file lies, and the sentences.
 *
 * Owns no state: the answer is a function of who named the file, its real path and its kind of code. Folders are looked at
 * when asked, not remembered. */
#include "plug/consent.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/environment.h"
#include "plug/manifest.h"

/* By namer, place, then native, isolated, script. */
static const cdz_right verdicts[CDZ_N_NAMERS][CDZ_N_SITES][CDZ_N_CODES] = {
    [CDZ_BY_PROGRAM] = {{CDZ_ALWAYS, CDZ_ALWAYS, CDZ_ALWAYS},
                        {CDZ_ALWAYS, CDZ_ALWAYS, CDZ_ALWAYS},
                        {CDZ_ALWAYS, CDZ_ALWAYS, CDZ_ALWAYS}},
    [CDZ_BY_USER] = {{CDZ_ALWAYS, CDZ_ALWAYS, CDZ_ALWAYS},
                     {CDZ_NEVER, CDZ_NEVER, CDZ_ALWAYS},
                     {CDZ_NEVER, CDZ_NEVER, CDZ_WITH_FLAG}},
    [CDZ_BY_REQUEST] = {{CDZ_NEVER, CDZ_NEVER, CDZ_ALWAYS},
                        {CDZ_NEVER, CDZ_NEVER, CDZ_WITH_FLAG},
                        {CDZ_NEVER, CDZ_NEVER, CDZ_WITH_FLAG}},
    [CDZ_BY_LOCK] = {{CDZ_ALWAYS, CDZ_ALWAYS, CDZ_ALWAYS},
                     {CDZ_NEVER, CDZ_NEVER, CDZ_ALWAYS},
                     {CDZ_NEVER, CDZ_NEVER, CDZ_WITH_FLAG}},
    [CDZ_BY_NOBODY] = {{CDZ_NEVER, CDZ_ALWAYS, CDZ_ALWAYS},
                       {CDZ_NEVER, CDZ_NEVER, CDZ_WITH_FLAG},
                       {CDZ_NEVER, CDZ_NEVER, CDZ_WITH_FLAG}},
};

cdz_right cdz_consent_table(cdz_namer by, cdz_site place, cdz_code code)
{
    return verdicts[by][place][code];
}

/* --- where it lies ------------------------------------------------------------------------------------------ */

static bool holds(const char *folder, const char *name)
{
    cdz_arena arena = {0};
    struct stat s;
    const char *path = cdz_arena_printf(&arena, "%s/%s", folder, name);
    const bool there = !path || stat(path, &s) == 0; /* out of memory: assume the worst */
    cdz_arena_free(&arena);
    return there;
}

static bool holds_gguf(const char *folder)
{
    DIR *dir = opendir(*folder ? folder : "/");
    bool found = false;
    for (const struct dirent *e; !found && dir && (e = readdir(dir)) != NULL;) {
        const size_t n = strlen(e->d_name);
        found = n > 5 && strcasecmp(e->d_name + n - 5, ".gguf") == 0;
    }
    if (dir) closedir(dir);
    return found;
}

/* A config.json alone may be anybody's. */
static bool is_model(const char *folder)
{
    static const char *const beside[] = {"tokenizer.json",
                                         "tokenizer.model",
                                         "spiece.model",
                                         "source.spm",
                                         "tekken.json",
                                         "tokenizer_config.json",
                                         "generation_config.json",
                                         "model.safetensors",
                                         "model.safetensors.index.json"};
    if (holds(folder, "config.json"))
        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
            if (holds(folder, beside[i])) return true;
    return (holds(folder, "blobs") && holds(folder, "snapshots")) || holds_gguf(folder);
}

/* Is everything below it more than one model's? */
static bool is_common(const char *folder, const char *home)
{
    struct stat s;
    const size_t n = strlen(folder);
    if (stat(*folder ? folder : "/", &s) == 0 && (s.st_mode & S_IWOTH)) return true;
    return home && strncmp(home, folder, n) == 0 && (home[n] == '/' || home[n] == '\0');
}

/* Cuts the last part off; returns it. "" is left of what lies in the root. */
static const char *cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash) return NULL;
    *slash = '\0';
    return slash + 1;
}

/* Goes up from the file. The part that led here says whether a model's folder was entered by its loop. */
static cdz_site climb(char *path, const char *home)
{
    const char *part = cut(path), *loop = NULL;
    for (unsigned level = 0; part; level++) {
        const bool near = level == 0 || (level == 1 && loop);
        if ((near || !is_common(path, home)) && is_model(path))
            return loop ? CDZ_SITE_MODEL_LOOP : CDZ_SITE_MODEL;
        part = *path ? cut(path) : NULL;
        loop = part && strcmp(part, CDZ_CUSTOM_GENERATE) == 0 ? part : NULL;
    }
    return CDZ_SITE_ELSEWHERE;
}

cdz_site cdz_site_of(const char *real)
{
    const char *user = cdz_env_home();
    char *path = strdup(real), *home = user && *user ? realpath(user, NULL) : NULL;
    const cdz_site place = path ? climb(path, home) : CDZ_SITE_MODEL_LOOP;
    free(path);
    free(home);
    return place;
}

/* Where its name lies: a link in a model's folder is the model's, wherever it leads. */
static cdz_site place_of_name(const char *path)
{
    cdz_arena arena = {0};
    const char *slash = strrchr(path, '/');
    const char *folder = cdz_arena_strndup(&arena, slash ? path : ".",
                                           slash && slash > path ? (size_t)(slash - path) : 1);
    char *real = folder ? realpath(folder, NULL) : NULL;
    const char *full = real ? cdz_arena_printf(&arena, "%s/%s", strcmp(real, "/") ? real : "",
                                               slash ? slash + 1 : path)
                            : NULL;
    const cdz_site place = full ? cdz_site_of(full) : CDZ_SITE_MODEL_LOOP;
    free(real);
    cdz_arena_free(&arena);
    return place;
}

/* --- sentences ---------------------------------------------------------------------------------------------- */

static cdz_status refuse_found(const cdz_claim *c, cdz_error *err)
{
    if (!c->package)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: native code found in a directory is not loaded, and only a package "
                       "folder with a plugin.ini can be pinned; --plugin %s loads it once",
                       c->path, c->path);
    return cdz_err(
        err, CDZ_E_DENIED,
        "%s: native code found in a directory is not loaded unless it is pinned; "
        "`cadenza plugin add %s` shows and pins it, --plugin %s loads it once, and "
        "isolation = process in its section of a pipeline runs it in a process of its own",
        c->package, c->package, c->package);
}

static cdz_status refuse(const cdz_claim *c, cdz_site place, cdz_error *err)
{
    if (place != CDZ_SITE_ELSEWHERE && c->code != CDZ_CODE_SCRIPT)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: native code inside a model's folder is never loaded; if you trust "
                       "it, move its package to another folder and name it there",
                       c->real);
    if (place != CDZ_SITE_ELSEWHERE)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: a model brings this script; --allow-model-plugins lets it run, in the "
                       "sandbox",
                       c->real);
    if (c->by == CDZ_BY_REQUEST)
        return cdz_err(err, CDZ_E_DENIED,
                       "%s: native code that only a request names is not loaded; give it with "
                       "--plugin %s, or pin its package and name its id",
                       c->path, c->path);
    return refuse_found(c, err);
}

cdz_status cdz_consent(const cdz_claim *claim, cdz_error *err)
{
    if (claim->by == CDZ_BY_PROGRAM) return CDZ_OK;
    const cdz_site lies = cdz_site_of(claim->real), named = place_of_name(claim->path);
    const cdz_site place = lies > named ? lies : named;
    const cdz_right verdict = cdz_consent_table(claim->by, place, claim->code);
    if (verdict == CDZ_ALWAYS || (verdict == CDZ_WITH_FLAG && claim->allow_model_plugins))
        return CDZ_OK;
    return refuse(claim, place, err);
}
