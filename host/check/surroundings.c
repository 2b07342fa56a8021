/* surroundings.c - what of the process a plugin has to leave as it found it, noted and compared. */
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/float_mode.h"
#include "base/sanitized.h"
#include "check/checks.h"

enum { SIGNALS = 32, PATH_BYTES = 4096 };

extern char **environ;

struct cdz_surroundings {
    int rounding;
    unsigned float_mode;
    char *locale;
    locale_t thread_locale;
    char folder[PATH_BYTES];
    uint64_t environment; /* a hash */
    sigset_t blocked;
    void *handlers[SIGNALS];
    uint32_t n_files, n_threads;
};

static uint64_t hash_environment(void)
{
    uint64_t hash = 1469598103934665603u;
    for (char **at = environ; at && *at; at++)
        for (const char *c = *at;; c++) {
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
            if (!*c) break;
        }
    return hash;
}

/* Entries of a folder of /proc, but for those that `leave` is true of (NULL: all); 0 where there is none. */
static uint32_t count_entries(const char *path, bool (*leave)(const char *name))
{
    DIR *dir = opendir(path);
    uint32_t n = 0;
    if (!dir) return 0;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += e->d_name[0] != '.' && !(leave && leave(e->d_name));
    closedir(dir);
    return n;
}

static uint32_t count_files(void)
{
    return count_entries("/proc/self/fd", NULL);
}

static void *handler_of(int number)
{
    struct sigaction act;
    void *at = NULL;
    if (sigaction(number, NULL, &act) != 0) return NULL;
    if (act.sa_flags & SA_SIGINFO)
        memcpy(&at, &act.sa_sigaction, sizeof at);
    else
        memcpy(&at, &act.sa_handler, sizeof at);
    return at;
}

/* Is a thread on its way out? One that was joined is in the kernel's list a moment longer. */
static bool is_ending(const char *id)
{
    enum { ENDING = 4 }; /* PF_EXITING of proc(5)'s flags */
    char path[64], line[512];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", id);
    FILE *file = fopen(path, "re");
    if (!file) return true;
    const char *after = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return !after ||
           (sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & ENDING);
}

static uint32_t count_threads_now(void)
{
    return count_entries("/proc/self/task", is_ending);
}

/* One that nobody joins may need a moment to end: one that stays half a second is there to stay. */
static uint32_t count_threads(uint32_t expected)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    uint32_t n = count_threads_now();
    for (int tries = 0; n > expected && tries < 100; tries++) {
        nanosleep(&moment, NULL);
        n = count_threads_now();
    }
    return n;
}

#if CDZ_WITH_TSAN
static void *end_at_once(void *arg)
{
    return arg;
}

/* A process's first thread brings one of the sanitizer's with it, which stays. */
static uint32_t count_first(void)
{
    const uint32_t n = count_threads_now();
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_at_once, NULL) == 0) pthread_join(thread, NULL);
    return count_threads(n + 1);
}
#else
static uint32_t count_first(void)
{
    return count_threads_now();
}
#endif

static void look(cdz_surroundings *s)
{
    s->rounding = fegetround();
    s->float_mode = cdz_float_mode();
    s->locale = setlocale(LC_ALL, NULL);
    s->thread_locale = uselocale((locale_t)0);
    if (!getcwd(s->folder, sizeof s->folder)) s->folder[0] = '\0';
    s->environment = hash_environment();
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
    for (int i = 1; i < SIGNALS; i++) s->handlers[i] = handler_of(i);
    s->n_files = count_files();
}

cdz_surroundings *cdz_surroundings_note(cdz_arena *arena)
{
    cdz_surroundings *s = cdz_arena_alloc(arena, sizeof *s);
    if (!s) return NULL;
    look(s);
    s->n_threads = count_first();
    s->locale = cdz_arena_strdup(arena, s->locale ? s->locale : "C");
    return s->locale ? s : NULL;
}

void cdz_surroundings_forgive_files(cdz_surroundings *s)
{
    s->n_files = count_files();
}

static bool same_blocked(const sigset_t *a, const sigset_t *b)
{
    for (int i = 1; i < SIGNALS; i++)
        if (sigismember(a, i) != sigismember(b, i)) return false;
    return true;
}

bool cdz_surroundings_changed(const cdz_surroundings *was, char *what, size_t bytes)
{
    cdz_surroundings is;
    look(&is);
    is.n_threads = count_threads(was->n_threads);
    if (is.rounding != was->rounding || is.float_mode != was->float_mode)
        return snprintf(what, bytes,
                        "the floating-point mode of the thread (control word 0x%x, was 0x%x)",
                        is.float_mode, was->float_mode) > 0;
    if (!is.locale || strcmp(is.locale, was->locale) != 0)
        return snprintf(what, bytes, "the locale (%.60s, was %.60s)", is.locale ? is.locale : "?",
                        was->locale) > 0;
    if (is.thread_locale != was->thread_locale)
        return snprintf(what, bytes, "the thread's locale") > 0;
    if (strcmp(is.folder, was->folder) != 0)
        return snprintf(what, bytes, "the working folder (%.100s)", is.folder) > 0;
    if (is.environment != was->environment)
        return snprintf(what, bytes, "the environment's variables") > 0;
    if (!same_blocked(&is.blocked, &was->blocked))
        return snprintf(what, bytes, "which signals are blocked") > 0;
    for (int i = 1; i < SIGNALS; i++)
        if (is.handlers[i] != was->handlers[i])
            return snprintf(what, bytes, "the handler of signal %d", i) > 0;
    if (is.n_files != was->n_files)
        return snprintf(what, bytes, "how many files are open (%u, were %u)", is.n_files,
                        was->n_files) > 0;
    if (is.n_threads != was->n_threads)
        return snprintf(what, bytes, "how many threads there are (%u, was %u)", is.n_threads,
                        was->n_threads) > 0;
    return false;
}
