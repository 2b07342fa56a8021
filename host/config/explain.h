/* explain.h - what the two forms of `cadenza explain`, text (explain.c) and JSON (explain_json.c), say alike. Private to
 * config/. */
#ifndef CDZ_HOST_CONFIG_EXPLAIN_H
#define CDZ_HOST_CONFIG_EXPLAIN_H

#include "config/pipeline_state.h"

/* "story.ini:15", "default", "command line" */
const char *cdz_explain_where(cdz_arena *arena, const cdz_origin *origin);
/* Why an instance is there: the place that lists it, or the parameter that switches it on; "": nobody asked. */
const char *cdz_explain_asked(cdz_arena *arena, const cdz_origin *origins,
                              const cdz_instance *instance);
/* Where the strategy comes from. */
const char *cdz_explain_strategy(cdz_arena *arena, const cdz_plan *plan);
/* A generation parameter that somebody set, or that follows from one: where from; NULL: it is as it is by default. */
const char *cdz_explain_parameter(cdz_arena *arena, const cdz_plan *plan, uint32_t slot);
/* Each warning, a sentence: of the plan, and of orders that defeat a processor. */
typedef void cdz_explain_say(void *user, const char *sentence);
void cdz_explain_warnings(cdz_arena *arena, const cdz_plan *plan, cdz_explain_say *say, void *user);

/* A setting of the host as it was typed, and where; false: nobody says it. said: the command line, or NULL. Shown are those
 * that the model and plugins run with. */
typedef struct cdz_explained {
    const char *value, *from;
} cdz_explained;
bool cdz_explain_shows(const cdz_setting *setting);
bool cdz_explain_setting(cdz_arena *arena, const cdz_pipeline *pipeline, const cdz_settings *said,
                         const cdz_setting *setting, cdz_explained *out);

#endif
