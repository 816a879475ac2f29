/* SPDX-License-Identifier: BSD-2-Clause */
/* dgsock.c - see dgsock.h. */
#include "rsocket/dgsock.h"

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rsocket/dgqp.h"
#include "rsocket/format.h"
#include "rsocket/sock.h"
#include "rsocket/wait.h"
#include "sys/fd.h"
#include "sys/sockaddr.h"

enum { AT_A_TIME = 16 };

/* --- queued messages ----------------------------------------------------- */

static void drop_message(struct rsock_dgram *dg, struct rsock_dgmsg *m)
{
	list_del(&m->node);
	if (m->qp)
		rsock_dgqp_receive(m->qp, m->slot);
	else
		dg->queued -= sizeof(*m) + m->len;
	free(m);
}

static void free_queues(struct rsock_dgram *dg)
{
	list_for(n, &dg->qps) rsock_dgqp_drain(container_of(n, struct rsock_dgqp, node));
	list_for_safe(n, &dg->msgs)
		drop_message(dg, container_of(n, struct rsock_dgmsg, node));
	list_for_safe(n, &dg->peers)
		rsock_dgpeer_free(container_of(n, struct rsock_dgpeer, node));
	list_for_safe(n, &dg->qps)
		rsock_dgqp_free(container_of(n, struct rsock_dgqp, node));
}

static void free_dgram(struct rsock *rs)
{
	struct rsock_dgram *dg = rsock_dgram_of(rs);

	if (!rsock_forked(rs))
		free_queues(dg);
	if (dg->udp >= 0)
		close(dg->udp);
	if (dg->ep >= 0)
		close(dg->ep);
	rsock_fini(rs);
}

/* --- names --------------------------------------------------------------- */

static int bind_dgram(struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	int on = rs->reuse, v6only = rs->v6only;
	struct rsock_dgram *dg = rsock_dgram_of(rs);
	struct sockaddr_storage name = { 0 };
	socklen_t n = sizeof(name);

	if (setsockopt(dg->udp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    (rs->domain == AF_INET6 &&
	     setsockopt(dg->udp, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only))) ||
	    bind(dg->udp, a, len) || getsockname(dg->udp, (struct sockaddr *)&name, &n))
		return -errno;
	dg->port = sockaddr_port((struct sockaddr *)&name);
	rs->state = RSOCK_BOUND;
	return 0;
}

/* Binds the socket to any port if it has none: each header contains the port. */
static int have_port(struct rsock_dgram *dg)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)dg->sock.domain };
	struct sockaddr *a = (struct sockaddr *)&any;

	return dg->sock.state == RSOCK_NEW ? bind_dgram(&dg->sock, a, sockaddr_len(a))
					   : 0;
}

/* A connected socket must not read what others sent before the connect. */
static void drop_others(struct rsock_dgram *dg)
{
	list_for_safe(n, &dg->msgs)
	{
		struct rsock_dgmsg *m = container_of(n, struct rsock_dgmsg, node);

		if (!rsock_dgram_wants(dg, m->ip, m->port))
			drop_message(dg, m);
	}
}

static int connect_dgram(struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	struct rsock_dgram *dg = rsock_dgram_of(rs);
	struct rsock_dgpeer *p;
	int rc = have_port(dg);

	(void)len; /* checked by the caller */
	if (!rc)
		rc = rsock_dgpeer_for(dg, a, &p);
	if (rc)
		return rc;
	dg->peer = p;
	drop_others(dg);
	return 0;
}

static void tell_name(const struct rsock_dgram *dg, const uint8_t ip[16], uint16_t port,
		      uint32_t ifindex, struct sockaddr *a, socklen_t *len)
{
	struct sockaddr_storage name;

	sockaddr_set(&name, ip, port, ifindex);
	rsock_tell(&dg->sock, (struct sockaddr *)&name, a, len);
}

