/* store.h - compiled constraints, kept by their text and shared by requests, and the vocabulary they are asked over.
 *
 * A store belongs to a tokenizer. What nobody holds stays until the bytes of all are more than the store's limit; then
 * those go that were not wanted for the longest time. What has grown large by use, or of which somebody met a limit of running, is
 * compiled anew for those who come after. Those limits are each constraint's own: every cdz_constraint_get gives
 * one, and those of one text share the compiled form and its states. Any thread may call; one compiled form serves one caller at a
 * time. */
#ifndef CDZ_HOST_GRAMMAR_STORE_H
#define CDZ_HOST_GRAMMAR_STORE_H

#include "cadenza/ext/grammar.h"
#include "grammar/grammar.h"

typedef struct cdz_grammar_store cdz_grammar_store;

typedef struct cdz_grammar_store_options {
    cdz_grammar_limits limits;
    uint64_t max_bytes; /* of what is kept; 0: CDZ_GRAMMAR_STORE_BYTES */
} cdz_grammar_store_options;

#define CDZ_GRAMMAR_STORE_BYTES ((uint64_t)256 << 20)

/* What a constraint is written as. */
typedef struct cdz_grammar_source {
    cdz_grammar_kind kind;
    const cdz_string *texts; /* (n) one but for a choice */
    uint32_t n;
    const char *after; /* the text that it begins behind; NULL: none */
} cdz_grammar_source;

/* tok NULL: a vocabulary is given with cdz_grammar_store_over. options may be NULL. NULL: out of memory. */
cdz_grammar_store *cdz_grammar_store_new(const cdz_tokenizer *tok,
                                         const cdz_grammar_store_options *options);
/* The same over a vocabulary that outlives it. */
cdz_grammar_store *cdz_grammar_store_over(const cdz_grammar_vocab *vocab,
                                          const cdz_grammar_store_options *options);
/* Constraints that are held stay, and the store with them until the last is given back. NULL is fine. */
void cdz_grammar_store_free(cdz_grammar_store *store);

cdz_status cdz_constraint_get(cdz_grammar_store *store, const cdz_grammar_source *source,
                              cdz_constraint **out, cdz_error *err);
void cdz_constraint_hold(cdz_constraint *constraint);    /* once more */
void cdz_constraint_release(cdz_constraint *constraint); /* NULL is fine */
uint64_t cdz_grammar_store_bytes(cdz_grammar_store *store);
void cdz_grammar_store_limit(cdz_grammar_store *store, uint64_t max_bytes);

/* Checked builds: what the store that it is of promises of its list. */
void cdz_constraint_check(const cdz_constraint *constraint);

/* As in ext/grammar.h. */
uint32_t cdz_constraint_start(cdz_constraint *constraint);
cdz_status cdz_constraint_feed(cdz_constraint *constraint, const char *bytes, size_t n,
                               uint32_t *state, cdz_error *err);
cdz_status cdz_constraint_feed_token(cdz_constraint *constraint, int32_t id, uint32_t *state,
                                     cdz_error *err);
bool cdz_constraint_accepts(cdz_constraint *constraint, uint32_t state);
cdz_status cdz_constraint_allowed(cdz_constraint *constraint, uint32_t state, uint64_t *bits,
                                  uint32_t n_words, cdz_error *err);
size_t cdz_constraint_forced(cdz_constraint *constraint, uint32_t state, char *out, size_t room);

/* The compiler of a kind; EITHER: the one whose look the text has. */
cdz_status cdz_grammar_compile(const cdz_grammar_source *source, const cdz_grammar_options *options,
                               cdz_grammar **out, cdz_error *err);

#endif
