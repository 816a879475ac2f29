/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - what the engine of a NIC serves beside QPs: anything that brings input, has
 * timers, or must be told when output has ended.  docs/dev/driver.md says who calls which
 * function when.
 *
 * A source fills in the functions that it has.  Unless one says otherwise, they are
 * called by the holder of the engine's turn; none blocks. */
#ifndef SYS_SOURCE_H
#define SYS_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/clock.h"

/* Kinds of input.  Both may be left to polling threads (driver/watch.h). */
enum source_kind { SOURCE_SOCKETS, SOURCE_RINGS, SOURCE_KINDS };

/* How far input() looks. */
enum source_depth {
	/* Is there any?  A few loads: a poller asks this in most of its turns.  Nothing
	 * is taken in, `got' is NULL and the time is not known. */
	SOURCE_QUICK,
	/* Takes in what is cheap to find, but only a bounded part of it. */
	SOURCE_TURN,
	/* The same, and looks everywhere: a timer is to be judged after all input that
	 * has come. */
	SOURCE_ALL,
};

/* What input() has taken in; each source adds to it. */
struct source_got {
	/* WRITEs, READs, atomics of peers, for which a program need not poll */
	bool one_sided;
	bool news;   /* no input, but input may follow from it */
	bool broken; /* the source's descriptors are gone */
};

/* A descriptor that the thread sleeps on. */
struct source_fd {
	int fd; /* -1: none */
	/* What it means that fd is readable: input, which the thread leaves to polling
	 * threads if they serve sockets; a writer to a ring that was marked; or anything
	 * else. */
	enum { SOURCE_INPUT, SOURCE_KICK, SOURCE_CALL } is;
	bool stream; /* one connection's own descriptor, which comes and goes */
};

enum { SOURCE_FDS = 8 };

struct source {
	const struct source_ops {
		enum source_kind kind;
		bool brief; /* input() does with a brief turn (sys/turn.h) */
		/* Returns how many pieces of input it has taken in; with SOURCE_QUICK,
		 * whether there are any. */
		unsigned (*input)(struct source *s, enum source_depth depth,
				  struct source_got *got, uint64_t now);
		/* The time `at' has come. */
		void (*run)(struct source *s, uint64_t now);
		/* Output has ended: wakes the peers that it was for.  Returns true if
		 * some of it is for this process: input() takes that in. */
		bool (*flush)(struct source *s);
		/* true: the thread is about to sleep.  Marks the source's rings, so that
		 * their writers wake it, and then looks once more.  Returns true if there
		 * is input, or a ring is not marked.
		 * false: the thread leaves the rings to threads that poll, so that no
		 * writer need wake it; returns false. */
		bool (*sleeps)(struct source *s, bool sleeps);
		/* The descriptors to sleep on, at most SOURCE_FDS; returns their number.
		 * Any thread may call. */
		unsigned (*fds)(struct source *s, struct source_fd *fd);
		/* Outside the turn: a descriptor was readable when the thread woke.
		 * Returns true if the thread has to take the turn.  NULL: it takes it for
		 * each SOURCE_KICK and SOURCE_CALL. */
		bool (*outside)(struct source *s);
		/* In the child of a fork: closes the descriptors. */
		void (*forked)(struct source *s);
	} * ops;
	/* ns; when run() is to be called or, without one, a thread is to take a turn,
	 * although no descriptor becomes readable; NEVER.  It may be too early, which
	 * costs a look, but not too late: whoever makes something due earlier makes this
	 * earlier.  Written with the turn held, unless a source says otherwise. */
	_Atomic uint64_t at;
	/* In the turn of the thread that has just woken: a descriptor of the source that
	 * was readable; otherwise -1.  Under the turn. */
	int ready;
};

static inline void source_init(struct source *s, const struct source_ops *ops)
{
	s->ops = ops;
	atomic_init(&s->at, NEVER);
	s->ready = -1;
}

static inline uint64_t source_at(const struct source *s)
{
	return atomic_load_explicit(&s->at, memory_order_relaxed);
}

static inline void source_set(struct source *s, uint64_t at)
{
	atomic_store_explicit(&s->at, at, memory_order_relaxed);
}

static inline void source_sooner(struct source *s, uint64_t at)
{
	if (at < source_at(s))
		atomic_store(&s->at, at);
}

enum { SOURCES_MAX = 32 };

/* Sources that have a given function, NULL-terminated. */
struct sources {
	struct source *v[SOURCES_MAX + 1];
};

#define each_source(s, list) for (struct source *const *s = (list)->v; *s; s++)

#endif
