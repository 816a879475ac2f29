/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/source.h"

#include "verbs/qp_fixture.h"

enum { NOW = 5 };

static void what_is_read(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool atomic, read, local;
	} row[] = {
		{ IBV_WR_SEND, false, false, false },
		{ IBV_WR_RDMA_WRITE, false, false, false },
		{ IBV_WR_RDMA_READ, false, true, false },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, true, true, false },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, true, true, false },
		{ IBV_WR_ATOMIC_WRITE, false, true, false },
		{ IBV_WR_FLUSH, false, true, false },
		{ IBV_WR_LOCAL_INV, false, false, true },
		{ IBV_WR_BIND_MW, false, false, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct swqe w = { .opcode = (uint8_t)row[i].opcode };

		assert_int_equal(wqe_is_atomic(&w), row[i].atomic);
		assert_int_equal(wqe_is_read(&w), row[i].read);
		assert_int_equal(wqe_is_local(&w), row[i].local);
	}
}

/* --- its memory ------------------------------------------------------------ */

static char memory[64];

static void post(struct qp *qp, enum ibv_wr_opcode opcode, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, lkey };
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_send(qp, &wr, &bad), 0);
}

static void resolves(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct wqe_memory m = { .resolved = false };
	struct mr *rw, *ro;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(mr_reg(f->pd, memory, 64, (uintptr_t)memory,
				IBV_ACCESS_LOCAL_WRITE, &rw),
			 0);
	assert_int_equal(mr_reg(f->pd, memory, 64, (uintptr_t)memory, 0, &ro), 0);
	post(qp, IBV_WR_RDMA_WRITE, ro->ibv.lkey);
	/* Fails: READ data cannot be written to a read-only region. */
	post(qp, IBV_WR_RDMA_READ, ro->ibv.lkey);
	post(qp, IBV_WR_RDMA_READ, rw->ibv.lkey);
	assert_int_equal(wqe_resolve(qp, 1, &m), -EACCES);
	assert_false(m.resolved);
	assert_int_equal(wqe_resolve(qp, 0, &m), 0);
	assert_ptr_equal(m.span.v[0].host, memory);
	assert_int_equal(m.span.v[0].len, 8);
	m.span.v[0].host = NULL; /* must not be resolved a second time */
	assert_int_equal(wqe_resolve(qp, 0, &m), 0);
	assert_null(m.span.v[0].host);
	assert_int_equal(wqe_resolve(qp, 2, &m), 0);
	assert_ptr_equal(m.span.v[0].host, memory);
	assert_int_equal(wqe_resolve(qp, 1, &m), -EACCES);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_dereg(rw), 0);
	assert_int_equal(mr_dereg(ro), 0);
	fix_close(f);
}

/* --- requests for which no packet is sent ------------------------------------ */

