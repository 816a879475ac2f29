/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram sockets: the first datagram goes by UDP, through the kernel's loopback; later
 * ones go from QP to QP. */
#include "rsocket/dgsock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/dgqp.h"
#include "rsocket/fix.h"
#include "rsocket/format.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

enum { N = 3, BIG = 60000 };

static int fds[N];
static struct sockaddr_in names[N];
static uint8_t buf[BIG + 1], big[BIG];

static int begin(void **state)
{
	fix_begin(state);
	for (int i = 0; i < N; i++) {
		socklen_t len = sizeof(names[i]);
		int rq = 8;

		fds[i] = rsocket_open(AF_INET, SOCK_DGRAM, 0);
		assert_true(fds[i] >= 0);
		assert_int_equal(rsocket_set_option(fds[i], SOL_RDMA, RDMA_RQSIZE, &rq,
						    sizeof(rq)),
				 0);
		names[i] = fix_addr(1, 0);
		assert_int_equal(rsocket_bind(fds[i], (struct sockaddr *)&names[i], len),
				 0);
		assert_int_equal(rsocket_name(fds[i], false, (struct sockaddr *)&names[i],
					      &len),
				 0);
	}
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < N; i++)
		assert_int_equal(rsocket_close(fds[i]), 0);
	return fix_end(state);
}

static ssize_t send_to(int from, int to, const void *data, size_t len)
{
	const struct iovec iov = { (void *)(uintptr_t)data, len };

	return rsocket_send(fds[from], &iov, 1, MSG_DONTWAIT,
			    (struct sockaddr *)&names[to], sizeof(names[to]));
}

/* Reads a datagram of length *n; returns which of the three sockets sent it. */
static int receive(int at, ssize_t *n, int flags)
{
	struct iovec iov = { buf, sizeof(buf) };
	struct sockaddr_in from = { 0 };
	socklen_t len = sizeof(from);

	*n = rsocket_receive(fds[at], &iov, 1, &flags, (struct sockaddr *)&from, &len);
	for (int i = 0; i < N; i++)
		if (from.sin_port == names[i].sin_port)
			return i;
	return -1;
}

/* Makes both sockets learn each other's QP. */
static void acquaint(int i, int j)
{
	ssize_t n;

	assert_int_equal(send_to(i, j, "a", 1), 1);
	assert_int_equal(receive(j, &n, MSG_DONTWAIT), i);
	fix_poll(fds[i], POLLIN); /* handles the answer */
}

/* Returns how many unread datagrams came by a QP. */
static int by_qp(int i)
{
	int n = 0;

	fix_poll(fds[i], POLLIN);
	list_for(at, &rsock_dgram_of(fix_sock(fds[i]))->msgs) n +=
		container_of(at, struct rsock_dgmsg, node)->qp != NULL;
	return n;
}

static void the_first_goes_by_udp(void **state)
{
	ssize_t n;

	(void)state;
	assert_int_equal(send_to(0, 1, "one", 3), 3);
	assert_int_equal(by_qp(1), 0);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT), 0);
	assert_int_equal(n, 3);
	assert_int_equal(send_to(0, 1, "two", 3), 3);
	assert_int_equal(by_qp(1), 1);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT), 0);
	assert_memory_equal(buf, "two", 3);
	assert_int_equal(send_to(1, 0, "back", 4), 4);
	assert_int_equal(by_qp(0), 1);
}

/* Loopback has no device of its own: packets have the GID that stands for its address. */
static void where_another_gid_stands_for_loopback(void **state)
{
	fix.stand_in = true;
	the_first_goes_by_udp(state);
}

/* --- a UDP socket that is full ------------------------------------------- */

static struct {
	bool is;
	int fd, saved, other_end;
} full;

