/* steer.c - edits of hidden states: reading them, comparing them, carrying them out.
 *
 * Owns: the lists. A list is one piece of memory and never changes; sequences hold it by a count. Not: which sequence has
 * which list (sequence.c), where in a pass edits come (forward.c), which function of a plugin a call is (run/loop/steering.c). */
#include "run/pass/steer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

typedef struct edit {
    uint32_t layer, from, to; /* to UINT32_MAX: without an end */
    cdz_edit_place place;
    cdz_edit_op op;
    float scale;                    /* of SCALE without a vector, and of CALL; else it is in v */
    double share;                   /* of PROJECT_OUT: scale / v.v */
    bool has;                       /* a vector */
    const float *v;                 /* (width) times scale, but of PROJECT_OUT and CALL */
    cdz_steering_answerer *answers; /* of CALL, held */
    uint32_t row;                   /* of CALL */
} edit;

struct cdz_steering {
    uint32_t holds, n, width;
    uint32_t n_lasting; /* the first ones */
    edit edits[];       /* (n), then their vectors */
};

static const char *const places[] = {"embedding", "attention", "mlp", "block"};

static cdz_status wrong(cdz_error *err, const char *who, uint32_t i, const char *what,
                        uint32_t found, const char *expected)
{
    return cdz_err(err, CDZ_E_PLUGIN, "%s: edit %" PRIu32 ": %s %" PRIu32 "; expected %s", who, i,
                   what, found, expected);
}

static cdz_status check_place(const cdz_edit *e, const cdz_arch *arch, const char *who, uint32_t i,
                              cdz_error *err)
{
    if (e->place > CDZ_EDIT_BLOCK)
        return wrong(err, who, i, "place", e->place, "embedding, attention, mlp or block");
    if (e->place == CDZ_EDIT_EMBEDDING && e->layer != 0)
        return wrong(err, who, i, "the embedding of layer", e->layer, "layer 0");
    if (e->layer >= arch->n_layers)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: edit %" PRIu32 ": layer %" PRIu32 " of a model with %" PRIu32
                       " layers, counted from 0",
                       who, i, e->layer, (uint32_t)arch->n_layers);
    const bool mixes = !arch->mixers || arch->mixers[e->layer];
    if ((e->place == CDZ_EDIT_ATTENTION && !mixes) ||
        (e->place == CDZ_EDIT_MLP && !cdz_arch_feeds(arch, e->layer)))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: edit %" PRIu32 ": layer %" PRIu32 " has no %s", who,
                       i, e->layer, places[e->place]);
    return CDZ_OK;
}

static cdz_status check_numbers(const cdz_edit *e, uint32_t width, const char *who, uint32_t i,
                                cdz_error *err)
{
    bool any = false;
    if (!isfinite(e->scale))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: edit %" PRIu32 ": scale is not finite", who, i);
    if (!e->vector && e->op != CDZ_EDIT_SCALE && e->op != CDZ_EDIT_CALL)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: edit %" PRIu32 " has no vector", who, i);
    if (e->vector && e->width != width)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: edit %" PRIu32 ": a vector of %" PRIu32
                       " numbers; hidden states of this model have %" PRIu32,
                       who, i, e->width, width);
    for (uint32_t k = 0; e->vector && k < width; k++) {
        if (!isfinite(e->vector[k]) || !isfinite(e->vector[k] * e->scale))
            return cdz_err(err, CDZ_E_PLUGIN,
                           "%s: edit %" PRIu32 ": number %" PRIu32 " of its vector is not finite",
                           who, i, k);
        any |= e->vector[k] != 0.0f;
    }
    if (e->op == CDZ_EDIT_PROJECT_OUT && !any)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: edit %" PRIu32 ": its vector is zero, which is no direction", who, i);
    return CDZ_OK;
}

static cdz_status check(const cdz_edit *e, const cdz_arch *arch, const cdz_steerer *whose,
                        uint32_t i, cdz_error *err)
{
    const char *who = whose->who;
    CDZ_TRY(check_place(e, arch, who, i, err));
    if (e->op > CDZ_EDIT_CALL)
        return wrong(err, who, i, "op", e->op, "add, replace, scale, project_out or call");
    if (e->op == CDZ_EDIT_CALL && !whose->answers)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: edit %" PRIu32 " is a call, and there is no on_hidden to be called",
                       who, i);
    if (e->to && e->to <= e->from)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: edit %" PRIu32 ": positions from %" PRIu32 " to %" PRIu32
                       " are none; `to` is the first that is not edited, 0: there is none",
                       who, i, e->from, e->to);
    return check_numbers(e, arch->hidden, who, i, err);
}

