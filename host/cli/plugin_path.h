/* plugin_path.h - `cadenza plugin test`, and how the commands of `cadenza plugin` tell a path from an id. */
#ifndef CDZ_HOST_CLI_PLUGIN_PATH_H
#define CDZ_HOST_CLI_PLUGIN_PATH_H

#include <stdbool.h>

bool cdz_cli_is_plugin_path(const char *text);  /* cmd_plugin.c */
int cdz_cli_plugin_test(int argc, char **argv); /* plugin_test.c; argv[0] is "test" */

#endif
