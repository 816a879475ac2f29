/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "driver/steer.h"
#include "driver/steer_map.h"
#include "net/ip_addr.h"
#include "net/udp.h"
#include "sys/netns_testing.h"

enum { PORT = 4791, MEMBERS = 40 };

static const uint64_t MS = 1000000;

static bool have_netns;
/* Virtual time: it advances when all datagrams have arrived. */
static uint64_t now = 1000000000;

/* A process, as far as steering is concerned. */
struct member {
	uint16_t slot;
	bool silent; /* a stopped process, which reads nothing */
	struct link *link;
	struct steer *steer;
	/* Datagrams that came in for its own slot, and for other slots. */
	unsigned own, others;
	uint16_t other;
};

static struct member m[MEMBERS];
static int members, family;

static void join(uint16_t slot)
{
	struct member *a = &m[members++];

	*a = (struct member){ .slot = slot };
	assert_int_equal(udp_open(&a->link, PORT), 0);
	assert_int_equal(udp_bind(a->link, family), 0);
	assert_int_equal(steer_open(&a->steer, family, PORT, slot,
				    udp_rx_fd(a->link, family), udp_epoll(a->link)),
			 0);
}

static void quit(int i)
{
	steer_close(m[i].steer);
	m[i].link->ops->close(m[i].link);
	memmove(&m[i], &m[i + 1], (size_t)(--members - i) * sizeof(m[0]));
}

static void turn(struct member *a, bool tell)
{
	struct dgram d[16];
	int n = a->link->ops->recv(a->link, d, 16, now);

	for (int i = 0; i < n; i++) {
		const uint8_t *b = d[i].iov[0].iov_base;
		uint16_t slot = (uint16_t)((b[5] << 8 | b[6]) >> 6);

		if (steer_input(a->steer, &d[i]))
			continue;
		if (slot == a->slot) {
			a->own++;
			continue;
		}
		a->others++;
		a->other = slot;
		if (tell)
			steer_misdelivered(a->steer, slot, now);
	}
	steer_run(a->steer, now);
}

static void turns(unsigned ms, bool tell)
{
	for (; ms > 0; ms--, now += MS) {
		assert_true(netns_arrived());
		for (int i = 0; i < members; i++)
			if (!m[i].silent)
				turn(&m[i], tell);
	}
}

/* Sends one datagram to each slot, each from another port, and returns how many reached
 * another process. tell: report them to the steering. */
static unsigned astray(bool tell)
{
	unsigned n = 0;

	for (int i = 0; i < members; i++)
		m[i].own = m[i].others = 0;
	for (int i = 0; i < members; i++) {
		struct sockaddr_in v4 = { .sin_family = AF_INET,
					  .sin_port = htons(PORT),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
					   .sin6_port = htons(PORT),
					   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
		uint32_t qpn = (uint32_t)m[i].slot << 14 | 3;
		uint8_t b[32] = { 4, [5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8),
				  (uint8_t)qpn };
		int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

		assert_int_equal(sendto(fd, b, sizeof(b), 0,
					family == AF_INET ? (struct sockaddr *)&v4
							  : (struct sockaddr *)&v6,
					family == AF_INET ? sizeof(v4) : sizeof(v6)),
				 sizeof(b));
		close(fd);
	}
	turns(5, tell);
	for (int i = 0; i < members; i++)
		n += m[i].others;
	return n;
}

static void settle(void)
{
	for (int i = 0; i < 100; i++) {
		if (i > 2 && astray(true) == 0)
			return;
		turns(20, true);
	}
	fail_msg("datagrams still go astray");
}

static void start(int af, int n)
{
	if (!have_netns)
		skip();
	family = af;
	members = 0;
	for (int i = 0; i < n; i++)
		join((uint16_t)(1000 - 13 * i));
}

static void quit_all(void)
{
	while (members)
		quit(0);
}

static void all_find_their_own(int af, int n)
{
	start(af, n);
	settle();
	for (int i = 0; i < members; i++)
		assert_int_equal(m[i].own, 1);
	quit_all();
}

static void test_discovery_v4(void **state)
{
	(void)state;
	all_find_their_own(AF_INET, 1);
	all_find_their_own(AF_INET, 2);
	all_find_their_own(AF_INET, 7);
	all_find_their_own(AF_INET, 8);
	all_find_their_own(AF_INET, 9);
	all_find_their_own(AF_INET, 33);
}

static void test_discovery_v6(void **state)
{
	(void)state;
	all_find_their_own(AF_INET6, 2);
	all_find_their_own(AF_INET6, 20);
}

/* When a socket is closed the kernel moves the last one of the group to its place: the
 * program sends datagrams to the wrong process until that is reported and put right. */
static void test_after_a_close(void **state)
{
	unsigned before = 0;

	(void)state;
	start(AF_INET, 10);
	settle();
	quit(3);
	for (int i = 0; i < 10;
	     i++) /* a datagram may reach the right process by chance */
		before += astray(false);
	assert_in_range(before, 1, 10);
	settle(); /* now misdelivered datagrams are reported */
	quit_all();
}

static void test_a_newcomer_is_found(void **state)
{
	(void)state;
	start(AF_INET, 5);
	settle();
	join(500);
	settle();
	quit_all();
}

static bool settles_untold(void)
{
	for (int i = 0, clean = 0; i < 100 && clean < 4; i++) {
		turns(10, false);
		clean = i > 3 && astray(false) == 0 ? clean + 1 : 0;
		if (clean == 4)
			return true;
	}
	return false;
}

/* A map is complete without reports of misdelivered datagrams: positions that were found
 * before the program was attached are not relied on. */
static void test_discovery_is_complete_by_itself(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		start(AF_INET, 2 + i % 3);
		assert_true(settles_untold());
		quit_all();
	}
}

