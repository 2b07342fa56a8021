/* states.c - configurations: closing, stepping, interning. */
#include "grammar/states.h"

#include "base/bits.h"
#include "grammar/frames.h"
#include "grammar/grow.h"

/* The first trouble stays. */
#define TROUBLE(s, code, ...)                                                                      \
    do {                                                                                           \
        if ((s)->status == CDZ_OK) (s)->status = cdz_err(&(s)->error, code, __VA_ARGS__);          \
    } while (0)

enum {
    EXPLORED_SHARE = 8,  /* of the edges of a network, as many steps are taken ahead */
    EXPLORED_ITEMS = 64, /* a configuration of more places is left to those who come to it */
    ALIKE_ITEMS = 8,     /* bytes that lead to at most so many items are looked for together */
    FILLED_ITEMS = 64,   /* a row that leads to more is found byte by byte */
};

static void no_memory(cdz_grammar_states *s)
{
    TROUBLE(s, CDZ_E_NOMEM, "out of memory for the states of a grammar (%u so far)", s->n_configs);
}

/* --- frames ------------------------------------------------------------------------------------------- */

static uint32_t frame_hash(const void *of, uint32_t frame)
{
    const cdz_grammar_states *s = of;
    return cdz_item_mix(s->frames[frame].rule, s->frames[frame].config, 0);
}

