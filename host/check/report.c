/* report.c - what the checks found, for programs: as JSON, and as the XML that build servers read (JUnit's). */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "check/check.h"

const char *cdz_check_word(cdz_check_state state)
{
    switch (state) {
    case CDZ_CHECK_OK: return "ok";
    case CDZ_CHECK_SKIPPED: return "skipped";
    default: return "FAILED";
    }
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

static void put_string(cdz_buf *out, const char *key, const char *text)
{
    cdz_buf_printf(out, "\"%s\": ", key);
    cdz_json_write_string(out, text, strlen(text));
}

void cdz_check_write_json(const cdz_check_report *report, const cdz_check_options *options,
                          cdz_buf *out)
{
    cdz_buf_puts(out, "{");
    put_string(out, "tested", options->what);
    cdz_buf_printf(out, ", \"seed\": %" PRIu64 ", \"failed\": %u, \"checks\": [", report->seed,
                   report->n_failed);
    for (uint32_t i = 0; i < report->n; i++) {
        const cdz_check_result *r = &report->results[i];
        cdz_buf_puts(out, i ? ",\n  {" : "\n  {");
        put_string(out, "check", r->name);
        cdz_buf_puts(out, ", ");
        put_string(out, "plugin", r->plugin);
        cdz_buf_puts(out, ", ");
        put_string(out, "kind", r->kind ? cdz_kind_name(r->kind) : "");
        cdz_buf_puts(out, ", ");
        put_string(out, "state", r->state == CDZ_CHECK_FAILED ? "failed" : cdz_check_word(r->state));
        cdz_buf_puts(out, ", ");
        put_string(out, "detail", r->detail);
        cdz_buf_printf(out, ", \"ms\": %.1f}", r->seconds * 1e3);
    }
    cdz_buf_puts(out, "\n]}\n");
}

/* --- JUnit ---------------------------------------------------------------------------------------------------- */

/* As an attribute or text of XML; what XML cannot hold becomes '?'. */
static void put_xml(cdz_buf *out, const char *text)
{
    const size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t valid = cdz_utf8_valid_prefix(text + i, len - i < 4 ? len - i : 4);
        const size_t bytes = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        if (c == '<')
            cdz_buf_puts(out, "&lt;");
        else if (c == '>')
            cdz_buf_puts(out, "&gt;");
        else if (c == '&')
            cdz_buf_puts(out, "&amp;");
        else if (c == '"')
            cdz_buf_puts(out, "&quot;");
        else if (c < 0x20 || valid < bytes)
            cdz_buf_putc(out, '?');
        else
            cdz_buf_add(out, text + i, bytes);
        i += valid < bytes ? 1 : bytes;
    }
}

static void put_case(const cdz_check_result *r, cdz_buf *out)
{
    cdz_buf_puts(out, "    <testcase classname=\"");
    put_xml(out, r->plugin[0] ? r->plugin : "file");
    cdz_buf_printf(out, "\" name=\"%s\" time=\"%.4f\"", r->name, r->seconds);
    if (r->state == CDZ_CHECK_OK && !r->detail[0]) {
        cdz_buf_puts(out, "/>\n");
        return;
    }
    const char *element = r->state == CDZ_CHECK_OK        ? "system-out"
                          : r->state == CDZ_CHECK_SKIPPED ? "skipped"
                                                          : "failure";
    cdz_buf_printf(out, ">\n      <%s", element);
    if (r->state != CDZ_CHECK_OK) {
        cdz_buf_puts(out, " message=\"");
        put_xml(out, r->detail);
        cdz_buf_puts(out, "\"/>\n");
    } else {
        cdz_buf_puts(out, ">");
        put_xml(out, r->detail);
        cdz_buf_printf(out, "</%s>\n", element);
    }
    cdz_buf_puts(out, "    </testcase>\n");
}

void cdz_check_write_junit(const cdz_check_report *report, const cdz_check_options *options,
                           cdz_buf *out)
{
    uint32_t skipped = 0;
    double seconds = 0;
    for (uint32_t i = 0; i < report->n; i++) {
        skipped += report->results[i].state == CDZ_CHECK_SKIPPED;
        seconds += report->results[i].seconds;
    }
    cdz_buf_printf(out,
                   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
                   "  <testsuite name=\"cadenza plugin test\" tests=\"%u\" failures=\"%u\" "
                   "errors=\"0\" skipped=\"%u\" time=\"%.4f\">\n"
                   "    <properties>\n      <property name=\"tested\" value=\"",
                   report->n, report->n_failed, skipped, seconds);
    put_xml(out, options->what);
    cdz_buf_printf(out,
                   "\"/>\n      <property name=\"seed\" value=\"%" PRIu64 "\"/>\n"
                   "    </properties>\n",
                   report->seed);
    for (uint32_t i = 0; i < report->n; i++) put_case(&report->results[i], out);
    cdz_buf_puts(out, "  </testsuite>\n</testsuites>\n");
}
