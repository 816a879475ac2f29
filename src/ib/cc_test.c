/* SPDX-License-Identifier: BSD-2-Clause */
/* The congestion window of a destination: shared, cut, opened again. */
#include "ib/fix.h"

#include "verbs/transport.h"

static struct cc_host *host(const struct fix *f)
{
	return fix_ib(f, 0)->host;
}

static void all_qps_to_a_host_share(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct sim_pair p = sim_pair(f->s, IBV_QPT_RC, &f->conf);

	(void)state;
	assert_ptr_equal(ib_qp(p.qp[0])->host, host(f));
	assert_int_equal(host(f)->users, 2);
	sim_unpair(f->s, &p);
	assert_int_equal(host(f)->users, 1);
	fix_close(f);
}

static bool in_window(void *arg, const struct sim_packet *p)
{
	struct fix *f = arg;
	const struct cc_host *h = host(f);

	if (p->side == 0)
		assert_true(h->flight <= CC_WINDOW_MAX);
	return fix_tap(arg, p);
}

static void never_more_than_the_window(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	f->s->tap = in_window;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, FIX_MEM, 0);
	assert_false(sim_run(f->s, 1000));
	assert_in_range(host(f)->flight, CC_WINDOW_MAX / 2, CC_WINDOW_MAX);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, FIX_MEM, 0);
	assert_false(sim_run(f->s, 1000));
	assert_in_range(host(f)->flight, CC_WINDOW_MAX / 2, CC_WINDOW_MAX);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_int_equal(host(f)->flight, 0);
	f->s->take_every = 2; /* the link takes only a part, too */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, FIX_MEM, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(host(f)->flight, 0);
	fix_close(f);
}

/* Many QPs and a small window: each QP gets the same share. */
static void round_robin(void **state)
{
	enum { PAIRS = 8 };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct sim_pair p[PAIRS];
	uint32_t least = UINT32_MAX, most = 0;

	(void)state;
	f->s->tap = NULL;
	host(f)->window = 20000;
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_sge sge = sim_sge(f->mr[0], 0, FIX_MEM);
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { f->mr[1]->mkey.base, f->mr[1]->mkey.key },
		};

		p[i] = sim_pair(f->s, IBV_QPT_RC, &f->conf);
		sim_send(p[i].qp[0], &wr);
	}
	sim_run(f->s, 800000);
	for (int i = 0; i < PAIRS; i++) {
		uint32_t done = ib_qp(p[i].qp[0])->req.s.una;

		least = done < least ? done : least;
		most = done > most ? done : most;
	}
	assert_true(least > 20);
	assert_true(most < 3 * least);
	for (int i = 0; i < PAIRS; i++)
		sim_unpair(f->s, &p[i]);
	assert_int_equal(host(f)->flight, 0); /* QPs take their flight with them */
	fix_close(f);
}

/* Others have filled the window and get no answer: a QP that waits goes on, slowly. */
static void a_dead_window(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t start = f->s->now;

	(void)state;
	host(f)->flight += CC_WINDOW_MAX;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 50 * 1024, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_in_range(f->s->now - start, 0, 60 * MS);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 0);
	host(f)->flight -= CC_WINDOW_MAX;
	fix_close(f);
}

/* Others, who send one request at a time, fill the window, and an answer frees too little
 * of it for a burst: a QP that waits for that is not passed for ever. */
static void others_leave_no_room(void **state)
{
	enum { OTHERS = 60, EACH = 4096, N = 200 * 1024, ROUND_TRIP = 20000 };
	struct sim_conf c = { .path_mtu = IBV_MTU_4096 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	struct sim_pair p[OTHERS];
	struct ibv_sge sge = sim_sge(f->mr[0], 0, EACH);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { f->mr[1]->mkey.base, f->mr[1]->mkey.key },
	};
	const uint64_t end = f->s->now + 200 * MS;
	struct ibv_wc wc;
	bool done = false;

	(void)state;
	f->s->tap = NULL;
	for (unsigned i = 0; i < OTHERS; i++) {
		p[i] = sim_pair(f->s, IBV_QPT_RC, &f->conf);
		sim_send(p[i].qp[0], &wr);
		(void)sim_run(f->s, ROUND_TRIP / OTHERS);
	}
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, N, 0);
	while (!done && f->s->now < end) {
		assert_true(sim_step(f->s));
		done = cq_poll(f->p.cq[0], 1, &wc) == 1;
		for (unsigned i = 0; i < OTHERS; i++)
			if (cq_poll(p[i].cq[0], 1, &wc) == 1)
				sim_send(p[i].qp[0], &wr);
	}
	assert_true(done);
	for (unsigned i = 0; i < OTHERS; i++)
		sim_unpair(f->s, &p[i]);
	fix_close(f);
}

