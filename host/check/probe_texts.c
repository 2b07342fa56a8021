/* probe_texts.c - the tables behind the kit's tokenizer, and its text. All is constant: any thread may ask. */
#include "check/probe_texts.h"

#include <string.h>

/* --- tokens ---------------------------------------------------------------------------------------------------- */

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

#define BYTES_4(b)  (char)(b), (char)((b) + 1), (char)((b) + 2), (char)((b) + 3)
#define BYTES_16(b) BYTES_4(b), BYTES_4((b) + 4), BYTES_4((b) + 8), BYTES_4((b) + 12)
#define BYTES_64(b) BYTES_16(b), BYTES_16((b) + 16), BYTES_16((b) + 32), BYTES_16((b) + 48)
static const char bytes_of[256] = {BYTES_64(0), BYTES_64(64), BYTES_64(128), BYTES_64(192)};

/* Pieces as real vocabularies have them: leading blanks, brackets in runs, digits, parts of characters. */
/* clang-format off */
#define WORD(text) {text, sizeof text - 1}
/* clang-format on */
static const cdz_string words[] = {
    WORD(" the"),
    WORD(" of"),
    WORD(" and"),
    WORD(" a"),
    WORD(" to"),
    WORD(" in"),
    WORD(" is"),
    WORD(" that"),
    WORD(" river"),
    WORD("ing"),
    WORD("tion"),
    WORD("er"),
    WORD("ed"),
    WORD("\n\n"),
    WORD("\r\n"),
    WORD("    "),
    WORD("\t\t"),
    WORD("({"),
    WORD("})"),
    WORD("[["),
    WORD("]]"),
    WORD("))"),
    WORD("(("),
    WORD("();\n"),
    WORD("\":"),
    WORD("\", \""),
    WORD("{\""),
    WORD("\"}"),
    WORD("```"),
    WORD("</"),
    WORD("://"),
    WORD("..."),
    WORD("--"),
    WORD("2026"),
    WORD("00"),
    WORD("3.14"),
    WORD("\xC3\xA9"),         /* e with acute */
    WORD("\xC3\xBC"),         /* u with diaeresis */
    WORD("\xE2\x80\x9C"),     /* a quotation mark */
    WORD("\xE2\x82"),         /* two of three bytes */
    WORD("\xE6\xB2\xB3"),     /* river, Chinese */
    WORD("\xF0\x9F"),         /* half an emoji */
    WORD("\xF0\x9F\x98\x80"), /* a whole one */
    WORD("\xEF\xBB\xBF"),     /* a byte order mark */
    WORD("\xED\xA0\x80"),     /* a surrogate: no UTF-8 */
    WORD("\xFF\xFE"),         /* bytes of no character */
    WORD("================================================================================"), /* a long one */
};

enum { N_WORDS = sizeof words / sizeof words[0], NUMBERS = 1000 };

/* " 0" to " 999": digits from one string in which each number of three has its place. */
static cdz_string number_of(uint32_t i)
{
#define N10(h, t)                                                                                  \
    " " #h #t "0 " #h #t "1 " #h #t "2 " #h #t "3 " #h #t "4 " #h #t "5 " #h #t "6 " #h #t         \
    "7 " #h #t "8 " #h #t "9"
#define N100(h)                                                                                    \
    N10(h, 0)                                                                                      \
    N10(h, 1) N10(h, 2) N10(h, 3) N10(h, 4) N10(h, 5) N10(h, 6) N10(h, 7) N10(h, 8) N10(h, 9)
    static const char numbers[] =
        N100(0) N100(1) N100(2) N100(3) N100(4) N100(5) N100(6) N100(7) N100(8) N100(9);
    return (cdz_string){numbers + 4 * (size_t)(i % NUMBERS), 4};
}

bool cdz_probe_text_is_special(uint32_t n_vocab, int32_t id)
{
    return n_vocab >= CDZ_TEXT_LEAST && id >= 0 && (uint32_t)id + CDZ_TEXT_SPECIALS >= n_vocab &&
           (uint32_t)id < n_vocab;
}

cdz_string cdz_probe_text_of_token(uint32_t n_vocab, int32_t id)
{
    static const cdz_string specials[CDZ_TEXT_SPECIALS] = {
        WORD("<|start|>"), WORD("<|end|>"), {NULL, 0}};
    const uint32_t i = (uint32_t)id;
    if (id < 0 || i >= n_vocab) return (cdz_string){NULL, 0};
    if (cdz_probe_text_is_special(n_vocab, id)) return specials[i + CDZ_TEXT_SPECIALS - n_vocab];
    if (i < CDZ_TEXT_BYTES) return (cdz_string){letters + i, 1};
    if (i < CDZ_TEXT_WORDS) return (cdz_string){bytes_of + (i - CDZ_TEXT_BYTES), 1};
    if (i < CDZ_TEXT_WORDS + N_WORDS) return words[i - CDZ_TEXT_WORDS];
    return number_of(i - CDZ_TEXT_WORDS - N_WORDS);
}

