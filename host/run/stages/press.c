/* press.c - calls the request's presses. */
#include "run/stages/press.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "call/calls.h"

typedef struct presser {
    const cdz_press *press;
    const cdz_instance *instance;
    void *shared;
    uint32_t window; /* that it asked for */
    bool begun;
} presser;

struct cdz_stage_presses {
    cdz_rows *rows;
    presser *all; /* (n) in the order of the plan */
    uint32_t n;
    uint32_t *first; /* (n_steps + 1) of each step's presses */
    cdz_press_step *steps;
    cdz_press_plan plan;
    cdz_buf *events; /* (rows) or NULL: nobody wants to know */
};

/* --- one call ----------------------------------------------------------------------------------------------------- */

typedef struct calling {
    cdz_error said;
    cdz_scope scope;
    cdz_step step;
    cdz_call call;
} calling;

static void prepare(calling *c, const cdz_stage_presses *p, const presser *who)
{
    *c = (calling){.said = {.code = CDZ_OK}};
    c->scope = (cdz_scope){.rows = p->rows,
                           .plugin = &who->press->base,
                           .scratch = &p->rows->workers[0].scratch,
                           .error = &c->said,
                           .may_alloc = !who->begun};
    c->step = cdz_step_for(&c->scope, who->instance, who->shared);
    c->call = (cdz_call){.scratch = c->scope.scratch};
}

static cdz_status judge(const cdz_stage_presses *p, const calling *c, cdz_status returned)
{
    return cdz_rows_judge(p->rows, &c->call, returned, &c->said);
}

/* One step, for a layer: whoever gives scores, then those that change what it says. */
static cdz_status press_step(void *of, uint32_t step, const cdz_press_view *view,
                             cdz_press_choice *choice, cdz_error *err)
{
    cdz_stage_presses *p = of;
    for (uint32_t i = p->first[step]; i < p->first[step + 1]; i++) {
        calling c;
        cdz_press_view own = *view;
        own.window = p->all[i].window;
        prepare(&c, p, &p->all[i]);
        const cdz_status status =
            judge(p, &c, cdz_call_press(&c.call, p->all[i].press, &c.step, &own, choice));
        if (status == CDZ_OK) continue;
        *err = p->rows->error;
        return status;
    }
    return CDZ_OK;
}

/* --- begin and end ------------------------------------------------------------------------------------------------ */

static cdz_status begin_one(cdz_stage_presses *p, presser *who)
{
    calling c;
    prepare(&c, p, who);
    CDZ_TRY(judge(p, &c, cdz_call_begin(&c.call, &c.step, &who->shared)));
    who->begun = true;
    return CDZ_OK;
}

static cdz_status ask_one(cdz_stage_presses *p, presser *who, cdz_press_step *step)
{
    calling c;
    const bool wraps = who->press->caps & CDZ_PRESS_WRAPS;
    cdz_press_needs needs = {.size = sizeof needs, .ratio = step->ratio};
    prepare(&c, p, who);
    CDZ_TRY(judge(p, &c, cdz_call_needs(&c.call, who->press, &c.step, &needs)));
    if (needs.window > CDZ_PRESS_MOST_WINDOW)
        return cdz_err(&p->rows->error, CDZ_E_PLUGIN,
                       "%s: needs: a window of %" PRIu32 " positions; at most %d can be had",
                       who->press->base.id, needs.window, CDZ_PRESS_MOST_WINDOW);
    who->window = needs.window;
    if (needs.window > step->window) step->window = needs.window;
    if (needs.what & CDZ_PRESS_MOMENTS) step->skip = needs.skip;
    step->what |= needs.what;
    step->free_count |= needs.free_count;
    if (!wraps) step->ratio = needs.ratio;
    return CDZ_OK;
}

static cdz_status refuse(cdz_rows *rows, const char *what)
{
    return cdz_err(&rows->error, CDZ_E_UNSUPPORTED, "press: %s", what);
}

/* What goes on while decoding has neither sums nor moments: they are of prompts. */
static cdz_status check_step(const cdz_stage_presses *p, uint32_t i)
{
    const cdz_press_plan *plan = &p->plan;
    const cdz_press_step *step = &p->steps[i];
    const char *id = p->all[p->first[i]].press->base.id;
    const uint32_t noted = CDZ_PRESS_QUERIES | CDZ_PRESS_HIDDEN | CDZ_PRESS_ATTENTION |
                           CDZ_PRESS_SUMS | CDZ_PRESS_MOMENTS;
    cdz_error *err = &p->rows->error;
    if (i >= plan->n_prompt && step->what & (CDZ_PRESS_SUMS | CDZ_PRESS_MOMENTS))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "decoding_press: '%s' asks for what there is of prompts alone", id);
    if (i >= plan->n_prompt) return CDZ_OK;
    if (plan->block && step->what & noted)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "compression_block_size: '%s' asks for more than keys and values", id);
    if (plan->chunk && step->what & CDZ_PRESS_SUMS)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "compression_chunk_length: '%s' asks for attention to the whole prompt", id);
    if (isnan(step->ratio) && !plan->ratios && !step->free_count)
        return cdz_err(err, CDZ_E_USAGE,
                       "press: '%s' is not told how much is to go; set compression_ratio (0.5: half "
                       "of the cache)",
                       id);
    return CDZ_OK;
}

