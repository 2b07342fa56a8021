/* step_host.c - the host table of a plugin in a process of its own. What the host alone knows is asked for through the
 * mapping; numbers are made here, by the same code. */
#include <stdlib.h>
#include <string.h>

#include "cadenza/ext/tokenizer.h"
#include "config/generation.h"
#include "isolate/values.h"
#include "random/torch_rng.h"
#include "worker/worker.h"

/* Texts are fetched so many at a time: a plugin that wants one often wants them all. */
enum { TEXTS_AT_ONCE = 8192 };

static cdz_worker *worker_of(const cdz_step *step)
{
    return step->scope;
}

static cdz_arena *arena_of(const cdz_step *step)
{
    return &worker_of(step)->now->arena;
}

/* --- asking --------------------------------------------------------------------------------------------------- */

static cdz_wire_out question(const cdz_step *step, cdz_isolate_down kind)
{
    cdz_wire_out out = cdz_worker_down(worker_of(step));
    cdz_put_u32(&out, kind);
    return out;
}

static cdz_wire_in ask(const cdz_step *step, const cdz_wire_out *out)
{
    cdz_wire_in in = cdz_worker_turn(worker_of(step), out);
    (void)cdz_take_u32(&in); /* CDZ_UP_ANSWER */
    return in;
}

/* --- what was said ---------------------------------------------------------------------------------------------- */

static cdz_status fail(const cdz_step *step, cdz_status code, const char *text)
{
    return cdz_err(&worker_of(step)->said, code, "%s", text);
}

static void log_line(const cdz_step *step, cdz_log_level level, const char *text)
{
    cdz_wire_out out = question(step, CDZ_DOWN_LOG);
    cdz_put_u32(&out, level);
    cdz_put_text(&out, text);
    (void)ask(step, &out);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void *alloc(const cdz_step *step, size_t bytes)
{
    return worker_of(step)->may_alloc ? cdz_arena_alloc(arena_of(step), bytes) : NULL;
}

static void *alloc_aligned(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc_aligned(arena_of(step), bytes, 64);
}

static void *scratch(const cdz_step *step, size_t bytes)
{
    return cdz_scratch_take(&worker_of(step)->scratch, bytes);
}

/* --- facts -------------------------------------------------------------------------------------------------------- */

static cdz_status config(const cdz_step *step, const char *name, cdz_param_type type, void *value)
{
    if (type == 0) return cdz_generation_known(name, value); /* no request need be asked */
    cdz_wire_out out = question(step, CDZ_DOWN_CONFIG);
    cdz_put_text(&out, name);
    cdz_put_u32(&out, type);
    cdz_wire_in in = ask(step, &out);
    const cdz_status status = (cdz_status)cdz_take_u32(&in);
    if (status == CDZ_OK) cdz_take_value(&in, type, arena_of(step), value);
    return in.bad ? CDZ_E_NOMEM : status;
}

static void noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    cdz_philox(step->request->seed, cdz_philox_key(step->plugin->id), row, position, out);
}

/* --- files of data -------------------------------------------------------------------------------------------------- */

static cdz_status keep_file(cdz_worker *w, const char *name, cdz_wire_in *in, cdz_string *out)
{
    cdz_worker_file *file = cdz_arena_alloc(&w->kept, sizeof *file);
    const char *copy = cdz_arena_strdup(&w->kept, name);
    *out = cdz_take_string(in, &w->kept);
    if (!file || !copy || in->bad) return CDZ_E_NOMEM;
    *file = (cdz_worker_file){w->files, copy, *out};
    w->files = file;
    return CDZ_OK;
}

/* Brought over once; sentences are the host's. */
static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    cdz_worker *w = worker_of(step);
    for (const cdz_worker_file *f = w->files; f; f = f->next)
        if (strcmp(f->name, name) == 0) {
            *out = f->bytes;
            return CDZ_OK;
        }
    if (strlen(name) > CDZ_ASK_NAME_BYTES)
        return cdz_fail(step, CDZ_E_LIMIT, "file: a name of %zu bytes; at most %d", strlen(name),
                        (int)CDZ_ASK_NAME_BYTES);
    cdz_wire_out asked = question(step, CDZ_DOWN_FILE);
    cdz_put_text(&asked, name);
    cdz_wire_in in = ask(step, &asked);
    const cdz_status status = (cdz_status)cdz_take_u32(&in);
    if (in.bad) return CDZ_E_NOMEM;
    return status == CDZ_OK ? keep_file(w, name, &in, out) : status;
}

/* --- the tokenizer -------------------------------------------------------------------------------------------------- */

static bool present(const cdz_step *step)
{
    const cdz_wire_out out = question(step, CDZ_DOWN_PRESENT);
    cdz_wire_in in = ask(step, &out);
    return cdz_take_u32(&in) != 0;
}

static uint32_t n_tokens(const cdz_step *step)
{
    const cdz_wire_out out = question(step, CDZ_DOWN_N_TOKENS);
    cdz_wire_in in = ask(step, &out);
    return cdz_take_u32(&in);
}

static const cdz_string not_asked = {NULL, 1};

static bool know_texts(cdz_worker_session *session, uint32_t n)
{
    if (session->texts) return true;
    session->texts = cdz_arena_array(&session->arena, n, sizeof *session->texts);
    if (!session->texts) return false;
    session->n_texts = n;
    for (uint32_t i = 0; i < n; i++) session->texts[i] = not_asked;
    return true;
}

