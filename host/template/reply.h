/* reply.h - what an answer to a conversation holds: text, reasoning, and calls of tools.
 *
 * A model writes its calls as its chat template taught it: between markers, as JSON, as Python or in tags. The template's text
 * names the markers, so that only those are looked for which the model knows. An answer may come in pieces of any length: what
 * may yet become a marker is held back, and so is a call until it is whole. What looks like a call and is none is text. */
#ifndef CDZ_HOST_TEMPLATE_REPLY_H
#define CDZ_HOST_TEMPLATE_REPLY_H

#include "base/buf.h"
#include "base/json.h"

enum { CDZ_REPLY_MOST_CALLS = 128 }; /* of one answer; further ones are text */

/* What a template's answers may have. */
typedef struct cdz_reply_form {
    uint32_t markers; /* bits of reply.c's table */
    bool bare_json;   /* a call may be the whole answer, without a marker */
    bool bare_python;
    bool tagged_json; /* calls are JSON between <tool_call> and </tool_call>, and nothing else */
    bool thinks;      /* reasoning stands between <think> and </think> */
    bool channels;    /* messages with heads: channels.c */
    bool short_id;    /* ids of calls must be nine letters or digits */
    bool tells_tools; /* the template tells the model of tools */
} cdz_reply_form;

/* All pointers are valid during the call. */
typedef struct cdz_reply_sink {
    void (*text)(void *user, const char *text, size_t len);
    void (*reasoning)(void *user, const char *text, size_t len);
    void (*call)(void *user, const char *name, const char *arguments); /* arguments: a JSON object */
    void *user;
} cdz_reply_sink;

typedef enum cdz_reply_place {
    CDZ_REPLY_START,
    CDZ_REPLY_THINKING,
    CDZ_REPLY_TEXT,
    CDZ_REPLY_CALL, /* between two markers, or in what began as a call */
    /* of answers in channels: */
    CDZ_REPLY_HEAD,
    CDZ_REPLY_BODY_TEXT,
    CDZ_REPLY_BODY_THINKING,
    CDZ_REPLY_BODY_CALL
} cdz_reply_place;

/* Zeroed but for what it is given, it is ready. */
typedef struct cdz_reply {
    cdz_reply_form form;
    const cdz_json
        *tools; /* those that may be called, as OpenAI's "tools"; NULL: calls are not looked for */
    cdz_reply_sink sink;
    cdz_reply_place place;
    /* the rest is its own */
    cdz_buf held;    /* what nobody has been told */
    size_t looked;   /* of it so much has been looked through for the end of a call */
    uint32_t marker; /* that opened the call */
    size_t lead;     /* blanks in front of it */
    uint32_t n_calls;
    size_t taken;           /* bytes of the answer in front of what is held */
    cdz_buf name;           /* of the function that a message calls */
    bool told_text, parted; /* some text; and what comes is another message's */
    bool trim;              /* blanks at the beginning of held are of no use */
    bool failed;            /* memory ran out: what follows is not told */
} cdz_reply;

/* text: a template, or a document that quotes it. NULL: nothing is looked for. */
cdz_reply_form cdz_reply_form_of(const char *text);
/* Whether the answer to a prompt that ends so begins in the middle of reasoning. */
bool cdz_reply_is_thinking(const char *prompt, size_t len);
/* The i-th text that begins or ends something in answers of this form; NULL: there are no more. */
const char *cdz_reply_marker(const cdz_reply_form *form, uint32_t i);

void cdz_reply_feed(cdz_reply *reply, const char *text, size_t len);
/* Nothing follows: what is held is told. */
void cdz_reply_end(cdz_reply *reply);
void cdz_reply_free(cdz_reply *reply);

/* The function of this name among OpenAI's "tools", or what stands in its place where there is no "function" around it; NULL:
 * there is none. */
const cdz_json *cdz_reply_tool(const cdz_json *tools, const char *name);

/* --- calls.c: inside template/ only --- */
typedef enum cdz_call_body {
    CDZ_CALL_SNIFF, /* JSON, <function=>, or a name and <arg_key> */
    CDZ_CALL_JSON,  /* objects with a name and arguments, one or many, in a list or not */
    CDZ_CALL_MISTRAL,
    CDZ_CALL_PYTHON,
    CDZ_CALL_FUNCTION, /* behind "<function=" */
    CDZ_CALL_DEEPSEEK,
    CDZ_CALL_KIMI,
    CDZ_CALL_INVOKE,
} cdz_call_body;

typedef struct cdz_tool_call {
    const char *name, *arguments;
} cdz_tool_call;

/* The calls in a body; they lie in the arena. 0: it holds none, or something else beside them, or memory ran out (*failed).
 * only_known: names must be those of tools. */
size_t cdz_calls_read(cdz_call_body kind, const char *body, size_t len, const cdz_json *tools,
                      bool only_known, cdz_arena *arena, cdz_tool_call *out, size_t most,
                      bool *failed);

#endif
