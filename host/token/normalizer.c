/* normalizer.c - what each step does to text. Which characters stand for which of the source
 * follows the reference's NormalizedString step by step. */
#include "token/normalizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "token/vocab.h"

void cdz_norm_work_free(cdz_norm_work *work)
{
    cdz_atext_free(&work->text);
    cdz_atext_free(&work->spare);
    cdz_nfc_free(&work->nfc);
}

/* --- steps ------------------------------------------------------------------------------------ */

static bool run_form(const cdz_norm_step *step, cdz_norm_work *work, cdz_rewrite *r)
{
    const cdz_atext *from = r->from;
    size_t at = 0, n_chars;
    while (at < from->len) {
        at = cdz_nfc_stretch(&work->nfc, step->form, from->bytes, from->len, at, &n_chars);
        if (at == SIZE_MAX) return false;
        for (size_t i = 0; i < n_chars; i++)
            if (!cdz_rewrite_put(r, work->nfc.chars[i].code, work->nfc.chars[i].change))
                return false;
    }
    return true;
}

static bool put_lower(cdz_rewrite *r, uint32_t code)
{
    uint32_t lower[2];
    const size_t n = cdz_text_lower(code, lower);
    return cdz_rewrite_put(r, lower[0], 0) && (n == 1 || cdz_rewrite_put(r, lower[1], 1));
}

static bool put_chinese(cdz_rewrite *r, uint32_t code)
{
    if (!cdz_text_is(CDZ_TC_BERT_CHINESE, code)) return cdz_rewrite_put(r, code, 0);
    return cdz_rewrite_put(r, ' ', 0) && cdz_rewrite_put(r, code, 1) && cdz_rewrite_put(r, ' ', 1);
}

static bool put_bytes(cdz_rewrite *r, const uint8_t *at, size_t size)
{
    for (size_t k = 0; k < size; k++)
        if (!cdz_rewrite_put(r, cdz_byte_to_code(at[k]), k > 0)) return false;
    return true;
}

/* The steps that look at one character at a time. */
static bool run_chars(const cdz_norm_step *step, cdz_rewrite *r)
{
    const cdz_atext *from = r->from;
    size_t size;
    bool ok = true;
    for (size_t i = 0; i < from->len && ok; i += size) {
        const uint32_t code = cdz_uc_code(from->bytes + i, &size);
        const cdz_align align = from->align[i];
        switch (step->kind) {
        case CDZ_NORM_LOWER: ok = put_lower(r, code); break;
        case CDZ_NORM_DROP:
            if (!cdz_text_is(step->text_class, code)) ok = cdz_atext_put(r->to, code, align);
            break;
        case CDZ_NORM_BLANK:
            ok = cdz_atext_put(r->to, cdz_text_is(step->text_class, code) ? ' ' : code, align);
            break;
        case CDZ_NORM_CHINESE: ok = put_chinese(r, code); break;
        default: ok = put_bytes(r, from->bytes + i, size); break;
        }
    }
    return ok;
}

static bool run_strip(const cdz_norm_step *step, cdz_rewrite *r)
{
    const cdz_atext *from = r->from;
    size_t begin = 0, end = from->len, size;
    while (step->left && begin < end && cdz_uc_at(from->bytes + begin, &size) & CDZ_UC_SPACE)
        begin += size;
    while (step->right && end > begin) {
        const uint8_t *before = cdz_uc_before(from->bytes + end);
        if (!(cdz_uc_at(before, &size) & CDZ_UC_SPACE)) break;
        end = (size_t)(before - from->bytes);
    }
    return cdz_atext_copy(r->to, from, begin, end);
}

/* The content stands for the last byte of the match, or of what is before a match of nothing. */
static bool run_replace(const cdz_norm_step *step, cdz_rewrite *r, cdz_meter *meter)
{
    const cdz_atext *from = r->from;
    cdz_pattern_walk w = {
        .pattern = &step->pattern, .text = from->bytes, .n = from->len, .meter = meter};
    size_t done = 0;
    if (from->len == 0) return true;
    while (cdz_pattern_next(&w)) {
        const cdz_align align = w.end > 0 ? from->align[w.end - 1] : (cdz_align){r->base, r->base};
        if (!cdz_atext_copy(r->to, from, done, w.begin)) return false;
        if (!cdz_atext_put_all(r->to, step->content, step->content_len, align)) return false;
        done = w.end;
    }
    return !w.gave_up && cdz_atext_copy(r->to, from, done, from->len);
}

static bool run_prepend(const cdz_norm_step *step, cdz_rewrite *r)
{
    const cdz_atext *from = r->from;
    if (from->len == 0) return true;
    return cdz_atext_put_all(r->to, step->content, step->content_len, from->align[0]) &&
           cdz_atext_copy(r->to, from, 0, from->len);
}

/* --- Precompiled ------------------------------------------------------------------------------ */

/* Characters of the rewritten text that are not written yet: only the last one's change may
 * still become another. */
typedef struct pending {
    cdz_rewrite *r;
    uint32_t code;
    int32_t change;
    bool any;
} pending;

static bool flush_pending(pending *p)
{
    const bool any = p->any;
    p->any = false;
    return !any || cdz_rewrite_put(p->r, p->code, p->change);
}

static bool put_pending(pending *p, uint32_t code, int32_t change)
{
    if (!flush_pending(p)) return false;
    p->code = code;
    p->change = change;
    p->any = true;
    return true;
}

