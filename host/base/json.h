/* json.h - a strict JSON reader into an arena, and a writer.
 *
 * Accepts exactly RFC 8259 in UTF-8: no comments, no trailing commas, no NaN, no byte order mark, no
 * invalid or overlong UTF-8, no lone surrogates, nothing after the document. Errors name line and column.
 * Integers that fit int64 stay exact; 1 and 1.0 stay different. */
#ifndef CDZ_HOST_BASE_JSON_H
#define CDZ_HOST_BASE_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

typedef enum cdz_json_type {
    CDZ_JSON_NULL,
    CDZ_JSON_BOOL,
    CDZ_JSON_INT,  /* written without '.', 'e' and within int64 */
    CDZ_JSON_REAL, /* any other number; finite */
    CDZ_JSON_STRING,
    CDZ_JSON_ARRAY,
    CDZ_JSON_OBJECT,
} cdz_json_type;

typedef struct cdz_json cdz_json;
typedef struct cdz_json_member cdz_json_member;

struct cdz_json {
    uint8_t type; /* cdz_json_type */
    bool boolean;
    bool indexed; /* set by the reader on large objects: a lookup table lies before members */
    uint32_t line, column; /* where it starts, from 1; 0 when it did not come from a file */
    uint32_t len;          /* bytes of a string, items of an array, members of an object */
    union {
        int64_t integer;
        double real;
        const char *string;             /* NUL-terminated; may hold NUL bytes before len */
        const cdz_json *items;          /* len of them */
        const cdz_json_member *members; /* len of them, in file order */
    };
};

struct cdz_json_member {
    const char *key; /* NUL-terminated */
    uint32_t key_len;
    cdz_json value;
};

typedef struct cdz_json_limits {
    uint32_t depth;  /* 0: 64; at most 1000 */
    uint64_t nodes;  /* 0: 50 million */
    bool duplicates; /* false: a repeated name in one object is an error; true: the last one wins */
    bool infinity; /* Infinity without quotes, as Python writes it, is the string of that word; false: an error */
    uint32_t unchecked; /* objects of more members keep repeated names, which the caller finds; 0: none does */
} cdz_json_limits;

/* Parses the whole text. Strings and nodes live in the arena (or in text, which must outlive them: strings
 * without escapes are NOT copied unless they need a terminator). name: the file in error sentences.
 * limits may be NULL. */
cdz_status cdz_json_parse(const char *text, size_t len, const char *name,
                          const cdz_json_limits *limits, cdz_arena *arena, cdz_json *out,
                          cdz_error *err);

/* What reading a file may cost beside the `taken` bytes that it costs already: together at most 4 times its size and
 * 64 MiB, a little kept back for blocks that are not filled. For arena limits; never 0. */
size_t cdz_json_allowance(size_t file_bytes, size_t taken);

/* Reads and parses a regular file of at most max_bytes (0: 256 MiB). The document may have the allowance, or what the
 * arena's own limit says. */
cdz_status cdz_json_read_file(const char *path, size_t max_bytes, const cdz_json_limits *limits,
                              cdz_arena *arena, cdz_json *out, cdz_error *err);

/* The member of an object, or NULL when absent or not an object. Linear for small objects. */
const cdz_json *cdz_json_get(const cdz_json *object, const char *key);
static inline bool cdz_json_is(const cdz_json *v, cdz_json_type type) /* false for NULL */
{
    return v && v->type == type;
}
bool cdz_json_eq(const cdz_json *value, const char *text); /* a string equal to text */
bool cdz_json_number(const cdz_json *value, double *out);  /* INT or REAL */
/* A copy that needs nothing but its arena. False: out of memory. */
bool cdz_json_copy(cdz_arena *arena, const cdz_json *value, cdz_json *out);
const char *cdz_json_type_name(const cdz_json *value); /* "a number", "an object", ... for sentences */

/* Writing: appends to a buffer. Reals are written so that they read back to the same double; the f32 form so
 * that they read back to the same float. Not-a-number and infinities become the strings "nan", "inf", "-inf". */
void cdz_json_write(cdz_buf *out, const cdz_json *value);
void cdz_json_write_string(cdz_buf *out, const char *text,
                           size_t len); /* invalid UTF-8 becomes U+FFFD */
/* A member behind others: ,"name":"text"; NULL: null. */
void cdz_json_write_member(cdz_buf *out, const char *name, const char *text, size_t len);
void cdz_json_write_real(cdz_buf *out, double value);
void cdz_json_write_f32(cdz_buf *out, float value);

#endif
