/* printable.c - the filter before a terminal.
 *
 * Owns: the stream that standard output becomes at a terminal. All that the program prints goes through it, whoever wrote the text:
 * a model, a plugin's summary, a file's name. Where output goes to a file or a pipe it is left as it is. */
#include "cli/printable.h"

#include <unistd.h>

#include "base/ascii.h"

static FILE *terminal; /* NULL: standard output is none, or as it was */
static unsigned char pending;

/* --- text ----------------------------------------------------------------------------------------------------- */

static size_t put_escape(char *out, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    out[0] = '\\';
    out[1] = 'x';
    out[2] = digits[c >> 4];
    out[3] = digits[c & 15];
    return 4;
}

static size_t put_byte(char *out, unsigned char c, const char *keep)
{
    if (cdz_is_control(c, 0) && !cdz_byte_in(c, keep)) return put_escape(out, c);
    out[0] = (char)c;
    return 1;
}

size_t cdz_printable(char *out, const char *text, size_t n, const char *keep, unsigned char *held)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i], first = *held;
        *held = c == 0xC2 ? c : 0;
        if (first && cdz_is_control(first, c)) {
            at += put_escape(out + at, first);
            at += put_escape(out + at, c);
            continue;
        }
        if (first) out[at++] = (char)first;
        if (!*held) at += put_byte(out + at, c, keep);
    }
    return at;
}

/* --- standard output ------------------------------------------------------------------------------------------ */

#ifdef __GLIBC__
enum { PIECE = 1024 };

static ssize_t write_piece(const char *text, size_t n)
{
    char shown[(PIECE + 1) * CDZ_PRINTABLE_BYTES];
    const size_t len = cdz_printable(shown, text, n, "\n\t", &pending);
    return fwrite(shown, 1, len, terminal) == len && fflush(terminal) == 0 ? (ssize_t)n : -1;
}

static ssize_t write_shown(void *user, const char *text, size_t n)
{
    size_t done = 0;
    (void)user;
    while (done < n) {
        const size_t piece = n - done < PIECE ? n - done : PIECE;
        if (write_piece(text + done, piece) < 0) return done ? (ssize_t)done : 0;
        done += piece;
    }
    return (ssize_t)n;
}

static int close_shown(void *user)
{
    (void)user;
    if (pending) (void)putc(pending, terminal);
    pending = 0;
    return fclose(terminal);
}

void cdz_printable_output(void)
{
    static const cookie_io_functions_t functions = {.write = write_shown, .close = close_shown};
    if (!isatty(STDOUT_FILENO)) return;
    FILE *shown = fopencookie(NULL, "w", functions);
    if (!shown) return;
    (void)setvbuf(shown, NULL, _IOLBF, BUFSIZ);
    terminal = stdout;
    stdout = shown;
}
#else
void cdz_printable_output(void)
{
}
#endif

FILE *cdz_printable_terminal(void)
{
    return terminal ? terminal : stdout;
}

void cdz_printable_tell(const char *sequence)
{
    (void)fflush(stdout);
    (void)fputs(sequence, cdz_printable_terminal());
    (void)fflush(cdz_printable_terminal());
}
