/* profile.c - the account of an engine's time: which kind of work is charged now, what passes added, the difference of two
 * readings, and their tables as text and JSON. A mark charges what went before it. Thread: [engine]. */
#include "run/pass/profile.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"

static const struct {
    const char *name, *what;
} kinds[CDZ_N_WORK] = {
    [CDZ_WORK_SCHEDULE] = {"schedule", "gathering rows, choosing the next request"},
    [CDZ_WORK_REQUEST] = {"request", "requests' beginning and end"},
    [CDZ_WORK_STRATEGY] = {"strategy", "the decode loop, its fibre and its verbs"},
    [CDZ_WORK_RULES] = {"rules", "stopping rules, accept of plugins"},
    [CDZ_WORK_EMBED] = {"embed", "embedding rows"},
    [CDZ_WORK_MATMUL] = {"matmul", "matrix products of the layers"},
    [CDZ_WORK_ATTENTION] = {"attention", "attention, writing keys and values"},
    [CDZ_WORK_NORM] = {"norm", "norms, rotations, activations, sums"},
    [CDZ_WORK_HEAD] = {"head", "the last norm and the head"},
    [CDZ_WORK_PROCESSORS] = {"processors", "logits processors, edits of hidden states"},
    [CDZ_WORK_DRAW] = {"draw", "softmax, argmax, the draw"},
    [CDZ_WORK_TEXT] = {"detokenise", "ids to text, the caller's callback"},
};

const char *cdz_work_name(cdz_work work)
{
    return kinds[work].name;
}

/* --- taking ---------------------------------------------------------------------------------------------------------- */

static void charge(cdz_profile *profile)
{
    const double now = cdz_now_s();
    if (profile->now != CDZ_WORK_IDLE)
        profile->times.pass[profile->pass].seconds[profile->now] += now - profile->since;
    profile->since = now;
}

cdz_work cdz_profile_switch(cdz_profile *profile, cdz_work next)
{
    const cdz_work was = profile->now;
    if (next == was) return was;
    charge(profile);
    profile->now = next;
    return was;
}

void cdz_profile_settle(cdz_profile *profile)
{
    if (profile) charge(profile);
}

void cdz_profile_enter(cdz_profile *profile, cdz_pass pass)
{
    if (!profile || profile->pass == pass) return;
    charge(profile);
    profile->pass = pass;
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

static cdz_work_times pass_since(const cdz_work_times *now, const cdz_work_times *before)
{
    cdz_work_times d = {.passes = now->passes - before->passes,
                        .rows = now->rows - before->rows,
                        .switches = now->switches - before->switches,
                        .fewer = now->fewer - before->fewer};
    for (int w = 0; w < CDZ_N_WORK; w++) d.seconds[w] = now->seconds[w] - before->seconds[w];
    return d;
}

cdz_profile_times cdz_profile_since(const cdz_profile_times *now, const cdz_profile_times *before)
{
    cdz_profile_times d = {.requests = now->requests - before->requests, .scores = now->scores};
    d.scores.away -= before->scores.away;
    d.scores.fetched -= before->scores.fetched;
    d.scores.brought -= before->scores.brought;
    d.scores.bytes -= before->scores.bytes;
    for (int p = 0; p < CDZ_N_PASSES; p++) d.pass[p] = pass_since(&now->pass[p], &before->pass[p]);
    return d;
}

double cdz_work_seconds(const cdz_work_times *times)
{
    double sum = 0;
    for (int w = 0; w < CDZ_N_WORK; w++) sum += times->seconds[w];
    return sum;
}

double cdz_work_own_seconds(const cdz_work_times *times)
{
    return times->seconds[CDZ_WORK_SCHEDULE] + times->seconds[CDZ_WORK_STRATEGY] +
           times->seconds[CDZ_WORK_RULES];
}

void cdz_work_write_json(const cdz_work_times *times, cdz_buf *out)
{
    cdz_buf_printf(
        out,
        "{\"passes\": %llu, \"rows\": %llu, \"switches\": %llu, \"fewer_threads\": %llu, \"ms\": {",
        (unsigned long long)times->passes, (unsigned long long)times->rows,
        (unsigned long long)times->switches, (unsigned long long)times->fewer);
    for (int w = 0; w < CDZ_N_WORK; w++)
        cdz_buf_printf(out, "%s\"%s\": %.4f", w ? ", " : "", kinds[w].name, times->seconds[w] * 1e3);
    cdz_buf_puts(out, "}}");
}

void cdz_profile_write_json(const cdz_profile_times *times, const char *device, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"device\": ");
    cdz_json_write_string(out, device, strlen(device));
    cdz_buf_printf(out, ", \"requests\": %llu, \"prompt\": ", (unsigned long long)times->requests);
    cdz_work_write_json(&times->pass[CDZ_PASS_PROMPT], out);
    cdz_buf_puts(out, ", \"decode\": ");
    cdz_work_write_json(&times->pass[CDZ_PASS_DECODE], out);
    const cdz_rows_moved *scores = &times->scores;
    cdz_buf_printf(out,
                   ", \"scores\": {\"away\": %llu, \"fetched\": %llu, \"brought\": %llu, "
                   "\"bytes\": %llu, \"reader\": ",
                   (unsigned long long)scores->away, (unsigned long long)scores->fetched,
                   (unsigned long long)scores->brought, (unsigned long long)scores->bytes);
    cdz_json_write_string(out, scores->reader, strlen(scores->reader));
    cdz_buf_puts(out, "}}");
}

