/* cmd_plugin.c - `cadenza plugin`: which plugins there are, and what one of them takes and promises. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/plugins.h"
#include "cadenza/criterion.h"
#include "cadenza/loader.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "cli/cli.h"
#include "cli/plugin_page.h"
#include "cli/plugin_path.h"
#include "describe/descriptor.h"
#include "describe/layout.h"
#include "params/params.h"
#include "params/schema.h"
#include "plug/manifest.h"
#include "plug/registry.h"
#include "prepare/prepare.h"

enum { OPT_KIND = CDZ_OPT_OWN, OPT_LANG, OPT_ID, OPT_YES, OPT_LOCK, OPT_JSON };

static const cdz_verb verbs[] = {
    {"list", "lists every plugin: id, kind, version and what it does"},
    {"info ID|PATH",
     "describes one plugin: its parameters with ranges, its capabilities, its file; PATH is a "
     "package folder, a .so, a .lua or another loader's file"},
    {"page ID|PATH", "the same as a Markdown page, for a package's documentation"},
    {"schema [ID|PATH]", "JSON Schema of a plugin's parameters; without one: of request "
                         "documents"},
    {"new PATH", "makes a new package in the folder PATH: a working example to change"},
    {"add FOLDER", "shows a package and asks; if you agree it is copied to your plugin folder "
                   "and pinned in cadenza.lock, so that its id works everywhere"},
    {"remove ID", "deletes its pin and the copy that add made"},
    {"test PATH|ID", "tests a plugin against the rules of its header; see plugin test --help"},
    {"abi", "shows sizes, offsets and values of the ABI, for other languages than C"},
    {0},
};
static const cdz_flag flags[] = {
    {"verbose", 'v', 'v', CDZ_FLAG_OFTEN, NULL,
     "list: where each comes from, which plugin hides which, what was refused and why"},
    {"yes", 0, OPT_YES, CDZ_FLAG_OFTEN, NULL, "add: do not ask"},
    {"lock", 0, OPT_LOCK, CDZ_FLAG_ONCE, "FILE",
     "add, remove: this lock; default: cadenza.lock in the working folder if there is one, else "
     "~/.config/cadenza/cadenza.lock"},
    {"kind", 0, OPT_KIND, CDZ_FLAG_OFTEN, "KIND",
     "new: processor (the default), criterion, strategy, drafter, observer, loader, scheduler or press"},
    {"lang", 0, OPT_LANG, CDZ_FLAG_OFTEN, "LANG", "new: lua (the default) or c"},
    {"id", 0, OPT_ID, 0, "ID", "new: the id; default: org.example. and the folder's name"},
    {"json", 0, OPT_JSON, CDZ_FLAG_ONCE, NULL, "abi: as a JSON object"},
    {0},
};

const cdz_page cdz_page_plugin = {
    .name = "plugin",
    .summary = "list, describe, make, test, add and remove plugins",
    .usage = "plugin VERB [arguments] [options]\n",
    .about =
        "Shows the strategies, processors, stopping criteria, drafters, observers and presses of "
        "pipelines, the schedulers of servers, and loaders. When a package that lies in a folder of "
        "CADENZA_PLUGIN_PATH is added, it is pinned there and not copied.",
    .verbs = verbs,
    .flags = flags,
    .takes = CDZ_TAKES_PLUGINS | CDZ_TAKES_MODEL_PLUGINS,
    .examples = "cadenza plugin info top_p\n"
                "cadenza plugin new calmer --kind processor --lang lua\n"
                "cadenza plugin test ./calmer\n"
                "cadenza plugin add ./calmer\n"
                "cadenza plugin page top_p > top_p.md\n"
                "CADENZA_PLUGIN_PATH=~/plugins cadenza plugin list -v\n",
};

typedef struct options {
    cdz_cli_options common;
    bool verbose, yes, json;
    const char *kind, *lang, *id; /* of new */
    const char *lock;             /* of add and remove */
} options;

/* --- opening ---------------------------------------------------------------------------------------------- */

static cdz_status open_registry(const options *o, cdz_registry **out, cdz_error *err)
{
    const cdz_options *said = &o->common.host.options;
    const cdz_registry_options want = {.allow_model_plugins = said->allow_model_plugins,
                                       .safe_mode = said->safe_mode};
    return cdz_plugins_open_user(&want, said->plugins, said->n_plugins, out, err);
}

/* --- list ------------------------------------------------------------------------------------------------- */

typedef struct lister {
    bool verbose;
    uint32_t kind;                    /* the kind to show now; 0: what was refused */
    const char *title;                /* of the group, until its first line was shown */
    unsigned shown, plugins, refused; /* lines, plugins among them, refusals */
} lister;

