/* bad.h - what the plugins of this folder share. Each does one thing wrong, and `cadenza plugin test` has to say which
 * (tests/unit/check/test_plugin_test.c has the list). */
#ifndef CADENZA_TESTS_BAD_H
#define CADENZA_TESTS_BAD_H

#include <cadenza/criterion.h>
#include <cadenza/processor.h>

#define BAD_BASE(kind_)                                                                            \
    kind_, .id = "bad.plugin", .version = "1.0.0", .summary = "Does one thing wrong"

/* The rest is fields of the descriptor. */
#define BAD_PROCESSOR(...)                                                                         \
    static const cdz_processor bad = {__VA_ARGS__};                                                \
    CDZ_EXPORT_PLUGINS(&bad.base)
#define BAD_CRITERION(...)                                                                         \
    static const cdz_criterion bad = {__VA_ARGS__};                                                \
    CDZ_EXPORT_PLUGINS(&bad.base)

/* What an honest one does: every score a little smaller. */
static inline void shrink(float *row, uint32_t n, float by)
{
    for (uint32_t v = 0; v < n; v++) row[v] *= by;
}

#define EACH_ROW(scores, r) for (uint32_t r = 0; r < (scores)->n_rows; r++)

#endif
