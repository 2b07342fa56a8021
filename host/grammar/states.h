/* states.h - the configurations of a network: where a text may stand in it. Inside grammar/ only.
 *
 * An item is a node, a frame and a count. A frame says what a rule goes back to: the rule and the configuration that called
 * it, in which the callers are looked up. So a stack is a chain of configurations, shared by all that began alike, and left
 * recursion is a rule that a configuration calls once. Configurations are interned by their items: equal ones are one. */
#ifndef CDZ_HOST_GRAMMAR_STATES_H
#define CDZ_HOST_GRAMMAR_STATES_H

#include "grammar/grow.h"
#include "grammar/net.h"

typedef struct cdz_net_item {
    uint32_t node, frame, count;
} cdz_net_item;

/* A frame whose callers are those of an older one is that one. Shape: the first frame that differs in counts alone, which have been
 * met outside of the rule. */
typedef struct cdz_net_frame {
    uint32_t rule, config; /* config 0: the bottom */
    uint32_t shape;
} cdz_net_frame;

/* Frames that are found again. */
typedef struct cdz_net_frames {
    uint32_t *at, n, cap;
    cdz_item_table table;
} cdz_net_frames;

/* How far counts may grow, and shrink, before a look at one of them says something else: growth must be less than up. */
typedef struct cdz_net_slack {
    uint32_t up, down;
} cdz_net_slack;

typedef struct cdz_net_caller {
    uint32_t rule, to, frame, count;
} cdz_net_caller;

typedef struct cdz_net_config {
    uint32_t items, n_items; /* interned, in states->items */
    uint32_t live, n_live;   /* with what they reach by nothing: those that take bytes or tokens */
    uint32_t callers, n_callers; /* who waits in it for a rule's end */
    uint32_t next;               /* row of transitions + 1 in states->rows; 0: none yet */
    uint32_t ways[CDZ_N_WAYS]; /* what cdz_grammar_states_way found, + 2; 0: nothing yet, 1: not one place */
    cdz_net_slack slack, way_slack; /* of closing it; of finding ways */
    bool accepts, tokens;           /* tokens: some live item takes a token by its number */
    bool closed;                    /* live, callers, slack and the two above are known */
    bool full;                      /* nothing in its row is CDZ_STATE_UNKNOWN */
    bool mostly;                    /* little of it is */
    cdz_net_classes takes;          /* classes of bytes that may come; known with next */
} cdz_net_config;

typedef struct cdz_grammar_states {
    cdz_net *net;
    cdz_net_config *configs; /* 0: dead */
    cdz_net_frame *frames;   /* 0: the bottom */
    cdz_net_item *items;
    cdz_net_caller *callers;
    uint32_t *rows; /* net->n_classes of each */
    uint32_t n_configs, configs_cap, n_frames, frames_cap, n_items, items_cap, n_callers,
        callers_cap, n_rows, rows_cap;
    cdz_item_table config_table, frame_table;
    cdz_net_frames settled, shapes; /* by their callers, and by those without counts */
    cdz_net_slack met; /* of all configurations that were asked about since it was set */
    cdz_net_item *work,
        *kernel; /* scratch: items being closed, and those that begin a configuration */
    uint32_t n_work, work_cap, n_kernel, kernel_cap;
    cdz_item_table seen; /* of work */
    uint32_t start;
    cdz_grammar_use *use, own; /* for whom states are made */
    cdz_status status;
    cdz_error error;
} cdz_grammar_states;

#define CDZ_STATE_UNKNOWN UINT32_MAX
#define CDZ_NET_SLACK_ALL ((cdz_net_slack){UINT32_MAX, UINT32_MAX})

bool cdz_grammar_states_begin(cdz_grammar_states *states, cdz_net *net);
/* Makes the configurations near the beginning, so that the first masks need not: about as many as compiling takes time for. */
void cdz_grammar_states_explore(cdz_grammar_states *states);
void cdz_grammar_states_free(cdz_grammar_states *states);
/* After a look ahead: a limit that it met is forgotten, for the text may never come there. False: there was trouble. What was found
 * out until then is not kept. */
