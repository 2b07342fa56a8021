/* lex.h - a template's source as tokens, whitespace control applied. Inside template/ only. */
#ifndef CDZ_HOST_TEMPLATE_LEX_H
#define CDZ_HOST_TEMPLATE_LEX_H

#include "base/arena.h"
#include "base/error.h"

typedef enum token_kind {
    T_END, /* of the source */
    T_TEXT,
    T_PRINT_BEGIN,
    T_PRINT_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INTEGER,
    T_FLOAT,
    T_OPERATOR, /* its one or two characters are the text */
} token_kind;

typedef struct token {
    uint8_t kind; /* token_kind */
    uint32_t line, column;
    uint32_t len;
    const char *text; /* NUL-terminated; of a string what it means, of a number without "_" */
} token;

typedef struct token_list {
    token *at; /* ends with T_END */
    size_t n, cap;
} token_list;

/* Cuts up the source, valid UTF-8. Everything lies in the arena. */
cdz_status cdz_template_lex(const char *text, size_t len, const char *name, cdz_arena *arena,
                            token_list *out, cdz_error *err);

#endif
