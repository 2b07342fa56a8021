/* emulate.cpp - blocks, threads as fibres, barriers, shuffles, and memory that notices. */
#include "emulate.h"

#include <map>
#include <mutex>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

emu_index threadIdx, blockIdx, blockDim, gridDim;

namespace
{

constexpr size_t MOST_THREADS = 1024, MOST_SHARED = 232448, STACK = 128 * 1024;

enum class Wait { ready, barrier, warp, done };

struct Fibre {
    Wait wait;
    const char *file;
    int line;
    unsigned mask;
    unsigned turn; /* of the two places for shuffled values */
    uint64_t hand[2];
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
};

struct Launch {
    const char *name;
    const std::function<void()> *body;
    Fibre fibre[MOST_THREADS];
    char *stacks;
    char *shared;
    size_t threads, current;
    char trouble[512];
    bool failed;
    sigjmp_buf out;
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
};

Launch *running;
std::mutex turn;

/* ---- switching stacks ---- */

#if defined(__x86_64__)
/* Keeps what a call must keep, changes stacks, takes back what the other side kept. */
asm(".text\n"
    ".p2align 4\n"
    "emu_switch_stacks:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n");
extern "C" void emu_switch_stacks(void **keep, void *to);
#endif

[[noreturn]] void fibre_main();

void enter(Launch *l, size_t i)
{
    l->current = i;
    threadIdx.x = (unsigned)i;
#if defined(__x86_64__)
    emu_switch_stacks(&l->sp, l->fibre[i].sp);
#else
    swapcontext(&l->context, &l->fibre[i].context);
#endif
}

void leave(Launch *l)
{
#if defined(__x86_64__)
    emu_switch_stacks(&l->fibre[l->current].sp, l->sp);
#else
    swapcontext(&l->fibre[l->current].context, &l->context);
#endif
}

[[noreturn]] void fibre_main()
{
    Launch *l = running;
    (*l->body)();
    l->fibre[l->current].wait = Wait::done;
    for (;;) leave(l);
}

void prepare(Launch *l, size_t i)
{
    Fibre *f = &l->fibre[i];
    f->wait = Wait::ready;
    f->turn = 0;
    /* Staggered: the tops of all stacks at one distance would share a few lines of the cache. */
    char *const top = l->stacks + (i + 1) * STACK - i % 64 * 192;
#if defined(__x86_64__)
    /* As if fibre_main had been called: its address above six registers, the stack 16-byte aligned
     * before the call that never was. */
    void **sp = reinterpret_cast<void **>(top) - 2;
    *sp = reinterpret_cast<void *>(&fibre_main);
    for (int r = 0; r < 6; r++) *--sp = nullptr;
    f->sp = sp;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = l->stacks + i * STACK;
    f->context.uc_stack.ss_size = (size_t)(top - (l->stacks + i * STACK));
    makecontext(&f->context, reinterpret_cast<void (*)()>(fibre_main), 0);
#endif
}

/* ---- what waits for what ---- */

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void diverged(Launch *l, size_t a, size_t b)
{
    const Fibre *fa = &l->fibre[a], *fb = &l->fibre[b];
    char where[128] = "its end";
    if (fb->wait != Wait::done)
        snprintf(where, sizeof where, "the %s of %s:%d",
                 fb->wait == Wait::barrier ? "barrier" : "shuffle", base_name(fb->file), fb->line);
    snprintf(
        l->trouble, sizeof l->trouble,
        "kernel %s, block %u: divergence: thread %zu waits at the %s of %s:%d, thread %zu is at %s",
        l->name, blockIdx.x, a, fa->wait == Wait::barrier ? "barrier" : "shuffle",
        base_name(fa->file), fa->line, b, where);
    l->failed = true;
}

/* Whether thread b waits for the same thing as a. */
bool same(const Fibre &a, const Fibre &b)
{
    return a.wait == b.wait && a.line == b.line && strcmp(a.file, b.file) == 0;
}

/* Lets the warp go on when all of it has come to one shuffle. */
bool warp_meets(Launch *l, size_t first)
{
    const size_t end = first + 32 < l->threads ? first + 32 : l->threads;
    if (l->fibre[first].wait != Wait::warp) return false;
    for (size_t i = first + 1; i < end; i++)
        if (!same(l->fibre[first], l->fibre[i])) {
            diverged(l, first, i);
            return false;
        }
    for (size_t i = first; i < end; i++) l->fibre[i].wait = Wait::ready;
    return true;
}

/* Runs a warp until all of it is at a barrier or its end. */
void run_warp(Launch *l, size_t first)
{
    const size_t end = first + 32 < l->threads ? first + 32 : l->threads;
    do
        for (size_t i = first; i < end; i++)
            if (l->fibre[i].wait == Wait::ready) enter(l, i);
    while (!l->failed && warp_meets(l, first));
    for (size_t i = first; i < end && !l->failed; i++)
        if (l->fibre[i].wait == Wait::warp) diverged(l, i, first);
}

bool block_meets(Launch *l)
{
    if (l->fibre[0].wait == Wait::done) {
        for (size_t i = 1; i < l->threads; i++)
            if (l->fibre[i].wait != Wait::done) {
                diverged(l, i, 0);
                break;
            }
        return false;
    }
    for (size_t i = 1; i < l->threads; i++)
        if (!same(l->fibre[0], l->fibre[i])) {
            diverged(l, 0, i);
            return false;
        }
    for (size_t i = 0; i < l->threads; i++) l->fibre[i].wait = Wait::ready;
    return true;
}

void run_block(Launch *l, size_t shared)
{
    memset(l->shared, 0xff, shared); /* NaN to whoever reads before writing */
    for (size_t i = 0; i < l->threads; i++) prepare(l, i);
    do
        for (size_t first = 0; first < l->threads && !l->failed; first += 32) run_warp(l, first);
    while (!l->failed && block_meets(l));
}

/* ---- memory ---- */

struct Allocation {
    char *pages;
    size_t mapped, bytes;
};
std::map<char *, Allocation> &allocations()
{
    static std::map<char *, Allocation> all;
    return all;
}
std::mutex memory_lock;

/* Says what an address has to do with; called when a launch has failed, outside any handler's limits: the
 * faulting code is a kernel's, which holds no lock. */
void describe_fault(Launch *l, char *at)
{
    const char *what = "memory that is not the device's";
    size_t bytes = 0;
    long off = 0;
    for (const auto &entry : allocations()) {
        const Allocation &a = entry.second;
        if (at < a.pages || at >= a.pages + a.mapped) continue;
        what = at < entry.first ? "before an allocation" : "past an allocation";
        bytes = a.bytes;
        off = at < entry.first ? (long)(entry.first - at) : (long)(at - entry.first - (long)a.bytes);
    }
    snprintf(l->trouble, sizeof l->trouble,
             "kernel %s, block %u, thread %u touches %s of %zu bytes, %ld off", l->name, blockIdx.x,
             threadIdx.x, what, bytes, off);
}

void on_fault(int, siginfo_t *info, void *)
{
    Launch *l = running;
    describe_fault(l, static_cast<char *>(info->si_addr));
    l->failed = true;
    siglongjmp(l->out, 1);
}

struct FaultHandler {
    struct sigaction segv, bus;
    FaultHandler()
    {
        struct sigaction mine = {};
        mine.sa_sigaction = on_fault;
        mine.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigemptyset(&mine.sa_mask);
        sigaction(SIGSEGV, &mine, &segv);
        sigaction(SIGBUS, &mine, &bus);
    }
    ~FaultHandler()
    {
        sigaction(SIGSEGV, &segv, nullptr);
        sigaction(SIGBUS, &bus, nullptr);
    }
};

char *map_pages(size_t bytes, int protection)
{
    void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<char *>(p);
}

Launch *the_launch()
{
    static Launch *l;
    if (l) return l;
    Launch *made = new Launch();
    made->stacks = map_pages(MOST_THREADS * STACK, PROT_READ | PROT_WRITE);
    made->shared = map_pages(MOST_SHARED, PROT_READ | PROT_WRITE);
    return l = made;
}

/* All blocks, or up to a fault: its handler comes back here. */
void run_grid(Launch *l, size_t shared)
{
    const FaultHandler handler;
    if (sigsetjmp(l->out, 0) != 0) return;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x && !l->failed; blockIdx.x++) run_block(l, shared);
}

} // namespace

