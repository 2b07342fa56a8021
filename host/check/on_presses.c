/* on_presses.c - presses: made-up layers are shown to them, and each of their answers is looked at.
 *
 * All arrays of a view lie one behind the other in memory that may be read only, and that ends where nobody may read; those of
 * the answer end so too. Heads hold as many entries, or differently many; windows are whole, or shorter. */
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "call/host.h"
#include "call/outside.h"
#include "check/checks.h"
#include "check/setups.h"

enum { LAYERS = 3, GROUP = 2, GUARDED = 1 << 22, SAID = 300, VIEWS = 24 };

/* What a showing is made of. */
typedef struct show_plan {
    uint64_t seed;
    uint32_t views;
    uint32_t refuses_after; /* calls of alloc and scratch that get memory; UINT32_MAX: all */
    bool backwards;         /* the layers in the other order */
} show_plan;

typedef struct showing {
    const cdz_caller *caller; /* first */
    cdz_child *child;
    const cdz_press *press;
    const void *params;
    void *shared;
    show_plan plan;
    cdz_arena arena;
    cdz_scratch_mem scratch;
    cdz_error said;
    cdz_request_info request;
    cdz_press_needs needs;
    uint32_t n_taken, n_answered;
    bool begun, may_alloc, refused;

    char *shown; /* (GUARDED) read-only while it is called */
    size_t used;
    char *answer; /* (GUARDED) filled from its end */
    size_t answered;
    uint64_t random;
    uint64_t hash[VIEWS][LAYERS]; /* of each answer */
} showing;

/* --- its host ------------------------------------------------------------------------------------------------------ */

static cdz_status keep_sentence(const cdz_step *step, cdz_status code, const char *text)
{
    showing *s = step->scope;
    return cdz_err(&s->said, code, "%s", text);
}

static bool grants(showing *s)
{
    const bool grants = s->n_taken++ < s->plan.refuses_after;
    s->refused |= !grants;
    return grants;
}

static void *take(const cdz_step *step, size_t bytes)
{
    showing *s = step->scope;
    return s->may_alloc && grants(s) ? cdz_arena_alloc_aligned(&s->arena, bytes, 64) : NULL;
}

static void *take_scratch(const cdz_step *step, size_t bytes)
{
    showing *s = step->scope;
    return grants(s) ? cdz_scratch_take(&s->scratch, bytes) : NULL;
}

static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    const showing *s = step->scope;
    return cdz_call_find_file(step, cdz_module_data(s->child->ref.module), name, out);
}

static const cdz_caller caller = {
    .fail = keep_sentence, .alloc = take, .scratch = take_scratch, .file = file};

static cdz_step step_of(showing *s)
{
    s->said.code = CDZ_OK;
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = s->params,
                      .shared = s->shared,
                      .request = &s->request,
                      .plugin = &s->press->base,
                      .host = &cdz_bare_host,
                      .scope = s};
}

/* A refusal of what is shown is a status with a sentence; so is one where memory was refused. */
static cdz_check_state judge(showing *s, const cdz_call *call, cdz_status returned)
{
    cdz_error fault;
    if (cdz_call_fault(call, returned, &s->said, &fault) != CDZ_OK)
        return cdz_fail_check(s->child, "%s", fault.text);
    const bool may = s->refused || returned == CDZ_E_INPUT || returned == CDZ_E_UNSUPPORTED;
    if (returned == CDZ_OK || may) return CDZ_CHECK_OK;
    return cdz_fail_check(s->child, "%s: %s", call->function, s->said.text);
}

/* --- a view -------------------------------------------------------------------------------------------------------- */

static void *put(showing *s, size_t bytes)
{
    s->used += (bytes + 15) / 16 * 16;
    return s->used <= GUARDED ? s->shown + GUARDED - s->used : NULL;
}

/* n numbers about as large as a head's. */
static const float *put_floats(showing *s, size_t n, bool positive)
{
    float *x = put(s, n * sizeof *x);
    for (size_t i = 0; x && i < n; i++) {
        const double u = cdz_random_unit(&s->random);
        x[i] = (float)(positive ? u / 64 : 2 * u - 1);
    }
    return x;
}

