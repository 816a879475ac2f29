/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages over a connection: short ones, long ones in a memfd, and what a hostile
 * sender may pass along. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/port/message.h"

enum { LONG = MESSAGE_LONG + 5000 };

static int ends[2];
static uint8_t body[LONG], got[LONG + 64];

static int connected(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7 + i / 256);
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int parted(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	return 0;
}

static long take(int *passed)
{
	return message_recv(ends[1], getuid(), got, sizeof(got), passed, 0);
}

static int send_short(int pass)
{
	return message_send(ends[0], "head", 4, body, 100, pass, true);
}

static void head_and_body_are_one_message(void **state)
{
	int passed = 77;

	(void)state;
	assert_int_equal(take(&passed), -EWOULDBLOCK);
	assert_int_equal(passed, -1);
	assert_int_equal(send_short(-1), 0);
	assert_int_equal(message_send(ends[0], "more", 4, NULL, 0, -1, true), 0);
	assert_int_equal(take(&passed), 104);
	assert_memory_equal(got, "head", 4);
	assert_memory_equal(got + 4, body, 100);
	assert_int_equal(passed, -1);
	/* message_recv() returns the whole length even if the buffer is too small. */
	assert_int_equal(message_recv(ends[1], getuid(), got, 2, &passed, MSG_PEEK), 4);
	assert_int_equal(take(&passed), 4);
	assert_memory_equal(got, "more", 4);
}

static void an_end_is_told(void **state)
{
	int passed;

	(void)state;
	assert_int_equal(send_short(-1), 0);
	close(ends[0]);
	ends[0] = -1;
	assert_int_equal(take(&passed), 104);
	assert_int_equal(take(&passed), -EIO);
	assert_int_equal(message_recv(-1, getuid(), got, sizeof(got), &passed, 0), -EIO);
	assert_int_equal(message_send(ends[1], "head", 4, body, 4, -1, true), -EIO);
}

static void a_full_connection_is_not_waited_for(void **state)
{
	int n = 0, passed;

	(void)state;
	while (!message_send(ends[0], "head", 4, body, 60000, -1, true))
		assert_in_range(n++, 0, 10000);
	assert_int_equal(message_send(ends[0], "head", 4, body, 60000, -1, true),
			 -EAGAIN);
	assert_true(n > 0);
	while (n--)
		assert_int_equal(take(&passed), 60004);
	assert_int_equal(take(&passed), -EWOULDBLOCK);
}

/* How many descriptors are open. */
static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A passed descriptor that the receiver did not ask for is closed. */
static void a_descriptor_goes_along(void **state)
{
	int fds[2], passed, was;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(send_short(fds[0]), 0);
	assert_int_equal(take(&passed), 104);
	assert_true(passed >= 0);
	assert_int_equal(fcntl(passed, F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(read(passed, got, 1), 1);
	assert_int_equal(got[0], 'x');
	close(passed);
	was = open_fds();
	assert_int_equal(send_short(fds[0]), 0);
	assert_int_equal(take(NULL), 104);
	while (open_fds() != was) /* closer's thread closes the descriptor */
		sched_yield();
	close(fds[0]);
	close(fds[1]);
}

static void a_long_message_lies_in_memory(void **state)
{
	int passed = -1, was = open_fds();

	(void)state;
	assert_int_equal(message_send_any(ends[0], "head", 4, body, MESSAGE_LONG, true),
			 0);
	assert_int_equal(take(&passed), 4 + MESSAGE_LONG);
	assert_int_equal(passed, -1);
	assert_int_equal(message_send_any(ends[0], "head", 4, body, LONG, true), 0);
	assert_int_equal(take(&passed), 4 + MESSAGE_HEAD);
	assert_memory_equal(got + 4, body, MESSAGE_HEAD);
	assert_true(passed >= 0);
	assert_int_equal(message_length(passed), LONG);
	memset(got, 0, sizeof(got));
	assert_int_equal(message_read(passed, got, LONG), 0);
	assert_memory_equal(got, body, LONG);
	assert_int_equal(message_read(passed, got, LONG + 1), -EPROTO);
	/* The receiver cannot change it either. */
	assert_true(pwrite(passed, "x", 1, 0) < 0);
	close(passed);
	assert_int_equal(open_fds(), was);
}

static void what_is_not_sealed_is_refused(void **state)
{
	static const int seals[] = { 0, F_SEAL_SHRINK, F_SEAL_WRITE };
	int fds[2];

	(void)state;
	for (int i = 0; i < 3; i++) {
		int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		assert_int_equal(write(fd, body, LONG), LONG);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
		assert_int_equal(message_length(fd), -EPROTO);
		close(fd);
	}
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(message_length(fds[0]), -EPROTO);
	assert_int_equal(message_read(fds[0], got, 1), -EPROTO);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(message_length(-1), -EPROTO);
}

static void no_descriptors_are_left(void **state)
{
	struct rlimit was, none;
	int passed, fd = open("/", O_PATH | O_CLOEXEC);

	(void)state;
	close(fd); /* the lowest that is free */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ (rlim_t)fd, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(message_send_any(ends[0], "head", 4, body, LONG, true), -EMFILE);
	/* With the descriptor table full, a message arrives without its descriptor. */
	assert_int_equal(send_short(ends[0]), 0);
	assert_int_equal(take(&passed), 104);
	assert_int_equal(passed, -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected, parted)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(head_and_body_are_one_message),
		TEST(an_end_is_told),
		TEST(a_full_connection_is_not_waited_for),
		TEST(a_descriptor_goes_along),
		TEST(a_long_message_lies_in_memory),
		TEST(what_is_not_sealed_is_refused),
		TEST(no_descriptors_are_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
