/* SPDX-License-Identifier: BSD-2-Clause */
/* The way of a WRITE, READ or atomic: what is done in the peer's memory without the
 * peer, what goes through the ring, and that nothing is overtaken on either. */
#include <sys/mman.h>
#include <unistd.h>

#include "shm/fix.h"
#include "verbs/exports.h"

static struct fix *direct_pair(void)
{
	return direct_segments(IBV_QPT_RC, (struct sim_conf){ .psn = { 0xfffff0, 7 } });
}

static uint32_t written(const struct fix *f)
{
	return pair_peer(f, 0)->out.head;
}

static void write_to(struct fix *f, uint64_t id, size_t at, uint32_t len)
{
	post_to(f, 0, IBV_WR_RDMA_WRITE, id, at, at, len, 0);
}

static void read_from(struct fix *f, uint64_t id, size_t at, uint32_t len)
{
	post_to(f, 0, IBV_WR_RDMA_READ, id, at, at, len, 0);
}

/* The peer's process stands still, and is not woken. */
static void one_request_needs_no_peer(void **state)
{
	static const uint32_t len[] = { 1, 8, 4096, 70000, FIX_MEM };
	struct fix *f = direct_pair();
	const uint32_t before = written(f);
	_Atomic uint32_t *want_kick = &pair_peer(f, 0)->out.s->want_kick;

	(void)state;
	pair_stop(f, 1);
	atomic_store(want_kick, 1);
	for (unsigned i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		memset(f->mem[0], (int)i + 1, FIX_MEM);
		write_to(f, 1, 0, len[i]);
		assert_int_equal(fix_wc(f, 0, 1, IBV_WC_SUCCESS).opcode,
				 IBV_WC_RDMA_WRITE);
		fix_same(f, 0, len[i]);
		memset(f->mem[1], (int)i + 100, FIX_MEM);
		read_from(f, 2, 0, len[i]);
		assert_int_equal(fix_wc(f, 0, 2, IBV_WC_SUCCESS).byte_len, len[i]);
		fix_same(f, 0, len[i]);
	}
	assert_int_equal(written(f), before);
	assert_int_equal(atomic_load(want_kick), 1);
	assert_true(pair_peer(f, 0)->past.direct > 0);
	fix_close(f);
}

/* A's WRITEs or READs go by the ring, as this is quicker. */
static struct quicker *say_quicker(struct fix *f, bool read)
{
	struct quicker *t = &shm_qp(f->p.qp[0])->src.way.quicker[read];

	*t = (struct quicker){
		.since = 1, .second = true, .left = 100, .first_ns = UINT64_MAX
	};
	return t;
}

/* ... be their completions polled or not. */
static void one_by_one_they_go_the_quicker_way(void **state)
{
	(void)state;
	for (unsigned op = 0; op < 2; op++) {
		void (*post)(struct fix *, uint64_t, size_t, uint32_t) =
			op ? read_from : write_to;
		struct fix *f = direct_pair();
		uint32_t before = written(f);

		for (unsigned i = 0; i < 40; i++) {
			post(f, i, 100 * i, 100);
			pair_run(f, 1000);
		}
		assert_int_equal(written(f), before);
		say_quicker(f, op);
		for (unsigned i = 40; i < 80; i++) {
			post(f, i, 100 * i, 100);
			pair_run(f, 1000);
			assert_int_not_equal(written(f), before);
			before = written(f);
		}
		post(f, 80, 8000, 2 * RING_CHUNK);
		pair_run(f, 1000);
		assert_int_equal(written(f), before);
		for (unsigned i = 0; i <= 80; i++)
			fix_wc(f, 0, i, IBV_WC_SUCCESS);
		fix_same(f, 0, 8000 + 2 * RING_CHUNK);
		fix_close(f);
	}
}

/* The ring becomes the slower way while requests are outstanding there: one waits for
 * them, and the next is copied. */
