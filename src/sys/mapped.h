/* SPDX-License-Identifier: BSD-2-Clause */
/* mapped.h - is there memory at these addresses? */
#ifndef SYS_MAPPED_H
#define SYS_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

/* Is all of [from, to), whole pages of which the first and the last are mapped, mapped,
 * whatever its protection?  No page is touched. */
bool mapped_all(uintptr_t from, uintptr_t to);

#endif
