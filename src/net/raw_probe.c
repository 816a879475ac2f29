/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_probe.c - see raw_probe.h. */
#include "net/raw_probe.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "sys/fd.h"

enum { DISCARD = 9 };

void raw_probe_init(struct raw_probe *p)
{
	p->fd[0] = p->fd[1] = -1;
}

static int open_socket(bool v4)
{
	int hops = 1;
	int fd = fd_socket(v4 ? AF_INET : AF_INET6,
			   SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	fd = fd_raise(fd);
	setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_UNICAST_HOPS,
		   &hops, sizeof(hops));
	return fd;
}

void raw_probe_send(struct raw_probe *p, const struct ip_addr *a)
{
	bool v4 = addr_is_v4(a->to.ip);
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(DISCARD) };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(DISCARD),
				    .sin6_scope_id = a->ifindex };
	int *fd = &p->fd[!v4];

	if (*fd < 0)
		*fd = open_socket(v4);
	memcpy(&to4.sin_addr, a->to.ip + 12, 4);
	memcpy(&to6.sin6_addr, a->to.ip, 16);
	/* The neighbour table decides whether the datagram is sent; only the look-up
	 * matters. */
	if (v4)
		(void)sendto(*fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&to4,
			     sizeof(to4));
	else
		(void)sendto(*fd, "", 0, MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&to6,
			     sizeof(to6));
}

void raw_probe_close(struct raw_probe *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->fd[i] >= 0)
			close(p->fd[i]);
		p->fd[i] = -1;
	}
}