static cdz_status check_steps(const cdz_stage_presses *p)
{
    const cdz_press_plan *plan = &p->plan;
    const cdz_press_step *first = NULL;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        CDZ_TRY(check_step(p, i));
        if (!(p->steps[i].what & CDZ_PRESS_MOMENTS)) continue;
        if (first && first->skip != p->steps[i].skip)
            return refuse(p->rows, "two presses ask for moments from different positions on");
        first = &p->steps[i];
    }
    return CDZ_OK;
}

static cdz_status check_request(const cdz_stage_presses *p, const cdz_generation *g)
{
    cdz_rows *rows = p->rows;
    const cdz_arch *arch = &rows->model->weights->arch;
    CDZ_TRY(cdz_press_fits(rows->model, &rows->error));
    if (!g->use_cache)
        return refuse(rows, "without a cache (use_cache = false) nothing is pressed");
    if (g->quantized.on) return refuse(rows, "a quantised cache is not pressed");
    if (g->output_attentions || g->output_hidden_states)
        return refuse(rows, "output_attentions and output_hidden_states show whole caches");
    if (p->plan.ratios && p->plan.n_ratios != arch->n_layers)
        return cdz_err(&rows->error, CDZ_E_USAGE,
                       "compression_ratios: %" PRIu32 " numbers for a model of %" PRIu32 " layers",
                       p->plan.n_ratios, arch->n_layers);
    return CDZ_OK;
}

static uint32_t number(cdz_opt_int value, uint32_t otherwise)
{
    return value.set ? (uint32_t)value.value : otherwise;
}

static bool tell(void *of, const cdz_seq *seq);

static void read_settings(cdz_stage_presses *p, const cdz_plan *plan, bool records)
{
    const cdz_generation *g = &plan->generation;
    const bool decodes = plan->n_presses > plan->n_prompt_presses;
    p->plan = (cdz_press_plan){
        .ratios = g->compression.ratios.set ? g->compression.ratios.at : NULL,
        .n_ratios = g->compression.ratios.len,
        .chunk = number(g->compression.chunk_length, 0),
        .block = number(g->compression.block_size, 0),
        .skip_last = number(g->compression.skip_last, 0),
        .interval = decodes ? number(g->compression.interval, 512) : 0,
        .target_size = number(g->compression.target_size, 2048),
        .target_ratio = g->compression.target_ratio.set ? g->compression.target_ratio.value : NAN,
        .answer = press_step,
        .told = records ? tell : NULL,
        .of = p,
    };
}

/* A press that wraps goes on with the step before it; the first of each list begins one (config/plan_lists.c). */
static cdz_status make_steps(cdz_stage_presses *p, const cdz_plan *plan)
{
    const cdz_generation *g = &plan->generation;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        presser *who = &p->all[i];
        if (!(who->press->caps & CDZ_PRESS_WRAPS)) {
            p->first[n] = i;
            p->steps[n++] = (cdz_press_step){
                .ratio = g->compression.ratio.set ? g->compression.ratio.value : NAN};
        }
        if (i < plan->n_prompt_presses) p->plan.n_prompt = n;
        CDZ_TRY(begin_one(p, who));
        CDZ_TRY(ask_one(p, who, &p->steps[n - 1]));
    }
    p->first[n] = p->n;
    p->plan.steps = p->steps;
    p->plan.n_steps = n;
    return CDZ_OK;
}

cdz_status cdz_stage_presses_begin(cdz_rows *rows, const cdz_plan *plan, bool records,
                                   cdz_stage_presses **out)
{
    const uint32_t n = plan->n_presses;
    *out = NULL;
    if (n == 0) return CDZ_OK;
    cdz_stage_presses *p = cdz_arena_alloc(&rows->arena, sizeof *p);
    if (!p) return cdz_rows_nomem(rows);
    *out = p;
    p->rows = rows;
    p->all = cdz_arena_array(&rows->arena, n, sizeof *p->all);
    p->first = cdz_arena_array(&rows->arena, n + 1, sizeof *p->first);
    p->steps = cdz_arena_array(&rows->arena, n, sizeof *p->steps);
    if (records) p->events = cdz_arena_array(&rows->arena, rows->n, sizeof *p->events);
    if (!p->all || !p->first || !p->steps || (records && !p->events)) return cdz_rows_nomem(rows);
    p->n = n;
    for (uint32_t i = 0; i < n; i++) {
        p->all[i].instance = &plan->presses[i];
        p->all[i].press = (const void *)plan->presses[i].plugin.base;
    }
    read_settings(p, plan, records);
    CDZ_TRY(check_request(p, &plan->generation));
    CDZ_TRY(make_steps(p, plan));
    return check_steps(p);
}