/* Packets of A that left at the same instant, less one: the joints between them. */
static unsigned joints(const struct fix *f)
{
	unsigned n = 0;

	for (unsigned i = 1; i < f->n; i++)
		n += f->log[i].side == 0 && f->log[i - 1].side == 0 &&
		     f->log[i].now == f->log[i - 1].now;
	return n;
}

/* Nobody else waits: the packets leave in long runs, whether the window is open or was
 * shut and each ACK opens a little of it. */
static void alone_it_sends_long_runs(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct batch *b = &f->s->node[0].batch;
	struct qp *qp = f->p.qp[0];

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, FIX_MEM, 0);
	batch_reset(b);
	lock_take(&qp->lock);
	assert_true(qp->transport->output(qp, b, f->s->now));
	assert_int_equal(b->n, REQ_SHARE);
	qp->transport->commit(qp, 0, 0, f->s->now);
	lock_give(&qp->lock);
	batch_reset(b);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_count(f, 0, NULL), FIX_MEM / 1024);
	assert_in_range(FIX_MEM / 1024 - joints(f), 1, FIX_MEM / 1024 / REQ_SHARE + 1);
	fix_close(f);
}

/* Where the kernel cuts no buffers, none is full: a burst is as long as elsewhere. */
static void a_link_without_runs(void **state)
{
	static const struct sim_conf conf[] = {
		{ .run_max = 1 },
		{ .run_max = 1,
		  .infiniband = true,
		  .path_mtu = IBV_MTU_4096,
		  .static_rate = { IBV_RATE_2_5_GBPS } },
	};
	static const unsigned most[] = { REQ_SHARE, PACED_SHARE };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fix *f = fix_open(IBV_QPT_RC, &conf[i]);
		struct batch *b = &f->s->node[0].batch;
		struct qp *qp = f->p.qp[0];

		fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, FIX_MEM, 0);
		batch_reset(b);
		lock_take(&qp->lock);
		assert_true(qp->transport->output(qp, b, f->s->now));
		assert_int_equal(b->n, most[i]);
		qp->transport->commit(qp, 0, 0, f->s->now);
		lock_give(&qp->lock);
		batch_reset(b);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* A stream of messages that the window does not hold: none is cut where the window ends,
 * and an ACK is asked for once in a burst. */
static void bursts_end_with_messages(void **state)
{
	enum { N = 16, EACH = REQ_SHARE * 1024 };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	unsigned asked = 0;

	(void)state;
	for (unsigned i = 0; i < N; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, i * EACH, EACH, 0);
	for (unsigned i = 0; i < N; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_same(f, 0, N * EACH);
	assert_int_equal(fix_count(f, 0, NULL), N * REQ_SHARE);
	for (unsigned i = 0, last = 0; i < f->n; i++) {
		if (f->log[i].side != 0)
			continue;
		asked += f->log[i].f.ackreq;
		if (f->log[i].now != f->log[last].now)
			assert_string_equal(fix_name(&f->log[i]), "WRITE_FIRST");
		last = i;
	}
	assert_in_range(asked, N / 2, N);
	assert_in_range(fix_count(f, 1, "ACK"), N / 3, N);
	fix_close(f);
}

/* Many short messages share an ACK. */
static void a_list_asks_once(void **state)
{
	enum { N = 48 };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	unsigned asked = 0;

	(void)state;
	for (unsigned i = 0; i < N; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, i * 8, 8, 0);
	for (unsigned i = 0; i < N; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < f->n; i++)
		asked += f->log[i].side == 0 && f->log[i].f.ackreq;
	assert_int_equal(asked, 1);
	assert_int_equal(fix_count(f, 1, "ACK"), 1);
	fix_close(f);
}

/* A request that fails here does not leave those before it without an ACK. */
static void an_error_behind_asks(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ibv_sge sge = { .addr = (uintptr_t)f->mem[0], .length = 8, .lkey = 1 };
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { f->mr[1]->mkey.base,
					       f->mr[1]->mkey.key } };

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 4096, 0);
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 0);
	fix_close(f);
}

