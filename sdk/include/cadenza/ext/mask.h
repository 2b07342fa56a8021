/* ext/mask.h - "cadenza.mask/1": sequences that use the attention mask of the request's prompt.
 *
 * A prompt may have ids that the model does not read: the pads of a batch, and what the request's attention_mask hides.
 * They are among the ids of a row, which processors see, but have no position. A sequence that a decode loop or
 * a drafter makes reads every id that it gets. If it is to read a row's ids as the row does, hide the masked ones once,
 * before its first pass:
 *
 *     CDZ_TRY(cdz_seq_new(dec, "assistant", &seq));
 *     CDZ_TRY(cdz_seq_hide_as(dec, step, seq, row));
 *     CDZ_TRY(cdz_seq_append(dec, seq, ids.at, ids.len));      ids of cdz_input_ids
 *
 * A fork of a row, or of such a sequence, has the mask already. The host's table is
 * step->host->extension(CDZ_EXT_MASK). */
#ifndef CADENZA_EXT_MASK_H
#define CADENZA_EXT_MASK_H

#include "../strategy.h"

#define CDZ_EXT_MASK "cadenza.mask/1"

/* The host's table. */
typedef struct cdz_mask_host {
    uint32_t size;
    /* [engine] Hides in seq the ids at the indices that are hidden in the prompt of request row `row`; later ids are
     * visible. The cache of seq is dropped. seq may be of any model, but not a row itself. */
    cdz_status (*hide_as)(cdz_decoder *dec, cdz_seq *seq, uint32_t row);
} cdz_mask_host;

static inline cdz_status cdz_seq_hide_as(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq,
                                         uint32_t row)
{
    const cdz_mask_host *host = (const cdz_mask_host *)step->host->extension(CDZ_EXT_MASK);
    if (host) return host->hide_as(dec, seq, row);
    return cdz_fail(step, CDZ_E_UNSUPPORTED,
                    "this host lacks " CDZ_EXT_MASK
                    ": a sequence cannot hide what the prompt's mask hides");
}

#endif
