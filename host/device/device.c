/* device.c - from a device's name to a backend: what the names mean, and auto. backends.c opens the files. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size_text.h"
#include "device/backends.h"

/* "cuda:1" in parts. */
typedef struct name_parts {
    char backend[CDZ_BACKEND_NAME];
    int index;
} name_parts;

static const char *name_of(const cdz_device_wish *wish)
{
    return wish->name ? wish->name : "cpu";
}

static bool is(const cdz_device_wish *wish, const char *name)
{
    return strcmp(name_of(wish), name) == 0;
}

static bool take_apart(const char *name, name_parts *out)
{
    const size_t len = strcspn(name, ":");
    if (len == 0 || len >= sizeof out->backend) return false;
    memcpy(out->backend, name, len);
    out->backend[len] = '\0';
    out->index = 0;
    if (!name[len]) return true;
    char *end;
    const unsigned long index = strtoul(name + len + 1, &end, 10);
    if (name[len + 1] < '0' || name[len + 1] > '9' || *end || index > 1023) return false;
    out->index = (int)index;
    return true;
}

/* The sentence for a name that is nobody's. */
static cdz_status unknown(const cdz_device_wish *wish, const char *backend,
                          const cdz_backend_list *list, cdz_error *err)
{
    const char *known[CDZ_MOST_BACKENDS + 3] = {"cpu", "auto", "cuda"};
    size_t n = 3;
    char all[CDZ_MOST_BACKENDS * (CDZ_BACKEND_NAME + 8)] = "cpu, auto, cuda[:N]";
    for (uint32_t i = 0; i < list->n; i++) {
        if (strcmp(list->names[i], "cuda") == 0) continue;
        known[n++] = list->names[i];
        snprintf(all + strlen(all), sizeof all - strlen(all), ", %s[:N]", list->names[i]);
    }
    const char *near = cdz_nearest_name(backend, known, n);
    if (near)
        return cdz_err(err, CDZ_E_USAGE,
                       "device '%.60s': there is no such device; did you mean '%s'? Expected one of "
                       "%s",
                       name_of(wish), near, all);
    return cdz_err(err, CDZ_E_USAGE, "device '%.60s': there is no such device; expected one of %s",
                   name_of(wish), all);
}

/* Is there such a backend, or can builds have one? */
static bool known(const cdz_backend_list *list, const char *name)
{
    if (strcmp(name, "cuda") == 0) return true;
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->names[i], name) == 0) return true;
    return false;
}

/* The name in parts, of a backend that is known. */
static cdz_status read_name(const cdz_device_wish *wish, const cdz_backend_list *list,
                            name_parts *out, cdz_error *err)
{
    if (!take_apart(name_of(wish), out)) {
        char backend[CDZ_BACKEND_NAME];
        snprintf(backend, sizeof backend, "%.*s", (int)strcspn(name_of(wish), ":"), name_of(wish));
        if (!known(list, backend)) return unknown(wish, backend, list, err);
        return cdz_err(err, CDZ_E_USAGE, "device '%.60s': expected %s:0, %s:1 and so on",
                       name_of(wish), backend, backend);
    }
    if (!known(list, out->backend)) return unknown(wish, out->backend, list, err);
    return CDZ_OK;
}

cdz_status cdz_device_check_name(const cdz_device_wish *wish, cdz_error *err)
{
    cdz_backend_list list;
    name_parts parts;
    if (is(wish, "cpu") || is(wish, "auto")) return CDZ_OK;
    cdz_backends_list(wish->folder, &list);
    return read_name(wish, &list, &parts, err);
}

/* --- finding ---------------------------------------------------------------------------------------------------- */

static void found_cpu(cdz_device_found *out)
{
    *out = (cdz_device_found){0};
    snprintf(out->name, sizeof out->name, "cpu");
}

static void describe(const cdz_backend_entry *entry, int index, cdz_device_found *out)
{
    cdz_device_info info = {0};
    entry->describe(index, &info);
    *out = (cdz_device_found){.entry = entry,
                              .index = index,
                              .free_bytes = info.free_bytes,
                              .total_bytes = info.total_bytes};
    snprintf(out->name, sizeof out->name, "%.24s:%d %.100s%s%.31s", entry->name, index, info.name,
             info.capability[0] ? ", " : "", info.capability);
}

