/* forger.c - a program in the place of cadenza-worker that says what its script has (forger.h), whether it is its turn or
 * not. It ends when its host is gone. For test_isolate_forged. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "isolate/futex.h"
#include "isolate/protocol.h"
#include "plugins/isolate/forger.h"

typedef struct forger {
    unsigned char *map;
    cdz_isolate_head *head;
    uint32_t turn; /* the next of its own */
    const unsigned char *script, *stamp;
    size_t len, pos, again; /* again: where it begins anew; 0: nowhere */
} forger;

static void wait_for_end(int milliseconds)
{
    struct pollfd life = {.fd = CDZ_ISOLATE_LIFE_FD};
    if (poll(&life, 1, milliseconds) > 0) _exit(0);
}

static void wait_for_turn(forger *f)
{
    while (!cdz_turn_wait(&f->head->turn, f->turn, 100)) wait_for_end(0);
}

static void speak(forger *f, const forge_step *step, const unsigned char *bytes)
{
    unsigned char *to = f->map + CDZ_ISOLATE_DOWN;
    memcpy(to, bytes, step->bytes);
    if (f->stamp) {
        unsigned char *at = memmem(to, step->bytes, f->stamp, 4);
        const uint32_t own = (uint32_t)getpid();
        for (int i = 0; at && i < 4; i++) at[i] = (unsigned char)('a' + (own >> 4 * i) % 16);
        f->stamp = NULL;
    }
    atomic_store(&f->head->down_bytes, step->said);
    atomic_fetch_add(&f->head->turn, step->turns);
    (void)syscall(SYS_futex, &f->head->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- at the same time -------------------------------------------------------------------------------------------- */

/* Every word of what is said, one after the other, and the length, which is right every other time. */
static void *flip(void *arg)
{
    const forger *f = arg;
    const uint32_t bytes = atomic_load(&f->head->down_bytes);
    for (uint32_t i = 0;; i++) {
        volatile uint32_t *word =
            (volatile uint32_t *)(void *)(f->map + CDZ_ISOLATE_DOWN + i % 16 * 4);
        const uint32_t was = *word;
        *word = i & 1 ? UINT32_MAX : 1u << i % 32;
        atomic_store(&f->head->down_bytes, i & 2 ? CDZ_ISOLATE_DOWN_BYTES : UINT32_MAX >> i % 32);
        for (volatile int pause = 0; pause < 20; pause++) continue;
        *word = was;
        atomic_store(&f->head->down_bytes, bytes);
        for (volatile int pause = 0; pause < 40; pause++) continue;
    }
    return NULL;
}

static void leave_child(const forger *f)
{
    if (fork() != 0) return;
    for (uint32_t i = 0;; i++) {
        memset(f->map + CDZ_ISOLATE_DOWN, (int)i, 4096);
        atomic_store(&f->head->turn, i);
        atomic_store(&f->head->down_bytes, i);
        if (i % 1024 == 0) wait_for_end(0);
    }
}

/* --- descriptors --------------------------------------------------------------------------------------------------- */

static void send_descriptor(int over, int fd)
{
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    (void)!sendmsg(over, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Of what it was given nothing can be made smaller, written to that is sealed, or sent; what it moves is put right. */
static void reach(void)
{
    for (int fd = 0; fd <= CDZ_ISOLATE_LIFE_FD; fd++) {
        for (int sent = 0; sent <= CDZ_ISOLATE_LIFE_FD; sent++) send_descriptor(fd, sent);
        if (ftruncate(fd, 0) == 0) abort();
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW);
        (void)fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND);
    }
    if (write(CDZ_ISOLATE_PLUGIN_FD, "x", 1) >= 0 || write(CDZ_ISOLATE_LIFE_FD, "x", 1) >= 0)
        abort();
    (void)lseek(CDZ_ISOLATE_PLUGIN_FD, 0, SEEK_END);
    (void)fallocate(CDZ_ISOLATE_MAP_FD, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)CDZ_ISOLATE_ROWS, 4096);
}

/* --- the script ------------------------------------------------------------------------------------------------------ */

static void act(forger *f, const forge_step *step, const unsigned char *bytes)
{
    pthread_t thread;
    switch ((enum forge_op)step->op) {
    case FORGE_SAY:
        wait_for_turn(f);
        wait_for_end((int)step->nap);
        speak(f, step, bytes);
        f->turn += 2;
        break;
    case FORGE_BLURT:
        wait_for_end((int)step->nap);
        speak(f, step, bytes);
        break;
    case FORGE_STAMP: f->stamp = bytes; break;
    case FORGE_FLIP: (void)pthread_create(&thread, NULL, flip, f); break;
    case FORGE_REACH: reach(); break;
    case FORGE_LEAVE: leave_child(f); break;
    case FORGE_DENY: atomic_store(&f->head->denied, step->said + 1); break;
    case FORGE_KILL: raise((int)step->said); break;
    case FORGE_EXIT: _exit((int)step->said);
    case FORGE_FROM_HERE: f->again = f->pos; break;
    }
}

int main(void)
{
    struct stat s;
    forger f = {.turn = CDZ_TURN_FIRST};
    if (fstat(CDZ_ISOLATE_PLUGIN_FD, &s) != 0) return 2;
    f.len = (size_t)s.st_size;
    f.script = mmap(NULL, f.len, PROT_READ, MAP_PRIVATE, CDZ_ISOLATE_PLUGIN_FD, 0);
    f.map = mmap(NULL, CDZ_ISOLATE_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                 CDZ_ISOLATE_MAP_FD, 0);
    if (f.script == MAP_FAILED || f.map == MAP_FAILED) return 2;
    f.head = (cdz_isolate_head *)(void *)f.map;
    for (;;) {
        forge_step step;
        if (f.pos + sizeof step > f.len) {
            if (!f.again) break;
            f.pos = f.again;
        }
        memcpy(&step, f.script + f.pos, sizeof step);
        f.pos += sizeof step + step.bytes;
        act(&f, &step, f.script + f.pos - step.bytes);
    }
    for (;;) wait_for_end(-1);
}
