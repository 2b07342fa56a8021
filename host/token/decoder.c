/* decoder.c - what each step does to a list of strings. */
#include "token/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "token/vocab.h"

/* --- lists of strings ------------------------------------------------------------------------- */

void cdz_strings_free(cdz_strings *list)
{
    cdz_buf_free(&list->bytes);
    free(list->ends);
    *list = (cdz_strings){0};
}

void cdz_strings_close(cdz_strings *list)
{
    if (list->n == list->cap) {
        const size_t cap = list->cap ? list->cap * 2 : 64;
        size_t *ends =
            cap > SIZE_MAX / sizeof *ends ? NULL : realloc(list->ends, cap * sizeof *ends);
        if (!ends) {
            list->bytes.failed = true;
            return;
        }
        list->ends = ends;
        list->cap = cap;
    }
    list->ends[list->n++] = list->bytes.len;
}

void cdz_strings_add(cdz_strings *list, const char *text, size_t n)
{
    cdz_buf_add(&list->bytes, text, n);
    cdz_strings_close(list);
}

typedef struct span {
    const char *text;
    size_t n;
} span;

static span string_at(const cdz_strings *list, size_t i)
{
    const size_t begin = i > 0 ? list->ends[i - 1] : 0;
    return (span){list->bytes.data ? list->bytes.data + begin : "", list->ends[i] - begin};
}

