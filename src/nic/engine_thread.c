// SPDX-License-Identifier: BSD-2-Clause
/* engine_thread.c - the thread that drives the engine while nobody polls.
 *
 * It sleeps in ppoll().  Sockets and rings may be left to threads that poll
 * (watch.h): then it does not sleep on those sockets, writers to the rings do not
 * kick, and it wakes after WATCH_LOOK_NS to see whether somebody still polls.  It
 * follows small messages of TCP to the processor where they come in (follow.h).
 *
 * To set a timer costs microseconds on a virtual machine, and every message
 * moves a deadline.  So the alarm is only ever set for an earlier time: one
 * that goes off too early is set again for what is then the next deadline.  Nor
 * is the thread told of a deadline behind the alarm.
 *
 * Sleeping is free of lost wake-ups: the thread sets `sleeping` and then
 * looks once more; whoever makes work publishes it and then looks at
 * `sleeping`; all of that in one total order (seq_cst).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cm/cm.h"
#include "core/core.h"
#include "core/due.h"
#include "core/event.h"
#include "host/host.h"
#include "local/local.h"
#include "nic/conn.h"
#include "nic/engine.h"
#include "nic/netdev.h"
#include "nic/placement.h"
#include "nic/registry.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/log.h"

enum { SMALL = 4096 }; /* bytes: a message, not a stream */

enum {
	P_KICK,
	P_ALARM,
	P_MONITOR,
	P_PORT,
	P_HOST,
	P_CM,
	P_SOCKETS, /* these may be left: */
	P_V4 = P_SOCKETS,
	P_V6,
	P_CONNS,
	P_CONN,
	P_ALL = P_CONN + CONNS_FEW
};

