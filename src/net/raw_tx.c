/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_tx.c - see raw_tx.h. */
#include "net/raw_tx.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "net/raw_frame.h"
#include "net/raw_way.h"
#include "sys/fd.h"
#include "sys/log.h"

enum {
	TX_MSGS = 32,
	TX_IOV = 1024, /* UIO_MAXIOV */
	RUN_MAX = 64,  /* UDP_MAX_SEGMENTS of older kernels */
	DISCARD = 9,   /* a port */
	GSO_UDP_L4 = 5,
	WAYS = 256,	      /* remembered destinations; a power of 2 */
	FRESH_NS = 200000000, /* ns after which a way is looked up again */
	UNKNOWN_NS = 1000000, /* the same, if none was found */
};

/* What precedes UDP's payload in a message to a packet socket. */
struct raw_head {
	uint16_t fill; /* aligns the IP header */
	struct virtio_net_hdr vnet;
	struct ethhdr eth;
	uint8_t ip[RAW_HEAD_MAX];
};

static_assert(offsetof(struct raw_head, eth) ==
		      offsetof(struct raw_head, vnet) + sizeof(struct virtio_net_hdr),
	      "no hole");

/* The way to a destination, as last looked up. */
struct known_way {
	struct link_addr to; /* key of the look-up, see key_of() */
	struct raw_way way;
	bool found;
	uint64_t until;	   /* 0: the entry is empty */
	uint64_t probe_at; /* RoCE v1: ns; when the neighbour may be probed again */
};

struct raw_tx {
	int fd, ask;	/* packet socket, netlink */
	int discard[2]; /* sockets of IPv4, IPv6; -1: not opened yet */
	unsigned run_max;
	uint64_t said_drop, dropped;
	struct known_way ways[WAYS];

	/* For one system call. */
	unsigned msgs, iovs;
	struct mmsghdr msg[TX_MSGS];
	struct sockaddr_ll addr[TX_MSGS];
	unsigned first[TX_MSGS + 1]; /* index of the datagram that begins each message */
	struct raw_head head[TX_MSGS];
	struct iovec iov[TX_IOV];
};

/* --- where to ------------------------------------------------------------ */

/* Returns the parts of the address that the route depends on: not the ports or the time
 * to live. */
static struct link_addr key_of(const struct ip_addr *a)
{
	struct ip_addr key = *a;
	struct link_addr out;

	key.from.port = key.to.port = 0;
	key.ttl = 0;
	key.tclass &= 0xfc; /* routes do not depend on ECN */
	memcpy(&out, &key, sizeof(out));
	return out;
}

static unsigned hash_of(const struct link_addr *key)
{
	uint32_t h = 2166136261u;

	for (unsigned i = 0; i < LINK_ADDR_LEN; i++)
		h = (h ^ key->bytes[i]) * 16777619u;
	return (h ^ h >> 16) % WAYS;
}

static int open_discard(bool v4)
{
	int hops = 1; /* past no router */
	int fd = fd_socket(v4 ? AF_INET : AF_INET6,
			   SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	fd = fd_raise(fd);
	setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_UNICAST_HOPS,
		   &hops, sizeof(hops));
	return fd;
}

/* Sends an empty datagram to the discard port (RFC 863) of a neighbour, which the kernel
 * then resolves. */
static void send_discard(struct raw_tx *r, const struct ip_addr *a)
{
	bool v4 = addr_is_v4(a->to.ip);
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(DISCARD) };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(DISCARD),
				    .sin6_scope_id = a->ifindex };
	int *fd = &r->discard[!v4];

	if (*fd < 0)
		*fd = open_discard(v4);
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

/* Has the neighbour of a RoCE v1 packet probed. The kernel probes only neighbours that
 * it sends to, and it sends no RoCE v1. */
static void probe_neighbour(struct raw_tx *r, struct known_way *w,
			    const struct ip_addr *a, uint64_t now)
{
	if (now < w->probe_at)
		return;
	send_discard(r, a);
	w->probe_at = now + FRESH_NS;
}

