/* http.c - requests by libcurl: one at a time, redirects followed here, so that it is plain who gets the token. */
#include "hub/http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/environment.h"

enum {
    MOST_REDIRECTS = 10,
    MOST_DROPPED = 1 << 20, /* bytes */
    CONNECT_SECONDS = 30,
    STALL_SECONDS = 60,
    MOST_WAIT = 3600
};

struct cdz_http {
    CURL *curl;
    char *endpoint, *token; /* "Authorization: Bearer ..."; NULL: none */
};

/* One request on its way. */
typedef struct transfer {
    const cdz_http_ask *ask;
    cdz_http_head head;
    bool told, refused; /* ask->head was called; the caller ended it */
    size_t dropped;     /* bytes of an answer that is not wanted */
} transfer;

/* --- addresses ----------------------------------------------------------------------------------------------- */

typedef struct origin {
    char *scheme, *host, *port;
} origin;

static void origin_free(origin *o)
{
    curl_free(o->scheme);
    curl_free(o->host);
    curl_free(o->port);
    *o = (origin){0};
}

/* An address that is none, is not HTTP or has a user's name in it is refused. */
static bool origin_of(const char *url, origin *o)
{
    char *user = NULL;
    CURLU *parts = curl_url();
    *o = (origin){0};
    const bool good =
        parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_SCHEME, &o->scheme, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &o->host, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_PORT, &o->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_USER, &user, 0) == CURLUE_NO_USER &&
        (strcmp(o->scheme, "https") == 0 || strcmp(o->scheme, "http") == 0);
    curl_free(user);
    curl_url_cleanup(parts);
    if (!good) origin_free(o);
    return good;
}

static bool same_origin(const char *url, const char *other)
{
    origin a, b;
    bool same = false;
    if (!origin_of(url, &a)) return false;
    if (origin_of(other, &b)) {
        same = strcmp(a.scheme, b.scheme) == 0 && strcasecmp(a.host, b.host) == 0 &&
               strcmp(a.port, b.port) == 0;
        origin_free(&b);
    }
    origin_free(&a);
    return same;
}

static void put_host(const char *url, char *host, size_t bytes)
{
    origin o;
    (void)snprintf(host, bytes, "another address");
    if (!origin_of(url, &o)) return;
    (void)snprintf(host, bytes, "%s://%s", o.scheme, o.host);
    origin_free(&o);
}

/* --- opening ------------------------------------------------------------------------------------------------- */

static cdz_status check_token(const char *token, cdz_error *err)
{
    for (const char *c = token; c && *c; c++)
        if (*c <= ' ' || *c >= 0x7F)
            return cdz_err(err, CDZ_E_USAGE,
                           "HF_TOKEN: holds a blank or a character that no token has");
    return CDZ_OK;
}

static char *joined(const char *a, const char *b)
{
    const size_t bytes = strlen(a) + strlen(b) + 1;
    char *text = malloc(bytes);
    if (text) (void)snprintf(text, bytes, "%s%s", a, b);
    return text;
}

cdz_status cdz_http_open(const char *endpoint, const char *token, cdz_http **out, cdz_error *err)
{
    origin o;
    *out = NULL;
    CDZ_TRY(check_token(token, err));
    if (strpbrk(endpoint, "?#") || !origin_of(endpoint, &o))
        return cdz_err(err, CDZ_E_USAGE,
                       "HF_ENDPOINT: expected an address such as https://huggingface.co");
    origin_free(&o);
    cdz_http *http = calloc(1, sizeof *http);
    if (http && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) {
        http->curl = curl_easy_init();
        http->endpoint = strdup(endpoint);
        if (token) http->token = joined("Authorization: Bearer ", token);
    }
    if (!http || !http->curl || !http->endpoint || (token && !http->token)) {
        cdz_http_close(http);
        return cdz_err(err, CDZ_E_NOMEM, "%.200s: out of memory for the connection", endpoint);
    }
    for (size_t n = strlen(http->endpoint); n && http->endpoint[n - 1] == '/'; n--)
        http->endpoint[n - 1] = '\0';
    *out = http;
    return CDZ_OK;
}

