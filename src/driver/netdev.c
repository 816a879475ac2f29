/* SPDX-License-Identifier: BSD-2-Clause */
/* netdev.c - see netdev.h. */
#include "driver/netdev.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/roce.h"
#include "sys/fd.h"

enum {
	BUF = 32768,
	RETRIES = 8, /* of a dump during which something changed */
	WAIT_MS = 1000,
};

struct table {
	struct netdev *v;
	int n, room;
};

/* --- messages ------------------------------------------------------------ */

static struct netdev *find_netdev(struct table *t, uint32_t ifindex)
{
	for (int i = 0; i < t->n; i++)
		if (t->v[i].ifindex == ifindex)
			return &t->v[i];
	return NULL;
}

static int grow(struct table *t)
{
	int room = t->room ? t->room * 2 : 8;
	struct netdev *v;

	if (t->n < t->room)
		return 0;
	v = realloc(t->v, (size_t)room * sizeof(*v));
	if (!v)
		return -ENOMEM;
	t->v = v;
	t->room = room;
	return 0;
}

static int on_link(struct table *t, const struct nlmsghdr *h)
{
	const struct ifinfomsg *m = NLMSG_DATA(h);
	unsigned len = (unsigned)IFLA_PAYLOAD(h);
	struct netdev *dev;
	int rc = grow(t);

	if (rc)
		return rc;
	dev = &t->v[t->n++];
	memset(dev, 0, sizeof(*dev));
	dev->ifindex = (uint32_t)m->ifi_index;
	dev->running = (m->ifi_flags & IFF_UP) && (m->ifi_flags & IFF_RUNNING);
	dev->loopback = m->ifi_flags & IFF_LOOPBACK;
	for (const struct rtattr *a = IFLA_RTA(m); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		size_t n = RTA_PAYLOAD(a);

		if (a->rta_type == IFLA_IFNAME && n <= sizeof(dev->name))
			memcpy(dev->name, RTA_DATA(a), n);
		else if (a->rta_type == IFLA_MTU && n == sizeof(dev->mtu))
			memcpy(&dev->mtu, RTA_DATA(a), n);
		else if (a->rta_type == IFLA_ADDRESS && n == sizeof(dev->mac))
			memcpy(dev->mac, RTA_DATA(a), n);
	}
	dev->name[sizeof(dev->name) - 1] = '\0';
	dev->payload = (uint32_t)roce_payload(dev->mtu);
	return 0;
}

static bool usable(uint32_t flags)
{
	if (flags & IFA_F_DADFAILED)
		return false;
	return !(flags & IFA_F_TENTATIVE) || flags & IFA_F_OPTIMISTIC;
}

static int on_addr(struct table *t, const struct nlmsghdr *h)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	unsigned len = (unsigned)IFA_PAYLOAD(h);
	size_t want = m->ifa_family == AF_INET ? 4 : 16;
	struct netdev *dev = find_netdev(t, m->ifa_index);
	const void *ip = NULL, *local = NULL;
	uint32_t flags = m->ifa_flags;
	uint8_t *to;

	if (!dev || dev->naddrs == GID_TABLE ||
	    (m->ifa_family != AF_INET && m->ifa_family != AF_INET6))
		return 0;
	for (const struct rtattr *a = IFA_RTA(m); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		size_t n = RTA_PAYLOAD(a);

		if (a->rta_type == IFA_ADDRESS && n == want)
			ip = RTA_DATA(a);
		else if (a->rta_type == IFA_LOCAL && n == want)
			local = RTA_DATA(a); /* IFA_ADDRESS is then the peer's address */
		else if (a->rta_type == IFA_FLAGS && n == sizeof(flags))
			memcpy(&flags, RTA_DATA(a), n);
	}
	if (local)
		ip = local;
	if (!ip || !usable(flags))
		return 0;
	to = dev->addr[dev->naddrs++].ip;
	if (want == 4) {
		memset(to, 0, 10);
		to[10] = to[11] = 0xff;
		to += 12;
	}
	memcpy(to, ip, want);
	return 0;
}

/* --- dumps --------------------------------------------------------------- */

