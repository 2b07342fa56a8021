/* fused.h - a run of processors of known form on one row, in one walk: who survives, with which scores.
 *
 * The run is a list of forms (ext/form.h): divisions and cuts, at least one of them a cut. The row itself is only
 * read. Scores of survivors, and which tokens survive, are bit for bit what the forms' own operations give one after the
 * other; where that cannot be told without doing them, the answer is a reason, and the caller does them. */
#ifndef CDZ_HOST_VEC_FUSED_H
#define CDZ_HOST_VEC_FUSED_H

#include "cadenza/ext/form.h"

typedef enum cdz_fusing {
    CDZ_FUSED,       /* done */
    CDZ_FUSE_VALUES, /* nan, +inf, or nothing but -inf in the row */
    CDZ_FUSE_TIE,    /* equal values on both sides of a cut: the reference's sort decides */
    CDZ_FUSE_CLOSE,  /* a cut lies within the rounding of sums that were not made */
    CDZ_FUSE_MANY,   /* too many tokens survive for a list */
    CDZ_FUSE_KINDS,
} cdz_fusing;

/* Tokens that are not masked, by rising id; all others are -inf. */
typedef struct cdz_survivors {
    int32_t *ids; /* (n) */
    float *x;     /* (n) scores; after cdz_fuser.softmax probabilities */
    size_t n;
} cdz_survivors;

/* What is known of a row that is not here: its elements that are not below `low`, by rising id. It has no NaN. */
typedef struct cdz_leading {
    const int32_t *ids; /* (n) */
    const float *x;     /* (n) */
    size_t n;
    float low; /* -FLT_MAX: nothing else is finite */
    double mass; /* the sum of exp(score - top) over the row, scores after the leading divisions; 0: not known */
    double mass_off; /* by fewer roundings it is off */
} cdz_leading;

enum { CDZ_LEAD = 512 };

typedef struct cdz_fuser {
    /* x: (n), only read. scratch: cdz_vec_scratch(n) bytes, 64-byte aligned; out points into it. */
    cdz_fusing (*run)(const float *x, size_t n, const cdz_form *forms, size_t n_forms,
                      cdz_survivors *out, void *scratch);
    /* The same for a row of n of which this is known. CDZ_FUSE_MANY: it is not enough. */
    cdz_fusing (*run_leading)(const cdz_leading *row, size_t n, const cdz_form *forms,
                              size_t n_forms, cdz_survivors *out, void *scratch);
    /* About CDZ_LEAD of a row's best scores, those of short rows not; *low: no other is above it. CDZ_FUSE_MANY: short, or too
     * many that are equal. Memory as for run. */
    cdz_fusing (*lead)(const float *x, size_t n, cdz_survivors *out, float *low, void *scratch);
    /* The same after these divisions of a row of n of which this is known. */
    cdz_fusing (*lead_leading)(const cdz_leading *row, size_t n, const cdz_form *forms,
                               size_t n_forms, cdz_survivors *out, float *low, void *scratch);
    /* softmax of the row of n that the survivors stand for. */
    void (*softmax)(cdz_survivors *s, size_t n);
    /* The row itself. */
    void (*write)(const cdz_survivors *s, float *x, size_t n);
} cdz_fuser;

/* Can these forms be run at all? They need a cut, and divisors that neither overflow nor underflow. */
bool cdz_fusible(const cdz_form *forms, size_t n_forms);

/* Are they nothing but such divisions, and cuts that cut nothing of a row of n? */
bool cdz_divides_only(const cdz_form *forms, size_t n_forms, size_t n);

/* A cut that cuts nothing of a row of n. */
bool cdz_form_is_void(const cdz_form *form, size_t n);

/* For this machine; and one of vec.h's variants, NULL when there is no such. */
const cdz_fuser *cdz_fuser_here(void);
const cdz_fuser *cdz_fuser_of(const char *variant);

/* "tie" and "equal values at a cut", say; for CDZ_FUSED "fused" twice. */
const char *cdz_fusing_name(cdz_fusing why);
const char *cdz_fusing_text(cdz_fusing why);

#endif
