/* states.c - hidden states and attention weights of recorded steps, and of a pair's encoder.
 *
 * A row's numbers hang on its own ids alone, so nothing is kept while the strategy runs but what each row held at each
 * step. Afterwards those prefixes are computed again, step after step in one sequence per row, which computes only what
 * changed, and this time what the layers give is written down. Shapes are transformers': the first step has the whole
 * prompt, later ones a position each; places that a mask hides are zeros. The encoder runs once, and is watched then. */
#include <string.h>
#include <unistd.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

static cdz_arena *arena_of(const cdz_loop *loop)
{
    return &loop->rows.berth->outcome->arena;
}

cdz_status cdz_states_note(cdz_loop *loop, cdz_recorded_step *step)
{
    const uint32_t n = loop->rows.at[0].seq->n;
    int32_t *ids = cdz_arena_array(&loop->rows.arena, (size_t)loop->rows.n * n + 1, sizeof *ids);
    if (!ids) return cdz_loop_nomem(loop);
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const cdz_seq *seq = loop->rows.at[r].seq;
        const uint32_t len = seq->n < n ? seq->n : n;
        if (len) memcpy(ids + (size_t)r * n, seq->ids, len * sizeof *ids);
    }
    step->ids = ids;
    step->n_ids = n;
    return CDZ_OK;
}

/* --- room ----------------------------------------------------------------------------------------------------------- */

/* n tensors of a shape, zeros. */
static bool make_tensors(cdz_arena *arena, uint32_t n, const uint64_t *shape, size_t n_dims,
                         float *const **out)
{
    size_t floats = 1;
    for (size_t i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(floats, (size_t)shape[i], &floats)) return false;
    float **all = cdz_arena_array(arena, n, sizeof *all);
    for (uint32_t i = 0; all && i < n; i++) {
        all[i] = cdz_arena_array(arena, floats, sizeof **all);
        if (!all[i]) return false;
    }
    *out = all;
    return all != NULL;
}

/* What a step's tensors measure: sets n_keys and n_queries, returns bytes. */
static double measure(const cdz_loop *loop, cdz_recorded_step *step, bool first)
{
    const cdz_arch *a = &loop->rows.model->weights->arch;
    const cdz_job *job = loop->job;
    step->n_keys = cdz_job_slots(job) + (step->n_ids - job->prompt_len);
    step->n_queries = first ? step->n_keys : 1;
    const double rows = (double)loop->rows.n * step->n_queries * sizeof(float);
    double bytes = 0;
    if (job->keep_hidden) bytes += rows * a->hidden * (a->n_layers + 1.0);
    if (job->keep_attentions)
        bytes += rows * a->n_heads * a->n_layers * ((double)step->n_keys + job->source_len);
    return bytes;
}

/* Attentions grow with the square of the prompt: more than half of the machine's memory is refused, not tried. */
static cdz_status allow(double bytes, cdz_error *err)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (memory <= 0 || bytes <= memory / 2) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT,
                   "output_attentions and output_hidden_states come to %.1f GiB; at most half of "
                   "this machine's %.1f GiB is taken",
                   bytes / (1u << 30), memory / (1u << 30));
}

static cdz_status make_room(cdz_loop *loop, cdz_recorded_step *step)
{
    const cdz_arch *a = &loop->rows.model->weights->arch;
    const cdz_job *job = loop->job;
    const uint64_t R = loop->rows.n, Q = step->n_queries, H = a->n_heads;
    const uint64_t hidden[] = {R, Q, a->hidden}, own[] = {R, H, Q, step->n_keys},
                   cross[] = {R, H, Q, job->source_len};
    cdz_arena *arena = arena_of(loop);
    if (job->keep_hidden && !make_tensors(arena, a->n_layers + 1, hidden, 3, &step->hidden))
        return cdz_loop_nomem(loop);
    if (!job->keep_attentions) return CDZ_OK;
    if (!make_tensors(arena, a->n_layers, own, 4, &step->attentions)) return cdz_loop_nomem(loop);
    if (job->sources && !make_tensors(arena, a->n_layers, cross, 4, &step->cross))
        return cdz_loop_nomem(loop);
    return CDZ_OK;
}

/* --- steps ---------------------------------------------------------------------------------------------------------- */

typedef struct replay {
    cdz_seq **work;        /* (n_rows) */
    cdz_capture *captures; /* (n_rows) */
} replay;

/* The work sequence of row r, holding what the row held at the step. */
static cdz_status set_ids(cdz_loop *loop, cdz_seq *seq, uint32_t r, const cdz_recorded_step *step)
{
    const int32_t *ids = step->ids + (size_t)r * step->n_ids;
    uint32_t same = 0;
    while (same < seq->n && same < step->n_ids && seq->ids[same] == ids[same]) same++;
    cdz_seq_cut(seq, same);
    return cdz_seq_push(seq, ids + same, step->n_ids - same, &loop->rows.error);
}

/* The first slot that step s looks from. The reference takes the accepted tokens of the first round of drafts from the
 * beginning of the pass, not from where the prompt ends (_split_model_outputs); with quirks so does this. */
