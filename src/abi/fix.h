/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for unit tests of abi/: real objects of verbs/, and a NIC that only records its
 * calls. */
#ifndef ABI_FIX_H
#define ABI_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/abi.h"
#include "verbs/core.h"
#include "verbs/qp.h"

/* roce_eth0 has 192.0.2.1 and fe80::1, iwarp_eth0 192.0.2.1. */
enum { FIX_ROCE, FIX_IWARP, FIX_DEVICES };

struct fix {
	struct core core;
	struct ibv_device *dev[FIX_DEVICES];
	uint64_t now;
	unsigned users; /* calls of nic_open() minus calls of nic_close() */
	char said[512]; /* the NIC's calls, a word each */
	/* Arguments of the last calls: the address, and the QP number. */
	uint8_t told[16];
	uint32_t number;
	bool nested;	 /* argument of the last nic_post() */
	bool any_device; /* argument of the last nic_listen() */
	bool same_host;	 /* result of nic_same_host() */
	int devices_rc, open_rc, listen_rc, route_rc, join_rc, fence_rc;
	/* Called by nic_poll(); simulates input. */
	void (*polled)(void);
	/* A context and its objects, made by fix_open(). */
	struct ibv_context *ibv;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	char memory[4096] __attribute__((aligned(4096)));
};

extern struct fix fix;

/* For cmocka: sets a new world up; checks that all contexts are closed. */
int fix_begin(void **state);
int fix_end(void **state);
/* For cmocka: as fix_begin() and fix_end(), with a context of roce_eth0, a PD and a
 * CQ. */
int fix_open(void **state);
int fix_close(void **state);

/* Returns the NIC's calls since the last fix_said(): such as "flush fence". */
const char *fix_said(void);

/* Returns a QP of fix.pd and fix.cq, with the ibv_wr_* operations, in RESET; fix_rts():
 * in RTS. */
struct ibv_qp *fix_qp(enum ibv_qp_type type);
struct ibv_qp *fix_rts(enum ibv_qp_type type);
struct ibv_srq *fix_srq(void);
struct ibv_mr *fix_mr(int access);
/* Returns a path to 192.0.2.2. */
struct ibv_ah_attr fix_path(void);
/* Completes the oldest request of a QP, in place of the transport. */
void fix_complete(struct ibv_qp *qp, enum ibv_wc_status status);

/* The call fails with this errno. */
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
/* The call returns -1 and fails with this errno. */
#define fix_minus(rc, err)                                                               \
	do {                                                                             \
		errno = 0;                                                               \
		assert_int_equal(rc, -1);                                                \
		assert_int_equal(errno, err);                                            \
	} while (0)

#endif
