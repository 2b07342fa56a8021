/* fuzz_ask.c - any bytes as the body of a completion, a chat or a response, which the first byte says: it is refused with a
 * status and a sentence, or its documents are JSON with a prompt. */
#include <string.h>

#include "fuzz.h"
#include "serve/ask.h"

static void open_world(cdz_ask_world *world)
{
    const cdz_options options = {.size = sizeof options, .n_threads = 1};
    cdz_error err = {0};
    FUZZ_CHECK(cdz_open(&options, &world->runtime, &err) == CDZ_OK);
    FUZZ_CHECK(cdz_model_open(world->runtime, CADENZA_TEST_DATA "/../models/pocket-dictionary",
                              NULL, &world->model, &err) == CDZ_OK);
    FUZZ_CHECK(cdz_model_answer_form(world->model, &world->answers, &err) == CDZ_OK);
    world->model_id = "pocket";
}

static void check_documents(const cdz_asking *ask)
{
    for (size_t i = 0; i < ask->n_prompts && i < 4; i++) {
        cdz_arena arena = {0};
        cdz_buf text = {0};
        cdz_json document;
        cdz_ask_document(ask, i, ask->n, &text);
        FUZZ_CHECK(!text.failed && ask->prompts[i].n);
        FUZZ_CHECK(cdz_json_parse(text.data, text.len, "document", NULL, &arena, &document, NULL) ==
                   CDZ_OK);
        cdz_buf_free(&text);
        cdz_arena_free(&arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static cdz_ask_world world;
    static const cdz_ask_kind kinds[] = {CDZ_ASK_COMPLETION, CDZ_ASK_CHAT, CDZ_ASK_RESPONSE};
    if (size < 1 || size > (1 << 14)) return 0;
    if (!world.model) open_world(&world);
    cdz_asking ask;
    cdz_serve_fault fault = {0};
    if (cdz_ask_read(&ask, &world, kinds[data[0] % 3], (const char *)data + 1, size - 1, &fault))
        check_documents(&ask);
    else
        FUZZ_CHECK(fault.status >= 400 && fault.status < 504 && *fault.text);
    cdz_ask_free(&ask);
    return 0;
}
