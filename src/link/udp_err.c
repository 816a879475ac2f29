/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_err.c - see udp_err.h. */
#include "link/udp_err.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
/* After time.h. */
#include <linux/errqueue.h>

#include "sys/sockaddr.h"

static bool is_error(const struct cmsghdr *c)
{
	return (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
	       (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
}

static bool is_refusal(const struct sock_extended_err *e)
{
	if (e->ee_origin == SO_EE_ORIGIN_ICMP)
		return e->ee_type == ICMP_DEST_UNREACH && e->ee_code == ICMP_PORT_UNREACH;
	return e->ee_origin == SO_EE_ORIGIN_ICMP6 && e->ee_type == ICMP6_DST_UNREACH &&
	       e->ee_code == ICMP6_DST_UNREACH_NOPORT;
}

static void note(struct udp_refusals *r, const uint8_t ip[16])
{
	for (unsigned i = 0; i < r->n; i++)
		if (!memcmp(r->ip[i], ip, 16))
			return;
	if (r->n < REFUSALS_MAX)
		memcpy(r->ip[r->n++], ip, 16);
}

/* False: nothing waits.  *network: it is no error of our own. */
static bool take_one(struct udp_refusals *r, int fd, bool *network)
{
	_Alignas(struct cmsghdr) char ctl[256];
	struct sockaddr_storage to;		/* the datagram's that it is about */
	struct msghdr m = { .msg_name = &to, .msg_namelen = sizeof(to),
			    .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	uint8_t ip[16];

	if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct sock_extended_err e;

		if (!is_error(c) || c->cmsg_len < CMSG_LEN(sizeof(e)))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		*network |= e.ee_origin != SO_EE_ORIGIN_LOCAL;
		if (m.msg_namelen && is_refusal(&e)) {
			sockaddr_ip((struct sockaddr *)&to, ip);
			note(r, ip);
		}
	}
	return true;
}

bool udp_err_take(struct udp_refusals *r, int fd)
{
	enum { AT_ONCE = 64 };
	bool network = false;

	for (int i = 0; i < AT_ONCE && take_one(r, fd, &network); i++)
		;
	return network;
}

bool udp_err_next(struct udp_refusals *r, uint8_t ip[16])
{
	if (r->n == 0)
		return false;
	memcpy(ip, r->ip[--r->n], 16);
	return true;
}
