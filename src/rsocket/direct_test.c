/* SPDX-License-Identifier: BSD-2-Clause */
/* riomap, riounmap and riowrite between two ends in one process. */
#include "rsocket/direct.h"

#include <errno.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

enum { SIZE = 10000, MAPS = 2 };

static uint8_t memory[SIZE], data[SIZE];
static int ends[2];

static int begin(void **state)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(int);
	int listener, maps = MAPS;

	fix_begin(state);
	memset(memory, 0, SIZE);
	for (int i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 3 + 1);
	listener = fix_listen(&a, 1);
	assert_int_equal(rsocket_set_option(listener, SOL_RDMA, RDMA_IOMAPSIZE, &maps,
					    len),
			 0);
	ends[0] = rsocket_open(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsocket_set_option(ends[0], SOL_RDMA, RDMA_IOMAPSIZE, &maps,
					    len),
			 0);
	assert_int_equal(rsocket_connect(ends[0], (struct sockaddr *)&a, sizeof(a)), 0);
	ends[1] = rsocket_accept(listener, NULL, NULL);
	assert_int_equal(rsocket_close(listener), 0);
	return 0;
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(ends[0]), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
	return fix_end(state);
}

static int map(void *buf, size_t len, off_t offset, off_t *at)
{
	int rc = rsocket_map(ends[1], buf, len, PROT_WRITE, offset, at);

	if (!fix.hold)
		fix_deliver(); /* the peer's entry arrives */
	return rc;
}

static ssize_t write_at(const void *buf, size_t len, uint64_t offset)
{
	return rsocket_write_at(ends[0], buf, len, offset, MSG_DONTWAIT);
}

static void a_buffer_is_written_to_by_offset(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 4096, &at), 0);
	assert_int_equal(at, 4096);
	assert_int_equal(write_at(data, 100, 4096 + 50), 100);
	assert_int_equal(write_at(data, SIZE - 1000, 4096 + 1000), SIZE - 1000);
	fix_deliver();
	assert_memory_equal(memory + 50, data, 100);
	assert_memory_equal(memory + 1000, data, SIZE - 1000);
	assert_int_equal(rsocket_unmap(ends[1], memory, SIZE), 0);
	fix_deliver();
	assert_int_equal(write_at(data, 1, 4096), -EINVAL);
}

static void an_offset_is_chosen(void **state)
{
	off_t first, second;

	(void)state;
	assert_int_equal(map(memory, 5000, -1, &first), 0);
	assert_int_equal(map(memory + 5000, 5000, -1, &second), 0);
	assert_int_equal(first, 0);
	assert_int_equal(second, 8192);
	/* The peer has two entries. */
	assert_int_equal(map(memory, 1, -1, &first), -ENOBUFS);
	assert_int_equal(rsocket_unmap(ends[1], memory, 5000), 0);
	assert_int_equal(map(memory, 1, -1, &first), 0);
}

