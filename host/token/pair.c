/* pair.c - two texts in one encoding. Truncation turns a text into windows, the first of which is kept; the template is
 * filled in with every combination of windows; padding comes last. */
#include "token/pair.h"

#include <stdlib.h>
#include <string.h>

#include "token/parts.h"

enum { MOST_TOKENS = 1 << 24 }; /* of all combinations together */

typedef struct window {
    size_t begin, end;
} window;

typedef struct text {
    cdz_encoding ids;
    window *windows; /* the first is what is kept */
    size_t n_windows;
} text;

typedef struct pairing {
    const cdz_tokenizer *tok;
    const cdz_pair_options *options;
    text texts[2];
    uint32_t n_texts;
    const cdz_template_part *parts;
    uint32_t n_parts, n_added;
    cdz_arena scratch;
    cdz_encoding_pair *out;
    cdz_error *err;
} pairing;

/* --- windows ------------------------------------------------------------------------------- */

static cdz_status one_window(pairing *p, text *t)
{
    t->windows = cdz_arena_array(&p->scratch, 1, sizeof *t->windows);
    if (!t->windows) return cdz_err_memory(p->err, "the pair of texts");
    t->windows[0] = (window){0, t->ids.n};
    t->n_windows = 1;
    return CDZ_OK;
}

/* Nothing is kept, all of it is cut off. */
static cdz_status keep_nothing(pairing *p, text *t)
{
    t->windows = cdz_arena_array(&p->scratch, 2, sizeof *t->windows);
    if (!t->windows) return cdz_err_memory(p->err, "the pair of texts");
    t->windows[1] = (window){0, t->ids.n};
    t->n_windows = 2;
    return CDZ_OK;
}

/* Windows of `most` ids that share `stride`, from one end to the other. */
static cdz_status truncate_text(pairing *p, text *t, size_t most)
{
    const size_t n = t->ids.n, stride = p->options->stride;
    if (most >= n) return CDZ_OK;
    if (most == 0) return keep_nothing(p, t);
    if (stride >= most)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "truncation: a stride of %zu, expected less than the %zu ids that are left "
                       "for the text",
                       stride, most);
    const size_t step = most - stride, count = (n - most + step - 1) / step + 1;
    t->windows = cdz_arena_array(&p->scratch, count, sizeof *t->windows);
    if (!t->windows) return cdz_err_memory(p->err, "the pair of texts");
    for (size_t i = 0; i < count; i++) {
        const size_t at = i * step, end = at + most < n ? at + most : n;
        t->windows[i] = p->options->truncate_left ? (window){n - end, n - at} : (window){at, end};
    }
    t->n_windows = count;
    return CDZ_OK;
}

static cdz_status truncate_longest(pairing *p, size_t max)
{
    text *a = &p->texts[0], *b = &p->texts[1];
    if (p->n_texts == 1) return truncate_text(p, a, max);
    const bool swapped = a->ids.n > b->ids.n;
    size_t less = swapped ? b->ids.n : a->ids.n, more;
    if (less > max)
        more = less;
    else
        more = max - less > less ? max - less : less;
    if (less + more > max) {
        less = max / 2;
        more = less + max % 2;
    }
    CDZ_TRY(truncate_text(p, a, swapped ? more : less));
    return truncate_text(p, b, swapped ? less : more);
}

static cdz_status truncate_one(pairing *p, uint32_t which, size_t excess)
{
    text *t = &p->texts[which];
    if (which >= p->n_texts)
        return cdz_err(p->err, CDZ_E_USAGE, "truncation: there is no second text to cut");
    if (t->ids.n <= excess)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "truncation: the %s text has %zu ids, too few to leave out %zu",
                       which ? "second" : "first", t->ids.n, excess);
    return truncate_text(p, t, t->ids.n - excess);
}

