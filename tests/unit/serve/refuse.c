/* refuse.c - stands before the C library in a program: refuses one allocation, or makes one write to a socket fail. Which one
 * is in a file that the test shares with it, CADENZA_TEST_REFUSALS. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPEN __attribute__((visibility("default")))

/* As failures.py writes and reads it. */
typedef struct page {
    atomic_llong asked, refused_at; /* allocations; -1: none is refused */
    atomic_llong held;              /* pieces of memory */
    atomic_llong written, fails_at; /* writes to sockets; -1: none fails */
    atomic_llong how;
} page;

enum { RESET, LATER, ONE_BYTE };

static page nobodys = {.refused_at = -1, .fails_at = -1};
static page *shared = &nobodys;

__attribute__((constructor)) static void open_page(void)
{
    const char *path = getenv("CADENZA_TEST_REFUSALS");
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) shared = at;
}

/* A pointer to a function, as dlsym gives it. */
static void find(void *function, const char *name)
{
    void *at = dlsym(RTLD_NEXT, name);
    memcpy(function, &at, sizeof at);
}

/* --- memory: the program's own malloc asks these ------------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-reserved-identifier): the C library's own names for what lies behind malloc */
OPEN void *__libc_malloc(size_t bytes);
OPEN void *__libc_calloc(size_t n, size_t bytes);
OPEN void *__libc_realloc(void *at, size_t bytes);
OPEN void *__libc_memalign(size_t align, size_t bytes);
OPEN void __libc_free(void *at);

/* errno as malloc leaves it: the C library's own functions return it. */
static bool refused(void)
{
    if (atomic_fetch_add(&shared->asked, 1) != atomic_load(&shared->refused_at)) return false;
    errno = ENOMEM;
    return true;
}

static void *held(void *at)
{
    if (at) atomic_fetch_add(&shared->held, 1);
    return at;
}

void *__libc_malloc(size_t bytes)
{
    static void *(*real)(size_t bytes);
    if (!real) find(&real, "__libc_malloc");
    return refused() ? NULL : held(real(bytes));
}

void *__libc_calloc(size_t n, size_t bytes)
{
    static void *(*real)(size_t n, size_t bytes);
    if (!real) find(&real, "__libc_calloc");
    return refused() ? NULL : held(real(n, bytes));
}

void *__libc_realloc(void *at, size_t bytes)
{
    static void *(*real)(void *at, size_t bytes);
    if (!real) find(&real, "__libc_realloc");
    if (bytes && refused()) return NULL;
    if (at && !bytes) atomic_fetch_sub(&shared->held, 1);
    void *now = real(at, bytes);
    return at ? now : held(now);
}

void *__libc_memalign(size_t align, size_t bytes)
{
    static void *(*real)(size_t align, size_t bytes);
    if (!real) find(&real, "__libc_memalign");
    return refused() ? NULL : held(real(align, bytes));
}

void __libc_free(void *at)
{
    static void (*real)(void *at);
    if (!real) find(&real, "__libc_free");
    if (at) atomic_fetch_sub(&shared->held, 1);
    real(at);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* --- sockets ------------------------------------------------------------------------------------------------------- */

/* A write that the program itself asks again for may be put off; the HTTP library waits for an edge that would not come. */
static bool fails(int flags, size_t *bytes)
{
    if (atomic_fetch_add(&shared->written, 1) != atomic_load(&shared->fails_at)) return false;
    const long long how = atomic_load(&shared->how);
    const bool own = flags & MSG_DONTWAIT;
    if (how == ONE_BYTE && own && *bytes) *bytes = 1;
    errno = how == RESET ? ECONNRESET : EAGAIN;
    return how == RESET || (how == LATER && own);
}

OPEN ssize_t send(int fd, const void *at, size_t bytes, int flags)
{
    static ssize_t (*real)(int fd, const void *at, size_t bytes, int flags);
    if (!real) find(&real, "send");
    return fails(flags, &bytes) ? -1 : real(fd, at, bytes, flags);
}

OPEN ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int fd, const struct msghdr *message, int flags);
    size_t bytes = 0;
    if (!real) find(&real, "sendmsg");
    return fails(flags, &bytes) ? -1 : real(fd, message, flags);
}
