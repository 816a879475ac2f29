/* SPDX-License-Identifier: BSD-2-Clause */
#include "abi/fix.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/nic.h"
#include "net/addr_testing.h"
#include "verbs/cq.h"
#include "verbs/netport.h"
#include "verbs/transport.h"

struct fix fix;

static void say(const char *word)
{
	size_t n = strlen(fix.said);

	assert_true(n + strlen(word) + 2 < sizeof(fix.said));
	snprintf(fix.said + n, sizeof(fix.said) - n, "%s%s", n ? " " : "", word);
}

const char *fix_said(void)
{
	static char said[sizeof(fix.said)];

	memcpy(said, fix.said, sizeof(said));
	fix.said[0] = '\0';
	return said;
}

/* --- a transport that sends nothing -------------------------------------- */

static int tp_open(struct qp *qp)
{
	(void)qp;
	return 0;
}

static void tp_close(struct qp *qp)
{
	(void)qp;
}

static int tp_enter(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	(void)qp, (void)from;
	assert_int_equal(now, fix.now);
	return 0;
}

static const struct transport transports[FIX_DEVICES] = {
	{ .name = "ib", .open = tp_open, .close = tp_close, .enter = tp_enter },
	{ .name = "iwarp", .open = tp_open, .close = tp_close, .enter = tp_enter },
};

/* --- the NIC --------------------------------------------------------------- */

static struct nic *the_nic(void)
{
	return (struct nic *)&fix;
}

static void is_ours(const struct nic *nic)
{
	assert_ptr_equal(nic, the_nic());
}

/* A call that may wait must hold off cancellation. */
static void is_control(const struct nic *nic)
{
	is_ours(nic);
	assert_int_not_equal(inside_held, 0);
}

int nic_devices(struct device ***out, int *n)
{
	is_control(the_nic());
	if (fix.devices_rc)
		return fix.devices_rc;
	*out = calloc(FIX_DEVICES, sizeof(**out));
	for (int i = 0; i < FIX_DEVICES; i++)
		(*out)[i] = device_of(fix.dev[i]);
	*n = FIX_DEVICES;
	return 0;
}

int nic_open(struct nic **out)
{
	is_control(the_nic());
	if (fix.open_rc)
		return fix.open_rc;
	fix.users++;
	*out = the_nic();
	return 0;
}

void nic_close(struct nic *nic)
{
	is_control(nic);
	assert_true(fix.users > 0);
	fix.users--;
}

struct core *nic_core(struct nic *nic)
{
	is_ours(nic);
	return &fix.core;
}

const struct transport *nic_packets(struct nic *nic)
{
	is_ours(nic);
	return &transports[0];
}

const struct transport *nic_transport(struct nic *nic, const struct device *dev)
{
	is_ours(nic);
	return &transports[(dev->kind == &device_iwarp)];
}

struct link *nic_link(struct nic *nic, const struct device *dev)
{
	is_ours(nic);
	return dev->kind == &device_iwarp ? NULL : &test_link;
}

void nic_post(struct nic *nic, struct qp *qp, bool nested)
{
	is_ours(nic);
	say("post");
	fix.number = qp->qpn;
	fix.nested = nested;
}

void nic_called(struct nic *nic, bool nested)
{
	is_ours(nic);
	say("called");
	fix.nested = nested;
}

int nic_post_send(struct nic *nic, struct qp *qp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad, bool nested)
{
	int rc = qp_post_send(qp, wr, bad);

	if (rc <= 0)
		nic_post(nic, qp, nested);
	return rc > 0 ? 0 : rc;
}

void nic_flush(struct nic *nic)
{
	is_control(nic);
	say("flush");
}

int nic_fence(struct nic *nic, uint32_t qpn)
{
	is_control(nic);
	say("fence");
	fix.number = qpn;
	return fix.fence_rc;
}

bool nic_poll(struct nic *nic)
{
	is_ours(nic);
	say("poll");
	if (fix.polled)
		fix.polled();
	return true;
}

void nic_polled(struct nic *nic)
{
	is_ours(nic);
	say("polled");
}

void nic_armed(struct nic *nic, const struct channel *ch)
{
	(void)ch;
	is_ours(nic);
	say("armed");
}

int nic_wait_begin(struct nic_wait *w)
{
	is_ours(w->nic);
	return 0;
}

void nic_wait_end(struct nic_wait *w)
{
	is_ours(w->nic);
}

void nic_wait_stop(struct nic *nic, const struct channel *ch)
{
	(void)ch;
	is_ours(nic);
}

void nic_doubts(struct nic *nic)
{
	is_ours(nic);
	say("doubts");
}

static void told(const uint8_t *ip)
{
	memset(fix.told, 0, sizeof(fix.told));
	if (ip)
		memcpy(fix.told, ip, sizeof(fix.told));
}

int nic_listen(struct nic *nic, const struct device *dev, const uint8_t *ip)
{
	is_control(nic);
	assert_true(!dev || &dev->ibv == fix.dev[FIX_ROCE]);
	fix.any_device = !dev;
	say(ip ? "listen" : "listen-any");
	told(ip);
	return fix.listen_rc;
}