static cdz_status truncate_texts(pairing *p)
{
    const cdz_pair_options *o = p->options;
    const size_t total = p->texts[0].ids.n + p->texts[1].ids.n;
    for (uint32_t i = 0; i < p->n_texts; i++) CDZ_TRY(one_window(p, &p->texts[i]));
    if (o->truncation == CDZ_TRUNCATE_NONE) return CDZ_OK;
    if (o->max_length < p->n_added)
        return cdz_err(p->err, CDZ_E_USAGE,
                       "truncation: at most %u ids, but %u special tokens are added", o->max_length,
                       p->n_added);
    const size_t max = o->max_length - p->n_added;
    if (max == 0) {
        for (uint32_t i = 0; i < p->n_texts; i++) CDZ_TRY(truncate_text(p, &p->texts[i], 0));
        return CDZ_OK;
    }
    if (total <= max) return CDZ_OK;
    if (o->truncation == CDZ_TRUNCATE_LONGEST_FIRST) return truncate_longest(p, max);
    return truncate_one(p, o->truncation == CDZ_TRUNCATE_SECOND, total - max);
}

/* --- combinations -------------------------------------------------------------------------- */

/* Which window each part of the template has, part by part; the first combination is all zeros. */
typedef struct combinations {
    uint32_t *at; /* (n, n_parts) */
    size_t n;
} combinations;

static const text *text_of(const pairing *p, uint32_t part)
{
    return p->parts[part].ids ? NULL : &p->texts[p->parts[part].second && p->n_texts > 1];
}

static size_t count_combinations(const pairing *p)
{
    size_t n = 1;
    for (uint32_t i = 0; i < p->n_parts && n <= MOST_TOKENS; i++) {
        const text *t = text_of(p, i);
        if (t) n *= t->n_windows;
    }
    return n;
}

/* As the reference merges: the encoding itself first; then what was cut off so far, each with all windows of the next
 * part, then the encoding with that part's other windows. */
static cdz_status combine(pairing *p, combinations *c)
{
    const size_t n = count_combinations(p), width = p->n_parts ? p->n_parts : 1;
    if (n > MOST_TOKENS / width)
        return cdz_err(p->err, CDZ_E_LIMIT, "truncation: the texts are cut into too many pieces");
    c->at = cdz_arena_array(&p->scratch, n * width, sizeof *c->at);
    uint32_t *next = cdz_arena_array(&p->scratch, n * width, sizeof *next);
    if (!c->at || !next) return cdz_err_memory(p->err, "the pair of texts");
    c->n = 1;
    for (uint32_t part = 0; part < p->n_parts; part++) {
        const text *t = text_of(p, part);
        const size_t n_windows = t ? t->n_windows : 1, had = c->n;
        size_t made = 1;
        memcpy(next, c->at, width * sizeof *next);
        for (size_t i = 1; i <= had; i++) /* the encoding itself comes last, and without window 0 */
            for (size_t w = i == had; w < n_windows; w++) {
                uint32_t *to = next + made++ * width;
                memcpy(to, c->at + (i == had ? 0 : i) * width, width * sizeof *to);
                to[part] = (uint32_t)w;
            }
        uint32_t *before = c->at;
        c->at = next;
        next = before;
        c->n = made;
    }
    return CDZ_OK;
}

/* --- filling in ---------------------------------------------------------------------------- */

static size_t length_of(const pairing *p, const uint32_t *windows)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const text *t = text_of(p, i);
        if (t)
            n += t->windows[windows[i]].end - t->windows[windows[i]].begin;
        else if (p->options->special)
            n += p->parts[i].n_ids;
    }
    return n;
}

static cdz_pair_token *put_text(const text *t, const window *w, const cdz_template_part *part,
                                int8_t which, cdz_pair_token *to)
{
    for (size_t i = w->begin; i < w->end; i++)
        *to++ = (cdz_pair_token){
            .id = t->ids.ids[i], .type = part->type, .text = which, .span = t->ids.offsets[i]};
    return to;
}

static void fill_in(const pairing *p, const uint32_t *windows, cdz_pair_token *to)
{
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const cdz_template_part *part = &p->parts[i];
        const text *t = text_of(p, i);
        if (t) to = put_text(t, &t->windows[windows[i]], part, (int8_t)(t - p->texts), to);
        for (uint32_t k = 0; !t && p->options->special && k < part->n_ids; k++)
            *to++ = (cdz_pair_token){
                .id = part->ids[k], .type = part->type, .text = -1, .special = true};
    }
}

