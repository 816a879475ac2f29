/* SPDX-License-Identifier: BSD-2-Clause */
/* packet_fix.h - for unit tests of abi/: a device that has raw packet QPs, on the
 * interface lo of a network namespace. */
#ifndef ABI_PACKET_FIX_H
#define ABI_PACKET_FIX_H

#include <stdio.h>

#include "abi/fix.h"
#include "raw/packet.h"
#include "sys/netns_testing.h"
#include "verbs/device.h"

enum { LO = 1 };

/* Returns false after printing the reason, where no packet socket can be had. */
static inline bool may_have_packets(void)
{
	if (netns_enter() && netns_stay())
		return true;
	printf("[  SKIPPED ] all: no network namespace can be had here\n");
	return false;
}

static inline void on_first(void *arg)
{
	(void)arg;
}

static inline int open_packets(void **state)
{
	fix_open(state);
	device_of(fix.dev[FIX_ROCE])->number = LO;
	return packets_open(&fix.core, on_first, NULL);
}

static inline int close_packets(void **state)
{
	packets_close(&fix.core);
	return fix_close(state);
}

static inline struct ibv_qp *raw_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = fix.cq,
		.recv_cq = fix.cq,
		.cap = { 8, 8, 1, 1, 0 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = fix.pd,
	};
	struct ibv_qp *qp = abi_create_qp_ex(fix.ibv, &attr);

	assert_non_null(qp);
	return qp;
}

#endif
