/* SPDX-License-Identifier: BSD-2-Clause */
/* ib.h - the IB transport as its driver sees it (driver/, or a unit test).  The driver
 * passes datagrams and the time in; ib_transport (verbs/transport.h) says what to send
 * and when. */
#ifndef IB_IB_H
#define IB_IB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/dgram.h"
#include "verbs/counters.h"
#include "verbs/transport.h"

struct core;
struct ib;
struct ib_pkt;

/* Creates core's IB transport.  seed is unused: nothing in the protocol is random.
 * Returns 0 or -ENOMEM. */
int ib_open(struct core *core, uint64_t seed);
void ib_close(struct core *core);

/* Takes one packet from a link, BTH to pad: finds its QP, executes the packet and makes
 * the QP due if it has something to send.  A packet that is not for a QP here is
 * dropped and counted.  Needs the turn. */
void ib_input(struct core *core, const struct dgram *d, uint64_t now);
/* Takes the n datagrams that one receive call of a link returned.  Needs the turn. */
void ib_input_all(struct core *core, const struct dgram *v, unsigned n, uint64_t now);

/* Writes a datagram in words: "RC SEND_ONLY to QP 0x000a01, PSN 5, 1040 bytes". */
void ib_describe(const struct dgram *d, char *buf, size_t size);

/* From now on each device's QPs that are made count into a row of their own. rows: n of
 * them, all 0, for as long as the core lives. */
void ib_count_by_device(struct core *core, struct ib_counts *rows, unsigned n);
uint64_t ib_counter(struct core *core, enum ib_counter c);
const char *ib_counter_name(enum ib_counter c);

/* Logs all counters that are not 0 in one line of level info.  Needs the turn, unless
 * the process is ending and no thread is left to take it. */
void ib_log_counters(struct core *core);

extern const struct transport ib_transport;

#endif
