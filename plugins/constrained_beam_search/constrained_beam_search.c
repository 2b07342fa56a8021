/* constrained_beam_search.c - beam search for sequences that hold given phrases.
 * Anderson et al., Guided Open Vocabulary Image Captioning with Constrained Beam Search (2017), arXiv:1612.00576; Post and
 * Vilar, Fast Lexically Constrained Decoding with Dynamic Beam Allocation (2018), https://arxiv.org/abs/1804.06609; as
 * _constrained_beam_search of transformers 4.55.4.
 *
 * To the candidates of a plain beam search come those that bring a beam one token further in what must appear, however
 * unlikely. All are sorted into banks by how much they hold of it, and the next beams are taken from the banks in turn:
 * the best of each, then the second of each, and so on. */
#include "constraints.h"
#include "scorer.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    cdz_int_choices force_words_ids;
    cdz_opt_real length_penalty;
    cdz_word early_stopping;
} constrained;

static const cdz_param params[] = {
    CDZ_INT_CHOICES(constrained, force_words_ids, CDZ_GENERATION, 0, 2147483647.0,
                    "phrases that must appear; an item that is a list of phrases: one of them"),
    CDZ_RANKING_LENGTH(constrained),
    CDZ_RANKING_STOP(constrained),
};

/* A beam that may come next. */
typedef struct option {
    uint32_t row; /* request row it continues */
    int32_t token;
    float score;
    int64_t bank;
    float rank;           /* by bank, then by score; what options are sorted by */
    uint32_t order, turn; /* as they came; the place in its bank */
} option;

typedef struct search {
    cdz_scorer s;
    cdz_constraints words;
    cdz_progress *progress, *next; /* (n_prompts * n_beams) of running rows; of the next ones */
    cdz_progress trial;
    cdz_pool *pools; /* (n_prompts) */

    /* of one prompt and step */
    option *options; /* (n_beams * (n_nodes + 1)) */
    uint32_t n_options;
    int32_t *tokens;       /* (n_nodes) */
    uint32_t *twin;        /* (n_beams) the first beam that holds the same ids */
    const cdz_link **made; /* (n_beams) */
} search;

/* --- begin ---------------------------------------------------------------------------------------------------- */

static cdz_status configure(search *c)
{
    const constrained *p = c->s.step->params;
    const cdz_ranking ranking = {p->length_penalty, p->early_stopping};
    const uint32_t n_beams = c->s.step->request->num_beams;
    if (n_beams < 2)
        return cdz_fail(c->s.step, CDZ_E_USAGE, "force_words_ids: needs num_beams above 1");
    CDZ_TRY(cdz_constraints_read(c->s.step, &p->force_words_ids, &c->words));
    return cdz_scorer_begin(&c->s, ranking, n_beams, "constrained beam search");
}

static cdz_status make_room(search *c)
{
    cdz_scorer *s = &c->s;
    const size_t rows = (size_t)s->n_prompts * s->n_beams;
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *c->progress, &c->progress));
    CDZ_TRY(cdz_scorer_take(s, rows, sizeof *c->next, &c->next));
    CDZ_TRY(cdz_scorer_take(s, s->n_prompts, sizeof *c->pools, &c->pools));
    CDZ_TRY(cdz_scorer_take(s, (size_t)s->n_beams * (c->words.n_nodes + 1), sizeof *c->options,
                            &c->options));
    CDZ_TRY(cdz_scorer_take(s, c->words.n_nodes, sizeof *c->tokens, &c->tokens));
    CDZ_TRY(cdz_scorer_take(s, s->n_beams, sizeof *c->twin, &c->twin));
    CDZ_TRY(cdz_scorer_take(s, s->n_beams, sizeof *c->made, &c->made));
    CDZ_TRY(cdz_progress_new(s->step, &c->words, &c->trial));
    for (uint32_t b = 0; b < s->n_prompts; b++)
        CDZ_TRY(cdz_scorer_pool(s, &c->pools[b], s->n_beams));
    return CDZ_OK;
}

