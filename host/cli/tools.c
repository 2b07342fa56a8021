/* tools.c - --tool NAME=COMMAND: what a decode loop asks is a command's standard input, what it writes is the answer.
 *
 * Owns: the process, from its start to its end, and all that it started (a group of its own). Thread: a helper's of the
 * library; many at once. */
#include "cli/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"

extern char **environ;

enum { LOOK_MS = 50 }; /* how often a request's end is looked for */

typedef struct running {
    pid_t pid;
    int in, out; /* ours; -1: closed */
    size_t written;
} running;

static size_t name_length(const char *tool)
{
    return strcspn(tool, "=");
}

bool cdz_cli_tools_are_good(const cdz_program_settings *program)
{
    for (uint32_t i = 0; i < program->n_tools; i++) {
        const char *tool = program->tools[i];
        const size_t n = name_length(tool);
        if (n == 0 || tool[n] == '\0' || tool[n + 1] == '\0') {
            cdz_cli_say("--tool %s: expected NAME=COMMAND", tool);
            return false;
        }
        for (uint32_t j = 0; j < i; j++)
            if (strncmp(program->tools[j], tool, n + 1) == 0) {
                cdz_cli_say("--tool %.*s: given twice", (int)n, tool);
                return false;
            }
    }
    return true;
}

/* Scripts name tools: a name never reaches into the command. */
static const char *command_of(const cdz_program_settings *program, const char *name)
{
    const size_t n = strlen(name);
    for (uint32_t i = 0; i < program->n_tools; i++)
        if (name_length(program->tools[i]) == n && memcmp(program->tools[i], name, n) == 0)
            return program->tools[i] + n + 1;
    return NULL;
}

static cdz_status no_such_tool(const cdz_program_settings *program, const char *name, cdz_error *err)
{
    cdz_buf names = {0};
    for (uint32_t i = 0; i < program->n_tools; i++)
        cdz_buf_printf(&names, "%s%.*s", i ? ", " : "", (int)name_length(program->tools[i]),
                       program->tools[i]);
    const cdz_status status = cdz_err(err, CDZ_E_NOT_FOUND, "no tool \"%s\"; there are: %s", name,
                                      names.data ? names.data : "none");
    cdz_buf_free(&names);
    return status;
}

/* --- the process -------------------------------------------------------------------------------------------------- */

static void shut(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* 0, or an errno. */
static int spawn_on(const char *command, int in, int out, pid_t *pid)
{
    char shell[] = "sh", flag[] = "-c";
    char *const argv[] = {shell, flag, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, ours;
    sigemptyset(&none);
    sigfillset(&ours);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &ours);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    const int wrong = posix_spawn(pid, "/bin/sh", &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return wrong;
}

/* 0, or an errno. */
static int start(const char *command, running *r)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) return errno;
    if (pipe2(out, O_CLOEXEC) != 0) {
        const int wrong = errno;
        close(in[0]);
        close(in[1]);
        return wrong;
    }
    const int wrong = spawn_on(command, in[0], out[1], &r->pid);
    close(in[0]);
    close(out[1]);
    r->in = in[1];
    r->out = out[0];
    fcntl(r->in, F_SETFL, O_NONBLOCK);
    return wrong;
}

/* A command that does not want to read all of it may go on. */
static void write_some(running *r, const cdz_string *text)
{
    const ssize_t n = write(r->in, text->at + r->written, text->len - r->written);
    if (n > 0) r->written += (size_t)n;
    if ((n < 0 && errno != EAGAIN && errno != EINTR) || r->written == text->len) shut(&r->in);
}

static cdz_status read_some(running *r, const cdz_tool_question *call)
{
    char piece[4096];
    const ssize_t n = read(r->out, piece, sizeof piece);
    if (n > 0) return cdz_tool_reply(call, piece, (size_t)n);
    if (n == 0 || errno != EINTR) shut(&r->out);
    return CDZ_OK;
}

/* Until it has closed its standard output. */
static cdz_status talk(running *r, const cdz_tool_question *call)
{
    if (call->text.len == 0) shut(&r->in);
    while (r->out >= 0) {
        struct pollfd files[2] = {{.fd = r->out, .events = POLLIN},
                                  {.fd = r->in, .events = POLLOUT}};
        if (cdz_tool_is_over(call)) return CDZ_E_CANCELLED;
        if (poll(files, 2, LOOK_MS) <= 0) continue;
        if (files[1].revents) write_some(r, &call->text);
        if (files[0].revents) CDZ_TRY(read_some(r, call));
    }
    return CDZ_OK;
}

/* Its end; *how as waitpid says. A command that has closed its output may run on: the request's end is its own. */
static cdz_status await_end(running *r, const cdz_tool_question *call, int *how)
{
    for (;;) {
        const pid_t got = waitpid(r->pid, how, WNOHANG);
        if (got == r->pid || (got < 0 && errno != EINTR)) return CDZ_OK;
        if (cdz_tool_is_over(call)) return CDZ_E_CANCELLED;
        (void)poll(NULL, 0, 1);
    }
}

static void stop(const running *r)
{
    int how;
    kill(-r->pid, SIGKILL);
    while (waitpid(r->pid, &how, 0) < 0 && errno == EINTR) {
    }
}

static cdz_status judge(const cdz_tool_question *call, int how, cdz_error *err)
{
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return CDZ_OK;
    if (WIFEXITED(how))
        return cdz_err(err, CDZ_E_IO, "tool %s: its command ended with status %d", call->name,
                       WEXITSTATUS(how));
    return cdz_err(err, CDZ_E_IO, "tool %s: its command was ended by signal %d", call->name,
                   WTERMSIG(how));
}

cdz_status cdz_cli_on_tool(void *user, const cdz_tool_question *call, cdz_error *err)
{
    const cdz_program_settings *program = user;
    const char *command = command_of(program, call->name);
    running r = {.in = -1, .out = -1};
    int how = 0;
    if (!command) return no_such_tool(program, call->name, err);
    const int wrong = start(command, &r);
    cdz_status status = wrong ? cdz_err(err, CDZ_E_IO, "tool %s: its command cannot be started: %s",
                                        call->name, strerror(wrong))
                              : talk(&r, call);
    shut(&r.in);
    shut(&r.out);
    if (wrong) return status;
    if (status == CDZ_OK) status = await_end(&r, call, &how);
    if (status == CDZ_OK) return judge(call, how, err);
    stop(&r);
    return status;
}
