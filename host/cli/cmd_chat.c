/* cmd_chat.c - cadenza chat: a conversation in the terminal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/answers.h"
#include "api/api.h"
#include "base/write.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/cmd_run.h"
#include "cli/places.h"
#include "cli/printable.h"
#include "prepare/prepare.h"

static const cdz_flag flags[] = {
    {"system", 0, CDZ_OPT_OWN, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "system message of the conversation"},
    {"prompt", 'p', 'p', CDZ_FLAG_ONCE, "TEXT", "the first question"},
    {0},
};

typedef struct chat {
    cdz_cli_options options; /* settings grow by /set */
    cdz_session session;
    cdz_chat_template *chat_template;
    cdz_turns turns;
    const char *system, *first;     /* of the command line, or NULL */
    bool interactive, warned, over; /* over: leave */
    uint64_t running;               /* the request Ctrl-C cancels */
    cdz_answer_form form;           /* of the model's answers */
    cdz_reply reply;
    cdz_buf answer, reasoning;
    uint32_t n_read,
        n_reused; /* prompt tokens of the last answer: computed, and found in the KV cache */
} chat;

/* --- an answer ------------------------------------------------------------------------------------------------ */

/* With special tokens by the user's wish an answer is shown as it comes. */
static bool shows_all(const chat *c)
{
    return c->options.host.request.stream & CDZ_STREAM_SPECIAL;
}

/* The markers of channels may be tokens that texts leave out. */
static bool reads_special(const chat *c)
{
    return c->form.reply.channels && c->form.marks_special && !shows_all(c);
}

static void put(chat *c, const char *text, size_t len, cdz_buf *out)
{
    const size_t from = out->len;
    cdz_buf_add(out, text, len);
    if (!out->failed) cdz_session_put_text(&c->session, out->data + from);
}

static void on_text(void *user, const char *text, size_t len)
{
    chat *c = user;
    if (c->interactive && c->reasoning.len && !c->answer.len) cdz_printable_tell("\033[0m\n\n");
    put(c, text, len, &c->answer);
}

/* Pale at a terminal; elsewhere only the answer itself is wanted. */
static void on_reasoning(void *user, const char *text, size_t len)
{
    chat *c = user;
    if (!c->interactive) {
        cdz_buf_add(&c->reasoning, text, len);
        return;
    }
    if (!c->reasoning.len) cdz_printable_tell("\033[2m");
    put(c, text, len, &c->reasoning);
}

static void on_event(void *user, const cdz_event *event)
{
    chat *c = user;
    if (event->kind != CDZ_EVENT_TOKENS || event->row != 0) return;
    size_t len = strlen(event->text);
    if (reads_special(c)) len = cdz_model_answer_shown(c->session.model, &c->form.reply, event);
    if (len == SIZE_MAX)
        c->reply.failed = true;
    else if (shows_all(c))
        put(c, event->text, len, &c->answer);
    else
        cdz_reply_feed(&c->reply, event->text, len);
}

static cdz_status begin_answer(chat *c, const int32_t *ids, uint32_t n, cdz_error *err)
{
    bool thinking;
    cdz_buf_clear(&c->answer);
    cdz_buf_clear(&c->reasoning);
    cdz_buf_add(&c->answer, "", 0);
    CDZ_TRY(cdz_model_answer_thinks(c->session.model, &c->form.reply, ids, n, &thinking, err));
    c->reply = (cdz_reply){.form = c->form.reply,
                           .sink = {on_text, on_reasoning, NULL, c},
                           .place = thinking ? CDZ_REPLY_THINKING : CDZ_REPLY_START,
                           .trim = thinking};
    return CDZ_OK;
}

static cdz_status end_answer(chat *c, cdz_status status, cdz_error *err)
{
    cdz_reply_end(&c->reply);
    const bool failed = c->reply.failed || c->answer.failed || c->reasoning.failed;
    cdz_reply_free(&c->reply);
    if (c->interactive && c->reasoning.len && !c->answer.len) cdz_printable_tell("\033[0m");
    if (status == CDZ_OK && failed) return cdz_err_memory(err, "the answer");
    return status;
}

