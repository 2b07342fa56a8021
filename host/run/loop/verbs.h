/* verbs.h - the functions of cdz_decoder_api, by the file that has them. sdk/include/cadenza/strategy.h says what each
 * one does. */
#ifndef CDZ_HOST_RUN_LOOP_VERBS_H
#define CDZ_HOST_RUN_LOOP_VERBS_H

#include "cadenza/strategy.h"

/* The head of every verb that can fail: it is called on the loop's own fibre (CDZ_E_PLUGIN), and the request goes on
 * (CDZ_E_CANCELLED, CDZ_E_DEADLINE). */
typedef enum cdz_verb_flag {
    CDZ_VERB_SCRATCH = 1u << 0, /* what the verb before took of verb_scratch is forgotten */
    CDZ_VERB_LATE = 1u << 1,    /* also when the request is over */
} cdz_verb_flag;
cdz_status cdz_verb_enter(cdz_decoder *dec, uint32_t flags); /* loop.c */

/* rows.c */
uint32_t cdz_verb_n_rows(const cdz_decoder *dec);
cdz_ids cdz_verb_input_ids(const cdz_decoder *dec, uint32_t row);
bool cdz_verb_done(const cdz_decoder *dec);
bool cdz_verb_row_done(const cdz_decoder *dec, uint32_t row);
cdz_status cdz_verb_forward(cdz_decoder *dec, cdz_scores *out);
cdz_status cdz_verb_process(cdz_decoder *dec, cdz_scores *scores);
cdz_status cdz_verb_finish(cdz_decoder *dec, uint32_t row, cdz_stop_reason reason, const char *text);
/* append.c */
cdz_status cdz_verb_append(cdz_decoder *dec, uint32_t row, int32_t token);
cdz_status cdz_verb_append_rows(cdz_decoder *dec, int32_t *tokens);
cdz_status cdz_verb_append_chunk(cdz_decoder *dec, uint32_t row, const int32_t *tokens, uint32_t n,
                                 const cdz_scores *logits, const cdz_scores *scores,
                                 uint32_t *taken);
uint32_t cdz_verb_rewindable(const cdz_decoder *dec, uint32_t row);
cdz_status cdz_verb_rewind(cdz_decoder *dec, uint32_t row, uint32_t n);
cdz_status cdz_verb_reorder(cdz_decoder *dec, const uint32_t *parents);
cdz_status cdz_verb_extend_rows(cdz_decoder *dec, const uint32_t *parents, const int32_t *tokens);
/* scores.c */
cdz_status cdz_verb_map(cdz_decoder *dec, cdz_scores *scores);
cdz_status cdz_verb_softmax(cdz_decoder *dec, cdz_scores *scores);
cdz_status cdz_verb_log_softmax(cdz_decoder *dec, cdz_scores *scores);
cdz_status cdz_verb_softmax_flat(cdz_decoder *dec, const cdz_scores *scores, uint32_t first,
                                 uint32_t n, const float *addends, cdz_scores *out);
cdz_status cdz_verb_ban(cdz_decoder *dec, cdz_scores *scores, uint32_t row, int32_t token);
cdz_status cdz_verb_scratch_scores(cdz_decoder *dec, uint32_t n_rows, cdz_scores *out);
/* choice.c */
cdz_status cdz_verb_argmax(cdz_decoder *dec, const cdz_scores *scores, uint32_t row, cdz_pick *out);
cdz_status cdz_verb_argmax_rows(cdz_decoder *dec, const cdz_scores *scores, int32_t *tokens);
cdz_status cdz_verb_multinomial(cdz_decoder *dec, const cdz_scores *probs, int32_t *tokens);
cdz_status cdz_verb_topk_flat(cdz_decoder *dec, const cdz_scores *scores, uint32_t first,
                              uint32_t n, const float *addends, uint32_t m, cdz_candidate *out);
cdz_status cdz_verb_draw_rows(cdz_decoder *dec, cdz_scores *scores, int32_t *tokens);
cdz_status cdz_verb_multinomial_flat(cdz_decoder *dec, const cdz_scores *probs, uint32_t first,
                                     uint32_t n, uint32_t m, cdz_candidate *out);
cdz_status cdz_verb_uniform(cdz_decoder *dec, uint32_t n, float *out);
/* seqs.c */
cdz_status cdz_verb_seq_new(cdz_decoder *dec, const char *model, cdz_seq **out);
cdz_status cdz_verb_seq_hide_as(cdz_decoder *dec, cdz_seq *seq, uint32_t row);
cdz_status cdz_verb_seq_new_exit(cdz_decoder *dec, const char *model, uint32_t n_layers,
                                 cdz_seq **out);
