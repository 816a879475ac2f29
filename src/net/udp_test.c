/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ip_addr.h"
#include "net/udp_fix.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"

static void test_nothing_is_open_before_use(void **state)
{
	struct link *link;
	struct dgram d;
	int sport;

	(void)state;
	need_netns();
	assert_int_equal(udp_open(&link, PORT), 0);
	assert_int_equal(udp_rx_fd(link, AF_INET), -1);
	assert_int_equal(udp_rx_fd(link, AF_INET6), -1);
	assert_int_equal(link->ops->recv(link, &d, 1, 0), 0);
	assert_true(link->ops->deadline(link) == NEVER);
	sport = udp_sport(link);
	assert_in_range(sport, 0xc000, 0xffff);
	assert_int_equal(udp_sport(link), sport);
	done(link);
}

static void round_trip(int family, const char *ip)
{
	struct link *link = open_bound(family);
	struct net_addr want = { 0 };
	struct dgram in, out;
	struct out o;

	set_ip(&want, ip);
	out = make(&o, ip, ip, 200, 3);
	ip_of(&out)->tclass = 0x6a;
	ip_of(&out)->ttl = 37;
	ip_of(&out)->ifindex = LO;
	assert_int_equal(link->ops->send(link, &out, 1, 0), 1);
	assert_int_equal(recv_wait(link, &in, 1), 1);
	check_data(&in, 200, 3);
	assert_memory_equal(ip_of(&in)->from.ip, want.ip, 16);
	assert_memory_equal(ip_of(&in)->to.ip, want.ip, 16);
	assert_int_equal(ip_of(&in)->from.port, udp_sport(link));
	assert_int_equal(ip_of(&in)->to.port, PORT);
	assert_int_equal(ip_of(&in)->ifindex, LO);
	assert_int_equal(ip_of(&in)->tclass, 0x6a);
	assert_int_equal(ip_of(&in)->ttl, 37);
	assert_int_equal(in.ip_id, 0);
	assert_int_equal(in.ip_id_exact, family == AF_INET6);
	assert_int_equal(link->ops->recv(link, &in, 1, 0), 0);
	done(link);
}

static void test_round_trip_v4(void **state)
{
	(void)state;
	need_netns();
	round_trip(AF_INET, "127.0.0.1");
}

static void test_round_trip_v6(void **state)
{
	(void)state;
	need_netns();
	round_trip(AF_INET6, "::1");
}

static void test_source_address_is_the_one_asked_for(void **state)
{
	struct link *link;
	struct net_addr want = { 0 };
	struct dgram in, out;
	struct out o;

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	out = make(&o, "127.0.0.9", "127.0.0.5", 64, 0);
	assert_int_equal(link->ops->send(link, &out, 1, 0), 1);
	assert_int_equal(recv_wait(link, &in, 1), 1);
	set_ip(&want, "127.0.0.9");
	assert_memory_equal(ip_of(&in)->from.ip, want.ip, 16);
	set_ip(&want, "127.0.0.5");
	assert_memory_equal(ip_of(&in)->to.ip, want.ip, 16);
	done(link);
}

/* Sends a run of n datagrams, the last one shorter, and receives at_once per call. */
static void run_of(int family, const char *ip, unsigned n, unsigned at_once)
{
	struct link *link = open_bound(family);
	struct out *o = calloc(n, sizeof(*o));
	struct dgram *v = calloc(n, sizeof(*v)), in[64];
	unsigned k = 0;

	for (unsigned i = 0; i < n; i++) {
		v[i] = make(&o[i], ip, ip, i == n - 1 ? 500 : 1000, i);
		v[i].seg = (uint16_t)i;
	}
	assert_int_equal(link->ops->send(link, v, n, 0), n);
	while (k < n) {
		int got = recv_wait(link, in, at_once);

		assert_in_range(got, 1, at_once);
		for (int i = 0; i < got; i++, k++) {
			check_data(&in[i], k == n - 1 ? 500 : 1000, k);
			assert_int_equal(in[i].ip_id, family == AF_INET ? k : 0);
		}
	}
	assert_int_equal(link->ops->recv(link, in, 1, 0), 0);
	done(link);
	free(o);
	free(v);
}

