/* SPDX-License-Identifier: BSD-2-Clause */
/* Control connections: a request is a text, and so is its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "fabric/port/message.h"
#include "fabric/port/serving_testing.h"

enum { LONG = 300000 };

static const char topology[] = "Switch 4 \"sw\"\n[1] \"H-a\"[1]\n\nCa 1 \"H-a\"\n";

/* Answers with the request's own text, with a long text, or not at all. */
static char *answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
		    size_t ask_len, size_t *len)
{
	char *out;

	assert_ptr_equal(ctx, &topo);
	assert_non_null(fabric_node(f, 0));
	assert_true(now > 0);
	if (ask_len == 3 && memcmp(ask, "end", 3) == 0)
		return NULL;
	*len = ask_len == 4 && memcmp(ask, "long", 4) == 0 ? LONG : ask_len;
	out = calloc(1, *len);
	memcpy(out, ask, ask_len);
	return out;
}

static int start(void **state)
{
	(void)state;
	begin_to_serve(topology, answer);
	return 0;
}

static void tell(int fd, const char *ask, size_t expected)
{
	char *text;
	size_t len;

	assert_int_equal(plug_tell(fd, ask, &text, &len), 0);
	assert_int_equal(len, expected);
	assert_memory_equal(text, ask, strlen(ask));
	free(text);
}

static void t_tell(void **state)
{
	int fd = plug_control(name), other = plug_control(name);

	(void)state;
	assert_true(fd >= 0 && other >= 0);
	tell(fd, "a", 1);
	tell(other, "another", 7);
	tell(fd, "long", LONG);
	tell(fd, "b", 1);
	close(fd);
	tell(other, "c", 1);
	close(other);
}

static void t_end(void **state)
{
	int fd = plug_control(name), other = plug_control(name);
	char *text;
	size_t len;

	assert_int_equal(plug_tell(fd, "end", &text, &len), -EIO);
	tell(other, "c", 1);
	end(state);
	assert_int_equal(plug_tell(other, "d", &text, &len), -EIO);
	assert_int_equal(plug_control(name), -ENOENT);
	close(fd);
	close(other);
	start(state);
}

/* A request that passes a descriptor ends the connection, and so does a request that is
 * so long that it travels in a memfd. */
static void t_wrong(void **state)
{
	int fd = plug_control(name), well = plug_control(name);
	struct msg_head head = msg_head(&plug_table, PLUG_TEXT);
	struct iovec iov[2] = { { &head, sizeof(head) }, { (char[]){ 'a' }, 1 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u;
	char *text = malloc(LONG + 1);
	char *out;
	size_t len;

	(void)state;
	msg_put_fds(&m, &u.head, &stop, 1);
	assert_int_equal(sendmsg(fd, &m, 0), sizeof(head) + 1);
	assert_int_equal(plug_tell(fd, "b", &out, &len), -EIO);
	close(fd);
	memset(text, 'x', LONG);
	text[LONG] = '\0';
	fd = plug_control(name);
	assert_int_equal(plug_tell(fd, text, &out, &len), -EIO);
	close(fd);
	tell(well, "c", 1);
	close(well);
	free(text);
}

/* A program that asks and never reads: its connection ends, and others go on. */
static void t_never_reads(void **state)
{
	int fd = plug_control(name), well = plug_control(name), rc = 0;

	(void)state;
	for (int i = 0; i < 100000 && !rc; i++)
		rc = plug_say(fd, PLUG_TEXT, "a", 1, -1, true);
	assert_int_equal(rc, -EIO);
	tell(well, "c", 1);
	close(well);
	close(fd);
}

static void t_none(void **state)
{
	begin_to_serve(topology, NULL);
	assert_int_equal(plug_control(name), -EOPNOTSUPP);
	end(state);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, start, end)
	const struct CMUnitTest tests[] = {
		TEST(t_tell),
		TEST(t_end),
		TEST(t_wrong),
		TEST(t_never_reads),
		cmocka_unit_test(t_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
