/* SPDX-License-Identifier: BSD-2-Clause */
/* pollset.c - see pollset.h. */
#include "rsocket/pollset.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "rsocket/wait.h"
#include "sys/held.h"

enum { FEW = 16 };

/* One rpoll(): the socket of each entry that is an rsocket, and how the thread sleeps on
 * it. */
struct set {
	struct pollfd *fds;
	nfds_t n;
	struct rsock **rs;    /* counted; NULL: not an rsocket */
	struct pollfd *sleep; /* one for each entry, then this thread's eventfd */
	nfds_t ours;
	struct rsock *few_rs[FEW];
	struct pollfd few_sleep[FEW + 1];
};

static int make_set(struct set *s, struct pollfd *fds, nfds_t n)
{
	s->fds = fds;
	s->n = n;
	s->ours = 0;
	s->rs = n <= FEW ? s->few_rs : calloc(n, sizeof(struct rsock *));
	s->sleep = n <= FEW ? s->few_sleep : calloc(n + 1, sizeof(*s->sleep));
	if (!s->rs || !s->sleep)
		return -ENOMEM;
	for (nfds_t i = 0; i < n; i++) {
		struct rsock_entry *e = rsock_entry_find(fds[i].fd);

		s->rs[i] = e ? rsock_of(e) : NULL;
		s->ours += e != NULL;
	}
	return 0;
}

static void drop_set(struct set *s)
{
	for (nfds_t i = 0; s->rs && s->sleep && i < s->n; i++)
		if (s->rs[i])
			rsock_put(s->rs[i]);
	if (s->rs != s->few_rs)
		free(s->rs);
	if (s->sleep != s->few_sleep)
		free(s->sleep);
}

static int sleep_in_call(struct pollfd *fds, nfds_t n, int64_t ns)
{
	struct held self = held_sleep();
	int rc = rsock_sleep(fds, n, ns);

	held_wake(self);
	return rc;
}

/* Cleanup if the thread is cancelled while it sleeps. */
static void cancelled(void *arg)
{
	struct rsock_sleeper *sl;

	(void)rsock_sleeper(0, &sl); /* unlinks the thread from the sockets */
	drop_set(arg);
}

static short wanted(const struct pollfd *p)
{
	return (short)(p->events | POLLERR | POLLHUP | POLLNVAL);
}

static short events_of(struct rsock *rs, short asked)
{
	short ev;

	if (rsock_forked(rs))
		return POLLERR;
	pthread_mutex_lock(&rs->lock);
	ev = rs->kind->events(rs, asked);
	pthread_mutex_unlock(&rs->lock);
	return ev;
}

/* Sets revents of our sockets; returns how many have events. */
static int look(struct set *s)
{
	int some = 0;

	for (nfds_t i = 0; i < s->n; i++) {
		if (!s->rs[i])
			continue;
		s->fds[i].revents =
			events_of(s->rs[i], s->fds[i].events) & wanted(&s->fds[i]);
		some += s->fds[i].revents != 0;
	}
	return some;
}

/* Polls the descriptors that are no rsockets, and sets their revents. Returns how many
 * are ready, or -errno. */
static int look_elsewhere(struct set *s)
{
	int some;

	if (s->ours == s->n)
		return 0;
	for (nfds_t i = 0; i < s->n; i++)
		s->sleep[i] = (struct pollfd){ .fd = s->rs[i] ? -1 : s->fds[i].fd,
					       .events = s->fds[i].events };
	some = rsock_sleep(s->sleep, s->n, 0);
	for (nfds_t i = 0; some >= 0 && i < s->n; i++)
		if (!s->rs[i])
			s->fds[i].revents = s->sleep[i].revents;
	return some;
}

static void go_to_sleep(struct set *s, struct rsock_sleeper *sl)
{
	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->rs[i];

		s->sleep[i] =
			(struct pollfd){ .fd = s->fds[i].fd, .events = s->fds[i].events };
		if (!rs)
			continue;
		s->sleep[i].fd = -1;
		if (rsock_forked(rs))
			continue;
		pthread_mutex_lock(&rs->lock);
		rsock_sleeper_link(sl, &rs->waitq);
		rs->kind->arm(rs, s->fds[i].events & (POLLOUT | POLLWRNORM));
		s->sleep[i] = (struct pollfd){ .fd = rs->sleep_fd, .events = POLLIN };
		pthread_mutex_unlock(&rs->lock);
	}
	s->sleep[s->n] = (struct pollfd){ .fd = sl->efd, .events = POLLIN };
}

static void wake_up(struct set *s, struct rsock_sleeper *sl)
{
	rsock_sleeper_unlink(sl);
	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->rs[i];

		if (!rs || rsock_forked(rs))
			continue;
		pthread_mutex_lock(&rs->lock);
		rs->kind->take_events(rs);
		pthread_mutex_unlock(&rs->lock);
	}
}

