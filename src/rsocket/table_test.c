/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors and counts: an entry is freed once, by the last to let go. */
#include "rsocket/table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 20000 };

static _Atomic int freed;

static void on_free(struct rsock_entry *e)
{
	(void)e;
	freed++;
}

static int begin(void **state)
{
	(void)state;
	freed = 0;
	return 0;
}

static void an_entry_lives_as_long_as_it_is_held(void **state)
{
	struct rsock_entry e;
	int fd;

	(void)state;
	rsock_entry_init(&e, on_free);
	fd = rsock_entry_publish(&e);
	assert_true(fd > 2);
	assert_int_equal(e.fd, fd);
	assert_ptr_equal(rsock_entry_find(fd), &e);
	assert_ptr_equal(rsock_entry_withdraw(fd), &e);
	assert_null(rsock_entry_find(fd));
	assert_null(rsock_entry_withdraw(fd));
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_true(rsock_entry_hold(&e));
	rsock_entry_put(&e);
	rsock_entry_put(&e);
	assert_int_equal(freed, 0);
	rsock_entry_put(&e);
	assert_int_equal(freed, 1);
	assert_false(rsock_entry_hold(&e));
}

static void numbers_that_are_nobodys(void **state)
{
	(void)state;
	assert_null(rsock_entry_find(-1));
	assert_null(rsock_entry_find(0));
	assert_null(rsock_entry_find(1 << 30));
	assert_null(rsock_entry_withdraw(-1));
	assert_null(rsock_entry_withdraw(1 << 30));
}

static void the_number_is_the_lowest(void **state)
{
	struct rsock_entry e;
	int fd = dup(0);

	(void)state;
	close(fd);
	rsock_entry_init(&e, on_free);
	assert_int_equal(rsock_entry_publish(&e), fd);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	rsock_entry_put(rsock_entry_withdraw(fd));
}

static void no_number_is_left(void **state)
{
	struct rlimit was, none;
	struct rsock_entry e;

	(void)state;
	rsock_entry_init(&e, on_free);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(rsock_entry_publish(&e), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(e.fd, -1);
	rsock_entry_put(&e);
}

static int seen;

static void see(struct rsock_entry *e)
{
	(void)e;
	seen++;
}

static void a_fork_leaves_copies(void **state)
{
	struct rsock_entry e, own;
	int status;
	pid_t pid;

	(void)state;
	rsock_entry_init(&e, on_free);
	assert_true(rsock_entry_publish(&e) >= 0);
	seen = 0;
	rsock_entry_each(see);
	assert_int_equal(seen, 1);
	rsock_table_lock();
	pid = fork();
	rsock_table_unlock();
	if (!pid) {
		rsock_table_forked();
		seen = 0;
		rsock_entry_each(see);
		rsock_entry_init(&own, on_free);
		_exit(!rsock_entry_forked(&e) || rsock_entry_forked(&own) || seen);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(rsock_entry_forked(&e));
	rsock_entry_put(rsock_entry_withdraw(e.fd));
}

static struct rsock_entry shared;
static int shared_fd;

static void *find_and_put(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct rsock_entry *e = rsock_entry_find(shared_fd);

		if (!e)
			break;
		rsock_entry_put(e);
	}
	return NULL;
}

static void threads_look_while_it_is_closed(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	rsock_entry_init(&shared, on_free);
	shared_fd = rsock_entry_publish(&shared);
	assert_true(shared_fd >= 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, find_and_put, NULL), 0);
	rsock_entry_put(rsock_entry_withdraw(shared_fd));
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(freed, 1);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_entry_lives_as_long_as_it_is_held, begin),
		cmocka_unit_test_setup(numbers_that_are_nobodys, begin),
		cmocka_unit_test_setup(the_number_is_the_lowest, begin),
		cmocka_unit_test_setup(no_number_is_left, begin),
		cmocka_unit_test_setup(a_fork_leaves_copies, begin),
		cmocka_unit_test_setup(threads_look_while_it_is_closed, begin),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
