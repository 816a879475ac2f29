/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs.c - calls every kind of entry point, in one process, on the loopback device:
 *tests what programs may rely on and the distribution's programs do not exercise.
 *
 *	verbs --list		the cases
 *	verbs CASE		exit status 0, or a line that says what is wrong
 */
#include "verbs.h"

#include <fcntl.h>
#include <poll.h>

static void context(struct rig *r)
{
	struct verbs_context *v = verbs_get_ctx(r->ctx);
	struct pollfd p[2] = { { r->ctx->cmd_fd, POLLIN, 0 },
			       { r->ctx->async_fd, POLLIN, 0 } };
	struct ibv_device **list;
	int n;

	CHECK(r->ctx->abi_compat == (void *)UINTPTR_MAX);
	CHECK(v && v->sz == sizeof(*v));
	CHECK(r->ctx->num_comp_vectors >= 1);
	CHECK(fcntl(p[0].fd, F_GETFD) == FD_CLOEXEC);
	CHECK(fcntl(p[1].fd, F_GETFD) == FD_CLOEXEC);
	CHECK(poll(p, 2, 0) == 0);
	list = ibv_get_device_list(&n);
	CHECK(list && n >= 1 && !list[n]);
	/* RoCE devices come before iWARP devices, each with loopback last; the order
	 * stays. */
	CHECK(n % 2 == 0 && list[n / 2 - 1] == r->ctx->device);
	CHECK(!strcmp(ibv_get_device_name(list[n / 2 - 1]), "roce_lo"));
	CHECK(ibv_get_device_index(list[n / 2 - 1]) >= 0);
	CHECK(list[n / 2 - 1]->node_type == IBV_NODE_CA);
	CHECK(!strcmp(ibv_get_device_name(list[n - 1]), "iwarp_lo"));
	CHECK(list[n - 1]->node_type == IBV_NODE_RNIC);
	CHECK(list[n - 1]->transport_type == IBV_TRANSPORT_IWARP);
	ibv_free_device_list(list);
	CHECK(!ibv_open_device(NULL) && errno == EINVAL);
}

static void gids(struct rig *r)
{
	static const union ibv_gid zero;
	struct ibv_gid_entry e, table[256];
	union ibv_gid gid;
	ssize_t n = ibv_query_gid_table(r->ctx, table, 256, 0);

	CHECK(n >= 1);
	for (ssize_t i = 0; i < n; i++) {
		CHECK(!ibv_query_gid_ex(r->ctx, 1, table[i].gid_index, &e, 0));
		CHECK(!memcmp(&e, &table[i], sizeof(e)));
		CHECK(e.gid_type == IBV_GID_TYPE_ROCE_V2 && e.ndev_ifindex == 1);
		CHECK(!ibv_query_gid(r->ctx, 1, (int)e.gid_index, &gid));
		CHECK(!memcmp(&gid, &e.gid, sizeof(gid)));
	}
	CHECK(ibv_query_gid_table(r->ctx, table, 0, 0) == -EINVAL);
	CHECK(ibv_query_gid_ex(r->ctx, 1, 100, &e, 0) == ENODATA);
	memset(&gid, 1, sizeof(gid));
	CHECK(!ibv_query_gid(r->ctx, 1, 100, &gid));
	CHECK(!memcmp(&gid, &zero, sizeof(gid)));
	errno = 0;
	CHECK(ibv_query_gid(r->ctx, 1, 10000, &gid) == -1 && errno == EINVAL);
	CHECK(ibv_query_gid(r->ctx, 1, -1, &gid) == -1);
	CHECK(ibv_query_gid(r->ctx, 2, 0, &gid) == -1);
	CHECK(ibv_query_gid_ex(r->ctx, 1, 0, &e, 1) == EOPNOTSUPP);
}

