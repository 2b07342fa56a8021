/* loader_keeps_the_bytes.c - the id it gives lies in the file's bytes, which are gone when open has returned. */
#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    CDZ_TRY(open_well(step, file, out));
    made *m = cdz_alloc(step, sizeof *m);
    if (!m) return cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory", file->path);
    put(out, m, file->bytes);
    return CDZ_OK;
}

BAD_LOADER(.open = open_bad)
