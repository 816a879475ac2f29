/* SPDX-License-Identifier: BSD-2-Clause */
/* share_ops.h - what verbs/share.h needs of the NIC. */
#ifndef VERBS_SHARE_OPS_H
#define VERBS_SHARE_OPS_H

#include <stdint.h>
#include <sys/uio.h>

struct ibv_qp_attr;
struct lock_cond;
struct qp;

struct share_ops {
	/* Sends a message to another process of this user. Returns 0, -EAGAIN or
	 * -ESRCH. NULL: there are no other processes. */
	int (*pass)(void *arg, uint16_t slot, const struct iovec *part, unsigned n);
	/* Called before qp is modified for another process; does what a change to RTR
	 * needs. Returns 0 or -errno. */
	int (*prepare)(void *arg, struct qp *qp, const struct ibv_qp_attr *attr,
		       int mask);
	/* Called without the turn: lets the engine do what is due, or plan for what
	 * will be. */
	void (*settle)(void *arg);
	/* As settle(), and then waits until c has changed since `seen`; may return
	 * earlier.
	 */
	void (*wait)(void *arg, struct lock_cond *c, uint32_t seen);
	uint64_t (*now)(void);
};

#endif