/* Rising, with gaps, up to the newest. */
static const uint32_t *put_positions(showing *s, const cdz_press_view *v)
{
    uint32_t *at = put(s, (size_t)v->n_kv_heads * v->n * sizeof *at);
    for (uint32_t g = 0; at && g < v->n_kv_heads; g++)
        for (uint32_t i = 0; i < v->n; i++)
            at[(size_t)g * v->n + i] =
                i < v->counts[g] ? v->seen - v->counts[g] + i : 0; /* the last of them are there */
    return at;
}

static const uint32_t *put_counts(showing *s, const cdz_press_view *v, bool even)
{
    uint32_t *counts = put(s, v->n_kv_heads * sizeof *counts);
    for (uint32_t g = 0; counts && g < v->n_kv_heads; g++)
        counts[g] = even || g == 0 ? v->n : 1 + cdz_random_below(&s->random, v->n);
    return counts;
}

static const float *put_frequencies(showing *s, uint32_t n)
{
    float *x = put(s, n * sizeof *x);
    for (uint32_t i = 0; x && i < n; i++) x[i] = 1.0f / (float)(1u << (i < 20 ? i : 20));
    return x;
}

static void put_wanted(showing *s, cdz_press_view *v)
{
    const size_t H = v->n_heads, G = v->n_kv_heads, d = v->head_dim, n = v->n;
    const uint32_t what = s->needs.what;
    const size_t q = v->n_queries;
    if (what & CDZ_PRESS_KEYS) v->keys = put_floats(s, G * n * d, false);
    if (what & CDZ_PRESS_VALUES) v->values = put_floats(s, G * n * d, false);
    if (what & (CDZ_PRESS_QUERIES | CDZ_PRESS_ATTENTION))
        v->queries = put_floats(s, H * q * d, false);
    if (what & CDZ_PRESS_HIDDEN) v->hidden = put_floats(s, q * v->hidden_dim, false);
    if (what & CDZ_PRESS_ATTENTION) v->attention = put_floats(s, H * q * n, true);
    if (what & CDZ_PRESS_SUMS) v->sums = put_floats(s, H * n, true);
    if (what & CDZ_PRESS_MOMENTS) v->mean = put_floats(s, H * d, false);
    if (what & CDZ_PRESS_MOMENTS) v->covariance = put_floats(s, H * d * d, true);
    if (what & CDZ_PRESS_OUTPUT) v->output = put_floats(s, H * n, true);
}

/* Whatever was asked for, of a layer that never was. */
static void make_view(showing *s, uint32_t number, uint32_t layer, cdz_press_view *v)
{
    static const uint32_t lengths[] = {1, 2, 5, 9, 40, 70, 100, 160, 200};
    const uint32_t n = lengths[number % (sizeof lengths / sizeof *lengths)];
    const bool even = number % 4 != 3, window = s->needs.window > 0;
    s->random = s->plan.seed * 1000003 + number * 31 + layer;
    s->used = 0;
    *v = (cdz_press_view){.size = sizeof *v,
                          .layer = layer,
                          .n_layers = LAYERS,
                          .n_heads = number % 2 ? 4 : 2,
                          .n_kv_heads = 2,
                          .head_dim = 8,
                          .hidden_dim = 24,
                          .n = n,
                          .seen = n + (even ? 0 : 7),
                          .length = n + (even ? 0 : 7),
                          .decoding = number % 5 == 4,
                          .ratio = s->needs.ratio,
                          .window = s->needs.window,
                          .scale = 0.35f,
                          .n_rotated = 8,
                          .rope_scale = 1.0f};
    v->n_queries = !window ? 0 : v->decoding ? 1 : s->needs.window < n ? s->needs.window : n;
    v->counts = put_counts(s, v, even);
    v->positions = put_positions(s, v);
    v->inv_freq = put_frequencies(s, 4);
    put_wanted(s, v);
}

/* --- an answer ----------------------------------------------------------------------------------------------------- */

static void *room(showing *s, size_t bytes)
{
    s->answered += (bytes + 15) / 16 * 16;
    return s->answer + GUARDED - s->answered;
}

