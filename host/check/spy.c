/* spy.c - a table of verbs that stands before the decoder's own while run() runs. A function of the ABI has no argument of
 * ours, so what it needs is the process's. */
#include "check/spy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/utf8.h"
#include "call/calls.h"

enum { PATIENCE = 20000 }; /* verbs that a strategy may call after one has failed */

static struct {
    cdz_spy seen;
    cdz_child *c;
    cdz_strategy strategy;
    const cdz_decoder_api *real;
    cdz_decoder_api table;
} spy;

/* --- ids between guards ------------------------------------------------------------------------------------------ */

cdz_ids cdz_show_ids(uint32_t slot, cdz_ids ids)
{
    static int32_t *at[CDZ_SHOWN];
    const size_t bytes = CDZ_SHOWN_MOST * sizeof(int32_t);
    if (slot >= CDZ_SHOWN || ids.len > CDZ_SHOWN_MOST || ids.len == 0) return ids;
    if (!at[slot]) {
        at[slot] = cdz_guarded(bytes, sizeof(int32_t), true, "input_ids");
        if (!at[slot] ||
            !cdz_guarded_lock(at[slot], bytes, sizeof(int32_t), "input_ids, which are the host's"))
            return ids;
    }
    int32_t *to = at[slot] + CDZ_SHOWN_MOST - ids.len;
    cdz_guarded_unlock(at[slot], bytes);
    memcpy(to, ids.at, ids.len * sizeof *to);
    cdz_guarded_readable(at[slot], bytes, true);
    return (cdz_ids){to, ids.len};
}

/* --- verbs --------------------------------------------------------------------------------------------------------- */

/* Whether the verb that is called now is to fail. A strategy that never stops calling is ended with its process. */
static bool fails(void)
{
    cdz_spy *s = &spy.seen;
    s->calls++;
    if (s->fail_at == 0 || s->calls < s->fail_at) return false;
    if (++s->after < PATIENCE) return true;
    (void)cdz_fail_check(spy.c,
                         "verb %u of a request returned CDZ_E_CANCELLED, and the strategy went on to "
                         "call %d more: does it pass on what its verbs return?",
                         s->fail_at, (int)PATIENCE);
    _exit(0);
}

static cdz_status made(cdz_status status)
{
    spy.seen.live += status == CDZ_OK;
    return status;
}

#define VERB(name, params, args)                                                                   \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        if (fails()) return CDZ_E_CANCELLED;                                                       \
        return spy.real->name args;                                                                \
    }
#define MAKES(name, params, args)                                                                  \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        if (fails()) return CDZ_E_CANCELLED;                                                       \
        return made(spy.real->name args);                                                          \
    }
#define DRAWS(name, params, args)                                                                  \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        spy.seen.drew = true;                                                                      \
        if (fails()) return CDZ_E_CANCELLED;                                                       \
        return spy.real->name args;                                                                \
    }
VERB(forward, (cdz_decoder * dec, cdz_scores *out), (dec, out))
VERB(process, (cdz_decoder * dec, cdz_scores *s), (dec, s))
VERB(append, (cdz_decoder * dec, uint32_t row, int32_t token), (dec, row, token))
VERB(append_rows, (cdz_decoder * dec, int32_t *tokens), (dec, tokens))
VERB(append_chunk,
     (cdz_decoder * dec, uint32_t row, const int32_t *tokens, uint32_t n, const cdz_scores *logits,
      const cdz_scores *scores, uint32_t *taken),
     (dec, row, tokens, n, logits, scores, taken))
VERB(rewind, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n))
VERB(reorder, (cdz_decoder * dec, const uint32_t *parents), (dec, parents))
VERB(extend_rows, (cdz_decoder * dec, const uint32_t *parents, const int32_t *tokens),
     (dec, parents, tokens))
VERB(map, (cdz_decoder * dec, cdz_scores *s), (dec, s))
VERB(softmax, (cdz_decoder * dec, cdz_scores *s), (dec, s))
VERB(log_softmax, (cdz_decoder * dec, cdz_scores *s), (dec, s))
VERB(softmax_flat,
     (cdz_decoder * dec, const cdz_scores *s, uint32_t first, uint32_t n, const float *addends,
      cdz_scores *out),
     (dec, s, first, n, addends, out))
