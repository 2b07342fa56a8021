/* descriptor.c - the refusals. Each says which file, what it has and what this host expects. */
#include "describe/descriptor.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "params/params.h"

#define MAX_PARAMS 256u
#define MAX_ENDING 48

#define ENDING_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

static const char *const kind_names[] = {
    [CDZ_KIND_PROCESSOR] = "processor", [CDZ_KIND_CRITERION] = "criterion",
    [CDZ_KIND_STRATEGY] = "strategy",   [CDZ_KIND_DRAFTER] = "drafter",
    [CDZ_KIND_OBSERVER] = "observer",   [CDZ_KIND_LOADER] = "loader",
    [CDZ_KIND_SCHEDULER] = "scheduler", [CDZ_KIND_PRESS] = "press",
};

const char *cdz_kind_name(uint32_t kind)
{
    return kind < sizeof kind_names / sizeof kind_names[0] ? kind_names[kind] : NULL;
}

uint32_t cdz_kind_of_name(const char *name)
{
    for (uint32_t kind = 1; kind < sizeof kind_names / sizeof kind_names[0]; kind++)
        if (strcmp(name, kind_names[kind]) == 0) return kind;
    return 0;
}

bool cdz_plugin_id_ok(const char *id)
{
    static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t n = strspn(id, inner);
    if (id[n] != '\0' || n < 1 || n > CDZ_MAX_ID) return false;
    return !cdz_byte_in(id[0], "._-") && id[n - 1] != '.' && !strstr(id, "..");
}

const char *cdz_plugin_id_last(const char *id)
{
    const char *dot = strrchr(id, '.');
    return dot ? dot + 1 : id;
}

static char folded(char c)
{
    return c == '-' ? '_' : c;
}

bool cdz_plugin_id_alike(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (folded(*a) != folded(*b)) return false;
    return *a == *b;
}

bool cdz_plugin_version_ok(const char *version)
{
    size_t n = strspn(version, "0123456789.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-");
    return version[n] == '\0' && n >= 1 && n <= 32 && version[0] >= '0' && version[0] <= '9';
}

/* What a later minor gives a meaning may not already be set by accident. */
cdz_status cdz_descriptor_check_flags(const char *path, const char *whose, const char *name,
                                      uint32_t flags, uint32_t known, cdz_error *err)
{
    if ((flags & ~known) == 0) return CDZ_OK;
    return cdz_err(err, CDZ_E_PLUGIN, "%s: %s sets 0x%x in %s, which ABI %u.%u does not have", path,
                   whose, flags & ~known, name, (unsigned)CDZ_ABI_MAJOR, (unsigned)CDZ_ABI_MINOR);
}

/* --- descriptors ------------------------------------------------------------------------------------------ */

/* The bytes a descriptor of this kind must at least have, and those this host knows. */
static bool kind_sizes(uint32_t kind, size_t *least, size_t *ours)
{
    switch (kind) {
    case CDZ_KIND_PROCESSOR:
        *least = offsetof(cdz_processor, apply) + sizeof(((cdz_processor *)0)->apply);
        *ours = sizeof(cdz_processor);
        return true;
    case CDZ_KIND_CRITERION:
        *least = offsetof(cdz_criterion, test) + sizeof(((cdz_criterion *)0)->test);
        *ours = sizeof(cdz_criterion);
        return true;
    case CDZ_KIND_STRATEGY:
        *least = offsetof(cdz_strategy, run) + sizeof(((cdz_strategy *)0)->run);
        *ours = sizeof(cdz_strategy);
        return true;
    case CDZ_KIND_DRAFTER:
        *least = offsetof(cdz_drafter, propose) + sizeof(((cdz_drafter *)0)->propose);
        *ours = sizeof(cdz_drafter);
        return true;
    case CDZ_KIND_OBSERVER:
        *least = offsetof(cdz_observer, begin) + sizeof(((cdz_observer *)0)->begin);
        *ours = sizeof(cdz_observer);
        return true;
    case CDZ_KIND_LOADER:
        *least = offsetof(cdz_loader, open) + sizeof(((cdz_loader *)0)->open);
        *ours = sizeof(cdz_loader);
        return true;
    case CDZ_KIND_SCHEDULER:
        *least = offsetof(cdz_scheduler, end) + sizeof(((cdz_scheduler *)0)->end);
        *ours = sizeof(cdz_scheduler);
        return true;
    case CDZ_KIND_PRESS:
        *least = offsetof(cdz_press, end) + sizeof(((cdz_press *)0)->end);
        *ours = sizeof(cdz_press);
        return true;
    default: return false;
    }
}

static bool holds(const cdz_bounds *bounds, const void *at, size_t bytes)
{
    return !bounds || bounds->holds(bounds->object, at, bytes);
}

static bool text_ok(const cdz_bounds *bounds, const char *text)
{
    if (bounds) return bounds->holds_string(bounds->object, text, CDZ_MAX_TEXT);
    return text && strnlen(text, CDZ_MAX_TEXT + 1) <= CDZ_MAX_TEXT;
}

