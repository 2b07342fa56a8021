/* loader.h - loaders: they make plugins from files of a type of your own, as the host's Lua loader does from .lua files.
 *
 * Scenario. Users write `ban damn` into a file calm.rules and use it as a processor. Your shared object exports
 * one cdz_loader whose endings (file name extensions) are "rules". Once it is loaded (--plugin, or found pinned in a plugin
 * folder) a pipeline may say
 *     processors = rules:calm.rules
 * The host reads the file, calls your open, which makes descriptors, checks these as it checks a shared object's, and
 * uses them as any other plugin: parameters, reload, `cadenza plugin info`, `cadenza plugin test`.
 *
 *     open(file)  ->  descriptors  ->  the plugins' own calls, as long as they are in use  ->  close
 *
 * base.loader_data points to what the functions of a descriptor need; they find it as step->plugin->loader_data.
 *
 * Files. The host reads them: open gets the bytes that plugin.ini or cadenza.lock promise, and those of the
 * further files that the package's plugin.ini lists. A changed file, or a changed loader, is opened anew beside the old
 * one: several versions may be open at once, each with its own state. So keep nothing in static variables.
 *
 * Trust. A loader is native code and needs consent like any other, and so do the files it opens: a file that the user named
 * is loaded, one in a plugin folder needs a pin, one in a model's folder is refused. The exception is a loader
 * that comes with the host and declares CDZ_SANDBOXES: its files count as scripts, like Lua's.
 *
 * Endings. An ending of a loader that comes with the host is taken. Two loaders with the same ending are refused. Of two
 * loaders with the same id the first that is found is used.
 *
 * Errors. As everywhere: return cdz_fail(step, CDZ_E_INPUT, "%s:%u: ...", file->path, line); close is not called then. */
#ifndef CADENZA_LOADER_H
#define CADENZA_LOADER_H

#include "plugin.h"

typedef struct cdz_plugin_file cdz_plugin_file;

/* A file to open; all of it is borrowed until open returns. */
struct cdz_plugin_file {
    uint32_t size;
    uint32_t n_files;
    const char *path; /* as the user named it or it was found: for error sentences */
    const char *name; /* its last part */
    /* len bytes and one NUL that len does not count. NULL in `files`: larger than max_bytes, and not read. */
    const char *bytes;
    uint64_t len;
    /* (n_files) other files of the package, in the order of its plugin.ini (files = ...); their n_files is 0. */
    const cdz_plugin_file *const *files;
};

/* The result of open. All fields but size arrive zeroed. */
typedef struct cdz_opened {
    uint32_t size;
    uint32_t n_plugins;                    /* 1 to 256; no loaders among them */
    const cdz_plugin_base *const *plugins; /* (n_plugins); they and all they point to live until close */
    void *state;                           /* passed to close */
} cdz_opened;

typedef enum cdz_loader_cap {
    /* Its files are data, not code: they can do no more than their plugins may. Ignored in loaders that do not come
     * with the host. */
    CDZ_SANDBOXES = 1u << 0,
} cdz_loader_cap;

typedef struct cdz_loader {
    cdz_plugin_base base; /* without parameters: n_params is 0 */
    uint32_t caps;        /* cdz_loader_cap */
    uint32_t max_bytes;   /* larger files are refused unread; 0: the host's limit, 256 MiB */
    /* The extensions of its files' names, after the last dot: "rules", or several: "rules|ban". [a-z0-9_]{1,48} each. */
    const char *endings;
    /* [load] Must be quick. Memory of cdz_alloc lives until close, that of cdz_scratch until the return;
     * after a failure the host frees both. step->params, request and rows are NULL. */
    cdz_status (*open)(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out);
    /* [any; once for each successful open, when its plugins are no longer in use] Optional. */
    void (*close)(const cdz_step *step, void *state);
} cdz_loader;

#define CDZ_LOADER_BASE .size = sizeof(cdz_loader), .kind = CDZ_KIND_LOADER

#endif
