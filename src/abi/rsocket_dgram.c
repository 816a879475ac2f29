/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_dgram.c - datagram rsockets: a UDP socket by which ends find each
 * other's QPs, and what cannot go by those goes.  docs/rsocket.md. */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "abi/rsocket_dgram.h"
#include "sys/fd.h"
#include "sys/sockaddr.h"

enum { AT_A_TIME = 16 };

/* --- making -------------------------------------------------------------------------------- */

int rsock_dgram_new(struct rsock *rs)
{
	struct rsock_dgram *dg = calloc(1, sizeof(*dg));
	struct epoll_event ev = { .events = EPOLLIN };

	if (!dg)
		return -ENOMEM;
	list_init(&dg->qps);
	list_init(&dg->peers);
	list_init(&dg->msgs);
	rs->dg = dg;
	dg->udp = fd_raise(fd_socket(rs->domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	dg->ep = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (dg->udp < 0 || dg->ep < 0 ||
	    epoll_ctl(dg->ep, EPOLL_CTL_ADD, dg->udp, &ev))
		return -errno;
	rs->sleep_fd = dg->ep;
	return 0;
}

static void drop(struct rsock *rs, struct dg_msg *m)
{
	list_del(&m->node);
	if (m->qp)
		dg_qp_receive(m->qp, m->slot);
	else
		rs->dg->queued -= sizeof(*m) + m->len;
	free(m);
}

static void free_queues(struct rsock *rs)
{
	struct rsock_dgram *dg = rs->dg;

	list_for(n, &dg->qps)
		dg_qp_drain(container_of(n, struct dg_qp, node));
	list_for_safe(n, &dg->msgs)
		drop(rs, container_of(n, struct dg_msg, node));
	list_for_safe(n, &dg->peers)
		dg_peer_free(container_of(n, struct dg_peer, node));
	list_for_safe(n, &dg->qps)
		dg_qp_free(container_of(n, struct dg_qp, node));
}

/* In a child of fork only the descriptors are ours. */
void rsock_dgram_free(struct rsock *rs)
{
	struct rsock_dgram *dg = rs->dg;

	if (!dg)
		return;
	if (!rsock_forked(rs))
		free_queues(rs);
	if (dg->udp >= 0)
		close(dg->udp);
	if (dg->ep >= 0)
		close(dg->ep);
	free(dg);
}

int rsock_dgram_bind(struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	struct sockaddr_storage name = { 0 };
	socklen_t n = sizeof(name);
	int on = rs->reuse, v6only = rs->v6only;

	if (setsockopt(rs->dg->udp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    (rs->domain == AF_INET6 &&
	     setsockopt(rs->dg->udp, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only))) ||
	    bind(rs->dg->udp, a, len) ||
	    getsockname(rs->dg->udp, (struct sockaddr *)&name, &n))
		return -errno;
	rs->dg->port = sockaddr_port((struct sockaddr *)&name);
	rs->state = RSOCK_BOUND;
	return 0;
}

int rsock_dgram_option(struct rsock *rs, int level, int name, const void *val,
		       socklen_t len)
{
	return setsockopt(rs->dg->udp, level, name, val, len) ? -errno : 0;
}

/* The port is needed in every header. */
static int have_port(struct rsock *rs)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)rs->domain };

	return rs->state == RSOCK_NEW ?
		rsock_dgram_bind(rs, (struct sockaddr *)&any,
				 sockaddr_len((struct sockaddr *)&any)) : 0;
}

/* What others have sent before is not for a connected socket. */
static void drop_others(struct rsock *rs)
{
	list_for_safe(n, &rs->dg->msgs) {
		struct dg_msg *m = container_of(n, struct dg_msg, node);

		if (!dg_wants(rs->dg, m->ip, m->port))
			drop(rs, m);
	}
}

int rsock_dgram_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	int rc = have_port(rs);
	struct dg_peer *p;

	(void)len;
	if (!rc)
		rc = dg_peer_for(rs, a, &p);
	if (rc)
		return rc;
	rs->dg->peer = p;
	drop_others(rs);
	return 0;
}

/* As the program's socket shows it: an IPv6 one that IPv4 reaches, mapped. */
static void show(const struct rsock *rs, const uint8_t ip[16], uint16_t port,
		 uint32_t ifindex, struct sockaddr *a, socklen_t *len)
{
	struct sockaddr_storage name;
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	socklen_t has;

	sockaddr_set(&name, ip, port, ifindex);
	if (rs->domain == AF_INET6 && name.ss_family == AF_INET) {
		memcpy(&mapped.sin6_addr, ip, 16);
		memcpy(&name, &mapped, sizeof(mapped));
	}
	has = sockaddr_len((struct sockaddr *)&name);
	memcpy(a, &name, *len < has ? *len : has);
	*len = has;
}

