/* denied.h - system calls by name, for the sentence about one that was refused. */
#ifndef CDZ_HOST_ISOLATE_DENIED_H
#define CDZ_HOST_ISOLATE_DENIED_H

#include <stddef.h>
#include <stdint.h>

/* How a process ends that asked for one. */
enum { CDZ_DENIED_EXIT = 97 };

/* "openat", or "call 123". */
void cdz_denied_name(uint32_t number, char *out, size_t out_bytes);

#endif
