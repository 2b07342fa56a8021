/* ask.c - reads the body of a completion, field by field; see ask.h. */
#include "serve/ask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

const cdz_json *cdz_ask_field(const cdz_json *object, const char *name)
{
    const cdz_json *value = cdz_json_get(object, name);
    return value && value->type != CDZ_JSON_NULL ? value : NULL;
}

static bool out_of_memory(cdz_serve_fault *fault)
{
    return cdz_serve_fault_set(fault, 500, NULL, NULL, "out of memory for the request");
}

bool cdz_ask_wrong(cdz_serve_fault *fault, const char *name, const char *expected,
                   const cdz_json *found)
{
    return cdz_serve_fault_set(fault, 400, name, NULL, "'%s' must be %s, found %s", name, expected,
                               found ? cdz_json_type_name(found) : "nothing");
}

bool cdz_ask_bool(const cdz_json *object, const char *name, bool absent, bool *out,
                  cdz_serve_fault *fault)
{
    const cdz_json *value = cdz_ask_field(object, name);
    *out = value ? value->boolean : absent;
    if (!value || value->type == CDZ_JSON_BOOL) return true;
    return cdz_ask_wrong(fault, name, "true or false", value);
}

/* A whole number in a range; *given false: it is absent. */
static bool take_int(cdz_asking *a, const char *name, int64_t low, int64_t high, int64_t *out,
                     bool *given)
{
    const cdz_json *value = cdz_ask_field(&a->body, name);
    *given = value != NULL;
    if (!value) return true;
    if (value->type != CDZ_JSON_INT) return cdz_ask_wrong(a->fault, name, "an integer", value);
    *out = value->integer;
    if (*out >= low && *out <= high) return true;
    return cdz_serve_fault_set(a->fault, 400, name, NULL,
                               "'%s' must be from %lld to %lld, found %lld", name, (long long)low,
                               (long long)high, (long long)*out);
}

/* --- generation parameters ------------------------------------------------------------------------------------ */

bool cdz_ask_set(cdz_asking *a, const char *name, const char *value)
{
    for (size_t i = 0; i < a->n_set; i++) {
        if (strcmp(a->set[i], name) != 0) continue;
        if (strcmp(a->values[i], value) == 0) return true;
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                                   "cadenza.kwargs says %s = %s, and a field of the request says %s",
                                   name, value, a->values[i]);
    }
    if (a->n_set == sizeof a->set / sizeof *a->set)
        return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL, "too many parameters");
    a->set[a->n_set] = cdz_arena_strdup(&a->arena, name);
    a->values[a->n_set] = cdz_arena_strdup(&a->arena, value);
    if (!a->set[a->n_set] || !a->values[a->n_set]) return out_of_memory(a->fault);
    a->n_set++;
    cdz_buf_puts(&a->kwargs, a->kwargs.len ? ", " : "");
    cdz_json_write_string(&a->kwargs, name, strlen(name));
    cdz_buf_printf(&a->kwargs, ": %s", value);
    return !a->kwargs.failed || out_of_memory(a->fault);
}

static bool set_json(cdz_asking *a, const char *name, const cdz_json *value)
{
    cdz_buf text = {0};
    cdz_json_write(&text, value);
    const bool good = text.failed ? out_of_memory(a->fault) : cdz_ask_set(a, name, text.data);
    cdz_buf_free(&text);
    return good;
}

static bool set_int(cdz_asking *a, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return cdz_ask_set(a, name, text);
}

/* Fields that are a generation parameter under another name, or its own. */
static const struct {
    const char *field, *parameter;
    bool whole; /* an integer */
    bool above; /* low itself is refused */
    double low, high;
} numbers[] = {
    {"temperature", "temperature", false, false, 0, 1e6},
    {"top_p", "top_p", false, true, 0, 1},
    {"top_k", "top_k", true, false, -1, 1e9},
    {"min_p", "min_p", false, false, 0, 1},
    {"typical_p", "typical_p", false, true, 0, 1},
    {"repetition_penalty", "repetition_penalty", false, true, 0, 1e6},
    {"repeat_penalty", "repetition_penalty", false, true, 0, 1e6},
    {"length_penalty", "length_penalty", false, false, -1e6, 1e6},
    {"min_tokens", "min_new_tokens", true, false, 0, 1e9},
};

