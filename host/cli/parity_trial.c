/* parity_trial.c - see parity_trial.h. Layout of the cases: tests/processors/make_processor_vectors.py. */
#include "cli/parity_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "cadenza/ext/tokenizer.h"
#include "call/calls.h"

/* A class of the reference, its plugin, and where the plugin's parameter has another name. */
static const struct {
    const char *name, *id, *from;
    bool flag; /* a class without parameters: being there is the parameter */
} classes[] = {
    {"Temperature", "temperature", NULL, false},
    {"TopK", "top_k", NULL, false},
    {"TopP", "top_p", NULL, false},
    {"TopH", "top_h", NULL, false},
    {"MinP", "min_p", NULL, false},
    {"Typical", "typical_p", NULL, false},
    {"Epsilon", "epsilon_cutoff", "epsilon", false},
    {"Eta", "eta_cutoff", "epsilon", false},
    {"InfNanRemove", "remove_invalid_values", NULL, true},
    {"LogitNormalization", "renormalize_logits", NULL, true},
    {"RepetitionPenalty", "repetition_penalty", "penalty", false},
    {"EncoderRepetitionPenalty", "encoder_repetition_penalty", "penalty", false},
    {"NoRepeatNGram", "no_repeat_ngram_size", "ngram_size", false},
    {"EncoderNoRepeatNGram", "encoder_no_repeat_ngram_size", "encoder_ngram_size", false},
    {"SequenceBias", "sequence_bias", NULL, false},
    {"NoBadWords", "bad_words_ids", NULL, false},
    {"MinLength", "min_length", NULL, false},
    {"MinNewTokensLength", "min_new_tokens", NULL, false},
    {"ForcedBOS", "forced_bos_token_id", "bos_token_id", false},
    {"ForcedEOS", "forced_eos_token_id", "eos_token_id", false},
    {"ExponentialDecayLengthPenalty", "exponential_decay_length_penalty", NULL, false},
    {"SuppressTokens", "suppress_tokens", NULL, false},
    {"SuppressTokensAtBegin", "begin_suppress_tokens", NULL, false},
    {"Watermark", "watermarking_config", NULL, false},
    {"SynthIDTextWatermark", "watermarking_config", NULL, false},
    {"PrefixConstrained", "prefix_allowed_tokens", NULL, false},
    {"UnbatchedClassifierFreeGuidance", "guidance_scale", NULL, false},
    {"MaxLength", "max_length", NULL, false},
    {"MaxTime", "max_time", NULL, false},
    {"EosToken", "eos_token_id", NULL, false},
    {"StopString", "stop_strings", NULL, false},
    {"AlternatingCodebooks", "alternating_codebooks", NULL, false},
    {"BarkEosPrioritizer", "bark_eos_prioritizer", NULL, false},
};
enum { N_CLASSES = sizeof classes / sizeof classes[0] };

static size_t class_of(const cdz_json *c)
{
    size_t class = 0;
    const cdz_json *name = cdz_json_get(c, "name");
    while (class < N_CLASSES && !cdz_json_eq(name, classes[class].name)) class ++;
    return class;
}

const char *cdz_parity_plugin(const cdz_json *name)
{
    static const char *const ends[] = {"", "LogitsProcessor", "LogitsWarper",
                                       "TokenLogitsProcessor"};
    if (!cdz_json_is(name, CDZ_JSON_STRING)) return NULL;
    for (size_t i = 0; i < N_CLASSES; i++) {
        const size_t n = strlen(classes[i].name);
        if (strncmp(name->string, classes[i].name, n) != 0) continue;
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++)
            if (strcmp(name->string + n, ends[k]) == 0) return classes[i].id;
    }
    return NULL;
}

cdz_status cdz_trial_unsupported(cdz_error *err)
{
    return cdz_err(err, CDZ_E_UNSUPPORTED, "not supported by this version");
}

/* --- the host of one plugin ------------------------------------------------------------------------------------- */

static bool has_tokens(const cdz_step *step)
{
    return ((cdz_trial *)step->scope)->token_texts != NULL;
}

static cdz_string token_text(const cdz_step *step, int32_t id)
{
    const cdz_json *texts = ((cdz_trial *)step->scope)->token_texts;
    if (!texts || id < 0 || (uint32_t)id >= texts->len || texts->items[id].type != CDZ_JSON_STRING)
        return (cdz_string){NULL, 0};
    return (cdz_string){texts->items[id].string, texts->items[id].len};
}

