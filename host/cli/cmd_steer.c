/* cmd_steer.c - cadenza steer: control vectors from two files of texts, with progress on a terminal, an end by Ctrl-C that
 * leaves nothing behind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/places.h"

enum { OPT_METHOD = CDZ_OPT_OWN, OPT_FORCE };

static const cdz_flag flags[] = {
    {"output", 'o', 'o', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE", "the GGUF file to write"},
    {"method", 0, OPT_METHOD, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "METHOD",
     "mean: the difference of the means (default); pca: the first principal component of the "
     "differences line by line, times their mean along it"},
    {"force", 0, OPT_FORCE, 0, NULL, "replace a file that is there already"},
    {0},
};

const cdz_page cdz_page_steer = {
    .name = "steer",
    .summary = "make a control vector of two files of texts",
    .usage = "steer make POSITIVE NEGATIVE [MODEL] -o FILE [--method mean|pca] [--force]\n",
    .about =
        "Reads each line of the files POSITIVE and NEGATIVE as a prompt, and compares what the layers "
        "leave behind its last token: FILE gets a direction from the negative texts to the positive "
        "ones for each layer but the first and the last. --control-vector FILE of run, chat and serve "
        "adds it, and so does llama.cpp. In a line, \\n is a new line, \\t a tab, \\\\ a backslash. "
        "The file is the same each time.",
    .flags = flags,
    .takes = CDZ_TAKES_MODEL | CDZ_TAKES_MACHINE,
    .examples = "cadenza steer make glad.txt sad.txt my-model -o glad.gguf\n"
                "cadenza run my-model -p 'Today' --control-vector-scaled glad.gguf:0.8\n",
};

typedef struct steer_job {
    cdz_cli_options options;
    const char *positive, *negative, *out, *method;
    bool force;
    unsigned shown; /* per cent, of the progress */
} steer_job;

/* --- lines ------------------------------------------------------------------------------------------------------------- */

typedef struct lines {
    char *text; /* owned; each line ends in NUL */
    const char **at;
    uint32_t n;
} lines;

static char meant_by(char c)
{
    return c == 'n' ? '\n' : c == 't' ? '\t' : c == '\\' ? c : '\0';
}

/* In place: \n, \t and \\. */
static void unescape(char *line)
{
    char *to = line;
    for (const char *c = line; *c; c++) {
        const char meant = *c == '\\' ? meant_by(c[1]) : '\0';
        *to++ = meant ? meant : *c;
        c += meant != '\0';
    }
    *to = '\0';
}

static void cut(lines *l)
{
    char *rest = l->text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        const size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = '\0';
        if (!*line) continue;
        unescape(line);
        l->at[l->n++] = line;
    }
}

static cdz_status read_lines(const char *path, lines *out, cdz_error *err)
{
    enum { MOST = 256 << 20 };
    size_t len, most = 1;
    CDZ_TRY(cdz_file_read(path, MOST, &out->text, &len, err));
    if (memchr(out->text, '\0', len))
        return cdz_err(err, CDZ_E_INPUT, "%s: is no text: there is a zero byte in it", path);
    for (size_t i = 0; i < len; i++) most += out->text[i] == '\n';
    out->at = calloc(most, sizeof *out->at);
    if (!out->at) return cdz_err_memory(err, "the texts");
    cut(out);
    return out->n ? CDZ_OK : cdz_err(err, CDZ_E_INPUT, "%s: there is no line with a text", path);
}

static void free_lines(lines *l)
{
    free(l->text);
    free((void *)l->at);
}

/* --- work -------------------------------------------------------------------------------------------------------------- */

static bool tell(void *user, uint32_t done, uint32_t total)
{
    steer_job *job = user;
    const unsigned percent = (unsigned)((uint64_t)done * 100 / total);
    if (isatty(STDERR_FILENO) && percent != job->shown) {
        fprintf(stderr, percent < 100 ? "\r%u %% of the texts" : "\r\033[K", percent);
        fflush(stderr);
    }
    job->shown = percent;
    return !cdz_cli_interrupted();
}

/* An interrupt is asked for after the next text. */
static void note_interrupt(void *user)
{
    (void)user;
}

static cdz_status make(steer_job *job, const cdz_session *session, cdz_error *err)
{
    lines positive = {0}, negative = {0};
    cdz_control_texts texts = {
        .size = sizeof texts, .method = job->method, .force = job->force, .tell = tell, .user = job};
    cdz_status status = read_lines(job->positive, &positive, err);
    if (status == CDZ_OK) status = read_lines(job->negative, &negative, err);
    texts.positive = positive.at;
    texts.n_positive = positive.n;
    texts.negative = negative.at;
    texts.n_negative = negative.n;
    if (status == CDZ_OK)
        status = cdz_model_make_control_vector(session->model, &texts, job->out, err);
    if (status == CDZ_OK)
        printf("%s: control vectors of %u positive and %u negative texts\n", job->out, positive.n,
               negative.n);
    free_lines(&positive);
    free_lines(&negative);
    return status;
}

static int run(steer_job *job)
{
    const char *const texts[] = {job->positive, job->negative};
    cdz_session session;
    cdz_error err = {0};
    if (cdz_cli_check_place(&job->options, job->out, texts, 2, &err) != CDZ_OK)
        return cdz_cli_fail(&err);
    int code = cdz_session_open(&job->options, &session);
    if (code != CDZ_EXIT_OK) return code;
    cdz_cli_on_interrupt(note_interrupt, NULL);
    if (make(job, &session, &err) != CDZ_OK) code = cdz_cli_fail(&err);
    cdz_cli_on_interrupt(NULL, NULL);
    cdz_session_close(&session);
    return code;
}

/* --- options ----------------------------------------------------------------------------------------------------------- */

static void take_option(steer_job *job, const cdz_args *a)
{
    switch (a->opt) {
    case 'o': job->out = a->value; break;
    case OPT_METHOD: job->method = a->value; break;
    case OPT_FORCE: job->force = true; break;
    default: break;
    }
}

static void check_words(cdz_args *a, steer_job *job)
{
    const char *verb = cdz_args_word(a);
    if (!verb || strcmp(verb, "make") != 0) {
        cdz_args_refuse_verb(a, "'make'", verb);
        return;
    }
    job->positive = cdz_args_word(a);
    job->negative = cdz_args_word(a);
    if (!job->negative)
        cdz_args_refuse(a, "expected two files of texts, POSITIVE and NEGATIVE");
    else if (cdz_args_take_model(a, &job->options.host.program.model) && cdz_args_end(a) &&
             !job->out)
        cdz_args_refuse(a, "expected -o FILE, the file to write");
}

int cdz_cmd_steer(int argc, char **argv)
{
    steer_job job = {.shown = 101};
    cdz_args a = cdz_args_of(&cdz_page_steer, argc, argv, &job.options);
    while (cdz_args_next(&a)) take_option(&job, &a);
    if (!a.stopped) check_words(&a, &job);
    const int status = a.stopped ? a.status : run(&job);
    cdz_cli_options_free(&job.options);
    return status;
}
