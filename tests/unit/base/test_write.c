/* test_write.c - the one writer: what it refuses, what is left when it fails, is given up or is killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/write.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static char home[] = "/tmp/cadenza-write-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(home) && chdir(home) == 0 ? 0 : -1;
}

/* Everything in the folder but what a test made on purpose. */
static unsigned strangers(void)
{
    static const char *const known[] = {".", "..", "out", "victim", "nowhere", "sub"};
    unsigned n = 0;
    DIR *dir = opendir(".");
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL; n++)
        for (size_t i = 0; i < COUNT(known); i++)
            if (strcmp(e->d_name, known[i]) == 0) {
                n--;
                break;
            }
    closedir(dir);
    return n;
}

static void clean(void)
{
    (void)unlink("out");
    (void)rmdir("out");
    (void)unlink("victim");
    (void)unlink("nowhere");
}

static void put(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void holds(const char *name, const char *path, const char *text)
{
    char *found = NULL;
    size_t len = 0;
    cdz_error err = {0};
    if (cdz_file_read(path, 1 << 20, &found, &len, &err) != CDZ_OK)
        fail_msg("%s: %s", name, err.text);
    if (strcmp(found, text) != 0) fail_msg("%s: %s holds '%s', not '%s'", name, path, found, text);
    free(found);
}

/* --- what the path is ---------------------------------------------------------------------------------------- */

static void nothing(void)
{
}
static void old_file(void)
{
    put("out", "old");
}
static void link_to_file(void)
{
    put("victim", "victim");
    assert_int_equal(symlink("victim", "out"), 0);
}
static void dangling_link(void)
{
    assert_int_equal(symlink("nowhere", "out"), 0);
}
static void link_to_folder(void)
{
    assert_int_equal(symlink("/tmp", "out"), 0);
}
static void folder(void)
{
    assert_int_equal(mkdir("out", 0777), 0);
}
static void fifo(void)
{
    assert_int_equal(mkfifo("out", 0666), 0);
}
static void hard_link(void)
{
    put("victim", "victim");
    assert_int_equal(link("victim", "out"), 0);
}
static void device(void)
{
    if (mknod("out", S_IFCHR | 0666, 1 << 8 | 3) != 0) put("out", "old");
}
static void socket_file(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "out"};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    close(fd);
}

static const struct {
    const char *name;
    void (*make)(void);
    const char *refused; /* NULL: written */
    bool is_new;         /* also with CDZ_WRITE_NEW */
} paths[] = {
    {"nothing", nothing, NULL, true},
    {"a file", old_file, NULL, false},
    {"a hard link", hard_link, NULL, false},
    {"a link to a file", link_to_file, "out: is a symbolic link, expected a regular file", false},
    {"a dangling link", dangling_link, "out: is a symbolic link", false},
    {"a link to a folder", link_to_folder, "out: is a symbolic link", false},
    {"a folder", folder, "out: is a folder", false},
    {"a pipe", fifo, "out: is a named pipe", false},
    {"a device", device, "out: is a device", false},
    {"a socket", socket_file, "out: is a socket", false},
};

typedef cdz_status writing(const char *path, unsigned how, cdz_error *err);

static cdz_status whole(const char *path, unsigned how, cdz_error *err)
{
    return cdz_write_whole(path, "new", 3, how, err);
}

static cdz_status growing(const char *path, unsigned how, cdz_error *err)
{
    FILE *file;
    (void)how;
    CDZ_TRY(cdz_write_grow(path, false, NULL, 0, &file, err));
    fputs("new", file);
    assert_int_equal(fclose(file), 0);
    return CDZ_OK;
}

