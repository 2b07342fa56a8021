/* score.h - what the parts of `cadenza score` share. */
#ifndef CDZ_HOST_CLI_SCORE_H
#define CDZ_HOST_CLI_SCORE_H

#include "base/buf.h"
#include "cli/cli.h"

typedef struct cdz_score_options {
    cdz_cli_options common;
    const char *text, *file, *ids, *prompt, *outputs; /* exactly one */
    const char *context;
    uint32_t window, stride; /* 0: by the model's context */
    uint32_t top;            /* likeliest tokens of each place that are shown */
    bool normalize, summary, json;
} cdz_score_options;

/* --text, --file, --ids (score_text.c). Returns the exit status, as do the others. */
int cdz_cli_score_text(const cdz_score_options *options);
/* -p: an answer's tokens, and --outputs: tokens of saved tensors (score_tokens.c). */
int cdz_cli_score_answer(const cdz_score_options *options);
int cdz_cli_score_saved(const cdz_score_options *options);

/* One line of a table: the id and the token's text, if the model has a tokenizer; columns follow. */
void cdz_cli_score_print_token(const cdz_model *model, int32_t id);
void cdz_cli_score_print_value(float value); /* a column, "-" for NAN */
/* A line of a place's n likeliest tokens; sum is taken off their values. */
void cdz_cli_score_print_top(const cdz_model *model, const int32_t *ids, const float *values,
                             uint32_t n, float sum);

#endif
