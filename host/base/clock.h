/* clock.h - the one clock that durations and deadlines are measured by. */
#ifndef CDZ_HOST_CLOCK_H
#define CDZ_HOST_CLOCK_H

/* Monotonic seconds. */
double cdz_now_s(void);

#endif
