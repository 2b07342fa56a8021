/* choose.c - which files of a repository are taken. Only names that are listed here: weights as safetensors or GGUF, and
 * texts. Never what PyTorch unpickles (.bin, .pt), ONNX, or code. */
#include "hub/choose.h"

#include <string.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/json.h"

enum { MOST_NAMED = 12, MOST_INDEX = 64 << 20 };

static const char whole[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

/* --- texts ------------------------------------------------------------------------------------------------- */

static bool is_text(const char *path)
{
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "vocab.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
        "added_tokens.json",
        "chat_template.json",
        "chat_template.jinja",
        "merges.txt",
        "tekken.json",
        "source.spm",
        "target.spm",
    };
    static const char more[] = "additional_chat_templates/";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(path, names[i]) == 0) return true;
    if (strncmp(path, more, strlen(more)) == 0) return cdz_ends_with(path, ".jinja");
    return !strchr(path, '/') && cdz_ends_with(path, ".model"); /* SentencePiece */
}

static cdz_hub_file *find(cdz_hub_repo *repo, const char *path)
{
    for (size_t i = 0; i < repo->n; i++)
        if (strcmp(repo->files[i].path, path) == 0) return &repo->files[i];
    return NULL;
}

/* --- GGUF -------------------------------------------------------------------------------------------------- */

/* "a-Q4_K_M.gguf, a-Q8_0.gguf, ..." */
static void list_gguf(const cdz_hub_repo *repo, const char *wanted, cdz_buf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < repo->n; i++) {
        const char *path = repo->files[i].path;
        if (!cdz_hub_is_gguf(path) || (wanted[0] && !cdz_hub_file_fits(path, wanted))) continue;
        if (n < MOST_NAMED) cdz_buf_printf(out, "%s%s", n ? ", " : "", path);
        if (n++ == MOST_NAMED) cdz_buf_puts(out, ", ...");
    }
}

static cdz_status say_which(const cdz_hub_repo *repo, const cdz_hub_id *id, size_t n, cdz_error *err)
{
    cdz_buf names = {0};
    list_gguf(repo, n ? id->file : "", &names);
    const char *listed = names.data ? names.data : "none";
    cdz_status st;
    if (n)
        st = cdz_err(err, CDZ_E_USAGE, "%s has %zu GGUF models%s%s: say which, %s:FILE: %s",
                     id->name, n, id->file[0] ? " that fit " : "", id->file, id->name, listed);
    else
        st = cdz_err(err, CDZ_E_NOT_FOUND, "%s has no GGUF model that fits \"%s\"; it has %s",
                     id->name, id->file, listed);
    cdz_buf_free(&names);
    return st;
}

/* A name that is written out is that file, whatever else it fits. */
static cdz_status choose_gguf(cdz_hub_repo *repo, const cdz_hub_id *id, const cdz_hub_file **out,
                              cdz_error *err)
{
    const cdz_hub_file *one = id->file[0] ? find(repo, id->file) : NULL;
    size_t n = one && cdz_hub_is_gguf(one->path);
    for (size_t i = 0; i < repo->n && !(n && one && strcmp(one->path, id->file) == 0); i++) {
        const char *path = repo->files[i].path;
        if (!cdz_hub_is_gguf(path) || (id->file[0] && !cdz_hub_file_fits(path, id->file))) continue;
        one = &repo->files[i];
        n++;
    }
    if (n != 1) return say_which(repo, id, n, err);
    for (size_t i = 0; i < repo->n; i++)
        repo->files[i].take = cdz_hub_same_parts(one->path, repo->files[i].path);
    *out = one;
    return CDZ_OK;
}

/* --- all of it --------------------------------------------------------------------------------------------- */

static bool has_gguf(const cdz_hub_repo *repo)
{
    for (size_t i = 0; i < repo->n; i++)
        if (cdz_hub_is_gguf(repo->files[i].path)) return true;
    return false;
}

cdz_status cdz_hub_choose(cdz_hub_repo *repo, const cdz_hub_id *id, bool texts,
                          const cdz_hub_file **gguf, const cdz_hub_file **index, cdz_error *err)
{
    cdz_hub_file *weights = find(repo, whole), *shards = find(repo, index_name);
    const bool folder = find(repo, "config.json") && (weights || shards);
    size_t n = 0;
    *gguf = *index = NULL;
    if (id->file[0] || (!folder && has_gguf(repo))) return choose_gguf(repo, id, gguf, err);
    for (size_t i = 0; i < repo->n; i++) n += repo->files[i].take = is_text(repo->files[i].path);
    if (texts && n) return CDZ_OK;
    if (!folder)
        return cdz_err(
            err, CDZ_E_UNSUPPORTED,
            "%s: has no config.json with model.safetensors, and no GGUF file; other weights (.bin, .pt) "
            "may run code and are never taken",
            id->name);
    if (weights) {
        weights->take = true;
    } else {
        shards->take = true;
        *index = shards;
    }
    return CDZ_OK;
}

cdz_status cdz_hub_each_shard(const char *index, cdz_arena *arena, cdz_hub_see_shard *see,
                              void *user, cdz_error *err)
{
    static const cdz_json_limits limits = {.duplicates = true};
    cdz_json text;
    CDZ_TRY(cdz_json_read_file(index, MOST_INDEX, &limits, arena, &text, err));
    const cdz_json *map = cdz_json_get(&text, "weight_map");
    if (!cdz_json_is(map, CDZ_JSON_OBJECT) || map->len == 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: has no \"weight_map\"", index);
    for (uint32_t i = 0; i < map->len; i++) {
        const cdz_json *shard = &map->members[i].value;
        if (!cdz_json_is(shard, CDZ_JSON_STRING) || !cdz_hub_path_is_safe(shard->string))
            return cdz_err(err, CDZ_E_INPUT, "%s: the file of %.100s is no name of a file", index,
                           map->members[i].key);
        CDZ_TRY(see(user, shard->string, err));
    }
    return CDZ_OK;
}

static cdz_status take_shard(void *user, const char *shard, cdz_error *err)
{
    cdz_hub_file *file = find(user, shard);
    if (!file || !cdz_ends_with(shard, ".safetensors"))
        return cdz_err(err, CDZ_E_INPUT,
                       "%s names %.200s, which is no safetensors file of the repository",
                       index_name, shard);
    file->take = true;
    return CDZ_OK;
}

cdz_status cdz_hub_choose_shards(cdz_hub_repo *repo, const char *index, cdz_arena *arena,
                                 cdz_error *err)
{
    return cdz_hub_each_shard(index, arena, take_shard, repo, err);
}
