/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "driver/holder.h"
#include "sys/netns_testing.h"

enum { PORT = 4791 };

static bool have_netns;

static int hold(int family)
{
	struct sockaddr_in6 a = { .sin6_family = (sa_family_t)family,
				  .sin6_port = htons(PORT) };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&a,
			      family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(a)),
			 0);
	return fd;
}

static void expect_us(int family)
{
	struct holder h;
	char text[96], want[64];

	assert_int_equal(holder_find(family, PORT, &h), 0);
	assert_int_equal(h.uid, geteuid());
	assert_int_equal(holder_find(family, PORT + 1, &h), -ESRCH);
	assert_int_equal(holder_find(family, PORT, &h), 0);
	holder_text(&h, text, sizeof(text));
	assert_int_equal(h.pid, getpid());
	snprintf(want, sizeof(want), "user %u, process %d (", geteuid(), getpid());
	assert_memory_equal(text, want, strlen(want));
}

static void test_holder(void **state)
{
	struct holder h;
	int fd;

	(void)state;
	if (!have_netns)
		skip();
	assert_int_equal(holder_find(AF_INET, PORT, &h), -ESRCH);
	fd = hold(AF_INET);
	expect_us(AF_INET);
	assert_int_equal(holder_find(AF_INET6, PORT, &h), -ESRCH);
	close(fd);
	fd = hold(AF_INET6); /* an IPv6 socket takes IPv4, too */
	expect_us(AF_INET);
	expect_us(AF_INET6);
	close(fd);
}

static void test_shared(void **state)
{
	unsigned long inode[2];
	struct holder h;
	int fd[2];

	(void)state;
	if (!have_netns)
		skip();
	for (int i = 0; i < 2; i++)
		fd[i] = hold(AF_INET);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(holder_nth(AF_INET, PORT, i, &h), 0);
		inode[i] = h.inode;
	}
	assert_int_not_equal(inode[0], inode[1]);
	assert_int_equal(holder_nth(AF_INET, PORT, 2, &h), -ESRCH);
	for (int i = 0; i < 2; i++)
		close(fd[i]);
}

static void test_user_who_changed(void **state)
{
	char text[96], want[96];

	(void)state;
	holder_user_text(geteuid(), getpid(), text, sizeof(text));
	snprintf(want, sizeof(want), "user %u", geteuid());
	assert_string_equal(text, want);
	holder_user_text(7, 0, text, sizeof(text));
	assert_string_equal(text, "user 7");
	holder_user_text(geteuid() + 1, getpid(), text, sizeof(text));
	snprintf(want, sizeof(want), "user %u (when it opened its device; user %u now)",
		 geteuid() + 1, geteuid());
	assert_string_equal(text, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holder),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_user_who_changed),
	};

	have_netns = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