static void test_runs_are_cut(void **state)
{
	(void)state;
	need_netns();
	run_of(AF_INET, "127.0.0.1", 10, 64);
	run_of(AF_INET, "127.0.0.1", 64, 64);
	run_of(AF_INET6, "::1", 64, 64);
}

static void test_rest_of_a_run_is_kept(void **state)
{
	(void)state;
	need_netns();
	run_of(AF_INET, "127.0.0.1", 17, 3);
	run_of(AF_INET6, "::1", 17, 1);
}

/* After udp_keep_apart() the link sends each datagram as a message of its own. */
static void test_runs_that_are_kept_apart(void **state)
{
	enum { N = 10 };
	static struct out o[N];
	struct dgram v[N], in[N];
	struct link *link;

	(void)state;
	need_netns();
	assert_int_equal(udp_open(&link, PORT), 0);
	udp_keep_apart(link);
	assert_int_equal(udp_bind(link, AF_INET), 0);
	assert_int_equal(udp_bind(link, AF_INET6), 0);
	for (int f = 0; f < 2; f++) {
		for (unsigned i = 0; i < N; i++) {
			const char *ip = f ? "::1" : "127.0.0.1";

			v[i] = make(&o[i], ip, ip, 1000, i);
			v[i].seg = (uint16_t)i;
		}
		assert_int_equal(link->ops->send(link, v, N, 0), N);
		for (unsigned k = 0; k < N; k++) {
			assert_int_equal(recv_wait(link, in, 1), 1);
			check_data(&in[0], 1000, k);
			assert_int_equal(in[0].seg, 0);
		}
	}
	done(link);
}

static void test_many_runs_and_families_in_one_call(void **state)
{
	enum { N = 120 };
	static struct out o[N];
	static struct dgram v[N], in[N];
	unsigned seen[N] = { 0 }, total = 0;
	struct link *link;

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	assert_int_equal(udp_bind(link, AF_INET6), 0);
	for (unsigned i = 0; i < N; i++) {
		const char *ip = i / 3 % 2 ? "::1" : "127.0.0.1";

		v[i] = make(&o[i], ip, ip, 300, i);
		v[i].seg = (uint16_t)(i % 3);
	}
	assert_int_equal(link->ops->send(link, v, N, 0), N);
	while (total < N) {
		int got = recv_wait(link, in, N);

		assert_true(got > 0);
		for (int i = 0; i < got; i++, total++)
			seen[*(uint8_t *)in[i].iov[0].iov_base]++;
	}
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(seen[i], 1);
	done(link);
}

