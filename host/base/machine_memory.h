/* machine_memory.h - how much memory this process may come to have. */
#ifndef CDZ_HOST_BASE_MACHINE_MEMORY_H
#define CDZ_HOST_BASE_MACHINE_MEMORY_H

double cdz_memory_limit(void); /* bytes: the machine's, or its control group's */
double cdz_memory_free(void); /* bytes that could be had now, by giving up caches of files; 0: unknown */

#endif
