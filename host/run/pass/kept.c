/* kept.c - what a sequence finds in the KV state of an earlier request. Who holds such states: engine/keep.c. */
#include "run/pass/kept.h"

cdz_status cdz_seq_share_kept(const cdz_kept *kept, cdz_seq *seq, cdz_error *err)
{
    const cdz_seq *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < kept->n; i++) {
        const uint32_t n = cdz_seq_resumes(&kept->seqs[i], cdz_seq_common(seq, &kept->seqs[i]));
        if (n <= most) continue;
        best = &kept->seqs[i];
        most = n;
    }
    return best ? cdz_seq_share(seq, best, most, err) : CDZ_OK;
}
