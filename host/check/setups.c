/* setups.c - parameter structs that a plugin works with: the defaults, random ones, and what -s says over both. */
#include "check/setups.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 120, ROW_TRIES = 8, WHY = 1100 };

void *cdz_check_params_new(cdz_child *c)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    void *params = cdz_arena_alloc(&c->memory, table.params_size + 1u);
    if (params) cdz_params_defaults(&table, params);
    return params;
}

cdz_status cdz_check_value_put(cdz_child *c, const cdz_param *param, const char *text, void *params,
                               cdz_error *err)
{
    cdz_json value;
    CDZ_TRY(cdz_param_from_text(param, text, &c->memory, &value, err));
    return cdz_param_set(param, params, &value, &c->memory, err);
}

/* -s: these win over anything. */
static cdz_status put_settings(cdz_child *c, void *params, cdz_error *err)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    for (uint32_t i = 0; i < c->options->n_set; i++) {
        const char *text = c->options->set[i], *equals = strchr(text, '=');
        char name[64] = "";
        if (!equals || (size_t)(equals - text) >= sizeof name)
            return cdz_err(err, CDZ_E_USAGE, "-s %.80s: expected name=value", text);
        memcpy(name, text, (size_t)(equals - text));
        const cdz_param *param = cdz_param_find(&table, name);
        char suggestion[160];
        cdz_param_suggest(&table, name, suggestion, sizeof suggestion);
        if (!param)
            return cdz_err(err, CDZ_E_USAGE, "-s %s: %s has no such parameter%s", name,
                           c->ref.base->id, suggestion);
        if (cdz_check_value_put(c, param, equals + 1, params, err) != CDZ_OK)
            return cdz_err_prefix(err, "-s %s", name);
    }
    return CDZ_OK;
}

const char *cdz_setup_text(cdz_child *c, const void *params)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    cdz_buf text = {0}, value = {0}, usual = {0};
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        cdz_buf_clear(&value);
        cdz_buf_clear(&usual);
        cdz_param_write(param, params, &value);
        cdz_param_write_default(param, &usual);
        if (value.failed || usual.failed || !value.data || !usual.data) continue;
        if (strcmp(value.data, usual.data) == 0 || strcmp(value.data, "null") == 0) continue;
        cdz_buf_printf(&text, "%s%s=%s", text.len ? " " : "", param->name, value.data);
    }
    const char *kept = text.len ? cdz_arena_strdup(&c->memory, text.data) : "the default parameters";
    cdz_buf_free(&text);
    cdz_buf_free(&value);
    cdz_buf_free(&usual);
    return kept ? kept : "";
}

static cdz_setup *setup_of(cdz_child *c, void *params, cdz_error *err)
{
    cdz_setup *setup = cdz_arena_alloc(&c->memory, sizeof *setup);
    if (!setup || !params) {
        cdz_err_write(err, CDZ_E_NOMEM, "out of memory");
        return NULL;
    }
    if (put_settings(c, params, err) != CDZ_OK) return NULL;
    *setup = (cdz_setup){params, cdz_setup_text(c, params), 0};
    return setup;
}

cdz_setup *cdz_setup_defaults(cdz_child *c, cdz_error *err)
{
    return setup_of(c, cdz_check_params_new(c), err);
}

/* A script's budgets are the host's affair. */
static bool is_budget(const cdz_child *c, const cdz_param *param)
{
    return cdz_module_is_script(c->ref.module) && strncmp(param->name, "budget_", 7) == 0;
}

/* What has no value of its own gets one more often than not; what has one keeps it more often than not. */
static bool to_be_set(const cdz_param *param, uint64_t *random)
{
    const bool plain = param->type == CDZ_T_BOOL || param->type == CDZ_T_INT ||
                       param->type == CDZ_T_REAL || param->type == CDZ_T_WORD;
    return plain ? cdz_random_below(random, 2) == 0 : cdz_random_below(random, 4) != 0;
}

