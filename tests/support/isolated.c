/* isolated.c - the fixture of isolated.h, the processes below this one, and files of a plugin that attacks. */
#include "support/isolated.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

static void heard(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    fixture *f = user;
    (void)level, (void)plugin;
    snprintf(f->line, sizeof f->line, "%s", text);
    f->n_lines++;
}

fixture *fixture_open(const char *plugins, uint32_t n_threads)
{
    fixture *f = calloc(1, sizeof *f);
    cdz_error err = {0};
    assert_non_null(f);
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = n_threads,
                                 .plugin_dir = plugins,
                                 .log = heard,
                                 .log_user = f};
    must(cdz_open(&options, &f->rt, &err), &err);
    must(cdz_model_open(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary", NULL, &f->model,
                        &err),
         &err);
    snprintf(f->folder, sizeof f->folder, "/tmp/cadenza-isolate-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    return f;
}

void fixture_close(fixture *f)
{
    cdz_model_close(f->model);
    cdz_close(f->rt);
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

cdz_pipeline *parse(const fixture *f, const char *ini)
{
    cdz_pipeline *pipeline = NULL;
    cdz_error err = {0};
    must(cdz_pipeline_parse(f->rt, ini, strlen(ini), "test.ini", &pipeline, &err), &err);
    return pipeline;
}

cdz_status generate(const fixture *f, cdz_pipeline *pipeline, const char *json, cdz_result **out,
                    cdz_error *err)
{
    const cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = pipeline, .json = json};
    return cdz_generate(f->rt, &request, out, err);
}

cdz_status run_ini(const fixture *f, const char *ini, const char *json, cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    cdz_status st = cdz_pipeline_parse(f->rt, ini, strlen(ini), "test.ini", &pipeline, err);
    if (st == CDZ_OK) st = generate(f, pipeline, json, &result, err);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    return st;
}

/* Of a process, if it is a child of this one. */
static proc_facts proc_child_at(const char *pid, pid_t parent)
{
    char path[64], text[1024];
    proc_facts facts = {0};
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return facts; /* it has gone */
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *at = strrchr(text, ')'); /* its name may hold anything */
    if (!at || !at[1]) return facts;
    at += 2;
    const char state = *at++;
    if (strtol(at, &at, 10) != parent || state == 'Z') return facts;
    for (int field = 5; field < 14; field++) (void)strtol(at, &at, 10);
    const long user = strtol(at, &at, 10), kernel = strtol(at, &at, 10);
    return (proc_facts){(pid_t)strtol(pid, NULL, 10), state, user + kernel};
}

proc_facts proc_child_of(pid_t parent)
{
    proc_facts found = {0};
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (const struct dirent *e; !found.pid && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9') found = proc_child_at(e->d_name, parent);
    closedir(dir);
    return found;
}

hostile hostile_read(void)
{
    hostile h = {0};
    cdz_error err = {0};
    must(cdz_file_read(CADENZA_BUILD_DIR "/tests/isolate/hostile.so", 1u << 26, &h.bytes, &h.n,
                       &err),
         &err);
    const char *at = memmem(h.bytes, h.n, "order:    ", 10);
    assert_non_null(at);
    h.order_at = (size_t)(at - h.bytes) + 6;
    return h;
}

void hostile_write(const hostile *h, const fixture *f, const char *order, int deadline_ms,
                   char path[128], char ini[512])
{
    static unsigned n;
    snprintf(path, 128, "%s/%u.so", f->folder, n++);
    snprintf(h->bytes + h->order_at, 32, "%s", order);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(h->bytes, 1, h->n, out), h->n);
    fclose(out);
    snprintf(ini, 512,
             "[pipeline]\nprocessors = bad\n[generation]\nmax_new_tokens = 2\ndo_sample = false\n"
             "[bad]\nid = %s\nisolation = process\ndeadline_ms = %d\n",
             path, deadline_ms);
}
