/* fair_share.c - who has been given least goes first: each API key has an account of the tokens that were read and written for
 * it, and the request of the lowest account is next. A key that comes back after a while begins where the lowest of the others
 * is, so that nobody saves up turns. After Sheng and others, "Fairness in Serving Large Language Models" (2024): virtual
 * token counters. */
#include "turns.h"

enum {
    ACCOUNTS = 256, /* keys that have requests at once; more share the last account */
    PASSES = 4096,  /* whose lowest accounts are remembered */
};

typedef struct {
    double answer_weight;
    int64_t prompt_rows;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, answer_weight, 2, 0, 1000,
             "a token of an answer counts as so many of a prompt"),
    PROMPT_ROWS(settings),
};

typedef struct account {
    uint64_t tenant;
    double ended; /* what requests that have ended took */
    double total; /* with those that run; of the newest call */
    bool used;    /* somebody has it */
    bool active;  /* its tenant had requests at the last admission */
    bool present; /* it has some now */
    uint64_t age; /* of the oldest that waits, in passes */
} account;

typedef struct book {
    account accounts[ACCOUNTS];
    double lowest[PASSES]; /* account of those that ran in a pass, by its number */
} book;

/* [engine] */
static cdz_status begin(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(book));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "no memory for the accounts of keys");
}

static double cost(const settings *p, const cdz_contender *request)
{
    return (double)request->prompt_tokens + p->answer_weight * (double)request->new_tokens;
}

/* The tenant's account; one that nobody uses now is given away, the lowest first, since it has least to remember. */
static account *account_of(book *b, uint64_t tenant)
{
    account *free_one = NULL;

    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        account *a = &b->accounts[i];
        if (a->used && a->tenant == tenant) return a;
        if (a->used && (a->active || a->present)) continue;
        if (!free_one || (free_one->used && (!a->used || a->ended < free_one->ended))) free_one = a;
    }
    if (!free_one) return &b->accounts[ACCOUNTS - 1];
    *free_one = (account){.tenant = tenant, .used = true};
    return free_one;
}

static void add_running(book *b, const settings *p, const cdz_contest *contest)
{
    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        b->accounts[i].total = b->accounts[i].ended;
        b->accounts[i].present = false;
        b->accounts[i].age = 0;
    }
    for (uint32_t i = 0; i < contest->n_running; i++) {
        account *a = account_of(b, contest->running[i]->tenant);
        a->total += cost(p, contest->running[i]);
        a->present = true;
    }
}

/* Of those that have requests now; of those alone that had some before, too. */
static bool lowest_present(const book *b, bool before, double *out)
{
    bool any = false;

    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        const account *a = &b->accounts[i];
        if (!a->used || !a->present || (before && !a->active)) continue;
        if (!any || a->total < *out) *out = a->total;
        any = true;
    }
    return any;
}

/* Who comes, or comes back, begins where the lowest of the others was when the first request came, not when there was a place
 * for it at last. */
static void lift(book *b, uint64_t passes)
{
    double now = 0;
    const bool any = lowest_present(b, true, &now);

    for (uint32_t i = 0; i < ACCOUNTS; i++) {
        account *a = &b->accounts[i];
        const bool known = a->age > 0 && a->age < PASSES && a->age <= passes;
        const double then = known ? b->lowest[(passes - a->age) % PASSES] : now,
                     floor = any && now < then ? now : then;
        if ((any || known) && a->used && a->present && !a->active && a->total < floor) {
            a->ended += floor - a->total;
            a->total = floor;
        }
        a->active = a->present;
    }
}

/* [engine] One after the other: each takes its prompt's tokens from its account at once. */
static cdz_status admit(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    book *b = step->shared;
    const uint32_t n = contest->n_waiting;
    bool *listed = cdz_scratch(step, n * sizeof *listed);
    account **of = cdz_scratch(step, n * sizeof(account *));

    if (!listed || !of)
        return cdz_fail(step, CDZ_E_NOMEM, "no memory for an order of %u requests", n);
    add_running(b, step->params, contest);
    for (uint32_t i = 0; i < n; i++) {
        listed[i] = false;
        of[i] = account_of(b, contest->waiting[i]->tenant);
        of[i]->present = true;
        if (contest->waiting[i]->age_passes > of[i]->age)
            of[i]->age = contest->waiting[i]->age_passes;
    }
    lift(b, contest->passes);
    for (uint32_t k = 0; k < n && k < contest->places; k++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++)
            if (!listed[i] && (best == n || of[i]->total < of[best]->total)) best = i;
        listed[best] = true;
        of[best]->total += (double)contest->waiting[best]->prompt_tokens;
        turns->list[turns->n++] = best;
    }
    return CDZ_OK;
}

/* [engine] */
static cdz_status order(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const settings *p = step->params;
    book *b = step->shared;
    const uint32_t n = contest->n_running;
    place *places = cdz_scratch(step, n * sizeof *places);

    if (!places) return cdz_fail(step, CDZ_E_NOMEM, "no memory for an order of %u requests", n);
    add_running(b, p, contest);
    lowest_present(b, false, &b->lowest[contest->passes % PASSES]);
    for (uint32_t i = 0; i < n; i++)
        places[i] = (place){account_of(b, contest->running[i]->tenant)->total, i};
    list_by_key(turns, places, n);
    turns->prompt_rows = (uint32_t)p->prompt_rows;
    return CDZ_OK;
}

/* [engine] */
static void ended(const cdz_step *step, const cdz_contender *request)
{
    account_of(step->shared, request->tenant)->ended += cost(step->params, request);
}

static const cdz_scheduler fair_share = {
    .base = {CDZ_SCHEDULER_BASE, .id = "fair_share", .version = "1.0.0",
             .summary = "The API key that was given least goes first", CDZ_PARAMS(settings, params)},
    .begin = begin,
    .admit = admit,
    .order = order,
    .ended = ended,
};
CDZ_EXPORT_PLUGINS(&fair_share.base)