static int32_t count_chars(const uint8_t *text, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++) count += (text[i] & 0xC0) != 0x80;
    return count;
}

/* The reference's bookkeeping: extra characters come last, missing ones count for the last
 * character written, whichever part it came from. */
static bool put_replaced(pending *p, const uint8_t *old, size_t n_old, const char *text)
{
    const uint8_t *t = (const uint8_t *)text;
    const size_t n = strlen(text);
    const int32_t n_kept = count_chars(old, n_old), more = count_chars(t, n) - n_kept;
    size_t size;
    int32_t k = 0;
    for (size_t i = 0; i < n; i += size, k++)
        if (!put_pending(p, cdz_uc_code(t + i, &size), k >= n_kept)) return false;
    if (more < 0 && p->any) p->change += more;
    return true;
}

static bool put_grapheme(const cdz_norm_step *step, pending *p, const uint8_t *at, size_t n)
{
    const char *whole = n < 6 ? cdz_charsmap_find(&step->map, at, n) : NULL;
    size_t size;
    if (whole) return put_replaced(p, at, n, whole);
    for (size_t i = 0; i < n; i += size) {
        const uint32_t code = cdz_uc_code(at + i, &size);
        const char *text = cdz_charsmap_find(&step->map, at + i, size);
        if (text ? !put_replaced(p, at + i, size, text) : !put_pending(p, code, 0)) return false;
    }
    return true;
}

/* An entry that ends inside a character is none. */
static const char *longest_at(const cdz_norm_step *step, const cdz_atext *from, size_t i,
                              size_t *size)
{
    size_t len = 0;
    const char *text = cdz_charsmap_find_longest(&step->map, from->bytes + i, from->len - i, &len);
    const size_t end = i + len;
    if (!text || (end < from->len && (from->bytes[end] & 0xC0) == 0x80)) return NULL;
    *size = len;
    return text;
}

/* The longest entry at each place, whatever belongs together as a character. */
static bool run_longest(const cdz_norm_step *step, pending *p, const cdz_atext *from)
{
    for (size_t i = 0, size; i < from->len; i += size) {
        const uint32_t code = cdz_uc_code(from->bytes + i, &size);
        const char *text = longest_at(step, from, i, &size);
        if (text ? !put_replaced(p, from->bytes + i, size, text) : !put_pending(p, code, 0))
            return false;
    }
    return flush_pending(p);
}

static bool run_charsmap(const cdz_norm_step *step, cdz_rewrite *r)
{
    const cdz_atext *from = r->from;
    pending p = {.r = r};
    if (step->longest) return run_longest(step, &p, from);
    utf8proc_int32_t state = 0, last = 0;
    size_t begin = 0, size;
    for (size_t i = 0; i < from->len; i += size) {
        const utf8proc_int32_t code = (utf8proc_int32_t)cdz_uc_code(from->bytes + i, &size);
        if (i > 0 && utf8proc_grapheme_break_stateful(last, code, &state)) {
            if (!put_grapheme(step, &p, from->bytes + begin, i - begin)) return false;
            begin = i;
        }
        last = code;
    }
    if (from->len > 0 && !put_grapheme(step, &p, from->bytes + begin, from->len - begin))
        return false;
    return flush_pending(&p);
}

/* --- the chain -------------------------------------------------------------------------------- */

static bool run_step(const cdz_norm_step *step, cdz_norm_work *work, cdz_rewrite *r)
{
    switch (step->kind) {
    case CDZ_NORM_FORM: return run_form(step, work, r);
    case CDZ_NORM_STRIP: return run_strip(step, r);
    case CDZ_NORM_REPLACE: return run_replace(step, r, work->meter);
    case CDZ_NORM_PREPEND: return run_prepend(step, r);
    case CDZ_NORM_CHARSMAP: return run_charsmap(step, r);
    case CDZ_NORM_LOWER:
    case CDZ_NORM_DROP:
    case CDZ_NORM_BLANK:
    case CDZ_NORM_CHINESE:
    case CDZ_NORM_BYTES: break;
    }
    return run_chars(step, r);
}

static cdz_status explain(const cdz_atext *to, const cdz_meter *meter, size_t n, cdz_error *err)
{
    if (meter->spent)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the normalizer's pattern takes too long on %zu bytes of text", n);
    if (to->over_limit)
        return cdz_err(err, CDZ_E_LIMIT,
                       "the normalizer makes more than %zu bytes of %zu bytes of text", to->limit,
                       n);
    return cdz_err(err, CDZ_E_NOMEM, "out of memory to normalize %zu bytes", n);
}

cdz_status cdz_normalizer_run(const cdz_normalizer *norm, cdz_norm_work *work, const uint8_t *text,
                              size_t n, size_t base, cdz_error *err)
{
    cdz_atext_begin(&work->text, n, work->meter);
    if (!cdz_atext_take(&work->text, text, n, base))
        return explain(&work->text, work->meter, n, err);
    for (uint32_t i = 0; i < norm->n; i++) {
        cdz_rewrite r = {.from = &work->text, .to = &work->spare, .base = (uint32_t)base};
        cdz_atext_begin(&work->spare, n, work->meter);
        if (!run_step(&norm->steps[i], work, &r)) return explain(&work->spare, work->meter, n, err);
        const cdz_atext done = work->spare;
        work->spare = work->text;
        work->text = done;
        cdz_atext_end(&work->text, n, work->meter);
    }
    return CDZ_OK;
}