static cdz_steering *allocate(size_t n, size_t width)
{
    size_t floats, bytes;
    if (n > UINT32_MAX || __builtin_mul_overflow(n, width, &floats) ||
        __builtin_mul_overflow(floats, sizeof(float), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(cdz_steering) + n * sizeof(edit), &bytes))
        return NULL;
    cdz_steering *s = calloc(1, bytes);
    if (!s) return NULL;
    s->holds = 1;
    s->n = (uint32_t)n;
    s->width = (uint32_t)width;
    return s;
}

static float *vector_at(cdz_steering *s, uint32_t i)
{
    return (float *)(void *)(s->edits + s->n) + (size_t)i * s->width;
}

static cdz_steering_answerer *hold_answerer(cdz_steering_answerer *a)
{
    if (a) a->holds++;
    return a;
}

static void release_answerer(cdz_steering_answerer *a)
{
    if (a && --a->holds == 0) free(a);
}

cdz_steering_answerer *cdz_steering_answerer_new(
    cdz_status (*answer)(void *of, const cdz_hidden_chunk *hidden, cdz_error *err), void *of)
{
    cdz_steering_answerer *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    *a = (cdz_steering_answerer){.holds = 1, .answer = answer, .of = of};
    return a;
}

void cdz_steering_answerer_end(cdz_steering_answerer *a)
{
    if (!a) return;
    a->answer = NULL;
    release_answerer(a);
}

static void take_old(cdz_steering *s, const cdz_steering *before)
{
    for (uint32_t i = 0; i < before->n_lasting; i++) {
        s->edits[i] = before->edits[i];
        hold_answerer(s->edits[i].answers);
        s->edits[i].v = memcpy(vector_at(s, i), before->edits[i].v, s->width * sizeof(float));
    }
}

static void take(cdz_steering *s, uint32_t i, const cdz_edit *e, const cdz_steerer *whose)
{
    float *v = vector_at(s, i);
    double square = 0;
    const bool projects = e->op == CDZ_EDIT_PROJECT_OUT, calls = e->op == CDZ_EDIT_CALL;
    for (uint32_t k = 0; e->vector && k < s->width; k++) {
        v[k] = projects || calls ? e->vector[k] : e->vector[k] * e->scale;
        square += (double)v[k] * v[k];
    }
    s->edits[i] = (edit){.layer = e->layer,
                         .from = e->from,
                         .to = e->to ? e->to : UINT32_MAX,
                         .place = e->place,
                         .op = e->op,
                         .scale = e->scale,
                         .share = projects ? e->scale / square : 0,
                         .has = e->vector != NULL,
                         .v = v,
                         .answers = calls ? hold_answerer(whose->answers) : NULL,
                         .row = calls ? whose->row : 0};
}

cdz_status cdz_steering_make(const cdz_steering *before, const cdz_edit *edits, uint32_t n,
                             const cdz_steerer *whose, const cdz_arch *arch, cdz_steering **out,
                             cdz_error *err)
{
    const char *who = whose->who;
    const size_t old = before ? before->n_lasting : 0;
    *out = NULL;
    for (uint32_t i = 0; i < n; i++) CDZ_TRY(check(&edits[i], arch, whose, i, err));
    if (old + n == 0) return CDZ_OK;
    if (arch->streams.n)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%s: %s has several streams a row: its hidden states cannot be edited", who,
                       arch->architecture);
    cdz_steering *s = allocate(old + n, arch->hidden);
    if (!s) return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory for %" PRIu32 " edits", who, n);
    if (before) take_old(s, before);
    for (uint32_t i = 0; i < n; i++) take(s, (uint32_t)old + i, &edits[i], whose);
    s->n_lasting = whose->lasting ? s->n : (uint32_t)old;
    *out = s;
    return CDZ_OK;
}

cdz_steering *cdz_steering_hold(cdz_steering *s)
{
    if (s) s->holds++;
    return s;
}

void cdz_steering_release(cdz_steering *s)
{
    if (!s) return;
    cdz_assert(s->holds > 0);
    if (--s->holds > 0) return;
    for (uint32_t i = 0; i < s->n; i++) release_answerer(s->edits[i].answers);
    free(s);
}

uint64_t cdz_steering_bytes_of(uint32_t n, uint32_t width)
{
    return (uint64_t)n * (sizeof(edit) + (uint64_t)width * sizeof(float));
}

uint64_t cdz_steering_bytes(const cdz_steering *s)
{
    return s ? cdz_steering_bytes_of(s->n, s->width) : 0;
}

uint64_t cdz_steering_share(const cdz_steering *s)
{
    return s ? cdz_steering_bytes(s) / s->holds : 0;
}

static void sum_edit(const edit *e, uint32_t width, cdz_digest_state *sum)
{
    const uint32_t says[] = {e->layer, e->from, e->to, e->place, e->op, e->has};
    cdz_digest_add(sum, says, sizeof says);
    cdz_digest_add(sum, &e->scale, sizeof e->scale);
    cdz_digest_add(sum, e->v, width * sizeof *e->v);
}

