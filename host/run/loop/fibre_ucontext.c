/* fibre_ucontext.c - fibres as stacks of their own, switched with swapcontext.
 *
 * A stack lies in one mapping with its control block: [guard][stack ...][struct]. Overflowing hits the guard.
 * Sanitizers are told of every switch, or they would take a fibre's frames for a smashed stack. */
#include "run/loop/fibre.h"

#include <stdint.h>

#if defined(__GLIBC__)

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "base/stack.h"

#if CDZ_WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if CDZ_WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* Instrumented frames are several times larger, and so are unoptimised ones: a kernel that is many tiles, inlined, has
 * 260 KiB then (cpu/avx512_int8.c), since no two of them share a slot. */
#if CDZ_SANITIZED || !defined(__OPTIMIZE__)
enum { STACK_BYTES = 1024 * 1024 };
#else
enum { STACK_BYTES = 256 * 1024 };
#endif

typedef struct switcher {
    cdz_fibre base;
    ucontext_t inside, outside;
    struct switcher *next_kept;
    char *mapping, *stack;
    size_t mapping_bytes;
#if CDZ_WITH_ASAN
    void *fake_inside, *fake_outside; /* ASan's shadow frames of the side that is left */
    const void *outside_bottom;
    size_t outside_bytes;
#endif
#if CDZ_WITH_TSAN
    void *tsan_inside, *tsan_outside;
#endif
} switcher;

static void enter(switcher *s)
{
#if CDZ_WITH_ASAN
    __sanitizer_start_switch_fiber(&s->fake_outside, s->stack, STACK_BYTES);
#endif
#if CDZ_WITH_TSAN
    s->tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(s->tsan_inside, 0);
#endif
    swapcontext(&s->outside, &s->inside);
#if CDZ_WITH_ASAN
    __sanitizer_finish_switch_fiber(s->fake_outside, NULL, NULL);
#endif
}

/* last: the fibre ends here, its shadow frames can go. */
static void leave(switcher *s, bool last)
{
    (void)last;
#if CDZ_WITH_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &s->fake_inside, s->outside_bottom,
                                   s->outside_bytes);
#endif
#if CDZ_WITH_TSAN
    __tsan_switch_to_fiber(s->tsan_outside, 0);
#endif
    swapcontext(&s->inside, &s->outside);
#if CDZ_WITH_ASAN
    __sanitizer_finish_switch_fiber(s->fake_inside, &s->outside_bottom, &s->outside_bytes);
#endif
}

/* makecontext passes ints only: the pointer comes in two halves. */
static void trampoline(unsigned high, unsigned low)
{
    switcher *s = (switcher *)(((uintptr_t)high << 32) | (uintptr_t)low);
#if CDZ_WITH_ASAN
    __sanitizer_finish_switch_fiber(NULL, &s->outside_bottom, &s->outside_bytes);
#endif
    cdz_fibre_run(&s->base);
    s->base.ended = true;
    leave(s, true);
}

static switcher *map_new(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t control = (sizeof(switcher) + page - 1) / page * page;
    const size_t used = STACK_BYTES + control, bytes = CDZ_STACK_GUARD + used;
    char *mapping = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) return NULL;
    char *stack = mapping + CDZ_STACK_GUARD;
    if (mprotect(stack, used, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, bytes);
        return NULL;
    }
    switcher *s = (switcher *)(void *)(stack + STACK_BYTES);
    s->mapping = mapping;
    s->stack = stack;
    s->mapping_bytes = bytes;
    return s;
}

/* On its own because getcontext may return twice in the compiler's eyes. */
__attribute__((noinline)) static void fill_context(ucontext_t *context)
{
    getcontext(context);
}

static cdz_status start(cdz_fibres *fibres, cdz_fibre **out, cdz_error *err)
{
    switcher *s = fibres->kept;
    if (s)
        fibres->kept = s->next_kept;
    else
        s = map_new();
    if (!s) return cdz_err_memory(err, "the stack of a fibre");

    fill_context(&s->inside);
    s->inside.uc_stack.ss_sp = s->stack;
    s->inside.uc_stack.ss_size = STACK_BYTES;
    s->inside.uc_link = NULL;
    const uintptr_t at = (uintptr_t)s;
    makecontext(&s->inside, (void (*)(void))trampoline, 2, (unsigned)(at >> 32), (unsigned)at);
#if CDZ_WITH_TSAN
    s->tsan_inside = __tsan_create_fiber(0);
#endif
    *out = &s->base;
    return CDZ_OK;
}

static void resume(cdz_fibre *fibre)
{
    switcher *s = (switcher *)fibre;
    const cdz_stack outer = cdz_stack_now;
    cdz_stack_now = (cdz_stack){(uintptr_t)s->mapping, (uintptr_t)s->stack, STACK_BYTES};
    enter(s);
    cdz_stack_now = outer;
}

static void suspend(cdz_fibre *fibre)
{
    leave((switcher *)fibre, false);
}

static void keep(cdz_fibre *fibre)
{
    switcher *s = (switcher *)fibre;
#if CDZ_WITH_TSAN
    __tsan_destroy_fiber(s->tsan_inside);
#endif
    s->next_kept = fibre->fibres->kept;
    fibre->fibres->kept = s;
}

static void drop_kept(cdz_fibres *fibres)
{
    for (switcher *s = fibres->kept, *next; s; s = next) {
        next = s->next_kept;
        munmap(s->mapping, s->mapping_bytes);
    }
    fibres->kept = NULL;
}

const cdz_fibre_way cdz_fibre_ucontext = {"ucontext", start, resume, suspend, keep, drop_kept};

#endif
