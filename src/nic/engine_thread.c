// SPDX-License-Identifier: BSD-2-Clause
/* engine_thread.c - the thread that drives the engine while nobody polls.
 *
 * It sleeps in ppoll().  As long as no program thread polls it watches the
 * sockets, so every datagram wakes it, and follows small messages of TCP to the
 * processor where they come in (follow.h).  When it finds that a program polls
 * anyway (a poll within PROOF_NS of most of `need` wake-ups, or under way, or
 * since the wake-up before), it leaves the sockets to the pollers and sleeps
 * blindly for a guard interval, 100 us at first and 1 ms at most.  It goes back
 * to the sockets as soon as it wakes and nobody has polled lately, or a CQ is
 * armed; if input was waiting then, the next proof has to be twice as long,
 * until a second of polling has made good for it.  (A program that spins on
 * memory polls in between for its own completions, and comes late for what it
 * awaits.)
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

enum {
	PROOF_NS = 20000,    /* polled so lately: it was about to */
	BETWEEN_NS = 100000, /* ... as often as the thread wakes */
	ACTIVE_NS = 50000,   /* ... it still polls */
	GUARD_FIRST_NS = 100000,
	GUARD_MAX_NS = 1000000,
	NEED_MIN = 16,
	NEED_MAX = 1024,
	LATE_MAX = 4,
	SMALL = 4096, /* bytes: a message, not a stream */
};

