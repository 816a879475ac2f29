/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCE v1 by packets: what is taken, what waits for its neighbour, ICRCs. */
#include <sched.h>

#include "net/raw_fix.h"
#include "net/raw_hold.h"

static struct dgram packet_v1(unsigned which)
{
	struct dgram d = packet(which, LEN);

	ip_of(&d)->from.port = ip_of(&d)->to.port = 0;
	ip_of(&d)->v1 = 1;
	return d;
}

static void frame_of_v1(struct frame *f, const struct dgram *d)
{
	memcpy(f->bytes, t.our_mac, 6);
	memcpy(f->bytes + 6, their_mac, 6);
	f->bytes[12] = 0x89;
	f->bytes[13] = 0x15;
	f->len = ETH + raw_grh_build(f->bytes + ETH, d, d->len);
	memcpy(f->bytes + f->len, d->iov[0].iov_base, d->len);
	f->len += d->len;
}

static void v1_comes_in(void **state)
{
	struct dgram d = packet_v1(1), got;
	struct frame f;

	(void)state;
	need_tap();
	frame_of_v1(&f, &d);
	f.len += 6; /* the frame's padding */
	put(&f);
	get(&got);
	ip_of(&d)->ifindex = t.ifindex;
	assert_memory_equal(&got.addr, &d.addr, sizeof(d.addr));
	assert_int_equal(got.len, LEN);
	assert_memory_equal(got.iov[0].iov_base, t.data, LEN);
}

/* A good frame with one byte changed, or cut short, is not taken. */
static void v1_of_others_is_left_alone(void **state)
{
	static const struct {
		size_t at;
		uint8_t flip;
		size_t cut;
	} row[] = {
		{ 5, 1, 0 },			/* another MAC address */
		{ 0, 1, 0 },			/* a group's address */
		{ 13, 1, 0 },			/* another type */
		{ ETH, 0x10, 0 },		/* version 7 */
		{ ETH + 6, 0x1b ^ 17, 0 },	/* next header: UDP */
		{ ETH + 5, LEN ^ 15, 0 },	/* a length shorter than BTH and ICRC */
		{ ETH + 4, 1, 0 },		/* longer than the frame */
		{ ETH + 39, 77, 0 },		/* another host's GID */
		{ ETH + 40 + QPN_AT, 0x80, 0 }, /* another slot */
		{ ETH, 0, 1 },			/* a byte is missing */
		{ ETH, 0, LEN },		/* a GRH alone */
		{ ETH, 0, LEN + 1 },		/* less than a GRH */
		{ ETH, 0, LEN + 40 },		/* nothing */
	};
	struct dgram d = packet_v1(1);
	struct frame good, f;

	(void)state;
	need_tap();
	frame_of_v1(&good, &d);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		f = good;
		f.bytes[row[i].at] ^= row[i].flip;
		f.len -= row[i].cut;
		put(&f);
	}
	f = good; /* bytes of RoCE v1 in a frame of IPv6 */
	f.bytes[12] = 0x86, f.bytes[13] = 0xdd;
	put(&f);
	d = packet(1, LEN); /* bytes of IPv4 in a frame of RoCE v1 */
	frame_of(&f, &d);
	f.bytes[12] = 0x89, f.bytes[13] = 0x15;
	put(&f);
	d = packet_v1(2);
	frame_of_v1(&f, &d);
	put(&f);
	expect(2);
	assert_int_equal(raw_stats(t.raw)->rx, 1);
}

/* Reads the next frame of that EtherType that leaves by the interface. */
static void next_of_type(struct frame *f, uint16_t type)
{
	do {
		f->len = netns_tap_read(t.tap, f->bytes, sizeof(f->bytes), -1);
		assert_true(f->len > 0);
	} while (f->len < ETH || f->bytes[12] != type >> 8 ||
		 f->bytes[13] != (uint8_t)type);
}

static struct dgram answer_v1(const char *to, unsigned which)
{
	struct dgram d = packet_v1(which);

	set_ip(ip_of(&d)->from.ip, OURS);
	set_ip(ip_of(&d)->to.ip, to);
	return d;
}

