/* nfc.c - normalisation: decompose, order the marks, compose (Unicode Standard Annex 15).
 *
 * The data of single characters is utf8proc's, limited to what Unicode 12.0 knows, the version
 * of the reference's tables: a newer character is left as it is. Alignment follows the
 * reference: a composed character stands for the bytes of its base alone. */
#include "token/nfc.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "token/unicode.h"

void cdz_nfc_free(cdz_nfc *nfc)
{
    free(nfc->text);
    free(nfc->align);
    free(nfc->chars);
    free(nfc->held);
    *nfc = (cdz_nfc){0};
}

static uint8_t combining_class(uint32_t code)
{
    if (!(cdz_uc_flags(code) & CDZ_UC_COMBINING)) return 0;
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

/* --- where the text is not in form C ---------------------------------------------------------- */

/* The first character at or after i that may not be in form C, or n. *boundary becomes the last
 * place before it that nothing composes or moves across: i at least. */
static size_t find_trouble(const uint8_t *t, size_t n, size_t i, size_t *boundary)
{
    uint8_t last_class = 0;
    *boundary = i;
    while (i < n) {
        size_t size = 1;
        if (t[i] < 0x80) {
            last_class = 0;
            *boundary = i++;
            continue;
        }
        const uint32_t code = cdz_uc_code(t + i, &size);
        const unsigned flags = cdz_uc_flags(code);
        if (flags & CDZ_UC_NFC_CHECK) return i;
        const uint8_t ccc = flags & CDZ_UC_COMBINING ? combining_class(code) : 0;
        if (ccc && ccc < last_class) return i;
        if (!ccc) *boundary = i;
        last_class = ccc;
        i += size;
    }
    return n;
}

/* The first boundary after i, or n. */
static size_t next_boundary(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    cdz_uc_code(t + i, &size);
    for (i += size; i < n; i += size)
        if (!(cdz_uc_at(t + i, &size) & (CDZ_UC_NFC_CHECK | CDZ_UC_COMBINING))) break;
    return i;
}

bool cdz_nfc_is_normal(const uint8_t *text, size_t n)
{
    size_t boundary;
    return find_trouble(text, n, 0, &boundary) == n;
}

/* --- one stretch between boundaries ----------------------------------------------------------- */

/* Room for n characters in one of the two arrays, which grow by what is there, not by what there might be: a stretch may
 * be a whole text of marks. */
static bool reserve_chars(cdz_nfc_char **array, size_t *cap, size_t n)
{
    if (n <= *cap) return true;
    const size_t want = n + n / 2 + 64;
    cdz_nfc_char *chars =
        want > SIZE_MAX / sizeof *chars ? NULL : realloc(*array, want * sizeof *chars);
    if (!chars) return false;
    *array = chars;
    *cap = want;
    return true;
}

#define MAX_PARTS 18 /* of one character, U+FDFA */

/* The characters that one is made of; as it is when it is newer than the tables. */
static size_t parts_of(uint32_t code, bool compat, utf8proc_int32_t parts[MAX_PARTS])
{
    const utf8proc_option_t options =
        compat ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
    int last_class = 0;
    utf8proc_ssize_t n = 0;
    if (cdz_uc_flags(code) & CDZ_UC_ASSIGNED_12)
        n = utf8proc_decompose_char((utf8proc_int32_t)code, parts, MAX_PARTS, options, &last_class);
    if (n >= 1 && n <= MAX_PARTS) return (size_t)n;
    parts[0] = (utf8proc_int32_t)code;
    return 1;
}

/* Writes the decomposition of the n bytes to nfc->chars, with room in nfc->held for as many; returns how many, or SIZE_MAX
 * when memory is out. */
static size_t decompose(cdz_nfc *nfc, const uint8_t *t, size_t n, bool compat)
{
    size_t n_chars = 0, size;
    for (size_t i = 0; i < n; i += size) {
        utf8proc_int32_t parts[MAX_PARTS];
        const size_t n_parts = parts_of(cdz_uc_code(t + i, &size), compat, parts);
        if (!reserve_chars(&nfc->chars, &nfc->chars_cap, n_chars + n_parts)) return SIZE_MAX;
        for (size_t k = 0; k < n_parts; k++) {
            const uint32_t part = (uint32_t)parts[k];
            nfc->chars[n_chars++] = (cdz_nfc_char){part, k > 0, combining_class(part)};
        }
    }
    return reserve_chars(&nfc->held, &nfc->held_cap, n_chars) ? n_chars : SIZE_MAX;
}

/* Stable sort by combining class: counting, so that a megabyte of marks takes no longer than it
 * must. */
static void sort_marks(cdz_nfc_char *marks, cdz_nfc_char *spare, size_t n)
{
    size_t place[257] = {0};
    for (size_t i = 0; i < n; i++) place[marks[i].ccc + 1]++;
    for (size_t k = 1; k < 257; k++) place[k] += place[k - 1];
    for (size_t i = 0; i < n; i++) spare[place[marks[i].ccc]++] = marks[i];
    memcpy(marks, spare, n * sizeof *marks);
}

static void order_marks(cdz_nfc *nfc, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t first = i;
        bool ordered = true;
        for (; i < n && nfc->chars[i].ccc; i++)
            if (i > first && nfc->chars[i].ccc < nfc->chars[i - 1].ccc) ordered = false;
        if (!ordered) sort_marks(nfc->chars + first, nfc->held, i - first);
    }
}

