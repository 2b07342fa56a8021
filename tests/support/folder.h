/* folder.h - an empty folder for the files of one test program, made at its beginning and removed with what is in it. */
#ifndef CDZ_TESTS_SUPPORT_FOLDER_H
#define CDZ_TESTS_SUPPORT_FOLDER_H

#include <stddef.h>

/* Makes it, /tmp/cadenza-NAME-XXXXXX. */
const char *folder_make(const char *name);
void folder_remove(void);
/* The path of a name in it; valid for the next fifteen. */
const char *folder_path(const char *name);
void folder_write(const char *name, const void *bytes, size_t len);
/* Runs a program with two arguments, which has to end well. */
void folder_run(const char *program, const char *first, const char *second);

#endif
