/* forger.h - what a program in the place of cadenza-worker is told to do: a list of steps, which the host hands it as the
 * bytes of the "plugin". For test_isolate_forged. */
#ifndef CADENZA_TESTS_FORGER_H
#define CADENZA_TESTS_FORGER_H

#include <stdint.h>

typedef enum forge_op {
    FORGE_SAY =
        1, /* waits for its turn, writes the bytes, says that they are `said`, moves the turn on by `turns` */
    FORGE_BLURT, /* the same without waiting, when the host has had `nap` milliseconds */
    FORGE_STAMP, /* the first four of these bytes in what is said next become this process's own */
    FORGE_FLIP, /* from now on a thread changes what is said, and how long it is, as fast as it can */
    FORGE_REACH, /* tries what can be done with the descriptors */
    FORGE_LEAVE, /* a child that goes on writing into the shared memory when this process is gone */
    FORGE_DENY,  /* `said` is the number of the call that it was refused, as the host is told */
    FORGE_KILL,  /* itself, by the signal `said` */
    FORGE_EXIT,  /* with the status `said` */
    FORGE_FROM_HERE, /* when it is through it begins again behind this */
} forge_op;

/* bytes of these follow. Aligned to 4. */
typedef struct forge_step {
    uint32_t op, said, turns, nap, bytes;
} forge_step;

#endif