/* As the host fills it in. */
static void make_choice(showing *s, const cdz_press_view *v, cdz_press_choice *choice)
{
    const bool wraps = s->press->caps & CDZ_PRESS_WRAPS;
    const size_t n = (size_t)v->n_kv_heads * v->n;
    s->answered = 0;
    *choice = (cdz_press_choice){.size = sizeof *choice};
    choice->zeroed = room(s, (size_t)v->n_kv_heads * v->head_dim);
    choice->counts = room(s, v->n_kv_heads * sizeof *choice->counts);
    choice->scores = room(s, n * sizeof *choice->scores);
    memset(choice->zeroed, 0, (size_t)v->n_kv_heads * v->head_dim);
    for (size_t i = 0; i < n; i++)
        choice->scores[i] = wraps ? (float)cdz_random_unit(&s->random) : 0.0f;
    for (uint32_t g = 0; g < v->n_kv_heads; g++) {
        const double left = v->counts[g] * (1.0 - v->ratio);
        choice->counts[g] = left < 1 ? 1 : (uint32_t)left;
    }
}

static void mix(uint64_t *hash, const void *at, size_t n)
{
    const unsigned char *bytes = at;
    for (size_t i = 0; i < n; i++) *hash = (*hash ^ bytes[i]) * 1099511628211u;
}

static cdz_check_state look_at(showing *s, const cdz_press_view *v, const cdz_press_choice *choice,
                               uint64_t *hash)
{
    *hash = 1469598103934665603u;
    for (uint32_t g = 0; g < v->n_kv_heads; g++) {
        if (choice->counts[g] > v->counts[g])
            return cdz_fail_check(s->child,
                                  "%u of %u entries: head %u is to keep %u, more than there are",
                                  v->counts[g], v->n, g, choice->counts[g]);
        mix(hash, &choice->counts[g], sizeof *choice->counts);
        mix(hash, choice->scores + (size_t)g * v->n, v->counts[g] * sizeof *choice->scores);
    }
    mix(hash, choice->zeroed, (size_t)v->n_kv_heads * v->head_dim);
    mix(hash, &choice->renumber, sizeof choice->renumber);
    return CDZ_CHECK_OK;
}

static cdz_check_state show_layer(showing *s, uint32_t number, uint32_t layer)
{
    cdz_press_view view;
    cdz_press_choice choice;
    make_view(s, number, layer, &view);
    make_choice(s, &view, &choice);
    cdz_check_note(s->child, "view %u: press of layer %u, %u entries a head", number, layer, view.n);
    cdz_call call = {.scratch = &s->scratch};
    const cdz_step step = step_of(s);
    cdz_guarded_lock(s->shown, GUARDED, 4, "what it is shown, which is the host's");
    const cdz_status returned = cdz_call_press(&call, s->press, &step, &view, &choice);
    cdz_guarded_unlock(s->shown, GUARDED);
    s->hash[number % VIEWS][layer] = 0;
    CDZ_CHECK_TRY(judge(s, &call, returned));
    if (returned != CDZ_OK) return CDZ_CHECK_OK;
    s->n_answered++;
    return look_at(s, &view, &choice, &s->hash[number % VIEWS][layer]);
}

/* --- a showing ----------------------------------------------------------------------------------------------------- */

static cdz_check_state open_showing(cdz_child *c, const show_plan *plan, showing *s)
{
    static char *shown, *answer; /* guarded memory is the process's */
    if (!shown) shown = cdz_guarded(GUARDED, 4, true, "what it is shown");
    if (!answer) answer = cdz_guarded(GUARDED, 4, true, "its answer");
    *s = (showing){.caller = &caller,
                   .child = c,
                   .press = (const cdz_press *)(const void *)c->ref.base,
                   .plan = *plan,
                   .request = {.size = sizeof(cdz_request_info), .n_prompts = 1, .n_rows = 1},
                   .may_alloc = true,
                   .shown = shown,
                   .answer = answer};
    cdz_error err = {0};
    const cdz_setup *setup = cdz_setup_defaults(c, &err);
    if (!shown || !answer) return cdz_fail_check(c, "out of memory");
    if (!setup) return cdz_fail_check(c, "%s", err.text);
    s->params = setup->params;
    if (cdz_call_create_plugin(c->ref.base, setup->params, cdz_module_data(c->ref.module),
                               &c->memory, &err) != CDZ_OK)
        return cdz_fail_check(c, "create with %s: %s", setup->text, err.text);
    const cdz_step step = step_of(s);
    cdz_call call = {.scratch = &s->scratch};
    cdz_check_note(c, "begin");
    const cdz_status begun = cdz_call_begin(&call, &step, &s->shared);
    CDZ_CHECK_TRY(judge(s, &call, begun));
    s->begun = begun == CDZ_OK;
    s->may_alloc = false;
    return CDZ_CHECK_OK;
}

