/* refusal.c - the answers that the door gives itself. */
#include <string.h>

#include "base/json.h"
#include "serve/door.h"

static const char *reason_of(int status)
{
    switch (status) {
    case 400: return "Bad Request";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Refused";
    }
}

void cdz_refusal_write(cdz_buf *out, int status, const char *why, const char *request_id)
{
    cdz_buf body = {0};
    cdz_buf_puts(&body, "{\"error\": {\"message\": ");
    cdz_json_write_string(&body, why, strlen(why));
    cdz_buf_printf(&body, ", \"type\": \"%s\", \"param\": null, \"code\": null}}\n",
                   status >= 500 && status != 505 ? "unavailable_error" : "invalid_request_error");
    cdz_buf_printf(
        out,
        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
        "X-Request-Id: %s\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n%s%s\r\n",
        status, reason_of(status), body.len, request_id, status == 503 ? "Retry-After: 1\r\n" : "",
        status == 405 ? "Allow: GET, HEAD, POST, OPTIONS\r\n" : "");
    cdz_buf_add(out, body.data, body.len);
    cdz_buf_free(&body);
}