static uint32_t frame_of(cdz_grammar_states *s, uint32_t rule, uint32_t config)
{
    cdz_item_table *t = &s->frame_table;
    if (!cdz_item_table_room(t, s->n_frames - 1, frame_hash, s)) {
        no_memory(s);
        return 0;
    }
    uint32_t at = cdz_item_mix(rule, config, 0) & (t->size - 1);
    for (uint32_t f; (f = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (s->frames[f].rule == rule && s->frames[f].config == config) return f;
    if (!cdz_grow(&s->frames, &s->frames_cap, (size_t)s->n_frames + 1, sizeof *s->frames)) {
        no_memory(s);
        return 0;
    }
    s->frames[s->n_frames] = (cdz_net_frame){rule, config, s->n_frames};
    return t->at[at] = s->n_frames++;
}

/* --- a list of items, each once ----------------------------------------------------------------------- */

static bool same_item(const cdz_net_item *a, const cdz_net_item *b)
{
    return a->node == b->node && a->frame == b->frame && a->count == b->count;
}

static uint32_t item_hash(const void *of, uint32_t number)
{
    const cdz_net_item *w = &((const cdz_grammar_states *)of)->work[number - 1];
    return cdz_item_mix(w->node, w->frame, w->count);
}

static void work_clear(cdz_grammar_states *s)
{
    cdz_item_table *t = &s->seen;
    if (s->n_work * 8 > t->size) {
        memset(t->at, 0, t->size * sizeof *t->at);
    } else {
        for (uint32_t i = s->n_work; i-- > 0;) { /* backwards, so that no search meets a hole */
            uint32_t at = item_hash(s, i + 1) & (t->size - 1);
            while (t->at[at] != i + 1) at = (at + 1) & (t->size - 1);
            t->at[at] = 0;
        }
    }
    s->n_work = 0;
}

/* Which of the work an item is, which is added if it is not there; 0 also in trouble. */
static uint32_t push(cdz_grammar_states *s, uint32_t node, uint32_t frame, uint32_t count)
{
    const cdz_net_item item = {node, frame, count};
    if (s->status != CDZ_OK) return 0;
    cdz_item_table *t = &s->seen;
    if (!cdz_item_table_room(t, s->n_work, item_hash, s)) {
        no_memory(s);
        return 0;
    }
    uint32_t at = cdz_item_mix(node, frame, count) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (same_item(&s->work[i - 1], &item)) return i - 1;
    if (s->n_work >= CDZ_GRAMMAR_MAX_ITEMS) {
        TROUBLE(s, CDZ_E_LIMIT, CDZ_NET_CROWDED, CDZ_GRAMMAR_MAX_ITEMS);
        return 0;
    }
    if (!cdz_grow(&s->work, &s->work_cap, (size_t)s->n_work + 1, sizeof *s->work)) {
        no_memory(s);
        return 0;
    }
    s->work[s->n_work++] = item;
    t->at[at] = s->n_work;
    return s->n_work - 1;
}

/* Everyone who waits for the frame's rule goes on. */
static void resume_callers(cdz_grammar_states *s, uint32_t frame)
{
    const cdz_net_frame f = s->frames[frame];
    const cdz_net_config *c = &s->configs[f.config];
    for (uint32_t i = 0; i < c->n_callers; i++) {
        const cdz_net_caller *k = &s->callers[c->callers + i];
        if (k->rule == f.rule) (void)push(s, k->to, k->frame, k->count);
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
    for (uint32_t i = 0; i < n; i++) h = cdz_item_mix(h ^ at[i].node, at[i].frame, at[i].count);
    return h;
}

static uint32_t config_hash(const void *of, uint32_t config)
{
    const cdz_grammar_states *s = of;
    return hash_items(s->items + s->configs[config].items, s->configs[config].n_items);
}

static uint32_t new_config(cdz_grammar_states *s, uint32_t slot)
{
    if (s->use->n_states >= s->net->limits.max_states) {
        TROUBLE(s, CDZ_E_LIMIT, "the grammar has been in more than %u states (grammar_max_states)",
                s->net->limits.max_states);
        return 0;
    }
    if (s->use->n_places > CDZ_GRAMMAR_MAX_PLACES - s->n_kernel) {
        TROUBLE(s, CDZ_E_LIMIT,
                "the states that the grammar has been in stand at more than %u places "
                "(grammar_max_states)",
                CDZ_GRAMMAR_MAX_PLACES);
        return 0;
    }
    if (!cdz_grow(&s->configs, &s->configs_cap, (size_t)s->n_configs + 1, sizeof *s->configs) ||
        !cdz_grow(&s->items, &s->items_cap, (size_t)s->n_items + s->n_kernel, sizeof *s->items)) {
        no_memory(s);
        return 0;
    }
    memcpy(s->items + s->n_items, s->kernel, s->n_kernel * sizeof *s->items);
    s->configs[s->n_configs] = (cdz_net_config){.items = s->n_items,
                                                .n_items = s->n_kernel,
                                                .slack = CDZ_NET_SLACK_ALL,
                                                .way_slack = CDZ_NET_SLACK_ALL};
    s->n_items += s->n_kernel;
    s->use->n_places += s->n_kernel;
    s->use->n_states++;
    return s->config_table.at[slot] = s->n_configs++;
}

static void sort_items(cdz_net_item *at, uint32_t n)
{
    uint32_t sorted = 1;
    while (sorted < n && by_item(&at[sorted - 1], &at[sorted]) <= 0) sorted++;
    if (sorted >= n) return;
    if (n > 12) {
        qsort(at, n, sizeof *at, by_item);
        return;
    }
    for (uint32_t i = sorted; i < n; i++) {
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
    cdz_item_table *t = &s->config_table;
    if (!cdz_item_table_room(t, s->n_configs - 1, config_hash, s)) {
        no_memory(s);
        return 0;
    }
    uint32_t at = hash_items(s->kernel, n) & (t->size - 1);
    for (uint32_t c; (c = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
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
    (void)push(s, rule->start, frame, 0);
    if (rule->nullable) (void)push(s, e->to, item->frame, item->count);
}

/* Looks at a count: whether it is below a border, and how far from it. */
static bool is_below(uint32_t count, uint32_t border, cdz_net_slack *slack)
{
    const bool below = count < border;
    const cdz_net_slack own = {below ? border - count : UINT32_MAX,
                               below ? UINT32_MAX : count - border};
    cdz_net_slack_join(slack, &own);
    return below;
}

/* Looks at which of some copies a node is in: at the first that may be the last, and at the last. */
static void look_at_copy(const cdz_net *net, uint32_t node, cdz_net_slack *slack)
{
    const cdz_net_copy *copy = &net->copy_of[node];
    if (!copy->of) return;
    const cdz_chars_copies *c = &net->copies[copy->of - 1];
    cdz_net_slack first = {UINT32_MAX, copy->index};
    if (!is_below(copy->index, c->min, slack)) first.down = copy->index - c->min;
    (void)is_below(copy->index, c->n - 1, slack);
    cdz_net_slack_join(slack, &first);
}

/* Follows what takes nothing. Returns whether the item takes bytes or tokens itself. */
static bool close_item(cdz_grammar_states *s, uint32_t config, cdz_net_item item, cdz_net_config *c)
{
    const cdz_net *net = s->net;
    bool live = false;
    if (net->copy_of) look_at_copy(net, item.node, &c->slack);
    for (uint32_t i = net->first[item.node]; i < net->first[item.node + 1]; i++) {
        const cdz_net_edge *e = &net->edges[i];
        const cdz_net_rule *rule = &net->rules[e->arg];
        switch (e->kind) {
        case CDZ_NET_TOKENS: c->tokens = true; /* fall through */
        case CDZ_NET_BYTES: live = true; break;
        case CDZ_NET_NOTHING: (void)push(s, e->to, item.frame, item.count); break;
        case CDZ_NET_CALL: call(s, config, &item, e); break;
        case CDZ_NET_COUNT_IN:
            if (rule->max == UINT32_MAX || is_below(item.count, rule->max, &c->slack))
                (void)push(s, e->to, item.frame, item.count);
            break;
        case CDZ_NET_COUNT_ADD:
            (void)push(s, e->to, item.frame, cdz_net_counted(rule, item.count));
            break;
        default:
            if (!rule->min || !is_below(item.count, rule->min, &c->slack))
                (void)push(s, e->to, item.frame, item.count);
        }
    }
    return live;
}

static void close_config(cdz_grammar_states *s, uint32_t config)
{
    cdz_net_config c = s->configs[config];
    const uint32_t first_frame = s->n_frames;
    if (c.closed) return;
    work_clear(s);
    for (uint32_t i = 0; i < c.n_items; i++) {
        const cdz_net_item item = s->items[c.items + i];
        (void)push(s, item.node, item.frame, item.count);
    }
    c.callers = s->n_callers;
    s->n_kernel = 0;
    for (uint32_t i = 0; i < s->n_work && s->status == CDZ_OK; i++) {
        const cdz_net_item item = s->work[i];
        if (close_item(s, config, item, &c)) add_kernel(s, item);
        if (!s->net->end_of[item.node]) continue;
        if (!item.frame)
            c.accepts = true;
        else if (s->frames[item.frame].config != config)
            resume_callers(s, item.frame);
    }
    if (s->status != CDZ_OK) return;
    c.n_callers = s->n_callers - c.callers;
    c.live = s->n_items;
    c.n_live = s->n_kernel;
    if (!cdz_grow(&s->items, &s->items_cap, (size_t)s->n_items + s->n_kernel, sizeof *s->items)) {
        no_memory(s);
        return;
    }
    if (s->n_kernel) memcpy(s->items + s->n_items, s->kernel, s->n_kernel * sizeof *s->items);
    s->n_items += s->n_kernel;
    s->use->n_places += s->n_kernel;
    c.closed = true;
    s->configs[config] = c;
    if (!cdz_grammar_frames_settle(s, config, first_frame)) no_memory(s);
}

/* Closes a configuration that is asked about. */
static void look_at(cdz_grammar_states *s, uint32_t config)
{
    close_config(s, config);
    cdz_net_slack_join(&s->met, &s->configs[config].slack);
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

/* The items that a byte leads to, before they are settled, into the work. */
static void step(cdz_grammar_states *s, uint32_t config, uint8_t byte)
{
    const cdz_net_config c = s->configs[config];
    work_clear(s);
    for (uint32_t i = 0; i < c.n_live; i++) {
        const cdz_net_item item = s->items[c.live + i];
        for (uint32_t k = s->net->first[item.node]; k < s->net->first[item.node + 1]; k++) {
            const cdz_net_edge *e = &s->net->edges[k];
            if (e->kind == CDZ_NET_BYTES && e->lo <= byte && byte <= e->hi)
                (void)push(s, e->to, item.frame, item.count);
        }
    }
}

static void add_classes(const cdz_net *net, const cdz_net_edge *e, cdz_net_classes *to)
{
    const uint32_t lo = net->class_of[e->lo], hi = net->class_of[e->hi];
    for (uint32_t w = lo / 64; w <= hi / 64; w++) {
        const uint64_t from = w == lo / 64 ? UINT64_MAX << (lo % 64) : UINT64_MAX;
        to->bits[w] |= w == hi / 64 ? from & UINT64_MAX >> (63 - hi % 64) : from;
    }
}

/* Which of the work an edge leads to; n_work: none. */
static uint32_t find_work(const cdz_grammar_states *s, const cdz_net_item *item,
                          const cdz_net_edge *e)
{
    const cdz_net_item to = {e->to, item->frame, item->count};
    uint32_t k = 0;
    while (k < s->n_work && !same_item(&s->work[k], &to)) k++;
    return k;
}

/* The classes that lead to the work of a step, to all of it and to nothing else. */
static cdz_net_classes alike(const cdz_grammar_states *s, uint32_t config)
{
    const cdz_net_config *c = &s->configs[config];
    cdz_net_classes to[ALIKE_ITEMS + 1] = {{{0}}}, all = c->takes;
    for (uint32_t i = 0; i < c->n_live; i++) {
        const cdz_net_item *item = &s->items[c->live + i];
        for (uint32_t k = s->net->first[item->node]; k < s->net->first[item->node + 1]; k++)
            if (s->net->edges[k].kind == CDZ_NET_BYTES)
                add_classes(s->net, &s->net->edges[k], &to[find_work(s, item, &s->net->edges[k])]);
    }
    for (uint32_t w = 0; w < 4; w++) {
        for (uint32_t k = 0; k < s->n_work; k++) all.bits[w] &= to[k].bits[w];
        all.bits[w] &= ~to[s->n_work].bits[w];
    }
    return all;
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
            add_classes(s->net, e, takes);
        }
    }
    s->configs[config].next = ++s->n_rows;
    return true;
}

const uint32_t *cdz_grammar_states_new_row(cdz_grammar_states *s, uint32_t config)
{
    if (!config || !add_row(s, config)) return NULL;
    cdz_net_slack_join(&s->met, &s->configs[config].slack);
    return s->rows + (size_t)(s->configs[config].next - 1) * s->net->n_classes;
}

const cdz_net_classes *cdz_grammar_states_takes(cdz_grammar_states *s, uint32_t config)
{
    return cdz_grammar_states_row(s, config) ? &s->configs[config].takes : NULL;
}

/* Where a byte leads; together: and the bytes that its edges say the same of. */
static uint32_t find_next(cdz_grammar_states *s, uint32_t config, uint8_t byte, bool together)
{
    const uint32_t n = s->net->n_classes, class = s->net->class_of[byte];
    if (!config || (!s->configs[config].next && !add_row(s, config))) return 0;
    const size_t at = (size_t)(s->configs[config].next - 1) * n + class;
    cdz_net_slack_join(&s->met, &s->configs[config].slack);
    if (s->rows[at] != CDZ_STATE_UNKNOWN) return s->rows[at];
    step(s, config, byte);
    cdz_net_classes others = {{0}};
    if (together && s->n_work <= ALIKE_ITEMS) others = alike(s, config);
    const uint32_t to = settle(s);
    if (s->status != CDZ_OK) return 0;
    uint32_t *row = s->rows + at - class;
    row[class] = to;
    for (uint32_t w = 0; w < 4; w++)
        for (uint64_t left = others.bits[w]; left; left &= left - 1)
            row[64 * w + (uint32_t)__builtin_ctzll(left)] = to;
    return to;
}

uint32_t cdz_grammar_states_next(cdz_grammar_states *s, uint32_t config, uint8_t byte)
{
    return find_next(s, config, byte, true);
}

uint32_t cdz_grammar_states_look(cdz_grammar_states *s, uint32_t config, uint8_t byte)
{
    if (!config || s->configs[config].next)
        return find_next(s, config, byte, s->configs[config].n_live > ALIKE_ITEMS);
    look_at(s, config);
    if (s->status != CDZ_OK) return 0;
    step(s, config, byte);
    return settle(s);
}

/* What the bytes of each class lead to before it is settled: a bit for each item, which are added to the work. False: there are too
 * many. */
static bool add_targets(cdz_grammar_states *s, const cdz_net_config *c, uint64_t *targets)
{
    for (uint32_t i = 0; i < c->n_live; i++) {
        const cdz_net_item item = s->items[c->live + i];
        for (uint32_t k = s->net->first[item.node]; k < s->net->first[item.node + 1]; k++) {
            const cdz_net_edge *e = &s->net->edges[k];
            if (e->kind != CDZ_NET_BYTES) continue;
            const uint32_t lo = s->net->class_of[e->lo], hi = s->net->class_of[e->hi];
            const uint32_t to = push(s, e->to, item.frame, item.count);
            if (s->n_work > FILLED_ITEMS || s->status != CDZ_OK) return false;
            for (uint32_t class = lo; class <= hi; class ++) targets[class] |= (uint64_t)1 << to;
        }
    }
    return true;
}

/* The configuration of some of a list of items. */
static uint32_t settle_some(cdz_grammar_states *s, const cdz_net_item *items, uint64_t which)
{
    work_clear(s);
    for (; which; which &= which - 1) {
        const cdz_net_item *item = &items[__builtin_ctzll(which)];
        (void)push(s, item->node, item->frame, item->count);
    }
    return settle(s);
}

/* Classes that lead to the same items lead to one configuration. */
static void fill_by_targets(cdz_grammar_states *s, uint32_t *row, const uint64_t *targets)
{
    cdz_net_item items[FILLED_ITEMS];
    memcpy(items, s->work, s->n_work * sizeof *items);
    for (uint32_t class = 0; class < s->net->n_classes; class ++) {
        if (row[class] != CDZ_STATE_UNKNOWN) continue;
        const uint32_t to = settle_some(s, items, targets[class]);
        if (s->status != CDZ_OK) return;
        for (uint32_t k = class; k < s->net->n_classes; k++)
            if (targets[k] == targets[class]) row[k] = to;
    }
}

void cdz_grammar_states_fill(cdz_grammar_states *s, uint32_t config)
{
    uint64_t targets[256] = {0};
    if (!cdz_grammar_states_row(s, config) || s->configs[config].full) return;
    const cdz_net_config c = s->configs[config];
    uint32_t *row = s->rows + (size_t)(c.next - 1) * s->net->n_classes;
    work_clear(s);
    if (add_targets(s, &c, targets) && s->n_work) fill_by_targets(s, row, targets);
    for (uint32_t class = 0; class < s->net->n_classes; class ++)
        if (row[class] == CDZ_STATE_UNKNOWN)
            (void)cdz_grammar_states_next(s, config, s->net->sample[class]);
    s->configs[config].full = s->status == CDZ_OK;
}

/* --- two configurations ------------------------------------------------------------------------------------ */

/* Completes a row by another configuration's: what leads both to the same items leads both to one configuration. False: there are
 * too many items. */
static bool fill_beside(cdz_grammar_states *s, uint32_t config, uint32_t other)
{
    const uint32_t n = s->net->n_classes;
    uint64_t targets[256], its_targets[256];
    memset(targets, 0, n * sizeof *targets);
    memset(its_targets, 0, n * sizeof *its_targets);
    work_clear(s);
    if (!add_targets(s, &s->configs[config], targets) ||
        !add_targets(s, &s->configs[other], its_targets))
        return false;
    uint32_t *row = s->rows + (size_t)(s->configs[config].next - 1) * n;
    const uint32_t *its = s->rows + (size_t)(s->configs[other].next - 1) * n;
    for (uint32_t class = 0; class < n; class ++)
        if (targets[class] == its_targets[class]) row[class] = its[class];
    return true;
}

cdz_net_classes cdz_grammar_states_differ(cdz_grammar_states *s, uint32_t config, uint32_t other)
{
    cdz_net_classes differ = {{0}};
    cdz_grammar_states_fill(s, other);
    if (!s->configs[config].mostly &&
        (!cdz_grammar_states_row(s, config) || !cdz_grammar_states_row(s, other) ||
         !fill_beside(s, config, other)))
        cdz_grammar_states_fill(s, config);
    s->configs[config].mostly = s->configs[config].next && s->status == CDZ_OK;
    const uint32_t *to = cdz_grammar_states_row(s, config), *its = cdz_grammar_states_row(s, other);
    for (uint32_t class = 0; class < s->net->n_classes; class ++)
        if ((to ? to[class] : 0) != (its ? its[class] : 0))
            differ.bits[class / 64] |= (uint64_t)1 << (class % 64);
    return differ;
}

bool cdz_grammar_states_accepts(cdz_grammar_states *s, uint32_t config)
{
    if (!config) return false;
    look_at(s, config);
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
                (void)push(s, e->to, item.frame, item.count);
        }
    }
    for (uint32_t i = 0; bytes && i < s->configs[bytes].n_items; i++) {
        const cdz_net_item item = s->items[s->configs[bytes].items + i];
        (void)push(s, item.node, item.frame, item.count);
    }
    return settle(s);
}

void cdz_grammar_states_mark_tokens(cdz_grammar_states *s, uint32_t config, uint64_t *mask,
                                    uint32_t n_ids)
{
    look_at(s, config);
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
           s->rows_cap * sizeof *s->rows + s->config_table.size * sizeof *s->config_table.at +
           s->frame_table.size * sizeof *s->frame_table.at + s->work_cap * sizeof *s->work +
           s->kernel_cap * sizeof *s->kernel + s->seen.size * sizeof *s->seen.at +
           cdz_grammar_frames_bytes(&s->settled) + cdz_grammar_frames_bytes(&s->shapes);
}

/* --- beginning, end ------------------------------------------------------------------------------------------ */

bool cdz_grammar_states_begin(cdz_grammar_states *s, cdz_net *net)
{
    *s = (cdz_grammar_states){.net = net, .n_configs = 1, .n_frames = 1, .status = CDZ_OK};
    s->use = &s->own;
    if (!cdz_grow(&s->configs, &s->configs_cap, 1, sizeof *s->configs) ||
        !cdz_grow(&s->frames, &s->frames_cap, 1, sizeof *s->frames) ||
        !cdz_item_table_room(&s->seen, 0, item_hash, s))
        return false;
    s->configs[0] = (cdz_net_config){.closed = true};
    s->frames[0] = (cdz_net_frame){0};
    add_kernel(s, (cdz_net_item){net->rules[net->start_rule].start, 0, 0});
    s->start = intern(s);
    return s->start != 0;
}

void cdz_grammar_states_explore(cdz_grammar_states *s)
{
    uint32_t left = s->net->n_edges / EXPLORED_SHARE;
    for (uint32_t c = 1; c < s->n_configs && left; c++) {
        const cdz_net_classes *known = cdz_grammar_states_takes(s, c);
        if (!known || s->configs[c].n_live > EXPLORED_ITEMS) break;
        const cdz_net_classes takes = *known;
        for (uint32_t class = 0; class < s->net->n_classes && left; class ++)
            if (cdz_bit_is_set(takes.bits, class)) {
                (void)cdz_grammar_states_next(s, c, s->net->sample[class]);
                left--;
            }
    }
}

bool cdz_grammar_states_forget_limit(cdz_grammar_states *s)
{
    const bool fine = s->status == CDZ_OK;
    if (s->status == CDZ_E_LIMIT) s->status = CDZ_OK;
    return fine;
}

void cdz_grammar_states_free(cdz_grammar_states *s)
{
    free(s->configs);
    free(s->frames);
    free(s->items);
    free(s->callers);
    free(s->rows);
    free(s->config_table.at);
    free(s->frame_table.at);
    free(s->work);
    free(s->kernel);
    free(s->seen.at);
    cdz_grammar_frames_free(&s->settled);
    cdz_grammar_frames_free(&s->shapes);
    *s = (cdz_grammar_states){0};
}
