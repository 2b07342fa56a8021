/* beam.c - keep the best num_beams continuations of every prompt, and the best that ended.
 * transformers GenerationMixin._beam_search, with do_sample=True beam sampling: one loop for both. A candidate is a
 * running beam and one more token; from each prompt's best (or drawn) candidates come the next running beams and the
 * sequences that ended. Order, ties, float32 arithmetic and the constant -1e9 are the reference's: disabled entries
 * tie, and ties decide.
 *
 * What a beam generated is a chain of links, newest first, shared by all that continue it: a step makes one link per
 * candidate and copies no sequence. */
#include <cadenza/ext/vec.h>
#include <cadenza/strategy.h>
#include <math.h>
#include <string.h>

static const float OFF = -1.0e9f; /* added to what may not be chosen; the reference's constant */

typedef struct {
    cdz_opt_real length_penalty;
    cdz_word early_stopping;
} beam;

enum { STOP_LATER, STOP_WHEN_FULL, STOP_NEVER }; /* early_stopping = false, true, never */

static const cdz_param params[] = {
    CDZ_OPT_REAL(beam, length_penalty, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "scores of ended sequences are divided by their new tokens to this power"),
    CDZ_BOOL_OR_WORD(beam, early_stopping, CDZ_GENERATION, "never",
                     "true: stop once num_beams sequences ended; never: only when none can win"),
};

/* The newest token of a sequence. A NULL link is the prompt. */
typedef struct link {
    const struct link *before;
    uint32_t row, len; /* request row whose scores it came from; tokens up to here */
    int32_t token;
    cdz_token_score said;
    cdz_stop stop;
} link;

typedef struct ended {
    const link *last;
    float score;
    bool done; /* false: an empty slot, whatever it holds */
} ended;

typedef struct search {
    cdz_decoder *dec;
    const cdz_step *step;
    const cdz_vec *vec;
    bool samples;
    int early_stopping;
    double length_penalty;
    uint32_t n_prompts, n_beams, n_candidates, n_returned; /* all but the first: per prompt */
    uint32_t n_new;                                        /* tokens generated so far */

    /* (n_prompts, n_beams) */
    const link **running;
    float *running_score;
    ended *pool; /* best first */
    uint32_t *parents;
    int32_t *tokens;
    bool *can_improve; /* (n_prompts) latches false */

    /* (n_prompts, n_candidates) of one step */
    cdz_candidate *candidates; /* score: with the beam's, as all below */
    uint32_t *rows;            /* request rows they continue */
    int32_t *suffixes;         /* their tokens */
    cdz_ids *ids;              /* each suffix as ids */
    cdz_token_score *said;
    cdz_stop *stops;

    /* of one prompt and step */
    link **links; /* (n_candidates) */
    link *fresh;  /* (n_fresh, n_candidates) not used yet */
    size_t n_fresh;
    float *flat, *best; /* (n_beams + n_candidates) to choose from; what was chosen */
    int32_t *chosen;    /* (n_beams + n_candidates) */
    ended *merged;      /* (n_beams + n_candidates) */
    void *room;         /* of top-k over these */

    cdz_scores scores, probs; /* (n_prompts * n_beams, n_vocab) of this step; probs when sampling */
} search;

/* --- begin ---------------------------------------------------------------------------------------------------- */

static cdz_status check(search *s)
{
    const cdz_request_info *request = s->step->request;
    const uint64_t flat = (uint64_t)s->n_beams * request->n_vocab;
    if ((uint64_t)s->n_prompts * s->n_beams != cdz_n_rows(s->dec))
        return cdz_fail(s->step, CDZ_E_USAGE,
                        "beam: %u rows for %u prompts of %u beams; num_return_sequences must not "
                        "be above num_beams",
                        cdz_n_rows(s->dec), s->n_prompts, s->n_beams);
    if (s->n_candidates > flat)
        return cdz_fail(s->step, CDZ_E_USAGE,
                        "beam: %u beams and %u eos_token_id need %u candidates, but %u beams of %u "
                        "tokens have only %llu",
                        s->n_beams, request->eos.len, s->n_candidates, s->n_beams, request->n_vocab,
                        (unsigned long long)flat);
    return CDZ_OK;
}

