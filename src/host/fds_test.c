/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a stranger sends, and that are never taken: sockets that linger, so
 * that who closes them waits. */
#include "host/fds.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/name.h"
#include "host/service.h"
#include "sys/clock.h"

enum { LINGER_S = 30, AT_ONCE_MS = 15000 };

/* A TCP socket with more to send than its peer takes.  What else there is of it stays
 * open: the tests are few. */
static int lingering(void)
{
	const struct linger wait = { .l_onoff = 1, .l_linger = LINGER_S };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	static char data[1 << 16];
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(connect(c, (struct sockaddr *)&a, len), 0);
	assert_true(accept(l, NULL, NULL) >= 0);
	while (send(c, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(c, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
	return c;
}

static void make_pair(int type, int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, type, 0, pair), 0);
}

/* fd goes along, and is nowhere else then. */
static void send_away(int to, int fd)
{
	struct iovec iov = { (void *)(uintptr_t) "x", 1 };

	assert_int_equal(fds_send(to, &iov, 1, &fd, 1), 0);
	close(fd);
}

/* A socket of that type in which a lingering one lies. */
static int with_one_inside(int type)
{
	int pair[2];

	make_pair(type, pair);
	send_away(pair[0], lingering());
	close(pair[0]);
	return pair[1];
}

static int listener_with_one_inside(void)
{
	static const char name[] = "urnic-test/inside";
	int fd = name_listen_at(name), c = name_connect_to(name);

	assert_true(fd >= 0 && c >= 0);
	send_away(c, lingering());
	close(c);
	return fd;
}

static uint64_t began;

static void expect_at_once(void)
{
	assert_true(clock_ns() - began < AT_ONCE_MS * UINT64_C(1000000));
}

static void test_unread(void **state)
{
	static const int type[] = { SOCK_SEQPACKET, SOCK_DGRAM, SOCK_STREAM };

	(void)state;
	need_netns();
	for (int i = 0; i < 3; i++) {
		int fd = with_one_inside(type[i]);

		began = clock_ns();
		fds_hang_up(fd);
		expect_at_once();
	}
}

/* An empty message is not the end. */
static void test_unread_behind_empty_ones(void **state)
{
	int pair[2];

	(void)state;
	need_netns();
	make_pair(SOCK_SEQPACKET, pair);
	for (int i = 0; i < 20; i++)
		assert_int_equal(send(pair[0], "", 0, 0), 0);
	send_away(pair[0], lingering());
	began = clock_ns();
	fds_hang_up(pair[1]);
	expect_at_once();
	/* Nor can anything come after it. */
	assert_true(send(pair[0], "x", 1, MSG_NOSIGNAL) < 0);
	close(pair[0]);
}

static void test_unread_in_what_came(void **state)
{
	int fd[3], outer[2];

	(void)state;
	need_netns();
	fd[0] = with_one_inside(SOCK_SEQPACKET);
	fd[1] = listener_with_one_inside();
	make_pair(SOCK_STREAM, outer);
	send_away(outer[0], with_one_inside(SOCK_DGRAM));
	close(outer[0]);
	fd[2] = outer[1];
	for (int i = 0; i < 3; i++) {
		began = clock_ns();
		fds_close(fd[i]);
		expect_at_once();
	}
}

/* Of a process that ends there are connections, new ones that nobody has taken yet,
 * and names. */
static void test_a_host_closes(void **state)
{
	struct service *service;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct side a, b;
	int fd[2], fd_dgram = socket(AF_UNIX, SOCK_DGRAM, 0);

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "hello"), 0);
	for (int i = 0; i < 2; i++) {
		fd[i] = name_connect(host_slot(a.host));
		if (i == 0)
			run(&a);
		send_away(fd[i], lingering());
	}
	assert_int_equal(service_bind(a.host, "urnic-test/service", &service), 0);
	memcpy(to.sun_path + 1, "urnic-test/service", 18);
	assert_int_equal(connect(fd_dgram, (struct sockaddr *)&to,
				 offsetof(struct sockaddr_un, sun_path) + 19),
			 0);
	send_away(fd_dgram, lingering());
	began = clock_ns();
	service_close(service);
	host_close(a.host);
	expect_at_once();
	host_close(b.host);
	close(fd[0]);
	close(fd[1]);
	close(fd_dgram);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unread),
		cmocka_unit_test(test_unread_behind_empty_ones),
		cmocka_unit_test(test_unread_in_what_came),
		cmocka_unit_test(test_a_host_closes),
	};

	have_netns = netns_enter(); /* with lo */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