#undef ibv_query_port
static void ports(struct rig *r)
{
	struct ibv_port_attr now, old;
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	__be16 pkey;

	CHECK(!___ibv_query_port(r->ctx, 1, &now));
	CHECK(now.state == IBV_PORT_ACTIVE && now.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(now.flags & IBV_QPF_GRH_REQUIRED);
	memset(&old, 0xee, sizeof(old));
	CHECK(!ibv_query_port(r->ctx, 1, (void *)&old));
	CHECK(!memcmp(&old, &now, offsetof(struct ibv_port_attr, flags)));
	CHECK(old.flags == 0xee && old.port_cap_flags2 == 0xeeee);
	CHECK(ibv_query_port(r->ctx, 2, (void *)&old) == EINVAL);
	CHECK(!ibv_query_device(r->ctx, &attr) && attr.max_qp > 0);
	CHECK(!ibv_query_device_ex(r->ctx, NULL, &ex));
	CHECK(!memcmp(&ex.orig_attr, &attr, sizeof(attr)));
	CHECK(!ibv_query_pkey(r->ctx, 1, 0, &pkey) && pkey == 0xffff);
	CHECK(ibv_query_pkey(r->ctx, 1, 1, &pkey) == -1 && errno == EINVAL);
	CHECK(ibv_get_pkey_index(r->ctx, 1, 0xffff) == 0);
	CHECK(ibv_get_pkey_index(r->ctx, 1, 0x1234) == -1);
}

/* Integer verbs return the errno, pointer verbs set it. */
static void errors(struct rig *r)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct ibv_recv_wr wr = { .num_sge = 1000 }, *bad = NULL;

	errno = 0;
	CHECK(!ibv_create_cq(r->ctx, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(r->ctx, 1, NULL, NULL, r->ctx->num_comp_vectors));
	CHECK(!ibv_create_cq(r->ctx, 1, NULL, NULL, -1));
	errno = 0;
	CHECK(!ibv_create_cq_ex(r->ctx, &cq) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_reg_mr(r->pd, r->buf, 64, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	errno = 0;
	CHECK(ibv_dealloc_pd(r->pd) == EBUSY && errno == EBUSY);
	CHECK(ibv_destroy_cq(r->cq) == EBUSY);
	CHECK(ibv_modify_qp(r->a, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == EINVAL);
	CHECK(ibv_post_recv(r->a, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(ibv_rereg_mr(r->mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD);
	errno = 0;
	CHECK(!ibv_reg_dmabuf_mr(r->pd, 0, 1, 0, 0, 0) && errno == EOPNOTSUPP);
	CHECK(ibv_query_ece(r->a, NULL) == EOPNOTSUPP);
	CHECK(ibv_query_qp_data_in_order(r->a, IBV_WR_SEND, 0) == 0);
}

static void plain_qp(struct rig *r)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r->cq, .recv_cq = r->cq, .qp_type = IBV_QPT_RC,
		.cap = { 3, 3, 1, 1, 5 },
	}, queried;
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);
	struct ibv_qp_attr attr;

	CHECK(qp && qp->context == r->ctx && qp->state == IBV_QPS_RESET);
	CHECK(init.cap.max_send_wr >= 3 && init.cap.max_inline_data >= 5);
	CHECK(!ibv_qp_to_qp_ex(qp)); /* the QP was created without send_ops_flags */
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &queried));
	CHECK(attr.qp_state == IBV_QPS_RESET);
	CHECK(!memcmp(&attr.cap, &init.cap, sizeof(attr.cap)));
	CHECK(queried.qp_type == IBV_QPT_RC && queried.send_cq == r->cq);
	CHECK(!ibv_destroy_qp(qp));
	init.cap.max_send_sge = 100000;
	errno = 0;
	CHECK(!ibv_create_qp(r->pd, &init) && errno == EINVAL);
}

/* --- ibv_wr_* and CQ_EX -------------------------------------------------- */

static void builders(struct rig *r)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->a);
	uint64_t *cell = (uint64_t *)(r->buf + FAR);

	CHECK(x);
	memset(r->buf, 'a', 64);
	ibv_wr_start(x);
	x->wr_id = 1;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, r->mr->rkey, (uintptr_t)r->buf + FAR);
	ibv_wr_set_sge(x, r->mr->lkey, (uintptr_t)r->buf, 64);
	x->wr_id = 2;
	ibv_wr_atomic_fetch_add(x, r->mr->rkey, (uintptr_t)cell, 1);
	ibv_wr_set_sge(x, r->mr->lkey, (uintptr_t)r->buf + 512, 8);
	x->wr_id = 3;
	ibv_wr_rdma_read(x, r->mr->rkey, (uintptr_t)cell);
	ibv_wr_set_sge(x, r->mr->lkey, (uintptr_t)r->buf + 256, 64);
	CHECK(!ibv_wr_complete(x));
	for (uint64_t id = 1; id <= 3; id++)
		CHECK(take(r).wr_id == id);
	CHECK(r->buf[256] == 'a' + 1 && r->buf[257] == 'a' && r->buf[512] == 'a');

	ibv_wr_start(x); /* one bad request: none is posted */
	ibv_wr_send(x);
	ibv_wr_set_sge(x, r->mr->lkey, (uintptr_t)r->buf, 8);
	ibv_wr_rdma_write(x, r->mr->rkey, (uintptr_t)cell);
	ibv_wr_set_sge_list(x, 1000, NULL);
	CHECK(ibv_wr_complete(x) == EINVAL);
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_abort(x);
	recv_one(r, 64);
	ibv_wr_start(x);
	x->wr_id = 4;
	ibv_wr_send_imm(x, 0x12345678);
	ibv_wr_set_inline_data(x, "inline", 6);
	CHECK(!ibv_wr_complete(x));
}

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Reads all completions; returns true if the receive's was among them. */
static int read_receive(struct rig *r, uint64_t *ts, uint64_t *wall)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *x = r->cq_ex;
	int rc = ibv_start_poll(x, &attr), seen = 0;

	CHECK(!rc || rc == ENOENT);
	if (rc)
		return 0;
	for (; !rc; rc = ibv_next_poll(x)) {
		CHECK(x->status == IBV_WC_SUCCESS);
		if (ibv_wc_read_opcode(x) != IBV_WC_RECV)
			continue;
		seen = 1;
		CHECK(x->wr_id == RECV_ID);
		CHECK(ibv_wc_read_byte_len(x) == 6);
		CHECK(ibv_wc_read_imm_data(x) == 0x12345678);
		CHECK(ibv_wc_read_wc_flags(x) & IBV_WC_WITH_IMM);
		CHECK(ibv_wc_read_qp_num(x) == r->b->qp_num);
		*ts = ibv_wc_read_completion_ts(x);
		*wall = ibv_wc_read_completion_wallclock_ns(x);
		CHECK(*wall <= realtime_ns());
		CHECK(realtime_ns() - *wall < 5000000000u);
	}
	CHECK(rc == ENOENT);
	ibv_end_poll(x);
	return seen;
}

