/* clock.h - the one clock that durations and deadlines are measured by. */
#ifndef CDZ_HOST_BASE_CLOCK_H
#define CDZ_HOST_BASE_CLOCK_H

/* Monotonic seconds. */
double cdz_now_s(void);
/* Seconds that the calling thread has had of a core. */
double cdz_thread_s(void);

#endif
