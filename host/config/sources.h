/* sources.h - what was written: the settings of a pipeline file, of the files it uses, and of `-s`, lowest first. */
#ifndef CDZ_HOST_CONFIG_SOURCES_H
#define CDZ_HOST_CONFIG_SOURCES_H

#include "config/file_keys.h"
#include "config/generation.h"
#include "params/settings.h"

/* A line as it was written. */
typedef struct cdz_written {
    const char *section, *name, *text;
    cdz_origin origin;
    bool bare; /* -s without a section: a strategy that declares the name has it before [generation] */
} cdz_written;

typedef struct cdz_written_section {
    const char *name;
    cdz_origin origin;
} cdz_written_section;

/* Another name for a parameter: [names] of a profile. */
typedef struct cdz_other_name {
    const char *alias, *section, *name;
} cdz_other_name;

/* A line of [models]: a further model of requests. */
typedef struct cdz_named_folder {
    const char *name,
        *folder; /* as it is found from here: relative paths start from the file's folder */
    cdz_origin origin;
} cdz_named_folder;

/* Grows in its arena; a later entry wins over an earlier one of the same section and name. */
typedef struct cdz_sources {
    cdz_arena *arena;
    cdz_written *at;
    uint32_t n, cap;
    cdz_written_section *sections;
    uint32_t n_sections, cap_sections;
    const char **files; /* (n_files) that were read */
    uint32_t n_files, cap_files;
    cdz_other_name *names;
    uint32_t n_names, cap_names;
    cdz_named_folder *models; /* (n_models) the nearest file's, where several have a name */
    uint32_t n_models, cap_models;
    const cdz_written *host[CDZ_MOST_SETTINGS]; /* settings of the host, by index; NULL: not said */
    bool of_request;                            /* the file was named by a request document alone */
    bool no_files;        /* a request wrote it itself: `use` names profiles alone */
    const char *profiles; /* folder of the profiles that `use` may name; NULL: none but hf */
} cdz_sources;

/* Reads text and, before it, the files it uses. Keys of [pipeline] and [generation] are checked. */
cdz_status cdz_sources_read(cdz_sources *sources, const char *text, size_t len, const char *name,
                            cdz_error *err);
cdz_status cdz_sources_read_file(cdz_sources *sources, const char *path, cdz_error *err);

/* `-s name=value` or `-s section.name=value`. */
cdz_status cdz_sources_override(cdz_sources *sources, const char *name, const char *value,
                                cdz_error *err);

/* The file of a profile: profiles/NAME.ini. NULL: there is none. */
const char *cdz_sources_profile(const cdz_sources *sources, const char *name);
/* What name stands for, or NULL. */
const cdz_other_name *cdz_sources_other_name(const cdz_sources *sources, const char *name);

/* The setting that counts, or NULL. */
const cdz_written *cdz_sources_find(const cdz_sources *sources, const char *section,
                                    const char *name);

/* A path as written at origin, relative to the folder of its file. NULL: out of memory. */
const char *cdz_sources_path(cdz_arena *arena, const cdz_origin *origin, const char *path);

#endif