static uint32_t first_query(const cdz_loop *loop, uint32_t s)
{
    const cdz_recorder *rec = &loop->recorder;
    const cdz_recorded_step *step = &rec->steps[s];
    const bool early = loop->rows.config.quirks && s > 0 && s < rec->n_first_chunk;
    return early ? s - 1 : step->n_keys - step->n_queries;
}

static cdz_status replay_step(cdz_loop *loop, const replay *again, uint32_t s)
{
    const cdz_recorded_step *step = &loop->recorder.steps[s];
    const uint32_t first = first_query(loop, s);
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        if (first + step->n_queries < step->n_keys) cdz_seq_forget(again->work[r]);
        CDZ_TRY(set_ids(loop, again->work[r], r, step));
        again->captures[r] = (cdz_capture){.hidden = step->hidden,
                                           .attentions = step->attentions,
                                           .cross = step->cross,
                                           .row = r,
                                           .first = first,
                                           .n_queries = step->n_queries,
                                           .n_keys = step->n_keys};
    }
    loop->captures = again->captures;
    const cdz_status status =
        cdz_verb_seq_forward(&loop->base, again->work, loop->rows.n, CDZ_POSITIONS_NONE, NULL);
    loop->captures = NULL;
    return status;
}

/* Sequences like the rows, with nothing in their caches. */
static cdz_status make_work(cdz_loop *loop, replay *again)
{
    again->work = cdz_arena_array(&loop->rows.arena, loop->rows.n, sizeof(cdz_seq *));
    again->captures = cdz_arena_array(&loop->rows.arena, loop->rows.n, sizeof(cdz_capture));
    if (!again->work || !again->captures) return cdz_loop_nomem(loop);
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        CDZ_TRY(cdz_verb_seq_fork(&loop->base, loop->rows.at[r].seq, &again->work[r]));
        cdz_seq_forget(again->work[r]);
    }
    return CDZ_OK;
}

static cdz_status replay_all(cdz_loop *loop)
{
    cdz_recorder *rec = &loop->recorder;
    replay again = {0};
    double bytes = 0;
    for (uint32_t s = 0; s < rec->n; s++) bytes += measure(loop, &rec->steps[s], s == 0);
    CDZ_TRY(allow(bytes, &loop->rows.error));
    CDZ_TRY(make_work(loop, &again));
    for (uint32_t s = 0; s < rec->n; s++) {
        CDZ_TRY(make_room(loop, &rec->steps[s]));
        CDZ_TRY(replay_step(loop, &again, s));
    }
    return CDZ_OK;
}

cdz_status cdz_states_replay(cdz_loop *loop)
{
    const cdz_status status = replay_all(loop);
    cdz_recorder *rec = &loop->recorder;
    for (uint32_t s = 0; status != CDZ_OK && s < rec->n; s++) /* all steps or none */
        rec->steps[s].hidden = rec->steps[s].attentions = rec->steps[s].cross = NULL;
    return status;
}

/* --- the encoder ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_states_of_sources(const cdz_job *job, cdz_encoded *sources, cdz_outcome *o,
                                 cdz_error *err)
{
    if (!job->sources || (!job->keep_hidden && !job->keep_attentions)) return CDZ_OK;
    const cdz_arch *a = job->model->weights->arch.encoder;
    const uint64_t P = job->n_prompts, T = job->source_len;
    const uint64_t hidden[] = {P, T, a->hidden}, own[] = {P, a->n_heads, T, T};
    const double wide = job->keep_attentions ? (double)a->n_heads * a->n_layers * (double)T : 0;
    CDZ_TRY(allow((double)(P * T) * (wide + (double)a->hidden * a->n_layers) * 4, err));
    cdz_capture *captures = cdz_arena_array(&o->arena, P, sizeof *captures);
    bool good = captures != NULL;
    if (good && job->keep_hidden)
        good = make_tensors(&o->arena, a->n_layers + 1, hidden, 3, &o->encoder_hidden);
    if (good && job->keep_attentions)
        good = make_tensors(&o->arena, a->n_layers, own, 4, &o->encoder_attentions);
    if (!good) return cdz_err_memory(err, "the encoder's states");
    o->n_sources = job->n_prompts;
    o->source_len = job->source_len;
    for (uint32_t i = 0; i < job->n_prompts; i++) {
        captures[i] = (cdz_capture){.hidden = o->encoder_hidden,
                                    .attentions = o->encoder_attentions,
                                    .row = i,
                                    .n_queries = job->source_len,
                                    .n_keys = job->source_len};
        sources[i].capture = &captures[i];
    }
    return CDZ_OK;
}

/* A request may end before its first pass: its tensors are room that nothing has filled. All prompts' or none. */
void cdz_states_drop_unread(const cdz_job *job, const cdz_encoded *sources, cdz_outcome *outcome)
{
    for (uint32_t i = 0; sources && i < job->n_prompts; i++)
        if (!sources[i].ready) outcome->encoder_hidden = outcome->encoder_attentions = NULL;
}
