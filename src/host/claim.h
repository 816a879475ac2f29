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
	uint16_t slot; /* 0: there is none */
	uid_t uid;     /* the socket's owner, as the kernel says */
	uint32_t ino;
	uint64_t tag;
};

int claim_listen(const struct claim *c);  /* as name_listen_at() */
int claim_connect(const struct claim *c); /* as name_connect_to() */

/* Calls fn for each claim that the kernel lists.  0; -EAGAIN: the list could not be
 * read to its end; -EOPNOTSUPP: this kernel, or a sandbox, gives none. */
int claim_list(void (*fn)(void *arg, const struct claim *c), void *arg);
/* Does this very socket still listen?  0, -ESRCH, or -EAGAIN: that cannot be said
 * now. */
int claim_check(const struct claim *c);

bool claim_is(const struct claim *a, const struct claim *b);

/* How strong a claim of user uid is for slot. */
uint64_t claim_strength(uid_t uid, uint16_t slot);

/* Do uids mean the same to all who may be in this network namespace?  0: yes;
 * -EOPNOTSUPP: no; -EAGAIN: that cannot be said now. */
int claim_uids_count(void);

#endif
