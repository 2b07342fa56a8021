/* loader.h - loaders: make plugins of files of a type of your own, as the host's Lua loader does of .lua files.
 *
 * Scenario. People should write `ban damn` into a file calm.rules and use it as a processor. Your shared object exports
 * one cdz_loader whose endings are "rules"; once it is loaded (--plugin, or found pinned in a plugin folder) a pipeline
 * may say
 *     processors = rules:calm.rules
 * and the host reads the file, has your open make descriptors of it, checks them as it checks a shared object's, and
 * uses them as any other plugin: parameters, reload, `cadenza plugin info`, `cadenza plugin test`.
 *
 *     open(file)  ->  descriptors  ->  the plugins' own calls, for as long as anybody uses them  ->  close
 *
 * What a descriptor's functions need to know, base.loader_data points to; they find it as step->plugin->loader_data.
 *
 * Files. The host does the reading: open is given the bytes that a plugin.ini or cadenza.lock promise, and those of the
 * further files that the package's plugin.ini lists. A changed file, or a changed loader, is opened anew beside the old
 * one: several versions are open at once, each with a state of its own. So keep nothing in static variables.
 *
 * Trust. A loader is native code and is consented to as any other. So are the files it opens: what a user named is
 * loaded, what lies in a plugin folder needs a pin, what lies in a model's folder is refused. The exception is a loader
 * that comes with the host and says CDZ_SANDBOXES: its files are data, as Lua scripts are.
 *
 * Endings. One that a loader of the host takes is taken. Two loaders that want the same one are refused; a loader that
 * shadows another of the same id takes its place.
 *
 * Errors. As everywhere: return cdz_fail(step, CDZ_E_INPUT, "%s:%u: ...", file->path, line); nothing is closed then. */
#ifndef CADENZA_LOADER_H
#define CADENZA_LOADER_H

#include "plugin.h"

typedef struct cdz_plugin_file cdz_plugin_file;

/* A file to open; all of it is borrowed until open returns. */
struct cdz_plugin_file {
    uint32_t size;
    uint32_t n_files;
    const char *path; /* as the user named it or it was found: for sentences */
    const char *name; /* its last part */
    /* len bytes and one NUL that len does not count. NULL in `files`: larger than max_bytes, and not read. */
    const char *bytes;
    uint64_t len;
    /* (n_files) of the same package, in the order of its plugin.ini (files = ...); those have none of their own. */
    const cdz_plugin_file *const *files;
};

/* What open found in a file. Arrives zeroed but for size. */
typedef struct cdz_opened {
    uint32_t size;
    uint32_t n_plugins;                    /* 1 to 256; no loaders among them */
    const cdz_plugin_base *const *plugins; /* (n_plugins); they and all they point to live until close */
    void *state;                           /* yours, for close */
} cdz_opened;

typedef enum cdz_loader_cap {
    /* What its files say can do no more than the plugins that they make may: they are data, not code. Believed of
     * loaders that come with the host. */
    CDZ_SANDBOXES = 1u << 0,
} cdz_loader_cap;

typedef struct cdz_loader {
    cdz_plugin_base base; /* without parameters: n_params is 0 */
    uint32_t caps;        /* cdz_loader_cap */
    uint32_t max_bytes;   /* larger files are refused unread; 0: the host's limit, 256 MiB */
    /* Of the names of its files, behind the last dot: "rules", or several: "rules|ban". [a-z0-9_]{1,48} each. */
    const char *endings;
    /* [load] Runs nothing that takes long. cdz_alloc gives memory that lives until close, cdz_scratch until the return;
     * both do so on failure too. step->params, request and rows are NULL. */
    cdz_status (*open)(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out);
    /* [any; once for each open that went well, when nobody uses its plugins any more] Optional. */
    void (*close)(const cdz_step *step, void *state);
} cdz_loader;

#define CDZ_LOADER_BASE .size = sizeof(cdz_loader), .kind = CDZ_KIND_LOADER

#endif