void nic_begins(struct nic *nic, const struct qp *qp)
{
	(void)nic;
	(void)qp;
}

int nic_route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp)
{
	is_control(nic);
	(void)qp;
	say("route");
	told(dgid);
	fix.number = dest_qp;
	return fix.route_rc;
}

bool nic_same_host(struct nic *nic, struct device *dev, const uint8_t ip[16])
{
	is_control(nic);
	assert_ptr_equal(&dev->ibv, fix.dev[FIX_ROCE]);
	told(ip);
	return fix.same_host;
}

int nic_join(struct nic *nic, struct device *dev, const union ibv_gid *gid, bool join)
{
	is_control(nic);
	assert_ptr_equal(&dev->ibv, fix.dev[FIX_ROCE]);
	say(join ? "join" : "leave");
	told(gid->raw);
	return join ? fix.join_rc : 0;
}

uint64_t nic_now(void)
{
	return fix.now;
}

/* --- setting up and tearing down ----------------------------------------- */

int fix_begin(void **state)
{
	static const struct netdev net = {
		.name = "eth0",
		.ifindex = 7,
		.mac = { 2, 0, 0, 0, 0, 1 },
		.mtu = 1500,
		.running = true,
		.naddrs = 2,
		.addr = { { { [10] = 0xff, 0xff, 192, 0, 2, 1 } },
			  { { 0xfe, 0x80, [15] = 1 } } },
	};
	struct device *dev;

	(void)state;
	memset(&fix, 0, sizeof(fix));
	fix.now = 1000;
	assert_int_equal(core_init(&fix.core, 5), 0);
	assert_int_equal(device_create(&device_roce, &net, NULL, &dev), 0);
	fix.dev[FIX_ROCE] = &dev->ibv;
	assert_int_equal(device_create(&device_iwarp, &net, NULL, &dev), 0);
	fix.dev[FIX_IWARP] = &dev->ibv;
	return 0;
}

int fix_end(void **state)
{
	(void)state;
	assert_int_equal(fix.users, 0);
	assert_int_equal(inside_calls, 0);
	assert_int_equal(inside_held, 0);
	assert_true(list_empty(&fix.core.contexts));
	for (int i = 0; i < FIX_DEVICES; i++)
		free(device_of(fix.dev[i]));
	core_fini(&fix.core);
	return 0;
}

int fix_open(void **state)
{
	fix_begin(state);
	fix.ibv = ibv_open_device(fix.dev[FIX_ROCE]);
	assert_non_null(fix.ibv);
	fix.pd = ibv_alloc_pd(fix.ibv);
	assert_non_null(fix.pd);
	fix.cq = ibv_create_cq(fix.ibv, 16, NULL, NULL, 0);
	assert_non_null(fix.cq);
	return 0;
}

int fix_close(void **state)
{
	assert_int_equal(ibv_destroy_cq(fix.cq), 0);
	assert_int_equal(ibv_dealloc_pd(fix.pd), 0);
	assert_int_equal(ibv_close_device(fix.ibv), 0);
	return fix_end(state);
}

struct ibv_qp *fix_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = fix.cq,
		.recv_cq = fix.cq,
		.cap = { 8, 8, 4, 4, 64 },
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = fix.pd,
		.send_ops_flags =
			type == IBV_QPT_UD
				? IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM
				: IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
					  IBV_QP_EX_WITH_SEND_WITH_INV |
					  IBV_QP_EX_WITH_RDMA_WRITE |
					  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
					  IBV_QP_EX_WITH_RDMA_READ |
					  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
					  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
					  IBV_QP_EX_WITH_LOCAL_INV |
					  IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_qp *qp = abi_create_qp_ex(fix.ibv, &attr);

	assert_non_null(qp);
	return qp;
}

struct ibv_ah_attr fix_path(void)
{
	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid.raw = { [10] = 0xff, 0xff, 192, 0, 2, 2 },
			 .sgid_index = 1,
			 .hop_limit = 64 },
	};
}

struct ibv_qp *fix_rts(enum ibv_qp_type type)
{
	struct ibv_qp *qp = fix_qp(type);
	const bool ud = type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0x1234,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.ah_attr = fix_path(),
	};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       ud ? IBV_QP_STATE
					  : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						       IBV_QP_MAX_DEST_RD_ATOMIC |
						       IBV_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       ud ? IBV_QP_STATE | IBV_QP_SQ_PSN
					  : IBV_QP_STATE | IBV_QP_SQ_PSN |
						       IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						       IBV_QP_RNR_RETRY |
						       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	fix_said();
	return qp;
}

struct ibv_srq *fix_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(fix.pd, &attr);

	assert_non_null(srq);
	return srq;
}

struct ibv_mr *fix_mr(int access)
{
	struct ibv_mr *mr = ibv_reg_mr_iova2(fix.pd, fix.memory, sizeof(fix.memory),
					     (uintptr_t)fix.memory, (unsigned)access);

	assert_non_null(mr);
	return mr;
}

void fix_complete(struct ibv_qp *ibv, enum ibv_wc_status status)
{
	struct qp *qp = qp_of(ibv);

	lock_take(&qp->lock);
	sq_complete(qp, status, VERR_NONE, fix.now);
	lock_give(&qp->lock);
}