static uint32_t n_tokens(const cdz_step *step)
{
    const cdz_json *texts = ((cdz_trial *)step->scope)->token_texts;
    return texts ? texts->len : 0;
}

static const cdz_tokenizer_api tokenizer_api = {.size = sizeof tokenizer_api,
                                                .present = has_tokens,
                                                .token_text = token_text,
                                                .n_tokens = n_tokens};

static const float *companion_logits(const cdz_step *step, uint32_t r)
{
    const cdz_trial *t = step->scope;
    return t->other ? t->other + (size_t)r * t->request.n_vocab : NULL;
}

static const cdz_companion_host companion_table = {.size = sizeof companion_table,
                                                   .logits = companion_logits};

static const void *extension(const char *id)
{
    if (strcmp(id, CDZ_EXT_COMPANION) == 0) return &companion_table;
    return strcmp(id, CDZ_EXT_TOKENIZER) == 0 ? &tokenizer_api : cdz_host_extension(id);
}

static cdz_status host_fail(const cdz_step *step, cdz_status code, const char *text)
{
    cdz_trial *t = step->scope;
    snprintf(t->sentence, sizeof t->sentence, "%s", text);
    return code;
}

static void *host_alloc(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc_aligned(&((cdz_trial *)step->scope)->memory, bytes, 64);
}

/* The case's own parameters stand for the generation configuration; the answers are the reference's, quirks and all. */
static cdz_status host_config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    const cdz_json *value =
        cdz_json_get(cdz_json_get(((cdz_trial *)step->scope)->document, "params"), name);
    if (strcmp(name, "quirks") == 0 && type == CDZ_T_BOOL)
        *(bool *)out = true;
    else if (type == CDZ_T_OPT_INT)
        *(cdz_opt_int *)out = cdz_json_is(value, CDZ_JSON_INT) ? (cdz_opt_int){value->integer, true}
                                                               : (cdz_opt_int){0, false};
    else
        return CDZ_E_NOT_FOUND;
    return CDZ_OK;
}

static void host_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    (void)step;
    for (uint32_t i = 0; i < 4; i++) out[i] = row * 31 + position * 17 + i;
}

static double host_now(const cdz_step *step)
{
    return ((cdz_trial *)step->scope)->now;
}

const cdz_caller cdz_trial_caller = {.fail = host_fail,
                                     .alloc = host_alloc,
                                     .scratch = host_alloc,
                                     .config = host_config,
                                     .noise = host_noise,
                                     .now_s = host_now};

const cdz_host cdz_trial_host = CDZ_HOST_WITH(extension);

/* --- calling ------------------------------------------------------------------------------------------------------ */

const cdz_processor *cdz_trial_processor(const cdz_trial *t)
{
    return t->plugin.base->kind == CDZ_KIND_PROCESSOR
               ? (const cdz_processor *)(const void *)t->plugin.base
               : NULL;
}

const cdz_criterion *cdz_trial_criterion(const cdz_trial *t)
{
    return t->plugin.base->kind == CDZ_KIND_CRITERION
               ? (const cdz_criterion *)(const void *)t->plugin.base
               : NULL;
}

/* What the call did to the thread is a failure of its own. */
static cdz_status judge(cdz_trial *t, const cdz_call *call, cdz_status returned)
{
    cdz_error fault;
    if (!call->broken) return returned;
    const cdz_status status = cdz_call_fault(call, returned, NULL, &fault);
    snprintf(t->sentence, sizeof t->sentence, "%s", fault.text);
    return status;
}

cdz_status cdz_trial_create(cdz_trial *t)
{
    cdz_call call = {0};
    t->step.request = NULL;
    const cdz_status status = cdz_call_create(&call, &t->step);
    t->step.request = &t->request;
    return judge(t, &call, status);
}

bool cdz_trial_idle(cdz_trial *t)
{
    cdz_call call = {0};
    return cdz_call_idle(&call, &t->step);
}

static bool in_vocabulary(const cdz_ids *rows, uint32_t n, uint32_t n_vocab)
{
    for (uint32_t r = 0; rows && r < n; r++)
        for (uint32_t i = 0; i < rows[r].len; i++)
            if (rows[r].at[i] < 0 || (uint32_t)rows[r].at[i] >= n_vocab) return false;
    return true;
}

/* What the engine makes sure of before it calls a processor: scores are looked up by these. A watermark hashes them, and has
 * cases with others. */