bool cdz_grammar_states_forget_limit(cdz_grammar_states *states);
/* The configuration after a byte; 0: none, or trouble, which states->status tells. */
uint32_t cdz_grammar_states_next(cdz_grammar_states *states, uint32_t config, uint8_t byte);
/* By class of bytes: where each leads, or CDZ_STATE_UNKNOWN, which cdz_grammar_states_next finds. Lives until the next call that
 * makes states. NULL: the configuration is dead, or there is trouble. */
const uint32_t *cdz_grammar_states_new_row(cdz_grammar_states *states, uint32_t config);
static inline void cdz_net_slack_join(cdz_net_slack *to, const cdz_net_slack *more)
{
    if (more->up < to->up) to->up = more->up;
    if (more->down < to->down) to->down = more->down;
}
static inline const uint32_t *cdz_grammar_states_row(cdz_grammar_states *states, uint32_t config)
{
    const uint32_t row = states->configs[config].next;
    if (!row) return cdz_grammar_states_new_row(states, config);
    cdz_net_slack_join(&states->met, &states->configs[config].slack);
    return states->rows + (size_t)(row - 1) * states->net->n_classes;
}
/* The same for who asks about one byte or two of a configuration. */
uint32_t cdz_grammar_states_look(cdz_grammar_states *states, uint32_t config, uint8_t byte);
/* Makes all of a row known, in one go through the edges: for who asks about most of it. */
void cdz_grammar_states_fill(cdz_grammar_states *states, uint32_t config);
/* The classes of bytes that may lead a configuration and another, of which one may be dead, to different ones: more than do where
 * that would have to be found out. */
cdz_net_classes cdz_grammar_states_differ(cdz_grammar_states *states, uint32_t config,
                                          uint32_t other);
/* The classes of bytes that may come; NULL: the configuration is dead, or there is trouble. Lives as a row does. */
const cdz_net_classes *cdz_grammar_states_takes(cdz_grammar_states *states, uint32_t config);
/* Whether all characters of a kind lead to one configuration (*to; 0: none may come). */
bool cdz_grammar_states_way(cdz_grammar_states *states, uint32_t config, cdz_net_way way,
                            uint32_t *to);
/* How many more characters than one a loop takes that a plain character has led into config from before; UINT32_MAX: any
 * number. 0: it is not seen to be a loop. enough: nobody asks how many more than these. */
uint32_t cdz_grammar_states_rounds(cdz_grammar_states *states, uint32_t before, uint32_t config,
                                   uint32_t enough);
bool cdz_grammar_states_accepts(cdz_grammar_states *states, uint32_t config);
/* After a token by its number, together with what `bytes` led to (0: nothing). */
uint32_t cdz_grammar_states_token(cdz_grammar_states *states, uint32_t config, uint32_t id,
                                  uint32_t bytes);
/* The bytes that must come, at most room: as long as one byte may come and the text may not end. */
size_t cdz_grammar_states_forced(cdz_grammar_states *states, uint32_t config, char *out,
                                 size_t room);
/* Whether two configurations differ in counts alone, and in those by less than a slack. */
bool cdz_grammar_states_alike(const cdz_grammar_states *states, uint32_t a, uint32_t b,
                              cdz_net_slack slack);
/* Equal of configurations that differ in counts alone. */
uint32_t cdz_grammar_states_shape(const cdz_grammar_states *states, uint32_t config);
/* What its arrays take. */
uint64_t cdz_grammar_states_bytes(const cdz_grammar_states *states);
/* Sets the bits of tokens that some item takes by number. */
void cdz_grammar_states_mark_tokens(cdz_grammar_states *states, uint32_t config, uint64_t *mask,
                                    uint32_t n_ids);

struct cdz_grammar_masks;
struct cdz_grammar {
    cdz_net net;
    cdz_grammar_states states;
    struct cdz_grammar_masks *masks;
};

/* Finishes a network and makes the grammar of it; the network is taken over, whatever comes of it. */
cdz_status cdz_grammar_of_net(cdz_net *net, uint32_t start_rule, const cdz_grammar_options *options,
                              cdz_grammar **out, cdz_error *err);
void cdz_grammar_masks_free(struct cdz_grammar_masks *masks);
uint64_t cdz_grammar_masks_bytes(const struct cdz_grammar_masks *masks); /* NULL: 0 */

#endif
