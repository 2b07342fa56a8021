/* on_threads.c - threads of the host's, and threads of the plugin's own.
 *
 * Rows of a processor that promises CDZ_ROWWISE are asked on several threads at once, as the pool's are: each gets the bits
 * that it gets on the thread which began the request. And what the host offers on its own threads alone is not called on
 * those that a processor or criterion makes; on_verbs.c and on_drafts.c look at that in the other kinds. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "check/checks.h"
#include "check/probe.h"

enum { THREADS = 3, ROUNDS = 60, WHAT = 200 };

/* A thread's row, with a view of the request of its own: scratch memory and sentences are a thread's. */
typedef struct lane {
    cdz_probe view;
    cdz_follow f;
    const float *want;
    float *got;
    atomic_int *ready;
    bool differs;
    char what[WHAT];
} lane;

static void *ask_again_and_again(void *arg)
{
    lane *l = arg;
    atomic_fetch_add(l->ready, 1);
    while (atomic_load(l->ready) < THREADS) {
    }
    for (uint32_t i = 0; i < ROUNDS && !l->differs; i++) {
        (void)cdz_follow_ask(&l->f, l->got);
        l->differs = cdz_answers_differ(&l->view, l->got, l->want, l->what, sizeof l->what);
    }
    cdz_scratch_free(&l->view.scratch);
    return NULL;
}

static bool all_at_once(lane lanes[THREADS])
{
    pthread_t threads[THREADS];
    uint32_t n = 0;
    while (n < THREADS && pthread_create(&threads[n], NULL, ask_again_and_again, &lanes[n]) == 0)
        n++;
    if (n < THREADS) atomic_fetch_add(lanes[0].ready, THREADS); /* those that are there go on */
    for (uint32_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
    return n == THREADS;
}

static cdz_check_state threads_with(cdz_child *c, const cdz_setup *setup)
{
    cdz_probe t;
    lane lanes[THREADS];
    atomic_int ready = 0;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    const size_t len = cdz_answer_len(&t.facts);
    float *answers = cdz_answers_new(c, 2 * THREADS * len);
    if (!answers) return cdz_fail_check(c, "out of memory");
    for (uint32_t r = 0; r < THREADS; r++) {
        lane *l = &lanes[r];
        *l =
            (lane){.want = answers + r * len, .got = answers + (THREADS + r) * len, .ready = &ready};
        if (!cdz_follow_start(&l->f, &t, r)) return cdz_fail_check(c, "out of memory");
        (void)cdz_follow_ask(&l->f, answers + r * len);
        l->view = t;
        l->view.scratch = (cdz_scratch_mem){0};
        l->f.probe = &l->view;
    }
    cdz_check_note(c, "rows on %d threads at once with %s", (int)THREADS, setup->text);
    if (!all_at_once(lanes)) return cdz_skip_check(c, "no threads can be had");
    for (uint32_t r = 0; r < THREADS; r++)
        if (lanes[r].differs)
            return cdz_fail_check(c,
                                  "with %s: row %u, on another thread than the request began on and "
                                  "beside other rows: %s",
                                  setup->text, r, lanes[r].what);
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_threads(cdz_child *c)
{
    if (cdz_module_is_script(c->ref.module))
        return cdz_skip_check(c, "scripts stay on the engine's thread");
    if (!(cdz_probe_caps(c->ref.base) & CDZ_ROWWISE))
        return cdz_skip_check(c, "it does not promise to work row by row");
    return cdz_check_each_age(c, threads_with);
}

/* --- own-threads ------------------------------------------------------------------------------------------------------ */

cdz_check_state cdz_judge_astray(cdz_child *c, const char *function, const char *threads)
{
    if (!function) return CDZ_CHECK_OK;
    return cdz_fail_check(c,
                          "it calls %s, a function marked [%s], on a thread of its own, where those "
                          "marked [any] alone may be called (cadenza/ext/draft/thread-check.h tells "
                          "which thread it is)",
                          function, threads);
}

static cdz_check_state own_threads_with(cdz_child *c, const cdz_setup *setup)
{
    enum { STEPS = 12 };
    cdz_probe t;
    cdz_follow f;
    CDZ_CHECK_TRY(cdz_probe_ready(c, &t, setup, &cdz_usual_facts));
    float *answers = cdz_answers_new(c, STEPS * cdz_answer_len(&t.facts));
    if (!answers || !cdz_follow_start(&f, &t, 0)) return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "a request of %d tokens with %s", (int)STEPS, setup->text);
    cdz_follow_walk(&f, STEPS, 11, answers);
    cdz_probe_end(&t);
    const char *astray = atomic_load(&t.astray);
    cdz_probe_free(&t);
    return cdz_judge_astray(c, astray, "load, engine");
}

cdz_check_state cdz_check_own_threads(cdz_child *c)
{
    if (cdz_module_is_script(c->ref.module))
        return cdz_skip_check(c, "scripts have no threads of their own");
    return cdz_check_each_age(c, own_threads_with);
}
