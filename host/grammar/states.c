/* states.c - configurations: closing, stepping, interning. */
#include "grammar/states.h"

#include "grammar/grow.h"

/* The first trouble stays. */
#define TROUBLE(s, code, ...)                                                                      \
    do {                                                                                           \
        if ((s)->status == CDZ_OK) (s)->status = cdz_err(&(s)->error, code, __VA_ARGS__);          \
    } while (0)

static void no_memory(cdz_grammar_states *s)
{
    TROUBLE(s, CDZ_E_NOMEM, "out of memory for the states of a grammar (%u so far)", s->n_configs);
}

static uint32_t mix(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t h = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 29 ^ c) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 32);
}

/* --- frames ------------------------------------------------------------------------------------------- */

static bool enlarge_frames(cdz_grammar_states *s)
{
    const uint32_t size = s->frame_table_size ? 2 * s->frame_table_size : 256;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (uint32_t f = 1; f < s->n_frames; f++) {
        uint32_t at = mix(s->frames[f].rule, s->frames[f].config, 0) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = f;
    }
    free(s->frame_table);
    s->frame_table = table;
    s->frame_table_size = size;
    return true;
}

static uint32_t frame_of(cdz_grammar_states *s, uint32_t rule, uint32_t config)
{
    if ((s->n_frames + 1) * 2 >= s->frame_table_size && !enlarge_frames(s)) {
        no_memory(s);
        return 0;
    }
    uint32_t at = mix(rule, config, 0) & (s->frame_table_size - 1);
    for (uint32_t f; (f = s->frame_table[at]) != 0; at = (at + 1) & (s->frame_table_size - 1))
        if (s->frames[f].rule == rule && s->frames[f].config == config) return f;
    if (!cdz_grow(&s->frames, &s->frames_cap, (size_t)s->n_frames + 1, sizeof *s->frames)) {
        no_memory(s);
        return 0;
    }
    s->frames[s->n_frames] = (cdz_net_frame){rule, config};
    return s->frame_table[at] = s->n_frames++;
}

/* --- a list of items, each once ----------------------------------------------------------------------- */

static bool same_item(const cdz_net_item *a, const cdz_net_item *b)
{
    return a->node == b->node && a->frame == b->frame && a->count == b->count;
}

static bool enlarge_seen(cdz_grammar_states *s)
{
    const uint32_t size = s->seen_size ? 2 * s->seen_size : 256;
    uint32_t *seen = calloc(size, sizeof *seen);
    if (!seen) return false;
    for (uint32_t i = 0; i < s->n_work; i++) {
        const cdz_net_item *w = &s->work[i];
        uint32_t at = mix(w->node, w->frame, w->count) & (size - 1);
        while (seen[at]) at = (at + 1) & (size - 1);
        seen[at] = i + 1;
    }
    free(s->seen);
    s->seen = seen;
    s->seen_size = size;
    return true;
}

static void work_clear(cdz_grammar_states *s)
{
    if (s->n_work * 8 > s->seen_size) {
        memset(s->seen, 0, s->seen_size * sizeof *s->seen);
    } else {
        for (uint32_t i = s->n_work; i-- > 0;) { /* backwards, so that no search meets a hole */
            const cdz_net_item *w = &s->work[i];
            uint32_t at = mix(w->node, w->frame, w->count) & (s->seen_size - 1);
            while (s->seen[at] != i + 1) at = (at + 1) & (s->seen_size - 1);
            s->seen[at] = 0;
        }
    }
    s->n_work = 0;
}

static void push(cdz_grammar_states *s, uint32_t node, uint32_t frame, uint32_t count)
{
    const cdz_net_item item = {node, frame, count};
    if (s->status != CDZ_OK) return;
    if ((s->n_work + 1) * 2 >= s->seen_size && !enlarge_seen(s)) {
        no_memory(s);
        return;
    }
    uint32_t at = mix(node, frame, count) & (s->seen_size - 1);
    for (uint32_t i; (i = s->seen[at]) != 0; at = (at + 1) & (s->seen_size - 1))
        if (same_item(&s->work[i - 1], &item)) return;
    if (s->n_work >= CDZ_GRAMMAR_MAX_ITEMS) {
        TROUBLE(s, CDZ_E_LIMIT,
                "a text may stand at more than %u places of the grammar (grammar_max_states)",
                CDZ_GRAMMAR_MAX_ITEMS);
        return;
    }
    if (!cdz_grow(&s->work, &s->work_cap, (size_t)s->n_work + 1, sizeof *s->work)) {
        no_memory(s);
        return;
    }
    s->work[s->n_work++] = item;
    s->seen[at] = s->n_work;
}

