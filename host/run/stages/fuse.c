/* fuse.c - see fuse.h. What fuses is decided for each request once its processors have begun; whether it did, for each
 * row: a walk that cannot tell a cut leaves the row to the processors themselves, and is counted. */
#include "run/stages/fuse.h"

#include <math.h>
#include <string.h>

#include "call/calls.h"
#include "run/stages/edits.h"
#include "vec/vec.h"

enum { MOST_FORMS = 8, LONGEST_REST = 16 };

/* Has it a part in a walk? */
static bool walks(const cdz_form *form)
{
    return form->kind != CDZ_FORM_OTHER && form->kind < CDZ_FORM_EDIT;
}

static bool remembers(const cdz_stage *stage)
{
    return stage->state_size || stage->hears;
}

/* May it be asked at all? */
static bool describes(const cdz_rows *rows, const cdz_stage *stage)
{
    const cdz_offers *offers = &stage->instance->offers;
    if (!rows->berth->fuses || !stage->row_wise || !offers->form || offers->companion) return false;
    return !remembers(stage) || cdz_form_has_mask(offers->form);
}

/* Does the host go by what it says? A mask is for rows that are away, and a device that takes it. */
static bool counts(const cdz_rows *rows, const cdz_stage *stage)
{
    const cdz_form_api *api = stage->instance->offers.form;
    const cdz_backend *device = rows->model->device;
    if (stage->form.kind == CDZ_FORM_MASK)
        return cdz_form_has_mask(api) && device && device->api->takes_masks;
    if (remembers(stage)) return false;
    return stage->form.kind == CDZ_FORM_EDIT ? cdz_form_has_edits(api) : walks(&stage->form);
}

void cdz_stage_describe(cdz_rows *rows, cdz_stage *stage)
{
    stage->form = (cdz_form){.size = sizeof stage->form};
    if (!describes(rows, stage)) return;
    cdz_scope scope = {.rows = rows,
                       .plugin = stage->plugin,
                       .scratch = &rows->workers[0].scratch,
                       .error = &rows->workers[0].error};
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    cdz_call call = {.scratch = scope.scratch};
    if (!cdz_call_form(&call, stage->instance->offers.form, &step, &stage->form) ||
        !counts(rows, stage))
        stage->form.kind = CDZ_FORM_OTHER;
    cdz_rows_complain(rows, &call);
}

/* Forms of the stages from `from` on that run in the phase; those of other phases do not part them. *end: what follows. */
static size_t collect(const cdz_stage_chain *chain, uint32_t from, uint32_t to, uint32_t phase,
                      cdz_form *forms, uint32_t *end)
{
    size_t n = 0;
    for (*end = from; *end < to; ++*end) {
        const cdz_stage *stage = &chain->at[*end];
        if (!(stage->phases & phase)) continue;
        if (n == MOST_FORMS || !walks(&stage->form)) break;
        forms[n++] = stage->form;
    }
    return n;
}

uint32_t cdz_fuse_end(const cdz_stage_chain *chain, uint32_t from, uint32_t to, uint32_t phase)
{
    cdz_form forms[MOST_FORMS];
    uint32_t end;
    const size_t n = collect(chain, from, to, phase, forms, &end);
    return cdz_fusible(forms, n) ? end : from;
}

/* The list, of probabilities, in place of the row, which is long enough for it. */
static void put_list(const cdz_survivors *s, float *row, cdz_drawn *drawn)
{
    memcpy(row, s->ids, s->n * sizeof *s->ids);
    memcpy(row + s->n, s->x, s->n * sizeof *s->x);
    drawn->listed = true;
    drawn->n = (uint32_t)s->n;
}

/* Rows with thousands of survivors come in a row: after one, the walk is not tried for a while, longer each time. */
static bool rests(cdz_row_worker *worker)
{
    if (!cdz_rest_goes_on(&worker->rest)) return false;
    worker->fusings[CDZ_FUSE_MANY]++;
    return true;
}

