/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - what the engine of a NIC turns beside QPs: what brings input, has timers,
 * or has to be told when output has ended.  docs/driver.md says who calls what, when.
 *
 * A source fills in the functions that it has.  But for those that say otherwise they
 * are called by the holder of the engine's turn; none blocks.
 */
#ifndef SYS_SOURCE_H
#define SYS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct dgram;

/* Kinds of input.  Both may be left to threads that poll (nic/watch.h). */
enum source_kind { SOURCE_SOCKETS, SOURCE_RINGS, SOURCE_KINDS };

/* What input() has taken in; each source adds to it. */
struct source_got {
	unsigned n;	/* pieces; 0: there was nothing */
	bool one_sided; /* WRITEs, READs, atomics of peers: a program need not poll for
			 * those */
	bool broken;	/* the source's descriptors are gone */
};

/* What a thread sleeps on. */
struct source_fd {
	int fd;
	bool always; /* also while its kind of input is left to others */
	bool input;  /* readable: there is some, of the source's kind; else it is another
		      * matter */
	bool stream; /* a connection's own: it comes and goes */
};

enum { SOURCE_FDS = 8 };

struct source {
	const struct source_ops {
		enum source_kind kind;
		/* Take in what has come, a bounded part of it. */
		void (*input)(struct source *s, struct source_got *got, uint64_t now);
		/* A timer is to be judged by all that has come: the next input() looks
		 * everywhere.  True: something has come up already. */
		bool (*hear)(struct source *s);
		/* deadline() has passed. */
		void (*run)(struct source *s, uint64_t now);
		/* When there is something to do without input; UINT64_MAX: never. */
		uint64_t (*deadline)(struct source *s, uint64_t now);
		/* What our own output has brought in for us.  True: there was some. */
		bool (*echo)(struct source *s, uint64_t now);
		/* Output has ended: wake those whom it is for. */
		void (*flush)(struct source *s);
		/* Does d, to a process of this host, go this way?  Then send() takes
		 * it; false: there is no room. */
		bool (*leads_to)(struct source *s, const struct dgram *d);
		bool (*send)(struct source *s, const struct dgram *d, uint64_t now);
		/* Does input rely on being looked for, as nobody wakes the thread for
		 * it?  Any thread. */
		bool (*hot)(struct source *s);
		/* The thread watches its input from now on (each time that it is about
		 * to sleep), or leaves it to others (once). */
		void (*watched)(struct source *s);
		void (*left)(struct source *s);
		/* What to sleep on, at most SOURCE_FDS; how many.  Any thread. */
		unsigned (*fds)(struct source *s, struct source_fd *fd);
		/* fd was readable when the thread woke. */
		void (*rang)(struct source *s, int fd);
		/* The same without the turn, which the thread then need not take. */
		void (*told)(struct source *s);
		/* In the child of a fork: close the descriptors. */
		void (*forked)(struct source *s);
	} * ops;
	int rang; /* the thread's: the descriptor that has woken it; -1: none */
};

#endif
