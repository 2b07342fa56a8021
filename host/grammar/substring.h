/* substring.h - stretches of a text, as `%regex {"substring_words": TEXT}` of Lark asks for them. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_SUBSTRING_H
#define CDZ_HOST_GRAMMAR_SUBSTRING_H

#include "grammar/net.h"

/* The object becomes edges from one node to another. */
cdz_status cdz_net_substring(cdz_net *net, const char *text, size_t len, uint32_t from, uint32_t to,
                             cdz_error *err);

#endif