static void cancel(void *user)
{
    chat *c = user;
    cdz_cancel(c->session.runtime, c->running, NULL);
}

static cdz_status conversation_ids(const chat *c, int32_t **ids, uint32_t *n, cdz_error *err)
{
    return cdz_turns_ids(c->chat_template, cdz_run_model_tokenizer(c->session.model->run),
                         &c->turns, ids, n, err);
}

/* Keys whose frequencies change with a row's length (dynamic rope) are not those of a conversation read anew. */
static bool can_keep_state(const chat *c)
{
    const cdz_arch *arch = &cdz_run_model_weights(c->session.model->run)->arch;
    return !arch->rope_limit || arch->long_inv_freq;
}

static cdz_status run_request(chat *c, const cdz_request *request, cdz_result **result,
                              cdz_error *err)
{
    CDZ_TRY(cdz_submit(c->session.runtime, request, &c->running, err));
    cdz_cli_on_interrupt(cancel, c);
    cdz_status status = cdz_wait(c->session.runtime, c->running, result, err);
    cdz_cli_on_interrupt(NULL, NULL);
    cdz_cli_clear_interrupt();
    return status;
}

/* The states of earlier answers go where there is no room for both them and the request. */
static cdz_status run_beside_states(chat *c, cdz_request *request, cdz_result **result,
                                    cdz_error *err)
{
    cdz_status status = run_request(c, request, result, err);
    if (status != CDZ_E_LIMIT || c->answer.len || !cdz_turns_free_states(&c->turns)) return status;
    cdz_result_free(*result);
    *result = NULL;
    *err = (cdz_error){0};
    request->past = NULL;
    return run_request(c, request, result, err);
}

static cdz_status check_room(const chat *c, uint32_t n, cdz_error *err)
{
    const uint32_t context = cdz_model_context(c->session.model);
    if (!context || n < context) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "the conversation has %u tokens; the model's context is %u: /trim forgets the "
                   "oldest questions, /undo the last, /clear all",
                   n, context);
}

/* Runs the conversation so far; what came of it is in c->answer. *result may be made on failure, too. */
static cdz_status generate(chat *c, cdz_result **result, cdz_error *err)
{
    int32_t *ids;
    uint32_t n;
    *result = NULL;
    CDZ_TRY(conversation_ids(c, &ids, &n, err));
    cdz_request request = cdz_session_request(&c->session, &c->options);
    request.ids = ids;
    request.n_ids = n;
    request.on_event = on_event;
    request.user = c;
    request.past = can_keep_state(c) ? cdz_turns_state(&c->turns) : NULL;
    request.keep_cache = can_keep_state(c);
    if (reads_special(c)) request.stream |= CDZ_STREAM_SPECIAL;
    cdz_status status = check_room(c, n, err);
    if (status == CDZ_OK) status = begin_answer(c, ids, n, err);
    if (status == CDZ_OK) status = end_answer(c, run_beside_states(c, &request, result, err), err);
    if (*result) {
        c->n_read = (*result)->outcome->n_prompt_tokens;
        c->n_reused = (*result)->outcome->n_reused_tokens;
    }
    free(ids);
    return status;
}

/* Each pipeline's are told once. */
static void say_warnings(chat *c, const cdz_result *result)
{
    if (result && !c->warned) cdz_cli_say_warnings(&c->options, result);
    c->warned = true;
}

