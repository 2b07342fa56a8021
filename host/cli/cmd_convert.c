/* cmd_convert.c - cadenza model convert and cadenza model quantize: the options, progress on a
 * terminal, an end by Ctrl-C that leaves nothing behind. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "cli/cli.h"
#include "cli/convert.h"
#include "convert/convert.h"
#include "load/gguf.h"
#include "load/quant_types.h"

enum { OPT_TYPE = CDZ_OPT_OWN, OPT_NO_TOKENIZER, OPT_FORCE };

static const cdz_flag convert_flags[] = {
    {"type", 0, OPT_TYPE, 0, "TYPE", "store matrices as f32, f16 or bf16 instead"},
    {"no-tokenizer", 0, OPT_NO_TOKENIZER, 0, NULL, "leave the tokenizer and chat templates out"},
    {"force", 0, OPT_FORCE, 0, NULL, "replace a file, or an empty folder, that is there already"},
    {0},
};
static const cdz_flag quantize_flags[] = {
    {"type", 0, OPT_TYPE, 0, "TYPE", "the type to quantise to"},
    {"no-tokenizer", 0, OPT_NO_TOKENIZER, 0, NULL, "leave the tokenizer and chat templates out"},
    {"force", 0, OPT_FORCE, 0, NULL, "replace a file that is there already"},
    {0},
};

const cdz_page cdz_page_model_convert = {
    .name = "model convert",
    .summary = "make a GGUF file of a model folder, and the reverse",
    .usage = "model convert IN OUT [--type f32|f16|bf16] [--no-tokenizer] [--force]\n",
    .about =
        "A model folder IN becomes the GGUF file OUT; a GGUF file IN (of a split one, the first "
        "part) becomes the folder OUT. Weights keep their types; in GGUF norms are float32, in a "
        "folder quantised weights become float32. The output is read again and compared before "
        "it gets its name. What the other format cannot express is an error.",
    .flags = convert_flags,
    .examples = "cadenza model convert my-model my-model.gguf\n"
                "cadenza model convert my-model.gguf my-model --type bf16\n",
};

const cdz_page cdz_page_model_quantize = {
    .name = "model quantize",
    .summary = "make a GGUF file with quantised weights",
    .usage = "model quantize IN OUT --type TYPE [--no-tokenizer] [--force]\n",
    .about =
        "Writes the GGUF file OUT with the matrices of IN, a folder or a GGUF file of plain "
        "types, quantised to TYPE: q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k or q6_k. "
        "Norms, biases, positions and routers are not quantised; the head, or an embedding that "
        "serves as head, gets q6_k (q8_0 with q8_0). Where rows are no multiple of a type's "
        "block of 256, the matrix gets the next larger type with blocks of 32; where they are no "
        "multiple of 32 either, it stays as it is.",
    .flags = quantize_flags,
    .examples = "cadenza model quantize my-model my-model-q4.gguf --type q4_k\n"
                "cadenza model quantize my-model.gguf my-model-q8.gguf --type q8_0\n",
};

/* --- progress ------------------------------------------------------------------------------ */

typedef struct progress {
    bool show;
    unsigned percent; /* shown last */
} progress;

static bool tell(void *user, uint64_t done, uint64_t total)
{
    progress *p = user;
    const unsigned percent = total ? (unsigned)((double)done / (double)total * 100) : 100;
    if (p->show && percent != p->percent) {
        fprintf(stderr, "\r%u %%", percent);
        fflush(stderr);
    }
    p->percent = percent;
    return !cdz_cli_interrupted();
}

/* An interrupt is asked for at the next write. */
static void note_interrupt(void *user)
{
    (void)user;
}

/* --- what came out ------------------------------------------------------------------------- */

static void print_report(const cdz_convert_options *o, const cdz_convert_report *r)
{
    const double mib = 1024 * 1024;
    printf("%s: %u tensors, %.1f MiB (from %.1f MiB):", o->out, r->n_tensors,
           (double)r->bytes_out / mib, (double)r->bytes_in / mib);
    const char *comma = "";
    for (int t = 0; t < CDZ_N_DTYPES; t++) {
        if (r->n_by_type[t] == 0) continue;
        printf("%s %u %s", comma, r->n_by_type[t], cdz_dtype_name((cdz_dtype)t));
        comma = ",";
    }
    putchar('\n');
    if (r->n_kept)
        cdz_cli_say("%u matrices keep their type, as blocks do not divide their rows; the first: %s",
                    r->n_kept, r->first_kept);
    for (const char *at = r->notes; *at;) {
        const size_t n = strcspn(at, "\n");
        cdz_cli_say("%.*s", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static int work(cdz_convert_options *o)
{
    cdz_error err = {0};
    cdz_convert_report report;
    progress p = {.show = isatty(STDERR_FILENO) != 0, .percent = 101};
    o->watch = (cdz_watch){tell, &p};
    cdz_cli_on_interrupt(note_interrupt, NULL);
    cdz_status st = cdz_guard_begin(&err);
    if (st == CDZ_OK) {
        st = cdz_convert(o, &report, &err);
        cdz_guard_end();
    }
    cdz_cli_on_interrupt(NULL, NULL);
    o->watch = (cdz_watch){0};
    if (p.show && p.percent <= 100) fputs("\r      \r", stderr);
    if (st != CDZ_OK) return cdz_cli_fail(&err);
    print_report(o, &report);
    return CDZ_EXIT_OK;
}

/* --- options ------------------------------------------------------------------------------- */

/* A folder on either side, and a file on the other. */
static int check_sides(const cdz_convert_options *o, const char *command)
{
    const size_t n = strlen(o->out);
    const bool names_file = n > 5 && strcmp(o->out + n - 5, ".gguf") == 0;
    if (o->to_gguf || !names_file) return CDZ_EXIT_OK;
    return cdz_cli_misuse(command,
                          "%s is a GGUF file, so that %s becomes a folder; name it so, or use `model "
                          "quantize` for another type",
                          o->in, o->out);
}

static void take_type(cdz_convert_options *o, cdz_args *a, bool quantise)
{
    cdz_error err = {0};
    if (cdz_type_named(a->value, quantise ? CDZ_N_PLAIN : CDZ_F32,
                       quantise ? CDZ_N_GGUF : CDZ_N_PLAIN, &o->type, &err) != CDZ_OK)
        cdz_args_refuse(a, "--type: %s", err.text);
}

int cdz_cmd_model_convert(int argc, char **argv, bool quantise)
{
    const cdz_page *page = quantise ? &cdz_page_model_quantize : &cdz_page_model_convert;
    cdz_convert_options o = {.type = CDZ_N_DTYPES};
    cdz_args a = cdz_args_of(page, argc, argv, NULL);
    while (cdz_args_next(&a)) {
        o.no_tokenizer |= a.opt == OPT_NO_TOKENIZER;
        o.force |= a.opt == OPT_FORCE;
        if (a.opt == OPT_TYPE) take_type(&o, &a, quantise);
    }
    if (!a.stopped && a.n_words != 2)
        cdz_args_refuse(&a, "expected IN and OUT, found %d arguments", a.n_words);
    if (!a.stopped && quantise && o.type == CDZ_N_DTYPES)
        cdz_args_refuse(&a, "expected --type, such as q4_k");
    if (a.stopped) return a.status;
    o.in = cdz_args_word(&a);
    o.out = cdz_args_word(&a);
    o.to_gguf = quantise || !cdz_gguf_is(o.in);
    const int status = check_sides(&o, page->name);
    return status == CDZ_EXIT_OK ? work(&o) : status;
}