static void a_stream_leaves_the_ring(void **state)
{
	struct fix *f = direct_pair();
	struct quicker *t = say_quicker(f, false);
	uint32_t before;
	uint64_t id;

	(void)state;
	pair_stop(f, 1);
	write_to(f, 0, 0, 8);
	t->n = QUICKER_LOOK - 1;
	t->first_ns = 0;
	t->late = 1;
	for (id = 1; id < 40; id++)
		write_to(f, id, 8 * id, 8);
	pair_run(f, MS);
	before = written(f);
	assert_true(shm_qp(f->p.qp[0])->src.way.waits);
	fix_no_wc(f, 0);
	pair_go(f, 1);
	for (id = 0; id < 40; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	assert_int_equal(written(f), before);
	fix_same(f, 0, 320);
	fix_close(f);
}

static void a_list_goes_by_the_ring(void **state)
{
	struct fix *f = direct_pair();
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
	struct ibv_send_wr wr[2];
	const uint32_t before = written(f);

	(void)state;
	for (int i = 0; i < 2; i++) {
		wr[i] = send_wr((uint64_t)i, &sge, 1, 0);
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].wr.rdma.remote_addr = f->mr[1]->mkey.base + (size_t)i * 8;
		wr[i].wr.rdma.rkey = f->mr[1]->mkey.key;
	}
	wr[0].next = &wr[1];
	post_now(f->p.qp[0], wr);
	fix_wc(f, 0, 0, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(written(f) - before, 4);
	assert_memory_equal(f->mem[1] + 8, f->mem[0], 8);
	fix_close(f);
}

/* WRITEs behind a SEND that has not been executed, of which only the last has a
 * completion: none waits, be it tried or not which way is quicker. */
static void a_group_behind_a_send(void **state)
{
	struct fix *f = direct_pair();
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);

	(void)state;
	for (unsigned many = 15; many < 40; many++) {
		recv_at(f, 1, many, 0, 100);
		post_at(f, 0, 1000, 0, 8, 0);
		for (unsigned i = 1; i <= many; i++) {
			struct ibv_send_wr wr = send_wr(i, &sge, 1, 0);

			wr.opcode = IBV_WR_RDMA_WRITE;
			wr.send_flags = i == many ? IBV_SEND_SIGNALED : 0;
			wr.wr.rdma.remote_addr = f->mr[1]->mkey.base + 5000;
			wr.wr.rdma.rkey = f->mr[1]->mkey.key;
			post_now(f->p.qp[0], &wr);
		}
		pair_run(f, 1000);
		fix_wc(f, 0, 1000, IBV_WC_SUCCESS);
		assert_false(shm_qp(f->p.qp[0])->src.way.waits);
		fix_wc(f, 0, many, IBV_WC_SUCCESS);
		fix_wc(f, 1, many, IBV_WC_SUCCESS);
	}
	fix_close(f);
}

/* A list of SGEs that ibv_post_send() refuses is not read. */
static void a_list_that_is_refused(void **state)
{
	struct fix *f = direct_pair();
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
	struct ibv_send_wr wr = send_wr(1, &sge, INT32_MAX, 0);
	enum post_left left;

	(void)state;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = f->mr[1]->mkey.base;
	wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	assert_ptr_equal(f->p.qp[0]->transport->post(f->p.qp[0], &wr, &left), &wr);
	wr.num_sge = -1;
	assert_ptr_equal(f->p.qp[0]->transport->post(f->p.qp[0], &wr, &left), &wr);
	fix_quiet(f);
	fix_close(f);
}