static cdz_status check_ids(cdz_trial *t)
{
    const cdz_request_info *r = &t->request;
    const cdz_processor *p = cdz_trial_processor(t);
    const bool hashes = strcmp(t->plugin.base->id, "watermarking_config") == 0;
    const uint32_t most = hashes ? INT32_MAX : r->n_vocab;
    const bool reads_rows = p && p->caps & CDZ_NEEDS_IDS;
    if (!p || ((!reads_rows || in_vocabulary(t->ids, r->n_rows, most)) &&
               in_vocabulary(r->prompts, r->n_prompts, most)))
        return CDZ_OK;
    snprintf(t->sentence, sizeof t->sentence, "an id is outside the %u tokens of the scores", most);
    return CDZ_E_INPUT;
}

cdz_status cdz_trial_begin(cdz_trial *t)
{
    cdz_call call = {0};
    CDZ_TRY(check_ids(t));
    const cdz_status status = cdz_call_begin(&call, &t->step, &t->step.shared);
    return judge(t, &call, status);
}

cdz_status cdz_trial_apply(cdz_trial *t, float *scores, uint32_t n)
{
    const cdz_processor *p = cdz_trial_processor(t);
    cdz_scores matrix = {
        .data = scores, .n_rows = n, .n_vocab = t->request.n_vocab, .stride = t->request.n_vocab};
    cdz_call call = {0};
    CDZ_TRY(check_ids(t));
    t->step.n_rows = n;
    t->step.input_ids = p->caps & CDZ_NEEDS_IDS ? t->ids : NULL;
    const cdz_status status = cdz_call_apply(&call, p, &t->step, &matrix);
    return judge(t, &call, status);
}

cdz_status cdz_trial_test(cdz_trial *t, cdz_stop *stops)
{
    cdz_call call = {0};
    t->step.n_rows = t->request.n_rows;
    t->step.input_ids = t->ids;
    const cdz_status status = cdz_call_test(&call, cdz_trial_criterion(t), &t->step, stops);
    return judge(t, &call, status);
}

/* --- reading a case -------------------------------------------------------------------------------------------------- */

float cdz_parity_float(const cdz_json *value)
{
    double number = NAN;
    if (cdz_json_eq(value, "inf")) return INFINITY;
    if (cdz_json_eq(value, "-inf")) return -INFINITY;
    return cdz_json_number(value, &number) ? (float)number : NAN;
}

cdz_status cdz_trial_malformed(const char *what, cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "the case is malformed: %s", what);
}

/* Integers, or one integer, as a list of ids. */
static cdz_status read_ids(cdz_trial *t, const cdz_json *value, cdz_ids *out, cdz_error *err)
{
    bool one = cdz_json_is(value, CDZ_JSON_INT);
    if (!one && !cdz_json_is(value, CDZ_JSON_ARRAY))
        return cdz_trial_malformed("expected a list of ids", err);
    uint32_t n = one ? 1 : value->len;
    int32_t *at = cdz_arena_array(&t->memory, n, sizeof *at);
    if (!at) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *item = one ? value : &value->items[i];
        if (item->type != CDZ_JSON_INT || item->integer < INT32_MIN || item->integer > INT32_MAX)
            return cdz_trial_malformed("expected integer ids of 32 bits", err);
        at[i] = (int32_t)item->integer;
    }
    *out = (cdz_ids){at, n};
    return CDZ_OK;
}

cdz_status cdz_trial_rows(cdz_trial *t, const cdz_json *rows, cdz_ids **out, uint32_t *n,
                          cdz_error *err)
{
    if (!cdz_json_is(rows, CDZ_JSON_ARRAY) || rows->len == 0 || rows->len > CDZ_PARITY_ROWS)
        return cdz_trial_malformed("expected 1 to 64 rows of ids", err);
    cdz_ids *at = cdz_arena_array(&t->memory, rows->len, sizeof *at);
    if (!at) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t r = 0; r < rows->len; r++) CDZ_TRY(read_ids(t, &rows->items[r], &at[r], err));
    *out = at;
    *n = rows->len;
    return CDZ_OK;
}

