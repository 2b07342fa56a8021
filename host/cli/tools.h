/* tools.h - commands that answer decode loops (--tool NAME=COMMAND). */
#ifndef CDZ_HOST_CLI_TOOLS_H
#define CDZ_HOST_CLI_TOOLS_H

#include "params/settings.h"

/* Whether all are of that form; otherwise it has been said what is wrong. */
bool cdz_cli_tools_are_good(const cdz_program_settings *program);
/* For cdz_request.on_tool; user is the program's settings. */
cdz_status cdz_cli_on_tool(void *user, const cdz_tool_question *call, cdz_error *err);

#endif
