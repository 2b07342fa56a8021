/* native.c - the private copy, dlopen, and which memory belongs to the object. */
#include "native/native.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef __GLIBC__
#define CDZ_SYMBOL_BYTES 4096 /* as far as is looked where the size of a symbol cannot be asked */
#endif

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* dlopen may run constructors that change the thread's floating-point mode; ours comes back. */
static void *open_object(const char *name)
{
    fenv_t mode;
    fegetenv(&mode);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    fesetenv(&mode);
    return handle;
}

/* dlerror speaks of the copy's name; the sentence names the user's file. */
static cdz_status loader_error(const char *path, const char *copy, cdz_error *err)
{
    const char *why = dlerror();
    if (!why) why = "the dynamic loader refused it";
    size_t n = strlen(copy);
    if (strncmp(why, copy, n) == 0 && strncmp(why + n, ": ", 2) == 0) why += n + 2;
    return cdz_err(err, CDZ_E_PLUGIN, "%s: cannot be loaded: %s", path, why);
}

int cdz_native_copy(const char *path, const char *bytes, size_t len)
{
    const char *slash = strrchr(path, '/');
    char name[64];
    snprintf(name, sizeof name, "cadenza:%.50s", slash ? slash + 1 : path);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (write_all(fd, bytes, len) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

static cdz_status open_temporary(const char *path, const char *bytes, size_t len, cdz_native *out,
                                 cdz_error *err)
{
    char name[] = P_tmpdir "/cadenza-XXXXXX.so";
    int fd = mkostemps(name, 3, O_CLOEXEC);
    if (fd < 0)
        return cdz_err(err, CDZ_E_IO, "%s: no place for a private copy: %s: %s", path, name,
                       strerror(errno));
    cdz_status st = CDZ_OK;
    if (!write_all(fd, bytes, len))
        st = cdz_err(err, CDZ_E_IO, "%s: cannot write a private copy to %s: %s", path, name,
                     strerror(errno));
    else if (!(out->handle = open_object(name)))
        st = loader_error(path, name, err);
    close(fd);
    unlink(name);
    out->fd = -1;
    return st;
}

static cdz_status open_fd(const char *path, cdz_native *out, cdz_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", out->fd);
    out->handle = open_object(name);
    return out->handle ? CDZ_OK : loader_error(path, name, err);
}

/* In memory first; then as a file, for machines without /proc or where memory files may not be run. The first failure is
 * the one that is told: the file's own faults fail both ways. */
static cdz_status open_copy(const char *path, const char *bytes, size_t len, cdz_native *out,
                            cdz_error *err)
{
    out->fd = cdz_native_copy(path, bytes, len);
    if (out->fd < 0) return open_temporary(path, bytes, len, out, err);
    const cdz_status st = open_fd(path, out, err);
    if (st == CDZ_OK) return CDZ_OK;
    close(out->fd);
    return open_temporary(path, bytes, len, out, NULL) == CDZ_OK ? CDZ_OK : st;
}

static cdz_status find_base(const char *path, cdz_native *out, cdz_error *err)
{
    struct link_map *map = NULL;
    if (dlinfo(out->handle, RTLD_DI_LINKMAP, &map) != 0 || !map) {
        cdz_native_close(out, false);
        return cdz_err(err, CDZ_E_PLUGIN, "%s: the dynamic loader does not say where it lies", path);
    }
    out->base = map->l_addr;
    return CDZ_OK;
}

cdz_status cdz_native_open(const char *path, const char *bytes, size_t len, cdz_native *out,
                           cdz_error *err)
{
    *out = (cdz_native){.fd = -1};
    CDZ_TRY(cdz_elf_check(path, bytes, len, &out->layout, err));
    cdz_status st = open_copy(path, bytes, len, out, err);
    if (st != CDZ_OK) {
        *out = (cdz_native){0};
        return st;
    }
    return find_base(path, out, err);
}

cdz_status cdz_native_open_fd(const char *path, int fd, const char *bytes, size_t len,
                              cdz_native *out, cdz_error *err)
{
    *out = (cdz_native){.fd = fd};
    CDZ_TRY(cdz_elf_check(path, bytes, len, &out->layout, err));
    CDZ_TRY(open_fd(path, out, err));
    return find_base(path, out, err);
}

/* After dlclose the object may still be mapped (unique C++ symbols, NODELETE). Then its name must not be used again, or
 * glibc would hand out the old object: the descriptor stays open. */
void cdz_native_close(cdz_native *native, bool resident)
{
    if (!native->handle) return;
    bool mapped = resident;
    if (!resident) {
        dlclose(native->handle);
        if (native->fd >= 0) {
            char name[32];
            snprintf(name, sizeof name, "/proc/self/fd/%d", native->fd);
            void *still = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
            mapped = still != NULL;
            if (still) dlclose(still);
        }
    }
    if (native->fd >= 0 && !mapped) close(native->fd);
    *native = (cdz_native){0};
}

const void *cdz_native_symbol(const cdz_native *native, const char *name, size_t *bytes)
{
    const void *at = dlsym(native->handle, name);
    *bytes = 0;
    if (!cdz_native_holds(native, at, 1)) return NULL; /* a library it needs has one of that name */
#ifdef __GLIBC__
    Dl_info info;
    void *symbol = NULL;
    if (dladdr1(at, &info, &symbol, RTLD_DL_SYMENT) && symbol && info.dli_saddr == at)
        *bytes = ((const ElfW(Sym) *)symbol)->st_size;
#else
    while (*bytes < CDZ_SYMBOL_BYTES && cdz_native_holds(native, at, *bytes + 1)) ++*bytes;
#endif
    return at;
}

bool cdz_native_holds(const cdz_native *native, const void *at, size_t bytes)
{
    const uintptr_t offset = (uintptr_t)at - native->base;
    if (!at) return false;
    for (uint32_t i = 0; i < native->layout.n; i++) {
        const uint64_t start = native->layout.start[i], size = native->layout.size[i];
        if (offset >= start && offset - start <= size && bytes <= size - (offset - start))
            return true;
    }
    return false;
}

bool cdz_native_holds_string(const cdz_native *native, const char *text, size_t max)
{
    for (size_t i = 0; i <= max; i++) {
        if (!cdz_native_holds(native, text + i, 1)) return false;
        if (text[i] == '\0') return true;
    }
    return false;
}
