/* values.h - what goes over the wire whole: parameter values, a parameter struct, the facts of a request. */
#ifndef CDZ_HOST_ISOLATE_VALUES_H
#define CDZ_HOST_ISOLATE_VALUES_H

#include "isolate/wire.h"
#include "params/params.h"

/* One value of the C type behind `type`. Taking: lists and texts are copied into the arena; an unknown type is bad. */
void cdz_put_value(cdz_wire_out *out, cdz_param_type type, const void *field);
void cdz_take_value(cdz_wire_in *in, cdz_param_type type, cdz_arena *arena, void *field);

/* The fields of the first n rows of a table. */
void cdz_put_params(cdz_wire_out *out, const cdz_param_table *table, uint32_t n, const void *params);
void cdz_take_params(cdz_wire_in *in, const cdz_param_table *table, cdz_arena *arena, void *params);

void cdz_put_request(cdz_wire_out *out, const cdz_request_info *request);
void cdz_take_request(cdz_wire_in *in, cdz_arena *arena, cdz_request_info *request);

#endif
