/* ext/files.h - "cadenza.files/1": the files of data that a package has (files = in its plugin.ini), by name.
 *
 * The bytes are those that were read when the plugin was opened, and so those that were pinned: no path is opened, and what lies in
 * the folder later does not count. They stay as long as the plugin is loaded. A word list, a trie, a probe's weights:
 *
 *     cdz_string words;
 *     CDZ_TRY(cdz_package_file(step, "words.txt", &words));
 *
 * In create and begin, or any call. In a process of its own (docs/isolation.md) the first asking for a name brings a copy over. */
#ifndef CADENZA_EXT_FILES_H
#define CADENZA_EXT_FILES_H

#include "../plugin.h"

#define CDZ_EXT_FILES "cadenza.files/1"

typedef struct cdz_files_api {
    uint32_t size;
    /* [any] The bytes of a file that plugin.ini lists under this name, and a NUL behind them. CDZ_E_NOT_FOUND: it lists none such, or
     * the plugin is no package. CDZ_E_LIMIT: it is larger than 16 MiB. Either with a sentence. */
    cdz_status (*get)(const cdz_step *step, const char *name, cdz_string *out);
} cdz_files_api;

static inline const cdz_files_api *cdz_get_files(const cdz_step *step)
{
    return (const cdz_files_api *)step->host->extension(CDZ_EXT_FILES);
}

static inline cdz_status cdz_package_file(const cdz_step *step, const char *name, cdz_string *out)
{
    const cdz_files_api *files = cdz_get_files(step);
    if (files) return files->get(step, name, out);
    return (step->host->fail)(step, CDZ_E_UNSUPPORTED, "this host gives plugins no files");
}

#endif