static cdz_status configure(search *s)
{
    const beam *p = s->step->params;
    const cdz_request_info *request = s->step->request;
    int64_t n_returned = 1;
    s->vec = cdz_get_vec(s->step);
    if (!s->vec) return cdz_fail(s->step, CDZ_E_UNSUPPORTED, "beam: needs " CDZ_EXT_VEC);
    CDZ_TRY(s->step->host->config(s->step, "num_return_sequences", CDZ_T_INT, &n_returned));
    s->samples = request->do_sample;
    s->early_stopping = p->early_stopping.set ? p->early_stopping.value : STOP_LATER;
    s->length_penalty = p->length_penalty.set ? p->length_penalty.value : 1.0;
    s->n_prompts = request->n_prompts;
    s->n_beams = request->num_beams;
    s->n_returned = (uint32_t)n_returned;
    const uint32_t n = request->eos.len + 1 > 2 ? request->eos.len + 1 : 2;
    s->n_candidates = n * s->n_beams;
    return check(s);
}

/* Zeroed memory until the strategy returns; remembers a failure in *ok. */
static void *take(search *s, size_t n, size_t bytes, bool *ok)
{
    void *at = n <= PTRDIFF_MAX / bytes ? cdz_scratch(s->step, n * bytes) : NULL;
    if (at)
        memset(at, 0, n * bytes);
    else
        *ok = false;
    return at;
}

static cdz_status make_room(search *s)
{
    const size_t rows = (size_t)s->n_prompts * s->n_beams, m = s->n_candidates;
    const size_t all = s->n_beams + m, every = s->n_prompts * m;
    bool ok = true;
    s->running = take(s, rows, sizeof *s->running, &ok);
    s->running_score = take(s, rows, sizeof *s->running_score, &ok);
    s->pool = take(s, rows, sizeof *s->pool, &ok);
    s->parents = take(s, rows, sizeof *s->parents, &ok);
    s->tokens = take(s, rows, sizeof *s->tokens, &ok);
    s->can_improve = take(s, s->n_prompts, sizeof *s->can_improve, &ok);
    s->candidates = take(s, every, sizeof *s->candidates, &ok);
    s->links = take(s, m, sizeof *s->links, &ok);
    s->rows = take(s, every, sizeof *s->rows, &ok);
    s->suffixes = take(s, every, sizeof *s->suffixes, &ok);
    s->ids = take(s, every, sizeof *s->ids, &ok);
    s->said = take(s, every, sizeof *s->said, &ok);
    s->stops = take(s, every, sizeof *s->stops, &ok);
    s->flat = take(s, all, sizeof *s->flat, &ok);
    s->best = take(s, all, sizeof *s->best, &ok);
    s->chosen = take(s, all, sizeof *s->chosen, &ok);
    s->merged = take(s, all, sizeof *s->merged, &ok);
    s->room = take(s, cdz_vec_scratch(all), 1, &ok);
    if (!ok) return cdz_fail(s->step, CDZ_E_NOMEM, "beam: no memory for %zu beams", rows);
    return s->samples ? cdz_scratch_scores(s->dec, (uint32_t)rows, &s->probs) : CDZ_OK;
}

/* Only the first beam of each prompt counts at the start: all are the same. */
static void begin(search *s)
{
    for (uint32_t i = 0; i < s->n_prompts * s->n_beams; i++) {
        s->running_score[i] = i % s->n_beams ? OFF : 0.0f;
        s->pool[i].score = OFF;
    }
    for (uint32_t b = 0; b < s->n_prompts; b++) s->can_improve[b] = true;
}

/* --- candidates ----------------------------------------------------------------------------------------------- */

/* The n_candidates best, or drawn, of prompt b, in the order of their choice. */
static cdz_status choose(search *s, uint32_t b)
{
    const uint32_t first = b * s->n_beams, m = s->n_candidates;
    const float *so_far = s->running_score + first;
    cdz_candidate *of_prompt = s->candidates + (size_t)b * m;
    if (!s->samples)
        return cdz_topk_flat(s->dec, &s->scores, first, s->n_beams, so_far, m, of_prompt);
    CDZ_TRY(cdz_softmax_flat(s->dec, &s->scores, first, s->n_beams, so_far, &s->probs));
    return cdz_multinomial_flat(s->dec, &s->probs, first, s->n_beams, m, of_prompt);
}

/* Candidates of prompt b as rows and what follows them. */
static void list(search *s, uint32_t b)
{
    const uint32_t m = s->n_candidates, from = b * m;
    for (uint32_t i = from; i < from + m; i++) {
        s->rows[i] = b * s->n_beams + s->candidates[i].row;
        s->suffixes[i] = s->candidates[i].token;
        s->ids[i] = (cdz_ids){&s->suffixes[i], 1};
    }
}

