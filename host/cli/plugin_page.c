/* plugin_page.c - what a plugin says of itself, in words: its promises, and a page of Markdown from its tables. */
#include "cli/plugin_page.h"

#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/loader.h"
#include "cadenza/press.h"
#include "cadenza/processor.h"
#include "cadenza/scheduler.h"
#include "cadenza/strategy.h"
#include "describe/descriptor.h"
#include "params/params.h"

typedef struct cap_name {
    uint32_t bit;
    const char *text;
} cap_name;

static const cap_name processor_caps[] = {
    {CDZ_NEEDS_IDS, "reads the tokens so far"},
    {CDZ_ROWWISE, "works row by row, on any thread"},
    {CDZ_ELEMENTWISE, "works element by element"},
    {CDZ_KEEPS_ARGMAX, "never changes which token is best"},
    {CDZ_KEEPS_TOP, "only masks what is below a cut"},
    {CDZ_HISTORY_SPARSE, "touches only tokens that were used and a constant set"},
    {CDZ_NEEDS_NORMALISED, "wants log-probabilities"},
    {CDZ_SAMPLING_ONLY, "used only when sampling"},
    {0, NULL},
};
static const cap_name criterion_caps[] = {{CDZ_HAS_EOS, "ends rows at end-of-sequence tokens"},
                                          {0, NULL}};
static const cap_name strategy_caps[] = {
    {CDZ_ONE_ROW, "written for one row; the host runs one of it per row"},
    {CDZ_REWINDS, "takes tokens back: text is shown when a row ends"},
    {CDZ_SAMPLES, "draws: naming it means do_sample = true"},
    {CDZ_GREEDY, "never draws: naming it means do_sample = false"},
    {CDZ_BEAMS, "needs num_beams above 1"},
    {CDZ_SCORES_MOVE, "lets processors keep the rows of scores that they are shown"},
    {0, NULL},
};

static const cap_name drafter_caps[] = {
    {CDZ_DRAWS_IN_TURN, "changes no draw: samples are those without drafts"}, {0, NULL}};

static const cap_name loader_caps[] = {{CDZ_SANDBOXES, "sandboxes what it opens"}, {0, NULL}};

static const cap_name scheduler_caps[] = {{CDZ_HAS_PRIORITIES, "goes by the priority of requests"},
                                          {0, NULL}};

static const cap_name press_caps[] = {
    {CDZ_PRESS_WRAPS, "changes what the press before it in the list says"}, {0, NULL}};

static const cap_name *promises(const cdz_plugin_base *base, uint32_t *caps)
{
    switch (base->kind) {
    case CDZ_KIND_PROCESSOR: *caps = ((const cdz_processor *)base)->caps; return processor_caps;
    case CDZ_KIND_CRITERION: *caps = ((const cdz_criterion *)base)->caps; return criterion_caps;
    case CDZ_KIND_STRATEGY: *caps = ((const cdz_strategy *)base)->caps; return strategy_caps;
    case CDZ_KIND_DRAFTER: *caps = ((const cdz_drafter *)base)->caps; return drafter_caps;
    case CDZ_KIND_LOADER: *caps = ((const cdz_loader *)base)->caps; return loader_caps;
    case CDZ_KIND_SCHEDULER: *caps = ((const cdz_scheduler *)base)->caps; return scheduler_caps;
    case CDZ_KIND_PRESS: *caps = ((const cdz_press *)base)->caps; return press_caps;
    default: *caps = 0; return strategy_caps;
    }
}

const char *cdz_cli_plugin_promise(const cdz_plugin_base *base, uint32_t i)
{
    uint32_t caps;
    for (const cap_name *names = promises(base, &caps); names->text; names++)
        if ((caps & names->bit) && i-- == 0) return names->text;
    return NULL;
}

/* Moves a cell into the table's row: a bar inside it would end it. */
static void put_cell(cdz_buf *out, cdz_buf *cell)
{
    out->failed |= cell->failed;
    for (size_t i = 0; i < cell->len; i++) {
        if (cell->data[i] == '|') cdz_buf_putc(out, '\\');
        cdz_buf_putc(out, cell->data[i]);
    }
    cdz_buf_puts(out, " | ");
    cdz_buf_clear(cell);
}

static void put_params(const cdz_param_table *table, cdz_buf *out)
{
    cdz_buf cell = {0};
    cdz_buf_puts(out, "\n| parameter | default | takes | meaning |\n|---|---|---|---|\n");
    for (uint32_t i = 0; i < table->n; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        cdz_buf_printf(out, "| `%s` | ", param->name);
        cdz_param_write_default(param, &cell);
        put_cell(out, &cell);
        cdz_param_describe(param, &cell);
        put_cell(out, &cell);
        cdz_buf_puts(&cell, param->help);
        put_cell(out, &cell);
        out->len--; /* no space after the last bar */
        cdz_buf_putc(out, '\n');
    }
    cdz_buf_free(&cell);
}

void cdz_cli_plugin_page(const cdz_plugin_base *base, cdz_buf *out)
{
    const cdz_param_table table = cdz_params_of(base);
    const char *text;
    cdz_buf_printf(out, "# %s\n\n%s. A %s, version %s.\n", base->id, base->summary,
                   cdz_kind_name(base->kind), base->version);
    if (base->kind == CDZ_KIND_LOADER)
        cdz_buf_printf(out, "\nOpens files that end in `%s`.\n",
                       ((const cdz_loader *)base)->endings);
    if (table.n) put_params(&table, out);
    for (uint32_t i = 0; (text = cdz_cli_plugin_promise(base, i)) != NULL; i++)
        cdz_buf_printf(out, "%s- %s\n", i ? "" : "\nIt promises:\n\n", text);
}