/* Appends the text with every `find` replaced. */
static void put_replaced(cdz_buf *out, span s, span find, span put)
{
    while (find.n > 0 && s.n > 0) {
        const char *at = memmem(s.text, s.n, find.text, find.n);
        if (!at) break;
        const size_t before = (size_t)(at - s.text);
        cdz_buf_add(out, s.text, before);
        cdz_buf_add(out, put.text, put.n);
        s.text += before + find.n;
        s.n -= before + find.n;
    }
    cdz_buf_add(out, s.text, s.n);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* All tokens become one string; a token with a character outside the alphabet is itself. */
static void run_byte_level(const cdz_strings *from, cdz_strings *to)
{
    cdz_buf bytes = {0};
    for (size_t i = 0; i < from->n; i++) {
        const span s = string_at(from, i);
        char *mapped = malloc(s.n + 1);
        size_t n;
        if (!mapped)
            bytes.failed = true;
        else if (cdz_byte_level_decode(s.text, s.n, mapped, &n))
            cdz_buf_add(&bytes, mapped, n);
        else
            cdz_buf_add(&bytes, s.text, s.n);
        free(mapped);
    }
    if (bytes.len > 0) cdz_utf8_add_all(&to->bytes, bytes.data, bytes.len);
    if (bytes.failed) to->bytes.failed = true;
    cdz_buf_free(&bytes);
    cdz_strings_close(to);
}

int cdz_fallback_byte(const char *text, size_t n)
{
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const int high = text[3] == '+' ? 0 : cdz_hex_digit(text[3]), low = cdz_hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* A run of bytes is its text, or as many U+FFFD as there are bytes when it is not all valid. */
static void flush_bytes(cdz_buf *run, cdz_strings *to)
{
    if (run->len > 0 && cdz_utf8_valid(run->data, run->len))
        cdz_strings_add(to, run->data, run->len);
    else
        for (size_t i = 0; i < run->len; i++) cdz_strings_add(to, CDZ_UTF8_REPLACEMENT, 3);
    cdz_buf_clear(run);
}

static void run_byte_fallback(const cdz_strings *from, cdz_strings *to)
{
    cdz_buf run = {0};
    for (size_t i = 0; i < from->n; i++) {
        const span s = string_at(from, i);
        const int byte = cdz_fallback_byte(s.text, s.n);
        if (byte >= 0) {
            cdz_buf_putc(&run, (char)(unsigned char)byte);
            continue;
        }
        flush_bytes(&run, to);
        cdz_strings_add(to, s.text, s.n);
    }
    flush_bytes(&run, to);
    if (run.failed) to->bytes.failed = true;
    cdz_buf_free(&run);
}

/* --- single strings --------------------------------------------------------------------------- */

static bool put_pattern(const cdz_dec_step *step, span s, cdz_meter *meter, cdz_buf *out)
{
    cdz_pattern_walk w = {
        .pattern = &step->pattern, .text = (const uint8_t *)s.text, .n = s.n, .meter = meter};
    size_t done = 0;
    while (s.n > 0 && cdz_pattern_next(&w)) {
        cdz_buf_add(out, s.text + done, w.begin - done);
        cdz_buf_add(out, step->text, step->text_len);
        done = w.end;
    }
    cdz_buf_add(out, s.text + done, s.n - done);
    return !w.gave_up;
}

static void put_stripped(const cdz_dec_step *step, span s, cdz_buf *out)
{
    const size_t size = step->text_len;
    for (size_t i = 0; i < step->start && s.n >= size && memcmp(s.text, step->text, size) == 0;
         i++) {
        s.text += size;
        s.n -= size;
    }
    for (size_t i = 0; i < step->stop && s.n >= size; i++) {
        if (memcmp(s.text + s.n - size, step->text, size) != 0) break;
        s.n -= size;
    }
    cdz_buf_add(out, s.text, s.n);
}

/* The reference's clean-up of one token; " do not" is its own. */
static void put_clean(span s, cdz_buf *out)
{
    static const struct {
        const char *find, *put;
    } rules[] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                 {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                 {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    cdz_buf a = {0}, b = {0};
    cdz_buf_add(&a, s.text, s.n);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && a.len > 0; i++) {
        const span find = {rules[i].find, strlen(rules[i].find)},
                   put = {rules[i].put, strlen(rules[i].put)};
        if (!memmem(a.data, a.len, find.text, find.n)) continue;
        cdz_buf_clear(&b);
        put_replaced(&b, (span){a.data, a.len}, find, put);
        const cdz_buf done = b;
        b = a;
        a = done;
    }
    if (a.len > 0) cdz_buf_add(out, a.data, a.len);
    if (a.failed || b.failed) out->failed = true;
    cdz_buf_free(&a);
    cdz_buf_free(&b);
}

static void put_wordpiece(const cdz_dec_step *step, span s, bool first, cdz_buf *out)
{
    cdz_buf joined = {0};
    if (!first && s.n >= step->text_len && memcmp(s.text, step->text, step->text_len) == 0) {
        s.text += step->text_len;
        s.n -= step->text_len;
    } else if (!first) {
        cdz_buf_putc(&joined, ' ');
    }
    cdz_buf_add(&joined, s.text, s.n);
    if (joined.failed) out->failed = true;
    const span whole = {joined.data ? joined.data : "", joined.len};
    if (step->cleanup)
        put_clean(whole, out);
    else
        cdz_buf_add(out, whole.text, whole.n);
    cdz_buf_free(&joined);
}

static void put_metaspace(const cdz_dec_step *step, span s, bool first, cdz_buf *out)
{
    const span mark = {step->pattern.literal, step->pattern.literal_len};
    put_replaced(out, s, mark, first && !step->keeps_first ? (span){"", 0} : (span){" ", 1});
}

/* Equal neighbours are one token, and what is empty without the pad token is none. */
static void run_ctc(const cdz_dec_step *step, const cdz_strings *from, cdz_strings *to)
{
    const span pad = {step->text, step->text_len},
               delimiter = {step->delimiter, step->delimiter_len};
    cdz_buf kept = {0}, clean = {0};
    for (size_t i = 0; i < from->n; i++) {
        const span s = string_at(from, i),
                   last = i > 0 ? string_at(from, i - 1) : (span){"", SIZE_MAX};
        if (s.n == last.n && memcmp(s.text, last.text, s.n) == 0) continue;
        cdz_buf_clear(&kept);
        cdz_buf_clear(&clean);
        put_replaced(&kept, s, pad, (span){"", 0});
        if (step->cleanup && kept.len > 0) put_clean((span){kept.data, kept.len}, &clean);
        const size_t begin = to->bytes.len;
        if (!step->cleanup && kept.len > 0) cdz_buf_add(&to->bytes, kept.data, kept.len);
        if (clean.len > 0)
            put_replaced(&to->bytes, (span){clean.data, clean.len}, delimiter, (span){" ", 1});
        if (to->bytes.len > begin) cdz_strings_close(to);
    }
    if (kept.failed || clean.failed) to->bytes.failed = true;
    cdz_buf_free(&kept);
    cdz_buf_free(&clean);
}

/* Spaces for their marks; none before the first text of a stretch. */
static void run_stretches(const cdz_dec_step *step, const cdz_strings *from, cdz_strings *to)
{
    static const span mark = {"\xE2\x96\x81", 3}, space = {" ", 1};
    bool begins = true;
    for (size_t i = 0; i < from->n; i++) {
        span s = string_at(from, i);
        const size_t begin = to->bytes.len;
        const bool between = cdz_strmap_get(&step->between, s.text, s.n) >= 0;
        if (begins && !between && s.n >= mark.n && memcmp(s.text, mark.text, mark.n) == 0)
            s = (span){s.text + mark.n, s.n - mark.n};
        if (between)
            cdz_buf_add(&to->bytes, s.text, s.n);
        else
            put_replaced(&to->bytes, s, mark, space);
        begins = between || (begins && to->bytes.len == begin);
        cdz_strings_close(to);
    }
}

/* --- the chain -------------------------------------------------------------------------------- */

/* As for normalizers: a chain of replacements cannot grow without end. */
static bool grew_too_far(size_t before, size_t after)
{
    return after > ((size_t)1 << 20) && (after - ((size_t)1 << 20)) / 64 > before;
}

/* n_input: of the whole run, which bounds each step too. */
static bool run_each(const cdz_dec_step *step, const cdz_strings *from, size_t n_input,
                     cdz_meter *meter, cdz_strings *to)
{
    bool ok = true;
    for (size_t i = 0; i < from->n && ok; i++) {
        const span s = string_at(from, i), suffix = {step->text, step->text_len};
        switch (step->kind) {
        case CDZ_DEC_REPLACE: ok = put_pattern(step, s, meter, &to->bytes); break;
        case CDZ_DEC_STRIP: put_stripped(step, s, &to->bytes); break;
        case CDZ_DEC_METASPACE: put_metaspace(step, s, i == 0, &to->bytes); break;
        case CDZ_DEC_WORDPIECE: put_wordpiece(step, s, i == 0, &to->bytes); break;
        case CDZ_DEC_BPE:
            put_replaced(&to->bytes, s, suffix, i + 1 == from->n ? (span){"", 0} : (span){" ", 1});
            break;
        default: /* JOIN */
            if (i > 0) cdz_buf_putc(&to->bytes, ' ');
            cdz_buf_add(&to->bytes, s.text, s.n);
        }
        cdz_strings_close(to);
        if (grew_too_far(n_input, to->bytes.len)) break;
    }
    return ok;
}

static bool run_step(const cdz_dec_step *step, const cdz_strings *from, size_t n_input,
                     cdz_meter *meter, cdz_strings *to)
{
    switch (step->kind) {
    case CDZ_DEC_BYTE_LEVEL: run_byte_level(from, to); return true;
    case CDZ_DEC_BYTE_FALLBACK: run_byte_fallback(from, to); return true;
    case CDZ_DEC_CTC: run_ctc(step, from, to); return true;
    case CDZ_DEC_STRETCHES: run_stretches(step, from, to); return true;
    case CDZ_DEC_FUSE:
        cdz_strings_add(to, from->bytes.data ? from->bytes.data : "", from->bytes.len);
        return true;
    case CDZ_DEC_REPLACE:
    case CDZ_DEC_STRIP:
    case CDZ_DEC_METASPACE:
    case CDZ_DEC_WORDPIECE:
    case CDZ_DEC_BPE:
    case CDZ_DEC_JOIN: break;
    }
    return run_each(step, from, n_input, meter, to);
}

cdz_status cdz_decoder_run(const cdz_tok_decoder *decoder, cdz_strings *list, cdz_error *err)
{
    const size_t n_input = list->bytes.len + list->n;
    cdz_strings other = {0};
    cdz_status st = CDZ_OK;
    cdz_meter meter;
    cdz_meter_begin(&meter, n_input);
    for (uint32_t i = 0; i < decoder->n && st == CDZ_OK; i++) {
        cdz_buf_clear(&other.bytes);
        other.n = 0;
        if (!run_step(&decoder->steps[i], list, n_input, &meter, &other))
            st = cdz_err(err, CDZ_E_LIMIT, "the decoder's pattern takes too long on %zu bytes",
                         n_input);
        else if (grew_too_far(n_input, other.bytes.len))
            st = cdz_err(err, CDZ_E_LIMIT, "the decoder makes more than 64 bytes of each of %zu",
                         n_input);
        const bool failed = list->bytes.failed || other.bytes.failed;
        const cdz_strings done = other;
        other = *list;
        *list = done;
        if (failed && st == CDZ_OK)
            st = cdz_err(err, CDZ_E_NOMEM, "out of memory to decode %zu bytes", n_input);
    }
    cdz_strings_free(&other);
    return st;
}
