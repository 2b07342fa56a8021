/* folder.c - the folder of a test program (folder.h): one at a time, since tests of a program share it. */
#include "support/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATHS = 16, PATH_BYTES = 512 };

static char folder[64];

const char *folder_make(const char *name)
{
    snprintf(folder, sizeof folder, "/tmp/cadenza-%s-XXXXXX", name);
    assert_non_null(mkdtemp(folder));
    return folder;
}

void folder_remove(void)
{
    folder_run("rm", "-rf", folder);
}

const char *folder_path(const char *name)
{
    static char paths[PATHS][PATH_BYTES];
    static unsigned turn;
    char *path = paths[turn++ % PATHS];
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

void folder_write(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(folder_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

void folder_run(const char *program, const char *first, const char *second)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        execlp(program, program, first, second, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
