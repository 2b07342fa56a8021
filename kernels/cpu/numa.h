/* numa.h - which memory is near which processors: the nodes of a machine, threads bound to them evenly, and pages spread
 * over them. No library: the system's files, the threads' affinity and mbind. */
#ifndef CDZ_NUMA_H
#define CDZ_NUMA_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CDZ_NUMA_NODES = 64 };

/* The nodes with processors that this process may run on, by rising number. */
typedef struct cdz_numa {
    uint32_t n; /* 1 or 0: there is nothing to spread */
    uint32_t id[CDZ_NUMA_NODES];
    cpu_set_t cpus[CDZ_NUMA_NODES];
} cdz_numa;

/* From the folder of the system's nodes, NULL: /sys/devices/system/node. What cannot be read counts as absent. */
void cdz_numa_read(const char *folder, cdz_numa *out);

/* The place among nodes of the i-th of n_threads: each node gets as many, or one more, and neighbours are together. */
uint32_t cdz_numa_node_of(const cdz_numa *numa, uint32_t i, uint32_t n_threads);

/* A thread to the processors of a node; false: the system refuses. */
bool cdz_numa_bind(const cdz_numa *numa, pthread_t thread, uint32_t node);

/* The whole pages of a piece, which nobody has touched, in turns from all nodes; false: the system refuses, and they come from
 * where they are touched first. */
bool cdz_numa_spread(const cdz_numa *numa, void *memory, size_t bytes);

#endif
