/* SPDX-License-Identifier: BSD-2-Clause */
/* A message that comes before its receive waits for it, and RNR is said after that. */
#include "ib/fix.h"
#include "verbs/rq.h"

static const struct sim_conf waits = { .late = RECV_WAIT_NS };

static uint64_t counted(const struct fix *f, int side, enum ib_counter c)
{
	return ib_counter(&f->s->node[side].core, c);
}

static void the_receive_comes_late(void **state)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &waits));
	uint64_t since = f->s->now;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 5000, 0);
	fix_post(f, IBV_WR_SEND, 2, 5000, 10, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 6000, 3000, 0);
	sim_run(f->s, RECV_WAIT_NS - 100000);
	fix_no_wc(f, 0);
	assert_int_equal(fix_count(f, 1, NULL), 0);
	fix_recv(f, 8, 0, 5000);
	fix_recv(f, 9, 5000, 10);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_same(f, 0, 5010);
	fix_same(f, 6000, 3000);
	assert_true(f->s->now - since < RECV_WAIT_NS);
	assert_int_equal(counted(f, 1, IB_TX_RNR), 0);
	assert_int_equal(counted(f, 1, IB_RX_LATE), 1);
	assert_int_equal(counted(f, 0, IB_TX_TIMEOUT), 0);
	fix_close(f);
}

/* Nothing follows the message: an ACK is the answer, and no NAK. */
static void one_packet_alone(void **state)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &waits));

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	sim_run(f->s, 100000);
	fix_recv(f, 8, 0, 100);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 100);
	assert_int_equal(f->n, 2);
	fix_saw(f, 1, 1, "ACK", 0);
	assert_int_equal(counted(f, 1, IB_TX_NAK), 0);
	fix_close(f);
}

static void rnr_is_said_after_the_wait(void **state)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &waits));
	uint64_t since = f->s->now;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR).vendor_err,
			 VERR_RNR_RETRIES);
	assert_in_range(f->s->now - since, RECV_WAIT_NS + 20000, RECV_WAIT_NS + 22000);
	assert_int_equal(counted(f, 1, IB_TX_RNR), 1);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	/* nobody waits for it any more */
	fix_recv(f, 8, 0, 100);
	fix_quiet(f);
	fix_no_wc(f, 1);
	fix_close(f);
}

/* Half of the responder's own ACK timeout, within limits. */
static void the_wait_follows_the_timeout(void **state)
{
	static const struct {
		uint8_t timeout;
		uint64_t ns;
	} row[] = {
		{ 1, RECV_WAIT_NS },
		{ 14, (4096ull << 14) / 2 },
		{ 20, RECV_WAIT_MOST_NS },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct fix *f = fix_strict(
			fix_open(IBV_QPT_RC,
				 &(struct sim_conf){ .late = RECV_WAIT_MOST_NS,
						     .timeout = row[i].timeout }));
		uint64_t since = f->s->now;

		fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
		fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
		assert_in_range(f->s->now - since, row[i].ns + 20000, row[i].ns + 22000);
		assert_int_equal(counted(f, 0, IB_TX_TIMEOUT), 0);
		fix_close(f);
	}
}

/* The program has not polled for what came before, so it may not know that a receive is
 * needed. */
