/* parse.c - the text of a .rules file: a line is a word and what belongs to it.
 *
 *     # what follows is a comment
 *     id NAME | version 1.0.0 | summary TEXT
 *     param NAME DEFAULT LEAST MOST HELP
 *     ban TEXT
 *     bias TEXT NUMBER [PARAM]
 *
 * TEXT is a word, or anything in double quotes, with \" \\ \n and \t. The bytes are the user's: nothing is taken on trust. */
#include <string.h>

#include "rules.h"

enum { MAX_WORD = 256, MAX_DIGITS = 15 };

/* A file being read. Its bytes end in a NUL, so that one byte more than there are may be looked at. */
typedef struct reader {
    const cdz_step *step;
    const cdz_plugin_file *file;
    const char *p, *end;
    uint32_t line;
    rules *out;
} reader;

/* The status is written out: cdz_fail returns what it is given. */
#define REFUSE(r, ...) ((void)cdz_fail((r)->step, CDZ_E_INPUT, __VA_ARGS__), CDZ_E_INPUT)

static cdz_status no_memory(const reader *r)
{
    (void)cdz_fail(r->step, CDZ_E_NOMEM, "%s: out of memory", r->file->path);
    return CDZ_E_NOMEM;
}

/* --- words ---------------------------------------------------------------------------------------------------- */

static bool at_end(const reader *r)
{
    return r->p == r->end || *r->p == '\n' || *r->p == '#';
}

static void skip_blanks(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\r')) r->p++;
}

/* The bytes up to the next blank or the line's end; 0: nothing is left of the line. */
static size_t bare_word(reader *r, const char **at)
{
    skip_blanks(r);
    *at = r->p;
    if (at_end(r)) return 0;
    while (r->p < r->end && (unsigned char)*r->p > ' ') r->p++;
    if (r->p == *at) r->p += *r->p != '\n'; /* some other control character: a word of its own */
    return (size_t)(r->p - *at);
}

/* A copy that lives as long as the plugin. */
static char *keep(const reader *r, const char *text, size_t n)
{
    char *copy = cdz_alloc(r->step, n + 1);
    if (copy) memcpy(copy, text, n);
    return copy;
}

/* What the rest of the line says, without the blanks round it; a comment does not begin in it. */
static cdz_status rest_of_line(reader *r, const char **out)
{
    skip_blanks(r);
    const char *at = r->p, *end = at;
    while (end < r->end && *end != '\n') end++;
    r->p = end;
    while (end > at && (unsigned char)end[-1] <= ' ') end--;
    if (memchr(at, '\0', (size_t)(end - at)))
        return REFUSE(r, "%s:%u: a NUL byte in the text", r->file->path, r->line);
    *out = keep(r, at, (size_t)(end - at));
    return *out ? CDZ_OK : no_memory(r);
}

static cdz_status word(reader *r, const char *what, const char **out, size_t *len)
{
    *len = bare_word(r, out);
    if (*len == 0) return REFUSE(r, "%s:%u: %s is missing", r->file->path, r->line, what);
    if (*len > MAX_WORD)
        return REFUSE(r, "%s:%u: %s has %u bytes, the limit is %d", r->file->path, r->line, what,
                      (unsigned)*len, MAX_WORD);
    return CDZ_OK;
}

static cdz_status kept_word(reader *r, const char *what, const char **out)
{
    const char *at;
    size_t len;
    CDZ_TRY(word(r, what, &at, &len));
    if (memchr(at, '\0', len)) return REFUSE(r, "%s:%u: a NUL byte", r->file->path, r->line);
    *out = keep(r, at, len);
    return *out ? CDZ_OK : no_memory(r);
}

/* After the opening quote: what it stands for, at most as long as what is written. */
static cdz_status quoted(reader *r, cdz_string *out)
{
    static const char written[] = "\"\\nt", meant[] = "\"\\\n\t";
    const char *close = r->p;
    while (close < r->end && *close != '"' && *close != '\n')
        close += 1 + (*close == '\\' && close + 1 < r->end && close[1] != '\n');
    if (close >= r->end || *close != '"')
        return REFUSE(r, "%s:%u: the text has no closing \"", r->file->path, r->line);
    char *to = cdz_alloc(r->step, (size_t)(close - r->p) + 1);
    if (!to) return no_memory(r);
    out->at = to;
    for (; r->p < close; r->p++) {
        const char *known = *r->p == '\\' ? memchr(written, r->p[1], sizeof written - 1) : r->p;
        if (!known)
            return REFUSE(r, "%s:%u: \\%.1s is not known: expected \\\" \\\\ \\n or \\t",
                          r->file->path, r->line,
                          (unsigned char)(r->p[1] - '!') < 94 ? r->p + 1 : "?");
        if (*r->p == '\\') {
            *to++ = meant[known - written];
            r->p++;
        } else {
            *to++ = *r->p;
        }
    }
    r->p = close + 1;
    out->len = (uint32_t)(to - out->at);
    return CDZ_OK;
}

