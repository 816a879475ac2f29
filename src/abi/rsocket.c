/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket.c - the exported symbols of <rdma/rsocket.h>: converts arguments and errno;
 * src/rsocket does the work. Also the three functions of rdma_cm that rsockets need
 * (rsocket/os.h). */
#include <fcntl.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <string.h>

#include "abi/rdmacm.h"
#include "rdmacm/bind.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"
#include "sys/addr.h"

/* --- functions of rdma_cm that rsockets need ----------------------------- */

void rsock_rdma_stop(struct rdma_cm_id *id)
{
	held_begin();
	cma_stop(cma_of(id));
	held_end();
}

int rsock_rdma_source(const struct sockaddr *to, struct sockaddr_storage *from)
{
	int rc;

	held_begin();
	rc = cma_find_source(to, from);
	held_end();
	return rc;
}

int rsock_rdma_port(const uint8_t ip[16], uint32_t ifindex, struct rsock_port *out)
{
	struct cma_place at;
	int rc;

	held_begin();
	rc = cma_init();
	if (!rc)
		rc = addr_is_loopback(ip) ? cma_loopback(ip, CMA_ROCE, &at)
					  : cma_dev_of(ip, ifindex, CMA_ROCE, &at);
	held_end();
	if (rc)
		return rc;
	*out = (struct rsock_port){ .ctx = at.dev->ctx,
				    .pd = at.dev->pd,
				    .sgid_index = (uint8_t)at.index,
				    .mtu = 128u << cma_dev_mtu(at.dev) };
	memcpy(out->gid, at.ip, sizeof(out->gid));
	return 0;
}

/* --- cancellation -------------------------------------------------------- */

/* Begins a call that is a cancellation point in POSIX: it can be cancelled here, and
 * while it sleeps. */
static void begin_call(void)
{
	pthread_testcancel();
	held_begin();
}

static ssize_t end_call(ssize_t rc)
{
	held_end();
	return cma_result(rc);
}

/* Begins a call that cannot be cancelled at all. */
static int begin_whole(void)
{
	return cancel_hold();
}

static int end_whole(int was, int rc)
{
	cancel_let(was);
	return (int)cma_result(rc);
}

/* --- sockets ------------------------------------------------------------- */

EXPORT int rsocket(int domain, int type, int protocol)
{
	int was = begin_whole();

	return end_whole(was, rsocket_open(domain, type, protocol));
}

EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	int was = begin_whole();

	return end_whole(was, rsocket_bind(socket, addr, addrlen));
}

EXPORT int rlisten(int socket, int backlog)
{
	int was = begin_whole();

	return end_whole(was, rsocket_listen(socket, backlog));
}

EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	begin_call();
	return (int)end_call(rsocket_accept(socket, addr, addrlen));
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	begin_call();
	return (int)end_call(rsocket_connect(socket, addr, addrlen));
}

EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	int was = begin_whole();

	return end_whole(was, rsocket_name(socket, true, addr, addrlen));
}

EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	int was = begin_whole();

	return end_whole(was, rsocket_name(socket, false, addr, addrlen));
}

EXPORT int rshutdown(int socket, int how)
{
	int was = begin_whole();

	return end_whole(was, rsocket_shutdown(socket, how));
}

EXPORT int rclose(int socket)
{
	int was = begin_whole();

	return end_whole(was, rsocket_close(socket));
}

/* --- sending ------------------------------------------------------------- */

/* A single buffer may have any length; of several buffers an overlong one is an error
 * (rsocket_send()). */
static size_t at_most(size_t len)
{
	return len > SSIZE_MAX ? SSIZE_MAX : len;
}

EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		       const struct sockaddr *dest_addr, socklen_t addrlen)
{
	const struct iovec iov = { (void *)(uintptr_t)buf, at_most(len) };

	begin_call();
	return end_call(rsocket_send(socket, &iov, 1, flags, dest_addr, addrlen));
}

EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	return rsendto(socket, buf, len, flags, NULL, 0);
}

static int iovs_of(const struct msghdr *msg)
{
	return msg->msg_iovlen > IOV_MAX ? RSOCKET_TOO_MANY : (int)msg->msg_iovlen;
}

EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (!msg)
		return rwritev(socket, NULL, 1);
	if (msg->msg_controllen)
		return cma_result(-EOPNOTSUPP);
	begin_call();
	return end_call(rsocket_send(socket, msg->msg_iov, iovs_of(msg), flags,
				     msg->msg_name, msg->msg_namelen));
}

EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	begin_call();
	return end_call(rsocket_send(socket, iov, iovcnt, 0, NULL, 0));
}

/* --- receiving ----------------------------------------------------------- */

EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags,
			 struct sockaddr *src_addr, socklen_t *addrlen)
{
	const struct iovec iov = { buf, at_most(len) };

	begin_call();
	return end_call(rsocket_receive(socket, &iov, 1, &flags, src_addr, addrlen));
}

EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	ssize_t rc;

	if (!msg)
		return rreadv(socket, NULL, 1);
	begin_call();
	rc = rsocket_receive(socket, msg->msg_iov, iovs_of(msg), &flags, msg->msg_name,
			     &msg->msg_namelen);
	if (rc >= 0) {
		msg->msg_controllen = 0;
		msg->msg_flags = flags;
	}
	return end_call(rc);
}

EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	int flags = 0;

	begin_call();
	return end_call(rsocket_receive(socket, iov, iovcnt, &flags, NULL, NULL));
}

/* --- direct placement ---------------------------------------------------- */

EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	int was = begin_whole();
	off_t at = 0;
	int rc = end_whole(was, rsocket_map(socket, buf, len, prot, offset, &at));

	(void)flags;
	return rc ? rc : at;
}

EXPORT int riounmap(int socket, void *buf, size_t len)
{
	int was = begin_whole();

	return end_whole(was, rsocket_unmap(socket, buf, len));
}

EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	begin_call();
	return (size_t)end_call(
		rsocket_write_at(socket, buf, count, (uint64_t)offset, flags));
}

/* --- options ------------------------------------------------------------- */

EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval,
		       socklen_t optlen)
{
	int was = begin_whole();

	return end_whole(was, rsocket_set_option(socket, level, optname, optval, optlen));
}

EXPORT int rgetsockopt(int socket, int level, int optname, void *optval,
		       socklen_t *optlen)
{
	int was = begin_whole();

	return end_whole(was, rsocket_get_option(socket, level, optname, optval, optlen));
}

EXPORT int rfcntl(int socket, int cmd, ...)
{
	int arg = 0, was;

	if (cmd == F_SETFL || cmd == F_SETFD) {
		va_list args;

		va_start(args, cmd);
		arg = va_arg(args, int);
		va_end(args);
	}
	was = begin_whole();
	return end_whole(was, rsocket_fcntl(socket, cmd, arg));
}

/* --- waiting for several sockets ----------------------------------------- */

EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	begin_call();
	return (int)end_call(rsocket_poll(fds, nfds, timeout));
}

EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		   struct timeval *timeout)
{
	begin_call();
	return (int)end_call(rsocket_select(nfds, readfds, writefds, exceptfds, timeout));
}
