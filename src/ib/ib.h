/* SPDX-License-Identifier: BSD-2-Clause */
/* ib.h - the IB transport as its driver, nic/ or a unit test, sees it:
 * datagrams and the time go in here; what is to be sent and when comes out of
 * ib_transport (core/transport.h). */
#ifndef IB_IB_H
#define IB_IB_H

#include <stdint.h>

#include "core/transport.h"
#include "sys/dgram.h"

struct core;
struct ib;

/* What happened to datagrams; each is a name in ib_counter_name(). */
enum ib_counter {
	IB_RX, IB_TX, IB_RX_BYTES, IB_TX_BYTES,
	IB_RX_MALFORMED, IB_RX_ICRC, IB_RX_NO_QP, IB_RX_NO_ADDR, IB_RX_PKEY,
	IB_RX_QKEY, IB_RX_STALE, IB_RX_DUPLICATE, IB_RX_OUT_OF_ORDER,
	IB_RX_STATE, IB_RX_UC_DROPPED, IB_RX_UD_DROPPED, IB_RX_CNP,
	IB_TX_RETRANSMIT, IB_TX_TIMEOUT, IB_TX_PROBE, IB_TX_NAK, IB_RX_NAK,
	IB_TX_RNR, IB_RX_RNR,
	IB_COUNTERS
};

/* seed: for what is random (nothing on the wire is).  0 or -ENOMEM; sets
 * core->ib. */
int ib_open(struct core *core, uint64_t seed);
void ib_close(struct core *core);

/* Take one datagram from the wire, BTH to ICRC: find its QP, do what it says,
 * make the QP due if it has something to send; or drop it and count why.
 * Turn held. */
void ib_input(struct core *core, const struct dgram *d, uint64_t now);
/* What the link gave at once. */
void ib_input_all(struct core *core, const struct dgram *v, unsigned n,
		  uint64_t now);

uint64_t ib_counter(struct core *core, enum ib_counter c);
const char *ib_counter_name(enum ib_counter c);

extern const struct transport ib_transport;

#endif
