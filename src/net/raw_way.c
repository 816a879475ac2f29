/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_way.c - see raw_way.h. */
#include "net/raw_way.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "sys/fd.h"

enum { ANSWER = 8192, ATTRS = 128, TRIES = 8 };

int raw_way_open(void)
{
	int fd = fd_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			   NETLINK_ROUTE);

	return fd < 0 ? -errno : fd_raise(fd);
}

/* A netlink query: message header, header of its kind, attributes. */
struct question {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
		struct ifinfomsg interface;
	} u;
	uint8_t attrs[ATTRS];
};

static void add_attr(struct question *q, unsigned short type, const void *data,
		     size_t len)
{
	struct rtattr *a =
		(struct rtattr *)(void *)((uint8_t *)q + NLMSG_ALIGN(q->h.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (unsigned short)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	q->h.nlmsg_len = NLMSG_ALIGN(q->h.nlmsg_len) + (uint32_t)RTA_SPACE(len);
}

/* Returns the answer of the kind `wanted`, in buf; NULL: none, or an error. */
static const struct nlmsghdr *ask_netlink(int fd, struct question *q, unsigned wanted,
					  uint8_t buf[ANSWER])
{
	static uint32_t seq;

	q->h.nlmsg_flags = NLM_F_REQUEST;
	q->h.nlmsg_seq = ++seq;
	if (send(fd, q, q->h.nlmsg_len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return NULL;
	/* Skip the answers left over from earlier queries. */
	for (int i = 0; i < TRIES; i++) {
		const struct nlmsghdr *h = (const void *)buf;
		ssize_t n = recv(fd, buf, ANSWER, MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0)
			return NULL;
		if (n > ANSWER || !NLMSG_OK(h, (size_t)n) ||
		    h->nlmsg_seq != q->h.nlmsg_seq)
			continue;
		return h->nlmsg_type == wanted ? h : NULL;
	}
	return NULL;
}

/* Returns the attribute of that type after n bytes of header, if it has len bytes. */
static const void *attr(const struct nlmsghdr *h, size_t head, unsigned short type,
			size_t len)
{
	const struct rtattr *a;
	size_t left;

	if (h->nlmsg_len < NLMSG_SPACE(head))
		return NULL;
	a = (const void *)((const uint8_t *)h + NLMSG_SPACE(head));
	left = h->nlmsg_len - NLMSG_SPACE(head);
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type)
			return RTA_PAYLOAD(a) >= len ? RTA_DATA(a) : NULL;
	return NULL;
}

static const uint8_t *bytes_of(const uint8_t ip[16], bool v4)
{
	return v4 ? ip + 12 : ip;
}

/* Finds the interface that leads to a, and the next hop. */
static bool find_route(int fd, const struct ip_addr *a, uint32_t *ifindex,
		       uint8_t next[16])
{
	bool v4 = addr_is_v4(a->to.ip);
	size_t len = v4 ? 4 : 16;
	uint8_t buf[ANSWER] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct question q = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
				     .nlmsg_type = RTM_GETROUTE } };
	const struct nlmsghdr *h;
	const struct rtmsg *r;
	const void *oif, *gateway;

	q.u.route = (struct rtmsg){ .rtm_family = v4 ? AF_INET : AF_INET6,
				    .rtm_dst_len = (uint8_t)(len * 8),
				    .rtm_src_len = (uint8_t)(len * 8),
				    .rtm_tos = a->tclass & 0xfc };
	add_attr(&q, RTA_DST, bytes_of(a->to.ip, v4), len);
	add_attr(&q, RTA_SRC, bytes_of(a->from.ip, v4), len);
	if (a->ifindex)
		add_attr(&q, RTA_OIF, &a->ifindex, sizeof(a->ifindex));
	h = ask_netlink(fd, &q, RTM_NEWROUTE, buf);
	if (!h || h->nlmsg_len < NLMSG_LENGTH(sizeof(*r)))
		return false;
	r = NLMSG_DATA(h);
	oif = attr(h, sizeof(*r), RTA_OIF, sizeof(*ifindex));
	if (r->rtm_type != RTN_UNICAST || !oif || attr(h, sizeof(*r), RTA_VIA, 0) ||
	    attr(h, sizeof(*r), RTA_ENCAP, 0))
		return false;
	memcpy(ifindex, oif, sizeof(*ifindex));
	gateway = attr(h, sizeof(*r), RTA_GATEWAY, len);
	memcpy(next, gateway ? gateway : bytes_of(a->to.ip, v4), len);
	return true;
}

static bool find_neighbour(int fd, bool v4, const uint8_t next[16], struct raw_way *out)
{
	enum {
		USABLE = NUD_REACHABLE | NUD_PERMANENT | NUD_STALE | NUD_DELAY | NUD_PROBE
	};
	uint8_t buf[ANSWER] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct question q = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
				     .nlmsg_type = RTM_GETNEIGH } };
	const struct nlmsghdr *h;
	const struct ndmsg *n;
	const void *mac;

	q.u.neighbour = (struct ndmsg){ .ndm_family = v4 ? AF_INET : AF_INET6,
					.ndm_ifindex = (int)out->ifindex };
	add_attr(&q, NDA_DST, next, v4 ? 4 : 16);
	h = ask_netlink(fd, &q, RTM_NEWNEIGH, buf);
	if (!h || h->nlmsg_len < NLMSG_LENGTH(sizeof(*n)))
		return false;
	n = NLMSG_DATA(h);
	mac = attr(h, sizeof(*n), NDA_LLADDR, RAW_MAC);
	if (!mac || !(n->ndm_state & USABLE))
		return false;
	memcpy(out->mac, mac, RAW_MAC);
	out->stale = n->ndm_state & NUD_STALE;
	return true;
}

/* Finds the interface's own MAC address. Returns false if it is no Ethernet. */
static bool find_our_mac(int fd, struct raw_way *out)
{
	uint8_t buf[ANSWER] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct question q = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
				     .nlmsg_type = RTM_GETLINK } };
	const struct nlmsghdr *h;
	const struct ifinfomsg *i;
	const void *mac;

	q.u.interface = (struct ifinfomsg){ .ifi_index = (int)out->ifindex };
	h = ask_netlink(fd, &q, RTM_NEWLINK, buf);
	if (!h || h->nlmsg_len < NLMSG_LENGTH(sizeof(*i)))
		return false;
	i = NLMSG_DATA(h);
	mac = attr(h, sizeof(*i), IFLA_ADDRESS, RAW_MAC);
	if (i->ifi_type != ARPHRD_ETHER || !mac)
		return false;
	memcpy(out->our_mac, mac, RAW_MAC);
	return true;
}

bool raw_way_find(int fd, const struct ip_addr *a, struct raw_way *out)
{
	uint8_t next[16];

	return find_route(fd, a, &out->ifindex, next) &&
	       find_neighbour(fd, addr_is_v4(a->to.ip), next, out) &&
	       find_our_mac(fd, out);
}