int rsock_dgram_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len)
{
	struct dg_peer *p = rs->dg->peer;

	if (!peer) {
		socklen_t n = *len;

		if (getsockname(rs->dg->udp, a, &n))
			return -errno;
		*len = n;
		return 0;
	}
	if (!p)
		return -ENOTCONN;
	show(rs, p->ip, p->port, p->ifindex, a, len);
	return 0;
}

/* --- by UDP ------------------------------------------------------------------------------------ */

static int say(struct rsock *rs, const struct dg_peer *p, uint8_t op,
	       const struct iovec *iov, int n)
{
	struct rs_udp h = { .op = op, .qpn = p->via->qp->qp_num };
	struct iovec all[n + 1];
	struct sockaddr_storage to;
	uint8_t header[RS_HEADER_MAX];
	struct msghdr msg = { .msg_name = &to, .msg_iov = all,
			      .msg_iovlen = (size_t)n + 1 };

	memcpy(h.ip, p->ip, 16);
	all[0] = (struct iovec){ header, rs_udp_pack(&h, header) };
	if (n)
		memcpy(all + 1, iov, (size_t)n * sizeof(*iov));
	sockaddr_set(&to, p->ip, p->port, p->ifindex);
	msg.msg_namelen = sockaddr_len((struct sockaddr *)&to);
	return sendmsg(rs->dg->udp, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void keep(struct rsock *rs, const struct dg_peer *p, const uint8_t *data,
		 size_t len)
{
	struct dg_msg *m;

	if (rs->dg->queued + sizeof(*m) + len > (size_t)rs->rcvbuf * 2)
		return;			/* as UDP: it is lost */
	m = calloc(1, sizeof(*m) + len);
	if (!m)
		return;
	m->data = (uint8_t *)(m + 1);
	m->len = (uint32_t)len;
	memcpy(m->data, data, len);
	memcpy(m->ip, p->ip, 16);
	m->port = p->port;
	m->ifindex = p->ifindex;
	rs->dg->queued += sizeof(*m) + len;
	list_add_tail(&rs->dg->msgs, &m->node);
}

/* One from the socket: false, there is none. */
static bool listen_once(struct rsock *rs)
{
	uint8_t *buf = rs->dg->buf;
	struct sockaddr_storage from;
	socklen_t fromlen = sizeof(from);
	ssize_t n = recvfrom(rs->dg->udp, buf, sizeof(rs->dg->buf), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &fromlen);
	struct dg_peer *p;
	uint8_t ip[16];
	struct rs_udp h;
	size_t header;

	if (n < 0)			/* ECONNREFUSED and the like, too */
		return errno != EAGAIN && errno != EINTR;
	sockaddr_ip((struct sockaddr *)&from, ip);
	header = rs_udp_parse(buf, (size_t)n, &h);
	if (!header || !dg_wants(rs->dg, ip, sockaddr_port((struct sockaddr *)&from)) ||
	    dg_peer_for(rs, (struct sockaddr *)&from, &p))
		return true;
	dg_peer_learn(p, h.qpn);
	if (h.op == RS_UDP_DATA) {
		keep(rs, p, buf + header, (size_t)n - header);
		(void)say(rs, p, RS_UDP_CONTROL, NULL, 0);
	}
	return true;
}

/* The UDP socket is looked at when the QPs have nothing, and now and then. */
static void progress(struct rsock *rs)
{
	bool any = false;

	list_for(n, &rs->dg->qps)
		any |= dg_qp_progress(container_of(n, struct dg_qp, node));
	if (!any || ++rs->dg->turns % AT_A_TIME == 0)
		for (int i = 0; i < AT_A_TIME && listen_once(rs); i++)
			any = true;
	if (any)			/* others may have counted on it */
		rsock_wake(rs);
}

/* --- waiting --------------------------------------------------------------------------------------- */

static bool has_message(struct rsock *rs)
{
	return !list_empty(&rs->dg->msgs);
}

static bool has_slot(struct rsock *rs)
{
	list_for(n, &rs->dg->qps)
		if (!container_of(n, struct dg_qp, node)->free_slots)
			return false;
	return true;
}

short rsock_dgram_events(struct rsock *rs)
{
	progress(rs);
	if (rs->closed)
		return POLLNVAL;
	return (short)((has_message(rs) ? POLLIN | POLLRDNORM : 0) |
		       (has_slot(rs) ? POLLOUT | POLLWRNORM : 0));
}

void rsock_dgram_arm(struct rsock *rs)
{
	list_for(n, &rs->dg->qps)
		dg_qp_arm(container_of(n, struct dg_qp, node));
}

static int wait_for(struct rsock *rs, bool (*ready)(struct rsock *), bool nonblock)
{
	uint64_t begin = rsock_now();

	for (;;) {
		struct rsock_sleeper *sl;
		struct pollfd p[2];
		int rc;

		progress(rs);
		if (rs->closed)
			return -EBADF;
		if (ready(rs))
			return 0;
		if (nonblock)
			return -EAGAIN;
		if (rsock_now() - begin < rsock_spin())
			continue;
		rc = rsock_sleeper(1, &sl);
		if (rc)
			return rc;
		rsock_wait_begin(sl, rs);
		rsock_dgram_arm(rs);
		progress(rs);
		if (!ready(rs) && !rs->closed) {
			p[0] = (struct pollfd){ .fd = sl->efd, .events = POLLIN };
			p[1] = (struct pollfd){ .fd = rs->sleep_fd, .events = POLLIN };
			pthread_mutex_unlock(&rs->lock);
			rc = poll(p, 2, -1) < 0 ? -errno : 0;
			pthread_mutex_lock(&rs->lock);
		}
		rsock_wait_end(sl);
		if (rc)
			return rc;
		rsock_slept(rsock_now() - begin);
	}
}

/* --- sending and receiving ---------------------------------------------------------------------------- */

static ssize_t by_qp(struct rsock *rs, struct dg_peer *p, const struct iovec *iov, int n,
		     size_t len)
{
	int slot = dg_qp_slot(p->via), rc;
	struct rs_ud h = { .port = rs->dg->port };
	uint8_t header[RS_HEADER_MAX], *at;
	size_t have;

	if (slot < 0)
		return -EAGAIN;
	memcpy(h.ip, p->via->ip, 16);
	have = rs_ud_pack(&h, header);
	at = dg_qp_memory(p->via, (uint32_t)slot);
	memcpy(at, header, have);
	at += have;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len)
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	rc = dg_qp_send(p->via, p, (uint32_t)slot, (uint32_t)(have + len));
	return rc ? rc : (ssize_t)len;
}

static int whom(struct rsock *rs, const struct sockaddr *to, socklen_t tolen,
		struct dg_peer **p)
{
	if (!to) {
		*p = rs->dg->peer;
		return *p ? 0 : -EDESTADDRREQ;
	}
	if (tolen < sizeof(sa_family_t) || to->sa_family != rs->domain)
		return -EAFNOSUPPORT;
	if (tolen < sockaddr_len(to))
		return -EINVAL;
	return dg_peer_for(rs, to, p);
}

ssize_t rsock_dgram_send(struct rsock *rs, const struct iovec *iov, int n, int flags,
			 const struct sockaddr *to, socklen_t tolen)
{
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT;
	struct dg_peer *p;
	size_t len = 0;
	int rc;

	if (n < 0 || n > 1024 || flags & MSG_OOB)
		return n < 0 || n > 1024 ? -EMSGSIZE : -EOPNOTSUPP;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > DG_UDP_MAX - RS_HEADER_MAX - len)
			return -EMSGSIZE;
		len += iov[i].iov_len;
	}
	rc = have_port(rs);
	if (!rc)		/* it makes the QP */
		rc = whom(rs, to, tolen, &p);
	if (!rc)		/* others may write to us meanwhile: p may be gone */
		rc = wait_for(rs, has_slot, nonblock);
	if (!rc)
		rc = whom(rs, to, tolen, &p);
	if (rc)
		return rc;
	if (dg_peer_known(p) && len <= p->via->mtu - RS_UD6)
		return by_qp(rs, p, iov, n, len);
	while ((rc = say(rs, p, RS_UDP_DATA, iov, n)) == -EAGAIN && !nonblock) {
		struct pollfd out = { .fd = rs->dg->udp, .events = POLLOUT };

		(void)poll(&out, 1, 100);
	}
	return rc ? rc : (ssize_t)len;
}

