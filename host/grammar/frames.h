/* frames.h - what states.c asks of frames. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_FRAMES_H
#define CDZ_HOST_GRAMMAR_FRAMES_H

#include "grammar/states.h"

/* The frames from `first` on, made by closing a configuration: in place of one an older one stands where callers are the same. So
 * what a rule takes is walked once, wherever it is called from. False: no memory. */
bool cdz_grammar_frames_settle(cdz_grammar_states *states, uint32_t config, uint32_t first);
uint64_t cdz_grammar_frames_bytes(const cdz_net_frames *set);
void cdz_grammar_frames_free(cdz_net_frames *set);

#endif