static bool set_number(cdz_asking *a, size_t i, const cdz_json *value)
{
    double x = 0;
    const char *field = numbers[i].field;
    if (!cdz_json_number(value, &x)) return cdz_ask_wrong(a->fault, field, "a number", value);
    if (numbers[i].whole && value->type != CDZ_JSON_INT)
        return cdz_ask_wrong(a->fault, field, "an integer", value);
    if (x < numbers[i].low || x > numbers[i].high || (numbers[i].above && x <= numbers[i].low))
        return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s' must be %s %g%s%g, found %g",
                                   field, numbers[i].above ? "above" : "from", numbers[i].low,
                                   numbers[i].above ? " and at most " : " to ", numbers[i].high, x);
    if (strcmp(field, "repeat_penalty") == 0 && cdz_ask_looks_back(a)) return true;
    if (strcmp(field, "top_k") == 0 && x < 0) return set_int(a, "top_k", 0);
    if (strcmp(field, "temperature") != 0) return set_json(a, numbers[i].parameter, value);
    if (x <= 0) return cdz_ask_set(a, "do_sample", "false");
    return cdz_ask_set(a, "do_sample", "true") && set_json(a, "temperature", value);
}

static bool take_numbers(cdz_asking *a)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const cdz_json *value = cdz_ask_field(&a->body, numbers[i].field);
        if (value && !set_number(a, i, value)) return false;
    }
    return true;
}

/* {"id": bias} becomes [[[id], bias], ...]. */
static bool take_logit_bias(cdz_asking *a)
{
    const cdz_json *bias = cdz_ask_field(&a->body, "logit_bias");
    const long most = (long)cdz_model_vocab_size(a->world->model);
    cdz_buf text = {0};
    bool good = true;
    if (!bias) return true;
    if (bias->type != CDZ_JSON_OBJECT)
        return cdz_ask_wrong(a->fault, "logit_bias", "an object of ids and numbers", bias);
    if (!bias->len) return true;
    for (uint32_t i = 0; good && i < bias->len; i++) {
        char *end;
        double x;
        const cdz_json_member *m = &bias->members[i];
        const long id = strtol(m->key, &end, 10);
        good = *m->key >= '0' && *m->key <= '9' && !*end && id < most &&
               (*m->key != '0' || !m->key[1]) && cdz_json_number(&m->value, &x) && fabs(x) <= 100;
        if (!good)
            cdz_serve_fault_set(
                a->fault, 400, "logit_bias", NULL,
                "'logit_bias' \"%.40s\": expected an id below %ld and a number from -100 "
                "to 100",
                m->key, most);
        cdz_buf_printf(&text, "%s[[%ld], ", i ? ", " : "[", id);
        if (good) cdz_json_write_real(&text, x);
        cdz_buf_putc(&text, ']');
    }
    cdz_buf_putc(&text, ']');
    if (good)
        good = text.failed ? out_of_memory(a->fault) : cdz_ask_set(a, "sequence_bias", text.data);
    cdz_buf_free(&text);
    return good;
}

/* --- names ---------------------------------------------------------------------------------------------------- */

