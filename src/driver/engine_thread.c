/* SPDX-License-Identifier: BSD-2-Clause */
/* engine_thread.c - the thread that drives the engine while no thread of the program
 * polls.
 *
 * It sleeps in ppoll(). Sockets and rings may be left to polling threads (watch.h). The
 * thread then does not sleep on those sockets, writers to the rings do not kick, and it
 * wakes after WATCH_LOOK_NS to see whether any thread still polls.
 *
 * Setting a timer costs microseconds on a virtual machine, and every message moves a
 * deadline. So the alarm is only ever set to an earlier time; when it expires too early,
 * it is set to the next deadline. For the same reason the thread is not told of
 * deadlines later than the alarm.
 *
 * No wake-up is lost. The thread sets `sleeping` with the turn held and then looks for
 * work once more; a thread that makes work publishes it and then looks at `sleeping`;
 * all in one total order (seq_cst). Deadlines change only with the turn held, so the
 * next holder computes the next deadline and wakes the thread if need be.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "driver/engine.h"
#include "driver/placement.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/threads.h"
#include "verbs/core.h"
#include "verbs/due.h"
#include "verbs/event.h"

/* The thread's own descriptors. */
enum { P_KICK, P_ALARM };

/* Are the rings left to a thread that waits for an event? It is kicked then. */
static bool others_are_kicked(const struct engine *e)
{
	return e->thread.watch[SOURCE_RINGS].left &&
	       atomic_load_explicit(&e->waits.brisk, memory_order_relaxed);
}

/* The thread leaves input to pollers; another that sleeps runs no errands. */
static bool wakes(const struct engine *e, const struct source_fd *fd, bool thread)
{
	if (!thread)
		return fd->is != SOURCE_CALL;
	if (fd->is == SOURCE_KICK)
		return !others_are_kicked(e);
	return fd->is != SOURCE_INPUT || !e->thread.watch[SOURCE_SOCKETS].left;
}

void bed_make(struct bed *b, const struct engine *e, bool thread)
{
	struct source_fd fd[SOURCE_FDS];

	b->n = BED_SOURCES;
	each_source(s, &e->by.fds)
	{
		unsigned n = (*s)->ops->fds(*s, fd);

		for (unsigned i = 0; i < n; i++) {
			if (!wakes(e, &fd[i], thread))
				continue;
			b->p[b->n] = (struct pollfd){ .fd = fd[i].fd, .events = POLLIN };
			b->source[b->n] = *s;
			b->fd[b->n++] = fd[i];
		}
	}
}

void bed_ready(const struct bed *b, bool ready)
{
	for (unsigned i = BED_SOURCES; i < b->n; i++)
		if (b->p[i].revents)
			b->source[i]->ready = ready ? b->fd[i].fd : -1;
}