/* The last packet that a window has room for asks for an ACK. */
static void small_window_never_waits_for_a_probe(void **state)
{
	struct sim_conf c = { .path_mtu = IBV_MTU_4096 };

	(void)state;
	for (uint32_t w = CC_WINDOW_MIN; w <= CC_WINDOW_MAX; w += 1999) {
		struct fix *f = fix_open(IBV_QPT_RC, &c);

		host(f)->window = w;
		fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 400000, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 0);
		fix_close(f);
	}
}

/* The link takes less than a burst, and not the packet that asks. */
static void a_part_never_waits_for_a_probe(void **state)
{
	(void)state;
	for (uint32_t w = CC_WINDOW_MIN; w <= CC_WINDOW_MAX; w += 1999) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);

		host(f)->window = w;
		f->s->take_every = 2;
		f->s->take_but_last = true;
		fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 400000, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 0);
		fix_close(f);
	}
}

/* Where the window holds but one burst, the loss of its end shuts it. */
static void the_end_of_a_small_window_is_lost(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth <= 40; nth++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);

		host(f)->window = CC_WINDOW_MIN;
		fix_lose(f, 0, "WRITE_MIDDLE", nth);
		fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100000, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 0);
		fix_close(f);
	}
}

static void loss_halves_and_acks_open(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_lose(f, 0, "WRITE_MIDDLE", 5);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 30000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_in_range(host(f)->window, CC_WINDOW_MAX / 2, CC_WINDOW_MAX / 2 + 8192);
	for (int i = 0; i < 10; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, FIX_MEM / 2, 0);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_post(f, IBV_WR_RDMA_READ, 3, 0, FIX_MEM / 2, 0);
		fix_wc(f, 0, 3, IBV_WC_SUCCESS);
		f->n = 0;
	}
	assert_int_equal(host(f)->window, CC_WINDOW_MAX);
	fix_close(f);
}

static void cnp_halves(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields cnp = {
		.opcode = ib_opcode(IB_CNP, IB_CONGESTION, IB_ONLY, IB_NONE),
		.pkey = 0xffff,
		.becn = true,
		.dest_qp = f->p.qp[0]->qpn,
	};

	(void)state;
	assert_int_equal(cnp.opcode, 0x81);
	sim_inject(f->s, 1, &cnp, NULL, 0);
	fix_quiet(f);
	assert_int_equal(host(f)->window, CC_WINDOW_MAX / 2);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_RX_CNP), 1);
	for (int i = 0; i < 30; i++) {
		f->s->now += SEC;
		sim_inject(f->s, 1, &cnp, NULL, 0);
		fix_quiet(f);
	}
	assert_int_equal(host(f)->window, CC_WINDOW_MIN);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0); /* slowly, but */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* Packets marked by congestion (ECN) are answered by CNPs, but not by too many. */
static bool mark(void *arg, const struct sim_packet *p)
{
	struct dgram *d = (struct dgram *)(uintptr_t)p->d;

	if (p->side == 0)
		ip_of(d)->tclass |= 3;
	return fix_tap(arg, p);
}

static void ecn_brings_a_cnp(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	f->s->tap = mark;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 20000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_count(f, 1, "CNP"), 1);
	assert_int_equal(host(f)->window, CC_WINDOW_MAX / 2);
	sim_run(f->s, 60000);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 20000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_int_equal(fix_count(f, 1, "CNP"), 2);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_qps_to_a_host_share),
		cmocka_unit_test(never_more_than_the_window),
		cmocka_unit_test(round_robin),
		cmocka_unit_test(a_dead_window),
		cmocka_unit_test(others_leave_no_room),
		cmocka_unit_test(alone_it_sends_long_runs),
		cmocka_unit_test(a_link_without_runs),
		cmocka_unit_test(bursts_end_with_messages),
		cmocka_unit_test(a_list_asks_once),
		cmocka_unit_test(an_error_behind_asks),
		cmocka_unit_test(small_window_never_waits_for_a_probe),
		cmocka_unit_test(a_part_never_waits_for_a_probe),
		cmocka_unit_test(the_end_of_a_small_window_is_lost),
		cmocka_unit_test(loss_halves_and_acks_open),
		cmocka_unit_test(cnp_halves),
		cmocka_unit_test(ecn_brings_a_cnp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
