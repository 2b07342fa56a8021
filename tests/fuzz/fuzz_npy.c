/* fuzz_npy.c - any bytes as a .npy file: refused with its name, or an array that lies inside the file. */
#include <string.h>

#include "fuzz.h"
#include "load/npy.h"
#include "support/memory_meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    cdz_npy npy;
    cdz_error err = {0};
    int fd = fuzz_file(data, size, path);
    meter_begin();
    if (cdz_npy_open(path, &npy, &err) == CDZ_OK) {
        uint64_t bytes = sizeof(float);
        for (uint32_t i = 0; i < npy.n_dims; i++) bytes *= npy.shape[i];
        const char *start = npy.file.data, *at = npy.data;
        FUZZ_CHECK(npy.n_dims <= CDZ_NPY_MAX_DIMS && at >= start);
        FUZZ_CHECK(bytes == size - (size_t)(at - start));
        for (const volatile char *last = at + bytes; last > at; last--) (void)last[-1];
    } else {
        FUZZ_CHECK(strstr(err.text, path) != NULL);
    }
    cdz_npy_close(&npy);
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    close(fd);
    return 0;
}
