/* tokenizer.h - text to token ids and back, exactly as a Hugging Face tokenizer.json says.
 *
 * A tokenizer is read once and never changes: any number of threads may use it together. What a
 * caller needs to work fast (a cache of words, buffers) is a cdz_tokenizer_scratch of its own, one per
 * thread.
 *
 * Supported parts: normalizers NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace,
 * Prepend, Precompiled, Nmt, BertNormalizer, ByteLevel; pre-tokenizers ByteLevel, Split, Metaspace,
 * Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit,
 * UnicodeScripts, FixedLength; models BPE, Unigram, WordPiece, WordLevel; post-processors ByteLevel,
 * TemplateProcessing, BertProcessing, RobertaProcessing; decoders ByteLevel, ByteFallback, Fuse,
 * Strip, Replace, Metaspace, WordPiece, BPEDecoder, CTC; a Sequence of any of these, and none.
 * Patterns other than the well-known ones need a build with Oniguruma, whose tables are of an
 * older Unicode than the reference's: characters newer than that may be cut otherwise. There are
 * added tokens of every kind. Anything else is refused by name. As the reference's model classes
 * do, truncation and padding of the file are left to the caller. */
#ifndef CDZ_HOST_TOKEN_TOKENIZER_H
#define CDZ_HOST_TOKEN_TOKENIZER_H

#include "base/buf.h"
#include "base/error.h"
#include "base/utf8.h"

typedef struct cdz_tokenizer cdz_tokenizer;
typedef struct cdz_tokenizer_scratch cdz_tokenizer_scratch;

/* --- opening ---------------------------------------------------------------------------------- */

/* Reads folder/tokenizer.json, or else tekken.json, a SentencePiece model (tokenizer.model, spiece.model,
 * sentencepiece.bpe.model, spm.model, source.spm), or vocab.json with merges.txt; and where they exist
 * folder/tokenizer_config.json and folder/chat_template.jinja. A GGUF file has all of it inside. CDZ_E_NOT_FOUND: there is no
 * tokenizer. */
cdz_status cdz_tokenizer_open(const char *folder, cdz_tokenizer **out, cdz_error *err);

/* The text of a folder's tokenizer.json, or of what would be one. */
cdz_status cdz_tokenizer_read_json(const char *folder, cdz_buf *out, cdz_error *err);

/* The same from the text of a tokenizer.json and of a tokenizer_config.json (config may be
 * NULL). name stands for the file in error sentences. Nothing of the texts is kept. */
cdz_status cdz_tokenizer_parse(const char *json, size_t len, const char *config, size_t config_len,
                               const char *name, cdz_tokenizer **out, cdz_error *err);
void cdz_tokenizer_free(cdz_tokenizer *tok); /* NULL is fine */

/* --- text to ids ------------------------------------------------------------------------------ */

enum {
    CDZ_ENCODE_SPECIAL = 1, /* add what the post-processor adds (BOS and the like) */
    CDZ_ENCODE_PLAIN = 2,   /* special tokens written in the text are ordinary text */
    CDZ_ENCODE_OFFSETS = 4, /* fill offsets; slower: the cache of words is not used */
};

typedef struct cdz_token_span {
    uint32_t begin, end; /* code points of the original text */
} cdz_token_span;

/* Zeroed: empty. Kept from call to call, it allocates only to grow. */
typedef struct cdz_encoding {
    int32_t *ids;
    cdz_token_span *offsets; /* one per id after CDZ_ENCODE_OFFSETS, else meaningless */
    size_t n, cap, offsets_cap;
} cdz_encoding;

void cdz_encoding_free(cdz_encoding *encoding);

/* Replaces what `out` holds by the ids of text. scratch may be NULL: the call then makes and
 * drops one. Text that is not UTF-8 is CDZ_E_INPUT with the byte offset of the first bad byte. */
cdz_status cdz_tokenizer_encode(const cdz_tokenizer *tok, cdz_tokenizer_scratch *scratch,
                                const char *text, size_t len, unsigned flags, cdz_encoding *out,
                                cdz_error *err);

/* Working memory for one thread; serves one tokenizer, the first it is used with. NULL when
 * memory is out. */
cdz_tokenizer_scratch *cdz_tokenizer_scratch_new(void);
void cdz_tokenizer_scratch_free(cdz_tokenizer_scratch *scratch); /* NULL is fine */

/* --- ids to text ------------------------------------------------------------------------------ */

enum {
    CDZ_DECODE_SKIP_SPECIAL = 1,
    CDZ_DECODE_CLEAN_UP =
        2, /* " ." becomes "." and so on, what clean_up_tokenization_spaces asks for */
};

/* Appends the text of ids. Ids that mean nothing are skipped, as the reference does; bytes that
 * make no character become U+FFFD. CDZ_E_NOMEM when the buffer could not grow. */
