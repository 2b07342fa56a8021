/* id.c - reads ids, revisions and names of files, and refuses what could lead elsewhere. */
#include "hub/id.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"

/* --- ids --------------------------------------------------------------------------------------------------- */

/* A part of an id, by the hub's own rules: letters, digits, '-', '_' and '.', none of the last three first or last twice. */
static bool is_part(const char *text, size_t len)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (len == 0 || strspn(text, letters) < len) return false;
    if (cdz_byte_in(text[0], "-.") || cdz_byte_in(text[len - 1], "-.")) return false;
    for (size_t i = 1; i < len; i++)
        if (text[i] == text[i - 1] && cdz_byte_in(text[i], "-.")) return false;
    return true;
}

static const char *without_host(const char *text)
{
    static const char *const hosts[] = {"hf.co/", "huggingface.co/"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (strncmp(text, hosts[i], strlen(hosts[i])) == 0) return text + strlen(hosts[i]);
    return text;
}

cdz_status cdz_hub_id_read(const char *text, cdz_hub_id *out, cdz_error *err)
{
    const char *at = without_host(text), *file = strchr(at, ':');
    const size_t len = file ? (size_t)(file - at) : strlen(at), org = strcspn(at, "/");
    *out = (cdz_hub_id){0};
    if (len >= sizeof out->name || org >= len || !is_part(at, org) ||
        !is_part(at + org + 1, len - org - 1))
        return cdz_err(
            err, CDZ_E_USAGE,
            "%.200s is no id of a model: expected ORG/NAME, or ORG/NAME:FILE; of letters, digits and "
            "single '-', '_' and '.'",
            text);
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)len, at);
    if (!file) return CDZ_OK;
    if (strlen(file + 1) >= sizeof out->file || !cdz_hub_path_is_safe(file + 1))
        return cdz_err(err, CDZ_E_USAGE,
                       "%.200s: behind the colon: expected a file's name, or a part of it as Q4_K_M",
                       text);
    (void)snprintf(out->file, sizeof out->file, "%s", file + 1);
    return CDZ_OK;
}

cdz_status cdz_hub_check_revision(const char *revision, cdz_error *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    if (revision[0] != '-' && strlen(revision) < CDZ_HUB_REVISION &&
        strspn(revision, letters) == strlen(revision) && cdz_hub_path_is_safe(revision))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE, "--revision %.200s: expected a branch, a tag or a commit",
                   revision);
}

bool cdz_hub_is_commit(const char *text)
{
    return strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40;
}

/* --- files ------------------------------------------------------------------------------------------------- */

bool cdz_hub_path_is_safe(const char *path)
{
    if (!path[0] || strlen(path) >= CDZ_HUB_FILE) return false;
    for (const char *c = path; *c; c++)
        if (cdz_is_control((unsigned char)c[0], (unsigned char)c[1]) || *c == '\\' || *c == ':')
            return false;
    for (const char *part = path;; part++) {
        const size_t len = strcspn(part, "/");
        if (len == 0 || part[0] == '.') return false; /* "a//b", "/a", "..", and hidden files */
        part += len;
        if (!*part) return true;
    }
}

/* The length of "-00001-of-00003" before ".gguf"; 0: it is no part. */
enum { PART = 15 };
static size_t part_of(const char *path)
{
    static const char form[] = "-#####-of-#####.gguf";
    const size_t len = strlen(path), n = sizeof form - 1;
    if (len <= n) return 0;
    for (size_t i = 0; i < n; i++) {
        const char c = path[len - n + i];
        if (form[i] == '#' ? !isdigit((unsigned char)c) : c != form[i]) return 0;
    }
    return PART;
}

static size_t stem(const char *path)
{
    return strlen(path) - strlen(".gguf") - part_of(path);
}

bool cdz_hub_is_gguf(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!cdz_ends_with(path, ".gguf") || strncasecmp(name, "mmproj", 6) == 0) return false;
    return !part_of(path) || strncmp(path + stem(path), "-00001-", 7) == 0;
}

bool cdz_hub_same_parts(const char *first, const char *path)
{
    if (strcmp(first, path) == 0) return true;
    if (!part_of(first) || !cdz_ends_with(path, ".gguf") || !part_of(path)) return false;
    const size_t n = stem(first), tail = strlen("-00001");
    return n == stem(path) && strncmp(first, path, n) == 0 &&
           strcmp(first + n + tail, path + n + tail) == 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool cdz_hub_file_fits(const char *path, const char *wanted)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(wanted);
    if (strcmp(path, wanted) == 0 || strcmp(name, wanted) == 0) return true;
    for (const char *at = path; strlen(at) >= n; at++)
        if (strncasecmp(at, wanted, n) == 0 && (at == path || !is_word(at[-1])) && !is_word(at[n]))
            return true;
    return false;
}
