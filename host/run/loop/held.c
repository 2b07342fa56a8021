/* held.c - what verbs make the host hold for a loop, beside KV memory: at most half of what the process may have.
 *
 * Owns: the sums. What stays until the loop ends (rows of scratch_scores, results) is added up. Sequences are weighed anew when
 * what was set aside for their growth is spent, so a search that frees its branches may go on for ever; of what several share,
 * each bears its part. Thread: [engine], the loop's fibre. */
#include <inttypes.h>

#include "base/machine_memory.h"
#include "run/loop/loop.h"

enum { MOST_SEQS = 16384 };

static cdz_status refuse(cdz_loop *loop, const char *verb, uint64_t bytes, uint64_t most)
{
    const double mib = 1u << 20;
    return cdz_loop_fail(loop, CDZ_E_LIMIT,
                         "%s: what the loop holds would come to %.1f MiB; at most half of the "
                         "machine's or control group's memory is taken, %.1f MiB",
                         verb, (double)bytes / mib, (double)most / mib);
}

/* Read once a loop: looking costs files. */
static uint64_t most_of(cdz_loop *loop)
{
    if (loop->held.most == 0) loop->held.most = (uint64_t)(cdz_memory_limit() / 2);
    return loop->held.most ? loop->held.most : UINT64_MAX / 2;
}

/* n times size, or more than can be held. */
uint64_t cdz_loop_bytes(uint64_t n, uint64_t size)
{
    uint64_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) || bytes > UINT64_MAX / 4 ? UINT64_MAX / 4
                                                                             : bytes;
}

cdz_status cdz_loop_may_take(cdz_loop *loop, const char *verb, uint64_t bytes)
{
    const uint64_t all = loop->held.stays + bytes, most = most_of(loop);
    return all <= most ? CDZ_OK : refuse(loop, verb, all, most);
}

cdz_status cdz_loop_take(cdz_loop *loop, const char *verb, uint64_t bytes)
{
    CDZ_TRY(cdz_loop_may_take(loop, verb, bytes));
    loop->held.stays += bytes;
    return CDZ_OK;
}

static void weigh(void *user, const cdz_seq *seq)
{
    *(uint64_t *)user += cdz_seq_weight(seq);
}

/* A sixteenth is kept back, so that weighing is rare also near the limit. */
cdz_status cdz_loop_grow_seq(cdz_loop *loop, const char *verb, uint64_t bytes)
{
    if (bytes <= loop->held.set_aside) {
        loop->held.set_aside -= bytes;
        return CDZ_OK;
    }
    const uint64_t most = most_of(loop);
    uint64_t all = bytes;
    cdz_loop_visit(loop, weigh, &all);
    if (all > most - most / 16) return refuse(loop, verb, all, most);
    loop->held.set_aside = most - all;
    return CDZ_OK;
}

cdz_status cdz_loop_one_more_seq(cdz_loop *loop)
{
    if (loop->n_seqs < MOST_SEQS) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_LIMIT,
                         "seq_new: more than %d sequences at once; free those that are not needed",
                         MOST_SEQS);
}