cdz_seq *cdz_verb_seq_of_row(cdz_decoder *dec, uint32_t row);
cdz_status cdz_verb_seq_fork(cdz_decoder *dec, const cdz_seq *seq, cdz_seq **out);
void cdz_verb_seq_free(cdz_decoder *dec, cdz_seq *seq);
cdz_status cdz_verb_seq_append(cdz_decoder *dec, cdz_seq *seq, const int32_t *ids, uint32_t n);
cdz_status cdz_verb_seq_truncate(cdz_decoder *dec, cdz_seq *seq, uint32_t len);
uint32_t cdz_verb_seq_length(const cdz_decoder *dec, const cdz_seq *seq);
cdz_ids cdz_verb_seq_ids(const cdz_decoder *dec, const cdz_seq *seq);
cdz_status cdz_verb_seq_forward(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n,
                                cdz_positions positions, cdz_scores *out);
cdz_status cdz_verb_seq_process(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                                uint32_t n, cdz_scores *scores);
cdz_status cdz_verb_stop_test(cdz_decoder *dec, const cdz_ids *ids, const uint32_t *rows,
                              uint32_t n, cdz_stop *stops);
/* derive.c */
cdz_status cdz_verb_process_ids(cdz_decoder *dec, uint32_t pipeline, const cdz_ids *ids,
                                const uint32_t *rows, uint32_t n, cdz_scores *scores);
cdz_status cdz_verb_pipeline_derive(cdz_decoder *dec, const char *const *exclude, uint32_t n_exclude,
                                    const char *const *append, uint32_t n_append, uint32_t *out);
/* draft.c */
bool cdz_verb_has_drafter(const cdz_decoder *dec);
uint32_t cdz_verb_drafter_caps(const cdz_decoder *dec);
cdz_status cdz_verb_propose(cdz_decoder *dec, uint32_t row, cdz_draft *out);
cdz_status cdz_verb_judged(cdz_decoder *dec, uint32_t row, uint32_t n_accepted);
/* hidden.c */
cdz_status cdz_verb_keep_hidden(cdz_decoder *dec, cdz_positions positions, const uint32_t *layers,
                                uint32_t n);
cdz_status cdz_verb_hidden_states(cdz_decoder *dec, cdz_hidden *out);
cdz_status cdz_verb_head(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out);
cdz_status cdz_verb_lens(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out);
bool cdz_verb_facts(const cdz_decoder *dec, const char *model, cdz_model_facts *out);
/* inputs.c */
cdz_status cdz_verb_embed(cdz_decoder *dec, const char *model, const int32_t *ids, uint32_t n,
                          float *out);
cdz_status cdz_verb_seq_embeds(cdz_decoder *dec, cdz_seq *seq, uint32_t from, const float *embeds,
                               uint32_t n, uint32_t width);
/* steering.c */
cdz_status cdz_verb_seq_steer(cdz_decoder *dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n);
cdz_status cdz_verb_on_hidden(cdz_decoder *dec, cdz_on_hidden_fn *fn, void *user);
/* return.c */
cdz_status cdz_verb_return_rows(cdz_decoder *dec, const cdz_returned *rows, uint32_t n);
/* record.c */
cdz_status cdz_verb_token_scores(cdz_decoder *dec, const cdz_scores *scores, const uint32_t *rows,
                                 const int32_t *tokens, uint32_t n, cdz_token_score *out);
cdz_status cdz_verb_record(cdz_decoder *dec, cdz_record_kind what, const cdz_scores *scores);
cdz_status cdz_verb_put_result(cdz_decoder *dec, const char *name, cdz_result_type type,
                               uint32_t n_dims, const uint64_t *shape, const void *data);
/* loop.c */
bool cdz_verb_cancelled(const cdz_decoder *dec);
double cdz_verb_deadline_s(const cdz_decoder *dec);
uint32_t cdz_verb_vocab_size(const cdz_decoder *dec, const char *model);

/* insert.c */
cdz_status cdz_verb_insert(cdz_decoder *dec, uint32_t row, const int32_t *ids, uint32_t n,
                           uint32_t flags, const char *who);
/* append.c */
cdz_status cdz_verb_commit(cdz_decoder *dec, uint32_t row, uint32_t n);
/* branches.c */
cdz_status cdz_verb_seq_score(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t last,
                              float *out);
cdz_status cdz_verb_seq_append_forward(cdz_decoder *dec, cdz_seq *const *seqs,
                                       const int32_t *tokens, uint32_t n, cdz_scores *out);
cdz_status cdz_verb_rollouts(cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows,
                             uint32_t n, uint32_t most, bool draws, cdz_rollout *out);
/* values.c */
uint32_t cdz_verb_n_values(const cdz_decoder *dec, const char *model);
cdz_string cdz_verb_value_label(const cdz_decoder *dec, const char *model, uint32_t i);
cdz_status cdz_verb_seq_value(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values,
                              float *out);
/* outside.c */
cdz_status cdz_verb_sleep(cdz_decoder *dec, double seconds);
cdz_status cdz_verb_wait_fd(cdz_decoder *dec, int fd, uint32_t events, double seconds,
                            uint32_t *ready);
cdz_status cdz_verb_offload(cdz_decoder *dec, void (*fn)(void *arg), void *arg);
cdz_status cdz_verb_call_tool(cdz_decoder *dec, const char *name, const char *text, uint32_t len,
                              cdz_tool_answer *out);

#endif
