/* cmd_score.c - cadenza score: how probable is a text, or each token that was generated? Options, and lines of tables. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/score.h"

enum {
    TEXT = CDZ_OPT_OWN,
    FILE_,
    IDS,
    CONTEXT,
    WINDOW,
    STRIDE,
    OUTPUTS,
    NORMALIZE,
    SUMMARY,
    TOP,
    JSON
};

static const cdz_flag flags[] = {
    {"text", 0, TEXT, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT", "the text"},
    {"file", 'f', FILE_, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "the text in a file; - is standard input"},
    {"ids", 0, IDS, CDZ_FLAG_ONCE, "LIST", "the text as token ids: 1,2,3"},
    {"context", 0, CONTEXT, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "text before the scored text, itself not scored; for an encoder, its input"},
    {"window", 0, WINDOW, 0, "N",
     "tokens of one pass over a longer text; default: the model's context"},
    {"stride", 0, STRIDE, 0, "N", "tokens that the window moves by; default: half of it"},
    {"prompt", 'p', 'p', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "PROMPT", "generate after this"},
    {"outputs", 0, OUTPUTS, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "a .safetensors file with sequences, scores/0, ... and beam_indices"},
    {"normalize", 0, NORMALIZE, 0, NULL, "with --outputs: log-softmax of the scores first"},
    {"summary", 0, SUMMARY, CDZ_FLAG_OFTEN, NULL, "totals only, no line for each token"},
    {"top", 0, TOP, CDZ_FLAG_OFTEN, "K",
     "beside each token the K likeliest in its place; in JSON as top_logprobs"},
    {"json", 0, JSON, CDZ_FLAG_OFTEN, NULL, "a JSON object"},
    {0},
};

const cdz_page cdz_page_score = {
    .name = "score",
    .summary = "say how probable a text is, or each token of an answer",
    .usage = "score [MODEL] --text TEXT | --file FILE | --ids LIST [options]\n"
             "score [MODEL] -p PROMPT [decoding options]\n"
             "score --outputs FILE [--normalize]\n",
    .about =
        "With a text: shows the log-probability of each token after those before it, and the "
        "perplexity; nothing is generated. With a prompt: generates, and shows for each new "
        "token its processed score, the log-probability of that score, and the model's own "
        "log-probability. With saved tensors (run --outputs): shows the scores of the tokens in "
        "them, as transformers' compute_transition_scores; no model is needed.",
    .flags = flags,
    .takes = CDZ_TAKES_ALL,
    .examples =
        "cadenza score --text 'river (noun): a large stream of water'\n"
        "cadenza score --context 'river (noun):' --text ' a large stream' --top 3\n"
        "cadenza score my-model --file chapter.txt --summary\n"
        "cadenza score -p 'dog (noun):' --num-beams 4 -n 8\n"
        "cadenza run -p 'dog (noun):' --num-beams 4 --output-scores --outputs dog.safetensors\n"
        "cadenza score --outputs dog.safetensors\n",
};

void cdz_cli_score_print_token(const cdz_model *model, int32_t id)
{
    char *text = NULL;
    cdz_buf quoted = {0};
    printf("%8d  ", (int)id);
    if (!model) return;
    if (cdz_detokenize(model, &id, 1, false, &text, NULL) == CDZ_OK)
        cdz_json_write_string(&quoted, text, strlen(text));
    printf("%-16s", quoted.len && !quoted.failed ? quoted.data : "");
    cdz_buf_free(&quoted);
    cdz_free(text);
}

void cdz_cli_score_print_value(float value)
{
    if (isnan(value))
        printf("  %10s", "-");
    else
        printf("  %10.4f", (double)value);
}

void cdz_cli_score_print_top(const cdz_model *model, const int32_t *ids, const float *values,
                             uint32_t n, float sum)
{
    printf("%10s", "");
    for (uint32_t i = 0; i < n; i++) {
        char *text = NULL;
        cdz_buf quoted = {0};
        if (cdz_detokenize(model, &ids[i], 1, false, &text, NULL) == CDZ_OK)
            cdz_json_write_string(&quoted, text, strlen(text));
        else
            cdz_buf_printf(&quoted, "%d", (int)ids[i]);
        printf("%s%s %.4f", i ? ", " : "", quoted.failed ? "" : quoted.data,
               (double)(values[i] - sum));
        cdz_buf_free(&quoted);
        cdz_free(text);
    }
    putchar('\n');
}

/* --- options -------------------------------------------------------------------------------------------------------- */

