/* bench_report.c - the report of `cadenza bench`: as a table for people, as JSON, and beside the machine's limits. */
#include "cli/bench_report.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cadenza/cadenza.h"

static const double steady_share = 0.1; /* of its median, between a limit's extremes */

double cdz_cli_bench_step_bytes(const cdz_bench_report *r)
{
    const double seen = r->settings.context + r->settings.new_tokens / 2.0;
    const double head = (double)r->cost.head_bytes,
                 less = r->screened * (head - (double)r->screen_bytes);
    return (double)r->cost.layer_bytes + head - less +
           r->settings.batch * (seen * (double)r->cost.kv_bytes + 2.0 * (double)r->cost.state_bytes);
}

bool cdz_cli_bench_limit_holds(const cdz_bench_figure *f)
{
    return f->limit.low > 0 && f->limit.high - f->limit.low <= steady_share * f->limit.median;
}

/* --- table ------------------------------------------------------------------------------------------------------------ */

static void write_spread(cdz_buf *out, const char *name, cdz_spread s, const char *unit)
{
    cdz_buf_printf(out, "  %-22s %10.2f   %9.2f to %9.2f  %s\n", name, s.median, s.low, s.high,
                   unit);
}

static void write_figure(cdz_buf *out, const cdz_bench_figure *f, const char *ms, const char *unit,
                         const char *limit)
{
    char of[64];
    snprintf(of, sizeof of, "of %s", limit);
    write_spread(out, "tokens/s", f->tokens_per_s, "");
    write_spread(out, ms, f->ms, "");
    write_spread(out, unit, f->reached, "");
    if (cdz_cli_bench_limit_holds(f))
        write_spread(out, of, f->fraction, "");
    else if (f->limit.high > 0)
        cdz_buf_printf(out, "  %-22s not told: the limit itself moved by more than a tenth\n", of);
    else
        cdz_buf_printf(out, "  %-22s not known for these kernels\n", of);
}

static void write_stages(cdz_buf *out, const cdz_bench_report *r)
{
    const cdz_work_times *prompt = &r->prefill.times, *step = &r->decode.times;
    const double rounds = r->settings.rounds, steps = step->passes ? (double)step->passes : 1;
    cdz_buf_printf(out, "\n  %-22s %10s %12s %8s\n", "stage", "prompt ms", "step us", "share");
    for (int w = 0; w < CDZ_N_WORK; w++)
        cdz_buf_printf(out, "  %-22s %10.2f %12.1f %6.1f %%\n", cdz_work_name((cdz_work)w),
                       prompt->seconds[w] * 1e3 / rounds, step->seconds[w] * 1e6 / steps,
                       100 * step->seconds[w] / cdz_work_seconds(step));
    cdz_buf_printf(out, "  the engine's own work: %.1f us a step\n",
                   cdz_work_own_seconds(step) * 1e6 / steps);
}

bool cdz_cli_bench_limits_known(const cdz_bench_report *r)
{
    return strcmp(r->device, "cpu") == 0;
}

static void write_head(cdz_buf *out, const cdz_bench_report *r)
{
    const cdz_bench_settings *s = &r->settings;
    cdz_buf_printf(out, "%s, %s%s%s: %.1f M parameters, %.1f MB of weights read for a step\n",
                   r->model, r->weights->arch.architecture, r->quantize ? " in " : "",
                   r->quantize ? r->quantize : "", (double)r->weights->facts.n_parameters * 1e-6,
                   (double)(r->cost.layer_bytes + r->cost.head_bytes) * 1e-6);
    if (r->weights->facts.int8_bytes)
        cdz_buf_printf(out,
                       "%.1f MB of them are multiplied with int8 activations, %.1f MB are "
                       "repacked into panels\n",
                       (double)r->weights->facts.int8_bytes * 1e-6,
                       (double)r->weights->facts.panel_bytes * 1e-6);
    const unsigned parts = (unsigned)r->weights->facts.bf16_parts;
    if (r->weights->facts.bf16_activation_bytes)
        cdz_buf_printf(out, "%.1f MB of them are multiplied with bf16 activations%s\n",
                       (double)r->weights->facts.bf16_activation_bytes * 1e-6,
                       parts == 3   ? " in three parts, on AMX"
                       : parts == 1 ? ", on AMX"
                                    : "");
    if (r->screened > 0)
        cdz_buf_printf(out, "%.0f %% of the steps read %.1f MB in place of the head's %.1f MB\n",
                       r->screened * 100, (double)r->screen_bytes * 1e-6,
                       (double)r->cost.head_bytes * 1e-6);
    cdz_buf_printf(out, "%s, %s kernels, %u threads; medians of %u rounds and extremes\n", r->cpu,
                   r->variant, r->threads, s->rounds);
    if (!cdz_cli_bench_limits_known(r))
        cdz_buf_printf(out, "passes on %s; its limits were not measured\n", r->device);
    cdz_buf_printf(out, "opened in %.1f ms, first token of %u prompt tokens %.1f ms after that\n",
                   r->open_ms, s->context, r->first_ms);
}