/* A group's title comes before its first line. */
static void show_title(lister *l)
{
    if (l->title) printf("%s%s\n", l->shown ? "\n" : "", l->title);
    l->title = NULL;
    l->shown++;
}

static void show_line(void *user, const cdz_plugin_line *line)
{
    lister *l = user;
    const cdz_plugin_base *base = line->ref.base;
    if (l->kind == 0) {
        if (base) return;
        l->refused++;
        if (!l->verbose) return;
        show_title(l);
        printf("  %s\n", line->problem);
        return;
    }
    if (!base || base->kind != l->kind || (line->problem && !l->verbose)) return;
    show_title(l);
    l->plugins++;
    printf("  %-38s %-8s %s\n", base->id, base->version, base->summary);
    if (l->verbose)
        printf("  %38s %s: %s%s%s\n", "", line->origin, line->path,
               !line->pin     ? ""
               : line->pin[0] ? ", pinned in "
                              : ", not pinned",
               line->pin ? line->pin : "");
    if (line->problem) printf("  %38s %s\n", "", line->problem);
}

static cdz_status list_all(cdz_registry *registry, lister *l, cdz_error *err)
{
    static const struct {
        uint32_t kind;
        const char *title;
    } groups[] = {{CDZ_KIND_STRATEGY, "strategies"},
                  {CDZ_KIND_PROCESSOR, "processors"},
                  {CDZ_KIND_CRITERION, "stopping criteria"},
                  {CDZ_KIND_DRAFTER, "drafters"},
                  {CDZ_KIND_OBSERVER, "observers"},
                  {CDZ_KIND_LOADER, "loaders"},
                  {CDZ_KIND_SCHEDULER, "schedulers"},
                  {CDZ_KIND_PRESS, "presses"},
                  {0, "refused"}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        l->title = groups[i].title;
        l->kind = groups[i].kind;
        CDZ_TRY(cdz_registry_visit(registry, show_line, l, err));
    }
    return CDZ_OK;
}

static int list_command(const options *o)
{
    cdz_registry *registry = NULL;
    cdz_error err = {0};
    lister l = {.verbose = o->verbose};
    cdz_status st = open_registry(o, &registry, &err);
    if (st == CDZ_OK && o->verbose)
        cdz_cli_plugin_places(o->common.host.options.safe_mode, registry);
    if (st == CDZ_OK) st = list_all(registry, &l, &err);
    if (st == CDZ_OK && l.plugins == 0) {
        const char *place = cdz_registry_builtin_dir(registry);
        st = cdz_err(&err, CDZ_E_NOT_FOUND, "no plugins: the built-in ones are not in %s",
                     place ? place : "lib/cadenza beside the program");
    }
    cdz_registry_free(registry);
    if (st != CDZ_OK) return cdz_cli_fail(&err);
    if (l.refused && !l.verbose)
        cdz_cli_say("%u file%s or director%s not used; `cadenza plugin list -v` says why",
                    l.refused, l.refused == 1 ? "" : "s", l.refused == 1 ? "y was" : "ies were");
    return CDZ_EXIT_OK;
}

/* --- info ------------------------------------------------------------------------------------------------- */

static void show_caps(const cdz_plugin_base *base)
{
    const char *label = "promises", *text;
    for (uint32_t i = 0; (text = cdz_cli_plugin_promise(base, i)) != NULL; i++) {
        printf("%-10s %s\n", label, text);
        label = "";
    }
}

static uint32_t state_size(const cdz_plugin_base *base)
{
    if (base->kind == CDZ_KIND_PROCESSOR) return ((const cdz_processor *)base)->state_size;
    if (base->kind == CDZ_KIND_CRITERION) return ((const cdz_criterion *)base)->state_size;
    return 0;
}

static cdz_status show_params(const cdz_plugin_base *base, cdz_error *err)
{
    cdz_buf text = {0};
    const cdz_param_table table = cdz_params_of(base);
    if (table.n == 0) {
        printf("\nno parameters\n");
        return CDZ_OK;
    }
    cdz_params_help(&table, &text);
    cdz_status st = text.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
    if (st == CDZ_OK) printf("\nparameters\n%s", text.data ? text.data : "");
    cdz_buf_free(&text);
    return st;
}

/* What only plugin.ini knows; path may be anything. */
static void show_package(const char *path)
{
    cdz_manifest m;
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode) || cdz_manifest_read(path, &m, NULL) != CDZ_OK)
        return;
    if (m.license) printf("%-10s %s\n", "licence", m.license);
    if (m.needs) printf("%-10s %s\n", "needs", m.needs);
    if (m.sha256) printf("%-10s %s\n", "sha256", m.sha256);
    cdz_manifest_free(&m);
}

