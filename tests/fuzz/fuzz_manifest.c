/* fuzz_manifest.c - any bytes as the plugin.ini of a package: read or refused in words, and never more than it names. */
#include <fcntl.h>
#include <string.h>

#include "fuzz.h"
#include "plug/manifest.h"
#include "support/memory_meter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[] = "/tmp/cadenza-fuzz-XXXXXX";
    static char path[64];
    if (!path[0]) {
        FUZZ_CHECK(mkdtemp(folder) != NULL);
        snprintf(path, sizeof path, "%s/plugin.ini", folder);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    close(fd);
    cdz_manifest manifest = {0};
    cdz_error err = {0};
    meter_begin();
    if (cdz_manifest_read(folder, &manifest, &err) != CDZ_OK) FUZZ_CHECK(err.text[0]);
    FUZZ_CHECK(meter_most() <= meter_allowed(size));
    cdz_manifest_free(&manifest);
    unlink(path);
    return 0;
}