static void a_program_that_did_not_poll_is_waited_for(void **state)
{
	static const struct {
		uint64_t polls, receives; /* when */
		uint64_t refused;	  /* when RNR is said; 0: not */
	} row[] = {
		{ 400 * MS, 410 * MS, 0 },
		{ 200 * MS, NEVER, 230 * MS },
		{ NEVER, NEVER, 480 * MS },
	};
	const struct sim_conf c = { .late = RECV_WAIT_MOST_NS, .timeout = 20 };

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &c));
		uint64_t since, said = 0;

		fix_recv(f, 7, 0, 100);
		fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		since = f->s->now;
		fix_post(f, IBV_WR_SEND, 2, 100, 100, 0);
		for (uint64_t at = 0; at < 600 * MS && !said; at += 10 * MS) {
			if (at == row[i].polls)
				fix_wc(f, 1, 7, IBV_WC_SUCCESS);
			if (at == row[i].receives)
				fix_recv(f, 8, 100, 100);
			sim_run(f->s, 10 * MS);
			if (counted(f, 1, IB_TX_RNR))
				said = f->s->now - since;
		}
		if (row[i].refused)
			assert_in_range(said, row[i].refused - 10 * MS,
					row[i].refused + 10 * MS);
		else
			fix_same(f, 100, 100);
		fix_wc(f, 0, 2, said ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* The requester's timeout is shorter than the responder's, and it must not give up
 * because the message waits: RNR may be repeated without limit. With 4 ms it is urged in
 * the first wait, with 8 ms all retries would be used up by the second one. */
static void the_peer_is_less_patient(void **state)
{
	static const uint8_t timeout[] = { 1, 11 };

	(void)state;
	for (unsigned i = 0; i < sizeof(timeout); i++) {
		struct fix *f = fix_open(IBV_QPT_RC,
					 &(struct sim_conf){ .late = RECV_WAIT_MOST_NS,
							     .timeout = 14 });

		f->p.qp[0]->attr.timeout = timeout[i];
		fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
		sim_run(f->s, 300 * MS);
		fix_no_wc(f, 0);
		fix_recv(f, 8, 0, 100);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* The responder's process did not run: the message and what the peer has sent again come
 * in at one time. */
static void what_waited_in_the_socket_counts_once(void **state)
{
	struct ib_fields m = {
		.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
		.pkey = 0xffff,
		.ackreq = true,
	};
	struct fix *f = fix_strict(
		fix_open(IBV_QPT_RC, &(struct sim_conf){ .late = RECV_WAIT_MOST_NS }));

	(void)state;
	m.dest_qp = f->p.qp[1]->qpn;
	m.psn = fix_ib(f, 1)->rsp.epsn;
	for (int i = 0; i < 10; i++)
		sim_inject(f->s, 0, &m, NULL, 0);
	sim_run(f->s, MS);
	assert_int_equal(counted(f, 1, IB_RX_LATE), 1);
	assert_int_equal(counted(f, 1, IB_TX_RNR), 0);
	fix_recv(f, 8, 0, 100);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_close(f);
}

static void each_attempt_waits(void **state)
{
	const struct sim_conf c = { .late = RECV_WAIT_NS,
				    .rnr_retry = 2,
				    .min_rnr_timer = 12 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	uint64_t since = f->s->now;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_in_range(f->s->now - since, 3 * RECV_WAIT_NS + 2 * 640000,
			3 * RECV_WAIT_NS + 2 * 640000 + 100000);
	assert_int_equal(counted(f, 1, IB_RX_LATE), 3);
	fix_close(f);
}

/* A profile may have it so: see struct ib. */
static void no_wait_at_all(void **state)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, NULL));
	uint64_t since = f->s->now;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_true(f->s->now - since < 25000);
	assert_int_equal(counted(f, 1, IB_RX_LATE), 0);
	fix_close(f);
}

/* Probes repeat the message and what follows it, while the wait is longer than they
 * are. */
static void duplicates_do_not_matter(void **state)
{
	const struct sim_conf c = { .late = 4 * MS, .timeout = 14 };
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &c));

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_post(f, IBV_WR_SEND, 2, 100, 100, 0);
	sim_run(f->s, 3500000);
	assert_true(fix_count(f, 0, NULL) > 2);
	assert_int_equal(fix_count(f, 1, NULL), 0);
	fix_recv(f, 8, 0, 100);
	fix_recv(f, 9, 100, 100);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1); /* each was received once */
	fix_same(f, 0, 200);
	fix_close(f);
}

static void write_with_immediate(void **state)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &waits));
	struct ibv_wc wc;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 3000, 0);
	sim_run(f->s, 100000);
	fix_no_wc(f, 0);
	fix_recv(f, 8, 0, 0);
	wc = fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 3000);
	assert_int_equal(wc.imm_data, 0x12345678);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 3000);
	fix_close(f);
}

/* What the message is refused for besides is found when it is executed. */
static void the_receive_is_too_short(void **state)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &waits));

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 100, 0);
	sim_run(f->s, 100000);
	fix_recv(f, 8, 0, 99);
	fix_wc(f, 1, 8, IBV_WC_LOC_LEN_ERR);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	fix_close(f);
}

/* The QP leaves the states in which it receives: the wait ends with that. */
static void ends_with(enum ibv_qp_state to)
{
	struct fix *f = fix_strict(fix_open(IBV_QPT_RC, &waits));

	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	sim_run(f->s, 100000);
	assert_true(fix_ib(f, 1)->rsp.late.wait.until > 0);
	if (to == IBV_QPS_UNKNOWN) {
		sim_destroy(f->s, f->p.qp[1]);
		f->p.qp[1] = NULL;
	} else {
		fix_modify(f, 1, to);
		assert_int_equal(fix_ib(f, 1)->rsp.late.wait.until, 0);
		assert_false(f->p.qp[1]->recv.awaited);
	}
	sim_run(f->s, 10 * MS);
	assert_int_equal(fix_count(f, 1, NULL), 0);
	fix_modify(f, 0, IBV_QPS_ERR);
	fix_close(f);
}

static void the_qp_ends(void **state)
{
	(void)state;
	ends_with(IBV_QPS_ERR);
	ends_with(IBV_QPS_RESET);
	ends_with(IBV_QPS_UNKNOWN);
}

/* --- SRQ -------------------------------------------------------------------- */

enum { QPS = 3 };

struct shared {
	struct fix *f;
	struct srq *srq;
	struct qp *from[QPS], *to[QPS];
};

static void shared_open(struct shared *x, const struct sim_conf *conf)
{
	const struct ibv_qp_cap cap = { .max_send_wr = 8, .max_send_sge = 1 };
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct fix *f = x->f = fix_open(IBV_QPT_RC, conf);
	struct sim_node *b = &f->s->node[1];

	assert_int_equal(srq_create(&b->ctx, b->pd, &a, &x->srq), 0);
	for (int i = 0; i < QPS; i++) {
		x->from[i] =
			sim_qp(f->s, 0, IBV_QPT_RC, f->p.cq[0], f->p.cq[0], NULL, &cap);
		x->to[i] =
			sim_qp(f->s, 1, IBV_QPT_RC, f->p.cq[1], f->p.cq[1], x->srq, &cap);
		sim_bring(f->s, x->from[i], x->to[i], &f->conf);
		sim_bring(f->s, x->to[i], x->from[i], &f->conf);
	}
}

