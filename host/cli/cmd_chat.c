/* cmd_chat.c - cadenza chat: a conversation in the terminal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/write.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/places.h"

static const char help[] =
    "usage: cadenza chat [MODEL] [options]\n"
    "\n"
    "Talks with a model; without MODEL with the shipped one. Ctrl-C stops an answer, Ctrl-D "
    "leaves.\n"
    "A line that ends in a backslash goes on; a line of \"\"\" begins and ends a block of lines.\n"
    "The KV cache of the conversation is kept between answers: each reads only what is new.\n"
    "\n"
    "  --system TEXT            what the conversation begins with\n"
    "  --dev                    reload the pipeline, its scripts and plugins when their files change,\n"
    "                           between two steps of an answer\n";
static const char examples[] =
    "\n"
    "Examples:\n"
    "  cadenza chat\n"
    "  cadenza chat my-model --system 'Answer briefly.' -s temperature=0.7\n"
    "  echo 'What does river mean?' | cadenza chat -s do_sample=no\n";
static const char commands_help[] =
    "  /set NAME=VALUE    change a setting; /set alone shows them\n"
    "  /pipeline FILE     use another pipeline\n"
    "  /reload            read the pipeline and its scripts again\n"
    "  /system TEXT       begin anew with this system message\n"
    "  /undo              take back the last question and answer\n"
    "  /regen             answer the last question again\n"
    "  /trim              forget the oldest questions, to half of the model's context\n"
    "  /context           how much of the model's context is in use\n"
    "  /save FILE         write the conversation as JSON\n"
    "  /clear             begin anew\n"
    "  /help, /quit\n";

typedef struct chat {
    cdz_cli_options options; /* settings grow by /set */
    cdz_session session;
    cdz_chat_template *chat_template;
    cdz_turns turns;
    bool interactive, warned;
    uint64_t running; /* the request Ctrl-C cancels */
    cdz_buf answer;
    uint32_t n_read,
        n_reused; /* prompt tokens of the last answer: computed, and found in the KV cache */
} chat;

/* --- an answer ------------------------------------------------------------------------------------------------ */

static void on_event(void *user, const cdz_event *event)
{
    chat *c = user;
    if (event->kind != CDZ_EVENT_TOKENS || event->row != 0) return;
    cdz_buf_puts(&c->answer, event->text);
    cdz_session_put_text(&c->session, event->text);
}

static void cancel(void *user)
{
    chat *c = user;
    cdz_cancel(c->session.runtime, c->running, NULL);
}

