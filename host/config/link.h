/* link.h - a pipeline's settings joined with its plugins: everything about it that no single request changes.
 * Built once, read by every plan, so that a plan is cheap. Private to config/. */
#ifndef CDZ_HOST_CONFIG_LINK_H
#define CDZ_HOST_CONFIG_LINK_H

#include "config/profile.h"
#include "config/sources.h"
#include "plug/registry.h"

/* A value of one parameter of one instance. */
typedef struct cdz_assignment {
    const cdz_param *param;
    cdz_json value;
    cdz_origin origin;
} cdz_assignment;

/* A parameter that follows a generation parameter. */
typedef struct cdz_mirror {
    const cdz_param *param;
    uint32_t slot; /* a row of the generation table */
} cdz_mirror;

/* A plugin that may be instantiated: named in a list, or a stage of the profile. */
typedef struct cdz_part {
    const char *name;               /* as listed; the section of its settings */
    cdz_plugin_ref plugin;          /* retained; base is NULL when it is not installed */
    const char *missing;            /* then: why, for when it is needed */
    cdz_origin origin;              /* of the list; DEFAULT: the profile */
    const cdz_assignment *settings; /* its own, lowest source first */
    uint32_t n_settings;
    const cdz_mirror *mirrors;
    uint32_t n_mirrors;
} cdz_part;

typedef struct cdz_parts {
    cdz_part *at;
    uint32_t n;
    bool given; /* the key was written, if only as none */
    cdz_origin origin;
} cdz_parts;

typedef struct cdz_phase_part cdz_phase_part; /* a [phase:NAME] section (phases.h) */

typedef struct cdz_slot_value {
    uint32_t slot;
    cdz_json value;
    cdz_origin origin;
} cdz_slot_value;

/* Modes whose decode loop is a package (plugins/). */
enum { CDZ_N_RECIPES = 4 };
typedef struct cdz_recipe {
    cdz_mode mode;
    const char *id;
} cdz_recipe;
extern const cdz_recipe cdz_recipes[CDZ_N_RECIPES];

typedef struct cdz_link {
    cdz_arena arena;
    const cdz_sources *sources; /* the pipeline's, which outlives the link */
    cdz_slot_value *generation; /* lowest source first */
    uint32_t n_generation;
    cdz_json *defaults; /* by row of the generation table */
    bool strategy_named;
    cdz_part strategy;               /* when named */
    cdz_part greedy, sample, beam;   /* when not */
    cdz_part recipes[CDZ_N_RECIPES]; /* and the packages that other modes are */
    cdz_part assisted;
    bool drafter_named;                        /* drafter = ID or none */
    cdz_part drafter;                          /* then; plugin.base NULL: none */
    cdz_part model, prompt_lookup, early_exit; /* drafters that the mode table asks for */
    bool drafting_fixed;                       /* drafts are as long as the drafter makes them */
    cdz_parts processors, stopping, observers, presses, decoding_presses, chain;
    cdz_part *stages;       /* cdz_hf_n_processors */
    cdz_part *criteria;     /* cdz_hf_n_criteria */
    cdz_phase_part *phases; /* (n_phases) in order */
    uint32_t n_phases;
    cdz_part teller;    /* with phases: the processor that tells them */
    cdz_part **entries; /* (n_entries) every part that a plan may use and that is installed */
    uint32_t n_entries;
    cdz_warnings warnings;
} cdz_link;

/* strategy: a path or id that stands above the files' (--custom-generate), or NULL. newest: a plugin whose file changed
 * for the worse is refused, where else the version known before it would serve. */
cdz_status cdz_link_create(cdz_registry *registry, const cdz_sources *sources, const char *strategy,
                           bool newest, cdz_link **out, cdz_error *err);
/* Every module that the link holds, some more than once. */
void cdz_link_each_module(const cdz_link *link, void (*visit)(void *user, const cdz_module *module),
                          void *user);
/* Does the named strategy declare this name as its own, not as a mirror of a generation parameter? Then arguments of
 * that name are the strategy's, as a custom_generate function of transformers takes the arguments it names. */
bool cdz_link_strategy_has(const cdz_link *link, const char *name);
/* The row of the generation table that a request means by name, in the profile's words or our own; below 0: none. */
int cdz_link_slot(const cdz_link *link, const char *name);
void cdz_link_free(cdz_link *link); /* NULL is fine */

/* "story.ini:15: [dry] " and the like into out: what stands before a sentence about an instance. */
void cdz_part_prefix(const cdz_part *entry, const cdz_origin *origin, char *out, size_t out_bytes);

#endif
