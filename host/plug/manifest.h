/* manifest.h - plugin.ini: what a package folder says about itself, read without running anything of it. */
#ifndef CDZ_HOST_PLUG_MANIFEST_H
#define CDZ_HOST_PLUG_MANIFEST_H

#include "base/arena.h"
#include "base/error.h"
#include "base/sha256.h"
#include "cadenza/plugin.h"

#define CDZ_MANIFEST_FILE  "plugin.ini"
#define CDZ_MANIFEST_BYTES 65536u
#define CDZ_MANIFEST_FILES 32u /* names in files */
/* A package of this name in a model folder replaces the decode loop, as transformers has it. */
#define CDZ_CUSTOM_GENERATE "custom_generate"

/* Strings are the arena's. Optional ones are NULL when the file does not give them. */
typedef struct cdz_manifest {
    cdz_arena arena;
    const char *path;            /* of plugin.ini, for sentences */
    char digest[CDZ_SHA256_HEX]; /* sha256 of plugin.ini as it was read */
    const char *id, *version, *entry;
    uint32_t kind;
    const char *entry_path; /* folder/entry: a regular file that does not lead out of the folder */
    const char *abi, *license, *needs, *sha256, *summary;
    const char *const *files, *const *file_paths; /* what else the package has: checked as the entry is */
    uint32_t n_files;
} cdz_manifest;

/* Whether the folder has a plugin.ini at all. */
bool cdz_manifest_present(const char *folder);

/* Reads and checks folder/plugin.ini and where its entry leads. */
cdz_status cdz_manifest_read(const char *folder, cdz_manifest *out, cdz_error *err);
void cdz_manifest_free(cdz_manifest *manifest); /* zeroed is fine */

/* Whether the code exports what plugin.ini promises: this one plugin and no other. */
cdz_status cdz_manifest_match(const cdz_manifest *manifest, const cdz_plugin_base *plugin,
                              uint32_t n_plugins, cdz_error *err);

#endif