void cdz_cli_bench_write_table(const cdz_bench_report *r, cdz_buf *out)
{
    const cdz_bench_settings *s = &r->settings;
    write_head(out, r);
    cdz_buf_printf(out, "\nprompt of %u tokens", s->prompt_tokens);
    if (s->batch > 1) cdz_buf_printf(out, ", %u of them together", s->batch);
    cdz_buf_putc(out, '\n');
    write_figure(out, &r->prefill, "ms", "GMAC/s", "multiply-add limit");
    if (cdz_cli_bench_limits_known(r))
        write_spread(out, "multiply-add limit", r->prefill.limit, "GMAC/s");
    cdz_buf_printf(out, "\n%u new tokens after %u", s->new_tokens, s->context);
    if (s->batch > 1) cdz_buf_printf(out, ", %u sequences together", s->batch);
    cdz_buf_putc(out, '\n');
    write_figure(out, &r->decode, "ms a step", "GB/s", "read limit");
    if (cdz_cli_bench_limits_known(r)) {
        write_spread(out, "read limit", r->decode.limit, "GB/s");
        cdz_buf_printf(out, "  %-22s %10.2f   %24s GB/s\n", "highest look at it", r->highest_gbs,
                       "");
    }
    write_stages(out, r);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------- */

static void json_text(cdz_buf *out, const char *name, const char *text)
{
    cdz_buf_printf(out, "\"%s\": ", name);
    if (text)
        cdz_json_write_string(out, text, strlen(text));
    else
        cdz_buf_puts(out, "null");
}

static void json_spread(cdz_buf *out, const char *name, cdz_spread s)
{
    cdz_buf_printf(out, ", \"%s\": {\"median\": ", name);
    cdz_json_write_real(out, s.median);
    cdz_buf_puts(out, ", \"low\": ");
    cdz_json_write_real(out, s.low);
    cdz_buf_puts(out, ", \"high\": ");
    cdz_json_write_real(out, s.high);
    cdz_buf_putc(out, '}');
}

/* unit: of limit and reached, as it ends their names. */
static void json_figure(cdz_buf *out, const char *name, const cdz_bench_figure *f, const char *ms,
                        const char *unit)
{
    char limit[32];
    snprintf(limit, sizeof limit, "limit_%s", unit);
    cdz_buf_printf(out, ",\n \"%s\": {\"passes\": %llu", name, (unsigned long long)f->times.passes);
    json_spread(out, "tokens_per_s", f->tokens_per_s);
    json_spread(out, ms, f->ms);
    json_spread(out, unit, f->reached);
    if (f->limit.high > 0)
        json_spread(out, limit, f->limit);
    else
        cdz_buf_printf(out, ", \"%s\": null", limit);
    if (cdz_cli_bench_limit_holds(f))
        json_spread(out, "fraction", f->fraction);
    else
        cdz_buf_puts(out, ", \"fraction\": null");
    cdz_buf_puts(out, ", \"stages\": ");
    cdz_work_write_json(&f->times, out);
    cdz_buf_putc(out, '}');
}

static void json_model(cdz_buf *out, const cdz_bench_report *r)
{
    const uint64_t weights = r->cost.layer_bytes + r->cost.head_bytes;
    const uint64_t macs = r->cost.layer_macs + r->cost.head_macs;
    cdz_buf_puts(out, "{\"schema\": \"cadenza.bench/1\", ");
    json_text(out, "version", cdz_version());
    cdz_buf_puts(out, ",\n \"model\": {");
    json_text(out, "path", r->model);
    cdz_buf_puts(out, ", ");
    json_text(out, "architecture", r->weights->arch.architecture);
    cdz_buf_puts(out, ", ");
    json_text(out, "quantize", r->quantize);
    cdz_buf_puts(out, ", ");
    json_text(out, "activations", r->activations);
    cdz_buf_printf(out, ", \"int8_bytes\": %llu, \"panel_bytes\": %llu",
                   (unsigned long long)r->weights->facts.int8_bytes,
                   (unsigned long long)r->weights->facts.panel_bytes);
    cdz_buf_printf(out,
                   ", \"parameters\": %llu, \"weight_bytes_per_step\": %llu, "
                   "\"kv_bytes_per_position\": %llu, \"macs_per_token\": %llu}",
                   (unsigned long long)r->weights->facts.n_parameters, (unsigned long long)weights,
                   (unsigned long long)r->cost.kv_bytes, (unsigned long long)macs);
}

void cdz_cli_bench_write_json(const cdz_bench_report *r, cdz_buf *out)
{
    const cdz_bench_settings *s = &r->settings;
    const uint64_t steps = r->decode.times.passes ? r->decode.times.passes : 1;
    json_model(out, r);
    cdz_buf_puts(out, ",\n \"machine\": {");
    json_text(out, "cpu", r->cpu);
    cdz_buf_puts(out, ", ");
    json_text(out, "variant", r->variant);
    cdz_buf_puts(out, ", ");
    json_text(out, "device", r->device);
    cdz_buf_printf(out, ", \"threads\": %u}", r->threads);
    cdz_buf_printf(out,
                   ",\n \"settings\": {\"prompt_tokens\": %u, \"new_tokens\": %u, \"context\": %u, "
                   "\"batch\": %u, \"rounds\": %u}",
                   s->prompt_tokens, s->new_tokens, s->context, s->batch, s->rounds);
    cdz_buf_printf(out, ",\n \"open_ms\": %.3f, \"first_token_ms\": %.3f", r->open_ms, r->first_ms);
    json_figure(out, "prefill", &r->prefill, "ms", "gmac_s");
    json_figure(out, "decode", &r->decode, "ms_per_step", "gb_s");
    cdz_buf_printf(out, ",\n \"step_bytes\": %.0f, \"screened\": %.3f, \"own_us_per_step\": %.3f}\n",
                   cdz_cli_bench_step_bytes(r), r->screened,
                   cdz_work_own_seconds(&r->decode.times) * 1e6 / (double)steps);
}
