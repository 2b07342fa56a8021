/* chat.h - the parts of `cadenza chat`: reading lines, laying out a conversation. */
#ifndef CDZ_HOST_CLI_CHAT_H
#define CDZ_HOST_CLI_CHAT_H

#include "base/buf.h"
#include "base/error.h"
#include "template/chat.h"
#include "token/tokenizer.h"

/* --- reading (chat_line.c) ---------------------------------------------------------------------------- */

typedef struct cdz_line_reader cdz_line_reader;

/* Line editing with history on a terminal where libedit is built in; plain lines otherwise. NULL: out of memory. */
cdz_line_reader *cdz_line_reader_new(const char *prompt);
void cdz_line_reader_free(cdz_line_reader *reader);
/* What the next lines are asked for with; constant memory. */
void cdz_line_reader_ask(cdz_line_reader *reader, const char *prompt);
/* Tab completes the first word of a line that begins with mark: names stay the caller's. */
void cdz_line_reader_complete(cdz_line_reader *reader, char mark, const char *const *names,
                              size_t n);
/* A message without its newline, or NULL at the end of input; valid until the next call. A line that ends in a
 * backslash goes on in the next; a line of three double quotes begins a block that another such line ends. */
const char *cdz_line_reader_next(cdz_line_reader *reader);
/* CDZ_OK after the end of input; else why nothing more was read. */
cdz_status cdz_line_reader_status(const cdz_line_reader *reader, cdz_error *err);

/* --- the conversation (chat_turns.c) -------------------------------------------------------------------- */

typedef enum cdz_chat_role { CDZ_ROLE_SYSTEM, CDZ_ROLE_USER, CDZ_ROLE_ASSISTANT } cdz_chat_role;

typedef struct cdz_turn {
    cdz_chat_role role;
    char *text;               /* owned */
    char *reasoning;          /* owned: what came before the text; NULL: nothing */
    struct cdz_result *state; /* owned: the KV state of all up to this answer; NULL: none is kept */
} cdz_turn;

typedef struct cdz_turns {
    cdz_turn *at;
    size_t n, cap;
} cdz_turns;

bool cdz_turns_add(cdz_turns *turns, cdz_chat_role role, const char *text);
/* Of the newest turn. False: out of memory. */
bool cdz_turns_reason(cdz_turns *turns, const char *reasoning);
void cdz_turns_cut(cdz_turns *turns, size_t n); /* keeps the first n */
/* Drops the oldest question with what answers it; a system message stays. False: there is no question but the last. */
bool cdz_turns_drop_oldest(cdz_turns *turns);
/* The newest KV state, whose beginning is the conversation's if no turn before it has changed; NULL: none is kept. */
const struct cdz_result *cdz_turns_state(const cdz_turns *turns);
bool cdz_turns_free_states(cdz_turns *turns); /* false: there was none */
void cdz_turns_free(cdz_turns *turns);
const char *cdz_role_name(cdz_chat_role role);
/* The conversation as a JSON list of messages, and from a file of one. */
void cdz_turns_write(const cdz_turns *turns, cdz_buf *out);
cdz_status cdz_turns_read(cdz_turns *turns, const char *path, cdz_error *err);

/* The conversation as ids, ending where the assistant's answer begins. The template's markup is read with its special
 * tokens; what messages say never is, so no message can forge a turn. */
cdz_status cdz_turns_ids(cdz_chat_template *chat, const cdz_tokenizer *tok, const cdz_turns *turns,
                         int32_t **ids, uint32_t *n, cdz_error *err);

#endif
