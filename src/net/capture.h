/* SPDX-License-Identifier: BSD-2-Clause */
/* capture.h - where captured packets go: files (URNIC_PCAP), and readers that have asked
 * a running process for its packets (driver/captures.h). Each gets pcapng blocks.
 *
 * Packets are IPv4 and IPv6 packets (LINKTYPE_RAW), with headers made from the datagram.
 * IPv4: DF, the identification as far as it is known, a right header checksum, UDP
 * checksum 0. IPv6: a right UDP checksum, since 0 is not allowed. InfiniBand packets are
 * ERF records, LRH to VCRC. Times are the engine's, shifted to wall-clock time at the
 * first packet, in nanoseconds.
 *
 * A file grows by whole packets and is valid at any time. The buffer is written when it
 * is full, 100 ms after a packet, at close, and after each call once the program ends.
 *
 * A reader is never waited for: what finds no room in the buffer is lost, and counted.
 * Once a second, if it has changed, the reader is told how many packets were lost, and
 * how many requests went another way. A reader that has left ends its capture.
 *
 * The turn must be held for all calls but capture_leave() and capture_forked().
 */
#ifndef NET_CAPTURE_H
#define NET_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"
#include "net/pcapng.h"

enum { CAPTURES_MAX = 8 }; /* of a process */

struct captures; /* those of a NIC */

/* What a link records a packet with. */
struct capture_mark {
	enum pcapng_dir dir;
	bool ib;	  /* the packet is InfiniBand's, below lid.h */
	const char *note; /* its comment; NULL: none */
};

/* Returns a set without captures that `users' pcap links may join, or NULL. It is freed
 * when the last user has left. */
struct captures *captures_new(void);
void captures_join(struct captures *c);
void captures_leave(struct captures *c);

/* Captures into the file `path`, in which %p becomes the process id. The file is
 * truncated. Returns 0 or -errno: -EBUSY if another process writes to the file, -EMFILE
 * if too many captures are open. */
int captures_file(struct captures *c, const char *path);

/* Who asks for packets, and for what goes another way. */
struct capture_reader {
	uint16_t slot;		       /* of the process; it has one capture at most */
	const char *of;		       /* what the packets are from, for people */
	uint64_t (*unseen)(void *arg); /* requests so far that no link has carried */
	void *arg;
};

/* Captures into fd, a stream socket of this user, which is taken over with success.
 * Returns 0 or -errno: -EALREADY if the reader's process has one, -EMFILE, -ENOTSOCK if
 * fd is no stream socket of AF_UNIX. */
int captures_read(struct captures *c, int fd, const struct capture_reader *by,
		  uint64_t now);

/* The reader of slot wants no more, or has ended: it is told the last counts, as far as
 * it has room for them. Returns false if it has no capture. */
bool captures_end(struct captures *c, uint16_t slot, uint64_t now);

bool captures_any(const struct captures *c);
void captures_put(struct captures *c, const struct dgram *v, unsigned n,
		  const struct capture_mark *mark, uint64_t now);
/* Writes what is due by now. */
void captures_run(struct captures *c, uint64_t now);
/* When captures_run() has something to do; NEVER. */
uint64_t captures_deadline(const struct captures *c);

/* The program ends: from now on no packet stays in a buffer after a call. */
void capture_leave(void);

/* In the child of a fork: closes the captures, which go on in the parent only. */
void capture_forked(void);

#endif