/* What was posted before is executed before, whichever way. */
static void nothing_is_overtaken(void **state)
{
	static const uint32_t len[] = { 8, 5000, 100000 };
	struct fix *f = direct_pair();

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(len) / sizeof(len[0]); i++) {
		const uint32_t n = len[i / 2];
		uint8_t was[8];

		memset(f->mem[0] + 5000, (int)i + 1, n);
		memset(f->mem[1] + 5000, (int)i + 101, n);
		memcpy(was, f->mem[1] + 5000, sizeof(was));
		recv_at(f, 1, 8, 0, 100);
		pair_stop(f, 1);
		post_at(f, 0, 1, 0, 100, 0);
		if (i % 2)
			read_from(f, 2, 5000, n);
		else
			write_to(f, 2, 5000, n);
		pair_run(f, MS);
		fix_no_wc(f, 0);
		assert_memory_equal(f->mem[1] + 5000, was, sizeof(was));
		pair_go(f, 1);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		fix_same(f, 5000, n);
	}
	fix_close(f);
}

/* A SEND that was executed, whose completion nobody has heard: a WRITE follows it. */
static void what_was_executed_is_followed_at_once(void **state)
{
	struct fix *f = direct_pair();
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct shm_qp *q = shm_qp(f->p.qp[0]);

	(void)state;
	write_to(f, 1, 0, 8);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	recv_at(f, 1, 8, 0, 100);
	post_now(f->p.qp[0], &wr); /* without a completion, so it asks for no ACK */
	pair_run(f, 1000);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_true(src_is_waiting(q));
	lock_take(&q->qp->lock);
	assert_true(src_is_idle(q));
	lock_give(&q->qp->lock);
	assert_false(src_is_waiting(q));
	fix_close(f);
}

/* A's turn ends. */
static void wake_peer(struct fix *f)
{
	struct core *core = &f->s->node[0].core;

	turn_take(&core->turn);
	peer_wrote(pair_peer(f, 0));
	(void)peers_flush(peers_of(core));
	turn_give(&core->turn);
}

/* Others may write to the ring meanwhile. */
static void has_no_lock(struct qp *qp, enum ibv_event_type type)
{
	assert_int_equal(type, IBV_EVENT_QP_FATAL);
	assert_false(atomic_load(&shm_qp(qp)->peer->writing.held));
}

/* The completion of a SEND, which a thread finds executed as it posts WRITEs, overruns
 * its CQ: nothing that is posted then is sent, nor stays behind.  push: by ibv_wr_*(). */
static void a_qp_that_fails_meanwhile(void **state)
{
	for (int push = 0; push < 2; push++) {
		struct fix *f = direct_pair();
		struct qp *qp = f->p.qp[0];
		struct ibv_sge sge = sim_sge(f->mr[0], 5000, 8);
		struct ibv_send_wr wr[2], *bad;
		uint32_t before;

		(void)state;
		for (int i = 0; i < 2; i++) {
			wr[i] = send_wr(2, &sge, 1, 0);
			wr[i].opcode = IBV_WR_RDMA_WRITE;
			wr[i].wr.rdma.remote_addr = f->mr[1]->mkey.base + 5000;
			wr[i].wr.rdma.rkey = f->mr[1]->mkey.key;
		}
		wr[0].next = &wr[1];
		memset(f->mem[0] + 5000, 0x55, 8);
		memset(f->mem[1] + 5000, 0x66, 8);
		recv_at(f, 1, 8, 0, 100);
		pair_stop(f, 0);
		post_at(f, 0, 1, 0, 8, 0);
		wake_peer(f);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		before = written(f);
		f->p.cq[0]->overrun = true;
		qp->raise = has_no_lock;
		if (push) {
			assert_int_equal(qp_post_send(qp, wr, &bad), 0);
			(void)qp->transport->push(qp);
		} else {
			post_now(qp, wr);
		}
		assert_int_equal(qp->state, IBV_QPS_ERR);
		assert_int_equal(qp->sq.tail, qp->sq.head);
		assert_int_equal(written(f), before);
		pair_go(f, 0);
		fix_quiet(f);
		assert_int_equal(f->mem[1][5000], 0x66);
		fix_close(f);
	}
}

