/* SPDX-License-Identifier: BSD-2-Clause */
/* A raw link around a cable in memory, beside a tap interface whose frames the test
 * writes and reads: what goes by packets, what by the link within. */
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

#include "link/ip_addr.h"
#include "link/loop.h"
#include "link/raw.h"
#include "link/raw_frame.h"
#include "link/roce.h"
#include "sys/netns_testing.h"
#include "sys/qpn.h"
#include "wire/icrc.h"

enum { PORT = 4791, SLOT = 7, ETH = 14, LEN = 40, WAIT_MS = 10000 };

#define OURS	  "10.99.0.1"
#define NEIGHBOUR "10.99.0.2"
#define NOBODY	  "10.99.0.3"
#define ROUTED	  "10.98.0.1"

static const uint8_t their_mac[6] = { 2, 0, 0, 0, 0, 2 };

static struct t {
	int tap;
	uint32_t ifindex;
	uint8_t our_mac[6];
	struct link *raw, *far; /* far: the other end of the cable within */
	uint8_t ours[16];
	uint8_t data[2048];
	struct iovec iov;
} t;

static void set_ip(uint8_t ip[16], const char *text)
{
	struct in_addr a;

	assert_int_equal(inet_pton(AF_INET, text, &a), 1);
	addr_map_v4(ip, &a);
}

static bool is_ours(const uint8_t ip[16])
{
	return memcmp(ip, t.ours, 16) == 0;
}

/* --- the interface ------------------------------------------------------- */

static void set_addr(struct ifreq *ifr, unsigned long what, const char *ip, int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	memcpy(&ifr->ifr_addr, &a, sizeof(a));
	assert_int_equal(ioctl(fd, what, ifr), 0);
}

static void add_neighbour(int fd)
{
	struct arpreq arp = { .arp_flags = ATF_PERM | ATF_COM, .arp_dev = "tap0" };
	struct sockaddr_in a = { .sin_family = AF_INET };

	assert_int_equal(inet_pton(AF_INET, NEIGHBOUR, &a.sin_addr), 1);
	memcpy(&arp.arp_pa, &a, sizeof(a));
	arp.arp_ha.sa_family = ARPHRD_ETHER;
	memcpy(arp.arp_ha.sa_data, their_mac, 6);
	assert_int_equal(ioctl(fd, SIOCSARP, &arp), 0);
}

static bool set_up(void)
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

static int begin(void **state)
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

static int end(void **state)
{
	(void)state;
	if (t.tap < 0)
		return 0;
	t.raw->ops->close(t.raw);
	t.far->ops->close(t.far);
	return 0;
}

static void need_tap(void)
{
	if (t.tap < 0)
		skip();
}

/* --- packets ------------------------------------------------------------- */

/* From the neighbour to us and a QP of our slot, of len bytes that tell which it is. */
static struct dgram packet(unsigned which, size_t len)
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

static void frame_of(struct frame *f, const struct dgram *d)
{
	memcpy(f->bytes, t.our_mac, 6);
	memcpy(f->bytes + 6, their_mac, 6);
	f->bytes[12] = 8;
	f->bytes[13] = 0;
	f->len = ETH + raw_frame_build(f->bytes + ETH, d, d->len);
	memcpy(f->bytes + f->len, d->iov[0].iov_base, d->len);
	f->len += d->len;
}

static void put(const struct frame *f)
{
	assert_int_equal(write(t.tap, f->bytes, f->len), f->len);
}