static cdz_status show_page(const cdz_plugin_base *base, cdz_error *err)
{
    cdz_buf page = {0};
    cdz_cli_plugin_page(base, &page);
    cdz_status st = page.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
    if (st == CDZ_OK) fputs(page.data, stdout);
    cdz_buf_free(&page);
    return st;
}

/* package: its folder, or NULL. */
static cdz_status show_plugin(const cdz_plugin_ref *ref, const char *package, bool as_page,
                              cdz_error *err)
{
    if (as_page) return show_page(ref->base, err);

    const cdz_plugin_base *base = ref->base;
    printf("%-10s %s\n%-10s %s\n%-10s %s\n", "id", base->id, "kind", cdz_kind_name(base->kind),
           "version", base->version);
    if (base->summary[0]) printf("%-10s %s\n", "summary", base->summary);
    printf("%-10s %s (%s)\n", "file", cdz_module_path(ref->module), cdz_module_origin(ref->module));
    if (package) show_package(package);
    if (base->kind == CDZ_KIND_LOADER)
        printf("%-10s %s\n", "endings", ((const cdz_loader *)base)->endings);
    show_caps(base);
    if (state_size(base)) printf("%-10s %u bytes per row\n", "state", state_size(base));
    return show_params(base, err);
}

bool cdz_cli_is_plugin_path(const char *text)
{
    struct stat s;
    const char *dot = strrchr(text, '.');
    if (strchr(text, '/')) return true;
    if (dot && (strcmp(dot, ".so") == 0 || strcmp(dot, ".lua") == 0)) return true;
    if (stat(text, &s) != 0) return false;
    return (S_ISREG(s.st_mode) && dot) || (S_ISDIR(s.st_mode) && cdz_manifest_present(text));
}

static cdz_status info_of_path(cdz_registry *registry, const char *path, bool as_page,
                               cdz_error *err)
{
    cdz_plugin_ref ref;
    CDZ_TRY(cdz_registry_load(registry, path, 0, &ref, err));
    cdz_status st = show_plugin(&ref, path, as_page, err);
    cdz_module_release(ref.module);
    return st;
}

/* One id may name a processor and a strategy: all are shown. */
static cdz_status info_of_id(cdz_registry *registry, const char *id, bool as_page, cdz_error *err)
{
    unsigned shown = 0;
    for (uint32_t kind = CDZ_KIND_PROCESSOR; cdz_kind_name(kind); kind++) {
        cdz_plugin_ref ref;
        if (cdz_registry_find(registry, kind, id, &ref, NULL) != CDZ_OK) continue;
        if (shown++) printf("\n");
        cdz_status st = show_plugin(&ref, NULL, as_page, err);
        cdz_module_release(ref.module);
        if (st != CDZ_OK) return st;
    }
    cdz_plugin_ref none;
    return shown ? CDZ_OK : cdz_registry_find(registry, 0, id, &none, err);
}

