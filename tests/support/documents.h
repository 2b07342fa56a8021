/* documents.h - JSON that a test begins with: read, or the test ends there with the sentence that was said. */
#ifndef CDZ_TESTS_SUPPORT_DOCUMENTS_H
#define CDZ_TESTS_SUPPORT_DOCUMENTS_H

#include "base/json.h"

/* Both lie in the arena. */
const cdz_json *document_of(cdz_arena *arena, const char *text);
const cdz_json *document_in(cdz_arena *arena, const char *path);

#endif
