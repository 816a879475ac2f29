/* SPDX-License-Identifier: BSD-2-Clause */
/* queues.c - completion queues and channels, limits, objects that are in use. */
#include "errors.h"

#include <fcntl.h>
#include <poll.h>

static struct duo d;

static int send_one(uint64_t id, unsigned flags)
{
	struct ibv_sge s = local(d.s, 0, 64);
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &s, id);

	wr.send_flags = IBV_SEND_SIGNALED | flags;
	return post_send(d.a, &wr);
}

static int recv_one(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge s = local(d.s, RECV_AT, 64);
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &s, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

static void traffic(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		CHECK(!recv_one(d.b, i));
		CHECK(!send_one(i, 0));
		expect(d.acq, i, IBV_WC_SUCCESS, V_NONE);
	}
}

/* --- resize -------------------------------------------------------------- */

static void resize(void)
{
	struct ibv_device_attr dev;

	d = duo_make(IBV_QPT_RC, 64, 8, NULL);
	duo_up(&d);
	CHECK(!ibv_query_device(d.s->ctx, &dev));
	traffic(0, 6);
	usleep(1000);
	REFUSED(EINVAL, ibv_resize_cq(d.bcq, 5)); /* six completions are in the CQ */
	log_must("resize.*refused|completion queue.*refused");
	log_mark();
	REFUSED(EINVAL, ibv_resize_cq(d.bcq, 0));
	log_must("completion queue of 0 entries refused");
	REFUSED(EINVAL, ibv_resize_cq(d.bcq, -1));
	REFUSED(EINVAL, ibv_resize_cq(d.bcq, dev.max_cqe + 1));
	REFUSED(EINVAL, ibv_resize_cq(d.bcq, INT32_MAX));
	CHECK(d.bcq->cqe >= 8);
	CHECK(!ibv_resize_cq(d.bcq, 6));
	CHECK(!ibv_resize_cq(d.bcq, 20));
	CHECK(d.bcq->cqe >= 20);
	traffic(6, 16);
	for (uint64_t i = 0; i < 16; i++)
		expect(d.bcq, i, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.bcq);
	duo_drop(&d);
}

/* --- channels ------------------------------------------------------------ */

static void only_solicited(void)
{
	struct ibv_comp_channel *ch;
	struct ibv_qp_attr a, b;
	struct pollfd p = { .events = POLLIN };
	struct ibv_cq *cq, *got;
	void *cookie;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	CHECK((ch = ibv_create_comp_channel(d.s->ctx)));
	CHECK((cq = ibv_create_cq(d.s->ctx, 64, &d, ch, 0)));
	CHECK(!ibv_destroy_qp(d.b));
	d.b = duo_qp(d.s, cq, IBV_QPT_RC, NULL);
	a = self_attr(d.s, d.b->qp_num);
	b = self_attr(d.s, d.a->qp_num);
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		qp_to(d.a, &a, (enum ibv_qp_state)to);
		qp_to(d.b, &b, (enum ibv_qp_state)to);
	}
	CHECK(!fcntl(ch->fd, F_SETFL, O_NONBLOCK));
	p.fd = ch->fd;
	errno = 0;
	CHECK(ibv_get_cq_event(ch, &got, &cookie) == -1 && errno == EAGAIN);

	CHECK(!ibv_req_notify_cq(cq, 1));
	traffic(1, 3); /* not a solicited message */
	expect(cq, 1, IBV_WC_SUCCESS, V_NONE);
	expect(cq, 2, IBV_WC_SUCCESS, V_NONE);
	CHECK(poll(&p, 1, 20) == 0);
	CHECK(!recv_one(d.b, 3) && !send_one(3, IBV_SEND_SOLICITED));
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(!ibv_get_cq_event(ch, &got, &cookie) && got == cq && cookie == &d);
	CHECK(ibv_get_cq_event(ch, &got, &cookie) == -1 && errno == EAGAIN);
	expect(cq, 3, IBV_WC_SUCCESS, V_NONE);
	expect(d.acq, 3, IBV_WC_SUCCESS, V_NONE);

	/* What waits when the CQ is armed gives an event after the next poll. */
	CHECK(!ibv_req_notify_cq(cq, 0));
	CHECK(poll(&p, 1, 20) == 0);
	CHECK(!recv_one(d.b, 8) && !send_one(8, IBV_SEND_SOLICITED));
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(!ibv_get_cq_event(ch, &got, &cookie) && got == cq);
	CHECK(!recv_one(d.b, 9) && !send_one(9, IBV_SEND_SOLICITED));
	expect(d.acq, 8, IBV_WC_SUCCESS, V_NONE);
	expect(d.acq, 9, IBV_WC_SUCCESS, V_NONE);
	CHECK(!ibv_req_notify_cq(cq, 1));
	expect(cq, 8, IBV_WC_SUCCESS, V_NONE);
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(!ibv_get_cq_event(ch, &got, &cookie) && got == cq);
	expect(cq, 9, IBV_WC_SUCCESS, V_NONE);

	/* The CQ is not armed: no event, solicited or not. */
	CHECK(!recv_one(d.b, 4) && !send_one(4, IBV_SEND_SOLICITED));
	expect(cq, 4, IBV_WC_SUCCESS, V_NONE);
	expect(d.acq, 4, IBV_WC_SUCCESS, V_NONE);
	CHECK(poll(&p, 1, 20) == 0);

	/* An error counts as solicited (IBTA 11.4.2.2). */
	CHECK(!ibv_req_notify_cq(cq, 1));
	CHECK(!recv_one(d.b, 5));
	CHECK(!ibv_modify_qp(d.b, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
			     IBV_QP_STATE));
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(!ibv_get_cq_event(ch, &got, &cookie));
	expect(cq, 5, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	REFUSED(EBUSY, ibv_destroy_comp_channel(ch));
	ibv_ack_cq_events(cq, 4);
	CHECK(!ibv_destroy_qp(d.b) && !ibv_destroy_cq(cq));
	CHECK(!ibv_destroy_comp_channel(ch));
	d.b = duo_qp(d.s, d.bcq, IBV_QPT_RC, NULL);
	duo_drop(&d);
}