static void shared_send(struct shared *x, int i)
{
	struct ibv_sge sge = sim_sge(x->f->mr[0], (size_t)i * 100, 100);
	struct ibv_send_wr wr = { .wr_id = (uint64_t)i,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	sim_send(x->from[i], &wr);
	sim_run(x->f->s, 30000);
}

static void shared_recv(struct shared *x, uint64_t wr_id, int rc)
{
	struct ibv_sge sge = sim_sge(x->f->mr[1], wr_id * 100, 100);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(srq_post(x->srq, &wr, &bad), rc);
}

static void shared_close(struct shared *x)
{
	for (int i = 0; i < QPS; i++) {
		sim_destroy(x->f->s, x->from[i]);
		if (x->to[i])
			sim_destroy(x->f->s, x->to[i]);
	}
	assert_int_equal(srq_destroy(x->srq), 0);
	fix_close(x->f);
}

/* Those that have waited longest come first. */
static void an_srq_serves_in_order(void **state)
{
	struct shared x;

	(void)state;
	shared_open(&x, &waits);
	for (int i = 0; i < QPS; i++)
		shared_send(&x, i);
	for (int i = 0; i < QPS; i++) {
		shared_recv(&x, (uint64_t)i, 1);
		assert_int_equal(fix_wc(x.f, 1, (uint64_t)i, IBV_WC_SUCCESS).qp_num,
				 x.to[i]->qpn);
		fix_wc(x.f, 0, (uint64_t)i, IBV_WC_SUCCESS);
	}
	shared_recv(&x, 9, 0);
	fix_same(x.f, 0, 300);
	assert_int_equal(counted(x.f, 1, IB_TX_RNR), 0);
	shared_close(&x);
}

/* Of two receives that are posted, one for each of the first two. */
static void an_srq_says_rnr_to_the_rest(void **state)
{
	struct shared x;

	(void)state;
	shared_open(&x, &waits);
	for (int i = 0; i < QPS; i++)
		shared_send(&x, i);
	shared_recv(&x, 0, 1);
	shared_recv(&x, 1, 1);
	fix_wc(x.f, 1, 0, IBV_WC_SUCCESS);
	fix_wc(x.f, 1, 1, IBV_WC_SUCCESS);
	sim_run(x.f->s, RECV_WAIT_NS + 50000);
	assert_int_equal(counted(x.f, 1, IB_TX_RNR), 1);
	shared_recv(&x, 2, 0);
	fix_wc(x.f, 1, 2, IBV_WC_SUCCESS);
	shared_close(&x);
}

static void a_qp_leaves_its_srq(void **state)
{
	struct shared x;

	(void)state;
	shared_open(&x, &waits);
	shared_send(&x, 0);
	shared_send(&x, 1);
	sim_destroy(x.f->s, x.to[0]);
	x.to[0] = NULL;
	shared_recv(&x, 1, 1);
	assert_int_equal(fix_wc(x.f, 1, 1, IBV_WC_SUCCESS).qp_num, x.to[1]->qpn);
	shared_close(&x);
}

/* The QP that a receive called has ended: the receive is for the next one, which must not
 * hear RNR. */
static void a_receive_is_left(void **state)
{
	struct shared x;

	(void)state;
	shared_open(&x, &waits);
	shared_send(&x, 0);
	shared_send(&x, 1);
	fix_lose(x.f, 0, NULL, 0); /* the message does not come again */
	shared_recv(&x, 1, 1);
	sim_destroy(x.f->s, x.to[0]);
	x.to[0] = NULL;
	assert_int_equal(fix_wc(x.f, 1, 1, IBV_WC_SUCCESS).qp_num, x.to[1]->qpn);
	fix_wc(x.f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(counted(x.f, 1, IB_TX_RNR), 0);
	shared_close(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_receive_comes_late),
		cmocka_unit_test(one_packet_alone),
		cmocka_unit_test(rnr_is_said_after_the_wait),
		cmocka_unit_test(the_wait_follows_the_timeout),
		cmocka_unit_test(a_program_that_did_not_poll_is_waited_for),
		cmocka_unit_test(the_peer_is_less_patient),
		cmocka_unit_test(what_waited_in_the_socket_counts_once),
		cmocka_unit_test(each_attempt_waits),
		cmocka_unit_test(no_wait_at_all),
		cmocka_unit_test(duplicates_do_not_matter),
		cmocka_unit_test(write_with_immediate),
		cmocka_unit_test(the_receive_is_too_short),
		cmocka_unit_test(the_qp_ends),
		cmocka_unit_test(an_srq_serves_in_order),
		cmocka_unit_test(an_srq_says_rnr_to_the_rest),
		cmocka_unit_test(a_qp_leaves_its_srq),
		cmocka_unit_test(a_receive_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
