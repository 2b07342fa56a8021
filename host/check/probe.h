/* probe.h - one instance of a processor or criterion, driven by hand: its parameters, its request, its rows.
 *
 * No model is needed: the request is made up, and the host table is the kit's own, which notices what the contract
 * forbids. What a plugin says of a row is an answer of n_vocab floats for both kinds: a processor's edited scores, or a
 * criterion's reason and text in the first ones, so that the same checks serve both. */
#ifndef CDZ_HOST_CHECK_PROBE_H
#define CDZ_HOST_CHECK_PROBE_H

#include "base/scratch.h"
#include "call/host.h"
#include "call/offers.h"
#include "check/child.h"
#include "config/generation.h"
#include "grammar/store.h"
#include "token/tokenizer.h"

enum { CDZ_PROBE_ROWS = 8, CDZ_PROBE_MOST = 2048, CDZ_ANSWER_LEAST = 4, CDZ_ROOM = 64 };

/* The made-up request. */
typedef struct cdz_made_up {
    uint32_t n_vocab, n_rows, prompt_len;
    uint64_t seed;
    uint32_t age; /* tokens that a row has taken behind its prompt when a check begins with it */
    bool greedy;  /* it draws nothing */
} cdz_made_up;

/* A model's tokenizer (--model), in place of the kit's own. */
typedef struct cdz_tokens {
    cdz_tokenizer *tokenizer;
    cdz_string *texts; /* (n) what each token adds to a text */
    uint32_t n;
} cdz_tokens;

typedef struct cdz_probe {
    const cdz_caller *caller; /* first: where the host's functions find it */
    const cdz_plugin_base *plugin;
    cdz_offers offers;
    const void *params;
    cdz_arena memory; /* of create and begin */
    cdz_scratch_mem scratch;
    cdz_made_up facts;
    cdz_request_info info;
    cdz_ids prompts[CDZ_PROBE_ROWS];
    int32_t *prompt_ids; /* (n_rows, prompt_len) */
    cdz_generation config;
    void *shared;
    bool begun;
    cdz_error said; /* the newest sentence of the present call; code CDZ_OK: none */
    bool may_alloc;
    uint32_t n_stray; /* allocations outside create and begin */
    uint32_t n_taken,
        refuse_at;    /* host memory asked for, and which one (from 1) is refused; 0: none */
    float *companion; /* (n_rows, n_vocab) what the model would say beside each row; or NULL */
    double now;       /* the clock that the plugin sees */
    const cdz_tokens *tokens;    /* NULL: the kit's own */
    cdz_grammar_store *grammars; /* constraints; NULL until a plugin compiles one, as the next */
    cdz_grammar_vocab *vocab;    /* the kit's own tokens */
    void *stops;         /* (n_rows) where a criterion's answers go; NULL: the probe's own */
    uint32_t n_answered; /* rows were answered so many times: from then on a failure is a broken promise */
    cdz_string stop_text; /* the first text of a criterion, and its sum: it lives as long as the request */
    uint32_t stop_hash;
    const char *_Atomic astray; /* the first function of the host called on a wrong thread; NULL: none */
} cdz_probe;

/* Rows of one call. */
typedef struct cdz_probe_rows {
    uint32_t n;
    const cdz_ids *ids;
    const uint32_t *index;
    void *const *states; /* entries NULL without state */
} cdz_probe_rows;

/* params: must outlive the probe. False: out of memory. */
bool cdz_probe_make(cdz_probe *t, const cdz_plugin_base *plugin, const void *params,
                    const cdz_made_up *facts);
void cdz_probe_free(cdz_probe *t); /* ends it where it has begun */

/* Each gives the plugin's status; its sentence is in t->said. */
cdz_status cdz_probe_create(cdz_probe *t);
bool cdz_probe_idle(cdz_probe *t);
cdz_status cdz_probe_begin(cdz_probe *t);
/* create and begin; a plugin that is idle for the request counts as one that refuses it. */
cdz_status cdz_probe_enter(cdz_probe *t);
/* scores: (rows->n, n_vocab), for a processor edited in place, for a criterion filled with its answers. */
cdz_status cdz_probe_ask(cdz_probe *t, const cdz_probe_rows *rows, cdz_scores *scores);
cdz_status cdz_probe_accept(cdz_probe *t, cdz_ids ids, uint32_t row, void *state, int32_t token);
void cdz_probe_end(cdz_probe *t);