/* Returns the way to a. NULL: the kernel has to send to a by UDP, or, for RoCE v1, there
 * is no way yet. */
static const struct raw_way *way_to(struct raw_tx *r, const struct ip_addr *a,
				    uint64_t now)
{
	struct link_addr key = key_of(a);
	struct known_way *w = &r->ways[hash_of(&key)];

	if (now < w->until && addr_same(&w->to, &key))
		return w->found ? &w->way : NULL;
	if (!addr_same(&w->to, &key))
		w->probe_at = 0;
	w->to = key;
	w->found = !addr_is_multicast(a->to.ip) && raw_way_find(r->ask, a, &w->way);
	w->until = now + (w->found ? FRESH_NS : UNKNOWN_NS);
	if (a->v1) {
		if (!w->found || w->way.stale)
			probe_neighbour(r, w, a, now);
		return w->found ? &w->way : NULL;
	}
	/* A stale way is left to the kernel's UDP, which makes the kernel probe the
	 * neighbour. */
	return w->found && !w->way.stale ? &w->way : NULL;
}

/* --- sending ------------------------------------------------------------- */

unsigned raw_run_length(const struct dgram *v, unsigned n)
{
	unsigned k = 1;

	while (k < n && v[k].seg == k)
		k++;
	return k;
}

static void put_eth(struct raw_head *h, const struct raw_way *way, uint16_t type)
{
	memcpy(h->eth.h_dest, way->mac, RAW_MAC);
	memcpy(h->eth.h_source, way->our_mac, RAW_MAC);
	h->eth.h_proto = htons(type);
	h->vnet = (struct virtio_net_hdr){ .gso_type = VIRTIO_NET_HDR_GSO_NONE };
}

/* Writes the headers of a RoCE v1 packet, which is in no run. */
static size_t put_head_v1(struct raw_head *h, const struct dgram *d,
			  const struct raw_way *way)
{
	put_eth(h, way, RAW_TYPE_V1);
	return sizeof(h->vnet) + sizeof(h->eth) + raw_grh_build(h->ip, d, d->len);
}

/* Writes the headers of a run of k datagrams that begins with d and has len bytes. The
 * kernel or the adapter cuts the run and computes the checksums. */
static size_t put_head(struct raw_head *h, const struct dgram *d,
		       const struct raw_way *way, unsigned k, size_t len)
{
	bool v4 = addr_is_v4(ip_of(d)->to.ip);
	size_t n;

	if (ip_of(d)->v1)
		return put_head_v1(h, d, way);
	n = raw_frame_build(h->ip, d, len);
	put_eth(h, way, v4 ? ETH_P_IP : ETH_P_IPV6);
	if (k > 1 || !v4) {
		raw_frame_sum(h->ip);
		h->vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		h->vnet.csum_start = (uint16_t)(sizeof(h->eth) + n - RAW_UDP);
		h->vnet.csum_offset = 6;
	}
	if (k > 1) {
		h->vnet.gso_type = GSO_UDP_L4;
		h->vnet.gso_size = (uint16_t)d->len;
		h->vnet.hdr_len = (uint16_t)(sizeof(h->eth) + n);
	}
	return sizeof(h->vnet) + sizeof(h->eth) + n;
}

/* Adds a message with the run of k datagrams at v. */
static void add_frame(struct raw_tx *r, const struct dgram *v, unsigned k,
		      const struct raw_way *way)
{
	unsigned i = r->msgs++, n = 1;
	struct iovec *iov = &r->iov[r->iovs];
	struct sockaddr_ll *a = &r->addr[i];
	size_t len = 0;

	for (unsigned j = 0; j < k; j++) {
		memcpy(iov + n, v[j].iov, v[j].iovcnt * sizeof(*iov));
		n += v[j].iovcnt;
		len += v[j].len;
	}
	iov[0] =
		(struct iovec){ &r->head[i].vnet, put_head(&r->head[i], v, way, k, len) };
	*a = (struct sockaddr_ll){ .sll_family = AF_PACKET,
				   .sll_protocol = r->head[i].eth.h_proto,
				   .sll_ifindex = (int)way->ifindex };
	r->msg[i].msg_hdr = (struct msghdr){
		.msg_name = a, .msg_namelen = sizeof(*a), .msg_iov = iov, .msg_iovlen = n
	};
	r->iovs += n;
}

