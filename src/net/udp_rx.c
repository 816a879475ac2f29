/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_rx.c - see udp_rx.h. */
#include "net/udp_rx.h"
#include "net/ip_addr.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Datagrams that one recvmsg() call received. */
struct rx_msg {
	struct dgram head; /* the address is the same in all segments */
	uint32_t len, off, gso;
	uint16_t seg;
};

enum { RX_MSGS = 16, RX_BUF = 65536, RX_CTL = 256 };

struct udp_rx {
	uint16_t port;
	unsigned got, next; /* m[next..got-1] are not given out yet */
	struct rx_msg m[RX_MSGS];
	uint64_t dropped;
	uint32_t lost;		/* count of the IPv4 socket */
	uint8_t (*buf)[RX_BUF]; /* [RX_MSGS] */

	/* For one system call. */
	struct mmsghdr msg[RX_MSGS];
	union sock_addr addr[RX_MSGS];
	struct iovec iov[RX_MSGS];
	_Alignas(struct cmsghdr) char ctl[RX_MSGS][RX_CTL];
};

static int cmsg_int(const struct cmsghdr *c)
{
	int n = 0;
	size_t len = c->cmsg_len - CMSG_LEN(0);

	if (len == 1) /* IP_TOS is one byte */
		return *CMSG_DATA(c);
	memcpy(&n, CMSG_DATA(c), len < sizeof(n) ? len : sizeof(n));
	return n;
}

/* Returns how many datagrams the socket has lost since the last call; a new socket's
 * count begins again. */
static uint32_t lost_since(struct udp_rx *r, uint32_t count)
{
	uint32_t n = count > r->lost ? count - r->lost : 0;

	r->lost = count;
	return n;
}

static void read_cmsg(struct udp_rx *r, struct rx_msg *m, const struct cmsghdr *c)
{
	struct dgram *d = &m->head;
	int kind = c->cmsg_level << 8 | c->cmsg_type;

	switch (kind) {
	case IPPROTO_IP << 8 | IP_PKTINFO: {
		struct in_pktinfo pi;

		memcpy(&pi, CMSG_DATA(c), sizeof(pi));
		addr_map_v4(ip_of(d)->to.ip, &pi.ipi_addr);
		ip_of(d)->ifindex = (uint32_t)pi.ipi_ifindex;
		break;
	}
	case IPPROTO_IPV6 << 8 | IPV6_PKTINFO: {
		struct in6_pktinfo pi;

		memcpy(&pi, CMSG_DATA(c), sizeof(pi));
		memcpy(ip_of(d)->to.ip, &pi.ipi6_addr, 16);
		ip_of(d)->ifindex = pi.ipi6_ifindex;
		break;
	}
	case IPPROTO_IP << 8 | IP_TOS:
	case IPPROTO_IPV6 << 8 | IPV6_TCLASS:
		ip_of(d)->tclass = (uint8_t)cmsg_int(c);
		break;
	case IPPROTO_IP << 8 | IP_TTL:
	case IPPROTO_IPV6 << 8 | IPV6_HOPLIMIT:
		ip_of(d)->ttl = (uint8_t)cmsg_int(c);
		break;
	case SOL_SOCKET << 8 | SO_RXQ_OVFL:
		d->lost = lost_since(r, (uint32_t)cmsg_int(c));
		break;
	case SOL_UDP << 8 | UDP_GRO:
		m->gso = (uint32_t)cmsg_int(c);
		break;
	default:
		break;
	}
}

/* Prepares the message headers after each use rather than before each call: polling an
 * empty socket is the common case. */
static void prepare_msg(struct udp_rx *r, unsigned i)
{
	r->iov[i] = (struct iovec){ r->buf[i], RX_BUF };
	r->msg[i].msg_hdr = (struct msghdr){
		.msg_name = &r->addr[i],
		.msg_namelen = sizeof(r->addr[i]),
		.msg_iov = &r->iov[i],
		.msg_iovlen = 1,
		.msg_control = r->ctl[i],
		.msg_controllen = RX_CTL,
	};
}

