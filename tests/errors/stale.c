/* SPDX-License-Identifier: BSD-2-Clause */
/* stale.c - calls each verb with each object freed, of another context, or NULL. */
#include "errors.h"

enum slot { PD, MR, MW, AH, CHANNEL, SCQ, RCQ, SRQ, QP, DM, TD, SLOTS };

/* One object of each kind, of one context. */
struct set {
	struct ibv_context *ctx;
	union {
		void *at[SLOTS];
		struct {
			struct ibv_pd *pd;
			struct ibv_mr *mr;
			struct ibv_mw *mw;
			struct ibv_ah *ah;
			struct ibv_comp_channel *channel;
			struct ibv_cq *scq, *rcq;
			struct ibv_srq *srq;
			struct ibv_qp *qp;
			struct ibv_dm *dm;
			struct ibv_td *td;
		};
	};
};

static struct side *s;

static struct ibv_srq *make_srq(const struct set *o)
{
	return ibv_create_srq(o->pd, &(struct ibv_srq_init_attr){
					     .attr = { .max_wr = 4, .max_sge = 1 } });
}

static struct ibv_qp *make_qp(const struct set *o)
{
	return ibv_create_qp(o->pd,
			     &(struct ibv_qp_init_attr){ .send_cq = o->scq,
							 .recv_cq = o->rcq,
							 .srq = o->srq,
							 .qp_type = IBV_QPT_UD,
							 .cap = { 4, 4, 1, 1, 0 } });
}

static struct ibv_ah *make_ah(const struct set *o)
{
	struct ibv_ah_attr a = { .is_global = 1,
				 .port_num = 1,
				 .grh = { .dgid = s->mine.gid,
					  .sgid_index = s->gid_index,
					  .hop_limit = 64 } };

	return ibv_create_ah(o->pd, &a);
}

static struct set make(struct ibv_context *ctx)
{
	struct set o = { .ctx = ctx };

	CHECK((o.pd = ibv_alloc_pd(ctx)));
	CHECK((o.mr = ibv_reg_mr(o.pd, s->buf, BUF, ALL_ACCESS)));
	CHECK((o.mw = ibv_alloc_mw(o.pd, IBV_MW_TYPE_1)));
	CHECK((o.ah = make_ah(&o)));
	CHECK((o.channel = ibv_create_comp_channel(ctx)));
	CHECK((o.scq = ibv_create_cq(ctx, 8, NULL, o.channel, 0)));
	CHECK((o.rcq = ibv_create_cq(ctx, 8, NULL, NULL, 0)));
	CHECK((o.srq = make_srq(&o)));
	CHECK((o.qp = make_qp(&o)));
	CHECK((o.dm = ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = 8 })));
	CHECK((o.td = ibv_alloc_td(ctx, &(struct ibv_td_init_attr){ 0 })));
	return o;
}

static void drop(const struct set *o)
{
	CHECK(!ibv_destroy_qp(o->qp) && !ibv_destroy_srq(o->srq));
	CHECK(!ibv_destroy_cq(o->scq) && !ibv_destroy_cq(o->rcq));
	CHECK(!ibv_destroy_comp_channel(o->channel));
	CHECK(!ibv_destroy_ah(o->ah) && !ibv_dealloc_mw(o->mw));
	CHECK(!ibv_dereg_mr(o->mr) && !ibv_dealloc_pd(o->pd));
	CHECK(!ibv_free_dm(o->dm) && !ibv_dealloc_td(o->td));
}

/* --- the verbs: 0, or the errno that was returned or set ----------------- */

#define PTR(name, call)                                                                  \
	static int name(const struct set *o)                                             \
	{                                                                                \
		return (call) ? 0 : errno;                                               \
	}
#define INT(name, call)                                                                  \
	static int name(const struct set *o)                                             \
	{                                                                                \
		return (call);                                                           \
	}

PTR(create_srq, make_srq(o))
PTR(create_qp, make_qp(o))
PTR(create_qp_ex,
    ibv_create_qp_ex(o->ctx, &(struct ibv_qp_init_attr_ex){
				     .send_cq = o->scq,
				     .recv_cq = o->rcq,
				     .srq = o->srq,
				     .qp_type = IBV_QPT_RC,
				     .cap = { 4, 4, 1, 1, 0 },
				     .pd = o->pd,
				     .comp_mask = IBV_QP_INIT_ATTR_PD |
						  IBV_QP_INIT_ATTR_CREATE_FLAGS }))
PTR(reg_mr, ibv_reg_mr(o->pd, s->buf, BUF, 0))
PTR(reg_mr_iova, ibv_reg_mr_iova(o->pd, s->buf, BUF, 0, 0))
PTR(alloc_mw, ibv_alloc_mw(o->pd, IBV_MW_TYPE_2))
PTR(reg_dm_mr, ibv_reg_dm_mr(o->pd, o->dm, 0, 8, IBV_ACCESS_ZERO_BASED))
PTR(parent_domain, ibv_alloc_parent_domain(o->ctx, &(struct ibv_parent_domain_init_attr){
							   .pd = o->pd, .td = o->td }))