static void try_path(size_t i, const char *of, writing *how_to, unsigned how, bool grows)
{
    char name[96];
    struct stat before, after;
    cdz_error err = {0};
    snprintf(name, sizeof name, "%s, %s", paths[i].name, of);
    clean();
    paths[i].make();
    const bool there = lstat("out", &before) == 0;
    const char *refused = paths[i].refused;
    if (paths[i].make == device && S_ISREG(before.st_mode)) return; /* only root makes devices */
    if (!refused && (how & CDZ_WRITE_NEW) && !paths[i].is_new) refused = "out: is there already";
    const cdz_status may = grows ? CDZ_OK : cdz_write_may("out", how, NULL);
    const cdz_status st = how_to("out", how, &err);
    if (strangers()) fail_msg("%s: something is left behind", name);
    if (access("nowhere", F_OK) == 0) fail_msg("%s: a link was followed", name);
    if (access("victim", F_OK) == 0 && !(grows && paths[i].make == hard_link))
        holds(name, "victim", "victim");
    if (!refused) {
        if (st != CDZ_OK || may != CDZ_OK) fail_msg("%s: %s", name, err.text);
        holds(name, "out", "new");
        return;
    }
    if (st == CDZ_OK || (!grows && may == CDZ_OK)) fail_msg("%s: not refused", name);
    if (!strstr(err.text, refused)) fail_msg("%s: '%s' lacks '%s'", name, err.text, refused);
    assert_true(there && lstat("out", &after) == 0);
    if (before.st_ino != after.st_ino || before.st_mode != after.st_mode)
        fail_msg("%s: what was there is another", name);
}

static void paths_are_looked_at(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(paths); i++) {
        try_path(i, "whole", whole, 0, false);
        try_path(i, "synced", whole, CDZ_WRITE_SYNC, false);
        try_path(i, "new", whole, CDZ_WRITE_NEW, false);
        try_path(i, "growing", growing, 0, true);
    }
}

static const struct {
    const char *path, *refused;
} names[] = {
    {"", "names a folder"},
    {"sub/", "names a folder"},
    {".", "names a folder"},
    {"sub/..", "names a folder"},
    {"nowhere/out", "its folder nowhere: No such file"},
    {"victim/out", "its folder victim: Not a directory"},
};

static void names_are_looked_at(void **state)
{
    (void)state;
    clean();
    put("victim", "victim");
    for (size_t i = 0; i < COUNT(names); i++) {
        cdz_error err = {0};
        if (whole(names[i].path, 0, &err) == CDZ_OK || !strstr(err.text, names[i].refused))
            fail_msg("'%s': '%s' lacks '%s'", names[i].path, err.text, names[i].refused);
        if (growing(names[i].path, 0, &err) == CDZ_OK) fail_msg("'%s' grows", names[i].path);
    }
}

/* --- what it leaves ------------------------------------------------------------------------------------------- */

static mode_t mode_of(const char *path)
{
    struct stat s;
    assert_int_equal(lstat(path, &s), 0);
    return s.st_mode & 07777;
}

static void modes_are_kept(void **state)
{
    static const mode_t modes[] = {0600, 0640, 0644, 0755};
    (void)state;
    const mode_t mask = umask(027);
    clean();
    assert_int_equal(whole("out", 0, NULL), CDZ_OK);
    assert_int_equal(mode_of("out"), 0640);
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod("out", modes[i]), 0);
        assert_int_equal(whole("out", 0, NULL), CDZ_OK);
        assert_int_equal(mode_of("out"), modes[i]);
    }
    umask(mask);
}

/* More than the buffer in pieces of every kind, then the writer's end as `last` says. */
static void write_much(cdz_writer *w)
{
    static char bytes[3 * CDZ_WRITE_BUFFER];
    memset(bytes, 'x', sizeof bytes);
    cdz_write(w, bytes, 10);
    cdz_write(w, bytes, CDZ_WRITE_BUFFER - 10);
    cdz_write(w, bytes, 1);
    cdz_write(w, bytes, sizeof bytes);
    cdz_write(w, bytes, 0);
    cdz_write(w, bytes, 77);
}
enum { MUCH = CDZ_WRITE_BUFFER + 1 + 3 * CDZ_WRITE_BUFFER + 77 };