/* Everyone who waits for the frame's rule goes on. */
static void resume_callers(cdz_grammar_states *s, uint32_t frame)
{
    const cdz_net_frame f = s->frames[frame];
    const cdz_net_config *c = &s->configs[f.config];
    for (uint32_t i = 0; i < c->n_callers; i++) {
        const cdz_net_caller *k = &s->callers[c->callers + i];
        if (k->rule == f.rule) push(s, k->to, k->frame, k->count);
    }
}

/* --- interning ----------------------------------------------------------------------------------------- */

static int by_item(const void *a, const void *b)
{
    const cdz_net_item *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->frame != y->frame) return x->frame < y->frame ? -1 : 1;
    return x->count < y->count ? -1 : x->count > y->count;
}

static uint32_t hash_items(const cdz_net_item *at, uint32_t n)
{
    uint32_t h = n;
    for (uint32_t i = 0; i < n; i++) h = mix(h ^ at[i].node, at[i].frame, at[i].count);
    return h;
}

static bool enlarge_configs(cdz_grammar_states *s)
{
    const uint32_t size = s->config_table_size ? 2 * s->config_table_size : 1024;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (uint32_t c = 1; c < s->n_configs; c++) {
        uint32_t at = hash_items(s->items + s->configs[c].items, s->configs[c].n_items) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = c;
    }
    free(s->config_table);
    s->config_table = table;
    s->config_table_size = size;
    return true;
}

static uint32_t new_config(cdz_grammar_states *s, uint32_t slot)
{
    if (s->n_configs >= CDZ_GRAMMAR_MAX_CONFIGS) {
        TROUBLE(s, CDZ_E_LIMIT, "the grammar has been in more than %u states (grammar_max_states)",
                CDZ_GRAMMAR_MAX_CONFIGS);
        return 0;
    }
    if (!cdz_grow(&s->configs, &s->configs_cap, (size_t)s->n_configs + 1, sizeof *s->configs) ||
        !cdz_grow(&s->items, &s->items_cap, (size_t)s->n_items + s->n_kernel, sizeof *s->items)) {
        no_memory(s);
        return 0;
    }
    memcpy(s->items + s->n_items, s->kernel, s->n_kernel * sizeof *s->items);
    s->configs[s->n_configs] = (cdz_net_config){.items = s->n_items, .n_items = s->n_kernel};
    s->n_items += s->n_kernel;
    return s->config_table[slot] = s->n_configs++;
}

static void sort_items(cdz_net_item *at, uint32_t n)
{
    if (n > 12) {
        qsort(at, n, sizeof *at, by_item);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        const cdz_net_item item = at[i];
        uint32_t k = i;
        for (; k && by_item(&item, &at[k - 1]) < 0; k--) at[k] = at[k - 1];
        at[k] = item;
    }
}

/* The configuration of the kernel items; 0: there are none. */
static uint32_t intern(cdz_grammar_states *s)
{
    uint32_t n = 0;
    if (s->status != CDZ_OK || !s->n_kernel) return 0;
    sort_items(s->kernel, s->n_kernel);
    for (uint32_t i = 0; i < s->n_kernel; i++)
        if (!i || !same_item(&s->kernel[i], &s->kernel[n - 1])) s->kernel[n++] = s->kernel[i];
    s->n_kernel = n;
    if ((s->n_configs + 1) * 2 >= s->config_table_size && !enlarge_configs(s)) {
        no_memory(s);
        return 0;
    }
    uint32_t at = hash_items(s->kernel, n) & (s->config_table_size - 1);
    for (uint32_t c; (c = s->config_table[at]) != 0; at = (at + 1) & (s->config_table_size - 1))
        if (s->configs[c].n_items == n &&
            memcmp(s->items + s->configs[c].items, s->kernel, n * sizeof *s->kernel) == 0)
            return c;
    return new_config(s, at);
}

