/* my_loader.c - make a processor of a file of token ids: it lowers the score of each. */
#include <cadenza/loader.h>
#include <cadenza/processor.h>

typedef struct {
    double penalty;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, penalty, 1000.0, 0.0, 1000000.0, "taken from the score of each token"),
};

/* A file in memory, the host's until it is closed. */
typedef struct {
    cdz_processor processor;
    const cdz_plugin_base *list[1];
    uint32_t n;
    uint32_t tokens[];
} listed;

/* --- the processor of a file ----------------------------------------------------------------------------- */

/* [row, no-alloc] In place on scores, (n_rows, n_vocab). */
static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const settings *p = step->params;
    const listed *file = step->plugin->loader_data;

    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (uint32_t i = 0; i < file->n; i++)
            if (file->tokens[i] < scores->n_vocab)
                cdz_row(scores, r)[file->tokens[i]] -= (float)p->penalty;
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "org.example.my-loader.tokens", .version = "0.1.0",
             .summary = "Lower the scores of listed tokens", CDZ_PARAMS(settings, params)},
    .caps = CDZ_ROWWISE,
    .apply = apply,
};

/* --- the loader -------------------------------------------------------------------------------------------- */

static cdz_status refuse(const cdz_step *step, const cdz_plugin_file *file, uint32_t line)
{
    return cdz_fail(step, CDZ_E_INPUT, "%s:%u: expected a token id of up to nine digits",
                    file->path, line);
}

/* A number a line; empty lines are fine. */
static cdz_status read_tokens(const cdz_step *step, const cdz_plugin_file *file, listed *out)
{
    uint32_t line = 1, digits = 0, token = 0;

    for (uint64_t i = 0; i <= file->len; i++) { /* the NUL at the end is a line's end too */
        const char c = file->bytes[i];
        if (c >= '0' && c <= '9' && digits < 9) {
            token = token * 10 + (uint32_t)(c - '0');
            digits++;
        } else if (c == '\n' || i == file->len) {
            if (digits > 0) out->tokens[out->n++] = token;
            token = digits = 0;
            line++;
        } else {
            return refuse(step, file, line);
        }
    }
    return CDZ_OK;
}

/* [load] All memory is cdz_alloc's, so there is nothing to close. */
static cdz_status open_tokens(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    /* a token takes two bytes at least, but for the last */
    listed *made = cdz_alloc(step, sizeof *made + (size_t)(file->len / 2 + 1) * sizeof(uint32_t));
    if (!made) return cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory", file->path);
    CDZ_TRY(read_tokens(step, file, made));
    made->processor = processor;
    made->processor.base.loader_data = made;
    made->list[0] = &made->processor.base;
    out->plugins = made->list;
    out->n_plugins = 1;
    return CDZ_OK;
}

static const cdz_loader my_loader = {
    .base = {CDZ_LOADER_BASE, .id = "org.example.my-loader", .version = "0.1.0",
             .summary = "Files of tokens to avoid"},
    .max_bytes = 1 << 20,
    .endings = "my_loader",
    .open = open_tokens,
};
CDZ_EXPORT_PLUGINS(&my_loader.base)
