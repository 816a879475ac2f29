/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses by name, and endpoints. */
#include "rdmacm/addrinfo.h"
#include "rdmacm/ep.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "sys/held.h"

static struct rdma_addrinfo *info(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *r;
	bool eai;

	assert_int_equal(cma_getaddrinfo("127.0.0.1", "7174", &hints, &r, &eai), 0);
	assert_int_equal(r->ai_family, AF_INET);
	assert_int_equal(r->ai_qp_type, IBV_QPT_RC);
	return r;
}

static struct ibv_qp_init_attr small(void)
{
	return (struct ibv_qp_init_attr){ .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
}

static void names(void **state)
{
	struct rdma_addrinfo *r = info(RAI_PASSIVE);
	struct rdma_addrinfo hints = { 0 };
	bool eai;

	(void)state;
	assert_non_null(r->ai_src_addr);
	assert_null(r->ai_dst_addr);
	cma_freeaddrinfo(r);
	r = info(0);
	assert_non_null(r->ai_dst_addr);
	hints = (struct rdma_addrinfo){ .ai_family = AF_INET,
					.ai_dst_len = r->ai_dst_len,
					.ai_dst_addr = r->ai_dst_addr,
					.ai_port_space = RDMA_PS_UDP };
	cma_getaddrinfo(NULL, NULL, &hints, &hints.ai_next, &eai);
	assert_int_equal(hints.ai_next->ai_qp_type, IBV_QPT_UD);
	assert_memory_equal(hints.ai_next->ai_dst_addr, r->ai_dst_addr, r->ai_dst_len);
	cma_freeaddrinfo(hints.ai_next);
	cma_freeaddrinfo(r);
}

/* AF_IB: only a numeric address can be a GID; the service ID names port space and
 * port. */
static void gids(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST | RAI_FAMILY,
				       .ai_family = AF_IB,
				       .ai_port_space = RDMA_PS_UDP };
	const struct sockaddr_ib *a;
	struct rdma_addrinfo *r;
	bool eai;

	(void)state;
	assert_int_equal(cma_getaddrinfo("fe80::6", "7174", &hints, &r, &eai), 0);
	a = (const struct sockaddr_ib *)r->ai_dst_addr;
	assert_int_equal(r->ai_family, AF_IB);
	assert_int_equal(r->ai_dst_len, sizeof(*a));
	assert_int_equal(a->sib_family, AF_IB);
	assert_int_equal(a->sib_pkey, 0xffff);
	assert_int_equal(a->sib_addr.sib_raw[15], 6);
	assert_int_equal(be64toh(a->sib_sid), 0x1111c06);
	assert_int_equal(a->sib_sid_mask, UINT64_MAX);
	cma_freeaddrinfo(r);
	hints.ai_flags |= RAI_PASSIVE;
	assert_int_equal(cma_getaddrinfo(NULL, "0", &hints, &r, &eai), 0);
	a = (const struct sockaddr_ib *)r->ai_src_addr;
	assert_true(ib_addr_any(&a->sib_addr));
	assert_int_equal(be64toh(a->sib_sid_mask), RDMA_IB_IP_PS_MASK);
	cma_freeaddrinfo(r);
	hints.ai_flags = RAI_FAMILY; /* node might be a name */
	assert_int_equal(cma_getaddrinfo("127.0.0.1", "1", &hints, &r, &eai), 0);
	assert_int_equal(r->ai_family, AF_INET);
	cma_freeaddrinfo(r);
}

static void what_is_no_name(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *r;
	bool eai;

	(void)state;
	assert_int_equal(cma_getaddrinfo(NULL, NULL, NULL, &r, &eai), -EINVAL);
	assert_false(eai);
	assert_int_equal(cma_getaddrinfo("no number", "7174", &hints, &r, &eai),
			 EAI_NONAME);
	assert_true(eai);
	hints = (struct rdma_addrinfo){ .ai_dst_len = 1000 };
	assert_int_equal(cma_getaddrinfo(NULL, NULL, &hints, &r, &eai), -EINVAL);
}

