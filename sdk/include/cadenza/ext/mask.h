/* ext/mask.h - "cadenza.mask/1": sequences that see of a prompt what the request's rows see.
 *
 * A prompt may have places that the model does not read: the pads of a batch, whatever the request's attention_mask hides.
 * They stand among the ids of a row, which is what processors see, but have no position. A sequence that a decode loop or
 * a drafter makes reads every id it is given. One that is to read a row's ids as the row does says so once, before its
 * first pass:
 *
 *     CDZ_TRY(cdz_seq_new(dec, "assistant", &seq));
 *     CDZ_TRY(cdz_seq_hide_as(dec, step, seq, row));
 *     CDZ_TRY(cdz_seq_append(dec, seq, ids.at, ids.len));      what cdz_input_ids gave
 *
 * A fork of a row, or of such a sequence, has it already. The host's side is asked for by id:
 * step->host->extension(CDZ_EXT_MASK). */
#ifndef CADENZA_EXT_MASK_H
#define CADENZA_EXT_MASK_H

#include "../strategy.h"

#define CDZ_EXT_MASK "cadenza.mask/1"

/* The host's table. */
typedef struct cdz_mask_host {
    uint32_t size;
    /* [engine] Ids at the places that the prompt of request row `row` hides are hidden in seq too, whichever they are;
     * later ones are visible. What seq's cache held is forgotten. seq is of any model, and no row itself. */
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
