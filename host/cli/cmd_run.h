/* cmd_run.h - the two halves of `cadenza run`: one request (cmd_run.c), a file of them (batch.c). */
#ifndef CDZ_HOST_CLI_CMD_RUN_H
#define CDZ_HOST_CLI_CMD_RUN_H

#include "cli/cli.h"

typedef struct cdz_run_options {
    cdz_cli_options common;
    const char *prompt, *file, *ids, *request, *messages; /* at most one */
    const char *outputs;                                  /* file for tensors, or NULL */
    const char *input, *output;                           /* JSONL */
    const char *system;               /* the prompt is a question after it; or NULL */
    bool interactive;                 /* chat */
    bool json, stream, whole, resume; /* whole: text when all of it is there */
    uint32_t shows;                   /* cdz_stream_flags */
} cdz_run_options;

/* A conversation, as `cadenza chat` (cmd_chat.c). system and first, a question: or NULL. */
int cdz_cli_chat(cdz_cli_options *options, const char *system, const char *first);
int cdz_cli_run_batch(const cdz_run_options *options, cdz_session *session);

#endif