static void hear(struct rsock *rs, const struct dg_msg *m)
{
	list_for(n, &rs->dg->peers) {
		struct dg_peer *p = container_of(n, struct dg_peer, node);

		if (m->qp && p->port == m->port && !memcmp(p->ip, m->ip, 16))
			p->heard = p->used = rsock_now();
	}
}

ssize_t rsock_dgram_receive(struct rsock *rs, const struct iovec *iov, int n,
			    int *flags, struct sockaddr *from, socklen_t *fromlen)
{
	bool nonblock = rs->nonblock || *flags & MSG_DONTWAIT;
	struct dg_msg *m;
	ssize_t told;
	size_t at = 0;
	int rc;

	if (rs->state == RSOCK_NEW)
		(void)have_port(rs);
	rc = wait_for(rs, has_message, nonblock);
	if (rc)
		return rc;
	m = container_of(rs->dg->msgs.next, struct dg_msg, node);
	for (int i = 0; i < n && at < m->len; i++) {
		size_t now = m->len - at < iov[i].iov_len ? m->len - at : iov[i].iov_len;

		memcpy(iov[i].iov_base, m->data + at, now);
		at += now;
	}
	if (from && fromlen)
		show(rs, m->ip, m->port, m->ifindex, from, fromlen);
	hear(rs, m);
	told = *flags & MSG_TRUNC ? (ssize_t)m->len : (ssize_t)at;
	rc = at < m->len ? MSG_TRUNC : 0;
	if (!(*flags & MSG_PEEK))
		drop(rs, m);
	*flags = rc;
	return told;
}
