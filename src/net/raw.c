/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.c - see raw.h. */
#include "net/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "net/raw_filter.h"
#include "net/raw_hold.h"
#include "net/raw_rx.h"
#include "net/raw_tx.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"
#include "wire/qpn.h"

enum {
	SOCK_BUF = 4 << 20, /* bytes; the kernel limits it to its maximum */
	/* receive calls between two looks at UDP while packets keep coming */
	UDP_EVERY = 8,
	OURS_NS = 100000000, /* ns that an address's ownership is remembered */
	THEIRS = 64,	     /* remembered senders; a power of 2 */
};

struct known_ip {
	uint8_t ip[16];
	uint64_t until; /* 0: the entry is empty */
};

struct raw {
	struct link link;
	struct link *inner;
	struct raw_conf conf;
	int rx;
	struct fd_id rx_id;
	struct raw_wanted wanted;
	struct raw_rx *in;
	struct raw_tx *out;
	struct raw_hold hold;
	unsigned recvs;
	struct known_ip ours; /* our address that a packet was last sent to */
	/* addresses that are not ours, hashed; a later one replaces an earlier one */
	struct known_ip theirs[THEIRS];
	struct raw_stats stats;
};

static struct raw *raw_of(const struct link *link)
{
	return container_of(link, struct raw, link);
}

/* --- receiving ----------------------------------------------------------- */

static bool is_known(const struct known_ip *k, const uint8_t ip[16], uint64_t now)
{
	return now < k->until && memcmp(ip, k->ip, 16) == 0;
}

static void know(struct known_ip *k, const uint8_t ip[16], uint64_t now)
{
	memcpy(k->ip, ip, 16);
	k->until = now + OURS_NS;
}

/* Is ip ours? Others' packets, too, come to this interface's MAC address, because the
 * kernel routes. */
static bool is_ours(struct raw *r, const uint8_t ip[16], uint64_t now)
{
	if (is_known(&r->ours, ip, now))
		return true;
	if (!r->conf.is_ours(ip))
		return false;
	know(&r->ours, ip, now);
	return true;
}

/* Is ip impossible as a sender on the wire: ours, loopback, a group or none? The kernel
 * drops such datagrams itself if they come by UDP. */
static bool is_martian(struct raw *r, const uint8_t ip[16], uint64_t now)
{
	static const uint8_t none[16], loopback[16] = { [15] = 1 };
	struct known_ip *k = &r->theirs[(ip[15] ^ ip[14] ^ ip[13]) % THEIRS];

	if (is_known(k, ip, now))
		return false;
	if (addr_is_multicast(ip) || memcmp(ip, none, 16) == 0 ||
	    memcmp(ip, loopback, 16) == 0 ||
	    (addr_is_v4(ip) && (ip[12] == 127 || ip[12] == 0)) || r->conf.is_ours(ip))
		return true;
	know(k, ip, now);
	return false;
}

static bool covers(const struct raw *r, uint32_t ifindex)
{
	for (unsigned i = 0; i < r->wanted.n; i++)
		if (r->wanted.ifindex[i] == ifindex)
			return true;
	return false;
}

/* Did the packet socket also receive d, which came by UDP? Processes without packet
 * sockets forward this process's packets to it. Packets from this host to itself never
 * pass a covered interface, whatever IP_PKTINFO says. */
static bool came_twice(const struct raw *r, const struct dgram *d)
{
	const struct ip_addr *a = ip_of(d);

	return covers(r, a->ifindex) && !addr_is_multicast(a->to.ip) &&
	       d->iov[0].iov_len >= QPN_AT + QPN_BYTES &&
	       qpn_slot(qpn_of_packet(d->iov[0].iov_base)) == r->conf.slot &&
	       !r->conf.is_ours(a->from.ip);
}

static void move_dgram(struct dgram *to, const struct dgram *from)
{
	if (to == from)
		return;
	*to = *from;
	to->iov = &to->one;
}