/* The answer becomes a turn, without special tokens, which owns the KV state that the result holds. */
static bool keep_answer(chat *c, cdz_result *result)
{
    const bool marked = shows_all(c) && result && cdz_result_rows(result);
    const char *text = marked ? cdz_result_text(result, 0) : c->answer.data;
    if (!cdz_turns_add(&c->turns, CDZ_ROLE_ASSISTANT, text) ||
        (c->reasoning.len && !cdz_turns_reason(&c->turns, c->reasoning.data))) {
        cdz_result_free(result);
        return false;
    }
    if (result && result->outcome->kept)
        c->turns.at[c->turns.n - 1].state = result;
    else
        cdz_result_free(result);
    return true;
}

/* Answers the last user turn. On failure that turn is taken back. */
static int answer(chat *c)
{
    cdz_error err = {0};
    cdz_result *result;
    cdz_status status = generate(c, &result, &err);
    bool stopped = status == CDZ_E_CANCELLED || status == CDZ_E_DEADLINE;
    if (status == CDZ_OK || stopped) {
        puts(stopped ? " [stopped]" : "");
        fflush(stdout); /* what is said next comes after it */
        say_warnings(c, result);
        return keep_answer(c, result) ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
    }
    cdz_result_free(result);
    cdz_turns_cut(&c->turns, c->turns.n - 1);
    cdz_cli_as_typed(&c->options, &err);
    return cdz_cli_fail(&err);
}

static bool open_template(chat *c)
{
    cdz_error err = {0};
    /* The session is open; the checker does not look into the function that opened it. */
    const char *folder = c->session.model->folder; /* NOLINT(clang-analyzer-core.NullDereference) */
    if (!cdz_run_model_tokenizer(c->session.model->run)) {
        cdz_cli_say("%s: the model has no tokenizer.json, so it cannot chat", folder);
        return false;
    }
    if (cdz_model_answer_form(c->session.model, &c->form, &err) == CDZ_OK &&
        cdz_chat_template_open(folder, &c->chat_template, &err) == CDZ_OK &&
        cdz_chat_template_choose(c->chat_template, NULL, false, &err) == CDZ_OK)
        return true;
    cdz_cli_fail(&err);
    return false;
}

/* --- changing the pipeline --------------------------------------------------------------------------------------- */

/* Whether a request could run: one of a single token is prepared, not run. */
static cdz_status try_pipeline(const chat *c, cdz_pipeline *pipeline, cdz_error *err)
{
    const cdz_model *model = c->session.model, *assistant = c->session.assistant;
    const int32_t id = 0;
    cdz_prepared call;
    cdz_record_spec record = {0};
    const cdz_prepare_input in = {
        .model = model->run,
        .assistant = assistant ? assistant->run : NULL,
        .pipeline = pipeline,
        .model_generation = &model->generation,
        .assistant_generation = assistant ? &assistant->generation : NULL,
        .ids = &id,
        .n_ids = 1,
    };
    const cdz_status status = cdz_prepare_job(&in, &call, &record, err);
    if (status == CDZ_OK) cdz_job_free(call.job);
    return status;
}

/* A new pipeline from the present options; the old one serves on when that fails, or when it could run and the new one
 * cannot. */
static bool rebuild_pipeline(chat *c)
{
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    cdz_status status = cdz_session_pipeline(&c->session, &c->options, NULL, &pipeline, &err);
    if (status == CDZ_OK) status = try_pipeline(c, pipeline, &err);
    if (status != CDZ_OK) {
        cdz_cli_as_typed(&c->options, &err);
        cdz_cli_fail(&err);
    }
    if (!pipeline) return false;
    if (status != CDZ_OK && try_pipeline(c, c->session.pipeline, NULL) == CDZ_OK) {
        cdz_session_free_pipeline(&c->session, pipeline);
        return false;
    }
    cdz_session_free_pipeline(&c->session, c->session.pipeline);
    c->session.pipeline = pipeline;
    c->warned = false;
    return true;
}

/* --- commands --------------------------------------------------------------------------------------------------- */

