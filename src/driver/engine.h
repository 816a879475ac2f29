/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.h - the engine of one NIC: receives datagrams, runs timers and sends datagrams,
 * in bounded turns. Inside driver/ only; docs/dev/architecture.md says which threads
 * drive it and why. */
#ifndef DRIVER_ENGINE_H
#define DRIVER_ENGINE_H

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/outbox.h"
#include "driver/watch.h"
#include "net/batch.h"
#include "sys/fd.h"
#include "sys/heap.h"
#include "sys/source.h"
#include "verbs/core.h"

struct channel;
struct qp;

enum {
	ENGINE_TX = 2 * BATCH_MAX, /* datagrams sent by one turn */
	ENGINE_INLINE = 64,	   /* datagrams sent by a turn inside post_send */
};

/* The sources, listed by the functions that they have (sys/source.h); engine_add() fills
 * the lists in. */
struct engine_sources {
	struct sources all, input[SOURCE_KINDS], run, flush, sleep, fds;
};

/* State shared by the program's threads that poll. */
struct pollers {
	struct spin spin;      /* written with the turn held */
	_Atomic uint64_t last; /* ns; when a poll last ran the engine */
	/* polls that found the turn taken since a turn last ended */
	atomic_uint missed;
	_Atomic uint32_t ended; /* turn_ended() at the last such poll */
	/* set by a poll that did not run the engine since the thread's last wake-up,
	 * because it found a completion or the turn taken */
	atomic_bool polled;
	/* set by a poll that found a completion, since one last ran the engine: whichever
	 * thread's turn that was due to, its program is not idle */
	atomic_bool got;
};

/* Threads of the program that wait for an event of a completion channel (wait.c). One at
 * a time serves the NIC meanwhile. */
struct waits {
	atomic_uint n; /* all that wait */
	/* one of them, which waits at this channel, serves; NULL: none */
	const struct channel *_Atomic at;
	/* it sleeps; the rings are marked for it. Set with the turn held. */
	atomic_bool asleep;
	atomic_bool brisk;	   /* it comes back soon, as long as it polls */
	_Atomic uint64_t last;	   /* ns; when it last ran the engine */
	_Atomic uint64_t alone_at; /* ns; before this, none serves */
};

/* The engine's own thread (engine_thread.c). */
struct engine_thread {
	pthread_t id;
	bool started;
	cpu_set_t cpus; /* processors that it may run on, if cpus_known */
	bool cpus_known;
	int kick_rx, kick_tx, alarm; /* alarm: a timerfd */
	struct fd_id kick_id;	     /* of kick_tx */
	/* Written by the thread only: */
	uint64_t alarm_at; /* NEVER: the alarm is not set */
	struct watch watch[SOURCE_KINDS];
	uint64_t slept; /* ns; when it went to sleep */
	/* since it was last awake, every ring that it watches was marked, and was empty
	 * then: input there wakes it */
	bool marked;
	struct bulk bulk;
	bool up; /* does not sleep, because of bulk */
	struct {
		/* it was woken for more than the input that is left to pollers */
		bool call;
		bool by[SOURCE_KINDS]; /* input of that kind */
	} woken;
	/* Shared with other threads: */
	atomic_bool stop, armed, kicked;
	atomic_bool serving;  /* it has the turn, or has just given it back */
	atomic_bool sleeping; /* in ppoll(), or about to be */
	/* it sleeps and watches all inputs: none is left to pollers */
	atomic_bool watching;
	_Atomic uint64_t sleep_until;
};

struct engine {
	struct core *core;
	struct engine_sources by;
	struct heap timers; /* QPs by deadline */
	struct outbox out;
	struct {
		uint64_t from; /* 0, or core->round.heard when all is taken in */
		unsigned turns;
	} hearing;
	unsigned looks;	    /* since the sockets were last looked at; see SOCKET_LOOKS */
	unsigned glances;   /* short turns that may follow before a whole one */
	bool glanceable;    /* every source of rings does with brief turns */
	bool own;	    /* output left some for this process, to be taken in */
	bool gathers;	    /* posts wait for the next turn: engine_gather() */
	uint64_t piped;	    /* ns; when a pipe last had input */
	uint64_t whole;	    /* ns; when a turn last was no short one */
	atomic_bool broken; /* the program has closed our descriptors */
	struct pollers pollers;
	struct waits waits;
	struct engine_thread thread;
};

