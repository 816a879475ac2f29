/* SPDX-License-Identifier: BSD-2-Clause */
/* By which way a QP reaches its peer: the whole NIC, with QPs on the loopback interface
 * of a network namespace of its own. */
#include "driver/nic.h"
#include "driver/route.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/netdev.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "ib/ib.h"
#include "shm/peers.h"
#include "shm/shm.h"
#include "sys/netns_testing.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

enum { LEN = 3000, PORT = 4791, NOBODY_S = 700 };

static const uint8_t here[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
		     elsewhere[16] = { [10] = 0xff, 0xff, 10, 9, 9, 9 };

static struct world {
	struct nic *nic;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	struct cq *cq;
	struct mr *mr;
	struct qp *qp[2];
	uint8_t mem[2 * LEN];
} w;

static struct qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = (struct ibv_cq *)&w.cq->ex,
		.recv_cq = (struct ibv_cq *)&w.cq->ex,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &w.pd->ibv,
	};
	struct qp *qp;

	assert_int_equal(qp_create(&w.ctx, &a, nic_transport(w.nic, w.dev), &qp), 0);
	return qp;
}

static void move(struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = {
		.qp_state = to,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp == w.qp[0] ? w.qp[1]->qpn : w.qp[0]->qpn,
		.rq_psn = qp == w.qp[0] ? 20 : 10,
		.sq_psn = qp == w.qp[0] ? 10 : 20,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = 1 },
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	static const int mask[] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
		[IBV_QPS_SQD] = 0,
		[IBV_QPS_ERR] = 0,
	};
	bool from_sqd = qp->state == IBV_QPS_SQD;

	memcpy(a.ah_attr.grh.dgid.raw, here, sizeof(here));
	assert_int_equal(qp_modify(qp, &a, IBV_QP_STATE | (from_sqd ? 0 : mask[to]),
				   nic_now()),
			 0);
}

static void begin_anew(struct qp *qp)
{
	move(qp, IBV_QPS_RESET);
	move(qp, IBV_QPS_INIT);
}

static struct device *device_named(const char *name)
{
	struct device **devs, *found = NULL;
	int n;

	assert_int_equal(nic_devices(&devs, &n), 0);
	for (int i = 0; i < n; i++)
		if (!strcmp(devs[i]->ibv.name, name))
			found = devs[i];
	free(devs);
	return found;
}

static int set_up(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(nic_open(&w.nic), 0);
	w.dev = device_named("roce_lo");
	assert_non_null(w.dev);
	w.dev->core = w.ctx.core = nic_core(w.nic);
	w.ctx.dev = w.dev;
	w.ctx.link = nic_link(w.nic, w.dev);
	w.ctx.ibv = &w.ibv;
	w.ibv.device = &w.dev->ibv;
	list_init(&w.ctx.node);
	assert_int_equal(event_queue_init(&w.ctx.async), 0);
	assert_int_equal(pd_alloc(w.ctx.core, &w.ibv, &w.pd), 0);
	assert_int_equal(cq_create(&w.ctx, 64, NULL, NULL, &w.cq), 0);
	assert_int_equal(mr_reg(w.pd, w.mem, sizeof(w.mem), (uintptr_t)w.mem,
				IBV_ACCESS_LOCAL_WRITE, &w.mr),
			 0);
	for (int i = 0; i < 2; i++)
		w.qp[i] = make_qp(IBV_QPT_RC);
	for (int i = 0; i < 2; i++)
		move(w.qp[i], IBV_QPS_INIT);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_destroy(w.qp[i]), 0);
	assert_int_equal(mr_dereg(w.mr), 0);
	assert_int_equal(cq_destroy(w.cq), 0);
	assert_int_equal(pd_free(w.pd), 0);
	event_queue_fini(&w.ctx.async);
	nic_close(w.nic);
	return 0;
}

/* --- which way is chosen --------------------------------------------------------- */

static void test_what_is_of_the_same_host(void **state)
{
	static const uint8_t group[16] = { [10] = 0xff, 0xff, 224, 0, 0, 1 };

	(void)state;
	assert_true(same_host(w.dev, here));
	assert_true(same_host(w.dev, in6addr_loopback.s6_addr));
	assert_false(same_host(w.dev, elsewhere));
	assert_false(same_host(w.dev, group));
}

