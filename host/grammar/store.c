/* store.c - constraints by their text: a list in the order of use, which is short, and bytes counted when they are given
 * back. Compiling holds no lock: whoever comes second with the same text finds the first one's. Whoever asks gets a constraint
 * of its own, which counts what is made for it of the compiled form that all share.
 *
 * Invariant (check_list): the list is the same from both ends, its bytes are the store's, and beyond the limit it has only
 * what somebody holds. Thread: any, under the store's lock; of one grammar, under its own. */
#include "grammar/store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/mutex.h"
#include "grammar/states.h"

typedef struct compiled {
    cdz_grammar_store *store;
    struct compiled *newer, *older; /* in the store's list; under its lock, as the next four */
    uint32_t holders;               /* of all constraints that it is lent by */
    cdz_constraint *spare; /* constraints that nobody holds: who gives one back twice finds it there */
    bool listed;           /* false: goes with its last holder */
    uint64_t bytes;
    cdz_grammar_kind kind;
    char *key; /* what it begins behind, and each text: each with a NUL */
    size_t key_len;
    cdz_mutex lock; /* of the grammar, which makes states when asked */
    cdz_grammar *grammar;
    atomic_bool broken; /* a limit of running was met */
} compiled;

struct cdz_constraint {
    compiled *of;
    uint32_t holders;     /* under the store's lock */
    cdz_grammar_use use;  /* under the grammar's */
    cdz_constraint *next; /* spare one */
};

struct cdz_grammar_store {
    cdz_mutex lock;
    const cdz_tokenizer *tokenizer;
    const cdz_grammar_vocab *vocab;
    cdz_grammar_vocab *own; /* vocab, where the store made it */
    cdz_grammar_store_options options;
    compiled *newest, *oldest;
    uint64_t bytes;
    uint32_t held; /* constraints that somebody holds, as often as they are held */
    bool closed;   /* its owner has gone: the last of those takes it along */
};

/* --- the list ------------------------------------------------------------------------------------------- */

static void unlist(compiled *c)
{
    cdz_grammar_store *s = c->store;
    if (!c->listed) return;
    *(c->newer ? &c->newer->older : &s->newest) = c->older;
    *(c->older ? &c->older->newer : &s->oldest) = c->newer;
    c->newer = c->older = NULL;
    c->listed = false;
    s->bytes -= c->bytes;
}

static void list(compiled *c)
{
    cdz_grammar_store *s = c->store;
    c->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = c;
    s->newest = c;
    c->listed = true;
    s->bytes += c->bytes;
}