/* What the prompt holds counts, as in the reference. */
static cdz_status begin(search *c)
{
    for (uint32_t r = 0; r < c->s.n_prompts * c->s.n_beams; r++) {
        const cdz_ids ids = cdz_input_ids(c->s.dec, r);
        CDZ_TRY(cdz_progress_new(c->s.step, &c->words, &c->progress[r]));
        CDZ_TRY(cdz_progress_new(c->s.step, &c->words, &c->next[r]));
        for (uint32_t i = 0; i < ids.len; i++)
            cdz_progress_add(&c->words, &c->progress[r], ids.at[i]);
    }
    return CDZ_OK;
}

/* --- options -------------------------------------------------------------------------------------------------- */

static void find_twins(search *c, uint32_t first)
{
    for (uint32_t k = 0; k < c->s.n_beams; k++) {
        const cdz_ids mine = cdz_input_ids(c->s.dec, first + k);
        uint32_t j = 0;
        for (; j < k; j++) {
            const cdz_ids other = cdz_input_ids(c->s.dec, first + j);
            if (memcmp(mine.at, other.at, mine.len * sizeof *mine.at) == 0) break;
        }
        c->twin[k] = j;
    }
}

static bool is_there(const search *c, uint32_t first, uint32_t row, int32_t token)
{
    for (uint32_t i = 0; i < c->n_options; i++)
        if (c->options[i].token == token &&
            c->twin[c->options[i].row - first] == c->twin[row - first])
            return true;
    return false;
}

static void put_option(search *c, uint32_t row, int32_t token, float score, int64_t bank)
{
    option *o = &c->options[c->n_options];
    *o = (option){.row = row, .token = token, .score = score, .bank = bank, .order = c->n_options};
    c->n_options++;
}

/* What plain beam search would go on with. */
static void plain_options(search *c)
{
    for (uint32_t k = 0; k < c->s.width; k++) {
        const cdz_candidate *from = &c->s.candidates[c->s.kept[k]];
        const uint32_t row = c->s.rows[c->s.kept[k]];
        cdz_progress_copy(&c->trial, &c->progress[row]);
        cdz_progress_add(&c->words, &c->trial, from->token);
        put_option(c, row, from->token, from->score, cdz_progress_bank(&c->words, &c->trial));
    }
}

/* The reference's copies of a choice that is being worked on share one list of its tokens: each token tried here moves
 * them all on. `shared`: the node that list has reached. */
static void move_shared(const search *c, const cdz_progress *from, int32_t token, int32_t *shared)
{
    if (!c->s.quirks || from->current < 0 || !c->words.at[from->current].is_choice) return;
    const int32_t node = cdz_trie_child(&c->words, *shared, token);
    if (node >= 0) *shared = node;
}

static bool shares(const search *c, const cdz_progress *from)
{
    return c->s.quirks && from->current >= 0 && c->words.at[from->current].is_choice &&
           c->trial.current == from->current;
}

/* The tokens that bring a beam further. */
static void forced_options(search *c, uint32_t first, uint32_t row)
{
    const cdz_progress *from = &c->progress[row];
    const uint32_t before = c->n_options;
    const uint32_t n = cdz_progress_next(&c->words, from, c->tokens);
    int32_t shared = from->node;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t token = c->tokens[i];
        cdz_progress_copy(&c->trial, from);
        c->trial.node = shared;
        cdz_progress_add(&c->words, &c->trial, token);
        move_shared(c, from, token, &shared);
        if (is_there(c, first, row, token)) continue;
        const float score = cdz_row(&c->s.scores, row)[token] + c->s.score[row];
        const int64_t bank = shares(c, from) ? -1 : cdz_progress_bank(&c->words, &c->trial);
        put_option(c, row, token, score, bank);
    }
    cdz_progress_copy(&c->trial, from);
    c->trial.node = shared;
    for (uint32_t i = before; i < c->n_options; i++)
        if (c->options[i].bank < 0) c->options[i].bank = cdz_progress_bank(&c->words, &c->trial);
}