static void extended_cq(struct rig *r)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	uint64_t ts = 0, wall = 0;

	CHECK(!read_receive(r, &ts, &wall));
	builders(r);
	while (!read_receive(r, &ts, &wall))
		;
	CHECK(!memcmp(r->buf + RECV_AT, "inline", 6));
	CHECK(!ibv_query_rt_values_ex(r->ctx, &v));
	CHECK(ts <= (uint64_t)v.raw_clock.tv_nsec);
	CHECK((uint64_t)v.raw_clock.tv_nsec - ts < 5000000000u);
}

static void moderation(struct rig *r)
{
	struct ibv_modify_cq_attr none = { IBV_CQ_ATTR_MODERATE, { 1, 0 } };
	struct ibv_modify_cq_attr some = { IBV_CQ_ATTR_MODERATE, { 16, 100 } };

	CHECK(!ibv_modify_cq(r->cq, &none));
	CHECK(ibv_modify_cq(r->cq, &some) == EOPNOTSUPP);
	CHECK(!ibv_resize_cq(r->cq, 500) && r->cq->cqe >= 500);
	CHECK(ibv_resize_cq(r->cq, 0) == EINVAL);
}

/* --- windows, SRQs, events ----------------------------------------------- */

static void window(struct rig *r)
{
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = 9,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { r->mr, (uintptr_t)r->buf + FAR, 8,
			       IBV_ACCESS_REMOTE_WRITE },
	};
	uint32_t was;

	CHECK(mw);
	was = mw->rkey;
	CHECK(!ibv_bind_mw(r->a, mw, &bind));
	CHECK(mw->rkey != was && mw->rkey >> 8 == was >> 8);
	CHECK(take(r).opcode == IBV_WC_BIND_MW);
	memcpy(r->buf, "through!", 8);
	write_one(r, mw->rkey, 8);
	CHECK(take(r).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(r->buf + FAR, "through!", 8));
	bind.bind_info.mr = NULL;
	CHECK(ibv_bind_mw(r->a, mw, &bind) == EINVAL);
	write_one(r, mw->rkey, 9); /* one byte more than the window has */
	CHECK(take(r).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dealloc_mw(mw));
}