static cdz_status text_of(reader *r, cdz_string *out)
{
    skip_blanks(r);
    if (r->p < r->end && *r->p == '"') {
        r->p++;
        CDZ_TRY(quoted(r, out));
    } else {
        const char *at;
        size_t len;
        CDZ_TRY(word(r, "the text", &at, &len));
        out->at = keep(r, at, len);
        if (!out->at) return no_memory(r);
        out->len = (uint32_t)len;
    }
    if (out->len > 0) return CDZ_OK;
    return REFUSE(r, "%s:%u: the text is empty", r->file->path, r->line);
}

/* --- numbers ---------------------------------------------------------------------------------------------------- */

static size_t read_digits(const char *at, size_t n, uint64_t *value)
{
    size_t i = 0;
    for (; i < n && at[i] >= '0' && at[i] <= '9'; i++)
        if (i <= MAX_DIGITS) *value = *value * 10 + (uint64_t)(at[i] - '0');
    return i;
}

/* [+-]digits[.digits], whatever the locale. Few enough digits make both numbers exact, and so their quotient right. */
static bool decimal(const char *at, size_t n, double *out)
{
    uint64_t value = 0, scale = 1;
    const bool minus = n > 0 && *at == '-';
    if (n > 0 && (*at == '-' || *at == '+')) at++, n--;
    const size_t whole = read_digits(at, n, &value);
    size_t fraction = 0;
    if (whole < n && at[whole] == '.') {
        fraction = read_digits(at + whole + 1, n - whole - 1, &value);
        if (whole + 1 + fraction != n || fraction == 0) return false;
    } else if (whole != n) {
        return false;
    }
    if (whole + fraction == 0 || whole + fraction > MAX_DIGITS) return false;
    for (size_t i = 0; i < fraction; i++) scale *= 10;
    *out = (double)value / (double)scale;
    if (minus) *out = -*out;
    return true;
}

static cdz_status number(reader *r, const char *what, double *out)
{
    const char *at;
    size_t len;
    CDZ_TRY(word(r, what, &at, &len));
    if (decimal(at, len, out)) return CDZ_OK;
    return REFUSE(r, "%s:%u: %s is '%.*s': expected a number as 1.5, of at most %d digits",
                  r->file->path, r->line, what, (int)len, at, MAX_DIGITS);
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

static cdz_status once(reader *r, const char **field, const char *name)
{
    if (*field) return REFUSE(r, "%s:%u: a second %s", r->file->path, r->line, name);
    return CDZ_OK;
}

static cdz_status read_id(reader *r)
{
    CDZ_TRY(once(r, &r->out->processor.base.id, "id"));
    return kept_word(r, "the id", &r->out->processor.base.id);
}

static cdz_status read_version(reader *r)
{
    CDZ_TRY(once(r, &r->out->processor.base.version, "version"));
    return kept_word(r, "the version", &r->out->processor.base.version);
}

static cdz_status read_summary(reader *r)
{
    CDZ_TRY(once(r, &r->out->processor.base.summary, "summary"));
    return rest_of_line(r, &r->out->processor.base.summary);
}

/* The index of a parameter; NO_PARAM: no such one. */
static int32_t param_of(const reader *r, const char *name, size_t len)
{
    const cdz_plugin_base *base = &r->out->processor.base;
    for (uint32_t i = 0; i < base->n_params; i++) {
        const char *known = r->out->params[i].name;
        if (strlen(known) == len && memcmp(known, name, len) == 0) return (int32_t)i;
    }
    return NO_PARAM;
}

static cdz_status read_param(reader *r)
{
    cdz_plugin_base *base = &r->out->processor.base;
    const uint32_t i = base->n_params;
    if (i == MAX_PARAMS)
        return REFUSE(r, "%s:%u: more than %d parameters", r->file->path, r->line, MAX_PARAMS);
    cdz_param *p = &r->out->params[i];
    *p = (cdz_param){.type = CDZ_T_REAL, .offset = (uint32_t)(i * sizeof(double))};
    CDZ_TRY(kept_word(r, "the parameter's name", &p->name));
    if (param_of(r, p->name, strlen(p->name)) != NO_PARAM)
        return REFUSE(r, "%s:%u: a second parameter %s", r->file->path, r->line, p->name);
    CDZ_TRY(number(r, "its default", &p->def));
    CDZ_TRY(number(r, "its least value", &p->min));
    CDZ_TRY(number(r, "its most", &p->max));
    CDZ_TRY(rest_of_line(r, &p->help));
    base->n_params++;
    return CDZ_OK;
}

static cdz_status next_rule(reader *r, rule **out)
{
    if (r->out->n == MAX_RULES)
        return REFUSE(r, "%s:%u: more than %d rules", r->file->path, r->line, MAX_RULES);
    *out = &r->out->at[r->out->n];
    **out = (rule){.line = r->line, .param = NO_PARAM};
    CDZ_TRY(text_of(r, &(*out)->text));
    r->out->n++;
    return CDZ_OK;
}

static cdz_status read_ban(reader *r)
{
    rule *made;
    CDZ_TRY(next_rule(r, &made));
    made->ban = true;
    return CDZ_OK;
}

static cdz_status read_bias(reader *r)
{
    const char *name;
    rule *made;
    CDZ_TRY(next_rule(r, &made));
    CDZ_TRY(number(r, "the bias", &made->bias));
    const size_t len = bare_word(r, &name);
    if (len == 0) return CDZ_OK;
    made->param = param_of(r, name, len);
    if (made->param != NO_PARAM) return CDZ_OK;
    return REFUSE(r,
                  "%s:%u: '%.*s' is no parameter of this file; a line before would say: param "
                  "%.*s 1 0 2",
                  r->file->path, r->line, len < MAX_WORD ? (int)len : MAX_WORD, name,
                  len < MAX_WORD ? (int)len : MAX_WORD, name);
}

static const struct {
    const char *word;
    cdz_status (*read)(reader *r);
} words[] = {{"id", read_id},       {"version", read_version}, {"summary", read_summary},
             {"param", read_param}, {"ban", read_ban},         {"bias", read_bias}};

static cdz_status read_line(reader *r)
{
    const char *at, *more;
    const size_t len = bare_word(r, &at);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i].word) != len || memcmp(words[i].word, at, len) != 0) continue;
        CDZ_TRY(words[i].read(r));
        const size_t left = bare_word(r, &more);
        if (left == 0) return CDZ_OK;
        return REFUSE(r, "%s:%u: '%.*s' is more than a line with %s takes", r->file->path, r->line,
                      left < MAX_WORD ? (int)left : MAX_WORD, more, words[i].word);
    }
    if (len == 0) return CDZ_OK;
    return REFUSE(r, "%s:%u: '%.*s' is not known: expected id, version, summary, param, ban or bias",
                  r->file->path, r->line, len < MAX_WORD ? (int)len : MAX_WORD, at);
}