VERB(ban, (cdz_decoder * dec, cdz_scores *s, uint32_t row, int32_t token), (dec, s, row, token))
VERB(token_scores,
     (cdz_decoder * dec, const cdz_scores *s, const uint32_t *rows, const int32_t *tokens,
      uint32_t n, cdz_token_score *out),
     (dec, s, rows, tokens, n, out))
VERB(scratch_scores, (cdz_decoder * dec, uint32_t n, cdz_scores *out), (dec, n, out))
VERB(argmax, (cdz_decoder * dec, const cdz_scores *s, uint32_t row, cdz_pick *out),
     (dec, s, row, out))
VERB(argmax_rows, (cdz_decoder * dec, const cdz_scores *s, int32_t *tokens), (dec, s, tokens))
VERB(topk_flat,
     (cdz_decoder * dec, const cdz_scores *s, uint32_t first, uint32_t n, const float *addends,
      uint32_t m, cdz_candidate *out),
     (dec, s, first, n, addends, m, out))
DRAWS(multinomial, (cdz_decoder * dec, const cdz_scores *p, int32_t *tokens), (dec, p, tokens))
DRAWS(multinomial_flat,
      (cdz_decoder * dec, const cdz_scores *p, uint32_t first, uint32_t n, uint32_t m,
       cdz_candidate *out),
      (dec, p, first, n, m, out))
DRAWS(uniform, (cdz_decoder * dec, uint32_t n, float *out), (dec, n, out))
DRAWS(draw_rows, (cdz_decoder * dec, cdz_scores *s, int32_t *tokens), (dec, s, tokens))
MAKES(seq_new, (cdz_decoder * dec, const char *model, cdz_seq **out), (dec, model, out))
MAKES(seq_fork, (cdz_decoder * dec, const cdz_seq *seq, cdz_seq **out), (dec, seq, out))
MAKES(seq_new_exit, (cdz_decoder * dec, const char *model, uint32_t n, cdz_seq **out),
      (dec, model, n, out))
VERB(seq_append, (cdz_decoder * dec, cdz_seq *seq, const int32_t *ids, uint32_t n),
     (dec, seq, ids, n))
VERB(seq_truncate, (cdz_decoder * dec, cdz_seq *seq, uint32_t len), (dec, seq, len))
VERB(seq_forward,
     (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, cdz_positions positions, cdz_scores *out),
     (dec, seqs, n, positions, out))
VERB(seq_process,
     (cdz_decoder * dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n, cdz_scores *s),
     (dec, seqs, rows, n, s))
VERB(process_ids,
     (cdz_decoder * dec, uint32_t pipeline, const cdz_ids *ids, const uint32_t *rows, uint32_t n,
      cdz_scores *s),
     (dec, pipeline, ids, rows, n, s))
VERB(pipeline_derive,
     (cdz_decoder * dec, const char *const *exclude, uint32_t n_exclude, const char *const *append,
      uint32_t n_append, uint32_t *out),
     (dec, exclude, n_exclude, append, n_append, out))
VERB(keep_hidden, (cdz_decoder * dec, cdz_positions positions, const uint32_t *layers, uint32_t n),
     (dec, positions, layers, n))
VERB(hidden_states, (cdz_decoder * dec, cdz_hidden *out), (dec, out))
VERB(head, (cdz_decoder * dec, const float *hidden, uint32_t n, cdz_scores *out),
     (dec, hidden, n, out))
VERB(stop_test,
     (cdz_decoder * dec, const cdz_ids *ids, const uint32_t *rows, uint32_t n, cdz_stop *stops),
     (dec, ids, rows, n, stops))
VERB(propose, (cdz_decoder * dec, uint32_t row, cdz_draft *out), (dec, row, out))
VERB(judged, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n))
VERB(record, (cdz_decoder * dec, cdz_record_kind what, const cdz_scores *s), (dec, what, s))
VERB(put_result,
     (cdz_decoder * dec, const char *name, cdz_result_type type, uint32_t n_dims,
      const uint64_t *shape, const void *data),
     (dec, name, type, n_dims, shape, data))

/* The one verb that is of use after a request was cancelled. */
static cdz_status spy_return_rows(cdz_decoder *dec, const cdz_returned *rows, uint32_t n)
{
    spy.seen.returned_rows = true;
    return spy.real->return_rows(dec, rows, n);
}

