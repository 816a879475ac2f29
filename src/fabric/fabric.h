/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h - a subnet as a model: switches, adapters, links, their tables and
 * the agents that manage them.  Packets and time in, packets and a deadline out;
 * no system call, no clock.  Times are nanoseconds.
 *
 * A node is named by its index in the topology, a port by its number.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/pkt.h"
#include "fabric/topo.h"
#include "wire/attr.h"
#include "wire/mad.h"

enum { FABRIC_NEVER_HOPS = 64 }; /* a packet that made so many is dropped */

struct fabric;

enum fabric_take { FABRIC_TAKEN, FABRIC_FULL, FABRIC_LOST };

struct fabric_ops {
	/* A packet for QP0 or QP1 of an adapter's port that its SMA and PMA leave
	 * to others.  Called within fabric_run(); may call fabric_send(). */
	void (*deliver)(void *ctx, uint32_t node, uint8_t port,
			const struct mad_pkt *pkt);
	/* A packet of data for a program at an adapter's port, or for all of them (dlid
	 * is a group's).  Full: there is no room, and fabric_room() will tell when there
	 * is.  May be NULL, as may be late and done. */
	enum fabric_take (*take)(void *ctx, uint32_t node, uint8_t port,
				 const struct mad_pkt *pkt);
	/* Its program was full for so long that the packet is lost: what comes for the
	 * program may be lost at once, so that what is for others does not wait. */
	void (*late)(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt);
	/* Nothing refers to it any more. */
	void (*done)(void *ctx, struct fabric_data *d);
	/* A packet leaves the port for the other end of its cable.  May be NULL. */
	void (*crosses)(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
			const struct mad_pkt *pkt);
};

/* A packet as it is on the link, from the LRH to the VCRC.  Its length. */
enum {
	FABRIC_DATA_MAX = 4224, /* bytes of data, from the BTH to the ICRC */
	FABRIC_MAD = 12 + 8 + MAD_SIZE,
	FABRIC_FRAME = 8 + 40 + FABRIC_DATA_MAX + 2,
};
size_t fabric_frame(uint8_t to[FABRIC_FRAME], uint8_t vl, const struct mad_pkt *pkt);
/* The part of it that a MAD's QP sees: BTH, DETH and MAD.  FABRIC_MAD. */
size_t fabric_mad(uint8_t to[FABRIC_MAD], const struct mad_pkt *pkt);

/* The topology is copied from.  0 or -ENOMEM. */
int fabric_new(struct fabric **out, const struct topo *t, const struct fabric_ops *ops,
	       void *ctx);
void fabric_free(struct fabric *f);

/* From QP0 or QP1 of an adapter's port.  What it names (slid, pkey ...) is the
 * caller's word: the port puts in its own LID where slid is 0.  -ENOMEM: lost. */
int fabric_send(struct fabric *f, uint32_t node, uint8_t port, const struct mad_pkt *pkt);

/* Back to whom a packet came from to QP0 or QP1 of that port: pkt is that packet, but
 * its MAD is the answer.  -ENOMEM: lost. */
int fabric_answer(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt);

/* From a program at an adapter's port: a MAD by QP1, or pkt->data is set, with refs 0,
 * and done() says when its bytes are free again.  A path's own LIDs, P_Key and GID are
 * what the port has, or the packet is dropped.  -ENOMEM: lost, and not done(). */
int fabric_inject(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt);
/* A packet from there is no packet any more at the other end of the cable. */
void fabric_spoilt(struct fabric *f, uint32_t node, uint8_t port);
/* A program at the port has room again. */
void fabric_room(struct fabric *f, uint32_t node, uint8_t port);

/* What is due is done, and what is on its way arrives; if that is very much, the
 * rest of it with the next call, for which fabric_next() then says "now". */
void fabric_run(struct fabric *f, uint64_t now);
uint64_t fabric_next(const struct fabric *f); /* when something is due */

/* A cable is pulled or plugged in again, at this end and its other. */
int fabric_cable(struct fabric *f, uint32_t node, uint8_t port, bool in, uint64_t now);

/* Counts up with whatever may change a struct fabric_port_view, but for the counters. */
uint32_t fabric_changes(const struct fabric *f);

/* Somebody at the port is a subnet manager: PortInfo's IsSM. */
void fabric_set_sm(struct fabric *f, uint32_t node, uint8_t port, bool is, uint64_t now);

/* What a port is; NULL: there is no such port.  Until the next call. */
struct fabric_port_view {
	const struct port_info *info;
	uint64_t guid;
	const uint16_t *pkey; /* [pkeys] */
	uint16_t pkeys;
	const struct port_counters_ext *count;
	bool plugged;	       /* the cable is in, where there is one */
	const uint64_t *guids; /* [32], of a port with a LID */
	uint32_t reregisters;  /* how often a subnet manager asked for that */
};

bool fabric_port(const struct fabric *f, uint32_t node, uint8_t port,
		 struct fabric_port_view *out);
/* Packets of data in the buffers of a port, a row for each VL that has some: those that
 * came by its link, and an adapter's own, which its programs have sent and the link has
 * not taken. */
struct fabric_wait {
	uint8_t vl;
	bool own;
	uint32_t packets, bytes; /* as credits count them: in blocks of 64 */
	uint64_t since;		 /* the first stands at its outlet; 0: it has gone on */
};
enum { FABRIC_WAITS = 16 };
unsigned fabric_waiting(const struct fabric *f, uint32_t node, uint8_t port,
			struct fabric_wait to[FABRIC_WAITS]);
const struct node_info *fabric_node(const struct fabric *f, uint32_t node);

/* Gigabits a second, times 10: width times speed as PortInfo codes them. */
uint32_t fabric_rate(const struct port_info *info);
/* ... as iblinkinfo writes it: "4xEDR"; "" of a link that is down. */
enum { FABRIC_SPEED = 12 };
void fabric_speed(const struct port_info *info, char to[FABRIC_SPEED]);

#endif
