/* process.c - memory, time and descriptors of the process, from /proc. */
#include "serve/process.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

/* /proc/self/stat behind the program's name, which may hold anything: "S ppid ...", fields 3 and on. */
enum { FIRST_FIELD = 3, FIELD_STARTED = 22, FIELD_VIRTUAL = 23, FIELD_RESIDENT = 24 };

static char *read_proc(const char *path)
{
    char *text = NULL;
    size_t len = 0;
    return cdz_file_read(path, 1 << 20, &text, &len, NULL) == CDZ_OK ? text : NULL;
}

/* Words that a blank parts. */
static const char *skip_words(const char *text, int n)
{
    while (text && n-- > 0) {
        text = strchr(text, ' ');
        if (text) text++;
    }
    return text;
}

/* 0: not known. */
static uint64_t stat_field(const char *stat, int field)
{
    const char *behind = stat ? strrchr(stat, ')') : NULL;
    const char *at = behind && behind[1] ? skip_words(behind + 2, field - FIRST_FIELD) : NULL;
    return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t cdz_process_resident(void)
{
    char *stat = read_proc("/proc/self/stat");
    const uint64_t pages = stat_field(stat, FIELD_RESIDENT);
    free(stat);
    return pages * page_bytes();
}

/* Seconds since 1970 at which the machine started; 0: not known. */
static double boot_time(void)
{
    char *text = read_proc("/proc/stat");
    const char *at = text ? strstr(text, "\nbtime ") : NULL;
    const double s = at ? strtod(at + sizeof "\nbtime " - 1, NULL) : 0;
    free(text);
    return s;
}

static uint32_t open_descriptors(void)
{
    uint32_t n = 0;
    const struct dirent *entry;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) return 0;
    while ((entry = readdir(dir)) != NULL) n += entry->d_name[0] != '.';
    closedir(dir);
    return n ? n - 1 : 0; /* without the one that reads */
}

static double cpu_seconds(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0) return 0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void put(cdz_buf *out, const char *name, const char *kind, const char *help, double value)
{
    if (!(value > 0)) return;
    cdz_buf_printf(out, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s ", name, help, name,
                   kind, name);
    cdz_json_write_real(out, value);
    cdz_buf_putc(out, '\n');
}

void cdz_process_write(cdz_buf *out)
{
    struct rlimit files = {0};
    char *stat = read_proc("/proc/self/stat");
    const double boot = boot_time(),
                 ticks = (double)stat_field(stat, FIELD_STARTED) / (double)sysconf(_SC_CLK_TCK);
    const bool limited = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
    put(out, "cpu_seconds_total", "counter", "processor time of the process", cpu_seconds());
    put(out, "resident_memory_bytes", "gauge", "memory that is there",
        (double)(stat_field(stat, FIELD_RESIDENT) * page_bytes()));
    put(out, "virtual_memory_bytes", "gauge", "addresses that are taken",
        (double)stat_field(stat, FIELD_VIRTUAL));
    put(out, "start_time_seconds", "gauge", "when the process began, since 1970",
        boot > 0 ? boot + ticks : 0);
    put(out, "open_fds", "gauge", "open descriptors", (double)open_descriptors());
    put(out, "max_fds", "gauge", "descriptors that may be open",
        limited ? (double)files.rlim_cur : 0);
    free(stat);
}