static void put_random(cdz_child *c, const cdz_param *param, uint64_t *random, uint32_t n_vocab,
                       cdz_wildness wild, void *params)
{
    cdz_buf text = {0};
    cdz_check_value_random(param, n_vocab, wild, random, &text);
    if (!text.failed && text.data) (void)cdz_check_value_put(c, param, text.data, params, NULL);
    cdz_buf_free(&text);
}

cdz_setup *cdz_setup_random(cdz_child *c, uint64_t *random, uint32_t n_vocab, cdz_wildness wild,
                            cdz_error *err)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    void *params = cdz_check_params_new(c);
    for (uint32_t i = 0; params && i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        if (is_budget(c, param) || !to_be_set(param, random)) continue;
        put_random(c, param, random, n_vocab, wild, params);
    }
    return setup_of(c, params, err);
}

/* One parameter has a value, as where of several one may be set. */
static cdz_setup *one_alone(cdz_child *c, uint32_t which, uint64_t *random, cdz_error *err)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    const cdz_param *param = cdz_param_at(&table, which);
    void *params = cdz_check_params_new(c);
    if (params && !is_budget(c, param))
        put_random(c, param, random, cdz_usual_facts.n_vocab, CDZ_MILD, params);
    return setup_of(c, params, err);
}

/* --- those that work ----------------------------------------------------------------------------------------- */

/* Whether ordinary rows are answered; else why holds the refusal. A failure that breaks the contract is a verdict. */
static cdz_check_state works(cdz_child *c, const cdz_setup *setup, bool *yes, uint32_t *rows_failed,
                             char why[WHY])
{
    cdz_probe t;
    cdz_follow f;
    const char *call = "create";
    *yes = false;
    if (!cdz_probe_make(&t, c->ref.base, setup->params, &cdz_usual_facts))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "create with %s", setup->text);
    cdz_status status = cdz_probe_create(&t);
    if (status == CDZ_OK) {
        cdz_check_note(c, "idle with %s", setup->text);
        if (cdz_probe_idle(&t)) {
            snprintf(why, WHY, "idle says that %s change nothing", setup->text);
            cdz_probe_free(&t);
            return CDZ_CHECK_OK;
        }
        call = "begin";
        cdz_check_note(c, "begin with %s", setup->text);
        status = cdz_probe_begin(&t);
    }
    const char *broken = cdz_probe_broken(&t, status);
    if (broken) return cdz_fail_check(c, "%s with %s: %s", call, setup->text, broken);
    if (status != CDZ_OK) snprintf(why, WHY, "%s: %s", call, t.said.text);
    if (status == CDZ_OK && cdz_follow_start(&f, &t, 1)) {
        float *answer = cdz_answers_new(c, cdz_answer_len(&t.facts));
        cdz_check_note(c, "the first row with %s", setup->text);
        if (!answer) return cdz_fail_check(c, "out of memory");
        status = cdz_follow_ask(&f, answer);
        broken = cdz_probe_broken(&t, status);
        if (broken) return cdz_fail_check(c, "the first row with %s: %s", setup->text, broken);
        *yes = status == CDZ_OK;
        *rows_failed += !*yes;
        if (!*yes) snprintf(why, WHY, "%s", t.said.text);
    }
    cdz_probe_free(&t);
    return CDZ_CHECK_OK;
}

/* Adds the setup to out where it works. */
static cdz_check_state try_setup(cdz_child *c, cdz_setup *setup, cdz_setup **out, uint32_t *n,
                                 uint32_t *rows_failed, char why[WHY], const cdz_error *err)
{
    bool yes;
    if (!setup) return cdz_fail_check(c, "%s", err->text);
    CDZ_CHECK_TRY(works(c, setup, &yes, rows_failed, why));
    if (yes) out[(*n)++] = setup;
    return CDZ_CHECK_OK;
}