/* What the scores and the stop rules say of each candidate: they are asked once, about those of all prompts. */
static cdz_status ask(search *s)
{
    const uint32_t m = s->n_prompts * s->n_candidates;
    for (uint32_t b = 0; b < s->n_prompts; b++) list(s, b);
    CDZ_TRY(cdz_token_scores(s->dec, &s->scores, s->rows, s->suffixes, m, s->said));
    for (uint32_t i = 0; s->samples && i < m; i++)
        s->candidates[i].score = s->said[i].score + s->running_score[s->rows[i]];
    return cdz_stop_test(s->dec, s->ids, s->rows, m, s->stops);
}

/* Links of one step and prompt. Memory for a whole request of ordinary size is asked for once. NULL: there is none. */
static link *new_links(search *s)
{
    enum { AT_ONCE = 1 << 20 }; /* bytes, and at least one step's */
    const cdz_request_info *request = s->step->request;
    const size_t each = s->n_candidates * sizeof *s->fresh;
    if (s->n_fresh == 0) {
        const size_t left = (size_t)(request->max_length - request->prompt_len) * s->n_prompts;
        s->n_fresh = each && each < AT_ONCE ? AT_ONCE / each : 1;
        if (left > 0 && s->n_fresh > left) s->n_fresh = left;
        s->fresh = cdz_scratch(s->step, s->n_fresh * each);
        if (!s->fresh) return NULL;
    }
    link *made = s->fresh;
    s->fresh += s->n_candidates;
    s->n_fresh--;
    return made;
}

static cdz_status make_links(search *s, uint32_t b)
{
    const uint32_t m = s->n_candidates, from = b * m;
    link *made = new_links(s);
    if (!made) return cdz_fail(s->step, CDZ_E_NOMEM, "beam: no memory for another step");
    for (uint32_t i = 0; i < m; i++) {
        made[i] = (link){.before = s->running[s->rows[from + i]],
                         .row = s->rows[from + i],
                         .len = s->n_new + 1,
                         .token = s->suffixes[from + i],
                         .said = s->said[from + i],
                         .stop = s->stops[from + i]};
        s->links[i] = &made[i];
    }
    return CDZ_OK;
}

/* Candidate i of prompt b. */
static bool hit(const search *s, uint32_t b, uint32_t i)
{
    return s->stops[(size_t)b * s->n_candidates + i].reason != CDZ_GO_ON;
}

/* --- the next running beams ----------------------------------------------------------------------------------- */

/* The best that did not end. Its scores are those with OFF added where a candidate ended: such a beam may run on when
 * too few are left, but cannot win. */
static void run_on(search *s, uint32_t b)
{
    const uint32_t first = b * s->n_beams, m = s->n_candidates;
    const cdz_candidate *candidates = s->candidates + (size_t)b * m;
    for (uint32_t i = 0; i < m; i++) s->flat[i] = candidates[i].score + (hit(s, b, i) ? OFF : 0.0f);
    s->vec->topk(s->flat, m, s->n_beams, s->best, s->chosen, s->room);
    for (uint32_t k = 0; k < s->n_beams; k++) {
        const link *l = s->links[s->chosen[k]];
        s->running[first + k] = l;
        s->running_score[first + k] = s->best[k];
        s->parents[first + k] = l->row;
        s->tokens[first + k] = l->token;
    }
}

/* --- sequences that ended ------------------------------------------------------------------------------------- */

static bool full(const search *s, uint32_t b)
{
    const ended *pool = s->pool + (size_t)b * s->n_beams;
    for (uint32_t k = 0; k < s->n_beams; k++)
        if (!pool[k].done) return false;
    return true;
}

/* Double inside, rounded once: the reference divides by a Python number. */
static float penalty(const search *s, uint32_t n_new)
{
    return (float)pow((double)n_new, s->length_penalty);
}

/* Only the first n_beams candidates may end; others that did are lost, as in the reference. Each OFF is an addition
 * of its own: what is refused twice ranks below what is refused once. */