static void note(cdz_row_worker *worker, cdz_fusing verdict)
{
    worker->fusings[verdict]++;
    cdz_rest_note(&worker->rest, verdict != CDZ_FUSE_MANY, LONGEST_REST);
}

bool cdz_fuse_row(const cdz_stage_chain *chain, uint32_t from, uint32_t to, uint32_t phase,
                  float *row, uint32_t n_vocab, cdz_row_worker *worker, cdz_drawn *drawn)
{
    const cdz_fuser *fuser = cdz_fuser_here();
    cdz_form forms[MOST_FORMS];
    cdz_survivors s;
    uint32_t end;
    const size_t n = collect(chain, from, to, phase, forms, &end);
    if (rests(worker)) return false;
    void *scratch = cdz_scratch_take(&worker->scratch, cdz_vec_scratch(n_vocab));
    if (!scratch) return false;
    const cdz_fusing verdict = fuser->run(row, n_vocab, forms, n, &s, scratch);
    note(worker, verdict);
    if (verdict == CDZ_FUSED) {
        if (drawn && 2 * s.n <= n_vocab) {
            fuser->softmax(&s, n_vocab);
            put_list(&s, row, drawn);
        } else {
            fuser->write(&s, row, n_vocab);
        }
    }
    cdz_scratch_reset(&worker->scratch);
    return verdict == CDZ_FUSED;
}

/* --- rows that are away ------------------------------------------------------------------------------------------- */

enum { MOST_ASKED = CDZ_LEADERS_MOST / 2, SOME_PROBABLE = 256, LEAD_SHARE = 8 };

/* For the first cut, whose leading divisions are n_lead, the newest by `divisor`. */
static bool wish_for(const cdz_form *cut, size_t n_lead, double divisor, uint32_t *least,
                     float *mass)
{
    *mass = 0.0f;
    if (cut->count > MOST_ASKED) return false;
    switch (cut->kind) {
    case CDZ_FORM_KEEP_TOPK: *least = (uint32_t)cut->count; return true;
    case CDZ_FORM_KEEP_MINP:
        *least = cut->count > SOME_PROBABLE ? (uint32_t)cut->count : SOME_PROBABLE;
        return true;
    default: /* a sum over the row, which is made for one division */
        *least = MOST_ASKED;
        *mass = n_lead ? (float)divisor : 1.0f;
        return n_lead < 2;
    }
}

bool cdz_fuse_wish(const cdz_stageset *set, const cdz_rows *rows, cdz_fuse_wishes *wish)
{
    cdz_form forms[MOST_FORMS];
    uint32_t end;
    size_t n_lead = 0;
    double newest = 1.0;
    if (set->teller) return false;
    const uint32_t from = cdz_edits(set);
    const size_t n =
        collect(&set->processors, from, set->processors.n, CDZ_IN_ALL_PHASES, forms, &end);
    if (end < set->processors.n) return false;
    if (cdz_divides_only(forms, n, rows->n_vocab)) {
        const bool draws = n > 0 || rows->away.draws;
        const uint32_t some = rows->n_vocab / LEAD_SHARE,
                       least = some < MOST_ASKED ? some : MOST_ASKED;
        /* without a draw the best one of those that are edited, if any */
        *wish = (cdz_fuse_wishes){
            .least = draws ? least : set->processors.n > 0, .cuts = draws, .open = draws};
        return true;
    }
    *wish = (cdz_fuse_wishes){.cuts = true};
    if (!cdz_fusible(forms, n)) return false;
    for (size_t i = 0; i < n; i++) {
        if (forms[i].kind == CDZ_FORM_DIVIDE) {
            n_lead++;
            newest = forms[i].amount;
        } else if (!cdz_form_is_void(&forms[i], rows->n_vocab)) {
            return wish_for(&forms[i], n_lead, newest, &wish->least, &wish->divisor);
        }
    }
    return false;
}

