/* pending.h - launches that have been asked for and not yet given to the device.
 *
 * A decoding step is hundreds of short launches, the same ones step after step; given one by one they cost
 * more than they compute. So they are gathered, and given together: as a graph when the device has one with
 * the same kernels and sizes, into which only arguments that changed are written. Whatever else is put on
 * the stream gives them first (gpu_flush), so no order changes.
 *
 * A launch is kept as its function, its sizes and the bytes of its arguments. */
#ifndef CDZ_CUDA_PENDING_H
#define CDZ_CUDA_PENDING_H

#include "device.h"

enum { PENDING_MOST = 64, PENDING_ARGUMENTS = 16, PENDING_BYTES = 32 << 10, PENDING_LARGEST = 512 };

struct pending_launch {
    const void *function;
    const char *name;
    /* Calls function with arguments given by address: for a device without a call of that form. */
    void (*call)(const void *function, void *const *arguments);
    size_t blocks, threads, shared;
    unsigned n_arguments, at[PENDING_ARGUMENTS]; /* where each begins in the bytes */
    unsigned from, to;                           /* all of them */
};

struct pending_launches {
    unsigned n, used;
    pending_launch launch[PENDING_MOST];
    alignas(16) unsigned char bytes[PENDING_BYTES];
};

/* Is there room for one more launch, whatever its arguments? */
static inline bool pending_has_room(const pending_launches *p)
{
    return p->n < PENDING_MOST && p->used + PENDING_LARGEST <= PENDING_BYTES;
}

template <typename T> static inline void pending_add(pending_launches *p, const T &argument)
{
    static_assert(alignof(T) <= 16, "an argument's alignment");
    pending_launch *l = &p->launch[p->n];
    const unsigned at =
        (p->used + (unsigned)alignof(T) - 1) / (unsigned)alignof(T) * (unsigned)alignof(T);
    memcpy(p->bytes + at, &argument, sizeof argument);
    l->at[l->n_arguments++] = at;
    p->used = at + (unsigned)sizeof argument;
}

static inline void pending_addresses(pending_launches *p, const pending_launch *l, void **to)
{
    for (unsigned i = 0; i < l->n_arguments; i++) to[i] = p->bytes + l->at[i];
}

static inline void pending_copy(pending_launches *to, const pending_launches *from)
{
    to->n = from->n;
    to->used = from->used;
    memcpy(to->launch, from->launch, from->n * sizeof *from->launch);
    memcpy(to->bytes, from->bytes, from->used);
}

static inline bool pending_same_arguments(const pending_launches *a, const pending_launches *b,
                                          unsigned i)
{
    const pending_launch *l = &a->launch[i];
    return memcmp(a->bytes + l->from, b->bytes + l->from, l->to - l->from) == 0;
}

/* The same kernels with the same sizes; arguments may differ. */
static inline bool pending_same_form(const pending_launches *a, const pending_launches *b)
{
    if (a->n != b->n || a->used != b->used) return false;
    for (unsigned i = 0; i < a->n; i++) {
        const pending_launch *x = &a->launch[i], *y = &b->launch[i];
        if (x->function != y->function || x->blocks != y->blocks || x->threads != y->threads ||
            x->shared != y->shared || x->n_arguments != y->n_arguments || x->from != y->from)
            return false;
    }
    return true;
}

template <typename... P> struct pending_caller {
    template <size_t... I>
    static void with(void (*kernel)(P...), void *const *arguments, std::index_sequence<I...>)
    {
        (void)arguments;
        kernel(*static_cast<P *>(arguments[I])...);
    }
    static void call(const void *function, void *const *arguments)
    {
        with(reinterpret_cast<void (*)(P...)>(reinterpret_cast<uintptr_t>(function)), arguments,
             std::index_sequence_for<P...>());
    }
};

#endif