void cdz_steering_sum(const cdz_steering *s, cdz_digest_state *sum)
{
    for (uint32_t i = 0; s && i < s->n; i++) sum_edit(&s->edits[i], s->width, sum);
}

static bool same(const cdz_steering *a, const cdz_steering *b, uint32_t i)
{
    const edit *x = &a->edits[i], *y = &b->edits[i];
    return x->layer == y->layer && x->from == y->from && x->to == y->to && x->place == y->place &&
           x->op == y->op && x->scale == y->scale && x->has == y->has && x->answers == y->answers &&
           x->row == y->row && memcmp(x->v, y->v, a->width * sizeof *x->v) == 0;
}

static uint32_t first_from(const cdz_steering *s, uint32_t i)
{
    uint32_t first = UINT32_MAX;
    for (; s && i < s->n; i++)
        if (s->edits[i].from < first) first = s->edits[i].from;
    return first;
}

uint32_t cdz_steering_parts(const cdz_steering *a, const cdz_steering *b)
{
    uint32_t i = 0;
    if (a == b) return UINT32_MAX;
    while (a && b && i < a->n && i < b->n && same(a, b, i)) i++;
    const uint32_t x = first_from(a, i), y = first_from(b, i);
    return x < y ? x : y;
}

static bool reaches(const edit *e, uint32_t position)
{
    return position >= e->from && position < e->to;
}

bool cdz_steering_reaches(const cdz_steering *s, uint32_t position)
{
    for (uint32_t i = 0; s && i < s->n; i++)
        if (reaches(&s->edits[i], position)) return true;
    return false;
}

bool cdz_steering_edits(const cdz_steering *s, uint32_t layer, cdz_edit_place place)
{
    for (uint32_t i = 0; s && i < s->n; i++)
        if (s->edits[i].layer == layer && s->edits[i].place == place) return true;
    return false;
}

static void project_out(const edit *e, uint32_t width, float *h)
{
    double dot = 0;
    for (uint32_t k = 0; k < width; k++) dot += (double)h[k] * e->v[k];
    const double share = dot * e->share;
    for (uint32_t k = 0; k < width; k++) h[k] = (float)(h[k] - share * e->v[k]);
}

static void apply_one(const edit *e, uint32_t width, float *h)
{
    switch (e->op) {
    case CDZ_EDIT_ADD:
        for (uint32_t k = 0; k < width; k++) h[k] += e->v[k];
        return;
    case CDZ_EDIT_REPLACE: memcpy(h, e->v, width * sizeof *h); return;
    case CDZ_EDIT_SCALE:
        for (uint32_t k = 0; k < width; k++) h[k] *= e->has ? e->v[k] : e->scale;
        return;
    case CDZ_EDIT_PROJECT_OUT: project_out(e, width, h); return;
    case CDZ_EDIT_CALL: return;
    }
}

static void call(const edit *e, uint32_t width, uint32_t position, uint32_t n, float *h)
{
    cdz_steering_answerer *a = e->answers;
    const cdz_edit told = {.layer = e->layer,
                           .place = e->place,
                           .op = e->op,
                           .scale = e->scale,
                           .vector = e->has ? e->v : NULL,
                           .width = e->has ? width : 0,
                           .from = e->from,
                           .to = e->to == UINT32_MAX ? 0 : e->to};
    const cdz_hidden_chunk hidden = {.size = sizeof hidden,
                                     .row = e->row,
                                     .n = n,
                                     .position = position,
                                     .width = width,
                                     .h = h,
                                     .edit = &told};
    if (a->error.code != CDZ_OK) return;
    if (a->answer)
        (void)a->answer(a->of, &hidden, &a->error);
    else
        cdz_err(&a->error, CDZ_E_STATE, "the on_hidden of a sequence's edits has gone");
}

/* One edit on the positions that it reaches. */
static void apply(const edit *e, uint32_t width, uint32_t position, uint32_t n, float *h)
{
    const uint32_t from = position > e->from ? position : e->from,
                   to = position + n < e->to ? position + n : e->to;
    if (from >= to) return;
    h += (size_t)(from - position) * width;
    if (e->op == CDZ_EDIT_CALL) {
        call(e, width, from, to - from, h);
        return;
    }
    for (uint32_t i = 0; i < to - from; i++) apply_one(e, width, h + (size_t)i * width);
}

void cdz_steering_apply(const cdz_steering *s, uint32_t layer, cdz_edit_place place,
                        uint32_t position, uint32_t n, float *h)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const edit *e = &s->edits[i];
        if (e->layer == layer && e->place == place) apply(e, s->width, position, n, h);
    }
}

uint32_t cdz_steering_first_call(const cdz_steering *s)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; s && i < s->n; i++)
        if (s->edits[i].answers && s->edits[i].from < first) first = s->edits[i].from;
    return first;
}
