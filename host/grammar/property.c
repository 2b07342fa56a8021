/* property.c - sets of characters by the name of a Unicode property. It owns no data and no state; any thread. */
#include "grammar/property.h"

#include <string.h>

#include <utf8proc.h>

#include "base/ascii.h"

enum {
    ANY_KIND = CDZ_PROPERTY_CATEGORY | CDZ_PROPERTY_SCRIPT | CDZ_PROPERTY_BINARY,
    NAME_MAX_LEN = 40, /* longer than every name */
};

/* Writes the name as it is compared. False: longer than any. */
static bool compared(const char *name, size_t len, char out[NAME_MAX_LEN])
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (cdz_byte_in((unsigned char)name[i], " _-")) continue;
        if (n + 1 == NAME_MAX_LEN) return false;
        out[n++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 32 : name[i]);
    }
    out[n] = 0;
    return true;
}

/* Takes "gc=", "Script=" and the like from the name. */
static unsigned kinds_named(const char **name, size_t *len)
{
    static const struct {
        const char *prefix;
        unsigned kinds;
    } prefixes[] = {{"gc", CDZ_PROPERTY_CATEGORY},
                    {"generalcategory", CDZ_PROPERTY_CATEGORY},
                    {"sc", CDZ_PROPERTY_SCRIPT},
                    {"script", CDZ_PROPERTY_SCRIPT}};
    const char *equals = memchr(*name, '=', *len);
    char prefix[NAME_MAX_LEN];
    if (!equals) return ANY_KIND;
    const size_t n = (size_t)(equals - *name);
    if (!compared(*name, n, prefix)) return 0;
    *name += n + 1;
    *len -= n + 1;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strcmp(prefix, prefixes[i].prefix) == 0) return prefixes[i].kinds;
    return 0;
}

static const cdz_property *find(const char *name, unsigned kinds)
{
    for (size_t i = 0; i < cdz_properties_n; i++)
        if ((cdz_properties[i].kind & kinds) && strcmp(cdz_properties[i].name, name) == 0)
            return &cdz_properties[i];
    return NULL;
}

static void add_categories(cdz_charset *set, uint32_t mask)
{
    for (uint32_t c = 0; c <= CDZ_CODE_MAX; c++)
        if (mask >> utf8proc_category((utf8proc_int32_t)c) & 1) cdz_charset_add(set, c, c);
}

/* The three that are no property of the database but usual beside them. */
static bool add_usual(cdz_charset *set, const char *name)
{
    if (strcmp(name, "any") == 0) {
        cdz_charset_add(set, 0, CDZ_CODE_MAX);
    } else if (strcmp(name, "ascii") == 0) {
        cdz_charset_add(set, 0, 127);
    } else if (strcmp(name, "assigned") == 0) {
        add_categories(set, ~(1u << UTF8PROC_CATEGORY_CN));
    } else {
        return false;
    }
    return true;
}

bool cdz_charset_add_property(cdz_charset *set, const char *name, size_t len)
{
    const unsigned kinds = kinds_named(&name, &len);
    char own[NAME_MAX_LEN];
    if (!compared(name, len, own)) return false;
    if (kinds == ANY_KIND && add_usual(set, own)) return true;
    const cdz_property *p = find(own, kinds);
    if (!p) return false;
    if (p->kind == CDZ_PROPERTY_CATEGORY) add_categories(set, p->at);
    for (uint32_t i = 0; i < p->n; i++)
        cdz_charset_add(set, cdz_property_spans[p->at + i].lo, cdz_property_spans[p->at + i].hi);
    return true;
}