static cdz_status find_named(const cdz_device_wish *wish, const char *backend, int index,
                             cdz_device_found *out, cdz_error *err)
{
    const cdz_backend_entry *entry;
    char why[256] = "it does not say why";
    CDZ_TRY(cdz_backend_load(wish->folder, backend, &entry, err));
    const int n = entry->count(why, sizeof why);
    if (n <= 0)
        return cdz_err(err, CDZ_E_UNSUPPORTED, "device %s: there is none here: %s", backend, why);
    if (index >= n)
        return cdz_err(err, CDZ_E_USAGE, "device %s:%d: there %s, up to %s:%d", backend, index,
                       n == 1 ? "is only one" : "are fewer", backend, n - 1);
    describe(entry, index, out);
    return CDZ_OK;
}

/* The first device of the first backend that has one. */
static void find_any(const cdz_device_wish *wish, const cdz_backend_list *list,
                     cdz_device_found *out)
{
    char why[sizeof out->why] = "";
    for (uint32_t i = 0; i < list->n; i++) {
        cdz_error err = {0};
        if (find_named(wish, list->names[i], 0, out, &err) == CDZ_OK) return;
        snprintf(why + strlen(why), sizeof why - strlen(why), "%s%.200s", i ? "; " : "", err.text);
    }
    found_cpu(out);
    if (list->n == 0)
        snprintf(out->why, sizeof out->why, "%.400s has no backend for another device",
                 list->folder);
    else
        memcpy(out->why, why, sizeof out->why);
}

cdz_status cdz_device_find(const cdz_device_wish *wish, cdz_device_found *out, cdz_error *err)
{
    cdz_backend_list list;
    name_parts parts = {0};
    found_cpu(out);
    if (is(wish, "cpu")) return CDZ_OK;
    cdz_backends_list(wish->folder, &list);
    if (is(wish, "auto")) {
        find_any(wish, &list, out);
        return CDZ_OK;
    }
    CDZ_TRY(read_name(wish, &list, &parts, err));
    return find_named(wish, parts.backend, parts.index, out, err);
}

cdz_status cdz_device_create(const cdz_device_wish *wish, const cdz_device_found *found,
                             cdz_backend **out, cdz_error *err)
{
    char why[256] = "it does not say why";
    const cdz_device_options options = {.size = sizeof options,
                                        .device = found->index,
                                        .precision = wish->precision,
                                        .strict = wish->strict};
    *out = found->entry->create(&options, why, sizeof why);
    return *out
               ? CDZ_OK
               : cdz_err(err, CDZ_E_UNSUPPORTED, "device %s: cannot be used: %s", found->name, why);
}

static void say_devices(const cdz_backend_entry *entry, int n,
                        void (*say)(void *user, const char *line), void *user)
{
    for (int d = 0; d < n; d++) {
        cdz_device_found found;
        cdz_size_text had, all;
        char line[CDZ_DEVICE_TEXT + 96];
        describe(entry, d, &found);
        cdz_size_write(&had, found.free_bytes);
        cdz_size_write(&all, found.total_bytes);
        snprintf(line, sizeof line, "%s, %s of %s free", found.name, had.text, all.text);
        say(user, line);
    }
}

void cdz_device_each(const char *folder, void (*say)(void *user, const char *line), void *user)
{
    cdz_backend_list list;
    cdz_backends_list(folder, &list);
    for (uint32_t i = 0; i < list.n; i++) {
        const cdz_backend_entry *entry;
        char why[256] = "none", line[320];
        cdz_error err = {0};
        if (cdz_backend_load(folder, list.names[i], &entry, &err) != CDZ_OK) {
            say(user, err.text);
            continue;
        }
        const int n = entry->count(why, sizeof why);
        snprintf(line, sizeof line, "%s: %s", list.names[i], why);
        if (n <= 0)
            say(user, line);
        else
            say_devices(entry, n, say, user);
    }
}