PTR(import_mr, ibv_import_mr(o->pd, 1))
PTR(create_ah, make_ah(o))
PTR(create_ah_from_wc,
    ibv_create_ah_from_wc(o->pd, &(struct ibv_wc){ 0 }, &(struct ibv_grh){ 0 }, 1))
PTR(create_cq, ibv_create_cq(o->ctx, 4, NULL, o->channel, 0))
PTR(create_cq_ex, ibv_create_cq_ex(o->ctx, &(struct ibv_cq_init_attr_ex){
						   .cqe = 4, .channel = o->channel }))

static int rereg_mr(const struct set *o)
{
	return ibv_rereg_mr(o->mr, IBV_REREG_MR_CHANGE_PD, o->pd, NULL, 0, 0) ? errno : 0;
}

static int bind_mw(const struct set *o)
{
	return ibv_bind_mw(o->qp, o->mw,
			   &(struct ibv_mw_bind){
				   .bind_info = { .mr = o->mr,
						  .addr = (uintptr_t)s->buf,
						  .length = 64 } });
}

static int modify_qp(const struct set *o)
{
	return ibv_modify_qp(o->qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET },
			     IBV_QP_STATE);
}

static int query_qp(const struct set *o)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(o->qp, &a, IBV_QP_STATE, &init);
}

static int attach(const struct set *o)
{
	const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x78 } };

	return ibv_attach_mcast(o->qp, &group, 0);
}

static int detach(const struct set *o)
{
	const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x78 } };

	return ibv_detach_mcast(o->qp, &group, 0);
}

/* A request that is posted in ERR is flushed, if it is accepted. */
static int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
	const struct ibv_qp_attr a = self_attr(s, qp->qp_num);
	struct ibv_send_wr *bad = NULL;
	int rc;

	if (qp->state == IBV_QPS_RESET)
		qp_to(qp, &a, IBV_QPS_INIT);
	qp_to(qp, &a, IBV_QPS_ERR);
	rc = ibv_post_send(qp, &wr, &bad);
	CHECK((bad == &wr) == (rc != 0));
	return rc;
}

static int post_datagram(const struct set *o)
{
	return post(o->qp,
		    (struct ibv_send_wr){ .opcode = IBV_WR_SEND,
					  .wr.ud = { .ah = o->ah, .remote_qpn = 2 } });
}

static int post_bind(const struct set *o)
{
	struct ibv_qp *qp =
		ibv_create_qp(o->pd,
			      &(struct ibv_qp_init_attr){ .send_cq = o->scq,
							  .recv_cq = o->rcq,
							  .qp_type = IBV_QPT_RC,
							  .cap = { 1, 1, 1, 1, 0 } });
	int rc;

	CHECK(qp);
	rc = post(qp,
		  (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW,
					.bind_mw = { .mw = o->mw,
						     .rkey = 1,
						     .bind_info = { .mr = o->mr } } });
	CHECK(!ibv_destroy_qp(qp));
	return rc;
}

PTR(alloc_null_mr, ibv_alloc_null_mr(o->pd))
INT(advise, ibv_advise_mr(o->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0,
			  &(struct ibv_sge){ .lkey = 1 }, 1))
INT(to_dm, ibv_memcpy_to_dm(o->dm, 0, "12345678", 8))
INT(from_dm, ibv_memcpy_from_dm((char[8]){ 0 }, o->dm, 0, 8))
INT(free_dm, ibv_free_dm(o->dm))
INT(dealloc_td, ibv_dealloc_td(o->td))
INT(srq_num, ibv_get_srq_num(o->srq, &(uint32_t){ 0 }))
/* ibv_modify_cq() would read the context from the freed CQ, whose memory malloc() may
 * have changed. */
INT(modify_cq,
    verbs_get_ctx(o->ctx)->modify_cq(o->scq, &(struct ibv_modify_cq_attr){ 0 }))
INT(resize_cq, ibv_resize_cq(o->scq, 16))
INT(query_srq, ibv_query_srq(o->srq, &(struct ibv_srq_attr){ 0 }))
INT(modify_srq,
    ibv_modify_srq(o->srq, &(struct ibv_srq_attr){ .srq_limit = 1 }, IBV_SRQ_LIMIT))
