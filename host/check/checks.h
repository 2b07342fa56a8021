/* checks.h - the functions behind the table of checks, by the file that has them. docs/plugin-test.md says what each
 * one means to the author of a plugin. */
#ifndef CDZ_HOST_CHECK_CHECKS_H
#define CDZ_HOST_CHECK_CHECKS_H

#include "check/child.h"

/* on_basics.c */
cdz_check_fn cdz_check_descriptor, cdz_check_runs, cdz_check_parameters, cdz_check_fuzz;
/* on_bounds.c */
cdz_check_fn cdz_check_row_bounds, cdz_check_ids_bounds, cdz_check_state_bounds;
/* on_purity.c */
cdz_check_fn cdz_check_pure, cdz_check_same_seed, cdz_check_instances;
/* on_time.c */
cdz_check_fn cdz_check_fork, cdz_check_rewind, cdz_check_draft, cdz_check_batch;
/* on_promises.c */
cdz_check_fn cdz_check_elementwise, cdz_check_keeps_top, cdz_check_keeps_argmax,
    cdz_check_sampling_only, cdz_check_history_sparse, cdz_check_needs_normalised, cdz_check_form,
    cdz_check_constrained, cdz_check_has_eos;
/* on_hidden.c */
cdz_check_fn cdz_check_on_hidden;
/* on_threads.c */
cdz_check_fn cdz_check_threads, cdz_check_own_threads;
/* function: of the host, called on a thread of the plugin's own; NULL: none was. threads: its brackets. */
cdz_check_state cdz_judge_astray(cdz_child *c, const char *function, const char *threads);
/* on_replay.c */
cdz_check_fn cdz_check_replay, cdz_check_replay_requests;
/* on_odd_rows.c */
cdz_check_fn cdz_check_odd_rows, cdz_check_nan_spread, cdz_check_vocabularies;
/* on_manners.c */
cdz_check_fn cdz_check_no_alloc, cdz_check_environment, cdz_check_leaks, cdz_check_out_of_memory,
    cdz_check_speed;
/* on_vectors.c */
cdz_check_fn cdz_check_vectors;
/* on_requests.c */
cdz_check_fn cdz_check_generates, cdz_check_same_tokens, cdz_check_company,
    cdz_check_changes_nothing, cdz_check_cancel, cdz_check_leaves_nothing;
/* on_batches.c */
cdz_check_fn cdz_check_batch_of_3;
/* on_verbs.c */
cdz_check_fn cdz_check_passes_on, cdz_check_ids_of_rows, cdz_check_reasons, cdz_check_sequences,
    cdz_check_rows_of_scores, cdz_check_caps, cdz_check_own_threads_of_run,
    cdz_check_on_hidden_of_run;
/* on_moves.c */
cdz_check_fn cdz_check_scores_move;
/* on_watch.c */
cdz_check_fn cdz_check_watches, cdz_check_ids_shown, cdz_check_rows_shown;
/* on_fuzz.c */
cdz_check_fn cdz_check_fuzz_requests;
/* on_drafts.c */
cdz_check_fn cdz_check_proposals, cdz_check_same_drafts, cdz_check_own_threads_of_drafts;

/* on_files.c */
cdz_check_fn cdz_check_opens, cdz_check_file_bounds, cdz_check_garbage, cdz_check_cut,
    cdz_check_huge, cdz_check_twice, cdz_check_open_close, cdz_check_no_memory,
    cdz_check_open_leaves;

/* on_turns.c */
cdz_check_fn cdz_check_turns, cdz_check_nobody_starves, cdz_check_same_turns, cdz_check_turns_leave,
    cdz_check_turns_no_memory;

/* on_presses.c */
cdz_check_fn cdz_check_presses, cdz_check_same_press, cdz_check_presses_leave,
    cdz_check_presses_no_memory;

/* surroundings.c: what of the process a plugin leaves as it found it. */
cdz_surroundings *cdz_surroundings_note(cdz_arena *arena); /* NULL: out of memory */
/* The first thing that differs, as a sentence; false: nothing. */
bool cdz_surroundings_changed(const cdz_surroundings *before, char *what, size_t bytes);
void cdz_surroundings_forgive_files(cdz_surroundings *s); /* those open now are meant to be */

#endif