static void read_msg(struct udp_rx *r, struct rx_msg *m, unsigned i)
{
	struct msghdr *h = &r->msg[i].msg_hdr;
	struct dgram *d = &m->head;

	memset(m, 0, sizeof(*m));
	m->len = r->msg[i].msg_len;
	if (r->addr[i].sa.sa_family == AF_INET) {
		addr_map_v4(ip_of(d)->from.ip, &r->addr[i].v4.sin_addr);
		ip_of(d)->from.port = ntohs(r->addr[i].v4.sin_port);
	} else {
		memcpy(ip_of(d)->from.ip, &r->addr[i].v6.sin6_addr, 16);
		ip_of(d)->from.port = ntohs(r->addr[i].v6.sin6_port);
		d->ip_id_exact = true; /* IPv6 has no identification */
	}
	ip_of(d)->to.port = r->port;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		read_cmsg(r, m, c);
	if (m->gso == 0 || m->gso > m->len)
		m->gso = m->len;
	if (m->len == 0 || h->msg_flags & MSG_TRUNC) {
		m->len = 0;
		r->dropped++;
	}
	prepare_msg(r, i);
}

int udp_rx_fill(struct udp_rx *r, int fd, unsigned n)
{
	unsigned at = r->got;
	int got;

	if (n > RX_MSGS - at)
		n = RX_MSGS - at;
	/* A raw system call, because libc's wrapper is a cancellation point. */
	got = (int)syscall(SYS_recvmmsg, fd, &r->msg[at], n, MSG_DONTWAIT, NULL);
	if (got < 0)
		return errno == EBADF || errno == ENOTSOCK ? -EBADF : 0;
	for (unsigned i = at; i < at + (unsigned)got; i++)
		read_msg(r, &r->m[i], i);
	r->got += (unsigned)got;
	return 0;
}

static void give(struct udp_rx *r, struct rx_msg *m, struct dgram *d)
{
	uint8_t *buf = r->buf[m - r->m];
	uint32_t len = m->len - m->off < m->gso ? m->len - m->off : m->gso;

	*d = m->head;
	m->head.lost = 0;
	/* A peer's GSO numbers its segments from 0, as ours does. */
	d->ip_id = d->ip_id_exact ? 0 : m->seg;
	d->seg = m->seg;
	d->len = len;
	d->one = (struct iovec){ buf + m->off, len };
	d->iov = &d->one;
	d->iovcnt = 1;
	m->off += len;
	m->seg++;
}

unsigned udp_rx_give(struct udp_rx *r, struct dgram *v, unsigned n)
{
	unsigned out = 0;

	while (r->next < r->got && out < n) {
		struct rx_msg *m = &r->m[r->next];

		if (m->off < m->len)
			give(r, m, &v[out++]);
		if (m->off >= m->len)
			r->next++;
	}
	return out;
}

bool udp_rx_left(const struct udp_rx *r)
{
	return r->next < r->got;
}

void udp_rx_reset(struct udp_rx *r)
{
	r->next = r->got = 0;
}

uint64_t udp_rx_dropped(const struct udp_rx *r)
{
	return r->dropped;
}

struct udp_rx *udp_rx_new(uint16_t port)
{
	struct udp_rx *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->port = port;
	/* Large enough for malloc() to map it: pages take memory only once they are
	 * used. */
	r->buf = malloc(sizeof(*r->buf) * RX_MSGS);
	if (!r->buf) {
		free(r);
		return NULL;
	}
	for (unsigned i = 0; i < RX_MSGS; i++)
		prepare_msg(r, i);
	return r;
}

void udp_rx_free(struct udp_rx *r)
{
	if (!r)
		return;
	free(r->buf);
	free(r);
}
