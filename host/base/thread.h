/* thread.h - threads of the library. Signals are the program's: its own threads take them. Not so those that a thread's own
 * instruction raises: a fault that is blocked would end the process whoever handles it. Those of a write (SIGPIPE) are blocked
 * where the thread that begins it blocks them. */
#ifndef CDZ_HOST_BASE_THREAD_H
#define CDZ_HOST_BASE_THREAD_H

#include <pthread.h>

/* pthread_create, and its answer. */
int cdz_thread_begin(pthread_t *thread, void *(*work)(void *arg), void *arg);

#endif
