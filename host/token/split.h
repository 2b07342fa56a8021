/* split.h - one cut: text becomes spans that match a pattern and spans between them. */
#ifndef CDZ_HOST_TOKEN_SPLIT_H
#define CDZ_HOST_TOKEN_SPLIT_H

#include "token/pattern.h"

/* What becomes of the matches of a Split: see the reference's SplitDelimiterBehavior. */
typedef enum cdz_split_behavior {
    CDZ_SPLIT_ISOLATED,
    CDZ_SPLIT_REMOVED,
    CDZ_SPLIT_CONTIGUOUS,
    CDZ_SPLIT_MERGED_WITH_PREVIOUS,
    CDZ_SPLIT_MERGED_WITH_NEXT,
} cdz_split_behavior;

/* Spans that match and spans between them, joined or dropped as the behavior says. */
typedef struct cdz_split {
    cdz_pattern pattern;
    cdz_split_behavior behavior;
    bool invert; /* the text between matches is what counts as matching */
} cdz_split;

/* Takes the pieces of text[begin, end) after one cut, in order. Returns false to stop. */
typedef bool (*cdz_piece_fn)(void *context, const uint8_t *text, size_t begin, size_t end);

/* Cuts text[begin, end); false when the callback said so, or the meter was spent (by a regex, which alone takes of it).
 * Empty pieces are never given. */
bool cdz_split_run(const cdz_split *split, const uint8_t *text, size_t begin, size_t end,
                   cdz_meter *meter, cdz_piece_fn piece, void *context);

#endif
