/* cmd_run.h - the two halves of `cadenza run`: one request (cmd_run.c), a file of them (batch.c). */
#ifndef CDZ_HOST_CMD_RUN_H
#define CDZ_HOST_CMD_RUN_H

#include "cli/cli.h"

typedef struct cdz_run_options {
    cdz_cli_options common;
    const char *prompt, *ids, *request, *messages; /* at most one */
    const char *outputs;                           /* file for tensors, or NULL */
    const char *input, *output;                    /* JSONL */
    bool json, resume;
} cdz_run_options;

int cdz_run_batch(const cdz_run_options *options, cdz_session *session);

#endif
