/* cmd_score.c - cadenza score: how probable is a text, or each token that was generated? Options, and lines of tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/score.h"

static const char help[] =
    "usage: cadenza score [MODEL] --text TEXT | --file FILE | --ids LIST [options]\n"
    "       cadenza score [MODEL] -p PROMPT [decoding options]\n"
    "       cadenza score --outputs FILE [--normalize]\n"
    "\n"
    "A text: the log-probability of each token under those before it, and the perplexity. Nothing "
    "is\n"
    "generated. A prompt: generates, and shows of each new token the score it was taken with, the "
    "log-\n"
    "probability of that score, and the model's own. Saved tensors (run --outputs): the scores of "
    "the\n"
    "tokens in them, as transformers' compute_transition_scores; no model is needed.\n"
    "\n"
    "  --text TEXT              the text\n"
    "  --file FILE              the text in a file; - is standard input\n"
    "  --ids LIST               the text as token ids: 1,2,3\n"
    "  --context TEXT           stands before the text and is not scored; what an encoder reads\n"
    "  --window N               tokens of one pass over a longer text; default: the model's "
    "context\n"
    "  --stride N               tokens that the window moves by; default: half of it\n"
    "  -p, --prompt PROMPT      generate after this\n"
    "  --outputs FILE           a .safetensors file with sequences, scores/0, ... and "
    "beam_indices\n"
    "  --normalize              with --outputs: log-softmax of the scores first\n"
    "  --summary                totals only, no line for each token\n"
    "  --json                   a JSON object\n";
static const char examples[] =
    "\n"
    "Examples:\n"
    "  cadenza score --text 'river (noun): a large stream of water'\n"
    "  cadenza score --context 'river (noun):' --text ' a large stream' --json\n"
    "  cadenza score my-model --file chapter.txt --summary\n"
    "  cadenza score -p 'dog (noun):' -s num_beams=4 -s max_new_tokens=8\n"
    "  cadenza run -p 'dog (noun):' -s num_beams=4 -s output_scores=yes --outputs dog.safetensors\n"
    "  cadenza score --outputs dog.safetensors\n";

void cdz_score_print_token(const cdz_model *model, int32_t id)
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

void cdz_score_print_value(float value)
{
    if (isnan(value))
        printf("  %10s", "-");
    else
        printf("  %10.4f", (double)value);
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

static bool take_options(int argc, char **argv, cdz_score_options *o, int *status)
{
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
        JSON
    };
    static const struct option rows[] = {
        CDZ_CLI_COMMON_OPTIONS,
        {"prompt", required_argument, NULL, 'p'},
        {"text", required_argument, NULL, TEXT},
        {"file", required_argument, NULL, FILE_},
        {"ids", required_argument, NULL, IDS},
        {"context", required_argument, NULL, CONTEXT},
        {"window", required_argument, NULL, WINDOW},
        {"stride", required_argument, NULL, STRIDE},
        {"outputs", required_argument, NULL, OUTPUTS},
        {"normalize", no_argument, NULL, NORMALIZE},
        {"summary", no_argument, NULL, SUMMARY},
        {"json", no_argument, NULL, JSON},
        {0},
    };
    int opt;
    while ((opt = cdz_cli_next_option("score", argc, argv, ":p:s:h", rows)) != -1) {
        switch (opt) {
        case 'h':
            printf("%s%s%s", help, cdz_cli_common_help, examples);
            *status = CDZ_EXIT_OK;
            return false;
        case 'p': o->prompt = optarg; break;
        case TEXT: o->text = optarg; break;
        case FILE_: o->file = optarg; break;
        case IDS: o->ids = optarg; break;
        case CONTEXT: o->context = optarg; break;
        case WINDOW:
            if (!take_count("window", optarg, &o->window, status)) return false;
            break;
        case STRIDE:
            if (!take_count("stride", optarg, &o->stride, status)) return false;
            break;
        case OUTPUTS: o->outputs = optarg; break;
        case NORMALIZE: o->normalize = true; break;
        case SUMMARY: o->summary = true; break;
        case JSON: o->json = true; break;
        default:
            if (!cdz_cli_take_option(&o->common, opt, optarg, "score", status)) return false;
        }
    }
    o->common.model = optind < argc ? argv[optind] : NULL;
    return true;
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
    if (!text && (o->context || o->window || o->stride))
        return "--context, --window and --stride go with a text";
    return NULL;
}

int cdz_cmd_score(int argc, char **argv)
{
    cdz_score_options o = {0};
    int status = CDZ_EXIT_USAGE;
    if (take_options(argc, argv, &o, &status)) {
        const char *wrong = clash(&o, argc - optind);
        if (wrong)
            status = cdz_cli_misuse("score", "%s", wrong);
        else if (o.outputs)
            status = cdz_score_saved(&o);
        else
            status = o.prompt ? cdz_score_answer(&o) : cdz_score_text(&o);
    }
    cdz_cli_options_free(&o.common);
    return status;
}