static void add_kernel(cdz_grammar_states *s, cdz_net_item item)
{
    if (!cdz_grow(&s->kernel, &s->kernel_cap, (size_t)s->n_kernel + 1, sizeof *s->kernel))
        no_memory(s);
    else
        s->kernel[s->n_kernel++] = item;
}

/* --- closing --------------------------------------------------------------------------------------------- */

static void add_caller(cdz_grammar_states *s, const cdz_net_caller *caller)
{
    if (!cdz_grow(&s->callers, &s->callers_cap, (size_t)s->n_callers + 1, sizeof *s->callers))
        no_memory(s);
    else
        s->callers[s->n_callers++] = *caller;
}

/* A call as the last thing of a rule leaves nothing to come back to: the rule called takes the caller's frame. */
static void call(cdz_grammar_states *s, uint32_t config, const cdz_net_item *item,
                 const cdz_net_edge *e)
{
    const cdz_net_rule *rule = &s->net->rules[e->arg];
    uint32_t frame = item->frame;
    if (!s->net->end_of[e->to]) {
        const cdz_net_caller caller = {e->arg, e->to, item->frame, item->count};
        add_caller(s, &caller);
        frame = frame_of(s, e->arg, config);
    }
    push(s, rule->start, frame, 0);
    if (rule->nullable) push(s, e->to, item->frame, item->count);
}

static uint32_t counted(const cdz_net_rule *rule, uint32_t count)
{
    return rule->max == UINT32_MAX && count >= rule->min ? rule->min : count + 1;
}

/* Follows what takes nothing. Returns whether the item takes bytes or tokens itself. */
static bool close_item(cdz_grammar_states *s, uint32_t config, cdz_net_item item, bool *tokens)
{
    const cdz_net *net = s->net;
    bool live = false;
    for (uint32_t i = net->first[item.node]; i < net->first[item.node + 1]; i++) {
        const cdz_net_edge *e = &net->edges[i];
        const cdz_net_rule *rule = &net->rules[e->arg];
        switch (e->kind) {
        case CDZ_NET_TOKENS: *tokens = true; /* fall through */
        case CDZ_NET_BYTES: live = true; break;
        case CDZ_NET_NOTHING: push(s, e->to, item.frame, item.count); break;
        case CDZ_NET_CALL: call(s, config, &item, e); break;
        case CDZ_NET_COUNT_IN:
            if (item.count < rule->max) push(s, e->to, item.frame, item.count);
            break;
        case CDZ_NET_COUNT_ADD: push(s, e->to, item.frame, counted(rule, item.count)); break;
        default:
            if (item.count >= rule->min) push(s, e->to, item.frame, item.count);
        }
    }
    return live;
}

static void close_config(cdz_grammar_states *s, uint32_t config)
{
    cdz_net_config c = s->configs[config];
    if (c.closed) return;
    work_clear(s);
    for (uint32_t i = 0; i < c.n_items; i++) {
        const cdz_net_item item = s->items[c.items + i];
        push(s, item.node, item.frame, item.count);
    }
    c.callers = s->n_callers;
    s->n_kernel = 0;
    for (uint32_t i = 0; i < s->n_work && s->status == CDZ_OK; i++) {
        const cdz_net_item item = s->work[i];
        if (close_item(s, config, item, &c.tokens)) add_kernel(s, item);
        if (!s->net->end_of[item.node]) continue;
        if (!item.frame)
            c.accepts = true;
        else if (s->frames[item.frame].config != config)
            resume_callers(s, item.frame);
    }
    c.n_callers = s->n_callers - c.callers;
    c.live = s->n_items;
    c.n_live = s->n_kernel;
    if (!cdz_grow(&s->items, &s->items_cap, (size_t)s->n_items + s->n_kernel, sizeof *s->items)) {
        no_memory(s);
        return;
    }
    if (s->n_kernel) memcpy(s->items + s->n_items, s->kernel, s->n_kernel * sizeof *s->items);
    s->n_items += s->n_kernel;
    c.closed = true;
    s->configs[config] = c;
}

/* --- stepping ---------------------------------------------------------------------------------------------- */

