/* crash.c - the handlers of the signals that a crash raises. They call what POSIX lets a handler call. */
#include "cli/crash.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/stack.h"
#include "call/guard.h"

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"},
};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

/* The program's, as its handlers are. */
static struct sigaction before[N_SIGNALS];
static bool among_text; /* the answer goes to the same terminal, and its line may be open */

typedef struct line {
    char text[400];
    size_t n;
} line;

static void put(line *l, const char *text)
{
    const size_t room = sizeof l->text - 1 - l->n, len = strnlen(text, room);
    memcpy(l->text + l->n, text, len);
    l->n += len;
}

/* Decode loops and observers have no process of their own. */
static bool may_be_isolated(const cdz_plugin_base *plugin)
{
    return plugin->kind == CDZ_KIND_PROCESSOR || plugin->kind == CDZ_KIND_CRITERION ||
           plugin->kind == CDZ_KIND_DRAFTER;
}

static void put_number(line *l, size_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    put(l, digits + at);
}

static void tell(const char *signal_name, const cdz_calling *in, const void *address)
{
    line l = {.n = 0};
    put(&l, among_text ? "\ncadenza: " : "cadenza: ");
    put(&l, in->plugin->id);
    put(&l, ": crashed (");
    put(&l, signal_name);
    put(&l, ") in ");
    put(&l, in->function);
    if (address && cdz_stack_overflowed(address)) {
        put(&l, ": its stack of ");
        put_number(&l, cdz_stack_now.bytes / 1024);
        put(&l, " KiB is full");
    }
    if (may_be_isolated(in->plugin))
        put(&l, "; with `isolation = process` in its section it would end its request alone");
    l.text[l.n++] = '\n';
    for (size_t at = 0; at < l.n;) {
        const ssize_t n = write(STDERR_FILENO, l.text + at, l.n - at);
        if (n <= 0) break;
        at += (size_t)n;
    }
}

/* What was before is put back: a fault comes again when its instruction does, what was raised is raised again. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int kept = errno;
    const cdz_calling in = cdz_calling_now;
    const bool ours = info->si_code > 0 || number == SIGABRT; /* and not sent from outside */
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (signals[i].number != number) continue;
        if (ours && in.plugin) tell(signals[i].name, &in, number == SIGABRT ? NULL : info->si_addr);
        sigaction(number, &before[i], NULL);
    }
    if (info->si_code <= 0) raise(number);
    errno = kept;
}

void cdz_cli_tell_crashes(void)
{
    struct sigaction mine = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&mine.sa_mask);
    (void)cdz_stack_begin(); /* the program's own thread, which opens plugins; to its end */
    among_text = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    for (size_t i = 0; i < N_SIGNALS; i++) sigaction(signals[i].number, &mine, &before[i]);
}