cdz_status cdz_tokenizer_decode(const cdz_tokenizer *tok, const int32_t *ids, size_t n,
                                unsigned flags, cdz_buf *out, cdz_error *err);

/* Appends one token's text as stop strings see it: what the token adds after the tokens of
 * "abcdef". False for an id that means nothing. */
bool cdz_tokenizer_text_alone(const cdz_tokenizer *tok, int32_t id, cdz_buf *out);

/* Appends the bytes that a token adds in the middle of a text: of a byte-level token its bytes, of <0x41> that byte, with
 * spaces where U+2581 stands. Special tokens, the unknown one and ids that mean nothing have none: false. */
bool cdz_tokenizer_token_bytes(const cdz_tokenizer *tok, int32_t id, cdz_buf *out);

/* Ids one by one to text: whole characters only, and only once no later id can change them.
 * Zeroed except tok (and skip_special) it is ready. */
typedef struct cdz_text_stream {
    const cdz_tokenizer *tok; /* must outlive the stream */
    bool skip_special;
    cdz_buf text;       /* held text, U+FFFD written out, without the tail */
    cdz_utf8_tail tail; /* may be completed yet */
    bool given;         /* text was returned and is to be dropped at the next call */
    /* Of decoders other than ByteLevel, whose text depends on neighbours: the ids that still
     * matter, how many of them are already text, and that text. */
    int32_t *ids;
    size_t n_ids, ids_cap, n_said;
    cdz_buf said;
    bool dead;      /* the <0x..> tokens that the ids end in are no text, whatever byte comes */
    size_t look_at; /* how many ids there must be before text is looked for again */
} cdz_text_stream;

/* Takes one more id. *new_text (NUL-terminated, valid until the next call) is "" while nothing
 * can be said; *len may be NULL. The pieces are those of the reference's DecodeStream. Each step costs what the ids since
 * the last text cost to decode. Where a decoder holds text back for more than 256 ids (CTC on one token repeated, a
 * Replace by nothing), it is looked for again only when there are a quarter more: the pieces come later then. */
cdz_status cdz_text_stream_feed(cdz_text_stream *stream, int32_t id, const char **new_text,
                                size_t *len, cdz_error *err);
/* The text still held, an unfinished character as U+FFFD; the stream is as new after it. */
cdz_status cdz_text_stream_end(cdz_text_stream *stream, const char **new_text, size_t *len,
                               cdz_error *err);
void cdz_text_stream_free(cdz_text_stream *stream); /* zeroed is fine */

/* --- vocabulary ------------------------------------------------------------------------------- */

/* What it is, for people: "byte-level BPE", "BPE", "Unigram", "WordPiece" or "WordLevel". Constant. */
const char *cdz_tokenizer_kind(const cdz_tokenizer *tok);

uint32_t cdz_tokenizer_n_ids(const cdz_tokenizer *tok); /* 1 + the highest id; some may mean nothing */
uint32_t cdz_tokenizer_n_tokens(const cdz_tokenizer *tok); /* distinct tokens, added ones included */
uint32_t cdz_tokenizer_n_model_tokens(
    const cdz_tokenizer *tok); /* tokens of the model's own vocabulary */
/* How many ids CDZ_ENCODE_SPECIAL adds. */
uint32_t cdz_tokenizer_n_special_added(const cdz_tokenizer *tok);

/* The token as the vocabulary spells it (byte-level tokens in their printable alphabet). NULL
 * for an id that means nothing. Lives as long as the tokenizer; NUL-terminated, may hold NUL
 * bytes before *len, which may be NULL. */
const char *cdz_tokenizer_token(const cdz_tokenizer *tok, int32_t id, size_t *len);
/* The id of a token so spelt, or -1. */
int32_t cdz_tokenizer_id(const cdz_tokenizer *tok, const char *token, size_t len);
bool cdz_tokenizer_is_added(const cdz_tokenizer *tok, int32_t id);
bool cdz_tokenizer_is_special(const cdz_tokenizer *tok, int32_t id);

/* --- tokenizer_config.json -------------------------------------------------------------------- */

typedef struct cdz_tokenizer_config {
    const char *chat_template; /* chat_template.jinja, else the one of the config; NULL: none */
    const char *bos_token, *eos_token, *pad_token, *unk_token; /* NULL: not named */
    int32_t bos_id, eos_id, pad_id, unk_id; /* -1: not named or not in the vocabulary */
    bool add_bos_token;                     /* as written; tokenizer.json decides what is added */
    bool clean_up_tokenization_spaces;      /* false when not written */
} cdz_tokenizer_config;

/* Lives as long as the tokenizer; all NULL, -1 and false when there was no such file. */
const cdz_tokenizer_config *cdz_tokenizer_get_config(const cdz_tokenizer *tok);
/* A chat template by name where the config holds a list of them ("default", "tool_use", ...), or
 * NULL. */
const char *cdz_tokenizer_chat_template(const cdz_tokenizer *tok, const char *name);

#endif
