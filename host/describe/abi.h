/* abi.h - which files were made for this host: version, sizes, extensions. */
#ifndef CDZ_HOST_DESCRIBE_ABI_H
#define CDZ_HOST_DESCRIBE_ABI_H

#include "base/error.h"
#include "cadenza/plugin.h"

/* Files of the same major and of this minor or an earlier one. */
bool cdz_abi_spoken(unsigned major, unsigned minor);
/* The sentence for a file of another ABI. */
cdz_status cdz_abi_refusal(const char *path, unsigned major, unsigned minor, cdz_error *err);

/* The sizes that the file was built with; its ABI is one that is spoken. */
cdz_status cdz_fingerprint_check(const char *path, const cdz_entry *entry, cdz_error *err);

/* The i-th extension that this host has, or knows of plugins, by id; NULL behind the last. */
const char *cdz_abi_extension(uint32_t i);
/* needs: words apart by spaces or commas; those with a '/' are ids of extensions and must be ours. NULL: none. */
cdz_status cdz_needs_check(const char *path, const char *needs, cdz_error *err);

#endif
