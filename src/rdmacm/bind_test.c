/* SPDX-License-Identifier: BSD-2-Clause */
/* An id is bound to an address, and to the name of its service. */
#include "rdmacm/bind.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "sys/sockaddr.h"

static int bind_to(struct cma_id *id, const char *ip, uint16_t port)
{
	struct sockaddr_in a = fix_addr(ip, port);

	return cma_bind(id, (struct sockaddr *)&a);
}

static void to_a_device(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(bind_to(id, "192.0.2.1", 7174), 0);
	assert_int_equal(id->state, CMA_BOUND);
	assert_non_null(id->id.verbs);
	assert_int_equal(id->id.port_num, 1);
	assert_int_equal(fix.service.port, 7174);
	assert_false(fix.service.any || fix.service.iwarp);
	/* The id is bound already. */
	assert_int_equal(bind_to(id, "192.0.2.1", 7174), -EINVAL);
	assert_string_equal(fix_said(), "bind");
	assert_int_equal(cma_destroy(id), 0);
	assert_string_equal(fix_said(), "unbind");
}

/* An id on the wildcard serves every device, and gets a port. */
static void to_the_wildcard(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_bind_any(id), 0);
	assert_null(id->id.verbs);
	assert_true(fix.service.any && fix.service.iwarp && !fix.service.only_iwarp);
	assert_int_equal(sockaddr_port(&id->id.route.addr.src_addr), 4000);
	assert_int_equal(cma_destroy(id), 0);
}

/* An id on loopback has no device, which libfabric relies on. */
static void to_loopback(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(bind_to(id, "127.0.0.1", 7174), 0);
	assert_null(id->id.verbs);
	assert_int_equal(cma_destroy(id), 0);
}

static void to_iwarp(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	fix.iwarp_alone = true;
	assert_int_equal(bind_to(id, "192.0.2.1", 7174), 0);
	assert_true(cma_is_iwarp(id) && fix.service.iwarp && fix.service.only_iwarp);
	assert_int_equal(cma_destroy(id), 0);
	id = fix_id(NULL, RDMA_PS_UDP); /* iWARP has no datagrams */
	assert_int_equal(cma_kind_of(id), CMA_ROCE);
	assert_int_equal(bind_to(id, "192.0.2.1", 7174), -EADDRNOTAVAIL);
	assert_int_equal(cma_destroy(id), 0);
}

static void a_name_that_is_taken(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	fix.rc = -EADDRINUSE;
	assert_int_equal(bind_to(id, "192.0.2.1", 7174), -EADDRINUSE);
	assert_int_equal(id->state, CMA_NEW);
	id->reuse = true; /* the first to listen gets the port */
	assert_int_equal(bind_to(id, "192.0.2.1", 7174), 0);
	assert_null(id->listener);
	assert_int_equal(cma_destroy(id), 0);
}

static void to_what_is_no_address_of_ours(void **state)
{
	struct sockaddr none = { .sa_family = AF_UNIX };
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_bind(id, NULL), -EINVAL);
	assert_int_equal(cma_bind(id, &none), -EAFNOSUPPORT);
	assert_int_equal(bind_to(id, "192.0.2.77", 0), -EADDRNOTAVAIL);
	assert_string_equal(fix_said(), "");
	assert_int_equal(cma_destroy(id), 0);
}

static void the_source_of_a_route(void **state)
{
	struct sockaddr_in to = fix_addr("127.0.0.1", 1);
	struct sockaddr_storage from = { 0 };

	(void)state;
	assert_int_equal(cma_find_source((struct sockaddr *)&to, &from), 0);
	assert_int_equal(((struct sockaddr_in *)&from)->sin_addr.s_addr,
			 htonl(INADDR_LOOPBACK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(to_a_device, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_the_wildcard, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_loopback, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_iwarp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(a_name_that_is_taken, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_what_is_no_address_of_ours, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(the_source_of_a_route, fix_begin,
						fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