static cdz_status conversation_ids(const chat *c, int32_t **ids, uint32_t *n, cdz_error *err)
{
    return cdz_chat_ids(c->chat_template, cdz_run_model_tokenizer(c->session.model->run), &c->turns,
                        ids, n, err);
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
    cdz_buf_clear(&c->answer);
    cdz_buf_add(&c->answer, "", 0);
    CDZ_TRY(conversation_ids(c, &ids, &n, err));
    cdz_request request = {
        .size = sizeof request,
        .model = c->session.model,
        .assistant = c->session.assistant,
        .pipeline = c->session.pipeline,
        .ids = ids,
        .n_ids = n,
        .timeout_s = c->options.timeout_s,
        .on_event = on_event,
        .user = c,
        .past = can_keep_state(c) ? cdz_turns_state(&c->turns) : NULL,
        .keep_cache = can_keep_state(c),
    };
    cdz_status status = check_room(c, n, err);
    if (status == CDZ_OK) status = run_beside_states(c, &request, result, err);
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

/* The answer becomes a turn, which owns the KV state that the result holds. */
static bool keep_answer(chat *c, cdz_result *result)
{
    if (!cdz_turns_add(&c->turns, CDZ_ROLE_ASSISTANT, c->answer.data)) {
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
    return cdz_cli_fail(&err);
}

/* --- commands --------------------------------------------------------------------------------------------------- */

/* A new pipeline from the present options; the old one serves on when that fails. */
static bool rebuild_pipeline(chat *c)
{
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    if (cdz_session_pipeline(&c->session, &c->options, NULL, &pipeline, &err) != CDZ_OK) {
        cdz_cli_fail(&err);
        return false;
    }
    cdz_session_free_pipeline(&c->session, c->session.pipeline);
    c->session.pipeline = pipeline;
    c->warned = false;
    return true;
}

static void command_reload(chat *c)
{
    cdz_error err = {0};
    const cdz_status st = cdz_pipeline_reload(c->session.pipeline, c->session.model, &err);
    if (st != CDZ_OK)
        cdz_err_prefix(&err, "generation %llu goes on",
                       (unsigned long long)cdz_pipeline_generation(c->session.pipeline));
    cdz_cli_say_reloaded(c->session.pipeline, st == CDZ_OK ? NULL : &err);
}

static void command_set(chat *c, const char *argument)
{
    if (!argument[0]) {
        for (uint32_t i = 0; i < c->options.n_settings; i++) printf("%s\n", c->options.settings[i]);
        return;
    }
    int status;
    const char *copy = cdz_arena_strdup(&c->options.kept, argument);
    if (!copy || !cdz_cli_take_option(&c->options, 's', copy, "chat", &status)) return;
    if (!rebuild_pipeline(c)) c->options.n_settings--;
}

static void command_pipeline(chat *c, const char *argument)
{
    const char *before = c->options.pipeline;
    c->options.pipeline = argument[0] ? cdz_arena_strdup(&c->options.kept, argument) : NULL;
    if (!rebuild_pipeline(c)) c->options.pipeline = before;
}

static void command_undo(chat *c)
{
    size_t n = c->turns.n;
    if (n && c->turns.at[n - 1].role == CDZ_ROLE_ASSISTANT) n--;
    if (n && c->turns.at[n - 1].role == CDZ_ROLE_USER) n--;
    if (n == c->turns.n)
        cdz_cli_say("there is nothing to undo");
    else
        cdz_turns_cut(&c->turns, n);
}

static void command_regen(chat *c)
{
    if (c->turns.n < 2 || c->turns.at[c->turns.n - 1].role != CDZ_ROLE_ASSISTANT) {
        cdz_cli_say("there is no answer to generate again");
        return;
    }
    cdz_turns_cut(&c->turns, c->turns.n - 1);
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

static void command_trim(chat *c)
{
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

static void command_context(const chat *c)
{
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
    cdz_buf_puts(&out, "[");
    for (size_t i = 0; i < c->turns.n; i++) {
        const cdz_turn *turn = &c->turns.at[i];
        cdz_buf_printf(&out, "%s\n  {\"role\": \"%s\", \"content\": ", i ? "," : "",
                       cdz_role_name(turn->role));
        cdz_json_write_string(&out, turn->text, strlen(turn->text));
        cdz_buf_putc(&out, '}');
    }
    cdz_buf_puts(&out, "\n]\n");
    cdz_error err = {0};
    if (!path[0])
        cdz_cli_say("/save: expected a file name");
    else if (out.failed)
        cdz_cli_say("%s: out of memory", path);
    else if (cdz_cli_check_place(&c->options, path, NULL, 0, &err) != CDZ_OK ||
             cdz_write_whole(path, out.data, out.len, 0, &err) != CDZ_OK)
        (void)cdz_cli_fail(&err);
    cdz_buf_free(&out);
}

static void command_system(chat *c, const char *text)
{
    cdz_turns_cut(&c->turns, 0);
    if (text[0]) cdz_turns_add(&c->turns, CDZ_ROLE_SYSTEM, text);
}

static void unknown_command(const char *name)
{
    static const char *const names[] = {"set",  "pipeline", "reload", "system", "undo", "regen",
                                        "trim", "context",  "save",   "clear",  "help", "quit"};
    const char *near = cdz_nearest_name(name, names, sizeof names / sizeof names[0]);
    cdz_cli_say("unknown command /%s%s%s%s; /help lists them", name, near ? ": did you mean /" : "",
                near ? near : "", near ? "?" : "");
}

/* False: leave. */
static bool run_command(chat *c, const char *line)
{
    char name[32];
    size_t len = strcspn(line + 1, " ");
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), line + 1);
    const char *argument = line + 1 + len;
    argument += strspn(argument, " ");
    if (strcmp(name, "quit") == 0 || strcmp(name, "exit") == 0) return false;
    if (strcmp(name, "help") == 0)
        fputs(commands_help, stdout);
    else if (strcmp(name, "set") == 0)
        command_set(c, argument);
    else if (strcmp(name, "pipeline") == 0)
        command_pipeline(c, argument);
    else if (strcmp(name, "reload") == 0)
        command_reload(c);
    else if (strcmp(name, "undo") == 0)
        command_undo(c);
    else if (strcmp(name, "regen") == 0)
        command_regen(c);
    else if (strcmp(name, "trim") == 0)
        command_trim(c);
    else if (strcmp(name, "context") == 0)
        command_context(c);
    else if (strcmp(name, "save") == 0)
        command_save(c, argument);
    else if (strcmp(name, "system") == 0)
        command_system(c, argument);
    else if (strcmp(name, "clear") == 0)
        cdz_turns_cut(&c->turns, 0);
    else
        unknown_command(name);
    return true;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static int converse(chat *c)
{
    cdz_line_reader *reader = cdz_line_reader_new("> ");
    if (!reader) return CDZ_EXIT_FAILURE;
    int status = CDZ_EXIT_OK;
    for (const char *line; (line = cdz_line_reader_next(reader)) != NULL;) {
        if (strspn(line, " \t\n") == strlen(line)) continue;
        if (line[0] == '/') {
            if (!run_command(c, line)) break;
            continue;
        }
        if (!cdz_turns_add(&c->turns, CDZ_ROLE_USER, line)) {
            status = CDZ_EXIT_FAILURE;
            break;
        }
        int answered = answer(c);
        if (!c->interactive && answered != CDZ_EXIT_OK) {
            status = answered;
            break;
        }
    }
    if (c->interactive) putchar('\n');
    cdz_line_reader_free(reader);
    return status;
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
    if (cdz_chat_template_open(folder, &c->chat_template, &err) == CDZ_OK &&
        cdz_chat_template_choose(c->chat_template, NULL, false, &err) == CDZ_OK)
        return true;
    cdz_cli_fail(&err);
    return false;
}

static bool take_options(int argc, char **argv, chat *c, const char **system, int *status)
{
    static const struct option options[] = {
        CDZ_CLI_COMMON_OPTIONS,
        {"system", required_argument, NULL, CDZ_OPT_OWN},
        {"dev", no_argument, NULL, CDZ_OPT_DEV},
        {0},
    };
    int opt;
    while ((opt = cdz_cli_next_option("chat", argc, argv, ":s:h", options)) != -1) {
        switch (opt) {
        case 'h':
            printf("%s%s%s\nIn the conversation:\n%s", help, cdz_cli_common_help, examples,
                   commands_help);
            *status = CDZ_EXIT_OK;
            return false;
        case CDZ_OPT_OWN: *system = optarg; break;
        default:
            if (!cdz_cli_take_option(&c->options, opt, optarg, "chat", status)) return false;
        }
    }
    if (optind < argc) c->options.model = argv[optind++];
    if (optind == argc) return true;
    *status =
        cdz_cli_misuse("chat", "unexpected argument '%s' after the model folder", argv[optind]);
    return false;
}

int cdz_cmd_chat(int argc, char **argv)
{
    chat c = {.interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    const char *system = NULL;
    int status;
    if (take_options(argc, argv, &c, &system, &status)) {
        status = cdz_session_open(&c.options, &c.session);
        if (status == CDZ_EXIT_OK) {
            status = CDZ_EXIT_FAILURE;
            if (open_template(&c)) {
                if (system) command_system(&c, system);
                if (c.interactive) puts("Ask something; /help lists the commands, Ctrl-D leaves.");
                status = converse(&c);
            }
            cdz_session_close(&c.session);
        }
    }
    cdz_chat_template_free(c.chat_template);
    cdz_turns_free(&c.turns);
    cdz_buf_free(&c.answer);
    cdz_cli_options_free(&c.options);
    return status;
}
