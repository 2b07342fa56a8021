/* ini.h - ini text to a list of settings, whole or not at all.
 *
 * inih does the reading; on its own it would split a long line and read the tail as a new key, cut long section names
 * silently, join indented lines to the value before, and hand over what stands before an error. So the text is scanned
 * first, with the rules below, and inih only sees what it reads the same way.
 *
 * - UTF-8, at most 1 MiB, no NUL or other control characters; lines of at most 197 bytes, ended by LF or CR LF.
 * - "[section]", "name = value" or blank, each beginning at the margin. Section and name: at most 48 bytes.
 * - ';' or '#' begins a comment at the start of a line; ';' also after a blank. A value is trimmed and not empty.
 * - A section is begun once, a name is set once per section. */
#ifndef CDZ_HOST_BASE_INI_H
#define CDZ_HOST_BASE_INI_H

#include "base/arena.h"
#include "base/error.h"

typedef struct cdz_ini_setting {
    const char *section, *name, *value;
    uint32_t line, column; /* of the value; the name stands in column 1 */
} cdz_ini_setting;

typedef struct cdz_ini_section {
    const char *name;
    uint32_t line;
} cdz_ini_section;

typedef struct cdz_ini {
    cdz_ini_section *sections;
    cdz_ini_setting *settings;
    uint32_t n_sections, n_settings;
} cdz_ini;

enum { CDZ_INI_MAX_BYTES = 1 << 20 };

/* name: the file in sentences ("story.ini:3:1: ..."). */
cdz_status cdz_ini_read(const char *text, size_t len, const char *name, cdz_arena *arena,
                        cdz_ini *out, cdz_error *err);

#endif
