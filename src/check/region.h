/* SPDX-License-Identifier: BSD-2-Clause */
/* region.h - the memory behind this process's keys, for parts that compare or read it at
 * each post.  A part that asks hands made() and gone() on. */
#ifndef CHECK_REGION_H
#define CHECK_REGION_H

#include "check/check.h"

void region_made(struct check_object *o);
void region_gone(struct check_object *o);

/* The address here of len bytes at addr, as an SGE names them.  0: there is no such
 * region, it is a null region, or it is being registered anew. */
uint64_t region_at(uint32_t lkey, uint64_t addr, uint64_t len);

/* May peers write to one of these bytes, by the rights of a region? */
bool region_is_open(uint64_t at, uint64_t len);

/* region_look(): is all memory of the region the program's to read and write, and no
 * code, now?  region_is_plain(): was it so? */
void region_look(struct check_object *o);
bool region_is_plain(uint32_t lkey);

/* Is the address in a region? */
bool region_has(uint64_t address);

#endif