static void dropped(struct raw_tx *r, const struct dgram *d, unsigned k, int err)
{
	char ip[INET6_ADDRSTRLEN];

	r->dropped += k;
	if (log_level < LOG_INFO || !log_allowed(&r->said_drop))
		return;
	inet_ntop(AF_INET6, ip_of(d)->to.ip, ip, sizeof(ip));
	log_info("cannot send to %s: %s; %u packets of %u bytes dropped, %llu so far", ip,
		 strerror(err), k, d->len, (unsigned long long)r->dropped);
}

/* The kernel refused the message with the k datagrams at v. If it does not support runs
 * here, all later packets are messages of their own. */
static void frame_refused(struct raw_tx *r, const struct dgram *v, unsigned k, int err)
{
	if (k > 1 && err == EINVAL && r->run_max > 1) {
		log_info("packet sockets do not cut one buffer into packets here: "
			 "sending is slower");
		r->run_max = 1;
	}
	dropped(r, v, k, err);
}

/* Sends the messages added for v. Returns how many datagrams were taken, or -EBADF. */
static int put_out(struct raw_tx *r, const struct dgram *v)
{
	unsigned done = 0, n = r->msgs;

	r->msgs = r->iovs = 0;
	while (done < n) {
		/* A raw system call, because libc's wrapper is a cancellation point. */
		int rc = (int)syscall(SYS_sendmmsg, r->fd, r->msg + done, n - done,
				      MSG_DONTWAIT | MSG_NOSIGNAL);
		unsigned at = r->first[done];

		if (rc > 0) {
			done += (unsigned)rc;
			continue;
		}
		if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
			break;
		if (errno == EBADF || errno == ENOTSOCK)
			return -EBADF;
		frame_refused(r, v + at, r->first[done + 1] - at, errno);
		done++;
	}
	return (int)r->first[done];
}

static unsigned pieces(const struct dgram *v, unsigned k)
{
	unsigned n = 1;

	for (unsigned i = 0; i < k; i++)
		n += v[i].iovcnt;
	return n;
}

int raw_tx_send(struct raw_tx *r, const struct dgram *v, unsigned n, uint64_t now,
		bool *no_way)
{
	unsigned at = 0;

	*no_way = false;
	while (at < n && r->msgs < TX_MSGS) {
		unsigned k = raw_run_length(v + at, n - at);
		const struct raw_way *way = way_to(r, ip_of(&v[at]), now);

		*no_way = at == 0 && !way;
		if (!way || r->iovs + pieces(v + at, k) > TX_IOV)
			break;
		r->first[r->msgs] = at;
		add_frame(r, v + at, k, way);
		at += k;
	}
	r->first[r->msgs] = at;
	return put_out(r, v);
}

unsigned raw_tx_run_max(const struct raw_tx *r)
{
	return r->run_max;
}

/* --- opening ------------------------------------------------------------- */

int raw_tx_open(struct raw_tx **out, int fd)
{
	struct raw_tx *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->ask = raw_way_open();
	if (r->ask < 0) {
		int rc = r->ask;

		free(r);
		return rc;
	}
	r->discard[0] = r->discard[1] = -1;
	r->fd = fd;
	r->run_max = RUN_MAX;
	*out = r;
	return 0;
}

void raw_tx_forked(struct raw_tx *r)
{
	if (r->ask >= 0)
		close(r->ask);
	if (r->fd >= 0)
		close(r->fd);
	for (int i = 0; i < 2; i++)
		if (r->discard[i] >= 0)
			close(r->discard[i]);
	r->ask = r->fd = r->discard[0] = r->discard[1] = -1;
}

void raw_tx_close(struct raw_tx *r)
{
	raw_tx_forked(r);
	free(r);
}
