/* grammar.h - constraints on a text: a language of byte strings, and what may come next.
 *
 * A grammar is compiled once from a regular expression, GBNF, Lark, a JSON Schema, structural tags or a list of texts. Its
 * states are numbers: of immutable configurations that are made when first asked for, equal ones being one. So a row's state
 * is four bytes; a fork copies them and a rewind puts old ones back. State 0 is dead: nothing in the language begins so.
 *
 * Three questions, of a text t: is it viable (some u exists with t u in the language), is it accepted (t is in the
 * language), and which tokens are allowed after it (those whose bytes keep it viable; the end, if it is accepted). Dead
 * ends are taken out when compiling, so a state that is not 0 is viable.
 *
 * One thread at a time uses a grammar: asking makes states. A vocabulary never changes and may be shared. */
#ifndef CDZ_HOST_GRAMMAR_GRAMMAR_H
#define CDZ_HOST_GRAMMAR_GRAMMAR_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "token/tokenizer.h"

typedef struct cdz_grammar cdz_grammar;
typedef struct cdz_grammar_vocab cdz_grammar_vocab;

enum {
    CDZ_GRAMMAR_MAX_BYTES = 16 << 20,  /* of a source */
    CDZ_GRAMMAR_MAX_STATES = 4000000,  /* of a network; and those made for a user while running */
    CDZ_GRAMMAR_MAX_MS = 20000,        /* of compiling */
    CDZ_GRAMMAR_MAX_ITEMS = 50000,     /* places a state may stand at */
    CDZ_GRAMMAR_MAX_PLACES = 33554432, /* of all states made for a user together */
    CDZ_GRAMMAR_MASK_BYTES = 64 << 20, /* of masks kept */
};

typedef struct cdz_grammar_limits {
    uint32_t max_bytes, max_states, max_ms; /* 0: as above */
} cdz_grammar_limits;

typedef struct cdz_grammar_options {
    cdz_grammar_limits limits;
    const cdz_tokenizer *tokenizer; /* knows tokens that a grammar names; NULL: they are refused */
    const char *after; /* any text may come up to this one, then the language; NULL: none */
} cdz_grammar_options;

/* Compile; options may be NULL. What is not understood is refused with a sentence that names it and its place. */
cdz_status cdz_grammar_from_regex(const char *text, size_t len, const cdz_grammar_options *options,
                                  cdz_grammar **out, cdz_error *err);
cdz_status cdz_grammar_from_gbnf(const char *text, size_t len, const cdz_grammar_options *options,
                                 cdz_grammar **out, cdz_error *err);
cdz_status cdz_grammar_from_lark(const char *text, size_t len, const cdz_grammar_options *options,
                                 cdz_grammar **out, cdz_error *err);
cdz_status cdz_grammar_from_schema(const char *text, size_t len, const cdz_grammar_options *options,
                                   cdz_grammar **out, cdz_error *err);
cdz_status cdz_grammar_from_tags(const char *text, size_t len, const cdz_grammar_options *options,
                                 cdz_grammar **out, cdz_error *err);
cdz_status cdz_grammar_from_choice(const char *const *texts, size_t n,
                                   const cdz_grammar_options *options, cdz_grammar **out,
                                   cdz_error *err);
void cdz_grammar_free(cdz_grammar *grammar); /* NULL is fine */

/* --- states --------------------------------------------------------------------------------------- */

/* What a user's texts have made of a grammar's states; begins zeroed. */
typedef struct cdz_grammar_use {
    uint32_t n_states, n_places;
} cdz_grammar_use;

/* For whom states are made from now on: the limits of running are each user's own, and those that another has met are
 * forgotten. Until this is called there is one user, the grammar's own. use outlives the calls. */
void cdz_grammar_use_by(cdz_grammar *grammar, cdz_grammar_use *use);
uint32_t cdz_grammar_start(const cdz_grammar *grammar);
uint32_t cdz_grammar_feed(cdz_grammar *grammar, uint32_t state, const char *bytes, size_t n);
bool cdz_grammar_accepts(cdz_grammar *grammar, uint32_t state);
/* Why a state is dead that should not be: a limit of running was met. CDZ_OK: none was. */
cdz_status cdz_grammar_trouble(const cdz_grammar *grammar, cdz_error *err);

/* The bytes that must come after a state, at most room: as far as there is one continuation and no end. */
size_t cdz_grammar_forced(cdz_grammar *grammar, uint32_t state, char *out, size_t room);
uint64_t cdz_grammar_bytes(const cdz_grammar *grammar); /* of memory */

/* A member of the language, drawn with a seed, which goes on; behind what out holds. CDZ_E_LIMIT: none was found. */
cdz_status cdz_grammar_sample(cdz_grammar *grammar, uint64_t *seed, cdz_buf *out, cdz_error *err);
/* As GBNF of the same language, behind what out holds. CDZ_E_UNSUPPORTED: GBNF cannot say it; the sentence tells what. */
cdz_status cdz_grammar_to_gbnf(const cdz_grammar *grammar, cdz_buf *out, cdz_error *err);
/* The compiled form as text. */
void cdz_grammar_show(const cdz_grammar *grammar, cdz_buf *out);

/* --- tokens --------------------------------------------------------------------------------------- */

/* What the tokens of a tokenizer are in bytes, as a trie. ends: tokens that end a text. */
cdz_status cdz_grammar_vocab_new(const cdz_tokenizer *tok, const int32_t *ends, uint32_t n_ends,
                                 cdz_grammar_vocab **out, cdz_error *err);
/* The same from bytes; a token of none is never allowed. Lengths and bytes are copied. */
cdz_status cdz_grammar_vocab_of(const char *const *bytes, const uint32_t *lens, uint32_t n,
                                const int32_t *ends, uint32_t n_ends, cdz_grammar_vocab **out,
                                cdz_error *err);
void cdz_grammar_vocab_free(cdz_grammar_vocab *vocab);           /* NULL is fine */
uint32_t cdz_grammar_vocab_size(const cdz_grammar_vocab *vocab); /* ids; a mask has a bit for each */

/* A token after a state: its bytes, or its number where the grammar names it. A token without bytes leads to 0. */
uint32_t cdz_grammar_feed_token(cdz_grammar *grammar, const cdz_grammar_vocab *vocab,
                                uint32_t state, int32_t id);
/* The tokens allowed after a state: bit id % 64 of word id / 64. The mask lives until the next call of this. */
cdz_status cdz_grammar_allowed(cdz_grammar *grammar, const cdz_grammar_vocab *vocab, uint32_t state,
                               const uint64_t **mask, cdz_error *err);
/* Makes the masks of states near the beginning ahead: about as much work as compiling was. */
void cdz_grammar_prepare(cdz_grammar *grammar, const cdz_grammar_vocab *vocab);

#endif
