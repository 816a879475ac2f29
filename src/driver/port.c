/* SPDX-License-Identifier: BSD-2-Clause */
/* port.c - see port.h. */
#include "driver/port.h"
#include "net/ip_addr.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "driver/forwarder.h"
#include "driver/inbox.h"
#include "driver/steer.h"
#include "host/host.h"
#include "net/udp.h"
#include "sys/clock.h"
#include "sys/list.h"
#include "sys/log.h"
#include "wire/qpn.h"
#include "wire/well_known.h"

enum {
	/* receive calls that yield only other processes' datagrams */
	ROUNDS = 4,
	HOST_EVERY = 32,	/* empty receive calls between calls of host_run() */
	RETRY_MIN_NS = 1000000, /* ns, after the holder of the port went away */
	RETRY_MAX_NS = 1000000000,
};

struct family {
	int af;
	enum { CLOSED, BOUND, FOREIGN } state;
	struct steer *steer; /* while BOUND */
	/* While FOREIGN: the other user's urnic that has the port. */
	struct forwarder forwarder;
	uint64_t retry_at, retry_ns;
};

/* A multicast group that was joined. */
struct group {
	struct list node;
	uint8_t ip[16];
	uint32_t ifindex;
	unsigned users;
};

struct port {
	struct link link;
	struct link *udp;
	struct host *host;
	struct inbox *inbox;
	uint16_t udp_port, slot;
	struct forwarding forwarding;
	struct family fam[2];
	struct list groups;
	uint64_t due; /* ns; of steering and retries; 0: at once */
	unsigned recvs;
	struct port_stats stats;
};

static struct port *port_of(struct link *link)
{
	return container_of(link, struct port, link);
}

static struct family *family_of(struct port *p, const uint8_t ip[16])
{
	return &p->fam[!addr_is_v4(ip)];
}

/* --- receiving ----------------------------------------------------------- */

/* Decides what becomes of d, which a socket received. Returns true if it is for this
 * process. */
static bool sort_out(struct port *p, struct dgram *d, uint64_t now)
{
	struct family *f = family_of(p, ip_of(d)->from.ip);
	const uint8_t *b = d->iov[0].iov_base;
	uint16_t slot;

	p->stats.rx++;
	if (d->len < QPN_AT + QPN_BYTES) {
		p->stats.rx_drops++;
		return false;
	}
	if (f->steer && steer_input(f->steer, d))
		return false;
	slot = qpn_slot(qpn_of_packet(b));
	/* Slot 0 stands for the host: any process may get the datagram. Multicast is
	 * everybody's. */
	if (slot == p->slot || slot < SLOT_FIRST || slot > SLOT_LAST ||
	    addr_is_multicast(ip_of(d)->to.ip))
		return true;
	p->stats.misdelivered++;
	if (f->steer)
		steer_misdelivered(f->steer, slot, now);
	p->due = 0;
	if (host_forward(p->host, slot, d) == 0)
		p->stats.forwarded++;
	return false;
}

static void move_dgram(struct dgram *to, const struct dgram *from)
{
	if (to == from)
		return;
	*to = *from;
	to->iov = &to->one;
}

static int recv_sockets(struct port *p, struct dgram *v, unsigned n, uint64_t now)
{
	int kept = 0;

	for (int round = 0; round < ROUNDS && !kept; round++) {
		int got = p->udp->ops->recv(p->udp, v, n, now);

		if (got <= 0)
			return got;
		for (int i = 0; i < got; i++)
			if (sort_out(p, &v[i], now))
				move_dgram(&v[kept++], &v[i]);
	}
	return kept;
}

static int port_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct port *p = port_of(link);
	unsigned got;
	int rc;

	got = inbox_take(p->inbox, v, n);
	if (got == n)
		return (int)n;
	rc = recv_sockets(p, v + got, n - got, now);
	if (rc < 0)
		return rc;
	/* A program that polls with real-time priority on the only processor that the
	 * engine's thread has keeps the thread from reading forwarded datagrams, so read
	 * them here. Only when the sockets are empty: the news that a process ended must
	 * come after its datagrams. */
	if (got + (unsigned)rc == 0 && p->recvs++ % HOST_EVERY == 0)
		host_run(p->host);
	if (p->due <= now || (p->fam[0].steer && steer_active(p->fam[0].steer)) ||
	    (p->fam[1].steer && steer_active(p->fam[1].steer)))
		port_run(p, now);
	return (int)got + rc;
}

void port_forward(struct port *p, struct dgram *v, unsigned n, uint64_t now)
{
	/* A flood must not keep the process from ending. A call that takes in empty
	 * datagrams alone returns 0. */
	enum { MOST = 1 << 16, EMPTY = 64 };
	unsigned sum = 0, empty = 0;

	while (sum < MOST && empty < EMPTY) {
		int got = p->udp->ops->recv(p->udp, v, n, now);

		if (got < 0)
			return;
		for (int i = 0; i < got; i++)
			(void)sort_out(p, &v[i], now);
		sum += (unsigned)got;
		empty = got ? 0 : empty + 1;
	}
}

