/* entry.h - what a shared object must export before its plugins are looked at. */
#ifndef CDZ_HOST_PLUG_ENTRY_H
#define CDZ_HOST_PLUG_ENTRY_H

#include "describe/descriptor.h"
#include "native/native.h"

/* Reads the entry of an opened object: magic, versions, size, fingerprint, plugin list. out: the checked copy. */
cdz_status cdz_module_check_entry(const char *path, const cdz_native *native, cdz_entry *out,
                                  cdz_error *err);

/* Within the object alone. */
cdz_bounds cdz_module_bounds(const cdz_native *native);

#endif
