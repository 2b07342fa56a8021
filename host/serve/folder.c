/* folder.c - pipelines that requests may name: the ini files of a folder. One that was read stays until the server ends, since
 * a request may use it; what is no file of the folder any more is not found. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/exchange.h"

static struct cdz_pipeline_file *find(const cdz_serve *serve, const char *name)
{
    for (struct cdz_pipeline_file *p = serve->pipelines; p; p = p->next)
        if (p->listed && strcmp(p->name, name) == 0) return p;
    return NULL;
}

static struct cdz_pipeline_file *find_file(const cdz_serve *serve, const char *path)
{
    struct cdz_pipeline_file *p = serve->pipelines;
    while (p && strcmp(p->path, path) != 0) p = p->next;
    return p;
}

bool cdz_serve_find_pipeline(void *user, const char *name, cdz_pipeline **out, const char **file)
{
    cdz_serve *serve = user;
    cdz_mutex_lock(&serve->folder_lock);
    const struct cdz_pipeline_file *found = find(serve, name);
    cdz_mutex_unlock(&serve->folder_lock);
    if (!found) return false;
    *out = found->pipeline;
    *file = found->path;
    return true;
}

/* "story.ini" becomes "story"; NULL: another kind of file, or no memory. */
static char *name_of(const char *file)
{
    const size_t n = strlen(file);
    if (n <= 4 || strcmp(file + n - 4, ".ini") != 0 || file[0] == '.') return NULL;
    return strndup(file, n - 4);
}

static void free_file(struct cdz_pipeline_file *p)
{
    cdz_pipeline_free(p->pipeline);
    free(p->name);
    free(p->path);
    free(p);
}

static cdz_status add(cdz_serve *serve, const char *path, const char *name, cdz_error *err)
{
    struct cdz_pipeline_file *p = calloc(1, sizeof *p);
    if (p)
        *p = (struct cdz_pipeline_file){.name = strdup(name), .path = strdup(path), .seen = true};
    cdz_status status = p && p->name && p->path
                            ? cdz_pipeline_load(serve->options.runtime, path, &p->pipeline, err)
                            : cdz_err_memory(err, "pipelines");
    if (status == CDZ_OK) {
        cdz_mutex_lock(&serve->folder_lock);
        p->next = serve->pipelines;
        serve->pipelines = p;
        cdz_mutex_unlock(&serve->folder_lock);
    } else if (p) {
        free_file(p);
    }
    return status;
}

/* One that is known is read again. */
static cdz_status take(cdz_serve *serve, const char *folder, const char *file, const char *name,
                       const cdz_model *model, cdz_error *err)
{
    char *joined = NULL;
    if (asprintf(&joined, "%s/%s", folder, file) < 0) return cdz_err_memory(err, "pipelines");
    char *path = realpath(joined, NULL);
    const int why = errno;
    free(joined);
    if (!path) return cdz_err(err, CDZ_E_IO, "%s/%s: %s", folder, file, strerror(why));
    struct cdz_pipeline_file *known = find_file(serve, path);
    cdz_status status;
    if (known)
        status = cdz_pipeline_reload(known->pipeline, model, err);
    else
        status = add(serve, path, name, err);
    if (known) known->seen = true;
    free(path);
    return status;
}

static cdz_status take_all(cdz_serve *serve, const char *folder, const cdz_model *model,
                           cdz_error *err)
{
    cdz_status status = CDZ_OK;
    const struct dirent *entry;
    DIR *dir = opendir(folder);
    if (!dir) return cdz_err(err, CDZ_E_IO, "pipelines %s: %s", folder, strerror(errno));
    while (status == CDZ_OK && (entry = readdir(dir)) != NULL) {
        char *name = name_of(entry->d_name);
        if (name) status = take(serve, folder, entry->d_name, name, model, err);
        free(name);
    }
    closedir(dir);
    return status;
}

cdz_status cdz_serve_read_folder(cdz_serve *serve, const char *folder, cdz_error *err)
{
    for (struct cdz_pipeline_file *p = serve->pipelines; p; p = p->next) p->seen = false;
    cdz_served *any = cdz_served_any(serve);
    const cdz_status status =
        folder ? take_all(serve, folder, any ? any->model : NULL, err) : CDZ_OK;
    cdz_served_leave(any);
    if (status != CDZ_OK) return status;
    cdz_mutex_lock(&serve->folder_lock);
    for (struct cdz_pipeline_file *p = serve->pipelines; p; p = p->next) p->listed = p->seen;
    cdz_mutex_unlock(&serve->folder_lock);
    return CDZ_OK;
}

cdz_status cdz_serve_reload_pipeline(cdz_serve *serve, const char *name, bool *found, cdz_error *err)
{
    cdz_pipeline *pipeline;
    const char *file;
    *found = cdz_serve_find_pipeline(serve, name, &pipeline, &file);
    if (!*found) return CDZ_OK;
    cdz_served *any = cdz_served_any(serve);
    const cdz_status status = cdz_pipeline_reload(pipeline, any ? any->model : NULL, err);
    cdz_served_leave(any);
    return status;
}

void cdz_serve_free_folder(cdz_serve *serve)
{
    while (serve->pipelines) {
        struct cdz_pipeline_file *next = serve->pipelines->next;
        free_file(serve->pipelines);
        serve->pipelines = next;
    }
}
