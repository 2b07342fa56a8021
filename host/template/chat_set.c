/* chat_set.c - finding the chat templates of a model folder, and choosing one of them. */
#include "template/chat_set.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "token/gguf.h"

enum { MAX_TEMPLATE_BYTES = 1 << 20, MAX_CONFIG_BYTES = 64 << 20, MAX_NAMED = 64 };

/* --- entries ---------------------------------------------------------------------------------------------- */

static cdz_status no_memory(const cdz_chat_template *chat, cdz_error *err)
{
    return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory for its chat templates", chat->path);
}

static cdz_status add_entry(cdz_chat_template *chat, const char *name, const char *file,
                            const char *text, size_t len, cdz_error *err)
{
    if (chat->n_entries == chat->cap) {
        const uint32_t cap = chat->cap ? chat->cap * 2 : 4;
        chat_entry *grown = cdz_arena_array(&chat->arena, cap, sizeof *grown);
        if (!grown) return no_memory(chat, err);
        if (chat->n_entries) memcpy(grown, chat->entries, chat->n_entries * sizeof *grown);
        chat->entries = grown;
        chat->cap = cap;
    }
    chat_entry e = {.name = cdz_arena_strdup(&chat->arena, name),
                    .file = cdz_arena_strdup(&chat->arena, file),
                    .text = cdz_arena_strndup(&chat->arena, text, len),
                    .len = len};
    if (!e.name || !e.file || !e.text) return no_memory(chat, err);
    chat->entries[chat->n_entries++] = e;
    return CDZ_OK;
}

static cdz_status add_file(cdz_chat_template *chat, const char *name, const char *path,
                           cdz_error *err)
{
    char *text;
    size_t len;
    CDZ_TRY(cdz_file_read(path, MAX_TEMPLATE_BYTES, &text, &len, err));
    const cdz_status status = add_entry(chat, name, path, text, len, err);
    free(text);
    return status;
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static char *path_in(cdz_chat_template *chat, const char *name)
{
    return cdz_arena_printf(&chat->arena, "%s/%s", chat->path, name);
}

/* --- files of their own -------------------------------------------------------------------------------------- */

static cdz_status read_additional(cdz_chat_template *chat, DIR *dir, const char *folder,
                                  cdz_error *err)
{
    static const char suffix[] = ".jinja";
    const size_t tail = sizeof suffix - 1;
    cdz_status status = CDZ_OK;
    for (const struct dirent *e; status == CDZ_OK && (e = readdir(dir)) != NULL;) {
        const size_t len = strlen(e->d_name);
        if (len <= tail || strcmp(e->d_name + len - tail, suffix) != 0) continue;
        if (chat->n_entries == MAX_NAMED)
            return cdz_err(err, CDZ_E_LIMIT, "%s: more than %d chat templates", folder, MAX_NAMED);
        char *name = cdz_arena_strndup(&chat->arena, e->d_name, len - tail);
        char *path = cdz_arena_printf(&chat->arena, "%s/%s", folder, e->d_name);
        status = name && path ? add_file(chat, name, path, err) : no_memory(chat, err);
    }
    return status;
}

static cdz_status read_files(cdz_chat_template *chat, cdz_error *err)
{
    const char *path = path_in(chat, "chat_template.jinja");
    const char *folder = path_in(chat, "additional_chat_templates");
    if (!path || !folder) return no_memory(chat, err);
    if (exists(path)) CDZ_TRY(add_file(chat, "default", path, err));
    DIR *dir = opendir(folder);
    if (!dir) return CDZ_OK;
    const cdz_status status = read_additional(chat, dir, folder, err);
    closedir(dir);
    return status;
}

/* --- tokenizer_config.json --------------------------------------------------------------------------------------- */

static cdz_status read_named(cdz_chat_template *chat, const cdz_json *list, const char *file,
                             cdz_error *err)
{
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *name = cdz_json_get(&list->items[i], "name");
        const cdz_json *text = cdz_json_get(&list->items[i], "template");
        if (!cdz_json_is(name, CDZ_JSON_STRING) || !cdz_json_is(text, CDZ_JSON_STRING))
            return cdz_err(err, CDZ_E_INPUT,
                           "%s:%u: \"chat_template\": entry %u lacks a \"name\" or a \"template\"",
                           file, list->items[i].line, i);
        CDZ_TRY(add_entry(chat, name->string, file, text->string, text->len, err));
    }
    return CDZ_OK;
}

