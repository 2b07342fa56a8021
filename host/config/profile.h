/* profile.h - the profile `hf`: which processors and criteria transformers adds for a configuration, and in what
 * order (GenerationMixin._get_logits_processor, _get_stopping_criteria). Plugins are called like the parameter that
 * switches them on. */
#ifndef CDZ_HOST_CONFIG_PROFILE_H
#define CDZ_HOST_CONFIG_PROFILE_H

#include "config/generation.h"

enum {
    CDZ_PLACE_CUSTOM = 17, /* custom processors stand here */
    CDZ_PLACE_LAST_REPLACEABLE =
        16 /* a custom one of the same id takes the place of one up to here */
};

typedef struct cdz_profile_stage {
    const char *id;
    uint32_t place; /* processors: 1 to 27; criteria: 1 to 4 */
    bool sampling;  /* only with do_sample */
} cdz_profile_stage;

extern const cdz_profile_stage cdz_profile_processors[];
extern const uint32_t cdz_profile_n_processors;
extern const cdz_profile_stage cdz_profile_criteria[];
extern const uint32_t cdz_profile_n_criteria;

/* Its place, or CDZ_PLACE_CUSTOM for an id that is none of the profile's. */
uint32_t cdz_profile_place(const char *id);

/* Would transformers add the processor or criterion of this id? */
bool cdz_profile_active(const cdz_resolution *res, const char *id);
/* The same without asking for do_sample: its parameter is set to something that would act. */
bool cdz_profile_acts(const cdz_resolution *res, const char *id);

#endif