/* What the leaders become, with *drawn but for the list. [row] */
static bool run_leaders(const cdz_stageset *set, const cdz_rows *rows, const cdz_leading *known,
                        uint32_t n_vocab, cdz_survivors *s, cdz_drawn *drawn, void *scratch)
{
    const cdz_fuser *fuser = cdz_fuser_here();
    cdz_form forms[MOST_FORMS];
    float low;
    uint32_t end;
    const size_t n = collect(&set->processors, cdz_edits(set), set->processors.n, CDZ_IN_ALL_PHASES,
                             forms, &end);
    if (end < set->processors.n) return false;
    if (rows->away.open) {
        if (fuser->lead_leading(known, n_vocab, forms, n, s, &low, scratch) != CDZ_FUSED)
            return false;
        *drawn = (cdz_drawn){.open = true, .field = cdz_field_of(s, low, n_vocab)};
    } else {
        if (fuser->run_leading(known, n_vocab, forms, n, s, scratch) != CDZ_FUSED) return false;
        fuser->softmax(s, n_vocab);
    }
    return 2 * s->n <= n_vocab;
}

bool cdz_fuse_leaders(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t first,
                      uint32_t r, cdz_drawn *drawn)
{
    cdz_row_worker *worker = &rows->workers[0];
    const uint32_t V = scores->n_vocab;
    cdz_leading known;
    cdz_survivors s;
    bool done = cdz_edits_known(set, rows, scores, first, r, &known);
    void *scratch = done ? cdz_scratch_take(&worker->scratch, cdz_vec_scratch(V)) : NULL;
    done = scratch && run_leaders(set, rows, &known, V, &s, drawn, scratch);
    if (done) {
        worker->fusings[CDZ_FUSED]++;
        put_list(&s, cdz_row(scores, r), drawn);
    }
    cdz_scratch_reset(&worker->scratch);
    return done;
}

/* --- draws --------------------------------------------------------------------------------------------------------- */

int32_t cdz_fuse_draw(cdz_torch_rng *rng, const float *row, uint32_t n_vocab, const cdz_drawn *drawn)
{
    const int32_t *ids = (const int32_t *)(const void *)row;
    return cdz_torch_race(rng, ids, row + drawn->n, drawn->n, n_vocab);
}

typedef struct away_row {
    const cdz_stageset *set;
    cdz_rows *rows;
    uint32_t row;
} away_row;

/* A score of a row that is away, after the divisions that its leaders have had. */
static float score_away(void *of, int32_t id)
{
    const away_row *at = of;
    const cdz_stageset *set = at->set;
    cdz_rows *rows = at->rows;
    float x = cdz_away_score(&rows->away, at->row, id);
    if (rows->berth->profile) rows->berth->profile->times.scores.bytes += sizeof x;
    for (uint32_t s = cdz_edits(set); s < set->processors.n; s++)
        if (set->processors.at[s].form.kind == CDZ_FORM_DIVIDE)
            x /= (float)set->processors.at[s].form.amount;
    return x;
}

int32_t cdz_fuse_draw_open(cdz_torch_rng *rng, const cdz_stageset *set, cdz_rows *rows,
                           const cdz_scores *scores, uint32_t first, uint32_t r,
                           const cdz_drawn *drawn)
{
    const float *row = cdz_row(scores, r);
    away_row at = {set, rows, first + r};
    cdz_field field = drawn->field;
    field.ids = (const int32_t *)(const void *)row;
    field.p = row + drawn->n;
    field.score = score_away;
    field.of = &at;
    return cdz_torch_open_race(rng, &field, scores->n_vocab);
}

int32_t cdz_fuse_draw_row(cdz_torch_rng *rng, float *row, uint32_t n_vocab, cdz_row_worker *worker)
{
    void *scratch = cdz_scratch_take(&worker->scratch, cdz_vec_scratch(n_vocab));
    const int32_t token = scratch ? cdz_torch_draw_scores(rng, row, n_vocab, scratch) : -1;
    cdz_scratch_reset(&worker->scratch);
    if (token >= 0) return token;
    cdz_vec_table()->softmax(row, row, n_vocab);
    /* A softmax is a distribution, or nan all over. */
    if (n_vocab == 0 || isnan(row[0])) return -1;
    return cdz_torch_draw(rng, row, n_vocab);
}
