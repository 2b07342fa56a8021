/* message.h - rows of chats and responses. Inside serve/ only. */
#ifndef CDZ_HOST_SERVE_MESSAGE_H
#define CDZ_HOST_SERVE_MESSAGE_H

#include "serve/exchange.h"

/* Items of a response's output; calls are whole at once. */
typedef enum cdz_item { CDZ_ITEM_NONE, CDZ_ITEM_MESSAGE, CDZ_ITEM_REASONING } cdz_item;

struct cdz_message_row {
    cdz_generation_run *run;
    uint32_t row;
    cdz_reply reply;
    cdz_buf text, reasoning, calls; /* of a whole answer; of a response text is the open item's */
    uint32_t n_calls;
    size_t thought; /* tokens that have been looked at for reasoning */
    bool failed;
    const int32_t *ids; /* for the next event */
    size_t n_ids;
    cdz_buf odds;  /* entries of log-probabilities for the next event */
    cdz_item item; /* of a response: the one that is open */
    cdz_buf item_id, items;
    uint32_t n_items;
};

/* --- message.c --- */
bool cdz_message_open(cdz_generation_run *run);
void cdz_message_close(cdz_generation_run *run);
/* More of a row's text; the lock is held. */
void cdz_message_say(cdz_message_row *row, const char *text, size_t len, const int32_t *ids,
                     size_t n_ids, const cdz_buf *odds);
/* The rest of it. The choice's text, reasoning, calls and finish become those of the row; false: out of memory. */
bool cdz_message_end(cdz_message_row *row, const char *rest, size_t len, cdz_choice *choice);
/* An id that nobody else has: kind_xxx. */
void cdz_message_id(const cdz_http_exchange *exchange, const char *kind, size_t a, size_t b,
                    cdz_buf *out);

/* --- respond.c: events and items of /v1/responses --- */
void cdz_respond_begin(cdz_http_exchange *exchange);
void cdz_respond_piece(cdz_message_row *row, cdz_item kind, const char *text, size_t len);
void cdz_respond_call(cdz_message_row *row, const char *name, const char *arguments);
/* Closes the item that is open; cut: the answer ended at its limit. An answer without items gets an empty message. */
void cdz_respond_close(cdz_message_row *row, bool cut);
/* The last event of a stream; the answer as a whole. */
void cdz_respond_end(cdz_http_exchange *exchange, bool good);
void cdz_respond_write(cdz_http_exchange *exchange, cdz_buf *out);

#endif