/* What the processor says of its form for this request (ext/form.h); false: nothing. */
bool cdz_probe_form(cdz_probe *t, cdz_form *out);
/* What it tells of the row's constraint, of these ids and this state (cadenza/ext/constrained.h). Of plugins that offer it. */
cdz_status cdz_probe_constraint(cdz_probe *t, cdz_ids ids, uint32_t row, void *state,
                                cdz_row_constraint *out);
/* Which scores of a row it may change, of the form that changes few, in scratch memory; false: any. */
bool cdz_probe_edits(cdz_probe *t, cdz_ids ids, uint32_t row, cdz_ids *out);
/* Which tokens it leaves of a row, of the form that masks the others; bits arrive cleared. False: it does not tell. */
bool cdz_probe_mask(cdz_probe *t, cdz_ids ids, uint32_t row, void *state, uint64_t *bits,
                    uint32_t n_words);

/* Edits of hidden states (cadenza/ext/steer.h) for a row of a model with so many layers; and one call of its on_hidden. Of
 * plugins that offer them. */
cdz_status cdz_probe_steer(cdz_probe *t, uint32_t row, uint32_t n_layers, uint32_t width,
                           const cdz_edit **edits, uint32_t *n);
cdz_status cdz_probe_on_hidden(cdz_probe *t, const cdz_hidden_chunk *hidden);

uint32_t cdz_probe_state_size(const cdz_probe *t);
uint32_t cdz_probe_caps(const cdz_plugin_base *plugin);
/* A state as the host keeps it: zeroed, or a copy of another (by clone where the plugin has one). */
void *cdz_probe_state(cdz_probe *t);
cdz_status cdz_probe_copy_state(cdz_probe *t, void *to, const void *from);

/* A status and no sentence, a status that is none, or a mistake of a script that is no refusal: what is wrong with how a
 * call returned; NULL: nothing. */
const char *cdz_probe_broken(const cdz_probe *t, cdz_status status);
/* The same of a call that comes after an answer: create, begin and the first row may refuse, nothing later. */
const char *cdz_probe_broken_late(cdz_probe *t, cdz_status status);
/* Whether a sentence is Lua's own, of a mistake in a script, and not what the script says by error(). */
bool cdz_is_lua_mistake(const char *sentence);
void cdz_probe_is_script(bool script);                 /* of the process's plugin */
void cdz_probe_has_files(const cdz_call_files *files); /* the same */
/* Whether the text that a criterion gave first still reads the same. */
bool cdz_probe_text_lives(const cdz_probe *t);
extern const cdz_host cdz_probe_host; /* probe_host.c */
extern const cdz_caller cdz_probe_caller;
/* Notes a call of a function marked [load, engine] on another thread. */
void cdz_probe_look_at_thread(const cdz_step *step, const char *function);
const void *cdz_probe_tokenizer(void); /* probe_tokens.c */
const void *cdz_probe_grammar(void);   /* probe_grammar.c */
void cdz_probe_grammar_free(cdz_probe *t);
static inline cdz_probe *cdz_probe_of(const cdz_step *step)
{
    return (cdz_probe *)step->scope;
}

/* --- one row followed through time ------------------------------------------------------------------------- */

typedef struct cdz_follow {
    cdz_probe *probe;
    uint32_t row, len;
    int32_t ids[CDZ_PROBE_MOST];
    void *state;
} cdz_follow;

/* Begins with the prompt of the row and the tokens of its age. */
bool cdz_follow_start(cdz_follow *f, cdz_probe *probe, uint32_t row);
/* The same with a state that lies at `state`, zeroed. */
void cdz_follow_start_at(cdz_follow *f, cdz_probe *probe, uint32_t row, void *state);
cdz_status cdz_follow_take(cdz_follow *f, int32_t token);
/* answer: cdz_answer_len floats, first set to the scores of (row, length), then asked. A failed call is an answer too. */
cdz_status cdz_follow_ask(cdz_follow *f, float *answer);
/* Asks about n rows at once, at most CDZ_PROBE_ROWS. */
cdz_status cdz_follows_ask(cdz_follow *follows, uint32_t n, cdz_scores *scores);
/* The other becomes a copy, as fork makes it. */
bool cdz_follow_fork(const cdz_follow *from, cdz_follow *to);

