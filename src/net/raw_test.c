/* SPDX-License-Identifier: BSD-2-Clause */
/* Which packets the packet socket takes and sends, and which the inner link. */
#include "net/raw_fix.h"

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

/* Frames that are no RoCE packets to this process are not received; the good frame
 * behind them is. */
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
	f = good; /* slot 0 belongs to no process; such packets come by UDP */
	memset(f.bytes + ETH + 28 + QPN_AT, 0, 2);
	put(&f);
	f = good; /* a fragment */
	f.bytes[ETH + 6] = 0x20;
	sum_again(&f);
	put(&f);
	f = good; /* to another host, for which this host would be the router */
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
	/* The frame to the other host's address. */
	assert_int_equal(raw_stats(t.raw)->rx_dropped, 1);
}

/* Packets with a source that no network carries: this host, loopback, a group, the zero
 * address. */
static void martians_are_dropped(void **state)
{
	static const char *const from[] = { OURS, "127.0.0.1", "224.1.2.3", "0.0.0.0" };
	struct dgram d;
	struct frame f;

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 4; i++) {
		d = packet(1, LEN);
		set_ip(ip_of(&d)->from.ip, from[i]);
		frame_of(&f, &d);
		put(&f);
	}
	d = packet(2, LEN);
	frame_of(&f, &d);
	put(&f);
	expect(2);
	assert_int_equal(raw_stats(t.raw)->rx_dropped, 4);
}

/* A tag of VLAN 0 only gives a priority; other VLANs are other interfaces. */
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

/* Reads the next RoCE frame that leaves by the interface. */
static void next_frame(struct frame *f)
{
	do {
		f->len = netns_tap_read(t.tap, f->bytes, sizeof(f->bytes), -1);
		assert_true(f->len > 0);
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

/* The inner link sends datagrams to addresses that are no known neighbour: without a MAC
 * address, without a route, a group, and this host. */
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

/* Packets for both links in one batch: each goes its way, and none is lost. */
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

/* Packets that another process has forwarded come by UDP: those of this process's slot
 * have come by the packet socket, too, so they are dropped. */
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

/* A UDP socket on the port receives the packets that the packet socket does not, and no
 * others. */
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
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(recv(fd, got, sizeof(got), 0), LEN);
	assert_int_equal(got[QPN_AT + 2], 2);
	close(fd);
}

/* The ICRC covers the header's identification and DF bit exactly as they were
 * received. */
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
			assert_int_equal(poll(&p, 1, -1), 1);
		assert_int_equal(got.damaged, row[i].damaged);
		assert_true(got.marked); /* TOS 0x8b: congestion experienced */
	}
	t.raw = roce; /* end() closes both links */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(headers_come_as_they_are, begin, end),
		cmocka_unit_test_setup_teardown(others_are_left_alone, begin, end),
		cmocka_unit_test_setup_teardown(martians_are_dropped, begin, end),
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