static void works(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_mw *mw;
	struct mw *window;
	struct mr *mr;
	struct ibv_send_wr bind = { .wr_id = 1,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr inv = { .wr_id = 2, .opcode = IBV_WR_LOCAL_INV }, *bad;
	enum ibv_wc_status status;
	enum verr verr = VERR_NONE;
	struct send_source src;
	struct send_cursor at;
	struct ibv_wc wc;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(mr_reg(f->pd, memory, 64, (uintptr_t)memory,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &mr),
			 0);
	assert_int_equal(mw_alloc(f->pd, IBV_MW_TYPE_2, &window), 0);
	mw = &window->ibv;
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = inv.invalidate_rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr->ibv, (uintptr_t)memory,
							    8, IBV_ACCESS_REMOTE_READ };
	assert_int_equal(qp_post_send(qp, &bind, &bad), 0);
	assert_int_equal(qp_post_send(qp, &inv, &bad), 0);
	inv.wr_id = 3; /* invalidates the same key a second time */
	assert_int_equal(qp_post_send(qp, &inv, &bad), 0);
	qp_is_held(qp);
	send_reset(qp, &src, &at, 7);
	at.cur = at.fresh = 1;
	assert_int_equal(send_locally(qp, &at, &status, &verr, NOW), END_WAITS);
	assert_int_equal(cq_poll(f->scq, 1, &wc), 0);
	at.cur = at.fresh = 0;
	assert_int_equal(send_locally(qp, &at, &status, &verr, NOW), END_DONE);
	fix_wc(f->scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(send_locally(qp, &at, &status, &verr, NOW), END_DONE);
	assert_int_equal(send_locally(qp, &at, &status, &verr, NOW), END_FAILED);
	assert_int_equal(status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(verr, VERR_INVALIDATE);
	assert_int_equal(at.psn, 7); /* no numbers were used */
	assert_int_equal(at.cur, 2);
	assert_int_equal(at.fresh, 2);
	/* The failed request is left to the transport. */
	assert_int_equal(qp->sq.tail, 2);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mw_dealloc(window), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* --- may it begin? ------------------------------------------------------------- */

static void may_begin(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned flags;
		uint32_t length;
		bool sqd, drains, out; /* out: a READ is outstanding */
		uint32_t reads;
		enum send_may may;
	} row[] = {
		{ IBV_WR_SEND, 0, 100, false, false, false, 4, SEND_GO },
		{ IBV_WR_SEND, 0, 101, false, false, false, 4, SEND_TOO_LONG },
		{ IBV_WR_SEND, 0, 8, true, false, false, 4, SEND_WAIT },
		{ IBV_WR_SEND, 0, 8, true, true, false, 4, SEND_GO },
		{ IBV_WR_SEND, 0, 8, false, false, true, 4, SEND_GO },
		{ IBV_WR_SEND, IBV_SEND_FENCE, 8, false, false, true, 4, SEND_WAIT },
		{ IBV_WR_SEND, IBV_SEND_FENCE, 8, false, false, false, 4, SEND_GO },
		{ IBV_WR_SEND, IBV_SEND_FENCE, 101, false, false, true, 4, SEND_WAIT },
		{ IBV_WR_LOCAL_INV, 0, 0, false, false, false, 4, SEND_LOCAL },
		{ IBV_WR_BIND_MW, IBV_SEND_FENCE, 0, false, false, true, 4, SEND_WAIT },
		{ IBV_WR_RDMA_READ, 0, 8, false, false, false, 0, SEND_BAD_OP },
		{ IBV_WR_RDMA_READ, 0, 8, false, false, true, 1, SEND_GO },
		{ IBV_WR_FLUSH, 0, 0, false, false, false, 0, SEND_BAD_OP },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 0, 7, false, false, false, 4,
		  SEND_TOO_LONG },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, false, false, false, 4, SEND_GO },
	};
	struct qp qp = { .state = IBV_QPS_RTS };

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct swqe w = { .opcode = (uint8_t)row[i].opcode,
					.flags = (uint8_t)row[i].flags,
					.length = row[i].length };
		const struct send_limits l = { row[i].reads, 100, row[i].drains };
		const struct send_source s = { .answered = 5 };
		const struct send_cursor at = { .reads = row[i].out ? 6 : 5 };

		qp.state = row[i].sqd ? IBV_QPS_SQD : IBV_QPS_RTS;
		if (send_may(&qp, &s, &at, &w, &l) != row[i].may)
			print_error("row %zu\n", i);
		assert_int_equal(send_may(&qp, &s, &at, &w, &l), row[i].may);
		assert_int_equal(send_may_read(&s, &at, &l),
				 row[i].reads > (row[i].out ? 1u : 0u));
	}
}

/* --- completions ----------------------------------------------------------------- */

/* A QP with n SENDs, which begin with two numbers each. */
static struct qp *begun(struct fix *f, struct send_source *s, struct send_cursor *at,
			int n)
{
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	fix_bring(qp, IBV_QPS_RTS);
	send_reset(qp, s, at, PSN_MASK); /* they wrap at once */
	for (int i = 0; i < n; i++) {
		struct swqe *w = sq_at(&qp->sq, qp->sq.head);

		assert_int_equal(fix_send(qp, (uint64_t)i, IBV_SEND_SIGNALED), 0);
		send_begin(at, w, 2);
		assert_true(send_has_begun(at));
		send_move(s, at, w, 1);
		assert_true(send_has_begun(at));
		send_move(s, at, w, 1);
		assert_false(send_has_begun(at));
	}
	assert_int_equal(at->psn, (2 * n - 1) & PSN_MASK);
	assert_int_equal(at->max_psn, at->psn);
	return qp;
}

