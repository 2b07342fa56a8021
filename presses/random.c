/* random.c - positions stay by chance: what every other press is to be better than.
 *
 * With a seed the scores are torch's, drawn anew for each layer, so that all layers drop the same; without one they are the
 * request's own noise. */
#include "presses.h"

enum { WORDS = 624, SHIFT = 397 };

typedef struct {
    cdz_opt_real compression_ratio;
    cdz_opt_int seed;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    CDZ_OPT_INT(settings, seed, 0, 0, 4294967295.0,
                "of torch's generator, begun anew in each layer; unset: noise of the request's seed"),
};

/* MT19937. */
typedef struct twister {
    uint32_t words[WORDS];
    uint32_t at;
} twister;

static void begin(twister *t, uint32_t seed)
{
    t->words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        t->words[i] = 1812433253u * (t->words[i - 1] ^ (t->words[i - 1] >> 30)) + i;
    t->at = WORDS;
}

static void turn(twister *t)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        const uint32_t x = (t->words[i] & 0x80000000u) | (t->words[(i + 1) % WORDS] & 0x7fffffffu);
        t->words[i] = t->words[(i + SHIFT) % WORDS] ^ (x >> 1) ^ (x & 1 ? 0x9908b0dfu : 0);
    }
    t->at = 0;
}

/* Uniform in [0, 1), as torch.rand has it. */
static float draw(twister *t)
{
    if (t->at == WORDS) turn(t);
    uint32_t x = t->words[t->at++];
    x ^= x >> 11;
    x ^= (x << 7) & 0x9d2c5680u;
    x ^= (x << 15) & 0xefc60000u;
    x ^= x >> 18;
    return (float)(x & 0xffffffu) * 0x1p-24f;
}

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

static void score_by_seed(const cdz_press_view *view, const cdz_press_choice *choice, twister *t)
{
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < view->counts[g]; i++) scores_of(view, choice, g)[i] = draw(t);
}

/* An entry's number hangs on its layer, head and position. */
static void score_by_noise(const cdz_step *step, const cdz_press_view *view,
                           const cdz_press_choice *choice)
{
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < view->counts[g]; i++) {
            uint32_t words[4];
            step->host->noise(step, view->layer * view->n_kv_heads + g, position_of(view, g, i),
                              words);
            scores_of(view, choice, g)[i] = (float)(words[0] >> 8) * 0x1p-24f;
        }
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    if (!p->seed.set) {
        score_by_noise(step, view, choice);
        return CDZ_OK;
    }
    twister *t = cdz_scratch(step, sizeof *t);
    if (!t) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for random numbers");
    begin(t, (uint32_t)p->seed.value);
    score_by_seed(view, choice, t);
    return CDZ_OK;
}

static const cdz_press random_press = {
    .base = {CDZ_PRESS_BASE, .id = "random", .version = "1.0.0",
             .summary = "Keep positions by chance", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&random_press.base)