/* The C library's sendmsg(), but a full socket takes nothing. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (!full.is)
		return syscall(SYS_sendmsg, fd, msg, flags);
	errno = EAGAIN;
	return -1;
}

/* Replaces the UDP socket by the reading end of a pipe, which is never writable. */
static void fill_up(int i)
{
	int ends[2];

	full.fd = rsock_dgram_of(fix_sock(fds[i]))->udp;
	full.saved = dup(full.fd);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[0], full.fd), full.fd);
	close(ends[0]);
	full.other_end = ends[1];
	full.is = true;
}

static void make_room(void)
{
	assert_int_equal(dup2(full.saved, full.fd), full.fd);
	close(full.saved);
	close(full.other_end);
	full.is = false;
}

/* What another thread may do meanwhile: poll the socket and read from it. */
static void looked_at_by_others(void)
{
	struct rsock *rs = fix_sock(fds[0]);

	assert_int_equal(pthread_mutex_trylock(&rs->lock), 0);
	pthread_mutex_unlock(&rs->lock);
	make_room();
}

static void closed_by_another(void)
{
	assert_int_equal(rsocket_close(fds[0]), 0);
	make_room();
}

static ssize_t wait_and_send(int from, int to)
{
	const struct iovec iov = { (void *)(uintptr_t) "full", 4 };

	return rsocket_send(fds[from], &iov, 1, 0, (struct sockaddr *)&names[to],
			    sizeof(names[to]));
}

static void a_full_udp_socket_holds_up_its_sender_alone(void **state)
{
	ssize_t n;

	(void)state;
	assert_int_equal(send_to(0, 1, "one", 3), 3);
	assert_int_equal(send_to(0, 2, "one", 3), 3);
	fill_up(0);
	assert_int_equal(send_to(0, 1, "no", 2), -EAGAIN);
	fix_when_asleep(looked_at_by_others);
	assert_int_equal(wait_and_send(0, 1), 4);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT), 0);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT), 0);
	assert_memory_equal(buf, "full", 4);
	fill_up(0);
	fix_when_asleep(closed_by_another);
	assert_int_equal(wait_and_send(0, 2), -EBADF);
	fds[0] = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	assert_true(fds[0] >= 0);
}

static void to_several_destinations(void **state)
{
	ssize_t n;

	(void)state;
	acquaint(0, 1);
	acquaint(0, 2);
	acquaint(1, 2);
	for (int round = 0; round < 50; round++)
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++) {
				uint8_t what = (uint8_t)(16 * i + j);

				if (i == j)
					continue;
				assert_int_equal(send_to(i, j, &what, 1), 1);
				assert_int_equal(receive(j, &n, MSG_DONTWAIT), i);
				assert_int_equal(buf[0], what);
			}
	assert_int_equal(receive(0, &n, MSG_DONTWAIT), -1);
	assert_int_equal(n, -EAGAIN);
}

static void what_is_longer_than_a_packet_goes_by_udp(void **state)
{
	ssize_t n;

	(void)state;
	acquaint(0, 1);
	assert_int_equal(send_to(0, 1, big, 1024 - RS_UD6), 1024 - RS_UD6);
	assert_int_equal(by_qp(1), 1);
	receive(1, &n, MSG_DONTWAIT);
	assert_int_equal(n, 1024 - RS_UD6);
	assert_int_equal(send_to(0, 1, big, BIG), BIG);
	assert_int_equal(by_qp(1), 0);
	receive(1, &n, MSG_DONTWAIT);
	assert_int_equal(n, BIG);
	assert_int_equal(send_to(0, 1, big, 65507), -EMSGSIZE);
}

static void after_a_silent_second_it_asks_again(void **state)
{
	(void)state;
	acquaint(0, 1);
	fix.now += 2 * RSOCK_S;
	assert_int_equal(send_to(0, 1, "x", 1), 1);
	assert_int_equal(by_qp(1), 0);
	fix_poll(fds[0], POLLIN);
	assert_int_equal(send_to(0, 1, "x", 1), 1);
	assert_int_equal(by_qp(1), 1);
}