static void done_with(struct fix *f, struct qp *qp)
{
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static bool advance(struct qp *qp, struct send_source *s, const struct send_cursor *at,
		    uint32_t to)
{
	struct send_part part;

	qp_is_held(qp);
	while (send_part(qp, s, at, to, &part))
		if (!send_took(qp, s, &part, NOW))
			return true;
	return !part.missing;
}

/* A CQ that overruns fails the QP, which flushes its queue: the source looks no further.
 */
static void overrun(void **state)
{
	struct fix *f = fix_open(1);
	struct send_source s;
	struct send_cursor at;
	struct qp *qp = begun(f, &s, &at, 4);

	(void)state;
	assert_true(advance(qp, &s, &at, 5));
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(s.una, 3); /* two were taken */
	assert_int_equal(fix_event(f, &f->scq->ex), IBV_EVENT_CQ_ERR);
	assert_int_equal(fix_event(f, &qp->ex.qp_base), IBV_EVENT_QP_FATAL);
	done_with(f, qp);
}

static void an_error_waits(void **state)
{
	struct fix *f = fix_open(8);
	struct send_source s;
	struct send_cursor at;
	struct qp *qp = begun(f, &s, &at, 2);

	(void)state;
	qp_is_held(qp);
	assert_int_equal(fix_send(qp, 2, 0), 0);
	assert_true(send_any(qp, &s, &at));
	send_refuse(&s, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY);
	assert_false(send_any(qp, &s, &at));
	assert_false(send_fails(qp, &s, &at));
	assert_true(advance(qp, &s, &at, 1)); /* the first is done */
	assert_false(send_fails(qp, &s, &at));
	assert_true(send_rewind(qp, &s, &at, 1));
	assert_false(s.failed); /* it is tried again */
	assert_int_equal(at.cur, 1);
	assert_int_equal(at.max_psn, 3);
	send_move(&s, &at, sq_at(&qp->sq, 1), 2);
	send_refuse(&s, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY);
	assert_true(advance(qp, &s, &at, 3));
	assert_true(send_fails(qp, &s, &at));
	fix_wc(f->scq, 0, IBV_WC_SUCCESS);
	fix_wc(f->scq, 1, IBV_WC_SUCCESS);
	send_end(qp, &s, &at, s.fail_status, s.fail_verr, NOW);
	assert_int_equal(fix_wc(f->scq, 2, IBV_WC_LOC_PROT_ERR).vendor_err,
			 VERR_LOCAL_KEY);
	assert_int_equal(s.una, 3); /* it had no numbers */
	done_with(f, qp);
}

/* A request that ends with an error, of a QP that lives on for a while, takes its numbers
 * along. */
static void an_end_takes_its_numbers(void **state)
{
	struct fix *f = fix_open(8);
	struct send_source s;
	struct send_cursor at;
	struct qp *qp = begun(f, &s, &at, 3);

	(void)state;
	qp_is_held(qp);
	assert_true(advance(qp, &s, &at, 0)); /* half of the first */
	send_end(qp, &s, &at, IBV_WC_BAD_RESP_ERR, VERR_BAD_RESPONSE, NOW);
	fix_wc(f->scq, 0, IBV_WC_BAD_RESP_ERR);
	assert_int_equal(s.una, 1);
	assert_true(advance(qp, &s, &at, 3));
	fix_wc(f->scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp->sq.tail, 2);
	send_stop(qp, &s, &at);
	assert_int_equal(s.una, at.max_psn);
	assert_int_equal(at.cur, qp->sq.head);
	done_with(f, qp);
}

static void drained(void **state)
{
	struct fix *f = fix_open(8);
	struct send_source s;
	struct send_cursor at;
	struct qp *qp = begun(f, &s, &at, 1);

	(void)state;
	assert_int_equal(fix_send(qp, 1, 0), 0); /* has not begun */
	assert_int_equal(fix_step(qp, IBV_QPS_SQD), 0);
	assert_false(send_is_drained(qp, &at, false));
	assert_true(advance(qp, &s, &at, at.psn));
	assert_true(send_is_drained(qp, &at, false));
	assert_false(send_is_drained(qp, &at, true));
	qp->sq.tail++;
	assert_true(send_is_drained(qp, &at, true));
	qp->state = IBV_QPS_RTS;
	assert_false(send_is_drained(qp, &at, false));
	done_with(f, qp);
}

static void retries(void **state)
{
	struct qp qp = { .attr = { .retry_cnt = 1, .rnr_retry = 1 } };
	struct send_source s = { .rnr_until = 9 };

	(void)state;
	assert_false(send_retry(&s));
	send_refill(&qp, &s);
	assert_int_equal(s.rnr_until, 0);
	assert_true(send_retry(&s));
	assert_false(send_retry(&s));
	assert_true(send_rnr_retry(&qp, &s));
	assert_false(send_rnr_retry(&qp, &s));
	qp.attr.rnr_retry = RNR_FOREVER;
	assert_true(send_rnr_retry(&qp, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read),
		cmocka_unit_test(resolves),
		cmocka_unit_test(works),
		cmocka_unit_test(may_begin),
		cmocka_unit_test(overrun),
		cmocka_unit_test(an_error_waits),
		cmocka_unit_test(an_end_takes_its_numbers),
		cmocka_unit_test(drained),
		cmocka_unit_test(retries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
