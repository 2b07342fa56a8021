/* listing.c - a repository as the hub lists it (GET /api/models/ID/revision/REVISION?blobs=true): its commit, and of each
 * file name, size and hash. What is named so that it could lead elsewhere, or has no hash, is not in the list. */
#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "hub/choose.h"

static bool put_hash(cdz_hub_file *file, const cdz_json *value, size_t digits)
{
    if (!cdz_json_is(value, CDZ_JSON_STRING) || value->len != digits) return false;
    for (size_t i = 0; i < digits; i++) {
        if (!isxdigit((unsigned char)value->string[i])) return false;
        file->hash[i] = (char)tolower((unsigned char)value->string[i]);
    }
    file->hash[digits] = '\0';
    return true;
}

/* Large files have a SHA-256, small ones the name of git's object. */
static bool read_file(const cdz_json *item, cdz_hub_file *file)
{
    const cdz_json *name = cdz_json_get(item, "rfilename"), *lfs = cdz_json_get(item, "lfs");
    const cdz_json *bytes = cdz_json_get(item, "size");
    *file = (cdz_hub_file){0};
    if (!cdz_json_is(name, CDZ_JSON_STRING) || strlen(name->string) != name->len ||
        !cdz_hub_path_is_safe(name->string))
        return false;
    if (cdz_json_is(lfs, CDZ_JSON_OBJECT)) {
        if (cdz_json_get(lfs, "size")) bytes = cdz_json_get(lfs, "size");
        if (!put_hash(file, cdz_json_get(lfs, "sha256"), CDZ_SHA256_HEX - 1)) return false;
    } else if (!put_hash(file, cdz_json_get(item, "blobId"), 40)) {
        return false;
    }
    if (!cdz_json_is(bytes, CDZ_JSON_INT) || bytes->integer < 0) return false;
    file->path = name->string;
    file->bytes = (uint64_t)bytes->integer;
    return true;
}

cdz_status cdz_hub_repo_read(const char *text, size_t len, const char *name, cdz_arena *arena,
                             cdz_hub_repo *out, cdz_error *err)
{
    static const cdz_json_limits limits = {.duplicates = true};
    cdz_json answer;
    *out = (cdz_hub_repo){0};
    CDZ_TRY(cdz_json_parse(text, len, name, &limits, arena, &answer, err));
    const cdz_json *sha = cdz_json_get(&answer, "sha"), *files = cdz_json_get(&answer, "siblings");
    if (!cdz_json_is(sha, CDZ_JSON_STRING) || !cdz_hub_is_commit(sha->string) ||
        !cdz_json_is(files, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT,
                       "%s: the hub's answer has no commit (\"sha\") or no files (\"siblings\")",
                       name);
    memcpy(out->commit, sha->string, sizeof out->commit);
    out->files = cdz_arena_array(arena, files->len + 1, sizeof *out->files);
    if (!out->files) return cdz_err_memory_in(err, name);
    for (uint32_t i = 0; i < files->len; i++)
        out->n += read_file(&files->items[i], &out->files[out->n]);
    return CDZ_OK;
}
