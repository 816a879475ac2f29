/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - what the engine of a NIC serves beside QPs: anything that brings input, has
 * timers, or must be told when output has ended.  docs/dev/driver.md says who calls which
 * function when.
 *
 * A source fills in the functions that it has.  Unless one says otherwise, they are
 * called by the holder of the engine's turn; none blocks. */
#ifndef SYS_SOURCE_H
#define SYS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of input.  Both may be left to polling threads (driver/watch.h). */
enum source_kind { SOURCE_SOCKETS, SOURCE_RINGS, SOURCE_KINDS };

/* What input() has taken in; each source adds to the fields. */
struct source_got {
	unsigned n; /* pieces of input; 0: there was none */
	/* WRITEs, READs, atomics of peers, for which a program need not poll */
	bool one_sided;
	bool broken; /* the source's descriptors are gone */
};

/* A descriptor that a thread sleeps on. */
struct source_fd {
	int fd;
	bool always; /* also watched while polling threads serve its kind of input */
	/* Readable means input of the source's kind; otherwise some other event */
	bool input;
	bool stream; /* one connection's own descriptor, which comes and goes */
};

enum { SOURCE_FDS = 8 };

struct source {
	const struct source_ops {
		enum source_kind kind;
		/* Takes in what has come, but only a bounded part of it. */
		void (*input)(struct source *s, struct source_got *got, uint64_t now);
		/* Is there certainly no input?  As cheap as a few loads: a poller asks
		 * this in most of its turns.  For rings.  The input() of all rings must
		 * do with a brief turn (sys/turn.h). */
		bool (*quiet)(const struct source *s);
		/* A timer is to be judged after all input that has come: the next input()
		 * looks everywhere.  Returns true if something turned up already. */
		bool (*hear)(struct source *s);
		/* deadline() has passed. */
		void (*run)(struct source *s, uint64_t now);
		/* When there is work to do without input; UINT64_MAX: none. */
		uint64_t (*deadline)(struct source *s, uint64_t now);
		/* Output has ended: wakes the peers that it was for.  Returns true if
		 * some of it is for this process: input() takes that in. */
		bool (*flush)(struct source *s);
		/* Does its input need polling, because nobody wakes the thread for it?
		 * Any thread may call. */
		bool (*hot)(struct source *s);
		/* watched(): the thread watches the source's input from now on; called
		 * each time that it is about to sleep.  left(): it leaves the input to
		 * others; called once. */
		void (*watched)(struct source *s);
		void (*left)(struct source *s);
		/* The descriptors to sleep on, at most SOURCE_FDS; returns their number.
		 * Any thread may call. */
		unsigned (*fds)(struct source *s, struct source_fd *fd);
		/* fd was readable when the thread woke. */
		void (*rang)(struct source *s, int fd);
		/* The source's descriptor was readable; called without the turn, which
		 * the thread then need not take. */
		void (*told)(struct source *s);
		/* In the child of a fork: closes the descriptors. */
		void (*forked)(struct source *s);
	} * ops;
	int rang; /* for the thread: the descriptor that woke it; -1: none */
};

enum { SOURCES_MAX = 32 };

/* Sources that have a given function, NULL-terminated. */
struct sources {
	struct source *v[SOURCES_MAX + 1];
};

#define each_source(s, list) for (struct source *const *s = (list)->v; *s; s++)

#endif
