/* protocol.h - how the host and a plugin's process talk: one shared mapping, one turn at a time.
 *
 * The mapping is a sealed memory file of MAP_BYTES (nobody can cut it short; pages that nobody touched cost nothing):
 *     head | up: messages of the host | down: messages of the process | rows: scores, up to the mapping's last bytes
 * head->turn counts turns, odd ones the process's, even ones the host's; it is also the futex both wait on. The host
 * gives the turn away with a call in `up`; the process edits the scores in place and answers in `down` with DONE, or asks
 * something first: then the host answers in `up` and gives the turn away again. Behind the rows lies a page that nobody
 * may touch, on both sides.
 *
 * A process begins with READY, before anything of the plugin is mapped, and goes on with HELLO or REFUSED: READY alone
 * is the worker's own word, all that comes later may be the plugin's.
 *
 * The host believes nothing it finds there: what it reads it copies once, then checks to the last byte, of which none may
 * be left over; which turn it is it knows by a count of its own, and a turn taken unasked is a fault; the scores are only
 * numbers. Nothing that it writes there is an address. */
#ifndef CDZ_HOST_ISOLATE_PROTOCOL_H
#define CDZ_HOST_ISOLATE_PROTOCOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CDZ_ISOLATE_VERSION 3u

/* Descriptors of the process when it starts: the mapping, the plugin's bytes, and the end of a pipe that nobody writes to
 * and that hangs up when the host is gone. */
enum { CDZ_ISOLATE_MAP_FD = 3, CDZ_ISOLATE_PLUGIN_FD = 4, CDZ_ISOLATE_LIFE_FD = 5 };

#define CDZ_ISOLATE_HEAD_BYTES 4096u
#define CDZ_ISOLATE_UP_BYTES   (64u << 20)
#define CDZ_ISOLATE_DOWN_BYTES (8u << 20)
#define CDZ_ISOLATE_ROWS_BYTES (896u << 20)
#define CDZ_ISOLATE_UP         ((size_t)CDZ_ISOLATE_HEAD_BYTES)
#define CDZ_ISOLATE_DOWN       (CDZ_ISOLATE_UP + CDZ_ISOLATE_UP_BYTES)
#define CDZ_ISOLATE_ROWS       (CDZ_ISOLATE_DOWN + CDZ_ISOLATE_DOWN_BYTES)
#define CDZ_ISOLATE_MAP_BYTES  (CDZ_ISOLATE_ROWS + CDZ_ISOLATE_ROWS_BYTES)

#define CDZ_TURN_FIRST 1u /* the process's */

/* What holds the process in beside limits: bits of READY. */
enum {
    CDZ_GUARD_FILTER = 1,  /* a list of system calls */
    CDZ_GUARD_FILES = 2,   /* Landlock */
    CDZ_GUARD_SIGNALS = 4, /* Landlock again: no signal to other processes, whatever sends it */
    CDZ_GUARD_SPACES = 8,  /* user and IPC namespaces of its own */
};
#define CDZ_GUARDS_ALL 15u

/* All of it may change under the reader at any time: each is read once. */
typedef struct cdz_isolate_head {
    _Atomic uint32_t turn;
    _Atomic uint32_t up_bytes, down_bytes; /* of the newest message each way */
    _Atomic uint32_t denied; /* 1 + the number of a system call that was refused; 0: none */
} cdz_isolate_head;

_Static_assert(sizeof(cdz_isolate_head) <= CDZ_ISOLATE_HEAD_BYTES, "the head has a page");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is a plain word");

/* What one question may ask for, and one call altogether: the host works on the plugin's behalf while it answers. The
 * worker refuses more in a sentence; a process that asks for more all the same is ended. */
enum {
    CDZ_ASK_TEXT_BYTES = 64 << 10,   /* of a text to encode */
    CDZ_ASK_IDS = 16 << 10,          /* to decode or convert */
    CDZ_ASK_FILTER_IDS = 1 << 20,    /* of all histories of one filter */
    CDZ_ASK_FILTER_BYTES = 64 << 20, /* of its rows */
    CDZ_ASK_LINES = 100,             /* logged by one call; what comes after is dropped */
    CDZ_ASK_QUESTIONS = 1 << 18,     /* of one call */
    CDZ_ASK_KEPT_BYTES = 64 << 20,   /* that answers leave with a request until it ends */
    CDZ_ASK_DRAFT = 64 << 10,        /* tokens proposed at once */
    CDZ_ASK_NAME_BYTES = 255,        /* of a file's name */
};

/* Seconds of processor time: unasked, and of one process in all. */
enum { CDZ_CPU_SECONDS = 60, CDZ_CPU_LIFE_SECONDS = 3600 };

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
    CDZ_DOWN_HELLO = 1, /* n plugins and what each is; once, in the second turn */
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
    CDZ_DOWN_READY, /* version, guards; once, unasked, before the file is opened */
    CDZ_DOWN_FILE,  /* name -> status, string: a file of data that was read with the plugin */
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
    CDZ_HAS_STEER = 1 << 7,
    CDZ_HAS_ENDED = 1 << 8,
};
#define CDZ_HAS_ALL 511u

#endif
