/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve.h - slots for those who find no name free, which nobody can squat.
 * docs/host.md has the rule and why it is so. */
#ifndef HOST_RESERVE_H
#define HOST_RESERVE_H

#include <stdint.h>
#include <sys/types.h>

/* Claim a number and listen.  The descriptor, and the number in *slot;
 * -EADDRNOTAVAIL: all are others', or there is no reserve for this process. */
int reserve_listen(uint16_t *slot);

/* Connect to who has slot.  As name_connect(). */
int reserve_connect(uint16_t slot);

/* Connect to a process of user uid that has one, which is told in *slot.  Looks at
 * all.  The descriptor or -ESRCH. */
int reserve_connect_user(uid_t uid, uint16_t *slot);

/* How many numbers somebody claims. */
unsigned reserve_claimed(void);

#endif