static void sum_again(struct frame *f)
{
	uint8_t *ip = f->bytes + ETH;
	uint16_t sum;

	ip[10] = ip[11] = 0;
	sum = raw_ip_sum(ip, RAW_IP4);
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

/* The next that comes in, which is there or on its way. */
static void get(struct dgram *d)
{
	struct pollfd p = { .fd = raw_rx_fd(t.raw), .events = POLLIN };

	while (t.raw->ops->recv(t.raw, d, 1, 0) == 0)
		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

static void expect(unsigned which)
{
	struct dgram d;

	get(&d);
	assert_int_equal(qpn_index(qpn_of_packet(d.iov[0].iov_base)), which);
}

/* --- tests --------------------------------------------------------------- */

static void headers_come_as_they_are(void **state)
{
	struct dgram d = packet(1, LEN), got;
	struct frame f;

	(void)state;
	need_tap();
	frame_of(&f, &d);
	put(&f);
	get(&got);
	assert_memory_equal(&ip_of(&got)->from, &ip_of(&d)->from,
			    sizeof(struct net_addr));
	assert_memory_equal(&ip_of(&got)->to, &ip_of(&d)->to, sizeof(struct net_addr));
	assert_int_equal(ip_of(&got)->tclass, 0x8b);
	assert_int_equal(ip_of(&got)->ttl, 63);
	assert_int_equal(ip_of(&got)->ifindex, t.ifindex);
	assert_int_equal(got.ip_id, 4660);
	assert_true(got.ip_id_exact);
	assert_int_equal(got.len, LEN);
	assert_memory_equal(got.iov[0].iov_base, t.data, LEN);
}

/* What is not for us, or no packet, is not there: the one behind it is. */
static void others_are_left_alone(void **state)
{
	struct frame good, f;
	struct dgram d = packet(1, LEN);

	(void)state;
	need_tap();
	frame_of(&good, &d);

	f = good; /* another slot */
	f.bytes[ETH + 28 + QPN_AT] ^= 0x80;
	put(&f);
	f = good; /* slot 0 is everybody's, and comes by UDP */
	memset(f.bytes + ETH + 28 + QPN_AT, 0, 2);
	put(&f);
	f = good; /* a fragment */
	f.bytes[ETH + 6] = 0x20;
	sum_again(&f);
	put(&f);
	f = good; /* another host's, which this one would route */
	f.bytes[ETH + 19] = 77;
	sum_again(&f);
	put(&f);
	f = good; /* another MAC address */
	f.bytes[5] ^= 1;
	put(&f);
	f = good; /* IPv4's checksum */
	f.bytes[ETH + 10] ^= 1;
	put(&f);
	f = good; /* another port */
	f.bytes[ETH + 22] ^= 1;
	put(&f);
	f = good; /* the length of UDP */
	f.bytes[ETH + 25]++;
	put(&f);

	d = packet(2, LEN);
	frame_of(&f, &d);
	put(&f);
	expect(2);
	assert_int_equal(raw_stats(t.raw)->rx, 1);
	assert_int_equal(raw_stats(t.raw)->rx_dropped, 1); /* the other host's */
}

/* A tag of VLAN 0 gives a priority; another VLAN is another interface's. */
static void tagged(void **state)
{
	struct dgram d = packet(1, LEN);
	struct frame f;

	(void)state;
	need_tap();
	for (unsigned vlan = 0; vlan < 2; vlan++) {
		d = packet(2 - vlan, LEN);
		frame_of(&f, &d);
		memmove(f.bytes + 16, f.bytes + 12, f.len - 12);
		f.bytes[12] = 0x81;
		f.bytes[13] = 0;
		f.bytes[14] = 0x60;
		f.bytes[15] = (uint8_t)(1 - vlan);
		f.len += 4;
		put(&f);
	}
	expect(1);
}

/* The next frame of RoCE that leaves by the interface. */
static void next_frame(struct frame *f)
{
	do {
		struct pollfd p = { .fd = t.tap, .events = POLLIN };
		ssize_t n;

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		n = read(t.tap, f->bytes, sizeof(f->bytes));
		assert_true(n > 0);
		f->len = (size_t)n;
	} while (f->len < ETH + 28 || f->bytes[12] != 8 || f->bytes[13] != 0 ||
		 f->bytes[ETH + 22] != PORT >> 8);
}

static struct dgram answer(const char *to, unsigned which)
{
	struct dgram d = packet(which, LEN);

	set_ip(ip_of(&d)->from.ip, OURS);
	set_ip(ip_of(&d)->to.ip, to);
	d.ip_id = 0;
	return d;
}

static void neighbours_get_frames(void **state)
{
	struct dgram d = answer(NEIGHBOUR, 5), got;
	struct frame f;

	(void)state;
	need_tap();
	assert_int_equal(t.raw->ops->send(t.raw, &d, 1, 0), 1);
	next_frame(&f);
	assert_int_equal(f.len, ETH + 28 + LEN);
	assert_memory_equal(f.bytes, their_mac, 6);
	assert_memory_equal(f.bytes + 6, t.our_mac, 6);
	assert_true(raw_frame_parse(&got, f.bytes + ETH, f.len - ETH, PORT));
	assert_memory_equal(&got.addr, &d.addr, sizeof(d.addr));
	assert_memory_equal(got.one.iov_base, t.data, LEN);
	assert_int_equal(raw_stats(t.raw)->tx, 1);
	assert_int_equal(raw_stats(t.raw)->tx_by_udp, 0);
	assert_int_equal(t.far->ops->recv(t.far, &got, 1, 0), 0);
}

/* ... and whoever is not known to be one gets datagrams of the link within: one whose
 * MAC address is not known, one that no route leads to, a group, we ourselves. */
static void others_get_datagrams(void **state)
{
	static const char *const to[] = { NOBODY, ROUTED, "224.1.2.3", OURS };

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 4; i++) {
		struct dgram d = answer(to[i], i), got;

		assert_int_equal(t.raw->ops->send(t.raw, &d, 1, 0), 1);
		assert_int_equal(t.far->ops->recv(t.far, &got, 1, 0), 1);
		assert_memory_equal(&got.addr, &d.addr, sizeof(d.addr));
	}
	assert_int_equal(raw_stats(t.raw)->tx, 0);
	assert_int_equal(raw_stats(t.raw)->tx_by_udp, 4);
}

/* In turns: each goes its way, and none is lost. */
static void both_kinds_in_a_batch(void **state)
{
	struct dgram v[100], got;
	unsigned by_udp = 0;

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 100; i++)
		v[i] = answer(i % 3 ? NEIGHBOUR : NOBODY, 1);
	assert_int_equal(t.raw->ops->send(t.raw, v, 100, 0), 100);
	assert_int_equal(raw_stats(t.raw)->tx, 66);
	while (t.far->ops->recv(t.far, &got, 1, 0) == 1)
		by_udp++;
	assert_int_equal(by_udp, 34);
}

