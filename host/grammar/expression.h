/* expression.h - regular expressions, read into automata over code points. The syntax is that of Rust's regex crate as far
 * as it says which texts match: no look-around, no back-references, no word boundaries, which are refused by name. */
#ifndef CDZ_HOST_GRAMMAR_EXPRESSION_H
#define CDZ_HOST_GRAMMAR_EXPRESSION_H

#include "base/error.h"
#include "grammar/chars.h"

typedef struct cdz_expression_style {
    bool ascii;                  /* \d \w \s as ECMA 262 has them */
    bool search;                 /* the text may begin before a match and go on after it */
    bool fold, dot_all, verbose; /* flags i, s, x from the beginning */
} cdz_expression_style;

/* what: of what it is the pattern, in sentences, as "regex" or "/properties/a/pattern". out: settled; free it. */
cdz_status cdz_expression_read(const char *text, size_t len, const cdz_expression_style *style,
                               const char *what, cdz_chars *out, cdz_error *err);

#endif
