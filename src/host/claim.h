/* SPDX-License-Identifier: BSD-2-Clause */
/* claim.h - a claim for a slot of the reserve: a socket that listens on the name
 * urnic/<slot>/<tag>, and how claims are found.  For reserve.c; docs/host.md has
 * the rules. */
#ifndef HOST_CLAIM_H
#define HOST_CLAIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct claim {
	uint16_t slot;
	uint64_t tag;
	uint32_t ino; /* as the list has it */
};

int claim_listen(const struct claim *c);  /* as name_listen_at() */
int claim_connect(const struct claim *c); /* as name_connect_to() */

/* Calls fn for each claim in /proc/net/unix, where others may have written what
 * looks like one. */
void claim_list(void (*fn)(void *arg, const struct claim *c), void *arg);

/* What claim_owner() asks the kernel with: a descriptor, or -1. */
int claim_open_diag(void);
/* Whose c is.  0; -ESRCH: there is no such claim; -EAGAIN: that cannot be told. */
int claim_owner(int diag, const struct claim *c, uid_t *uid);

/* How strong a claim of user uid is for slot. */
uint64_t claim_strength(uid_t uid, uint16_t slot);

/* Do uids mean the same to all who may be in this network namespace? */
bool claim_uids_count(void);

#endif
