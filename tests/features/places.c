/* SPDX-License-Identifier: BSD-2-Clause */
/* places.c - a place of a queue is occupied until the completion that covers its request
 * is polled; so a CQ as large as its queues does not overrun. docs/dev/queues.md. */
#include "../pairs/pairs.h"
#include "feature.h"

enum {
	PLACES = 16,
	GRH = 40,
	END_AT = 4096, /* where the last of several messages goes */
	LAST = 0x77,   /* its first byte */
};

static enum ibv_qp_type type;
static struct ibv_srq *srq;

static struct ibv_qp *make(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = s->scq,
		.recv_cq = s->rcq,
		.qp_type = type,
		.srq = s->is_b ? srq : NULL,
		.cap = { PLACES, PLACES, 1, 1, 0 },
		.pd = s->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	return is_iwarp() ? iwarp_qp(&init) : ibv_create_qp_ex(s->ctx, &init);
}

static struct ibv_qp *make_xrc(struct side *s)
{
	return xrc_qp(s);
}

/* --- sends -------------------------------------------------------------------- */

/* A request of 8 bytes, whose first is `byte`: a datagram, a SEND, or a WRITE to the end
 * of what B shows. */
static struct ibv_send_wr request(struct side *s, struct ibv_sge *sge, uint64_t id,
				  bool signalled, uint8_t byte)
{
	struct ibv_send_wr wr;

	s->buf[id] = byte;
	*sge = local(s, (uint32_t)id, 8);
	wr = wr_of(type == IBV_QPT_RC ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, sge, id);
	wr.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
	wr.wr.rdma.remote_addr = s->theirs.addr + END_AT;
	wr.wr.rdma.rkey = s->theirs.rkey;
	return wr;
}

static int put(struct side *s, uint64_t id, bool signalled, uint8_t byte)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(s, &sge, id, signalled, byte);

	return post_send(s->qp, &wr);
}

/* Posts unsignalled requests until the queue is full; returns their number. */
static unsigned fill(struct side *s, uint8_t byte)
{
	unsigned n = 0;
	int rc = 0;

	while (n <= PLACES && !(rc = put(s, n, false, byte)))
		n++;
	CHECK(rc == ENOMEM);
	return n;
}

/* Waits until the byte is in B's memory, without a poll of a CQ. */
static void wait_for(const volatile uint8_t *at, uint8_t byte)
{
	for (uint64_t end = now_ms() + 10000; *at != byte;)
		CHECK(now_ms() < end);
}

/* A list of 20, of which number 10 is signalled. */
static void list_of_twenty(struct side *s)
{
	struct ibv_send_wr wr[20], *bad = NULL;
	struct ibv_sge sge[20];

	for (unsigned i = 0; i < 20; i++) {
		wr[i] = request(s, &sge[i], i, i == 10, 1);
		wr[i].next = i < 19 ? &wr[i + 1] : NULL;
	}
	CHECK(ibv_post_send(s->qp, wr, &bad) == ENOMEM && bad == &wr[PLACES]);
	CHECK(put(s, 30, true, 1) == ENOMEM);
	expect(s->scq, 10, IBV_WC_SUCCESS, V_NONE);
	CHECK(fill(s, 1) == 11);
}

/* All is executed, and the queue is full for ever. */
static void stuck(void)
{
	up_with(make);
	ON_B(s) s->buf[TARGET_AT + END_AT] = 0;
	sync_sides();
	ON_A(s) CHECK(fill(s, LAST) == PLACES);
	ON_B(s) wait_for(s->buf + TARGET_AT + END_AT, LAST);
	sync_sides();
	ON_A(s)
	{
		expect_none(s->scq);
		CHECK(put(s, 1, true, 1) == ENOMEM);
	}
	down();
}

static void one_of_sixteen(struct side *s)
{
	for (unsigned round = 0; round < 50; round++) {
		for (uint64_t i = 0; i < PLACES; i++)
			CHECK(!put(s, i, i == PLACES - 1, 1));
		CHECK(put(s, 99, true, 1) == ENOMEM);
		expect(s->scq, PLACES - 1, IBV_WC_SUCCESS, V_NONE);
	}
}

static void sends(void)
{
	type = IBV_QPT_RC;
	ON_B(s)
	{
		s->mine.addr = (uintptr_t)s->buf + TARGET_AT;
		s->mine.rkey = s->mr->rkey;
	}
	stuck();
	up_with(make);
	ON_A(s)
	{
		one_of_sixteen(s);
		list_of_twenty(s);
	}
	down();
}

/* --- receives ------------------------------------------------------------------- */

static int take(struct side *s, uint64_t id)
{
	struct ibv_sge sge = local(s, RECV_AT, GRH + 8);
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(s->qp, &wr, &bad);
}

