/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_sock.c - see iw_sock.h. */
#include "cm/iw_sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/dgram.h"
#include "sys/fd.h"
#include "sys/log.h"

union addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

static socklen_t put_addr(union addr *a, const uint8_t ip[16], uint16_t port,
			  uint32_t ifindex)
{
	memset(a, 0, sizeof(*a));
	if (addr_is_v4(ip)) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons(port);
		memcpy(&a->v4.sin_addr, ip + 12, 4);
		return sizeof(a->v4);
	}
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = htons(port);
	memcpy(&a->v6.sin6_addr, ip, 16);
	if (is_link_local(ip))
		a->v6.sin6_scope_id = ifindex;
	return sizeof(a->v6);
}

static void get_addr(const union addr *a, uint8_t ip[16], uint16_t *port,
		     uint32_t *ifindex)
{
	if (a->sa.sa_family == AF_INET) {
		memset(ip, 0, 10);
		ip[10] = ip[11] = 0xff;
		memcpy(ip + 12, &a->v4.sin_addr, 4);
		*port = ntohs(a->v4.sin_port);
		return;
	}
	memcpy(ip, &a->v6.sin6_addr, 16);
	*port = ntohs(a->v6.sin6_port);
	if (is_link_local(ip))
		*ifindex = a->v6.sin6_scope_id;
}

static int make(sa_family_t family)
{
	int fd = fd_raise(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	return fd < 0 ? -errno : fd;
}

static void set(int fd, int level, int name)
{
	static const int one = 1;

	if (setsockopt(fd, level, name, &one, sizeof(one)))
		log_debug("socket option %d of level %d is refused: errno %d", name,
			  level, errno);
}

static int fail(int fd)
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
		log_debug("the type of service is refused: errno %d", errno);
}

/* The port that is wanted; or, where anything of this host has it, a connection
 * that has just ended too, one that is chosen as it connects. */
static int bind_near(int fd, struct cm_target *to)
{
	union addr src;
	socklen_t len = put_addr(&src, to->way.src, to->src_port, to->way.ifindex);

	if (!bind(fd, &src.sa, len))
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
	put_addr(&src, to->way.src, 0, to->way.ifindex);
	return bind(fd, &src.sa, len) ? -errno : 0;
}

int iw_sock_connect(struct cm_target *to, int *fd)
{
	union addr src, dst;
	socklen_t len = put_addr(&dst, to->way.dst, to->dst_port, to->way.ifindex);
	int s = make(dst.sa.sa_family), rc;

	if (s < 0)
		return s;
	iw_sock_set_tos(s, to->way.dst, to->way.tclass);
	rc = bind_near(s, to);
	if (rc) {
		close(s);
		return rc;
	}
	if ((connect(s, &dst.sa, len) && errno != EINPROGRESS) ||
	    getsockname(s, &src.sa, &len))
		return fail(s);
	to->src_port = ntohs(src.sa.sa_family == AF_INET ? src.v4.sin_port :
							   src.v6.sin6_port);
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
	union addr a;
	socklen_t len = put_addr(&a, ip, s->port, s->ifindex);
	int fd = make(a.sa.sa_family), only = s->v6_only;

	/* A host without IPv6. */
	if (fd == -EAFNOSUPPORT && s->any && !s->v6_only) {
		len = put_addr(&a, any4, s->port, 0);
		fd = make(AF_INET);
	}
	if (fd < 0)
		return fd;
	/* As for any server: connections that have just ended are no obstacle. */
	if (!any_port)
		set(fd, SOL_SOCKET, SO_REUSEADDR);
	if (a.sa.sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)))
		return fail(fd);
	return bind(fd, &a.sa, len) ? fail(fd) : fd;
}

int iw_sock_listen(int fd, int backlog)
{
	if (listen(fd, backlog))
		return -errno;
	set(fd, SOL_SOCKET, SO_REUSEADDR);	/* for who listens after us */
	return 0;
}

int iw_sock_accept(int fd, struct cm_target *from)
{
	union addr here, peer;
	socklen_t len = sizeof(peer);
	int s = accept4(fd, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (s < 0)
		return -errno;
	s = fd_raise(s);
	len = sizeof(here);
	if (getsockname(s, &here.sa, &len))
		return fail(s);
	get_addr(&peer, from->way.dst, &from->dst_port, &from->way.ifindex);
	get_addr(&here, from->way.src, &from->src_port, &from->way.ifindex);
	memcpy(from->dst_ip, from->way.dst, 16);
	memcpy(from->src_ip, from->way.src, 16);
	return s;
}
