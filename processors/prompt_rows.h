/* prompt_rows.h - which prompt a row of scores belongs to, for the processors that look at the prompt.
 * ("Encoder ids" in transformers; with decoder-only models they are the prompt.) */
#ifndef CDZ_PROCESSORS_PROMPT_ROWS_H
#define CDZ_PROCESSORS_PROMPT_ROWS_H

#include "tools.h"

/* Rows of one prompt lie together: beams, or return sequences. */
static inline uint32_t prompt_index_of_row(const cdz_step *step, uint32_t r)
{
    const cdz_request_info *request = step->request;
    const uint32_t rows_per_prompt = request->n_rows / request->n_prompts;
    const uint32_t prompt = step->row_index[r] / (rows_per_prompt > 0 ? rows_per_prompt : 1);

    return prompt < request->n_prompts ? prompt : request->n_prompts - 1;
}

static inline cdz_ids prompt_of_row(const cdz_step *step, uint32_t r)
{
    return step->request->prompts[prompt_index_of_row(step, r)];
}

#endif
