/* answers.c - the readers of what a process gives. */
#include "isolate/answers.h"

#include <string.h>

#include "isolate/isolate_state.h"

bool cdz_take_ready(cdz_wire_in *in, uint32_t *guards)
{
    const uint32_t version = cdz_take_u32(in);
    *guards = cdz_take_u32(in) & CDZ_GUARDS_ALL;
    return cdz_taken_whole(in) && version == CDZ_ISOLATE_VERSION;
}

bool cdz_take_done(cdz_wire_in *in, cdz_arena *arena, cdz_isolate_verdict *out)
{
    out->code = cdz_take_u32(in);
    out->said = cdz_take_string(in, arena);
    return out->code == CDZ_OK ? !in->bad && !out->said.at : cdz_taken_whole(in);
}

bool cdz_take_flag(cdz_wire_in *in, bool *out)
{
    const uint32_t word = cdz_take_u32(in);
    *out = word == 1;
    return cdz_taken_whole(in) && word <= 1;
}

bool cdz_take_state(cdz_wire_in *in, void *state, size_t bytes)
{
    const void *from = cdz_take(in, bytes);
    if (!cdz_taken_whole(in)) return false;
    if (bytes) memcpy(state, from, bytes);
    return true;
}

bool cdz_take_stops(cdz_wire_in *in, cdz_arena *arena, uint32_t n, cdz_stop *stops)
{
    for (uint32_t r = 0; r < n && !in->bad; r++) {
        char text[CDZ_ERROR_TEXT];
        stops[r].reason = cdz_take_u32(in);
        const cdz_string said = cdz_take_string(in, arena);
        if (!said.at) continue;
        const char *clean = cdz_arena_strdup(arena, cdz_isolate_clean(said, text, sizeof text));
        if (clean) stops[r].text = (cdz_string){clean, (uint32_t)strlen(clean)};
    }
    return cdz_taken_whole(in);
}

bool cdz_take_draft(cdz_wire_in *in, cdz_arena *arena, cdz_ids *tokens)
{
    *tokens = cdz_take_ids(in, arena);
    return cdz_taken_whole(in) && tokens->len <= CDZ_ASK_DRAFT;
}
