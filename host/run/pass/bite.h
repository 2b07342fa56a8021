/* bite.h - how many rows of prompts a pass takes while others decode.
 *
 * A pass gives every running answer its next token when it ends, so a pass with hundreds of rows of a prompt holds all of them
 * up. While something decodes, a pass takes so many rows of prompts that it lasts about twice as long as one without any. What
 * passes take is measured, since it depends on the model, the machine and its other programs. Numbers do not depend on it: a
 * prompt's bits are the same in any pieces.
 *
 * Knows no clock: it is told of passes. */
#ifndef CDZ_HOST_RUN_PASS_BITE_H
#define CDZ_HOST_RUN_PASS_BITE_H

#include <stdint.h>

/* Zeroed: nothing is known yet. */
typedef struct cdz_bite {
    double step_s; /* a pass that only decodes; smoothed */
    double row_s;  /* a row of a prompt; smoothed */
} cdz_bite;

enum { CDZ_BITE_LEAST = 16, CDZ_BITE_FIRST = 64 };

/* After a pass: rows that decode, rows of prompts, what it took. */
void cdz_bite_note(cdz_bite *bite, uint32_t decoding, uint32_t prompts, double wall_s);
/* Rows of prompts that the next pass may take beside those that decode, at most `most`. */
uint32_t cdz_bite_rows(const cdz_bite *bite, uint32_t most);

#endif
