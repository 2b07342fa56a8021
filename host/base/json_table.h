/* json_table.h - the look-up table of an object with many members. Inside base/ only: the reader builds
 * it, cdz_json_get uses it.
 *
 * The table lies in the arena directly before the members, which are found by their address alone. It
 * is hashed with random bytes, so that nobody can choose names that collide. */
#ifndef CDZ_HOST_BASE_JSON_TABLE_H
#define CDZ_HOST_BASE_JSON_TABLE_H

#include "base/json.h"

/* Random bytes of the system, or, early at boot, what differs from run to run. */
void cdz_json_table_key(uint64_t key[2]);

/* Room for n members with an empty table before them; NULL: out of memory. */
cdz_json_member *cdz_json_table_create(cdz_arena *arena, size_t n, const uint64_t key[2]);

/* The slot of a name: 0 when no member has it, else that member's index + 1. */
uint32_t *cdz_json_table_slot(cdz_json_member *members, const char *name, size_t len);
const cdz_json_member *cdz_json_table_find(const cdz_json_member *members, const char *name,
                                           size_t len);

bool cdz_json_name_is(const cdz_json_member *member, const char *name, size_t len);

#endif
