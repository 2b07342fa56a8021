/* plugin_add.c - `cadenza plugin add` and `remove`: a package shown, pinned in cadenza.lock and copied to where ids are
 * looked for. Nothing of a package runs before the user has said yes. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/plugins.h"
#include "base/environment.h"
#include "cli/cli.h"
#include "describe/descriptor.h"
#include "plug/lock_write.h"
#include "plug/package.h"
#include "plug/places.h"

typedef struct adding {
    cdz_arena arena;
    cdz_registry_options places;
    const char *lock; /* the file that will pin it */
    const char *home; /* the directory of packages it lies in, or NULL: it is copied to places.user_dir */
    cdz_package package;
    char *staged;
} adding;

/* --- where ------------------------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

/* The working folder's when it has one, else the user's. */
static const char *usual_lock(const cdz_registry_options *places)
{
    return exists(places->locks[0]) || !places->locks[1] ? places->locks[0] : places->locks[1];
}

static bool same_folder(const char *a, const char *b, size_t b_len)
{
    char path[4096];
    struct stat s, t;
    const int n = snprintf(path, sizeof path, "%.*s", (int)b_len, b);
    return n > 0 && (size_t)n < sizeof path && stat(a, &s) == 0 && stat(path, &t) == 0 &&
           s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* Whether the package already lies where ids are looked for. */
static cdz_status find_home(adding *a, const char *folder, cdz_error *err)
{
    const char *parent = cdz_arena_printf(&a->arena, "%s/..", folder);
    if (!parent) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    const char *user = a->places.user_dir, *rest = a->places.search_path;
    if (user && same_folder(parent, user, strlen(user))) a->home = user;
    for (; !a->home && rest && *rest; rest += *rest == ':') {
        const size_t n = strcspn(rest, ":");
        if (n && same_folder(parent, rest, n)) a->home = cdz_arena_strndup(&a->arena, rest, n);
        rest += n;
    }
    return CDZ_OK;
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* What people give in place of a package's folder. */
static cdz_status check_folder(const char *folder, cdz_error *err)
{
    static const char *const archives[] = {".tgz",    ".tar.gz", ".tar",
                                           ".tar.xz", ".zip",    ".tar.zst"};
    for (size_t i = 0; i < sizeof archives / sizeof archives[0]; i++)
        if (ends_in(folder, archives[i]) && !strstr(folder, "://"))
            return cdz_err(err, CDZ_E_USAGE,
                           "plugin add: %s is an archive; unpack it, look at it, and add its folder",
                           folder);
    if (strstr(folder, "://"))
        return cdz_err(
            err, CDZ_E_USAGE,
            "plugin add: %s is an address; Cadenza does not download: fetch it, look at it, and "
            "add its folder",
            folder);
    if (!ends_in(folder, ".lua") && !ends_in(folder, ".so")) return CDZ_OK;
    return cdz_err(
        err, CDZ_E_USAGE,
        "plugin add: %s is one file; --plugin %s runs it, and `cadenza plugin new FOLDER` makes "
        "a package to move it into",
        folder, folder);
}

static cdz_status look(adding *a, const char *folder, const char *lock, cdz_error *err)
{
    CDZ_TRY(check_folder(folder, err));
    if (!cdz_places_of_user(&a->arena, &a->places))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    a->lock = lock ? lock : usual_lock(&a->places);
    CDZ_TRY(cdz_package_read(folder, &a->package, err));
    CDZ_TRY(find_home(a, folder, err));
    if (a->home || a->places.user_dir) return CDZ_OK;
    return cdz_err(err, CDZ_E_STATE,
                   "plugin add: there is no folder for your plugins: set HOME or XDG_DATA_HOME");
}

/* --- showing and asking ------------------------------------------------------------------------------------- */

/* Bytes of path that stand for the home folder, which is shown as "~". */
static size_t home_bytes(const char *path)
{
    const char *home = cdz_env_home();
    const size_t n = home ? strlen(home) : 0;
    return n > 1 && strncmp(path, home, n) == 0 && path[n] == '/' ? n : 0;
}

static void show_path(const char *label, const char *path)
{
    const size_t n = home_bytes(path);
    printf("%-10s %s%s", label, n ? "~" : "", path + n);
}

static void show(const adding *a, const char *folder, const cdz_pin *old)
{
    const cdz_manifest *m = &a->package.manifest;
    const size_t n = strlen(m->entry);
    const bool native = n > 3 && strcmp(m->entry + n - 3, ".so") == 0;
    printf("%-10s %s\n%-10s %s\n%-10s %s\n", "id", m->id, "version", m->version, "kind",
           cdz_kind_name(m->kind));
    if (m->summary) printf("%-10s %s\n", "summary", m->summary);
    printf("%-10s %s\n%-10s %s\n", "licence", m->license ? m->license : "not said", "needs",
           m->needs ? m->needs : "not said");
    printf("%-10s %s\n", "runs as",
           native ? "native code, with all rights of the program" : "a script, in the sandbox");
    for (uint32_t i = 0; i < a->package.n_files; i++)
        printf("%-10s %s  %s\n", i ? "" : "sha256", a->package.files[i].sha256,
               a->package.files[i].name);
    if (a->home) {
        show_path("stays in", folder);
        printf(", where it is\n");
    } else {
        show_path("copied to", a->places.user_dir);
        printf("/%s\n", m->id);
    }
    show_path("pinned in", a->lock);
    if (old) printf(", in place of version %s with other files", old->version);
    printf("\n");
    fflush(stdout);
}

static cdz_status ask(bool yes, cdz_error *err)
{
    char answer[8] = "";
    if (yes) return CDZ_OK;
    if (!isatty(STDIN_FILENO))
        return cdz_err(err, CDZ_E_USAGE,
                       "plugin add asks first, and here nobody can answer: --yes says yes");
    fputs("Add it? [y/N] ", stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return CDZ_OK;
    return cdz_err(err, CDZ_E_CANCELLED, "plugin add: nothing was changed");
}

/* --- adding ------------------------------------------------------------------------------------------------- */

/* Loads what will be found by its id, so that a package that does not work is not pinned. */
static cdz_status try_package(const char *folder, cdz_error *err)
{
    cdz_registry *registry = NULL;
    const cdz_registry_options want = {.allow_model_plugins = true};
    cdz_status st = cdz_plugins_open_user(&want, &folder, 1, &registry, err);
    cdz_registry_free(registry);
    return st;
}

/* Refuses what would not be loaded from where it lies. */
static cdz_status check_home(const char *folder, cdz_error *err)
{
    struct stat s;
    if (stat(folder, &s) != 0 || !(s.st_mode & S_IWOTH)) return CDZ_OK;
    return cdz_err(err, CDZ_E_DENIED, "%s: anyone may write to this folder; chmod o-w it", folder);
}

/* The copy that is tried has a name of its own, which nobody has seen. */
static cdz_status name_as_typed(const adding *a, const char *folder, cdz_error *err)
{
    const size_t n = strlen(a->staged);
    const cdz_error said = *err;
    if (strncmp(said.text, a->staged, n) != 0) return said.code;
    return cdz_err(err, said.code, "%s%s", folder, said.text + n);
}

/* The copy first: until the lock names its bytes it cannot be loaded. */
static cdz_status put(adding *a, const char *folder, cdz_lock_edit *edit, cdz_error *err)
{
    cdz_pin_file files[CDZ_LOCK_FILES];
    const cdz_pin pin = cdz_package_pin(&a->package, files);
    const cdz_pin *old = cdz_lock_find(&edit->lock, pin.id);
    if (a->home) {
        CDZ_TRY(check_home(a->home, err));
        CDZ_TRY(check_home(folder, err));
        CDZ_TRY(try_package(folder, err));
    } else {
        const char *user_dir = a->places.user_dir;
        CDZ_TRY(check_home(user_dir, err));
        CDZ_TRY(cdz_package_stage(&a->package, user_dir, &a->arena, &a->staged, err));
        if (try_package(a->staged, err) != CDZ_OK) return name_as_typed(a, folder, err);
        CDZ_TRY(cdz_package_install(&a->package, a->staged, user_dir, old, err));
        a->staged = NULL;
    }
    return cdz_lock_put(&edit->lock, &pin, err);
}

static cdz_status pin_package(adding *a, const char *folder, cdz_error *err)
{
    cdz_lock_edit edit = {.fd = -1};
    CDZ_TRY(cdz_lock_edit_begin(a->lock, &edit, err));
    cdz_status st = put(a, folder, &edit, err);
    if (st == CDZ_OK) return cdz_lock_edit_commit(&edit, err);
    cdz_lock_edit_abort(&edit);
    return st;
}

static cdz_status add(adding *a, const char *folder, const char *lock, bool yes, cdz_error *err)
{
    cdz_lock now = {0};
    CDZ_TRY(look(a, folder, lock, err));
    CDZ_TRY(cdz_lock_read(a->lock, &now, err));
    const cdz_pin *old = cdz_lock_find(&now, a->package.manifest.id);
    if (old && cdz_package_matches(&a->package, old)) old = NULL;
    show(a, folder, old);
    cdz_lock_free(&now);
    CDZ_TRY(ask(yes, err));
    if (pin_package(a, folder, err) != CDZ_OK) return cdz_err_prefix(err, "nothing was pinned");
    printf("\n%s is pinned; `cadenza plugin info %s` shows its parameters\n",
           a->package.manifest.id, a->package.manifest.id);
    return CDZ_OK;
}

int cdz_cli_plugin_add(const char *folder, const char *lock, bool yes, bool safe_mode)
{
    adding *a = calloc(1, sizeof *a);
    cdz_error err = {0};
    cdz_status st = CDZ_OK;
    if (!a)
        st = cdz_err(&err, CDZ_E_NOMEM, "out of memory");
    else if (safe_mode)
        st = cdz_err(&err, CDZ_E_DENIED, "plugin add: in safe mode nothing is added");
    else
        st = add(a, folder, lock, yes, &err);
    if (a) {
        cdz_package_unstage(a->staged);
        cdz_package_free(&a->package);
        cdz_arena_free(&a->arena);
    }
    free(a);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

/* --- removing ----------------------------------------------------------------------------------------------- */

/* The lock that pins id; *others tells that another one does, too. */
static cdz_status find_lock(const cdz_registry_options *places, const char *id, const char **lock,
                            bool *others, cdz_error *err)
{
    *lock = NULL;
    *others = false;
    for (size_t i = 0; i < 2; i++) {
        cdz_lock one = {0};
        if (!places->locks[i]) continue;
        CDZ_TRY(cdz_lock_read(places->locks[i], &one, err));
        const bool pins = cdz_lock_find(&one, id) != NULL;
        cdz_lock_free(&one);
        if (pins && *lock) *others = true;
        if (pins && !*lock) *lock = places->locks[i];
    }
    return CDZ_OK;
}

static cdz_status not_pinned(const cdz_lock *lock, const char *id, cdz_error *err)
{
    cdz_arena arena = {0};
    const char **ids = cdz_arena_array(&arena, lock->n_pins + 1u, sizeof *ids);
    for (uint32_t i = 0; ids && i < lock->n_pins; i++) ids[i] = lock->pins[i].id;
    const char *near = ids ? cdz_nearest_name(id, ids, lock->n_pins) : NULL;
    cdz_status st = cdz_err(err, CDZ_E_NOT_FOUND, "plugin remove: %s pins no '%s'%s%s%s", lock->path,
                            id, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    cdz_arena_free(&arena);
    return st;
}

static void delete_copy(const char *user_dir, const cdz_pin *pin)
{
    cdz_arena arena = {0};
    struct stat s;
    bool gone = false;
    const char *folder = user_dir ? cdz_arena_printf(&arena, "%s/%s", user_dir, pin->id) : NULL;
    if (folder && lstat(folder, &s) == 0 && S_ISDIR(s.st_mode)) {
        cdz_package_delete(folder, pin, &gone);
        const size_t n = home_bytes(folder);
        if (gone)
            printf("deleted %s%s\n", n ? "~" : "", folder + n);
        else
            printf("%s holds files that were not pinned; they are left there\n", folder);
    }
    cdz_arena_free(&arena);
}

static cdz_status drop(cdz_lock_edit *edit, const char *id, const char *user_dir, cdz_error *err)
{
    const cdz_pin *found = cdz_lock_find(&edit->lock, id);
    if (!found) return not_pinned(&edit->lock, id, err);
    cdz_lock kept = {0}; /* the pin outlives the lock it is dropped from */
    cdz_status st = cdz_lock_put(&kept, found, err);
    const char *path = cdz_arena_strdup(&kept.arena, edit->lock.path);
    (void)cdz_lock_drop(&edit->lock, id);
    if (st == CDZ_OK) st = cdz_lock_edit_commit(edit, err);
    if (st == CDZ_OK) {
        const size_t n = path ? home_bytes(path) : 0;
        printf("%s is no longer pinned in %s%s\n", id, n ? "~" : "",
               path ? path + n : CDZ_LOCK_FILE);
        delete_copy(user_dir, &kept.pins[0]);
    }
    cdz_lock_free(&kept);
    return st;
}

static cdz_status remove_pin(cdz_arena *arena, const char *id, const char *lock, cdz_error *err)
{
    cdz_registry_options places = {0};
    cdz_lock_edit edit = {.fd = -1};
    const char *pinning = NULL;
    bool others = false;
    if (!cdz_places_of_user(arena, &places)) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (!lock) CDZ_TRY(find_lock(&places, id, &pinning, &others, err));
    CDZ_TRY(cdz_lock_edit_begin(lock ? lock : pinning ? pinning : usual_lock(&places), &edit, err));
    cdz_status st = drop(&edit, id, others ? NULL : places.user_dir, err);
    if (st != CDZ_OK) cdz_lock_edit_abort(&edit);
    return st;
}

int cdz_cli_plugin_remove(const char *id, const char *lock)
{
    cdz_arena arena = {0};
    cdz_error err = {0};
    cdz_status st = remove_pin(&arena, id, lock, &err);
    cdz_arena_free(&arena);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}
