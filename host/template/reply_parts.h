/* reply_parts.h - what the readers of an answer share: the text that is held. Inside template/ only. */
#ifndef CDZ_HOST_TEMPLATE_REPLY_PARTS_H
#define CDZ_HOST_TEMPLATE_REPLY_PARTS_H

#include "template/reply.h"

/* The first n bytes of what is held go, untold or told. */
void cdz_reply_take(cdz_reply *r, size_t n);
void cdz_reply_tell(cdz_reply *r, size_t n, void (*to)(void *user, const char *text, size_t len));
void cdz_reply_enter(cdz_reply *r, cdz_reply_place place);
/* Blanks at the beginning, and at the end, of len bytes. */
size_t cdz_reply_blanks(const char *text, size_t len);
size_t cdz_reply_blanks_at_end(const char *text, size_t len);
/* How many of the last bytes may be the beginning of a marker. */
size_t cdz_reply_may_begin(const char *text, size_t len, const char *marker);
/* Whether a text begins with a marker: 1, 0 or, while that is open, -1. */
int cdz_reply_is_marker(const char *text, size_t len, const char *marker);

/* --- channels.c --- */
/* The i-th marker of messages in channels; NULL: there are no more. */
const char *cdz_reply_channel_marker(uint32_t i);
/* The answer begins: whether it does with a message's head is seen. False: not yet. */
bool cdz_reply_step_channels(cdz_reply *r);
bool cdz_reply_step_head(cdz_reply *r);
bool cdz_reply_step_body(cdz_reply *r);
void cdz_reply_end_channels(cdz_reply *r);

#endif
