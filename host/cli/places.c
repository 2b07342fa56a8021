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
        st = file ? cdz_write_not_over(path, file, err) : cdz_err_memory_in(err, path);
        cdz_arena_free(&arena);
    }
    if (dir) closedir(dir);
    return st;
}

/* Files of control vectors; of scaled ones the scale stands behind the last colon. */
static cdz_status check_control(const cdz_model_options *how, const char *path, cdz_error *err)
{
    for (uint32_t i = 0; i < how->n_control_vectors; i++)
        CDZ_TRY(cdz_write_not_over(path, how->control_vectors[i], err));
    for (uint32_t i = 0; i < how->n_control_vectors_scaled; i++) {
        const char *text = how->control_vectors_scaled[i], *colon = strrchr(text, ':');
        cdz_arena arena = {0};
        const char *file =
            cdz_arena_strndup(&arena, text, colon ? (size_t)(colon - text) : strlen(text));
        const cdz_status st =
            file ? cdz_write_not_over(path, file, err) : cdz_err_memory_in(err, path);
        cdz_arena_free(&arena);
        CDZ_TRY(st);
    }
    return CDZ_OK;
}

cdz_status cdz_cli_check_place(const cdz_cli_options *options, const char *path,
                               const char *const *others, size_t n_others, cdz_error *err)
{
    if (options->host.program.model) CDZ_TRY(check_model(options->host.program.model, path, err));
    if (options->host.program.assistant)
        CDZ_TRY(check_model(options->host.program.assistant, path, err));
    if (options->host.program.pipeline)
        CDZ_TRY(cdz_write_not_over(path, options->host.program.pipeline, err));
    CDZ_TRY(check_control(&options->host.model, path, err));
    for (size_t i = 0; i < n_others; i++)
        if (others[i] && strcmp(others[i], "-") != 0)
            CDZ_TRY(cdz_write_not_over(path, others[i], err));
    return CDZ_OK;
}
