/* model.h - the models that read text by characters: one piece becomes tokens. Byte-level BPE has a
 * way of its own in bpe.h. */
#ifndef CDZ_HOST_TOKEN_MODEL_H
#define CDZ_HOST_TOKEN_MODEL_H

#include "token/bpe.h"
#include "token/meter.h"
#include "token/vocab.h"

typedef enum cdz_model_kind {
    CDZ_MODEL_BPE,
    CDZ_MODEL_UNIGRAM,
    CDZ_MODEL_WORDPIECE,
    CDZ_MODEL_WORDLEVEL,
} cdz_model_kind;

/* A trie of tokens for longest matches and for all matches at a place. Nodes are numbered from 1;
 * a child is found by hashing its parent and byte. */
typedef struct cdz_byte_trie {
    uint64_t *keys; /* parent << 8 | byte; 0: free slot, as no parent is 0 */
    uint32_t *children;
    uint64_t mask;
    int32_t *ids;  /* by node: the token that ends there, or -1 */
    uint32_t n;    /* nodes, the unused 0 included; 1 is the root */
    uint64_t seed; /* of the hash: a file cannot be made whose edges all collide */
} cdz_byte_trie;

#define CDZ_TRIE_ROOT 1u

typedef struct cdz_tok_model {
    cdz_model_kind kind;
    const cdz_strmap *words; /* the vocabulary; tokenizer lifetime */
    int32_t unk_id;          /* -1: none */
    int32_t n_known;         /* ids from there on are unknown; INT32_MAX: all are known */
    bool byte_fallback;
    int32_t byte_id[256]; /* of <0x00> to <0xFF>, or -1; for byte_fallback */

    const char *prefix, *suffix; /* BPE: of symbols but the first, of the last; WordPiece: prefix */
    const char *inner;           /* BPE: behind symbols but the last; only readers of ours say so */
    uint32_t prefix_len, suffix_len, inner_len;

    const double *scores; /* Unigram: by id */
    double unk_score;
    bool float32;         /* scores are added in it: only our own SentencePiece reader says so */
    uint32_t max_chars;   /* WordPiece: of a word that is not unk as a whole */
    cdz_byte_trie trie;   /* Unigram, WordPiece */
    uint32_t prefix_node; /* WordPiece: where the tokens inside a word begin; 0: there are none */
} cdz_tok_model;

/* A token of a piece. */
typedef struct cdz_tok_found {
    int32_t id;
    size_t begin, end; /* bytes of the piece */
} cdz_tok_found;

/* The best way to a place of a piece: its last token and where that begins. */
typedef struct cdz_way {
    double score;
    uint32_t begin;
    int32_t id; /* -1: no way yet */
} cdz_way;

/* Zeroed is ready. */
typedef struct cdz_tok_model_work {
    cdz_tok_found *found;
    size_t n, cap;
    cdz_bpe_work bpe;
    uint32_t *ends; /* of BPE symbols, by symbol */
    size_t ends_cap;
    cdz_way *ways;
    size_t ways_cap;
    char *joined; /* a character with what is put around it */
    size_t joined_cap;
    cdz_meter *meter; /* of the call */
} cdz_tok_model_work;

void cdz_tok_model_work_free(cdz_tok_model_work *work);

/* Reads the "model" part, after its vocabulary. BPE's merges are read into bpe. */
cdz_status cdz_tok_model_read(cdz_tok_model *model, const cdz_json *part, const cdz_vocab *vocab,
                              cdz_arena *arena, cdz_error *err);

/* Writes the tokens of a piece of 0 < n < 2^31 bytes to work->found. work->meter is set: Unigram and WordPiece take a
 * step of it for each node of the trie that they look at. */
cdz_status cdz_tok_model_run(const cdz_tok_model *model, const cdz_bpe *bpe,
                             cdz_tok_model_work *work, const uint8_t *piece, size_t n,
                             cdz_error *err);

/* --- for the files of the models -------------------------------------------------------------- */

/* The sentence of a meter that is spent. */
cdz_status cdz_tok_model_spent(size_t n, cdz_error *err);

bool cdz_tok_model_put(cdz_tok_model_work *work, int32_t id, size_t begin, size_t end);
cdz_status cdz_unigram_run(const cdz_tok_model *model, cdz_tok_model_work *work,
                           const uint8_t *piece, size_t n, cdz_error *err);
cdz_status cdz_char_bpe_run(const cdz_tok_model *model, const cdz_bpe *bpe, cdz_tok_model_work *work,
                            const uint8_t *piece, size_t n, cdz_error *err);

#define CDZ_TRIE_MAX_BYTES 1024 /* of one token */

/* Builds the trie of all words; a word that is too long is CDZ_E_LIMIT. */
cdz_status cdz_byte_trie_build(cdz_byte_trie *trie, const cdz_strmap *words, cdz_arena *arena,
                               cdz_error *err);
uint32_t cdz_byte_trie_child(const cdz_byte_trie *trie, uint32_t node, uint8_t byte); /* 0: none */

#endif
