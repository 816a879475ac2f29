/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve.h - slots for processes that find no name free, which nobody can squat.
 * docs/host.md has the rules and why they are so. */
#ifndef HOST_RESERVE_H
#define HOST_RESERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/claim.h"
#include "host/slots.h"

enum {
	RESERVE_FIRST = SLOT_NAMED + 1,
	RESERVE_NUMBERS = SLOT_LAST - SLOT_NAMED,
};

/* What is known of one number. */
struct number {
	struct claim owner; /* the strongest claim; slot 0: there is none */
	struct claim next;  /* the strongest of the others in the last reading */
	bool seen;	    /* owner, in the last reading or by claim_check() */
	bool asked;	    /* owner has told its .. */
	pid_t pid;
};

/* What one process knows of all numbers. */
struct reserve {
	uid_t uid;		   /* as which this process opened */
	uint64_t read_at;	   /* when the last reading began; 0: there was none */
	uint64_t not_before;	   /* the next one */
	uint64_t check_not_before; /* .. claim_check() */
	bool news;		   /* the reading has shown something new */
	struct number at[RESERVE_NUMBERS];
};

void reserve_init(struct reserve *r, uid_t uid);

/* Claim a number and listen.  The descriptor, and the number in *slot;
 * -EADDRNOTAVAIL: all are others', or there is no reserve for this process. */
int reserve_listen(struct reserve *r, uint16_t *slot);

/* Who has slot is told by a reading of the kernel's list that began at time since or
 * later, which is made now if it may be: readings take a small part of the time. */

/* The owner.  0, -ESRCH, or -EAGAIN: not before reserve_due(). */
int reserve_owner(struct reserve *r, uint16_t slot, uint64_t since, uid_t *uid,
		  pid_t *pid);
/* Connect to the owner.  As name_connect(). */
int reserve_connect(struct reserve *r, uint16_t slot, uint64_t since);
uint64_t reserve_due(const struct reserve *r);

/* Connect to a process of user uid that has a number, which is told in *slot.  The
 * descriptor or -ESRCH. */
int reserve_connect_user(struct reserve *r, uid_t uid, uint16_t *slot);

/* How many numbers somebody claims. */
unsigned reserve_claimed(void);

#endif
