/* text_time.c - strftime_now: the clock the caller froze, or local time. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "template/ast.h"

/* The format is the template's, one conversion at a time and bounded by text. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* "2026-01-15T12:34:56"; a missing part is zero, the weekday is worked out. */
static bool parse_clock(const char *text, struct tm *tm)
{
    *tm = (struct tm){.tm_mday = 1, .tm_isdst = -1};
    const int n = sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d", &tm->tm_year, &tm->tm_mon,
                         &tm->tm_mday, &tm->tm_hour, &tm->tm_min, &tm->tm_sec);
    if (n != 3 && n != 5 && n != 6) return false;
    if (tm->tm_mon < 1 || tm->tm_mon > 12 || tm->tm_mday < 1 || tm->tm_mday > 31) return false;
    tm->tm_year -= 1900;
    tm->tm_mon -= 1;
    return timegm(tm) != -1 || tm->tm_year < 0;
}

value tpl_format_time(state *st, value format)
{
    struct tm tm;
    if (st->options->clock) {
        if (!parse_clock(st->options->clock, &tm))
            return tpl_fail(st, "clock is '%s', expected a time like 2026-01-15T12:34:56",
                            st->options->clock);
    } else {
        const time_t now = time(NULL);
        localtime_r(&now, &tm);
    }
    cdz_buf out = {0};
    for (size_t i = 0; i < format.len && !st->failed;) {
        size_t end = i + 1;
        if (format.s[i] == '%' && end < format.len) {
            if (format.s[end] == '-' && end + 1 < format.len) end++;
            char one[8] = "", text[128];
            if ((unsigned char)format.s[end] < 0x80 && format.s[end] != '\0' && tpl_charge(st, 1)) {
                memcpy(one, format.s + i, ++end - i);
                tpl_put(st, &out, text, strftime(text, sizeof text, one, &tm));
                i = end;
                continue;
            }
        }
        tpl_put(st, &out, format.s + i, end - i);
        i = end;
    }
    return tpl_take_text(st, &out);
}