/* --- banks ---------------------------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
    const option *x = a, *y = b;
    if (x->rank != y->rank) return x->rank > y->rank ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_turn(const void *a, const void *b)
{
    const option *x = a, *y = b;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Puts the options in the order of choice: a bank weighs as much as a log-probability of 100. */
static void take_turns(search *c)
{
    const uint32_t n = c->n_options;
    for (uint32_t i = 0; i < n; i++)
        c->options[i].rank = (float)(c->options[i].bank * 100) + c->options[i].score;
    qsort(c->options, n, sizeof *c->options, by_rank);
    for (uint32_t i = 0; i < n; i++) {
        option *o = &c->options[i];
        const bool same = i > 0 && o->bank == c->options[i - 1].bank;
        o->turn = same ? c->options[i - 1].turn + 1 : 0;
        o->order = i;
    }
    qsort(c->options, n, sizeof *c->options, by_turn);
}

static void find_options(search *c, uint32_t first)
{
    c->n_options = 0;
    find_twins(c, first);
    plain_options(c);
    for (uint32_t k = 0; k < c->s.n_beams; k++)
        if (!cdz_progress_complete(&c->words, &c->progress[first + k]))
            forced_options(c, first, first + k);
    if (c->n_options > c->s.n_beams) take_turns(c);
}

/* --- one step ------------------------------------------------------------------------------------------------- */

/* Only what holds everything may end. */
static cdz_status keep_ended(search *c, cdz_pool *pool)
{
    cdz_scorer *s = &c->s;
    for (uint32_t i = 0; i < s->n_ended; i++) {
        const uint32_t e = s->ended[i], row = s->rows[e];
        cdz_hypothesis h = {.stop = s->candidate_stops[e]};
        if (!cdz_progress_complete(&c->words, &c->progress[row])) continue;
        CDZ_TRY(cdz_scorer_link(s, row, s->suffixes[e], (int32_t)row, &h.last));
        h.path = h.last;
        cdz_scorer_add(s, pool, s->n_beams, h, s->candidates[e].score, s->n_new + 1);
    }
    return CDZ_OK;
}

static cdz_status run_on(search *c, uint32_t first)
{
    cdz_scorer *s = &c->s;
    for (uint32_t k = 0; k < s->n_beams; k++) {
        const option *o = &c->options[k];
        CDZ_TRY(cdz_scorer_link(s, o->row, o->token, (int32_t)o->row, &c->made[k]));
        s->score[first + k] = o->score;
        s->parents[first + k] = o->row;
        s->tokens[first + k] = o->token;
        cdz_progress_copy(&c->next[first + k], &c->progress[o->row]);
        cdz_progress_add(&c->words, &c->next[first + k], o->token);
        s->ids[k] = (cdz_ids){&s->tokens[first + k], 1};
    }
    CDZ_TRY(cdz_stop_test(s->dec, s->ids, s->parents + first, s->n_beams, s->stops + first));
    memcpy(s->running + first, c->made, s->n_beams * sizeof *c->made);
    return CDZ_OK;
}

/* A prompt that is done goes on with pads. */
static void rest(search *c, uint32_t first)
{
    const int32_t pad = c->s.step->request->pad;
    for (uint32_t k = 0; k < c->s.n_beams; k++) {
        c->s.score[first + k] = 0.0f;
        c->s.parents[first + k] = first + k;
        c->s.tokens[first + k] = pad >= 0 ? pad : 0;
    }
}