static int name_dgram(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len)
{
	const struct rsock_dgram *dg = rsock_dgram_of(rs);
	const struct rsock_dgpeer *p = dg->peer;
	socklen_t n = *len;

	if (peer && !p)
		return -ENOTCONN;
	if (peer) {
		tell_name(dg, p->ip, p->port, p->ifindex, a, len);
		return 0;
	}
	if (getsockname(dg->udp, a, &n))
		return -errno;
	*len = n;
	return 0;
}

/* --- datagrams by UDP ---------------------------------------------------- */

static int send_udp(struct rsock_dgram *dg, const struct rsock_dgpeer *p, uint8_t op,
		    const struct iovec *iov, int n)
{
	struct rs_udp h = { .op = op, .qpn = p->via->qp->qp_num };
	struct iovec all[n + 1];
	struct sockaddr_storage to;
	uint8_t header[RS_HEADER_MAX];
	struct msghdr msg = { .msg_name = &to,
			      .msg_iov = all,
			      .msg_iovlen = (size_t)n + 1 };

	memcpy(h.ip, p->ip, 16);
	all[0] = (struct iovec){ header, rs_udp_pack(&h, header) };
	if (n)
		memcpy(all + 1, iov, (size_t)n * sizeof(*iov));
	sockaddr_set(&to, p->ip, p->port, p->ifindex);
	msg.msg_namelen = sockaddr_len((struct sockaddr *)&to);
	return sendmsg(dg->udp, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void keep_message(struct rsock_dgram *dg, const struct rsock_dgpeer *p,
			 const uint8_t *data, size_t len)
{
	struct rsock_dgmsg *m;

	if (dg->queued + sizeof(*m) + len > (size_t)dg->sock.opt.sizes.rcvbuf * 2)
		return; /* lost, as with UDP */
	m = calloc(1, sizeof(*m) + len);
	if (!m)
		return;
	m->data = (uint8_t *)(m + 1);
	m->len = (uint32_t)len;
	memcpy(m->data, data, len);
	memcpy(m->ip, p->ip, 16);
	m->port = p->port;
	m->ifindex = p->ifindex;
	dg->queued += sizeof(*m) + len;
	list_add_tail(&dg->msgs, &m->node);
}

/* Takes one datagram from the UDP socket. Returns false if there is none. */
static bool listen_once(struct rsock_dgram *dg)
{
	uint8_t *buf = dg->buf;
	struct sockaddr_storage from;
	socklen_t fromlen = sizeof(from);
	ssize_t n = recvfrom(dg->udp, buf, sizeof(dg->buf), MSG_DONTWAIT,
			     (struct sockaddr *)&from, &fromlen);
	struct rsock_dgpeer *p;
	uint8_t ip[16];
	struct rs_udp h;
	size_t header;

	if (n < 0) /* errors such as ECONNREFUSED are skipped */
		return errno != EAGAIN && errno != EINTR;
	sockaddr_ip((struct sockaddr *)&from, ip);
	header = rs_udp_parse(buf, (size_t)n, &h);
	if (!header ||
	    !rsock_dgram_wants(dg, ip, sockaddr_port((struct sockaddr *)&from)) ||
	    rsock_dgpeer_for(dg, (struct sockaddr *)&from, &p))
		return true;
	rsock_dgpeer_learn(p, h.qpn);
	if (h.op == RS_UDP_DATA) {
		keep_message(dg, p, buf + header, (size_t)n - header);
		(void)send_udp(dg, p, RS_UDP_CONTROL, NULL, 0);
	}
	return true;
}

/* Polls the QPs. Polls the UDP socket only if the QPs have nothing, and every
 * AT_A_TIME-th time. */
static void progress_dgram(struct rsock *rs)
{
	struct rsock_dgram *dg = rsock_dgram_of(rs);
	bool any = false;

	list_for(n, &dg->qps) any |=
		rsock_dgqp_progress(container_of(n, struct rsock_dgqp, node));
	if (!any || ++dg->turns % AT_A_TIME == 0)
		for (int i = 0; i < AT_A_TIME && listen_once(dg); i++)
			any = true;
	if (any) /* another thread may wait for what was taken */
		rsock_wake(rs);
}

/* --- waiting ------------------------------------------------------------- */

static bool has_message(struct rsock *rs)
{
	return !list_empty(&rsock_dgram_of(rs)->msgs);
}

static bool has_slot(struct rsock *rs)
{
	list_for(n,
		 &rsock_dgram_of(rs)->qps) if (!container_of(n, struct rsock_dgqp, node)
							->free_slots) return false;
	return true;
}

static short dgram_events(struct rsock *rs, short asked)
{
	(void)asked;
	progress_dgram(rs);
	if (rs->closed)
		return POLLNVAL;
	return (short)((has_message(rs) ? POLLIN | POLLRDNORM : 0) |
		       (has_slot(rs) ? POLLOUT | POLLWRNORM : 0));
}

static void arm_dgram(struct rsock *rs, bool for_space)
{
	(void)for_space; /* each QP itself knows whether it has free slots */
	list_for(n, &rsock_dgram_of(rs)->qps)
		rsock_dgqp_arm(container_of(n, struct rsock_dgqp, node));
}

static void take_no_events(struct rsock *rs)
{
	(void)rs; /* progress() takes the events */
}

static bool dgram_may_spin(const struct rsock *rs)
{
	(void)rs;
	return true;
}

/* --- sending and receiving ----------------------------------------------- */

static ssize_t by_qp(struct rsock_dgram *dg, struct rsock_dgpeer *p,
		     const struct iovec *iov, int n, size_t len)
{
	int slot = rsock_dgqp_slot(p->via), rc;
	struct rs_ud h = { .port = dg->port };
	uint8_t header[RS_HEADER_MAX], *at;
	size_t have;

	if (slot < 0)
		return -EAGAIN;
	memcpy(h.ip, p->via->ip, 16);
	have = rs_ud_pack(&h, header);
	at = rsock_dgqp_memory(p->via, (uint32_t)slot);
	memcpy(at, header, have);
	at += have;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len)
			memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	rc = rsock_dgqp_send(p->via, p, (uint32_t)slot, (uint32_t)(have + len));
	return rc ? rc : (ssize_t)len;
}

static int find_destination(struct rsock_dgram *dg, const struct sockaddr *to,
			    socklen_t tolen, struct rsock_dgpeer **p)
{
	if (!to) {
		*p = dg->peer;
		return *p ? 0 : -EDESTADDRREQ;
	}
	if (tolen < sizeof(sa_family_t) || to->sa_family != dg->sock.domain)
		return -EAFNOSUPPORT;
	if (tolen < sockaddr_len(to))
		return -EINVAL;
	return rsock_dgpeer_for(dg, to, p);
}

static ssize_t send_dgram(struct rsock *rs, const struct iovec *iov, int n, int flags,
			  const struct sockaddr *to, socklen_t tolen)
{
	struct rsock_dgram *dg = rsock_dgram_of(rs);
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT;
	struct rsock_dgpeer *p;
	size_t len = 0;
	int rc;

	if (n < 0 || n > 1024 || flags & MSG_OOB)
		return n < 0 || n > 1024 ? -EMSGSIZE : -EOPNOTSUPP;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > RSOCK_UDP_MAX - RS_HEADER_MAX - len)
			return -EMSGSIZE;
		len += iov[i].iov_len;
	}
	rc = have_port(dg);
	if (!rc) /* destination() makes the QP, which has the port in its headers */
		rc = find_destination(dg, to, tolen, &p);
	/* destination() is called again after waiting: p may have been freed meanwhile */
	while (!rc) {
		rc = rsock_wait(rs, has_slot, nonblock, true, RSOCK_FOREVER);
		if (!rc)
			rc = find_destination(dg, to, tolen, &p);
		if (!rc && rsock_iov_has_null(iov, n))
			rc = -EFAULT;
		if (rc)
			break;
		if (rsock_dgpeer_known(p) && len <= p->via->mtu - RS_UD6)
			return by_qp(dg, p, iov, n, len);
		rc = send_udp(dg, p, RS_UDP_DATA, iov, n);
		if (!rc)
			return (ssize_t)len;
		if (rc == -EAGAIN && !nonblock)
			rc = rsock_wait_writable(rs, dg->udp);
	}
	return rc;
}