/* A stopped process does not answer probes; the others are found all the same. */
static void test_a_stopped_process(void **state)
{
	(void)state;
	start(AF_INET, 12);
	m[4].silent = true;
	for (int i = 0; i < 100; i++) {
		unsigned own = 0;

		turns(30, true);
		astray(true);
		for (int j = 0; j < members; j++)
			own += m[j].own;
		if (own == 11)
			break;
	}
	for (int i = 0; i < members; i++)
		assert_int_equal(m[i].own, i != 4);
	quit_all();
}

/* Datagrams for slots without a socket start a limited number of discoveries. */
static void test_discoveries_are_limited(void **state)
{
	uint64_t first;

	(void)state;
	start(AF_INET, 3);
	settle();
	first = steer_discoveries(m[0].steer);
	for (int i = 0; i < 300; i++) {
		steer_misdelivered(m[0].steer, 7, now);
		steer_misdelivered(m[0].steer, (uint16_t)(8 + i), now);
		turns(1, true);
	}
	assert_in_range(steer_discoveries(m[0].steer) - first, 1, 5);
	settle();
	/* A slot that was looked for lately is not looked for again. */
	turns(6000, true);
	first = steer_discoveries(m[1].steer);
	steer_misdelivered(m[1].steer, 7, now);
	turns(100, true);
	assert_int_equal(steer_discoveries(m[1].steer), first + 1);
	steer_misdelivered(m[1].steer, 7, now);
	turns(500, true);
	assert_int_equal(steer_discoveries(m[1].steer), first + 1);
	quit_all();
}

static struct dgram probe(uint8_t b[16], const uint8_t ip[4], uint16_t port)
{
	static struct iovec iov;
	struct dgram d = { .len = 16, .iov = &iov, .iovcnt = 1 };

	addr_map_v4(ip_of(&d)->from.ip, ip);
	ip_of(&d)->from.port = port;
	memset(b, 0, 16);
	b[0] = STEER_OPCODE;
	b[1] = 1; /* the type: a question */
	b[4] = 1; /* version */
	iov = (struct iovec){ b, 16 };
	return d;
}

static void test_what_is_a_probe(void **state)
{
	static const uint8_t lo[4] = { 127, 0, 0, 1 }, far[4] = { 10, 0, 0, 1 };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	uint8_t b[16], got[17];
	struct dgram d;
	int fd;

	(void)state;
	start(AF_INET, 1);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);

	d = probe(b, far, ntohs(a.sin_port)); /* not from an address of this host */
	assert_false(steer_input(m[0].steer, &d));
	d = probe(b, lo, ntohs(a.sin_port));
	d.len = 15;
	assert_false(steer_input(m[0].steer, &d));
	d = probe(b, lo, PORT); /* from the port itself: an answer would come back here */
	assert_true(steer_input(m[0].steer, &d));
	assert_int_equal(m[0].link->ops->recv(m[0].link, &d, 1, 0), 0);
	d = probe(b, lo, ntohs(a.sin_port));
	b[4] = 2; /* another version */
	assert_true(steer_input(m[0].steer, &d));
	assert_true(recv(fd, got, sizeof(got), 0) < 0);
	b[4] = 1;
	b[3] = 5;
	assert_true(steer_input(m[0].steer, &d));
	assert_int_equal(recv(fd, got, sizeof(got), 0), 16);
	assert_int_equal(got[1], 2);
	assert_int_equal(got[3], 5);
	assert_int_equal(got[8] << 8 | got[9], m[0].slot);
	close(fd);
	quit_all();
}

/* The kernel's limit leaves room for a few slots: they are mapped, this process's among
 * them. */
static void test_small_optmem(void **state)
{
	struct utsname u;
	int major = 0, minor = 0;

	(void)state;
	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	/* Before Linux 6.8 the limit is one for the whole machine. */
	if (!have_netns || major * 100 + minor < 608 ||
	    !netns_write("/proc/sys/net/core/optmem_max", "700")) {
		fprintf(stderr, "SKIPPED: net.core.optmem_max cannot be set here\n");
		skip();
	}
	start(AF_INET, 20);
	turns(60, false);
	assert_in_range(astray(false), 1, 19);
	quit_all();
	netns_write("/proc/sys/net/core/optmem_max", "131072");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_discovery_v4),
		cmocka_unit_test(test_discovery_v6),
		cmocka_unit_test(test_after_a_close),
		cmocka_unit_test(test_a_newcomer_is_found),
		cmocka_unit_test(test_discovery_is_complete_by_itself),
		cmocka_unit_test(test_a_stopped_process),
		cmocka_unit_test(test_discoveries_are_limited),
		cmocka_unit_test(test_what_is_a_probe),
		cmocka_unit_test(test_small_optmem),
	};

	have_netns = netns_enter() && netns_stay();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
