/* plugin_new.c - `cadenza plugin new`: a package of one's own, from the template of its kind and language. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/write.h"
#include "cli/cli.h"
#include "describe/descriptor.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_NAME = 48 };

/* What the template calls things, and what they are to be called. The id comes first: it holds the others. */
typedef struct renaming {
    char from_id[80], from_name[64], id[80];
    const char *name;
} renaming;

/* Names a C variable, a file and the end of an id. */
static bool name_ok(const char *name)
{
    if (name[0] < 'a' || name[0] > 'z' || strlen(name) > MAX_NAME) return false;
    for (const char *c = name; *c; c++)
        if ((*c < 'a' || *c > 'z') && (*c < '0' || *c > '9') && *c != '_') return false;
    return true;
}

static cdz_status make_renaming(const char *kind, const char *name, const char *id, renaming *out,
                                cdz_error *err)
{
    if (!name_ok(name))
        return cdz_err(err, CDZ_E_USAGE,
                       "plugin new: '%s' names code: expected a letter, then up to %d of a-z 0-9 _",
                       name, MAX_NAME - 1);
    snprintf(out->from_name, sizeof out->from_name, "my_%s", kind);
    snprintf(out->from_id, sizeof out->from_id, "org.example.my-%s", kind);
    out->name = name;
    if (id)
        snprintf(out->id, sizeof out->id, "%s", id);
    else
        snprintf(out->id, sizeof out->id, "org.example.%s", name);
    for (char *c = out->id; !id && *c; c++)
        if (*c == '_') *c = '-';
    if (id && cdz_plugin_id_ok(id) && !strchr(id, '.'))
        return cdz_err(err, CDZ_E_USAGE,
                       "plugin new: --id %s: ids without a dot are the built-in plugins'; expected "
                       "one as org.example.%s",
                       id, id);
    if (id && (strlen(id) >= sizeof out->id || !cdz_plugin_id_ok(id)))
        return cdz_err(err, CDZ_E_USAGE, "plugin new: --id %.80s: expected " CDZ_PLUGIN_ID_IS, id);
    return CDZ_OK;
}

static void put_renamed(cdz_buf *out, const char *text, const renaming *r)
{
    const size_t id_len = strlen(r->from_id), name_len = strlen(r->from_name);
    while (*text) {
        if (strncmp(text, r->from_id, id_len) == 0) {
            cdz_buf_puts(out, r->id);
            text += id_len;
        } else if (strncmp(text, r->from_name, name_len) == 0) {
            cdz_buf_puts(out, r->name);
            text += name_len;
        } else {
            cdz_buf_putc(out, *text++);
        }
    }
}

static cdz_status copy_file(const char *from_folder, const char *to_folder, const char *name,
                            const renaming *r, cdz_error *err)
{
    cdz_buf from = {0}, to = {0}, text = {0};
    char *content = NULL;
    size_t len = 0;
    cdz_buf_printf(&from, "%s/%s", from_folder, name);
    cdz_buf_printf(&to, "%s/", to_folder);
    put_renamed(&to, name, r);
    cdz_status st = from.failed || to.failed
                        ? cdz_err(err, CDZ_E_NOMEM, "out of memory")
                        : cdz_file_read(from.data, MAX_FILE_BYTES, &content, &len, err);
    if (st == CDZ_OK) {
        put_renamed(&text, content, r);
        st = text.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory")
                         : cdz_write_whole(to.data, text.data, text.len, CDZ_WRITE_NEW, err);
    }
    free(content);
    cdz_buf_free(&from);
    cdz_buf_free(&to);
    cdz_buf_free(&text);
    return st;
}

static cdz_status copy_template(const char *from, const char *to, const renaming *r, cdz_error *err);

/* A file, or the folder of tests with what is in it. */
static cdz_status copy_entry(const char *from, const char *to, const char *name, const renaming *r,
                             cdz_error *err)
{
    char inner_from[4352], inner_to[4352];
    struct stat s;
    const int n = snprintf(inner_from, sizeof inner_from, "%s/%s", from, name);
    const int m = snprintf(inner_to, sizeof inner_to, "%s/%s", to, name);
    if (n < 0 || m < 0 || (size_t)n >= sizeof inner_from || (size_t)m >= sizeof inner_to)
        return cdz_err(err, CDZ_E_USAGE, "%s: the path is too long", to);
    if (stat(inner_from, &s) == 0 && S_ISDIR(s.st_mode))
        return copy_template(inner_from, inner_to, r, err);
    return copy_file(from, to, name, r, err);
}

