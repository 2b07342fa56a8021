/* tokenize_pair.c - cadenza tokenize: two texts, truncation, padding; the whole encoding as a JSON object. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/tokenize_pair.h"

/* A number, for an option that it belongs to. */
static bool take_number(const char *name, const char *value, uint32_t *out, int *status)
{
    char *end;
    const unsigned long n = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || n > INT32_MAX) {
        *status = cdz_cli_misuse("tokenize", "--%s %s: expected a whole number", name, value);
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

static bool take_side(const char *name, const char *value, bool *left, int *status)
{
    *left = strcmp(value, "left") == 0;
    if (*left || strcmp(value, "right") == 0) return true;
    *status = cdz_cli_misuse("tokenize", "--%s %s: expected left or right", name, value);
    return false;
}

static bool take_strategy(const char *value, cdz_truncation *out, int *status)
{
    static const char *const names[] = {[CDZ_TRUNCATE_LONGEST_FIRST] = "longest_first",
                                        [CDZ_TRUNCATE_FIRST] = "only_first",
                                        [CDZ_TRUNCATE_SECOND] = "only_second"};
    for (int i = CDZ_TRUNCATE_LONGEST_FIRST; i <= CDZ_TRUNCATE_SECOND; i++) {
        if (strcmp(value, names[i]) != 0) continue;
        *out = (cdz_truncation)i;
        return true;
    }
    *status = cdz_cli_misuse(
        "tokenize", "--truncation %s: expected longest_first, only_first or only_second", value);
    return false;
}

bool cdz_cli_pair_option(cdz_cli_pair *pair, int opt, const char *value, int *status)
{
    cdz_pair_options *o = &pair->options;
    pair->asked = true;
    switch (opt) {
    case CDZ_OPT_PAIR: pair->second = value; return true;
    case CDZ_OPT_JSON: return true;
    case CDZ_OPT_MAX_LENGTH:
        if (o->truncation == CDZ_TRUNCATE_NONE) o->truncation = CDZ_TRUNCATE_LONGEST_FIRST;
        pair->cuts = true;
        return take_number("max-length", value, &o->max_length, status);
    case CDZ_OPT_STRIDE: return take_number("stride", value, &o->stride, status);
    case CDZ_OPT_TRUNCATION: return take_strategy(value, &o->truncation, status);
    case CDZ_OPT_TRUNCATION_SIDE:
        return take_side("truncation-side", value, &o->truncate_left, status);
    case CDZ_OPT_PAD_TO: o->pad = true; return take_number("pad-to", value, &o->pad_length, status);
    case CDZ_OPT_PAD_MULTIPLE:
        o->pad = true;
        return take_number("pad-multiple", value, &o->pad_multiple, status);
    default: return take_side("pad-side", value, &o->pad_left, status);
    }
}

static void put_numbers(cdz_buf *out, const char *name, const cdz_pair_ids *ids, char column)
{
    cdz_buf_printf(out, ", \"%s\": [", name);
    for (size_t i = 0; i < ids->n; i++) {
        const cdz_pair_token *t = &ids->at[i];
        if (i) cdz_buf_puts(out, ", ");
        if (column == 'q' && t->text < 0)
            cdz_buf_puts(out, "null");
        else
            cdz_buf_printf(out, "%d",
                           column == 't'   ? (int)t->type
                           : column == 'm' ? !t->pad
                           : column == 's' ? t->special
                                           : t->text);
    }
    cdz_buf_putc(out, ']');
}

static void put_ids(cdz_buf *out, const cdz_pair_ids *ids)
{
    cdz_buf_putc(out, '[');
    for (size_t i = 0; i < ids->n; i++) cdz_buf_printf(out, i ? ", %d" : "%d", (int)ids->at[i].id);
    cdz_buf_putc(out, ']');
}

static void put_encoding(cdz_buf *out, const cdz_encoding_pair *e)
{
    const cdz_pair_ids *own = &e->all[0];
    cdz_buf_puts(out, "{\"ids\": ");
    put_ids(out, own);
    put_numbers(out, "type_ids", own, 't');
    put_numbers(out, "attention_mask", own, 'm');
    put_numbers(out, "special_tokens_mask", own, 's');
    put_numbers(out, "sequence_ids", own, 'q');
    cdz_buf_puts(out, ", \"offsets\": [");
    for (size_t i = 0; i < own->n; i++)
        cdz_buf_printf(out, "%s[%u, %u]", i ? ", " : "", own->at[i].span.begin, own->at[i].span.end);
    cdz_buf_puts(out, "], \"overflowing\": [");
    for (size_t i = 1; i < e->n; i++) {
        if (i > 1) cdz_buf_puts(out, ", ");
        put_ids(out, &e->all[i]);
    }
    cdz_buf_puts(out, "]}");
}

cdz_status cdz_cli_pair_write(const cdz_cli_pair *pair, const cdz_tokenizer *tok, const char *first,
                              size_t first_len, const char *second, size_t second_len, cdz_buf *out,
                              cdz_error *err)
{
    cdz_pair_options options = pair->options;
    cdz_encoding_pair e;
    options.pad_id = cdz_tokenizer_get_config(tok)->pad_id;
    if (options.pad && options.pad_id < 0)
        return cdz_err(err, CDZ_E_INPUT, "the tokenizer names no padding token");
    if (!pair->cuts) options.truncation = CDZ_TRUNCATE_NONE;
    CDZ_TRY(cdz_tokenizer_encode_pair(tok, first, first_len, second, second_len, &options, &e, err));
    put_encoding(out, &e);
    cdz_encoding_pair_free(&e);
    return CDZ_OK;
}
