/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>

#include "driver/port_fix.h"
#include "net/ip_addr.h"
#include "sys/clock.h"

static uint64_t now =
	1000000000; /* virtual time: it advances when all datagrams have arrived */

static void turns(struct proc *p, int n, unsigned ms)
{
	for (; ms > 0; ms--, now += 1000000) {
		assert_true(netns_arrived());
		for (int i = 0; i < n; i++)
			turn(&p[i], now);
	}
}

static void test_nothing_before_bind(void **state)
{
	struct proc p;
	struct pollfd fd;

	(void)state;
	need_netns();
	begin(&p);
	turns(&p, 1, 2);
	assert_int_equal(port_rx_fd(p.port, AF_INET), -1);
	assert_int_equal(port_rx_fd(p.port, AF_INET6), -1);
	fd = (struct pollfd){ .fd = port_fd(p.port), .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_true(port_link(p.port)->ops->deadline(port_link(p.port)) == NEVER);
	assert_in_range(port_sport(p.port), 0xc000, 0xffff);
	end(&p);
}

static uint64_t misdelivered(struct proc *p, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += port_stats(p[i].port)->misdelivered;
	return sum;
}

/* Sends one tagged datagram to each process, and waits until all have arrived. */
static void round_of(struct proc *p, int n, int family, uint8_t tag)
{
	uint64_t limit = now + UINT64_C(5000000000);
	unsigned want = p[0].got + 1;

	for (int i = 0; i < n; i++)
		from_outside(family, qpn_of(p[i].slot), tag);
	for (int i = 0; i < n;) {
		turns(p, n, 1);
		assert_true(now < limit);
		i = 0;
		while (i < n && p[i].got == want)
			i++;
	}
}

/* Sends rounds until ten in a row had no misdelivered datagram; none is ever lost. */
static void rounds(struct proc *p, int n, int family)
{
	for (int i = 0, clean = 0; i < 300; i++) {
		uint64_t before = misdelivered(p, n);

		round_of(p, n, family, 0);
		clean = misdelivered(p, n) == before ? clean + 1 : 0;
		if (clean == 10)
			return;
		turns(p, n, 10);
	}
	fail_msg("datagrams are still misdelivered");
}

/* With and without the steering map each process gets its own datagrams, once each. */
static void share(int family)
{
	enum { N = 4, EACH = 20 };
	struct proc p[N];

	for (int i = 0; i < N; i++) {
		begin(&p[i]);
		assert_int_equal(port_bind(p[i].port, family), 0);
	}
	for (int k = 0; k < EACH; k++)
		for (int i = 0; i < N; i++)
			from_outside(family, qpn_of(p[i].slot), (uint8_t)k);
	for (int i = 0; i < 500 && p[0].got + p[1].got + p[2].got + p[3].got < N * EACH;
	     i++)
		turns(p, N, 2);
	/* Without the map the kernel chooses a socket at random. */
	assert_true(misdelivered(p, N) > 0);
	for (int i = 0; i < N; i++) {
		assert_int_equal(p[i].got, EACH);
		assert_true(p[i].order == (UINT64_C(1) << EACH) - 1);
	}
	rounds(p, N, family);
	/* One process ends: the kernel moves another socket to its place, and no
	 * datagram is lost. */
	end(&p[0]);
	rounds(p + 1, N - 1, family);
	assert_int_equal(p[1].got, p[3].got);
	for (int i = 1; i < N; i++)
		end(&p[i]);
}

static void test_port_is_shared(void **state)
{
	(void)state;
	need_netns();
	share(AF_INET);
	share(AF_INET6);
}

static void test_forwarded_as_it_came(void **state)
{
	struct proc p[2];
	struct dgram direct = { 0 };

	(void)state;
	need_netns();
	begin(&p[0]);
	begin(&p[1]);
	assert_int_equal(port_bind(p[0].port, AF_INET), 0);
	from_outside(AF_INET, qpn_of(p[0].slot), 1);
	turns(p, 2, 5);
	direct = p[0].last;
	from_outside(AF_INET, qpn_of(p[1].slot), 2);
	turns(p, 2, 5);
	assert_int_equal(p[0].got, 1);
	assert_int_equal(p[1].got, 1);
	assert_int_equal(p[1].data[8], 2);
	assert_memory_equal(ip_of(&p[1].last)->from.ip, ip_of(&direct)->from.ip, 16);
	assert_memory_equal(ip_of(&p[1].last)->to.ip, ip_of(&direct)->to.ip, 16);
	assert_int_equal(ip_of(&p[1].last)->to.port, PORT);
	assert_int_equal(ip_of(&p[1].last)->ifindex, ip_of(&direct)->ifindex);
	assert_int_equal(ip_of(&p[1].last)->ttl, ip_of(&direct)->ttl);
	assert_int_equal(p[1].last.len, LEN);
	assert_int_equal(port_stats(p[0].port)->forwarded, 1);
	end(&p[0]);
	end(&p[1]);
}

/* A turn reads 8 datagrams at a time: 20 datagrams for another slot do not make it look
 * as if there were none for this one. */
static void test_ours_behind_others(void **state)
{
	struct proc p;

	(void)state;
	need_netns();
	begin(&p);
	assert_int_equal(port_bind(p.port, AF_INET), 0);
	for (int i = 0; i < 20; i++)
		from_outside(AF_INET, qpn_of(p.slot == 9 ? 10 : 9), 0);
	from_outside(AF_INET, qpn_of(p.slot), 0);
	assert_true(netns_arrived());
	turn(&p, now); /* reads 8 at a time */
	assert_int_equal(p.got, 1);
	end(&p);
}

/* A process that ends forwards all that waits in its sockets, and then loses only its
 * own. */
static void test_all_is_forwarded_at_the_end(void **state)
{
	enum { N = 60, EMPTY = 20 };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct dgram v[8];
	struct proc p[2];
	int fd;

	(void)state;
	need_netns();
	begin(&p[0]);
	begin(&p[1]);
	assert_int_equal(port_bind(p[0].port, AF_INET), 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < EMPTY; i++)
		assert_int_equal(sendto(fd, NULL, 0, 0, (struct sockaddr *)&a, sizeof(a)),
				 0);
	close(fd);
	for (int i = 0; i < N; i++) {
		from_outside(AF_INET, qpn_of(p[1].slot), (uint8_t)i);
		from_outside(AF_INET, qpn_of(p[0].slot), 0);
	}
	assert_true(netns_arrived());
	port_forward(p[0].port, v, 8, now);
	assert_int_equal(port_stats(p[0].port)->forwarded, N);
	end(&p[0]);
	turns(&p[1], 1, N);
	assert_int_equal(p[1].got, N);
	assert_true(p[1].order == (UINT64_C(1) << N) - 1);
	end(&p[1]);
}

/* A buffer that the kernel cuts, or has merged, has datagrams for several slots. */
static void test_merged_slots_are_split(void **state)
{
	enum { N = 30 };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t b[N][LEN] = { 0 };
	struct proc p[3];
	int fd, size = LEN;

	(void)state;
	need_netns();
	for (int i = 0; i < 3; i++) {
		begin(&p[i]);
		assert_int_equal(port_bind(p[i].port, AF_INET), 0);
	}
	turns(p, 3, 40);
	for (int k = 0; k < N; k++) {
		b[k][0] = 4;
		b[k][8] = (uint8_t)k;
		put_qpn(b[k], qpn_of(p[k % 3].slot));
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
	assert_int_equal(sendto(fd, b, sizeof(b), 0, (struct sockaddr *)&a, sizeof(a)),
			 sizeof(b));
	close(fd);
	for (int i = 0; i < 500 && p[0].got + p[1].got + p[2].got < N; i++)
		turns(p, 3, 2);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(p[i].got, N / 3);
		assert_true(p[i].order == UINT64_C(0x9249249) << i);
		assert_int_equal(p[i].last.ip_id, p[i].data[8]);
	}
	for (int i = 0; i < 3; i++)
		end(&p[i]);
}

static void test_what_is_never_forwarded(void **state)
{
	struct proc p;
	uint8_t two[2] = { 0 };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd;

	(void)state;
	need_netns();
	begin(&p);
	assert_int_equal(port_bind(p.port, AF_INET), 0);
	from_outside(AF_INET, 1, 0);	    /* QP1 */
	from_outside(AF_INET, 0xffffff, 0); /* multicast */
	turns(&p, 1, 30);
	assert_int_equal(p.got, 2);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(sendto(fd, two, 2, 0, (struct sockaddr *)&a, sizeof(a)), 2);
	close(fd);
	turns(&p, 1, 5);
	assert_int_equal(p.got, 2);
	assert_int_equal(port_stats(p.port)->rx_drops, 1);
	assert_int_equal(port_stats(p.port)->misdelivered, 0);
	/* No process has that slot: the datagram is dropped. */
	from_outside(AF_INET, qpn_of(p.slot == 9 ? 10 : 9), 0);
	turns(&p, 1, 30);
	assert_int_equal(p.got, 2);
	assert_int_equal(port_stats(p.port)->misdelivered, 1);
	assert_int_equal(port_stats(p.port)->forwarded, 0);
	end(&p);
}

/* A datagram that was forwarded to the wrong slot is dropped, not forwarded again. */
static void test_deliver_checks_the_slot(void **state)
{
	struct proc p;
	uint8_t b[LEN] = { 4 };
	struct iovec iov = { b, LEN };
	struct dgram d = { .len = LEN, .iov = &iov, .iovcnt = 1 };

	(void)state;
	need_netns();
	begin(&p);
	put_qpn(b, qpn_of(p.slot == 9 ? 10 : 9));
	port_deliver(p.port, &d);
	d.len = 3;
	iov.iov_len = 3;
	port_deliver(p.port, &d);
	assert_int_equal(port_stats(p.port)->rx_drops, 2);
	d.len = LEN;
	iov.iov_len = LEN;
	put_qpn(b, qpn_of(p.slot));
	port_deliver(p.port, &d);
	/* QP1 exists in every process; no other QP number of slot 0 does. */
	put_qpn(b, 2);
	port_deliver(p.port, &d);
	assert_int_equal(port_stats(p.port)->rx_drops, 3);
	put_qpn(b, 1);
	port_deliver(p.port, &d);
	assert_int_equal(port_stats(p.port)->rx_drops, 3);
	assert_true(port_link(p.port)->ops->deadline(port_link(p.port)) == 0);
	turns(&p, 1, 1);
	assert_int_equal(p.got, 2);
	assert_true(port_link(p.port)->ops->deadline(port_link(p.port)) == NEVER);
	end(&p);
}

static void test_held_by_a_stranger(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct proc p;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	need_netns();
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	begin(&p);
	fprintf(stderr, "# an error line that names this process follows\n");
	assert_int_equal(port_bind(p.port, AF_INET), -EADDRINUSE);
	assert_int_equal(port_bind(p.port, AF_INET6), 0);
	close(fd);
	assert_int_equal(port_bind(p.port, AF_INET), 0);
	from_outside(AF_INET, qpn_of(p.slot), 0);
	turns(&p, 1, 5);
	assert_int_equal(p.got, 1);
	end(&p);
}

static void test_multicast_is_counted(void **state)
{
	uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
	struct proc p;
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct ip_mreqn via = { .imr_ifindex = 1 };
	uint8_t b[LEN] = { 4 };
	int fd;

	(void)state;
	need_netns();
	assert_true(netns_lo_address("10.9.9.1", 1));
	begin(&p);
	assert_int_equal(port_join(p.port, group, 1, false), -ENOENT);
	assert_int_equal(port_join(p.port, group, 1, true), 0);
	assert_int_equal(port_join(p.port, group, 1, true), 0);
	memcpy(&a.sin_addr, group + 12, 4);
	put_qpn(b, 0xffffff);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	inet_pton(AF_INET, "10.9.9.1", &via.imr_address);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &via, sizeof(via)),
			 0);
	for (unsigned left = 0; left < 3; left++) {
		assert_int_equal(sendto(fd, b, LEN, 0, (struct sockaddr *)&a, sizeof(a)),
				 LEN);
		turns(&p, 1, 5);
		assert_int_equal(p.got, left < 2 ? left + 1 : 2);
		if (left < 2)
			assert_int_equal(port_join(p.port, group, 1, false), 0);
	}
	close(fd);
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_before_bind),
		cmocka_unit_test(test_port_is_shared),
		cmocka_unit_test(test_forwarded_as_it_came),
		cmocka_unit_test(test_ours_behind_others),
		cmocka_unit_test(test_merged_slots_are_split),
		cmocka_unit_test(test_all_is_forwarded_at_the_end),
		cmocka_unit_test(test_what_is_never_forwarded),
		cmocka_unit_test(test_deliver_checks_the_slot),
		cmocka_unit_test(test_held_by_a_stranger),
		cmocka_unit_test(test_multicast_is_counted),
	};

	have_netns = netns_enter() && netns_stay();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
