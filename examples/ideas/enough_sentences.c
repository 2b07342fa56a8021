/* enough_sentences.c - stops behind so many sentences, by the text so far: the host keeps it, so asking costs little. */
#include <cadenza/criterion.h>
#include <cadenza/ext/text.h>

typedef struct {
    int64_t sentences;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, sentences, 1, 1, 1000000, "full stops before the answer ends"),
};

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    const settings *p = step->params;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        cdz_string text;
        int64_t n = 0;
        const cdz_status status = cdz_get_text(step)->since_prompt(step, r, &text);
        if (status != CDZ_OK) return status;
        for (uint32_t i = 0; i < text.len; i++) n += text.at[i] == '.';
        if (n >= p->sentences) stops[r].reason = CDZ_STOP_STRING;
    }
    return CDZ_OK;
}

static const cdz_criterion enough_sentences = {
    .base = {CDZ_CRITERION_BASE, .id = "org.example.enough-sentences", .version = "1.0.0",
             .summary = "Stop behind so many sentences", CDZ_PARAMS(settings, params)},
    .test = test,
};
CDZ_EXPORT_PLUGINS_AS(0, CDZ_EXT_TEXT, &enough_sentences.base)
