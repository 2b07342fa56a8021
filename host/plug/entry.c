/* entry.c - reads and refuses entries. What they list is checked by describe/descriptor.h. */
#include "plug/entry.h"

#include <string.h>

#include "describe/abi.h"

cdz_status cdz_module_check_entry(const char *path, const cdz_native *native, cdz_entry *out,
                                  cdz_error *err)
{
    /* The four fields that never move come first; the rest may be read once they agree. */
    const size_t head = offsetof(cdz_entry, flags);
    size_t bytes = 0;
    const void *at = cdz_native_symbol(native, "cdz_plugin", &bytes);
    if (!at)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: no symbol 'cdz_plugin': not a Cadenza plugin, or it lacks "
                       "CDZ_EXPORT_PLUGINS",
                       path);
    if (bytes < head)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: 'cdz_plugin' is no Cadenza entry: it has %zu bytes",
                       path, bytes);
    *out = (cdz_entry){0};
    memcpy(out, at, head);
    if (out->magic != CDZ_ENTRY_MAGIC)
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: 'cdz_plugin' is no Cadenza entry: magic 0x%08x, expected 0x%08x", path,
                       out->magic, CDZ_ENTRY_MAGIC);
    if (!cdz_abi_spoken(out->abi_major, out->abi_minor))
        return cdz_abi_refusal(path, out->abi_major, out->abi_minor, err);
    if (out->size != sizeof *out || bytes < sizeof *out || !cdz_native_holds(native, at, bytes))
        return cdz_err(err, CDZ_E_PLUGIN,
                       "%s: its entry has %u bytes, this host expects %zu; rebuild it with this SDK",
                       path, out->size, sizeof *out);
    memcpy(out, at, sizeof *out);
    CDZ_TRY(cdz_fingerprint_check(path, out, err));
    CDZ_TRY(cdz_descriptor_check_flags(path, "its entry", "flags", out->flags, CDZ_RESIDENT, err));
    if (out->n_plugins == 0 || out->n_plugins > CDZ_MAX_PLUGINS)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: exports %u plugins; expected 1 to %u", path,
                       out->n_plugins, CDZ_MAX_PLUGINS);
    if (out->reserved != 0)
        return cdz_err(err, CDZ_E_PLUGIN, "%s: a reserved field of its entry is not 0", path);
    if (out->needs && !cdz_native_holds_string(native, out->needs, CDZ_MAX_TEXT))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: its list of extensions is unreadable", path);
    CDZ_TRY(cdz_needs_check(path, out->needs, err));
    if (!cdz_native_holds(native, out->plugins, out->n_plugins * sizeof out->plugins[0]))
        return cdz_err(err, CDZ_E_PLUGIN, "%s: its list of %u plugins lies outside the file", path,
                       out->n_plugins);
    return CDZ_OK;
}

static bool holds(const void *object, const void *at, size_t bytes)
{
    return cdz_native_holds(object, at, bytes);
}

static bool holds_string(const void *object, const char *text, size_t max)
{
    return cdz_native_holds_string(object, text, max);
}

cdz_bounds cdz_module_bounds(const cdz_native *native)
{
    return (cdz_bounds){holds, holds_string, native};
}