static int ask_netlink(int fd, uint16_t type, uint32_t seq)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg m;
	} req = {
		.h = { .nlmsg_len = sizeof(req),
		       .nlmsg_type = type,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		       .nlmsg_seq = seq },
		.m = { .ifi_family = AF_UNSPEC },
	};

	return send(fd, &req, sizeof(req), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Handles one answer. Returns 1: more follow; 0: it was the last; -errno. */
static int take_answer(struct table *t, const struct nlmsghdr *h)
{
	int rc = 0;

	if (h->nlmsg_flags & NLM_F_DUMP_INTR)
		return -EAGAIN; /* the tables changed during the dump */
	switch (h->nlmsg_type) {
	case NLMSG_DONE:
		return 0;
	case NLMSG_ERROR: {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		return e->error ? e->error : -EPROTO;
	}
	case RTM_NEWLINK:
		rc = on_link(t, h);
		break;
	case RTM_NEWADDR:
		rc = on_addr(t, h);
		break;
	default:
		break;
	}
	return rc ? rc : 1;
}

static int dump(int fd, char *buf, struct table *t, uint16_t type, uint32_t seq)
{
	int rc = ask_netlink(fd, type, seq);

	if (rc)
		return rc;
	for (;;) {
		ssize_t n = recv(fd, buf, BUF, 0);
		unsigned len = (unsigned)n;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		for (struct nlmsghdr *h = (void *)buf; NLMSG_OK(h, len);
		     h = NLMSG_NEXT(h, len)) {
			if (h->nlmsg_seq != seq)
				continue;
			rc = take_answer(t, h);
			if (rc <= 0)
				return rc;
		}
	}
}

static int netlink(int flags)
{
	int fd = fd_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

/* Opens a socket for each try, so that the rest of a broken dump is discarded with
 * it. */
static int read_tables(struct table *t, char *buf)
{
	struct timeval tv = { WAIT_MS / 1000, WAIT_MS % 1000 * 1000 };
	int fd = netlink(0), rc;

	if (fd < 0)
		return fd;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	t->n = 0;
	rc = dump(fd, buf, t, RTM_GETLINK, 1);
	if (!rc)
		rc = dump(fd, buf, t, RTM_GETADDR, 2);
	close(fd);
	return rc;
}

static int by_rank(const void *a, const void *b)
{
	const struct netdev *x = a, *y = b;

	if (x->loopback != y->loopback)
		return x->loopback - y->loopback;
	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

int netdev_list(struct netdev **out, int *n)
{
	struct table t = { 0 };
	char *buf = malloc(BUF);
	int rc = -ENOMEM, kept = 0;

	if (!buf)
		return rc;
	for (int i = 0; i < RETRIES; i++) {
		rc = read_tables(&t, buf);
		if (rc != -EAGAIN)
			break;
	}
	free(buf);
	if (rc) {
		free(t.v);
		return rc;
	}
	for (int i = 0; i < t.n; i++)
		if (t.v[i].naddrs && kept++ != i)
			t.v[kept - 1] = t.v[i];
	if (kept)
		qsort(t.v, (size_t)kept, sizeof(*t.v), by_rank);
	*out = t.v;
	*n = kept;
	return 0;
}

/* --- changes ------------------------------------------------------------- */

struct netdev_monitor {
	int fd;
};

int netdev_monitor_open(struct netdev_monitor **out)
{
	struct sockaddr_nl a = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	struct netdev_monitor *m = malloc(sizeof(*m));
	int rc;

	if (!m)
		return -ENOMEM;
	m->fd = netlink(SOCK_NONBLOCK);
	if (m->fd < 0) {
		rc = m->fd;
		goto free_monitor;
	}
	m->fd = fd_raise(m->fd);
	if (bind(m->fd, (struct sockaddr *)&a, sizeof(a))) {
		rc = -errno;
		goto close_fd;
	}
	*out = m;
	return 0;

close_fd:
	close(m->fd);
free_monitor:
	free(m);
	return rc;
}

bool netdev_monitor_drain(struct netdev_monitor *m)
{
	char buf[4096];
	bool changed = false;

	for (;;) {
		/* The message's contents do not matter, so it may be truncated. ENOBUFS:
		 * more came than the socket could hold. */
		if (recv(m->fd, buf, sizeof(buf), MSG_DONTWAIT) < 0 && errno != ENOBUFS &&
		    errno != EINTR)
			return changed;
		changed = true;
	}
}

int netdev_monitor_fd(const struct netdev_monitor *m)
{
	return m->fd;
}

void netdev_monitor_forked(struct netdev_monitor *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

void netdev_monitor_close(struct netdev_monitor *m)
{
	netdev_monitor_forked(m);
	free(m);
}
