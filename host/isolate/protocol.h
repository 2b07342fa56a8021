/* protocol.h - how the host and a plugin's process talk: one shared mapping, one turn at a time.
 *
 * The mapping is a sealed memory file of MAP_BYTES (nobody can cut it short; pages that nobody touched cost nothing):
 *     head | up: messages of the host | down: messages of the process | rows: scores, up to the mapping's last bytes
 * Whose turn it is stands in head->turn, which is also the futex both wait on. The host gives the turn away with a call
 * in `up`; the process edits the scores in place and answers in `down` with DONE, or asks something first: then the host
 * answers in `up` and gives the turn away again. Behind the rows lies a page that nobody may touch, on both sides.
 *
 * The host believes nothing it finds there: what it reads it copies once, then checks; the scores are only numbers. */
#ifndef CDZ_HOST_PROTOCOL_H
#define CDZ_HOST_PROTOCOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CDZ_ISOLATE_VERSION 1u

/* Descriptors of the process when it starts. */
enum { CDZ_ISOLATE_MAP_FD = 3, CDZ_ISOLATE_PLUGIN_FD = 4 };

#define CDZ_ISOLATE_HEAD_BYTES 4096u
#define CDZ_ISOLATE_TALK_BYTES (64u << 20) /* of up and of down */
#define CDZ_ISOLATE_ROWS_BYTES (896u << 20)
#define CDZ_ISOLATE_UP         ((size_t)CDZ_ISOLATE_HEAD_BYTES)
#define CDZ_ISOLATE_DOWN       (CDZ_ISOLATE_UP + CDZ_ISOLATE_TALK_BYTES)
#define CDZ_ISOLATE_ROWS       (CDZ_ISOLATE_DOWN + CDZ_ISOLATE_TALK_BYTES)
#define CDZ_ISOLATE_MAP_BYTES  (CDZ_ISOLATE_ROWS + CDZ_ISOLATE_ROWS_BYTES)

enum { CDZ_TURN_HOST = 0, CDZ_TURN_PROCESS = 1 };

/* What holds the process in, as bits of head->guards. */
enum { CDZ_GUARD_FILTER = 1, CDZ_GUARD_FILES = 2 };

typedef struct cdz_isolate_head {
    _Atomic uint32_t turn;
    uint32_t up_bytes, down_bytes; /* of the newest message each way */
    uint32_t denied;               /* 1 + the number of a system call that was refused; 0: none */
    uint32_t guards;
    int32_t host; /* process id: whoever started it */
} cdz_isolate_head;

_Static_assert(sizeof(cdz_isolate_head) <= CDZ_ISOLATE_HEAD_BYTES, "the head has a page");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is a plain word");

/* Where n bytes of scores begin: as far back as can be, so that what runs past them meets the page behind. */
static inline size_t cdz_isolate_rows_at(size_t bytes)
{
    return (CDZ_ISOLATE_MAP_BYTES - bytes) & ~(size_t)63;
}

/* First word of a message of the host. Calls of an instance that has no request go with the whole of what they need;
 * others name a session, which BEGIN opens. */
typedef enum cdz_isolate_up {
    CDZ_UP_CREATE = 1, /* plugin, params -> DONE */
    CDZ_UP_IDLE,       /* plugin, params, request -> DONE, word */
    CDZ_UP_BEGIN,      /* session, plugin, params, request -> DONE */
    CDZ_UP_APPLY,      /* session, rows, n_vocab; scores -> DONE */
    CDZ_UP_TEST,       /* session, rows -> DONE, n stops */
    CDZ_UP_ACCEPT,     /* session, rows (one), token -> DONE, state */
    CDZ_UP_PROPOSE,    /* session, rows (one), room -> DONE, ids */
    CDZ_UP_JUDGED,     /* session, rows (one), row, proposed, accepted -> DONE */
    CDZ_UP_END,        /* session -> DONE */
    CDZ_UP_ANSWER,     /* to the question that was asked */
} cdz_isolate_up;

/* First word of a message of the process. */
typedef enum cdz_isolate_down {
    CDZ_DOWN_HELLO = 1, /* version, n plugins and what each is; once, unasked */
    CDZ_DOWN_REFUSED,   /* the file cannot be opened: status, sentence; in place of HELLO */
    CDZ_DOWN_DONE,      /* status, sentence or none, then what the call gives */
    CDZ_DOWN_LOG,       /* level, text -> nothing */
    CDZ_DOWN_CONFIG,    /* name, type -> status, value */
    CDZ_DOWN_PRESENT,   /* -> word */
    CDZ_DOWN_N_TOKENS,  /* -> word */
    CDZ_DOWN_TEXTS,     /* first id, how many -> as many strings */
    CDZ_DOWN_ENCODE,    /* text, special -> status, ids */
    CDZ_DOWN_DECODE,    /* ids, skip special -> status, string */
    CDZ_DOWN_CONVERT,   /* from, ids, to, special -> status, ids */
    CDZ_DOWN_FILTER, /* n ids, their rows; scores -> status; scores: process_ids of the user's pipeline */
} cdz_isolate_down;

/* What a plugin has, as bits of its HELLO entry. */
enum {
    CDZ_HAS_CREATE = 1 << 0,
    CDZ_HAS_IDLE = 1 << 1,
    CDZ_HAS_ACCEPT = 1 << 2,
    CDZ_HAS_JUDGED = 1 << 3,
    CDZ_HAS_COMPANION = 1 << 4,
    CDZ_HAS_STATE_API = 1 << 5,
    CDZ_HAS_PHASES = 1 << 6,
};

#endif
