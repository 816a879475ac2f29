/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap.h - the parts of urnic extcap, by which Wireshark captures from processes that
 * already run.  Its interfaces:
 *
 *	urnic-all			all processes of this user
 *	urnic-PID			one process
 *	urnic-fabric:NAME		all links of a fabric
 *	urnic-fabric:NAME/NODE/PORT	the link at a port of a fabric
 */
#ifndef TOOLS_EXTCAP_H
#define TOOLS_EXTCAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define EXTCAP_WHO "urnic extcap"

enum { EXTCAP_NAME_MAX = 256 };

struct extcap_interface {
	enum { EXTCAP_ALL, EXTCAP_PROCESS, EXTCAP_FABRIC } kind;
	pid_t pid;
	char fabric[EXTCAP_NAME_MAX], node[EXTCAP_NAME_MAX]; /* node "": all links */
	uint32_t port;
};

/* Takes an interface's name.  Returns 0; or 1, and has said on stderr what is wrong. */
int extcap_interface(const char *name, struct extcap_interface *out);

/* Prints the interfaces as Wireshark asks for them. */
int extcap_list(void);

/* Writes packets of one process, or of all and those that begin meanwhile, to the file
 * until its reader leaves or a signal comes.  Returns the exit status. */
int extcap_live(const struct extcap_interface *of, const char *file);

/* Puts a link to this program where Wireshark looks, and says where. */
int extcap_install(void);

/* --- what a process sends (extcap_feed.c) ---------------------------------------- */

enum { FEED_BLOCK = 1 << 17, FEED_ROOM = 1 << 18, FEED_INTERFACES = 8 };

/* The pcapng blocks of one process, which may come in pieces. */
struct feed {
	size_t used;
	unsigned interfaces;
	uint32_t interface[FEED_INTERFACES]; /* their numbers in the file */
	unsigned long packets;
	char note[164]; /* the last counts that it told; "": none */
	uint8_t buf[FEED_ROOM];
};

/* Where the bytes that come next belong: *room of them, at least 1. */
uint8_t *feed_room(struct feed *f, size_t *room);
/* n bytes have come: writes whole blocks to the file, where the process's interfaces get
 * numbers from *next on.  Returns 0, -EPROTO if the process has sent something else, or
 * -errno of the file. */
int feed_came(struct feed *f, size_t n, uint32_t *next, FILE *to);

#endif