static void command_reload(chat *c, const char *argument)
{
    (void)argument;
    cdz_error err = {0};
    const cdz_status st = cdz_pipeline_reload(c->session.pipeline, c->session.model, &err);
    if (st != CDZ_OK)
        cdz_err_prefix(&err, "generation %llu goes on",
                       (unsigned long long)cdz_pipeline_generation(c->session.pipeline));
    cdz_cli_say_reloaded(c->session.pipeline, st == CDZ_OK ? NULL : &err);
}

static void show_settings(const chat *c)
{
    for (uint32_t i = 0; i < c->options.n_settings; i++) printf("%s\n", c->options.settings[i]);
    if (c->options.n_settings == 0) puts("nothing is set; /set NAME=VALUE sets something");
}

/* "temperature=0.5"; Ollama's "temperature 0.5" and "parameter temperature 0.5" are the same. */
static const char *setting_of(chat *c, const char *argument)
{
    static const char word[] = "parameter ";
    if (strncmp(argument, word, sizeof word - 1) == 0) argument += sizeof word - 1;
    char *copy = cdz_arena_strdup(&c->options.kept, argument);
    char *space = copy && !strchr(copy, '=') ? strchr(copy, ' ') : NULL;
    if (space) *space = '=';
    return copy;
}

static void command_set(chat *c, const char *argument)
{
    if (!argument[0]) {
        show_settings(c);
        return;
    }
    const char *setting = setting_of(c, argument);
    const char *equals = setting ? strchr(setting, '=') : NULL;
    if (!equals || equals == setting) {
        cdz_cli_say("/set %s: expected NAME=VALUE", argument);
        return;
    }
    const char *typed =
        cdz_arena_printf(&c->options.kept, "/set %.*s", (int)(equals - setting), setting);
    if (!typed || !cdz_cli_add_setting(&c->options, setting, typed))
        cdz_cli_say("out of memory for the setting");
    else if (!rebuild_pipeline(c))
        c->options.n_settings--;
}

/* Forgets what -s or /set said of a name. */
static void command_unset(chat *c, const char *name)
{
    cdz_cli_options *o = &c->options;
    const size_t len = strlen(name);
    const uint32_t before = o->n_settings;
    const char **settings = calloc(before + 1, sizeof *settings);
    char **typed = calloc(before + 1, sizeof *typed);
    uint32_t n = 0;
    for (uint32_t i = 0; settings && typed && i < before; i++) {
        settings[i] = o->settings[i];
        typed[i] = o->typed[i];
        if (strncmp(o->settings[i], name, len) == 0 && o->settings[i][len] == '=') continue;
        o->settings[n] = o->settings[i];
        o->typed[n++] = o->typed[i];
    }
    if (!settings || !typed) {
        cdz_cli_say("out of memory for the settings");
    } else if (n == before) {
        cdz_cli_say("/unset %s: it is not set; /set shows what is", name);
    } else {
        o->n_settings = n;
        if (!rebuild_pipeline(c)) {
            memcpy(o->settings, settings, before * sizeof *settings);
            memcpy(o->typed, typed, before * sizeof *typed);
            o->n_settings = before;
        }
    }
    free(settings);
    free(typed);
}

static void command_pipeline(chat *c, const char *argument)
{
    const char *before = c->options.host.program.pipeline;
    c->options.host.program.pipeline =
        argument[0] ? cdz_arena_strdup(&c->options.kept, argument) : NULL;
    if (!rebuild_pipeline(c)) c->options.host.program.pipeline = before;
}

/* Another model goes on with the conversation. */
static void command_model(chat *c, const char *name)
{
    char path[4096];
    cdz_error err = {0};
    if (!name[0]) {
        printf("%s\n", c->session.model->folder);
        return;
    }
    if (c->options.host.program.dev) {
        cdz_cli_say("/model: --dev watches for the model it began with; start chat anew");
        return;
    }
    chat next = {.session = {.runtime = c->session.runtime}};
    const char *folder =
        cdz_cli_model_folder(&c->options.host.program, name, CDZ_NEED_WEIGHTS, path, sizeof path);
    if (!folder) return;
    if (cdz_session_model(&next.session, &c->options, folder, &err) != CDZ_OK) {
        cdz_cli_fail(&err);
        return;
    }
    if (!open_template(&next)) {
        cdz_model_close(next.session.model);
        return;
    }
    cdz_chat_template_free(c->chat_template);
    (void)cdz_turns_free_states(&c->turns); /* they are of the model before */
    cdz_model_close(c->session.model);
    c->session.model = next.session.model;
    c->chat_template = next.chat_template;
    c->form = next.form;
}

