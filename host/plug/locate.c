/* locate.c - asks the dynamic loader which file this code came from. */
#include "plug/locate.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Its address is what dladdr is asked about: constant data of this file. */
static const char here;

#if defined(__x86_64__)
#define MULTIARCH_LIB "lib/x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH_LIB "lib/aarch64-linux-gnu"
#else
#define MULTIARCH_LIB "lib32"
#endif

static bool is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The folder of a file, links resolved; NULL when it cannot be told. Memory is the arena's. */
static const char *folder_of(cdz_arena *arena, const char *file)
{
    char *real = realpath(file, NULL);
    if (!real) return NULL;
    char *slash = strrchr(real, '/');
    const char *folder = cdz_arena_strndup(arena, real, slash == real ? 1 : (size_t)(slash - real));
    free(real);
    return folder;
}

/* The shared library this code is in; NULL when it is part of the program. */
static const char *own_library(cdz_arena *arena)
{
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname) return NULL;
    char *own = realpath(info.dli_fname, NULL), *program = realpath("/proc/self/exe", NULL);
    const char *library = NULL;
    if (own && (!program || strcmp(own, program) != 0)) library = cdz_arena_strdup(arena, own);
    free(own);
    free(program);
    return library;
}

static const char *beside_program(cdz_arena *arena)
{
    static const char *const places[] = {"lib", MULTIARCH_LIB, "lib64"};
    const char *bin = folder_of(arena, "/proc/self/exe"), *first = NULL;
    if (!bin) return NULL;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *place = cdz_arena_printf(arena, "%s/../%s/cadenza", bin, places[i]);
        char *clean = place ? realpath(place, NULL) : NULL;
        const char *found = clean ? cdz_arena_strdup(arena, clean) : NULL;
        free(clean);
        if (found && is_directory(found)) return found;
        if (!first) first = place;
    }
    return first;
}

const char *cdz_locate_plugins(cdz_arena *arena)
{
    const char *library = own_library(arena);
    if (!library) return beside_program(arena);
    const char *folder = folder_of(arena, library);
    return folder ? cdz_arena_printf(arena, "%s/cadenza", folder) : NULL;
}

#define WORKER "worker/cadenza-worker"

const char *cdz_locate_worker(cdz_arena *arena, const char *folder)
{
    const char *worker = folder ? cdz_arena_printf(arena, "%s/" WORKER, folder) : NULL;
    if (worker && access(worker, X_OK) == 0) return worker;
    const char *plugins = cdz_locate_plugins(arena);
    return plugins ? cdz_arena_printf(arena, "%s/" WORKER, plugins) : worker;
}