/* Other processes, which know nothing of packet sockets, forward what is for our slot. */
static void what_comes_twice_is_taken_once(void **state)
{
	static const struct {
		bool covered, our_slot, taken;
	} row[] = { { true, true, false }, { true, false, true }, { false, true, true } };

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 3; i++) {
		struct dgram d = packet(1, LEN), got;

		ip_of(&d)->ifindex = row[i].covered ? t.ifindex : 1;
		if (!row[i].our_slot)
			t.data[QPN_AT] ^= 0x80;
		assert_int_equal(t.far->ops->send(t.far, &d, 1, 0), 1);
		assert_int_equal(t.raw->ops->recv(t.raw, &got, 1, 0), row[i].taken);
	}
	assert_int_equal(raw_stats(t.raw)->rx_twice, 1);
}

/* The UDP socket on the port takes in what the packet socket does not, and no more. */
static void a_udp_socket_shares(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct dgram d = packet(1, LEN);
	struct frame f;
	uint8_t got[LEN];

	(void)state;
	need_tap();
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	raw_share(t.raw, -1);
	raw_share(t.raw, fd);
	frame_of(&f, &d);
	put(&f);
	d = packet(2, LEN);
	frame_of(&f, &d);
	f.bytes[ETH + 28 + QPN_AT] ^= 0x80;
	put(&f);
	expect(1);
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(recv(fd, got, sizeof(got), 0), LEN);
	assert_int_equal(got[QPN_AT + 2], 2);
	close(fd);
}

/* The ICRC holds for the identification and the DF of the header, and no other's. */
static void icrcs_are_exact(void **state)
{
	static const struct {
		uint16_t id;
		bool df, damaged;
	} row[] = { { 4660, true, false },
		    { 4661, true, true },
		    { 0, true, true },
		    { 4660, false, true } };
	struct link *roce;

	(void)state;
	need_tap();
	assert_int_equal(roce_wrap(&roce, t.raw, PORT), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct pollfd p = { .fd = raw_rx_fd(t.raw), .events = POLLIN };
		struct dgram d = packet(1, LEN), got;
		struct icrc_path path = { .sport = 49152, .dport = PORT };
		struct frame f;

		memcpy(path.src, ip_of(&d)->from.ip, 16);
		memcpy(path.dst, ip_of(&d)->to.ip, 16);
		icrc_end(icrc_start(&path, 4660, LEN, t.data, LEN - ICRC_LEN),
			 t.data + LEN - ICRC_LEN);
		frame_of(&f, &d);
		f.bytes[ETH + 4] = (uint8_t)(row[i].id >> 8);
		f.bytes[ETH + 5] = (uint8_t)row[i].id;
		f.bytes[ETH + 6] = row[i].df ? 0x40 : 0;
		sum_again(&f);
		put(&f);
		while (roce->ops->recv(roce, &got, 1, 0) == 0)
			assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		assert_int_equal(got.damaged, row[i].damaged);
		assert_true(got.marked); /* 0x8b: congestion experienced */
	}
	t.raw = roce; /* end() closes both */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(headers_come_as_they_are, begin, end),
		cmocka_unit_test_setup_teardown(others_are_left_alone, begin, end),
		cmocka_unit_test_setup_teardown(tagged, begin, end),
		cmocka_unit_test_setup_teardown(neighbours_get_frames, begin, end),
		cmocka_unit_test_setup_teardown(others_get_datagrams, begin, end),
		cmocka_unit_test_setup_teardown(both_kinds_in_a_batch, begin, end),
		cmocka_unit_test_setup_teardown(what_comes_twice_is_taken_once, begin,
						end),
		cmocka_unit_test_setup_teardown(a_udp_socket_shares, begin, end),
		cmocka_unit_test_setup_teardown(icrcs_are_exact, begin, end),
	};

	t.tap = -1;
	if (!set_up())
		t.tap = -1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
