/* bring.cu - copies to the host that are given right behind what they copy, and waited for when somebody reads them. */
#include "cuda_backend.h"

/* Pinned memory that all of them may take. */
static constexpr size_t MOST_PINNED = (size_t)256 << 20;

/* A free place, the smallest that has room or else the largest; NULL: none is free. */
static cuda_bringing *free_place(cuda_backend *b, size_t bytes)
{
    cuda_bringing *best = nullptr;
    for (cuda_bringing &p : b->bringing) {
        if (p.ticket) continue;
        const bool fits = p.room >= bytes, best_fits = best && best->room >= bytes;
        if (!best || (fits != best_fits ? fits : fits == (p.room < best->room))) best = &p;
    }
    return best;
}

static bool make_room(cuda_backend *b, cuda_bringing *p, size_t bytes)
{
    if (!p->done) p->done = gpu_event_create(b->g);
    if (bytes <= p->room || !p->done) return p->done != nullptr;
    size_t pinned = 0;
    for (const cuda_bringing &other : b->bringing) pinned += &other == p ? 0 : other.room;
    if (bytes > MOST_PINNED - pinned) return false;
    gpu_unpin(b->g, p->pinned);
    p->pinned = static_cast<char *>(gpu_pin(b->g, bytes));
    p->room = p->pinned ? bytes : 0;
    return p->pinned != nullptr;
}

uint64_t cuda_bring(cdz_backend *base, void *to, const void *from, size_t bytes)
{
    cuda_backend *b = cuda_of(base);
    cuda_bringing *p = free_place(b, bytes);
    if (!p || !make_room(b, p, bytes)) {
        cuda_download(base, to, from, bytes);
        return 0;
    }
    gpu_to_host(b->g, p->pinned, from, bytes);
    gpu_event_record(b->g, p->done);
    b->step++;
    p->to = to;
    p->bytes = bytes;
    p->ticket = ++b->tickets;
    return p->ticket;
}

void cuda_arrive(cdz_backend *base, uint64_t ticket)
{
    cuda_backend *b = cuda_of(base);
    for (cuda_bringing &p : b->bringing) {
        if (p.ticket == 0 || p.ticket != ticket) continue;
        gpu_event_wait(b->g, p.done);
        if (!base->api->trouble(base)) memcpy(p.to, p.pinned, p.bytes);
        p.ticket = 0;
    }
}

void cuda_bring_close(cuda_backend *b)
{
    gpu_wait(b->g);
    for (cuda_bringing &p : b->bringing) {
        gpu_unpin(b->g, p.pinned);
        gpu_event_destroy(b->g, p.done);
    }
}
