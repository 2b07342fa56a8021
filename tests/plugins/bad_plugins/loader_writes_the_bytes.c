/* loader_writes_the_bytes.c - cuts its lines as strtok does, in the host's memory. */
#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    const size_t n = id_bytes(file);
    if (n > 0) *(char *)(uintptr_t)(file->bytes + n) = '\0';
    return n > 0 ? CDZ_OK : open_well(step, file, out);
}

BAD_LOADER(.open = open_bad)