static void a_connected_socket(void **state)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	ssize_t n;

	(void)state;
	assert_int_equal(fix_send(fds[0], "x", 1, 0), -EDESTADDRREQ);
	assert_int_equal(rsocket_name(fds[0], true, (struct sockaddr *)&peer, &len),
			 -ENOTCONN);
	assert_int_equal(send_to(2, 0, "before", 6), 6);
	fix_poll(fds[0], POLLIN);
	assert_int_equal(rsocket_connect(fds[0], (struct sockaddr *)&names[1],
					 sizeof(names[1])),
			 0);
	assert_int_equal(rsocket_name(fds[0], true, (struct sockaddr *)&peer, &len), 0);
	assert_int_equal(peer.sin_port, names[1].sin_port);
	assert_int_equal(send_to(2, 0, "after", 5), 5);
	/* Neither datagram is for it. */
	assert_int_equal(receive(0, &n, MSG_DONTWAIT), -1);
	assert_int_equal(fix_send(fds[0], "x", 1, 0), 1);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT), 0);
	assert_int_equal(send_to(1, 0, "y", 1), 1);
	assert_int_equal(receive(0, &n, MSG_DONTWAIT), 1);
}

static void looking_and_cutting(void **state)
{
	struct iovec two[2] = { { buf, 2 }, { buf + 10, 2 } };
	ssize_t n;
	int flags;

	(void)state;
	assert_int_equal(send_to(0, 1, "12345", 5), 5);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT | MSG_PEEK), 0);
	assert_int_equal(n, 5);
	flags = MSG_PEEK | MSG_TRUNC;
	assert_int_equal(rsocket_receive(fds[1], two, 2, &flags, NULL, NULL), 5);
	assert_int_equal(flags, MSG_TRUNC);
	flags = 0;
	assert_int_equal(rsocket_receive(fds[1], two, 2, &flags, NULL, NULL), 4);
	assert_int_equal(flags, MSG_TRUNC);
	assert_memory_equal(buf, "12", 2);
	assert_memory_equal(buf + 10, "34", 2);
	assert_int_equal(receive(1, &n, MSG_DONTWAIT), -1);
}

static void send_late(void)
{
	assert_int_equal(send_to(0, 1, "late", 4), 4);
}

static void a_reader_waits(void **state)
{
	ssize_t n;

	(void)state;
	for (int i = 0; i < 2; i++) { /* by UDP, then by QP */
		fix_when_asleep(send_late);
		assert_int_equal(receive(1, &n, 0), 0);
		assert_int_equal(n, 4);
		fix_poll(fds[0], POLLIN);
	}
}

static void slots_run_out(void **state)
{
	(void)state;
	acquaint(0, 1);
	fix.hold = true;
	for (int i = 0; i < RSOCK_DG_SLOTS; i++)
		assert_int_equal(send_to(0, 1, "x", 1), 1);
	assert_int_equal(send_to(0, 1, "x", 1), -EAGAIN);
	assert_int_equal(fix_poll(fds[0], POLLOUT), 0);
	fix.hold = false;
	assert_int_equal(fix_poll(fds[0], POLLOUT), POLLOUT);
	assert_int_equal(send_to(0, 1, "x", 1), 1);
}

/* A datagram without a valid header of ours is dropped. */
static void strangers(void **state)
{
	static const char *const what[] = { "", "x", "GET / HTTP/1.0\r\n\r\n",
					    "UUUUxxxxxxxxxxxxxxxxxxxxxxxxxx" };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_true(sendto(s, what[i], strlen(what[i]), 0,
				   (struct sockaddr *)&names[0], sizeof(names[0])) >= 0);
	assert_int_equal(receive(0, &n, MSG_DONTWAIT), -1);
	assert_int_equal(n, -EAGAIN);
	assert_int_equal(rsock_dgram_of(fix_sock(fds[0]))->npeers, 0);
	close(s);
}