static void a_name_for_an_id(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *r, *again;

	(void)state;
	assert_int_equal(cma_query_addrinfo(id, &r), -EINVAL);
	assert_int_equal(cma_resolve_addrinfo(id, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(cma_resolve_addrinfo(id, "no number", "7174", &hints), 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDRINFO_ERROR, EAI_NONAME);
	assert_int_equal(cma_query_addrinfo(id, &r), -EINVAL);
	for (int i = 0; i < 2; i++) {
		hints.ai_flags = RAI_NUMERICHOST | (i ? RAI_DNS : 0);
		assert_int_equal(cma_resolve_addrinfo(id, "192.0.2.1", "7174", &hints),
				 0);
		fix_ack(ch, RDMA_CM_EVENT_ADDRINFO_RESOLVED, 0);
	}
	assert_int_equal(cma_query_addrinfo(id, &r), 0);
	assert_int_equal(cma_query_addrinfo(id, &again), 0); /* each is its caller's */
	assert_ptr_not_equal(r, again);
	assert_int_equal(r->ai_family, AF_INET);
	assert_int_equal(r->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(r->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(r->ai_dst_len, sizeof(struct sockaddr_in));
	assert_memory_equal(r->ai_dst_addr, again->ai_dst_addr, r->ai_dst_len);
	assert_null(r->ai_src_addr);
	cma_freeaddrinfo(r);
	cma_freeaddrinfo(again);
	/* The SA is of InfiniBand, and knows no nodes. */
	hints.ai_flags = RAI_SA;
	assert_int_equal(cma_resolve_addrinfo(id, NULL, "1", &hints), -EINVAL);
	assert_int_equal(cma_bind_dev(id, (uint8_t[16]){ [15] = 1 }, 0, CMA_ANY), 0);
	assert_int_equal(cma_resolve_addrinfo(id, "::1", "1", &hints), -EINVAL);
	assert_int_equal(cma_resolve_addrinfo(id, NULL, "1", &hints), -EOPNOTSUPP);
	hints.ai_flags |= RAI_DNS;
	assert_int_equal(cma_resolve_addrinfo(id, NULL, "1", &hints), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void an_active_one(void **state)
{
	struct rdma_addrinfo *r = info(0);
	struct ibv_qp_init_attr attr = small();
	struct cma_id *id;

	(void)state;
	r->ai_connect = calloc(1, 4);
	memcpy(r->ai_connect, "abc", 4);
	r->ai_connect_len = 4;
	assert_int_equal(cma_create_ep(r, NULL, &attr, &id), 0);
	assert_non_null(id->id.qp);
	assert_int_equal(id->state, CMA_ROUTE);
	assert_int_equal(cma_connect(id, NULL), 0);
	assert_string_equal((char *)fix.private, "abc");
	cma_destroy_ep(id);
	fix.fail = 1;
	assert_int_equal(cma_create_ep(r, NULL, &attr, &id), -ENOMEM);
	cma_freeaddrinfo(r);
}

static void a_passive_one_makes_the_qps_of_its_requests(void **state)
{
	struct rdma_addrinfo *r = info(RAI_PASSIVE);
	struct ibv_qp_init_attr attr = small();
	struct cma_id *l, *id;

	(void)state;
	assert_int_equal(cma_create_ep(r, NULL, &attr, &l), 0);
	cma_freeaddrinfo(r);
	assert_int_equal(cma_listen(l, 1), 0);
	fix_ask(l, "192.0.2.1", false);
	assert_int_equal(cma_get_request(l, &id), 0);
	assert_non_null(id->id.qp);
	assert_int_equal(id->id.event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	cma_destroy_ep(id);
	fix_said();
	fix_ask(l, "192.0.2.1", false);
	fix.fail = 1; /* no memory for the QP: refused */
	assert_int_equal(cma_get_request(l, &id), -ENOMEM);
	assert_string_equal(fix_said(), "taken reject:28:0 close");
	assert_int_equal(cma_post(l, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, NULL), 0);
	assert_int_equal(cma_get_request(l, &id), -ENODEV);
	cma_destroy_ep(l);
}

static void only_a_listener_without_a_channel(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *l = fix_id(ch, RDMA_PS_TCP), *id;

	(void)state;
	assert_int_equal(cma_get_request(l, &id), -EINVAL);
	assert_int_equal(cma_destroy(l), 0);
	cma_channel_free(ch);
}

static void *makes_one(void *arg)
{
	struct ibv_qp_init_attr attr = small();
	struct cma_id *id;

	pthread_cancel(pthread_self());
	held_begin();
	assert_int_equal(cma_create_ep(arg, NULL, &attr, &id), 0);
	cma_destroy_ep(id);
	held_end();
	return id;
}

/* An id that the program does not have yet would be lost. The events that it waits for
 * are there already. */
static void to_make_one_cannot_be_cancelled(void **state)
{
	struct rdma_addrinfo *r;
	pthread_t t;
	void *end;

	(void)state;
	for (int passive = 0; passive < 2; passive++) {
		r = info(passive ? RAI_PASSIVE : 0);
		assert_int_equal(pthread_create(&t, NULL, makes_one, r), 0);
		assert_int_equal(pthread_join(t, &end), 0);
		assert_ptr_not_equal(end, PTHREAD_CANCELED);
		cma_freeaddrinfo(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(gids, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_is_no_name, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(a_name_for_an_id, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(an_active_one, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(
			a_passive_one_makes_the_qps_of_its_requests, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(only_a_listener_without_a_channel,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_make_one_cannot_be_cancelled,
						fix_begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