static void async_nonblock(void)
{
	struct ibv_async_event e;

	errno = 0; /* side_open() made it O_NONBLOCK */
	CHECK(ibv_get_async_event(side(false)->ctx, &e) == -1 && errno == EAGAIN);
}

/* --- CQ_EX --------------------------------------------------------------- */

static void extended(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16,
					    .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_poll_cq_attr none = { 0 }, strange = { .comp_mask = 1 };
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	CHECK((cq = ibv_create_cq_ex(d.s->ctx, &attr)));
	qp = duo_qp(d.s, ibv_cq_ex_to_cq(cq), IBV_QPT_RC, NULL);
	CHECK(ibv_start_poll(cq, &none) == ENOENT);
	CHECK(ibv_start_poll(cq, &strange) == EINVAL);
	/* Nothing was there, and no lock is held. */
	CHECK(ibv_start_poll(cq, &none) == ENOENT);
	qp_to(qp, &(struct ibv_qp_attr){ .port_num = 1 }, IBV_QPS_INIT);
	for (uint64_t i = 1; i <= 3; i++)
		CHECK(!recv_one(qp, i));
	qp_to(qp, &(struct ibv_qp_attr){ 0 }, IBV_QPS_ERR);
	CHECK(!ibv_start_poll(cq, &none));
	for (uint64_t i = 1; i <= 3; i++) {
		CHECK(cq->wr_id == i && cq->status == IBV_WC_WR_FLUSH_ERR);
		CHECK(ibv_wc_read_vendor_err(cq) == V_FLUSHED);
		CHECK(ibv_wc_read_qp_num(cq) == qp->qp_num);
		CHECK(ibv_next_poll(cq) == (i < 3 ? 0 : ENOENT));
	}
	ibv_end_poll(cq);
	CHECK(ibv_start_poll(cq, &none) == ENOENT);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));

	attr.wc_flags = 1ull << 50;
	REFUSED_PTR(EOPNOTSUPP, ibv_create_cq_ex(d.s->ctx, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 16, .comp_mask = 1u << 20 };
	CHECK(!ibv_create_cq_ex(d.s->ctx, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 16,
					     .flags = 1u << 20,
					     .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS };
	CHECK(!ibv_create_cq_ex(d.s->ctx, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 0 };
	REFUSED_PTR(EINVAL, ibv_create_cq_ex(d.s->ctx, &attr));
	attr = (struct ibv_cq_init_attr_ex){ .cqe = UINT32_MAX };
	REFUSED_PTR(EINVAL, ibv_create_cq_ex(d.s->ctx, &attr));
	duo_drop(&d);
}

/* --- limits -------------------------------------------------------------- */

static struct ibv_qp *with_cap(struct ibv_qp_cap cap)
{
	struct side *s = side(false);
	struct ibv_qp_init_attr init = {
		.send_cq = s->scq, .recv_cq = s->rcq, .qp_type = IBV_QPT_RC, .cap = cap
	};

	return ibv_create_qp(s->pd, &init);
}

static struct ibv_srq *srq_with(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr, .max_sge = sge } };

	return ibv_create_srq(side(false)->pd, &init);
}

