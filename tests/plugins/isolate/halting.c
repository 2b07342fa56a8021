/* halting.c - the worker, but it stops before its first line, so that its host can end in the meantime. For
 * test_isolate_life. */
#include <signal.h>
#include <unistd.h>

int main(void)
{
    char name[] = "cadenza-worker", *const argv[] = {name, NULL};
    raise(SIGSTOP);
    execv(WORKER, argv);
    return 2;
}
