/* loader_reads_past_the_end.c - looks for the end of the first line, which a file need not have. */
#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    const volatile char *p = file->bytes;
    while (*p != '\n') p++;
    return open_well(step, file, out);
}

BAD_LOADER(.open = open_bad)