static void limits(void)
{
	struct ibv_context *ctx = side(false)->ctx;
	struct ibv_device_attr dev;
	struct ibv_qp_cap top;
	uint32_t wr, sge;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	CHECK(!ibv_query_device(ctx, &dev));
	wr = (uint32_t)dev.max_qp_wr;
	sge = (uint32_t)dev.max_sge;
#define ABOVE(re, ...)                                                                   \
	do {                                                                             \
		log_mark();                                                              \
		REFUSED_PTR(EINVAL, with_cap((struct ibv_qp_cap)__VA_ARGS__));           \
		log_must("create_qp refused: " re);                                      \
	} while (0)
	ABOVE("max_send_wr", { wr + 1, 1, 1, 1, 0 });
	ABOVE("max_send_wr", { UINT32_MAX, 1, 1, 1, 0 });
	ABOVE("max_recv_wr", { 1, wr + 1, 1, 1, 0 });
	ABOVE("max_recv_wr", { 1, UINT32_MAX, 1, 1, 0 });
	ABOVE("max_send_sge", { 1, 1, sge + 1, 1, 0 });
	ABOVE("max_send_sge", { 1, 1, UINT32_MAX, 1, 0 });
	ABOVE("max_recv_sge", { 1, 1, 1, sge + 1, 0 });
	ABOVE("max_recv_sge", { 1, 1, 1, UINT32_MAX, 0 });
	ABOVE("max_inline_data", { 1, 1, 1, 1, 1 << 20 });
	ABOVE("max_inline_data", { 1, 1, 1, 1, UINT32_MAX });
#undef ABOVE
	/* The advertised limits are granted, and so are zeros. */
	top = (struct ibv_qp_cap){ wr, wr, sge, sge, 0 };
	CHECK((qp = with_cap(top)) && !ibv_destroy_qp(qp));
	CHECK((qp = with_cap((struct ibv_qp_cap){ 0 })) && !ibv_destroy_qp(qp));

	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, dev.max_cqe + 1, NULL, NULL, 0));
	log_must("completion queue of .* refused");
	CHECK((cq = ibv_create_cq(ctx, dev.max_cqe, NULL, NULL, 0)) &&
	      !ibv_destroy_cq(cq));
	REFUSED_PTR(EINVAL, srq_with((uint32_t)dev.max_srq_wr + 1, 1));
	log_must("create_srq refused");
	REFUSED_PTR(EINVAL, srq_with(1, (uint32_t)dev.max_srq_sge + 1));
	REFUSED_PTR(EINVAL, srq_with(UINT32_MAX, UINT32_MAX));
	REFUSED_PTR(EINVAL, srq_with(0, 1));
	CHECK((srq = srq_with((uint32_t)dev.max_srq_wr, (uint32_t)dev.max_srq_sge)) &&
	      !ibv_destroy_srq(srq));
}

/* Creates and destroys QPs as fast as possible, more than there are QP numbers. */
static void come_and_go(void)
{
	enum { MANY = 40000 };
	struct side *s = side(false);

	for (int i = 0; i < MANY; i++) {
		struct ibv_qp *qp = with_cap((struct ibv_qp_cap){ 1, 1, 1, 1, 0 });
		struct ibv_qp_attr a;

		CHECK(qp);
		a = self_attr(s, qp->qp_num);
		for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
			qp_to(qp, &a, (enum ibv_qp_state)to);
		CHECK(!ibv_destroy_qp(qp));
	}
}

/* Queues of length 0: a post says that the queue is full. */
static void empty_queues(void)
{
	struct ibv_recv_wr *rbad, rwr = { 0 };
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, NULL, 1);
	struct side *s = side(false);
	struct ibv_qp_attr a;

	CHECK((s->qp = with_cap((struct ibv_qp_cap){ 0 })));
	s->mine.qpn = s->qp->qp_num;
	a = self_attr(s, s->qp->qp_num);
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		qp_to(s->qp, &a, (enum ibv_qp_state)to);
	REFUSED(ENOMEM, post_send(s->qp, &wr));
	REFUSED(ENOMEM, ibv_post_recv(s->qp, &rwr, &rbad));
	qp_drop(s);
}

/* --- SRQ ----------------------------------------------------------------- */

