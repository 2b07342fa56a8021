/* ext/grammar.h - "cadenza.grammar/1": constraints on a text, for plugins of requests whose model has a tokenizer.
 *
 * A constraint is a language of byte strings: a JSON Schema, a regular expression, a GBNF or Lark grammar, structural tags,
 * or a list of texts. Of a text one may ask whether it is in the language (accepts), whether it can still become so (its state is not
 * 0), and which tokens may come next (allowed).
 *
 * A state is a number. It stands for an immutable configuration that the host keeps, so a row's state is four bytes: the
 * host copies them on fork, and old ones are as good as new ones. State 0 is dead: no continuation is in the language.
 *
 *     static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
 *     {
 *         const mine *m = step->shared;
 *         uint32_t *state = step->row_state[r];
 *         return cdz_get_grammar(step)->feed_token(step, m->constraint, token, state);
 *     }
 *
 * The host compiles a constraint once for all requests that write it alike, within the limits of its settings
 * (grammar_max_bytes, grammar_max_states, grammar_max_ms). The table is step->host->extension(CDZ_EXT_GRAMMAR); NULL in a host
 * that lacks it, and in the process of an isolated plugin. */
#ifndef CADENZA_EXT_GRAMMAR_H
#define CADENZA_EXT_GRAMMAR_H

#include "../plugin.h"

#define CDZ_EXT_GRAMMAR "cadenza.grammar/1"

typedef enum cdz_grammar_kind {
    CDZ_GRAMMAR_SCHEMA = 1, /* a JSON Schema, as text */
    CDZ_GRAMMAR_REGEX,      /* matches as a whole */
    CDZ_GRAMMAR_GBNF,
    CDZ_GRAMMAR_LARK,
    CDZ_GRAMMAR_EITHER, /* GBNF or Lark: which of them is seen from the text */
    CDZ_GRAMMAR_CHOICE, /* one of several texts */
    CDZ_GRAMMAR_TAGS,   /* structural tags, as JSON: free text with islands that fit schemas */
} cdz_grammar_kind;

typedef struct cdz_constraint cdz_constraint;

typedef struct cdz_grammar_api {
    uint32_t size;
    /* [engine; in begin and on a strategy's fibre] Compiles, or finds what was compiled. n is 1 but for a choice. What
     * is not understood fails with a sentence that names it and its place. Give it back with release, in end. */
    cdz_status (*compile)(const cdz_step *step, cdz_grammar_kind kind, const cdz_string *texts,
                          uint32_t n, cdz_constraint **out);
    void (*release)(cdz_constraint *constraint);   /* [engine] NULL is fine */
    uint32_t (*start)(cdz_constraint *constraint); /* [any] the state of the empty text */
    /* [any] Leads *state over bytes, or over a token: by its bytes, or by its number where the grammar names it. To 0
     * where nothing in the language goes on so. Fails only where a limit was met. */
    cdz_status (*feed)(const cdz_step *step, cdz_constraint *constraint, const char *bytes,
                       size_t n, uint32_t *state);
    cdz_status (*feed_token)(const cdz_step *step, cdz_constraint *constraint, int32_t id,
                             uint32_t *state);
    bool (*accepts)(cdz_constraint *constraint, uint32_t state); /* [any] */
    /* [any] The tokens that keep the text in the language: bit id % 64 of word id / 64; words beyond the vocabulary are
     * cleared. Tokens that end a text have no bytes and are not among them: they may come where `accepts`. */
    cdz_status (*allowed)(const cdz_step *step, cdz_constraint *constraint, uint32_t state,
                          uint64_t *bits, uint32_t n_words);
    /* [any] The bytes that must come, as far as there is one continuation only, at most room. */
    size_t (*forced)(cdz_constraint *constraint, uint32_t state, char *out, size_t room);
    /* [as compile; look at size] Any text up to the first `after`, then at most two newlines, then a text of the
     * language. Where `after` is one token of the vocabulary, that token may stand for it. NULL: as compile. */
    cdz_status (*compile_after)(const cdz_step *step, cdz_grammar_kind kind, const cdz_string *texts,
                                uint32_t n, const char *after, cdz_constraint **out);
} cdz_grammar_api;

static inline const cdz_grammar_api *cdz_get_grammar(const cdz_step *step)
{
    return (const cdz_grammar_api *)step->host->extension(CDZ_EXT_GRAMMAR);
}

#endif
