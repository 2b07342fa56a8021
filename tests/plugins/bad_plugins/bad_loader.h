/* bad_loader.h - the same for loaders: an honest one of .bad files, whose first line is the id of a processor. */
#ifndef CADENZA_TESTS_BAD_LOADER_H
#define CADENZA_TESTS_BAD_LOADER_H

#include <cadenza/loader.h>
#include <cadenza/processor.h>
#include <string.h>

#define BAD_LOADER(...)                                                                            \
    static const cdz_loader bad = {.base = {CDZ_LOADER_BASE, .id = "org.example.bad",              \
                                            .version = "1.0.0", .summary = "A bad loader"},        \
                                   .max_bytes = 4096,                                              \
                                   .endings = "bad",                                               \
                                   __VA_ARGS__};                                                   \
    CDZ_EXPORT_PLUGINS(&bad.base)

typedef struct made {
    cdz_processor processor;
    const cdz_plugin_base *list[1];
} made;

static inline cdz_status do_nothing(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

/* The bytes of the id; 0: there is none, and nothing was said. */
static inline size_t id_bytes(const cdz_plugin_file *file)
{
    size_t n = 0;
    while (n < file->len && (file->bytes[n] == '.' || file->bytes[n] == '-' ||
                             (file->bytes[n] >= 'a' && file->bytes[n] <= 'z')))
        n++;
    return n < 64 && n < file->len && file->bytes[n] == '\n' ? n : 0;
}

static inline void put(cdz_opened *out, made *m, const char *id)
{
    m->processor = (cdz_processor){
        .base = {CDZ_PROCESSOR_BASE, .id = id, .version = "1.0.0", .summary = "Nothing"},
        .apply = do_nothing};
    m->list[0] = &m->processor.base;
    out->plugins = m->list;
    out->n_plugins = 1;
}

static inline cdz_status refuse_file(const cdz_step *step, const cdz_plugin_file *file)
{
    return cdz_fail(step, CDZ_E_INPUT, "%s:1: expected an id", file->path);
}

/* What an honest one does. */
static inline cdz_status open_well(const cdz_step *step, const cdz_plugin_file *file,
                                   cdz_opened *out)
{
    const size_t n = id_bytes(file);
    if (n == 0) return refuse_file(step, file);
    made *m = cdz_alloc(step, sizeof *m);
    char *id = cdz_alloc(step, n + 1);
    if (!m || !id) return cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory", file->path);
    memcpy(id, file->bytes, n);
    put(out, m, id);
    return CDZ_OK;
}

#endif
