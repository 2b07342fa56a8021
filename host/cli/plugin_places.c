/* plugin_places.c - the head of `cadenza plugin list -v`: where plugins are looked for, and what pins them. */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "plug/lock.h"
#include "plug/places.h"

static void show_place(const char *origin, const char *path, size_t len)
{
    char text[4096];
    struct stat s;
    snprintf(text, sizeof text, "%.*s", (int)len, path);
    const bool there = stat(text, &s) == 0 && S_ISDIR(s.st_mode);
    printf("  %-18s %s%s\n", origin, text, there ? "" : " (not there)");
}

static void show_lock(const char *path)
{
    cdz_lock lock = {0};
    cdz_error err = {0};
    if (cdz_lock_read(path, &lock, &err) != CDZ_OK)
        printf("  %s\n", err.text);
    else if (!lock.present)
        printf("  %s (not there)\n", path);
    else
        printf("  %s: %u plugin%s\n", path, lock.n_pins, lock.n_pins == 1 ? "" : "s");
    cdz_lock_free(&lock);
}

void cdz_cli_plugin_places(bool safe_mode, const struct cdz_registry *registry)
{
    cdz_arena arena = {0};
    cdz_registry_options places = {0};
    const char *builtin = cdz_registry_builtin_dir(registry);
    printf("looked for in this order; the first that has an id is used\n");
    if (!safe_mode && cdz_places_of_user(&arena, &places)) {
        printf("  %-18s --plugin, --custom-generate, paths in pipelines\n", "named by the user");
        for (const char *rest = places.search_path; rest && *rest; rest += *rest == ':') {
            const size_t n = strcspn(rest, ":");
            if (n) show_place("path", rest, n);
            rest += n;
        }
        if (places.user_dir) show_place("user folder", places.user_dir, strlen(places.user_dir));
    }
    if (builtin) show_place("built-in", builtin, strlen(builtin));
    if (!safe_mode) {
        printf("\npins for what is found there\n");
        for (size_t i = 0; i < 2; i++)
            if (places.locks[i]) show_lock(places.locks[i]);
    }
    printf("\n");
    cdz_arena_free(&arena);
}
