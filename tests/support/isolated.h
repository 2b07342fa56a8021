/* isolated.h - what the tests of isolated plugins are set up by: a runtime, the shipped model, a folder for what they
 * write, and what plugins logged. */
#ifndef CDZ_TESTS_SUPPORT_ISOLATED_H
#define CDZ_TESTS_SUPPORT_ISOLATED_H

#include <stdint.h>
#include <sys/types.h>

#include "cadenza/cadenza.h"
#include "support/must.h"

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    char folder[64];
    uint32_t n_lines; /* that plugins logged */
    char line[256];   /* the newest of them */
} fixture;

/* plugins: the folder of the built-in ones; NULL: as the program has it. */
fixture *fixture_open(const char *plugins, uint32_t n_threads);

/* The folder has to be empty. Every process that was started is gone and was asked how it went. */
void fixture_close(fixture *f);

cdz_pipeline *parse(const fixture *f, const char *ini);

cdz_status generate(const fixture *f, cdz_pipeline *pipeline, const char *json, cdz_result **out,
                    cdz_error *err);

/* Both in one; what came of the first that failed. */
cdz_status run_ini(const fixture *f, const char *ini, const char *json, cdz_error *err);

/* --- processes -------------------------------------------------------------------------------------------------------- */

typedef struct proc_facts {
    pid_t pid; /* 0: there is none */
    char state;
    long ticks; /* of processor time */
} proc_facts;

/* The only child of a process that has not ended. */
proc_facts proc_child_of(pid_t parent);

/* --- a plugin that attacks ------------------------------------------------------------------------------------------ */

/* plugins/isolate/hostile.c: its bytes, and where its order stands in them. */
typedef struct hostile {
    char *bytes;
    size_t n, order_at;
} hostile;

hostile hostile_read(void);

/* A file of this order in the fixture's folder, and the lines of a pipeline with it. */
void hostile_write(const hostile *h, const fixture *f, const char *order, int deadline_ms,
                   char path[128], char ini[512]);

#endif