/* The kernel adds an interface's link-local address some time after the interface. */
static struct device *await_device(const char *name)
{
	struct pollfd p = { .events = POLLIN };
	struct netdev_monitor *m;
	struct device *dev;

	assert_int_equal(netdev_monitor_open(&m), 0);
	p.fd = netdev_monitor_fd(m);
	while (!(dev = device_named(name))) {
		poll(&p, 1, -1);
		netdev_monitor_drain(m);
	}
	netdev_monitor_close(m);
	return dev;
}

/* A link-local address belongs to this host on its own interface only; any other address
 * of the host does on all interfaces. */
static void test_what_is_of_the_same_host_on_another_interface(void **state)
{
	struct gid_entry link_local;
	struct device *dev;
	int tap;

	(void)state;
	tap = netns_tap("t0");
	if (tap < 0)
		skip();
	dev = await_device("roce_t0");
	assert_non_null(dev);
	assert_int_equal(device_query_gid(dev, 1, 0, &link_local), 0);
	assert_true(registry_has_ip(link_local.gid.raw));
	assert_true(same_host(dev, link_local.gid.raw));
	assert_false(same_host(w.dev, link_local.gid.raw));
	assert_true(same_host(dev, here));
	close(tap);
}

static void expect_route(struct qp *qp, const uint8_t *dgid, uint32_t dest, bool shm,
			 bool near)
{
	assert_int_equal(nic_route(w.nic, qp, dgid, dest), shm);
	assert_int_equal(qp->transport == &shm_transport, shm);
	assert_int_equal(qp->same_host, near);
}

/* The way is chosen anew each time that a QP leaves INIT. */
static void test_the_way_is_chosen_anew(void **state)
{
	uint32_t slot = qpn_slot(w.qp[1]->qpn) == NOBODY_S ? NOBODY_S + 1 : NOBODY_S;
	uint32_t nobody = qpn_make((uint16_t)slot, 5);

	(void)state;
	assert_int_equal(qpn_slot(nobody), slot);
	assert_ptr_equal(w.qp[0]->transport, &ib_transport);
	expect_route(w.qp[0], here, w.qp[1]->qpn, true, true);
	begin_anew(w.qp[0]);
	expect_route(w.qp[0], elsewhere, w.qp[1]->qpn, false, false);
	begin_anew(w.qp[0]);
	expect_route(w.qp[0], here, w.qp[1]->qpn, true, true);
	begin_anew(w.qp[0]);
	expect_route(w.qp[0], here, nobody, false, true);
}

/* No way is chosen for a QP that is not in INIT, nor for UD. */
static void test_what_has_no_way(void **state)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct qp *ud = make_qp(IBV_QPT_UD);

	(void)state;
	assert_int_equal(qp_modify(ud, &init,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_QKEY,
				   nic_now()),
			 0);
	expect_route(ud, here, w.qp[1]->qpn, false, false);
	assert_int_equal(qp_destroy(ud), 0);
	move(w.qp[0], IBV_QPS_RESET);
	expect_route(w.qp[0], here, w.qp[1]->qpn, false, false);
}

/* --- a peer that refuses shared memory -------------------------------------------- */

/* due_forget(): only route_to_wire() must make the engine look at the QP. */
static void to_wire(struct qp *qp)
{
	turn_take(&qp->core->turn);
	due_forget(qp->core, qp);
	route_to_wire(w.nic, qp);
	turn_give(&qp->core->turn);
}

/* Posts without telling anybody, or (by_nic) as a program does. */
static void post_by(int to, bool by_nic)
{
	struct ibv_sge sge = { (uintptr_t)w.mem + LEN, LEN, w.mr->mkey.key };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad,
		send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	memset(w.mem, 'a' + to, LEN);
	memset(w.mem + LEN, 0, LEN);
	assert_int_equal(qp_post_recv(w.qp[to], &recv, &bad_recv), 0);
	sge.addr = (uintptr_t)w.mem;
	assert_int_equal(by_nic ? nic_post_send(w.nic, w.qp[!to], &send, &bad, false)
				: qp_post_send(w.qp[!to], &send, &bad),
			 0);
}

static void post(int to)
{
	post_by(to, false);
}

