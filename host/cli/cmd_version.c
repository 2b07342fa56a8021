/* cmd_version.c - cadenza version: what this build is, and what this machine can run. */
#include <string.h>
#include <sys/utsname.h>

#include "base/environment.h"
#include "cadenza/plugin.h"
#include "cli/cli.h"
#include "device/device.h"
#include "hub/http.h"
#include "isolate/isolate.h"
#include "kernels.h"
#include "plug/locate.h"

static const cdz_flag flags[] = {
    {"verbose", 'v', 'v', 0, NULL,
     "also the plugin ABI, the compiler, kernels, devices and the confinement of isolated "
     "plugins"},
    {0},
};

const cdz_page cdz_page_version = {
    .name = "version",
    .summary = "show the version and what this machine runs",
    .usage = "version [--verbose]\n",
    .about =
        "Shows the version. With --verbose also the plugin ABI, the compiler, the libraries, the "
        "kernel variants that were built and that run on this machine, its devices, and what the "
        "system's kernel offers to confine plugins with isolation = process.",
    .flags = flags,
    .examples = "cadenza version\n"
                "cadenza version --verbose\n",
};

#ifdef CADENZA_HAVE_EDIT
static const char edit[] = "libedit";
#else
static const char edit[] = "none";
#endif

static void print_device(void *user, const char *line)
{
    (void)user;
    printf("device %s\n", line);
}

/* What holds plugins with isolation = process on this kernel: asked of such a process. */
static void print_isolation(void)
{
    cdz_arena arena = {0};
    cdz_error err = {0};
    char guards[CDZ_GUARDS_TEXT] = "";
    const char *worker = cdz_locate_worker(&arena, cdz_env_plugin_dir());
    if (!worker)
        printf("isolation: none: no cadenza-worker\n");
    else if (cdz_isolate_probe(worker, guards, sizeof guards, &err) == CDZ_OK)
        printf("isolation: limits, %s\n", guards);
    else
        printf("isolation: none: %s\n", err.text);
    cdz_arena_free(&arena);
}

static const char *runs_or_why_not(const char *variant, bool runs)
{
    if (runs) return "runs here";
    return cdz_cpu_variant_is_built(variant) ? "not on this machine" : "not in this build";
}

static void print_details(void)
{
    struct utsname system;
    printf("plugin ABI %d.%d\n", CDZ_ABI_MAJOR, CDZ_ABI_MINOR);
    printf("compiler %s\n", __VERSION__);
    printf("line editing %s\n", edit);
    printf("downloads %s\n", cdz_http_library());
    if (uname(&system) == 0) printf("system %s %s\n", system.sysname, system.machine);
    bool chosen = false;
    for (const char *const *v = cdz_cpu_variants(); *v; v++) {
        bool runs = cdz_cpu_variant_runs_here(*v);
        const char *forced = cdz_env_cpu();
        bool used = runs && (forced ? strcmp(forced, *v) == 0 : !chosen);
        printf("cpu %s: %s%s\n", *v, runs_or_why_not(*v, runs), used ? ", used" : "");
        chosen |= runs;
    }
    const unsigned nodes = cdz_cpu_nodes(NULL);
    printf("memory nodes %u%s\n", nodes, nodes > 1 ? "" : ": --numa spread does nothing here");
    cdz_device_each(cdz_env_backends(), print_device, NULL);
    print_isolation();
}

int cdz_cmd_version(int argc, char **argv)
{
    bool verbose = false;
    cdz_args a = cdz_args_of(&cdz_page_version, argc, argv, NULL);
    while (cdz_args_next(&a)) verbose = true;
    if (a.stopped || !cdz_args_end(&a)) return a.status;
    printf("cadenza %s\n", cdz_version());
    if (verbose) print_details();
    return CDZ_EXIT_OK;
}
