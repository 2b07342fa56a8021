/* key_rerotation.c - what stays moves together in the text as well: keys are turned to their new places, and tokens go on
 * behind the last of them. */
#include "presses.h"

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    (void)step;
    (void)view;
    choice->renumber = 1;
    return CDZ_OK;
}

static const cdz_press key_rerotation = {
    .base = {CDZ_PRESS_BASE, .id = "key_rerotation", .version = "1.0.0",
             .summary = "Number what stays anew, and turn its keys"},
    .caps = CDZ_PRESS_WRAPS,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&key_rerotation.base)
