/* denied.c - names of the system calls that plugins are most likely to be refused. */
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
    {SYS_prlimit64, "prlimit64"},
    {SYS_setrlimit, "setrlimit"},
    {SYS_fcntl, "fcntl"},
    {SYS_seccomp, "seccomp"},
    {SYS_rt_sigqueueinfo, "rt_sigqueueinfo"},
    {SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo"},
    {SYS_pidfd_open, "pidfd_open"},
    {SYS_pidfd_send_signal, "pidfd_send_signal"},
    {SYS_process_vm_writev, "process_vm_writev"},
    {SYS_execveat, "execveat"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_fallocate, "fallocate"},
    {SYS_unshare, "unshare"},
    {SYS_mount, "mount"},
    {SYS_bpf, "bpf"},
    {SYS_userfaultfd, "userfaultfd"},
    {SYS_perf_event_open, "perf_event_open"},
    {SYS_futex, "futex"},
    {SYS_timer_create, "timer_create"},
    {SYS_setsid, "setsid"},
    {SYS_pread64, "pread64"},
    {SYS_readlinkat, "readlinkat"},
    {SYS_io_uring_setup, "io_uring_setup"},
    {SYS_sched_setscheduler, "sched_setscheduler"},
    {SYS_setpriority, "setpriority"},
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