static void one_from_outside(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t b[1000] = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(sendto(fd, b, sizeof(b), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(b));
	close(fd);
}

/* The next datagram that finds room reports how many found none. */
static void test_what_found_the_socket_full_is_counted(void **state)
{
	enum { MANY = 100, TRIES = 100 };
	unsigned sent = 0, got = 0, lost = 0, room = 4096;
	struct link *link;
	struct dgram in[16];

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	assert_int_equal(setsockopt(udp_rx_fd(link, AF_INET), SOL_SOCKET, SO_RCVBUF,
				    &room, sizeof(room)),
			 0);
	for (; sent < MANY; sent++)
		one_from_outside();
	for (int i = 0; i < TRIES && (!lost || got + lost < sent); i++, sent++) {
		one_from_outside();
		for (int n = recv_wait(link, in, 16); n > 0;
		     n = link->ops->recv(link, in, 16, 0))
			for (int k = 0; k < n; k++, got++)
				lost += in[k].lost;
	}
	assert_in_range(lost, 1, MANY);
	assert_int_equal(got + lost, sent);
	done(link);
}

/* Datagrams that cannot be sent are dropped and counted; those behind them are sent. */
static void drops_and_goes_on(struct dgram *bad, unsigned n)
{
	struct link *link = open_bound(AF_INET);
	struct dgram v[8], in;
	struct out o;

	memcpy(v, bad, n * sizeof(*bad));
	v[n] = make(&o, "127.0.0.1", "127.0.0.1", 100, 5);
	assert_int_equal(link->ops->send(link, v, n + 1, 0), n + 1);
	assert_int_equal(udp_stats(link)->tx_dropped, n);
	assert_int_equal(recv_wait(link, &in, 1), 1);
	check_data(&in, 100, 5);
	assert_int_equal(link->run_max, 64);
	done(link);
}

static void test_unreachable(void **state)
{
	struct dgram d[2];
	struct out o[2];

	(void)state;
	need_netns();
	d[0] = make(&o[0], "::", "203.0.113.1", 100, 0);
	drops_and_goes_on(d, 1);
	/* A source address that is not this host's gives EINVAL, as does a route on
	 * which the kernel cannot cut. */
	d[0] = make(&o[0], "203.0.113.1", "127.0.0.1", 100, 0);
	d[1] = make(&o[1], "203.0.113.1", "127.0.0.1", 100, 1);
	d[1].seg = 1;
	drops_and_goes_on(d, 2);
	d[0] = make(&o[0], "2001:db8::1", "2001:db8::2", 100, 0);
	drops_and_goes_on(d, 1);
}

static void test_too_long(void **state)
{
	static uint8_t data[65508];
	struct iovec iov = { data, sizeof(data) };
	struct dgram d;
	struct out o;

	(void)state;
	need_netns();
	d = make(&o, "127.0.0.1", "127.0.0.1", 100, 0);
	d.iov = &iov;
	d.iovcnt = 1;
	d.len = sizeof(data);
	drops_and_goes_on(&d, 1);
}

static void test_unmapped_payload(void **state)
{
	struct dgram d;
	struct out o;

	(void)state;
	need_netns();
	d = make(&o, "127.0.0.1", "127.0.0.1", 100, 0);
	o.iov[1].iov_base = (void *)8;
	drops_and_goes_on(&d, 1);
}

static void test_port_is_shared_within_a_user_only_on_request(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct link *one, *two;
	int fd;

	(void)state;
	need_netns();
	one = open_bound(AF_INET);
	two = open_bound(AF_INET);
	assert_int_not_equal(udp_sport(one), udp_sport(two));
	done(one);
	done(two);

	fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(udp_open(&one, PORT), 0);
	assert_int_equal(udp_bind(one, AF_INET), -EADDRINUSE);
	assert_int_equal(udp_bind(one, AF_INET6), 0);
	close(fd);
	assert_int_equal(udp_bind(one, AF_INET), 0);
	done(one);
}

static void test_sending_port_takes_nothing_in(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct link *link;
	struct dgram in;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char want[32], line[256];
	unsigned found = 0;
	FILE *f;

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	a.sin_port = htons((uint16_t)udp_sport(link));
	assert_int_equal(sendto(fd, "stray", 5, 0, (struct sockaddr *)&a, sizeof(a)), 5);
	assert_int_equal(link->ops->recv(link, &in, 1, 0), 0);
	/* The stray datagram is not in the socket either: /proc shows
	 * "tx_queue:rx_queue" as 0. */
	snprintf(want, sizeof(want), " 00000000:%04X ", udp_sport(link));
	f = fopen("/proc/thread-self/net/udp", "r");
	while (fgets(line, sizeof(line), f))
		if (strstr(line, want) && strstr(line, " 00000000:00000000 "))
			found++;
	fclose(f);
	assert_int_equal(found, 1);
	close(fd);
	done(link);
}

/* The first datagram may be lost while IPv6 still checks its address. */
static int send_until(struct link *link, struct dgram *out, struct dgram *in)
{
	for (int i = 0; i < 50; i++) {
		assert_int_equal(link->ops->send(link, out, 1, 0), 1);
		if (wait_readable(link, 100) > 0)
			return link->ops->recv(link, in, 1, 0);
	}
	return 0;
}

static void multicast(int family, const char *group, const char *from, uint32_t ifindex)
{
	struct link *link = open_bound(family);
	struct net_addr g = { 0 };
	struct dgram in, out;
	struct out o;

	set_ip(&g, group);
	out = make(&o, from, group, 100, 0);
	ip_of(&out)->ifindex = ifindex;
	assert_int_equal(link->ops->send(link, &out, 1, 0), 1);
	assert_int_equal(link->ops->recv(link, &in, 1, 0), 0);
	assert_int_equal(udp_join(link, g.ip, ifindex, true), 0);
	assert_int_equal(send_until(link, &out, &in), 1);
	assert_memory_equal(ip_of(&in)->to.ip, g.ip, 16);
	assert_int_equal(udp_join(link, g.ip, ifindex, false), 0);
	assert_int_equal(link->ops->send(link, &out, 1, 0), 1);
	assert_int_equal(link->ops->recv(link, &in, 1, 0), 0);
	done(link);
}

static void test_multicast(void **state)
{
	int tap, fd;
	struct ip_mreqn m = { .imr_ifindex = LO };

	(void)state;
	need_netns();
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	/* A multicast datagram from 127/8 is not received. */
	assert_true(netns_lo_address("10.9.9.1", 1));
	/* Another socket's membership must not matter. */
	assert_int_equal(inet_pton(AF_INET, "239.1.2.3", &m.imr_multiaddr), 1);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)), 0);
	multicast(AF_INET, "239.1.2.3", "10.9.9.1", LO);
	close(fd);
	tap = netns_tap("tap0");
	if (tap < 0)
		skip();
	multicast(AF_INET6, "ff02::4791", "::", if_nametoindex("tap0"));
	close(tap);
}

