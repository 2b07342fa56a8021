/* early.c - does its misdeed when it is opened, before anybody asked; for test_isolate. DEED: what. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cadenza/processor.h"

static int found = -1;

__attribute__((constructor)) static void early(void)
{
#if DEED == 1
    abort();
#elif DEED == 2
    for (;;) pause();
#elif DEED == 3
    _exit(7);
#else
    found = open(PATH, O_RDONLY); /* of the user's own: closed to it */
#endif
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    if (found >= 0) return cdz_fail(step, CDZ_E_INTERNAL, "the user's file is open to the plugin");
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.early", .version = "1.0.0", .summary = "too early"},
    .caps = CDZ_ROWWISE,
    .apply = apply,
};

CDZ_EXPORT_PLUGINS(&processor.base)