static void command_undo(chat *c, const char *argument)
{
    (void)argument;
    size_t n = c->turns.n;
    if (n && c->turns.at[n - 1].role == CDZ_ROLE_ASSISTANT) n--;
    if (n && c->turns.at[n - 1].role == CDZ_ROLE_USER) n--;
    if (n == c->turns.n)
        cdz_cli_say("there is nothing to undo");
    else
        cdz_turns_cut(&c->turns, n);
}

static void command_regen(chat *c, const char *argument)
{
    (void)argument;
    const size_t n = c->turns.n;
    if (n == 0 || c->turns.at[n - 1].role == CDZ_ROLE_SYSTEM) {
        cdz_cli_say("there is no answer to generate again");
        return;
    }
    if (c->turns.at[n - 1].role == CDZ_ROLE_ASSISTANT) cdz_turns_cut(&c->turns, n - 1);
    answer(c);
}

/* The tokens of the conversation as the next question finds it; false: that was told. */
static bool count_tokens(const chat *c, uint32_t *n)
{
    cdz_error err = {0};
    int32_t *ids = NULL;
    *n = 0;
    if (c->turns.n == 0) return true;
    if (conversation_ids(c, &ids, n, &err) != CDZ_OK) {
        cdz_cli_fail(&err);
        return false;
    }
    free(ids);
    return true;
}

static void command_trim(chat *c, const char *argument)
{
    (void)argument;
    const uint32_t context = cdz_model_context(c->session.model);
    uint32_t n, dropped = 0;
    if (!context) {
        cdz_cli_say("the model's context has no end; /clear begins anew");
        return;
    }
    while (count_tokens(c, &n)) {
        if (n > context / 2 && cdz_turns_drop_oldest(&c->turns)) {
            dropped++;
            continue;
        }
        if (dropped) cdz_turns_free_states(&c->turns);
        cdz_cli_say("%u question%s forgotten; the conversation has %u of %u tokens", dropped,
                    dropped == 1 ? "" : "s", n, context);
        return;
    }
}

static void command_context(chat *c, const char *argument)
{
    (void)argument;
    uint32_t n;
    if (!count_tokens(c, &n)) return;
    const uint32_t context = cdz_model_context(c->session.model);
    if (context)
        printf("%u of %u tokens", n, context);
    else
        printf("%u tokens", n);
    if (c->n_read + c->n_reused)
        printf("; the last answer read %u and found %u in the KV cache", c->n_read, c->n_reused);
    putchar('\n');
}

static void command_save(chat *c, const char *path)
{
    cdz_buf out = {0};
    cdz_turns_write(&c->turns, &out);
    cdz_error err = {0};
    if (!path[0])
        cdz_cli_say("/save: expected a file name");
    else if (out.failed)
        cdz_cli_say("%s: out of memory", path);
    else if (cdz_cli_check_place(&c->options, path, NULL, 0, &err) != CDZ_OK ||
             cdz_write_whole(path, out.data, out.len, 0, &err) != CDZ_OK)
        (void)cdz_cli_fail(&err);
    else
        cdz_cli_say("%zu messages in %s; /load reads it, and so does `cadenza run --messages`",
                    c->turns.n, path);
    cdz_buf_free(&out);
}