static void bytes_arrive(void **state)
{
    cdz_writer w;
    char at[64];
    struct stat s;
    (void)state;
    clean();
    assert_int_equal(cdz_write_begin(&w, "out", CDZ_WRITE_SYNC, NULL), CDZ_OK);
    write_much(&w);
    assert_int_equal(cdz_write_flush(&w, NULL), CDZ_OK);
    cdz_write_read_at(&w, at, sizeof at);
    assert_int_equal(stat(at, &s), 0); /* can be read before it has its name */
    assert_int_equal(s.st_size, MUCH);
    assert_int_not_equal(access("out", F_OK), 0);
    assert_int_equal(cdz_write_finish(&w, NULL), CDZ_OK);
    assert_int_equal(stat("out", &s), 0);
    assert_int_equal(s.st_size, MUCH);
    cdz_write_drop(&w); /* after the end: nothing */
}

static void given_up_is_gone(void **state)
{
    cdz_writer w;
    (void)state;
    clean();
    put("out", "old");
    assert_int_equal(cdz_write_begin(&w, "out", 0, NULL), CDZ_OK);
    write_much(&w);
    cdz_write_drop(&w);
    holds("given up", "out", "old");
    assert_int_equal(strangers(), 0);
}

/* In a child: begins, writes, and dies in the middle. */
static void killed_leaves_the_old(void **state)
{
    int status;
    (void)state;
    clean();
    put("out", "old");
    const pid_t child = fork();
    if (child == 0) {
        cdz_writer w;
        if (cdz_write_begin(&w, "out", 0, NULL) != CDZ_OK) _exit(1);
        write_much(&w);
        if (w.temp[0]) _exit(77); /* this file system has no nameless files */
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    holds("killed", "out", "old");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: files without a name: this file system has none\n");
        clean();
        return;
    }
    assert_true(WIFSIGNALED(status));
    assert_int_equal(strangers(), 0);
}

/* No room for all of it: the same as a full disk, which needs rights. */
static void no_room(void **state)
{
    const struct rlimit small = {CDZ_WRITE_BUFFER + 100, CDZ_WRITE_BUFFER + 100};
    static const unsigned hows[] = {0, CDZ_WRITE_SYNC, CDZ_WRITE_NEW};
    int status;
    (void)state;
    for (size_t i = 0; i < COUNT(hows); i++) {
        clean();
        if (!(hows[i] & CDZ_WRITE_NEW)) put("out", "old");
        const pid_t child = fork();
        if (child == 0) {
            cdz_writer w;
            cdz_error err = {0};
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &small);
            if (cdz_write_begin(&w, "out", hows[i], NULL) != CDZ_OK) _exit(1);
            write_much(&w);
            if (cdz_write_check(&w, NULL) == CDZ_OK) _exit(2);
            if (cdz_write_finish(&w, &err) != CDZ_E_IO) _exit(3);
            _exit(strstr(err.text, "out: cannot be written: File too large") ? 0 : 4);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(strangers(), 0);
        if (!(hows[i] & CDZ_WRITE_NEW))
            holds("no room", "out", "old");
        else
            assert_int_not_equal(access("out", F_OK), 0);
    }
}

/* Somebody makes the name while the file is written. */
static void names_made_meanwhile(void **state)
{
    static const struct {
        void (*make)(void);
        unsigned how;
        bool written;
    } cases[] = {{old_file, 0, true},       {old_file, CDZ_WRITE_NEW, false},
                 {link_to_file, 0, false},  {link_to_file, CDZ_WRITE_NEW, false},
                 {dangling_link, 0, false}, {folder, 0, false}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_writer w;
        clean();
        assert_int_equal(cdz_write_begin(&w, "out", cases[i].how, NULL), CDZ_OK);
        cdz_write(&w, "new", 3);
        cases[i].make();
        const bool written = cdz_write_finish(&w, NULL) == CDZ_OK;
        if (written != cases[i].written) fail_msg("case %zu: %d", i, written);
        if (written) holds("meanwhile", "out", "new");
        if (access("victim", F_OK) == 0) holds("meanwhile", "victim", "victim");
        if (strangers()) fail_msg("case %zu: something is left behind", i);
    }
}