/* The peer judges what its export table does not allow, and so the error is the same. */
static void what_is_refused(void **state)
{
	const struct ibv_qp_attr none = { .qp_access_flags = 0 };

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		struct fix *f = direct_pair();
		struct mr *mr = f->mr[1];
		const bool read = i % 2;
		uint8_t was[8];

		memcpy(was, f->mem[!read], 8);
		memset(f->mem[read], 0x55, 8);
		switch (i / 2) {
		case 0:
			mr->mkey.key ^= 1;
			break;
		case 1: /* one byte behind the region */
			break;
		case 2:
			assert_int_equal(mr_dereg(mr), 0);
			f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM,
					  IBV_ACCESS_LOCAL_WRITE);
			break;
		case 3:
			assert_int_equal(qp_modify(f->p.qp[1], &none, IBV_QP_ACCESS_FLAGS,
						   f->s->now),
					 0);
			break;
		}
		post_to(f, 0, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, 0,
			i / 2 == 1 ? FIX_MEM - 7 : 0, 8, 0);
		if (i / 2 == 0)
			mr->mkey.key ^= 1;
		fix_wc(f, 0, 1,
		       i / 2 == 3 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
		pair_event(f, 1,
			   i / 2 == 3 ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_ACCESS_ERR);
		assert_memory_equal(f->mem[!read], was, 8);
		fix_close(f);
	}
}

/* Nobody reaches memory by a QP that has failed, or is reset. */
static void a_qp_that_ends(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = direct_pair();
		const struct exports *b = f->s->node[1].core.exports;
		const uint32_t qpn = f->p.qp[1]->qpn;
		uint8_t was = f->mem[1][0];

		assert_int_equal(b->qp[qpn_index(qpn)].open, 1);
		fix_modify(f, 1, i ? IBV_QPS_RESET : IBV_QPS_ERR);
		assert_int_equal(b->qp[qpn_index(qpn)].open, 0);
		f->mem[0][0] = (uint8_t)~was;
		write_to(f, 1, 0, 8);
		fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(f->mem[1][0], was);
		fix_close(f);
	}
}

/* The peer's memory cannot be reached any more, in the middle of a WRITE or before it. */
static void memory_that_is_lost(void **state)
{
	for (int part = 0; part < 2; part++) {
		struct fix *f = direct_pair();

		(void)state;
		if (part)
			shm_qp(f->p.qp[0])->src.way.part = 65536;
		pair_peer(f, 0)->reach.vm = false;
		write_to(f, 1, 0, 300000);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_same(f, 0, 300000);
		read_from(f, 2, 300000, 300000);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_same(f, 300000, 300000);
		fix_close(f);
	}
}

/* A request that lies in two pieces of memory, and inline data. */
static void lists_of_sges(void **state)
{
	struct fix *f = direct_pair();
	const uint32_t before = written(f);

	(void)state;
	write_pieces(f);
	assert_int_equal(written(f), before);
	fix_close(f);
}

/* --- mapped memory ------------------------------------------------------------ */

enum { LEN = 64 << 10 };

/* Memory of B that is a file's. */
struct lent_file {
	uint8_t *at;
	int fd;
	struct mr *was;
};

static struct lent_file lend_file(struct fix *f)
{
	struct lent_file s = { .fd = memfd_create("lent",
						  MFD_CLOEXEC | MFD_ALLOW_SEALING),
			       .was = f->mr[1] };

	assert_int_equal(ftruncate(s.fd, LEN), 0);
	s.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	assert_ptr_not_equal(s.at, MAP_FAILED);
	f->mr[1] = sim_mr(f->s, 1, s.at, LEN, FIX_ALL);
	return s;
}

static void close_file(struct fix *f, struct lent_file *s)
{
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = s->was;
	fix_close(f);
	munmap(s->at, LEN);
	close(s->fd);
}

/* A stream that never ends waits once when its memory is mapped, and is done by the
 * thread that posts from then on. */
