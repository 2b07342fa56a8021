/* parity.h - the parts of `cadenza parity`: comparing answers, replaying processor vectors. */
#ifndef CDZ_HOST_CLI_PARITY_H
#define CDZ_HOST_CLI_PARITY_H

#include "base/json.h"
#include "cli/cli.h"
#include "config/pipeline.h"
#include "plug/registry.h"

/* Floats agree when |a - b| <= tolerance + tolerance * |b|. */
#define CDZ_PARITY_TOLERANCE 1e-4

bool cdz_parity_close(double got, double want);

/* Compares an answer with a case's "expect": integers, texts and shapes exactly, floats by tolerance, null not at all,
 * best scores by id. False: *difference says where and what first. */
bool cdz_parity_compare(const cdz_json *expect, const cdz_json *got, cdz_buf *difference);

typedef struct cdz_parity_count {
    uint32_t passed, failed, unsupported, optional;
} cdz_parity_count;

/* Reads a file of the form of processor_vectors.json; its list of cases lies in the arena. */
cdz_status cdz_parity_read_vectors(const char *path, cdz_arena *arena, const cdz_json **cases,
                                   cdz_error *err);

/* Replays those cases, prints what failed and adds to *count. verbose: name what is not supported. */
void cdz_parity_vectors(const cdz_json *cases, cdz_registry *registry, bool verbose,
                        cdz_parity_count *count);

/* --- cases of presses: parity_press.c --- */
typedef struct cdz_parity_presses_how {
    cdz_runtime *runtime;
    const cdz_model_options *model;
    const char *folder; /* that the cases' paths start from */
    const char *only;   /* cases whose id contains it; NULL: all */
    bool optional, verbose;
} cdz_parity_presses_how;

bool cdz_parity_is_press(const cdz_json *cases);
void cdz_parity_presses(const cdz_json *cases, const cdz_parity_presses_how *how,
                        cdz_parity_count *count);

/* --- parts of that: parity_vectors.c, parity_trial.c --- */
enum { CDZ_PARITY_ROWS = 64 }; /* of a case, at most */

/* A score of a case: a number or the name of none. */
float cdz_parity_float(const cdz_json *value);
/* To the bit, or to 1e-5. */
bool cdz_parity_same_score(float got, float want, bool exact);
/* Asks the plugin of the case's one criterion. stopped: (CDZ_PARITY_ROWS), of which *n are set. */
cdz_status cdz_parity_stops(cdz_registry *registry, const cdz_json *c, bool *stopped, uint32_t *n,
                            cdz_error *err);

/* --- cases of the loop rather than of one plugin: parity_loop.c --- */
/* Why the case is not for the command to replay; NULL: it is. */
const char *cdz_parity_optional(const cdz_json *c);
/* Replays the case if it is one of these; false if not. */
bool cdz_parity_loop_case(cdz_registry *registry, const cdz_json *c, cdz_status *replayed,
                          cdz_error *err);

/* --- what a streamer prints: parity_stream.c --- */
bool cdz_parity_stream_case(const cdz_json *c, cdz_status *replayed, cdz_error *err);

/* --- cases of configuration: parity_config.c; what it asks of the other two --- */
/* Replays the case if it is one of these; false if not. */
bool cdz_parity_config_case(cdz_registry *registry, const cdz_json *c, cdz_status *replayed,
                            cdz_error *err);

/* The plugin of a class that is named in full, "TopKLogitsWarper"; NULL: there is none. */
const char *cdz_parity_plugin(const cdz_json *name);

/* Applies a plan's processors, those that are not idle, to the case's scores_in in their order and compares with
 * scores_out. request: rows, vocabulary and prompts are the case's. */
cdz_status cdz_parity_chain(const cdz_json *c, const cdz_plan *plan,
                            const cdz_request_info *request, cdz_error *err);

#endif