/* Sleeps once. Looks again after arming, as something may have come since the last
 * look. */
static int sleep_once(struct set *s, int64_t ns)
{
	struct rsock_sleeper *sl;
	int rc = rsock_sleeper(s->ours, &sl);

	if (rc)
		return rc;
	go_to_sleep(s, sl);
	rc = look(s) ? 0 : sleep_in_call(s->sleep, s->n + 1, ns);
	wake_up(s, sl);
	return rc < 0 ? rc : 0;
}

static int poll_set(struct set *s, int ms)
{
	uint64_t begin = rsock_now(),
		 end = begin + (ms > 0 ? (uint64_t)ms * RSOCK_MS : 0);

	for (;;) {
		int some = look(s), others = look_elsewhere(s), rc;
		uint64_t now;

		if (others < 0)
			return others;
		if (some + others || !ms)
			return some + others;
		now = rsock_now();
		if (ms > 0 && now >= end)
			return 0;
		if (now - begin < rsock_spin_ns())
			continue;
		rc = sleep_once(s, ms < 0 ? RSOCK_FOREVER : rsock_left(end));
		if (rc)
			return rc;
		rsock_slept(rsock_now() - begin);
	}
}

/* Is n above the limit of descriptors, as poll(2) checks? Only sets that are too large
 * for the stack are worth asking. */
static bool more_than_descriptors(nfds_t n)
{
	struct rlimit most;

	return n > FEW && !getrlimit(RLIMIT_NOFILE, &most) && n > most.rlim_cur;
}

int rsocket_poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct set s;
	int rc;

	if (more_than_descriptors(n))
		return -EINVAL;
	if (n && !fds)
		return -EFAULT;
	rc = make_set(&s, fds, n);
	pthread_cleanup_push(cancelled, &s);
	if (!rc && s.ours)
		rc = poll_set(&s, ms);
	else if (!rc)
		rc = sleep_in_call(fds, n,
				   ms < 0 ? RSOCK_FOREVER : ms * (int64_t)RSOCK_MS);
	pthread_cleanup_pop(0);
	drop_set(&s);
	return rc;
}

/* --- rselect ------------------------------------------------------------- */

static struct pollfd *to_poll(int nfds, const fd_set *in, const fd_set *out,
			      const fd_set *except, nfds_t *n)
{
	struct pollfd *fds = calloc((size_t)nfds + 1, sizeof(*fds));

	*n = 0;
	for (int fd = 0; fds && fd < nfds; fd++) {
		short ev = (short)((in && FD_ISSET(fd, in) ? POLLIN : 0) |
				   (out && FD_ISSET(fd, out) ? POLLOUT : 0) |
				   (except && FD_ISSET(fd, except) ? POLLPRI : 0));

		if (ev)
			fds[(*n)++] = (struct pollfd){ .fd = fd, .events = ev };
	}
	return fds;
}

static int mark(fd_set *set, const struct pollfd *p, short asked, short got)
{
	if (!set || !(p->events & asked))
		return 0;
	if (!(p->revents & got)) {
		FD_CLR(p->fd, set);
		return 0;
	}
	FD_SET(p->fd, set);
	return 1;
}

static int from_poll(const struct pollfd *fds, nfds_t n, fd_set *in, fd_set *out,
		     fd_set *except)
{
	int bits = 0;

	for (nfds_t i = 0; i < n; i++) {
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
		bits += mark(in, &fds[i], POLLIN, POLLIN | POLLHUP | POLLERR);
		bits += mark(out, &fds[i], POLLOUT, POLLOUT | POLLERR);
		bits += mark(except, &fds[i], POLLPRI, POLLPRI);
	}
	return bits;
}

/* Returns ms, or -1 (for ever) for a time of weeks. tv_usec may be more than a second. */
static int in_ms(const struct timeval *t)
{
	enum { WEEKS_S = 2000000, US = 1000000 };
	int ms;

	if (t->tv_sec > WEEKS_S || t->tv_usec / US > WEEKS_S - t->tv_sec)
		return -1;
	ms = (int)(t->tv_sec + t->tv_usec / US) * 1000;
	return ms + (int)(t->tv_usec % US + 999) / 1000;
}

int rsocket_select(int n, fd_set *in, fd_set *out, fd_set *except,
		   const struct timeval *timeout)
{
	struct pollfd *fds;
	nfds_t count;
	int rc, ms = -1;

	if (n < 0 || n > FD_SETSIZE ||
	    (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return -EINVAL;
	if (timeout)
		ms = in_ms(timeout);
	fds = to_poll(n, in, out, except, &count);
	if (!fds)
		return -ENOMEM;
	pthread_cleanup_push(free, fds);
	rc = rsocket_poll(fds, count, ms);
	pthread_cleanup_pop(0);
	if (rc >= 0)
		rc = from_poll(fds, count, in, out, except);
	free(fds);
	return rc;
}
