/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_err.c - see udp_err.h. */
#include "net/udp_err.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
/* Must follow time.h. */
#include <linux/errqueue.h>

#include "sys/sockaddr.h"

void udp_err_enable(int fd, int family)
{
	int on = 1;

	if (family == AF_INET)
		setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	else
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
}

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

static bool has_refusal(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct sock_extended_err e;

		if (!is_error(c) || c->cmsg_len < CMSG_LEN(sizeof(e)))
			continue;
		memcpy(&e, CMSG_DATA(c), sizeof(e));
		if (is_refusal(&e))
			return true;
	}
	return false;
}

size_t udp_err_next(int fd, uint8_t ip[16], void *quote, size_t max)
{
	enum { AT_ONCE = 64 };

	for (int i = 0; i < AT_ONCE; i++) {
		_Alignas(struct cmsghdr) char ctl[256];
		/* destination of the datagram that the error is about */
		struct sockaddr_storage to;
		struct iovec iov = { quote, max };
		struct msghdr m = {
			.msg_name = &to,
			.msg_namelen = sizeof(to),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = ctl,
			.msg_controllen = sizeof(ctl),
		};
		ssize_t n = recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

		if (n < 0)
			break;
		if (n == 0 || m.msg_namelen == 0 || !has_refusal(&m))
			continue;
		sockaddr_ip((struct sockaddr *)&to, ip);
		return (size_t)n;
	}
	return 0;
}