/* The numbers come from the seed alone: the same setups in every check. */
cdz_check_state cdz_setups_find(cdz_child *c, cdz_setup **out, uint32_t *n)
{
    uint64_t random = c->options->seed;
    uint32_t rows_failed = 0;
    char why[WHY] = "";
    cdz_error err = {0};
    *n = 0;
    for (uint32_t i = 0; i < TRIES && *n < CDZ_SETUPS && rows_failed < ROW_TRIES; i++) {
        cdz_setup *setup =
            i == 0 ? cdz_setup_defaults(c, &err)
                   : cdz_setup_random(c, &random, cdz_usual_facts.n_vocab, CDZ_MILD, &err);
        CDZ_CHECK_TRY(try_setup(c, setup, out, n, &rows_failed, why, &err));
        if (c->ref.base->n_params == 0) break;
    }
    const uint32_t alone = *n ? 0 : c->ref.base->n_params;
    for (uint32_t i = 0; i < alone && *n < CDZ_SETUPS; i++)
        CDZ_CHECK_TRY(try_setup(c, one_alone(c, i, &random, &err), out, n, &rows_failed, why, &err));
    if (*n > 0) return CDZ_CHECK_OK;
    return cdz_fail_check(c,
                          "no parameters were found that it works with; name some with -s "
                          "name=value. The newest refusal: %s",
                          why);
}

cdz_check_state cdz_check_each_setup(cdz_child *c, cdz_setup_fn *fn)
{
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n;
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    for (uint32_t i = 0; i < n; i++) CDZ_CHECK_TRY(fn(c, setups[i]));
    return CDZ_CHECK_OK;
}

cdz_setup cdz_setup_aged(cdz_child *c, const cdz_setup *setup, uint32_t age)
{
    cdz_setup aged = {setup->params, setup->text, age};
    const char *text = age ? cdz_arena_printf(&c->memory, "%s, after %u accepted token%s",
                                              setup->text, age, age == 1 ? "" : "s")
                           : NULL;
    if (text) aged.text = text;
    return aged;
}

cdz_check_state cdz_check_ages_beside(cdz_child *c, cdz_aged_fn *fn, void *user)
{
    static const uint32_t ages[] = {0, 1, 7, 100};
    cdz_setup *setups[CDZ_SETUPS];
    uint32_t n;
    CDZ_CHECK_TRY(cdz_setups_find(c, setups, &n));
    for (size_t a = 0; a < sizeof ages / sizeof ages[0]; a++)
        for (uint32_t i = 0; i < n; i++) {
            const cdz_setup aged = cdz_setup_aged(c, setups[i], ages[a]);
            CDZ_CHECK_TRY(fn(c, &aged, setups[(i + 1) % n], user));
        }
    return CDZ_CHECK_OK;
}

static cdz_check_state alone(cdz_child *c, const cdz_setup *aged, const cdz_setup *other, void *user)
{
    cdz_setup_fn *const *fn = user;
    (void)other;
    return (*fn)(c, aged);
}

cdz_check_state cdz_check_each_age(cdz_child *c, cdz_setup_fn *fn)
{
    return cdz_check_ages_beside(c, alone, &fn);
}

cdz_check_state cdz_probe_ready(cdz_child *c, cdz_probe *t, const cdz_setup *setup,
                                const cdz_made_up *facts)
{
    cdz_made_up aged = *facts;
    aged.age = setup->age;
    if (!cdz_probe_make(t, c->ref.base, setup->params, &aged))
        return cdz_fail_check(c, "out of memory");
    cdz_check_note(c, "create with %s", setup->text);
    cdz_status status = cdz_probe_create(t);
    cdz_check_note(c, "begin with %s", setup->text);
    if (status == CDZ_OK) status = cdz_probe_begin(t);
    cdz_check_note(c, "rows with %s", setup->text);
    if (status == CDZ_OK) return CDZ_CHECK_OK;
    return cdz_fail_check(c, "with %s: %s", setup->text, t->said.text);
}
