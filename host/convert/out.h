/* out.h - files on their way: written under another name, which they lose when they are whole. */
#ifndef CDZ_HOST_CONVERT_OUT_H
#define CDZ_HOST_CONVERT_OUT_H

#include "base/write.h"
#include "convert/convert.h"

/* A file, or a folder of plain files, that is to be at path. Zeroed: nothing. */
typedef struct cdz_target {
    char *path, *temp; /* owned; temp: where it can be read before it has its name */
    bool folder;
    cdz_writer writer; /* of a file */
} cdz_target;

/* Whether the name may be taken, before work that takes long. What is there already may be replaced on request, as far as rename
 * does it. */
cdz_status cdz_target_may(const char *path, bool folder, bool force, cdz_error *err);
/* input: what is read for it, which it may not be. */
cdz_status cdz_target_begin(cdz_target *target, const char *path, bool folder, bool force,
                            const char *input, cdz_error *err);
/* Gives it its name. */
cdz_status cdz_target_finish(cdz_target *target, cdz_error *err);
/* Removes what has not got its name; frees the rest. Zeroed is fine. */
void cdz_target_drop(cdz_target *target);

/* One file of it. */
typedef struct cdz_out {
    const char *path;   /* for sentences */
    cdz_writer *writer; /* the target's, or own */
    cdz_writer own;     /* of a file in a folder */
    uint64_t at;        /* bytes written */
    const cdz_watch *watch;
    uint64_t total; /* bytes that `watch` is told to expect */
    cdz_error *err;
} cdz_out;

/* name: inside a target that is a folder; NULL: the target itself. */
cdz_status cdz_out_open(cdz_target *target, const char *name, cdz_out *out);
cdz_status cdz_out_write(cdz_out *out, const void *bytes, size_t n);
cdz_status cdz_out_pad(cdz_out *out, uint64_t alignment); /* with zeros */
/* To the disk. Call it in any case; status: what happened so far. */
cdz_status cdz_out_close(cdz_out *out, cdz_status status);

/* A whole small file. */
cdz_status cdz_out_text(cdz_target *target, const char *name, const char *text, size_t len,
                        cdz_error *err);

#endif
