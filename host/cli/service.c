/* service.c - what a service manager hands in and hears, as systemd has it: a socket that listens already (LISTEN_FDS), and
 * messages about the program's life (NOTIFY_SOCKET). Without one nothing happens. */
#include "cli/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"

enum { FIRST_HANDED = 3 }; /* descriptors that are handed in begin here */

/* A variable that holds a number; 0: unset, or none. */
static unsigned long long number_in(const char *name)
{
    const char *text = cdz_env_named(name);
    char *end = NULL;
    const unsigned long long n = text ? strtoull(text, &end, 10) : 0;
    return end && *end ? 0 : n;
}

cdz_status cdz_cli_handed_socket(int *out, cdz_error *err)
{
    const unsigned long long n = number_in("LISTEN_FDS");
    *out = -1;
    if (!n || number_in("LISTEN_PID") != (unsigned long long)getpid()) return CDZ_OK;
    if (n > 1)
        return cdz_err(err, CDZ_E_USAGE, "LISTEN_FDS = %llu: expected one socket to serve on", n);
    *out = FIRST_HANDED;
    return CDZ_OK;
}

void cdz_cli_tell_service(const char *state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = cdz_env_named("NOTIFY_SOCKET");
    const size_t n = path ? strlen(path) : 0;
    if (n < 2 || n >= sizeof at.sun_path || (*path != '/' && *path != '@')) return;
    memcpy(at.sun_path, path, n);
    if (*path == '@') at.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    /* Nobody is told of a message that cannot be sent: the manager's own time limits notice. */
    while (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&at, len) < 0 &&
           errno == EINTR) {
    }
    close(fd);
}

bool cdz_cli_is_watched(void)
{
    const unsigned long long pid = number_in("WATCHDOG_PID");
    return number_in("WATCHDOG_USEC") > 0 && (!pid || pid == (unsigned long long)getpid());
}
