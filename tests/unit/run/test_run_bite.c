/* test_run_bite.c - how many rows of prompts go beside those that decode, on machines made up of numbers: no clock is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/pass/bite.h"

enum { MOST = 512 };

/* A prompt is read while others decode; returns the longest pass after the first few, in steps. */
static double read_prompt(cdz_bite *bite, double step, double row, uint32_t length)
{
    double longest = 0;
    for (uint32_t pass = 0; length; pass++) {
        const uint32_t may = cdz_bite_rows(bite, MOST), n = may < length ? may : length;
        const double wall = step + row * n;
        assert_in_range(may, CDZ_BITE_LEAST, MOST);
        cdz_bite_note(bite, 1, n, wall);
        if (pass > 3 && wall / step > longest) longest = wall / step;
        length -= n;
    }
    return longest;
}

static void passes_stay_short(void **state)
{
    (void)state;
    static const double machines[][2] = {{0.028, 0.0004}, {0.005, 0.0001}, {0.1, 0.001}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        cdz_bite bite = {0};
        for (int k = 0; k < 20; k++) cdz_bite_note(&bite, 1, 0, machines[i][0]);
        const double longest = read_prompt(&bite, machines[i][0], machines[i][1], 2000);
        if (longest > 2.2) fail_msg("machine %zu: a pass of %g steps", i, longest);
    }
}

/* Rows that cost next to nothing are taken by the pass's whole room; dear ones a few at a time, and never none. */
static void machines_differ(void **state)
{
    (void)state;
    cdz_bite cheap = {0}, dear = {0};
    for (int k = 0; k < 50; k++) {
        cdz_bite_note(&cheap, 4, 0, 0.02);
        cdz_bite_note(&cheap, 4, 64, 0.0201);
        cdz_bite_note(&dear, 4, 0, 0.02);
        cdz_bite_note(&dear, 4, 64, 10);
    }
    assert_int_equal(cdz_bite_rows(&cheap, MOST), MOST);
    assert_int_equal(cdz_bite_rows(&dear, MOST), CDZ_BITE_LEAST);
}

static void one_slow_pass_changes_little(void **state)
{
    (void)state;
    cdz_bite bite = {0};
    for (int k = 0; k < 50; k++) {
        cdz_bite_note(&bite, 1, 0, 0.02);
        cdz_bite_note(&bite, 0, 512, 0.2);
    }
    const uint32_t before = cdz_bite_rows(&bite, MOST);
    assert_in_range(before, 45, 55);
    cdz_bite_note(&bite, 1, 0, 5);
    assert_in_range(cdz_bite_rows(&bite, MOST), before, 2 * before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_stay_short),
        cmocka_unit_test(machines_differ),
        cmocka_unit_test(one_slow_pass_changes_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