static cdz_status unknown_kind(const char *path, uint32_t kind, cdz_error *err)
{
    char known[200];
    size_t n = 0;
    for (uint32_t k = 1; cdz_kind_name(k); k++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%u (%s)",
                              k == 1                 ? ""
                              : cdz_kind_name(k + 1) ? ", "
                                                     : " and ",
                              k, cdz_kind_name(k));
    return cdz_err(err, CDZ_E_PLUGIN, "%s: has a plugin of kind %u; this host knows %s", path, kind,
                   known);
}

/* Size and kind, then the copy; nothing is read past the size the plugin states. */
static cdz_status copy_descriptor(const char *path, const cdz_plugin_base *from,
                                  const cdz_bounds *bounds, cdz_descriptor *out, cdz_error *err)
{
    const size_t head = offsetof(cdz_plugin_base, id);
    if (!from || !holds(bounds, from, head))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: lists a plugin that lies outside the file", path);
    memset(out, 0, sizeof *out);
    memcpy(&out->base, from, head);
    const size_t size = out->base.size;
    size_t least, ours;
    if (!kind_sizes(out->base.kind, &least, &ours)) return unknown_kind(path, out->base.kind, err);
    if (size < least || !holds(bounds, from, size))
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: a %s's descriptor has %zu bytes, expected at least %zu; rebuild it with "
                       "this SDK",
                       path, cdz_kind_name(out->base.kind), size, least);
    memcpy(out, from, size < ours ? size : ours);
    out->base.size = (uint32_t)ours;
    return CDZ_OK;
}

static cdz_status check_names(const char *path, const cdz_bounds *bounds, cdz_plugin_base *base,
                              cdz_error *err)
{
    if (!text_ok(bounds, base->id))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: a %s has no id", path, cdz_kind_name(base->kind));
    if (!cdz_plugin_id_ok(base->id))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: '%.80s' is no plugin id; expected " CDZ_PLUGIN_ID_IS,
                       path, base->id);
    if (!text_ok(bounds, base->version) || !cdz_plugin_version_ok(base->version))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: '%s' has no version; expected one as \"1.0.0\"",
                       path, base->id);
    if (!base->summary) base->summary = "";
    if (!text_ok(bounds, base->summary))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: '%s' has an unreadable summary", path, base->id);
    return CDZ_OK;
}

/* Capabilities that a kind of plugin can have. */
static uint32_t known_caps(uint32_t kind)
{
    switch (kind) {
    case CDZ_KIND_PROCESSOR:
        return CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_ELEMENTWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP |
               CDZ_HISTORY_SPARSE | CDZ_NEEDS_NORMALISED | CDZ_SAMPLING_ONLY;
    case CDZ_KIND_STRATEGY:
        return CDZ_ONE_ROW | CDZ_REWINDS | CDZ_SAMPLES | CDZ_GREEDY | CDZ_BEAMS | CDZ_SCORES_MOVE;
    case CDZ_KIND_CRITERION: return CDZ_NEEDS_IDS | CDZ_HAS_EOS;
    case CDZ_KIND_DRAFTER: return CDZ_DRAWS_IN_TURN;
    case CDZ_KIND_LOADER: return CDZ_SANDBOXES;
    case CDZ_KIND_SCHEDULER: return CDZ_HAS_PRIORITIES;
    case CDZ_KIND_PRESS: return CDZ_PRESS_WRAPS;
    default: return 0;
    }
}

static uint32_t caps_of(const cdz_descriptor *d)
{
    switch (d->base.kind) {
    case CDZ_KIND_PROCESSOR: return d->processor.caps;
    case CDZ_KIND_CRITERION: return d->criterion.caps;
    case CDZ_KIND_STRATEGY: return d->strategy.caps;
    case CDZ_KIND_DRAFTER: return d->drafter.caps;
    case CDZ_KIND_LOADER: return d->loader.caps;
    case CDZ_KIND_SCHEDULER: return d->scheduler.caps;
    case CDZ_KIND_PRESS: return d->press.caps;
    default: return d->observer.caps;
    }
}

static cdz_status check_bits(const char *path, const cdz_descriptor *d, cdz_error *err)
{
    const uint32_t kind = d->base.kind;
    char whose[CDZ_MAX_ID + 16];
    (void)snprintf(whose, sizeof whose, "%s '%s'", cdz_kind_name(kind), d->base.id);
    CDZ_TRY(cdz_descriptor_check_flags(path, whose, "flags", d->base.flags, 0, err));
    return cdz_descriptor_check_flags(path, whose, "caps", caps_of(d), known_caps(kind), err);
}

