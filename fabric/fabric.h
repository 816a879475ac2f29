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
	/* A MAD for QP0 or QP1 of an adapter's port that is not for the port's SMA or
	 * PMA. Called within fabric_run(); may call fabric_send(). */
	void (*deliver)(void *ctx, uint32_t node, uint8_t port,
			const struct mad_pkt *pkt);
	/* A packet of data for a program at an adapter's port, or for all programs there
	 * (dlid is a multicast group's).  FABRIC_FULL: the program has no room; the
	 * caller of fabric_run() calls fabric_room() when it has.  take, late and done
	 * may be NULL. */
	enum fabric_take (*take)(void *ctx, uint32_t node, uint8_t port,
				 const struct mad_pkt *pkt);
	/* The program had no room for so long that the packet is dropped.  From now on
	 * take may answer FABRIC_LOST for this program, so that packets for others need
	 * not wait behind its own. */
	void (*late)(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt);
	/* d's refs is 0: its bytes belong to the sender again. */
	void (*done)(void *ctx, struct fabric_data *d);
	/* A packet leaves the port for the other end of its cable. May be NULL. */
	void (*crosses)(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
			const struct mad_pkt *pkt);
};

/* Writes a packet as it is on the link, from the LRH to the VCRC; returns its length. */
enum {
	FABRIC_DATA_MAX = 4224, /* bytes of data, from the BTH to the ICRC */
	FABRIC_MAD = 12 + 8 + MAD_SIZE,
	FABRIC_FRAME = 8 + 40 + FABRIC_DATA_MAX + 2,
};
size_t fabric_frame(uint8_t to[FABRIC_FRAME], uint8_t vl, const struct mad_pkt *pkt);
/* Writes BTH, DETH and MAD of a packet; returns FABRIC_MAD, the length. */
size_t fabric_mad(uint8_t to[FABRIC_MAD], const struct mad_pkt *pkt);

/* Makes a subnet from a topology, of which it keeps copies.  Returns 0 or -ENOMEM. */
int fabric_new(struct fabric **out, const struct topo *t, const struct fabric_ops *ops,
	       void *ctx);
void fabric_free(struct fabric *f);

/* Sends a MAD from QP0 or QP1 of an adapter's port.  The caller's slid, pkey and the like
 * are not checked; if slid is 0, the port puts in its own LID.  -ENOMEM: it is lost. */
int fabric_send(struct fabric *f, uint32_t node, uint8_t port, const struct mad_pkt *pkt);

/* Sends an answer to a packet that came to QP0 or QP1 of the port: pkt is that packet
 * with the answer as its MAD.  -ENOMEM: the answer is lost. */
int fabric_answer(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt);

/* Sends a packet from a program at an adapter's port: a MAD from QP1, or a packet of data
 * (pkt->data, with refs 0), whose done() is called when its bytes are free again.  A
 * P_Key or source GID that the port does not have makes it drop the packet; a source LID
 * that is not the port's is replaced.  -ENOMEM: the packet is lost, and done() is not
 * called. */
int fabric_inject(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt);
/* A packet that left this port was spoilt on the cable: the other end counts an error. Of
 * pkt only the addresses and the length count, since its bytes may be spoilt. */
void fabric_spoilt(struct fabric *f, uint32_t node, uint8_t port,
		   const struct mad_pkt *pkt);
/* A program at the port has room again after FABRIC_FULL. */
void fabric_room(struct fabric *f, uint32_t node, uint8_t port);

/* Does what is due and moves packets.  It bounds the work of a call; if work is left,
 * fabric_next() returns the present time. */
void fabric_run(struct fabric *f, uint64_t now);
uint64_t fabric_next(const struct fabric *f); /* when fabric_run() has work */

/* Pulls a cable or plugs it in again, at both of its ends. */
int fabric_cable(struct fabric *f, uint32_t node, uint8_t port, bool in, uint64_t now);

/* A number that grows whenever a struct fabric_port_view may have changed, other than in
 * its counters. */
uint32_t fabric_changes(const struct fabric *f);

/* Sets or clears the port's IsSM: whether a subnet manager runs there. */
void fabric_set_sm(struct fabric *f, uint32_t node, uint8_t port, bool is, uint64_t now);

/* The state of a port.  Its pointers are valid until the next call of this header. */
struct fabric_port_view {
	const struct port_info *info;
	uint64_t guid;
	const uint16_t *pkey; /* [pkeys] */
	uint16_t pkeys;
	const struct port_counters_ext *count;
	bool plugged;	       /* the cable, if there is one, is plugged in */
	const uint64_t *guids; /* [32], of a port with a LID */
	uint32_t reregisters;  /* how often a subnet manager set ClientReregister */
};

/* Returns false if there is no such port. */
bool fabric_port(const struct fabric *f, uint32_t node, uint8_t port,
		 struct fabric_port_view *out);
/* Packets of data in the buffers of a port, a row for each VL that has some; own: packets
 * that the adapter's programs have sent, otherwise those that came by the link. */
struct fabric_wait {
	uint8_t vl;
	bool own;
	uint32_t packets, bytes; /* bytes: rounded up to blocks of 64, as for credits */
	uint64_t since; /* when the first packet came to its outlet; 0: not there */
};
enum { FABRIC_WAITS = 16 };
/* Returns the number of rows. */
unsigned fabric_waiting(const struct fabric *f, uint32_t node, uint8_t port,
			struct fabric_wait to[FABRIC_WAITS]);
const struct node_info *fabric_node(const struct fabric *f, uint32_t node);

/* The rate of a link in units of 0.1 Gb/s, from PortInfo's width and speed. */
uint32_t fabric_rate(const struct port_info *info);
/* The rate as iblinkinfo writes it, such as "4xEDR"; "" if the link is down. */
enum { FABRIC_SPEED = 12 };
void fabric_speed(const struct port_info *info, char to[FABRIC_SPEED]);

#endif