static void keep_ended(search *s, uint32_t b)
{
    ended *pool = s->pool + (size_t)b * s->n_beams;
    const uint32_t K = s->n_beams, m = s->n_candidates;
    const cdz_candidate *candidates = s->candidates + (size_t)b * m;
    const bool closed = s->early_stopping == STOP_WHEN_FULL && full(s, b);
    memcpy(s->merged, pool, K * sizeof *pool);
    for (uint32_t i = 0; i < m; i++) {
        ended *e = &s->merged[K + i];
        *e = (ended){s->links[i], candidates[i].score / penalty(s, s->n_new + 1),
                     hit(s, b, i) && i < K};
        e->score += closed ? OFF : 0.0f;
        e->score += s->can_improve[b] ? 0.0f : OFF;
        e->score += e->done ? 0.0f : OFF;
    }
    for (uint32_t i = 0; i < K + m; i++) s->flat[i] = s->merged[i].score;
    s->vec->topk(s->flat, K + m, K, s->best, s->chosen, s->room);
    for (uint32_t k = 0; k < K; k++) pool[k] = s->merged[s->chosen[k]];
}

/* --- is it over? ---------------------------------------------------------------------------------------------- */

/* Whether the best running beam could still beat the worst of the pool; s->n_new counts the new token. */
static void look_ahead(search *s, uint32_t b)
{
    const ended *pool = s->pool + (size_t)b * s->n_beams;
    const cdz_request_info *request = s->step->request;
    const bool at_best = s->early_stopping == STOP_NEVER && s->length_penalty > 0.0;
    const uint32_t len = at_best ? request->max_length - request->prompt_len : s->n_new;
    const float best = s->running_score[(size_t)b * s->n_beams] / penalty(s, len);
    float lowest = pool[0].score;
    bool better = false;
    for (uint32_t k = 1; k < s->n_beams; k++)
        if (pool[k].score < lowest) lowest = pool[k].score;
    for (uint32_t k = 0; k < s->n_beams; k++) better |= best > (pool[k].done ? lowest : OFF);
    s->can_improve[b] = s->can_improve[b] && better;
}

static bool is_over(const search *s, bool all_hit)
{
    bool can_improve = false, all_full = true;
    for (uint32_t b = 0; b < s->n_prompts; b++) {
        can_improve |= s->can_improve[b];
        all_full &= full(s, b);
    }
    return all_hit || !can_improve || (s->early_stopping == STOP_WHEN_FULL && all_full);
}

/* --- one step ------------------------------------------------------------------------------------------------- */

static cdz_status score(search *s)
{
    CDZ_TRY(cdz_forward(s->dec, &s->scores));
    CDZ_TRY(cdz_record(s->dec, CDZ_RECORD_LOGITS, &s->scores));
    CDZ_TRY(cdz_log_softmax(s->dec, &s->scores));
    CDZ_TRY(cdz_process(s->dec, &s->scores));
    return cdz_record(s->dec, CDZ_RECORD_SCORES, &s->scores);
}

static cdz_status advance(search *s, bool *over)
{
    bool all_hit = true;
    CDZ_TRY(score(s));
    for (uint32_t b = 0; b < s->n_prompts; b++) CDZ_TRY(choose(s, b));
    CDZ_TRY(ask(s));
    for (uint32_t b = 0; b < s->n_prompts; b++) {
        CDZ_TRY(make_links(s, b));
        run_on(s, b);
        keep_ended(s, b);
        for (uint32_t i = 0; i < s->n_candidates; i++) all_hit &= hit(s, b, i);
    }
    s->n_new++;
    for (uint32_t b = 0; b < s->n_prompts; b++) look_ahead(s, b);
    *over = is_over(s, all_hit);
    return *over ? CDZ_OK : cdz_extend_rows(s->dec, s->parents, s->tokens);
}

/* --- the result ----------------------------------------------------------------------------------------------- */

typedef struct answer {
    uint32_t n, width; /* sequences; tokens of the longest */
    cdz_returned *rows;
    float *scores;    /* (n) */
    int32_t *indices; /* (n, width) */
} answer;

/* What fills a shorter sequence up. A pad token of 0 counts as none, as in the reference. */
static int32_t filler(const cdz_request_info *request)
{
    if (request->eos.len == 0) return -1;
    return request->pad > 0 ? request->pad : request->eos.at[0];
}

