/* data.h - the files of data of a package whose entry is a shared object: read when it is opened, and kept as long as it is.
 *
 * Scripts get theirs from their loader (loaded.h). Bytes are read once: what was compared with a lock is what plugins see. */
#ifndef CDZ_HOST_PLUG_DATA_H
#define CDZ_HOST_PLUG_DATA_H

#include "base/arena.h"
#include "base/error.h"
#include "call/files.h"
#include "plug/lock.h"
#include "plug/trust.h"

/* Zeroed: none. */
typedef struct cdz_package_data {
    cdz_arena arena;
    cdz_call_files files;
    cdz_call_file *at;    /* (files.n) */
    const char **paths;   /* (files.n) */
    const char *manifest; /* path of plugin.ini; NULL: the file is no package's entry */
} cdz_package_data;

/* What the plugin.ini beside `entry` lists, if entry is what it is about. pinned: what a lock says of them. */
cdz_status cdz_package_data_read(const char *entry, const cdz_pinned *pinned, cdz_package_data *out,
                                 cdz_error *err);
void cdz_package_data_free(cdz_package_data *data);
/* The i-th file that was read: plugin.ini, then those that it lists; NULL after the last. */
const char *cdz_package_data_path(const cdz_package_data *data, uint32_t i);

#endif