static int recv_inner(struct raw *r, struct dgram *v, unsigned n, uint64_t now)
{
	int got = r->inner->ops->recv(r->inner, v, n, now), kept = 0;

	for (int i = 0; i < got; i++) {
		if (came_twice(r, &v[i]))
			r->stats.rx_twice++;
		else
			move_dgram(&v[kept++], &v[i]);
	}
	return got < 0 ? got : kept;
}

static int recv_frames(struct raw *r, struct dgram *v, unsigned n, uint64_t now)
{
	unsigned got, kept = 0;

	if (!raw_rx_left(r->in)) {
		int rc = raw_rx_fill(r->in, r->rx);

		if (rc)
			return rc;
	}
	do {
		got = raw_rx_give(r->in, v, n);
		for (unsigned i = 0; i < got; i++) {
			const struct ip_addr *a = ip_of(&v[i]);

			if (is_ours(r, a->to.ip, now) && !is_martian(r, a->from.ip, now))
				move_dgram(&v[kept++], &v[i]);
			else
				r->stats.rx_dropped++;
		}
	} while (got > 0 && kept == 0);
	r->stats.rx += kept;
	return (int)kept;
}

/* Sends the packets whose neighbour has been resolved. Returns -EBADF if the socket is
 * lost. */
static int raw_release(struct raw *r, uint64_t now)
{
	int rc = raw_hold_release(&r->hold, r->out, now);

	r->stats.tx += rc > 0 ? (unsigned)rc : 0;
	return rc < 0 ? rc : 0;
}

static int raw_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct raw *r = raw_of(link);
	int got = raw_release(r, now), rc;

	if (got < 0)
		return got;
	got = 0;
	if (r->wanted.n > 0)
		got = recv_frames(r, v, n, now);
	if (got < 0 || (unsigned)got == n || (got > 0 && r->recvs++ % UDP_EVERY))
		return got;
	rc = recv_inner(r, v + got, n - (unsigned)got, now);
	return rc < 0 ? rc : got + rc;
}

static uint64_t raw_deadline(struct link *link)
{
	struct raw *r = raw_of(link);

	uint64_t at = r->inner->ops->deadline(r->inner),
		 look = raw_hold_deadline(&r->hold);

	if (raw_rx_left(r->in))
		return 0;
	return look < at ? look : at;
}

/* --- sending ------------------------------------------------------------- */

/* Sends as many of v, from its start, as go the same way: by packets, by UDP, or
 * later. */
static int send_some(struct raw *r, struct dgram *v, unsigned n, uint64_t now)
{
	bool no_way;
	int rc = raw_tx_send(r->out, v, n, now, &no_way);

	r->link.run_max = raw_tx_run_max(r->out);
	if (!no_way) {
		r->stats.tx += rc > 0 ? (unsigned)rc : 0;
		return rc;
	}
	if (ip_of(v)->v1) {
		raw_hold_put(&r->hold, v, now);
		return 1;
	}
	rc = r->inner->ops->send(r->inner, v, raw_run_length(v, n), now);
	r->stats.tx_by_udp += rc > 0 ? (unsigned)rc : 0;
	return rc;
}

static int raw_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct raw *r = raw_of(link);
	unsigned taken = 0;
	int gone = raw_release(r, now); /* held packets go first, to keep the order */

	if (gone < 0)
		return gone;
	while (taken < n) {
		int rc = send_some(r, v + taken, n - taken, now);

		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		taken += (unsigned)rc;
	}
	return (int)taken;
}

/* --- interfaces ---------------------------------------------------------- */

static int attach_filter(int fd, const struct raw_wanted *w, bool rest)
{
	struct sock_filter f[RAW_FILTER_MAX];
	struct sock_fprog prog = { .filter = f };

	prog.len = (uint16_t)raw_filter(f, w, rest);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ? -errno
										 : 0;
}

