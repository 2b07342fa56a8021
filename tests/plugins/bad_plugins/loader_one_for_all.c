/* loader_one_for_all.c - the descriptor is a static variable, whoever opens what. */
#include "bad_loader.h"

static made the_made;
static char the_id[65];

static cdz_status open_bad(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    CDZ_TRY(open_well(step, file, out));
    memcpy(the_id, out->plugins[0]->id, strlen(out->plugins[0]->id) + 1);
    put(out, &the_made, the_id);
    return CDZ_OK;
}

BAD_LOADER(.open = open_bad)
