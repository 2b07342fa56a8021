/* replay_text.h - the text that a check replays: a user's file (--text) or the kit's, as ids of --model's tokenizer or of the
 * kit's. */
#ifndef CDZ_HOST_CHECK_REPLAY_TEXT_H
#define CDZ_HOST_CHECK_REPLAY_TEXT_H

#include "check/probe.h"

enum { CDZ_REPLAY_BYTES = 1 << 20 };

/* The bytes, which live as long as the check. */
cdz_status cdz_replay_bytes(cdz_child *c, cdz_string *out, cdz_error *err);
/* The same as UTF-8: what makes no character becomes U+FFFD. */
cdz_status cdz_replay_clean(cdz_child *c, cdz_string *out, cdz_error *err);
/* The tokenizer that --model names, with the text of each token; *out NULL: none was named. */
cdz_status cdz_replay_tokens(cdz_child *c, const cdz_tokens **out, cdz_error *err);
/* The text's ids, in memory of the check. tokens NULL: those of a vocabulary of n_vocab. */
cdz_status cdz_replay_ids(cdz_child *c, const cdz_tokens *tokens, uint32_t n_vocab, cdz_ids *out,
                          cdz_error *err);

#endif
