/* calling.c - see calling.h. */
#include "base/calling.h"

_Thread_local cdz_calling cdz_calling_now;