static double per(double amount, uint64_t n)
{
    return n ? amount / (double)n : 0;
}

static void write_kind(const cdz_profile_times *times, int w, cdz_buf *out)
{
    const cdz_work_times *prompt = &times->pass[CDZ_PASS_PROMPT],
                         *decode = &times->pass[CDZ_PASS_DECODE];
    const double all = cdz_work_seconds(decode);
    cdz_buf_printf(out, "  %-10s %10.2f %10.2f %10.1f %5.1f %%  %s\n", kinds[w].name,
                   prompt->seconds[w] * 1e3, decode->seconds[w] * 1e3,
                   per(decode->seconds[w] * 1e6, decode->passes),
                   all > 0 ? 100 * decode->seconds[w] / all : 0, kinds[w].what);
}

/* Of a device only: on the CPU nothing moves. */
static void write_rows_moved(const cdz_rows_moved *scores, cdz_buf *out)
{
    if (scores->away)
        cdz_buf_printf(
            out, "  %llu rows of scores stayed on the device, and %llu of them were fetched.\n",
            (unsigned long long)scores->away, (unsigned long long)scores->fetched);
    if (scores->brought)
        cdz_buf_printf(out,
                       "  %llu rows of scores were copied right after their passes, the last one for "
                       "%s.\n",
                       (unsigned long long)scores->brought, scores->reader);
    if (scores->away || scores->brought)
        cdz_buf_printf(out, "  %.1f kB of scores and ids were copied from the device.\n",
                       (double)scores->bytes / 1e3);
}

void cdz_profile_write_table(const cdz_profile_times *times, cdz_buf *out)
{
    const cdz_work_times *prompt = &times->pass[CDZ_PASS_PROMPT],
                         *decode = &times->pass[CDZ_PASS_DECODE];
    const uint64_t switches = prompt->switches + decode->switches,
                   fewer = prompt->fewer + decode->fewer;
    cdz_buf_printf(out, "  %-10s %10s %10s %10s %7s\n", "", "prompt ms", "decode ms", "us a step",
                   "share");
    for (int w = 0; w < CDZ_N_WORK; w++) write_kind(times, w, out);
    cdz_buf_printf(out, "  %-10s %10.2f %10.2f %10.1f\n", "together",
                   cdz_work_seconds(prompt) * 1e3, cdz_work_seconds(decode) * 1e3,
                   per(cdz_work_seconds(decode) * 1e6, decode->passes));
    cdz_buf_printf(out,
                   "  %llu passes of %llu rows for prompts, %llu of %llu for new tokens; %llu "
                   "requests, %llu switches of fibres\n",
                   (unsigned long long)prompt->passes, (unsigned long long)prompt->rows,
                   (unsigned long long)decode->passes, (unsigned long long)decode->rows,
                   (unsigned long long)times->requests, (unsigned long long)switches);
    if (fewer > 0)
        cdz_buf_printf(out,
                       "  %llu passes ran on fewer threads: other programs kept threads waiting\n",
                       (unsigned long long)fewer);
    write_rows_moved(&times->scores, out);
    cdz_buf_printf(out,
                   "  The engine's own work (schedule, strategy, rules): %.1f us a step, %.1f us for "
                   "each of its rows.\n",
                   per(cdz_work_own_seconds(decode) * 1e6, decode->passes),
                   per(cdz_work_own_seconds(decode) * 1e6, decode->rows));
}
