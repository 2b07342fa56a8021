/* layout.c - the plugin ABI as numbers: sizes, offsets and values, as this build's compiler sees them. The names are those of the
 * public headers; tools/make_abi_table.py reads them there. */
#include "describe/layout.h"

#include <stdio.h>

#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/ext/companion.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/constraint.h"
#include "cadenza/ext/ended.h"
#include "cadenza/ext/files.h"
#include "cadenza/ext/form.h"
#include "cadenza/ext/grammar.h"
#include "cadenza/ext/inserted.h"
#include "cadenza/ext/kv.h"
#include "cadenza/ext/mask.h"
#include "cadenza/ext/observe.h"
#include "cadenza/ext/phase.h"
#include "cadenza/ext/scores.h"
#include "cadenza/ext/state.h"
#include "cadenza/ext/text.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/trace.h"
#include "cadenza/ext/vec.h"
#include "cadenza/loader.h"
#include "cadenza/observer.h"
#include "cadenza/press.h"
#include "cadenza/processor.h"
#include "cadenza/scheduler.h"
#include "cadenza/strategy.h"
#include "cadenza/watermark.h"
#include "describe/abi.h"

typedef enum row_kind { STRUCT, FIELD, ENUM, VALUE } row_kind;

/* a, b: size and alignment of a struct, offset and size of a field, value of an enumerator. */
typedef struct row {
    row_kind kind;
    const char *name, *declaration;
    long long a, b;
} row;

#define ABI_STRUCT(T)                                                                              \
    {STRUCT, #T, NULL, (long long)sizeof(struct T), (long long)_Alignof(struct T)},
#define ABI_FIELD(T, F, D)                                                                         \
    {FIELD, #F, D, (long long)offsetof(struct T, F), (long long)sizeof(((struct T *)0)->F)},
#define ABI_ENUM(E)  {ENUM, #E, NULL, 0, 0},
#define ABI_VALUE(V) {VALUE, #V, NULL, (long long)(V), 0},
static const row rows[] = {
#include "describe/abi_table.inc"
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* --- JSON ----------------------------------------------------------------------------------------------------------------- */

static bool is_member(row_kind of, const row *r)
{
    return r < rows + N_ROWS && r->kind == (of == STRUCT ? FIELD : VALUE);
}

static void put_member(const row *r, cdz_buf *out)
{
    if (r->kind == VALUE)
        cdz_buf_printf(out, "\n    \"%s\": %lld", r->name, r->a);
    else
        cdz_buf_printf(
            out,
            "\n    {\"name\": \"%s\", \"offset\": %lld, \"size\": %lld, \"declaration\": \"%s\"}",
            r->name, r->a, r->b, r->declaration);
}

/* All structs, or all enums, by name. */
static void put_group(const char *title, row_kind of, cdz_buf *out)
{
    bool first = true;
    cdz_buf_printf(out, " \"%s\": {", title);
    for (const row *r = rows; r < rows + N_ROWS; r++) {
        if (r->kind != of) continue;
        cdz_buf_printf(out, "%s\n  \"%s\": {", first ? "" : ",", r->name);
        if (of == STRUCT)
            cdz_buf_printf(out, "\"size\": %lld, \"align\": %lld, \"fields\": [", r->a, r->b);
        first = false;
        for (const row *m = r + 1; is_member(of, m); m++) {
            if (m > r + 1) cdz_buf_putc(out, ',');
            put_member(m, out);
        }
        cdz_buf_puts(out, of == STRUCT ? "]}" : "}");
    }
    cdz_buf_puts(out, "},\n");
}

void cdz_abi_layout_json(cdz_buf *out)
{
    const char *id;
    cdz_buf_printf(out, "{\"abi\": \"%d.%d\", \"entry_magic\": %u, \"pointer\": %zu,\n",
                   CDZ_ABI_MAJOR, CDZ_ABI_MINOR, CDZ_ENTRY_MAGIC, sizeof(void *));
    put_group("structs", STRUCT, out);
    put_group("enums", ENUM, out);
    cdz_buf_puts(out, " \"extensions\": [");
    for (uint32_t i = 0; (id = cdz_abi_extension(i)) != NULL; i++)
        cdz_buf_printf(out, "%s\"%s\"", i ? ", " : "", id);
    cdz_buf_puts(out, "]}\n");
}

/* --- text ----------------------------------------------------------------------------------------------------------------- */

void cdz_abi_layout_text(cdz_buf *out)
{
    cdz_buf_printf(out, "ABI %d.%d\n", CDZ_ABI_MAJOR, CDZ_ABI_MINOR);
    for (const row *r = rows; r < rows + N_ROWS; r++) {
        switch (r->kind) {
        case STRUCT:
            cdz_buf_printf(out, "\nstruct %s: %lld bytes\n  offset  size\n", r->name, r->a);
            break;
        case ENUM: cdz_buf_printf(out, "\nenum %s\n", r->name); break;
        case FIELD: cdz_buf_printf(out, "  %6lld %5lld  %s\n", r->a, r->b, r->declaration); break;
        default: cdz_buf_printf(out, "  %10lld  %s\n", r->a, r->name);
        }
    }
}
