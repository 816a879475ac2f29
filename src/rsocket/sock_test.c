/* SPDX-License-Identifier: BSD-2-Clause */
/* What a new socket has, descriptors, sockets and their options. */
#include "rsocket/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- what a new socket has ----------------------------------------------- */

static char folder[] = "/tmp/urnic-defaults-XXXXXX";

/* clang-format off */
static const char *const names[] = {
	"mem_default", "wmem_default", "sqsize_default", "rqsize_default",
	"inline_default", "iomap_size", "polling_time",
};
/* clang-format on */

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void write_all(const char *text)
{
	for (int i = 0; i < NAMES; i++) {
		char path[100];
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < NAMES; i++) {
		char path[100];

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

static void without_files(void **state)
{
	struct rsock_defaults d;

	(void)state;
	rsock_defaults_read("/nonexistent", &d);
	assert_int_equal(d.sizes.rcvbuf, 1 << 17);
	assert_int_equal(d.sizes.sndbuf, 1 << 17);
	assert_int_equal(d.sizes.sq, 384);
	assert_int_equal(d.sizes.rq, 384);
	assert_int_equal(d.sizes.inline_size, 64);
	assert_int_equal(d.sizes.iomaps, 0);
	assert_int_equal(d.polling_us, 10);
	assert_non_null(rsock_defaults());
	assert_ptr_equal(rsock_defaults(), rsock_defaults());
}

static void with_files(void **state)
{
	struct rsock_defaults d;

	(void)state;
	write_all("200\n");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, 200);
	assert_int_equal(d.sizes.sndbuf, 200);
	assert_int_equal(d.sizes.sq, 200);
	assert_int_equal(d.sizes.rq, 200);
	assert_int_equal(d.sizes.inline_size, 200);
	assert_int_equal(d.sizes.iomaps, 200);
	assert_int_equal(d.polling_us, 200);
}

static void out_of_bounds(void **state)
{
	struct rsock_defaults d;

	(void)state;
	write_all("0");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, 2);
	assert_int_equal(d.sizes.sndbuf, 1);
	assert_int_equal(d.sizes.sq, 2);
	assert_int_equal(d.sizes.rq, 2);
	write_all("4294967295");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, RSOCK_BUFFER_MAX);
	assert_int_equal(d.sizes.sq, RSOCK_QUEUE_MAX);
	assert_int_equal(d.sizes.inline_size, RSOCK_INLINE_MAX);
	assert_int_equal(d.sizes.iomaps, RSOCK_IOMAPS_MAX);
	assert_int_equal(d.polling_us, 1000000);
}

static void no_number(void **state)
{
	struct rsock_defaults d;

	(void)state;
	write_all("much");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, 1 << 17);
	assert_int_equal(d.polling_us, 10);
}

/* --- descriptors --------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };

static _Atomic int freed;

static void on_free(struct rsock_entry *e)
{
	(void)e;
	freed++;
}

static int begin_entries(void **state)
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

/* --- sockets ------------------------------------------------------------- */

static int freed_socks;

static void free_sock(struct rsock *rs)
{
	freed_socks++;
	rsock_fini(rs);
}

static const struct rsock_kind kind = { .free = free_sock };

static struct rsock *make(int domain)
{
	struct rsock *rs = malloc(sizeof(*rs));

	assert_non_null(rs);
	rsock_init(rs, &kind, domain, SOCK_STREAM);
	return rs;
}

static void the_last_to_let_go_frees_it(void **state)
{
	struct rsock *rs = make(AF_INET);

	(void)state;
	freed_socks = 0;
	assert_int_equal(rs->state, RSOCK_NEW);
	assert_int_equal(rs->sleep_fd, -1);
	assert_int_equal(rs->entry.fd, -1);
	assert_memory_equal(&rs->opt.sizes, &rsock_defaults()->sizes,
			    sizeof(rs->opt.sizes));
	assert_true(rsock_entry_hold(&rs->entry));
	rsock_put(rs);
	assert_int_equal(freed_socks, 0);
	rsock_put(rs);
	assert_int_equal(freed_socks, 1);
}

/* A signal handler that leaves a call by longjmp() may make another call. */
static void the_lock_can_be_taken_twice(void **state)
{
	struct rsock *rs = make(AF_INET);

	(void)state;
	pthread_mutex_lock(&rs->lock);
	assert_int_equal(pthread_mutex_trylock(&rs->lock), 0);
	pthread_mutex_unlock(&rs->lock);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
}

static void addresses_that_fit(void **state)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };
	const struct sockaddr *a = (struct sockaddr *)&four;
	struct rsock *rs = make(AF_INET);

	(void)state;
	assert_true(rsock_fits(rs, a, sizeof(four)));
	assert_true(rsock_fits(rs, a, sizeof(four) + 1));
	assert_false(rsock_fits(rs, a, sizeof(four) - 1));
	assert_false(rsock_fits(rs, a, 1));
	assert_false(rsock_fits(rs, NULL, sizeof(four)));
	assert_false(rsock_fits(rs, (struct sockaddr *)&six, sizeof(six)));
	rsock_put(rs);
}

