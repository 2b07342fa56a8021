/* opened.c - opening what has to open. See opened.h. */
#include "support/opened.h"

#include <string.h>

#include "support/must.h"

cdz_runtime *open_runtime_at(const cdz_options *options, const char *file, int line)
{
    cdz_runtime *runtime = NULL;
    cdz_error err = {0};
    must_be_well(cdz_open(options, &runtime, &err), &err, file, line);
    return runtime;
}

cdz_model *open_model_at(cdz_runtime *runtime, const char *path, const char *file, int line)
{
    cdz_model *model = NULL;
    cdz_error err = {0};
    must_be_well(cdz_model_open(runtime, path, NULL, &model, &err), &err, file, line);
    return model;
}

cdz_pipeline *open_pipeline_at(cdz_runtime *runtime, const char *ini, const char *file, int line)
{
    cdz_pipeline *pipeline = NULL;
    cdz_error err = {0};
    must_be_well(cdz_pipeline_parse(runtime, ini, strlen(ini), "test.ini", &pipeline, &err), &err,
                 file, line);
    return pipeline;
}
