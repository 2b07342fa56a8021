/* ends_out.c - see ends_out.h. Owns nothing; any thread. */
#include "token/ends_out.h"

#include <string.h>

#include "base/json.h"

void cdz_tokenizer_put_end(cdz_buf *out, cdz_tokenizer_end end, const char *name, bool comma)
{
    if (!end.text) return;
    cdz_buf_printf(out, "%s\"%s\":{\"id\":\"%s\",\"ids\":[%d],\"tokens\":[", comma ? "," : "", name,
                   name, (int)end.id);
    cdz_json_write_string(out, end.text, strlen(end.text));
    cdz_buf_puts(out, "]}");
}

void cdz_tokenizer_put_order(cdz_buf *out, bool bos, bool eos, const char *sequence, int type)
{
    if (bos) cdz_buf_printf(out, "{\"SpecialToken\":{\"id\":\"bos\",\"type_id\":%d}},", type);
    cdz_buf_printf(out, "{\"Sequence\":{\"id\":\"%s\",\"type_id\":%d}}", sequence, type);
    if (eos) cdz_buf_printf(out, ",{\"SpecialToken\":{\"id\":\"eos\",\"type_id\":%d}}", type);
}

void cdz_tokenizer_put_ends(cdz_buf *out, cdz_tokenizer_end bos, cdz_tokenizer_end eos, int type)
{
    if (!bos.text && !eos.text) return;
    cdz_buf_puts(out, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    cdz_tokenizer_put_order(out, bos.text, eos.text, "A", 0);
    cdz_buf_puts(out, "],\"pair\":[");
    cdz_tokenizer_put_order(out, bos.text, eos.text, "A", 0);
    cdz_buf_putc(out, ',');
    cdz_tokenizer_put_order(out, bos.text, eos.text, "B", type);
    cdz_buf_puts(out, "],\"special_tokens\":{");
    cdz_tokenizer_put_end(out, bos, "bos", false);
    cdz_tokenizer_put_end(out, eos, "eos", bos.text);
    cdz_buf_puts(out, "}},");
}
