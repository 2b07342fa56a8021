/* convert.h - the verbs of `cadenza model` that write another model (cmd_convert.c). */
#ifndef CDZ_HOST_CLI_CONVERT_H
#define CDZ_HOST_CLI_CONVERT_H

#include <stdbool.h>

/* argv[0] is the verb. */
int cdz_cmd_model_convert(int argc, char **argv, bool quantise);

#endif
