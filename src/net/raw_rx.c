/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_rx.c - see raw_rx.h.
 *
 * A run of datagrams may arrive as one with all their payload: if the sender's system
 * left the cutting (GSO) to an adapter and there is none, as between two namespaces, or
 * if ours merged it (GRO). The header before it (PACKET_VNET_HDR) has the size of
 * each.
 */
#include "net/raw_rx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "net/raw_frame.h"

enum { RX_MSGS = 16, RX_BUF = 65536 + 64, RX_CTL = 64, GSO_UDP_L4 = 5 };

struct raw_msg {
	/* headers of the next datagram; len: bytes left of the message */
	struct dgram head;
	uint32_t size; /* payload of each datagram but the last, bytes */
	uint16_t seg;
};

struct raw_rx {
	uint16_t port;
	unsigned got, next; /* m[next..got-1] are not given out yet */
	struct raw_msg m[RX_MSGS];
	uint8_t (*buf)[RX_BUF]; /* [RX_MSGS] */

	/* For one system call. */
	struct mmsghdr msg[RX_MSGS];
	struct sockaddr_ll addr[RX_MSGS];
	struct virtio_net_hdr vnet[RX_MSGS];
	struct iovec iov[RX_MSGS][2];
	_Alignas(struct cmsghdr) char ctl[RX_MSGS][RX_CTL];
};

/* Returns where the IP header begins, after the link-layer header of the interface. */
static size_t ip_at(struct msghdr *h)
{
	struct tpacket_auxdata aux;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		return aux.tp_net;
	}
	return SIZE_MAX;
}

/* Parses the n bytes after the Ethernet header of message i. */
static bool parse(struct raw_rx *r, struct dgram *d, unsigned i, uint8_t *at, size_t n)
{
	if (r->addr[i].sll_protocol != htons(RAW_TYPE_V1))
		return raw_frame_parse(d, at, n, r->port);
	return r->vnet[i].gso_type == VIRTIO_NET_HDR_GSO_NONE && raw_grh_parse(d, at, n);
}

/* Returns false if the message is no datagram of ours. */
static bool read_msg(struct raw_rx *r, struct raw_msg *m, unsigned i)
{
	const struct virtio_net_hdr *v = &r->vnet[i];
	size_t n = r->msg[i].msg_len, at = ip_at(&r->msg[i].msg_hdr);

	if (n < sizeof(*v) || r->msg[i].msg_hdr.msg_flags & MSG_TRUNC ||
	    at > n - sizeof(*v) ||
	    !parse(r, &m->head, i, r->buf[i] + at, n - sizeof(*v) - at))
		return false;
	ip_of(&m->head)->ifindex = (uint32_t)r->addr[i].sll_ifindex;
	m->seg = 0;
	m->size = m->head.len;
	if (v->gso_type == VIRTIO_NET_HDR_GSO_NONE)
		return true;
	m->size = v->gso_size;
	return v->gso_type == GSO_UDP_L4 && m->size > 0;
}

/* Prepares the message headers after each use rather than before each call. */
static void prepare_msg(struct raw_rx *r, unsigned i)
{
	r->iov[i][0] = (struct iovec){ &r->vnet[i], sizeof(r->vnet[i]) };
	r->iov[i][1] = (struct iovec){ r->buf[i], RX_BUF };
	r->msg[i].msg_hdr = (struct msghdr){
		.msg_name = &r->addr[i],
		.msg_namelen = sizeof(r->addr[i]),
		.msg_iov = r->iov[i],
		.msg_iovlen = 2,
		.msg_control = r->ctl[i],
		.msg_controllen = RX_CTL,
	};
}

int raw_rx_fill(struct raw_rx *r, int fd)
{
	int got;

	r->next = r->got = 0;
	/* A raw system call, because libc's wrapper is a cancellation point. */
	got = (int)syscall(SYS_recvmmsg, fd, r->msg, RX_MSGS, MSG_DONTWAIT, NULL);
	if (got < 0)
		return errno == EBADF || errno == ENOTSOCK ? -EBADF : 0;
	for (unsigned i = 0; i < (unsigned)got; i++) {
		if (read_msg(r, &r->m[r->got], i))
			r->got++;
		prepare_msg(r, i);
	}
	return 0;
}

static void give(struct raw_msg *m, struct dgram *d)
{
	uint32_t len = m->head.len < m->size ? m->head.len : m->size;
	uint8_t *at = m->head.one.iov_base;

	*d = m->head;
	d->seg = m->seg;
	/* The kernel increments the identification in each segment that it cuts. */
	d->ip_id = addr_is_v4(ip_of(d)->to.ip) ? (uint16_t)(m->head.ip_id + m->seg) : 0;
	d->len = len;
	d->one = (struct iovec){ at, len };
	d->iov = &d->one;
	m->head.one.iov_base = at + len;
	m->head.len -= len;
	m->seg++;
}

unsigned raw_rx_give(struct raw_rx *r, struct dgram *v, unsigned n)
{
	unsigned out = 0;

	while (r->next < r->got && out < n) {
		struct raw_msg *m = &r->m[r->next];

		if (m->head.len > 0)
			give(m, &v[out++]);
		if (m->head.len == 0)
			r->next++;
	}
	return out;
}

bool raw_rx_left(const struct raw_rx *r)
{
	return r->next < r->got;
}

struct raw_rx *raw_rx_new(uint16_t port)
{
	struct raw_rx *r = calloc(1, sizeof(*r));

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

void raw_rx_free(struct raw_rx *r)
{
	if (!r)
		return;
	free(r->buf);
	free(r);
}
