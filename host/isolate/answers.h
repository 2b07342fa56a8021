/* answers.h - what a process gives to a call: a copied message in, values out, each read to its last byte. False: it is no
 * proper answer, and what was written to out is not to be used. Private to isolate/. */
#ifndef CDZ_HOST_ISOLATE_ANSWERS_H
#define CDZ_HOST_ISOLATE_ANSWERS_H

#include "cadenza/criterion.h"
#include "isolate/wire.h"

/* Its first message: behind the kind. */
bool cdz_take_ready(cdz_wire_in *in, uint32_t *guards);

/* Head of DONE. What the call gives follows, unless code says that it failed: then nothing does. */
typedef struct cdz_isolate_verdict {
    uint32_t code;   /* any number: a plugin may have returned it */
    cdz_string said; /* at NULL: nothing; never where it went well */
} cdz_isolate_verdict;
bool cdz_take_done(cdz_wire_in *in, cdz_arena *arena, cdz_isolate_verdict *out);

/* What calls give. */
bool cdz_take_flag(cdz_wire_in *in, bool *out);
bool cdz_take_state(cdz_wire_in *in, void *state, size_t bytes);
/* stops: of n rows, zeroed. Texts are for people, and kept in the arena. */
bool cdz_take_stops(cdz_wire_in *in, cdz_arena *arena, uint32_t n, cdz_stop *stops);
bool cdz_take_draft(cdz_wire_in *in, cdz_arena *arena, cdz_ids *tokens);

#endif