/* Turns the work into a kernel: an item at a rule's end is what its callers go on with, but for the bottom's. */
static uint32_t settle(cdz_grammar_states *s)
{
    s->n_kernel = 0;
    for (uint32_t i = 0; i < s->n_work && s->status == CDZ_OK; i++) {
        const cdz_net_item item = s->work[i];
        if (s->net->end_of[item.node] && item.frame)
            resume_callers(s, item.frame);
        else
            add_kernel(s, item);
    }
    return intern(s);
}

static uint32_t step(cdz_grammar_states *s, uint32_t config, uint8_t byte)
{
    close_config(s, config);
    if (s->status != CDZ_OK) return 0;
    const cdz_net_config c = s->configs[config];
    work_clear(s);
    for (uint32_t i = 0; i < c.n_live; i++) {
        const cdz_net_item item = s->items[c.live + i];
        for (uint32_t k = s->net->first[item.node]; k < s->net->first[item.node + 1]; k++) {
            const cdz_net_edge *e = &s->net->edges[k];
            if (e->kind == CDZ_NET_BYTES && e->lo <= byte && byte <= e->hi)
                push(s, e->to, item.frame, item.count);
        }
    }
    return settle(s);
}

/* A row of transitions: those that no edge takes are known at once. */
static bool add_row(cdz_grammar_states *s, uint32_t config)
{
    const uint32_t n = s->net->n_classes;
    close_config(s, config);
    if (s->status != CDZ_OK) return false;
    if (!cdz_grow(&s->rows, &s->rows_cap, ((size_t)s->n_rows + 1) * n, sizeof *s->rows)) {
        no_memory(s);
        return false;
    }
    uint32_t *row = s->rows + (size_t)s->n_rows * n;
    const cdz_net_config c = s->configs[config];
    cdz_net_classes *takes = &s->configs[config].takes;
    memset(row, 0, n * sizeof *row);
    for (uint32_t i = 0; i < c.n_live; i++) {
        const uint32_t node = s->items[c.live + i].node;
        for (uint32_t k = s->net->first[node]; k < s->net->first[node + 1]; k++) {
            const cdz_net_edge *e = &s->net->edges[k];
            if (e->kind != CDZ_NET_BYTES) continue;
            const uint32_t lo = s->net->class_of[e->lo], hi = s->net->class_of[e->hi];
            memset(row + lo, 0xFF, (hi - lo + 1) * sizeof *row);
            for (uint32_t b = lo; b <= hi; b++) takes->bits[b / 64] |= (uint64_t)1 << (b % 64);
        }
    }
    s->configs[config].next = ++s->n_rows;
    return true;
}

const uint32_t *cdz_grammar_states_new_row(cdz_grammar_states *s, uint32_t config)
{
    if (!config || !add_row(s, config)) return NULL;
    return s->rows + (size_t)(s->configs[config].next - 1) * s->net->n_classes;
}

const cdz_net_classes *cdz_grammar_states_takes(cdz_grammar_states *s, uint32_t config)
{
    return cdz_grammar_states_row(s, config) ? &s->configs[config].takes : NULL;
}

uint32_t cdz_grammar_states_next(cdz_grammar_states *s, uint32_t config, uint8_t byte)
{
    const uint32_t n = s->net->n_classes, class = s->net->class_of[byte];
    if (!config || (!s->configs[config].next && !add_row(s, config))) return 0;
    const size_t at = (size_t)(s->configs[config].next - 1) * n + class;
    if (s->rows[at] != CDZ_STATE_UNKNOWN) return s->rows[at];
    const uint32_t to = step(s, config, byte);
    if (s->status == CDZ_OK) s->rows[at] = to;
    return s->status == CDZ_OK ? to : 0;
}

bool cdz_grammar_states_accepts(cdz_grammar_states *s, uint32_t config)
{
    if (!config) return false;
    close_config(s, config);
    return s->configs[config].accepts;
}