static void what_is_not_mapped(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(write_at(data, 1, 0), -EINVAL);
	assert_int_equal(map(memory, 100, 0, &at), 0);
	assert_int_equal(write_at(data, 100, 50), 50); /* up to the end of the map */
	assert_int_equal(write_at(data, 1, 100), -EINVAL);
	assert_int_equal(write_at(data, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(rsocket_unmap(ends[1], memory, 99), -EINVAL);
	assert_int_equal(rsocket_unmap(ends[1], memory + 1, 100), -EINVAL);
}

static void hostile_numbers(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(map(NULL, 1, 0, &at), -EINVAL);
	assert_int_equal(map(memory, 0, 0, &at), -EINVAL);
	assert_int_equal(map(memory, SIZE_MAX, 0, &at), -EINVAL);
	assert_int_equal(map(memory, 1, -2, &at), -EINVAL);
	assert_int_equal(rsocket_map(ends[1], memory, 1, PROT_READ, 0, &at), -EINVAL);
	assert_int_equal(rsocket_map(ends[1], memory, 1, PROT_NONE, 0, &at), 0);
	/* This map is only for the program itself. */
	assert_int_equal(write_at(data, 1, 0), -EINVAL);
}

static void nothing_is_left_of_a_failure(void **state)
{
	int mrs = fix.mrs;
	off_t at;

	(void)state;
	fix_fail(1);
	assert_int_equal(map(memory, 100, 0, &at), -ENOMEM);
	assert_int_equal(fix.mrs, mrs);
	assert_int_equal(map(memory, 100, 0, &at), 0);
	assert_int_equal(map(memory + 100, 100, 100, &at), 0); /* both entries are free */
}

/* The send buffer is full, and nothing arrives. */
static void no_room(void **state)
{
	ssize_t n;
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 0, &at), 0);
	fix_deliver();
	fix.hold = true;
	while ((n = write_at(data, SIZE, 0)) > 0)
		;
	assert_int_equal(n, -EAGAIN);
	fix.hold = false;
	assert_int_equal(rsocket_write_at(ends[0], data, SIZE, 0, 0), SIZE);
	fix_deliver();
	assert_memory_equal(memory, data, SIZE);
}

/* All four controls are in use: the call waits for one. */
static void it_waits_to_tell_the_peer(void **state)
{
	struct rsock_stream *st = fix_stream(ends[1]);
	struct rs_write w;
	off_t at;

	(void)state;
	rsock_conn_progress(st);
	fix.hold = true;
	while (rs_may_control(&st->ep.s)) {
		rs_send_keepalive(&st->ep.s, &w);
		rsock_conn_post(st, &w, NULL);
	}
	fix_when_asleep(fix_deliver);
	fix.slept = 0;
	assert_int_equal(map(memory, 1, 0, &at), 0);
	assert_int_equal(fix.slept, 1);
	fix.hold = false;
}

static void unmap_again(void)
{
	assert_int_equal(rsocket_unmap(ends[1], memory, SIZE), -EINVAL);
	fix_deliver();
}

/* While one thread waits to tell the peer, another unmaps the same buffer. */
static void it_is_unmapped_once(void **state)
{
	struct rsock_stream *st = fix_stream(ends[1]);
	struct rs_write w;
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 0, &at), 0);
	rsock_conn_progress(st);
	fix.hold = true;
	while (rs_may_control(&st->ep.s)) {
		rs_send_keepalive(&st->ep.s, &w);
		rsock_conn_post(st, &w, NULL);
	}
	fix_when_asleep(unmap_again);
	assert_int_equal(rsocket_unmap(ends[1], memory, SIZE), 0);
	fix.hold = false;
}

static void after_the_end(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 0, &at), 0);
	fix_lose(IBV_WC_RETRY_EXC_ERR);
	/* The peer does not know of the unmap yet. */
	assert_int_equal(write_at(data, 1, 0), 1);
	assert_int_equal(fix_receive(ends[0], data, 1, 0), -ECONNRESET);
	assert_int_equal(write_at(data, 1, 0), -EPIPE);
	assert_int_equal(rsocket_map(ends[0], memory, 1, PROT_WRITE, 0, &at), -ENOTCONN);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_buffer_is_written_to_by_offset, begin, end),
		cmocka_unit_test_setup_teardown(an_offset_is_chosen, begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_mapped, begin, end),
		cmocka_unit_test_setup_teardown(hostile_numbers, begin, end),
		cmocka_unit_test_setup_teardown(nothing_is_left_of_a_failure, begin, end),
		cmocka_unit_test_setup_teardown(no_room, begin, end),
		cmocka_unit_test_setup_teardown(it_waits_to_tell_the_peer, begin, end),
		cmocka_unit_test_setup_teardown(it_is_unmapped_once, begin, end),
		cmocka_unit_test_setup_teardown(after_the_end, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
