/* machine_memory.c - how much memory this process may come to have: the machine's, or its control group's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine_memory.h"

/* A file that holds one number; anything else ("max", no such file) is no limit. */
static double number_in(const char *path)
{
    char *text, *end;
    size_t len;
    if (cdz_file_read(path, 4096, &text, &len, NULL) != CDZ_OK) return 0;
    const double n = strtod(text, &end);
    const bool good = end > text && (*end == '\n' || *end == '\0');
    free(text);
    return good ? n : 0;
}

double cdz_memory_limit(void)
{
    static const char *const groups[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    double limit = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const double own = number_in(groups[i]);
        if (own > 0 && own < limit) limit = own;
    }
    return limit;
}

double cdz_memory_free(void)
{
    static const char key[] = "MemAvailable:";
    char *text;
    size_t len;
    if (cdz_file_read("/proc/meminfo", 1 << 16, &text, &len, NULL) != CDZ_OK) return 0;
    const char *at = strstr(text, key);
    const double kib = at ? strtod(at + strlen(key), NULL) : 0;
    free(text);
    return kib * 1024;
}
