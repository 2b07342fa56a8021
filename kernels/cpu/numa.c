/* numa.c - reads nodes and their processors from the system's files ("0-3,8" is a list), deals threads out to them in equal
 * shares, and binds threads and pages by system calls. Where the
 * files are missing no node is known, and nothing is bound. */
#include "cpu/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LIST_BYTES = 4096,
    INTERLEAVE = 3, /* MPOL_INTERLEAVE of linux/mempolicy.h, which is not always there */
    MASK_BITS = 8 * sizeof(unsigned long)
};

/* The text of a small file; false: there is none. */
static bool read_text(const char *path, char text[LIST_BYTES])
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t n = fread(text, 1, LIST_BYTES - 1, file);
    fclose(file);
    text[n] = '\0';
    return n > 0;
}

/* A number of at most four digits; false: there is none. */
static bool take_number(const char **at, unsigned *out)
{
    unsigned value = 0, digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 4; (*at)++, digits++)
        value = value * 10 + (unsigned)(**at - '0');
    *out = value;
    return digits > 0;
}

/* "0-3,8,10-11\n" as a set; what is beyond a set's size, and all after what is no such list, is left out. */
static void take_list(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (const char *at = text;; at++) {
        unsigned first, last;
        if (!take_number(&at, &first)) return;
        last = first;
        if (*at == '-') {
            at++;
            if (!take_number(&at, &last)) return;
        }
        for (unsigned i = first; i <= last && i < CPU_SETSIZE; i++) CPU_SET(i, out);
        if (*at != ',') return;
    }
}

static bool read_list(const char *folder, const char *name, cpu_set_t *out)
{
    char path[512], text[LIST_BYTES];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof path || !read_text(path, text)) return false;
    take_list(text, out);
    return true;
}

void cdz_numa_read(const char *folder, cdz_numa *out)
{
    const char *nodes = folder ? folder : "/sys/devices/system/node";
    cpu_set_t online, allowed;
    out->n = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    if (!read_list(nodes, "online", &online)) return;
    for (uint32_t i = 0; i < CPU_SETSIZE && out->n < CDZ_NUMA_NODES; i++) {
        char name[32];
        cpu_set_t *cpus = &out->cpus[out->n];
        snprintf(name, sizeof name, "node%u/cpulist", (unsigned)i);
        if (!CPU_ISSET(i, &online) || !read_list(nodes, name, cpus)) continue;
        CPU_AND(cpus, cpus, &allowed);
        if (CPU_COUNT(cpus) > 0) out->id[out->n++] = i;
    }
}

uint32_t cdz_numa_node_of(const cdz_numa *numa, uint32_t i, uint32_t n_threads)
{
    return (uint32_t)((uint64_t)i * numa->n / n_threads);
}

bool cdz_numa_bind(const cdz_numa *numa, pthread_t thread, uint32_t node)
{
    return pthread_setaffinity_np(thread, sizeof numa->cpus[node], &numa->cpus[node]) == 0;
}

bool cdz_numa_spread(const cdz_numa *numa, void *memory, size_t bytes)
{
    unsigned long mask[CPU_SETSIZE / MASK_BITS + 1] = {0};
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)memory,
                    first = (start + page - 1) / page * page, end = (start + bytes) / page * page;
    for (uint32_t i = 0; i < numa->n; i++)
        mask[numa->id[i] / MASK_BITS] |= 1ul << numa->id[i] % MASK_BITS;
    return first >= end ||
           syscall(SYS_mbind, first, end - first, INTERLEAVE, mask, sizeof mask * 8, 0) == 0;
}