/* The character that two make, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1) return 0;
    const uint32_t made = (uint32_t)pair[0];
    return cdz_uc_flags(made) & CDZ_UC_ASSIGNED_12 ? made : 0;
}

/* Composes nfc->chars in place; returns how many are left. `held` are the marks after the
 * current base that did not compose with it; a mark composes unless one of them has its class or
 * a higher one. */
static size_t recompose(cdz_nfc *nfc, size_t n)
{
    cdz_nfc_char *out = nfc->chars, base = {0};
    size_t n_out = 0, n_held = 0;
    bool have_base = false;
    for (size_t i = 0; i < n; i++) {
        const cdz_nfc_char c = nfc->chars[i];
        if (!have_base) {
            if (c.ccc) {
                out[n_out++] = c;
            } else {
                base = c;
                have_base = true;
            }
            continue;
        }
        const bool blocked = n_held > 0 && nfc->held[n_held - 1].ccc >= c.ccc;
        const uint32_t made = blocked ? 0 : compose(base.code, c.code);
        if (made) {
            base.code = made;
            base.change += c.change - 1;
        } else if (c.ccc) {
            nfc->held[n_held++] = c;
        } else {
            out[n_out++] = base;
            memcpy(out + n_out, nfc->held, n_held * sizeof *out);
            n_out += n_held;
            n_held = 0;
            base = c;
        }
    }
    if (have_base) out[n_out++] = base;
    memcpy(out + n_out, nfc->held, n_held * sizeof *out);
    return n_out + n_held;
}

/* --- output ----------------------------------------------------------------------------------- */

static bool reserve_text(cdz_nfc *nfc, size_t more, bool want_align)
{
    const size_t need = nfc->len + more;
    if (need > nfc->cap) {
        const size_t cap = need + need / 2 + 64;
        uint8_t *text = realloc(nfc->text, cap);
        if (!text) return false;
        nfc->text = text;
        nfc->cap = cap;
    }
    if (want_align && nfc->cap > nfc->align_cap) {
        cdz_align *align = realloc(nfc->align, nfc->cap * sizeof *align);
        if (!align) return false;
        nfc->align = align;
        nfc->align_cap = nfc->cap;
    }
    return true;
}

/* Text that stays as it is: every byte stands for its character. */
static bool copy(cdz_nfc *nfc, const uint8_t *t, size_t begin, size_t end, bool want_align)
{
    if (!reserve_text(nfc, end - begin, want_align)) return false;
    if (end > begin) memcpy(nfc->text + nfc->len, t + begin, end - begin);
    if (want_align) {
        size_t size;
        for (size_t i = begin; i < end; i += size) {
            cdz_uc_code(t + i, &size);
            for (size_t k = 0; k < size; k++)
                nfc->align[nfc->len + i - begin + k] =
                    (cdz_align){(uint32_t)i, (uint32_t)(i + size)};
        }
    }
    nfc->len += end - begin;
    return true;
}

