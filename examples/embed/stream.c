/* stream.c - two models at once, tokens by callback, and a request that is stopped from outside.
 *
 *   cc stream.c $(pkg-config --cflags --libs cadenza) -o stream && ./stream MODEL OTHER_MODEL "river (noun):"
 *
 * Both requests are decoded together. Each line that is printed is one event: which request, what text was new. The
 * second request may go on for 400 tokens, and is cancelled once eight pieces of it have arrived. */
#include <cadenza/cadenza.h>
#include <stdatomic.h>
#include <stdio.h>

enum { PIECES = 8 };

typedef struct {
    const char *name;
    atomic_uint pieces;
} listener;

/* [engine thread] Must not block, and may not wait for anything. */
static void heard(void *user, const cdz_event *event)
{
    listener *l = user;
    if (event->kind == CDZ_EVENT_TOKENS) {
        printf("%s: %u ids, '%s'\n", l->name, event->n_ids, event->text);
        atomic_fetch_add(&l->pieces, 1);
    }
}

/* A pipeline is settings; it may be shared by any number of requests. */
static cdz_status settings(cdz_runtime *runtime, const char *max_new_tokens, cdz_pipeline **out,
                           cdz_error *err)
{
    CDZ_TRY(cdz_pipeline_load(runtime, NULL, out, err));
    CDZ_TRY(cdz_pipeline_set(*out, "do_sample", "true", err));
    CDZ_TRY(cdz_pipeline_set(*out, "seed", "42", err));
    CDZ_TRY(cdz_pipeline_set(*out, "eos_token_id", "none", err));
    return cdz_pipeline_set(*out, "max_new_tokens", max_new_tokens, err);
}

/* Waits for a request and says how it ended; one that was cancelled has a result too. */
static cdz_status finish(cdz_runtime *runtime, uint64_t id, const char *name, cdz_error *err)
{
    cdz_result *result = NULL;
    cdz_status status = cdz_wait(runtime, id, &result, err);
    if (result) {
        uint32_t n_ids = 0;
        cdz_result_ids(result, 0, &n_ids);
        printf("%s: ended after %u tokens: %s\n", name, n_ids, cdz_result_finish_reason(result, 0));
    }
    cdz_result_free(result);
    return status == CDZ_E_CANCELLED ? CDZ_OK : status;
}

/* Pulls events until the long request has given enough, then stops it. */
static cdz_status stop_when_long(cdz_runtime *runtime, uint64_t id, cdz_error *err)
{
    unsigned pieces = 0;
    while (pieces < PIECES) {
        cdz_event event;
        CDZ_TRY(cdz_poll(runtime, 60, &event, err));
        if (event.kind == CDZ_EVENT_DONE) return CDZ_OK;
        printf("long: %u ids, '%s'\n", event.n_ids, event.text);
        pieces++;
    }
    return cdz_cancel(runtime, id, err);
}

static cdz_status talk(cdz_runtime *runtime, cdz_model *models[2], const char *prompt,
                       cdz_pipeline *pipelines[2], cdz_error *err)
{
    listener l = {.name = "short"};
    uint64_t ids[2];
    cdz_request brief = {.size = sizeof brief,
                         .model = models[0],
                         .pipeline = pipelines[0],
                         .prompt = prompt,
                         .on_event = heard,
                         .user = &l};
    cdz_request lengthy = {.size = sizeof lengthy,
                           .model = models[1],
                           .pipeline = pipelines[1],
                           .prompt = prompt,
                           .poll = true};
    CDZ_TRY(cdz_submit(runtime, &lengthy, &ids[1], err));
    CDZ_TRY(cdz_submit(runtime, &brief, &ids[0], err));
    CDZ_TRY(stop_when_long(runtime, ids[1], err));
    CDZ_TRY(finish(runtime, ids[0], "short", err));
    return finish(runtime, ids[1], "long", err);
}

int main(int argc, char **argv)
{
    cdz_runtime *runtime = NULL;
    cdz_model *models[2] = {NULL, NULL};
    cdz_pipeline *pipelines[2] = {NULL, NULL};
    cdz_error err = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: stream MODEL OTHER_MODEL PROMPT\n");
        return 2;
    }
    cdz_status status = cdz_open(NULL, &runtime, &err);
    for (int i = 0; i < 2 && status == CDZ_OK; i++)
        status = cdz_model_open(runtime, argv[1 + i], NULL, &models[i], &err);
    if (status == CDZ_OK) status = settings(runtime, "12", &pipelines[0], &err);
    if (status == CDZ_OK) status = settings(runtime, "400", &pipelines[1], &err);
    if (status == CDZ_OK) status = talk(runtime, models, argv[3], pipelines, &err);
    if (status != CDZ_OK) fprintf(stderr, "stream: %s\n", err.text);
    for (int i = 0; i < 2; i++) {
        cdz_pipeline_free(pipelines[i]);
        cdz_model_close(models[i]);
    }
    cdz_close(runtime);
    return status != CDZ_OK;
}
