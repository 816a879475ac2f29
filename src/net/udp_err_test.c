/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ip_addr.h"
#include "net/udp_fix.h"

#include <unistd.h>

/* An ICMP refusal makes the next send fail, which must lose nothing; each refusal quotes
 * the refused datagram. */
static void refused(int family, const char *ip)
{
	enum { N = 100, NOBODY = PORT + 1, LEN = 308 };
	struct link *link = open_bound(family);
	uint8_t told[16], quote[LEN], sent[LEN];
	int port = udp_ask_port(link);
	struct dgram v, in;
	struct net_addr want;
	struct out o;

	assert_in_range(port, 0xc000, 0xffff);
	assert_int_not_equal(port, udp_sport(link));
	assert_int_equal(udp_refused(link, told, quote, LEN), 0);
	set_ip(&want, ip);
	for (unsigned i = 0; i < N; i++) {
		v = make(&o, ip, ip, LEN, i);
		ip_of(&v)->from.port = (uint16_t)port;
		ip_of(&v)->to.port = NOBODY;
		memcpy(sent, o.data, LEN);
		assert_int_equal(link->ops->send(link, &v, 1, 0), 1);
		v = make(&o, ip, ip, 100, i);
		ip_of(&v)->from.port = (uint16_t)port;
		assert_int_equal(link->ops->send(link, &v, 1, 0), 1);
		assert_int_equal(recv_wait(link, &in, 1), 1);
		assert_int_equal(ip_of(&in)->from.port, port);
		check_data(&in, 100, i);
		if (i % 3)
			continue;
		assert_int_equal(udp_refused(link, told, quote, LEN), LEN);
		assert_memory_equal(told, want.ip, 16);
		while (quote[0] != sent[0] && udp_refused(link, told, quote, LEN) > 0)
			;
		assert_memory_equal(quote, sent, LEN);
		assert_int_equal(udp_refused(link, told, quote, LEN), 0);
	}
	assert_int_equal(udp_stats(link)->tx_dropped, 0);
	done(link);
}

/* Refusals of datagrams from the port that receives are not reported, and let nothing
 * fail. */
static void not_asked(int family, const char *ip)
{
	struct link *link = open_bound(family);
	struct dgram v, in;
	uint8_t told[16], quote[64];
	struct out o;

	assert_true(udp_ask_port(link) > 0);
	for (unsigned i = 0; i < 10; i++) {
		v = make(&o, ip, ip, 100, i);
		ip_of(&v)->to.port = PORT + 1;
		assert_int_equal(link->ops->send(link, &v, 1, 0), 1);
		v = make(&o, ip, ip, 100, i);
		assert_int_equal(link->ops->send(link, &v, 1, 0), 1);
		assert_int_equal(recv_wait(link, &in, 1), 1);
		assert_int_equal(ip_of(&in)->from.port, udp_sport(link));
	}
	assert_int_equal(udp_refused(link, told, quote, sizeof(quote)), 0);
	done(link);
}

static void test_nobody_has_the_port(void **state)
{
	(void)state;
	need_netns();
	refused(AF_INET, "127.0.0.1");
	refused(AF_INET6, "::1");
	not_asked(AF_INET, "127.0.0.1");
	not_asked(AF_INET6, "::1");
}

/* Returns this process's descriptor that is bound to port. */
static int fd_of_port(int port)
{
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in a;
		socklen_t len = sizeof(a);

		if (!getsockname(fd, (struct sockaddr *)&a, &len) &&
		    a.sin_family == AF_INET && ntohs(a.sin_port) == port)
			return fd;
	}
	return -1;
}

static void test_the_asking_one_is_closed_by_the_program(void **state)
{
	struct link *link;
	uint8_t ip[16], quote[64];
	struct dgram v;
	struct out o;
	int port, fd;

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	assert_true(udp_sport(link) > 0);
	port = udp_ask_port(link);
	fd = fd_of_port(port);
	assert_true(fd >= 0);
	close(fd);
	v = make(&o, "127.0.0.1", "127.0.0.1", 100, 0);
	ip_of(&v)->from.port = (uint16_t)port;
	assert_int_equal(link->ops->send(link, &v, 1, 0), -EBADF);
	assert_int_equal(udp_refused(link, ip, quote, sizeof(quote)), 0);
	done(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_has_the_port),
		cmocka_unit_test(test_the_asking_one_is_closed_by_the_program),
	};

	have_netns = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