static cdz_status make_folder(const char *path, cdz_error *err)
{
    if (mkdir(path, 0777) == 0) return CDZ_OK;
    if (errno == EEXIST)
        return cdz_err(err, CDZ_E_IO, "plugin new: %s is there already; expected a new name", path);
    return cdz_err(err, CDZ_E_IO, "plugin new: %s: %s", path, strerror(errno));
}

static cdz_status copy_template(const char *from, const char *to, const renaming *r, cdz_error *err)
{
    DIR *dir = opendir(from);
    if (!dir) return cdz_err(err, CDZ_E_IO, "%s: %s", from, strerror(errno));
    cdz_status st = make_folder(to, err);
    for (struct dirent *entry; st == CDZ_OK && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') st = copy_entry(from, to, entry->d_name, r, err);
    closedir(dir);
    return st;
}

static void say_what_next(const char *path, const char *kind, const char *lang, const renaming *r)
{
    const bool schedules = cdz_kind_of_name(kind) == CDZ_KIND_SCHEDULER;
    printf("%s: a package with the id %s. Next:\n\n  cd %s\n", path, r->id, path);
    if (strcmp(lang, "c") == 0)
        printf("  cc -std=c17 -O2 -shared -fPIC -fvisibility=hidden $(pkg-config --cflags "
               "cadenza-sdk) %s.c -o %s.so\n",
               r->name, r->name);
    printf("  cadenza plugin info .\n"
           "  cadenza plugin test .\n"
           "  sh test.sh\n"
           "  %s\n"
           "  cadenza plugin add .\n",
           schedules ? "cadenza serve --plugin . --config server.ini"
                     : "cadenza run --plugin . --pipeline story.ini -p 'river (noun):'");
}

/* ": did you mean 'x'?" for one of the names; "" when it is one of them or near none. */
static void suggest(const char *name, const char *const *names, size_t n, char out[64])
{
    const char *near = cdz_nearest_name(name, names, n);
    out[0] = '\0';
    if (near && strcmp(near, name) != 0) snprintf(out, 64, ": did you mean '%s'?", near);
}

static int no_template(const char *kind, const char *lang)
{
    static const char *const langs[] = {"lua", "c"};
    const char *kinds[32];
    size_t n = 0;
    char near_kind[64], near_lang[64];
    for (uint32_t k = CDZ_KIND_PROCESSOR; n < 32 && cdz_kind_name(k); k++)
        kinds[n++] = cdz_kind_name(k);
    suggest(kind, kinds, n, near_kind);
    suggest(lang, langs, 2, near_lang);
    const char *near = near_kind[0] ? near_kind : near_lang;
    return cdz_cli_misuse(
        "plugin",
        "new: no template for --kind %.40s --lang %.40s%s%s are processor, "
        "criterion, strategy, drafter, observer, press and, in c, loader and scheduler; languages lua and c",
        kind, lang, near, near[0] ? " Kinds" : "; kinds");
}

int cdz_cli_plugin_new(const char *path, const char *kind, const char *lang, const char *id)
{
    cdz_error err = {0};
    renaming r = {0};
    char relative[128], from[4352];
    const char *slash = strrchr(path, '/');
    if (strlen(kind) + strlen(lang) > 40 || strchr(kind, '/') || strchr(lang, '/'))
        return no_template(kind, lang);
    snprintf(relative, sizeof relative, "template/%s-%s", kind, lang);
    if (!cdz_cli_shared(relative, from, sizeof from)) return no_template(kind, lang);
    cdz_status st = make_renaming(kind, slash ? slash + 1 : path, id, &r, &err);
    if (st == CDZ_OK) st = copy_template(from, path, &r, &err);
    if (st != CDZ_OK) return cdz_cli_fail(&err);
    say_what_next(path, kind, lang, &r);
    return CDZ_EXIT_OK;
}
