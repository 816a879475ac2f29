/* SPDX-License-Identifier: BSD-2-Clause */
/* links.h - the links of a NIC. Each is a source of the engine and has an owner that
 * knows what carries it: network sockets or a fabric.
 *
 * A new kind of link is a file such as driver/ethernet.c and a row in rooms.c, after
 * open_cm and before open_engine. Calls need the turn, unless stated otherwise.
 */
#ifndef DRIVER_LINKS_H
#define DRIVER_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "sys/list.h"
#include "sys/source.h"

struct core;
struct device;
struct engine;
struct links;

/* Filled in by the owner of the link; functions that it does not need are NULL. */
struct nic_link {
	const struct nic_link_ops {
		/* Does the link carry the paths of dev? Any thread may call it. */
		bool (*carries)(const struct nic_link *l, const struct device *dev);
		/* Starts to receive packets for this GID of dev, or for any of its GIDs
		 * (NULL); dev NULL: for any device, as connection management needs.
		 * Returns 0 or -errno. */
		int (*listen)(struct nic_link *l, const struct device *dev,
			      const uint8_t *gid);
		/* The sender of the next packet is to be told if its destination refuses
		 * it. */
		void (*ask)(struct nic_link *l);
		/* Joins or leaves multicast group gid on dev; calls are counted. Returns
		 * 0 or -errno. */
		int (*join)(struct nic_link *l, const struct device *dev,
			    const uint8_t gid[16], bool join);
		/* Forwards the datagrams for other processes that wait in the link's
		 * sockets, since closing a socket discards them. v: room for n. */
		void (*forward)(struct nic_link *l, struct dgram *v, unsigned n,
				uint64_t now);
	} * ops;
	struct link *link; /* the outermost link of the stack */

	/* Filled in by links_add(): */
	struct source source;
	struct links *links;
	struct list node;
};

enum { LINK_RX = 64 /* datagrams that one turn receives per link */ };

struct links {
	struct core *core;
	struct list all;
	struct dgram in[LINK_RX];
};

void links_init(struct links *links, struct core *core);
/* ops: how the link is a source. */
void links_add(struct links *links, struct nic_link *l, const struct source_ops *ops);
void links_remove(struct nic_link *l);

/* For input() of a link's source: takes in at most LINK_RX datagrams. links_input() does
 * so for a link whose looks are system calls. */
unsigned links_take_in(struct nic_link *l, struct source_got *got, uint64_t now);
unsigned links_input(struct source *s, enum source_depth depth, struct source_got *got,
		     uint64_t now);

/* Adds the links to the engine e, in the order in which they were added. */
void links_turned_by(struct links *links, struct engine *e);

/* Returns the link that carries the paths of dev; NULL: none. Any thread may call it. */
struct nic_link *links_of(struct links *links, const struct device *dev);

/* See nic.h. links_listen() with dev NULL: for all devices. */
int links_listen(struct links *links, const struct device *dev, const uint8_t *gid);
void links_ask(struct links *links);
int links_join(struct links *links, const struct device *dev, const uint8_t gid[16],
	       bool join);

/* Is one of the links full? */
bool links_full(const struct links *links, uint64_t now);

/* Each link forwards the datagrams for other processes that wait in its sockets, before
 * they are closed. */
void links_forward(struct links *links);

#endif
