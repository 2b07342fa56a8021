/* replay.c - runs a fuzz target on files and folders of files, without a fuzzer: the corpora,
 * and what once crashed, as an ordinary test. A folder that does not exist holds nothing. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "fuzz.h"

static int n_files;

static int run_file(const char *path)
{
    char *text;
    size_t len;
    cdz_error err;
    if (cdz_file_read(path, (size_t)256 << 20, &text, &len, &err) != CDZ_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    /* An exact copy, so that a sanitizer sees a read past the end. */
    uint8_t *exact = malloc(len ? len : 1);
    if (!exact) return 1;
    memcpy(exact, text, len);
    free(text);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    n_files++;
    return 0;
}

static int run_folder(const char *path)
{
    DIR *dir = opendir(path);
    int failed = 0;
    if (!dir) return errno != ENOENT;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char inside[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        failed |= run_file(inside);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        bool file = stat(argv[i], &info) == 0 && S_ISREG(info.st_mode);
        failed |= file ? run_file(argv[i]) : run_folder(argv[i]);
    }
    printf("%d files\n", n_files);
    return failed || n_files == 0;
}
