/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors and counts: an entry is freed once, by the last to let go. */
#include "rsocket/table.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Forks whenever the heap has been changed while the table grows: a handler that
 * interrupts a call, or a thread beside it, may fork without the table's lock. */
static struct rsock_entry *grows; /* an entry that every child must find; NULL: no fork */
static unsigned forks, lost;

static void fork_and_find(void)
{
	struct rsock_entry *want = grows;
	int status;
	pid_t pid;

	if (!want)
		return;
	grows = NULL;
	forks++;
	pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		rsock_table_forked();
		_exit(rsock_entry_find(want->fd) != want);
	}
	lost += waitpid(pid, &status, 0) != pid || status;
	grows = want;
}

void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

void *calloc(size_t n, size_t size)
{
	void *p = __libc_calloc(n, size);

	fork_and_find();
	return p;
}

void *realloc(void *p, size_t size)
{
	p = __libc_realloc(p, size);
	fork_and_find();
	return p;
}

void free(void *p)
{
	fork_and_find();
	__libc_free(p);
	fork_and_find();
}

static void a_fork_while_the_table_grows(void **state)
{
	enum { MORE = 600 }; /* beyond what the table has for the first entry */
	struct rsock_entry e, far;
	void *behind;
	int low, high;

	(void)state;
	rsock_entry_init(&e, on_free);
	low = rsock_entry_publish(&e);
	assert_true(low >= 0);
	behind = malloc(1 << 14); /* the table has to move */
	assert_non_null(behind);
	assert_int_equal(mallopt(M_PERTURB, 0x55), 1);
	for (int last = 0; last < MORE; last = high)
		assert_true((high = dup(0)) >= 0);
	rsock_entry_init(&far, on_free);
	grows = &e;
	assert_true(rsock_entry_publish(&far) > MORE);
	grows = NULL;
	assert_true(forks > 0);
	assert_int_equal(lost, 0);
	assert_int_equal(mallopt(M_PERTURB, 0), 1);
	assert_ptr_equal(rsock_entry_find(far.fd), &far);
	rsock_entry_put(&far);
	rsock_entry_put(rsock_entry_withdraw(far.fd));
	rsock_entry_put(rsock_entry_withdraw(e.fd));
	closefrom(low);
	free(behind);
}
#endif

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
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test_setup(a_fork_while_the_table_grows, begin),
#endif
		cmocka_unit_test_setup(threads_look_while_it_is_closed, begin),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
