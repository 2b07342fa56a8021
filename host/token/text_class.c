/* text_class.c - looking characters up in the tables of tables/text_tables.c. */
#include "token/text_class.h"

bool cdz_text_is(cdz_text_class text_class, uint32_t code)
{
    const cdz_code_class *c = &cdz_code_classes[text_class];
    size_t low = 0, high = c->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code > c->ranges[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < c->n && code >= c->ranges[low].first;
}

uint32_t cdz_text_script(uint32_t code)
{
    size_t low = 0, high = cdz_scripts_n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code > cdz_scripts[mid].last)
            low = mid + 1;
        else
            high = mid;
    }
    return low < cdz_scripts_n && code >= cdz_scripts[low].first ? cdz_scripts[low].script : 0;
}

size_t cdz_text_lower(uint32_t code, uint32_t out[2])
{
    out[0] = code;
    if (code < 0x80) {
        if (code >= 'A' && code <= 'Z') out[0] = code + 32;
        return 1;
    }
    if (code == 0x130) { /* the only letter whose lower-case form is two characters */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    size_t low = 0, high = cdz_lower_pairs_n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code > cdz_lower_pairs[mid].code)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < cdz_lower_pairs_n && cdz_lower_pairs[low].code == code)
        out[0] = cdz_lower_pairs[low].lower;
    return 1;
}