static void v1_goes_out(void **state)
{
	struct dgram d = answer_v1(NEIGHBOUR, 5), got;
	struct frame f;

	(void)state;
	need_tap();
	assert_int_equal(t.raw->ops->send(t.raw, &d, 1, 0), 1);
	next_of_type(&f, 0x8915);
	assert_int_equal(f.len, ETH + 40 + LEN);
	assert_memory_equal(f.bytes, their_mac, 6);
	assert_memory_equal(f.bytes + 6, t.our_mac, 6);
	assert_true(raw_grh_parse(&got, f.bytes + ETH, f.len - ETH));
	assert_memory_equal(&got.addr, &d.addr, sizeof(d.addr));
	assert_memory_equal(got.one.iov_base, t.data, LEN);
	assert_int_equal(raw_stats(t.raw)->tx, 1);
	assert_int_equal(t.far->ops->recv(t.far, &got, 1, 0), 0);
	assert_true(t.raw->ops->deadline(t.raw) == UINT64_MAX);
}

/* Sends the ARP reply of the host 10.99.0.last. */
static void put_arp_answer(uint8_t last)
{
	static const uint8_t head[] = { 0, 1, 8, 0, 6, 4, 0, 2 };
	struct frame f = { .len = 60 };
	uint8_t *at = f.bytes + ETH;

	memcpy(f.bytes, t.our_mac, 6);
	memcpy(f.bytes + 6, their_mac, 6);
	f.bytes[12] = 8, f.bytes[13] = 6;
	memcpy(at, head, 8);
	memcpy(at + 8, their_mac, 6);
	memcpy(at + 14, (uint8_t[]){ 10, 99, 0, last }, 4);
	memcpy(at + 18, t.our_mac, 6);
	memcpy(at + 24, (uint8_t[]){ 10, 99, 0, 1 }, 4);
	put(&f);
}

/* Waits until the kernel has read the ARP reply. */
static void wait_until_known(const char *ip)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct arpreq arp;

	assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	do {
		sched_yield();
		arp = (struct arpreq){ .arp_dev = "tap0" };
		memcpy(&arp.arp_pa, &a, sizeof(a));
	} while (ioctl(fd, SIOCGARP, &arp) || !(arp.arp_flags & ATF_COM));
	close(fd);
}

/* Packets to a neighbour without a known MAC address wait in their order while the
 * kernel resolves it. */
static void v1_waits_for_its_neighbour(void **state)
{
	struct dgram d, got;
	struct frame f;
	uint64_t now = 0;

	(void)state;
	need_tap();
	for (unsigned i = 1; i < 4; i++) {
		d = answer_v1("10.99.0.9", i);
		assert_int_equal(t.raw->ops->send(t.raw, &d, 1, now), 1);
	}
	assert_int_equal(raw_stats(t.raw)->tx, 0);
	do
		next_of_type(&f, 0x0806);
	while (f.bytes[ETH + 27] != 9);
	assert_int_equal(f.bytes[ETH + 7], 1); /* an ARP request */
	put_arp_answer(9);
	wait_until_known("10.99.0.9");
	now = t.raw->ops->deadline(t.raw);
	assert_true(now > 0 && now < 10000000);
	t.raw->ops->recv(t.raw, &got, 1, now);
	assert_int_equal(raw_stats(t.raw)->tx, 3);
	for (unsigned i = 1; i < 4; i++) {
		next_of_type(&f, 0x8915);
		assert_int_equal(f.bytes[ETH + 40], i);
	}
	assert_true(t.raw->ops->deadline(t.raw) == UINT64_MAX);
}

/* Packets wait for a limited time only. */
static void v1_without_an_answer_is_lost(void **state)
{
	struct dgram d, got;
	uint64_t at;

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 200; i++) {
		d = answer_v1(i % 2 ? NOBODY : ROUTED, 1);
		assert_int_equal(t.raw->ops->send(t.raw, &d, 1, 1000), 1);
	}
	at = t.raw->ops->deadline(t.raw);
	assert_true(at > 1000 && at < 10000000);
	t.raw->ops->recv(t.raw, &got, 1, 2000000000);
	assert_true(t.raw->ops->deadline(t.raw) != UINT64_MAX);
	t.raw->ops->recv(t.raw, &got, 1, 4000000000);
	assert_true(t.raw->ops->deadline(t.raw) == UINT64_MAX);
	assert_int_equal(raw_stats(t.raw)->tx, 0);
}

