/* fault.c - statuses, types and codes of refusals. */
#include "serve/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/json.h"

static const char *type_of(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403:
    case 421: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 503: return "unavailable_error";
    default: return "invalid_request_error";
    }
}

/* No folder of the machine is told: of an absolute path the last part stays. The server's own begin with /v1/. */
static void strip_folders(char *text)
{
    char *out = text;
    for (const char *at = text; *at; *out++ = *at++) {
        if (*at != '/' || (at > text && !cdz_byte_in(at[-1], " '\"(="))) continue;
        if (strncmp(at, "/v1/", 4) == 0) continue;
        const char *last = at;
        const size_t n = strcspn(at, " '\"()=,");
        for (size_t i = 0; i + 1 < n; i++)
            if (at[i] == '/') last = at + i;
        if (n > 1) at = last + 1;
    }
    *out = '\0';
}

bool cdz_serve_fault_set(cdz_serve_fault *f, int status, const char *param, const char *code,
                         const char *fmt, ...)
{
    va_list args;
    f->status = status;
    f->type = type_of(status);
    f->code = code;
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
    strip_folders(f->text);
    return false;
}

bool cdz_serve_fault_of(cdz_serve_fault *f, const char *param, const cdz_error *err)
{
    switch (err->code) {
    case CDZ_E_INPUT:
    case CDZ_E_USAGE:
    case CDZ_E_UNSUPPORTED:
    case CDZ_E_DENIED:
    case CDZ_E_NOT_FOUND: return cdz_serve_fault_set(f, 400, param, NULL, "%s", err->text);
    case CDZ_E_LIMIT: /* what is too large stays so: only the queue gets shorter */
        return strstr(err->text, "are waiting already")
                   ? cdz_serve_fault_set(f, 429, NULL, "queue_full", "%s", err->text)
                   : cdz_serve_fault_set(f, 400, param, NULL, "%s", err->text);
    case CDZ_E_STATE: return cdz_serve_fault_set(f, 503, NULL, NULL, "%s", err->text);
    default: return cdz_serve_fault_set(f, 500, NULL, NULL, "%s", err->text);
    }
}

/* "" and NULL: null. */
static void put_word(cdz_buf *out, const char *name, const char *text)
{
    const char *said = text && *text ? text : NULL;
    cdz_json_write_member(out, name, said, said ? strlen(said) : 0);
}

void cdz_serve_fault_write(const cdz_serve_fault *f, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"error\":{\"message\":");
    cdz_json_write_string(out, f->text, strlen(f->text));
    put_word(out, "type", f->type);
    put_word(out, "param", f->param);
    put_word(out, "code", f->code);
    cdz_buf_puts(out, "}}");
}
