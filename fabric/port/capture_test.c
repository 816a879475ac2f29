/* SPDX-License-Identifier: BSD-2-Clause */
/* What a capture records, and what is lost while nobody reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/port/server.h"
#include "fabric/port/server_own.h"

enum { SW, A, B, ERF_HEAD = 16, FRAME = 290, RECORD = ERF_HEAD + FRAME };

static const char topology[] = "Switch 3 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[2]\n\n"
			       "Ca 1 \"H-a\"\n\nCa 2 \"H-b\"\n";

static struct topo topo;
static struct plug_server s;
static struct plug_conn c;
static int reader;
static uint8_t msg[PLUG_AT_ONCE];

static int start(void **state)
{
	struct epoll_event ev = { .data.ptr = &c.sock };
	char err[TOPO_ERR];
	int fd[2];

	(void)state;
	assert_int_equal(topo_parse(&topo, "t", topology, strlen(topology), err), 0);
	s = (struct plug_server){ .topo = &topo, .epoll = epoll_create1(0) };
	list_init(&s.captures);
	list_init(&s.dead);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	reader = fd[0];
	c = (struct plug_conn){ .kind = CONN_CAPTURE, .fd = fd[1], .pipe_fd = -1 };
	list_init(&c.ready);
	list_add_tail(&s.captures, &c.node);
	return epoll_ctl(s.epoll, EPOLL_CTL_ADD, c.fd, &ev);
}

static int end(void **state)
{
	(void)state;
	capture_end(&c);
	close(c.fd);
	close(reader);
	close(s.epoll);
	topo_free(&topo);
	return 0;
}

static void crosses(uint32_t node, uint8_t port, uint8_t number)
{
	struct mad_pkt pkt = { .dqpn = 0, .slid = 0xffff, .dlid = 0xffff };

	pkt.mad[0] = number;
	capture_packet(&s, node, port, 15, &pkt);
}

/* The number in the MAD of the record r, and how many records were lost before it. */
static unsigned number_at(size_t at, unsigned *lost)
{
	const uint8_t *r = msg + at;

	assert_int_equal(r[8], 21);
	assert_int_equal(r[10] << 8 | r[11], RECORD);
	assert_int_equal(r[14] << 8 | r[15], FRAME);
	assert_int_equal(r[ERF_HEAD], 0xf0); /* VL 15 */
	*lost = (unsigned)(r[12] << 8 | r[13]);
	return r[ERF_HEAD + 8 + 12 + 8];
}

static long take(void)
{
	size_t need;

	return plug_recv(reader, msg, sizeof(msg), &need);
}

static void sees(size_t n, ...)
{
	unsigned lost;
	va_list ap;

	capture_flush_all(&s);
	va_start(ap, n);
	if (n)
		assert_int_equal(take(), n * RECORD);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(number_at(i * RECORD, &lost), va_arg(ap, int));
		assert_int_equal(lost, 0);
	}
	va_end(ap);
	assert_int_equal(take(), -EWOULDBLOCK);
}

static void all_cross(void)
{
	crosses(SW, 1, 1);
	crosses(A, 1, 2);
	crosses(SW, 2, 3);
	crosses(B, 2, 4);
}

static void t_which(void **state)
{
	(void)state;
	assert_true(capture_begin(&c, true));
	all_cross();
	sees(4, 1, 2, 3, 4);
	sees(0);
	capture_end(&c);
	assert_true(capture_begin(&c, false));
	c.ca = SW;
	all_cross();
	sees(4, 1, 2, 3, 4);
	c.port = 2;
	all_cross();
	sees(2, 3, 4);
	c.ca = B; /* B's port 2 is the other end of the link */
	all_cross();
	sees(2, 3, 4);
	c.port = 1;
	all_cross();
	sees(0);
	c.ca = A;
	all_cross();
	sees(2, 1, 2);
}

/* More records than socket and buffer hold: those kept come whole and in order, and the
 * first one after the gap says how many are missing. */
static void t_lost(void **state)
{
	enum { MANY = 100000 };
	unsigned got = 0, lost, missing = 0;
	long n;

	(void)state;
	assert_true(capture_begin(&c, true));
	for (unsigned i = 0; i < MANY; i++) {
		crosses(SW, 1, (uint8_t)i);
		if (i % 100 == 0)
			capture_flush_all(&s);
	}
	assert_true(c.full);
	while ((n = take()) > 0) {
		assert_int_equal(n % RECORD, 0);
		for (long at = 0; at < n; at += RECORD, got++) {
			assert_int_equal(number_at((size_t)at, &lost), (uint8_t)got);
			assert_int_equal(lost, 0);
		}
		capture_flush(&s, &c);
	}
	assert_false(c.full);
	assert_true(got < MANY);
	crosses(SW, 1, 77);
	capture_flush_all(&s);
	assert_int_equal(take(), RECORD);
	assert_int_equal(number_at(0, &missing), 77);
	assert_int_equal(got + missing, MANY);
	crosses(SW, 1, 78);
	sees(1, 78);
}

static void t_reader_ends(void **state)
{
	(void)state;
	assert_true(capture_begin(&c, true));
	close(reader);
	crosses(SW, 1, 1);
	capture_flush_all(&s);
	assert_int_equal(c.kind, CONN_DEAD);
	assert_null(c.capture);
	c.fd = reader = -1;
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, start, end)
	const struct CMUnitTest tests[] = {
		TEST(t_which),
		TEST(t_lost),
		TEST(t_reader_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
