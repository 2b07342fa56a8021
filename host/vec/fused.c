/* fused.c - which fuser this machine gets, and what can be fused. */
#include "vec/fused.h"

#include "vec/variants.h"
#include "vec/vec.h"

#include <string.h>

/* Divisors between which two scores that differ by a millionth stay apart. */
static const double least_divisor = 1e-6, most_divisor = 1e6;

static bool plain_divisor(const cdz_form *form)
{
    return form->amount >= least_divisor && form->amount <= most_divisor;
}

bool cdz_fusible(const cdz_form *forms, size_t n_forms)
{
    bool cuts = false;

    for (size_t i = 0; i < n_forms; i++) {
        if (forms[i].kind == CDZ_FORM_DIVIDE && !plain_divisor(&forms[i])) return false;
        cuts |= forms[i].kind != CDZ_FORM_DIVIDE;
    }
    return cuts;
}

bool cdz_divides_only(const cdz_form *forms, size_t n_forms, size_t n)
{
    for (size_t i = 0; i < n_forms; i++) {
        const bool divides = forms[i].kind == CDZ_FORM_DIVIDE;
        if (divides ? !plain_divisor(&forms[i]) : !cdz_form_is_void(&forms[i], n)) return false;
    }
    return true;
}

bool cdz_form_is_void(const cdz_form *form, size_t n)
{
    if (form->kind == CDZ_FORM_KEEP_TOPK) return form->count == 0 || form->count >= n;
    if (form->kind == CDZ_FORM_KEEP_TOPP) return (float)(1.0 - form->amount) < 0.0f;
    return form->kind == CDZ_FORM_KEEP_MINP && form->amount <= 0.0;
}

const cdz_fuser *cdz_fuser_of(const char *variant)
{
    if (!cdz_vec_table_of(variant)) return NULL;
    return strcmp(variant, "avx2") == 0 ? cdz_fuser_avx2() : cdz_fuser_scalar();
}

const cdz_fuser *cdz_fuser_here(void)
{
    const cdz_fuser *best = cdz_fuser_of("avx2");
    return best ? best : cdz_fuser_scalar();
}

static const struct {
    const char *name, *text;
} words[CDZ_FUSE_KINDS] = {
    [CDZ_FUSED] = {"fused", "fused"},
    [CDZ_FUSE_VALUES] = {"values", "nan, inf or nothing left"},
    [CDZ_FUSE_TIE] = {"tie", "equal values at a cut"},
    [CDZ_FUSE_CLOSE] = {"close", "a cut too close to call"},
    [CDZ_FUSE_MANY] = {"many", "too many survivors"},
};

const char *cdz_fusing_name(cdz_fusing why)
{
    return why < CDZ_FUSE_KINDS ? words[why].name : "";
}

const char *cdz_fusing_text(cdz_fusing why)
{
    return why < CDZ_FUSE_KINDS ? words[why].text : "";
}