/* The source bytes an output character stands for; *at moves over the ones it uses up. */
static cdz_align align_char(const uint8_t *t, size_t end, size_t *at, int32_t change)
{
    size_t size;
    if (change > 0) {
        if (*at == 0) return (cdz_align){0, 0};
        return (cdz_align){(uint32_t)(cdz_uc_before(t + *at) - t), (uint32_t)*at};
    }
    const size_t begin = *at;
    size_t own = 0;
    for (int32_t k = change; k <= 0 && *at < end; k++, *at += size) {
        cdz_uc_code(t + *at, &size);
        if (k == change) own = size;
    }
    return (cdz_align){(uint32_t)begin, (uint32_t)(begin + own)};
}

static bool normalise(cdz_nfc *nfc, const uint8_t *t, size_t begin, size_t end, bool want_align)
{
    size_t n = decompose(nfc, t + begin, end - begin, false);
    if (n == SIZE_MAX) return false;
    order_marks(nfc, n);
    n = recompose(nfc, n);
    if (!reserve_text(nfc, 4 * n, want_align)) return false;
    size_t at = begin;
    for (size_t i = 0; i < n; i++) {
        const cdz_nfc_char c = nfc->chars[i];
        const size_t size = cdz_utf8_encode(c.code, (char *)nfc->text + nfc->len);
        if (want_align) {
            const cdz_align align = align_char(t, end, &at, c.change);
            for (size_t k = 0; k < size; k++) nfc->align[nfc->len + k] = align;
        }
        nfc->len += size;
    }
    return true;
}

bool cdz_nfc_run(cdz_nfc *nfc, const uint8_t *text, size_t n, bool want_align)
{
    nfc->len = 0;
    size_t done = 0, boundary;
    while (done < n) {
        const size_t trouble = find_trouble(text, n, done, &boundary);
        if (trouble == n) return copy(nfc, text, done, n, want_align);
        const size_t end = next_boundary(text, n, trouble);
        if (!copy(nfc, text, done, boundary, want_align)) return false;
        if (!normalise(nfc, text, boundary, end, want_align)) return false;
        done = end;
    }
    return true;
}

/* --- any form --------------------------------------------------------------------------------- */

#define STRETCH_BYTES 4096 /* a stretch ends at the first boundary after these */

/* Whether nothing before a character composes with it or moves past it. */
static bool is_boundary(uint32_t code, bool compat)
{
    utf8proc_int32_t parts[MAX_PARTS];
    if (cdz_uc_flags(code) & (CDZ_UC_NFC_CHECK | CDZ_UC_COMBINING)) return false;
    if (!compat || code < 0x80) return true;
    parts_of(code, true, parts);
    return !(cdz_uc_flags((uint32_t)parts[0]) & (CDZ_UC_NFC_CHECK | CDZ_UC_COMBINING));
}

static size_t stretch_end(const uint8_t *t, size_t n, size_t begin, bool compat)
{
    size_t size, i = begin;
    for (; i < n; i += size) {
        const uint32_t code = cdz_uc_code(t + i, &size);
        if (i - begin > STRETCH_BYTES && is_boundary(code, compat)) break;
    }
    return i;
}

size_t cdz_nfc_stretch(cdz_nfc *nfc, cdz_tok_form form, const uint8_t *text, size_t n, size_t begin,
                       size_t *n_chars)
{
    const bool compat = form == CDZ_NFKC || form == CDZ_NFKD;
    const size_t end = stretch_end(text, n, begin, compat);
    *n_chars = decompose(nfc, text + begin, end - begin, compat);
    if (*n_chars == SIZE_MAX) return SIZE_MAX;
    order_marks(nfc, *n_chars);
    if (form == CDZ_NFC || form == CDZ_NFKC) *n_chars = recompose(nfc, *n_chars);
    return end;
}
