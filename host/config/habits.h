/* habits.h - what llama-cli, Ollama, transformers' command line and OpenAI's clients call things that have another name here. */
#ifndef CDZ_HOST_CONFIG_HABITS_H
#define CDZ_HOST_CONFIG_HABITS_H

#include <stddef.h>

/* One name that people type by habit. */
typedef struct cdz_habit {
    const char *name; /* with dashes; one letter is a letter option */
    const char *ours; /* a generation parameter, or an option of the program; NULL: there is none */
    const char *says; /* then: what there is instead */
    const char *from; /* who calls it so */
} cdz_habit;

const cdz_habit *cdz_habits(size_t *n);
/* The row of a name as it was typed, "n_predict" or "n-predict"; NULL: nobody calls anything so. */
const cdz_habit *cdz_habit_find(const char *name, size_t len);
/* Do two names differ in nothing but dashes and underscores? b ends at its NUL. */
int cdz_habit_same(const char *a, size_t a_len, const char *b);

#endif
