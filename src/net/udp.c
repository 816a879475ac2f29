/* SPDX-License-Identifier: BSD-2-Clause */
/* udp.c - see udp.h. In order: receiving, sending, the sockets. */
#include "net/udp.h"
#include "net/ip_addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/udp_err.h"
#include "net/udp_rx.h"
#include "net/udp_sock.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"

enum {
	DGRAM_MAX = 65507, /* bytes, IPv4; 20 less in IPv6 */
	RUN_MAX = 64,	   /* UDP_MAX_SEGMENTS of older kernels */
	TX_MSGS = 32,
	TX_IOV = 1024, /* UIO_MAXIOV */
	CTL = 256,
	/* sends retried after an error that belongs to an earlier datagram */
	ERRORS = 4,
};

/* Sockets of both families, on one source port of their own. */
struct senders {
	int fd[2];     /* [0]: IPv4, [1]: IPv6; -1: none */
	uint16_t port; /* 0: not open */
};

struct udp {
	struct link link;
	uint16_t port;
	int epfd;
	struct senders tx, ask; /* ask: the kernel reports refusals to these */
	struct fd_id ask_id[2];
	/* Made at open, with the user id that the process has then; not bound yet. -1:
	 * none */
	int unbound[2];
	bool apart; /* see udp_keep_apart() */
	struct fd_id unbound_id[2];
	atomic_int rx[2]; /* bound later; atomic because a sleeping thread reads them */
	bool v6_first, said_gso;
	uint64_t said_drop;
	struct udp_stats stats;

	struct udp_rx *in; /* NULL: nothing is bound */

	/* Scratch for one system call. */
	struct mmsghdr msg[TX_MSGS];
	unsigned first[TX_MSGS + 1]; /* index of the datagram that begins each run */
	union sock_addr addr[TX_MSGS];
	_Alignas(struct cmsghdr) char ctl[TX_MSGS][CTL];
	struct iovec iov[TX_IOV];
};

static struct udp *udp_of(const struct link *link)
{
	return container_of(link, struct udp, link);
}

static bool fd_lost(int err)
{
	return err == EBADF || err == ENOTSOCK;
}

/* --- receiving ----------------------------------------------------------- */

static int udp_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct udp *u = udp_of(link);
	int rc = 0;

	(void)now;
	if (!u->in)
		return 0;
	/* Datagrams left from the last call go first and alone, because their buffers
	 * are in use until the next call. */
	if (!udp_rx_left(u->in)) {
		udp_rx_reset(u->in);
		/* alternate, so that neither family starves the other */
		u->v6_first = !u->v6_first;
		for (int i = 0; i < 2 && !rc; i++) {
			int fd = atomic_load_explicit(&u->rx[i ^ (int)u->v6_first],
						      memory_order_relaxed);

			if (fd >= 0)
				rc = udp_rx_fill(u->in, fd, n);
		}
	}
	return rc ? rc : (int)udp_rx_give(u->in, v, n);
}

static uint64_t udp_deadline(struct link *link)
{
	struct udp *u = udp_of(link);

	return u->in && udp_rx_left(u->in) ? 0 : NEVER;
}

/* --- sending ------------------------------------------------------------- */