static void shared_receives(struct rig *r)
{
	struct ibv_srq_init_attr_ex ex = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.pd = r->pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_BASIC,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(r->ctx, &ex);
	struct ibv_srq_attr attr = { .srq_limit = 1 };
	struct ibv_sge sge = { (uintptr_t)r->buf, 64, r->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 };
	struct ibv_async_event event;
	uint32_t num = 0;

	CHECK(srq && ex.attr.max_wr >= 4);
	CHECK(!ibv_get_srq_num(srq, &num) && num);
	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!ibv_query_srq(srq, &attr) && attr.srq_limit == 1);
	unpair(r);
	pair(r, IBV_QPT_RC, srq);
	CHECK(ibv_post_recv(r->b, &wr, &bad) == EINVAL);
	send_one(r, 8);
	while (take(r).opcode != IBV_WC_RECV)
		;
	CHECK(!ibv_get_async_event(r->ctx, &event));
	CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == srq);
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	ibv_ack_async_event(&event);
	unpair(r);
	CHECK(!ibv_destroy_srq(srq));
	ex.srq_type = IBV_SRQT_TM; /* the CQ and the number of tags are missing */
	CHECK(!ibv_create_srq_ex(r->ctx, &ex) && errno == EINVAL);
}

static void channels(struct rig *r)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(r->ctx);
	struct ibv_cq *cq, *old = r->cq;
	void *context;

	CHECK(ch);
	unpair(r);
	r->cq = ibv_create_cq(r->ctx, 16, r, ch, 0);
	CHECK(r->cq && ibv_destroy_comp_channel(ch) == EBUSY);
	pair(r, IBV_QPT_RC, NULL);
	CHECK(!fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	CHECK(ibv_get_cq_event(ch, &cq, &context) == -1 && errno == EAGAIN);
	CHECK(!fcntl(ch->fd, F_SETFL, 0));
	CHECK(!ibv_req_notify_cq(r->cq, 0));
	write_one(r, r->mr->rkey, 8);
	CHECK(!ibv_get_cq_event(ch, &cq, &context));
	CHECK(cq == r->cq && context == r);
	CHECK(take(r).status == IBV_WC_SUCCESS);
	ibv_ack_cq_events(cq, 1);
	CHECK(cq->comp_events_completed == 1);
	unpair(r);
	CHECK(!ibv_destroy_cq(r->cq) && !ibv_destroy_comp_channel(ch));
	r->cq = old;
}

/* --- datagrams ----------------------------------------------------------- */

