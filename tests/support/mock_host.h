/* mock_host.h - a host and a decoder without an engine, for what a plugin's process says: what reaches their functions has
 * to be in range, or the program ends here. Include in one file of a program. */
#ifndef CDZ_TESTS_SUPPORT_MOCK_HOST_H
#define CDZ_TESTS_SUPPORT_MOCK_HOST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cadenza/ext/files.h"
#include "cadenza/ext/tokenizer.h"
#include "isolate/exchange.h"

#define MOCK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { MOCK_VOCAB = 8, MOCK_ROWS = 2 };
static size_t mock_most_text, mock_most_ids; /* that the host's functions were asked for */
static size_t mock_rows_lent;                /* of scores, altogether */
static char mock_said[CDZ_ERROR_TEXT];       /* the newest sentence */
static const int64_t mock_ints[] = {1, -2, INT64_MAX};

static inline cdz_status mock_fail_line(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static inline cdz_status mock_fail_line(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    va_list args;
    (void)step;
    va_start(args, fmt);
    vsnprintf(mock_said, sizeof mock_said, fmt, args);
    va_end(args);
    return code;
}

static inline void mock_log_line(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static inline void mock_log_line(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
{
    (void)step, (void)fmt;
    MOCK_CHECK(level <= CDZ_LOG_WARNING);
}

static inline cdz_status mock_config(const cdz_step *step, const char *name, cdz_param_type type,
                                     void *value)
{
    (void)step;
    if (type != CDZ_T_INTS || strcmp(name, "known") != 0) return CDZ_E_NOT_FOUND;
    *(cdz_int_list *)value = ((cdz_int_list){mock_ints, 3, true});
    return CDZ_OK;
}

static inline bool mock_present(const cdz_step *step)
{
    return step != NULL;
}

static inline uint32_t mock_n_tokens(const cdz_step *step)
{
    (void)step;
    return MOCK_VOCAB;
}

static inline cdz_string mock_token_text(const cdz_step *step, int32_t id)
{
    (void)step;
    MOCK_CHECK(id >= 0);
    return id < MOCK_VOCAB ? (cdz_string){"a", 1} : (cdz_string){0};
}

static inline cdz_status mock_encode(const cdz_step *step, const char *text, size_t len,
                                     bool special, cdz_ids *ids)
{
    static const int32_t one[] = {1};
    (void)step, (void)special;
    mock_most_text = len > mock_most_text ? len : mock_most_text;
    *ids = (cdz_ids){one, len && text[len - 1] == 'x'};
    return CDZ_OK;
}

static inline cdz_status mock_decode(const cdz_step *step, cdz_ids ids, bool skip, cdz_string *text)
{
    (void)step, (void)skip;
    mock_most_ids = ids.len > mock_most_ids ? ids.len : mock_most_ids;
    *text = (cdz_string){"text", 4};
    return CDZ_OK;
}

static inline cdz_status mock_convert(const cdz_step *step, const char *from, cdz_ids ids,
                                      const char *to, bool special, cdz_ids *found)
{
    (void)step, (void)special;
    MOCK_CHECK(!from || strlen(from) <= CDZ_ISOLATE_DOWN_BYTES);
    MOCK_CHECK(!to || strlen(to) <= CDZ_ISOLATE_DOWN_BYTES);
    mock_most_ids = ids.len > mock_most_ids ? ids.len : mock_most_ids;
    *found = ids;
    return CDZ_OK;
}

static inline cdz_status mock_file(const cdz_step *step, const char *name, cdz_string *out)
{
    (void)step;
    MOCK_CHECK(strlen(name) <= CDZ_ERROR_TEXT);
    *out = (cdz_string){"bytes", 5};
    return strcmp(name, "known") == 0 ? CDZ_OK : CDZ_E_NOT_FOUND;
}

static inline const void *mock_extension(const char *id)
{
    static const cdz_files_api files = {.size = sizeof files, .get = mock_file};
    static const cdz_tokenizer_api api = {.size = sizeof api,
                                          .present = mock_present,
                                          .token_text = mock_token_text,
                                          .n_tokens = mock_n_tokens,
                                          .encode = mock_encode,
                                          .decode = mock_decode,
                                          .convert = mock_convert};
    if (strcmp(id, CDZ_EXT_FILES) == 0) return &files;
    return strcmp(id, CDZ_EXT_TOKENIZER) == 0 ? &api : NULL;
}

static inline cdz_status mock_scratch_scores(cdz_decoder *dec, uint32_t n, cdz_scores *out)
{
    static float rows_there[64 * MOCK_VOCAB];
    (void)dec;
    mock_rows_lent += n;
    if (n > 64) return CDZ_E_NOMEM;
    *out = (cdz_scores){rows_there, n, MOCK_VOCAB, MOCK_VOCAB, 1};
    return CDZ_OK;
}

static inline cdz_status mock_process_ids(cdz_decoder *dec, uint32_t pipeline, const cdz_ids *ids,
                                          const uint32_t *at, uint32_t n, cdz_scores *scores)
{
    (void)dec, (void)pipeline, (void)scores;
    for (uint32_t i = 0; i < n; i++) {
        MOCK_CHECK(at[i] < MOCK_ROWS && ids[i].len > 0);
        for (uint32_t k = 0; k < ids[i].len; k++)
            MOCK_CHECK(ids[i].at[k] >= 0 && ids[i].at[k] < MOCK_VOCAB);
    }
    return CDZ_OK;
}

static const cdz_host mock_host = {.size = sizeof mock_host,
                                   .extension = mock_extension,
                                   .fail = mock_fail_line,
                                   .log = mock_log_line,
                                   .config = mock_config};
static const cdz_decoder_api mock_verbs = {.size = sizeof mock_verbs,
                                           .scratch_scores = mock_scratch_scores,
                                           .process_ids = mock_process_ids};
static const cdz_request_info mock_request = {
    .size = sizeof mock_request, .n_rows = MOCK_ROWS, .n_vocab = MOCK_VOCAB, .pad = -1, .bos = -1};

/* Memory as it is shared with a process, without one. */
static inline unsigned char *mock_map(void)
{
    unsigned char *map = mmap(NULL, CDZ_ISOLATE_MAP_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MOCK_CHECK(map != MAP_FAILED);
    return map;
}

/* A question out of the middle of a drafter's call: the message of `len` bytes, in memory of that length. False: it is
 * none. */
static inline bool mock_ask(const unsigned char *bytes, size_t len, unsigned char *map,
                            cdz_isolate_session *session)
{
    static unsigned char answer[(1 << 20) + 4096 + 64];
    const cdz_step step = {.size = sizeof step, .request = &mock_request, .host = &mock_host};
    unsigned char *copy = malloc(len ? len : 1);
    cdz_isolate isolate = {.process.map = map};
    cdz_proxy proxy = {.of = &isolate};
    cdz_decoder dec = {.api = &mock_verbs};
    cdz_wire_out out = {.at = answer, .cap = sizeof answer};
    MOCK_CHECK(copy);
    if (len) memcpy(copy, bytes, len);
    cdz_exchange x = {.step = &step,
                      .proxy = &proxy,
                      .session = session,
                      .dec = &dec,
                      .in = {.at = copy, .len = len}};
    const uint32_t kind = cdz_take_u32(&x.in);
    const bool good = !x.in.bad && cdz_isolate_answer(&x, kind, &out) && !out.full;
    free(copy);
    return good;
}

#endif