static bool is_ours(const struct port *p, const struct dgram *d)
{
	const uint8_t *b = d->iov[0].iov_base;
	uint32_t qpn;

	if (d->len < QPN_AT + QPN_BYTES)
		return false;
	qpn = qpn_of_packet(b);
	return qpn_slot(qpn) == p->slot || qpn == QP_GSI;
}

void port_deliver(struct port *p, const struct dgram *d)
{
	/* A process that forwards may err or lie; d is never forwarded again. */
	if (!is_ours(p, d) || !inbox_put(p->inbox, d))
		p->stats.rx_drops++;
	else
		p->stats.rx++;
}

static uint64_t port_deadline(struct link *link)
{
	struct port *p = port_of(link);
	uint64_t at = p->udp->ops->deadline(p->udp);

	if (!inbox_empty(p->inbox))
		return 0;
	return at < p->due ? at : p->due;
}

/* --- sending ------------------------------------------------------------- */

static int port_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct port *p = port_of(link);
	int rc = p->udp->ops->send(p->udp, v, n, now);

	p->link.run_max = p->udp->run_max;
	if (rc > 0)
		p->stats.tx += (unsigned)rc;
	return rc;
}

uint16_t port_sport(struct port *p)
{
	int rc = udp_sport(p->udp);

	return rc < 0 ? 0 : (uint16_t)rc;
}

/* --- binding ------------------------------------------------------------- */

static void update_foreign(struct port *p)
{
	uid_t uids[2];
	unsigned n = 0;

	for (int i = 0; i < 2; i++)
		if (p->fam[i].state == FOREIGN)
			uids[n++] = p->fam[i].forwarder.uid;
	host_accept_foreign(p->host, uids, n);
}

static void rejoin(struct port *p, const struct family *f)
{
	list_for(n, &p->groups)
	{
		struct group *g = container_of(n, struct group, node);
		int rc;

		if (addr_is_v4(g->ip) != (f->af == AF_INET))
			continue;
		rc = udp_join(p->udp, g->ip, g->ifindex, true);
		if (rc)
			log_info(
				"cannot join a multicast group of the interface with index "
				"%u again: %s",
				g->ifindex, strerror(-rc));
	}
}

/* The port is taken: looks for a process that forwards. */
static int find_forwarder(struct port *p, struct family *f)
{
	int rc =
		forwarder_find(&p->forwarding, f->af, f->state == FOREIGN, &f->forwarder);

	if (!rc)
		forwarder_warn(&p->forwarding, f->af, &f->forwarder);
	return rc;
}

/* Tries to bind and sets f->state. Returns 0, -EADDRINUSE or another error. */
static int try_bind(struct port *p, struct family *f)
{
	int rc = udp_bind(p->udp, f->af);

	if (rc)
		return rc;
	if (port_sport(p) == 0)
		log_warn("there is no second UDP port to send from: packets are "
			 "sent from the port that receives");
	rc = steer_open(&f->steer, f->af, p->udp_port, p->slot, udp_rx_fd(p->udp, f->af),
			udp_epoll(p->udp));
	if (rc)
		log_warn("no memory for steering: datagrams for this process may "
			 "come by way of other processes");
	if (f->state == FOREIGN)
		log_info("UDP port %u (%s) was free again and is this process's now",
			 p->udp_port, forwarder_family(f->af));
	f->state = BOUND;
	f->forwarder.said = false;
	update_foreign(p);
	rejoin(p, f);
	p->due = 0;
	return 0;
}

int port_bind(struct port *p, int family)
{
	struct family *f = &p->fam[family == AF_INET6];
	int rc;

	if (f->state != CLOSED)
		return 0;
	rc = try_bind(p, f);
	if (rc != -EADDRINUSE)
		return rc;
	rc = find_forwarder(p, f);
	if (rc)
		return rc;
	log_info("UDP port %u (%s) is held by another user's urnic in slot "
		 "%u: it forwards this process's datagrams",
		 p->udp_port, forwarder_family(f->af), f->forwarder.slot);
	f->state = FOREIGN;
	f->retry_ns = RETRY_MAX_NS;
	f->retry_at = clock_ns() + f->retry_ns;
	update_foreign(p);
	port_sport(p);
	p->due = 0;
	return 0;
}

void port_peer_gone(struct port *p, uint16_t slot)
{
	for (int i = 0; i < 2; i++) {
		struct family *f = &p->fam[i];

		if (f->state != FOREIGN || f->forwarder.slot != slot)
			continue;
		f->forwarder.slot = 0;
		f->retry_ns = RETRY_MIN_NS; /* the holder's sockets close one by one */
		f->retry_at = 0;
		p->due = 0;
	}
}

static void retry_bind(struct port *p, struct family *f, uint64_t now)
{
	if (now < f->retry_at || try_bind(p, f) == 0)
		return;
	f->retry_ns = f->retry_ns * 4 < RETRY_MAX_NS ? f->retry_ns * 4 : RETRY_MAX_NS;
	f->retry_at = now + f->retry_ns;
	/* Another process of that user may have the port. */
	if (!f->forwarder.slot && f->retry_ns == RETRY_MAX_NS)
		find_forwarder(p, f);
	update_foreign(p);
}