static void srq_refusals(void)
{
	struct ibv_sge s[2] = { local(side(false), 0, 8), local(side(false), 0, 8) };
	struct ibv_recv_wr *bad, wr = { .sg_list = s, .num_sge = 2 };
	struct ibv_srq_attr a;
	struct ibv_srq *srq;

	CHECK((srq = srq_with(4, 1)));
	CHECK(!ibv_query_srq(srq, &a) && a.max_wr >= 4 && a.srq_limit == 0);
	if (a.max_sge < 2)
		REFUSED(EINVAL, ibv_post_srq_recv(srq, &wr, &bad));
	log_must("SRQ 0x[0-9a-f]+: post refused: num_sge");
	wr.num_sge = 1;
	for (uint32_t i = 0; i < a.max_wr; i++)
		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	REFUSED(ENOMEM, ibv_post_srq_recv(srq, &wr, &bad));
	CHECK(bad == &wr);
	log_must("SRQ 0x[0-9a-f]+: post refused: it is full");
	log_mark();
	a.srq_limit = a.max_wr + 1;
	REFUSED(EINVAL, ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT));
	log_must("modify_srq refused");
	REFUSED(EINVAL, ibv_modify_srq(srq, &a, 1 << 20));
	a.max_wr = 1; /* four receives are posted */
	REFUSED(EINVAL, ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR));
	a.max_wr = 0;
	REFUSED(EINVAL, ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR));
	a.max_wr = UINT32_MAX;
	REFUSED(EINVAL, ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR));
	a.max_wr = 64;
	CHECK(!ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR) && a.max_wr >= 64);

	/* A QP with an SRQ has no receive queue of its own. */
	d = duo_make(IBV_QPT_RC, 16, 16, srq);
	duo_up(&d);
	REFUSED(EINVAL, recv_one(d.b, 1));
	log_must("%B: post refused: .*SRQ");
	REFUSED(EBUSY, ibv_destroy_srq(srq));
	log_must("SRQ 0x[0-9a-f]+ is not destroyed");
	duo_drop(&d);
	CHECK(!ibv_destroy_srq(srq));
}

/* --- in use -------------------------------------------------------------- */

static void busy(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x77 } };
	struct ibv_mw_bind_info info;
	struct ibv_comp_channel *ch;
	struct ibv_context *ctx = side(false)->ctx;
	struct ibv_ah *ah;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	CHECK((ch = ibv_create_comp_channel(ctx)));
	CHECK((cq = ibv_create_cq(ctx, 4, NULL, ch, 0)));
	REFUSED(EBUSY, ibv_destroy_comp_channel(ch));
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(ch));

	d = duo_make(IBV_QPT_RC, 16, 16, NULL);
	duo_up(&d);
	REFUSED(EBUSY, ibv_destroy_cq(d.acq));
	log_must("completion queue [0-9]+ is not destroyed");
	REFUSED(EBUSY, ibv_dealloc_pd(d.s->pd));
	log_must("protection domain.* is not deallocated");

	CHECK((pd = ibv_alloc_pd(ctx)));
	CHECK((mr = ibv_reg_mr(pd, d.s->buf, 64, ALL_ACCESS)));
	REFUSED(EBUSY, ibv_dealloc_pd(pd));
	CHECK(!ibv_dereg_mr(mr));
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)));
	REFUSED(EBUSY, ibv_dealloc_pd(pd));
	CHECK(!ibv_dealloc_mw(mw));
	CHECK((ah = ibv_create_ah(pd,
				  &(struct ibv_ah_attr){
					  .is_global = 1,
					  .port_num = 1,
					  .grh = { .dgid = d.s->mine.gid,
						   .sgid_index = d.s->gid_index } })));
	REFUSED(EBUSY, ibv_dealloc_pd(pd));
	CHECK(!ibv_destroy_ah(ah) && !ibv_dealloc_pd(pd));

	/* a region to which a window is bound */
	CHECK((mr = ibv_reg_mr(d.s->pd, d.s->buf, 64, ALL_ACCESS)));
	CHECK((mw = ibv_alloc_mw(d.s->pd, IBV_MW_TYPE_1)));
	info = (struct ibv_mw_bind_info){ .mr = mr,
					  .addr = (uintptr_t)d.s->buf,
					  .length = 64,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	CHECK(!ibv_bind_mw(d.a, mw,
			   &(struct ibv_mw_bind){ .wr_id = 1,
						  .send_flags = IBV_SEND_SIGNALED,
						  .bind_info = info }));
	CHECK(poll_one(d.acq, &wc, 5000) && !wc.status && wc.opcode == IBV_WC_BIND_MW);
	REFUSED(EBUSY, ibv_dereg_mr(mr));
	log_must("memory region .* is not deregistered");
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr));
	duo_drop(&d);

	/* a QP that is in a multicast group */
	d = duo_make(IBV_QPT_UD, 16, 16, NULL);
	duo_up(&d);
	CHECK(!ibv_attach_mcast(d.a, &group, 0));
	REFUSED(EBUSY, ibv_destroy_qp(d.a));
	log_must("%A is not destroyed");
	CHECK(!ibv_detach_mcast(d.a, &group, 0));
	duo_drop(&d);
}

const struct local_row queue_rows[] = {
	{ "cq_resize", resize },
	{ "cq_only_solicited", only_solicited },
	{ "async_nonblock", async_nonblock },
	{ "cq_extended", extended },
	{ "limits", limits },
	{ "qps_come_and_go", come_and_go },
	{ "empty_queues", empty_queues },
	{ "srq_refusals", srq_refusals },
	{ "objects_in_use", busy },
	{ NULL, NULL },
};