static void an_address_is_cut_to_the_programs_room(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7) }, out;
	struct rsock *rs = make(AF_INET);
	socklen_t len = 4;

	(void)state;
	memset(&out, 0xee, sizeof(out));
	rsock_tell(rs, (struct sockaddr *)&a, (struct sockaddr *)&out, &len);
	assert_int_equal(len, sizeof(a));
	assert_memory_equal(&out, &a, 4);
	assert_int_equal(out.sin_addr.s_addr, 0xeeeeeeee);
	rsock_tell(rs, (struct sockaddr *)&a, NULL, &len);
	rsock_tell(rs, (struct sockaddr *)&a, (struct sockaddr *)&out, NULL);
	rsock_put(rs);
}

static void ipv4_on_an_ipv6_socket(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(7),
				 .sin_addr.s_addr = htonl(0x7f000001) };
	struct rsock *rs = make(AF_INET6);
	struct sockaddr_in6 out;
	socklen_t len = sizeof(out);

	(void)state;
	rsock_tell(rs, (struct sockaddr *)&a, (struct sockaddr *)&out, &len);
	assert_int_equal(len, sizeof(out));
	assert_int_equal(out.sin6_family, AF_INET6);
	assert_int_equal(out.sin6_port, htons(7));
	assert_true(IN6_IS_ADDR_V4MAPPED(&out.sin6_addr));
	rsock_put(rs);
}

/* --- options ------------------------------------------------------------- */

static const struct rsock_kind bare_kind = { 0 };
static struct rsock rs;

static int begin_options(void **state)
{
	(void)state;
	rsock_init(&rs, &bare_kind, AF_INET6, SOCK_STREAM);
	return 0;
}

static int end_options(void **state)
{
	(void)state;
	return pthread_mutex_destroy(&rs.lock);
}

static int set(int level, int name, int v)
{
	return rsock_option_set(&rs, level, name, &v, sizeof(v));
}

static int get(int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	assert_int_equal(rsock_option_get(&rs, level, name, &v, &len), 0);
	assert_int_equal(len, sizeof(v));
	return v;
}

/* A value that is set, and the value that is then read. */
static const struct {
	int level, name, set, get;
} rows[] = {
	{ SOL_SOCKET, SO_REUSEADDR, 1, 1 },
	{ SOL_SOCKET, SO_KEEPALIVE, 1, 1 },
	{ SOL_SOCKET, SO_OOBINLINE, 1, 1 },
	{ SOL_SOCKET, SO_SNDBUF, 5000, 10000 },
	{ SOL_SOCKET, SO_RCVBUF, 5000, 10000 },
	{ SOL_SOCKET, SO_SNDBUF, 1, 2048 },
	{ SOL_SOCKET, SO_RCVBUF, -1, RSOCK_BUFFER_MAX * 2 },
	{ IPPROTO_TCP, TCP_NODELAY, 1, 1 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 5, 5 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 6, 6 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 7, 7 },
	{ IPPROTO_TCP, TCP_MAXSEG, 7, 4096 },
	{ IPPROTO_IPV6, IPV6_V6ONLY, 1, 1 },
	{ SOL_RDMA, RDMA_SQSIZE, 100, 100 },
	{ SOL_RDMA, RDMA_RQSIZE, 1, 2 },
	{ SOL_RDMA, RDMA_RQSIZE, INT32_MAX, RSOCK_QUEUE_MAX },
	{ SOL_RDMA, RDMA_INLINE, INT32_MIN, RSOCK_INLINE_MAX },
	{ SOL_RDMA, RDMA_IOMAPSIZE, 128, 128 },
	{ SOL_RDMA, RDMA_IOMAPSIZE, 600, 512 }, /* rounded, as on the wire */
	{ SOL_RDMA, RDMA_IOMAPSIZE, INT32_MAX, RSOCK_IOMAPS_MAX },
};

static void what_is_set_is_got(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(set(rows[i].level, rows[i].name, rows[i].set), 0);
		assert_int_equal(get(rows[i].level, rows[i].name), rows[i].get);
	}
}

