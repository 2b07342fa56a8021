/* loader_trusts_memory.c - does not look whether it got what it asked for. */
#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    if (id_bytes(file) == 0) return refuse_file(step, file);
    made *m = cdz_alloc(step, sizeof *m);
    char *id = cdz_alloc(step, 65);
    memcpy(id, file->bytes, id_bytes(file));
    put(out, m, id);
    return CDZ_OK;
}

BAD_LOADER(.open = open_bad)