void cdz_http_close(cdz_http *http)
{
    if (!http) return;
    curl_easy_cleanup(http->curl);
    free(http->endpoint);
    free(http->token);
    free(http);
}

const char *cdz_http_library(void)
{
    return curl_version();
}

/* --- heads --------------------------------------------------------------------------------------------------- */

static bool header_is(const char *line, const char *name, const char **value)
{
    const size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') return false;
    *value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

static void read_range(cdz_http_head *head, const char *value)
{
    char *end;
    if (strncasecmp(value, "bytes ", 6) != 0) return;
    head->from = strtoull(value + 6, &end, 10);
    const char *slash = strchr(end, '/');
    if (*end != '-' || !slash || slash[1] < '0' || slash[1] > '9') return;
    head->total = strtoull(slash + 1, NULL, 10);
    head->has_range = true;
}

/* A line of the head; each answer begins it anew, that of a proxy too. */
static size_t on_header(char *bytes, size_t size, size_t n, void *user)
{
    transfer *t = user;
    char line[1024];
    const char *value;
    const size_t len = size * n;
    (void)snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1),
                   bytes);
    line[strcspn(line, "\r\n")] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0) {
        t->head = (cdz_http_head){0};
    } else if (header_is(line, "ETag", &value)) {
        if (value[0] == '"') (void)snprintf(t->head.etag, sizeof t->head.etag, "%.127s", value);
    } else if (header_is(line, "X-Error-Code", &value)) {
        (void)snprintf(t->head.code, sizeof t->head.code, "%.63s", value);
    } else if (header_is(line, "Content-Range", &value)) {
        read_range(&t->head, value);
    } else if (header_is(line, "Content-Length", &value)) {
        t->head.bytes = strtoull(value, NULL, 10);
        t->head.has_bytes = true;
    } else if (header_is(line, "Retry-After", &value)) {
        const unsigned long wait = strtoul(value, NULL, 10);
        t->head.wait = wait < MOST_WAIT ? (unsigned)wait : MOST_WAIT;
    }
    return len;
}

static bool tell_head(transfer *t, CURL *curl)
{
    t->told = true;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->head.status);
    return t->ask->head(t->ask->user, &t->head);
}

static bool has_answer(long status)
{
    return status == 200 || status == 206;
}

typedef struct receiver {
    transfer *t;
    CURL *curl;
} receiver;

/* Bodies of redirects and errors go nowhere. One without end ends the connection: the head has said it all. */
static size_t on_bytes(char *bytes, size_t size, size_t n, void *user)
{
    const receiver *r = user;
    long status = 0;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    if (!has_answer(status)) return (r->t->dropped += size * n) > MOST_DROPPED ? 0 : size * n;
    if ((!r->t->told && !tell_head(r->t, r->curl)) ||
        !r->t->ask->bytes(r->t->ask->user, bytes, size * n)) {
        r->t->refused = true;
        return 0;
    }
    return size * n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    transfer *t = user;
    (void)a, (void)b, (void)c, (void)d;
    t->refused = t->refused || (t->ask->stop && t->ask->stop(t->ask->user));
    return t->refused;
}

/* --- a request ----------------------------------------------------------------------------------------------- */

static bool add_line(struct curl_slist **lines, const char *line)
{
    struct curl_slist *grown = curl_slist_append(*lines, line);
    if (grown) *lines = grown;
    return grown != NULL;
}

/* No compression: ranges, sizes and hashes are of the bytes as they are. */
static bool put_lines(const cdz_http *http, const cdz_http_ask *ask, const char *url,
                      struct curl_slist **lines)
{
    char line[256];
    bool good = add_line(lines, "Accept-Encoding: identity");
    if (http->token && same_origin(url, http->endpoint))
        good = good && add_line(lines, http->token);
    if (ask->from == 0) return good;
    (void)snprintf(line, sizeof line, "Range: bytes=%llu-", (unsigned long long)ask->from);
    good = good && add_line(lines, line);
    if (!ask->if_range) return good;
    (void)snprintf(line, sizeof line, "If-Range: %s", ask->if_range);
    return good && add_line(lines, line);
}