static void send_all(struct side *s)
{
	struct ibv_ah *ah = type == IBV_QPT_UD ? ah_to(s, &s->theirs.gid) : NULL;

	for (unsigned i = 0; i < PLACES; i++) {
		struct ibv_sge sge = local(s, 0, 8);
		struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &sge, i);

		s->buf[0] = i == PLACES - 1 ? LAST : 1;
		if (ah) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = s->theirs.qpn;
			wr.wr.ud.remote_qkey = QKEY;
		}
		wr.qp_type.xrc.remote_srqn = s->theirs.srqn[0];
		CHECK(!post_send(s->qp, &wr));
		expect(s->scq, i, IBV_WC_SUCCESS, V_NONE);
	}
	CHECK(!ah || !ibv_destroy_ah(ah));
}

/* Each polled completion makes room for one receive. */
static void one_by_one(struct side *s)
{
	for (uint64_t i = 0; i < PLACES; i++) {
		CHECK(take(s, 99) == ENOMEM);
		expect(s->rcq, i, IBV_WC_SUCCESS, V_NONE);
		CHECK(!take(s, PLACES + i));
	}
	CHECK(take(s, 99) == ENOMEM);
}

static void receives_by(struct ibv_qp *(*made)(struct side *s))
{
	up_with(made);
	ON_B(s)
	{
		memset(s->buf + RECV_AT, 0, GRH + 8);
		for (uint64_t i = 0; i < PLACES; i++)
			CHECK(!take(s, i));
		CHECK(take(s, 99) == ENOMEM);
	}
	sync_sides();
	ON_A(s) send_all(s);
	ON_B(s)
	{
		wait_for(s->buf + RECV_AT + (type == IBV_QPT_UD ? GRH : 0), LAST);
		one_by_one(s);
	}
	down();
}

static void receives(void)
{
	type = IBV_QPT_RC;
	receives_by(make);
	if (is_iwarp())
		return;
	type = IBV_QPT_UC;
	receives_by(make);
}

static void receives_of_datagrams(void)
{
	type = IBV_QPT_UD;
	receives_by(make);
}

static void receives_of_an_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = PLACES, .max_sge = 1 } };

	type = IBV_QPT_RC;
	ON_B(s)
	{
		CHECK((srq = ibv_create_srq(s->pd, &attr)));
		CHECK(attr.attr.max_wr == PLACES);
	}
	receives_by(make);
	ON_B(s)
	{
		/* The QP, which is destroyed, left 16 receives that wait. */
		CHECK(take(s, 99) == ENOMEM);
		CHECK(!ibv_destroy_srq(srq));
	}
	srq = NULL;
}

/* Completions of an SRQ that no longer exists can be polled. */
static void receives_of_xrc(void)
{
	type = IBV_QPT_RC;
	ON_B(s) CHECK((srq = xrc_open(s, XRC_GOOD)));
	receives_by(make_xrc);
	up_with(make_xrc);
	ON_A(s) send_all(s);
	sync_sides();
	ON_B(s)
	{
		CHECK(!ibv_destroy_srq(srq));
		for (uint64_t i = 0; i < PLACES; i++)
			expect(s->rcq, PLACES + i, IBV_WC_SUCCESS, V_NONE);
	}
	down();
	ON_B(s) xrc_drop();
	srq = NULL;
}

/* --- sizes ----------------------------------------------------------------------- */

static void srq_of(struct side *s, uint32_t size)
{
	struct ibv_srq_init_attr made = { .attr = { .max_wr = size, .max_sge = 1 } };
	struct ibv_srq_attr now;
	uint64_t n = 0;

	CHECK((srq = ibv_create_srq(s->pd, &made)));
	CHECK(made.attr.max_wr == size);
	CHECK(!ibv_query_srq(srq, &now) && now.max_wr == size);
	while (n <= size && !take(s, n))
		n++;
	CHECK(n == size);
	CHECK(!ibv_destroy_srq(srq));
	srq = NULL;
}

static void qp_of(struct side *s, uint32_t size)
{
	struct ibv_qp_init_attr attr = { .send_cq = s->scq,
					 .recv_cq = s->rcq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { size, size, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(s->pd, &attr);

	CHECK(qp);
	CHECK(attr.cap.max_send_wr == size && attr.cap.max_recv_wr == size);
	CHECK(!ibv_destroy_qp(qp));
}

/* A program makes its CQ as large as the queues that it asks for, and posts as much as
 * they report. */
static void sizes(struct side *s)
{
	static const uint32_t of[] = { 4094, 4095, 4096, 4097, 100, 5 };

	for (unsigned i = 0; i < COUNT(of); i++) {
		struct ibv_cq *cq = ibv_create_cq(s->ctx, (int)of[i], NULL, NULL, 0);

		CHECK(cq && cq->cqe >= (int)of[i]);
		CHECK(!ibv_destroy_cq(cq));
		srq_of(s, of[i]);
		qp_of(s, of[i]);
	}
}

static void sizes_are_kept(void)
{
	each(sizes);
}

const struct feature places_rows[] = {
	{ "sizes", sizes_are_kept, false },
	{ "places_of_sends", sends, false },
	{ "places_of_receives", receives, false },
	{ "places_of_datagrams", receives_of_datagrams, true },
	{ "places_of_an_srq", receives_of_an_srq, false },
	{ "places_of_xrc", receives_of_xrc, true },
	{ NULL, NULL, false },
};
