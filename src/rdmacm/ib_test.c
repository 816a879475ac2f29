/* SPDX-License-Identifier: BSD-2-Clause */
/* At an adapter of a fabric: the fabric's directory, its subnet manager's paths, its
 * services. */
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "rdmacm/group.h"
#include "rdmacm/resolve.h"
#include "sys/sockaddr.h"

enum { DLID = 7, SL = 3 };

static const struct sa_path path = { .dlid = DLID,
				     .slid = 5,
				     .sl = SL,
				     .mtu = IBV_MTU_512,
				     .rate = IBV_RATE_100_GBPS,
				     .life = 12,
				     .pkey = 0xffff };

/* The fabric's adapter alone, or beside interfaces. */
static int begin(void **state)
{
	fix_begin(state);
	fix.fabric = true;
	return 0;
}

static int begin_alone(void **state)
{
	begin(state);
	fix.devices = 0;
	return 0;
}

static struct cma_id *found(struct cma_channel *ch, const char *ip)
{
	struct sockaddr_in a = fix_addr(ip, 7174);
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);

	assert_int_equal(cma_resolve_addr(id, NULL, (struct sockaddr *)&a), 0);
	return id;
}

static void answer(struct cma_id *id, int status)
{
	const struct cm_event ev = { .type = CM_EV_PATH,
				     .status = status,
				     .path = status ? NULL : &path };

	assert_true(id->owner.event(&id->owner, &ev));
}

static void by_address_and_path(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.2");
	struct sockaddr_in self = fix_addr("127.1.0.1", 0);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	uint8_t ip[16];
	int mask;

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	sockaddr_ip((struct sockaddr *)&self, ip);
	assert_memory_equal(id->to.src_ip, ip, 16);
	assert_true(id->to.src_port >= 32768);
	assert_int_equal(id->to.route.src[15], 5);
	assert_int_equal(id->to.route.dst[15], 6);
	assert_memory_equal(id->id.route.addr.addr.ibaddr.dgid.raw, id->to.route.dst, 16);
	fix_said();

	assert_int_equal(cma_resolve_route(id, 1500), 0);
	assert_string_equal(fix_said(), "path");
	assert_int_equal(fix.patience_ns, 1500000000);
	assert_int_equal(id->state, CMA_QUERY); /* until there is an answer */
	assert_int_equal(cma_resolve_route(id, 1500), -EINVAL);
	assert_int_equal(cma_connect(id, NULL), -EINVAL);
	answer(id, 0);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(id->state, CMA_ROUTE);
	assert_int_equal(id->to.route.dlid, DLID);
	assert_int_equal(id->to.mtu, IBV_MTU_512);
	assert_int_equal(id->ack_timeout, 15);
	assert_int_equal(id->id.route.num_paths, 1);
	assert_int_equal(be16toh(id->id.route.path_rec->dlid), DLID);

	assert_int_equal(cma_connect(id, NULL), 0);
	assert_int_equal(fix.to.route.dlid, DLID);
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.ah_attr.is_global, 0);
	assert_int_equal(a.ah_attr.dlid, DLID);
	assert_int_equal(a.ah_attr.sl, SL);
	assert_int_equal(a.ah_attr.static_rate, IBV_RATE_100_GBPS);
	assert_int_equal(a.path_mtu, IBV_MTU_512);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* Only one answer was asked for. */
