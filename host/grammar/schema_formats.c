/* schema_formats.c - formats of strings as regular languages. 29 February is a day of every year, and a minute may have a
 * second 60. */
#include <string.h>

#include "base/ascii.h"
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

/* Texts of these formats that the regular language leaves out: quoted local parts, addresses of the future. */
static const char *const narrower[] = {"email", "uri", NULL};

bool cdz_schema_format_is_whole(const cdz_json *format)
{
    return format->type == CDZ_JSON_STRING && cdz_schema_format(format->string) &&
           !cdz_is_one_of(format->string, narrower);
}

const char *cdz_schema_format(const char *name)
{
    static const struct {
        const char *name, *regex;
    } all[] = {
        {"date", DATE_},
        {"time", TIME_},
        {"date-time", DATE_ "[Tt]" TIME_},
        {"duration", "P(?:[0-9]+W|" DAYS_ "(?:T" HOURS_ ")?|T" HOURS_ ")"},
        {"email", ATOM_ "(?:\\." ATOM_ ")*@(?:" HOST_ "|\\[(?:" IPV4_ "|IPv6:" IPV6_ ")\\])"},
        {"hostname", HOST_},
        {"ipv4", IPV4_},
        {"ipv6", IPV6_},
        {"uuid", HEX_ "{8}-" HEX_ "{4}-" HEX_ "{4}-" HEX_ "{4}-" HEX_ "{12}"},
        {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:" USER_ "@)?(?:\\[" IPV6_ "\\]|" NAME_
                ")(?::[0-9]*)?(?:/" PCHAR_ "*)*|/?(?:" PCHAR_ "+(?:/" PCHAR_ "*)*)?)(?:\\?" QUERY_
                ")?(?:#" QUERY_ ")?"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].regex;
    return NULL;
}
