/* opened.h - what a test through cadenza.h begins with: a runtime, models and pipelines, open, or the test ends there with the
 * sentence that was said. */
#ifndef CDZ_TESTS_SUPPORT_OPENED_H
#define CDZ_TESTS_SUPPORT_OPENED_H

#include "cadenza/cadenza.h"

/* options NULL: as they are made. */
#define opened_runtime(options) open_runtime_at(options, __FILE__, __LINE__)
/* Its folder or file. */
#define opened_model(runtime, path) open_model_at(runtime, path, __FILE__, __LINE__)
/* The text of an ini file, which sentences call test.ini. */
#define opened_pipeline(runtime, ini) open_pipeline_at(runtime, ini, __FILE__, __LINE__)

cdz_runtime *open_runtime_at(const cdz_options *options, const char *file, int line);
cdz_model *open_model_at(cdz_runtime *runtime, const char *path, const char *file, int line);
cdz_pipeline *open_pipeline_at(cdz_runtime *runtime, const char *ini, const char *file, int line);

#endif