/* (rows, vocabulary) of an object's member; NULL with CDZ_OK when it has none. */
cdz_status cdz_trial_matrix(cdz_trial *t, const cdz_json *of, const char *key, float **out,
                            uint32_t *n, cdz_error *err)
{
    const cdz_json *rows = cdz_json_get(of, key);
    *out = NULL;
    if (!rows) return CDZ_OK;
    if (rows->type != CDZ_JSON_ARRAY || rows->len == 0 || rows->len > CDZ_PARITY_ROWS ||
        rows->items[0].type != CDZ_JSON_ARRAY)
        return cdz_trial_malformed("expected 1 to 64 rows of scores", err);
    uint32_t width = rows->items[0].len;
    if (t->width && t->width != width)
        return cdz_trial_malformed("rows of scores differ in length", err);
    float *at = cdz_arena_array(&t->memory, (size_t)rows->len * width, sizeof *at);
    if (!at) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t r = 0; r < rows->len; r++) {
        if (rows->items[r].type != CDZ_JSON_ARRAY || rows->items[r].len != width)
            return cdz_trial_malformed("rows of scores differ in length", err);
        for (uint32_t v = 0; v < width; v++)
            at[(size_t)r * width + v] = cdz_parity_float(&rows->items[r].items[v]);
    }
    t->request.n_vocab = t->width = width;
    *n = rows->len;
    *out = at;
    return CDZ_OK;
}

static cdz_status set_param(cdz_trial *t, const char *name, const cdz_json *value, cdz_error *err)
{
    const cdz_param_table table = cdz_params_of(t->plugin.base);
    const cdz_param *param = cdz_param_find(&table, name);
    if (!param)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "%s has no parameter %s", t->plugin.base->id, name);
    return cdz_param_set(param, (void *)(uintptr_t)t->step.params, value, &t->memory, err);
}

/* End-of-sequence ids are a fact of the request; their type is that of the generation parameter. */
static cdz_status set_eos(cdz_trial *t, const cdz_json *value, cdz_error *err)
{
    cdz_generation *generation = cdz_arena_alloc(&t->memory, sizeof *generation);
    if (!generation) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(cdz_param_set(cdz_param_find(cdz_generation_table(), "eos_token_id"), generation, value,
                          &t->memory, err));
    return value->type == CDZ_JSON_NULL ? CDZ_OK : read_ids(t, value, &t->request.eos, err);
}

/* A list of ids for each prompt: cycles of one entry each. */
static cdz_status take_allowed(cdz_trial *t, const cdz_json *lists, cdz_error *err)
{
    static const cdz_json one = {.type = CDZ_JSON_INT, .integer = 1};
    if (!cdz_json_is(lists, CDZ_JSON_ARRAY) || lists->len == 0 || lists->len > CDZ_PARITY_ROWS)
        return cdz_trial_malformed("expected 1 to 64 lists of allowed ids", err);
    cdz_json *ones = cdz_arena_array(&t->memory, lists->len, sizeof *ones);
    cdz_ids *prompts = cdz_arena_array(&t->memory, lists->len, sizeof *prompts);
    if (!ones || !prompts) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < lists->len; i++) ones[i] = one;
    const cdz_json lengths = {.type = CDZ_JSON_ARRAY, .len = lists->len, .items = ones};
    t->request.n_prompts = lists->len;
    t->request.prompts = prompts;
    CDZ_TRY(set_param(t, "cycle_lengths", &lengths, err));
    return set_param(t, "cycle", lists, err);
}

/* Rows of scores are as wide as the vocabulary. */
static cdz_status set_n_vocab(cdz_trial *t, uint32_t n_vocab, cdz_error *err)
{
    if (t->width && t->width != n_vocab)
        return cdz_trial_malformed("vocab_size is not the width of its scores", err);
    t->request.n_vocab = n_vocab;
    return CDZ_OK;
}

/* What the reference gives its constructor is here a parameter of the plugin or a fact of the request. */
static cdz_status take_param(cdz_trial *t, const char *key, const cdz_json *value, cdz_error *err)
{
    const char *from = classes[t->class].from;
    bool count = value->type == CDZ_JSON_INT && value->integer >= 0 && value->integer <= UINT32_MAX;
    if (from && strcmp(key, from) == 0) return set_param(t, classes[t->class].id, value, err);
    if (strcmp(key, "eos_token_id") == 0) return set_eos(t, value, err);
    if (strcmp(key, "encoder_input_ids") == 0)
        return cdz_trial_rows(t, value, (cdz_ids **)(uintptr_t)&t->request.prompts,
                              &t->request.n_prompts, err);
    if (count && (strcmp(key, "prompt_length_to_skip") == 0 || strcmp(key, "begin_index") == 0 ||
                  strcmp(key, "input_ids_seq_length") == 0))
        t->request.prompt_len = (uint32_t)value->integer;
    else if (count && strcmp(key, "max_length") == 0)
        t->request.max_length = (uint32_t)value->integer;
    else if (strcmp(key, "allowed_by_batch_id") == 0)
        return take_allowed(t, value, err);
    else if (strcmp(key, "use_cache") == 0 || strcmp(key, "num_beams") == 0)
        return CDZ_OK; /* makes no difference to the numbers; rows tell the beams */
    else if (strcmp(key, "elapsed") == 0)
        t->now = (double)cdz_parity_float(value);
    else if (count && strcmp(key, "vocab_size") == 0)
        return set_n_vocab(t, (uint32_t)value->integer, err);
    else if (strcmp(key, "token_strings") == 0)
        t->token_texts = value->type == CDZ_JSON_ARRAY ? value : NULL;
    else
        return set_param(t, key, value, err);
    return CDZ_OK;
}

