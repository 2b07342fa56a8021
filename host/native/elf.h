/* elf.h - what a shared object says about itself before anybody maps it.
 *
 * The dynamic loader trusts its input: a file cut short is mapped all the same and the process dies of SIGBUS at the
 * first missing page. So the headers are read here first, from bytes in memory. */
#ifndef CDZ_HOST_NATIVE_ELF_H
#define CDZ_HOST_NATIVE_ELF_H

#include <stdint.h>

#include "base/error.h"

#define CDZ_ELF_SEGMENTS 32

/* The loadable segments, as offsets from where the object will lie in memory. */
typedef struct cdz_elf_layout {
    uint32_t n;
    uint64_t start[CDZ_ELF_SEGMENTS], size[CDZ_ELF_SEGMENTS];
} cdz_elf_layout;

/* Refuses what is no shared object of this machine, is cut short, or asks for libraries by a relative path. */
cdz_status cdz_elf_check(const char *path, const char *bytes, size_t len, cdz_elf_layout *out,
                         cdz_error *err);

/* Calls visit with each library that a file checked before needs, until it gives an error. */
typedef cdz_status (*cdz_elf_visit)(void *user, const char *name, cdz_error *err);
cdz_status cdz_elf_each_needed(const char *path, const char *bytes, size_t len, cdz_elf_visit visit,
                               void *user, cdz_error *err);

#endif
