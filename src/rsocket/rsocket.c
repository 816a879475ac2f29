/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket.c - see rsocket.h. Each call finds the socket of a descriptor, locks it, and
 * calls the function of its kind. */
#include "rsocket/rsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>

#include "rsocket/backlog.h"
#include "rsocket/dgram.h"
#include "rsocket/direct.h"
#include "rsocket/listener.h"
#include "rsocket/service.h"
#include "rsocket/streamsock.h"

/* --- around a fork ------------------------------------------------------- */

/* The locks that the forking thread has taken. */
static _Thread_local struct {
	bool backlogs, sleepers, table;
} has __attribute__((tls_model("initial-exec")));

/* Takes the locks in their order (docs/dev/rsocket.md). No verbs call is made under any
 * of them: the NIC's own fork handlers may have run before, and hold its locks. */
static void forking(void)
{
	has.backlogs = rsock_backlogs_lock();
	has.sleepers = rsock_sleepers_lock();
	has.table = rsock_table_lock();
}

static void parent(void)
{
	if (has.table)
		rsock_table_unlock();
	if (has.sleepers)
		rsock_sleepers_unlock();
	if (has.backlogs)
		rsock_backlogs_unlock();
}

static void child(void)
{
	rsock_backlogs_forked();
	rsock_sleepers_forked();
	rsock_table_forked();
	rsock_service_forked();
}

static void watch_forks(void)
{
	pthread_atfork(forking, parent, child);
}

/* --- finding the socket of a descriptor ---------------------------------- */

/* Sets *out to the socket of fd, counted and locked until leave(). Returns 0 or
 * -errno. */
static int enter(int fd, struct rsock **out)
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

static void leave(struct rsock *rs)
{
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
}

static int enter_stream(int fd, int if_not, struct rsock_stream **out)
{
	struct rsock *rs;
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	if (rs->type == SOCK_STREAM) {
		*out = rsock_stream_of(rs);
		return 0;
	}
	leave(rs);
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

static int bad_address(struct rsock *rs, const struct sockaddr *a, socklen_t len)
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
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	rc = bad_address(rs, a, len);
	if (!rc)
		rc = rs->kind->bind(rs, a, len);
	leave(rs);
	return rc;
}

int rsocket_listen(int fd, int backlog)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -EOPNOTSUPP, &st);

	if (rc)
		return rc;
	rc = rsock_listen(st, backlog);
	leave(&st->sock);
	return rc;
}

int rsocket_accept(int fd, struct sockaddr *a, socklen_t *len)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -EOPNOTSUPP, &st);

	if (rc)
		return rc;
	rc = rsock_accept(st, a, len);
	leave(&st->sock);
	return rc;
}

int rsocket_connect(int fd, const struct sockaddr *a, socklen_t len)
{
	struct rsock *rs;
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	rc = bad_address(rs, a, len);
	if (!rc)
		rc = rs->kind->connect(rs, a, len);
	leave(rs);
	return rc;
}

/* a may be NULL if *len is 0: librspreload asks only for the length. */
int rsocket_name(int fd, bool peer, struct sockaddr *a, socklen_t *len)
{
	struct sockaddr none = { 0 };
	struct rsock *rs;
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	if (!len || (!a && *len))
		rc = -EFAULT;
	else if (*len > INT_MAX)
		rc = -EINVAL;
	else
		rc = rs->kind->name(rs, peer, a ? a : &none, len);
	leave(rs);
	return rc;
}

int rsocket_shutdown(int fd, int how)
{
	struct rsock *rs;
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	rc = rs->kind->shutdown(rs, how);
	leave(rs);
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

static int bad_iov(const struct iovec *iov, int n)
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
	ssize_t rc = enter(fd, &rs);

	if (rc)
		return rc;
	rc = bad_iov(iov, n);
	if (!rc)
		rc = rs->kind->send(rs, iov, n, flags, to, tolen);
	leave(rs);
	return rc;
}

ssize_t rsocket_receive(int fd, const struct iovec *iov, int n, int *flags,
			struct sockaddr *from, socklen_t *fromlen)
{
	struct rsock *rs;
	ssize_t rc = enter(fd, &rs);

	if (rc)
		return rc;
	rc = bad_iov(iov, n);
	if (!rc)
		rc = rs->kind->receive(rs, iov, n, flags, from, fromlen);
	leave(rs);
	return rc;
}

int rsocket_set_option(int fd, int level, int name, const void *val, socklen_t len)
{
	struct rsock *rs;
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	if (val)
		rc = rs->kind->set_option(rs, level, name, val, len);
	else
		rc = len ? -EFAULT : -EINVAL;
	leave(rs);
	return rc;
}

int rsocket_get_option(int fd, int level, int name, void *val, socklen_t *len)
{
	struct rsock *rs;
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	if (!val || !len)
		rc = -EFAULT;
	else if (*len > INT_MAX)
		rc = -EINVAL;
	else
		rc = rs->kind->get_option(rs, level, name, val, len);
	leave(rs);
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
	int rc = enter(fd, &rs);

	if (rc)
		return rc;
	rc = do_fcntl(rs, fd, cmd, arg);
	leave(rs);
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
	leave(&st->sock);
	return rc;
}

int rsocket_unmap(int fd, const void *buf, size_t len)
{
	struct rsock_stream *st;
	int rc = enter_stream(fd, -EINVAL, &st);

	if (rc)
		return rc;
	rc = rsock_direct_unmap(st, buf, len);
	leave(&st->sock);
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
	leave(&st->sock);
	return rc;
}
