/* printable.h - text from files, models and plugins on its way to a terminal, which is not told to do things by it. */
#ifndef CDZ_HOST_CLI_PRINTABLE_H
#define CDZ_HOST_CLI_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

enum { CDZ_PRINTABLE_BYTES = 4 }; /* that a byte comes to at most */

/* Control characters, also those of two bytes (U+0080 to U+009F), come out as \x1b, but for those in `keep`. `held` is a byte of
 * the piece before, or 0, and what the next piece begins with; out has room for CDZ_PRINTABLE_BYTES for each of n + 1 bytes. */
size_t cdz_printable(char *out, const char *text, size_t n, const char *keep, unsigned char *held);

/* Standard output, where it is a terminal, from now on shows control characters so. */
void cdz_printable_output(void);
/* What is under it, for whoever may tell the terminal to do things. */
FILE *cdz_printable_terminal(void);
/* Tells it one thing, where standard output is. */
void cdz_printable_tell(const char *sequence);

#endif
