/* bench_client.h - one connection of `cadenza bench serve`: a request over HTTP, and its answer event by event. */
#ifndef CDZ_HOST_CLI_BENCH_CLIENT_H
#define CDZ_HOST_CLI_BENCH_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "cadenza/base.h"
#include "cadenza/cadenza.h"

/* "http://HOST:PORT/base". */
typedef struct cdz_cli_bench_url {
    char host[256], port[8], base[256]; /* base: before "/v1/...", without a slash at its end */
} cdz_cli_bench_url;

cdz_status cdz_cli_bench_read_url(const char *text, cdz_cli_bench_url *out, cdz_error *err);

/* Zeroed but for the first two. A connection is kept from one request to the next where the server keeps it. */
typedef struct cdz_cli_bench_client {
    const cdz_cli_bench_url *url;
    const char *key; /* or NULL */
    double patience; /* seconds for a read */
    int fd;          /* below 1: none */
    cdz_buf in;      /* bytes that came, from `at` on not yet read */
    size_t at;
    bool last; /* the server closes after this answer */
} cdz_cli_bench_client;

/* What one request came to. */
typedef struct cdz_cli_bench_answer {
    int status; /* of HTTP; 0: none came */
    char why[640];
    bool whole;                      /* it ended as a stream should */
    double began, first, ended;      /* seconds of the clock; first 0: no text came */
    uint32_t n_events;               /* that had text */
    uint64_t n_prompt, n_completion; /* as the server counts them; 0: it did not say */
} cdz_cli_bench_answer;

/* A request with a body, answered by a stream of events. gap: hears of the seconds between two that had text. */
void cdz_cli_bench_stream(cdz_cli_bench_client *client, const char *path, const cdz_buf *body,
                          void (*gap)(void *user, double seconds), void *user,
                          cdz_cli_bench_answer *out);
/* GET; the body into out. False: why not is in answer->why. */
bool cdz_cli_bench_get(cdz_cli_bench_client *client, const char *path, cdz_buf *out,
                       cdz_cli_bench_answer *answer);
void cdz_cli_bench_hang_up(cdz_cli_bench_client *client);

#endif
