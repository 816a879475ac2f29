/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_fix.h - what raw_test.c and raw_v1_test.c share: a raw link around a cable in
 * memory, beside a tap interface whose frames the test writes and reads. */
#ifndef NET_RAW_FIX_H
#define NET_RAW_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "net/loop.h"
#include "net/raw.h"
#include "net/raw_frame.h"
#include "net/roce.h"
#include "sys/netns_testing.h"
#include "wire/icrc.h"
#include "wire/qpn.h"

enum { PORT = 4791, SLOT = 7, ETH = 14, LEN = 40 };

#define OURS	  "10.99.0.1"
#define NEIGHBOUR "10.99.0.2"
#define NOBODY	  "10.99.0.3"
#define ROUTED	  "10.98.0.1"

static const uint8_t their_mac[6] = { 2, 0, 0, 0, 0, 2 };

static struct t {
	int tap;
	uint32_t ifindex;
	uint8_t our_mac[6];
	/* Far: the other end of the inner link, a cable in memory. */
	struct link *raw, *far;
	uint8_t ours[16];
	uint8_t data[2048];
	struct iovec iov;
} t;

static inline void set_ip(uint8_t ip[16], const char *text)
{
	struct in_addr a;

	assert_int_equal(inet_pton(AF_INET, text, &a), 1);
	addr_map_v4(ip, &a);
}

static inline bool is_ours(const uint8_t ip[16])
{
	return memcmp(ip, t.ours, 16) == 0;
}

/* --- the interface ------------------------------------------------------- */

static inline void set_addr(struct ifreq *ifr, unsigned long what, const char *ip, int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	memcpy(&ifr->ifr_addr, &a, sizeof(a));
	assert_int_equal(ioctl(fd, what, ifr), 0);
}

static inline void add_neighbour(int fd)
{
	struct arpreq arp = { .arp_flags = ATF_PERM | ATF_COM, .arp_dev = "tap0" };
	struct sockaddr_in a = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, NEIGHBOUR, &a.sin_addr), 1);
	memcpy(&arp.arp_pa, &a, sizeof(a));
	arp.arp_ha.sa_family = ARPHRD_ETHER;
	memcpy(arp.arp_ha.sa_data, their_mac, 6);
	assert_int_equal(ioctl(fd, SIOCSARP, &arp), 0);
}

static inline bool set_up(void)
{
	struct ifreq ifr = { .ifr_name = "tap0" };
	int fd;

	t.tap = netns_enter() && netns_stay() ? netns_tap("tap0") : -1;
	if (t.tap < 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	set_addr(&ifr, SIOCSIFADDR, OURS, fd);
	set_addr(&ifr, SIOCSIFNETMASK, "255.255.255.0", fd);
	add_neighbour(fd);
	assert_int_equal(ioctl(fd, SIOCGIFHWADDR, &ifr), 0);
	memcpy(t.our_mac, ifr.ifr_hwaddr.sa_data, 6);
	t.ifindex = if_nametoindex("tap0");
	set_ip(t.ours, OURS);
	close(fd);
	return true;
}

static inline int begin(void **state)
{
	const struct raw_conf conf = { .port = PORT, .slot = SLOT, .is_ours = is_ours };
	const struct loop_conf cable = { .run_max = 4 };
	struct link *near;

	(void)state;
	if (t.tap < 0)
		return 0;
	assert_int_equal(loop_pair(&near, &t.far, &cable), 0);
	assert_int_equal(raw_wrap(&t.raw, near, &conf), 0);
	assert_int_equal(raw_cover(t.raw, t.ifindex), 0);
	assert_int_equal(raw_cover(t.raw, t.ifindex), 0);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	if (t.tap < 0)
		return 0;
	t.raw->ops->close(t.raw);
	t.far->ops->close(t.far);
	return 0;
}

static inline void need_tap(void)
{
	if (t.tap < 0)
		skip();
}

/* --- packets ------------------------------------------------------------- */

/* A packet from the neighbour to this host and QP `which` of this process's slot, with
 * len bytes that tell which packet it is. */
static inline struct dgram packet(unsigned which, size_t len)
{
	struct dgram d = {
		.len = (uint32_t)len, .ip_id = 4660, .iov = &t.iov, .iovcnt = 1
	};
	uint32_t qpn = qpn_make(SLOT, which);

	memset(t.data, (int)which, len);
	t.data[QPN_AT] = (uint8_t)(qpn >> 16);
	t.data[QPN_AT + 1] = (uint8_t)(qpn >> 8);
	t.data[QPN_AT + 2] = (uint8_t)qpn;
	t.iov = (struct iovec){ t.data, len };
	set_ip(ip_of(&d)->from.ip, NEIGHBOUR);
	set_ip(ip_of(&d)->to.ip, OURS);
	ip_of(&d)->from.port = 49152;
	ip_of(&d)->to.port = PORT;
	ip_of(&d)->tclass = 0x8b;
	ip_of(&d)->ttl = 63;
	return d;
}

struct frame {
	uint8_t bytes[2048];
	size_t len;
};

static inline void frame_of(struct frame *f, const struct dgram *d)
{
	memcpy(f->bytes, t.our_mac, 6);
	memcpy(f->bytes + 6, their_mac, 6);
	f->bytes[12] = 8;
	f->bytes[13] = 0;
	f->len = ETH + raw_frame_build(f->bytes + ETH, d, d->len);
	memcpy(f->bytes + f->len, d->iov[0].iov_base, d->len);
	f->len += d->len;
}

static inline void put(const struct frame *f)
{
	assert_int_equal(write(t.tap, f->bytes, f->len), f->len);
}

static inline void sum_again(struct frame *f)
{
	uint8_t *ip = f->bytes + ETH;
	uint16_t sum;

	ip[10] = ip[11] = 0;
	sum = raw_ip_sum(ip, RAW_IP4);
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

/* Receives the next packet, and waits for it if it is on its way. */
static inline void get(struct dgram *d)
{
	struct pollfd p = { .fd = raw_rx_fd(t.raw), .events = POLLIN };

	while (t.raw->ops->recv(t.raw, d, 1, 0) == 0)
		assert_int_equal(poll(&p, 1, -1), 1);
}

static inline void expect(unsigned which)
{
	struct dgram d;

	get(&d);
	assert_int_equal(qpn_index(qpn_of_packet(d.iov[0].iov_base)), which);
}

#endif
