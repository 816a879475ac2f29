/* SPDX-License-Identifier: BSD-2-Clause */
/* tuning.h - the times and counts that tune the engine: none is seen by a peer or by a
 * program but as speed. docs/dev/driver.md says what each brings. */
#ifndef DRIVER_TUNING_H
#define DRIVER_TUNING_H

/* --- who takes input in (watch.h) -------------------------------------------- */

enum {
	/* About as long as it takes to wake a thread. Within that time of its last poll a
	 * poller takes input in before the thread does; a thread that waits for an event
	 * looks that long before it sleeps; input in bulk is followed by more; rings that
	 * had input are busy. */
	WAKE_UP_NS = 50000,
	WATCH_LOOK_NS = 1000000, /* between looks at input that is left to pollers */
	/* A thread waits for an event. If the last wait took less than this, it looks for
	 * WAKE_UP_NS before it sleeps: the wait had two wake-ups, the peer's and its own.
	 */
	WAIT_LOOK_NS = 2 * WAKE_UP_NS,
	WAIT_VAIN_MAX =
		7, /* it does not look in 2, 4 ... 128 waits after looks in vain */
	/* events that were there already, after which a program may wait otherwise */
	WAIT_AT_ONCE = 16,
	/* Where several threads wait, or poll, none serves for this long. */
	WAIT_CROWD_NS = 100000000,
	WATCH_LATE_MAX = 7, /* largest value of watch.late */
	WATCH_SERVED = 2,   /* value of watch.served that resets watch.late */
	BULK = 16,	    /* datagrams of one turn that are bulk */
	BULK_LOOKS = 16,    /* every so many looks then go to all descriptors */
};

/* --- a turn (engine.c, conn.c, outbox.c) -------------------------------------- */

enum {
	FLUSH_NS = 1000000, /* an ACK waits less than that */
	/* While rings are busy, pollers have GLANCES short turns between two whole ones,
	 * and look at the sockets after SOCKET_LOOKS looks, of which a whole turn counts
	 * as TURN_LOOKS. */
	GLANCES = 32,
	TURN_LOOKS = 8,
	SOCKET_LOOKS = 64,
	CLOCK_LOOKS = 8, /* a poller that finds nothing reads the clock after so many */
	/* Of iWARP's connections: looks without input after which one is looked at in 1
	 * of 16, */
	EMPTY_MAX = 4,
	REST_NS = 10000,       /* or after this time, if that is sooner */
	IN_TURN = 1 << 20,     /* bytes received by one turn */
	OUT_TURN = 256 << 10,  /* bytes sent by one QP */
	SPENT_BYTES = 4096,    /* bytes that count as the work of one datagram */
	RETRY_PIPE_NS = 20000, /* until a full ring is tried again */
	TURN_SPINS = 50,       /* a post looks so often for the turn: about 2 us */
	/* Where so many requests of a QP are under way, and a thread polls, posts wait
	 * for its next turn, or until GATHER_MOST of them wait. */
	GATHER_LEAST = 4,
	GATHER_MOST = 32,
};

/* --- when a poller lets go of its processor (watch.h) ------------------------- */

enum {
	SPIN_NS = 60000, /* how long a poller looks in vain before it yields, */
	/* or, where other threads run when it yields, this long. */
	SPIN_SHARED_NS = 1000,
	/* A yield that takes longer than this ran another thread. */
	SPIN_YIELD_MAX_NS = 2000,
	/* A yield that takes longer than this met threads that use up their time
	 * slices: */
	SPIN_SLICE_NS = 500000,
	/* the poller then alternates looking and sleeping for this long each, */
	SPIN_NAP_NS = 20000,
	SPIN_NAPS_NS = 100000000, /* and tries yielding again after this long, as does
				   * the engine's thread. */
	/* It also does so, until it finds something, after so many yields in vain: a
	 * yield reaches only some of the threads that it may wait for. */
	SPIN_VAIN = 16,
	/* A poll that finds the turn taken so often asks whether its holder runs, yields
	 * so many times, and then sleeps for so long. */
	SPIN_MISSES = 64,
	SPIN_MISS_YIELDS = 32,
	SPIN_MISS_NAP_NS = 50000,
};

#endif
