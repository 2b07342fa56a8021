/* checks.c - the table of checks: what each is called and promises, and what has to hold before it says anything. */
#include "check/checks.h"

#include "check/table.h"

#define BIT(kind) (1u << (kind))
#define PROC      BIT(CDZ_KIND_PROCESSOR)
#define CRIT      BIT(CDZ_KIND_CRITERION)
#define STRAT     BIT(CDZ_KIND_STRATEGY)
#define DRAFT     BIT(CDZ_KIND_DRAFTER)
#define OBSERVE   BIT(CDZ_KIND_OBSERVER)
#define LOAD      BIT(CDZ_KIND_LOADER)
#define SCHED     BIT(CDZ_KIND_SCHEDULER)
#define PRESS     BIT(CDZ_KIND_PRESS)
#define BOTH      (PROC | CRIT)
#define ENGINE    (STRAT | DRAFT | OBSERVE)
#define ALL       (BOTH | ENGINE)

/* In order. needs: a check that failed takes the ground from those that name it; they are skipped and say so. */
static const cdz_check_row rows[] = {
    {"descriptor", "id, version, summary, parameters and flags are valid",
     ALL | LOAD | SCHED | PRESS, "scan", cdz_check_descriptor},
    {"runs", "create, begin and every step of short and long requests succeed", BOTH, "scan",
     cdz_check_runs},
    {"proposals", "drafts are in the vocabulary and no longer than asked, and change no row", DRAFT,
     "scan", cdz_check_proposals},
    {"generates", "requests of 1 to 120 tokens end at that length, with tokens of the vocabulary",
     ENGINE, "scan,proposals", cdz_check_generates},
    {"runs", "no call of it fails, whatever the decode loop does", OBSERVE, "generates",
     cdz_check_watches},
    {"runs", "every call of queues that are played to it answers with turns that can be", SCHED,
     "scan", cdz_check_turns},
    {"runs", "every call on layers that are made up for it answers with what can stay", PRESS,
     "scan", cdz_check_presses},
    {"vectors", "the package's own tests/NAME.json give the expected results", BOTH, "scan",
     cdz_check_vectors},
    {"parameters", "every bound, default and unset value is taken, or refused with a sentence",
     ALL | SCHED | PRESS, "scan,runs,generates", cdz_check_parameters},
    {"fuzz", "random valid settings run, or are refused with a sentence", BOTH, "parameters",
     cdz_check_fuzz},
    {"fuzz",
     "requests with random settings on random models end within their limits, or are refused",
     STRAT, "parameters", cdz_check_fuzz_requests},
    {"environment", "the process is left as found: rounding, locale, signals, files, threads", BOTH,
     "runs", cdz_check_environment},
    {"row-bounds", "no access outside the rows of scores, or the answers of a criterion", BOTH,
     "runs", cdz_check_row_bounds},
    {"ids-bounds", "no access outside input_ids, and no write to them", BOTH, "runs",
     cdz_check_ids_bounds},
    {"state-bounds", "no access outside the state of a row", BOTH, "runs", cdz_check_state_bounds},
    {"pure", "apply and test change neither state, nor parameters, nor the next answer", BOTH,
     "runs,environment", cdz_check_pure},
    {"same-seed", "the same request in another process gives the same bits", BOTH, "pure",
     cdz_check_same_seed},
    {"instances", "two requests at once do not affect each other", BOTH, "same-seed",
     cdz_check_instances},
    {"fork", "a forked row continues as if its tokens had been replayed", BOTH, "instances",
     cdz_check_fork},
    {"rewind", "tokens taken back have no effect", BOTH, "fork", cdz_check_rewind},
    {"draft", "calls for a prefix that is rejected later have no effect", BOTH, "rewind",
     cdz_check_draft},
    {"batch", "splitting and permuting the rows of a call changes nothing", BOTH, "pure",
     cdz_check_batch},
    {"threads", "promise: rows may be processed on several threads at once", PROC, "batch,draft",
     cdz_check_threads},
    {"own-threads", "functions of the host are called on the threads that their headers name", BOTH,
     "runs", cdz_check_own_threads},
    {"has-eos", "promise: stops at an end-of-sequence token", CRIT, "pure", cdz_check_has_eos},
    {"elementwise", "promise: a score depends on that score alone", PROC, "pure",
     cdz_check_elementwise},
    {"keeps-top", "promise: masks what is below a cut and changes nothing else", PROC, "pure",
     cdz_check_keeps_top},
    {"keeps-argmax", "promise: the best token stays the best", PROC, "pure", cdz_check_keeps_argmax},
    {"sampling-only", "promise: a warper, not a rule for what may be written", PROC, "pure",
     cdz_check_sampling_only},
    {"history-sparse", "promise: touches tokens of input_ids and a constant set only", PROC, "pure",
     cdz_check_history_sparse},
    {"form", "promise: apply does what the processor declares as its form", PROC, "pure",
     cdz_check_form},
    {"constrained", "promise: apply leaves no token that the constraint it tells of does not allow",
     PROC, "pure", cdz_check_constrained},
    {"on-hidden", "what on_hidden makes of a position hangs on no other position or call", PROC,
     "pure", cdz_check_on_hidden},
    {"needs-normalised", "promise: log-probabilities as input make a difference", PROC, "pure",
     cdz_check_needs_normalised},
    {"replay", "a real text, token by token, with the tokenizer of --model or the kit's", BOTH,
     "draft,ids-bounds,row-bounds", cdz_check_replay},
    {"odd-rows", "rows of -inf, NaN, +inf, equal and extreme scores cause no crash", PROC, "runs",
     cdz_check_odd_rows},
    {"nan-spread", "such a row changes no other row", PROC, "batch,odd-rows", cdz_check_nan_spread},
    {"vocabularies", "vocabularies of 1 to 151936 tokens", BOTH, "runs", cdz_check_vocabularies},
    {"no-alloc", "no heap allocation between two tokens", BOTH, "runs", cdz_check_no_alloc},
    {"leaks", "requests leave no memory, files or threads behind", BOTH, "environment",
     cdz_check_leaks},
    {"out-of-memory", "refused memory is a status, not a crash", BOTH, "runs",
     cdz_check_out_of_memory},
    {"same-tokens", "the same request again gives the same tokens", ENGINE, "generates",
     cdz_check_same_tokens},
    {"changes-nothing", "a request gives the same tokens as without the plugin", DRAFT | OBSERVE,
     "same-tokens", cdz_check_changes_nothing},
    {"company", "a request beside others gives the same tokens", ENGINE, "same-tokens",
     cdz_check_company},
    {"ids-bounds", "no access outside input_ids, and no write to them", OBSERVE, "runs",
     cdz_check_ids_shown},
    {"row-bounds", "no write to the rows that it is shown, no read past their end", OBSERVE,
     "changes-nothing,runs", cdz_check_rows_shown},
    {"ids-bounds", "no access outside input_ids, and no write to them", STRAT, "generates",
     cdz_check_ids_of_rows},
    {"reasons", "rows end for reasons that are possible", STRAT, "generates", cdz_check_reasons},
    {"sequences", "sequences that are no longer needed are freed", STRAT, "generates",
     cdz_check_sequences},
    {"row-bounds", "no touch outside the rows of scores that verbs give", STRAT, "same-tokens",
     cdz_check_rows_of_scores},
    {"caps", "promise: draws, takes tokens back, drops and searches when it says so", STRAT,
     "generates", cdz_check_caps},
    {"scores-move", "promise: finds scores whose memory a processor kept", STRAT, "same-tokens",
     cdz_check_scores_move},
    {"on-hidden", "what on_hidden makes of a position hangs on no other position or call", STRAT,
     "same-tokens", cdz_check_on_hidden_of_run},
    {"own-threads", "verbs are called on the engine's thread, not on one of the plugin's own",
     STRAT, "generates", cdz_check_own_threads_of_run},
    {"own-threads", "verbs are called on the engine's thread, not on one of the plugin's own",
     DRAFT, "generates", cdz_check_own_threads_of_drafts},
    {"same-drafts", "the same request gets the same proposals, alone and beside others", DRAFT,
     "same-tokens,company", cdz_check_same_drafts},
    {"batch-of-3", "three prompts in one request are answered as each alone", ENGINE, "company",
     cdz_check_batch_of_3},
    {"cancel", "a cancelled request ends at once", ENGINE, "generates", cdz_check_cancel},
    {"passes-on", "when a verb fails, run returns the verb's status", STRAT, "cancel",
     cdz_check_passes_on},
    {"replay", "pieces of a real text as prompts", ENGINE, "generates", cdz_check_replay_requests},
    {"leaves-nothing", "the process and the KV memory are left as found", ENGINE, "generates",
     cdz_check_leaves_nothing},
    {"opens", "the package's own examples open, and their descriptors are valid", LOAD, "scan",
     cdz_check_opens},
    {"file-bounds", "no access outside a file's bytes, and none after open has returned", LOAD,
     "opens", cdz_check_file_bounds},
    {"cut", "truncated examples open, or are refused with a sentence", LOAD, "file-bounds",
     cdz_check_cut},
    {"garbage", "so do corrupted examples and random bytes", LOAD, "cut", cdz_check_garbage},
    {"huge", "so do files as large as a file may be, in time", LOAD, "garbage", cdz_check_huge},
    {"twice", "a file opened twice makes the same plugins twice, independent of each other", LOAD,
     "opens", cdz_check_twice},
    {"open-leaves", "open and close leave the process as found", LOAD, "opens",
     cdz_check_open_leaves},
    {"open-close", "opening and closing 1,050 times leaves nothing behind", LOAD,
     "twice,open-leaves", cdz_check_open_close},
    {"no-memory", "refused memory is a status, not a crash", LOAD, "opens", cdz_check_no_memory},
    {"starves", "nobody is overtaken for ever, and something begins while nothing runs", SCHED,
     "runs", cdz_check_nobody_starves},
    {"same-turns", "the same queue has the same turns, alone and beside another runtime's", SCHED,
     "runs", cdz_check_same_turns},
    {"environment", "the process is left as found: rounding, locale, signals, files, threads",
     SCHED, "runs", cdz_check_turns_leave},
    {"out-of-memory", "refused memory is a status, not a crash", SCHED, "runs",
     cdz_check_turns_no_memory},
    {"same-press", "the same layer gets the same answer, whatever was shown before", PRESS, "runs",
     cdz_check_same_press},
    {"environment", "the process is left as found: rounding, locale, signals, files, threads",
     PRESS, "runs", cdz_check_presses_leave},
    {"out-of-memory", "refused memory is a status, not a crash", PRESS, "runs",
     cdz_check_presses_no_memory},
    {"speed", "processor time per row of 151936 tokens; only reported", PROC, "vocabularies",
     cdz_check_speed},
};

_Static_assert(sizeof rows / sizeof rows[0] < CDZ_MOST_CHECKS,
               "the last ones have no name for --only");

const cdz_check_row *cdz_check_at(uint32_t i)
{
    return i < sizeof rows / sizeof rows[0] ? &rows[i] : NULL;
}

bool cdz_check_listed(uint32_t i, const char **name, const char **about, uint32_t *kinds)
{
    const cdz_check_row *row = i == 0 ? &cdz_check_scan_row : cdz_check_at(i - 1);
    if (!row) return false;
    *name = row->name;
    *about = row->about;
    *kinds = row->kinds;
    return true;
}