uint32_t cdz_grammar_states_token(cdz_grammar_states *s, uint32_t config, uint32_t id,
                                  uint32_t bytes)
{
    if (!config) return 0;
    close_config(s, config);
    const cdz_net_config c = s->configs[config];
    if (!c.tokens || s->status != CDZ_OK) return bytes;
    work_clear(s);
    for (uint32_t i = 0; i < c.n_live; i++) {
        const cdz_net_item item = s->items[c.live + i];
        for (uint32_t k = s->net->first[item.node]; k < s->net->first[item.node + 1]; k++) {
            const cdz_net_edge *e = &s->net->edges[k];
            if (e->kind == CDZ_NET_TOKENS && cdz_net_has_token(s->net, e->arg, id))
                push(s, e->to, item.frame, item.count);
        }
    }
    for (uint32_t i = 0; bytes && i < s->configs[bytes].n_items; i++) {
        const cdz_net_item item = s->items[s->configs[bytes].items + i];
        push(s, item.node, item.frame, item.count);
    }
    return settle(s);
}

void cdz_grammar_states_mark_tokens(cdz_grammar_states *s, uint32_t config, uint64_t *mask,
                                    uint32_t n_ids)
{
    close_config(s, config);
    const cdz_net_config c = s->configs[config];
    for (uint32_t i = 0; c.tokens && i < c.n_live; i++) {
        const uint32_t node = s->items[c.live + i].node;
        for (uint32_t k = s->net->first[node]; k < s->net->first[node + 1]; k++) {
            if (s->net->edges[k].kind != CDZ_NET_TOKENS) continue;
            for (uint32_t id = 0; id < n_ids; id++)
                if (cdz_net_has_token(s->net, s->net->edges[k].arg, id))
                    mask[id / 64] |= (uint64_t)1 << (id % 64);
        }
    }
}

/* --- forced bytes ------------------------------------------------------------------------------------------ */

/* The one byte that may come after a configuration; -1: there are others, or none, or the text may end, or a token may
 * come by its number. */
static int only_byte(cdz_grammar_states *s, uint32_t config, uint32_t *to)
{
    const cdz_net *net = s->net;
    int only = -1;
    if (cdz_grammar_states_accepts(s, config) || s->configs[config].tokens) return -1;
    for (uint32_t k = 0; k < net->n_classes; k++) {
        const uint32_t end = k + 1 < net->n_classes ? net->sample[k + 1] : 256u;
        const uint32_t next = cdz_grammar_states_next(s, config, net->sample[k]);
        if (!next) continue;
        if (only >= 0 || end - net->sample[k] > 1) return -1;
        only = net->sample[k];
        *to = next;
    }
    return only;
}

size_t cdz_grammar_states_forced(cdz_grammar_states *s, uint32_t config, char *out, size_t room)
{
    size_t n = 0;
    for (int byte; config && n < room && (byte = only_byte(s, config, &config)) >= 0;)
        out[n++] = (char)byte;
    return s->status == CDZ_OK ? n : 0;
}

uint64_t cdz_grammar_states_bytes(const cdz_grammar_states *s)
{
    return (uint64_t)s->configs_cap * sizeof *s->configs + s->frames_cap * sizeof *s->frames +
           s->items_cap * sizeof *s->items + s->callers_cap * sizeof *s->callers +
           s->rows_cap * sizeof *s->rows + s->config_table_size * sizeof *s->config_table +
           s->frame_table_size * sizeof *s->frame_table + s->work_cap * sizeof *s->work +
           s->kernel_cap * sizeof *s->kernel + s->seen_size * sizeof *s->seen;
}

/* --- beginning, end ------------------------------------------------------------------------------------------ */

bool cdz_grammar_states_begin(cdz_grammar_states *s, cdz_net *net)
{
    *s = (cdz_grammar_states){.net = net, .n_configs = 1, .n_frames = 1, .status = CDZ_OK};
    if (!cdz_grow(&s->configs, &s->configs_cap, 1, sizeof *s->configs) ||
        !cdz_grow(&s->frames, &s->frames_cap, 1, sizeof *s->frames) || !enlarge_seen(s))
        return false;
    s->configs[0] = (cdz_net_config){.closed = true};
    s->frames[0] = (cdz_net_frame){0};
    add_kernel(s, (cdz_net_item){net->rules[net->start_rule].start, 0, 0});
    s->start = intern(s);
    return s->start != 0;
}

void cdz_grammar_states_free(cdz_grammar_states *s)
{
    free(s->configs);
    free(s->frames);
    free(s->items);
    free(s->callers);
    free(s->rows);
    free(s->config_table);
    free(s->frame_table);
    free(s->work);
    free(s->kernel);
    free(s->seen);
    *s = (cdz_grammar_states){0};
}