void emu_barrier(const char *file, int line)
{
    Launch *l = running;
    Fibre *f = &l->fibre[l->current];
    f->wait = Wait::barrier;
    f->file = file;
    f->line = line;
    leave(l);
}

/* A lane may be one shuffle ahead of another, not two: so two places for values are enough. */
uint64_t emu_exchange(unsigned mask, uint64_t value, unsigned from, const char *file, int line)
{
    Launch *l = running;
    const size_t me = l->current;
    Fibre *f = &l->fibre[me];
    const unsigned place = f->turn++ % 2;
    f->hand[place] = value;
    f->wait = Wait::warp;
    f->mask = mask;
    f->file = file;
    f->line = line;
    leave(l);
    return l->fibre[me / 32 * 32 + from % 32].hand[place];
}

void *emu_shared()
{
    return running->shared;
}

const char *emu_launch(const char *name, size_t blocks, size_t threads, size_t shared,
                       const std::function<void()> &body)
{
    const std::lock_guard<std::mutex> mine(turn);
    Launch *l = the_launch();
    l->name = name;
    l->body = &body;
    l->threads = threads;
    l->failed = false;
    if (threads == 0 || threads > MOST_THREADS || shared > MOST_SHARED) {
        snprintf(
            l->trouble, sizeof l->trouble,
            "kernel %s: a block of %zu threads and %zu bytes of shared memory; at most %zu and %zu",
            name, threads, shared, MOST_THREADS, MOST_SHARED);
        return l->trouble;
    }
    running = l;
    gridDim.x = (unsigned)blocks;
    blockDim.x = (unsigned)threads;
    run_grid(l, shared);
    running = nullptr;
    return the_launch()->failed ? the_launch()->trouble : nullptr;
}

void *emu_alloc(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2) return nullptr;
    const size_t padded = (bytes + 63) / 64 * 64, body = (padded + page - 1) / page * page;
    char *pages = map_pages(body + 2 * page, PROT_NONE);
    if (!pages) return nullptr;
    if (mprotect(pages + page, body, PROT_READ | PROT_WRITE) != 0) {
        munmap(pages, body + 2 * page);
        return nullptr;
    }
    /* The end lies at the page that may not be touched, as nearly as the alignment to 64 bytes lets it. */
    char *memory = pages + page + body - padded;
    const std::lock_guard<std::mutex> mine(memory_lock);
    allocations()[memory] = {pages, body + 2 * page, bytes};
    return memory;
}

bool emu_free(void *memory)
{
    const std::lock_guard<std::mutex> mine(memory_lock);
    const auto found = allocations().find(static_cast<char *>(memory));
    if (found == allocations().end()) return false;
    munmap(found->second.pages, found->second.mapped);
    allocations().erase(found);
    return true;
}
