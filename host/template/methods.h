/* methods.h - small tools that filters and methods share. Inside template/ only. */
#ifndef CDZ_HOST_TEMPLATE_METHODS_H
#define CDZ_HOST_TEMPLATE_METHODS_H

#include "template/value.h"

/* An argument, or what stands for it. */
bool tpl_flag_or(state *st, value v, bool otherwise);
int64_t tpl_int_or(state *st, value v, int64_t otherwise);    /* fails where it is no integer */
value tpl_text_or(state *st, value v, const char *otherwise); /* fails where it is no string */
bool tpl_given(value v);                                      /* neither missing nor none */

value tpl_replace_text(state *st, value text, value old, value by, int64_t count);
value tpl_center_text(state *st, value text, int64_t width, value fill, char align);
value tpl_lines_of(state *st, value text, bool keep_ends);
value tpl_join_items(state *st, value separator, const value *items, uint32_t n, bool only_strings);
typedef struct sort_item {
    value key, item;
} sort_item;
/* Stable, by merging; descending order keeps equals in place too. space: room for n more. */
void tpl_merge_sort(state *st, sort_item *at, sort_item *space, uint32_t n, bool reverse);
value tpl_generator(state *st, uint32_t room);
bool tpl_is_sequence_value(value v);

#endif