/* RAW_HELD packets wait, the first ones; later ones are lost. */
static void v1_holds_so_many(void **state)
{
	struct dgram d, got;

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 3 * RAW_HELD; i++) {
		d = answer_v1("10.99.0.10", i);
		assert_int_equal(t.raw->ops->send(t.raw, &d, 1, 0), 1);
	}
	put_arp_answer(10);
	wait_until_known("10.99.0.10");
	t.raw->ops->recv(t.raw, &got, 1, t.raw->ops->deadline(t.raw));
	assert_int_equal(raw_stats(t.raw)->tx, RAW_HELD);
	for (unsigned i = 0; i < RAW_HELD; i++) {
		struct frame f;

		next_of_type(&f, 0x8915);
		assert_int_equal(f.bytes[ETH + 40], i);
	}
}

/* The ICRC covers the GRH, whose GIDs it includes; packets of v1 are never sent as a
 * run. */
static void v1_has_its_icrc(void **state)
{
	struct link *roce;
	struct dgram v[2], got;
	struct frame f;

	(void)state;
	need_tap();
	assert_int_equal(roce_wrap(&roce, t.raw, PORT), 0);
	v[0] = answer_v1(NEIGHBOUR, 1);
	v[1] = v[0];
	v[1].seg = 1;
	for (int i = 0; i < 2; i++) {
		struct icrc_path path = { .v1 = true };
		uint8_t crc[ICRC_LEN];

		assert_int_equal(roce->ops->seal(roce, &v[i]), 0);
		assert_int_equal(v[i].seg, 0);
		memcpy(path.src, ip_of(&v[i])->from.ip, 16);
		memcpy(path.dst, ip_of(&v[i])->to.ip, 16);
		icrc_end(icrc_start(&path, 0, LEN, t.data, LEN - ICRC_LEN), crc);
		assert_memory_equal(t.data + LEN - ICRC_LEN, crc, ICRC_LEN);
	}
	assert_int_equal(roce->ops->send(roce, v, 2, 0), 2);
	next_of_type(&f, 0x8915);
	next_of_type(&f, 0x8915);
	for (int damaged = 0; damaged < 2; damaged++) {
		struct pollfd p = { .fd = raw_rx_fd(t.raw), .events = POLLIN };
		struct icrc_path path = { .v1 = true };
		struct dgram d = packet_v1(1);

		memcpy(path.src, ip_of(&d)->from.ip, 16);
		memcpy(path.dst, ip_of(&d)->to.ip, 16);
		icrc_end(icrc_start(&path, 0, LEN, t.data, LEN - ICRC_LEN),
			 t.data + LEN - ICRC_LEN);
		frame_of_v1(&f, &d);
		f.bytes[ETH + 23] ^= (uint8_t)damaged; /* the source GID */
		put(&f);
		while (roce->ops->recv(roce, &got, 1, 0) == 0)
			assert_int_equal(poll(&p, 1, -1), 1);
		assert_int_equal(got.damaged, damaged);
		assert_int_equal(got.len, LEN - ICRC_LEN);
		assert_false(got.marked); /* a GRH carries no ECN */
	}
	t.raw = roce; /* end() closes both links */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(v1_comes_in, begin, end),
		cmocka_unit_test_setup_teardown(v1_of_others_is_left_alone, begin, end),
		cmocka_unit_test_setup_teardown(v1_goes_out, begin, end),
		cmocka_unit_test_setup_teardown(v1_waits_for_its_neighbour, begin, end),
		cmocka_unit_test_setup_teardown(v1_without_an_answer_is_lost, begin, end),
		cmocka_unit_test_setup_teardown(v1_holds_so_many, begin, end),
		cmocka_unit_test_setup_teardown(v1_has_its_icrc, begin, end),
	};

	t.tap = -1;
	if (!set_up())
		t.tap = -1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