static void what_a_new_socket_says(void **state)
{
	(void)state;
	assert_int_equal(get(SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(get(SOL_SOCKET, SO_DOMAIN), AF_INET6);
	assert_int_equal(get(SOL_SOCKET, SO_ACCEPTCONN), 0);
	assert_int_equal(get(IPPROTO_TCP, TCP_KEEPIDLE), RSOCK_KEEP_IDLE);
	assert_int_equal(get(IPPROTO_TCP, TCP_KEEPINTVL), 75);
	assert_int_equal(get(IPPROTO_TCP, TCP_KEEPCNT), 9);
	rs.state = RSOCK_LISTENING;
	assert_int_equal(get(SOL_SOCKET, SO_ACCEPTCONN), 1);
}

static void an_error_is_told_once(void **state)
{
	(void)state;
	rs.err = ECONNRESET;
	assert_int_equal(get(SOL_SOCKET, SO_ERROR), ECONNRESET);
	assert_int_equal(get(SOL_SOCKET, SO_ERROR), 0);
}

static void lingering(void **state)
{
	struct linger l = { .l_onoff = 1, .l_linger = 7 }, back;
	socklen_t len = sizeof(back);

	(void)state;
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_LINGER, &l, sizeof(l) - 1),
			 -EINVAL);
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	assert_int_equal(rsock_option_get(&rs, SOL_SOCKET, SO_LINGER, &back, &len), 0);
	assert_memory_equal(&l, &back, sizeof(l));
	len = 1;
	assert_int_equal(rsock_option_get(&rs, SOL_SOCKET, SO_LINGER, &back, &len),
			 -EINVAL);
}

static void with_buffers_sizes_are_fixed(void **state)
{
	int was = get(SOL_SOCKET, SO_SNDBUF);

	(void)state;
	rs.sizes_fixed = true;
	assert_int_equal(set(SOL_SOCKET, SO_SNDBUF, 5000), 0);
	assert_int_equal(get(SOL_SOCKET, SO_SNDBUF), was);
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, 5), -EINVAL);
}

static void what_is_refused(void **state)
{
	socklen_t len = 3;
	int v = 1;

	(void)state;
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_KEEPALIVE, &v, 3), -EINVAL);
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_KEEPALIVE, NULL, 4),
			 -EINVAL);
	assert_int_equal(rsock_option_get(&rs, SOL_SOCKET, SO_KEEPALIVE, &v, &len),
			 -EINVAL);
	assert_int_equal(set(SOL_SOCKET, SO_RCVTIMEO, 1), -ENOPROTOOPT);
	assert_int_equal(set(IPPROTO_TCP, 999, 1), -ENOPROTOOPT);
	assert_int_equal(set(999, 1, 1), -ENOPROTOOPT);
	assert_int_equal(set(IPPROTO_TCP, TCP_KEEPIDLE, 0), -EINVAL);
	assert_int_equal(set(IPPROTO_TCP, TCP_KEEPIDLE, 32768), -EINVAL);
	assert_int_equal(set(SOL_RDMA, RDMA_ROUTE, 1), -EOPNOTSUPP);
	rs.state = RSOCK_BOUND;
	assert_int_equal(set(IPPROTO_IPV6, IPV6_V6ONLY, 1), -EINVAL);
	rs.domain = AF_INET;
	assert_int_equal(set(IPPROTO_IPV6, IPV6_V6ONLY, 1), -ENOPROTOOPT);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_entry_lives_as_long_as_it_is_held, begin_entries),
		cmocka_unit_test_setup(numbers_that_are_nobodys, begin_entries),
		cmocka_unit_test_setup(the_number_is_the_lowest, begin_entries),
		cmocka_unit_test_setup(no_number_is_left, begin_entries),
		cmocka_unit_test_setup(a_fork_leaves_copies, begin_entries),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test_setup(a_fork_while_the_table_grows, begin_entries),
#endif
		cmocka_unit_test_setup(threads_look_while_it_is_closed, begin_entries),
		cmocka_unit_test(the_last_to_let_go_frees_it),
		cmocka_unit_test(the_lock_can_be_taken_twice),
		cmocka_unit_test(addresses_that_fit),
		cmocka_unit_test(an_address_is_cut_to_the_programs_room),
		cmocka_unit_test(ipv4_on_an_ipv6_socket),
		cmocka_unit_test_setup_teardown(what_is_set_is_got, begin_options, end_options),
		cmocka_unit_test_setup_teardown(what_a_new_socket_says, begin_options, end_options),
		cmocka_unit_test_setup_teardown(an_error_is_told_once, begin_options, end_options),
		cmocka_unit_test_setup_teardown(lingering, begin_options, end_options),
		cmocka_unit_test_setup_teardown(with_buffers_sizes_are_fixed, begin_options, end_options),
		cmocka_unit_test_setup_teardown(what_is_refused, begin_options, end_options),
	};
	const struct CMUnitTest of_files[] = {
		cmocka_unit_test(without_files),
		cmocka_unit_test(with_files),
		cmocka_unit_test(out_of_bounds),
		cmocka_unit_test(no_number),
	};
	/* clang-format on */
	int failed = cmocka_run_group_tests(of_files, begin, end);

	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
