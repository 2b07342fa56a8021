/* bad_scheduler.h - the same for schedulers: an honest list, and the descriptor. */
#ifndef CADENZA_TESTS_BAD_SCHEDULER_H
#define CADENZA_TESTS_BAD_SCHEDULER_H

#include <cadenza/scheduler.h>

#define BAD_SCHEDULER(...)                                                                         \
    static const cdz_scheduler bad = {.base = {CDZ_SCHEDULER_BASE, .id = "org.example.bad",        \
                                               .version = "1.0.0", .summary = "A bad scheduler"},  \
                                      __VA_ARGS__};                                                \
    CDZ_EXPORT_PLUGINS(&bad.base)

static inline cdz_status admit_well(const cdz_contest *contest, cdz_lineup *turns)
{
    for (uint32_t i = 0; i < contest->n_waiting; i++) turns->list[i] = i;
    turns->n = contest->n_waiting;
    return CDZ_OK;
}

#endif
