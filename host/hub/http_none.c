/* http_none.c - a build without libcurl: the caches of this machine are all there is. */
#include "hub/http.h"

cdz_status cdz_http_open(const char *endpoint, const char *token, cdz_http **out, cdz_error *err)
{
    (void)endpoint;
    (void)token;
    *out = NULL;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "this build does not download: it was made without libcurl (Debian: "
                   "libcurl4-openssl-dev)");
}

const char *cdz_http_library(void)
{
    return "none";
}

void cdz_http_close(cdz_http *http)
{
    (void)http;
}

cdz_status cdz_http_get(cdz_http *http, const cdz_http_ask *ask, cdz_http_head *out, cdz_error *err)
{
    (void)http;
    (void)ask;
    *out = (cdz_http_head){0};
    return cdz_err(err, CDZ_E_UNSUPPORTED, "this build does not download");
}