static cdz_status read_template(cdz_chat_template *chat, const cdz_json *v, const char *file,
                                cdz_error *err)
{
    if (!v || cdz_json_is(v, CDZ_JSON_NULL)) return CDZ_OK;
    if (cdz_json_is(v, CDZ_JSON_ARRAY)) return read_named(chat, v, file, err);
    if (cdz_json_is(v, CDZ_JSON_STRING))
        return add_entry(chat, "default", file, v->string, v->len, err);
    return cdz_err(err, CDZ_E_INPUT, "%s:%u: \"chat_template\" is %s, expected a string or a list",
                   file, v->line, cdz_json_type_name(v));
}

static bool add_token(cdz_chat_template *chat, const char *name, const cdz_json *v)
{
    if (cdz_json_is(v, CDZ_JSON_OBJECT)) v = cdz_json_get(v, "content");
    if (!cdz_json_is(v, CDZ_JSON_STRING)) return true;
    chat_token t = {.name = cdz_arena_strdup(&chat->arena, name),
                    .text = cdz_arena_strndup(&chat->arena, v->string, v->len)};
    if (!t.name || !t.text) return false;
    chat->tokens[chat->n_tokens++] = t;
    return true;
}

static cdz_status read_tokens(cdz_chat_template *chat, const cdz_json *root, cdz_error *err)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    const size_t n = sizeof names / sizeof *names;
    const cdz_json *extra = cdz_json_get(root, "extra_special_tokens");
    /* Not inside the sum: gcc 14.2 reads p->x of "constant + (yes ? p->x : 0)" whatever `yes` is. */
    const size_t n_extra = cdz_json_is(extra, CDZ_JSON_OBJECT) ? extra->len : 0;
    chat->tokens = cdz_arena_array(&chat->arena, n + n_extra, sizeof *chat->tokens);
    bool ok = chat->tokens != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = add_token(chat, names[i], cdz_json_get(root, names[i]));
    for (size_t i = 0; ok && i < n_extra; i++)
        ok = add_token(chat, extra->members[i].key, &extra->members[i].value);
    return ok ? CDZ_OK : no_memory(chat, err);
}

/* What a tokenizer_config.json says. Its templates count only where there are no files of their
 * own. */
static cdz_status read_root(cdz_chat_template *chat, const cdz_json *root, const char *path,
                            bool tokens, cdz_error *err)
{
    if (!chat->n_entries)
        CDZ_TRY(read_template(chat, cdz_json_get(root, "chat_template"), path, err));
    return tokens ? read_tokens(chat, root, err) : CDZ_OK;
}

static cdz_status read_config(cdz_chat_template *chat, const char *name, bool tokens, cdz_error *err)
{
    const char *path = path_in(chat, name);
    cdz_arena arena = {0};
    cdz_json root;
    if (!path) return no_memory(chat, err);
    if (!exists(path)) return CDZ_OK;
    const cdz_json_limits limits = {.duplicates = true};
    cdz_status status = cdz_json_read_file(path, MAX_CONFIG_BYTES, &limits, &arena, &root, err);
    if (status == CDZ_OK) status = read_root(chat, &root, path, tokens, err);
    cdz_arena_free(&arena);
    return status;
}

static cdz_status read_gguf(cdz_chat_template *chat, cdz_error *err)
{
    cdz_gguf gguf;
    cdz_buf text = {0};
    cdz_arena arena = {0};
    cdz_json root;
    CDZ_TRY(cdz_gguf_open(chat->path, &gguf, err));
    cdz_status status = cdz_tokenizer_config_of_gguf(&gguf, &text, err);
    cdz_gguf_close(&gguf);
    if (status == CDZ_OK)
        status = cdz_json_parse(text.data, text.len, chat->path, NULL, &arena, &root, err);
    if (status == CDZ_OK) status = read_root(chat, &root, chat->path, true, err);
    cdz_arena_free(&arena);
    cdz_buf_free(&text);
    if (status != CDZ_OK || chat->n_entries) return status;
    return cdz_err(err, CDZ_E_INPUT, "%s: no chat template: tokenizer.chat_template is missing",
                   chat->path);
}

