/* loader_leaves_a_file_open.c - reads the file itself, which the host has done, and does not close it. */
#include <stdio.h>

#include "bad_loader.h"

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    CDZ_TRY(open_well(step, file, out));
    out->state = fopen("/dev/null", "r");
    return CDZ_OK;
}

BAD_LOADER(.open = open_bad)
