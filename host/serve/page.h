/* page.h - the chat page at /. Inside serve/ only. */
#ifndef CDZ_HOST_SERVE_PAGE_H
#define CDZ_HOST_SERVE_PAGE_H

#include "serve/exchange.h"

#define CDZ_PAGE_TYPE "text/html; charset=utf-8"

enum { CDZ_PAGE_POLICY = 512 };

void cdz_serve_page(cdz_http_exchange *exchange);
/* The value of its Content-Security-Policy. */
void cdz_serve_page_policy(char *out, size_t bytes);

#endif
