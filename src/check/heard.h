/* SPDX-License-Identifier: BSD-2-Clause */
/* heard.h - the order of posts; and what peers may have written to memory that they map,
 * or by process_vm_writev, which is not told as it happens (sys/checks.h). */
#ifndef CHECK_HEARD_H
#define CHECK_HEARD_H

#include <stdint.h>

/* The number of a post that is about to be made: all that were numbered before have lower
 * ones. Looks first, and tells the parts (spoke) of what peers may have written. A
 * request with the number that they are told, or a lower one, may have been answered, or
 * its memory be written to. */
uint64_t heard_post(void);

/* Looks alone. */
void heard_look(void);

/* The number of the newest post. */
uint64_t heard_newest(void);

#endif
