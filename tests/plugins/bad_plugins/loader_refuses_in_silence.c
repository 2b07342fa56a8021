/* loader_refuses_in_silence.c - a file that it does not like is a status and no sentence. */
#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    return id_bytes(file) > 0 || file->len == 0 ? open_well(step, file, out) : CDZ_E_INPUT;
}

BAD_LOADER(.open = open_bad)
