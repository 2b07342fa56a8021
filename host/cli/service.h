/* service.h - what a service manager hands in and hears. */
#ifndef CDZ_HOST_CLI_SERVICE_H
#define CDZ_HOST_CLI_SERVICE_H

#include "cadenza/cadenza.h"

/* A socket that listens already and is this program's to serve on; -1: there is none. */
cdz_status cdz_cli_handed_socket(int *out, cdz_error *err);
/* "READY=1" and the like. [any thread] */
void cdz_cli_tell_service(const char *state);
/* Whether it wants "WATCHDOG=1" now and then, each few seconds. */
bool cdz_cli_is_watched(void);

#endif