/* As with UDP, datagrams beyond the buffer are lost. */
static void a_reader_that_does_not_read(void **state)
{
	ssize_t n;
	int some = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		assert_int_equal(send_to(0, 1, big, BIG), BIG);
		fix_poll(fds[1], POLLIN);
	}
	assert_true(rsock_dgram_of(fix_sock(fds[1]))->queued <=
		    2 * fix_sock(fds[1])->opt.sizes.rcvbuf);
	while (receive(1, &n, MSG_DONTWAIT) == 0)
		some++;
	assert_in_range(some, 1, 39);
	assert_int_equal(rsock_dgram_of(fix_sock(fds[1]))->queued, 0);
}

static void close_it(void)
{
	assert_int_equal(rsocket_close(fds[1]), 0);
}

static void a_reader_whose_socket_is_closed(void **state)
{
	ssize_t n;

	(void)state;
	fix_when_asleep(close_it);
	receive(1, &n, 0);
	assert_int_equal(n, -EBADF);
	fds[1] = rsocket_open(AF_INET, SOCK_DGRAM, 0);
}

static void options_and_refusals(void **state)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	const struct iovec iov = { buf, 1 };
	int yes = 1, v = 0;
	socklen_t len = sizeof(v);

	(void)state;
	assert_int_equal(rsocket_set_option(fds[0], SOL_SOCKET, SO_BROADCAST, &yes,
					    sizeof(yes)),
			 0);
	assert_int_equal(getsockopt(rsock_dgram_of(fix_sock(fds[0]))->udp, SOL_SOCKET,
				    SO_BROADCAST, &v, &len),
			 0);
	assert_int_equal(v, 1);
	assert_int_equal(rsocket_shutdown(fds[0], SHUT_RDWR), 0);
	assert_int_equal(rsocket_shutdown(fds[0], 5), -EINVAL);
	assert_int_equal(rsocket_send(fds[0], &iov, 1, MSG_OOB, NULL, 0), -EOPNOTSUPP);
	assert_int_equal(rsocket_send(fds[0], &iov, 2000, 0, NULL, 0), -EINVAL);
	assert_int_equal(rsocket_send(fds[0], &iov, -1, 0, NULL, 0), -EINVAL);
	assert_int_equal(rsocket_send(fds[0], &iov, 1, 0, (struct sockaddr *)&six,
				      sizeof(six)),
			 -EAFNOSUPPORT);
	assert_int_equal(rsocket_send(fds[0], &iov, 1, 0, (struct sockaddr *)&names[1],
				      4),
			 -EINVAL);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_goes_by_udp, begin, end),
		cmocka_unit_test_setup_teardown(where_another_gid_stands_for_loopback,
						begin, end),
		cmocka_unit_test_setup_teardown(to_several_destinations, begin, end),
		cmocka_unit_test_setup_teardown(
			a_full_udp_socket_holds_up_its_sender_alone, begin, end),
		cmocka_unit_test_setup_teardown(what_is_longer_than_a_packet_goes_by_udp,
						begin, end),
		cmocka_unit_test_setup_teardown(after_a_silent_second_it_asks_again, begin,
						end),
		cmocka_unit_test_setup_teardown(a_connected_socket, begin, end),
		cmocka_unit_test_setup_teardown(looking_and_cutting, begin, end),
		cmocka_unit_test_setup_teardown(a_reader_waits, begin, end),
		cmocka_unit_test_setup_teardown(slots_run_out, begin, end),
		cmocka_unit_test_setup_teardown(strangers, begin, end),
		cmocka_unit_test_setup_teardown(a_reader_that_does_not_read, begin, end),
		cmocka_unit_test_setup_teardown(a_reader_whose_socket_is_closed, begin, end),
		cmocka_unit_test_setup_teardown(options_and_refusals, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
