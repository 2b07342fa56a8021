/* files.h - "cadenza.files/1" where it meets its callers: the files of data that were read with a plugin, and which of them is meant.
 * Who calls a plugin knows what was read with it; the sentences are the same for all. */
#ifndef CDZ_HOST_CALL_FILES_H
#define CDZ_HOST_CALL_FILES_H

#include "cadenza/plugin.h"

#define CDZ_CALL_FILE_BYTES (16u << 20) /* of one file */

typedef struct cdz_call_file {
    const char *name;
    const char *bytes; /* and a NUL; NULL: it is too large, and was not read */
    uint64_t len;
} cdz_call_file;

typedef struct cdz_call_files {
    const cdz_call_file *at; /* (n) */
    uint32_t n;
} cdz_call_files;

/* files: NULL for none. What is wrong goes to the step's caller, as a sentence. */
cdz_status cdz_call_find_file(const cdz_step *step, const cdz_call_files *files, const char *name,
                              cdz_string *out);

#endif
