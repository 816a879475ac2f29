/* SPDX-License-Identifier: BSD-2-Clause */
/* link_testing.h - datagrams for the unit tests of links. */
#ifndef NET_LINK_TESTING_H
#define NET_LINK_TESTING_H

#include "net/ip_addr.h"
#include "net/link.h"

/* One datagram of at most 64 bytes, in two pieces. */
struct test_dgram {
	struct dgram d;
	struct iovec iov[2];
	uint8_t bytes[64];
};

static inline struct dgram *test_dgram(struct test_dgram *t, const void *p, uint32_t len)
{
	*t = (struct test_dgram){
		.d = {
			.len = len, .iovcnt = 2,
		},
	};
	*ip_of(&t->d) = (struct ip_addr){
		.from = { .ip = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, .port = 0xc001 },
		.to = { .ip = { [10] = 0xff, 0xff, 10, 0, 0, 2 }, .port = 4791 },
		.tclass = 2,
		.ttl = 64,
	};
	memcpy(t->bytes, p, len);
	t->d.iov = t->iov;
	t->iov[0] = (struct iovec){ t->bytes, len / 3 };
	t->iov[1] = (struct iovec){ t->bytes + len / 3, len - len / 3 };
	return &t->d;
}

/* Sends one datagram that holds the number n; returns 1 if it was taken. */
static inline int test_send(struct link *link, uint32_t n, uint64_t now)
{
	struct test_dgram t;

	return link->ops->send(link, test_dgram(&t, &n, sizeof(n)), 1, now);
}

static inline uint32_t test_number(const struct dgram *d)
{
	uint32_t n = UINT32_MAX;

	if (d->iovcnt == 1 && d->len == sizeof(n) && d->iov->iov_len == sizeof(n))
		memcpy(&n, d->iov->iov_base, sizeof(n));
	return n;
}

/* Receives one datagram and returns its number; -1: none waits. */
static inline int64_t test_recv(struct link *link, uint64_t now)
{
	struct dgram v;

	if (link->ops->recv(link, &v, 1, now) != 1)
		return -1;
	return test_number(&v);
}

#endif
