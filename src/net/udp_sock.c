/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_sock.c - see udp_sock.h. */
#include "net/udp_sock.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/rand.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

enum {
	SPORT_MIN = 0xc000,
	SPORTS = 0x4000,
	SOCK_BUF = 4 << 20,    /* bytes; the kernel limits it to its maximum */
	ERRORS_BUF = 64 << 10, /* bytes; no datagrams come, but ICMP errors may */
	OPTIONS = 12,
};

struct option {
	int level, name, value;
	bool needed;
};

static const struct option rx_options[2][OPTIONS] = {
	{
		{ SOL_SOCKET, SO_REUSEPORT, 1, true },
		{ SOL_SOCKET, SO_RCVBUF, SOCK_BUF, false },
		{ SOL_UDP, UDP_GRO, 1, false },
		{ IPPROTO_IP, IP_PKTINFO, 1, true },
		{ IPPROTO_IP, IP_RECVTOS, 1, true },
		{ IPPROTO_IP, IP_RECVTTL, 1, false },
		{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, false },
		{ IPPROTO_IP, IP_MULTICAST_ALL, 0, true },
		{ SOL_SOCKET, SO_RXQ_OVFL, 1, false }, /* for net/ip_id.c */
	},
	{
		{ SOL_SOCKET, SO_REUSEPORT, 1, true },
		{ SOL_SOCKET, SO_RCVBUF, SOCK_BUF, false },
		{ SOL_UDP, UDP_GRO, 1, false },
		{ SOL_UDP, UDP_NO_CHECK6_RX, 1, false }, /* rdma_rxe sends checksum 0 */
		{ IPPROTO_IPV6, IPV6_V6ONLY, 1, true },
		{ IPPROTO_IPV6, IPV6_RECVPKTINFO, 1, true },
		{ IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true },
		{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, false },
		{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, false },
		{ IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, false },
	},
};

/* UDP_NO_CHECK6_TX would rule out UDP_SEGMENT, so checksums are sent. */
static const struct option tx_options[2][OPTIONS] = {
	{
		{ SOL_SOCKET, SO_SNDBUF, SOCK_BUF, false },
		{ SOL_SOCKET, SO_RCVBUF, ERRORS_BUF, false },
		{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, true },
		{ IPPROTO_IP, IP_MULTICAST_LOOP, 1, true },
	},
	{
		{ SOL_SOCKET, SO_SNDBUF, SOCK_BUF, false },
		{ SOL_SOCKET, SO_RCVBUF, ERRORS_BUF, false },
		{ IPPROTO_IPV6, IPV6_V6ONLY, 1, true },
		{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true },
		{ IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1, true },
	},
};

static int make_socket(int f, const struct option *o)
{
	int fd = fd_socket(f ? AF_INET6 : AF_INET,
			   SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	fd = fd < 0 ? -errno : fd_raise(fd);
	if (fd < 0)
		return fd;
	for (; o->level || o->name; o++)
		if (setsockopt(fd, o->level, o->name, &o->value, sizeof(int)) &&
		    o->needed) {
			f = -errno;
			close(fd);
			return f;
		}
	return fd;
}

/* Binds fd to the wildcard address. Returns 0 or -errno. */
static int bind_port(int fd, int f, uint16_t port)
{
	union sock_addr a = { .v6 = { .sin6_family = AF_INET6,
				      .sin6_port = htons(port) } };

	if (!f)
		a.v4 = (struct sockaddr_in){ .sin_family = AF_INET,
					     .sin_port = htons(port) };
	return bind(fd, &a.sa, f ? sizeof(a.v6) : sizeof(a.v4)) ? -errno : 0;
}

/* Makes a socket bound to the wildcard address and port. Returns it, or -errno. */
static int make_bound(int f, uint16_t port, const struct option *o)
{
	int fd = make_socket(f, o), rc;

	if (fd < 0)
		return fd;
	rc = bind_port(fd, f, port);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int udp_receiver(int family)
{
	int f = family == AF_INET6;

	return make_socket(f, rx_options[f]);
}

void udp_no_gro(int fd)
{
	int zero = 0;

	setsockopt(fd, SOL_UDP, UDP_GRO, &zero, sizeof(zero));
}

int udp_receive_on(int fd, int family, uint16_t port)
{
	return bind_port(fd, family == AF_INET6, port);
}

/* Opens senders on a port of this process alone. A filter discards whatever is sent to
 * it. */
static int open_senders(int tx[2], uint16_t port, bool *cuts)
{
	struct sock_filter none = { .code = BPF_RET | BPF_K };
	struct sock_fprog prog = { 1, &none };
	int fd[2], zero = 0, rc;

	*cuts = true;
	for (int f = 0; f < 2; f++) {
		fd[f] = make_bound(f, port, tx_options[f]);
		if (fd[f] < 0 && fd[f] != -EAFNOSUPPORT) {
			rc = fd[f];
			if (f && fd[0] >= 0)
				close(fd[0]);
			return rc;
		}
		if (fd[f] < 0)
			continue;
		setsockopt(fd[f], SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
		if (setsockopt(fd[f], SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero)))
			*cuts = false;
	}
	for (int f = 0; f < 2; f++)
		tx[f] = fd[f] < 0 ? -1 : fd[f];
	return port;
}

int udp_senders(int tx[2], bool *cuts)
{
	unsigned start = (unsigned)(rand_start() % SPORTS);
	int rc = -EADDRINUSE;

	for (unsigned i = 0; i < SPORTS && rc == -EADDRINUSE; i++)
		rc = open_senders(tx, (uint16_t)(SPORT_MIN + (start + i) % SPORTS), cuts);
	return rc;
}
