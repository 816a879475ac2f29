/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/fd.h"

static void set_limit(rlim_t n)
{
	struct rlimit lim;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
	lim.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
}

static int open_null(void)
{
	int fd = open("/dev/null", O_RDWR);

	assert_true(fd >= 0);
	return fd;
}

static void t_raises(void **state)
{
	int low = open_null(), high = fd_raise(low);

	(void)state;
	assert_in_range(high, 768, FD_SETSIZE - 1);
	assert_int_equal(fcntl(low, F_GETFD), -1);
	assert_int_equal(fcntl(high, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fd_raise(high), high); /* it is high already */
	close(high);
	assert_int_equal(fd_raise(-5), -5);
}

static void t_low_limit(void **state)
{
	int fd;

	(void)state;
	set_limit(200);
	fd = fd_raise(open_null());
	assert_in_range(fd, 100, 199);
	close(fd);
	set_limit(1024);
}

/* A descriptor above 1023 could not be used with select(). */
static void t_not_beyond_select(void **state)
{
	int fd[400], n = 0, low = open_null(), more;
	struct rlimit lim;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_max < 2048)
		skip();
	set_limit(2048);
	while ((more = fcntl(low, F_DUPFD, 768)) < FD_SETSIZE)
		fd[n++] = more;
	close(more);
	assert_int_equal(fd_raise(low), low);
	while (n > 0)
		close(fd[--n]);
	close(low);
	set_limit(1024);
}

/* No higher number is free: the descriptor keeps its number. */
static void t_full(void **state)
{
	int fd[100], n = 0, low = open_null(), more;

	(void)state;
	set_limit(40);
	while (n < 100 && (more = fcntl(low, F_DUPFD, 20)) >= 0)
		fd[n++] = more;
	assert_int_equal(fd_raise(low), low);
	assert_int_not_equal(fcntl(low, F_GETFD), -1);
	while (n > 0)
		close(fd[--n]);
	close(low);
	set_limit(1024);
}

/* Two files can have the same number one after the other. */
static void t_knows_its_own(void **state)
{
	int own[2], other[2], fd;
	struct fd_id id;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, own), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, other), 0);
	fd = own[0];
	assert_int_equal(fd_identify(fd, &id), 0);
	assert_true(fd_is(fd, &id));
	assert_false(fd_is(own[1], &id));
	close(fd);
	assert_false(fd_is(fd, &id));
	assert_int_equal(fd_identify(fd, &id), -EBADF);
	assert_int_equal(dup2(other[0], fd), fd);
	assert_false(fd_is(fd, &id));
	close(fd);
	close(own[1]);
	close(other[0]);
	close(other[1]);
}

static void t_sealed(void **state)
{
	const int seals = F_SEAL_GROW | F_SEAL_SHRINK;
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING), null = open_null();

	(void)state;
	assert_int_equal(ftruncate(fd, 5000), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_false(fd_is_sealed(fd, 5000, seals));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	assert_true(fd_is_sealed(fd, 5000, seals));
	assert_false(fd_is_sealed(fd, 4999, seals));
	assert_false(fd_is_sealed(fd, 5001, seals));
	assert_false(fd_is_sealed(null, 0, seals)); /* not even memory */
	close(fd);
	close(null);
	assert_false(fd_is_sealed(fd, 5000, seals));
	assert_false(fd_is_sealed(-1, 5000, seals));
}

static void memory_to_be_shared(void **state)
{
	struct rlimit all, few = { 4096, RLIM_INFINITY };
	struct stat st;
	int fd = fd_memory("test", 5000);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 5000);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	close(fd);
	/* -EFBIG instead of SIGXFSZ. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	few.rlim_max = all.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	assert_int_equal(fd_memory("test", 4097), -EFBIG);
	fd = fd_memory("test", 4096);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	assert_true(fd >= 0);
	close(fd);
}

/* A token is taken without blocking, though the eventfd blocks. */
static void t_takes_tokens(void **state)
{
	int fd = eventfd(2, EFD_SEMAPHORE);

	(void)state;
	assert_int_equal(fd_try_token(fd), 0);
	assert_int_equal(fd_try_token(fd), 0);
	assert_int_equal(fd_try_token(fd), -EAGAIN);
	close(fd);
	assert_int_equal(fd_try_token(fd), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_to_be_shared),
		cmocka_unit_test(t_knows_its_own),
		cmocka_unit_test(t_raises),
		cmocka_unit_test(t_low_limit),
		cmocka_unit_test(t_not_beyond_select),
		cmocka_unit_test(t_full),
		cmocka_unit_test(t_sealed),
		cmocka_unit_test(t_takes_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
