/* tokenize_pair.h - what `cadenza tokenize` does beside ids: two texts, truncation, padding, all that is known of an
 * id. */
#ifndef CDZ_HOST_CLI_TOKENIZE_PAIR_H
#define CDZ_HOST_CLI_TOKENIZE_PAIR_H

#include "cli/cli.h"
#include "token/pair.h"

enum {
    CDZ_OPT_PAIR = CDZ_OPT_OWN + 64,
    CDZ_OPT_JSON,
    CDZ_OPT_MAX_LENGTH,
    CDZ_OPT_STRIDE,
    CDZ_OPT_TRUNCATION,
    CDZ_OPT_TRUNCATION_SIDE,
    CDZ_OPT_PAD_TO,
    CDZ_OPT_PAD_MULTIPLE,
    CDZ_OPT_PAD_SIDE,
};

typedef struct cdz_cli_pair {
    bool asked; /* the answer is a whole encoding */
    bool cuts;  /* a length was given */
    const char *second;
    cdz_pair_options options;
} cdz_cli_pair;

/* Takes one of the options above; false: its value is wrong, and *status the exit status. */
bool cdz_cli_pair_option(cdz_cli_pair *pair, int opt, const char *value, int *status);

/* Appends the encoding as a JSON object. second: NULL for one text. */
cdz_status cdz_cli_pair_write(const cdz_cli_pair *pair, const cdz_tokenizer *tok, const char *first,
                              size_t first_len, const char *second, size_t second_len, cdz_buf *out,
                              cdz_error *err);

#endif
