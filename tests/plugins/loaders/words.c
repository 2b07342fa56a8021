/* words.c - a loader for the tests, built several times: of a file's first line it makes a processor of that id, which adds
 * SCORE to the first score of a row. ID, ENDINGS, SCORE, CAPS and VERSION say which one. */
#include <cadenza/loader.h>
#include <cadenza/processor.h>
#include <string.h>

#ifndef CAPS
#define CAPS 0
#endif

typedef struct word {
    cdz_processor processor;
    const cdz_plugin_base *list[1];
    char id[65];
} word;

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const word *w = step->plugin->loader_data;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        cdz_row(scores, r)[0] += (float)SCORE + (w->id[0] == 'x' ? 0.5f : 0.0f);
    return CDZ_OK;
}

static cdz_status open_words(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    const size_t n = strcspn(file->bytes, "\n");
    if (n == 0 || n > 64)
        return cdz_fail(step, CDZ_E_INPUT, "%s:1: expected an id, found %u bytes", file->path,
                        (unsigned)n);
    word *w = cdz_alloc(step, sizeof *w);
    if (!w) return cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory", file->path);
    memcpy(w->id, file->bytes, n);
    w->processor = (cdz_processor){.base = {CDZ_PROCESSOR_BASE, .id = w->id, .version = VERSION,
                                            .summary = "A word", .loader_data = w},
                                   .apply = apply};
    w->list[0] = &w->processor.base;
    out->plugins = w->list;
    out->n_plugins = 1;
    return CDZ_OK;
}

static const cdz_loader words = {
    .base = {CDZ_LOADER_BASE, .id = ID, .version = VERSION, .summary = "Words"},
    .caps = CAPS,
    .max_bytes = 100,
    .endings = ENDINGS,
    .open = open_words,
};
CDZ_EXPORT_PLUGINS(&words.base)
