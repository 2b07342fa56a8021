/* loader_leaks.c - what it takes from the heap it never gives back. */
#include <stdlib.h>

#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    CDZ_TRY(open_well(step, file, out));
    out->state = malloc(100);
    return CDZ_OK;
}

BAD_LOADER(.open = open_bad)
