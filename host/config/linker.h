/* linker.h - what the files that build a link share: link.c, link_phases.c and
 * link_settings.c. */
#ifndef CDZ_HOST_CONFIG_LINKER_H
#define CDZ_HOST_CONFIG_LINKER_H

#include "config/link.h"

/* What their functions pass along. */
typedef struct cdz_linker {
    cdz_link *link;
    cdz_registry *registry;
    const cdz_sources *sources;
    cdz_error *err;
    bool newest;
} cdz_linker;

static inline cdz_status cdz_linker_nomem(cdz_linker *l)
{
    return cdz_err(l->err, CDZ_E_NOMEM, "pipeline: out of memory");
}

/* The plugins that a key of a section lists, each with the section of its name. */
cdz_status cdz_linker_list(cdz_linker *l, const char *section, const char *key, uint32_t kind,
                           cdz_parts *out);
/* A plugin that the host asks for by its id, and that may be missing as long as nobody needs it. */
cdz_status cdz_linker_stage(cdz_linker *l, uint32_t kind, const char *id, cdz_part *out);

/* --- link_phases.c --- */
cdz_status cdz_linker_phases(cdz_linker *l);

/* --- link_settings.c --- */
/* The settings of every plugin that the link has by now; what belongs to none is refused or warned of. */
cdz_status cdz_linker_settings(cdz_linker *l);
cdz_status cdz_linker_generation(cdz_linker *l);
/* "file:PATH" as the value of a constraint: what the file holds, beside the file that says so. What a stranger's request
 * names is no file. */
cdz_status cdz_linker_constraint(cdz_linker *l, const cdz_written *w, cdz_json *value,
                                 cdz_error *why);
/* The defaults of the generation table as values, for parameters that mirror one nobody set. */
cdz_status cdz_linker_defaults(cdz_linker *l);

#endif
