/* SPDX-License-Identifier: BSD-2-Clause */
/* port_fix.h - for tests: processes' ports, and datagrams from outside. */
#ifndef DRIVER_PORT_FIX_H
#define DRIVER_PORT_FIX_H

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/port.h"
#include "host/host.h"
#include "sys/netns_testing.h"

enum { PORT = 4791, LEN = 64 };

static bool have_netns;

static inline void need_netns(void)
{
	if (!have_netns)
		skip();
}

/* The parts of a process's NIC that the tests need. */
struct proc {
	struct host *host;
	struct port *port;
	uint16_t slot;
	unsigned got;
	struct dgram last;
	uint8_t data[LEN];
	uint64_t order; /* bit n is set when a datagram with data[8] == n has come */
};

static inline void on_datagram(void *arg, const struct dgram *d)
{
	port_deliver(((struct proc *)arg)->port, d);
}

static inline void on_gone(void *arg, uint16_t slot)
{
	port_peer_gone(((struct proc *)arg)->port, slot);
}

static const struct host_ops ops = { .datagram = on_datagram, .gone = on_gone };

static inline void begin_shared(struct proc *p, enum conf_share share)
{
	memset(p, 0, sizeof(*p));
	assert_int_equal(host_open(&p->host, &ops, p), 0);
	assert_int_equal(port_open(&p->port, p->host, PORT, share), 0);
	p->slot = host_slot(p->host);
}

static inline void begin(struct proc *p)
{
	begin_shared(p, CONF_SHARE_AUTO);
}

static inline void end(struct proc *p)
{
	port_link(p->port)->ops->close(port_link(p->port));
	port_close(p->port);
	host_close(p->host);
}

static inline void turn(struct proc *p, uint64_t now)
{
	struct link *link = port_link(p->port);
	struct dgram d[8];
	int n;

	host_run(p->host);
	n = link->ops->recv(link, d, 8, now);
	assert_true(n >= 0);
	for (int i = 0; i < n; i++, p->got++) {
		const uint8_t *b = d[i].iov[0].iov_base;

		p->last = d[i];
		memcpy(p->data, b, d[i].len < LEN ? d[i].len : LEN);
		if (d[i].len > 8)
			p->order |= UINT64_C(1) << b[8] % 64;
	}
}

static inline void put_qpn(uint8_t *b, uint32_t qpn)
{
	b[5] = (uint8_t)(qpn >> 16);
	b[6] = (uint8_t)(qpn >> 8);
	b[7] = (uint8_t)qpn;
}

static inline uint32_t qpn_of(uint16_t slot)
{
	return (uint32_t)slot << 14 | 0x21;
}

/* Sends a datagram from a host without urnic, each time from another port. */
static inline void from_outside(int family, uint32_t qpn, uint8_t tag)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(PORT),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	uint8_t b[LEN] = { 4, [8] = tag };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	put_qpn(b, qpn);
	assert_int_equal(sendto(fd, b, LEN, 0,
				family == AF_INET ? (struct sockaddr *)&v4
						  : (struct sockaddr *)&v6,
				family == AF_INET ? sizeof(v4) : sizeof(v6)),
			 LEN);
	close(fd);
}

#endif