/* Known, and not to be had here: refused unless they say what would be done anyway. */
static const struct {
    const char *name;
    const char *neutral; /* the JSON that is let through; NULL: null alone */
    const char *says;
} refused[] = {
    {"functions", NULL, "use 'tools'"},
    {"function_call", NULL, "use 'tool_choice'"},
    {"modalities", "[\"text\"]", "answers are text"},
    {"audio", NULL, "answers are text"},
    {"prediction", NULL, "predicted outputs are not used; drafts are a strategy"},
    {"web_search_options", NULL, "the server looks nothing up"},
    {"chat_template", NULL, "a template from a request is code, which this server does not run"},
    {"n_probs", "0", "use 'logprobs'"},
    {"samplers", NULL, "the order of processors is a pipeline's"},
    {"return_progress", "false", "progress is not told"},
    {"timings_per_token", "false", "times of tokens are not told"},
    {"use_beam_search", "false", "use cadenza.kwargs.num_beams"},
    {"logits_processors", "[]", "use cadenza.processors"},
    {"prompt_embeds", NULL, "prompts are texts or ids"},
    {"min_keep", "0", "a cut keeps what it keeps"},
    {"tfs_z", "1", "use the processor tail_free, by cadenza.processors"},
    {"adaptive_target", "-1", "use cadenza.processors"},
    {"n_cmpl", "1", "use 'n'"},
    {"t_max_prompt_ms", "-1", "use 't_max_predict_ms', which counts the prompt too"},
    {"truncation_side", "\"left\"", "of a prompt that is cut the end stays"},
    {"guided_whitespace_pattern", NULL, "a grammar says where blanks may be"},
    {"grammar_lazy", "false", "use 'structural_tag' of 'response_format'"},
    {"grammar_triggers", "[]", "use 'structural_tag' of 'response_format'"},
    {"thinking_token_budget", "-1", "use cadenza.strategy"},
    {"thinking_budget_tokens", "-1", "use cadenza.strategy"},
    {"reasoning_in_content", "false", "use 'reasoning_format'"},
    {"thinking_forced_open", "false", "the chat template says where an answer begins"},
    {"repetition_detection", NULL, "use cadenza.processors"},
    {"image_data", "[]", "prompts are texts or ids"},
    {"multimodal_data", "[]", "prompts are texts or ids"},
    {"n_indent", "0", "use cadenza.processors"},
    {"response_fields", "[]", "answers have all their fields"},
    {"return_tokens", "false", "use 'return_token_ids'"},
    {"include_reasoning", "true", "use 'reasoning_format'"},
    {"kv_transfer_params", "{}", "nothing is handed to another server"},
    {"vllm_xargs", "{}", "use cadenza.kwargs"},
    {"mm_processor_kwargs", "{}", "prompts are texts or ids"},
    {"media_io_kwargs", "{}", "prompts are texts or ids"},
    {"post_sampling_probs", "false", "log-probabilities are of the model's own logits"},
    {"lora", "[]", "there are no adapters here"},
};

static bool is_json(const cdz_json *value, const char *text, size_t n)
{
    char number[32];
    switch (value->type) {
    case CDZ_JSON_BOOL: snprintf(number, sizeof number, value->boolean ? "true" : "false"); break;
    case CDZ_JSON_INT: snprintf(number, sizeof number, "%lld", (long long)value->integer); break;
    case CDZ_JSON_STRING:
        return n == value->len + 2 && text[0] == '"' &&
               memcmp(text + 1, value->string, value->len) == 0;
    case CDZ_JSON_ARRAY:
        if (!value->len) return strcmp(text, "[]") == 0;
        return value->len == 1 && text[0] == '[' && is_json(value->items, text + 1, n - 2);
    case CDZ_JSON_OBJECT: return !value->len && strcmp(text, "{}") == 0;
    default: return false;
    }
    return strlen(number) == n && memcmp(number, text, n) == 0;
}

bool cdz_ask_is_json(const cdz_json *value, const char *text)
{
    return is_json(value, text, strlen(text));
}

/* Whether a value asks for what is done anyway; 1 and 1.0 are one number. */
static bool is_neutral(const cdz_json *value, const char *neutral)
{
    char *end;
    double x;
    const double number = strtod(neutral, &end);
    if (!*end && cdz_json_number(value, &x)) return !(x < number || x > number);
    return cdz_ask_is_json(value, neutral);
}

static bool refuse_names(cdz_asking *a)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const cdz_json *value = cdz_ask_field(&a->body, refused[i].name);
        if (!value || (refused[i].neutral && is_neutral(value, refused[i].neutral))) continue;
        return cdz_serve_fault_set(a->fault, 400, refused[i].name, NULL,
                                   "'%s' is not supported: %s", refused[i].name, refused[i].says);
    }
    return true;
}

bool cdz_ask_model(const cdz_ask_world *world, const cdz_json *body, cdz_serve_fault *fault)
{
    const cdz_json *model = cdz_ask_field(body, "model");
    if (!model) return true;
    if (model->type != CDZ_JSON_STRING) return cdz_ask_wrong(fault, "model", "a string", model);
    if (cdz_json_eq(model, world->model_id)) return true;
    return cdz_serve_fault_set(fault, 404, "model", "model_not_found",
                               "there is no model '%.80s' here; /v1/models lists them",
                               model->string);
}

