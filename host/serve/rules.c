/* rules.c - what may change while the server serves: who may ask, limits, files of pipelines, models. New rules are made whole
 * beside the old ones, which serve until then. */
#include <stdlib.h>
#include <string.h>

#include "serve/exchange.h"

static const char *copy_text(cdz_arena *arena, const char *text, bool *good)
{
    const char *kept = text ? cdz_arena_strdup(arena, text) : NULL;
    *good &= !text || kept;
    return kept;
}

static const char *const *copy_list(cdz_arena *arena, const char *const *list, uint32_t n,
                                    bool *good)
{
    const char **kept = cdz_arena_array(arena, n + 1, sizeof *kept);
    *good &= kept != NULL;
    for (uint32_t i = 0; kept && i < n; i++) kept[i] = copy_text(arena, list[i], good);
    return kept;
}

static void free_rules(cdz_serve_rulebook *book)
{
    if (!book) return;
    cdz_keys_free(&book->keys);
    cdz_arena_free(&book->arena);
    free(book);
}

/* Models are kept elsewhere (served.c). */
static cdz_status make_rules(const cdz_serve_rules *from, cdz_serve_rulebook **out, cdz_error *err)
{
    bool good = true;
    cdz_serve_rulebook *book = calloc(1, sizeof *book);
    if (!book) return cdz_err_memory(err, "the server's rules");
    book->is = *from;
    book->is.models = NULL;
    book->is.key_file = copy_text(&book->arena, from->key_file, &good);
    book->is.pipelines = copy_text(&book->arena, from->pipelines, &good);
    book->is.kv_save = copy_text(&book->arena, from->kv_save, &good);
    book->is.kv_folder = copy_text(&book->arena, from->kv_folder, &good);
    book->is.hosts = copy_list(&book->arena, from->hosts, from->n_hosts, &good);
    book->is.origins = copy_list(&book->arena, from->origins, from->n_origins, &good);
    cdz_status status = good ? CDZ_OK : cdz_err_memory(err, "the server's rules");
    if (good && from->key_file) status = cdz_keys_read(from->key_file, &book->keys, err);
    if (status == CDZ_OK) status = cdz_serve_saved_check(&book->is, err);
    if (status == CDZ_OK)
        *out = book;
    else
        free_rules(book);
    return status;
}

/* Where nothing is said; seconds, but for the first three. docs/limits.md has them. */
enum {
    MOST_CONNECTIONS = 1024,
    MOST_BODY = 8 << 20,
    MOST_UNREAD = 256 << 10,
    HEAD_PATIENCE = 15,
    BODY_PATIENCE = 60,
    IDLE_PATIENCE = 75,
    UNREAD_PATIENCE = 120,
};

cdz_door_limits cdz_serve_door_limits(const cdz_serve_rules *rules)
{
    return (cdz_door_limits){
        .most = rules->connections ? rules->connections : MOST_CONNECTIONS,
        .body = rules->body ? rules->body : MOST_BODY,
        .head_s = rules->head_s > 0 ? rules->head_s : HEAD_PATIENCE,
        .body_s = rules->body_s > 0 ? rules->body_s : BODY_PATIENCE,
        .idle_s = rules->idle_s > 0 ? rules->idle_s : IDLE_PATIENCE,
        .unread_s = rules->unread_s > 0 ? rules->unread_s : UNREAD_PATIENCE,
    };
}

static void take_rules(cdz_serve *serve, cdz_serve_rulebook *book)
{
    cdz_mutex_lock(&serve->rules_lock);
    cdz_serve_rulebook *old = serve->rules;
    serve->rules = book;
    cdz_mutex_unlock(&serve->rules_lock);
    atomic_store(&serve->most_waiting, book->is.most_waiting);
    atomic_store(&serve->most_waiting_tokens, book->is.most_waiting_tokens);
    atomic_store(&serve->most_unread, book->is.most_unread ? book->is.most_unread : MOST_UNREAD);
    atomic_store(&serve->json_log, book->is.json_log);
    const cdz_door_limits limits = cdz_serve_door_limits(&book->is);
    if (serve->door) cdz_door_change(serve->door, &limits);
    free_rules(old);
}

static cdz_status change(cdz_serve *serve, const cdz_serve_rules *rules, bool wait, cdz_error *err)
{
    cdz_serve_rulebook *book = NULL;
    CDZ_TRY(make_rules(rules, &book, err));
    cdz_status status = cdz_serve_read_folder(serve, rules->pipelines, err);
    if (status == CDZ_OK) status = cdz_served_change(serve, rules, wait, err);
    if (status == CDZ_OK)
        take_rules(serve, book);
    else
        free_rules(book);
    return status;
}

cdz_status cdz_serve_begin_rules(cdz_serve *serve, const cdz_serve_rules *rules, cdz_error *err)
{
    return change(serve, rules, true, err);
}

cdz_status cdz_serve_check(const cdz_serve_rules *rules, cdz_error *err)
{
    cdz_serve_rulebook *book = NULL;
    CDZ_TRY(make_rules(rules, &book, err));
    free_rules(book);
    return CDZ_OK;
}

cdz_status cdz_serve_change(cdz_serve *serve, const cdz_serve_rules *rules, cdz_error *err)
{
    cdz_mutex_lock(&serve->change_lock);
    const cdz_status status = change(serve, rules, false, err);
    cdz_mutex_unlock(&serve->change_lock);
    return status;
}

void cdz_serve_end_rules(cdz_serve *serve)
{
    free_rules(serve->rules);
    serve->rules = NULL;
}
