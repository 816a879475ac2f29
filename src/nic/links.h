/* SPDX-License-Identifier: BSD-2-Clause */
/* links.h - the links of a NIC.  Each is a source of the engine, and has an owner that
 * knows what carries it: sockets of a network, a fabric.
 *
 * A new kind is a file as nic/ethernet.c is one, and a row of the rooms in rooms.c.
 * Turn held, but where it says otherwise.
 */
#ifndef NIC_LINKS_H
#define NIC_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"
#include "sys/list.h"
#include "sys/source.h"

struct core;
struct device;
struct engine;
struct links;

/* What an owner fills in; functions that it has no use for are NULL. */
struct nic_link {
	const struct nic_link_ops {
		/* Does it carry the paths of dev?  Any thread. */
		bool (*carries)(const struct nic_link *l, const struct device *dev);
		/* From now on packets come in for this GID of dev, or for any of its
		 * (NULL); dev NULL: of any device, for connection management.  0 or
		 * -errno. */
		int (*listen)(struct nic_link *l, const struct device *dev,
			      const uint8_t *gid);
		/* The sender of what goes out next is to be told if its
		 * destination refuses it. */
		void (*ask)(struct nic_link *l);
		/* Packets for a multicast group come in by dev, or no longer; counted.
		 * 0 or -errno. */
		int (*join)(struct nic_link *l, const struct device *dev,
			    const uint8_t gid[16], bool join);
		/* Does a look for input cost no system call? */
		bool (*is_idle)(const struct nic_link *l);
		/* What to sleep on, at most SOURCE_FDS; how many.  Any thread. */
		unsigned (*fds)(const struct nic_link *l, struct source_fd *fd);
		void (*forked)(struct nic_link *l);

		/* Of a link over memory, whose input is looked for and which kicks only
		 * where it is told to (SOURCE_RINGS): */
		/* Is there input?  Any thread. */
		bool (*has)(const struct nic_link *l);
		/* From now on it is to kick, or no longer. */
		void (*sleeps)(struct nic_link *l, bool sleeps);
		/* A descriptor was readable.  Without the turn. */
		void (*told)(struct nic_link *l);
	} * ops;
	struct link *link; /* the outermost one of its stack */

	/* links_add()'s: */
	struct source source;
	struct links *links;
	struct list node;
};

enum { LINK_RX = 64 /* datagrams of each link that one turn takes in */ };

struct links {
	struct core *core;
	struct list all;
	struct dgram in[LINK_RX];
};

void links_init(struct links *links, struct core *core);
void links_add(struct links *links, struct nic_link *l);
void links_remove(struct nic_link *l);

/* The engine gets them, in the order in which they were added. */
void links_turned_by(struct links *links, struct engine *e);

/* The one that carries the paths of dev; NULL: none.  Any thread. */
struct nic_link *links_of(struct links *links, const struct device *dev);

/* See nic.h.  links_listen(), dev NULL: for all devices. */
int links_listen(struct links *links, const struct device *dev, const uint8_t *gid);
void links_ask(struct links *links);
int links_join(struct links *links, const struct device *dev, const uint8_t gid[16],
	       bool join);

/* Is one of them full? */
bool links_full(const struct links *links, uint64_t now);

/* A socket that is closed takes along what waits in it, which may be others': what is
 * theirs is forwarded first. */
void links_forward(struct links *links);

#endif