static cdz_status advance_prompt(search *c, uint32_t b)
{
    cdz_scorer *s = &c->s;
    const uint32_t first = b * s->n_beams;
    cdz_pool *pool = &c->pools[b];
    if (pool->done) {
        rest(c, first);
        return CDZ_OK;
    }
    CDZ_TRY(cdz_scorer_candidates(s, first));
    CDZ_TRY(keep_ended(c, pool));
    find_options(c, first);
    CDZ_TRY(run_on(c, first));
    cdz_scorer_settle(s, pool, s->n_beams, s->best);
    return CDZ_OK;
}

static bool all_done(const search *c)
{
    for (uint32_t b = 0; b < c->s.n_prompts; b++)
        if (!c->pools[b].done) return false;
    return true;
}

static cdz_status advance(search *c, bool *over)
{
    cdz_scorer *s = &c->s;
    CDZ_TRY(cdz_scorer_forward(s));
    CDZ_TRY(cdz_process(s->dec, &s->scores));
    CDZ_TRY(cdz_record(s->dec, CDZ_RECORD_SCORES, &s->scores));
    for (uint32_t b = 0; b < s->n_prompts; b++) CDZ_TRY(advance_prompt(c, b));
    cdz_progress *before = c->progress;
    c->progress = c->next;
    c->next = before;
    s->n_new++;
    *over = all_done(c) || cdz_scorer_all_stopped(s, c->pools, s->n_prompts);
    return *over ? CDZ_OK : cdz_extend_rows(s->dec, s->parents, s->tokens);
}

/* --- the answer ----------------------------------------------------------------------------------------------- */

static void add_running(search *c, uint32_t b, bool complete)
{
    cdz_scorer *s = &c->s;
    for (uint32_t r = b * s->n_beams; r < (b + 1) * s->n_beams; r++) {
        const cdz_hypothesis h = {s->running[r], s->running[r], 0, s->stops[r]};
        if (cdz_progress_complete(&c->words, &c->progress[r]) != complete) continue;
        cdz_scorer_add(s, &c->pools[b], s->n_beams, h, s->score[r], s->n_new);
    }
}

/* Beams that still run enter the pool, those that lack something only where too few have everything. */
static void close_pool(search *c, uint32_t b)
{
    uint32_t n_complete = 0;
    for (uint32_t r = b * c->s.n_beams; r < (b + 1) * c->s.n_beams; r++)
        n_complete += cdz_progress_complete(&c->words, &c->progress[r]);
    if (c->pools[b].done) return;
    add_running(c, b, true);
    if (n_complete < c->s.n_returned) add_running(c, b, false);
}

static cdz_status collect(search *c)
{
    cdz_scorer *s = &c->s;
    cdz_hypothesis *found;
    CDZ_TRY(cdz_scorer_take(s, (size_t)s->n_prompts * s->n_returned, sizeof *found, &found));
    for (uint32_t b = 0; b < s->n_prompts; b++) {
        const cdz_pool *pool = &c->pools[b];
        close_pool(c, b);
        CDZ_TRY(cdz_scorer_best(s, pool->at, pool->n, found + (size_t)b * s->n_returned));
    }
    return cdz_scorer_return(s, found);
}

/* [engine] Row b * num_beams + k is beam k of prompt b. */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    search c = {.s = {.dec = dec, .step = step}};
    bool over = false;
    CDZ_TRY(configure(&c));
    CDZ_TRY(make_room(&c));
    CDZ_TRY(begin(&c));
    while (!over) {
        const cdz_status status = advance(&c, &over);
        if (status == CDZ_OK) continue;
        if ((status == CDZ_E_CANCELLED || status == CDZ_E_DEADLINE) && c.s.n_new)
            (void)collect(&c); /* what there is; the request's end is told all the same */
        return status;
    }
    return collect(&c);
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.constrained-beam-search", .version = "1.0.0",
             .summary = "Beam search for sequences that contain given phrases",
             CDZ_PARAMS(constrained, params)},
    .caps = CDZ_BEAMS | CDZ_GREEDY,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&strategy.base)
