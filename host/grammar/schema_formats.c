/* schema_formats.c - formats of strings as regular languages. 29 February is a day of every year, and a minute may have a
 * second 60. */
#include <string.h>

#include "grammar/schema.h"

#define DATE_                                                                                      \
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|" \
    "30)|02-(?:0[1-9]|[12][0-9]))"
#define TIME_                                                                                      \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-" \
    "3]):[0-5][0-9])"
#define HOURS_ "(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DAYS_  "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
#define LABEL_ "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST_  LABEL_ "(?:\\." LABEL_ ")*"
#define ATOM_  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define BYTE_  "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4_  BYTE_ "(?:\\." BYTE_ "){3}"
#define H16_   "[0-9A-Fa-f]{1,4}"
#define LS32_  "(?:" H16_ ":" H16_ "|" IPV4_ ")"
#define IPV6_                                                                                      \
    "(?:(?:" H16_ ":){6}" LS32_ "|::(?:" H16_ ":){5}" LS32_ "|(?:" H16_ ")?::(?:" H16_             \
    ":){4}" LS32_ "|(?:(?:" H16_ ":){0,1}" H16_ ")?::(?:" H16_ ":){3}" LS32_ "|(?:(?:" H16_        \
    ":){0,2}" H16_ ")?::(?:" H16_ ":){2}" LS32_ "|(?:(?:" H16_ ":){0,3}" H16_ ")?::" H16_          \
    ":" LS32_ "|(?:(?:" H16_ ":){0,4}" H16_ ")?::" LS32_ "|(?:(?:" H16_ ":){0,5}" H16_ ")?::" H16_ \
    "|(?:(?:" H16_ ":){0,6}" H16_ ")?::)"
#define HEX_     "[0-9A-Fa-f]"
#define ESCAPED_ "%[0-9A-Fa-f]{2}"
#define PCHAR_   "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" ESCAPED_ ")"
#define USER_    "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" ESCAPED_ ")*"
#define NAME_    "(?:[A-Za-z0-9._~!$&'()*+,;=-]|" ESCAPED_ ")*"
#define QUERY_   "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|" ESCAPED_ ")*"

typedef struct text_format {
    const char *name, *regex;
    bool whole; /* false: some of its texts are left out, as quoted local parts and addresses of the future */
} text_format;

static const text_format formats[] = {
    {"date", DATE_, true},
    {"time", TIME_, true},
    {"date-time", DATE_ "[Tt]" TIME_, true},
    {"duration", "P(?:[0-9]+W|" DAYS_ "(?:T" HOURS_ ")?|T" HOURS_ ")", true},
    {"email", ATOM_ "(?:\\." ATOM_ ")*@(?:" HOST_ "|\\[(?:" IPV4_ "|IPv6:" IPV6_ ")\\])", false},
    {"hostname", HOST_, true},
    {"ipv4", IPV4_, true},
    {"ipv6", IPV6_, true},
    {"uuid", HEX_ "{8}-" HEX_ "{4}-" HEX_ "{4}-" HEX_ "{4}-" HEX_ "{12}", true},
    {"uri",
     "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:" USER_ "@)?(?:\\[" IPV6_ "\\]|" NAME_
     ")(?::[0-9]*)?(?:/" PCHAR_ "*)*|/?(?:" PCHAR_ "+(?:/" PCHAR_ "*)*)?)(?:\\?" QUERY_
     ")?(?:#" QUERY_ ")?",
     false},
};

static const text_format *find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

const char *cdz_schema_format(const char *name)
{
    const text_format *f = find(name);
    return f ? f->regex : NULL;
}

bool cdz_schema_format_is_whole(const cdz_json *format)
{
    const text_format *f = format->type == CDZ_JSON_STRING ? find(format->string) : NULL;
    return f && f->whole;
}