static void set_up(const cdz_http *http, const char *url, struct curl_slist *lines, receiver *r)
{
    CURL *c = http->curl;
    const char *trusted = cdz_env_certificates();
    curl_easy_reset(c);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, lines);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "cadenza");
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, r->t);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, r->t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (trusted) curl_easy_setopt(c, CURLOPT_CAINFO, trusted);
}

/* Which failures another try may mend: not those of names, certificates and addresses. */
static cdz_status judge(const transfer *t, CURLcode code, const char *url, cdz_error *err)
{
    char host[300];
    put_host(url, host, sizeof host);
    if (code == CURLE_OK || t->dropped > MOST_DROPPED) return CDZ_OK;
    if (t->refused) return cdz_err(err, CDZ_E_CANCELLED, "%s: stopped", host);
    const bool hopeless = code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT ||
                          code == CURLE_COULDNT_RESOLVE_HOST ||
                          code == CURLE_COULDNT_RESOLVE_PROXY ||
                          code == CURLE_PEER_FAILED_VERIFICATION ||
                          code == CURLE_SSL_CACERT_BADFILE || code == CURLE_OUT_OF_MEMORY;
    return cdz_err(err, hopeless ? CDZ_E_NOT_FOUND : CDZ_E_IO, "%s: %s", host,
                   curl_easy_strerror(code));
}

static cdz_status perform(cdz_http *http, transfer *t, const char *url, cdz_error *err)
{
    struct curl_slist *lines = NULL;
    receiver r = {t, http->curl};
    t->head = (cdz_http_head){0};
    t->dropped = 0;
    if (!put_lines(http, t->ask, url, &lines)) {
        curl_slist_free_all(lines);
        return cdz_err_memory(err, "a request");
    }
    set_up(http, url, lines, &r);
    cdz_status st = judge(t, curl_easy_perform(http->curl), url, err);
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &t->head.status);
    if (st == CDZ_OK && has_answer(t->head.status) && !t->told && !tell_head(t, http->curl))
        st = cdz_err(err, CDZ_E_CANCELLED, "stopped");
    curl_slist_free_all(lines);
    return st;
}

/* Where an answer sends us on to, allocated; NULL: nowhere. Never from https to what can be read on the way. */
static cdz_status next_url(const cdz_http *http, const char *url, char **next, cdz_error *err)
{
    char *to = NULL, host[300];
    origin o;
    curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, &to);
    *next = NULL;
    if (!to) return CDZ_OK;
    put_host(url, host, sizeof host);
    if (!origin_of(to, &o) || (strncmp(url, "https:", 6) == 0 && strcmp(o.scheme, "https") != 0)) {
        origin_free(&o);
        return cdz_err(err, CDZ_E_DENIED, "%s sends us on to an address that is not followed", host);
    }
    origin_free(&o);
    *next = strdup(to);
    return *next ? CDZ_OK : cdz_err_memory(err, "a request");
}

cdz_status cdz_http_get(cdz_http *http, const cdz_http_ask *ask, cdz_http_head *out, cdz_error *err)
{
    transfer t = {.ask = ask};
    char *url = joined(http->endpoint, ask->path), *next = NULL;
    cdz_status st = url ? CDZ_OK : cdz_err_memory(err, "a request");
    for (int hops = 0; st == CDZ_OK; hops++) {
        st = perform(http, &t, url, err);
        if (st == CDZ_OK) st = next_url(http, url, &next, err);
        if (!next) break;
        free(url);
        url = next;
        next = NULL;
        if (hops == MOST_REDIRECTS)
            st = cdz_err(err, CDZ_E_IO, "%s: sent on more than %d times", http->endpoint,
                         MOST_REDIRECTS);
    }
    free(url);
    *out = t.head;
    return st;
}
