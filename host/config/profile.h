/* profile.h - the profile `hf`: which processors and criteria transformers adds for a configuration, and in what
 * order (GenerationMixin._get_logits_processor, _get_stopping_criteria). Plugins are called like the parameter that
 * switches them on. Constraints are Cadenza's own: one processor, `grammar`, for several parameters. */
#ifndef CDZ_HOST_CONFIG_PROFILE_H
#define CDZ_HOST_CONFIG_PROFILE_H

#include "config/generation.h"

enum {
    CDZ_PLACE_CUSTOM = 17, /* custom processors stand here */
    CDZ_PLACE_LAST_REPLACEABLE =
        16 /* a custom one of the same id takes the place of one up to here */
};

typedef enum cdz_hf_trait {
    CDZ_HF_SAMPLING = 1u << 0,  /* only with do_sample */
    CDZ_HF_ROW_ALONE = 1u << 1, /* asks for nothing but the row: a phase may set its parameter */
    CDZ_HF_NEEDS_EOS = 1u << 2, /* only with an end-of-sequence token */
} cdz_hf_trait;

/* What its parameter must be for a stage to act. Unset, it does not. */
typedef enum cdz_hf_when {
    CDZ_HF_ALWAYS,      /* whatever it is */
    CDZ_HF_SET,         /* anything */
    CDZ_HF_SLOT_SET,    /* anything; it has no field, but a slot */
    CDZ_HF_CONSTRAINED, /* one of several: cdz_hf_constrains */
    CDZ_HF_YES,         /* true */
    CDZ_HF_NOT_0,       /* of a whole number, to here */
    CDZ_HF_POSITIVE,
    CDZ_HF_NOT_1, /* of a real number, from here */
    CDZ_HF_BELOW_1,
    CDZ_HF_BETWEEN_0_1,
} cdz_hf_when;

typedef struct cdz_hf_stage {
    const char *id;
    uint32_t place;  /* processors: 1 to 27; criteria: 1 to 4 */
    unsigned traits; /* cdz_hf_trait */
    cdz_hf_when when;
    uint32_t set, value; /* where its parameter is in cdz_generation */
} cdz_hf_stage;

extern const cdz_hf_stage cdz_hf_processors[];
extern const uint32_t cdz_hf_n_processors;
extern const cdz_hf_stage cdz_hf_criteria[];
extern const uint32_t cdz_hf_n_criteria;

/* Its place, or CDZ_PLACE_CUSTOM for an id that is none of the profile's. */
uint32_t cdz_hf_place(const char *id);

/* Whether one of the parameters is set that the processor `grammar` follows. */
bool cdz_hf_constrains(const cdz_generation *generation);
/* Whether it is one of them. */
bool cdz_hf_is_constraint(const char *name);
/* Would transformers add the processor or criterion of this id? */
bool cdz_hf_active(const cdz_resolution *res, const char *id);
/* The same without asking for do_sample: its parameter is set to something that would act. */
bool cdz_hf_acts(const cdz_resolution *res, const char *id);

#endif
