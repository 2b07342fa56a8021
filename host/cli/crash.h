/* crash.h - one sentence when a plugin's code in this process crashes. The program still dies of the signal.
 * A stack that is full is told too, on the threads that call plugins: the first, the engine's, the backend's. */
#ifndef CDZ_HOST_CLI_CRASH_H
#define CDZ_HOST_CLI_CRASH_H

/* From now on. A handler that was there before has its turn afterwards. [main] */
void cdz_cli_tell_crashes(void);

#endif
