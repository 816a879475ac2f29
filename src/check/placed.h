/* SPDX-License-Identifier: BSD-2-Clause */
/* placed.h - which memory was written to lately by the NIC: by receives, answers and
 * peers.  The latest PLACED ranges are kept. */
#ifndef CHECK_PLACED_H
#define CHECK_PLACED_H

#include <stdbool.h>
#include <stdint.h>

enum { PLACED = 4096 };

/* newest: the number of the newest post (heard.h). */
void placed_add(uint64_t at, uint64_t len, uint64_t newest);

/* From a call with true to one with false something is being written that is added in
 * between. */
void placed_now(bool begins);

/* May one of these bytes have been written to since the post with that number?  True also
 * if that is not known any more. */
bool placed_since(uint64_t at, uint64_t len, uint64_t number);

#endif
