/* sample.c - members of a language, drawn at random: for tests, and for people who want to see what they wrote.
 *
 * A walk takes any byte that may come, letters rather than others, and ends where it may with one chance in four. Past a length
 * it goes the shortest way to an end. */
#include "grammar/grow.h"
#include "grammar/states.h"

enum {
    WANDER = 64,         /* bytes of a walk at will */
    MOST_BYTES = 100000, /* of a member */
    MOST_SEEN = 1000000, /* states looked at for the way to an end */
};

typedef struct end_search {
    uint32_t *states, *from,
        *seen; /* in the order found; the index that each was found from; states that were found, by hash */
    uint8_t *bytes; /* that led to each */
    uint32_t n, size;
} end_search;

static uint32_t below(uint64_t *seed, uint32_t n)
{
    *seed += 0x9E3779B97F4A7C15u;
    uint64_t x = *seed;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((x ^ x >> 31) >> 33) % n;
}

/* --- the shortest way to an end -------------------------------------------------------------------------- */

static bool search_room(end_search *w)
{
    const uint32_t size = w->size ? 2 * w->size : 256;
    uint32_t *states = realloc(w->states, size / 2 * sizeof *states),
             *from = states ? realloc(w->from, size / 2 * sizeof *from) : NULL,
             *seen = from ? calloc(size, sizeof *seen) : NULL;
    uint8_t *bytes = seen ? realloc(w->bytes, size / 2) : NULL;
    if (states) w->states = states;
    if (from) w->from = from;
    if (bytes) w->bytes = bytes;
    if (!bytes) {
        free(seen);
        return false;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        uint32_t at = states[i] * 0x9E3779B1u & (size - 1);
        while (seen[at]) at = (at + 1) & (size - 1);
        seen[at] = states[i];
    }
    free(w->seen);
    w->seen = seen;
    w->size = size;
    return true;
}

static bool found(end_search *w, uint32_t state, uint32_t from, uint8_t byte)
{
    if (w->n + 1 >= w->size / 2 && !search_room(w)) return false;
    uint32_t at = state * 0x9E3779B1u & (w->size - 1);
    for (; w->seen[at]; at = (at + 1) & (w->size - 1))
        if (w->seen[at] == state) return true;
    w->seen[at] = state;
    w->states[w->n] = state;
    w->from[w->n] = from;
    w->bytes[w->n++] = byte;
    return true;
}

/* The bytes that led to the i-th state of a search, which come last first. */
static void write_way(const end_search *w, uint32_t i, cdz_buf *out)
{
    size_t n = 0, at = 0;
    for (uint32_t k = i; k; k = w->from[k]) n++;
    char *way = malloc(n + 1);
    for (uint32_t k = i; way && k; k = w->from[k]) way[n - ++at] = (char)w->bytes[k];
    if (way) cdz_buf_add(out, way, n);
    out->failed |= !way;
    free(way);
}

static bool go_to_end(cdz_grammar *g, uint32_t state, cdz_buf *out)
{
    end_search w = {0};
    bool fine = found(&w, state, 0, 0), ended = false;
    for (uint32_t i = 0; fine && !ended && i < w.n && w.n < MOST_SEEN; i++) {
        ended = cdz_grammar_accepts(g, w.states[i]);
        if (ended) write_way(&w, i, out);
        for (uint32_t c = 0; fine && !ended && c < g->net.n_classes; c++) {
            const uint8_t byte = g->net.sample[c];
            const uint32_t to = cdz_grammar_states_next(&g->states, w.states[i], byte);
            if (to) fine = found(&w, to, i, byte);
        }
    }
    out->failed |= !fine;
    free(w.states);
    free(w.from);
    free(w.seen);
    free(w.bytes);
    return ended;
}

/* --- a walk ---------------------------------------------------------------------------------------------- */

static bool is_letter(uint32_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '"' ||
           byte == '}' || byte == ']' || byte == ',' || byte == ':';
}

/* One of the bytes that may come; a letter counts four times. */
static uint32_t choose(cdz_grammar *g, uint32_t state, uint64_t *seed, uint8_t *byte)
{
    uint32_t weight = 0, to = 0;
    for (uint32_t b = 0; b < 256; b++) {
        const uint32_t next = cdz_grammar_states_next(&g->states, state, (uint8_t)b);
        const uint32_t own = is_letter(b) ? 4 : 1;
        if (!next) continue;
        weight += own;
        if (below(seed, weight) >= own) continue;
        to = next;
        *byte = (uint8_t)b;
    }
    return to;
}

cdz_status cdz_grammar_sample(cdz_grammar *g, uint64_t *seed, cdz_buf *out, cdz_error *err)
{
    uint32_t state = g->states.start;
    bool ended = false;
    for (uint32_t n = 0; n < WANDER && !ended; n++) {
        uint8_t byte = 0;
        ended = cdz_grammar_accepts(g, state) && below(seed, 4) == 0;
        const uint32_t next = ended ? 0 : choose(g, state, seed, &byte);
        if (!next) break;
        cdz_buf_putc(out, (char)byte);
        state = next;
    }
    if (!ended) ended = go_to_end(g, state, out);
    CDZ_TRY(cdz_grammar_trouble(g, err));
    if (out->failed || out->len > MOST_BYTES) return cdz_err_memory(err, "a sample");
    if (ended) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT,
                   "no way from \"%.60s\" to an end among the next %d states; a grammar that takes "
                   "tokens by their number cannot be sampled",
                   out->data ? out->data : "", MOST_SEEN);
}