static void command_load(chat *c, const char *path)
{
    cdz_error err = {0};
    cdz_turns turns = {0};
    if (!path[0]) {
        cdz_cli_say("/load: expected the name of a file that /save wrote");
    } else if (cdz_turns_read(&turns, path, &err) != CDZ_OK) {
        cdz_cli_fail(&err);
        cdz_turns_free(&turns);
    } else {
        cdz_turns_free(&c->turns);
        c->turns = turns;
        const bool open = turns.n && turns.at[turns.n - 1].role == CDZ_ROLE_USER;
        cdz_cli_say("%zu messages from %s%s", turns.n, path,
                    open ? "; the last question has no answer: /regen gives one" : "");
    }
}

static void command_system(chat *c, const char *text)
{
    cdz_turns_cut(&c->turns, 0);
    if (text[0]) cdz_turns_add(&c->turns, CDZ_ROLE_SYSTEM, text);
}

static void command_clear(chat *c, const char *argument)
{
    (void)argument;
    cdz_turns_cut(&c->turns, 0);
}

static void command_quit(chat *c, const char *argument)
{
    (void)argument;
    c->over = true;
}

static void command_help(chat *c, const char *argument);

typedef struct command {
    const char *name, *argument, *help;
    void (*run)(chat *c, const char *argument);
    const char *also; /* other programs' names, each between blanks */
} command;

static const command commands[] = {
    {"set", " NAME=VALUE", "change a setting; /set alone shows them", command_set, ""},
    {"unset", " NAME", "take back what -s or /set set", command_unset, " reset "},
    {"pipeline", " FILE", "use another pipeline; without FILE use none", command_pipeline, ""},
    {"reload", "", "read the pipeline and its scripts again", command_reload, ""},
    {"model", " MODEL", "continue with another model; /model alone shows the current one",
     command_model, ""},
    {"system", " TEXT", "start a new conversation with this system message", command_system, ""},
    {"undo", "", "take back the last question and answer", command_undo, ""},
    {"regen", "", "answer the last question again", command_regen, " regenerate retry again "},
    {"trim", "", "forget the oldest questions, to half of the model's context", command_trim, ""},
    {"context", "", "how much of the model's context is in use", command_context, " ctx tokens "},
    {"save", " FILE", "write the conversation as JSON", command_save, ""},
    {"load", " FILE", "continue a conversation that /save wrote", command_load, " read "},
    {"clear", "", "start a new conversation", command_clear, " new reset-chat "},
    {"help", "", "this list", command_help, " ? "},
    {"quit", "", "leave", command_quit, " exit bye q "},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void write_commands(cdz_buf *out)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const size_t start = out->len;
        cdz_buf_printf(out, "  /%s%s", commands[i].name, commands[i].argument);
        while (!out->failed && out->len - start < 21) cdz_buf_putc(out, ' ');
        cdz_buf_printf(out, "%s\n", commands[i].help);
    }
}

static void command_help(chat *c, const char *argument)
{
    (void)c;
    (void)argument;
    cdz_buf text = {0};
    write_commands(&text);
    if (!text.failed) fputs(text.data, stdout);
    cdz_buf_free(&text);
}

static const command *find_command(const char *name)
{
    char between[40];
    snprintf(between, sizeof between, " %s ", name);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0 || strstr(commands[i].also, between))
            return &commands[i];
    return NULL;
}

static void unknown_command(const char *name)
{
    const char *names[N_COMMANDS + 1];
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    names[N_COMMANDS] = "regenerate";
    const char *near = cdz_nearest_name(name, names, N_COMMANDS + 1);
    cdz_cli_say("unknown command /%s%s%s%s; /help lists them", name, near ? ": did you mean /" : "",
                near ? near : "", near ? "?" : "");
}

static void run_command(chat *c, const char *line)
{
    char name[32];
    size_t len = strcspn(line + 1, " ");
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), line + 1);
    const char *argument = line + 1 + len;
    argument += strspn(argument, " ");
    const command *found = find_command(name);
    if (found)
        found->run(c, argument);
    else
        unknown_command(name);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* False: the conversation cannot go on. */