/* The part of the table that decides what may be read; its meaning is params.h's business. */
static cdz_status check_table(const char *path, const cdz_bounds *bounds,
                              const cdz_plugin_base *base, cdz_error *err)
{
    if (base->n_params == 0) return CDZ_OK;
    if (base->n_params > MAX_PARAMS)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: '%s' declares %u parameters, more than %u", path,
                       base->id, base->n_params, MAX_PARAMS);
    if (base->param_size < sizeof(cdz_param) || base->param_size > 4096 || !base->params ||
        !holds(bounds, base->params, (size_t)base->n_params * base->param_size))
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: '%s' has an unreadable parameter table (rows of %u bytes, expected %zu)",
                       path, base->id, base->param_size, sizeof(cdz_param));
    for (uint32_t i = 0; i < base->n_params; i++) {
        cdz_param row;
        memcpy(&row, (const char *)base->params + (size_t)i * base->param_size, sizeof row);
        if (!text_ok(bounds, row.name) || (row.help && !text_ok(bounds, row.help)) ||
            (row.text && !text_ok(bounds, row.text)))
            return cdz_err(err, CDZ_E_PLUGIN,
                           "%s: '%s' has an unreadable name or help in parameter %u", path,
                           base->id, i + 1);
    }
    return CDZ_OK;
}

static cdz_status check_calls(const char *path, const cdz_descriptor *d, cdz_error *err)
{
    const char *missing = NULL;
    uint32_t state_size = 0;
    switch (d->base.kind) {
    case CDZ_KIND_PROCESSOR:
        if (!d->processor.apply) missing = "apply";
        state_size = d->processor.state_size;
        break;
    case CDZ_KIND_CRITERION:
        if (!d->criterion.test) missing = "test";
        state_size = d->criterion.state_size;
        break;
    case CDZ_KIND_DRAFTER:
        if (!d->drafter.propose) missing = "propose";
        break;
    case CDZ_KIND_LOADER:
        if (!d->loader.open) missing = "open";
        break;
    case CDZ_KIND_SCHEDULER:
        if (!d->scheduler.admit) missing = "admit";
        break;
    case CDZ_KIND_PRESS:
        if (!d->press.press) missing = "press";
        break;
    case CDZ_KIND_OBSERVER: break; /* hears what it wants to */
    default:
        if (!d->strategy.run) missing = "run";
        break;
    }
    if (missing)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: %s '%s' has no %s function", path,
                       cdz_kind_name(d->base.kind), d->base.id, missing);
    if (state_size > CDZ_MAX_STATE_SIZE)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: '%s' wants %u bytes of state per row; the limit is %u", path,
                       d->base.id, state_size, CDZ_MAX_STATE_SIZE);
    return CDZ_OK;
}

/* --- loaders ---------------------------------------------------------------------------------------------- */

bool cdz_endings_hold(const char *endings, const char *ending, size_t n)
{
    for (const char *p = endings;; p++) {
        const size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, ending, n) == 0) return true;
        if (p[len] == '\0') return false;
        p += len;
    }
}

static bool ending_ok(const char *ending, size_t n)
{
    static const char *const taken[] = {"so", "ini"};
    if (n < 1 || n > MAX_ENDING || strspn(ending, ENDING_LETTERS) < n) return false;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strlen(taken[i]) == n && memcmp(taken[i], ending, n) == 0) return false;
    return true;
}

static cdz_status check_loader(const char *path, const cdz_bounds *bounds, const cdz_loader *loader,
                               cdz_error *err)
{
    const char *id = loader->base.id;
    if (loader->base.n_params > 0)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: loader '%s' declares parameters; a loader has none",
                       path, id);
    if (!text_ok(bounds, loader->endings))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: loader '%s' names no endings of files", path, id);
    for (const char *p = loader->endings;; p++) {
        const size_t n = strcspn(p, "|");
        if (!ending_ok(p, n))
            return cdz_err(err, CDZ_E_PLUGIN,
                           "%s: loader '%s': '%.*s' is no ending of files; expected 1 to %d of a-z "
                           "0-9 _, and not so or ini",
                           path, id, n < 40 ? (int)n : 40, p, MAX_ENDING);
        if (p[n] == '\0') return CDZ_OK;
        p += n;
    }
}

cdz_status cdz_descriptor_adopt(const char *path, const cdz_plugin_base *from,
                                const cdz_bounds *bounds, cdz_descriptor *out, cdz_error *err)
{
    CDZ_TRY(copy_descriptor(path, from, bounds, out, err));
    CDZ_TRY(check_names(path, bounds, &out->base, err));
    CDZ_TRY(check_bits(path, out, err));
    CDZ_TRY(check_calls(path, out, err));
    if (out->base.kind == CDZ_KIND_LOADER) CDZ_TRY(check_loader(path, bounds, &out->loader, err));
    CDZ_TRY(check_table(path, bounds, &out->base, err));
    const cdz_param_table table = {.at = out->base.params,
                                   .n = out->base.n_params,
                                   .param_size = out->base.param_size,
                                   .params_size = out->base.params_size};
    cdz_status st = cdz_param_table_check(&table, out->base.id, err);
    if (st != CDZ_OK && err) {
        err->code = CDZ_E_PLUGIN;
        return cdz_err_prefix(err, "%s", path);
    }
    return st;
}
