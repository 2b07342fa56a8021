/* bad_loop.h - the same for strategies, drafters and observers. */
#ifndef CADENZA_TESTS_BAD_LOOP_H
#define CADENZA_TESTS_BAD_LOOP_H

#include <cadenza/drafter.h>
#include <cadenza/observer.h>
#include <cadenza/strategy.h>

#include "bad.h"

#define BAD_STRATEGY(...)                                                                          \
    static const cdz_strategy bad = {__VA_ARGS__};                                                 \
    CDZ_EXPORT_PLUGINS(&bad.base)
#define BAD_DRAFTER(...)                                                                           \
    static const cdz_drafter bad = {__VA_ARGS__};                                                  \
    CDZ_EXPORT_PLUGINS(&bad.base)
#define BAD_OBSERVER(...)                                                                          \
    static const cdz_observer bad = {__VA_ARGS__};                                                 \
    CDZ_EXPORT_PLUGINS(&bad.base)

/* An honest greedy step of a strategy written for one row; shift is added to the token. */
static inline cdz_status one_step(cdz_decoder *dec, uint32_t shift)
{
    cdz_scores scores;
    cdz_pick pick;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_process(dec, &scores));
    CDZ_TRY(cdz_argmax(dec, &scores, 0, &pick));
    return cdz_append(dec, 0, (int32_t)(((uint32_t)pick.token + shift) % scores.n_vocab));
}

#endif