/* --- opening and choosing ---------------------------------------------------------------------------------------- */

static cdz_status read_folder(cdz_chat_template *chat, cdz_error *err)
{
    CDZ_TRY(read_files(chat, err));
    CDZ_TRY(read_config(chat, "tokenizer_config.json", true, err));
    CDZ_TRY(read_config(chat, "chat_template.json", false, err));
    if (chat->n_entries) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "%s: no chat template: expected chat_template.jinja, or \"chat_template\" in "
                   "tokenizer_config.json",
                   chat->path);
}

static cdz_chat_template *new_set(const char *path)
{
    cdz_chat_template *chat = calloc(1, sizeof *chat);
    if (!chat) return NULL;
    chat->path = cdz_arena_strdup(&chat->arena, path);
    if (chat->path) return chat;
    cdz_chat_template_free(chat);
    return NULL;
}

static cdz_status finish(cdz_chat_template *chat, cdz_status status, cdz_chat_template **out)
{
    if (status == CDZ_OK)
        *out = chat;
    else
        cdz_chat_template_free(chat);
    return status;
}

cdz_status cdz_chat_template_open(const char *path, cdz_chat_template **out, cdz_error *err)
{
    struct stat st;
    *out = NULL;
    cdz_chat_template *chat = new_set(path);
    if (!chat) return cdz_err_memory_in(err, path);
    const bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (cdz_gguf_is(path)) return finish(chat, read_gguf(chat, err), out);
    return finish(chat, folder ? read_folder(chat, err) : add_file(chat, "default", path, err), out);
}

cdz_status cdz_chat_template_parse(const char *text, size_t len, const char *name,
                                   cdz_chat_template **out, cdz_error *err)
{
    *out = NULL;
    cdz_chat_template *chat = new_set(name);
    if (!chat) return cdz_err_memory_in(err, name);
    return finish(chat, add_entry(chat, "default", name, text, len, err), out);
}

void cdz_chat_template_free(cdz_chat_template *chat)
{
    if (!chat) return;
    cdz_template_free(chat->compiled);
    cdz_arena_free(&chat->arena);
    free(chat);
}

const char *cdz_chat_template_text(const cdz_chat_template *chat, uint32_t i, const char **name,
                                   size_t *len)
{
    if (i >= chat->n_entries) return NULL;
    *name = chat->entries[i].name;
    *len = chat->entries[i].len;
    return chat->entries[i].text;
}

static const chat_entry *find_entry(const cdz_chat_template *chat, const char *name)
{
    for (uint32_t i = 0; i < chat->n_entries; i++)
        if (strcmp(chat->entries[i].name, name) == 0) return &chat->entries[i];
    return NULL;
}

static cdz_status none_fits(const cdz_chat_template *chat, const char *name, cdz_error *err)
{
    cdz_buf names = {0};
    for (uint32_t i = 0; i < chat->n_entries; i++)
        cdz_buf_printf(&names, "%s%s", i ? ", " : "", chat->entries[i].name);
    const char *list = names.data ? names.data : "";
    if (name)
        cdz_err(err, CDZ_E_INPUT, "%s: no chat template '%s'; it has: %s", chat->path, name, list);
    else
        cdz_err(err, CDZ_E_INPUT,
                "%s: none of its chat templates is the default; name one of them: %s", chat->path,
                list);
    cdz_buf_free(&names);
    return CDZ_E_INPUT;
}

cdz_status cdz_chat_template_choose(cdz_chat_template *chat, const char *name, bool has_tools,
                                    cdz_error *err)
{
    const chat_entry *e = name ? find_entry(chat, name) : NULL;
    if (!name && has_tools) e = find_entry(chat, "tool_use");
    if (!name && !e) e = find_entry(chat, "default");
    if (!e) return none_fits(chat, name, err);
    cdz_template *compiled;
    CDZ_TRY(cdz_template_compile(e->text, e->len, e->file, &compiled, err));
    cdz_template_free(chat->compiled);
    chat->compiled = compiled;
    return CDZ_OK;
}
