/* template.h - chat templates: the Jinja2 language as transformers sets it up, sandboxed.
 *
 * A template is compiled once and never changes: any number of threads may render it together.
 * What a context holds is data: text in it is never read as template again.
 *
 * As the reference: trim_blocks and lstrip_blocks, the plain kind of undefined, loop controls,
 * generation blocks, its own tojson, no loader, nothing that mutates. Integers have 64 bits: an
 * operation that leaves them is an error, a longer literal can be printed and nothing else. */
#ifndef CDZ_HOST_TEMPLATE_TEMPLATE_H
#define CDZ_HOST_TEMPLATE_TEMPLATE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

typedef struct cdz_template cdz_template;

/* Compiles len bytes of UTF-8. name stands for the template in sentences, which begin
 * "name:line:column: ". Nothing of text is kept. Source of more than 1 MiB is CDZ_E_LIMIT. */
cdz_status cdz_template_compile(const char *text, size_t len, const char *name, cdz_template **out,
                                cdz_error *err);
void cdz_template_free(cdz_template *tpl); /* NULL is fine */

/* A stretch of the output, in code points, that a generation block covers. */
typedef struct cdz_template_span {
    size_t begin, end;
} cdz_template_span;

typedef struct cdz_template_options {
    uint64_t max_steps;        /* 0: one million evaluated nodes */
    uint64_t max_touched;      /* 0: 1 GiB, of text and lists that operations go through */
    size_t max_output;         /* 0: 4 MiB, of the output and of any one string */
    const char *clock;         /* what strftime_now sees, "2026-01-15T12:34:56"; NULL: local time */
    cdz_template_span *span;   /* where generation spans go, or NULL */
    size_t n_spans, spans_cap; /* how many were found (may exceed the cap), room at span */
    uint64_t steps, touched;   /* what the rendering took of the two budgets */
} cdz_template_options;

/* Renders with the members of the object context as variables and appends to out; after a
 * failure out is as it was. options may be NULL. CDZ_E_LIMIT: a limit of the sandbox, named;
 * CDZ_E_INPUT: everything else. What raise_exception says is the whole sentence, without place. */
cdz_status cdz_template_render(const cdz_template *tpl, const cdz_json *context,
                               cdz_template_options *options, cdz_buf *out, cdz_error *err);

#endif