INT(destroy_qp, ibv_destroy_qp(o->qp))
INT(destroy_srq, ibv_destroy_srq(o->srq))
INT(destroy_cq, ibv_destroy_cq(o->scq))
INT(destroy_channel, ibv_destroy_comp_channel(o->channel))
INT(destroy_ah, ibv_destroy_ah(o->ah))
INT(dealloc_mw, ibv_dealloc_mw(o->mw))
INT(dereg_mr, ibv_dereg_mr(o->mr))
INT(dealloc_pd, ibv_dealloc_pd(o->pd))

/* What is answered if the object is freed; if it is another context's, where the
 * verb has something to compare it with; if it is NULL, where verbs.h lets that
 * through and it does not mean "none". */
/* clang-format off */
static const struct row {
	const char *name;
	int (*call)(const struct set *o);
	enum slot slot;
	int freed, foreign, null;
} rows[] = {
#define ROW(call, ...) { #call, call, __VA_ARGS__ }
	ROW(create_srq,		PD,	EINVAL, 0, EINVAL),
	ROW(create_qp,		PD,	EINVAL, EINVAL, EINVAL),
	ROW(create_qp,		SCQ,	EINVAL, EINVAL, EINVAL),
	ROW(create_qp,		RCQ,	EINVAL, EINVAL, EINVAL),
	ROW(create_qp,		SRQ,	EINVAL, EINVAL, 0),
	ROW(create_qp_ex,	PD,	EINVAL, EINVAL, EINVAL),
	ROW(create_qp_ex,	SCQ,	EINVAL, EINVAL, EINVAL),
	ROW(create_qp_ex,	RCQ,	EINVAL, EINVAL, EINVAL),
	ROW(create_qp_ex,	SRQ,	EINVAL, EINVAL, 0),
	ROW(reg_mr,		PD,	EINVAL, 0, EINVAL),
	ROW(reg_mr_iova,	PD,	EINVAL, 0, EINVAL),
	ROW(reg_dm_mr,		DM,	EINVAL, EINVAL, EINVAL),
	ROW(parent_domain,	PD,	EINVAL, EINVAL, EINVAL),
	ROW(parent_domain,	TD,	EINVAL, EINVAL, 0),
	ROW(import_mr,		PD,	EINVAL, 0, EINVAL),
	ROW(rereg_mr,		MR,	EINVAL, EINVAL, EINVAL),
	ROW(rereg_mr,		PD,	EINVAL, EINVAL, EINVAL),
	ROW(bind_mw,		QP,	EINVAL, EINVAL, EINVAL),
	ROW(create_ah,		PD,	EINVAL, 0, EINVAL),
	ROW(create_ah_from_wc,	PD,	EINVAL, 0, EINVAL),
	ROW(post_datagram,	AH,	EINVAL, EINVAL, EINVAL),
	ROW(post_bind,		MW,	EINVAL, EINVAL, EINVAL),
	ROW(post_bind,		MR,	EINVAL, EINVAL, 0),
	ROW(create_cq,		CHANNEL, EBADF, EBADF, 0),
	ROW(create_cq_ex,	CHANNEL, EBADF, EBADF, 0),
	ROW(resize_cq,		SCQ,	EINVAL, 0, EINVAL),
	ROW(query_srq,		SRQ,	EINVAL, 0, EINVAL),
	ROW(modify_srq,		SRQ,	EINVAL, 0, EINVAL),
	ROW(query_qp,		QP,	EINVAL, 0, EINVAL),
	ROW(modify_qp,		QP,	EINVAL, 0, EINVAL),
	ROW(attach,		QP,	EINVAL, 0, EINVAL),
	ROW(detach,		QP,	EINVAL, 0, EINVAL),
	ROW(destroy_qp,		QP,	ENOENT, 0, ENOENT),
	ROW(destroy_srq,	SRQ,	ENOENT, 0, ENOENT),
	ROW(destroy_cq,		SCQ,	ENOENT, 0, ENOENT),
	ROW(destroy_channel,	CHANNEL, ENOENT, 0, ENOENT),
	ROW(destroy_ah,		AH,	ENOENT, 0, ENOENT),
	ROW(dereg_mr,		MR,	ENOENT, 0, ENOENT),
	ROW(dealloc_pd,		PD,	ENOENT, 0, ENOENT),
#undef ROW
};
/* clang-format on */

static void try_with(const struct row *r, struct set o, void *object, int want)
{
	int rc;

	if (!want)
		return;
	o.at[r->slot] = object;
	log_mark();
	errno = 0;
	rc = r->call(&o);
	if (rc != want)
		broken_rc(__FILE__, __LINE__, r->name, rc, want);
	if (object)
		log_must("refused: .*(there is no|does not exist|another (context|PD))");
}

/* Inline functions of verbs.h read the object before they call the library, so these
 * calls can be tested only while the object's memory is not used again. */