void engine_kick(struct engine *e)
{
	int was;

	if (atomic_exchange(&e->kicked, true))
		return;
	was = cancel_hold();
	/* A socket, not an eventfd: should the program have closed it and
	 * taken its number for a file, nothing is written into that. */
	if (send(e->kick_tx, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		log_debug("cannot wake the engine thread: errno %d", errno);
	cancel_let(was);
}

/* When does a thread that watches the sockets have to wake?  Looks at what
 * others may have left since its turn. */
static uint64_t look_again(const struct engine *e, uint64_t now)
{
	if ((due_any(e->core) && e->blocked_until <= now) || local_is_hot(e->core->local))
		return now;
	return atomic_load(&e->deadline);
}

/* The alarm goes off at `at` or earlier. */
static void set_alarm(struct engine *e, uint64_t at)
{
	struct itimerspec when = { .it_value = { (time_t)(at / 1000000000u),
						 (long)(at % 1000000000u) } };

	if (at >= e->alarm_at)
		return;
	if (timerfd_settime(e->alarm, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		e->alarm_at = at;
}

/* It has gone off, and is readable until it is set again. */
static void alarm_off(struct engine *e)
{
	timerfd_settime(e->alarm, 0, &(struct itimerspec){ 0 }, NULL);
	e->alarm_at = NEVER;
}

/* What woke it?  False: descriptors are gone. */
static bool see_why(struct engine *e, const struct pollfd *p, nfds_t n)
{
	char byte[16];

	/* A sleeper keeps what it sleeps on: only the other end of the kick
	 * shows that all were closed.  (Connections come and go.) */
	for (nfds_t i = 0; i < n && i < P_CONN; i++)
		if (p[i].revents & (POLLNVAL | POLLHUP))
			return false;
	e->woken.host = p[P_HOST].revents;
	e->woken.call = p[P_KICK].revents || p[P_PORT].revents || p[P_HOST].revents ||
			p[P_CM].revents;
	e->woken.socket = false;
	e->woken.conn = -1;
	for (nfds_t i = P_SOCKETS; i < n; i++)
		e->woken.socket |= p[i].revents != 0;
	for (nfds_t i = P_CONN; i < n; i++)
		if (p[i].revents)
			e->woken.conn = p[i].fd;
	if (p[P_ALARM].revents)
		alarm_off(e);
	/* The flag last: a kick in between is one whose cause is seen below;
	 * the other way round its byte would go and the flag stay, for ever. */
	if (p[P_KICK].revents || atomic_load(&e->kicked)) {
		while (recv(e->kick_rx, byte, sizeof(byte), MSG_DONTWAIT) > 0)
			;
		atomic_store(&e->kicked, false);
	}
	if (p[P_MONITOR].revents && netdev_monitor_drain(e->monitor))
		registry_refresh();
	return true;
}

static bool has_ring_to_cool(const struct engine *e)
{
	return !e->rings.left && local_is_hot(e->core->local);
}

/* Sleep until something has to be done.  False: descriptors are gone. */
static bool nap(struct engine *e)
{
	/* clang-format off */
	struct pollfd p[P_ALL] = {
		[P_KICK]    = { .fd = e->kick_rx, .events = POLLIN },
		[P_ALARM]   = { .fd = e->alarm, .events = POLLIN },
		[P_MONITOR] = { .fd = netdev_monitor_fd(e->monitor), .events = POLLIN },
		[P_PORT]    = { .fd = port_fd(e->port), .events = POLLIN },
		[P_HOST]    = { .fd = host_fd(e->host), .events = POLLIN },
		[P_CM]      = { .fd = cm_fd(e->core->cm), .events = POLLIN },
		[P_V4]      = { .fd = port_rx_fd(e->port, AF_INET), .events = POLLIN },
		[P_V6]      = { .fd = port_rx_fd(e->port, AF_INET6), .events = POLLIN },
		[P_CONNS]   = { .fd = conns_fd(e->conns), .events = POLLIN },
	};
	/* clang-format on */
	const bool watch = !e->sockets.left && !e->rings.left;
	const nfds_t n = e->sockets.left ? P_SOCKETS : P_ALL;
	uint64_t at, now = clock_ns(), until = watch ? e->alarm_at : now + WATCH_LOOK_NS;
	struct timespec none = { 0, 0 };

	atomic_store_explicit(&e->sleep_until, until, memory_order_relaxed);
	atomic_store_explicit(&e->watching, watch, memory_order_relaxed);
	atomic_store(&e->sleeping, true);
	if (watch) {
		/* Until here the alarm stood there: a kick too many, none too few. */
		at = look_again(e, now);
		if (at < until)
			until = at;
		atomic_store_explicit(&e->sleep_until, until, memory_order_relaxed);
	}
	if (atomic_load(&e->stop) || (!watch && atomic_load(&e->armed)) ||
	    has_ring_to_cool(e))
		until = now;
	e->slept = now;
	if (until > now)
		set_alarm(e, until);
	for (unsigned i = 0; !e->sockets.left && i < CONNS_FEW; i++)
		p[P_CONN + i] = (struct pollfd){ conns_socket(e->conns, i), POLLIN, 0 };
	if (ppoll(p, n, until > now ? NULL : &none, NULL) < 0 && errno != EINTR)
		return false;
	atomic_store_explicit(&e->sleeping, false, memory_order_relaxed);
	return see_why(e, p, n);
}

static struct watch_seen look_around(struct engine *e)
{
	struct watch_seen s = {
		.now = clock_ns(),
		.slept = e->slept,
		.polled = atomic_load_explicit(&e->last_poll, memory_order_relaxed),
		.armed = atomic_exchange(&e->armed, false),
	};

	/* Such a poll reads no clock: it was after that. */
	if (atomic_exchange_explicit(&e->polled, false, memory_order_relaxed) &&
	    s.polled < e->slept)
		s.polled = e->slept;
	return s;
}

/* Writers to rings that are left do not kick, others do.  Turn held. */
static void watch_all(struct engine *e, const struct watch_seen *s, struct engine_did did)
{
	const bool left = e->rings.left;

	watch_see(&e->sockets, s, e->woken.socket, did.socket);
	watch_see(&e->rings, s, e->woken.host, did.one_sided);
	if (!e->rings.left)
		local_rest(e->core->local);
	else if (!left)
		local_leave(e->core->local);
}

/* One wake-up.  The next one is when the engine's deadline says. */
static void wake_up(struct engine *e)
{
	struct watch_seen seen = look_around(e);
	struct engine_did did;

	/* They serve what is left to them, timers too. */
	if ((e->sockets.left || e->rings.left) && !seen.armed && !e->woken.call &&
	    !e->woken.socket && watch_is_first(&seen) && !has_ring_to_cool(e))
		return;
	if (!turn_try(&e->core->turn)) {
		seen.polled = seen.now; /* somebody was at it */
		turn_take(&e->core->turn);
	}
	atomic_store_explicit(&e->serving, true, memory_order_relaxed);
	if (e->woken.host)
		host_run(e->host);
	if (e->woken.conn >= 0)
		conns_told(e->conns, e->woken.conn);
	did = engine_turn(e, clock_ns(), false);
	watch_all(e, &seen, did);
	turn_give(&e->core->turn);
	atomic_store_explicit(&e->serving, false, memory_order_relaxed);
	if (e->woken.conn >= 0 && did.bytes && did.bytes <= SMALL)
		follow(&e->follow, e->woken.conn);
}

static void *engine_main(void *arg)
{
	struct engine *e = arg;
	prctl(PR_SET_NAME, "urnic");
	prctl(PR_SET_TIMERSLACK, 1000); /* ns */
	/* Where none of them is allowed any more it stays where its maker is. */
	if (e->cpus_known && sched_setaffinity(0, sizeof(e->cpus), &e->cpus))
		log_info("the engine's thread has the affinity of the thread that "
			 "opened the device: errno %d",
			 errno);
	while (!atomic_load(&e->stop) && !atomic_load(&e->broken)) {
		if (!nap(e)) {
			turn_take(&e->core->turn);
			engine_break(e, "sleeping");
			turn_give(&e->core->turn);
			break;
		}
		wake_up(e);
	}
	return NULL;
}

static int make_fds(struct engine *e)
{
	int pair[2], rc;

	/* Connected: whoever sleeps on one end learns that the other is gone. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	e->kick_rx = fd_raise(pair[0]);
	e->kick_tx = fd_raise(pair[1]);
	e->alarm_at = NEVER;
	e->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	rc = e->alarm < 0 ? -errno : fd_identify(e->kick_tx, &e->kick_id);
	if (e->alarm >= 0)
		e->alarm = fd_raise(e->alarm);
	if (rc)
		engine_close_fds(e);
	return rc;
}

void engine_close_fds(struct engine *e)
{
	close(e->kick_rx);
	close(e->kick_tx);
	if (e->alarm >= 0)
		close(e->alarm);
}

int engine_thread_start(struct engine *e)
{
	sigset_t all, old;
	int rc = make_fds(e);

	if (rc)
		return rc;
	e->cpus_known = placement_choose(&e->cpus) == 0;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&e->thread, NULL, engine_main, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		engine_close_fds(e);
	else
		e->started = true;
	return -rc;
}

void engine_thread_stop(struct engine *e)
{
	if (!e->started)
		return;
	atomic_store(&e->stop, true);
	engine_kick(e);
	pthread_join(e->thread, NULL);
	e->started = false;
	engine_close_fds(e);
}
