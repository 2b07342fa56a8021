/* backends.c - shared objects with a compute backend. Nothing is promised across builds, so whatever an object says of
 * itself is compared before a function of it is called. */
#include "device/backends.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "plug/locate.h"

static void find_folder(const char *folder, char *path, size_t bytes)
{
    cdz_arena arena = {0};
    const char *plugins = folder ? NULL : cdz_locate_plugins(&arena);
    path[0] = '\0';
    if (folder)
        snprintf(path, bytes, "%s", folder);
    else if (plugins)
        snprintf(path, bytes, "%s/backends", plugins);
    cdz_arena_free(&arena);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* "cuda" of "cuda.so". */
static bool name_of_file(const char *file, char *name)
{
    const size_t len = strlen(file);
    if (len <= 3 || len - 3 >= CDZ_BACKEND_NAME || strcmp(file + len - 3, ".so") != 0) return false;
    if (file[0] == '.') return false;
    memcpy(name, file, len - 3);
    name[len - 3] = '\0';
    return true;
}

void cdz_backends_list(const char *folder, cdz_backend_list *out)
{
    out->n = 0;
    find_folder(folder, out->folder, sizeof out->folder);
    DIR *dir = opendir(out->folder);
    if (!dir) return;
    for (const struct dirent *e; out->n < CDZ_MOST_BACKENDS && (e = readdir(dir));)
        if (name_of_file(e->d_name, out->names[out->n])) out->n++;
    closedir(dir);
    qsort(out->names, out->n, sizeof out->names[0], by_text);
}

static cdz_status check_entry(const cdz_backend_entry *entry, const char *path, const char *name,
                              cdz_error *err)
{
    if (!entry || entry->interface != CDZ_BACKEND_INTERFACE)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "device %s: %s was built for interface %u of backends, this program has %u; "
                       "both must come from one build",
                       name, path, entry ? entry->interface : 0, (unsigned)CDZ_BACKEND_INTERFACE);
    if (entry->size != sizeof *entry || entry->api_size != sizeof(cdz_backend_api))
        return cdz_err(
            err, CDZ_E_UNSUPPORTED,
            "device %s: %s has an entry of %u bytes and operations of %u, this program of "
            "%zu and %zu; both must come from one build",
            name, path, entry->size, entry->api_size, sizeof *entry, sizeof(cdz_backend_api));
    if (!entry->build || strcmp(entry->build, CDZ_BACKEND_BUILD) != 0)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "device %s: %s is of build %.60s, this program of %s; both must come from "
                       "one build",
                       name, path, entry->build ? entry->build : "unknown", CDZ_BACKEND_BUILD);
    if (!entry->name || strcmp(entry->name, name) != 0)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "device %s: %s says it is '%.40s'", name, path,
                       entry->name ? entry->name : "");
    if (!entry->count || !entry->describe || !entry->create)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "device %s: %s lacks a function", name, path);
    return CDZ_OK;
}

/* The entry's function, which ISO C does not let a data pointer become. */
static cdz_backend_entry_fn *find_entry(void *library)
{
    void *symbol = dlsym(library, CDZ_BACKEND_SYMBOL);
    cdz_backend_entry_fn *fn = NULL;
    memcpy(&fn, &symbol, sizeof fn);
    return fn;
}

cdz_status cdz_backend_load(const char *folder, const char *name, const cdz_backend_entry **out,
                            cdz_error *err)
{
    char place[4096], path[4096 + CDZ_BACKEND_NAME + 8];
    find_folder(folder, place, sizeof place);
    snprintf(path, sizeof path, "%s/%s.so", place, name);
    if (access(path, F_OK) != 0)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "device %s: this installation has no backend for it: %s is not there", name,
                       path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "device %s: cannot be loaded: %s", name, dlerror());
    cdz_backend_entry_fn *fn = find_entry(library);
    dlclose(library); /* NODELETE: it stays */
    if (!fn)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "device %s: %s is no backend: it has no symbol %s",
                       name, path, CDZ_BACKEND_SYMBOL);
    const cdz_backend_entry *entry = fn();
    CDZ_TRY(check_entry(entry, path, name, err));
    *out = entry;
    return CDZ_OK;
}