static bool ask(chat *c, const char *question, int *status)
{
    *status = CDZ_EXIT_FAILURE;
    if (!cdz_turns_add(&c->turns, CDZ_ROLE_USER, question)) return false;
    *status = answer(c);
    if (!c->interactive && *status != CDZ_EXIT_OK) return false;
    *status = CDZ_EXIT_OK;
    return true;
}

static int converse(chat *c)
{
    const char *names[N_COMMANDS];
    cdz_line_reader *reader = cdz_line_reader_new("> ");
    if (!reader) return CDZ_EXIT_FAILURE;
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    cdz_line_reader_complete(reader, '/', names, N_COMMANDS);
    int status = CDZ_EXIT_OK;
    bool on = !c->first || ask(c, c->first, &status);
    for (const char *line; on && !c->over && (line = cdz_line_reader_next(reader)) != NULL;) {
        if (strspn(line, " \t\n") == strlen(line)) continue;
        if (line[0] == '/')
            run_command(c, line);
        else
            on = ask(c, line, &status);
    }
    cdz_error err = {0};
    if (cdz_line_reader_status(reader, &err) != CDZ_OK) status = cdz_cli_fail(&err);
    if (c->interactive) putchar('\n');
    cdz_line_reader_free(reader);
    return status;
}

const cdz_page cdz_page_chat = {
    .name = "chat",
    .summary = "talk with a model",
    .usage = "chat [MODEL] [options]\n",
    .about =
        "Talks with a model; without MODEL with the shipped one. Ctrl-C stops an answer, Ctrl-D "
        "leaves, /help in the conversation lists its commands. A line that ends in a backslash "
        "continues on the next; a line of \"\"\" begins and ends a block of lines. The KV cache "
        "is kept between answers, so each answer computes only the new part of the conversation.",
    .flags = flags,
    .takes = CDZ_TAKES_ALL | CDZ_TAKES_TEXT | CDZ_TAKES_DEV | CDZ_SHOWS_PARAMETERS,
    .more_title = "In the conversation",
    .write_more = write_commands,
    .examples = "cadenza chat\n"
                "cadenza chat my-model --system 'Answer briefly.' --temperature 0.7\n"
                "echo 'What does river mean?' | cadenza chat --no-do-sample\n",
};

static void take_option(chat *c, const cdz_args *a)
{
    switch (a->opt) {
    case CDZ_OPT_OWN: c->system = a->value; break;
    case 'p': c->first = a->value; break;
    default: break;
    }
}

static int hold(chat *c)
{
    int status = cdz_session_open(&c->options, &c->session);
    if (status != CDZ_EXIT_OK) return status;
    c->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    status = CDZ_EXIT_FAILURE;
    if (open_template(c)) {
        if (c->system) command_system(c, c->system);
        if (c->interactive) puts("Ask something; /help lists the commands, Ctrl-D leaves.");
        status = converse(c);
    }
    cdz_session_close(&c->session);
    cdz_chat_template_free(c->chat_template);
    cdz_turns_free(&c->turns);
    cdz_buf_free(&c->answer);
    cdz_buf_free(&c->reasoning);
    return status;
}

int cdz_cli_chat(cdz_cli_options *options, const char *system, const char *first)
{
    chat c = {.options = *options, .system = system, .first = first};
    const int status = hold(&c);
    *options = c.options; /* they may have grown, and are the caller's to free */
    return status;
}

int cdz_cmd_chat(int argc, char **argv)
{
    chat c = {0};
    cdz_args a = cdz_args_of(&cdz_page_chat, argc, argv, &c.options);
    while (cdz_args_next(&a)) take_option(&c, &a);
    const bool good =
        !a.stopped && cdz_args_take_model(&a, &c.options.host.program.model) && cdz_args_end(&a);
    const int status = good ? hold(&c) : a.status;
    cdz_cli_options_free(&c.options);
    return status;
}
