/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures that a process asks for while a NIC runs, around a loop. */
#include "driver/world_fix.h"

#include <sys/socket.h>

#include "net/capture.h"

enum { MS = 1000000 };

static int reads; /* the reader's end */

/* Ends the world, and its reader. */
static void close_reader(void)
{
	close_world();
	close(reads);
}

static int ask(const char *text, int type)
{
	int fd[2], rc;

	assert_int_equal(socketpair(AF_UNIX, type, 0, fd), 0);
	reads = fd[0];
	rc = captures_ask(&w.nic, &w.by, (const uint8_t *)text, strlen(text), &fd[1],
			  1000);
	if (fd[1] >= 0)
		close(fd[1]);
	return rc;
}

/* Sends a packet, and looks for words in what the reader gets. */
static bool shows(const char *words)
{
	struct test_dgram t;
	char got[4096];
	ssize_t n;
	uint32_t one = 1;

	w.outer->ops->send(w.outer, test_dgram(&t, &one, sizeof(one)), 1, MS);
	(void)test_recv(w.outer, 200 * MS);
	n = recv(reads, got, sizeof(got), MSG_DONTWAIT);
	return n > 0 && memmem(got, (size_t)n, words, strlen(words));
}

static void packets_of_a_running_nic(void **state)
{
	(void)state;
	open_world(0);
	assert_int_equal(ask("begin", SOCK_STREAM), 0);
	assert_true(shows("process "));
	assert_true(shows("\x01\x00\x00\x00"));
	captures_gone(&w.nic, w.by.slot, 300 * MS);
	assert_false(captures_any(w.nic.captures));
	close_reader();
}

/* A fault link that was there before, or comes later, is around the capture. */
static void faults_say_what_they_did(void **state)
{
	const char drop[] = "set tx:drop=1";

	(void)state;
	for (int first = 0; first < 2; first++) {
		open_world(0);
		if (first)
			faults_ask(&w.nic, &w.by, (const uint8_t *)drop, strlen(drop), 0);
		assert_int_equal(ask("begin", SOCK_STREAM), 0);
		if (!first)
			faults_ask(&w.nic, &w.by, (const uint8_t *)drop, strlen(drop), 0);
		assert_true(shows("fault=drop group=1"));
		close_reader();
	}
}

static void what_is_wrong_is_answered(void **state)
{
	(void)state;
	open_world(0);
	assert_int_equal(ask("begin", SOCK_DGRAM), -ENOTSOCK);
	close(reads);
	assert_int_equal(ask("begun", SOCK_STREAM), -EOPNOTSUPP);
	close(reads);
	assert_int_equal(captures_ask(&w.nic, &w.by, (const uint8_t *)"begin", 5,
				      &(int){ -1 }, 0),
			 -EINVAL);
	assert_int_equal(ask("end", SOCK_STREAM), 0); /* there is none */
	close_reader();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_a_running_nic),
		cmocka_unit_test(faults_say_what_they_did),
		cmocka_unit_test(what_is_wrong_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
