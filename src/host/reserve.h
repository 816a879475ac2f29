/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve.h - slots for processes that find no free name. Nobody can squat these;
 * docs/dev/host.md has the rules and their reasons. */
#ifndef HOST_RESERVE_H
#define HOST_RESERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/claim.h"
#include "host/name.h"

enum {
	RESERVE_FIRST = SLOT_NAMED + 1,
	RESERVE_NUMBERS = SLOT_LAST - SLOT_NAMED,
};

/* What is known about one number of the reserve. */
struct number {
	struct claim owner; /* the strongest claim; slot 0: none */
	struct claim next;  /* the second strongest claim in the last reading */
	/* owner was confirmed, in the last reading or by claim_check() */
	bool seen;
};

/* What one process knows about all numbers. */
struct reserve {
	uid_t uid; /* this process's user when it opened */
	/* ns; when the last reading began; 0: there was none */
	uint64_t read_at;
	uint64_t not_before;	   /* ns; earliest start of the next reading */
	uint64_t check_not_before; /* ns; earliest next claim_check() */
	bool news;		   /* the reading showed something new */
	struct number at[RESERVE_NUMBERS];
};

void reserve_init(struct reserve *r, uid_t uid);

/* Claims a number and listens on it. Returns the descriptor, and the number in *slot;
 * -EADDRNOTAVAIL: all are taken, or this process may not use the reserve. */
int reserve_listen(struct reserve *r, uint16_t *slot);

/* Connects to the owner of slot, as a reading of the kernel's list of sockets shows it
 * that began at time `since` or later. The reading is made now if allowed: readings may
 * take only a small part of the time. Returns the descriptor, -ESRCH, or -EAGAIN: not
 * before reserve_due(). */
int reserve_connect(struct reserve *r, uint16_t slot, uint64_t since);
uint64_t reserve_due(const struct reserve *r);

/* Connects to a process of user uid that has a number, returned in *slot. Returns the
 * descriptor or -ESRCH. */
int reserve_connect_user(struct reserve *r, uid_t uid, uint16_t *slot);

/* Returns how many numbers are claimed by any process. */
unsigned reserve_claimed(void);

#endif