/* The kit's requests have no end-of-sequence token, no time limit and no stop string. */
static void look_at_reason(cdz_stop_reason reason, const char *text)
{
    static const char *const cannot[] = {
        [CDZ_STOP_EOS] = "CDZ_STOP_EOS, in a request without an end-of-sequence token",
        [CDZ_STOP_LENGTH] = NULL,
        [CDZ_STOP_TIME] = "CDZ_STOP_TIME, in a request without a time limit",
        [CDZ_STOP_STRING] = "CDZ_STOP_STRING, in a request without stop strings",
    };
    const char *what = (unsigned)reason < CDZ_STOP_CUSTOM ? cannot[reason] : NULL;
    if (reason == CDZ_STOP_CUSTOM && (!text || !text[0])) what = "CDZ_STOP_CUSTOM without a text";
    if (reason == CDZ_STOP_CUSTOM && text && !cdz_utf8_valid(text, strlen(text)))
        what = "CDZ_STOP_CUSTOM and a text that is no UTF-8";
    if (what && !spy.seen.complaint[0])
        snprintf(spy.seen.complaint, sizeof spy.seen.complaint, "finish was called with %s", what);
}

static cdz_status spy_finish(cdz_decoder *dec, uint32_t row, cdz_stop_reason reason,
                             const char *text)
{
    if (fails()) return CDZ_E_CANCELLED;
    look_at_reason(reason, text);
    return spy.real->finish(dec, row, reason, text);
}

static bool spy_done(const cdz_decoder *dec)
{
    return spy.seen.after > 0 || spy.real->done(dec);
}

static bool spy_cancelled(const cdz_decoder *dec)
{
    return spy.seen.after > 0 || spy.real->cancelled(dec);
}

static void spy_seq_free(cdz_decoder *dec, cdz_seq *seq)
{
    spy.seen.live -= seq && spy.seen.live > 0;
    spy.real->seq_free(dec, seq);
}

static cdz_ids spy_input_ids(const cdz_decoder *dec, uint32_t row)
{
    const cdz_ids ids = spy.real->input_ids(dec, row);
    return spy.seen.guards_ids ? cdz_show_ids(row, ids) : ids;
}

/* --- planting ------------------------------------------------------------------------------------------------------ */

static void fill_table(void)
{
    cdz_decoder_api *t = &spy.table;
    *t = *spy.real;
#define PUT(name) t->name = spy_##name
    PUT(forward), PUT(process), PUT(append), PUT(append_rows), PUT(append_chunk), PUT(rewind);
    PUT(reorder), PUT(extend_rows), PUT(map), PUT(softmax), PUT(log_softmax), PUT(softmax_flat);
    PUT(ban), PUT(token_scores), PUT(scratch_scores), PUT(argmax), PUT(argmax_rows), PUT(topk_flat);
    PUT(multinomial), PUT(multinomial_flat), PUT(uniform), PUT(draw_rows), PUT(seq_new);
    PUT(seq_fork), PUT(seq_new_exit), PUT(seq_append), PUT(seq_truncate), PUT(seq_forward);
    PUT(seq_process), PUT(process_ids), PUT(pipeline_derive), PUT(keep_hidden), PUT(hidden_states);
    PUT(head), PUT(stop_test), PUT(propose), PUT(judged), PUT(record), PUT(put_result);
    PUT(return_rows), PUT(finish), PUT(done), PUT(cancelled), PUT(seq_free), PUT(input_ids);
#undef PUT
}

static cdz_status watched_run(cdz_decoder *dec, const cdz_step *step)
{
    cdz_spy *s = &spy.seen;
    s->calls = s->after = s->live = 0;
    s->drew = s->returned_rows = false;
    spy.real = dec->api;
    fill_table();
    dec->api = &spy.table;
    cdz_call inside = {.raw = true}; /* the host's own guard is round it */
    s->returned = cdz_call_run(&inside, &spy.strategy, dec, step);
    dec->api = spy.real;
    return s->returned;
}

cdz_status cdz_spy_plant(const cdz_bench *b, cdz_spy **out, cdz_error *err)
{
    cdz_plugin_ref ref;
    CDZ_TRY(
        cdz_registry_find(b->runtime->registry, CDZ_KIND_STRATEGY, b->c->ref.base->id, &ref, err));
    cdz_strategy *strategy = (cdz_strategy *)(uintptr_t)ref.base; /* the registry's own copy */
    spy.c = b->c;
    spy.strategy = *strategy;
    strategy->run = watched_run;
    cdz_module_release(ref.module); /* the registry keeps it */
    *out = &spy.seen;
    return CDZ_OK;
}