static void a_late_answer(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.2");

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cma_resolve_route(id, 10), 0);
	answer(id, 0);
	answer(id, -ETIMEDOUT);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(cma_post(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL), 0);
	fix_ack(ch, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	assert_int_equal(id->state, CMA_ROUTE);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* Twice the path's lifetime and the peer's ACK delay, here 2^15. */
static void timeouts_of_paths(void **state)
{
	static const struct {
		uint8_t life, timeout;
	} row[] = { { 0, 15 },	{ 12, 15 }, { 13, 16 }, { 14, 16 },
		    { 15, 17 }, { 16, 17 }, { 18, 19 }, { 63, 31 } };
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.2");

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct sa_path p = path;

		p.life = row[i].life;
		assert_int_equal(cma_take_path(id, &p), 0);
		assert_int_equal(id->ack_timeout, row[i].timeout);
	}
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void a_timeout_of_ones_own(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.2");
	uint8_t own = 9;

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					&own, 1),
			 0);
	assert_int_equal(cma_resolve_route(id, 10), 0);
	answer(id, 0);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(id->ack_timeout, own);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void a_source_of_ones_own(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct sockaddr_in to = fix_addr("127.1.0.2", 7174);
	struct sockaddr_in from = fix_addr("10.9.9.9", 5555);
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_resolve_addr(id, (struct sockaddr *)&from,
					  (struct sockaddr *)&to),
			 -EADDRNOTAVAIL);
	from = fix_addr("127.1.0.1", 5555);
	assert_int_equal(cma_resolve_addr(id, (struct sockaddr *)&from,
					  (struct sockaddr *)&to),
			 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(id->to.src_port, 5555);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* A host with interfaces does not need the fabric. */
static void a_fabric_that_has_ended(void **state)
{
	struct sockaddr_in any = fix_addr("0.0.0.0", 4567);
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id, *listener = fix_id(ch, RDMA_PS_TCP);

	(void)state;
	fix.find_rc = fix.serve_rc = -EIO;
	fix.serves_fail = 1;
	id = found(ch, "127.0.0.1");
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_false(id->dev->ib);
	fix_said();
	assert_int_equal(cma_bind(listener, (struct sockaddr *)&any), 0);
	assert_string_equal(fix_said(), "serve:106 bind");
	assert_int_equal(fix.service.fd, 0);
	assert_int_equal(cma_destroy(listener), 0);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void by_gid(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct sockaddr_in6 a = fix_addr6("fe80::6", 7174);
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_resolve_addr(id, NULL, (struct sockaddr *)&a), 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(id->to.src_ip[0], 0xfe);
	assert_int_equal(id->to.src_ip[15], 5);
	assert_int_equal(id->id.route.addr.src_addr.sa_family, AF_INET6);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* --- by GIDs alone ------------------------------------------------------- */

static struct sockaddr_storage gid_addr(const char *gid, uint64_t service)
{
	struct sockaddr_storage a;
	struct sockaddr_in6 in6 = fix_addr6(gid, 0);

	sockaddr_set_gid(&a, in6.sin6_addr.s6_addr, 0xffff, service);
	return a;
}

static void native(void **state)
{
	struct sockaddr_storage to = gid_addr("fe80::6", 0x1061c06);
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);
	const struct sockaddr *src = &id->id.route.addr.src_addr;

	(void)state;
	assert_int_equal(cma_resolve_addr(id, NULL, (struct sockaddr *)&to), 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(src->sa_family, AF_IB);
	assert_int_equal(sockaddr_service(src) >> 16, RDMA_PS_TCP);
	assert_int_equal(sockaddr_port(src), id->to.src_port);
	assert_true(id->to.src_port >= 32768);
	assert_int_equal(id->to.src_ip[15], 5);
	fix_said();
	assert_int_equal(cma_resolve_route(id, 10), 0);
	answer(id, 0);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(cma_connect(id, NULL), 0);
	assert_true(fix.to.native);
	assert_int_equal(fix.to.service_id, 0x1061c06);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

/* The program sets some bits of the service ID. */
static void native_services(void **state)
{
	struct sockaddr_storage a = gid_addr("fe80::5", 0x1061c06);
	struct sockaddr_ib *ib = (struct sockaddr_ib *)&a;
	struct cma_id *id = fix_id(NULL, RDMA_PS_UDP);

	(void)state;
	assert_int_equal(cma_bind(id, (struct sockaddr *)&a), -EPROTONOSUPPORT);
	assert_int_equal(cma_destroy(id), 0);
	fix_said();
	id = fix_id(NULL, RDMA_PS_IB);
	assert_int_equal(cma_bind(id, (struct sockaddr *)&a), 0);
	assert_string_equal(fix_said(), "serve:106 bind");
	assert_true(fix.service.native && !fix.service.any);
	assert_int_equal(fix.service.port, 0x1c06);
	assert_int_equal(fix.service.ip[15], 5);
	close(fix.service.fd);
	assert_int_equal(cma_destroy(id), 0);
	fix_said();
	ib->sib_sid_mask = 0;
	id = fix_id(NULL, RDMA_PS_UDP);
	assert_int_equal(cma_bind(id, (struct sockaddr *)&a), 0);
	assert_string_equal(fix_said(), "serve:111 bind");
	assert_true(fix.service.port >= 32768);
	close(fix.service.fd);
	assert_int_equal(cma_destroy(id), 0);
}

/* The program sets the path itself: no subnet manager is asked. */
static void a_path_of_ones_own(void **state)
{
	struct ibv_path_data data[2] = {
		{ .flags = IBV_PATH_FLAG_OUTBOUND },
		{ .flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			   IBV_PATH_FLAG_BIDIRECTIONAL,
		  .path = { .dlid = htobe16(DLID),
			    .qosclass_sl = htobe16(SL),
			    .mtu = 0x83 } },
	};
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.2");

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	fix_said();
	assert_int_equal(cma_set_path(id, data, sizeof(data[0])), -EINVAL);
	assert_int_equal(cma_set_path(id, data, sizeof(data) - 1), -EINVAL);
	assert_int_equal(cma_set_path(id, NULL, 1), -EFAULT);
	assert_int_equal(cma_set_path(id, data, sizeof(data)), 0);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(id->to.route.dlid, DLID);
	assert_int_equal(id->to.route.sl, SL);
	assert_int_equal(id->to.mtu, IBV_MTU_1024);
	/* The id has a path already. */
	assert_int_equal(cma_set_path(id, data, sizeof(data)), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void no_answer(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.2");

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cma_resolve_route(id, 10), 0);
	answer(id, -ETIMEDOUT);
	fix_ack(ch, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
	assert_int_equal(cma_connect(id, NULL), -EINVAL);
	assert_int_equal(cma_resolve_route(id, 10), 0); /* the program may ask again */
	fix_said();
	assert_int_equal(cma_destroy(id), 0);
	assert_string_equal(fix_said(), "forget");
	cma_channel_free(ch);
}

/* If there are interfaces, their routes lead to such addresses. */
static void not_of_the_fabric(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.0.0.1");

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_false(id->dev->ib);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void nobodys(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = found(ch, "127.1.0.9");

	(void)state;
	fix_ack(ch, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void services(void **state)
{
	struct sockaddr_in any = fix_addr("0.0.0.0", 4567);
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_bind(id, (struct sockaddr *)&any), 0);
	assert_string_equal(fix_said(), "serve:106 bind");
	assert_int_equal(fix.service.only_ib, fix.devices == 0);
	assert_true(fix.service.fd > 0);
	assert_int_equal(cma_destroy(id), 0);
	close(fix.service.fd); /* owned by the CM, which is a fake here */
}

static void a_service_that_is_anothers(void **state)
{
	struct sockaddr_in any = fix_addr("0.0.0.0", 4567);
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	fix.serve_rc = -EADDRINUSE;
	fix.serves_fail = 1;
	assert_int_equal(cma_bind(id, (struct sockaddr *)&any), -EADDRINUSE);
	assert_string_equal(fix_said(), "serve:106");
	/* With any port, another one is tried. */
	sockaddr_set_port((struct sockaddr *)&any, 0);
	fix.serves_fail = 2;
	assert_int_equal(cma_bind(id, (struct sockaddr *)&any), 0);
	assert_string_equal(fix_said(), "serve:106 serve:106 serve:106 bind");
	close(fix.service.fd);
	assert_int_equal(cma_destroy(id), 0);
	fix_said();
	id = fix_id(NULL, RDMA_PS_TCP);
	fix.binds_fail = 1; /* a service of our own, which the fabric accepts twice */
	assert_int_equal(cma_bind(id, (struct sockaddr *)&any), 0);
	assert_string_equal(fix_said(), "serve:106 bind serve:106 bind");
	assert_true(fix.service.port >= 32768);
	close(fix.service.fd);
	assert_int_equal(cma_destroy(id), 0);
}

static void a_request(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct sockaddr_in any = fix_addr("0.0.0.0", 4567);
	struct cma_id *listener = fix_id(ch, RDMA_PS_TCP), *id;
	struct cm_target from = { .space = RDMA_PS_TCP,
				  .src_port = 4567,
				  .rate = IBV_RATE_10_GBPS,
				  .route = { .dlid = DLID, .sl = SL, .pkey_index = 2 } };
	const struct cm_param peer = { .qpn = 99, .resources = 4, .depth = 4 };
	struct cm_conn conn = { 0 };
	const struct cm_event ev = {
		.type = CM_EV_REQUEST, .from = &from, .peer = &peer, .conn = &conn
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	struct cma_event *e;
	int mask;

	(void)state;
	assert_int_equal(cma_bind(listener, (struct sockaddr *)&any), 0);
	assert_int_equal(cma_listen(listener, 1), 0);
	from.route.src[0] = from.route.dst[0] = 0xfe;
	from.route.src[1] = from.route.dst[1] = 0x80;
	from.route.src[15] = 5;
	from.route.dst[15] = 6;
	assert_true(listener->owner.event(&listener->owner, &ev));
	e = fix_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = cma_of(e->ev.id);
	assert_true(id->dev->ib);
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.pkey_index, 2);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.ah_attr.dlid, DLID);
	assert_int_equal(a.ah_attr.static_rate, IBV_RATE_10_GBPS);
	cma_done(e);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(listener), 0);
	close(fix.service.fd);
	cma_channel_free(ch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(by_address_and_path, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_late_answer, begin, fix_end),
		cmocka_unit_test_setup_teardown(timeouts_of_paths, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_timeout_of_ones_own, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_source_of_ones_own, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_fabric_that_has_ended, begin, fix_end),
		cmocka_unit_test_setup_teardown(by_gid, begin, fix_end),
		cmocka_unit_test_setup_teardown(no_answer, begin, fix_end),
		cmocka_unit_test_setup_teardown(native, begin, fix_end),
		cmocka_unit_test_setup_teardown(native_services, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_path_of_ones_own, begin, fix_end),
		cmocka_unit_test_setup_teardown(not_of_the_fabric, begin, fix_end),
		cmocka_unit_test_setup_teardown(services, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_service_that_is_anothers, begin,
						fix_end),
		cmocka_unit_test_setup_teardown(a_request, begin, fix_end),
	};
	const struct CMUnitTest alone[] = {
		cmocka_unit_test_setup_teardown(nobodys, begin_alone, fix_end),
		cmocka_unit_test_setup_teardown(services, begin_alone, fix_end),
	};
	int failed, status;
	pid_t child = fork(); /* devices are opened once in a process */

	if (child == 0)
		return cmocka_run_group_tests(alone, NULL, NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		failed++;
	return failed;
}
