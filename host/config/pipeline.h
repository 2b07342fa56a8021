/* pipeline.h - from ini, command line and request to the plan of one request. */
#ifndef CDZ_HOST_CONFIG_PIPELINE_H
#define CDZ_HOST_CONFIG_PIPELINE_H

#include "call/offers.h"
#include "config/sources.h"
#include "plug/registry.h"

/* An instance: a plugin with its parameter struct filled and checked (create has run). */
typedef struct cdz_instance {
    const char *name; /* section or list entry it was named by */
    cdz_plugin_ref plugin;
    cdz_offers offers;
    const void *params;
    cdz_origin origin; /* where it was asked for */
    uint32_t place; /* 1-27: transformers' place in the processor order (docs/reference/internals/processors.md, section 3) */
    bool custom;    /* named by the user rather than by the profile */
    uint32_t phases; /* of a processor: bit n is set when it runs in phase n (cadenza/ext/phase.h); 0: in all */
    bool of_phase; /* a phase's constraint: it is told of the tokens of its phase alone */
} cdz_instance;

/* Bits of cdz_instance.phases: every phase; and rows whose next token is decided, which only the teller edits. */
#define CDZ_IN_ALL_PHASES 0x7fffffffu
#define CDZ_IN_HELD_ROWS  0x80000000u

/* A [phase:NAME] section. Phase n of cadenza/ext/phase.h is entry n - 1. */
typedef struct cdz_plan_phase {
    const char *name;
    cdz_origin origin;                      /* of the section */
    const cdz_origin *origins;              /* as of the plan, with what the phase sets */
    const char *begin, *until, *max_tokens; /* as JSON; NULL: unset */
    const cdz_generation *constrained; /* its values, where it has a constraint of its own; else NULL */
} cdz_plan_phase;

/* A pipeline as one reading of its files made it. Reference-counted. */
typedef struct cdz_edition cdz_edition;

/* The draft model of a request, as far as planning asks. */
typedef struct cdz_plan_assistant {
    const cdz_json *generation; /* its generation_config.json or stand-in; may be NULL */
    const cdz_json *overrides;  /* values the request sets on it; an object or NULL */
} cdz_plan_assistant;

/* What a plan was asked for, to plan the same again. The model's own document stays its, the rest is the plan's. */
typedef struct cdz_plan_inputs {
    const cdz_json *model_generation, *kwargs; /* or NULL */
    const cdz_plan_assistant *assistant;       /* or NULL */
    bool has_embeds; /* a decoder alone reads embeddings, with which the reference turns the cache on */
} cdz_plan_inputs;

/* What one request runs with. Immutable; freed whole. Keeps its pipeline, and so its modules, alive. */
typedef struct cdz_plan {
    cdz_arena arena;
    cdz_generation generation;
    const cdz_origin *origins; /* one per row of the generation table */
    cdz_instance strategy;
    cdz_instance drafter; /* plugin.base NULL: none */
    bool paces_drafts;    /* the engine chooses how long drafts are (run/loop/pace.h) */
    cdz_instance *processors; /* in order of application; idle ones are dropped by the engine at begin */
    uint32_t n_processors;
    const cdz_plan_phase *phases; /* then the first processor is the one that tells them */
    uint32_t n_phases;
    cdz_instance *criteria;
    uint32_t n_criteria;
    cdz_instance *observers;
    uint32_t n_observers;
    cdz_instance *presses; /* those of prompts, then those of decoding */
    uint32_t n_presses, n_prompt_presses;
    const char **warnings; /* sentences for the user */
    uint32_t n_warnings;
    struct cdz_pipeline *pipeline; /* retained; NULL: made by hand */
    cdz_edition *edition;          /* retained: plugins, names and origins are its */
    cdz_plan_inputs inputs;
} cdz_plan;

/* cdz_pipeline of cadenza.h. Reference-counted; planning and reloading are safe from any thread. */
struct cdz_pipeline;

/* name: how the text is called in sentences; relative paths start from its folder. Empty text is the profile `hf`.
 * The registry must outlive the pipeline. */
cdz_status cdz_pipeline_create(cdz_registry *registry, const char *text, size_t len,
                               const char *name, cdz_pipeline **out, cdz_error *err);
cdz_status cdz_pipeline_create_from_file(cdz_registry *registry, const char *path,
                                         cdz_pipeline **out, cdz_error *err);
/* The same for a file that a request document alone names: what it names by a path is not on the user's word
 * (plug/consent.h). */
cdz_status cdz_pipeline_create_for_request(cdz_registry *registry, const char *path,
                                           cdz_pipeline **out, cdz_error *err);
/* The same for text that was made from such a document: no file is read for it but profiles. */
cdz_status cdz_pipeline_create_written(cdz_registry *registry, const char *text, size_t len,
                                       cdz_pipeline **out, cdz_error *err);
/* Was it made of this registry's plugins? */
bool cdz_pipeline_is_of(const cdz_pipeline *pipeline, const cdz_registry *registry);
/* A setting of the host as the file says it now, in [model] as a rule, and where; NULL: nothing is said of it. Memory is the
 * pipeline's, while it is not changed. */
const char *cdz_pipeline_host_setting(const cdz_pipeline *pipeline, const cdz_setting *setting,
                                      cdz_origin *origin);
/* -s: a parameter that the named strategy declares as its own, else a generation parameter, a key of [pipeline], or a
 * name that one plugin of the pipeline alone declares; or section.name. Names and values are checked by the next
 * cdz_pipeline_check or plan, so that settings and strategy may come in any order. Before the first plan only
 * (CDZ_E_STATE). */
