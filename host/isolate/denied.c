#include "isolate/denied.h"

#include <stdio.h>
#include <sys/syscall.h>

typedef struct call {
    uint32_t number;
    const char *name;
} call;

/* What plugins are most likely to ask for. */
static const call known[] = {
    {SYS_openat, "openat"},
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_socket, "socket"},
    {SYS_connect, "connect"},
    {SYS_clone, "clone (a thread or a process)"},
    {SYS_execve, "execve"},
    {SYS_kill, "kill"},
    {SYS_tgkill, "tgkill"},
    {SYS_ptrace, "ptrace"},
    {SYS_ioctl, "ioctl"},
    {SYS_dup, "dup"},
    {SYS_prctl, "prctl"},
    {SYS_rt_sigaction, "rt_sigaction"},
    {SYS_setitimer, "setitimer"},
    {SYS_mprotect, "mprotect"},
    {SYS_mmap, "mmap"},
    {SYS_getdents64, "getdents64"},
    {SYS_unlinkat, "unlinkat"},
    {SYS_memfd_create, "memfd_create"},
    {SYS_process_vm_readv, "process_vm_readv"},
    {SYS_clone3, "clone3 (a thread or a process)"},
    {SYS_faccessat, "faccessat"},
    {SYS_statx, "statx"},
#ifdef SYS_newfstatat
    {SYS_newfstatat, "newfstatat"},
#endif
#ifdef SYS_open
    {SYS_open, "open"},
    {SYS_fork, "fork"},
    {SYS_vfork, "vfork"},
    {SYS_pipe, "pipe"},
    {SYS_access, "access"},
    {SYS_stat, "stat"},
    {SYS_unlink, "unlink"},
#endif
};

void cdz_denied_name(uint32_t number, char *out, size_t out_bytes)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].number == number) {
            snprintf(out, out_bytes, "%s", known[i].name);
            return;
        }
    snprintf(out, out_bytes, "call %u", number);
}
