/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket.c - see rsocket.h. Each call finds the socket of a descriptor, locks it, and
 * calls the function of its kind. */
#include "rsocket/rsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "rsocket/backlog.h"
#include "rsocket/dgsock.h"
#include "rsocket/listener.h"
#include "rsocket/service_thread.h"
#include "rsocket/streamsock.h"
#include "rsocket/wait.h"
#include "sys/held.h"

/* --- around a fork ------------------------------------------------------- */

/* The locks that the forking thread has taken. */
static _Thread_local struct {
	bool backlogs, sleepers, table;
} has __attribute__((tls_model("initial-exec")));

/* Takes the locks in their order (docs/dev/rsocket.md). No verbs call is made under any
 * of them: the NIC's own fork handlers may have run before, and hold its locks. */
static void take_locks(void)
{
	has.backlogs = rsock_backlogs_lock();
	has.sleepers = rsock_sleepers_lock();
	has.table = rsock_table_lock();
}

static void give_locks(void)
{
	if (has.table)
		rsock_table_unlock();
	if (has.sleepers)
		rsock_sleepers_unlock();
	if (has.backlogs)
		rsock_backlogs_unlock();
}

static void renew_locks(void)
{
	rsock_backlogs_forked();
	rsock_sleepers_forked();
	rsock_table_forked();
	rsock_service_forked();
}

static void watch_forks(void)
{
	pthread_atfork(take_locks, give_locks, renew_locks);
}

/* --- finding the socket of a descriptor ---------------------------------- */

/* Sets *out to the socket of fd, counted and locked until leave(). Returns 0 or
 * -errno. */
static int enter_socket(int fd, struct rsock **out)
{
	struct rsock_entry *e = rsock_entry_find(fd);

	if (!e)
		return -EBADF;
	if (rsock_entry_forked(e)) {
		rsock_entry_put(e);
		return -EIO;
	}
	*out = rsock_of(e);
	pthread_mutex_lock(&(*out)->lock);
	return 0;
}

static void leave_socket(struct rsock *rs)
{
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
}

static int enter_stream(int fd, int if_not, struct rsock_stream **out)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	if (rs->type == SOCK_STREAM) {
		*out = rsock_stream_of(rs);
		return 0;
	}
	leave_socket(rs);
	return if_not;
}

/* --- the calls ----------------------------------------------------------- */

int rsocket_open(int domain, int type, int protocol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), rc;
	struct rsock *rs;

	if (domain != AF_INET && domain != AF_INET6 &&
	    (domain != AF_IB || kind != SOCK_STREAM))
		return -EAFNOSUPPORT;
	if ((kind != SOCK_STREAM && kind != SOCK_DGRAM) ||
	    (kind == SOCK_STREAM && protocol && protocol != IPPROTO_TCP) ||
	    (kind == SOCK_DGRAM && protocol && protocol != IPPROTO_UDP))
		return -EPROTONOSUPPORT;
	pthread_once(&once, watch_forks);
	rc = kind == SOCK_DGRAM ? rsock_dgram_new(domain, &rs)
				: rsock_streamsock_new(domain, &rs);
	if (rc)
		return rc;
	rs->nonblock = type & SOCK_NONBLOCK;
	rc = rsock_entry_publish(&rs->entry);
	if (rc < 0)
		rsock_put(rs);
	return rc;
}

static int refuse_address(struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	if (!a && len)
		return -EFAULT;
	if (len < sizeof(struct sockaddr_in))
		return -EINVAL;
	if (rsock_fits(rs, a, len))
		return 0;
	return a->sa_family == AF_INET6 && len < sizeof(struct sockaddr_in6)
		       ? -EINVAL
		       : -EAFNOSUPPORT;
}

int rsocket_bind(int fd, const struct sockaddr *a, socklen_t len)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	rc = refuse_address(rs, a, len);
	if (!rc)
		rc = rs->kind->bind(rs, a, len);
	leave_socket(rs);
	return rc;
}

int rsocket_listen(int fd, int backlog)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -EOPNOTSUPP, &st);

	if (rc)
		return rc;
	rc = rsock_listen(st, backlog);
	leave_socket(&st->sock);
	return rc;
}

int rsocket_accept(int fd, struct sockaddr *a, socklen_t *len)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -EOPNOTSUPP, &st);

	if (rc)
		return rc;
	rc = rsock_accept(st, a, len);
	leave_socket(&st->sock);
	return rc;
}

int rsocket_connect(int fd, const struct sockaddr *a, socklen_t len)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	rc = refuse_address(rs, a, len);
	if (!rc)
		rc = rs->kind->connect(rs, a, len);
	leave_socket(rs);
	return rc;
}

/* a may be NULL if *len is 0: librspreload asks only for the length. */
int rsocket_name(int fd, bool peer, struct sockaddr *a, socklen_t *len)
{
	struct sockaddr none = { 0 };
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	if (!len || (!a && *len))
		rc = -EFAULT;
	else if (*len > INT_MAX)
		rc = -EINVAL;
	else
		rc = rs->kind->name(rs, peer, a ? a : &none, len);
	leave_socket(rs);
	return rc;
}

int rsocket_shutdown(int fd, int how)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	rc = rs->kind->shutdown(rs, how);
	leave_socket(rs);
	return rc;
}

int rsocket_close(int fd)
{
	struct rsock_entry *e = rsock_entry_withdraw(fd);
	struct rsock *rs;
	bool later;

	if (!e)
		return -EBADF;
	rs = rsock_of(e);
	if (rsock_forked(rs)) {
		rsock_put(rs);
		return 0;
	}
	pthread_mutex_lock(&rs->lock);
	later = rs->kind->close(rs);
	rs->closed = true;
	rsock_wake(rs);
	pthread_mutex_unlock(&rs->lock);
	if (later)
		rsock_service_close(rs);
	else
		rsock_put(rs);
	return 0;
}

