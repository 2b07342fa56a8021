/* places.c - compares a file to write with all that a command reads. */
#include "cli/places.h"

#include <dirent.h>
#include <string.h>

#include "base/error.h"
#include "base/write.h"

/* A model is a file, or the files of a folder. */
static cdz_status check_model(const char *model, const char *path, cdz_error *err)
{
    DIR *dir = opendir(model);
    cdz_status st = dir ? CDZ_OK : cdz_write_not_over(path, model, err);
    for (const struct dirent *e; st == CDZ_OK && dir && (e = readdir(dir)) != NULL;) {
        cdz_arena arena = {0};
        const char *file = cdz_arena_printf(&arena, "%s/%s", model, e->d_name);
        st = file ? cdz_write_not_over(path, file, err)
                  : cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", path);
        cdz_arena_free(&arena);
    }
    if (dir) closedir(dir);
    return st;
}

cdz_status cdz_cli_check_place(const cdz_cli_options *options, const char *path,
                               const char *const *others, size_t n_others, cdz_error *err)
{
    if (options->host.program.model) CDZ_TRY(check_model(options->host.program.model, path, err));
    if (options->host.program.assistant)
        CDZ_TRY(check_model(options->host.program.assistant, path, err));
    if (options->host.program.pipeline)
        CDZ_TRY(cdz_write_not_over(path, options->host.program.pipeline, err));
    for (size_t i = 0; i < n_others; i++)
        if (others[i] && strcmp(others[i], "-") != 0)
            CDZ_TRY(cdz_write_not_over(path, others[i], err));
    return CDZ_OK;
}