static void datagrams(struct rig *r)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	unpair(r);
	pair(r, IBV_QPT_UD, NULL);
	recv_one(r, 64 + sizeof(struct ibv_grh));
	send_one(r, 24);
	do
		wc = take(r);
	while (wc.opcode != IBV_WC_RECV);
	CHECK(wc.wc_flags & IBV_WC_GRH && wc.src_qp == r->a->qp_num);
	CHECK(wc.byte_len == 24 + sizeof(struct ibv_grh));
	CHECK(!ibv_init_ah_from_wc(r->ctx, 1, &wc, (void *)(r->buf + RECV_AT), &attr));
	CHECK(attr.is_global && attr.port_num == 1 &&
	      attr.grh.sgid_index == r->gid_index);
	CHECK(!memcmp(&attr.grh.dgid, &r->gid, sizeof(r->gid)));
	ah = ibv_create_ah_from_wc(r->pd, &wc, (void *)(r->buf + RECV_AT), 1);
	CHECK(ah && !ibv_destroy_ah(ah));
	wc.wc_flags = 0;
	CHECK(!ibv_create_ah_from_wc(r->pd, &wc, (void *)(r->buf + RECV_AT), 1));
}

/* Is this namespace in ff02::77? */
static int joined(void)
{
	FILE *f = fopen("/proc/self/net/igmp6", "r");
	char line[128];
	int found = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, "ff020000000000000000000000000077") != NULL;
	fclose(f);
	return found;
}

static void groups(struct rig *r)
{
	union ibv_gid group = { .raw = { 0xff, 0x02, [15] = 0x77 } };

	CHECK(ibv_attach_mcast(r->a, &group, 0) == EINVAL); /* an RC QP */
	unpair(r);
	pair(r, IBV_QPT_UD, NULL);
	CHECK(!joined());
	CHECK(!ibv_attach_mcast(r->a, &group, 0) && !ibv_attach_mcast(r->a, &group, 0));
	CHECK(joined());
	CHECK(ibv_destroy_qp(r->a) == EBUSY);
	CHECK(!ibv_detach_mcast(r->a, &group, 0));
	CHECK(!joined());
	CHECK(ibv_detach_mcast(r->a, &group, 0) == EINVAL);
	group.raw[0] = 0;
	CHECK(ibv_attach_mcast(r->a, &group, 0) == EINVAL);
}

/* clang-format off */
static const struct { const char *name; void (*run)(struct rig *r); } cases[] = {
	{ "context", context }, { "gids", gids }, { "ports", ports },
	{ "errors", errors }, { "plain_qp", plain_qp },
	{ "extended_cq", extended_cq },
	{ "moderation", moderation }, { "window", window },
	{ "shared_receives", shared_receives }, { "channels", channels },
	{ "datagrams", datagrams }, { "groups", groups }, { "forks", forks },
	{ "iwarp_device", iwarp_device },
	{ "cancelled", cancelled },
	{ "device_memory", device_memory },
	{ "device_memory_of_another", device_memory_of_another },
	{ "device_memory_of_a_child", device_memory_of_a_child },
	{ "null_region", null_region }, { "advice", advice },
	{ "parent_domain", parent_domain }, { "imports", imports },
	{ "nothing_is_left", nothing_is_left },
	{ "outlived", outlived }, { "imports_go", imports_go },
	{ "exporter_closes", exporter_closes },
	{ "nothing_outlives", nothing_outlives },
	{ "polls_inside", polls_inside },
	{ "handlers", handlers }, { "closes_with_qps_left", closes_with_qps_left },
};
/* clang-format on */

int main(int argc, char **argv)
{
	const size_t n = sizeof(cases) / sizeof(cases[0]);
	struct rig r;

	CHECK(argc == 2 && !setenv("URNIC_DEVICES", "lo,iwarp_lo", 1));
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(argv[1], "--list"))
			puts(cases[i].name);
		if (strcmp(argv[1], cases[i].name))
			continue;
		rig_open(&r);
		cases[i].run(&r);
		if (r.ctx)
			rig_close(&r);
		return 0;
	}
	return strcmp(argv[1], "--list") != 0;
}
