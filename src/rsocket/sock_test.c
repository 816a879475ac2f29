/* SPDX-License-Identifier: BSD-2-Clause */
/* A new socket, and how addresses are told to the program. */
#include "rsocket/sock.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int freed;

static void on_free(struct rsock *rs)
{
	freed++;
	rsock_fini(rs);
}

static const struct rsock_kind kind = { .free = on_free };

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
	freed = 0;
	assert_int_equal(rs->state, RSOCK_NEW);
	assert_int_equal(rs->sleep_fd, -1);
	assert_int_equal(rs->entry.fd, -1);
	assert_memory_equal(&rs->opt.sizes, &rsock_defaults()->sizes,
			    sizeof(rs->opt.sizes));
	assert_true(rsock_entry_hold(&rs->entry));
	rsock_put(rs);
	assert_int_equal(freed, 0);
	rsock_put(rs);
	assert_int_equal(freed, 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_to_let_go_frees_it),
		cmocka_unit_test(the_lock_can_be_taken_twice),
		cmocka_unit_test(addresses_that_fit),
		cmocka_unit_test(an_address_is_cut_to_the_programs_room),
		cmocka_unit_test(ipv4_on_an_ipv6_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