/* Names that other programs, and this one before, made guessable. */
static void guessable_names_are_not_used(void **state)
{
    static const char *const made[] = {"out.new", "out.part", "out.tmp", "out~"};
    char mine[64];
    (void)state;
    clean();
    put("victim", "victim");
    snprintf(mine, sizeof mine, "out.%ld.part", (long)getpid());
    assert_int_equal(symlink("victim", mine), 0);
    for (size_t i = 0; i < COUNT(made); i++) assert_int_equal(symlink("victim", made[i]), 0);
    assert_int_equal(whole("out", 0, NULL), CDZ_OK);
    assert_int_equal(whole("out", CDZ_WRITE_SYNC, NULL), CDZ_OK);
    holds("beside links", "victim", "victim");
    for (size_t i = 0; i < COUNT(made); i++) assert_int_equal(unlink(made[i]), 0);
    assert_int_equal(unlink(mine), 0);
}

/* --- inputs ---------------------------------------------------------------------------------------------------- */

static void inputs_are_not_written(void **state)
{
    cdz_error err = {0};
    FILE *file;
    (void)state;
    clean();
    put("victim", "victim");
    assert_int_equal(link("victim", "out"), 0);
    const int inputs[] = {-1, open("victim", O_RDONLY)};
    assert_int_equal(cdz_write_grow("out", false, inputs, 2, &file, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "out: is the input, which is read"));
    holds("an input", "victim", "victim");
    assert_int_equal(cdz_write_not_over("out", "victim", &err), CDZ_E_INPUT);
    assert_int_equal(cdz_write_not_over("nowhere", "victim", &err), CDZ_OK);
    assert_int_equal(cdz_write_not_over("victim", "nowhere", &err), CDZ_OK);
    close(inputs[1]);
    assert_int_equal(unlink("out"), 0);
    assert_int_equal(cdz_write_grow("out", false, inputs, 1, &file, &err), CDZ_OK);
    fputs("a", file);
    fclose(file);
    assert_int_equal(cdz_write_grow("out", true, NULL, 0, &file, &err), CDZ_OK); /* and goes on */
    fputs("b", file);
    fclose(file);
    holds("growing", "out", "ab");
    /* What is kept is read where it was opened, whatever has its name by now. */
    assert_int_equal(cdz_write_grow("out", true, NULL, 0, &file, &err), CDZ_OK);
    assert_int_equal(unlink("out"), 0);
    assert_int_equal(rename("victim", "out"), 0);
    rewind(file);
    assert_int_equal(fgetc(file), 'a');
    assert_int_equal(fseek(file, 1, SEEK_SET), 0);
    assert_int_equal(ftruncate(fileno(file), 1), 0);
    assert_int_equal(fputs("c", file) >= 0, 1);
    assert_int_equal(fflush(file), 0);
    rewind(file);
    assert_int_equal(fgetc(file), 'a');
    assert_int_equal(fgetc(file), 'c');
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    holds("the name's new file", "out", "victim");
    put("victim", "victim");
    assert_int_equal(cdz_write_grow("-", false, NULL, 0, &file, &err), CDZ_OK);
    assert_ptr_equal(file, stdout);
}

static int tear_down(void **state)
{
    (void)state;
    clean();
    (void)rmdir("sub");
    return chdir("/") == 0 ? rmdir(home) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_looked_at),
        cmocka_unit_test(names_are_looked_at),
        cmocka_unit_test(modes_are_kept),
        cmocka_unit_test(bytes_arrive),
        cmocka_unit_test(given_up_is_gone),
        cmocka_unit_test(killed_leaves_the_old),
        cmocka_unit_test(no_room),
        cmocka_unit_test(names_made_meanwhile),
        cmocka_unit_test(guessable_names_are_not_used),
        cmocka_unit_test(inputs_are_not_written),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