/* --- the answer's form ---------------------------------------------------------------------------------------- */

static bool take_stream(cdz_asking *a)
{
    const cdz_json *options = cdz_ask_field(&a->body, "stream_options");
    if (!cdz_ask_bool(&a->body, "stream", false, &a->stream, a->fault)) return false;
    if (!options) return true;
    if (options->type != CDZ_JSON_OBJECT)
        return cdz_ask_wrong(a->fault, "stream_options", "an object", options);
    if (!a->stream)
        return cdz_serve_fault_set(a->fault, 400, "stream_options", NULL,
                                   "'stream_options' goes with 'stream': true");
    if (!cdz_ask_bool(options, "include_usage", false, &a->usage, a->fault) ||
        !cdz_ask_bool(options, "continuous_usage_stats", false, &a->usage_each, a->fault))
        return false;
    a->usage_each = a->usage_each && a->usage;
    return true;
}

/* vLLM's: of the prompt's own tokens, and of so many leaders in each place. */
static bool take_prompt_logprobs(cdz_asking *a)
{
    int64_t top = 0;
    if (!take_int(a, "prompt_logprobs", 0, CDZ_ASK_MOST_TOP, &top, &a->prompt_logprobs))
        return false;
    a->prompt_top = (uint32_t)top;
    const char *where = a->respond ? "of a response" : a->stream ? "with 'stream'" : NULL;
    if (!a->prompt_logprobs || !where) return true;
    return cdz_serve_fault_set(a->fault, 400, "prompt_logprobs", NULL,
                               "'prompt_logprobs' is not supported %s", where);
}

static bool take_logprobs(cdz_asking *a)
{
    int64_t top = 0;
    bool given;
    if (!a->chat) {
        if (!take_int(a, "logprobs", 0, CDZ_ASK_MOST_TOP, &top, &a->logprobs)) return false;
        a->top = (uint32_t)top;
        return true;
    }
    if (!cdz_ask_bool(&a->body, "logprobs", false, &a->logprobs, a->fault) ||
        !take_int(a, "top_logprobs", 0, CDZ_ASK_MOST_TOP, &top, &given))
        return false;
    a->top = (uint32_t)top;
    if (!given || a->logprobs) return true;
    return cdz_serve_fault_set(a->fault, 400, "top_logprobs", NULL,
                               "'top_logprobs' goes with 'logprobs': true");
}

static bool take_salt(cdz_asking *a)
{
    const cdz_json *salt = cdz_ask_field(&a->body, "cache_salt");
    if (!salt) return true;
    if (salt->type != CDZ_JSON_STRING)
        return cdz_ask_wrong(a->fault, "cache_salt", "a string", salt);
    a->cache_salt = salt->string;
    return true;
}

static bool take_priority(cdz_asking *a)
{
    bool given;
    if (!take_int(a, "priority", INT64_MIN, INT64_MAX, &a->priority, &given)) return false;
    if (!a->priority || cdz_scheduler_has_priorities(a->world->runtime)) return true;
    return cdz_serve_fault_set(a->fault, 400, "priority", NULL,
                               "'priority' is not supported: the scheduler has no priorities; "
                               "'scheduler = priority' in [server] has");
}

/* The best of several are known when all have ended, so that they are no stream. */
static bool check_best_of(cdz_asking *a)
{
    const char *why = a->tried < a->n    ? "must be at least 'n'"
                      : a->tried == a->n ? NULL
                      : a->chat          ? "is of /v1/completions alone"
                      : a->stream        ? "above 'n' is not streamed"
                                         : NULL;
    return !why ||
           cdz_serve_fault_set(a->fault, 400, "best_of", NULL, "'best_of' %s, found %u with 'n' %u",
                               why, (unsigned)a->tried, (unsigned)a->n);
}