static void test_closed_by_the_program(void **state)
{
	struct link *link;
	struct dgram in;
	int fd;

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	fd = udp_rx_fd(link, AF_INET);
	close(fd);
	assert_int_equal(link->ops->recv(link, &in, 1, 0), -EBADF);
	assert_int_equal(open("/dev/null", O_RDONLY) >= 0, 1);
	done(link);
}

static void test_fork_leaves_the_parent_alone(void **state)
{
	struct link *link;
	struct dgram in, out;
	struct out o;
	int status;
	pid_t pid;

	(void)state;
	need_netns();
	link = open_bound(AF_INET);
	pid = fork();
	if (pid == 0) {
		udp_forked(link);
		_exit(udp_rx_fd(link, AF_INET) == -1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	out = make(&o, "127.0.0.1", "127.0.0.1", 100, 9);
	assert_int_equal(link->ops->send(link, &out, 1, 0), 1);
	assert_int_equal(recv_wait(link, &in, 1), 1);
	check_data(&in, 100, 9);
	done(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_open_before_use),
		cmocka_unit_test(test_round_trip_v4),
		cmocka_unit_test(test_round_trip_v6),
		cmocka_unit_test(test_source_address_is_the_one_asked_for),
		cmocka_unit_test(test_runs_are_cut),
		cmocka_unit_test(test_rest_of_a_run_is_kept),
		cmocka_unit_test(test_runs_that_are_kept_apart),
		cmocka_unit_test(test_many_runs_and_families_in_one_call),
		cmocka_unit_test(test_what_found_the_socket_full_is_counted),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_unmapped_payload),
		cmocka_unit_test(test_port_is_shared_within_a_user_only_on_request),
		cmocka_unit_test(test_sending_port_takes_nothing_in),
		cmocka_unit_test(test_multicast),
		cmocka_unit_test(test_closed_by_the_program),
		cmocka_unit_test(test_fork_leaves_the_parent_alone),
	};

	have_netns = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
