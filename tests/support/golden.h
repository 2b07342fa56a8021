/* golden.h - recorded cases of the reference, tests/golden/MODEL/cases.json. */
#ifndef CADENZA_TEST_GOLDEN_H
#define CADENZA_TEST_GOLDEN_H

#include "base/json.h"

extern const char *const golden_folder; /* of the models' folders; ends in a slash */

typedef struct golden {
    cdz_arena arena;
    cdz_json cases;
} golden;

golden golden_open(const char *model);
bool golden_has(const golden *g, const char *id);
const cdz_json *golden_case(const golden *g, const char *id);

/* Rows of integers, all equally long, side by side. */
int32_t *golden_rows(const cdz_json *rows, uint32_t *n, uint32_t *len);

#endif