static void freshly_freed(const struct set *own)
{
	struct ibv_alloc_dm_attr eight = { .length = 8 };
	struct set o = *own;

	CHECK((o.dm = ibv_alloc_dm(o.ctx, &eight)) && !ibv_free_dm(o.dm));
	REFUSED(EINVAL, to_dm(&o));
	REFUSED(EINVAL, from_dm(&o));
	REFUSED(ENOENT, free_dm(&o));
	o = *own;
	CHECK((o.td = ibv_alloc_td(o.ctx, &(struct ibv_td_init_attr){ 0 })));
	CHECK(!ibv_dealloc_td(o.td));
	REFUSED(ENOENT, dealloc_td(&o));
	o = *own;
	CHECK((o.pd = ibv_alloc_pd(o.ctx)) && !ibv_dealloc_pd(o.pd));
	CHECK(alloc_null_mr(&o) == EINVAL);
	REFUSED(EINVAL, advise(&o));
	o = *own;
	CHECK((o.srq = make_srq(&o)) && !ibv_destroy_srq(o.srq));
	REFUSED(EINVAL, srq_num(&o));
	o = *own;
	CHECK((o.scq = ibv_create_cq(o.ctx, 8, NULL, NULL, 0)));
	CHECK(!ibv_destroy_cq(o.scq));
	REFUSED(EINVAL, modify_cq(&o));
	o = *own;

	CHECK((o.pd = ibv_alloc_pd(o.ctx)) && !ibv_dealloc_pd(o.pd));
	CHECK(alloc_mw(&o) == EINVAL);
	o = *own;
	CHECK((o.mw = ibv_alloc_mw(o.pd, IBV_MW_TYPE_1)) && !ibv_dealloc_mw(o.mw));
	REFUSED(EINVAL, bind_mw(&o));
	REFUSED(ENOENT, dealloc_mw(&o));
	o = *own;
	CHECK((o.mr = ibv_reg_mr(o.pd, s->buf, BUF, ALL_ACCESS)) && !ibv_dereg_mr(o.mr));
	REFUSED(EINVAL, bind_mw(&o));
}

static void stale(void)
{
	struct ibv_context *other;
	struct set own, foreign, freed;

	s = side(false);
	CHECK((other = ibv_open_device(s->ctx->device)));
	own = make(s->ctx);
	CHECK(!post_datagram(&own) && !post_bind(&own));
	foreign = make(other);
	freed = make(s->ctx);
	drop(&freed);
	for (size_t i = 0; i < COUNT(rows); i++) {
		try_with(&rows[i], own, freed.at[rows[i].slot], rows[i].freed);
		try_with(&rows[i], own, foreign.at[rows[i].slot], rows[i].foreign);
		try_with(&rows[i], own, NULL, rows[i].null);
	}
	freshly_freed(&own);
	drop(&own);
	drop(&foreign);
	CHECK(!ibv_close_device(other));
}

/* The objects of a context are destroyed with the context. */
static void closed(void)
{
	struct ibv_async_event event;
	struct ibv_context *ctx;
	struct ibv_cq *cq;
	void *cq_context;
	struct set o;

	s = side(false);
	CHECK((ctx = ibv_open_device(s->ctx->device)));
	o = make(ctx);
	CHECK(!ibv_close_device(ctx));
	REFUSED(EBADF, ibv_close_device(ctx));
	REFUSED_PTR(EBADF, ibv_alloc_pd(ctx));
	CHECK(ibv_get_async_event(ctx, &event) == -1 && errno == EBADF);
	CHECK(ibv_get_async_event(NULL, &event) == -1 && errno == EBADF);
	CHECK(ibv_get_cq_event(NULL, &cq, &cq_context) == -1 && errno == EBADF);
	CHECK(ibv_get_cq_event(o.channel, &cq, &cq_context) == -1 && errno == EBADF);
	REFUSED_PTR(EBADF, ibv_create_comp_channel(ctx));
	REFUSED_PTR(EBADF, ibv_create_cq(ctx, 4, NULL, NULL, 0));
	REFUSED(ENOENT, ibv_destroy_qp(o.qp));
	REFUSED(ENOENT, ibv_destroy_srq(o.srq));
	REFUSED(ENOENT, ibv_destroy_cq(o.scq));
	REFUSED(ENOENT, ibv_dereg_mr(o.mr));
	REFUSED(ENOENT, ibv_destroy_ah(o.ah));
	REFUSED(ENOENT, ibv_dealloc_pd(o.pd));
	REFUSED(ENOENT, ibv_destroy_comp_channel(o.channel));
	REFUSED_PTR(EINVAL, ibv_create_qp(o.pd, &(struct ibv_qp_init_attr){
							.send_cq = o.scq,
							.recv_cq = o.rcq,
							.qp_type = IBV_QPT_RC }));
}

const struct local_row stale_rows[] = {
	{ "stale_objects", stale },
	{ "closed_context", closed },
	{ NULL, NULL },
};
