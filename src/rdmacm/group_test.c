/* SPDX-License-Identifier: BSD-2-Clause */
/* A group is joined when its event is read, and left. */
#include "rdmacm/group.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"

static struct sockaddr_in addr;
static struct sockaddr *const name = (struct sockaddr *)&addr;

static struct cma_id *datagram_id(struct cma_channel *ch)
{
	struct cma_id *id = fix_resolved(ch, RDMA_PS_UDP, "127.0.0.1", 7174);

	addr = fix_addr("239.1.2.3", 0);
	fix_qp(id);
	fix_said();
	return id;
}

static void end(struct cma_id *id, struct cma_channel *ch)
{
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void joined_and_left(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = datagram_id(ch);
	struct cma_event *e;

	(void)state;
	assert_int_equal(cma_join(id, name, false, id), 0);
	assert_string_equal(fix_said(), "");
	e = fix_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_string_equal(fix_said(), "attach_mcast");
	assert_ptr_equal(e->ev.param.ud.private_data, id);
	assert_int_equal(e->ev.param.ud.qp_num, 0xffffff);
	cma_done(e);
	assert_int_equal(cma_leave(id, name), 0);
	assert_string_equal(fix_said(), "detach_mcast");
	assert_int_equal(cma_leave(id, name), -EADDRNOTAVAIL);
	assert_int_equal(cma_leave(id, NULL), -EINVAL);
	end(id, ch);
}

static void left_before_it_was_read(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = datagram_id(ch);

	(void)state;
	assert_int_equal(cma_join(id, name, false, NULL), 0);
	assert_int_equal(cma_leave(id, name), 0);
	assert_null(cma_take(ch));
	assert_string_equal(fix_said(), "");
	end(id, ch);
}

static void who_only_sends_is_not_attached(void **state)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask =
			RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = name,
	};
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = datagram_id(ch);

	(void)state;
	assert_int_equal(cma_join_ex(id, &attr, NULL), 0);
	fix_ack(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_string_equal(fix_said(), "");
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	assert_int_equal(cma_join_ex(id, &attr, NULL), -EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_int_equal(cma_join_ex(id, &attr, NULL), -EINVAL);
	end(id, ch);
}

static void the_kernel_says_no(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = datagram_id(ch);

	(void)state;
	assert_int_equal(cma_join(id, name, false, NULL), 0);
	fix.fail = 1;
	fix_ack(ch, RDMA_CM_EVENT_MULTICAST_ERROR, -ENOMEM);
	assert_int_equal(cma_leave(id, name), 0);
	assert_string_equal(fix_said(), "");
	end(id, ch);
}

static void what_is_no_group(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = datagram_id(ch), *bare = fix_id(ch, RDMA_PS_UDP);
	struct sockaddr none = { .sa_family = AF_UNIX };

	(void)state;
	assert_int_equal(cma_join(bare, name, false, NULL), -EINVAL);
	assert_int_equal(cma_join(id, NULL, false, NULL), -EAFNOSUPPORT);
	assert_int_equal(cma_join(id, &none, false, NULL), -EAFNOSUPPORT);
	addr = fix_addr("192.0.2.1", 0);
	assert_int_equal(cma_join(id, name, false, NULL), -EINVAL);
	assert_int_equal(cma_destroy(bare), 0);
	end(id, ch);
}

/* An id leaves all its groups when it is destroyed. */
static void all_are_left(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = datagram_id(ch);

	(void)state;
	assert_int_equal(cma_join(id, name, false, NULL), 0);
	fix_ack(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	addr = fix_addr("239.1.2.4", 0);
	assert_int_equal(cma_join(id, name, false, NULL), 0);
	fix_said();
	cma_leave_all(id);
	assert_string_equal(fix_said(), "detach_mcast");
	assert_null(cma_take(ch));
	end(id, ch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(joined_and_left, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(left_before_it_was_read, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(who_only_sends_is_not_attached, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(the_kernel_says_no, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_is_no_group, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(all_are_left, fix_begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
