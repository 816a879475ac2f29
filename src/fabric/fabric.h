/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric.h - a model of a subnet: switches, adapters, links, their tables and the agents
 * that manage them. Packets and time go in, packets and a deadline come out; it makes no
 * system call and reads no clock. Times are nanoseconds.
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

enum { FABRIC_NEVER_HOPS = 64 }; /* a packet is dropped after so many hops */

struct fabric;

enum fabric_take { FABRIC_TAKEN, FABRIC_FULL, FABRIC_LOST };

struct fabric_ops {
	/* Receives a packet for QP0 or QP1 of an adapter's port that its SMA and PMA do
	 * not handle. Called within fabric_run(); may call fabric_send(). */
	void (*deliver)(void *ctx, uint32_t node, uint8_t port,
			const struct mad_pkt *pkt);
	/* Receives a data packet for a program at an adapter's port, or for all its
	 * programs (dlid is a group's). If full, it must not take the packet, and
	 * fabric_room() reports room later. May be NULL, as may late and done. */
	enum fabric_take (*take)(void *ctx, uint32_t node, uint8_t port,
				 const struct mad_pkt *pkt);
	/* A program was full for so long that the packet is dropped. Packets for the
	 * program may be dropped at once from now on, so that packets for others do not
	 * wait. */
	void (*late)(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt);
	/* Nothing refers to d any more. */
	void (*done)(void *ctx, struct fabric_data *d);
	/* A packet leaves the port for the other end of its cable. May be NULL. */
	void (*crosses)(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
			const struct mad_pkt *pkt);
};

/* Writes a packet as on the link, LRH to VCRC. Returns its length. */
enum {
	FABRIC_DATA_MAX = 4224, /* bytes of data, from the BTH to the ICRC */
	FABRIC_MAD = 12 + 8 + MAD_SIZE,
	FABRIC_FRAME = 8 + 40 + FABRIC_DATA_MAX + 2,
};
size_t fabric_frame(uint8_t to[FABRIC_FRAME], uint8_t vl, const struct mad_pkt *pkt);
/* Writes the part of a MAD's packet that its QP sees: BTH, DETH and MAD. Returns
 * FABRIC_MAD. */
size_t fabric_mad(uint8_t to[FABRIC_MAD], const struct mad_pkt *pkt);

/* Makes a fabric from a copy of the topology. Returns 0 or -ENOMEM. */
int fabric_new(struct fabric **out, const struct topo *t, const struct fabric_ops *ops,
	       void *ctx);
void fabric_free(struct fabric *f);

/* Sends from QP0 or QP1 of an adapter's port. The fields of pkt (slid, pkey ...) are not
 * checked; if slid is 0, the port fills in its own LID. Returns 0, or -ENOMEM if the
 * packet is lost. */
int fabric_send(struct fabric *f, uint32_t node, uint8_t port, const struct mad_pkt *pkt);

/* Sends an answer to the source of a packet that came to QP0 or QP1 of that port: pkt is
 * that packet with the answer as its MAD. Returns 0, or -ENOMEM if the packet is
 * lost. */
int fabric_answer(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt);

/* Sends for a program at an adapter's port: a MAD by QP1, or pkt->data with refs 0,
 * where done() tells when its bytes are free again. The packet is dropped unless source
 * LID, P_Key and GID are the port's. Returns 0, or -ENOMEM if the packet is lost; done()
 * is then not called. */
int fabric_inject(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt);
/* A packet from that port was corrupted on the cable, so its other end counts an error
 * and gets no packet. */
void fabric_spoilt(struct fabric *f, uint32_t node, uint8_t port);
/* A program at the port has room again. */
void fabric_room(struct fabric *f, uint32_t node, uint8_t port);

/* Does what is due by `now` and moves packets. If that is very much, the rest follows in
 * the next call, and fabric_next() says "now". */
void fabric_run(struct fabric *f, uint64_t now);
uint64_t fabric_next(const struct fabric *f); /* returns when something is due, ns */

/* Pulls a cable or plugs it in again, at both of its ends. */
int fabric_cable(struct fabric *f, uint32_t node, uint8_t port, bool in, uint64_t now);

/* A counter that grows with every event that may change a struct fabric_port_view,
 * except its counters. */
uint32_t fabric_changes(const struct fabric *f);

/* Sets PortInfo's IsSM: is there a subnet manager at the port? */
void fabric_set_sm(struct fabric *f, uint32_t node, uint8_t port, bool is, uint64_t now);

/* Describes a port until the next call. fabric_port() returns NULL if there is no such
 * port. */
struct fabric_port_view {
	const struct port_info *info;
	uint64_t guid;
	const uint16_t *pkey; /* [pkeys] */
	uint16_t pkeys;
	const struct port_counters_ext *count;
	bool plugged;	       /* the cable, if there is one, is plugged in */
	const uint64_t *guids; /* [32], for a port with a LID */
	/* how often a subnet manager has asked clients to reregister */
	uint32_t reregisters;
};

bool fabric_port(const struct fabric *f, uint32_t node, uint8_t port,
		 struct fabric_port_view *out);
/* The data packets in the buffers of a port, one entry for each VL that has some: those
 * that came by its link, and at an adapter those that its programs have sent and the
 * link has not taken. */
struct fabric_wait {
	uint8_t vl;
	bool own;
	uint32_t packets, bytes; /* bytes: as credits count them, whole blocks of 64 */
	/* ns; the first packet has waited at its outlet since then; 0: it has not
	 * reached it */
	uint64_t since;
};
enum { FABRIC_WAITS = 16 };
unsigned fabric_waiting(const struct fabric *f, uint32_t node, uint8_t port,
			struct fabric_wait to[FABRIC_WAITS]);
const struct node_info *fabric_node(const struct fabric *f, uint32_t node);

/* Returns the link's rate in units of 0.1 Gb/s: width times speed as coded in
 * PortInfo. */
uint32_t fabric_rate(const struct port_info *info);
/* Writes width and speed as iblinkinfo does: "4xEDR"; "" for a link that is down. */
enum { FABRIC_SPEED = 12 };
void fabric_speed(const struct port_info *info, char to[FABRIC_SPEED]);

#endif
