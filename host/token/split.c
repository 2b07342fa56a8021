/* split.c - making one cut: the matches of a pattern as spans, those between them, and what becomes of the matches
 * (removed, alone, or joined with a neighbour). Spans cover the text in order, without gaps but those of removed matches. */
#include "token/split.h"

#include <string.h>

/* The span not given out yet, and what came last. */
typedef struct split_state {
    const cdz_split *split;
    const uint8_t *text;
    cdz_meter *meter;
    cdz_piece_fn piece;
    void *context;
    size_t begin, end; /* equal: none is held */
    bool last_match;
} split_state;

static bool flush(split_state *s)
{
    const size_t begin = s->begin, end = s->end;
    s->begin = s->end;
    return begin == end || s->piece(s->context, s->text, begin, end);
}

/* Whether a new span joins the one that is held. */
static bool joins(const split_state *s, bool match)
{
    if (s->begin == s->end) return false;
    switch (s->split->behavior) {
    case CDZ_SPLIT_CONTIGUOUS: return match == s->last_match;
    case CDZ_SPLIT_MERGED_WITH_PREVIOUS: return match && !s->last_match;
    case CDZ_SPLIT_MERGED_WITH_NEXT: return !match && s->last_match;
    case CDZ_SPLIT_ISOLATED:
    case CDZ_SPLIT_REMOVED: break;
    }
    return false;
}

/* Takes the next span, which begins where the last one ended. */
static bool take_span(split_state *s, size_t begin, size_t end, bool match)
{
    if (begin == end) return true;
    match = match != s->split->invert;
    if (!joins(s, match)) {
        if (!flush(s)) return false;
        s->begin = begin;
    }
    s->end = end;
    s->last_match = match;
    if (match && s->split->behavior == CDZ_SPLIT_REMOVED) s->begin = end;
    return true;
}

static bool run_matcher(split_state *s, size_t begin, size_t end)
{
    const cdz_match_fn match = s->split->pattern.match;
    const uint8_t *text = s->text + begin; /* a pattern sees nothing before or after the piece */
    const size_t n = end - begin;
    size_t done = 0, size;
    for (size_t i = 0; i < n;) {
        const size_t match_end = match(text, n, i);
        if (match_end == i) {
            cdz_uc_code(text + i, &size);
            i += size;
            continue;
        }
        if (!take_span(s, begin + done, begin + i, false)) return false;
        if (!take_span(s, begin + i, begin + match_end, true)) return false;
        i = done = match_end;
    }
    return take_span(s, begin + done, end, false);
}

static bool run_literal(split_state *s, size_t begin, size_t end)
{
    const cdz_pattern *p = &s->split->pattern;
    while (begin < end) {
        const uint8_t *found = memmem(s->text + begin, end - begin, p->literal, p->literal_len);
        if (!found) break;
        const size_t at = (size_t)(found - s->text);
        if (!take_span(s, begin, at, false)) return false;
        if (!take_span(s, at, at + p->literal_len, true)) return false;
        begin = at + p->literal_len;
    }
    return take_span(s, begin, end, false);
}

static bool run_regex(split_state *s, size_t begin, size_t end)
{
    cdz_pattern_walk w = {
        .pattern = &s->split->pattern, .text = s->text + begin, .n = end - begin, .meter = s->meter};
    size_t done = 0;
    while (cdz_pattern_next(&w)) {
        if (!take_span(s, begin + done, begin + w.begin, false)) return false;
        if (!take_span(s, begin + w.begin, begin + w.end, true)) return false;
        done = w.end;
    }
    return !w.gave_up && take_span(s, begin + done, end, false);
}

bool cdz_split_run(const cdz_split *split, const uint8_t *text, size_t begin, size_t end,
                   cdz_meter *meter, cdz_piece_fn piece, void *context)
{
    split_state s = {
        .split = split, .text = text, .meter = meter, .piece = piece, .context = context};
    bool ok;
    if (split->pattern.match)
        ok = run_matcher(&s, begin, end);
    else
        ok = split->pattern.literal ? run_literal(&s, begin, end) : run_regex(&s, begin, end);
    return ok && flush(&s);
}