static void put_cmsg(struct msghdr *h, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c =
		(struct cmsghdr *)(void *)((char *)h->msg_control + h->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	h->msg_controllen += CMSG_SPACE(len);
}

static void address_v4(struct msghdr *h, union sock_addr *a, const struct dgram *d)
{
	struct in_pktinfo pi = { .ipi_ifindex = (int)ip_of(d)->ifindex };
	int tos = ip_of(d)->tclass, ttl = ip_of(d)->ttl;

	a->v4 = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(ip_of(d)->to.port),
	};
	memcpy(&a->v4.sin_addr, ip_of(d)->to.ip + 12, 4);
	h->msg_namelen = sizeof(a->v4);
	if (addr_is_v4(ip_of(d)->from.ip))
		memcpy(&pi.ipi_spec_dst, ip_of(d)->from.ip + 12, 4);
	put_cmsg(h, IPPROTO_IP, IP_PKTINFO, &pi, sizeof(pi));
	put_cmsg(h, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	if (ttl)
		put_cmsg(h, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
}

static void address_v6(struct msghdr *h, union sock_addr *a, const struct dgram *d)
{
	struct in6_pktinfo pi = { .ipi6_ifindex = ip_of(d)->ifindex };
	int tclass = ip_of(d)->tclass, hops = ip_of(d)->ttl;

	a->v6 = (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = htons(ip_of(d)->to.port),
	};
	memcpy(&a->v6.sin6_addr, ip_of(d)->to.ip, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr) ||
	    IN6_IS_ADDR_MC_LINKLOCAL(&a->v6.sin6_addr))
		a->v6.sin6_scope_id = ip_of(d)->ifindex;
	h->msg_namelen = sizeof(a->v6);
	memcpy(&pi.ipi6_addr, ip_of(d)->from.ip, 16);
	put_cmsg(h, IPPROTO_IPV6, IPV6_PKTINFO, &pi, sizeof(pi));
	put_cmsg(h, IPPROTO_IPV6, IPV6_TCLASS, &tclass, sizeof(tclass));
	if (hops)
		put_cmsg(h, IPPROTO_IPV6, IPV6_HOPLIMIT, &hops, sizeof(hops));
}

/* Returns how many of v[0..n-1] go into one buffer. */
static unsigned run_length(const struct dgram *v, unsigned n)
{
	unsigned k = 1;

	while (k < n && v[k].seg == k)
		k++;
	return k;
}

/* Adds d's pieces to h; one that begins where the last one ends, as in a batch, is one
 * with it. */
static void add_pieces(struct msghdr *h, const struct dgram *d)
{
	for (unsigned i = 0; i < d->iovcnt; i++) {
		struct iovec *last = h->msg_iov + h->msg_iovlen - 1;

		if (h->msg_iovlen &&
		    (char *)last->iov_base + last->iov_len == d->iov[i].iov_base)
			last->iov_len += d->iov[i].iov_len;
		else
			h->msg_iov[h->msg_iovlen++] = d->iov[i];
	}
}

/* Builds message i from the k datagrams at v; its pieces go to iov[at..]. */
static void build(struct udp *u, unsigned i, const struct dgram *v, unsigned k,
		  unsigned at)
{
	struct msghdr *h = &u->msg[i].msg_hdr;

	*h = (struct msghdr){
		.msg_name = &u->addr[i],
		.msg_control = u->ctl[i],
		.msg_iov = &u->iov[at],
	};
	if (addr_is_v4(ip_of(v)->to.ip))
		address_v4(h, &u->addr[i], v);
	else
		address_v6(h, &u->addr[i], v);
	if (k > 1) {
		uint16_t size = (uint16_t)v->len;

		put_cmsg(h, SOL_UDP, UDP_SEGMENT, &size, sizeof(size));
	}
	for (unsigned j = 0; j < k; j++)
		add_pieces(h, &v[j]);
}

static void dropped(struct udp *u, const struct dgram *d, unsigned k, int err)
{
	char ip[INET6_ADDRSTRLEN];

	u->stats.tx_dropped += k;
	if (log_level < LOG_INFO || !log_allowed(&u->said_drop))
		return;
	inet_ntop(AF_INET6, ip_of(d)->to.ip, ip, sizeof(ip));
	log_info("cannot send to %s: %s; %u datagrams of %u bytes dropped, %llu so far",
		 ip, strerror(err), k, d->len, (unsigned long long)u->stats.tx_dropped);
}

/* The kernel refused the run of k datagrams at v with err. If it takes the first one
 * alone, which keeps its identification, this route does not support cutting. */
static int kernel_refused(struct udp *u, int fd, const struct dgram *v, unsigned k,
			  int err)
{
	if (k > 1 && (err == EIO || err == EINVAL)) {
		build(u, 0, v, 1, 0);
		if (sendmsg(fd, &u->msg[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
			u->link.run_max = 1;
			if (!u->said_gso)
				log_warn("UDP_SEGMENT does not work here (%s): "
					 "sending is slower",
					 strerror(err));
			u->said_gso = true;
			u->stats.tx_dropped += k - 1;
			return 0;
		}
		err = errno;
	}
	if (fd_lost(err))
		return -EBADF;
	dropped(u, v, k, err);
	return 0;
}

static bool is_asked(const struct udp *u, const struct dgram *d)
{
	return u->ask.port && ip_of(d)->from.port == u->ask.port;
}

/* Sends a run by the socket that gets ICMP errors. An error makes the socket's next send
 * fail, so sends are retried. The kernel reports full queues to such a socket, too; the
 * run is then lost, as in a network, and nobody waits. Returns k; 0 if the socket is
 * full; -EBADF. */
static int send_told(struct udp *u, const struct dgram *v, unsigned k)
{
	bool v6 = !addr_is_v4(ip_of(v)->to.ip);
	int fd = u->ask.fd[v6], err = EAFNOSUPPORT;

	if (fd >= 0 && !fd_is(fd, &u->ask_id[v6]))
		return -EBADF;
	build(u, 0, v, k, 0);
	for (int i = 0; i <= ERRORS && fd >= 0; i++) {
		if (sendmsg(fd, &u->msg[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return (int)k;
		err = errno;
		if (err == EAGAIN || err == ENOMEM)
			return 0;
		if (err == ENOBUFS)
			break;
	}
	if (fd >= 0 && err != ENOBUFS && kernel_refused(u, fd, v, k, err))
		return -EBADF;
	if (fd < 0 || err == ENOBUFS)
		dropped(u, v, k, err);
	return (int)k;
}

/* Sends datagrams of one socket from the start of v. Returns how many were taken; 0: the
 * socket is full. */
static int send_some(struct udp *u, const struct dgram *v, unsigned n)
{
	bool v4 = addr_is_v4(ip_of(v)->to.ip);
	unsigned msgs = 0, iovs = 0, at = 0, done = 0;
	int fd = u->tx.fd[!v4];

	if (is_asked(u, v))
		return send_told(u, v, run_length(v, n));
	while (at < n && msgs < TX_MSGS && addr_is_v4(ip_of(&v[at])->to.ip) == v4 &&
	       !is_asked(u, &v[at])) {
		unsigned k = run_length(v + at, n - at), need = 0;

		for (unsigned j = 0; j < k; j++)
			need += v[at + j].iovcnt;
		if (iovs + need > TX_IOV)
			break;
		build(u, msgs, v + at, k, iovs);
		u->first[msgs++] = at;
		iovs += need;
		at += k;
	}
	u->first[msgs] = at;
	if (msgs == 0 || fd < 0) {
		unsigned k = run_length(v, n);

		dropped(u, v, k, fd < 0 ? EAFNOSUPPORT : EMSGSIZE);
		return (int)k;
	}
	while (done < msgs) {
		/* A raw system call, because libc's wrapper is a cancellation point. */
		int rc = (int)syscall(SYS_sendmmsg, fd, u->msg + done, msgs - done,
				      MSG_DONTWAIT | MSG_NOSIGNAL);
		unsigned run = u->first[done];

		if (rc > 0) {
			done += (unsigned)rc;
			continue;
		}
		if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
			return (int)run;
		rc = kernel_refused(u, fd, v + run, u->first[done + 1] - run, errno);
		/* kernel_refused() used the scratch memory, so the rest is built again.
		 */
		return rc ? rc : (int)u->first[done + 1];
	}
	return (int)at;
}

static int udp_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct udp *u = udp_of(link);
	unsigned taken = 0;
	int rc;

	(void)now;
	rc = udp_sport(link);
	if (rc < 0)
		return fd_lost(-rc) ? rc : 0;
	while (taken < n) {
		rc = send_some(u, v + taken, n - taken);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		taken += (unsigned)rc;
	}
	return (int)taken;
}

/* --- sockets ------------------------------------------------------------- */

/* The sockets of one user share the port. So they are made when the device is opened,
 * before a daemon changes its user. */
static int make_receiver(struct udp *u, int f)
{
	int fd = udp_receiver(f ? AF_INET6 : AF_INET);

	u->unbound[f] = -1;
	if (fd < 0)
		return fd;
	if (u->apart)
		udp_no_gro(fd);
	if (fd_identify(fd, &u->unbound_id[f]) == 0)
		u->unbound[f] = fd;
	return fd;
}

void udp_keep_apart(struct link *link)
{
	struct udp *u = udp_of(link);

	u->apart = true;
	for (int f = 0; f < 2; f++)
		if (u->unbound[f] >= 0)
			udp_no_gro(u->unbound[f]);
}

int udp_bind(struct link *link, int family)
{
	struct udp *u = udp_of(link);
	int f = family == AF_INET6, fd, rc;

	if (u->rx[f] >= 0)
		return 0;
	if (!u->in)
		u->in = udp_rx_new(u->port);
	if (!u->in)
		return -ENOMEM;
	fd = u->unbound[f];
	/* The program may have closed the socket and reused its number. */
	if (fd < 0 || !fd_is(fd, &u->unbound_id[f]))
		fd = make_receiver(u, f);
	if (fd < 0)
		return fd;
	rc = udp_receive_on(fd, family, u->port);
	if (rc)
		return rc;
	u->unbound[f] = -1;
	u->rx[f] = fd;
	return 0;
}

int udp_sport(struct link *link)
{
	struct udp *u = udp_of(link);
	bool cuts;
	int rc;

	if (u->tx.port)
		return u->tx.port;
	rc = udp_senders(u->tx.fd, &cuts);
	if (rc < 0)
		return rc;
	if (!cuts)
		u->link.run_max = 1;
	u->tx.port = (uint16_t)rc;
	return rc;
}

int udp_ask_port(struct link *link)
{
	struct udp *u = udp_of(link);
	bool cuts;
	int rc;

	if (u->ask.port)
		return u->ask.port;
	rc = udp_senders(u->ask.fd, &cuts);
	if (rc < 0)
		return rc;
	for (int f = 0; f < 2; f++) {
		if (u->ask.fd[f] < 0)
			continue;
		udp_err_enable(u->ask.fd[f], f ? AF_INET6 : AF_INET);
		(void)fd_identify(u->ask.fd[f], &u->ask_id[f]);
	}
	u->ask.port = (uint16_t)rc;
	return rc;
}

size_t udp_refused(struct link *link, uint8_t ip[16], void *quote, size_t max)
{
	struct udp *u = udp_of(link);
	size_t n = 0;

	for (int f = 0; f < 2 && n == 0; f++) {
		int fd = u->ask.fd[f];

		/* The program may have closed the socket and reused its number. */
		if (fd >= 0 && fd_is(fd, &u->ask_id[f]))
			n = udp_err_next(fd, ip, quote, max);
	}
	return n;
}

int udp_join(struct link *link, const uint8_t ip[16], uint32_t ifindex, bool join)
{
	struct udp *u = udp_of(link);
	int v6 = !addr_is_v4(ip), rc;

	if (u->rx[v6] < 0)
		return -ENOTCONN;
	if (v6) {
		struct ipv6_mreq m = { .ipv6mr_interface = ifindex };

		memcpy(&m.ipv6mr_multiaddr, ip, 16);
		rc = setsockopt(u->rx[1], IPPROTO_IPV6,
				join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &m,
				sizeof(m));
	} else {
		struct ip_mreqn m = { .imr_ifindex = (int)ifindex };

		memcpy(&m.imr_multiaddr, ip + 12, 4);
		rc = setsockopt(u->rx[0], IPPROTO_IP,
				join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &m,
				sizeof(m));
	}
	return rc ? -errno : 0;
}

int udp_rx_fd(const struct link *link, int family)
{
	return udp_of(link)->rx[family == AF_INET6];
}

int udp_epoll(const struct link *link)
{
	return udp_of(link)->epfd;
}

const struct udp_stats *udp_stats(const struct link *link)
{
	struct udp *u = udp_of(link);

	if (u->in)
		u->stats.rx_dropped = udp_rx_dropped(u->in);
	return &u->stats;
}

void udp_forked(struct link *link)
{
	struct udp *u = udp_of(link);
	int fds[] = { u->epfd,	    u->rx[0],	   u->rx[1],
		      u->tx.fd[0],  u->tx.fd[1],   u->ask.fd[0],
		      u->ask.fd[1], u->unbound[0], u->unbound[1] };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	u->epfd = u->tx.fd[0] = u->tx.fd[1] = u->ask.fd[0] = u->ask.fd[1] = -1;
	u->unbound[0] = u->unbound[1] = -1;
	u->rx[0] = -1;
	u->rx[1] = -1;
}

static void udp_close(struct link *link)
{
	struct udp *u = udp_of(link);

	udp_forked(link);
	udp_rx_free(u->in);
	free(u);
}

static const struct link_ops udp_ops = {
	.send = udp_send,
	.recv = udp_recv,
	.deadline = udp_deadline,
	.close = udp_close,
};

int udp_open(struct link **out, uint16_t port)
{
	struct udp *u = calloc(1, sizeof(*u));
	int fd;

	if (!u)
		return -ENOMEM;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		free(u);
		return fd;
	}
	u->epfd = fd_raise(fd);
	u->port = port;
	u->tx.fd[0] = u->tx.fd[1] = u->ask.fd[0] = u->ask.fd[1] = -1;
	atomic_init(&u->rx[0], -1);
	atomic_init(&u->rx[1], -1);
	u->link = (struct link){ .ops = &udp_ops, .run_max = RUN_MAX, .mtu = DGRAM_MAX };
	for (int f = 0; f < 2; f++)
		(void)make_receiver(u, f);
	*out = &u->link;
	return 0;
}