static void expect_delivery(void)
{
	struct ibv_wc wc;

	for (int n = 0; n < 2; n++) {
		while (cq_poll(w.cq, 1, &wc) == 0)
			nic_poll(w.nic);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_memory_equal(w.mem, w.mem + LEN, LEN);
}

/* The peer's refusal comes in each state in which a QP waits for its peer: the QP stays
 * in that state, and sends and receives by UDP. */
static void test_in_each_state(void **state)
{
	static const enum ibv_qp_state path[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
						  IBV_QPS_SQD, IBV_QPS_RTS };

	(void)state;
	for (int when = 0; when < 4; when++) {
		for (int i = 0; i < 2; i++) {
			begin_anew(w.qp[i]);
			expect_route(w.qp[i], here, w.qp[!i]->qpn, true, true);
		}
		for (int at = 0; at < 5; at++) {
			for (int i = 0; i < 2; i++) {
				if (at)
					move(w.qp[i], path[at]);
				if (at == when)
					to_wire(w.qp[i]);
				assert_int_equal(w.qp[i]->state, path[at]);
			}
			if (path[at] == IBV_QPS_SQD)
				post(0); /* is queued until RTS */
		}
		nic_post(w.nic, w.qp[1], false);
		expect_delivery();
		post_by(1, true);
		expect_delivery();
		assert_ptr_equal(w.qp[0]->transport, &ib_transport);
	}
}

/* A SEND that was posted before the refusal is sent. */
static void test_what_was_posted(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		expect_route(w.qp[i], here, w.qp[!i]->qpn, true, true);
		move(w.qp[i], IBV_QPS_RTR);
		move(w.qp[i], IBV_QPS_RTS);
	}
	to_wire(w.qp[1]);
	post(1);
	to_wire(w.qp[0]);
	expect_delivery();
}

/* A QP in SQD that waits for its peer counts as drained, since none of its packets is on
 * the way. */
static void test_what_drains(void **state)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct pollfd told = { w.ctx.async.fd, POLLIN, 0 };
	struct ibv_async_event e;

	(void)state;
	expect_route(w.qp[0], here, w.qp[1]->qpn, true, true);
	move(w.qp[0], IBV_QPS_RTR);
	move(w.qp[0], IBV_QPS_RTS);
	assert_int_equal(qp_modify(w.qp[0], &sqd,
				   IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, nic_now()),
			 0);
	to_wire(w.qp[0]);
	assert_int_equal(w.qp[0]->state, IBV_QPS_SQD);
	while (poll(&told, 1, 0) == 0)
		nic_poll(w.nic);
	assert_int_equal(async_get(&w.ctx, &e), 0);
	assert_int_equal(e.event_type, IBV_EVENT_SQ_DRAINED);
	async_ack(&e);
	lock_take(&w.qp[0]->lock);
	assert_false(w.qp[0]->sqd.draining);
	lock_give(&w.qp[0]->lock);
}

/* The refusal does nothing to a QP in ERR, which has nothing to send. */
static void test_in_err(void **state)
{
	(void)state;
	expect_route(w.qp[0], here, w.qp[1]->qpn, true, true);
	move(w.qp[0], IBV_QPS_RTR);
	move(w.qp[0], IBV_QPS_ERR);
	to_wire(w.qp[0]);
	assert_int_equal(w.qp[0]->state, IBV_QPS_ERR);
	assert_ptr_equal(w.qp[0]->transport, &ib_transport);
}

/* The UDP port cannot be had: the QP fails, and an event tells its program. */
static void test_without_the_port(void **state)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	struct ibv_async_event e;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	expect_route(w.qp[0], here, w.qp[1]->qpn, true, true);
	move(w.qp[0], IBV_QPS_RTR);
	to_wire(w.qp[0]);
	assert_int_equal(w.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(async_get(&w.ctx, &e), 0);
	assert_int_equal(e.event_type, IBV_EVENT_QP_FATAL);
	async_ack(&e);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_of_the_same_host),
		TEST(test_what_is_of_the_same_host_on_another_interface),
		TEST(test_the_way_is_chosen_anew),
		TEST(test_what_has_no_way),
		TEST(test_in_each_state),
		TEST(test_what_was_posted),
		TEST(test_what_drains),
		TEST(test_in_err),
		TEST(test_without_the_port),
	};

	if (!netns_enter()) {
		fprintf(stderr, "SKIPPED: no network namespace here\n");
		return 77;
	}
	netns_lo_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
