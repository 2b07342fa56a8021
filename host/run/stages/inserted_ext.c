/* inserted_ext.c - "cadenza.inserted/1": what of a row the model did not write. */
#include "cadenza/ext/inserted.h"
#include "run/stages/stages.h"

/* A made-up row continues a row of the request, and has what that one has. */
static uint32_t uncounted(const cdz_step *step, uint32_t r)
{
    const cdz_rows *rows = ((const cdz_scope *)step->scope)->rows;
    const uint32_t row = step->row_index ? step->row_index[r] : r;
    return row < rows->n ? rows->at[row].inserted.n_uncounted : 0;
}

const void *cdz_stages_inserted(void)
{
    static const cdz_inserted_api api = {.size = sizeof api, .uncounted = uncounted};
    return &api;
}