/* The longest word that text begins with; N_WORDS: none. */
static uint32_t word_at(const char *text, size_t len)
{
    uint32_t best = N_WORDS;
    for (uint32_t w = 0; w < N_WORDS; w++)
        if (words[w].len <= len && memcmp(words[w].at, text, words[w].len) == 0 &&
            (best == N_WORDS || words[w].len > words[best].len))
            best = w;
    return best;
}

int32_t cdz_probe_text_first_token(uint32_t n_vocab, const char *text, size_t len, size_t *bytes)
{
    const unsigned char c = (unsigned char)text[0];
    const uint32_t word = word_at(text, len);
    uint32_t id = c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') : CDZ_TEXT_BYTES + (uint32_t)c;
    *bytes = 1;
    if (word < N_WORDS) id = CDZ_TEXT_WORDS + word, *bytes = words[word].len;
    if (id < n_vocab && !cdz_probe_text_is_special(n_vocab, (int32_t)id)) return (int32_t)id;
    *bytes = 1; /* a vocabulary too small for it */
    return c >= 'a' && (uint32_t)(c - 'a') < n_vocab && c <= 'z' ? c - 'a' : 0;
}

/* --- the text ---------------------------------------------------------------------------------------------------- */

static const char corpus[] =
    "The river is a slow reader. It turns the same page of the valley for ten thousand years, and in "
    "the end it has learned the stones by heart; \"that is all\", it says, \"and that is enough.\" "
    "(Nobody [not even {the bridge}] asked.)\n\n"
    "{\"name\": \"r\xC3\xA9sum\xC3\xA9\", \"items\": [1, 2.50, -3e10, null, true, {\"deep\": [[[]]]}],\n"
    " \"when\": \"2026-07-31T23:59:60Z\", \"path\": \"C:\\\\temp\\\\\", \"quote\": \"\\\"\"}\r\n"
    "static int f(const char *s)\n{\n\tfor (int i = 0; s[i]; i++) {\n\t\tif (s[i] == '}') return "
    "(i + 1) * 2; /* { */\n\t}\n\treturn -1;\n}\n"
    "# Heading\n\n1. one\n2. two\n   - nested **bold** `code`\n\n```lua\nlocal t = {[1] = \"x\"} -- ]]\n"
    "```\n<p class=\"a\">5 &lt; 7 &amp; 7 &gt; 5</p>\n"
    "date,price\n2026-02-29,\"1,234.00\"\n31/12/1999,.5\n0000-00-00,00012\n99999999999999999999,-0\n"
    "https://example.org/a?b=c&d=%20#e  <mail@example.org>  +1 (555) 010-9999\n"
    "Gr\xC3\xBC\xC3\x9F"
    "e aus M\xC3\xBCnchen; l'\xC3\xA9t\xC3\xA9 \xC3\xA0 No\xC3\xABl; "
    "\xCE\xB1\xCE\xB2\xCE\xB3 \xD1\x80\xD0\xB5\xD0\xBA\xD0\xB0 \xE6\xB2\xB3\xE6\xB5\x81\xE3\x80\x82 "
    "\xE3\x81\x8B\xE3\x82\x8F \xED\x95\x9C\xEA\xB5\xAD \xD7\xA0\xD7\x94\xD7\xA8 \xD9\x86\xD9\x87\xD8\xB1 "
    "\xE0\xA4\xA8\xE0\xA4\xA6\xE0\xA5\x80 \xE0\xB9\x81\xE0\xB8\xA1\xE0\xB9\x88\n"
    "e\xCC\x81 n\xCC\x83 \xF0\x9F\x98\x80 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB \xF0\x9F\x87\xA9\xF0\x9F\x87\xAA "
    "\xE2\x80\x9Cquoted\xE2\x80\x9D\xE2\x80\xA6 a\xC2\xA0"
    "b\xE2\x80\xA8"
    "c\xEF\xBB\xBF"
    "d\xE2\x82\xAC\n"
    "((((((((((((((((([[[[[[[[[[{{{{{{{{{{ ))))))) ]]]]]]]]]]]]]]]]]]]]]]] }\n"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
    "\t\t    \t \n\n\n\n\n========\n"
    "and then it breaks: \x80 \xBF\xBF \xC3 \xC3( \xE2\x82 \xE2( \xF0\x9F \xF0\x9F\x98 \xF0( \xC0\xAF "
    "\xE0\x80\xAF \xED\xA0\x80 \xF4\x90\x80\x80 \xF8\x88\x80\x80\x80 \xFE\xFF\xFF\xFE "
    "nul:\0:nul \x01\x02\x1B[31m\x7F end.\n"
    "After that the river goes on as if nothing had been broken, and the reader is at 3.14 of the page, "
    "ending where the next begins, to the letter and to the byte. stop\n"
    "User: is that all?\nAssistant: that is the end.\n\n";

cdz_string cdz_probe_text_corpus(void)
{
    return (cdz_string){corpus, sizeof corpus - 1};
}
