/* lock_write.h - changing a cadenza.lock: read, change, write, as one step that no other process comes between. */
#ifndef CDZ_HOST_PLUG_LOCK_WRITE_H
#define CDZ_HOST_PLUG_LOCK_WRITE_H

#include "plug/lock.h"

/* A lock held for a change. Zeroed: nothing held. */
typedef struct cdz_lock_edit {
    cdz_lock lock; /* change this one */
    int fd;        /* the folder, which is held against others; below 0: nothing */
} cdz_lock_edit;

/* Reads path for a change; its folder is made when it is missing. CDZ_E_STATE while another process changes it. */
cdz_status cdz_lock_edit_begin(const char *path, cdz_lock_edit *out, cdz_error *err);
/* The new file replaces the old one by rename, after it has reached the disk; frees in every case. */
cdz_status cdz_lock_edit_commit(cdz_lock_edit *edit, cdz_error *err);
void cdz_lock_edit_abort(cdz_lock_edit *edit); /* leaves the old file */

#endif