static void destroy(compiled *c)
{
    for (cdz_constraint *one = c->spare, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    cdz_grammar_free(c->grammar);
    cdz_mutex_destroy(&c->lock);
    free(c->key);
    free(c);
}

static uint64_t bytes_of(const compiled *c)
{
    return sizeof *c + c->key_len + cdz_grammar_bytes(c->grammar);
}

/* What nobody holds goes, the oldest first, until the rest fits. */
static void make_fit(cdz_grammar_store *s)
{
    for (compiled *c = s->oldest, *next; c && s->bytes > s->options.max_bytes; c = next) {
        next = c->newer;
        if (c->holders) continue;
        unlist(c);
        destroy(c);
    }
}

#ifdef CDZ_CHECKED

static void check_list(const cdz_grammar_store *s)
{
    uint64_t bytes = 0, held = 0, n_free = 0;
    const compiled *newer = NULL;
    for (const compiled *c = s->newest; c; c = c->older) {
        cdz_assert(c->store == s && c->listed && c->newer == newer);
        bytes += c->bytes;
        held += c->holders;
        n_free += !c->holders;
        newer = c;
    }
    cdz_assert(newer == s->oldest && bytes == s->bytes && held <= s->held);
    cdz_assert(bytes <= s->options.max_bytes || n_free == 0);
}

void cdz_constraint_check(const cdz_constraint *constraint)
{
    cdz_grammar_store *s = constraint->of->store;
    cdz_mutex_lock(&s->lock);
    cdz_assert(constraint->holders > 0);
    check_list(s);
    cdz_mutex_unlock(&s->lock);
}

#else

static void check_list(const cdz_grammar_store *s)
{
    (void)s;
}

void cdz_constraint_check(const cdz_constraint *constraint)
{
    (void)constraint;
}

#endif

/* --- life ----------------------------------------------------------------------------------------------- */

cdz_grammar_store *cdz_grammar_store_new(const cdz_tokenizer *tok,
                                         const cdz_grammar_store_options *options)
{
    cdz_grammar_store *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    cdz_mutex_init(&s->lock);
    s->tokenizer = tok;
    if (options) s->options = *options;
    if (!s->options.max_bytes) s->options.max_bytes = CDZ_GRAMMAR_STORE_BYTES;
    return s;
}

cdz_grammar_store *cdz_grammar_store_over(const cdz_grammar_vocab *vocab,
                                          const cdz_grammar_store_options *options)
{
    cdz_grammar_store *s = cdz_grammar_store_new(NULL, options);
    if (s) s->vocab = vocab;
    return s;
}

static void destroy_store(cdz_grammar_store *store)
{
    for (compiled *c = store->newest, *older; c; c = older) {
        older = c->older;
        cdz_assert(!c->holders);
        destroy(c);
    }
    cdz_grammar_vocab_free(store->own);
    cdz_mutex_destroy(&store->lock);
    free(store);
}

void cdz_grammar_store_free(cdz_grammar_store *store)
{
    if (!store) return;
    cdz_mutex_lock(&store->lock);
    store->closed = true;
    const bool last = !store->held;
    cdz_mutex_unlock(&store->lock);
    if (last) destroy_store(store);
}

uint64_t cdz_grammar_store_bytes(cdz_grammar_store *store)
{
    cdz_mutex_lock(&store->lock);
    const uint64_t bytes = store->bytes;
    cdz_mutex_unlock(&store->lock);
    return bytes;
}

void cdz_grammar_store_limit(cdz_grammar_store *store, uint64_t max_bytes)
{
    cdz_mutex_lock(&store->lock);
    store->options.max_bytes = max_bytes;
    make_fit(store);
    check_list(store);
    cdz_mutex_unlock(&store->lock);
}

/* --- compiling ------------------------------------------------------------------------------------------ */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* GBNF defines rules by "::=", which in Lark can only stand inside a text or a comment. */
static bool looks_like_gbnf(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        while (i < len && cdz_byte_in(text[i], " \t\r\n")) i++;
        const size_t name = i;
        while (i < len && (is_name(text[i]))) i++;
        const bool named = i > name;
        while (i < len && (text[i] == ' ' || text[i] == '\t')) i++;
        if (named && i + 3 <= len && memcmp(text + i, "::=", 3) == 0) return true;
        while (i < len && text[i] != '\n') i++;
    }
    return false;
}

/* Each text and a NUL. */
static bool write_texts(const cdz_grammar_source *source, cdz_buf *out)
{
    for (uint32_t i = 0; i < source->n; i++) {
        cdz_buf_add(out, source->texts[i].at, source->texts[i].len);
        cdz_buf_putc(out, '\0');
    }
    return !out->failed;
}

static cdz_status compile_choice(const cdz_grammar_source *source,
                                 const cdz_grammar_options *options, cdz_grammar **out,
                                 cdz_error *err)
{
    const char **texts = calloc((size_t)source->n + 1, sizeof *texts);
    cdz_buf all = {0};
    const bool fine = texts && write_texts(source, &all);
    const char *at = all.data;
    for (uint32_t i = 0; fine && i < source->n; at += source->texts[i++].len + 1) texts[i] = at;
    const cdz_status st = fine ? cdz_grammar_from_choice(texts, source->n, options, out, err)
                               : cdz_err_memory(err, "the choices");
    cdz_buf_free(&all);
    free(texts);
    return st;
}

cdz_status cdz_grammar_compile(const cdz_grammar_source *source, const cdz_grammar_options *options,
                               cdz_grammar **out, cdz_error *err)
{
    if (source->kind == CDZ_GRAMMAR_CHOICE) return compile_choice(source, options, out, err);
    if (source->n != 1)
        return cdz_err(err, CDZ_E_USAGE, "a constraint has one text, found %u", source->n);
    const char *text = source->texts[0].at;
    const size_t len = source->texts[0].len;
    switch (source->kind) {
    case CDZ_GRAMMAR_SCHEMA: return cdz_grammar_from_schema(text, len, options, out, err);
    case CDZ_GRAMMAR_REGEX: return cdz_grammar_from_regex(text, len, options, out, err);
    case CDZ_GRAMMAR_GBNF: return cdz_grammar_from_gbnf(text, len, options, out, err);
    case CDZ_GRAMMAR_TAGS: return cdz_grammar_from_tags(text, len, options, out, err);
    case CDZ_GRAMMAR_LARK: return cdz_grammar_from_lark(text, len, options, out, err);
    case CDZ_GRAMMAR_EITHER:
        return looks_like_gbnf(text, len) ? cdz_grammar_from_gbnf(text, len, options, out, err)
                                          : cdz_grammar_from_lark(text, len, options, out, err);
    default:
        return cdz_err(err, CDZ_E_USAGE, "no kind of constraint has the number %d",
                       (int)source->kind);
    }
}

