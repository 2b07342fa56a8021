/* gguf_pre.c - the table of what `tokenizer.ggml.pre` may name. Patterns are those of the Hugging
 * Face tokenizers that the names stand for, spelt as scanner.c knows them. */
#include "token/gguf.h"

#include <string.h>

#define C_TEXT "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define W_TEXT "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(digits)                                                                              \
    C_TEXT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" W_TEXT
#define UP_TEXT "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LO_TEXT "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(contraction, digits)                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UP_TEXT "*" LO_TEXT "+" contraction "|[^\\r\\n\\p{L}\\p{N}]?" UP_TEXT \
    "+" LO_TEXT "*" contraction "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" W_TEXT

#define LLAMA3 WORDS("\\p{N}{1,3}")
#define QWEN2  WORDS("\\p{N}")
#define QWEN35                                                                                     \
    C_TEXT                                                                                         \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" W_TEXT
#define O200K  CASES(C_TEXT "?", "\\p{N}{1,3}")
#define TEKKEN CASES("", "\\p{N}")
#define DEEPSEEK3                                                                                  \
    "\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",                                                     \
        "[!\"#$%&'()*+,\\-./"                                                                      \
        ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"           \
        "| ?[\\p{P}\\p{S}]+[\\r\\n]*" W_TEXT
#define COHERE_DIGITS "\\d{1,3}(?=(?:\\d{3})*\\b)"
#define LEGACY                                                                                     \
    "[\\p{P}\\$\\+<=>\\^~\\|]+",                                                                   \
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)",           \
        "\\p{N}+", "[0-9][0-9][0-9]"
#define PUNCTUATION "[\\p{P}\\$\\+<=>\\^~\\|`]+"
#define GPT2        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define BLOOM       " ?[^(\\s|.,!?…。，、।۔،)]+"
#define SEED                                                                                       \
    C_TEXT                                                                                         \
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" W_TEXT
#define NO_HAN  "&&[^\\p{Han}]"
#define KIMI_UP "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NO_HAN "]"
#define KIMI_LO "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NO_HAN "]"
#define KIMI                                                                                       \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UP "*" KIMI_LO "+" C_TEXT                            \
    "?|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UP "+" KIMI_LO "*" C_TEXT                                      \
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" W_TEXT
/* Letters with two cases, as they were when the pattern was made. */
#define LETTERS_OF_OLD                                                                                                                                     \
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ"                                                     \
    "-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐ"       \
    "ῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯ" \
    "ꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"

/* One row for names that cut alike. */
static const struct {
    cdz_gguf_pre how;
    const char *names; /* separated by spaces */
} table[] = {
    {{.patterns = {LLAMA3}, .ignore_merges = true, .bos = true},
     "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"},
    {{.patterns = {LLAMA3}}, "dbrx smaug-bpe chatglm-bpe"},
    {{.patterns = {LLAMA3}, .ignore_merges = true}, "glm4 glm5"},
    {{.patterns = {QWEN2}, .nfc = true}, "qwen2"},
    {{.patterns = {QWEN2}},
     "deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2"},
    {{.patterns = {QWEN35}, .nfc = true}, "qwen35"},
    {{.gpt2 = true},
     "gpt-2 phi-2 jina-en jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe "
     "gigachat modern-bert mellum a.x-4.0 exaone4 mpt olmo jais trillion granite-docling"},
    {{.digits = true, .gpt2 = true},
     "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2"},
    {{.patterns = {O200K}}, "gpt-4o llama4 kanana2 talkie minimax-m2"},
    {{.patterns = {TEKKEN}, .ignore_merges = true, .bos = true}, "tekken"},
    {{.patterns = {COHERE_DIGITS, O200K}}, "tiny_aya cohere2moe"},
    {{.patterns = {DEEPSEEK3}}, "deepseek-v3 hunyuan-dense joyai-llm hy_v4"},
    {{.patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+"},
      .digits = true},
     "deepseek-coder"},
    /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): LETTERS_OF_OLD is one text in four lines */
    {{.patterns = {"[\\r\\n]", LETTERS_OF_OLD, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$",
                   "[一-龥ࠀ-一가-퟿]+"},
      .digits = true},
     "deepseek-llm"},
    {{.patterns = {PUNCTUATION, GPT2, "[0-9][0-9][0-9]"}}, "falcon"},
    {{.patterns = {BLOOM}}, "bloom poro-chat gpt3-finnish"},
    {{.patterns = {BLOOM}, .digits = true}, "viking"},
    {{.patterns = {SEED}}, "seed-coder"},
    {{.patterns = {"\\p{N}{1,3}", WORDS("\\p{N}+")}, .ignore_merges = true}, "minicpm5"},
    {{.patterns =
          {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
           CASES(C_TEXT "?", "\\p{N}")},
      .ignore_merges = true},
     "youtu"},
    {{.patterns = {KIMI}}, "kimi-k2"},
    {{.patterns = {LEGACY}}, "default"},
};
enum { N_ROWS = sizeof table / sizeof *table };

/* The next name of a list; false at its end. */
static bool next_name(const char **at, const char **name, size_t *len)
{
    while (**at == ' ') (*at)++;
    *name = *at;
    *len = strcspn(*at, " ");
    *at += *len;
    return *len > 0;
}

const cdz_gguf_pre *cdz_pretok_of_gguf(const char *wanted, size_t wanted_len)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const char *at = table[i].names, *name;
        size_t len;
        while (next_name(&at, &name, &len))
            if (len == wanted_len && memcmp(name, wanted, len) == 0) return &table[i].how;
    }
    return NULL;
}

static bool same_patterns(const cdz_gguf_pre *a, const cdz_gguf_pre *b)
{
    for (size_t i = 0; i < CDZ_GGUF_PATTERNS; i++) {
        if (!a->patterns[i] != !b->patterns[i]) return false;
        if (a->patterns[i] && strcmp(a->patterns[i], b->patterns[i]) != 0) return false;
    }
    return true;
}

const char *cdz_pretok_gguf_name(const cdz_gguf_pre *how, size_t *len)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        const cdz_gguf_pre *row = &table[i].how;
        if (!same_patterns(row, how) || row->digits != how->digits || row->gpt2 != how->gpt2 ||
            row->nfc != how->nfc || row->ignore_merges != how->ignore_merges)
            continue;
        *len = strcspn(table[i].names, " ");
        return table[i].names;
    }
    return NULL;
}