void engine_kick(struct engine *e)
{
	int was;

	if (atomic_exchange(&e->thread.kicked, true))
		return;
	was = cancel_hold();
	/* A socket rather than an eventfd: if the program closed it and reused its
	 * number for a file, send() writes nothing to that file. */
	if (send(e->thread.kick_tx, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
	    errno != EAGAIN)
		log_debug("cannot wake the engine thread: %s", strerror(errno));
	cancel_let(was);
}

void engine_watch(struct engine *e)
{
	atomic_store(&e->thread.armed, true);
	if (atomic_load(&e->thread.sleeping) && !atomic_load(&e->thread.watching))
		engine_kick(e);
}

/* Makes the alarm expire at `at` (ns) or earlier. */
static void set_alarm(struct engine *e, uint64_t at)
{
	struct itimerspec when = { .it_value = { (time_t)(at / 1000000000u),
						 (long)(at % 1000000000u) } };

	if (at >= e->thread.alarm_at)
		return;
	if (timerfd_settime(e->thread.alarm, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		e->thread.alarm_at = at;
}

/* The alarm has expired, and stays readable until it is set again. */
static void alarm_off(struct engine *e)
{
	timerfd_settime(e->thread.alarm, 0, &(struct itimerspec){ 0 }, NULL);
	e->thread.alarm_at = NEVER;
}

/* The descriptor was readable. */
static void was_rung(struct engine *e, struct source *s, const struct source_fd *fd)
{
	bool turn = s->ops->outside ? s->ops->outside(s) : fd->is != SOURCE_INPUT;

	e->thread.woken.by[SOURCE_SOCKETS] |= fd->is == SOURCE_INPUT;
	e->thread.woken.by[SOURCE_RINGS] |= fd->is == SOURCE_KICK;
	e->thread.woken.call |= turn;
}

/* Reads the kicks. Returns false if the socket is gone: ppoll() finds a file that has
 * the socket's number readable. */
static bool hear_kicks(const struct engine *e)
{
	char byte[16];
	ssize_t n;

	do
		n = recv(e->thread.kick_rx, byte, sizeof(byte), MSG_DONTWAIT);
	while (n > 0);
	return n < 0 && errno == EAGAIN;
}

/* Records what woke the thread. Returns false if descriptors are gone. */
static bool see_why(struct engine *e, const struct bed *b)
{
	/* ppoll() keeps the files it sleeps on, so only the other end of the kick shows
	 * that all descriptors were closed. (Connections come and go.) */
	for (unsigned i = 0; i < b->n; i++)
		if (b->p[i].revents & (POLLNVAL | POLLHUP) &&
		    (i < BED_SOURCES || !b->fd[i].stream))
			return false;
	memset(&e->thread.woken, 0, sizeof(e->thread.woken));
	e->thread.woken.call = b->p[P_KICK].revents;
	if (b->p[P_ALARM].revents)
		alarm_off(e);
	/* Clear the flag last: the cause of a kick in between is seen below. In the
	 * other order the kick's byte could be read while its flag stays set for
	 * ever. */
	if (b->p[P_KICK].revents || atomic_load(&e->thread.kicked)) {
		if (!hear_kicks(e))
			return false;
		atomic_store(&e->thread.kicked, false);
	}
	for (unsigned i = BED_SOURCES; i < b->n; i++)
		if (b->p[i].revents)
			was_rung(e, b->source[i], &b->fd[i]);
	return true;
}

static bool watches_all(const struct engine *e)
{
	for (int i = 0; i < SOURCE_KINDS; i++)
		if (e->thread.watch[i].left)
			return false;
	return true;
}

/* May there be input in a ring that the thread watches, about which nobody wakes it? */
static bool misses_rings(const struct engine *e)
{
	return !e->thread.watch[SOURCE_RINGS].left && !e->thread.marked;
}

bool engine_mark_rings(const struct engine *e, bool sleeps)
{
	bool any = false;

	each_source(s, &e->by.sleep) any |= (*s)->ops->sleeps(*s, sleeps);
	return any;
}

/* The thread is about to sleep. The next holder of the turn sees that, and wakes it for
 * deadlines earlier than the one found here. What is written without the turn is looked
 * for after the announcement. */
static void lie_down(struct engine *e) REQUIRES(e->core->turn)
{
	const bool watch = watches_all(e);
	uint64_t at = NEVER;

	atomic_store_explicit(&e->thread.sleep_until, 0, memory_order_relaxed);
	atomic_store_explicit(&e->thread.watching, watch, memory_order_relaxed);
	atomic_store(&e->thread.sleeping, true);
	if (!e->thread.watch[SOURCE_RINGS].left)
		e->thread.marked = !engine_mark_rings(e, true);
	if (watch)
		at = engine_deadline(e);
	atomic_store_explicit(&e->thread.sleep_until,
			      at < e->thread.alarm_at ? at : e->thread.alarm_at,
			      memory_order_relaxed);
}

/* Returns until when the thread may sleep; looks at what other threads have left since
 * lie_down(). */
static uint64_t sleeps_until(struct engine *e, uint64_t now)
{
	bool watch = atomic_load_explicit(&e->thread.watching, memory_order_relaxed);

	if (!watch)
		atomic_store(&e->thread.sleeping,
			     true); /* the thread may not have had the turn */
	if (atomic_load(&e->thread.stop) || (!watch && atomic_load(&e->thread.armed)) ||
	    misses_rings(e))
		return now;
	if (!watch)
		return now + WATCH_LOOK_NS;
	if (due_any(e->core))
		return now;
	return atomic_load_explicit(&e->thread.sleep_until, memory_order_relaxed);
}

/* Input comes in bulk, so the thread does not sleep now.  Returns true if it has only let
 * others have the processor; false if it must look at all descriptors. */
static bool stays_up(struct engine *e, uint64_t now)
{
	if (bulk_looks_round(&e->thread.bulk) || atomic_load(&e->thread.kicked) ||
	    atomic_load(&e->thread.stop))
		return false;
	memset(&e->thread.woken, 0, sizeof(e->thread.woken));
	sched_yield();
	bulk_yielded(&e->thread.bulk, now, clock_ns());
	return true;
}

/* Sleeps until there is something to do. Returns false if descriptors are gone. */
static bool nap(struct engine *e, struct bed *b)
{
	uint64_t now = clock_ns(), until;
	struct timespec none = { 0, 0 };

	b->n = BED_SOURCES;
	if (e->thread.up && stays_up(e, now))
		return true;
	until = e->thread.up ? now : sleeps_until(e, now);
	e->thread.slept = now;
	if (until > now)
		set_alarm(e, until);
	b->p[P_KICK] = (struct pollfd){ .fd = e->thread.kick_rx, .events = POLLIN };
	b->p[P_ALARM] = (struct pollfd){ .fd = e->thread.alarm, .events = POLLIN };
	bed_make(b, e, true);
	if (ppoll(b->p, b->n, until > now ? NULL : &none, NULL) < 0 && errno != EINTR)
		return false;
	atomic_store_explicit(&e->thread.sleeping, false, memory_order_relaxed);
	/* If the program closed the descriptors while this thread was awake and opened
	 * its devices again, the new NIC has their numbers, and what has come is its own.
	 */
	return !atomic_load(&e->broken) && see_why(e, b);
}

/* A thread that waits for an event, and sleeps on the sources itself, is as good as one
 * that polls. */
static uint64_t last_poll(const struct engine *e, uint64_t now)
{
	const uint64_t polled = atomic_load_explicit(&e->pollers.last,
						     memory_order_relaxed),
		       waited =
			       atomic_load_explicit(&e->waits.last, memory_order_relaxed);

	if (atomic_load_explicit(&e->waits.asleep, memory_order_relaxed))
		return now;
	return polled > waited ? polled : waited;
}

static struct watch_seen look_around(struct engine *e)
{
	struct watch_seen s = {
		.now = clock_ns(),
		.slept = e->thread.slept,
		.armed = atomic_exchange(&e->thread.armed, false),
	};

	s.polled = last_poll(e, s.now);
	/* A poll that only sets the flag reads no clock, but it came after the thread
	 * went to sleep. */
	if (atomic_exchange_explicit(&e->pollers.polled, false, memory_order_relaxed) &&
	    s.polled < e->thread.slept)
		s.polled = e->thread.slept;
	return s;
}

/* Decides who takes each kind of input in from now on. The turn must be held. */
static void watch_all(struct engine *e, const struct watch_seen *s, struct engine_did did)
	REQUIRES(e->core->turn)
{
	const bool late[SOURCE_KINDS] = { [SOURCE_SOCKETS] = did.socket || did.gathered,
					  [SOURCE_RINGS] = did.one_sided };
	const bool left = e->thread.watch[SOURCE_RINGS].left;

	for (int i = 0; i < SOURCE_KINDS; i++)
		watch_see(&e->thread.watch[i], s, e->thread.woken.by[i], late[i]);
	e->thread.marked = false;
	if (e->thread.watch[SOURCE_RINGS].left && !left &&
	    !atomic_load_explicit(&e->waits.asleep, memory_order_relaxed))
		(void)engine_mark_rings(e, false);
}

/* Was the thread woken for something that pollers do not take in? */
static bool is_called(const struct engine *e)
{
	return e->thread.woken.call || e->thread.woken.by[SOURCE_SOCKETS] ||
	       misses_rings(e) ||
	       (e->thread.woken.by[SOURCE_RINGS] && !e->thread.watch[SOURCE_RINGS].left);
}

/* Is what was taken in, of input that the thread watches, followed by more? */
static bool stays_for(struct engine *e, const struct engine_did *did, uint64_t now)
	REQUIRES(e->core->turn)
{
	const struct watch *w = e->thread.watch;

	bulk_took(&e->thread.bulk, did->socket, now);
	if ((did->one_sided || did->bulk) && !w[SOURCE_RINGS].left)
		bulk_took(&e->thread.bulk, BULK, now);
	return bulk_goes_on(&e->thread.bulk, now) &&
	       !(w[SOURCE_SOCKETS].left && w[SOURCE_RINGS].left);
}

/* Handles one wake-up; the engine's deadline says when the next is due. */
static void wake_up(struct engine *e, const struct bed *b)
{
	struct watch_seen seen = look_around(e);
	struct engine_did did;
	uint64_t now;

	e->thread.up = false;
	if (!watch_takes_turn(&seen, watches_all(e), is_called(e))) {
		for (int i = 0; i < SOURCE_KINDS; i++)
			watch_served(&e->thread.watch[i]);
		return;
	}
	if (!turn_try(&e->core->turn)) {
		/* Another thread had the turn.  It posts, if it does not poll, and soon
		 * polls as a rule. */
		seen.polled = seen.now;
		turn_take(&e->core->turn);
	}
	atomic_store_explicit(&e->thread.serving, true, memory_order_relaxed);
	bed_ready(b, true);
	did = engine_whole_turn(e, clock_ns());
	bed_ready(b, false);
	watch_all(e, &seen, did);
	now = clock_ns();
	e->thread.up = stays_for(e, &did, now);
	/* The next look may take no turn before the thread sleeps. */
	if (e->thread.up)
		atomic_store_explicit(&e->thread.watching, watches_all(e),
				      memory_order_relaxed);
	else
		lie_down(e);
	turn_give(&e->core->turn);
	atomic_store_explicit(&e->thread.serving, false, memory_order_relaxed);
}

static void *engine_main(void *arg)
{
	struct engine *e = arg;
	struct bed b;

	/* If none of these processors is allowed any more, the thread keeps its
	 * maker's. */
	if (e->thread.cpus_known &&
	    sched_setaffinity(0, sizeof(e->thread.cpus), &e->thread.cpus))
		log_info("the engine thread keeps the affinity of the thread that "
			 "opened the device: sched_setaffinity: %s",
			 strerror(errno));
	prctl(PR_SET_NAME, "urnic");
	prctl(PR_SET_TIMERSLACK, 1000); /* 1 us */
	turn_take(&e->core->turn);
	lie_down(e);
	turn_give(&e->core->turn);
	while (!atomic_load(&e->thread.stop) && !atomic_load(&e->broken)) {
		if (!nap(e, &b)) {
			turn_take(&e->core->turn);
			engine_break(e, "sleeping");
			turn_give(&e->core->turn);
			break;
		}
		wake_up(e, &b);
	}
	return NULL;
}

static int make_fds(struct engine *e)
{
	int pair[2], rc;

	/* Connected sockets: a thread that sleeps on one end learns that the other was
	 * closed. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	e->thread.kick_rx = fd_raise(pair[0]);
	e->thread.kick_tx = fd_raise(pair[1]);
	e->thread.alarm_at = NEVER;
	e->thread.alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	rc = e->thread.alarm < 0 ? -errno
				 : fd_identify(e->thread.kick_tx, &e->thread.kick_id);
	if (e->thread.alarm >= 0)
		e->thread.alarm = fd_raise(e->thread.alarm);
	if (rc)
		engine_close_fds(e);
	return rc;
}

void engine_close_fds(struct engine *e)
{
	close(e->thread.kick_rx);
	close(e->thread.kick_tx);
	if (e->thread.alarm >= 0)
		close(e->thread.alarm);
}

int engine_thread_start(struct engine *e)
{
	int rc = make_fds(e);

	if (rc)
		return rc;
	e->thread.cpus_known = placement_choose(&e->thread.cpus) == 0;
	rc = threads_create(&e->thread.id, NULL, engine_main, e);
	if (rc)
		engine_close_fds(e);
	else
		threads_begin();
	e->thread.started = !rc;
	return -rc;
}

void engine_thread_stop(struct engine *e)
{
	if (!e->thread.started)
		return;
	threads_end();
	atomic_store(&e->thread.stop, true);
	engine_kick(e);
	pthread_join(e->thread.id, NULL);
	e->thread.started = false;
	engine_close_fds(e);
}
