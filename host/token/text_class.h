/* text_class.h - character classes that only some normalizers and pre-tokenizers ask for, as the
 * reference has them: each of its parts brings tables of its own Unicode version. The tables are
 * generated: see tools/make_text_tables.py. */
#ifndef CDZ_HOST_TOKEN_TEXT_CLASS_H
#define CDZ_HOST_TOKEN_TEXT_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cdz_text_class {                      /* in the order of cdz_code_classes */
                              CDZ_TC_BERT_DROPPED, /* clean_text takes these out */
                              CDZ_TC_BERT_BLANK,   /* clean_text makes these spaces */
                              CDZ_TC_BERT_CHINESE,
                              CDZ_TC_BERT_ACCENT,
                              CDZ_TC_ACCENT,
                              CDZ_TC_NMT_DROPPED,
                              CDZ_TC_NMT_BLANK,
                              CDZ_TC_PUNCTUATION,
                              CDZ_TC_BERT_PUNCTUATION,
} cdz_text_class;

typedef struct cdz_code_range {
    uint32_t first, last;
} cdz_code_range;

typedef struct cdz_code_class {
    const cdz_code_range *ranges; /* sorted */
    size_t n;
} cdz_code_class;

typedef struct cdz_script_range {
    uint32_t first, last, script; /* script from 1 */
} cdz_script_range;

typedef struct cdz_lower_pair {
    uint32_t code, lower;
} cdz_lower_pair;

extern const cdz_code_class cdz_code_classes[];
extern const cdz_script_range *const cdz_scripts;
extern const size_t cdz_scripts_n;
extern const cdz_lower_pair *const cdz_lower_pairs;
extern const size_t cdz_lower_pairs_n;

bool cdz_text_is(cdz_text_class text_class, uint32_t code);
/* The script that UnicodeScripts gives a character (Han for kana too); 0: it goes with any. */
uint32_t cdz_text_script(uint32_t code);
/* Writes the lower-case form of a character and returns how many characters it has: 1 or 2. */
size_t cdz_text_lower(uint32_t code, uint32_t out[2]);

#endif