/* --- getting -------------------------------------------------------------------------------------------- */

/* One that has grown to an eighth of what the store may hold, or of which a limit was met, makes way for a fresh one. */
static compiled *find(cdz_grammar_store *s, cdz_grammar_kind kind, const cdz_buf *key)
{
    for (compiled *c = s->newest; c; c = c->older) {
        if (c->kind != kind || c->key_len != key->len) continue;
        if (key->len && memcmp(c->key, key->data, key->len) != 0) continue;
        const bool tired = c->bytes > s->options.max_bytes / 8 || atomic_load(&c->broken);
        unlist(c);
        if (tired) {
            if (!c->holders) destroy(c);
            return NULL;
        }
        list(c);
        return c;
    }
    return NULL;
}

/* Under the store's lock: a constraint for one who asks. */
static cdz_status lend(compiled *c, cdz_constraint **out, cdz_error *err)
{
    cdz_constraint *one = c->spare;
    if (one)
        c->spare = one->next;
    else
        one = malloc(sizeof *one);
    *out = one;
    if (!one) return cdz_err_memory(err, "a constraint");
    *one = (cdz_constraint){.of = c, .holders = 1};
    c->holders++;
    c->store->held++;
    return CDZ_OK;
}

/* Under the lock; once. */
static cdz_status need_vocab(cdz_grammar_store *s, cdz_error *err)
{
    if (s->vocab) return CDZ_OK;
    if (!s->tokenizer)
        return cdz_err(err, CDZ_E_NOT_FOUND,
                       "a constraint needs a tokenizer, and the model has no tokenizer.json");
    CDZ_TRY(cdz_grammar_vocab_new(s->tokenizer, NULL, 0, &s->own, err));
    s->vocab = s->own;
    return CDZ_OK;
}

static compiled *compiled_new(cdz_grammar_store *s, cdz_grammar_kind kind, cdz_buf *key)
{
    compiled *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    *c = (compiled){.store = s, .kind = kind, .key = key->data, .key_len = key->len};
    *key = (cdz_buf){0};
    cdz_mutex_init(&c->lock);
    return c;
}

/* Lists what was compiled, and lends it; another thread may have been faster. */
static cdz_status settle(cdz_grammar_store *s, compiled *made, cdz_constraint **out, cdz_error *err)
{
    const cdz_buf key = {.data = made->key, .len = made->key_len};
    made->bytes = bytes_of(made);
    cdz_mutex_lock(&s->lock);
    compiled *c = find(s, made->kind, &key);
    if (!c) list(made);
    const cdz_status st = lend(c ? c : made, out, err);
    make_fit(s);
    check_list(s);
    cdz_mutex_unlock(&s->lock);
    if (c) destroy(made);
    return st;
}

static cdz_status compile(cdz_grammar_store *s, const cdz_grammar_source *source, cdz_buf *key,
                          cdz_constraint **out, cdz_error *err)
{
    const cdz_grammar_options options = {
        .limits = s->options.limits, .tokenizer = s->tokenizer, .after = source->after};
    compiled *made = compiled_new(s, source->kind, key);
    if (!made) return cdz_err_memory(err, "a constraint");
    const cdz_status st = cdz_grammar_compile(source, &options, &made->grammar, err);
    if (st != CDZ_OK) {
        destroy(made);
        return st;
    }
    cdz_grammar_prepare(made->grammar, s->vocab);
    return settle(s, made, out, err);
}

cdz_status cdz_constraint_get(cdz_grammar_store *store, const cdz_grammar_source *source,
                              cdz_constraint **out, cdz_error *err)
{
    cdz_buf key = {0};
    *out = NULL;
    cdz_buf_puts(&key, source->after ? source->after : "");
    cdz_buf_putc(&key, '\0');
    if (!write_texts(source, &key)) {
        cdz_buf_free(&key);
        return cdz_err_memory(err, "a constraint");
    }
    cdz_mutex_lock(&store->lock);
    cdz_status st = need_vocab(store, err);
    compiled *known = st == CDZ_OK ? find(store, source->kind, &key) : NULL;
    if (known) st = lend(known, out, err);
    check_list(store);
    cdz_mutex_unlock(&store->lock);
    if (st == CDZ_OK && !known) st = compile(store, source, &key, out, err);
    cdz_buf_free(&key);
    return st;
}

