/* SPDX-License-Identifier: BSD-2-Clause */
/* claim.h - a claim for a slot of the reserve: a socket that listens on the name
 * urnic/<slot>/<tag>; how to make and find claims. For reserve.c; docs/dev/host.md has
 * the rules. */
#ifndef HOST_CLAIM_H
#define HOST_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct claim {
	uint16_t slot; /* 0: no claim */
	uid_t uid;     /* user that the socket belongs to, from the kernel */
	uint32_t ino;
	uint64_t tag;
};

int claim_listen(const struct claim *c);  /* see name_listen_at() */
int claim_connect(const struct claim *c); /* see name_connect_to() */

/* Calls fn for each claim that the kernel lists. Returns 0; -EAGAIN: the list could not
 * be read to its end; -EOPNOTSUPP: this kernel or a sandbox gives none. */
int claim_list(void (*fn)(void *arg, const struct claim *c), void *arg);
/* Does the very socket of c still listen? Returns 0 if so, -ESRCH if not, -EAGAIN if
 * that cannot be told now. */
int claim_check(const struct claim *c);

bool claim_is(const struct claim *a, const struct claim *b);

/* Returns how strong a claim of user uid is for slot. */
uint64_t claim_strength(uid_t uid, uint16_t slot);

/* Do uids mean the same to every process that may be in this network namespace? Returns
 * 0: yes; -EOPNOTSUPP: no; -EAGAIN: cannot be told now. */
int claim_uids_count(void);

#endif
