/* SPDX-License-Identifier: BSD-2-Clause */
/* What completes while a request is posted that might be done at once: the QP's own
 * requests of tag matching are posted behind it, or the QP fails. */
#include <errno.h>

#include "direct/shared_fix.h"
#include "ib/tm_fix.h"

/* RNDVS is larger than TM_OWN, the number of a QP's own requests that may be
 * outstanding. */
#define TOO_LONG 0x80000001u

enum { RNDVS = 12, WRITTEN = 100000, LATE = 4711, FULL = 5 };

/* B's side of a WRITE at once, to memory of A that B has mapped. */
struct at_once {
	struct tags *t;
	int fd;
	uint8_t *at;
	struct mr *mr;
};

static struct ibv_send_wr write_of(struct at_once *o, uint64_t wr_id, struct ibv_sge *sge,
				   uint32_t len)
{
	*sge = sim_sge(o->t->f->mr[1], 0, len);
	return (struct ibv_send_wr){
		.wr_id = wr_id,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { o->mr->mkey.base, o->mr->mkey.key },
	};
}

static void write_some(struct at_once *o)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = write_of(o, 0, &sge, 8);

	sim_send(o->t->qp[1], &wr);
	sim_run(o->t->f->s, SEC);
}

static struct at_once open_at_once(void)
{
	struct at_once o = { .t = open_tags(&(const struct sim_conf){
				     .same_host = true, .timeout = 10, .retry_cnt = 7 }),
			     .fd = memfd_create("shared", MFD_CLOEXEC) };
	struct cqe e;

	assert_int_equal(ftruncate(o.fd, LEN), 0);
	o.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, o.fd, 0);
	assert_ptr_not_equal(o.at, MAP_FAILED);
	o.mr = sim_mr(o.t->f->s, 0, o.at, LEN, FIX_ALL);
	for (unsigned i = 0; i < USES; i++) {
		write_some(&o);
		assert_true(cq_pop(o.t->scq, &e));
	}
	assert_true(o.t->qp[1]->tp.traffic.done > 0);
	return o;
}

static void close_at_once(struct at_once *o)
{
	assert_int_equal(mr_dereg(o->mr), 0);
	close_tags(o->t);
	munmap(o->at, LEN);
	close(o->fd);
}

/* Runs one side only. */
static void run_alone(struct tags *t, int side)
{
	t->f->s->node[side].stopped = false;
	t->f->s->node[!side].stopped = true;
	sim_run(t->f->s, MS);
	t->f->s->node[side].stopped = true;
}

static unsigned pop_all(struct cq *cq)
{
	struct cqe e;
	unsigned n = 0;

	for (; cq_pop(cq, &e); n++)
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	return n;
}

/* The peer has executed the QP's own FINs, and further ones wait for their completion.
 * The program's request overtakes none that was posted, and is executed once. */
static void requests_of_its_own_are_out(void **state)
{
	struct at_once o = open_at_once();
	struct tags *t = o.t;
	struct qp *b = t->qp[1];
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct cqe e;

	(void)state;
	memset(o.at, 0, WRITTEN);
	for (unsigned i = 0; i < RNDVS; i++) {
		take_fin(t, i);
		add(t, i + 1, 8192 + 4096 * i, 3000);
	}
	t->f->s->node[1].stopped = true;
	for (unsigned i = 0; i < RNDVS; i++) {
		struct request r = request(t, i + 1, 8192 + 4096 * i, 3000);

		send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
		sim_run(t->f->s, MS);
	}
	run_alone(t, 1);
	assert_false(list_empty(&b->tm.rndv));
	run_alone(t, 0);
	wr = write_of(&o, LATE, &sge, WRITTEN);
	assert_true(qp_post_send(b, &wr, NULL) >= 0);
	due_add(b->core, b);
	t->f->s->node[0].stopped = t->f->s->node[1].stopped = false;
	sim_run(t->f->s, SEC);
	assert_true(cq_pop(t->scq, &e));
	assert_int_equal(e.wr_id, LATE);
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	assert_memory_equal(o.at, t->f->mem[1], 8192); /* what comes goes behind it */
	assert_memory_equal(o.at + 60000, t->f->mem[1] + 60000, WRITTEN - 60000);
	/* A's SENDs, and the SENDs that carry FINs. */
	assert_int_equal(pop_all(t->cq[0]), 2 * RNDVS);
	assert_int_equal(pop_all(t->cq[1]), 2 * RNDVS);
	close_at_once(&o);
}

/* Requests have been executed, and their completions find no room in the CQ: the QP
 * fails. A request that is refused by that post is not flushed. */
static void what_completes_finds_no_room(void **state)
{
	struct at_once o = open_at_once();
	struct tags *t = o.t;
	struct qp *b = t->qp[1];
	struct ibv_sge sge = sim_sge(t->f->mr[1], 0, 8);
	struct ibv_send_wr wr = { .wr_id = FULL,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	take_fin(t, 1);
	assert_int_equal(cq_resize(t->scq, 8), 0); /* less than the send queue */
	while (t->scq->head - t->scq->tail < t->scq->cap)
		write_some(&o);
	assert_int_equal(b->state, IBV_QPS_RTS);
	t->f->s->node[0].stopped = true;
	sim_send(b, &wr);
	run_alone(t, 1);
	run_alone(t, 0);
	assert_int_equal(b->sq.head - b->sq.tail, 1);
	wr = write_of(&o, LATE, &sge, TOO_LONG);
	assert_int_equal(qp_post_send(b, &wr, NULL), -EINVAL);
	assert_int_equal(b->state, IBV_QPS_ERR);
	assert_int_equal(b->sq.head, b->sq.tail);
	t->f->s->node[0].stopped = t->f->s->node[1].stopped = false;
	sim_run(t->f->s, SEC);
	pop_all(t->scq);
	close_at_once(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_of_its_own_are_out),
		cmocka_unit_test(what_completes_finds_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
