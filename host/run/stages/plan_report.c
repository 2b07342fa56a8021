/* plan_report.c - see plan_report.h. Rows are of two kinds, as models give them when they are sure and when they are not:
 * a few tens of tokens far above the rest, and a bell. Every figure is a median over the same rows. */
#include "run/stages/plan_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spread.h"
#include "run/stages/fuse.h"
#include "run/stages/trial.h"
#include "vec/vec.h"

enum { N_ROWS = 12, HISTORY = 500, WIDTH = 28 };

typedef struct report {
    cdz_stage_trial trial;
    cdz_torch_rng rng;
    const cdz_stage_chain *chain; /* what is timed just now */
    float *rows;                  /* (N_ROWS, n_vocab) */
    bool draws;
    const char *of; /* "" or " of phase NAME" */
    cdz_buf *out;
} report;

/* --- rows ----------------------------------------------------------------------------------------------------------- */

/* Near enough to a normal one, of deviation 1. */
static float bell(cdz_torch_rng *rng)
{
    float sum = -3.0f;
    for (int i = 0; i < 6; i++) sum += cdz_torch_uniform(rng);
    return sum * 1.4142f;
}

static void make_row(report *r, uint32_t i)
{
    const uint32_t n = r->trial.rows.n_vocab;
    float *row = r->rows + (size_t)i * n;
    for (uint32_t v = 0; v < n; v++) row[v] = 1.5f * bell(&r->rng);
    for (uint32_t rank = 1; n && i < N_ROWS / 2 && rank <= 60; rank++)
        row[(rank * 7919u + i) % n] = 18.0f - 1.6f * logf((float)rank);
}

static const float *row_of(const report *r, uint32_t i)
{
    return r->rows + (size_t)i * r->trial.rows.n_vocab;
}

/* --- timing ------------------------------------------------------------------------------------------------------------ */

typedef cdz_status (*timed)(report *r, cdz_drawn *drawn);

/* The median of the call over the rows, each copied before; in microseconds. */
static cdz_status median_us(report *r, timed call, double *out)
{
    const uint32_t n = r->trial.rows.n_vocab;
    double us[N_ROWS];
    for (uint32_t i = 0; i < N_ROWS; i++) {
        cdz_drawn drawn = {0};
        memcpy(r->trial.scores, row_of(r, i), n * sizeof *r->trial.scores);
        const double start = cdz_now_s();
        CDZ_TRY(call(r, &drawn));
        us[i] = (cdz_now_s() - start) * 1e6;
    }
    *out = cdz_spread_of(us, N_ROWS).median;
    return CDZ_OK;
}

static cdz_status process(report *r, cdz_drawn *drawn)
{
    cdz_stage_trial *t = &r->trial;
    const uint32_t n = t->rows.n_vocab;
    cdz_scores scores = {.data = t->scores, .n_rows = 1, .n_vocab = n, .stride = n};
    return cdz_stages_process(t->set, r->chain, &t->rows, cdz_stage_trial_look(t), &scores, drawn);
}

static cdz_status stages_alone(report *r, cdz_drawn *drawn)
{
    (void)drawn;
    return process(r, NULL);
}

/* softmax and the draw, or the best. */
static cdz_status choose(report *r, cdz_drawn *drawn)
{
    const cdz_vec *vec = cdz_vec_table();
    const uint32_t n = r->trial.rows.n_vocab;
    float *x = r->trial.scores;
    int32_t token;
    if (!r->draws) {
        token = vec->argmax(x, n);
    } else if (drawn->listed) {
        token = cdz_fuse_draw(&r->rng, x, n, drawn);
    } else {
        token = cdz_fuse_draw_row(&r->rng, x, n, &r->trial.rows.workers[0]);
    }
    return token >= 0 ? CDZ_OK
                      : cdz_err(&r->trial.rows.error, CDZ_E_INPUT,
                                "the processors leave nothing to draw from");
}

static cdz_status step(report *r, cdz_drawn *drawn)
{
    CDZ_TRY(process(r, r->draws ? drawn : NULL));
    return choose(r, drawn);
}

/* --- the table ------------------------------------------------------------------------------------------------------------- */

static void write_row(report *r, const char *name, const char *how, double us)
{
    cdz_buf_printf(r->out, "  %-*s %-16s", WIDTH, name, how);
    if (us >= 0) cdz_buf_printf(r->out, " %10.1f", us);
    cdz_buf_putc(r->out, '\n');
}

/* A stage alone, its form forgotten. */
static cdz_status time_stage(report *r, const cdz_stage *stage, double *us)
{
    cdz_stage one = *stage;
    const cdz_stage_chain alone = {&one, 1};
    one.form.kind = CDZ_FORM_OTHER;
    r->chain = &alone;
    const cdz_status status = median_us(r, stages_alone, us);
    r->chain = NULL;
    return status;
}

static cdz_status write_stages(report *r)
{
    const cdz_stage_chain *all = &r->trial.set->processors;
    uint32_t walk = 0;
    for (uint32_t s = 0, end = 0; s < all->n; s++) {
        const cdz_stage *stage = &all->at[s];
        char how[32] = "by itself";
        double us = -1;
        if (s >= end && cdz_fuse_end(all, s, all->n, CDZ_IN_ALL_PHASES) > s) {
            end = cdz_fuse_end(all, s, all->n, CDZ_IN_ALL_PHASES);
            walk++;
        }
        if (s < end) snprintf(how, sizeof how, "walk %u", (unsigned)walk);
        if (stage->instance->offers.companion)
            snprintf(how, sizeof how, "runs the model");
        else
            CDZ_TRY(time_stage(r, stage, &us));
        write_row(r, stage->instance->name, how, us);
    }
    return CDZ_OK;
}

