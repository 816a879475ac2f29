/* SPDX-License-Identifier: BSD-2-Clause */
/* At an adapter of a fabric: multicast groups, which the subnet manager makes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "rdmacm/group.h"
#include "rdmacm/resolve.h"

static int begin(void **state)
{
	fix_begin(state);
	fix.fabric = true;
	fix.devices = 0; /* the adapter alone, without interfaces */
	return 0;
}

static void tell_group(struct cma_id *id, int status)
{
	struct sa_group as = fix.group;
	const struct cm_event ev = { .type = CM_EV_GROUP,
				     .status = status,
				     .group = status ? NULL : &as };

	(void)id;
	as.mlid = 0xc003;
	as.sl = 2;
	as.qkey = 0x1234;
	assert_true(fix.owner->event(fix.owner, &ev));
}

static struct cma_id *joined(struct cma_channel *ch, const char *ip)
{
	struct sockaddr_in group = fix_addr(ip, 0);
	struct cma_id *id = fix_id(ch, RDMA_PS_UDP);

	assert_int_equal(cma_resolve_addr(id, NULL, (struct sockaddr *)&group), 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_true(id->dev->ib);
	fix_qp(id);
	fix_said();
	assert_int_equal(cma_join(id, (struct sockaddr *)&group, false, id), 0);
	assert_string_equal(fix_said(), "join:1");
	return id;
}

/* The SA makes the group; the program gets its address with the event. */
static void a_group(void **state)
{
	static const uint8_t mgid[16] = { 0xff, 0x12,	     0x40, 0x01, 0xff,
					  0xff, [12] = 0x0f, 1,	   1,	 1 };
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = joined(ch, "239.1.1.1");
	struct sockaddr_in group = fix_addr("239.1.1.1", 0);
	struct cma_event *e;

	(void)state;
	assert_memory_equal(fix.group.mgid, mgid, 16);
	assert_int_equal(fix.group.port_gid[15], 5);
	assert_int_equal(fix.group.qkey, RDMA_UDP_QKEY);
	tell_group(id, 0);
	e = fix_event(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_string_equal(fix_said(), "attach_mcast");
	assert_ptr_equal(e->ev.param.ud.private_data, id);
	assert_int_equal(e->ev.param.ud.qp_num, 0xffffff);
	assert_int_equal(e->ev.param.ud.qkey, 0x1234);
	assert_int_equal(e->ev.param.ud.ah_attr.dlid, 0xc003);
	assert_int_equal(e->ev.param.ud.ah_attr.sl, 2);
	assert_int_equal(e->ev.param.ud.ah_attr.is_global, 1);
	assert_memory_equal(e->ev.param.ud.ah_attr.grh.dgid.raw, mgid, 16);
	cma_done(e);
	assert_int_equal(cma_leave(id, (struct sockaddr *)&group), 0);
	assert_string_equal(fix_said(), "part detach_mcast");
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* A new subnet manager has not given the group the same LID: the program has to join
 * again. */
static void a_group_lost(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = joined(ch, "239.1.1.1");
	struct sockaddr_in group = fix_addr("239.1.1.1", 0);

	(void)state;
	tell_group(id, 0);
	fix_ack(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_string_equal(fix_said(), "attach_mcast");
	tell_group(id, -ENETRESET);
	fix_ack(ch, RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	assert_int_equal(cma_leave(id, (struct sockaddr *)&group), 0);
	assert_string_equal(fix_said(), "part detach_mcast");
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void a_group_refused(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = joined(ch, "239.1.1.1");

	(void)state;
	tell_group(id, -EINVAL);
	fix_ack(ch, RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL);
	assert_string_equal(fix_said(), "");
	cma_destroy_qp(id);
	fix_said();
	/* An id that is destroyed leaves its groups. */
	assert_int_equal(cma_destroy(id), 0);
	assert_string_equal(fix_said(), "forget part");
	cma_channel_free(ch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_group, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_group_lost, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_group_refused, begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
