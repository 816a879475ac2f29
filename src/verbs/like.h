/* SPDX-License-Identifier: BSD-2-Clause */
/* like.h - the device that urnic is to be like (URNIC_LIKE): narrows `caps' to the limits
 * of sys/like.def, and says in refusals whose limit it was.  See docs/dev/like.md. */
#ifndef VERBS_LIKE_H
#define VERBS_LIKE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/like.h"
#include "verbs/device.h"

struct core;

/* Before there is a device: keeps what `spec' names, which was checked; "": nothing
 * changes. */
void like_begin(const char *spec);

/* "" without URNIC_LIKE, else what was named. */
const char *like_spec(void);

/* If the limit is that of a device named, returns "; mlx5 has max_sge 30", else "". */
enum { LIKE_TEXT = 64 };
const char *like_limit_text(enum like_limit limit, char text[static LIKE_TEXT]);

/* If a device named lacks the opcode, returns "siw has no atomics (URNIC_LIKE)", else "".
 */
const char *like_op_text(unsigned opcode, char text[static LIKE_TEXT]);

/* Refuses what a device named lacks: logs it, and returns -EOPNOTSUPP; 0: there is it. */
int like_refuse(enum like_feature feature, const char *call);
static inline int like_lacks(enum like_feature feature, const char *call)
{
	return __builtin_expect((caps.lacks >> feature & 1) != 0, 0)
		       ? like_refuse(feature, call)
		       : 0;
}

/* The depth of a queue for which n entries are asked, as the devices named round it up; n
 * without URNIC_LIKE, or above the limit. At most the limit, and with several devices the
 * lowest. */
uint32_t like_depth(enum like_depth depth, uint32_t n, uint32_t limit);

/* Does wc.vendor_err have the values of another device, since one is named? */
bool like_has_vendor(void);
/* The value for a completion with an error, whose own value is urnic's (enum verr): the
 * device's, and urnic's where that is not public. */
uint32_t like_vendor_err(enum ibv_wc_status status, uint32_t own);

/* The same for a type of QPs below 32. */
int like_lacks_type(enum ibv_qp_type type);

/* As Linux pins memory: counts the pages of a region against RLIMIT_MEMLOCK, from which
 * CAP_IPC_LOCK exempts, and brings them into memory, which takes the time that it takes.
 * Returns 0, -ENOMEM or -EFAULT; like_unpin() of the same range ends it. Without
 * URNIC_LIKE nothing is done. */
int like_pin(struct core *core, const void *addr, size_t length, int access);
void like_unpin(struct core *core, const void *addr, size_t length, int access);

#endif