uint64_t port_run(struct port *p, uint64_t now)
{
	uint64_t next = NEVER;

	p->stats.rediscoveries = 0;
	for (int i = 0; i < 2; i++) {
		struct family *f = &p->fam[i];
		uint64_t at = NEVER;

		if (f->state == FOREIGN)
			retry_bind(p, f, now);
		if (f->state == FOREIGN)
			at = f->retry_at;
		else if (f->steer)
			at = steer_run(f->steer, now);
		if (f->steer)
			p->stats.rediscoveries += steer_discoveries(f->steer);
		if (at < next)
			next = at;
	}
	p->due = next;
	return next;
}

/* --- multicast ----------------------------------------------------------- */

static struct group *find_group(struct port *p, const uint8_t ip[16], uint32_t ifindex)
{
	list_for(n, &p->groups)
	{
		struct group *g = container_of(n, struct group, node);

		if (g->ifindex == ifindex && !memcmp(g->ip, ip, 16))
			return g;
	}
	return NULL;
}

static int leave_group(struct port *p, struct group *g)
{
	if (!g)
		return -ENOENT;
	if (--g->users)
		return 0;
	udp_join(p->udp, g->ip, g->ifindex, false);
	list_del(&g->node);
	free(g);
	return 0;
}

int port_join(struct port *p, const uint8_t ip[16], uint32_t ifindex, bool join)
{
	struct family *f = family_of(p, ip);
	struct group *g = find_group(p, ip, ifindex);
	int rc;

	if (!join)
		return leave_group(p, g);
	if (g) {
		g->users++;
		return 0;
	}
	rc = port_bind(p, f->af);
	if (rc)
		return rc;
	/* Nobody forwards multicast. */
	if (f->state != BOUND)
		return -EADDRINUSE;
	rc = udp_join(p->udp, ip, ifindex, true);
	if (rc)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g) {
		udp_join(p->udp, ip, ifindex, false);
		return -ENOMEM;
	}
	memcpy(g->ip, ip, 16);
	g->ifindex = ifindex;
	g->users = 1;
	list_add_tail(&p->groups, &g->node);
	return 0;
}

/* --- opening ------------------------------------------------------------- */

/* Does nothing: the stack of links is taken apart before port_close(). */
static void keep_open(struct link *link)
{
	(void)link;
}

static const struct link_ops port_ops = {
	.send = port_send,
	.recv = port_recv,
	.deadline = port_deadline,
	.close = keep_open,
};

int port_open(struct port **out, struct host *host, uint16_t udp_port,
	      enum conf_share share)
{
	struct port *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	rc = inbox_open(&p->inbox);
	if (rc)
		goto free_port;
	rc = udp_open(&p->udp, udp_port);
	if (rc)
		goto close_inbox;
	p->link = (struct link){ .ops = &port_ops,
				 .run_max = p->udp->run_max,
				 .mtu = p->udp->mtu };
	p->host = host;
	p->udp_port = udp_port;
	p->forwarding =
		(struct forwarding){ .host = host, .udp_port = udp_port, .share = share };
	p->slot = host_slot(host);
	p->fam[0].af = AF_INET;
	p->fam[1].af = AF_INET6;
	list_init(&p->groups);
	p->due = NEVER;
	*out = p;
	return 0;

close_inbox:
	inbox_close(p->inbox);
free_port:
	free(p);
	return rc;
}

void port_close(struct port *p)
{
	for (int i = 0; i < 2; i++)
		if (p->fam[i].steer)
			steer_close(p->fam[i].steer);
	list_for_safe(n, &p->groups) free(container_of(n, struct group, node));
	p->udp->ops->close(p->udp);
	inbox_close(p->inbox);
	free(p);
}

void port_forked(struct port *p)
{
	for (int i = 0; i < 2; i++)
		if (p->fam[i].steer)
			steer_forked(p->fam[i].steer);
	udp_forked(p->udp);
}

struct link *port_link(struct port *p)
{
	return &p->link;
}

uint16_t port_ask_port(struct port *p)
{
	int rc = udp_ask_port(p->udp);

	return rc < 0 ? 0 : (uint16_t)rc;
}

size_t port_refused(struct port *p, uint8_t ip[16], void *quote, size_t max)
{
	return udp_refused(p->udp, ip, quote, max);
}

void port_keep_apart(struct port *p)
{
	udp_keep_apart(p->udp);
}

int port_rx_fd(const struct port *p, int family)
{
	return udp_rx_fd(p->udp, family);
}

int port_fd(const struct port *p)
{
	return udp_epoll(p->udp);
}

bool port_is_closed(const struct port *p, int family)
{
	return p->fam[family == AF_INET6].state == CLOSED;
}

bool port_is_idle(const struct port *p)
{
	return port_is_closed(p, AF_INET) && port_is_closed(p, AF_INET6) &&
	       inbox_empty(p->inbox);
}

const struct port_stats *port_stats(const struct port *p)
{
	return &p->stats;
}
