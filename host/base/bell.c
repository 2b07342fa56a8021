/* bell.c - a pipe that is polled beside other files: a byte in it is a ring.
 *
 * Owns: the two ends. A full pipe has rung already, so a ring never waits. Thread: one sleeps, any may ring. */
#include "base/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

cdz_status cdz_bell_open(cdz_bell *bell, cdz_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return cdz_err(err, CDZ_E_IO, "a pipe to wake the engine by: %s", strerror(errno));
    *bell = (cdz_bell){.hears = ends[0], .rings = ends[1], .open = true};
    return CDZ_OK;
}

void cdz_bell_close(cdz_bell *bell)
{
    if (!bell->open) return;
    close(bell->hears);
    close(bell->rings);
    bell->open = false;
}

void cdz_bell_ring(const cdz_bell *bell)
{
    if (!bell->open) return;
    ssize_t n;
    do n = write(bell->rings, "!", 1);
    while (n < 0 && errno == EINTR);
}

static void hush(const cdz_bell *bell)
{
    char rung[64];
    while (read(bell->hears, rung, sizeof rung) > 0) {
    }
}

void cdz_bell_sleep(const cdz_bell *bell, struct pollfd *files, nfds_t n, double until_s)
{
    const double left = until_s > 0 ? fmax(until_s - cdz_now_s(), 0) : 0, whole = floor(left);
    struct timespec longest = {.tv_sec = (time_t)fmin(whole, 1e9),
                               .tv_nsec = (long)((left - whole) * 1e9)};
    files[0] = (struct pollfd){.fd = bell->hears, .events = POLLIN};
    for (nfds_t i = 1; i < n; i++) files[i].revents = 0;
    /* A signal ends the sleep as a ring does: whoever sleeps looks what there is to do. */
    if (ppoll(files, n, until_s == 0 ? NULL : &longest, NULL) > 0 && files[0].revents) hush(bell);
}