/* What every encoding is filled up to: 0 is nothing. */
static size_t padded_length(const pairing *p, size_t own)
{
    const cdz_pair_options *o = p->options;
    size_t n = o->pad_length ? o->pad_length : own;
    if (!o->pad) return 0;
    if (o->pad_multiple && n % o->pad_multiple) n += o->pad_multiple - n % o->pad_multiple;
    return n;
}

static cdz_status fill(pairing *p, const combinations *c)
{
    const cdz_pair_options *o = p->options;
    cdz_encoding_pair *out = p->out;
    const size_t width = p->n_parts ? p->n_parts : 1, least = padded_length(p, length_of(p, c->at));
    const cdz_pair_token padding = {
        .id = o->pad_id, .type = o->pad_type, .text = -1, .special = true, .pad = true};
    size_t total = 0;
    out->all = cdz_arena_array(&out->arena, c->n, sizeof *out->all);
    if (!out->all) return cdz_err_memory(p->err, "the pair of texts");
    for (size_t i = 0; i < c->n; i++) {
        const uint32_t *windows = c->at + i * width;
        const size_t n = length_of(p, windows), missing = n < least ? least - n : 0;
        total += n + missing;
        if (total > MOST_TOKENS)
            return cdz_err(p->err, CDZ_E_LIMIT, "the encodings have more than %d ids together",
                           MOST_TOKENS);
        cdz_pair_token *at = cdz_arena_array(&out->arena, n + missing, sizeof *at);
        if (!at) return cdz_err_memory(p->err, "the pair of texts");
        fill_in(p, windows, at + (o->pad_left ? missing : 0));
        for (size_t k = 0; k < missing; k++) at[o->pad_left ? k : n + k] = padding;
        out->all[out->n++] = (cdz_pair_ids){at, n + missing};
    }
    return CDZ_OK;
}

/* --- the call ------------------------------------------------------------------------------ */

static void choose_parts(pairing *p)
{
    static const cdz_template_part plain[] = {{.type = 0}, {.type = 1, .second = true}};
    const cdz_postproc *post = &p->tok->postproc;
    const bool two = p->n_texts == 2;
    p->parts = two ? post->pair_parts : post->parts;
    p->n_parts = two ? post->n_pair_parts : post->n_parts;
    p->n_added = two ? post->n_pair_special : post->n_special;
    if (!p->parts) {
        p->parts = plain;
        p->n_parts = p->n_texts;
    }
    if (!p->options->special) p->n_added = 0;
}

static cdz_status encode_texts(pairing *p, const char *first, size_t first_len, const char *second,
                               size_t second_len)
{
    CDZ_TRY(cdz_tokenizer_encode(p->tok, NULL, first, first_len, CDZ_ENCODE_OFFSETS,
                                 &p->texts[0].ids, p->err));
    if (!second) return CDZ_OK;
    return cdz_tokenizer_encode(p->tok, NULL, second, second_len, CDZ_ENCODE_OFFSETS,
                                &p->texts[1].ids, p->err);
}

cdz_status cdz_tokenizer_encode_pair(const cdz_tokenizer *tok, const char *first, size_t first_len,
                                     const char *second, size_t second_len,
                                     const cdz_pair_options *options, cdz_encoding_pair *out,
                                     cdz_error *err)
{
    pairing p = {.tok = tok, .options = options, .n_texts = second ? 2 : 1, .out = out, .err = err};
    combinations c = {0};
    *out = (cdz_encoding_pair){0};
    choose_parts(&p);
    cdz_status st = encode_texts(&p, first, first_len, second, second_len);
    if (st == CDZ_OK) st = truncate_texts(&p);
    if (st == CDZ_OK) st = combine(&p, &c);
    if (st == CDZ_OK) st = fill(&p, &c);
    for (size_t i = 0; i < 2; i++) cdz_encoding_free(&p.texts[i].ids);
    cdz_arena_free(&p.scratch);
    if (st != CDZ_OK) cdz_encoding_pair_free(out);
    return st;
}

void cdz_encoding_pair_free(cdz_encoding_pair *encoding)
{
    cdz_arena_free(&encoding->arena);
    *encoding = (cdz_encoding_pair){0};
}