/* Asks and takes `steps` times; answers: (steps, cdz_answer_len). key: which tokens. */
void cdz_follow_walk(cdz_follow *f, uint32_t steps, uint64_t key, float *answers);
/* Where two answers differ first, as a sentence; false: nowhere. */
bool cdz_same_bits(const float *a, const float *b, size_t n);
bool cdz_answers_differ(const cdz_probe *t, const float *got, const float *want, char *what,
                        size_t bytes);

/* --- what rows hold: rows.c --------------------------------------------------------------------------------- */

/* Floats from one answer to the next: n_vocab and some room, so that what goes past a row is told by one check alone. */
size_t cdz_answer_len(const cdz_made_up *facts);
float *cdz_answers_new(cdz_child *c,
                       size_t floats); /* zeroed, with room before and behind; NULL: out of memory */
/* Scores that depend on what is named, in no order, with some ties and masks; finite ones in (-12, 12). */
void cdz_fill_scores(float *row, uint32_t n_vocab, uint64_t key);
/* Ids of the whole vocabulary that come again, so that what looks for repeats finds some. */
void cdz_fill_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint64_t key);
/* One of few, more often than not; else any, one of either end, or one of the kit's text. */
int32_t cdz_some_token(const cdz_made_up *facts, uint64_t key);
/* Token i of the kit's text, which begins again at its end. */
int32_t cdz_probe_text_token(const cdz_made_up *facts, uint64_t i);

/* --- parameters: setups.c ------------------------------------------------------------------------------------ */

/* Values that a plugin works with. */
typedef struct cdz_setup {
    void *params;
    const char *text; /* "top_k=3 min=2", for sentences; and the age, where it is not 0 */
    uint32_t age;     /* of rows that a check begins with */
} cdz_setup;

enum { CDZ_SETUPS = 3 };

/* How far from the ordinary values may be. */
typedef enum cdz_wildness { CDZ_MILD, CDZ_WILD } cdz_wildness;

/* Random valid values over the defaults; -s settings win. NULL: out of memory or a setting is wrong (err). */
cdz_setup *cdz_setup_random(cdz_child *c, uint64_t *random, uint32_t n_vocab, cdz_wildness wild,
                            cdz_error *err);
cdz_setup *cdz_setup_defaults(cdz_child *c, cdz_error *err);
/* Up to CDZ_SETUPS that create and begin take and that are not idle, the same in every check of one seed. *n 0: why is
 * the newest refusal. */
cdz_check_state cdz_setups_find(cdz_child *c, cdz_setup **out, uint32_t *n);
/* fn with each of those, to the first that is not well: what most checks are. */
typedef cdz_check_state cdz_setup_fn(cdz_child *c, const cdz_setup *setup);
cdz_check_state cdz_check_each_setup(cdz_child *c, cdz_setup_fn *fn);
/* The same with rows that have taken 0, 1, 7 and 100 tokens. */
cdz_check_state cdz_check_each_age(cdz_child *c, cdz_setup_fn *fn);
/* The same, and told another setup that works too (the same one where there is none). */
typedef cdz_check_state cdz_aged_fn(cdz_child *c, const cdz_setup *aged, const cdz_setup *other,
                                    void *user);
cdz_check_state cdz_check_ages_beside(cdz_child *c, cdz_aged_fn *fn, void *user);
/* setup with an age, which its text tells. Lives as long as the check. */
cdz_setup cdz_setup_aged(cdz_child *c, const cdz_setup *setup, uint32_t age);
/* "name=value ..." of what differs from the defaults. */
const char *cdz_setup_text(cdz_child *c, const void *params);

/* Makes, creates and begins; a check's failure when the plugin does not follow. */
cdz_check_state cdz_probe_ready(cdz_child *c, cdz_probe *t, const cdz_setup *setup,
                                const cdz_made_up *facts);

extern const cdz_made_up cdz_usual_facts; /* 1000 tokens, 4 rows */

#endif
