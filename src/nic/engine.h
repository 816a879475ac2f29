/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.h - the engine of one NIC: takes datagrams in, runs timers, puts
 * datagrams out, in bounded turns.  Inside nic/ only; docs/architecture.md
 * says who drives it and why. */
#ifndef NIC_ENGINE_H
#define NIC_ENGINE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/dgram.h"
#include "link/link.h"
#include "nic/follow.h"
#include "nic/watch.h"
#include "sys/fd.h"
#include "sys/heap.h"
#include "sys/source.h"

struct core;
struct qp;

enum {
	ENGINE_SOURCES = 32,
	ENGINE_TX = 2 * BATCH_MAX, /* datagrams put out by one turn */
	ENGINE_INLINE = 64,	   /* put out by a turn inside post_send */
};

/* Those that have one of the functions, and NULL. */
struct sources {
	struct source *v[ENGINE_SOURCES + 1];
};

struct engine {
	struct core *core;
	struct sources all, input[SOURCE_KINDS], hear, run, deadline, echo, flush, ways,
		hot, sleeps;

	struct heap timers; /* QPs by deadline */
	struct batch batch;
	/* Whose datagrams are in it: v[first ... first + n). */
	struct part {
		struct qp *qp;
		unsigned first, n;
		uint64_t retry; /* it waits so long for room; 0: it does not */
	} part[BATCH_MAX];
	unsigned parts;
	struct spin spin; /* the pollers'.  Under the turn */
	unsigned turns;
	uint64_t piped;	    /* when a pipe last had something */
	uint64_t hear_from; /* 0, or core->heard when all is taken in */
	unsigned hear_turns;
	atomic_bool broken; /* descriptors are gone */

	/* The thread's sleep; see engine_thread.c. */
	pthread_t thread;
	bool started;
	cpu_set_t cpus; /* where it may run; cpus_known */
	bool cpus_known;
	int kick_rx, kick_tx, alarm; /* alarm: a timerfd */
	uint64_t alarm_at;	     /* NEVER: it is not set.  The thread's */
	struct fd_id kick_id;	     /* of kick_tx */
	/* The thread's own: who takes in what, and what woke it. */
	struct watch watch[SOURCE_KINDS];
	uint64_t slept; /* when it went to sleep */
	struct follow follow;
	struct {
		bool call;	       /* what is not left to others */
		bool by[SOURCE_KINDS]; /* input of that kind */
		int stream;	       /* the connection's that did; or -1 */
	} woken;
	atomic_bool stop, armed, kicked;
	atomic_bool serving;  /* it has the turn, or just had it */
	atomic_bool sleeping; /* in ppoll, or about to be */
	atomic_bool watching; /* ... and nothing is left to pollers */
	_Atomic uint64_t sleep_until;
	_Atomic uint64_t last_poll; /* when a poll last ran the engine */
	atomic_uint missed;	    /* polls that found the turn taken, without
				     * an end of one in between */
	_Atomic uint32_t ended;	    /* turn_ended() when that was last looked at */
	atomic_bool polled;	    /* one since the last wake-up that did not:
				     * it found an entry, or the turn taken */
};

struct engine_did {
	bool socket;	 /* something had come in by a socket, */
	bool ring;	 /* ... by a ring, */
	bool one_sided;	 /* ... that its program need not poll for */
	size_t bytes;	 /* so much had come in by connections */
	unsigned output; /* datagrams put out */
	/* When there is work without input, for engine_settle().  Known if the thread
	 * was asleep: it works that out itself, with the turn held, before it is. */
	uint64_t next;
};

/* The engine turns s from now on, in the order in which sources are added. */
void engine_add(struct engine *e, struct source *s);

/* Input, timers and output, or output alone.  Turn held.
 *
 * later: what the input asks for (ACKs) is left for the next turn, so that it
 * shares a system call with the program's answer, and that goes first.  Only
 * for a caller that comes back soon. */
struct engine_did engine_turn(struct engine *e, uint64_t now, bool later);
/* first: a QP that need not be due to be served, or NULL. */
struct engine_did engine_output(struct engine *e, struct qp *first, uint64_t now,
				unsigned limit);

/* Put out what would go out by itself soon, and what waits for company. */
struct engine_did engine_flush(struct engine *e, uint64_t now);

/* After a turn was given by anyone but the thread: wake the thread if there
 * is work or a deadline that it does not know of. */
void engine_settle(struct engine *e, uint64_t now, uint64_t next);

/* Does any input rely on being looked for?  Needs no turn. */
bool engine_is_hot(const struct engine *e);
/* When there is work without input.  Turn held. */
uint64_t engine_deadline(struct engine *e, uint64_t now);

int engine_thread_start(struct engine *e); /* 0 or -errno */
void engine_thread_stop(struct engine *e);
void engine_close_fds(struct engine *e); /* the thread's own: fork, too */
void engine_kick(struct engine *e);

/* All is lost: the program closed our descriptors.  Turn held. */
void engine_break(struct engine *e, const char *what);
/* Has it closed them, seen or unseen?  Their numbers are its own now. */
bool engine_lost(const struct engine *e);

#endif