cdz_status cdz_trial_params(cdz_trial *t, cdz_error *err)
{
    const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};
    const cdz_json *params = cdz_json_get(t->document, "params");
    const cdz_json synthid = {.type = CDZ_JSON_STRING, .string = "synthid", .len = 7};
    if (classes[t->class].flag) CDZ_TRY(set_param(t, classes[t->class].id, &yes, err));
    if (strcmp(classes[t->class].name, "SynthIDTextWatermark") == 0)
        CDZ_TRY(set_param(t, "type", &synthid, err));
    if (!cdz_json_is(params, CDZ_JSON_OBJECT)) return cdz_trial_malformed("it has no params", err);
    for (uint32_t i = 0; i < params->len; i++)
        CDZ_TRY(take_param(t, params->members[i].key, &params->members[i].value, err));
    return CDZ_OK;
}

/* --- life of a trial ------------------------------------------------------------------------------------------------ */

cdz_status cdz_trial_open(cdz_trial *t, cdz_registry *registry, const cdz_json *c, cdz_error *err)
{
    const size_t class = class_of(c);
    static const int32_t first[1] = {0};
    static const cdz_ids prompt = {first, 1};
    *t = (cdz_trial){.caller = &cdz_trial_caller, .document = c, .class = class};
    if (class == N_CLASSES) return cdz_trial_unsupported(err);
    cdz_status status = cdz_registry_find(registry, 0, classes[class].id, &t->plugin, err);
    if (status != CDZ_OK) return cdz_err(err, CDZ_E_UNSUPPORTED, "no plugin %s", classes[class].id);
    if (!cdz_trial_processor(t) && !cdz_trial_criterion(t))
        return cdz_err(err, CDZ_E_UNSUPPORTED, "%s is a strategy", classes[class].id);
    const cdz_param_table table = cdz_params_of(t->plugin.base);
    void *params = cdz_arena_alloc(&t->memory, table.params_size);
    if (!params) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    cdz_params_defaults(&table, params);
    t->request = (cdz_request_info){.size = sizeof t->request,
                                    .n_prompts = 1,
                                    .n_rows = 1,
                                    .prompt_len = 1,
                                    .n_vocab = 32,
                                    .max_length = 20,
                                    .num_beams = 1,
                                    .pad = -1,
                                    .bos = -1,
                                    .prompts = &prompt};
    for (uint32_t r = 0; r < CDZ_PARITY_ROWS; r++) t->row_index[r] = r;
    t->step = (cdz_step){.size = sizeof t->step,
                         .params = params,
                         .row_index = t->row_index,
                         .plugin = t->plugin.base,
                         .host = &cdz_trial_host,
                         .scope = t};
    const cdz_json *prompt_len = cdz_json_get(c, "prompt_len");
    if (!prompt_len) return CDZ_OK;
    if (prompt_len->type != CDZ_JSON_INT || prompt_len->integer < 0 ||
        prompt_len->integer > INT32_MAX)
        return cdz_trial_malformed("prompt_len is no count", err);
    t->request.prompt_len = (uint32_t)prompt_len->integer;
    return CDZ_OK;
}

void cdz_trial_close(cdz_trial *t)
{
    cdz_arena_free(&t->memory);
    cdz_module_release(t->plugin.module);
}

/* Ids of n rows; fewer rows in the case, or in a step of it, stand for all. */
cdz_status cdz_trial_ids(cdz_trial *t, const cdz_json *of, uint32_t n, cdz_error *err)
{
    cdz_ids *rows;
    uint32_t given;
    CDZ_TRY(cdz_trial_rows(t, cdz_json_get(of, "input_ids"), &rows, &given, err));
    if (n == 0) n = given;
    t->ids = cdz_arena_array(&t->memory, n, sizeof *t->ids);
    if (!t->ids) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t r = 0; r < n; r++) t->ids[r] = rows[r < given ? r : given - 1];
    t->request.n_rows = n;
    return CDZ_OK;
}