static int refuse_iov(const struct iovec *iov, int n)
{
	if (n == RSOCKET_TOO_MANY)
		return -EMSGSIZE;
	if (n < 0 || n > IOV_MAX)
		return -EINVAL;
	for (int i = 0; i < n; i++)
		if (!iov || iov[i].iov_len > SSIZE_MAX)
			return iov ? -EINVAL : -EFAULT;
	return 0;
}

ssize_t rsocket_send(int fd, const struct iovec *iov, int n, int flags,
		     const struct sockaddr *to, socklen_t tolen)
{
	struct rsock *rs;
	ssize_t rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	rc = refuse_iov(iov, n);
	if (!rc)
		rc = rs->kind->send(rs, iov, n, flags, to, tolen);
	leave_socket(rs);
	return rc;
}

ssize_t rsocket_receive(int fd, const struct iovec *iov, int n, int *flags,
			struct sockaddr *from, socklen_t *fromlen)
{
	struct rsock *rs;
	ssize_t rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	rc = refuse_iov(iov, n);
	if (!rc)
		rc = rs->kind->receive(rs, iov, n, flags, from, fromlen);
	leave_socket(rs);
	return rc;
}

int rsocket_set_option(int fd, int level, int name, const void *val, socklen_t len)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	if (val)
		rc = rs->kind->set_option(rs, level, name, val, len);
	else
		rc = len ? -EFAULT : -EINVAL;
	leave_socket(rs);
	return rc;
}

int rsocket_get_option(int fd, int level, int name, void *val, socklen_t *len)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	if (!val || !len)
		rc = -EFAULT;
	else if (*len > INT_MAX)
		rc = -EINVAL;
	else
		rc = rs->kind->get_option(rs, level, name, val, len);
	leave_socket(rs);
	return rc;
}

static int do_fcntl(struct rsock *rs, int fd, int cmd, int arg)
{
	int rc;

	switch (cmd) {
	case F_GETFL:
		return O_RDWR | (rs->nonblock ? O_NONBLOCK : 0);
	case F_SETFL:
		rs->nonblock = arg & O_NONBLOCK;
		return 0;
	case F_GETFD:
	case F_SETFD: /* flags of the descriptor itself */
		rc = fcntl(fd, cmd, arg);
		return rc < 0 ? -errno : rc;
	default:
		return -EINVAL;
	}
}

int rsocket_fcntl(int fd, int cmd, int arg)
{
	struct rsock *rs;
	int rc = enter_socket(fd, &rs);

	if (rc)
		return rc;
	rc = do_fcntl(rs, fd, cmd, arg);
	leave_socket(rs);
	return rc;
}

/* --- direct placement ---------------------------------------------------- */

int rsocket_map(int fd, void *buf, size_t len, int prot, off_t offset, off_t *at)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -ENOTCONN, &st);

	if (rc)
		return rc;
	rc = rsock_direct_map(st, buf, len, prot, offset, at);
	leave_socket(&st->sock);
	return rc;
}

int rsocket_unmap(int fd, const void *buf, size_t len)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -EINVAL, &st);

	if (rc)
		return rc;
	rc = rsock_direct_unmap(st, buf, len);
	leave_socket(&st->sock);
	return rc;
}

ssize_t rsocket_write_at(int fd, const void *buf, size_t count, uint64_t offset,
			 int flags)
{
	struct rsock_stream *st;
	ssize_t rc = enter_stream(fd, -EOPNOTSUPP, &st);

	if (rc)
		return rc;
	rc = rsock_direct_write(st, buf, count, offset, flags);
	leave_socket(&st->sock);
	return rc;
}

/* --- rpoll(): the set of descriptors ------------------------------------- */

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
static void poll_cancelled(void *arg)
{
	struct rsock_sleeper *sl;

	(void)rsock_sleeper(0, &sl); /* unlinks the thread from the sockets */
	drop_set(arg);
}

static short wanted_events(const struct pollfd *p)
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
static int look_at_ours(struct set *s)
{
	int some = 0;

	for (nfds_t i = 0; i < s->n; i++) {
		if (!s->rs[i])
			continue;
		s->fds[i].revents =
			events_of(s->rs[i], s->fds[i].events) & wanted_events(&s->fds[i]);
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
static int sleep_on_set(struct set *s, int64_t ns)
{
	struct rsock_sleeper *sl;
	int rc = rsock_sleeper(s->ours, &sl);

	if (rc)
		return rc;
	go_to_sleep(s, sl);
	rc = look_at_ours(s) ? 0 : sleep_in_call(s->sleep, s->n + 1, ns);
	wake_up(s, sl);
	return rc < 0 ? rc : 0;
}

static int poll_set(struct set *s, int ms)
{
	uint64_t begin = rsock_now(),
		 end = begin + (ms > 0 ? (uint64_t)ms * RSOCK_MS : 0);

	for (;;) {
		int some = look_at_ours(s), others = look_elsewhere(s), rc;
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
		rc = sleep_on_set(s, ms < 0 ? RSOCK_FOREVER : rsock_left(end));
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
	pthread_cleanup_push(poll_cancelled, &s);
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

static int mark_set(fd_set *set, const struct pollfd *p, short asked, short got)
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
		bits += mark_set(in, &fds[i], POLLIN, POLLIN | POLLHUP | POLLERR);
		bits += mark_set(out, &fds[i], POLLOUT, POLLOUT | POLLERR);
		bits += mark_set(except, &fds[i], POLLPRI, POLLPRI);
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
