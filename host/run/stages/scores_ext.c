/* scores_ext.c - "cadenza.scores/1": processors that keep the memory of the scores they were shown.
 *
 * Owns: nothing; what was kept is the plugin's. Invariant: before a processor that may keep is called, the matrix has a spare
 * memory (stages.c), so keep takes none. Thread: [engine]; release [any]. */
#include "cadenza/ext/scores.h"

#include <string.h>

#include "cadenza/processor.h"
#include "run/stages/stages.h"

static bool may_keep(const cdz_step *step)
{
    const cdz_scope *scope = step->scope;
    const cdz_processor *processor = (const void *)scope->plugin;
    cdz_keeping *keeping = &scope->rows->keeping;
    if (!keeping->may || scope->plugin->kind != CDZ_KIND_PROCESSOR) return false;
    if (processor->caps & CDZ_ROWWISE) return false;
    keeping->asked = true;
    return true;
}

/* Where it is now what lay in the matrix when its memory was `old`; anything else: where it was. */
static const float *moved(const cdz_matrix *m, const float *old, const float *at)
{
    const float *end = old + (size_t)m->cap_rows * m->n_vocab;
    return at && at >= old && at < end ? m->data + (at - old) : at;
}

/* Logits of companions lie behind the rows. */
static void move_logits(const cdz_stageset *set, const cdz_matrix *m, const float *old)
{
    size_t n = 0;
    for (uint32_t s = 0; s < set->processors.n; s++) n += set->processors.at[s].companion != 0;
    for (size_t i = 0; i < n * set->shown.n_rows; i++)
        set->shown.at[i] = moved(m, old, set->shown.at[i]);
}

static cdz_status keep(const cdz_step *step, cdz_scores *scores, void **memory)
{
    const cdz_scope *scope = step->scope;
    cdz_keeping *keeping = &scope->rows->keeping;
    cdz_matrix *m = scope->stage && may_keep(step) ? keeping->of : NULL;
    if (!m || !m->spare)
        return cdz_fail(step, CDZ_E_STATE,
                        "scores: keep takes the scores of the present apply, once, of a request "
                        "for which may_keep was true in begin");
    float *old = m->data;
    m->data = m->spare;
    m->spare = NULL;
    memcpy(m->data, old, (size_t)m->cap_rows * m->n_vocab * sizeof *old);
    keeping->scores->data = m->data + (keeping->scores->data - old);
    scores->data = cdz_row(keeping->scores, scope->first);
    move_logits(scope->set, m, old);
    *memory = old;
    return CDZ_OK;
}

const void *cdz_stages_scores(void)
{
    static const cdz_scores_host host = {
        .size = sizeof host, .may_keep = may_keep, .keep = keep, .release = cdz_cpu_free};
    return &host;
}
