/* scanner.c - matchers for the split patterns that occur: one look at the first character's class,
 * then runs.
 *
 * Names used in the comments: L, N, M, P, S for \p{L} ... \p{S}; W for the common tail
 * `\s*[\r\n]+|\s+(?!\S)|\s+`; C for `(?i:'s|'t|'re|'ve|'m|'ll|'d)`. */
#include "token/scanner.h"

#include <stdbool.h>
#include <string.h>

#include "base/ascii.h"

enum {
    L = CDZ_UC_LETTER,
    N = CDZ_UC_NUMBER,
    S = CDZ_UC_SPACE,
    M = CDZ_UC_MARK,
    UP = CDZ_UC_UPPER,
    LO = CDZ_UC_LOWER,
    P = CDZ_UC_PUNCT,
    SY = CDZ_UC_SYMBOL,
};

/* The end of the longest run from i of characters that have a flag of `any` and none of `none`. */
static inline size_t run(const uint8_t *t, size_t n, size_t i, unsigned any)
{
    size_t size;
    while (i < n && (cdz_uc_at(t + i, &size) & any)) i += size;
    return i;
}

static inline size_t run_without(const uint8_t *t, size_t n, size_t i, unsigned none)
{
    size_t size;
    while (i < n && !(cdz_uc_at(t + i, &size) & none)) i += size;
    return i;
}

static inline bool is_newline(uint8_t c)
{
    return c == '\r' || c == '\n';
}

static inline size_t run_newlines(const uint8_t *t, size_t n, size_t i, bool and_slash)
{
    while (i < n && (is_newline(t[i]) || (and_slash && t[i] == '/'))) i++;
    return i;
}

/* `\p{N}{1,max}` */
static inline size_t run_numbers(const uint8_t *t, size_t n, size_t i, int max)
{
    size_t size;
    for (int k = 0; k < max && i < n && (cdz_uc_at(t + i, &size) & N); k++) i += size;
    return i;
}

/* W. The run goes to its last newline if it has one; else it leaves its last character to the
 * word after it. */
static size_t match_spaces(const uint8_t *t, size_t n, size_t i)
{
    size_t size, after_newline = i, last = i, j = i;
    for (; j < n && (cdz_uc_at(t + j, &size) & S); j += size) {
        last = j;
        if (is_newline(t[j])) after_newline = j + 1;
    }
    if (after_newline > i) return after_newline;
    return j == n || last == i ? j : last;
}

/* `\s+(?!\S)|\s+`, the tail without the newline rule. */
static size_t match_spaces_gpt2(const uint8_t *t, size_t n, size_t i)
{
    size_t size, last = i, j = i;
    for (; j < n && (cdz_uc_at(t + j, &size) & S); j += size) last = j;
    return j == n || last == i ? j : last;
}