static bool take_counts(cdz_asking *a)
{
    int64_t n = 1, best = 1, tokens = -1, newer = -1, other = -1;
    bool has_n, has_best, has_tokens, has_newer, has_other;
    const char *const name = a->respond ? "max_output_tokens" : "max_completion_tokens";
    const int64_t least = !a->chat && a->echo ? 0 : 1;
    if (!take_int(a, "n", 1, CDZ_ASK_MOST_N, &n, &has_n) ||
        !take_int(a, "best_of", 1, CDZ_ASK_MOST_N, &best, &has_best) ||
        !take_int(a, "n_predict", -1, INT32_MAX, &other, &has_other) ||
        (has_other && !other && !take_int(a, "n_predict", least, INT32_MAX, &other, &has_other)) ||
        !take_int(a, "max_tokens", least, INT32_MAX, &tokens, &has_tokens) ||
        !take_int(a, name, least, INT32_MAX, &newer, &has_newer) ||
        !take_int(a, "seed", INT64_MIN, INT64_MAX, &a->seed, &a->seeded))
        return false;
    a->n = (uint32_t)n;
    a->tried = has_best ? (uint32_t)best : a->n;
    if (!check_best_of(a)) return false;
    a->max_tokens = has_newer ? newer : has_tokens ? tokens : has_other ? other : -1;
    a->endless = !has_newer && !has_tokens && has_other && other < 0;
    return true;
}

/* The texts of a list, which stay in the body, and the list as JSON. */
static bool read_stops(cdz_asking *a, const cdz_json *all, uint32_t n, const char **texts,
                       cdz_buf *json)
{
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].type != CDZ_JSON_STRING)
            return cdz_ask_wrong(a->fault, "stop", "a string or a list of strings", &all[i]);
        if (!all[i].len || strlen(all[i].string) != all[i].len)
            return cdz_serve_fault_set(a->fault, 400, "stop", NULL,
                                       "'stop' holds a string that is empty or has a NUL in it");
        texts[i] = all[i].string;
        cdz_buf_puts(json, i ? ", " : "[");
        cdz_json_write_string(json, all[i].string, all[i].len);
    }
    cdz_buf_putc(json, ']');
    return !json->failed || out_of_memory(a->fault);
}

static bool take_stops(cdz_asking *a)
{
    const cdz_json *stop = cdz_ask_field(&a->body, "stop");
    cdz_buf text = {0};
    if (!cdz_ask_bool(&a->body, "include_stop_str_in_output", false, &a->stops.keep, a->fault))
        return false;
    if (!stop) return true;
    const cdz_json *all = stop->type == CDZ_JSON_ARRAY ? stop->items : stop;
    const uint32_t n = stop->type == CDZ_JSON_ARRAY ? stop->len : 1;
    const char **texts = cdz_arena_array(&a->arena, n ? n : 1, sizeof *texts);
    if (!texts) return out_of_memory(a->fault);
    a->stops.at = texts;
    a->stops.n = n;
    /* A text that the prompt begins is none of the answer: nothing could be cut off. */
    const bool good = read_stops(a, all, n, texts, &text) &&
                      (!n || (cdz_ask_set(a, "stop_strings", text.data) &&
                              cdz_ask_set(a, "stop_strings.in_prompt", "false")));
    cdz_buf_free(&text);
    return good;
}

/* --- prompts ---------------------------------------------------------------------------------------------------- */

bool cdz_ask_ids(const cdz_ask_world *world, const cdz_json *list, const char *name, int32_t **ids,
                 size_t *n, cdz_serve_fault *fault)
{
    const int64_t most = cdz_model_vocab_size(world->model);
    int32_t *out = malloc((list->len + (size_t)1) * sizeof *out);
    if (!out) return out_of_memory(fault);
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *id = &list->items[i];
        const bool good = id->type == CDZ_JSON_INT && id->integer >= 0 && id->integer < most;
        if (good) out[i] = (int32_t)id->integer;
        if (good) continue;
        free(out);
        return cdz_serve_fault_set(fault, 400, name, NULL,
                                   "'%s' entry %u: expected an id from 0 to %lld", name, i,
                                   (long long)most - 1);
    }
    *ids = out;
    *n = list->len;
    return true;
}

