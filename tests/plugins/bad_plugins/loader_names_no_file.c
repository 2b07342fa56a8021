/* loader_names_no_file.c - says what is wrong, but not where. */
#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    if (id_bytes(file) > 0 || file->len == 0) return open_well(step, file, out);
    return cdz_fail(step, CDZ_E_INPUT, "expected an id");
}

BAD_LOADER(.open = open_bad)