static void a_stream_whose_memory_is_mapped(void **state)
{
	enum { DEPTH = 8 };
	struct fix *f = direct_pair();
	struct lent_file s = lend_file(f);
	uint64_t posted = 0, done = 0;

	(void)state;
	while (f->p.qp[0]->tp.traffic.done < 10) {
		assert_true(posted < 1000);
		while (posted - done < DEPTH) {
			const size_t at = posted % 1000 * 8;

			memcpy(f->mem[0] + at, &posted, 8);
			write_to(f, posted++, at, 8);
		}
		fix_wc(f, 0, done++, IBV_WC_SUCCESS);
	}
	while (done < posted)
		fix_wc(f, 0, done++, IBV_WC_SUCCESS);
	assert_memory_equal(s.at, f->mem[0], (posted < 1000 ? posted : 1000) * 8);
	close_file(f, &s);
}

/* SENDs between WRITEs: no WRITE waits for the SEND before it. */
static void writes_between_sends_wait_for_nobody(void **state)
{
	enum { PAIRS = 60 };
	struct fix *f = direct_pair();
	struct lent_file s = lend_file(f);
	struct ibv_sge sge = sim_sge(s.was, 500000, 64);
	uint64_t id = 0;

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		write_to(f, id, 0, 8);
		fix_wc(f, 0, id++, IBV_WC_SUCCESS);
		fix_quiet(f);
	}
	assert_true(f->p.qp[0]->tp.traffic.done > 0);
	for (unsigned i = 0; i < PAIRS / 2; i++)
		sim_recv(f->p.qp[1], 100 + i, &sge, 1);
	pair_stop(f, 1);
	for (unsigned i = 0; i < PAIRS / 2; i++) {
		post_at(f, 0, 1000 + 2 * i, 0, 8, 0);
		write_to(f, 1001 + 2 * i, i * 8, 8);
	}
	pair_run(f, 1000);
	assert_int_equal(shm_qp(f->p.qp[0])->src.at.cur, f->p.qp[0]->sq.head);
	pair_go(f, 1);
	for (unsigned i = 0; i < PAIRS; i++)
		fix_wc(f, 0, 1000 + i, IBV_WC_SUCCESS);
	assert_memory_equal(s.at, f->mem[0], PAIRS / 2 * 8);
	close_file(f, &s);
}

/* A mapped region, and then one that is not, and the other way around. */
static void atomics_too(void **state)
{
	struct fix *f = direct_pair();
	struct lent_file s = lend_file(f);
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
	struct ibv_send_wr wr = send_wr(1, &sge, 1, 0);
	uint64_t was;

	(void)state;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = f->mr[1]->mkey.base;
	wr.wr.atomic.rkey = f->mr[1]->mkey.key;
	wr.wr.atomic.compare_add = 3;
	for (uint64_t i = 0; i < 60; i++) {
		post_now(f->p.qp[0], &wr);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		memcpy(&was, f->mem[0], 8);
		assert_int_equal(was, 3 * i);
		fix_quiet(f);
	}
	assert_true(f->p.qp[0]->tp.traffic.done > 0);
	close_file(f, &s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_request_needs_no_peer),
		cmocka_unit_test(one_by_one_they_go_the_quicker_way),
		cmocka_unit_test(a_stream_leaves_the_ring),
		cmocka_unit_test(a_list_goes_by_the_ring),
		cmocka_unit_test(a_group_behind_a_send),
		cmocka_unit_test(a_list_that_is_refused),
		cmocka_unit_test(nothing_is_overtaken),
		cmocka_unit_test(what_was_executed_is_followed_at_once),
		cmocka_unit_test(a_qp_that_fails_meanwhile),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(a_qp_that_ends),
		cmocka_unit_test(memory_that_is_lost),
		cmocka_unit_test(lists_of_sges),
		cmocka_unit_test(a_stream_whose_memory_is_mapped),
		cmocka_unit_test(writes_between_sends_wait_for_nobody),
		cmocka_unit_test(atomics_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