void cdz_constraint_hold(cdz_constraint *constraint)
{
    compiled *c = constraint->of;
    cdz_mutex_lock(&c->store->lock);
    cdz_assert(constraint->holders > 0);
    constraint->holders++;
    c->holders++;
    c->store->held++;
    cdz_mutex_unlock(&c->store->lock);
}

void cdz_constraint_release(cdz_constraint *constraint)
{
    if (!constraint) return;
    compiled *c = constraint->of;
    cdz_grammar_store *s = c->store;
    cdz_mutex_lock(&c->lock);
    const uint64_t bytes = bytes_of(c);
    cdz_mutex_unlock(&c->lock);
    cdz_mutex_lock(&s->lock);
    cdz_assert(constraint->holders > 0);
    if (c->listed) s->bytes += bytes - c->bytes;
    c->bytes = bytes;
    if (--constraint->holders == 0) {
        constraint->next = c->spare;
        c->spare = constraint;
    }
    const bool last = --c->holders == 0 && !c->listed;
    const bool store_too = --s->held == 0 && s->closed;
    if (last) destroy(c);
    make_fit(s);
    check_list(s);
    cdz_mutex_unlock(&s->lock);
    if (store_too) destroy_store(s);
}

/* --- asking --------------------------------------------------------------------------------------------- */

/* The grammar, locked until `leave`: what states are made, and what limits are met, is this one's. */
static cdz_grammar *enter(cdz_constraint *constraint)
{
    cdz_mutex_lock(&constraint->of->lock);
    cdz_grammar_use_by(constraint->of->grammar, &constraint->use);
    return constraint->of->grammar;
}

static void leave(cdz_constraint *constraint)
{
    cdz_mutex_unlock(&constraint->of->lock);
}

/* Between those: why a state is 0 that should not be, if there is a reason. */
static cdz_status look(cdz_constraint *c, cdz_error *err)
{
    const cdz_status st = cdz_grammar_trouble(c->of->grammar, err);
    if (st != CDZ_OK) atomic_store(&c->of->broken, true);
    return st;
}

uint32_t cdz_constraint_start(cdz_constraint *constraint)
{
    return cdz_grammar_start(constraint->of->grammar);
}

cdz_status cdz_constraint_feed(cdz_constraint *constraint, const char *bytes, size_t n,
                               uint32_t *state, cdz_error *err)
{
    *state = cdz_grammar_feed(enter(constraint), *state, bytes, n);
    const cdz_status st = *state ? CDZ_OK : look(constraint, err);
    leave(constraint);
    return st;
}

cdz_status cdz_constraint_feed_token(cdz_constraint *constraint, int32_t id, uint32_t *state,
                                     cdz_error *err)
{
    cdz_grammar *g = enter(constraint);
    *state = cdz_grammar_feed_token(g, constraint->of->store->vocab, *state, id);
    const cdz_status st = *state ? CDZ_OK : look(constraint, err);
    leave(constraint);
    return st;
}

bool cdz_constraint_accepts(cdz_constraint *constraint, uint32_t state)
{
    const bool accepts = cdz_grammar_accepts(enter(constraint), state);
    leave(constraint);
    return accepts;
}

cdz_status cdz_constraint_allowed(cdz_constraint *constraint, uint32_t state, uint64_t *bits,
                                  uint32_t n_words, cdz_error *err)
{
    const cdz_grammar_vocab *vocab = constraint->of->store->vocab;
    const uint32_t known = (cdz_grammar_vocab_size(vocab) + 63) / 64,
                   n = known < n_words ? known : n_words;
    const uint64_t *mask = NULL;
    const cdz_status st = cdz_grammar_allowed(enter(constraint), vocab, state, &mask, err);
    if (st != CDZ_OK) (void)look(constraint, NULL);
    if (st == CDZ_OK && n) memcpy(bits, mask, n * sizeof *bits);
    leave(constraint);
    memset(bits + n, 0, (n_words - n) * sizeof *bits);
    return st;
}

size_t cdz_constraint_forced(cdz_constraint *constraint, uint32_t state, char *out, size_t room)
{
    const size_t n = cdz_grammar_forced(enter(constraint), state, out, room);
    leave(constraint);
    return n;
}