static cdz_check_state ask_needs(showing *s)
{
    cdz_call call = {.scratch = &s->scratch};
    const cdz_step step = step_of(s);
    s->needs = (cdz_press_needs){.size = sizeof s->needs, .ratio = 0.5};
    cdz_check_note(s->child, "needs");
    const cdz_status returned = cdz_call_needs(&call, s->press, &step, &s->needs);
    CDZ_CHECK_TRY(judge(s, &call, returned));
    if (!(s->needs.ratio >= 0 && s->needs.ratio < 1))
        return cdz_fail_check(s->child, "needs: a ratio of %g, expected one from 0 to 1",
                              s->needs.ratio);
    if (s->needs.window > 4096)
        return cdz_fail_check(s->child, "needs: a window of %u, at most 4096 can be had",
                              s->needs.window);
    return CDZ_CHECK_OK;
}

static cdz_check_state close_showing(showing *s)
{
    cdz_call call = {.scratch = &s->scratch};
    const cdz_step step = step_of(s);
    cdz_check_note(s->child, "end");
    if (s->begun) cdz_call_end(&call, &step);
    cdz_scratch_free(&s->scratch);
    cdz_arena_free(&s->arena);
    return judge(s, &call, CDZ_OK);
}

static cdz_check_state show_all(cdz_child *c, const show_plan *plan, showing *s)
{
    CDZ_CHECK_TRY(open_showing(c, plan, s));
    if (s->begun) CDZ_CHECK_TRY(ask_needs(s));
    for (uint32_t i = 0; s->begun && i < plan->views; i++)
        for (uint32_t k = 0; k < LAYERS; k++)
            CDZ_CHECK_TRY(show_layer(s, i, plan->backwards ? LAYERS - 1 - k : k));
    return close_showing(s);
}

static show_plan plan_of(uint64_t seed)
{
    return (show_plan){.seed = seed, .views = VIEWS, .refuses_after = UINT32_MAX};
}

/* --- the checks ---------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_presses(cdz_child *c)
{
    static showing s;
    uint32_t answered = 0;
    for (uint32_t round = 0; round < 4; round++) {
        const show_plan plan = plan_of(cdz_random(&c->random));
        CDZ_CHECK_TRY(show_all(c, &plan, &s));
        answered += s.n_answered;
    }
    if (answered == 0) return cdz_fail_check(c, "refused everything: %s", s.said.text);
    return cdz_pass_check(c, "%u layers, %u of them answered", 4 * VIEWS * LAYERS, answered);
}

/* What was seen before makes no difference, nor in which order. */
cdz_check_state cdz_check_same_press(cdz_child *c)
{
    static showing s, again;
    show_plan plan = plan_of(cdz_random(&c->random));
    CDZ_CHECK_TRY(show_all(c, &plan, &s));
    plan.backwards = true;
    CDZ_CHECK_TRY(show_all(c, &plan, &again));
    for (uint32_t i = 0; i < VIEWS; i++)
        for (uint32_t k = 0; k < LAYERS; k++)
            if (s.hash[i][k] != again.hash[i][k])
                return cdz_fail_check(c,
                                      "view %u, layer %u: another answer when layers are shown in "
                                      "another order: something beside the view, or chance, decides",
                                      i, k);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_presses_leave(cdz_child *c)
{
    static showing s;
    char what[SAID];
    const show_plan plan = plan_of(cdz_random(&c->random));
    cdz_surroundings_forgive_files(c->before);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "opening the file changed %s and left it so", what);
    CDZ_CHECK_TRY(show_all(c, &plan, &s));
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "%u layers changed %s and left it so", VIEWS * LAYERS, what);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_presses_no_memory(cdz_child *c)
{
    static showing s;
    for (uint32_t n = 0; n < 24; n++) {
        show_plan plan = plan_of(7);
        plan.refuses_after = n;
        CDZ_CHECK_TRY(show_all(c, &plan, &s));
        if (!s.refused) return cdz_pass_check(c, "%u times", n);
    }
    return cdz_pass_check(c, "24 times");
}
