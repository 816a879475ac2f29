/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_fix.h - for tests: a link of UDP sockets in a namespace of its own, and datagrams
 * that tell which they are. */
#ifndef NET_UDP_FIX_H
#define NET_UDP_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "net/ip_addr.h"
#include "net/udp.h"
#include "sys/netns_testing.h"

enum { PORT = 4791, LO = 1 };

static bool have_netns;

static void need_netns(void)
{
	if (!have_netns)
		skip();
}

static struct link *open_bound(int family)
{
	struct link *link;

	assert_int_equal(udp_open(&link, PORT), 0);
	assert_int_equal(udp_bind(link, family), 0);
	return link;
}

static void done(struct link *link)
{
	link->ops->close(link);
}

static void set_ip(struct net_addr *a, const char *text)
{
	memset(a->ip, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, a->ip), 1);
		return;
	}
	a->ip[10] = a->ip[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, a->ip + 12), 1);
}

struct out {
	struct dgram d;
	struct iovec iov[2];
	uint8_t data[2048];
};

/* Makes a datagram in two pieces, whose bytes tell that it is number k. */
static struct dgram make(struct out *o, const char *from, const char *to, uint32_t len,
			 unsigned k)
{
	for (uint32_t i = 0; i < len && i < sizeof(o->data); i++)
		o->data[i] = (uint8_t)(i * 7 + k);
	o->iov[0] = (struct iovec){ o->data, 12 };
	o->iov[1] = (struct iovec){ o->data + 12, len - 12 };
	o->d = (struct dgram){ .len = len, .iov = o->iov, .iovcnt = 2 };
	ip_of(&o->d)->ttl = 64;
	set_ip(&ip_of(&o->d)->from, from);
	set_ip(&ip_of(&o->d)->to, to);
	ip_of(&o->d)->to.port = PORT;
	return o->d;
}

static int wait_readable(struct link *link, int ms)
{
	struct pollfd p[] = {
		{ .fd = udp_rx_fd(link, AF_INET), .events = POLLIN },
		{ .fd = udp_rx_fd(link, AF_INET6), .events = POLLIN },
	};

	return poll(p, 2, ms);
}

static int recv_wait(struct link *link, struct dgram *v, unsigned n)
{
	if (link->ops->deadline(link) != 0)
		wait_readable(link, 1000);
	return link->ops->recv(link, v, n, 0);
}

static void check_data(const struct dgram *d, uint32_t len, unsigned k)
{
	const uint8_t *b = d->iov[0].iov_base;

	assert_int_equal(d->len, len);
	assert_int_equal(d->iovcnt, 1);
	assert_int_equal(d->iov[0].iov_len, len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(b[i], (uint8_t)(i * 7 + k));
}

#endif