/* The stages without those that run the model. */
static bool without_companions(report *r, cdz_stage_chain *out)
{
    const cdz_stage_chain *all = &r->trial.set->processors;
    *out = (cdz_stage_chain){cdz_arena_array(&r->trial.rows.arena, all->n, sizeof(cdz_stage)), 0};
    for (uint32_t s = 0; out->at && s < all->n; s++)
        if (!all->at[s].instance->offers.companion) out->at[out->n++] = all->at[s];
    return out->at != NULL;
}

static void write_fusings(report *r)
{
    const uint64_t *count = r->trial.rows.workers[0].fusings;
    uint64_t tried = 0;
    for (int k = 0; k < CDZ_FUSE_KINDS; k++) tried += count[k];
    cdz_buf_printf(r->out, "\n  Of %llu walks %llu went through", (unsigned long long)tried,
                   (unsigned long long)count[CDZ_FUSED]);
    for (int k = CDZ_FUSED + 1; k < CDZ_FUSE_KINDS; k++)
        if (count[k])
            cdz_buf_printf(r->out, "; %llu were left to the processors: %s",
                           (unsigned long long)count[k], cdz_fusing_text((cdz_fusing)k));
    cdz_buf_puts(r->out, ".\n");
}

static cdz_status time_steps(report *r, cdz_stage_chain *chain)
{
    uint64_t *const count = r->trial.rows.workers[0].fusings;
    double fused, plain;
    memset(count, 0, sizeof r->trial.rows.workers[0].fusings);
    r->chain = chain;
    CDZ_TRY(median_us(r, step, &fused));
    for (uint32_t s = 0; s < chain->n; s++) chain->at[s].form.kind = CDZ_FORM_OTHER;
    CDZ_TRY(median_us(r, step, &plain));
    cdz_buf_printf(r->out, "\n  %-*s %-16s %10s\n", WIDTH,
                   r->draws ? "a step with its draw" : "a step with its argmax", "", "us");
    write_row(r, "", "as planned", fused);
    write_row(r, "", "one by one", plain);
    for (int k = 0; k < CDZ_FUSE_KINDS; k++)
        if (count[k]) {
            write_fusings(r);
            break;
        }
    return CDZ_OK;
}

static cdz_status write_plan(report *r)
{
    cdz_stage_chain left;
    CDZ_TRY(cdz_stage_trial_begin(&r->trial));
    cdz_buf_printf(r->out, "\nPlan%s, timed on %d made-up rows of %u scores\n", r->of, N_ROWS,
                   (unsigned)r->trial.rows.n_vocab);
    cdz_buf_printf(r->out, "  %-*s %-16s %10s\n", WIDTH, "processor", "goes", "alone, us");
    CDZ_TRY(write_stages(r));
    if (!without_companions(r, &left)) return cdz_rows_nomem(&r->trial.rows);
    return time_steps(r, &left);
}

static cdz_status report_chain(cdz_plan *plan, const char *of, uint32_t n_vocab, bool fuses,
                               cdz_buf *out, cdz_error *err)
{
    report r = {.draws = plan->generation.do_sample, .of = of, .out = out};
    cdz_status status = CDZ_E_NOMEM;
    if (n_vocab == 0) return cdz_err(err, CDZ_E_USAGE, "plan: a vocabulary of no tokens");
    r.rows = malloc((size_t)N_ROWS * n_vocab * sizeof *r.rows);
    cdz_torch_seed(&r.rng, 1);
    if (r.rows && cdz_stage_trial_open(&r.trial, plan, NULL, n_vocab, HISTORY, 1)) {
        r.trial.berth.fuses = fuses;
        for (uint32_t i = 0; i < HISTORY; i++)
            r.trial.ids[i] = (int32_t)((i * i * 31u + 7u) % n_vocab);
        for (uint32_t i = 0; i < N_ROWS; i++) make_row(&r, i);
        status = write_plan(&r);
        if (status != CDZ_OK) cdz_err(err, status, "%s", r.trial.rows.error.text);
    } else {
        cdz_err(err, status, "plan: out of memory");
    }
    cdz_stage_trial_close(&r.trial);
    free(r.rows);
    return status;
}

/* A phase is reported as a pipeline of its own: what runs in it, in all rows. */
static cdz_status report_phase(const cdz_plan *plan, uint32_t n, const char *of, uint32_t n_vocab,
                               bool fuses, cdz_buf *out, cdz_error *err)
{
    cdz_plan one = *plan;
    cdz_instance *own = calloc(plan->n_processors, sizeof *own);
    if (!own) return cdz_err(err, CDZ_E_NOMEM, "plan: out of memory");
    one.processors = own;
    one.n_processors = one.n_phases = 0;
    for (uint32_t i = 0; i < plan->n_processors; i++)
        if (plan->processors[i].phases & 1u << n) {
            own[one.n_processors] = plan->processors[i];
            own[one.n_processors++].phases = 0;
        }
    const cdz_status status =
        one.n_processors ? report_chain(&one, of, n_vocab, fuses, out, err) : CDZ_OK;
    free(own);
    return status;
}

cdz_status cdz_stages_report_plan(cdz_plan *plan, uint32_t n_vocab, bool fuses, cdz_buf *out,
                                  cdz_error *err)
{
    if (plan->n_phases == 0) return report_chain(plan, "", n_vocab, fuses, out, err);
    for (uint32_t i = 0; i < plan->n_phases; i++) {
        char of[80];
        snprintf(of, sizeof of, " of phase %s", plan->phases[i].name);
        CDZ_TRY(report_phase(plan, i + 1, of, n_vocab, fuses, out, err));
    }
    return report_phase(plan, 0, " outside of phases", n_vocab, fuses, out, err);
}