static bool take_text(cdz_asking *a, const cdz_json *text, cdz_ask_prompt *out)
{
    bool special;
    cdz_error err = {0};
    if (!cdz_ask_bool(&a->body, "add_special_tokens", true, &special, a->fault)) return false;
    out->text = text->string;
    if (strlen(text->string) != text->len)
        return cdz_serve_fault_set(a->fault, 400, "prompt", NULL, "'prompt' holds a NUL character");
    cdz_buf whole = {0};
    if (a->suffix)
        cdz_ask_fill_in(a, text->string, &whole);
    else
        cdz_buf_add(&whole, text->string, text->len);
    const cdz_status status = whole.failed ? cdz_err_memory(&err, "'prompt'")
                                           : cdz_tokenize(a->world->model, whole.data, whole.len,
                                                          special, &out->ids, &out->n, &err);
    cdz_buf_free(&whole);
    return status == CDZ_OK || cdz_serve_fault_of(a->fault, "prompt", &err);
}

static bool add_prompt(cdz_asking *a, const cdz_json *value)
{
    cdz_ask_prompt *p = &a->prompts[a->n_prompts];
    if (a->suffix && value->type != CDZ_JSON_STRING)
        return cdz_serve_fault_set(a->fault, 400, "suffix", NULL,
                                   "'suffix' goes with a prompt that is a text");
    if (value->type == CDZ_JSON_STRING
            ? !take_text(a, value, p)
            : !cdz_ask_ids(a->world, value, "prompt", &p->ids, &p->n, a->fault))
        return false;
    a->n_prompts++;
    if (p->n) return true;
    return cdz_serve_fault_set(a->fault, 400, "prompt", NULL,
                               "'prompt' holds a prompt of no tokens");
}

static bool take_prompts(cdz_asking *a)
{
    const cdz_json *prompt = cdz_ask_field(&a->body, "prompt");
    if (!prompt) return cdz_serve_fault_set(a->fault, 400, "prompt", NULL, "'prompt' is missing");
    const bool list = prompt->type == CDZ_JSON_ARRAY;
    if (!list && prompt->type != CDZ_JSON_STRING)
        return cdz_ask_wrong(a->fault, "prompt", "a string or a list", prompt);
    if (list && !prompt->len)
        return cdz_serve_fault_set(a->fault, 400, "prompt", NULL, "'prompt' is an empty list");
    const bool one = !list || prompt->items[0].type == CDZ_JSON_INT;
    const uint32_t n = one ? 1 : prompt->len;
    if (n > CDZ_ASK_MOST_PROMPTS)
        return cdz_serve_fault_set(a->fault, 400, "prompt", NULL,
                                   "'prompt' holds more than %d prompts", CDZ_ASK_MOST_PROMPTS);
    a->prompts = calloc(n, sizeof *a->prompts);
    if (!a->prompts) return out_of_memory(a->fault);
    if (one) return add_prompt(a, prompt);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *item = &prompt->items[i];
        if (item->type != prompt->items[0].type ||
            (item->type != CDZ_JSON_STRING && item->type != CDZ_JSON_ARRAY))
            return cdz_serve_fault_set(a->fault, 400, "prompt", NULL,
                                       "'prompt' must be a string, ids, or a list of either kind");
        if (!add_prompt(a, item)) return false;
    }
    return true;
}

static bool take_messages(cdz_asking *a)
{
    a->prompts = calloc(1, sizeof *a->prompts);
    if (!a->prompts) return out_of_memory(a->fault);
    a->n_prompts = 1;
    return cdz_ask_messages(a->world, &a->body, &a->prompts[0].ids, &a->prompts[0].n, a->fault);
}

static bool truncate_prompts(cdz_asking *a)
{
    int64_t most = 0;
    bool given;
    if (!take_int(a, "truncate_prompt_tokens", -1, INT32_MAX, &most, &given)) return false;
    if (given && !most)
        return cdz_serve_fault_set(a->fault, 400, "truncate_prompt_tokens", NULL,
                                   "'truncate_prompt_tokens' must be above 0, or -1: all");
    for (size_t i = 0; given && most > 0 && i < a->n_prompts; i++) {
        cdz_ask_prompt *p = &a->prompts[i];
        if (p->n <= (size_t)most) continue;
        memmove(p->ids, p->ids + (p->n - (size_t)most), (size_t)most * sizeof *p->ids);
        p->n = (size_t)most;
        p->text = NULL;
    }
    return true;
}

