/* files.c - which file of data a name means, and what is said where it means none. */
#include "call/files.h"

#include <string.h>

#include "base/error.h"
#include "call/host.h"

enum { MOST_NAMES = 64 };

static cdz_status refuse(const cdz_step *step, const cdz_call_files *files, const char *name)
{
    const char *names[MOST_NAMES];
    uint32_t n = 0;
    for (; files && n < files->n && n < MOST_NAMES; n++) names[n] = files->at[n].name;
    if (n == 0)
        return cdz_host_fail(step, CDZ_E_NOT_FOUND,
                             "file '%s': the plugin has none; a package names them in its plugin.ini "
                             "(files = NAME)",
                             name);
    const char *near = cdz_nearest_name(name, names, n);
    return cdz_host_fail(step, CDZ_E_NOT_FOUND, "file '%s': not among the files of plugin.ini%s%s%s",
                         name, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

cdz_status cdz_call_find_file(const cdz_step *step, const cdz_call_files *files, const char *name,
                              cdz_string *out)
{
    if (!name) return cdz_host_fail(step, CDZ_E_USAGE, "file: no name");
    for (uint32_t i = 0; files && i < files->n; i++) {
        const cdz_call_file *f = &files->at[i];
        if (strcmp(f->name, name) != 0) continue;
        if (!f->bytes)
            return cdz_host_fail(step, CDZ_E_LIMIT, "file '%s': has %llu bytes, the limit is %u",
                                 name, (unsigned long long)f->len, CDZ_CALL_FILE_BYTES);
        *out = (cdz_string){f->bytes, (uint32_t)f->len};
        return CDZ_OK;
    }
    return refuse(step, files, name);
}