static ssize_t receive_dgram(struct rsock *rs, const struct iovec *iov, int n, int *flags,
			     struct sockaddr *from, socklen_t *fromlen)
{
	struct rsock_dgram *dg = rsock_dgram_of(rs);
	bool nonblock = rs->nonblock || *flags & MSG_DONTWAIT;
	struct rsock_dgmsg *m;
	ssize_t told;
	size_t at = 0;
	int rc;

	if (rs->state == RSOCK_NEW)
		(void)have_port(dg);
	rc = rsock_wait(rs, has_message, nonblock, false, RSOCK_FOREVER);
	if (!rc && rsock_iov_has_null(iov, n))
		rc = -EFAULT;
	if (rc)
		return rc;
	m = container_of(dg->msgs.next, struct rsock_dgmsg, node);
	for (int i = 0; i < n && at < m->len; i++) {
		size_t now = m->len - at < iov[i].iov_len ? m->len - at : iov[i].iov_len;

		memcpy(iov[i].iov_base, m->data + at, now);
		at += now;
	}
	if (from && fromlen)
		tell_name(dg, m->ip, m->port, m->ifindex, from, fromlen);
	if (m->qp)
		rsock_dgpeer_heard(dg, m);
	told = *flags & MSG_TRUNC ? (ssize_t)m->len : (ssize_t)at;
	rc = at < m->len ? MSG_TRUNC : 0;
	if (!(*flags & MSG_PEEK))
		drop_message(dg, m);
	*flags = rc;
	return told;
}

