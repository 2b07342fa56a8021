/* native.h - a shared object opened from a private copy.
 *
 * The user's file is never mapped: overwriting it in place would kill the process, and glibc would return the old
 * object for a new file of the same name. Each opening gets a sealed copy in memory under a name of its own
 * (/proc/self/fd/N, kept open while mapped), or an unlinked temporary file where that is not possible.
 *
 * Opening runs the object's constructors: that cannot be prevented, so a native plugin has the rights of the host
 * from that moment. What is prevented: a changed floating-point mode (objects linked with -ffast-math set flush-to-zero). */
#ifndef CDZ_HOST_NATIVE_NATIVE_H
#define CDZ_HOST_NATIVE_NATIVE_H

#include "native/elf.h"

/* Zeroed: nothing open. */
typedef struct cdz_native {
    void *handle;
    int fd;         /* the copy in memory; -1: a temporary file, already unlinked */
    uintptr_t base; /* where the object lies */
    cdz_elf_layout layout;
} cdz_native;

/* path: for sentences only. */
cdz_status cdz_native_open(const char *path, const char *bytes, size_t len, cdz_native *out,
                           cdz_error *err);

/* The same of an open descriptor that holds these bytes, in the worker of an isolated plugin. The caller's, on failure too. */
cdz_status cdz_native_open_fd(const char *path, int fd, const char *bytes, size_t len,
                              cdz_native *out, cdz_error *err);

/* A sealed copy in memory that can be opened as a file; below 0: errno says why. */
int cdz_native_copy(const char *path, const char *bytes, size_t len);

/* resident: stays mapped for ever, as the plugin asked. Zeroed is fine. */
void cdz_native_close(cdz_native *native, bool resident);

/* The object's own symbol and how many bytes it has by the symbol table; NULL when there is none. */
const void *cdz_native_symbol(const cdz_native *native, const char *name, size_t *bytes);

/* Whether [at, at + bytes) lies in one of the object's segments: what tells data from garbage. */
bool cdz_native_holds(const cdz_native *native, const void *at, size_t bytes);

/* Whether text is a NUL-terminated string of at most max bytes inside the object. */
bool cdz_native_holds_string(const cdz_native *native, const char *text, size_t max);

#endif
