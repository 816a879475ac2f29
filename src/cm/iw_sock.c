/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_sock.c - TCP sockets for iWARP's connections; see iw_int.h. */
#include "cm/iw_int.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "sys/sockaddr.h"

static int make_socket(sa_family_t family)
{
	int fd = fd_raise(
		fd_socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	return fd < 0 ? -errno : fd;
}

static void set_option(int fd, int level, int name)
{
	static const int one = 1;

	if (setsockopt(fd, level, name, &one, sizeof(one)))
		log_debug("TCP socket option %d of level %d is refused: %s", name, level,
			  strerror(errno));
}

static int close_failed(int fd)
{
	int rc = -errno;

	close(fd);
	return rc;
}

void iw_sock_set_tos(int fd, const uint8_t ip[16], uint8_t tclass)
{
	bool v4 = addr_is_v4(ip);
	int tos = tclass;

	if (tos && setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
			      v4 ? IP_TOS : IPV6_TCLASS, &tos, sizeof(tos)))
		log_debug("the type of service %d of a TCP connection is refused: %s",
			  tos, strerror(errno));
}

/* Binds to the port in `to`. If the port is in use, even by a connection that has just
 * ended, lets connect() choose one. */
static int bind_near(int fd, struct cm_target *to)
{
	struct sockaddr_storage src;
	socklen_t len =
		sockaddr_set(&src, to->route.src, to->src_port, to->route.ifindex);

	if (!bind(fd, (struct sockaddr *)&src, len))
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
	sockaddr_set_port((struct sockaddr *)&src, 0);
	return bind(fd, (struct sockaddr *)&src, len) ? -errno : 0;
}

int iw_sock_connect(struct cm_target *to, int *fd)
{
	struct sockaddr_storage src, dst;
	socklen_t len =
		sockaddr_set(&dst, to->route.dst, to->dst_port, to->route.ifindex);
	int s = make_socket(dst.ss_family), rc;

	if (s < 0)
		return s;
	iw_sock_set_tos(s, to->route.dst, to->route.tclass);
	rc = bind_near(s, to);
	if (rc) {
		close(s);
		return rc;
	}
	if ((connect(s, (struct sockaddr *)&dst, len) && errno != EINPROGRESS) ||
	    getsockname(s, (struct sockaddr *)&src, &len))
		return close_failed(s);
	to->src_port = sockaddr_port((struct sockaddr *)&src);
	*fd = s;
	return 0;
}

int iw_sock_result(int fd)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	return -err;
}

int iw_sock_bind(const struct cm_service *s, bool any_port)
{
	static const uint8_t any4[16] = { [10] = 0xff, 0xff }, any6[16];
	const uint8_t *ip = !s->any ? s->ip : s->v6 ? any6 : any4;
	struct sockaddr_storage a;
	socklen_t len = sockaddr_set(&a, ip, s->port, s->ifindex);
	int fd = make_socket(a.ss_family), only = s->v6_only;

	/* A host without IPv6 has only the IPv4 wildcard. */
	if (fd == -EAFNOSUPPORT && s->any && !s->v6_only) {
		len = sockaddr_set(&a, any4, s->port, 0);
		fd = make_socket(AF_INET);
	}
	if (fd < 0)
		return fd;
	/* As with any server, connections that have just ended do not keep the port. */
	if (!any_port)
		set_option(fd, SOL_SOCKET, SO_REUSEADDR);
	if (a.ss_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)))
		return close_failed(fd);
	return bind(fd, (struct sockaddr *)&a, len) ? close_failed(fd) : fd;
}

int iw_sock_listen(int fd, int backlog)
{
	if (listen(fd, backlog))
		return -errno;
	set_option(fd, SOL_SOCKET,
		   SO_REUSEADDR); /* allows the next listener to bind the port */
	return 0;
}

int iw_sock_accept(int fd, struct cm_target *from)
{
	struct sockaddr_storage here, peer;
	const struct sockaddr *at = (struct sockaddr *)&here;
	const struct sockaddr *by = (struct sockaddr *)&peer;
	socklen_t len = sizeof(peer);
	int s = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (s < 0)
		return -errno;
	s = fd_raise(s);
	len = sizeof(here);
	if (getsockname(s, (struct sockaddr *)&here, &len))
		return close_failed(s);
	sockaddr_ip(by, from->route.dst);
	sockaddr_ip(at, from->route.src);
	from->dst_port = sockaddr_port(by);
	from->src_port = sockaddr_port(at);
	from->route.ifindex =
		sockaddr_scope(at) ? sockaddr_scope(at) : sockaddr_scope(by);
	memcpy(from->dst_ip, from->route.dst, 16);
	memcpy(from->src_ip, from->route.src, 16);
	return s;
}