cdz_status cdz_pipeline_override(cdz_pipeline *pipeline, const char *name, const char *value,
                                 cdz_error *err);
/* --custom-generate: replaces the strategy by a package folder, file or id. Its declared parameters are set by request
 * kwargs, `-s name=value` or `-s id.name=value`. Before the first plan only. */
cdz_status cdz_pipeline_set_strategy(cdz_pipeline *pipeline, const char *path_or_id, cdz_error *err);
/* Whether the file or `-s pipeline.strategy` names one other than auto. */
bool cdz_pipeline_names_strategy(const cdz_pipeline *pipeline);
/* Finds the plugins and checks every setting, as the first plan would. */
cdz_status cdz_pipeline_check(cdz_pipeline *pipeline, cdz_error *err);
void cdz_pipeline_retain(cdz_pipeline *pipeline);
void cdz_pipeline_release(cdz_pipeline *pipeline);

/* Resolves everything for one request.
 * model_generation: generation_config.json's object (or what config.json gives without one), may be NULL.
 * kwargs: the request's "kwargs" object, may be NULL. Names that a named strategy declares as its own are the
 * strategy's, then come generation parameters; others are refused by name.
 * assistant: NULL when no draft model was given. */
cdz_status cdz_pipeline_plan(cdz_pipeline *pipeline, const cdz_json *model_generation,
                             const cdz_json *kwargs, const cdz_plan_assistant *assistant,
                             cdz_plan **out, cdz_error *err);
/* The same, of a request whose prompt may be embeddings. */
cdz_status cdz_pipeline_plan_of(cdz_pipeline *pipeline, cdz_plan_inputs inputs, cdz_plan **out,
                                cdz_error *err);
/* The settings that a plan's requests are marked with; NULL: none. As long as the plan. */
const struct cdz_watermark *cdz_plan_watermark(const cdz_plan *plan);
void cdz_plan_free(cdz_plan *plan);

/* --- reloading: editions.c ---
 * Read again, try what came of it, then adopt it: from then on plans are made from it. Between reading and adopting the
 * caller holds the pipeline's reloading, so that of two reloads the later one wins. */
cdz_status cdz_pipeline_read_again(cdz_pipeline *pipeline, cdz_edition **out, cdz_error *err);
void cdz_pipeline_adopt(cdz_pipeline *pipeline, cdz_edition *edition); /* takes the reference */
void cdz_edition_release(cdz_edition *edition);                        /* NULL is fine */
/* Its [models]; as long as it. */
const cdz_named_folder *cdz_edition_models(const cdz_edition *edition, uint32_t *n);
/* What whoever opens those models keeps with the edition, which ends it; NULL: nothing yet. The first that is given stays:
 * returns what there is then. [any] */
typedef struct cdz_edition_kept {
    void (*end)(struct cdz_edition_kept *kept);
} cdz_edition_kept;
cdz_edition_kept *cdz_edition_kept_now(cdz_edition *edition);
cdz_edition_kept *cdz_edition_keep(cdz_edition *edition, cdz_edition_kept *kept);
void cdz_pipeline_lock_reloading(cdz_pipeline *pipeline);
void cdz_pipeline_unlock_reloading(cdz_pipeline *pipeline);
/* A plan from an edition that need not be the newest. */
cdz_status cdz_edition_plan(cdz_pipeline *pipeline, cdz_edition *edition,
                            const cdz_plan_inputs *inputs, cdz_plan **out, cdz_error *err);
/* The newest edition, retained; CDZ_OK also when it is not linked. */
cdz_edition *cdz_pipeline_newest(cdz_pipeline *pipeline);

/* Of the newest: what the manual calls the pipeline's generation. */
uint64_t cdz_pipeline_edition_number(const cdz_pipeline *pipeline);
const char *cdz_pipeline_name(const cdz_pipeline *pipeline); /* of its file, or what stands for it */
/* Whether a plan is of the newest edition; one made by hand always is. [any], and cheap. */
bool cdz_plan_is_newest(const cdz_plan *plan);
/* The same request planned by the newest edition. */
cdz_status cdz_plan_renew(const cdz_plan *plan, cdz_plan **out, cdz_error *err);

/* The files that the newest edition was made of: what it read and what its plugins were loaded from. */
cdz_status cdz_pipeline_files(cdz_pipeline *pipeline,
                              cdz_status (*visit)(void *user, const char *path), void *user,
                              cdz_error *err);

/* Told in a sentence, once for each edition, why a running request cannot go over to it. [any] */
typedef void cdz_reload_listener(void *user, cdz_pipeline *pipeline, const cdz_error *why);
/* listener NULL: nobody listens. Returns when no call to the one before is under way. */
void cdz_pipeline_listen(cdz_pipeline *pipeline, cdz_reload_listener *listener, void *user);
/* False: nobody listens, or it was said before. */
bool cdz_pipeline_report(cdz_pipeline *pipeline, const cdz_error *why);

/* What `cadenza explain` says, as text and as JSON. model_generation may be NULL; so may said, what the command line says of
 * the host's settings. */
cdz_status cdz_pipeline_explain_text(cdz_pipeline *pipeline, const cdz_json *model_generation,
                                     const cdz_settings *said, cdz_buf *out, cdz_error *err);
cdz_status cdz_pipeline_explain_json(cdz_pipeline *pipeline, const cdz_json *model_generation,
                                     const cdz_settings *said, cdz_buf *out, cdz_error *err);

#endif
