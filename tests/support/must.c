/* must.c - what must.h says when a call did not go well. */
#include "support/must.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void must_be_well(cdz_status status, const cdz_error *err, const char *file, int line)
{
    if (status == CDZ_OK) return;
    print_error("%d: %s\n", (int)status, err->text);
    _fail(file, line);
}
