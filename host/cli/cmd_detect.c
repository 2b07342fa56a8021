/* cmd_detect.c - cadenza detect: does a text carry a watermark? */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"

enum { IDS = CDZ_OPT_OWN, Z, DETECTOR, JSON };

static const cdz_flag flags[] = {
    {"prompt", 'p', 'p', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT", "the text"},
    {"ids", 0, IDS, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "LIST",
     "the text as token ids: 1,2,3 or a JSON array"},
    {"watermark", 'w', 'w', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "JSON",
     "the settings: watermarking_config as JSON, or a file that holds it"},
    {"z-threshold", 0, Z, CDZ_FLAG_OFTEN, "Z",
     "a text with a larger z-score counts as marked; "
     "default 3.0"},
    {"detector", 0, DETECTOR, CDZ_FLAG_OFTEN, "FOLDER",
     "SynthID: a trained BayesianDetectorModel decides"},
    {"json", 0, JSON, CDZ_FLAG_OFTEN, NULL, "every statistic as a JSON object"},
    {0},
};

const cdz_page cdz_page_detect = {
    .name = "detect",
    .summary = "say whether a text carries a watermark",
    .usage = "detect [MODEL] [-p TEXT | --ids LIST] [-w JSON] [options]\n",
    .about =
        "Says whether a text carries the watermark that the settings describe. They must be "
        "those the text was written with, keys included; they come from -w, from a pipeline, or "
        "from MODEL's generation_config.json. The text is TEXT, or standard input, without its "
        "prompt. It needs MODEL's tokenizer and vocabulary, but does not run the model. Exit "
        "status 0: the text was examined, whatever the result.",
    .flags = flags,
    .takes = CDZ_TAKES_MODEL | CDZ_TAKES_DECODING | CDZ_TAKES_MACHINE | CDZ_TAKES_PLUGINS |
             CDZ_TAKES_MODEL_PLUGINS,
    .examples = "cadenza run -s 'watermarking_config={\"bias\": 4.0}' -p 'music is' > text\n"
                "cadenza detect -w '{\"bias\": 4.0}' < text\n"
                "cadenza detect my-model --pipeline marked.ini -p 'Once upon a time' --json\n"
                "cadenza detect my-model -w synthid.json --detector my-detector < chapter.txt\n",
};

typedef struct detect_job {
    cdz_cli_options options;
    const char *text, *ids, *watermark, *detector;
    double z_threshold;
    bool json;
    cdz_arena arena;
} detect_job;

/* --- input --------------------------------------------------------------------------------------------------- */

/* JSON as it is, or a file of it. */
static cdz_status read_watermark(detect_job *job, const char **out, cdz_error *err)
{
    char *text;
    size_t len;
    *out = job->watermark;
    if (!job->watermark || job->watermark[strspn(job->watermark, " \t\n")] == '{') return CDZ_OK;
    CDZ_TRY(cdz_file_read(job->watermark, 1u << 20, &text, &len, err));
    *out = cdz_arena_strndup(&job->arena, text, len);
    free(text);
    return *out ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status parse_ids(detect_job *job, int32_t **ids, size_t *n, cdz_error *err)
{
    const bool bare = job->ids[strspn(job->ids, " \t")] != '[';
    char *text = cdz_arena_printf(&job->arena, bare ? "[%s]" : "%s", job->ids);
    cdz_json list;
    if (!text) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (cdz_json_parse(text, strlen(text), "--ids", NULL, &job->arena, &list, err) != CDZ_OK)
        return err->code = CDZ_E_USAGE;
    if (!cdz_json_is(&list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_USAGE, "--ids: expected a list of ids");
    *ids = malloc((list.len + 1) * sizeof **ids);
    if (!*ids) return cdz_err_memory(err, "the ids");
    *n = list.len;
    for (uint32_t i = 0; i < list.len; i++) {
        const cdz_json *id = &list.items[i];
        if (id->type != CDZ_JSON_INT || id->integer < 0 || id->integer > INT32_MAX)
            return cdz_err(err, CDZ_E_USAGE, "--ids: entry %u is no token id", i);
        (*ids)[i] = (int32_t)id->integer;
    }
    return CDZ_OK;
}

static cdz_status tokenize(detect_job *job, const cdz_model *model, int32_t **ids, size_t *n,
                           cdz_error *err)
{
    enum { MOST = 64 << 20 };
    if (job->ids) return parse_ids(job, ids, n, err);
    if (job->text) return cdz_tokenize(model, job->text, strlen(job->text), false, ids, n, err);
    char *text;
    size_t len;
    CDZ_TRY(cdz_cli_read_stream(stdin, "standard input", MOST, &text, &len, err));
    while (len && text[len - 1] == '\n') len--; /* what `cadenza run` ends its text with */
    cdz_status status = cdz_tokenize(model, text, len, false, ids, n, err);
    free(text);
    return status;
}

/* --- the answer ------------------------------------------------------------------------------------------------ */

/* The first row's entry of a statistic. */
static double number(const cdz_json *answer, const char *name)
{
    const cdz_json *list = cdz_json_get(answer, name);
    double x = 0;
    if (cdz_json_is(list, CDZ_JSON_ARRAY) && list->len) cdz_json_number(&list->items[0], &x);
    return x;
}

static void say(const cdz_json *answer)
{
    const cdz_json *prediction = cdz_json_get(answer, "prediction");
    const bool found = prediction && prediction->len && prediction->items[0].boolean;
    printf("%s: ", found ? "watermark found" : "no watermark found");
    if (cdz_json_get(answer, "num_tokens_scored"))
        printf("%.0f of %.0f tokens are green, ", number(answer, "num_green_tokens"),
               number(answer, "num_tokens_scored"));
    else
        printf("mean g-value %.4f, ", number(answer, "mean"));
    printf("z = %.2f, p = %.3g", number(answer, "z_score"), number(answer, "p_value"));
    if (cdz_json_get(answer, "score"))
        printf(", probability by the detector %.4f", number(answer, "score"));
    putchar('\n');
}

static cdz_status answer(detect_job *job, const char *json, cdz_error *err)
{
    cdz_json read;
    if (job->json) {
        puts(json);
        return CDZ_OK;
    }
    CDZ_TRY(cdz_json_parse(json, strlen(json), "answer", NULL, &job->arena, &read, err));
    say(&read);
    return CDZ_OK;
}

static cdz_status detect(detect_job *job, const cdz_session *session, cdz_error *err)
{
    cdz_detect_options options = {.size = sizeof options,
                                  .pipeline = session->pipeline,
                                  .z_threshold = job->z_threshold,
                                  .detector = job->detector};
    int32_t *ids = NULL;
    size_t n = 0;
    char *json = NULL;
    CDZ_TRY(read_watermark(job, &options.watermark, err));
    cdz_status status = tokenize(job, session->model, &ids, &n, err);
    if (status == CDZ_OK) status = cdz_detect(session->model, &options, ids, n, &json, err);
    if (status == CDZ_OK) status = answer(job, json, err);
    cdz_free(json);
    free(ids);
    return status;
}

static int run(detect_job *job)
{
    cdz_session session;
    cdz_error err = {0};
    int code = cdz_session_open(&job->options, &session);
    if (code != CDZ_EXIT_OK) return code;
    if (detect(job, &session, &err) != CDZ_OK) code = cdz_cli_fail(&err);
    cdz_session_close(&session);
    return code;
}

/* --- options ---------------------------------------------------------------------------------------------------- */

static bool take_z(detect_job *job, const char *text, int *status)
{
    char *end;
    job->z_threshold = strtod(text, &end);
    if (*text && !*end && job->z_threshold > 0 && job->z_threshold < 1e6) return true;
    *status = cdz_cli_misuse("detect", "--z-threshold %s: expected a number above 0", text);
    return false;
}

static void take_option(detect_job *job, cdz_args *a)
{
    switch (a->opt) {
    case 'p': job->text = a->value; break;
    case 'w': job->watermark = a->value; break;
    case IDS: job->ids = a->value; break;
    case Z: a->stopped = !take_z(job, a->value, &a->status); break;
    case DETECTOR: job->detector = a->value; break;
    case JSON: job->json = true; break;
    default: break;
    }
}

int cdz_cmd_detect(int argc, char **argv)
{
    detect_job job = {0};
    cdz_args a = cdz_args_of(&cdz_page_detect, argc, argv, &job.options);
    while (cdz_args_next(&a)) take_option(&job, &a);
    if (!a.stopped && a.n_words > 1)
        cdz_args_refuse(&a, "expected one MODEL at most; the text goes after -p");
    if (!a.stopped && job.text && job.ids)
        cdz_args_refuse(&a, "-p and --ids together; give one of them");
    const bool good = !a.stopped && cdz_args_take_model(&a, &job.options.host.program.model);
    const int status = good ? run(&job) : a.status;
    cdz_cli_options_free(&job.options);
    cdz_arena_free(&job.arena);
    return status;
}