static cdz_string token_text(const cdz_step *step, int32_t id)
{
    cdz_worker_session *session = worker_of(step)->now;
    if (id < 0 || !know_texts(session, session->texts ? 0 : n_tokens(step)) ||
        (uint32_t)id >= session->n_texts)
        return (cdz_string){0};
    const cdz_string *text = &session->texts[id];
    if (text->at || text->len != not_asked.len) return *text;
    const uint32_t rest = session->n_texts - (uint32_t)id;
    const uint32_t n = rest < TEXTS_AT_ONCE ? rest : TEXTS_AT_ONCE;
    cdz_wire_out out = question(step, CDZ_DOWN_TEXTS);
    cdz_put_u32(&out, (uint32_t)id);
    cdz_put_u32(&out, n);
    cdz_wire_in in = ask(step, &out);
    for (uint32_t i = 0; i < n && in.pos < in.len && !in.bad; i++)
        session->texts[(uint32_t)id + i] = cdz_take_string(&in, &session->arena);
    if (!text->at && text->len == not_asked.len) session->texts[id] = (cdz_string){0};
    return *text;
}

/* Sentences of the tokenizer are the host's already. */
static cdz_status encode(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *ids)
{
    if (len > CDZ_ASK_TEXT_BYTES)
        return cdz_fail(step, CDZ_E_LIMIT,
                        "encode: a text of %zu bytes; at most %d go to the host at once (isolation = "
                        "process)",
                        len, (int)CDZ_ASK_TEXT_BYTES);
    cdz_wire_out out = question(step, CDZ_DOWN_ENCODE);
    cdz_put_string(&out, (cdz_string){text, (uint32_t)len});
    cdz_put_u32(&out, special);
    cdz_wire_in in = ask(step, &out);
    const cdz_status status = (cdz_status)cdz_take_u32(&in);
    if (status == CDZ_OK) *ids = cdz_take_ids(&in, arena_of(step));
    return in.bad ? CDZ_E_NOMEM : status;
}

static cdz_status check_ids(const cdz_step *step, const char *call, cdz_ids ids)
{
    if (ids.len <= CDZ_ASK_IDS) return CDZ_OK;
    return cdz_fail(step, CDZ_E_LIMIT,
                    "%s: %u ids; at most %d go to the host at once (isolation = process)", call,
                    ids.len, (int)CDZ_ASK_IDS);
}

static cdz_status decode(const cdz_step *step, cdz_ids ids, bool skip_special, cdz_string *text)
{
    CDZ_TRY(check_ids(step, "decode", ids));
    cdz_wire_out out = question(step, CDZ_DOWN_DECODE);
    cdz_put_ids(&out, ids);
    cdz_put_u32(&out, skip_special);
    cdz_wire_in in = ask(step, &out);
    const cdz_status status = (cdz_status)cdz_take_u32(&in);
    if (status == CDZ_OK) *text = cdz_take_string(&in, arena_of(step));
    return in.bad ? CDZ_E_NOMEM : status;
}

static cdz_status convert(const cdz_step *step, const char *from, cdz_ids ids, const char *to,
                          bool special, cdz_ids *found)
{
    CDZ_TRY(check_ids(step, "convert", ids));
    cdz_wire_out out = question(step, CDZ_DOWN_CONVERT);
    cdz_put_text(&out, from);
    cdz_put_ids(&out, ids);
    cdz_put_text(&out, to);
    cdz_put_u32(&out, special);
    cdz_wire_in in = ask(step, &out);
    const cdz_status status = (cdz_status)cdz_take_u32(&in);
    if (status == CDZ_OK) *found = cdz_take_ids(&in, arena_of(step));
    return in.bad ? CDZ_E_NOMEM : status;
}

static const cdz_tokenizer_api tokenizer = {
    .size = sizeof(cdz_tokenizer_api),
    .present = present,
    .token_text = token_text,
    .n_tokens = n_tokens,
    .encode = encode,
    .decode = decode,
    .convert = convert,
};

/* --- the tables ------------------------------------------------------------------------------------------------------- */

static const void *extension(const char *id)
{
    if (strcmp(id, CDZ_EXT_TOKENIZER) == 0) return &tokenizer;
    return cdz_host_extension(id);
}

static const cdz_host request_host = CDZ_HOST_WITH(extension);

static const cdz_caller request = {
    .fail = fail,
    .log = log_line,
    .alloc = alloc,
    .scratch = scratch,
    .config = config,
    .noise = noise,
    .file = file,
};

/* During create there is no request: what that host offers is offered here (call/outside.c). */
static const cdz_caller creation = {
    .fail = fail, .alloc = alloc_aligned, .scratch = alloc_aligned, .file = file};

cdz_step cdz_worker_step(cdz_worker *w, cdz_worker_session *session)
{
    w->caller = session->request ? &request : &creation;
    w->now = session;
    w->said = (cdz_error){.code = CDZ_OK};
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = session->params,
                      .shared = session->shared,
                      .request = session->request,
                      .plugin = &session->plugin->base,
                      .host = session->request ? &request_host : &cdz_bare_host,
                      .scope = w};
}
