/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - a world for unit tests of the shells: objects of core/ are real, the NIC does
 * nothing but write down what it is told. */
#ifndef ABI_FIX_H
#define ABI_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/abi.h"
#include "core/core.h"
#include "core/qp.h"

/* roce_eth0 has 192.0.2.1 and fe80::1; iwarp_eth0 192.0.2.1. */
enum { FIX_ROCE, FIX_IWARP, FIX_DEVICES };

struct cm;

struct fix {
	struct core core;
	struct cm *cm; /* nic_enter() gives it */
	struct ibv_device *dev[FIX_DEVICES];
	uint64_t now;
	unsigned users;	  /* of the NIC: nic_open() less nic_close() */
	char said[512];	  /* what the NIC was told, a word each */
	uint8_t told[16]; /* the address that it was told last; ... */
	uint32_t number;  /* ... and the QP number */
	bool nested;	  /* of the latest nic_post() */
	bool any_device;  /* of the latest nic_listen() */
	bool same_host;	  /* what it answers */
	int devices_rc, open_rc, listen_rc, route_rc, join_rc, fence_rc;
	/* Called by nic_poll(), which finds something. */
	void (*polled)(void);
	/* Objects of a context, which fix_open() makes. */
	struct ibv_context *ibv;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	char memory[4096] __attribute__((aligned(4096)));
};

extern struct fix fix;

/* For cmocka: a new world; all contexts are closed again. */
int fix_begin(void **state);
int fix_end(void **state);
/* The same with a context of roce_eth0, a PD and a CQ. */
int fix_open(void **state);
int fix_close(void **state);

/* What was said since the last call of this: "flush fence". */
const char *fix_said(void);

/* A QP of this PD and CQ, made with ibv_wr_* for these opcodes, in RESET or RTS. */
struct ibv_qp *fix_qp(enum ibv_qp_type type);
struct ibv_qp *fix_rts(enum ibv_qp_type type);
struct ibv_srq *fix_srq(void);
struct ibv_mr *fix_mr(int access);
/* To 192.0.2.2. */
struct ibv_ah_attr fix_path(void);
/* As if the transport had completed the oldest request of a QP. */
void fix_complete(struct ibv_qp *qp, enum ibv_wc_status status);

/* The call failed with this errno. */
#define fix_errno(rc, err)                                                               \
	do {                                                                             \
		errno = 0;                                                               \
		assert_int_equal(rc, err);                                               \
		assert_int_equal(errno, err);                                            \
	} while (0)
#define fix_null(pointer, err)                                                           \
	do {                                                                             \
		errno = 0;                                                               \
		assert_null(pointer);                                                    \
		assert_int_equal(errno, err);                                            \
	} while (0)
/* Those calls that answer -1. */
#define fix_minus(rc, err)                                                               \
	do {                                                                             \
		errno = 0;                                                               \
		assert_int_equal(rc, -1);                                                \
		assert_int_equal(errno, err);                                            \
	} while (0)

#endif
