/* Calls a function that nobody has: RTLD_NOW finds out at once, not in the middle of a request. */
#include <cadenza/processor.h>

cdz_status zoo_missing(const cdz_step *step, cdz_scores *scores);
#define ZOO_APPLY zoo_missing
#include "zoo.h"