/* A prompt leaves room for a token, or for none where none is asked for. */
static bool check_room(cdz_asking *a)
{
    const uint32_t context = cdz_model_context(a->world->model);
    if (cdz_model_has_encoder(a->world->model) || !context) return true;
    for (size_t i = 0; i < a->n_prompts; i++)
        if (a->prompts[i].n >= context && !(a->max_tokens == 0 && a->prompts[i].n == context))
            return cdz_serve_fault_set(
                a->fault, 400, a->chat ? "messages" : "prompt", "context_length_exceeded",
                "the prompt has %zu tokens; the model's context is %u", a->prompts[i].n, context);
    return true;
}

/* --- all of it ------------------------------------------------------------------------------------------------ */

/* The JSON that a generation parameter was set to; NULL: it was not. */
static const char *value_of(const cdz_asking *a, const char *name)
{
    for (size_t i = 0; i < a->n_set; i++)
        if (strcmp(a->set[i], name) == 0) return a->values[i];
    return NULL;
}

/* The limit of a field and one of cadenza.kwargs are the same, or one of them would be neglected. */
static bool agree_on_length(cdz_asking *a)
{
    const char *length = value_of(a, "max_length"), *fresh = value_of(a, "max_new_tokens");
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)a->max_tokens);
    if (a->max_tokens < 0 || (!length && (!fresh || strcmp(fresh, text) == 0))) return true;
    return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                               "cadenza.kwargs says %s = %s, and a field of the request says that "
                               "there are at most %s new tokens",
                               length ? "max_length" : "max_new_tokens", length ? length : fresh,
                               text);
}

static bool contradicts(cdz_asking *a, const char *name, const char *value, const char *field)
{
    return cdz_serve_fault_set(a->fault, 400, "cadenza", NULL,
                               "cadenza.kwargs says %s = %s, and a field of the request says %s",
                               name, value, field);
}

/* What fields say by other ways than a parameter of the same name. */
static bool agree_on_draws(cdz_asking *a)
{
    char text[32];
    double x = 1, other = 0;
    const char *seed = value_of(a, "seed"), *warmth = value_of(a, "temperature");
    const cdz_json *temperature = cdz_ask_field(&a->body, "temperature");
    snprintf(text, sizeof text, "%lld", (long long)a->seed);
    if (a->seeded && seed && strcmp(seed, text) != 0) return contradicts(a, "seed", seed, text);
    if (warmth) other = strtod(warmth, NULL);
    if (temperature && cdz_json_number(temperature, &x) && x <= 0 && other > 0)
        return contradicts(a, "temperature", warmth, "0");
    return true;
}

enum { LONGEST_ANSWER = 4096 }; /* of a model whose context has no end (0), as mamba2's */

static int64_t room_for(uint32_t context, size_t prompt)
{
    if (context == 0) return LONGEST_ANSWER;
    return context > prompt ? (int64_t)(context - prompt) : 1;
}

/* How many new tokens, where nothing more specific says it: a chat goes on to the end of the context. */
static bool settle_length(cdz_asking *a)
{
    const uint32_t context = cdz_model_context(a->world->model);
    if (value_of(a, "max_new_tokens") || value_of(a, "max_length")) return agree_on_length(a);
    if (a->max_tokens < 0 && a->named_pipeline && !a->endless) return true;
    if (a->max_tokens < 0 && (a->chat || a->endless))
        a->max_tokens = room_for(context, a->prompts[0].n);
    if (a->max_tokens < 0) a->max_tokens = 16;
    return a->max_tokens == 0 || set_int(a, "max_new_tokens", a->max_tokens);
}

bool cdz_ask_parse(const char *body, size_t len, cdz_arena *arena, cdz_json *out,
                   cdz_serve_fault *fault)
{
    static const cdz_json_limits limits = {.depth = 128, .nodes = 4 << 20};
    cdz_error err = {0};
    if (cdz_json_parse(body ? body : "", len, "body", &limits, arena, out, &err) != CDZ_OK)
        return cdz_serve_fault_set(fault, err.code == CDZ_E_NOMEM ? 500 : 400, NULL, NULL, "%s",
                                   err.text);
    if (out->type == CDZ_JSON_OBJECT) return true;
    return cdz_serve_fault_set(fault, 400, NULL, NULL, "the body must be a JSON object, found %s",
                               cdz_json_type_name(out));
}