struct engine_did {
	unsigned socket;  /* datagrams, and connections with input, by sockets */
	bool ring;	  /* input came by a ring, */
	bool one_sided;	  /* or input came that the program need not poll for */
	bool gathered;	  /* posts had waited for this turn */
	bool bulk;	  /* much goes by a ring: more follows soon */
	unsigned output;  /* datagrams to be sent, */
	unsigned refused; /* those of them that found no room */
	/* ns; when there is work without input, for engine_settle(). Computed only while
	 * the thread sleeps and watches every input, else NEVER: an awake thread
	 * computes it itself, with the turn held, before it sleeps. */
	uint64_t next;
};

/* Adds source s to every turn from now on. Sources run in the order in which they are
 * added. */
void engine_add(struct engine *e, struct source *s);

/* Runs input, timers and output, or output alone.
 *
 * later: packets that the input asks for (ACKs) are left for the next turn. They then
 * share a system call with the program's answer, which goes first. Only for a caller
 * that comes back soon.
 */
struct engine_did engine_turn(struct engine *e, uint64_t now, bool later)
	REQUIRES(e->core->turn);
/* The same for a thread that sleeps then, while pollers perhaps do not come: another turn
 * follows if an expired timer, or a MAD, waits until all input has been read. */
struct engine_did engine_whole_turn(struct engine *e, uint64_t now)
	REQUIRES(e->core->turn);
/* Takes input in, and sends nothing: the caller's next turn follows soon. */
void engine_hear(struct engine *e, uint64_t now) REQUIRES(e->core->turn);
/* May a poller have a short turn, in which only rings are looked at, before the next
 * whole one?  The turn may be a brief one until there is output. */
bool engine_may_glance(const struct engine *e) REQUIRES(e->core->turn);
/* A short turn: is there no input in the rings? */
bool engine_is_quiet(struct engine *e) REQUIRES(e->core->turn);
/* Was that so long after the last whole turn that one must follow now?  Reads the clock
 * only now and then. */
bool engine_is_late(const struct engine *e) REQUIRES(e->core->turn);
/* A short turn: takes in what is in the rings, and sends what follows from it. */
struct engine_did engine_take_rings(struct engine *e, uint64_t now)
	REQUIRES(e->core->turn);
/* first: a QP to serve although it may not be due, or NULL. */
struct engine_did engine_output(struct engine *e, struct qp *first, uint64_t now,
				unsigned limit) REQUIRES(e->core->turn);

/* Sends what would go out by itself soon, and packets held back to share a system
 * call. */
struct engine_did engine_flush(struct engine *e, uint64_t now) REQUIRES(e->core->turn);

/* After a turn run by any other thread: wakes the engine's thread if there is work, or a
 * deadline, that it does not know of. */
void engine_settle(struct engine *e, uint64_t now, uint64_t next);

/* The descriptors that a thread sleeps on: two of its own, and from BED_SOURCES on the
 * sources'. */
enum { BED_SOURCES = 2, BED_ALL = BED_SOURCES + SOURCES_MAX * SOURCE_FDS };
struct bed {
	struct pollfd p[BED_ALL];
	struct source *source[BED_ALL];
	struct source_fd fd[BED_ALL];
	unsigned n;
};

/* Adds to b the sources' descriptors, but for those that do not wake the thread: `left'
 * to others, or of a kind that only the engine's thread serves. Needs no turn. */
void bed_make(struct bed *b, const struct engine *e, bool thread);
/* Around the turn that follows the sleep: its sources' descriptors that were readable. */
void bed_ready(const struct bed *b, bool ready);
/* A thread sleeps on the rings from now on: marks them. Returns true if there is input,
 * or a ring is not marked. Or they are left to threads that poll: false. */
bool engine_mark_rings(const struct engine *e, bool sleeps) REQUIRES(e->core->turn);
/* Returns when there is work without input, in ns. */
uint64_t engine_deadline(struct engine *e) REQUIRES(e->core->turn);

/* qp's posts go out with the next turn of a thread that polls, or of the thread. */
void engine_gather(struct engine *e, struct qp *qp) REQUIRES(e->core->turn);

/* Would the thread sleep over what this process has written to itself? */
bool engine_takes_echo(const struct engine *e);

int engine_thread_start(struct engine *e); /* returns 0 or -errno */
void engine_thread_stop(struct engine *e);
/* closes the thread's own descriptors; for fork, too */
void engine_close_fds(struct engine *e);
void engine_kick(struct engine *e);
/* The thread watches all input for a while: a program sleeps that does not serve. */
void engine_watch(struct engine *e);

/* Stops the engine for good: the program closed our descriptors. */
void engine_break(struct engine *e, const char *what) REQUIRES(e->core->turn);
/* Has the program closed our descriptors? Their numbers may be the program's now. */
bool engine_lost(const struct engine *e);

#endif
