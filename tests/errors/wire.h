/* SPDX-License-Identifier: BSD-2-Clause */
/* wire.h - a row of the table: an error that one side provokes on the wire, and what
 * both sides see. */
#ifndef TESTS_ERRORS_WIRE_H
#define TESTS_ERRORS_WIRE_H

#include "errors.h"

/* How a key, or the range that is used with it, is made invalid. */
enum key {
	KEY_GOOD,
	KEY_ZERO,
	KEY_UNKNOWN,
	KEY_GENERATION, /* right index, wrong low byte */
	KEY_STALE,	/* deregistered */
	KEY_BELOW,
	KEY_ABOVE, /* a byte outside of the region */
	KEY_WRAP,  /* past the end of the address space */
	KEY_OTHER_PD,
	KEY_NO_ACCESS,
	KEY_UNMAPPED, /* still registered, no longer mapped */
	KEYS,
};

enum peer { PEER_UP, PEER_GONE, PEER_RESET, PEER_INIT, PEER_ERR };

/* Plus 1, so that 0 means "none". */
#define WC(name) (IBV_WC_##name + 1)
#define EV(name) (IBV_EVENT_##name + 1)
#define OK	 .wc = WC(SUCCESS)

struct seen {
	int wc; /* WC(): of the first work request */
	unsigned verr;
	enum ibv_qp_state state; /* 0: RTS */
	int event;		 /* EV(), about the QP */
	const char *log;
};

struct wire_row {
	const char *name;
	enum ibv_qp_type type; /* 0: RC */
	enum ibv_wr_opcode op;
	uint32_t length; /* 0: 64 */
	unsigned count;	 /* number of requests; 0: 1 */
	enum key lkey, rkey, recv_key;
	unsigned no_right;    /* access flags that b's QP does not grant */
	unsigned skew;	      /* added to remote_addr */
	bool no_recv;	      /* b posts none */
	uint32_t recv_length; /* 0: 4096 */
	enum peer peer;
	void (*attr)(struct ibv_qp_attr *attr, bool is_b);
	uint32_t qkey_xor;	 /* UD: the bits of the Q_Key that are wrong */
	bool inv_wrong;		 /* SEND_WITH_INV with an rkey of no window */
	unsigned min_ms, max_ms; /* time until a's completion; 0: not checked */
	struct seen a, b;
};

extern const struct wire_row fixed_rows[];
extern const unsigned fixed_count;

/* The product of operations and spoiled keys. */
const struct wire_row *product_row(unsigned i); /* NULL: past the end */

/* Makes an SGE for length bytes at offset `at` of s's buffer, invalid as `key` says.
 * needed: the rights that KEY_NO_ACCESS leaves out. */
struct ibv_sge spoil(struct side *s, enum key key, uint32_t at, uint32_t length,
		     int needed);

#endif
