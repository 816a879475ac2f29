/* SPDX-License-Identifier: BSD-2-Clause */
/* patient.c - for LD_PRELOAD: a program's QPs wait half a second for an ACK instead of 67
 * ms, which ibv_rc_pingpong and the like have no option to change.  Eight times 67 ms is
 * shorter than the pauses of an emulated peer. */
#include <dlfcn.h>
#include <infiniband/verbs.h>

enum { HALF_A_SECOND = 17 };

__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp,
							 struct ibv_qp_attr *attr,
							 int mask)
{
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct ibv_qp_attr patient = *attr;

	*(void **)&modify = dlsym(RTLD_NEXT, "ibv_modify_qp");
	if (mask & IBV_QP_TIMEOUT && patient.timeout < HALF_A_SECOND)
		patient.timeout = HALF_A_SECOND;
	return modify(qp, &patient, mask);
}
