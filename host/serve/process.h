/* process.h - what the operating system says of this process. Inside serve/ only. */
#ifndef CDZ_HOST_SERVE_PROCESS_H
#define CDZ_HOST_SERVE_PROCESS_H

#include <stdint.h>

#include "base/buf.h"

uint64_t cdz_process_resident(void); /* bytes; 0: not known */
/* The process_* metrics under the names that Prometheus' own clients have; what is not known is left out. */
void cdz_process_write(cdz_buf *out);

#endif
