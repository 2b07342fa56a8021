/* test_chat_tab.c - the Tab key in `cadenza chat`: the program on a terminal of its own, typed at as a person types. Nothing here
 * depends on time: what is typed is answered by what is read, and who waits for ever is ended by the test's limit. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SCREEN = 1 << 16, NOT_HERE = 77 };

typedef struct terminal {
    int fd;
    pid_t child;
    char screen[SCREEN]; /* what was written, without what moves the cursor and pads */
    size_t len;
    int in_sequence; /* of an escape: 0 none, 1 behind ESC, 2 in its parameters */
    bool over;
} terminal;

/* --- a terminal ---------------------------------------------------------------------------------------------------- */

static void begin_child(const char *name, const char *const argv[])
{
    const struct winsize size = {.ws_row = 40, .ws_col = 160};
    (void)setsid();
    const int fd = open(name, O_RDWR);
    if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) < 0 || ioctl(fd, TIOCSWINSZ, &size) < 0) _exit(NOT_HERE);
    for (int i = 0; i < 3; i++) (void)dup2(fd, i);
    if (fd > 2) (void)close(fd);
    (void)setenv("TERM", "vt100", 1);
    /* The editor's library keeps the name of a function that it was given for ever. */
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(NOT_HERE);
}

/* False: this machine gives no terminals. */
static bool terminal_open(terminal *t, const char *const argv[])
{
    memset(t, 0, sizeof *t);
    t->fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    const char *name =
        t->fd >= 0 && grantpt(t->fd) == 0 && unlockpt(t->fd) == 0 ? ptsname(t->fd) : NULL;
    if (!name) return false;
    t->child = fork();
    assert_true(t->child >= 0);
    if (t->child == 0) begin_child(name, argv);
    return true;
}

static void see(terminal *t, char c)
{
    if (t->in_sequence == 1) {
        t->in_sequence = c == '[' ? 2 : 0;
    } else if (t->in_sequence == 2) {
        if (c >= '@' && c <= '~') t->in_sequence = 0;
    } else if (c == '\033') {
        t->in_sequence = 1;
    } else if (c == '\b') {
        if (t->len > 0) t->len--;
    } else if (c && c != '\a' && c != '\r' && t->len + 1 < SCREEN) {
        t->screen[t->len++] = c;
    }
    t->screen[t->len] = '\0';
}

/* Reads until the screen behind `from` has the text; false: the program has ended without it. */
static bool wait_for(terminal *t, size_t from, const char *text)
{
    char block[512];
    while (from > t->len || !strstr(t->screen + from, text)) {
        const ssize_t n = read(t->fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        for (ssize_t i = 0; i < n; i++) see(t, block[i]);
    }
    return true;
}

/* Keys are the editor's once it has taken the terminal out of its line mode; before, the terminal shows them itself. */
static void type(const terminal *t, const char *keys)
{
    const struct timespec while_ = {.tv_nsec = 1000000};
    struct termios mode;
    while (tcgetattr(t->fd, &mode) == 0 && mode.c_lflag & ICANON) (void)nanosleep(&while_, NULL);
    const size_t n = strlen(keys);
    assert_int_equal(write(t->fd, keys, n), (ssize_t)n);
}

static int terminal_close(terminal *t)
{
    int status = 0;
    (void)wait_for(t, t->len, "never written");
    (void)close(t->fd);
    assert_int_equal(waitpid(t->child, &status, 0), t->child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- what Tab does ---------------------------------------------------------------------------------------------------- */

/* A mark typed behind Tab shows where the line ended. */
static const struct {
    const char *keys, *line;
} taps[] = {
    {"/con\t", "/context"}, {"/und\t", "/undo"},
    {"/sy\t", "/system"},   {"/s\t", "/s"}, /* set, system, save */
    {"/re\t", "/re"},                       /* reload, regen */
    {"/re\tg\t", "/regen"}, {"/u\ts\t", "/unset"},
    {"/zz\t", "/zz"},       {"/context\t", "/context"},
    {"/set x\t", "/set x"}, {"con\t", "con"},
    {"\t/he\t", "/help"},   {"/\t", "/"},
};

static void tab_completes_commands(void **state)
{
    static const char *const argv[] = {CADENZA_BUILD_DIR "/bin/cadenza", "chat", NULL};
    static terminal t;
    uint32_t n_wrong = 0;
    (void)state;
    if (!terminal_open(&t, argv)) skip();
    assert_true(wait_for(&t, 0, "> "));
    for (size_t i = 0; i < sizeof taps / sizeof taps[0]; i++) {
        char marked[80];
        const size_t from = t.len;
        type(&t, taps[i].keys);
        type(&t, "!");
        assert_true(wait_for(&t, from, "!"));
        snprintf(marked, sizeof marked, "%s!", taps[i].line);
        const char *line = strrchr(t.screen, '>');
        if (!line || !strstr(line, marked)) {
            print_error("Tab %zu: \"%s\" (expected \"%s\")\n", i, line ? line : "", marked);
            n_wrong++;
        }
        type(&t, "\x15\r"); /* away with the line, and a new one */
        assert_true(wait_for(&t, from, "\n> "));
    }
    type(&t, "/con\t\r");
    assert_true(wait_for(&t, t.len, " tokens"));
    type(&t, "/qu\t\r");
    assert_int_equal(terminal_close(&t), 0);
    assert_int_equal(n_wrong, 0);
}

int main(void)
{
#ifndef CADENZA_HAVE_EDIT
    puts("this build has no libedit: nothing completes lines");
    return NOT_HERE;
#else
    const struct CMUnitTest tests[] = {cmocka_unit_test(tab_completes_commands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
