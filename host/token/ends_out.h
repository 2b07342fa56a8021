/* ends_out.h - what readers of a vocabulary without a tokenizer.json write of the tokens around a text. Inside token/ only. */
#ifndef CDZ_HOST_TOKEN_ENDS_OUT_H
#define CDZ_HOST_TOKEN_ENDS_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct cdz_tokenizer_end {
    const char *text; /* NULL: none */
    int32_t id;
} cdz_tokenizer_end;

/* Members of a template's "special_tokens": the token by the name of what it is. A text of NULL writes nothing. */
void cdz_tokenizer_put_end(cdz_buf *out, cdz_tokenizer_end end, const char *name, bool comma);
/* A text, "A" or "B", with the ends that are wanted around it. */
void cdz_tokenizer_put_order(cdz_buf *out, bool bos, bool eos, const char *sequence, int type);
/* The post-processor that puts them around a text, and around each of two, and a comma; nothing where there are none.
 * type: of the second text. */
void cdz_tokenizer_put_ends(cdz_buf *out, cdz_tokenizer_end bos, cdz_tokenizer_end eos, int type);

#endif
