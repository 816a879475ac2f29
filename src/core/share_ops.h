/* SPDX-License-Identifier: BSD-2-Clause */
/* share_ops.h - what core/share.h asks of the NIC. */
#ifndef CORE_SHARE_OPS_H
#define CORE_SHARE_OPS_H

#include <stdint.h>
#include <sys/uio.h>

struct ibv_qp_attr;
struct lock_cond;
struct qp;

struct share_ops {
	/* A message to a process of this user's: 0, -EAGAIN, -ESRCH.  NULL: there are no
	 * others. */
	int (*pass)(void *arg, uint16_t slot, const struct iovec *part, unsigned n);
	/* Before qp is modified for another process: what RTR needs.  0 or -errno. */
	int (*prepare)(void *arg, struct qp *qp, const struct ibv_qp_attr *attr,
		       int mask);
	/* Without the turn: something is due, or will be. */
	void (*settle)(void *arg);
	/* ... and this thread waits until c has changed since it was seen, perhaps less.
	 */
	void (*wait)(void *arg, struct lock_cond *c, uint32_t seen);
	uint64_t (*now)(void);
};

#endif
