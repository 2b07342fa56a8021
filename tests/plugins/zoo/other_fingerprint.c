/* Built where a step has another size. */
#define ZOO_FINGERPRINT                                                                            \
    {                                                                                              \
        sizeof(void *), sizeof(cdz_status), sizeof(bool), sizeof(size_t), sizeof(cdz_param),       \
            sizeof(cdz_plugin_base), sizeof(cdz_request_info), sizeof(cdz_step) + 8,               \
            sizeof(cdz_scores), sizeof(cdz_host)                                                   \
    }
#include "zoo.h"
