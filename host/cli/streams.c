/* streams.c - the one place where standard output is checked and closed. */
#include "cli/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/printable.h"

/* Opened the wrong way round: what reads it or writes to it hears that it may not. */
static void take_up(int fd, int how)
{
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return;
    const int other = open("/dev/null", how);
    if (other >= 0 && other != fd) {
        (void)dup2(other, fd);
        close(other);
    }
}

void cdz_cli_begin_streams(void)
{
    sigset_t pipe_only;
    take_up(STDIN_FILENO, O_WRONLY);
    take_up(STDOUT_FILENO, O_RDONLY);
    take_up(STDERR_FILENO, O_RDONLY);
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(
        SIGXFSZ,
        SIG_IGN); /* a file that may not grow further is told as any other that cannot be written */
    (void)sigprocmask(SIG_UNBLOCK, &pipe_only, NULL);
    cdz_printable_output();
}

int cdz_cli_end_streams(int status)
{
    const bool lost = ferror(stdout); /* by a write before this one, whose reason is gone */
    errno = 0;
    const bool closed = fclose(stdout) == 0;
    if (closed && !lost) return status;
    cdz_cli_say("standard output: %s", errno ? strerror(errno) : "not all of it could be written");
    return status == CDZ_EXIT_OK ? CDZ_EXIT_FAILURE : status;
}
