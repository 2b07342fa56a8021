/* probe_host.c - what the kit does for plugins: the functions behind step->host, which notice what is forbidden. */
#include <stdatomic.h>
#include <string.h>

#include "cadenza/ext/companion.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/inserted.h"
#include "cadenza/ext/scores.h"
#include "cadenza/ext/text.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/trace.h"
#include "call/guard.h"
#include "check/probe.h"
#include "random/torch_rng.h"

static const float *companion_logits(const cdz_step *step, uint32_t r)
{
    const cdz_probe *t = cdz_probe_of(step);
    if (!t->companion) return NULL;
    return t->companion + (size_t)step->row_index[r] * t->info.n_vocab;
}

static const cdz_companion_host companion_host = {.size = sizeof companion_host,
                                                  .logits = companion_logits};

/* The kit's requests have no rows that others could ask about. */
static cdz_status no_constraint(const cdz_step *step, uint32_t row, uint32_t n,
                                cdz_row_constraint *out)
{
    (void)step, (void)row, (void)n;
    *out = (cdz_row_constraint){.size = sizeof *out};
    return CDZ_OK;
}

static const char *no_text(const cdz_step *step)
{
    (void)step;
    return NULL;
}

static uint32_t none_inserted(const cdz_step *step, uint32_t r)
{
    (void)step;
    (void)r;
    return 0;
}

/* The last n bytes of what the tokens of row r add; the kit's rows are short. */
static cdz_status row_tail(const cdz_step *step, uint32_t r, uint32_t n, cdz_string *out)
{
    const cdz_tokenizer_api *t = cdz_probe_tokenizer();
    if (!step->input_ids || r >= step->n_rows)
        return step->host->fail(step, CDZ_E_STATE, "text: this call shows no such row");
    const cdz_ids ids = step->input_ids[r];
    size_t len = 0, from;
    for (uint32_t i = step->request->prompt_len; i < ids.len; i++)
        len += t->token_text(step, ids.at[i]).len;
    char *all = cdz_scratch(step, len + 1), *at = all;
    if (!all) return step->host->fail(step, CDZ_E_NOMEM, "out of memory for a row's text");
    for (uint32_t i = step->request->prompt_len; i < ids.len; i++) {
        const cdz_string added = t->token_text(step, ids.at[i]);
        if (added.len) memcpy(at, added.at, added.len);
        at += added.len;
    }
    *at = '\0';
    for (from = len > n ? len - n : 0; from < len && ((unsigned char)all[from] & 0xC0) == 0x80;)
        from++;
    *out = (cdz_string){all + from, (uint32_t)(len - from)};
    return CDZ_OK;
}

static cdz_status row_text(const cdz_step *step, uint32_t r, cdz_string *out)
{
    return row_tail(step, r, UINT32_MAX, out);
}

/* The kit's rows lie between guards, at one place. */
static bool keeps_nothing(const cdz_step *step)
{
    (void)step;
    return false;
}

static cdz_status nothing_kept(const cdz_step *step, cdz_scores *scores, void **memory)
{
    (void)scores, (void)memory;
    return step->host->fail(step, CDZ_E_STATE, "scores: keep where may_keep was false");
}

static void release_nothing(void *memory)
{
    (void)memory;
}

static const cdz_scores_host scores_host = {.size = sizeof scores_host,
                                            .may_keep = keeps_nothing,
                                            .keep = nothing_kept,
                                            .release = release_nothing};

static const void *extension(const char *id)
{
    static const cdz_text_api text = {
        .size = sizeof text, .tail = row_tail, .since_prompt = row_text};
    static const cdz_constrained_host constrained = {.size = sizeof constrained,
                                                     .nth = no_constraint};
    static const cdz_inserted_api inserted = {.size = sizeof inserted, .uncounted = none_inserted};
    static const cdz_trace_api trace = {
        .size = sizeof trace, .request_id = no_text, .traceparent = no_text};
    if (strcmp(id, CDZ_EXT_TOKENIZER) == 0) return cdz_probe_tokenizer();
    if (strcmp(id, CDZ_EXT_GRAMMAR) == 0) return cdz_probe_grammar();
    if (strcmp(id, CDZ_EXT_CONSTRAINED) == 0) return &constrained;
    if (strcmp(id, CDZ_EXT_INSERTED) == 0) return &inserted;
    if (strcmp(id, CDZ_EXT_TEXT) == 0) return &text;
    if (strcmp(id, CDZ_EXT_TRACE) == 0) return &trace;
    if (strcmp(id, CDZ_EXT_SCORES) == 0) return &scores_host;
    if (strcmp(id, CDZ_EXT_COMPANION) == 0) return &companion_host;
    return cdz_host_extension(id);
}

static cdz_status keep_sentence(const cdz_step *step, cdz_status code, const char *text)
{
    return cdz_err(&cdz_probe_of(step)->said, code, "%s", text);
}

void cdz_probe_look_at_thread(const cdz_step *step, const char *function)
{
    const char *none = NULL;
    if (cdz_calling_now.thread == CDZ_THREAD_OWN)
        atomic_compare_exchange_strong(&cdz_probe_of(step)->astray, &none, function);
}

/* Whether memory asked for now is to be refused. */
static bool refused(cdz_probe *t)
{
    return ++t->n_taken == t->refuse_at;
}

static void *alloc(const cdz_step *step, size_t bytes)
{
    cdz_probe *t = cdz_probe_of(step);
    cdz_probe_look_at_thread(step, "cdz_alloc");
    if (!t->may_alloc) t->n_stray++;
    if (!t->may_alloc || refused(t)) return NULL;
    return cdz_arena_alloc_aligned(&t->memory, bytes, 64);
}

static void *scratch(const cdz_step *step, size_t bytes)
{
    cdz_probe *t = cdz_probe_of(step);
    return refused(t) ? NULL : cdz_scratch_take(&t->scratch, bytes);
}

static cdz_status config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    return cdz_generation_value(&cdz_probe_of(step)->config, name, type, out);
}

static void noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    cdz_philox(cdz_probe_of(step)->facts.seed, cdz_philox_key(step->plugin->id), row, position, out);
}

/* Of the process's plugin. */
static const cdz_call_files *its_files;

void cdz_probe_has_files(const cdz_call_files *files)
{
    its_files = files;
}

static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    cdz_probe_look_at_thread(step, "cdz_package_file");
    return cdz_call_find_file(step, its_files, name, out);
}

static double now_s(const cdz_step *step)
{
    return cdz_probe_of(step)->now;
}

const cdz_caller cdz_probe_caller = {
    .fail = keep_sentence,
    .alloc = alloc,
    .scratch = scratch,
    .config = config,
    .noise = noise,
    .now_s = now_s,
    .file = file,
};

const cdz_host cdz_probe_host = CDZ_HOST_WITH(extension);
