/* fault.c - statuses, types and codes of refusals. */
#include "serve/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    case CDZ_E_LIMIT: return cdz_serve_fault_set(f, 429, NULL, "queue_full", "%s", err->text);
    case CDZ_E_STATE: return cdz_serve_fault_set(f, 503, NULL, NULL, "%s", err->text);
    default: return cdz_serve_fault_set(f, 500, NULL, NULL, "%s", err->text);
    }
}

static void put_text(cdz_buf *out, const char *name, const char *text)
{
    cdz_buf_printf(out, ", \"%s\": ", name);
    if (text && *text)
        cdz_json_write_string(out, text, strlen(text));
    else
        cdz_buf_puts(out, "null");
}

void cdz_serve_fault_write(const cdz_serve_fault *f, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"error\": {\"message\": ");
    cdz_json_write_string(out, f->text, strlen(f->text));
    cdz_buf_printf(out, ", \"type\": \"%s\"", f->type);
    put_text(out, "param", f->param);
    put_text(out, "code", f->code);
    cdz_buf_puts(out, "}}");
}