void cdz_stage_presses_end(cdz_stage_presses *p)
{
    if (!p) return;
    for (uint32_t i = 0; i < p->n; i++) {
        calling c;
        if (!p->all[i].begun) continue;
        prepare(&c, p, &p->all[i]);
        cdz_call_end(&c.call, &c.step);
        cdz_rows_complain(p->rows, &c.call);
        p->all[i].begun = false;
    }
    for (uint32_t r = 0; p->events && r < p->rows->n; r++) cdz_buf_free(&p->events[r]);
}

cdz_press_plan *cdz_stage_presses_plan(cdz_stage_presses *p)
{
    return &p->plan;
}

/* --- what is told ------------------------------------------------------------------------------------------------- */

static bool shown(const cdz_arch *arch, uint32_t store, uint32_t *layer)
{
    for (*layer = 0; *layer < arch->n_layers; (*layer)++)
        if (cdz_arch_kv_place(arch, *layer) == store) break;
    return cdz_press_reads_layer(arch, *layer);
}

static void put_numbers(cdz_buf *out, const uint32_t *at, uint32_t n)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%" PRIu32, i ? ", " : "", at[i]);
    cdz_buf_putc(out, ']');
}

static void put_zeroed(cdz_buf *out, const uint8_t *zeroed, uint32_t n)
{
    bool first = true;
    cdz_buf_putc(out, '[');
    for (uint32_t d = 0; d < n; d++) {
        if (!zeroed[d]) continue;
        cdz_buf_printf(out, "%s%" PRIu32, first ? "" : ", ", d);
        first = false;
    }
    cdz_buf_putc(out, ']');
}

/* By layer and head: the positions that stay, or the numbers of keys that are 0. null: a layer with a window. */
static void put_heads(cdz_buf *out, const cdz_arch *arch, const cdz_pressed *p, bool zeroed)
{
    cdz_buf_putc(out, '[');
    for (uint32_t s = 0; s < p->n_layers; s++) {
        uint32_t layer;
        if (s) cdz_buf_puts(out, ", ");
        if (!shown(arch, s, &layer)) {
            cdz_buf_puts(out, "null");
            continue;
        }
        cdz_buf_putc(out, '[');
        for (uint32_t g = 0; g < p->n_heads; g++) {
            const size_t at = (size_t)s * p->n_heads + g;
            if (g) cdz_buf_puts(out, ", ");
            if (zeroed)
                put_zeroed(out, p->zeroed + at * p->head_dim, p->head_dim);
            else
                put_numbers(out, p->positions + at * p->n, p->counts[at]);
        }
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, ']');
}

static void put_lengths(cdz_buf *out, const cdz_pressed *p)
{
    cdz_buf_putc(out, '[');
    for (uint32_t s = 0; s < p->n_layers; s++) {
        uint32_t most = 0;
        for (uint32_t g = 0; g < p->n_heads; g++)
            if (p->counts[s * p->n_heads + g] > most) most = p->counts[s * p->n_heads + g];
        cdz_buf_printf(out, "%s%" PRIu32, s ? ", " : "", most);
    }
    cdz_buf_putc(out, ']');
}

static bool tell(void *of, const cdz_seq *seq)
{
    const cdz_stage_presses *p = of;
    const cdz_pressed *left = seq->pressed;
    const cdz_arch *arch = &seq->model->weights->arch;
    cdz_buf *out = &p->events[seq->press_row];
    cdz_buf_printf(out, "%s{\"seen\": %" PRIu32 ", \"next_position\": %" PRIu32 ", \"cache_len\": ",
                   out->len ? ", " : "", left->at, left->at - left->back);
    put_lengths(out, left);
    cdz_buf_puts(out, ", \"kept\": ");
    put_heads(out, arch, left, false);
    if (left->zeroed) cdz_buf_puts(out, ", \"zeroed_channels\": ");
    if (left->zeroed) put_heads(out, arch, left, true);
    cdz_buf_putc(out, '}');
    return !out->failed;
}

const char *cdz_stage_presses_events(const cdz_stage_presses *p, uint32_t row)
{
    return p && p->events ? p->events[row].data : NULL;
}