/* Without the ending; what an id may not hold is for the host to refuse. */
static cdz_status name_after_file(reader *r, const char **id)
{
    static const char before[] = "rules.";
    const char *name = r->file->name, *dot = strrchr(name, '.');
    const size_t n = dot ? (size_t)(dot - name) : strlen(name), m = sizeof before - 1;
    char *made = cdz_alloc(r->step, m + n + 1);
    if (!made) return no_memory(r);
    memcpy(made, before, m);
    memcpy(made + m, name, n);
    made[m + n] = '\0';
    *id = made;
    return CDZ_OK;
}

static cdz_status settle(reader *r)
{
    cdz_plugin_base *base = &r->out->processor.base;
    if (r->out->n == 0)
        return REFUSE(r, "%s: holds no rule: a line as ban TEXT or bias TEXT NUMBER", r->file->path);
    if (!base->id) CDZ_TRY(name_after_file(r, &base->id));
    if (!base->version) base->version = "1.0.0";
    if (!base->summary) base->summary = "Ban and favour texts";
    base->params = r->out->params;
    base->param_size = sizeof r->out->params[0];
    base->params_size = sizeof(values);
    return CDZ_OK;
}

/* A line is a rule at most: so much room is enough. */
static uint32_t count_lines(const cdz_plugin_file *file)
{
    uint32_t n = 1;
    for (uint64_t i = 0; i < file->len && n <= MAX_RULES; i++) n += file->bytes[i] == '\n';
    return n <= MAX_RULES ? n : MAX_RULES;
}

cdz_status rules_parse(const cdz_step *step, const cdz_plugin_file *file, rules *out)
{
    reader r = {.step = step,
                .file = file,
                .p = file->bytes,
                .end = file->bytes + file->len,
                .line = 1,
                .out = out};
    out->path = keep(&r, file->path, strlen(file->path));
    out->at = cdz_alloc(step, count_lines(file) * sizeof *out->at);
    if (!out->path || !out->at) return no_memory(&r);
    for (;; r.line++) {
        CDZ_TRY(read_line(&r));
        const char *next = memchr(r.p, '\n', (size_t)(r.end - r.p)); /* behind a comment */
        if (!next) return settle(&r);
        r.p = next + 1;
    }
}
