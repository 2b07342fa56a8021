/* leading.c - joins the list of a row's best scores with the list of those that were changed, both by rising id, and puts
 * the sum of their exponentials right. What falls below the list's bound is left out. A NaN ends it: the row has to be read. */
#include "vec/leading.h"

#include <math.h>

/* Both lists as one by rising id, what is below the bound left out. False: a NaN. */
static bool join(const cdz_leading *l, const cdz_changes *c, int32_t *ids, float *x, size_t *n)
{
    *n = 0;
    for (size_t i = 0, k = 0; i < l->n || k < c->n;) {
        const bool changed = k < c->n && (i == l->n || c->ids[k] <= l->ids[i]);
        const int32_t id = changed ? c->ids[k] : l->ids[i];
        const float score = changed ? c->is[k] : l->x[i];
        i += i < l->n && l->ids[i] == id;
        k += changed;
        if (isnan(score)) return false;
        if (score < l->low) continue;
        ids[*n] = id;
        x[(*n)++] = score;
    }
    return *n > 0;
}

static float largest(const float *x, size_t n)
{
    float top = -INFINITY;
    for (size_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static double term(float score, float divisor, float top)
{
    return exp((double)(score / divisor) - (double)(top / divisor));
}

/* What is left of the old sum is off by as much as that was, and so by a larger part of itself. 0: nothing is left that
 * could be told. */
static void change_mass(cdz_leading *l, const cdz_changes *c, float old_top, float top)
{
    const double scale = term(old_top, c->divisor, top), had = l->mass;
    double left = had, added = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        left -= term(c->was[i], c->divisor, old_top);
        added += term(c->is[i], c->divisor, top);
    }
    l->mass = (left > 0.0 ? left : 0.0) * scale + added;
    l->mass_off = l->mass_off * had * scale / l->mass + 1.0;
    if (!isfinite(l->mass) || !isfinite(l->mass_off)) l->mass = 0.0;
}

bool cdz_leading_change(cdz_leading *leaders, const cdz_changes *changes, int32_t *ids, float *x)
{
    const float old_top = largest(leaders->x, leaders->n);
    size_t n;
    if (!join(leaders, changes, ids, x, &n)) return false;
    leaders->ids = ids;
    leaders->x = x;
    leaders->n = n;
    if (changes->divisor != 0.0f) change_mass(leaders, changes, old_top, largest(x, n));
    return true;
}
