/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.h - the engine of one NIC: takes datagrams in, runs timers, puts
 * datagrams out, in bounded turns.  Inside nic/ only; docs/architecture.md
 * says which threads drive it and why. */
#ifndef NIC_ENGINE_H
#define NIC_ENGINE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "link/batch.h"
#include "nic/outbox.h"
#include "nic/watch.h"
#include "sys/fd.h"
#include "sys/heap.h"
#include "sys/source.h"

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

#define each_source(s, list) for (struct source *const *s = (list)->v; *s; s++)

/* The program's threads that poll, together. */
struct pollers {
	struct spin spin;	/* under the turn */
	_Atomic uint64_t last;	/* when a poll last ran the engine */
	atomic_uint missed;	/* polls that found the turn taken, without an end of
				 * one in between */
	_Atomic uint32_t ended; /* turn_ended() when that was last looked at */
	atomic_bool polled;	/* one since the last wake-up that did not run it: it
				 * found an entry, or the turn taken */
};

/* The engine's own thread: engine_thread.c. */
struct engine_thread {
	pthread_t id;
	bool started;
	cpu_set_t cpus; /* where it may run; cpus_known */
	bool cpus_known;
	int kick_rx, kick_tx, alarm; /* alarm: a timerfd */
	struct fd_id kick_id;	     /* of kick_tx */
	/* Its own: */
	uint64_t alarm_at; /* NEVER: it is not set */
	struct watch watch[SOURCE_KINDS];
	uint64_t slept; /* when it went to sleep */
	struct {
		bool call;	       /* what is not left to others */
		bool by[SOURCE_KINDS]; /* input of that kind */
	} woken;
	/* Others read or set: */
	atomic_bool stop, armed, kicked;
	atomic_bool serving;  /* it has the turn, or just had it */
	atomic_bool sleeping; /* in ppoll, or about to be */
	atomic_bool watching; /* ... and nothing is left to pollers */
	_Atomic uint64_t sleep_until;
};

struct engine {
	struct core *core;
	struct sources all, input[SOURCE_KINDS], hear, run, deadline, echo, flush, ways,
		hot, sleeps;
	struct heap timers; /* QPs by deadline */
	struct outbox out;
	struct {
		uint64_t from; /* 0, or core->heard when all is taken in */
		unsigned turns;
	} hearing;
	unsigned turns;
	uint64_t piped;	    /* when a pipe last had something */
	atomic_bool broken; /* descriptors are gone */
	struct pollers pollers;
	struct engine_thread thread;
};

struct engine_did {
	bool socket;	 /* something had come in by a socket, */
	bool ring;	 /* ... by a ring, */
	bool one_sided;	 /* ... that its program need not poll for */
	unsigned output; /* datagrams put out */
	/* When there is work without input, for engine_settle().  Known if the thread
	 * was asleep: it works that out itself, with the turn held, before it is. */
	uint64_t next;
};

/* The engine turns s from now on, in the order in which sources are added. */
void engine_add(struct engine *e, struct source *s);

/* Input, timers and output, or output alone.
 *
 * later: what the input asks for (ACKs) is left for the next turn, so that it
 * shares a system call with the program's answer, and that goes first.  Only
 * for a caller that comes back soon. */
struct engine_did engine_turn(struct engine *e, uint64_t now, bool later)
	REQUIRES(e->core->turn);
/* first: a QP that need not be due to be served, or NULL. */
struct engine_did engine_output(struct engine *e, struct qp *first, uint64_t now,
				unsigned limit) REQUIRES(e->core->turn);

/* Put out what would go out by itself soon, and what waits for company. */
struct engine_did engine_flush(struct engine *e, uint64_t now) REQUIRES(e->core->turn);

/* After a turn was given by anyone but the thread: wake the thread if there
 * is work or a deadline that it does not know of. */
void engine_settle(struct engine *e, uint64_t now, uint64_t next);

/* Does any input rely on being looked for?  Needs no turn. */
bool engine_is_hot(const struct engine *e);
/* When there is work without input. */
uint64_t engine_deadline(struct engine *e, uint64_t now) REQUIRES(e->core->turn);

/* Output goes by engine_output() alone: the thread sleeps and has to be told the next
 * deadline, the program ends, or descriptors are gone. */
bool engine_must_turn(const struct engine *e) REQUIRES(e->core->turn);
/* After output: wake whom it is for. */
void engine_wake(struct engine *e) REQUIRES(e->core->turn);

int engine_thread_start(struct engine *e); /* 0 or -errno */
void engine_thread_stop(struct engine *e);
void engine_close_fds(struct engine *e); /* the thread's own: fork, too */
void engine_kick(struct engine *e);

/* qp is run again by then.  A timer that fires early finds nothing due and is set again,
 * so a later deadline need not move it. */
void engine_timer(struct engine *e, struct qp *qp, uint64_t at) REQUIRES(e->core->turn);

/* All is lost: the program closed our descriptors. */
void engine_break(struct engine *e, const char *what) REQUIRES(e->core->turn);
/* Has it closed them, seen or unseen?  Their numbers are its own now. */
bool engine_lost(const struct engine *e);

#endif