/* A response says "input" where a chat has "messages". */
static bool told(cdz_asking *a, bool good)
{
    if (!good && a->respond && strcmp(a->fault->param, "messages") == 0)
        snprintf(a->fault->param, sizeof a->fault->param, "input");
    return good;
}

static bool read_fields(cdz_asking *a)
{
    cdz_serve_fault *fault = a->fault;
    return cdz_ask_model(a->world, &a->body, fault) && refuse_names(a) && cdz_ask_place(a) &&
           take_stream(a) && (a->chat || cdz_ask_bool(&a->body, "echo", false, &a->echo, fault)) &&
           take_logprobs(a) && take_prompt_logprobs(a) && take_counts(a) && cdz_ask_structured(a) &&
           (!a->chat || cdz_ask_answer_form(a)) &&
           cdz_ask_bool(&a->body, "return_token_ids", false, &a->return_ids, fault) &&
           cdz_ask_bool(&a->body, "return_tokens_as_token_ids", false, &a->ids_as_text, fault) &&
           take_numbers(a) && take_salt(a) && take_priority(a) && take_logit_bias(a) &&
           take_stops(a) && (a->chat || cdz_ask_suffix(a)) && cdz_ask_tokens(a) &&
           cdz_ask_known(a) && cdz_ask_cadenza(a);
}

bool cdz_ask_read(cdz_asking *a, const cdz_ask_world *world, cdz_ask_kind kind, const char *body,
                  size_t len, cdz_serve_fault *fault)
{
    *a = (cdz_asking){.world = world,
                      .fault = fault,
                      .chat = kind != CDZ_ASK_COMPLETION,
                      .respond = kind == CDZ_ASK_RESPONSE,
                      .max_tokens = -1};
    const bool good = cdz_ask_parse(body, len, &a->arena, &a->body, fault) &&
                      (!a->respond || cdz_ask_response(a)) && read_fields(a) &&
                      (a->chat ? take_messages(a) : take_prompts(a)) && truncate_prompts(a) &&
                      check_room(a) && settle_length(a) && agree_on_draws(a);
    return told(a, good && (!a->chat || cdz_ask_thinking(a)));
}

void cdz_ask_free(cdz_asking *a)
{
    for (size_t i = 0; i < a->n_prompts; i++) cdz_free(a->prompts[i].ids);
    free(a->prompts);
    if (a->own_pipeline) cdz_pipeline_free(a->pipeline);
    cdz_buf_free(&a->kwargs);
    cdz_arena_free(&a->arena);
}

void cdz_ask_write_ids(cdz_buf *out, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%d", i ? "," : "", (int)ids[i]);
}

void cdz_ask_write_prompt(cdz_buf *out, const cdz_ask_prompt *prompt, const int32_t *ids, size_t n)
{
    cdz_buf_puts(out, "\"prompt_ids\": [[");
    cdz_ask_write_ids(out, prompt->ids, prompt->n);
    if (prompt->n && n) cdz_buf_putc(out, ',');
    cdz_ask_write_ids(out, ids, n);
    cdz_buf_puts(out, "]], \"attention_mask\": [[");
    for (size_t i = 0; i < prompt->n + n; i++) cdz_buf_puts(out, i ? ",1" : "1");
    cdz_buf_puts(out, "]]");
}

void cdz_ask_document(const cdz_asking *a, size_t prompt, uint32_t n, cdz_buf *out)
{
    cdz_buf_putc(out, '{');
    cdz_ask_write_prompt(out, &a->prompts[prompt], NULL, 0);
    cdz_buf_puts(out, ", \"kwargs\": {");
    cdz_buf_puts(out, a->kwargs.data ? a->kwargs.data : "");
    if (n > 1) cdz_buf_printf(out, "%s\"num_return_sequences\": %u", a->kwargs.len ? ", " : "", n);
    cdz_buf_putc(out, '}');
    if (a->seeded) cdz_buf_printf(out, ", \"seed\": %lld", (long long)a->seed);
    if (a->written) {
        cdz_buf_puts(out, ", \"pipeline\": ");
        cdz_json_write(out, a->written);
    }
    cdz_buf_putc(out, '}');
}