/* --- options and the end ------------------------------------------------- */

/* Options such as broadcast and TTL are set on the UDP socket. */
static int set_dgram_option(struct rsock *rs, int level, int name, const void *val,
			    socklen_t len)
{
	int rc = rsock_option_set(rs, level, name, val, len);

	if (level == SOL_RDMA || (rc && rc != -ENOPROTOOPT))
		return rc;
	return setsockopt(rsock_dgram_of(rs)->udp, level, name, val, len) ? -errno : 0;
}

static int shut_dgram(struct rsock *rs, int how)
{
	(void)rs;
	return how == SHUT_RD || how == SHUT_WR || how == SHUT_RDWR ? 0 : -EINVAL;
}

static bool close_dgram(struct rsock *rs)
{
	(void)rs;
	return false;
}

static const struct rsock_kind dgram_kind = {
	.eager = true, /* a sender learns of its peers' QPs by progress() */
	.progress = progress_dgram,
	.may_spin = dgram_may_spin,
	.arm = arm_dgram,
	.take_events = take_no_events,
	.events = dgram_events,
	.bind = bind_dgram,
	.connect = connect_dgram,
	.name = name_dgram,
	.send = send_dgram,
	.receive = receive_dgram,
	.set_option = set_dgram_option,
	.get_option = rsock_option_get,
	.shutdown = shut_dgram,
	.close = close_dgram,
	.free = free_dgram,
};

int rsock_dgram_new(int domain, struct rsock **out)
{
	struct rsock_dgram *dg = calloc(1, sizeof(*dg));
	struct epoll_event ev = { .events = EPOLLIN };
	int rc = 0;

	if (!dg)
		return -ENOMEM;
	rsock_init(&dg->sock, &dgram_kind, domain, SOCK_DGRAM);
	list_init(&dg->qps);
	list_init(&dg->peers);
	list_init(&dg->msgs);
	dg->udp =
		fd_raise(fd_socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	dg->ep = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (dg->udp < 0 || dg->ep < 0 || epoll_ctl(dg->ep, EPOLL_CTL_ADD, dg->udp, &ev))
		rc = -errno;
	if (rc) {
		rsock_put(&dg->sock);
		return rc;
	}
	dg->sock.sleep_fd = dg->ep;
	*out = &dg->sock;
	return 0;
}
