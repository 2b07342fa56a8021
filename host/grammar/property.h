/* property.h - sets of characters that have a name in the Unicode Character Database, as \p{..} of a pattern gives it. The
 * tables are generated: see tools/make_property_tables.py. */
#ifndef CDZ_HOST_GRAMMAR_PROPERTY_H
#define CDZ_HOST_GRAMMAR_PROPERTY_H

#include "grammar/charset.h"

typedef enum cdz_property_kind {
    CDZ_PROPERTY_CATEGORY = 1,
    CDZ_PROPERTY_SCRIPT = 2,
    CDZ_PROPERTY_BINARY = 4,
} cdz_property_kind;

typedef struct cdz_property {
    const char *name; /* small letters and digits */
    cdz_property_kind kind;
    uint32_t at; /* the first of its spans; of a category, a bit for each of utf8proc's */
    uint32_t n;
} cdz_property;

extern const cdz_code_span cdz_property_spans[];
extern const cdz_property cdz_properties[]; /* by name */
extern const size_t cdz_properties_n;

/* What \p{..} names: a general category ("L", "Lu", "Letter", "gc=Lu"), a script ("Han", "Script=Greek", "sc=Grek"), one of
 * Alphabetic, Uppercase, Lowercase, White_Space, Emoji, Ideographic, or Any, ASCII, Assigned. Case, blanks, '_' and '-' of a
 * name say nothing (UAX 44, LM3). False: no such property. */
bool cdz_charset_add_property(cdz_charset *set, const char *name, size_t len);

#endif
