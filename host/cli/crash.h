/* crash.h - one sentence when a plugin's code in this process crashes. The program still dies of the signal. */
#ifndef CDZ_HOST_CLI_CRASH_H
#define CDZ_HOST_CLI_CRASH_H

/* From now on. A handler that was there before has its turn afterwards. [main] */
void cdz_cli_tell_crashes(void);

#endif