static int info_command(const options *o, const char *what, bool as_page)
{
    cdz_registry *registry = NULL;
    cdz_error err = {0};
    cdz_status st = open_registry(o, &registry, &err);
    if (st == CDZ_OK)
        st = cdz_cli_is_plugin_path(what) ? info_of_path(registry, what, as_page, &err)
                                          : info_of_id(registry, what, as_page, &err);
    cdz_registry_free(registry);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

/* --- schema ----------------------------------------------------------------------------------------------- */

/* An id of several kinds: any of their tables. */
static cdz_status schema_of_id(cdz_registry *registry, const char *id, cdz_buf *out, cdz_error *err)
{
    cdz_buf all = {0};
    unsigned n = 0;
    for (uint32_t kind = CDZ_KIND_PROCESSOR; cdz_kind_name(kind); kind++) {
        cdz_plugin_ref ref;
        if (cdz_registry_find(registry, kind, id, &ref, NULL) != CDZ_OK) continue;
        if (n++) cdz_buf_puts(&all, ",\n");
        cdz_params_plugin_schema(ref.base, &all);
        cdz_module_release(ref.module);
    }
    if (n > 1)
        cdz_buf_printf(out, "{\"anyOf\": [\n%s]}\n", all.data ? all.data : "");
    else
        cdz_buf_puts(out, all.data ? all.data : "");
    out->failed |= all.failed;
    cdz_buf_free(&all);
    cdz_plugin_ref none;
    return n ? CDZ_OK : cdz_registry_find(registry, 0, id, &none, err);
}

static cdz_status schema_of_path(cdz_registry *registry, const char *path, cdz_buf *out,
                                 cdz_error *err)
{
    cdz_plugin_ref ref;
    CDZ_TRY(cdz_registry_load(registry, path, 0, &ref, err));
    cdz_params_plugin_schema(ref.base, out);
    cdz_module_release(ref.module);
    return CDZ_OK;
}

/* what: an id or a path; NULL: a request with all generation parameters. */
static int schema_command(const options *o, const char *what)
{
    cdz_registry *registry = NULL;
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_status st = what ? open_registry(o, &registry, &err) : CDZ_OK;
    if (!what) cdz_request_schema(&text);
    if (what && st == CDZ_OK)
        st = cdz_cli_is_plugin_path(what) ? schema_of_path(registry, what, &text, &err)
                                          : schema_of_id(registry, what, &text, &err);
    cdz_registry_free(registry);
    if (st == CDZ_OK && text.failed) st = cdz_err(&err, CDZ_E_NOMEM, "out of memory");
    if (st == CDZ_OK) fputs(text.data, stdout);
    cdz_buf_free(&text);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

/* --- abi -------------------------------------------------------------------------------------------------- */

static int abi_command(bool json)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    if (json)
        cdz_abi_layout_json(&text);
    else
        cdz_abi_layout_text(&text);
    const cdz_status st = text.failed ? cdz_err(&err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
    if (st == CDZ_OK) fputs(text.data, stdout);
    cdz_buf_free(&text);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

/* --- the command -------------------------------------------------------------------------------------------- */

static void take_option(options *o, cdz_args *a)
{
    switch (a->opt) {
    case 'v': o->verbose = true; break;
    case OPT_YES: o->yes = true; break;
    case OPT_LOCK: o->lock = a->value; break;
    case OPT_KIND: o->kind = a->value; break;
    case OPT_LANG: o->lang = a->value; break;
    case OPT_ID: o->id = a->value; break;
    case OPT_JSON: o->json = true; break;
    default: break;
    }
}

static int dispatch(const options *o, int n, char **words)
{
    if (n == 0)
        return cdz_cli_misuse("plugin",
                              "expected list, info, page, schema, new, add, remove, test or abi");
    if (strcmp(words[0], "list") == 0) {
        if (n > 1) return cdz_cli_misuse("plugin", "list takes no '%s'", words[1]);
        return list_command(o);
    }
    const bool page = strcmp(words[0], "page") == 0;
    if (page || strcmp(words[0], "info") == 0) {
        if (n != 2) return cdz_cli_misuse("plugin", "%s takes one plugin id or path", words[0]);
        return info_command(o, words[1], page);
    }
    if (strcmp(words[0], "new") == 0) {
        if (n != 2) return cdz_cli_misuse("plugin", "new takes one folder");
        return cdz_cli_plugin_new(words[1], o->kind, o->lang, o->id);
    }
    if (strcmp(words[0], "schema") == 0) {
        if (n > 2)
            return cdz_cli_misuse("plugin", "schema takes one plugin id or path, or nothing");
        return schema_command(o, n == 2 ? words[1] : NULL);
    }
    if (strcmp(words[0], "add") == 0) {
        if (n != 2) return cdz_cli_misuse("plugin", "add takes one package folder");
        return cdz_cli_plugin_add(words[1], o->lock, o->yes, o->common.host.options.safe_mode);
    }
    if (strcmp(words[0], "remove") == 0) {
        if (n != 2) return cdz_cli_misuse("plugin", "remove takes one plugin id");
        return cdz_cli_plugin_remove(words[1], o->lock);
    }
    if (strcmp(words[0], "abi") == 0) {
        if (n > 1) return cdz_cli_misuse("plugin", "abi takes no '%s'", words[1]);
        return abi_command(o->json);
    }
    if (strcmp(words[0], "install") == 0)
        return cdz_cli_misuse("plugin", "no 'install': `cadenza plugin add FOLDER` adds a package");
    static const char *const known[] = {"list", "info",   "page", "schema", "new",
                                        "add",  "remove", "test", "abi"};
    const char *near = cdz_nearest_name(words[0], known, sizeof known / sizeof known[0]);
    if (near) return cdz_cli_misuse("plugin", "no '%s': did you mean '%s'?", words[0], near);
    return cdz_cli_misuse(
        "plugin", "no '%s': expected list, info, page, schema, new, add, remove, test or abi",
        words[0]);
}

int cdz_cmd_plugin(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "test") == 0) return cdz_cli_plugin_test(argc - 1, argv + 1);
    options o = {.kind = "processor", .lang = "lua"};
    cdz_args a = cdz_args_of(&cdz_page_plugin, argc, argv, &o.common);
    while (cdz_args_next(&a)) take_option(&o, &a);
    const int status = a.stopped ? a.status : dispatch(&o, a.n_words, a.words);
    cdz_cli_options_free(&o.common);
    return status;
}
