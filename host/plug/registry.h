/* registry.h - which plugins exist, where they came from, and what keeps them loaded.
 *
 * A plugin comes from a .so (dlopen of a private copy), from a file that a loader takes (sdk loader.h; the Lua host is
 * one, linked in) or from a package folder with plugin.ini that names one of these. Loaders are plugins like any other:
 * the packages of the directories that are loaders are known before the other files there are looked at, and when a file
 * comes that nobody takes. Ids are looked up in discovery order, first wins: files the user named, the
 * search path, the user's own directory, the built-in directory. What may run is plug/consent.h's; directories that anyone
 * may write to are not looked into.
 * Thread: every function may be called from any thread; the registry's lock serialises them. */
#ifndef CDZ_HOST_PLUG_REGISTRY_H
#define CDZ_HOST_PLUG_REGISTRY_H

#include "base/error.h"
#include "cadenza/plugin.h"
#include "call/files.h"
#include "plug/consent.h"

typedef struct cdz_registry cdz_registry;
/* One loaded file, reference-counted; unloaded with its last reference. */
typedef struct cdz_module cdz_module;

/* A plugin and what keeps its code in memory. Copying takes no reference: see retain. */
typedef struct cdz_plugin_ref {
    const cdz_plugin_base *base;
    cdz_module *module;
} cdz_plugin_ref;

typedef struct cdz_registry_options {
    /* Where the built-in plugins are; NULL: beside libcadenza or the program (plug/locate.h). */
    const char *builtin_dir;
    const char *search_path; /* further directories separated by ':'; NULL: none */
    const char *user_dir;    /* the user's own packages; NULL: none */
    const char *locks[2]; /* files that pin packages, the first that has an id wins; NULL: none */
    bool allow_model_plugins; /* scripts in a model's custom_generate folder */
    bool safe_mode;           /* built-in directory only */
} cdz_registry_options;

cdz_status cdz_registry_create(const cdz_registry_options *options, cdz_registry **out,
                               cdz_error *err);
/* Modules still referenced stay alive until released. */
void cdz_registry_free(cdz_registry *registry);
/* Where the built-in plugins are looked for; NULL when that cannot be told. */
const char *cdz_registry_builtin_dir(const cdz_registry *registry);
/* A plugin that is linked in and constant: it counts as built-in. For the loaders of the host. */
cdz_status cdz_registry_add_linked(cdz_registry *registry, const cdz_plugin_base *plugin,
                                   cdz_error *err);
/* Whether some loader takes files of this ending (n bytes, no dot). */
bool cdz_registry_takes(cdz_registry *registry, const char *ending, size_t n);

/* Loads a .so, a file that a loader takes or a package folder that the user named (that is consent) and makes its ids findable.
 * out: its first plugin (of `kind` when kind is not 0), retained; NULL: only make it known. A file already loaded and unchanged is shared; a
 * changed one is loaded anew beside the old. */
cdz_status cdz_registry_load(cdz_registry *registry, const char *path, uint32_t kind,
                             cdz_plugin_ref *out, cdz_error *err);

/* The same on the word of another: what a request alone names is nobody else's, and found by no id. */
cdz_status cdz_registry_load_for(cdz_registry *registry, cdz_namer by, const char *path,
                                 uint32_t kind, cdz_plugin_ref *out, cdz_error *err);

/* Finds a plugin by id, of any kind when kind is 0; retained. An id that nobody has means the one whose last part it is, -
 * and _ being alike ("trace" is org.cadenza.trace); CDZ_E_USAGE when that are several. CDZ_E_NOT_FOUND with the nearest
 * known id in the sentence. */
cdz_status cdz_registry_find(cdz_registry *registry, uint32_t kind, const char *id,
                             cdz_plugin_ref *out, cdz_error *err);

/* isolation = process: the plugin of an id, or of a file or package (is_path), in a process of its own; retained. Native
 * code found in a directory needs no pin for it. asked: what cannot be isolated (a script, another kind) is refused; else
 * that, and what is built in, is found or loaded as ever. by: who named a path. */
cdz_status cdz_registry_isolate(cdz_registry *registry, cdz_namer by, uint32_t kind,
                                const char *what, bool is_path, bool asked, cdz_plugin_ref *out,
                                cdz_error *err);

/* Reads again what is there: files that changed are loaded anew beside the old, directories are searched anew. What fails
 * keeps its old module and is remembered. */
cdz_status cdz_registry_refresh(cdz_registry *registry, cdz_error *err);
/* CDZ_OK, or why the newer file of a known module was refused at the last refresh. */
cdz_status cdz_registry_check_newest(cdz_registry *registry, const cdz_module *module,
                                     cdz_error *err);

/* Calls visit for every plugin that is known and that another of its kind and id, from another file, hides. */
typedef void cdz_collision_visit(void *user, const char *id, const char *used, const char *hidden);
void cdz_registry_collisions(cdz_registry *registry, cdz_collision_visit *visit, void *user);

void cdz_module_retain(cdz_module *module);
void cdz_module_release(cdz_module *module); /* NULL is fine */
const char *cdz_module_path(const cdz_module *module);
/* The i-th further file it was made of, that of its loader among them; NULL after the last. */
const char *cdz_module_file(const cdz_module *module, uint32_t i);
/* The files of data that were read with it, for "cadenza.files/1"; NULL: none, as for a module that is NULL. */
const cdz_call_files *cdz_module_data(const cdz_module *module);
/* "built-in", "user folder", "path", "named by the user" */
const char *cdz_module_origin(const cdz_module *module);
/* Whether it was made of a script: a file that a loader of the host sandboxes. */
bool cdz_module_is_script(const cdz_module *module);

/* Calls visit for every known plugin (loading what the directories hold) in discovery order; for `plugin list`.
 * pin: the lock file that pins it, "" for what was found and is not pinned, NULL for what needs no pin. problem: NULL, why
 * the file was refused (then ref.base is NULL), or which file shadows the plugin. No lock is held: visit may call the
 * registry. */
typedef struct cdz_plugin_line {
    cdz_plugin_ref ref;
    const char *path, *origin, *pin, *problem;
} cdz_plugin_line;
typedef void cdz_plugin_visit(void *user, const cdz_plugin_line *line);
cdz_status cdz_registry_visit(cdz_registry *registry, cdz_plugin_visit *visit, void *user,
                              cdz_error *err);

#endif
