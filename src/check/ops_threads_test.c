/* SPDX-License-Identifier: BSD-2-Clause */
/* ops_threads_test.c - threads that post, poll, make and destroy objects, and peers that
 * write and ask meanwhile, with all checks. For ThreadSanitizer; nothing is found. */
#include <pthread.h>

#include "check/fix.h"
#include "verbs/mr.h"

enum { THREADS = 4, ROUNDS = 300, POSTS = 3, LEN = 64, KEY = 100, QPN = 0x1000 };

struct own {
	pthread_t thread;
	uint32_t n;
	struct cq cq;
	struct qp qp;
	struct mr mr;
	uint8_t memory[LEN];
	struct ibv_sge sge;
};

static __thread struct ibv_wc answer; /* to the next poll */
static __thread bool answers;

static int take_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return 0;
}

static int take_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return 0;
}

static int poll_one(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n;
	if (!answers)
		return 0;
	*wc = answer;
	answers = false;
	return 1;
}

static void make(struct own *o)
{
	o->cq.ex.context = o->qp.ex.qp_base.context = &fix.v.context;
	o->cq.ex.cqe = 64;
	object_made(&o->cq.live, LIVE_CQ);
	checks->ready(&o->cq.live, LIVE_CQ);
	o->qp.qpn = o->qp.ex.qp_base.qp_num = QPN + o->n;
	o->qp.type = o->qp.ex.qp_base.qp_type = IBV_QPT_RC;
	o->qp.send_cq = o->qp.recv_cq = &o->cq;
	o->qp.init.cap = (struct ibv_qp_cap){ 16, 16, 1, 1, 0 };
	object_made(&o->qp.live, LIVE_QP);
	checks->ready(&o->qp.live, LIVE_QP);
	o->mr.ibv.lkey = o->mr.ibv.rkey = o->mr.mkey.key = KEY + o->n;
	o->mr.mkey.base = (uintptr_t)o->memory;
	o->mr.mkey.host = o->memory;
	o->mr.mkey.length = LEN;
	object_made(&o->mr.live, LIVE_MR);
	o->sge = (struct ibv_sge){ (uintptr_t)o->memory, LEN, KEY + o->n };
}

static void destroy(struct own *o)
{
	checks->destroys(&o->qp.live, LIVE_QP);
	object_gone(&o->qp.live, LIVE_QP);
	checks->destroys(&o->cq.live, LIVE_CQ);
	object_gone(&o->cq.live, LIVE_CQ);
	checks->destroys(&o->mr.live, LIVE_MR);
	object_gone(&o->mr.live, LIVE_MR);
}

static void reap(struct own *o, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	answer = (struct ibv_wc){
		.wr_id = wr_id, .opcode = opcode, .byte_len = LEN, .qp_num = o->qp.qpn
	};
	answers = true;
	assert_int_equal(ibv_poll_cq((struct ibv_cq *)&o->cq.ex, 1, &wc), 1);
}

static void exchange(struct own *o, uint64_t id)
{
	struct ibv_send_wr *bad, send = { .wr_id = id,
					  .sg_list = &o->sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = { 0x10000 * (o->n + 1), 5 } };
	struct ibv_recv_wr *worse, recv = { .wr_id = id, .num_sge = 0 };

	ibv_post_send(&o->qp.ex.qp_base, &send, &bad);
	ibv_post_recv(&o->qp.ex.qp_base, &recv, &worse);
	reap(o, id, IBV_WC_RDMA_WRITE);
	reap(o, id, IBV_WC_RECV);
}

static void *work(void *arg)
{
	struct own *o = arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		make(o);
		for (unsigned k = 0; k < POSTS; k++)
			exchange(o, i + k);
		destroy(o);
	}
	return NULL;
}

/* As the NIC's thread does with the turn. */
static void *speak(void *arg)
{
	static uint8_t elsewhere[LEN];
	const struct check_access a = { .host = elsewhere,
					.len = LEN,
					.posted = 1,
					.qpn = 1 << 14,
					.how = IBV_ACCESS_REMOTE_READ };

	(void)arg;
	for (int i = 0; i < ROUNDS * POSTS; i++) {
		checks->wrote(elsewhere, LEN, false);
		checks->wrote(elsewhere, LEN, true);
		checks->reaches(&a);
	}
	return NULL;
}

static void work_all(void)
{
	static struct own own[THREADS];
	pthread_t peer;

	for (uint32_t i = 0; i < THREADS; i++) {
		own[i].n = i;
		assert_int_equal(pthread_create(&own[i].thread, NULL, work, &own[i]), 0);
	}
	assert_int_equal(pthread_create(&peer, NULL, speak, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(own[i].thread, NULL);
	pthread_join(peer, NULL);
}

static void test_threads(void **state)
{
	(void)state;
	FIX_FINDS_NOTHING(work_all());
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_threads) };

	setenv("URNIC_CHECK", "all,-leak-object", 1);
	fix.v.context.ops.post_send = take_send;
	fix.v.context.ops.post_recv = take_recv;
	fix.v.context.ops.poll_cq = poll_one;
	check_attach(&fix.v);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