enum {
	P_KICK,
	P_ALARM,
	P_MONITOR,
	P_BLIND,
	P_V4 = P_BLIND,
	P_V6,
	P_PORT,
	P_HOST,
	P_CONNS,
	P_CM,
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

static bool polled_within(const struct engine *e, uint64_t now, uint64_t ns)
{
	uint64_t last = atomic_load_explicit(&e->last_poll, memory_order_relaxed);

	return last + ns > now;
}

/* Polls find nothing to do where the thread is always first, and come late where
 * it has the processor that they want: so one since the thread went to sleep
 * counts, too, if that was not long ago, and one while it had no sleep. */
static bool is_active(struct engine *e, uint64_t now)
{
	bool polled = atomic_exchange_explicit(&e->polled, false, memory_order_relaxed);

	if (polled_within(e, now, PROOF_NS))
		return true;
	if (!e->g.slept)
		return polled;
	return now - e->g.rested < BETWEEN_NS &&
	       (polled || polled_within(e, e->g.rested, 0));
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
static bool see_why(struct engine *e, const struct pollfd *p, nfds_t n, bool watch)
{
	char byte[16];

	/* A sleeper keeps what it sleeps on: only the other end of the kick
	 * shows that all were closed.  (Connections come and go.) */
	for (nfds_t i = 0; i < n && i < P_CONN; i++)
		if (p[i].revents & (POLLNVAL | POLLHUP))
			return false;
	/* Who does not watch it must look. */
	e->host_calls = !watch || p[P_HOST].revents || p[P_KICK].revents;
	e->woken_by = -1;
	for (nfds_t i = P_CONN; i < n; i++)
		if (p[i].revents)
			e->woken_by = p[i].fd;
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

/* Sleep until something has to be done.  False: descriptors are gone. */
static bool nap(struct engine *e)
{
	/* clang-format off */
	struct pollfd p[P_ALL] = {
		[P_KICK]    = { .fd = e->kick_rx, .events = POLLIN },
		[P_ALARM]   = { .fd = e->alarm, .events = POLLIN },
		[P_MONITOR] = { .fd = netdev_monitor_fd(e->monitor), .events = POLLIN },
		[P_V4]      = { .fd = port_rx_fd(e->port, AF_INET), .events = POLLIN },
		[P_V6]      = { .fd = port_rx_fd(e->port, AF_INET6), .events = POLLIN },
		[P_PORT]    = { .fd = port_fd(e->port), .events = POLLIN },
		[P_HOST]    = { .fd = host_fd(e->host), .events = POLLIN },
		[P_CONNS]   = { .fd = conns_fd(e->conns), .events = POLLIN },
		[P_CM]      = { .fd = cm_fd(e->core->cm), .events = POLLIN },
	};
	/* clang-format on */
	bool watch = e->g.ns == 0;
	const nfds_t n = watch ? P_ALL : P_BLIND;
	uint64_t at, now = clock_ns(), until = watch ? e->alarm_at : now + e->g.ns;
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
	if (atomic_load(&e->stop) || (!watch && atomic_load(&e->armed)))
		until = now;
	e->g.slept = until > now;
	if (e->g.slept) {
		e->g.rested = now;
		set_alarm(e, until);
	}
	for (unsigned i = 0; watch && i < CONNS_FEW; i++)
		p[P_CONN + i] = (struct pollfd){ conns_socket(e->conns, i), POLLIN, 0 };
	if (ppoll(p, n, e->g.slept ? NULL : &none, NULL) < 0 && errno != EINTR)
		return false;
	atomic_store_explicit(&e->sleeping, false, memory_order_relaxed);
	return see_why(e, p, n, watch);
}

static void watch_again(struct guard_interval *g)
{
	g->ns = 0;
	g->proof = g->late = 0;
}

/* A program polls: let it have the input. */
static void adapt_watching(struct engine *e, uint64_t now)
{
	struct guard_interval *g = &e->g;

	if (is_active(e, now))
		g->proof++;
	else if (g->slept) /* else nobody can be told from the thread */
		g->proof /= 2;
	if (g->proof >= g->need)
		g->ns = GUARD_FIRST_NS;
}

/* Nobody does, or they come too late for it, again and again: take it back. */
static void adapt_blind(struct engine *e, uint64_t now, bool input)
{
	struct guard_interval *g = &e->g;
	bool found = atomic_exchange_explicit(&e->polled, false, memory_order_relaxed);
	bool driven = polled_within(e, g->rested, 0);

	if (polled_within(e, now, ACTIVE_NS)) {
		g->late = 0;
		if (g->ns == GUARD_MAX_NS && g->need > NEED_MIN)
			g->need--;
		g->ns = g->ns * 2 < GUARD_MAX_NS ? g->ns * 2 : GUARD_MAX_NS;
	} else if (input && driven && ++g->late < LATE_MAX) {
		g->ns = GUARD_FIRST_NS;
	} else if (input) {
		g->need = g->need * 2 < NEED_MAX ? g->need * 2 : NEED_MAX;
		watch_again(g);
	} else if (!driven && !found) {
		g->need = g->need / 2 > NEED_MIN ? g->need / 2 : NEED_MIN;
		watch_again(g);
	}
}

/* One wake-up.  The next one is when the engine's deadline says. */
static void wake_up(struct engine *e)
{
	bool blind = e->g.ns != 0;
	struct engine_did did = { .input = false };
	uint64_t woke = clock_ns(), now;

	/* Else they serve it, timers too. */
	if (!blind || !polled_within(e, woke, ACTIVE_NS)) {
		if (!turn_try(&e->core->turn)) {
			/* Somebody was at it. */
			atomic_store_explicit(&e->polled, true, memory_order_relaxed);
			turn_take(&e->core->turn);
		}
		now = clock_ns();
		atomic_store_explicit(&e->serving, true, memory_order_relaxed);
		if (e->host_calls)
			host_run(e->host);
		if (e->woken_by >= 0)
			conns_told(e->conns, e->woken_by);
		did = engine_turn(e, now, false);
		turn_give(&e->core->turn);
		atomic_store_explicit(&e->serving, false, memory_order_relaxed);
		if (e->woken_by >= 0 && did.bytes && did.bytes <= SMALL)
			follow(&e->follow, e->woken_by);
	}
	if (atomic_exchange(&e->armed, false))
		watch_again(&e->g);
	else if (blind)
		adapt_blind(e, woke, did.input);
	else
		adapt_watching(e, woke);
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
	e->g.need = NEED_MIN;
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