/* C or its case-sensitive form. U+017F, the long s, folds to s. */
static size_t match_contraction(const uint8_t *t, size_t n, size_t i, bool any_case)
{
    if (t[i] != '\'' || i + 1 >= n) return i;
    const uint8_t fold = any_case ? 0x20 : 0;
    if (t[i + 1] >= 0x80)
        return any_case && n - i >= 3 && t[i + 1] == 0xC5 && t[i + 2] == 0xBF ? i + 3 : i;
    const uint8_t a = t[i + 1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if (n - i < 3 || t[i + 2] >= 0x80) return i;
    const uint8_t b = t[i + 2] | fold;
    const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? i + 3 : i;
}

/* `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` */
size_t cdz_scan_gpt2(const uint8_t *t, size_t n, size_t i)
{
    size_t size, j = i;
    const size_t end = match_contraction(t, n, i, false);
    if (end > i) return end;
    unsigned c = cdz_uc_at(t + i, &size);
    if (t[i] == ' ' && i + 1 < n) {
        const unsigned next = cdz_uc_at(t + i + 1, &size);
        if (!(next & S)) {
            c = next;
            j++;
        }
    }
    if (c & L) return run(t, n, j, L);
    if (c & N) return run(t, n, j, N);
    if (c & S) return match_spaces_gpt2(t, n, i);
    return run_without(t, n, j, S | L | N);
}

/* `C|[^\r\n\p{L}\p{N}]?X+|\p{N}{1,digits}| ?[^\sX\p{N}]+[\r\n]*|W` with X = `\p{L}`, or
 * `[\p{L}\p{M}]`. A mark may be the optional first character of the word: the run from it is the
 * same. */
static inline size_t scan_cl100k(const uint8_t *t, size_t n, size_t i, unsigned x, int digits)
{
    size_t size, next_size;
    const size_t end = match_contraction(t, n, i, true);
    if (end > i) return end;
    unsigned c = cdz_uc_at(t + i, &size);
    if (c & x) return run(t, n, i + size, x);
    if (c & N) return run_numbers(t, n, i, digits);
    if (!is_newline(t[i]) && i + size < n) {
        const unsigned next = cdz_uc_at(t + i + size, &next_size);
        if (next & x) return run(t, n, i + size + next_size, x);
        if (t[i] == ' ' && !(next & (S | N))) c = 0;
    }
    if (c & S) return match_spaces(t, n, i);
    return run_newlines(t, n, run_without(t, n, i + size, S | x | N), false);
}

static size_t scan_llama3(const uint8_t *t, size_t n, size_t i)
{
    return scan_cl100k(t, n, i, L, 3);
}

static size_t scan_qwen2(const uint8_t *t, size_t n, size_t i)
{
    return scan_cl100k(t, n, i, L, 1);
}

static size_t scan_qwen35(const uint8_t *t, size_t n, size_t i)
{
    return scan_cl100k(t, n, i, L | M, 1);
}

/* `UP*LO+` from i, or i. UP and LO share Lm, Lo and M: the longest UP* after which LO+ still
 * finds a character. */
static size_t match_lower_word(const uint8_t *t, size_t n, size_t i)
{
    size_t size, j = i, after_both = i;
    for (; j < n; j += size) {
        const unsigned c = cdz_uc_at(t + j, &size);
        if (!(c & UP)) return c & LO ? run(t, n, j, LO) : after_both;
        if (c & LO) after_both = j + size;
    }
    return after_both;
}

/* `UP+LO*` from i, or i. */
static size_t match_upper_word(const uint8_t *t, size_t n, size_t i)
{
    const size_t j = run(t, n, i, UP);
    return j == i ? i : run(t, n, j, LO);
}

/* `F?UP*LO+` else `F?UP+LO*` with F = `[^\r\n\p{L}\p{N}]`; each with F first, then without. */
static size_t match_o200k_word(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    const bool first = !(cdz_uc_at(t + i, &size) & (L | N)) && !is_newline(t[i]);
    const size_t j = i + size;
    size_t end;
    if (first && (end = match_lower_word(t, n, j)) > j) return end;
    if ((end = match_lower_word(t, n, i)) > i) return end;
    if (first && (end = match_upper_word(t, n, j)) > j) return end;
    return match_upper_word(t, n, i);
}

/* `F?UP*LO+C?|F?UP+LO*C?|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|W`; Tekken has no C. */
static inline size_t scan_o200k_family(const uint8_t *t, size_t n, size_t i, int digits,
                                       bool contractions)
{
    size_t size, next_size;
    const size_t end = match_o200k_word(t, n, i);
    if (end > i) return contractions && end < n ? match_contraction(t, n, end, true) : end;
    unsigned c = cdz_uc_at(t + i, &size);
    if (c & N) return run_numbers(t, n, i, digits);
    if (t[i] == ' ' && i + 1 < n && !(cdz_uc_at(t + i + 1, &next_size) & (S | L | N))) c = 0;
    if (c & S) return match_spaces(t, n, i);
    return run_newlines(t, n, run_without(t, n, i + size, S | L | N), true);
}

static size_t scan_o200k(const uint8_t *t, size_t n, size_t i)
{
    return scan_o200k_family(t, n, i, 3, true);
}

static size_t scan_tekken(const uint8_t *t, size_t n, size_t i)
{
    return scan_o200k_family(t, n, i, 1, false);
}

/* --- patterns that leave text between matches ------------------------------------------------- */

static size_t scan_number(const uint8_t *t, size_t n, size_t i)
{
    return run_numbers(t, n, i, 1);
}

static size_t scan_numbers3(const uint8_t *t, size_t n, size_t i)
{
    return run_numbers(t, n, i, 3);
}

size_t cdz_scan_digit(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    (void)n;
    return cdz_uc_at(t + i, &size) & CDZ_UC_DIGIT ? i + size : i;
}

typedef struct code_range {
    uint32_t first, last;
} code_range;

static size_t run_ranges(const uint8_t *t, size_t n, size_t i, const code_range *ranges,
                         size_t n_ranges)
{
    while (i < n) {
        size_t size, k = 0;
        const uint32_t code = cdz_uc_code(t + i, &size);
        while (k < n_ranges && (code < ranges[k].first || code > ranges[k].last)) k++;
        if (k == n_ranges) break;
        i += size;
    }
    return i;
}

/* `[一-龥぀-ゟ゠-ヿ]+` */
static size_t scan_deepseek_cjk(const uint8_t *t, size_t n, size_t i)
{
    static const code_range ranges[] = {{0x4E00, 0x9FA5}, {0x3040, 0x309F}, {0x30A0, 0x30FF}};
    return run_ranges(t, n, i, ranges, 3);
}

/* `[一-龥ࠀ-一가-퟿]+` */
static size_t scan_coder_cjk(const uint8_t *t, size_t n, size_t i)
{
    static const code_range ranges[] = {{0x4E00, 0x9FA5}, {0x0800, 0x4E00}, {0xAC00, 0xD7FF}};
    return run_ranges(t, n, i, ranges, 3);
}

static inline bool ascii_letter(uint8_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static inline bool ascii_punct(uint8_t c)
{
    return c > ' ' && c < 0x7F && !ascii_letter(c) && !(c >= '0' && c <= '9');
}

/* `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|W` */
static size_t scan_deepseek3(const uint8_t *t, size_t n, size_t i)
{
    size_t size, next_size;
    const unsigned c = cdz_uc_at(t + i, &size);
    size_t j = i + size;
    if (ascii_punct(t[i]) && j < n && ascii_letter(t[j])) {
        while (j < n && ascii_letter(t[j])) j++;
        return j;
    }
    if (c & (L | M)) return run(t, n, j, L | M);
    const unsigned next = j < n ? cdz_uc_at(t + j, &next_size) : 0;
    if (!(c & (P | SY)) && !is_newline(t[i]) && (next & (L | M))) return run(t, n, j, L | M);
    if (c & (P | SY) || (t[i] == ' ' && (next & (P | SY))))
        return run_newlines(t, n, run(t, n, j, P | SY), false);
    return c & S ? match_spaces(t, n, i) : i;
}

/* `\s?X+` */
static inline size_t scan_spaced(const uint8_t *t, size_t n, size_t i, unsigned x)
{
    size_t size;
    const unsigned c = cdz_uc_at(t + i, &size);
    if (c & x) return run(t, n, i, x);
    if (!(c & S)) return i;
    const size_t end = run(t, n, i + size, x);
    return end > i + size ? end : i;
}

static size_t scan_coder_letters(const uint8_t *t, size_t n, size_t i)
{
    return scan_spaced(t, n, i, L);
}

static size_t scan_coder_punct(const uint8_t *t, size_t n, size_t i)
{
    return scan_spaced(t, n, i, P);
}

static size_t scan_newline(const uint8_t *t, size_t n, size_t i)
{
    (void)n;
    return is_newline(t[i]) ? i + 1 : i;
}

/* --- the patterns by their text --------------------------------------------------------------- */

#define C_TEXT     "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define W_TEXT     "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define FIRST_TEXT "[^\\r\\n\\p{L}\\p{N}]?"
#define OTHER_TEXT "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UP_TEXT    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LO_TEXT    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_TEXT(contraction, digits)                                                            \
    FIRST_TEXT UP_TEXT "*" LO_TEXT "+" contraction "|" FIRST_TEXT UP_TEXT "+" LO_TEXT              \
                       "*" contraction "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" W_TEXT

static const struct {
    const char *pattern;
    cdz_match_fn match;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     cdz_scan_gpt2},
    {C_TEXT "|" FIRST_TEXT "\\p{L}+|\\p{N}{1,3}" OTHER_TEXT W_TEXT, scan_llama3},
    {C_TEXT "|" FIRST_TEXT "\\p{L}+|\\p{N}" OTHER_TEXT W_TEXT, scan_qwen2},
    /* Possessive quantifiers, and a newline rule without `+` whose `\s*` takes the others: the
     * same matches. */
    {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
     "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     scan_llama3},
    {C_TEXT "|" FIRST_TEXT "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" W_TEXT,
     scan_qwen35},
    {O200K_TEXT(C_TEXT "?", "\\p{N}{1,3}"), scan_o200k},
    {O200K_TEXT("", "\\p{N}"), scan_tekken},
    {"\\p{N}{1,3}", scan_numbers3},
    {"\\p{N}", scan_number},
    {"[一-龥぀-ゟ゠-ヿ]+", scan_deepseek_cjk},
    {"[!\"#$%&'()*+,\\-./"
     ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
     "| ?[\\p{P}\\p{S}]+[\\r\\n]*" W_TEXT,
     scan_deepseek3},
    {"[\\r\\n]", scan_newline},
    {"\\s?\\p{L}+", scan_coder_letters},
    {"\\s?\\p{P}+", scan_coder_punct},
    {"[一-龥ࠀ-一가-퟿]+", scan_coder_cjk},
};

cdz_match_fn cdz_scanner_find(const char *pattern, size_t len)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (cdz_is_word(pattern, len, known[i].pattern)) return known[i].match;
    return NULL;
}