static bool take_count(const char *name, const char *text, uint32_t *out, int *status)
{
    char *end;
    const long n = strtol(text, &end, 10);
    *out = n >= 1 && n <= INT32_MAX ? (uint32_t)n : 0;
    if (*text && !*end && *out) return true;
    *status = cdz_cli_misuse("score", "--%s %s: expected a number of tokens above 0", name, text);
    return false;
}

static void take_option(cdz_score_options *o, cdz_args *a)
{
    switch (a->opt) {
    case 'p': o->prompt = a->value; break;
    case TEXT: o->text = a->value; break;
    case FILE_: o->file = a->value; break;
    case IDS: o->ids = a->value; break;
    case CONTEXT: o->context = a->value; break;
    case WINDOW: a->stopped = !take_count("window", a->value, &o->window, &a->status); break;
    case STRIDE: a->stopped = !take_count("stride", a->value, &o->stride, &a->status); break;
    case TOP: a->stopped = !take_count("top", a->value, &o->top, &a->status); break;
    case OUTPUTS: o->outputs = a->value; break;
    case NORMALIZE: o->normalize = true; break;
    case SUMMARY: o->summary = true; break;
    case JSON: o->json = true; break;
    default: break;
    }
}

/* What does not go together; NULL: all does. */
static const char *clash(const cdz_score_options *o, int n_models)
{
    const bool text = o->text || o->file || o->ids;
    const int given = !!o->text + !!o->file + !!o->ids + !!o->prompt + !!o->outputs;
    if (given == 0) return "nothing to score: give --text, --file, --ids, -p or --outputs";
    if (given > 1) return "give one of --text, --file, --ids, -p and --outputs";
    if (n_models > 1) return "expected one MODEL at most; the text goes after --text";
    if (o->outputs && n_models) return "--outputs needs no MODEL";
    if (o->normalize && !o->outputs) return "--normalize goes with --outputs";
    if (o->top && o->outputs) return "--top goes with a text or -p";
    if (o->top && o->summary && !o->json)
        return "--top is about each token, --summary leaves their lines out";
    if (text &&
        cdz_settings_first(&o->common.host, CDZ_TAKES_TIME | CDZ_TAKES_DRAFT | CDZ_TAKES_OTHERS))
        return "--timeout and --assistant go with -p";
    if (o->outputs && (o->common.n_settings || cdz_settings_first(&o->common.host, UINT_MAX)))
        return "--outputs reads what was saved; of the options it takes --normalize, --summary and "
               "--json";
    if (!text && (o->context || o->window || o->stride))
        return "--context, --window and --stride go with a text";
    return NULL;
}

int cdz_cmd_score(int argc, char **argv)
{
    cdz_score_options o = {0};
    cdz_args a = cdz_args_of(&cdz_page_score, argc, argv, &o.common);
    while (cdz_args_next(&a)) take_option(&o, &a);
    const char *wrong = a.stopped ? NULL : clash(&o, a.n_words + !!a.model);
    if (wrong) cdz_args_refuse(&a, "%s", wrong);
    int status = a.status;
    if (!a.stopped && cdz_args_take_model(&a, &o.common.host.program.model)) {
        if (o.outputs)
            status = cdz_cli_score_saved(&o);
        else
            status = o.prompt ? cdz_cli_score_answer(&o) : cdz_cli_score_text(&o);
    }
    cdz_cli_options_free(&o.common);
    return status;
}