/* The sequence that ends with `last`, oldest token first, filled up to width. */
static bool unroll(search *s, const link *last, uint32_t width, cdz_returned *out, int32_t *indices)
{
    bool ok = true;
    const uint32_t n = last ? last->len : 0;
    int32_t *ids = take(s, (size_t)width + 1, sizeof *ids, &ok);
    cdz_token_score *said = take(s, (size_t)n + 1, sizeof *said, &ok);
    if (!ok) return false;
    for (uint32_t i = n; i < width; i++) {
        ids[i] = filler(s->step->request);
        indices[i] = -1;
    }
    for (const link *l = last; l; l = l->before) {
        ids[l->len - 1] = l->token;
        said[l->len - 1] = l->said;
        indices[l->len - 1] = (int32_t)l->row;
    }
    out->ids = (cdz_ids){ids, width};
    out->n_new = n;
    out->scores = said;
    return true;
}

static uint32_t longest(const search *s, const ended *found)
{
    uint32_t width = 0;
    for (uint32_t i = 0; i < s->n_prompts * s->n_returned; i++)
        if (found[i].last && found[i].last->len > width) width = found[i].last->len;
    return width;
}

static cdz_status make_answer(search *s, const ended *found, answer *a)
{
    bool ok = true;
    a->n = s->n_prompts * s->n_returned;
    a->width = longest(s, found);
    a->rows = take(s, a->n, sizeof *a->rows, &ok);
    a->scores = take(s, a->n, sizeof *a->scores, &ok);
    a->indices = take(s, (size_t)a->n * a->width + 1, sizeof *a->indices, &ok);
    for (uint32_t i = 0; ok && i < a->n; i++) {
        a->rows[i].row = i / s->n_returned * s->n_beams;
        if (found[i].done) a->rows[i].stop = found[i].last->stop;
        a->scores[i] = found[i].score;
        ok = unroll(s, found[i].last, a->width, &a->rows[i], a->indices + (size_t)i * a->width);
    }
    return ok ? CDZ_OK : cdz_fail(s->step, CDZ_E_NOMEM, "beam: no memory for the answer");
}

static cdz_status hand_back(search *s, const ended *found)
{
    answer a = {0};
    CDZ_TRY(make_answer(s, found, &a));
    CDZ_TRY(cdz_return_rows(s->dec, a.rows, a.n));
    const uint64_t shape[] = {a.n, a.width};
    const int32_t n_steps = (int32_t)s->n_new;
    CDZ_TRY(cdz_put_result(s->dec, "sequences_scores", CDZ_RESULT_F32, 1, shape, a.scores));
    CDZ_TRY(cdz_put_result(s->dec, "beam_indices", CDZ_RESULT_I32, 2, shape, a.indices));
    return cdz_put_result(s->dec, "n_steps", CDZ_RESULT_I32, 0, shape, &n_steps);
}

/* The first n_returned of each prompt's pool; where the search was cut short, running beams take the empty slots. */
static cdz_status collect(search *s, bool cut_short)
{
    bool ok = true;
    ended *found = take(s, (size_t)s->n_prompts * s->n_returned, sizeof *found, &ok);
    if (!ok) return cdz_fail(s->step, CDZ_E_NOMEM, "beam: no memory for the answer");
    for (uint32_t b = 0; b < s->n_prompts; b++) {
        const size_t first = (size_t)b * s->n_beams;
        uint32_t next = 0; /* running beam */
        for (uint32_t k = 0; k < s->n_returned; k++) {
            ended *f = &found[b * s->n_returned + k];
            *f = s->pool[first + k];
            if (f->done || !cut_short) continue;
            *f = (ended){.last = s->running[first + next],
                         .score = s->running_score[first + next] / penalty(s, s->n_new)};
            next++;
        }
    }
    return hand_back(s, found);
}

/* [engine] Row b * num_beams + k is beam k of prompt b. */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    search s = {.dec = dec, .step = step};
    bool over = false;
    CDZ_TRY(configure(&s));
    CDZ_TRY(make_room(&s));
    begin(&s);
    while (!over) {
        const cdz_status status = advance(&s, &over);
        if (status == CDZ_OK) continue;
        if ((status == CDZ_E_CANCELLED || status == CDZ_E_DEADLINE) && s.n_new)
            (void)collect(&s, true); /* what there is; the request's end is told all the same */
        return status;
    }
    return collect(&s, false);
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "beam", .version = "1.0.0",
             .summary = "Search with num_beams beams, or draw among their continuations",
             CDZ_PARAMS(beam, params)},
    .caps = CDZ_BEAMS | CDZ_SCORES_MOVE,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&strategy.base)
