/* gguf_tokens.c - what GGUF's metadata says of generation: the ids of special tokens, as config.json has them, and the parameters of
 * sampling that a model is published with, as generation_config.json has them. It owns nothing. Any thread. */
#include "base/ascii.h"
#include "load/gguf_put.h"

enum { MOST_ENDS = 16 };

typedef struct ends {
    uint64_t ids[MOST_ENDS];
    size_t n;
} ends;

static void add_end(ends *to, uint64_t id)
{
    for (size_t i = 0; i < to->n; i++)
        if (to->ids[i] == id) return;
    if (to->n < MOST_ENDS) to->ids[to->n++] = id;
}

/* End of sequence, of turn, of message. */
static cdz_status read_ends(const cdz_gguf_writer *w, ends *to)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t id = UINT64_MAX;
        CDZ_TRY(cdz_gguf_uint(w->g, keys[i], UINT32_MAX, &id, w->err));
        if (id < INT32_MAX) add_end(to, id); /* not absent, nor -1 in an unsigned field */
    }
    return CDZ_OK;
}

/* The format has a key for one end of a turn and no list, and the converter rarely writes it: llama.cpp knows these by their texts. */
static const char *const end_texts[] = {
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
};
enum { END, RETURN, CALL, N_END_TEXTS = sizeof end_texts / sizeof *end_texts };

static size_t end_text_of(const char *text, size_t len)
{
    size_t i = 0;
    while (i < N_END_TEXTS && !cdz_is_word(text, len, end_texts[i])) i++;
    return i;
}

/* Special tokens with such a text. Where a message may return or call (gpt-oss), its end is not that of the text. */
static cdz_status find_ends(const cdz_gguf_writer *w, ends *to)
{
    enum { CONTROL = 3, USER_DEFINED = 4 };
    const cdz_gguf_value *tokens, *types;
    uint64_t found[N_END_TEXTS + 1] = {0}; /* and 1 */
    CDZ_TRY(cdz_gguf_array(w->g, "tokenizer.ggml.tokens", CDZ_GGUF_STRING, &tokens, w->err));
    CDZ_TRY(cdz_gguf_array(w->g, "tokenizer.ggml.token_type", CDZ_GGUF_I32, &types, w->err));
    const uint8_t *at = tokens->data;
    for (uint64_t i = 0; i < tokens->n && i < types->n; i++) {
        size_t len;
        const char *text = cdz_gguf_next_string(&at, &len);
        const int64_t type = cdz_gguf_int_at(types, i);
        if (type == CONTROL || type == USER_DEFINED) found[end_text_of(text, len)] = i + 1;
    }
    if (found[RETURN] && found[CALL]) found[END] = 0;
    for (size_t i = 0; i < N_END_TEXTS; i++)
        if (found[i]) add_end(to, found[i] - 1);
    return CDZ_OK;
}

static cdz_status write_ends(cdz_gguf_writer *w)
{
    ends all = {0};
    CDZ_TRY(read_ends(w, &all));
    CDZ_TRY(find_ends(w, &all));
    if (all.n == 1) cdz_gguf_put_uint(w, "eos_token_id", all.ids[0]);
    if (all.n < 2) return CDZ_OK;
    cdz_gguf_put_key(w, "eos_token_id");
    for (size_t i = 0; i < all.n; i++)
        cdz_buf_printf(w->out, "%s%llu", i ? "," : "[", (unsigned long long)all.ids[i]);
    cdz_buf_putc(w->out, ']');
    return CDZ_OK;
}

cdz_status cdz_gguf_write_tokens(cdz_gguf_writer *w)
{
    static const struct {
        const char *from, *to;
    } keys[] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
    CDZ_TRY(write_ends(w));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t id = UINT64_MAX;
        CDZ_TRY(cdz_gguf_uint(w->g, keys[i].from, UINT32_MAX, &id, w->err));
        if (id < INT32_MAX) cdz_gguf_put_uint(w, keys[i].to, id);
    }
    return CDZ_OK;
}

/* --- sampling ------------------------------------------------------------------------------------------------- */

static const char top_k_key[] = "general.sampling.top_k";

/* The others that say that tokens are drawn. */
static const struct {
    const char *from, *to;
} warpers[] = {{"general.sampling.temp", "temperature"},
               {"general.sampling.top_p", "top_p"},
               {"general.sampling.min_p", "min_p"}};
enum { N_WARPERS = sizeof warpers / sizeof *warpers };

/* All tokens are kept by 0, in llama.cpp also by numbers below. */
static cdz_status write_top_k(cdz_gguf_writer *w)
{
    const cdz_gguf_value *v = cdz_gguf_find(w->g, top_k_key);
    uint64_t top_k = 0;
    if (!v) return CDZ_OK;
    const bool below = !v->is_array && cdz_gguf_is_integer(v->type) && cdz_gguf_int_at(v, 0) < 0;
    if (!below) CDZ_TRY(cdz_gguf_uint(w->g, top_k_key, INT32_MAX, &top_k, w->err));
    cdz_gguf_put_uint(w, "top_k", top_k);
    return CDZ_OK;
}

/* A model that is published with these is to be sampled; the key of do_sample is left out by the converter. */
static cdz_status write_warpers(cdz_gguf_writer *w)
{
    cdz_gguf_put_bool(w, "do_sample", true);
    CDZ_TRY(write_top_k(w));
    for (size_t i = 0; i < N_WARPERS; i++)
        CDZ_TRY(cdz_gguf_copy_number(w, warpers[i].to, warpers[i].from));
    return CDZ_OK;
}

static bool is_sampled(const cdz_gguf *g)
{
    bool any = cdz_gguf_find(g, top_k_key) != NULL;
    for (size_t i = 0; i < N_WARPERS; i++) any |= cdz_gguf_find(g, warpers[i].from) != NULL;
    return any;
}

bool cdz_gguf_says_generation(const cdz_gguf *g)
{
    return is_sampled(g) || cdz_gguf_find(g, "general.sampling.penalty_repeat");
}

cdz_status cdz_gguf_write_generation(const cdz_gguf *g, cdz_buf *out, cdz_error *err)
{
    cdz_gguf_writer w = {.g = g, .out = out, .err = err};
    const char *penalty = "general.sampling.penalty_repeat";
    double temperature = 1;
    cdz_buf_putc(out, '{');
    CDZ_TRY(cdz_gguf_write_tokens(&w));
    CDZ_TRY(cdz_gguf_real(g, "general.sampling.temp", &temperature, err));
    CDZ_TRY(cdz_gguf_copy_number(&w, "repetition_penalty", penalty));
    /* llama.cpp takes the best token where the temperature is 0. */
    if (is_sampled(g) && temperature > 0) CDZ_TRY(write_warpers(&w));
    cdz_buf_putc(out, '}');
    return out->failed ? cdz_err_memory_in(err, g->path) : CDZ_OK;
}
