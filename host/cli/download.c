/* download.c - a download as a user sees it: what is to come in one line, a bar on a terminal, Ctrl-C. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/size_text.h"
#include "cli/cli.h"
#include "hub/pull.h"

enum { BAR = 24 };

typedef struct shown {
    bool terminal;
    const char *name; /* of the model */
    double last, begun;
    uint64_t at_first; /* bytes of the file that were there when it began */
    char file[CDZ_HUB_FILE];
} shown;

static void clear_line(const shown *s)
{
    if (s->terminal) fputs("\r\033[K", stderr);
}

static void begin(void *user, size_t files, uint64_t bytes, const char *folder)
{
    const shown *s = user;
    cdz_size_text size;
    cdz_size_write(&size, bytes);
    clear_line(s);
    cdz_cli_say("%s: %s in %zu file%s to %s", s->name, size.text, files, files == 1 ? "" : "s",
                folder);
}

static void wait_for(void *user, const char *file)
{
    clear_line(user);
    cdz_cli_say("%s: another process downloads it; waiting", file);
}

static void draw(const shown *s, uint64_t done, uint64_t bytes, double now)
{
    char bar[BAR + 1];
    cdz_size_text have, all, rate;
    const double part = bytes ? (double)done / (double)bytes : 1, seconds = now - s->begun;
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)(part * BAR));
    bar[BAR] = '\0';
    cdz_size_write(&have, done);
    cdz_size_write(&all, bytes);
    cdz_size_write(&rate, seconds > 0 ? (uint64_t)((double)(done - s->at_first) / seconds) : 0);
    fprintf(stderr, "\r\033[K%.32s [%s] %3.0f %%  %s of %s, %s/s", s->file, bar, 100 * part,
            have.text, all.text, rate.text);
    fflush(stderr);
}

/* Ten times a second, and when a file is whole. */
static void progress(void *user, const char *file, uint64_t done, uint64_t bytes)
{
    shown *s = user;
    const double now = cdz_now_s();
    if (!s->terminal) return;
    if (strcmp(s->file, file) != 0 || done < s->at_first) {
        (void)snprintf(s->file, sizeof s->file, "%s", file);
        s->begun = now;
        s->at_first = done;
    } else if (now - s->last < 0.1 && done < bytes) {
        return;
    }
    s->last = now;
    draw(s, done, bytes, now);
}

static bool stop(void *user)
{
    (void)user;
    return cdz_cli_interrupted();
}

static void note_interrupt(void *user)
{
    (void)user; /* stop() sees it */
}

int cdz_cli_download(const cdz_hub_wish *wish, char *path, size_t bytes)
{
    cdz_error err = {0};
    shown s = {.terminal = isatty(STDERR_FILENO), .name = wish->id.name};
    const cdz_hub_watch watch = {begin, progress, wait_for, stop, &s};
    cdz_cli_on_interrupt(note_interrupt, NULL);
    const cdz_status st = cdz_hub_pull(wish, &watch, path, bytes, &err);
    cdz_cli_on_interrupt(NULL, NULL);
    clear_line(&s);
    if (st == CDZ_OK) return CDZ_EXIT_OK;
    if (st != CDZ_E_CANCELLED) return cdz_cli_fail(&err);
    cdz_cli_say("%s: stopped; what is there by now stays, and the same command goes on",
                wish->id.name);
    cdz_cli_clear_interrupt();
    return CDZ_EXIT_INTERRUPTED;
}