int raw_cover(struct link *link, uint32_t ifindex)
{
	struct raw *r = raw_of(link);
	int rc;

	if (covers(r, ifindex))
		return 0;
	if (r->wanted.n == RAW_INTERFACES)
		return -ENOSPC;
	/* The program may have closed the socket and reused its number. */
	if (!fd_is(r->rx, &r->rx_id))
		return -EBADF;
	r->wanted.ifindex[r->wanted.n++] = ifindex;
	rc = attach_filter(r->rx, &r->wanted, false);
	if (rc)
		r->wanted.n--;
	return rc;
}

void raw_share(struct link *link, int fd)
{
	struct raw *r = raw_of(link);
	int rc;

	if (fd < 0 || r->wanted.n == 0)
		return;
	rc = attach_filter(fd, &r->wanted, true);
	if (rc)
		log_info("packets come twice, by packet socket and by UDP, and the "
			 "second is dropped: the kernel takes no filter: %s",
			 strerror(-rc));
}

/* --- opening ------------------------------------------------------------- */

static int packet_socket(void)
{
	int buf = SOCK_BUF, one = 1, fd;

	/* Protocol 0: the socket receives nothing until it is bound. */
	fd = fd_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	fd = fd_raise(fd);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buf, sizeof(buf));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buf, sizeof(buf));
	if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) == 0)
		return fd;
	buf = -errno;
	close(fd);
	return buf;
}

/* Opens and binds the receiving socket. Its filter accepts nothing before an interface
 * is covered. */
static int open_rx(const struct raw *r)
{
	struct sockaddr_ll any = { .sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_ALL) };
	int fd = packet_socket(), one = 1, rc;

	if (fd < 0)
		return fd;
	rc = attach_filter(fd, &r->wanted, false);
	if (!rc &&
	    (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	     setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
	     bind(fd, (struct sockaddr *)&any, sizeof(any))))
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int open_sockets(struct raw *r)
{
	int tx, rc;

	r->rx = open_rx(r);
	if (r->rx < 0)
		return r->rx;
	(void)fd_identify(r->rx, &r->rx_id);
	tx = packet_socket();
	if (tx < 0)
		return tx;
	rc = raw_tx_open(&r->out, tx);
	if (rc)
		close(tx);
	return rc;
}

int raw_rx_fd(const struct link *link)
{
	return raw_of(link)->rx;
}

const struct raw_stats *raw_stats(const struct link *link)
{
	return &raw_of(link)->stats;
}

void raw_forked(struct link *link)
{
	struct raw *r = raw_of(link);
	if (r->rx >= 0)
		close(r->rx);
	r->rx = -1;
	if (r->out)
		raw_tx_forked(r->out);
}

static void raw_free(struct raw *r)
{
	raw_forked(&r->link);
	if (r->out)
		raw_tx_close(r->out);
	raw_rx_free(r->in);
	raw_hold_free(&r->hold);
	free(r);
}

static void raw_close(struct link *link)
{
	struct raw *r = raw_of(link);

	r->inner->ops->close(r->inner);
	raw_free(r);
}

static const struct link_ops raw_ops = {
	.send = raw_send,
	.recv = raw_recv,
	.deadline = raw_deadline,
	.close = raw_close,
};

int raw_wrap(struct link **out, struct link *inner, const struct raw_conf *conf)
{
	struct raw *r = calloc(1, sizeof(*r));
	int rc = -ENOMEM;

	if (!r)
		return rc;
	r->rx = -1;
	raw_hold_init(&r->hold);
	r->conf = *conf;
	r->wanted = (struct raw_wanted){ .port = conf->port, .slot = conf->slot };
	r->in = raw_rx_new(conf->port);
	if (r->in)
		rc = open_sockets(r);
	if (rc) {
		raw_free(r);
		return rc;
	}
	r->inner = inner;
	r->link = (struct link){ .ops = &raw_ops,
				 .run_max = raw_tx_run_max(r->out),
				 .mtu = inner->mtu };
	*out = &r->link;
	return 0;
}
