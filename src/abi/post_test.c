/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts, polls and events: post.c, wr.c, poll.c, cq_ex.c, event.c. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "abi/fix.h"
#include "core/cq.h"
#include "core/path.h"
#include "core/transport.h"

static struct swqe *last(struct ibv_qp *qp)
{
	return sq_at(&qp_of(qp)->sq, qp_of(qp)->sq.head - 1);
}

/* --- chains -------------------------------------------------------------------- */

static void posts(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_send_wr second = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad = NULL;
	struct ibv_send_wr first = { .wr_id = 1, .next = &second, .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(abi_post_send(qp, &first, &bad), 0);
	assert_int_equal(last(qp)->wr_id, 2);
	assert_string_equal(fix_said(), "post");
	assert_int_equal(fix.number, qp->qp_num);
	assert_false(fix.nested);
	/* What stands before a bad one goes. */
	second.opcode = IBV_WR_DRIVER1;
	fix_errno(abi_post_send(qp, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	assert_int_equal(last(qp)->wr_id, 1);
	assert_string_equal(fix_said(), "post");
	/* In a handler that interrupted one of our calls. */
	abi_begin();
	assert_int_equal(abi_post_send(qp, &first, &bad), EINVAL);
	assert_true(fix.nested);
	abi_end();
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static bool done_at_once(struct qp *qp, const struct ibv_sge *sge)
{
	(void)sge;
	qp_is_held(qp);
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, fix.now);
	return true;
}

/* What is done when it is posted is not for the engine. */
static void posts_what_is_done_at_once(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_sge sge = { .length = 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;
	struct transport quick = *qp_of(qp)->transport;
	struct ibv_wc wc;

	(void)state;
	quick.at_once = done_at_once;
	qp_of(qp)->transport = &quick;
	qp_of(qp)->at_once = true;
	errno = 0;
	assert_int_equal(abi_post_send(qp, &wr, &bad), 0);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(errno, 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(abi_poll_cq(fix.cq, 1, &wc), 1);
	assert_int_equal(abi_poll_cq(fix.cq, 1, &wc), 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void posts_receives(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_srq *srq = fix_srq();
	struct ibv_recv_wr second = { .wr_id = 2, .num_sge = 99 }, *bad;
	struct ibv_recv_wr first = { .wr_id = 1, .next = &second };

	(void)state;
	bad = NULL;
	fix_errno(abi_post_recv(qp, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	assert_int_equal(qp_of(qp)->rq.head, 1);
	bad = NULL;
	fix_errno(abi_post_srq_recv(srq, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	second.num_sge = 0;
	assert_int_equal(abi_post_recv(qp, &first, &bad), 0);
	assert_int_equal(qp_of(qp)->rq.head, 3);
	assert_int_equal(abi_post_srq_recv(srq, &second, &bad), 0);
	assert_string_equal(fix_said(), ""); /* nothing is sent */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void posts_to_a_dead_context(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_srq *srq = fix_srq();
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send = NULL;
	struct ibv_recv_wr recv = { 0 }, *bad_recv = NULL, *bad_srq = NULL;
	struct ibv_cq *cq = fix.cq;
	struct ibv_wc wc;

	(void)state;
	abi_of(fix.ibv)->ctx.dead = true;
	fix_errno(abi_post_send(qp, &send, &bad_send), EIO);
	fix_errno(abi_post_recv(qp, &recv, &bad_recv), EIO);
	fix_errno(abi_post_srq_recv(srq, &recv, &bad_srq), EIO);
	assert_ptr_equal(bad_send, &send);
	assert_ptr_equal(bad_recv, &recv);
	assert_ptr_equal(bad_srq, &recv);
	assert_int_equal(abi_poll_cq(cq, 1, &wc), -EIO);
	fix_errno(abi_req_notify_cq(cq, 0), EIO);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(cq->comp_events_completed, 0);
	assert_string_equal(fix_said(), "");
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(qp_of(qp)->sq.head, 0);
	assert_int_equal(qp_of(qp)->rq.head, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* --- piece by piece ---------------------------------------------------------------- */

/* The first: a request without what belongs to it. */
static void pieces(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct qp *q = qp_of(qp);
	const struct ibv_sge list[2] = { { 0x10, 1, 3 }, { 0x20, 2, 3 } };
	struct ibv_data_buf buf[2] = { { fix.memory, 2 }, { fix.memory, 3 } };
	struct ibv_mw *mw = abi_alloc_mw(fix.pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	const struct ibv_mw_bind_info info = { .mr = mr,
					       .addr = (uintptr_t)fix.memory,
					       .length = 8,
					       .mw_access_flags =
						       IBV_ACCESS_REMOTE_READ };
	const struct {
		enum ibv_wr_opcode opcode;
		uint32_t imm, rkey, length;
		uint64_t addr;
	} expected[] = {
		{ IBV_WR_SEND, 0, 0, 3, 0 },
		{ IBV_WR_SEND_WITH_IMM, 0x11, 0, 0, 0 },
		{ IBV_WR_SEND_WITH_INV, 0x12, 0, 2, 0 },
		{ IBV_WR_LOCAL_INV, 0x13, 0, 0, 0 },
		{ IBV_WR_RDMA_WRITE, 0, 0x14, 5, 0x140 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 0x16, 0x15, 0, 0x150 },
		{ IBV_WR_RDMA_READ, 0, 0x17, 8, 0x170 },
		{ IBV_WR_BIND_MW, mw->rkey + 1, mr->lkey, 0, 0 },
	};

	(void)state;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 2, list);
	ibv_wr_send_imm(ex, 0x11);
	ibv_wr_send_inv(ex, 0x12);
	ibv_wr_set_inline_data(ex, fix.memory, 2);
	ibv_wr_local_inv(ex, 0x13);
	ibv_wr_rdma_write(ex, 0x14, 0x140);
	ibv_wr_set_inline_data_list(ex, 2, buf);
	ibv_wr_rdma_write_imm(ex, 0x15, 0x150, 0x16);
	ibv_wr_rdma_read(ex, 0x17, 0x170);
	ibv_wr_set_sge(ex, 3, 0x18, 8);
	ibv_wr_bind_mw(ex, mw, mw->rkey + 1, &info);
	assert_string_equal(fix_said(), "");
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_string_equal(fix_said(), "post");
	assert_int_equal(q->sq.head, 8);
	for (uint32_t i = 0; i < 8; i++) {
		const struct swqe *w = sq_at(&q->sq, i);

		assert_int_equal(w->opcode, expected[i].opcode);
		assert_int_equal(w->imm, expected[i].imm);
		assert_int_equal(w->rkey, expected[i].rkey);
		if (w->opcode == IBV_WR_BIND_MW) {
			assert_int_equal(w->bind.info.length, 8);
			continue;
		}
		assert_int_equal(w->length, expected[i].length);
		assert_int_equal(w->remote_addr, expected[i].addr);
	}
	q->sq.tail = q->sq.head;
	assert_int_equal(abi_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void atomic_pieces(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	const struct swqe *w;

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_atomic_cmp_swp(ex, 1, 0x20, 3, 4);
	ibv_wr_set_sge(ex, 3, 0x18, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	w = last(qp);
	assert_int_equal(w->opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	assert_int_equal(w->rkey, 1);
	assert_int_equal(w->remote_addr, 0x20);
	assert_int_equal(w->atomic.compare_add, 3);
	assert_int_equal(w->atomic.swap, 4);
	ibv_wr_start(ex);
	ibv_wr_atomic_fetch_add(ex, 5, 0x60, 7);
	ibv_wr_set_sge(ex, 3, 0x18, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	w = last(qp);
	assert_int_equal(w->opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	assert_int_equal(w->rkey, 5);
	assert_int_equal(w->remote_addr, 0x60);
	assert_int_equal(w->atomic.compare_add, 7);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void datagram_pieces(void **state)
{
	struct ibv_ah_attr path = fix_path();
	struct ibv_ah *ah = ibv_create_ah(fix.pd, &path);
	struct ibv_qp *qp = fix_rts(IBV_QPT_UD);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 0x55, 0x66);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(last(qp)->ud.qpn, 0x55);
	assert_int_equal(last(qp)->ud.qkey, 0x66);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void the_srq_of_xrc(void **state)
{
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	(void)state;
	assert_non_null(ex->wr_set_xrc_srqn);
	ibv_wr_start(ex);
	ex->wr_set_xrc_srqn(ex, 7); /* of no request: an error, or nothing */
	ibv_wr_abort(ex);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* What there is not: the piece is refused, and with it all. */
static void refused_pieces(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct qp *q = qp_of(qp);

	(void)state;
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		if (i)
			ibv_wr_send_tso(ex, NULL, 0, 0);
		else
			ex->wr_atomic_write(ex, 1, 2, NULL);
		fix_errno(ibv_wr_complete(ex), EINVAL);
		assert_int_equal(q->sq.head, 0);
		assert_string_equal(fix_said(), "");
	}
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	assert_int_equal(q->sq.head, 0);
	assert_false(q->building);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The context dies before, or while, a request is built. */
static void pieces_of_a_dead_context(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct context *ctx = &abi_of(fix.ibv)->ctx;
	struct qp *q = qp_of(qp);

	(void)state;
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ctx->dead = true;
		if (i)
			ibv_wr_abort(ex);
		else
			fix_errno(ibv_wr_complete(ex), EIO);
		assert_false(q->building); /* who waits for it goes on */
		ctx->dead = false;
	}
	ctx->dead = true;
	ibv_wr_start(ex);
	assert_false(q->building);
	assert_int_equal(q->wr_err, -EIO);
	fix_errno(ibv_wr_complete(ex), EIO);
	/* In a child, the lock may be a thread's that it has not. */
	ctx->dead = false;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ctx->dead = true;
	abi_of(fix.ibv)->pid++;
	fix_errno(ibv_wr_complete(ex), EIO);
	assert_true(q->building);
	abi_of(fix.ibv)->pid--;
	ibv_wr_abort(ex);
	ctx->dead = false;
	assert_int_equal(q->sq.head, 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void no_pieces_unless_asked_for(void **state)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = fix.cq,
		.recv_cq = fix.cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(fix.pd, &attr);

	(void)state;
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* --- polls ------------------------------------------------------------------------- */

static struct ibv_qp *sender;

static void send_n(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND }, *bad;

	assert_int_equal(abi_post_send(qp, &wr, &bad), 0);
}

static void complete_one(void)
{
	if (qp_of(sender)->sq.tail != qp_of(sender)->sq.head)
		fix_complete(sender, IBV_WC_SUCCESS);
}

/* An empty CQ: the poller drives the NIC, once. */
static void polls(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	sender = fix_rts(IBV_QPT_RC);
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 0);
	assert_string_equal(fix_said(), "poll");
	assert_int_equal(abi_poll_cq(fix.cq, 0, wc), 0);
	assert_string_equal(fix_said(), "polled");
	send_n(sender, 1);
	send_n(sender, 2);
	send_n(sender, 3);
	fix_said();
	fix.polled = complete_one;
	assert_int_equal(abi_poll_cq(fix.cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 1);
	assert_string_equal(fix_said(), "poll");
	complete_one();
	complete_one();
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 1);
	assert_string_equal(fix_said(), "polled");
	abi_begin(); /* in a handler */
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 0);
	abi_end();
	assert_string_equal(fix_said(), "");
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(ibv_destroy_qp(sender), 0);
}

static void arms(void **state)
{
	(void)state;
	assert_int_equal(abi_req_notify_cq(fix.cq, 7), 0);
	assert_int_equal(cq_of(fix.cq)->armed, CQ_SOLICITED);
	assert_int_equal(abi_req_notify_cq(fix.cq, 0), 0);
	assert_int_equal(cq_of(fix.cq)->armed, CQ_ANY);
	assert_string_equal(fix_said(), "armed armed");
}

/* --- reading a completion ------------------------------------------------------------
 */

static struct ibv_cq_ex *make_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_cq_ex *ex = abi_create_cq_ex(fix.ibv, &attr);

	assert_non_null(ex);
	return ex;
}

static struct cq *inside(struct ibv_cq_ex *ex)
{
	return cq_of((struct ibv_cq *)ex);
}

static void push(struct ibv_cq_ex *ex, uint64_t wr_id)
{
	const struct cqe e = {
		.wr_id = wr_id,
		.now = 500,
		.byte_len = 1,
		.imm = 2,
		.qp_num = 3,
		.src_qp = 4,
		.vendor_err = 5,
		.status = 6,
		.opcode = 7,
		.flags = 8,
		.sl = 9,
		.dlid_path_bits = 10,
		.slid = 11,
	};

	assert_true(cq_push(inside(ex), &e, false));
}

static uint64_t wall_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void reads_each_field(void **state)
{
	struct ibv_cq_ex *ex = make_cq_ex();
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t wall, before;

	(void)state;
	push(ex, 4711);
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_string_equal(fix_said(), "polled");
	assert_int_equal(ex->wr_id, 4711);
	assert_int_equal(ex->status, 6);
	assert_int_equal(ibv_wc_read_byte_len(ex), 1);
	assert_int_equal(ibv_wc_read_imm_data(ex), 2);
	assert_int_equal(ibv_wc_read_qp_num(ex), 3);
	assert_int_equal(ibv_wc_read_src_qp(ex), 4);
	assert_int_equal(ibv_wc_read_vendor_err(ex), 5);
	assert_int_equal(ibv_wc_read_opcode(ex), 7);
	assert_int_equal(ibv_wc_read_wc_flags(ex), 8);
	assert_int_equal(ibv_wc_read_sl(ex), 9);
	assert_int_equal(ibv_wc_read_dlid_path_bits(ex), 10);
	assert_int_equal(ibv_wc_read_slid(ex), 11);
	assert_int_equal(ibv_wc_read_completion_ts(ex), 500);
	fix.now = 500 + 3600000000000; /* an hour ago */
	before = wall_clock();
	wall = ibv_wc_read_completion_wallclock_ns(ex) + 3600000000000;
	assert_in_range(wall, before, wall_clock());
	ibv_end_poll(ex);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)ex), 0);
}

static void push_two(void)
{
	push((struct ibv_cq_ex *)fix.cq, 1);
	push((struct ibv_cq_ex *)fix.cq, 2);
}

/* The first of them drives the NIC; those behind it do not. */
static void reads_one_after_another(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq *plain = fix.cq;
	struct ibv_cq_ex *ex = make_cq_ex();
	struct lock *l = &inside(ex)->reader;

	(void)state;
	fix.cq = (struct ibv_cq *)ex;
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	assert_string_equal(fix_said(), "poll");
	lock_take(l); /* it is free again */
	lock_give(l);
	fix.polled = push_two;
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_int_equal(ex->wr_id, 1);
	assert_string_equal(fix_said(), "poll");
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 2);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	assert_string_equal(fix_said(), "");
	/* The same thread once more, as in a handler: it would wait for itself. */
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	ibv_end_poll(ex);
	fix.polled = NULL;
	attr.comp_mask = 1;
	assert_int_equal(ibv_start_poll(ex, &attr), EINVAL);
	attr.comp_mask = 0;
	abi_begin();
	push(ex, 3);
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	abi_end();
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_int_equal(ex->wr_id, 3);
	abi_of(fix.ibv)->ctx.dead = true;
	assert_int_equal(ibv_next_poll(ex), EIO);
	ibv_end_poll(ex);
	fix_errno(ibv_start_poll(ex, &attr), EIO);
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(ibv_destroy_cq(fix.cq), 0);
	fix.cq = plain;
}

/* A thread may read one CQ while it reads another, unless somebody else does. */
static void reads_two(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *a = make_cq_ex(), *b = make_cq_ex();
	struct lock *l = &inside(b)->reader;

	(void)state;
	push(a, 1);
	push(b, 2);
	assert_int_equal(ibv_start_poll(a, &attr), 0);
	assert_int_equal(ibv_start_poll(b, &attr), 0);
	assert_int_equal(b->wr_id, 2);
	ibv_end_poll(b);
	push(b, 3);
	lock_take(l);
	assert_int_equal(ibv_start_poll(b, &attr), ENOENT);
	lock_give(l);
	ibv_end_poll(a);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)a), 0);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)b), 0);
}

static pthread_barrier_t both;

/* Has read, also in vain, and reads again while somebody else does. */
static void *reader(void *arg)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *ex = arg;

	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	ibv_end_poll(ex);
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both); /* the other has it */
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	ibv_end_poll(ex);
	return NULL;
}

/* A reader that reads nothing else waits for another. */
static void waits_for_another_reader(void **state)
{
	struct ibv_cq_ex *ex = make_cq_ex();
	struct lock *l = &inside(ex)->reader;
	pthread_t t;

	(void)state;
	pthread_barrier_init(&both, NULL, 2);
	push(ex, 1);
	assert_int_equal(pthread_create(&t, NULL, reader, ex), 0);
	pthread_barrier_wait(&both);
	lock_take(l);
	push(ex, 2);
	pthread_barrier_wait(&both);
	while (lock_look(l) != LOCK_AWAITED)
		sched_yield();
	lock_give(l);
	assert_int_equal(pthread_join(t, NULL), 0);
	pthread_barrier_destroy(&both);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)ex), 0);
}

/* --- events ----------------------------------------------------------------------------
 */

static void completion_events(void **state)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(fix.ibv);
	struct ibv_cq *cq, *got = NULL;
	const struct cqe e = { 0 };
	void *arg = NULL;
	int mark;

	(void)state;
	assert_ptr_equal(ch->context, fix.ibv);
	cq = ibv_create_cq(fix.ibv, 4, &mark, ch, 0);
	assert_ptr_equal(cq->channel, ch);
	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	fix_minus(ibv_get_cq_event(ch, &got, &arg), EAGAIN);
	fix_minus(ibv_get_cq_event(NULL, &got, &arg), EBADF);
	assert_int_equal(abi_req_notify_cq(cq, 0), 0);
	assert_true(cq_push(cq_of(cq), &e, false));
	assert_int_equal(ibv_get_cq_event(ch, &got, &arg), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(arg, &mark);
	assert_int_equal(cq->comp_events_completed, 0);
	ibv_ack_cq_events(cq, 0);
	ibv_ack_cq_events(NULL, 1);
	assert_int_equal(cq->comp_events_completed, 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(cq->comp_events_completed, 1);
	fix_errno(ibv_destroy_comp_channel(ch), EBUSY);
	abi_of(fix.ibv)->ctx.dead = true;
	fix_minus(ibv_get_cq_event(ch, &got, &arg), EIO);
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

static void asynchronous_events(void **state)
{
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);
	struct ibv_async_event ev;

	(void)state;
	assert_int_equal(fcntl(fix.ibv->async_fd, F_SETFL, O_NONBLOCK), 0);
	fix_minus(ibv_get_async_event(fix.ibv, &ev), EAGAIN);
	async_raise(&abi_of(fix.ibv)->ctx, IBV_EVENT_QP_FATAL, qp);
	abi_of(fix.ibv)->ctx.dead = true; /* it says why */
	assert_int_equal(ibv_get_async_event(fix.ibv, &ev), 0);
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(ev.event_type, IBV_EVENT_QP_FATAL);
	assert_ptr_equal(ev.element.qp, qp);
	assert_int_equal(qp->events_completed, 0);
	ibv_ack_async_event(&ev);
	assert_int_equal(qp->events_completed, 1);
	abi_of(fix.ibv)->pid++; /* it is the parent's */
	fix_minus(ibv_get_async_event(fix.ibv, &ev), EIO);
	abi_of(fix.ibv)->pid--;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* --- cancellation
 * ------------------------------------------------------------------------ */

/* A control call is not cancelled, nor is one inside of it; then it is as before. */
static void cancellation(void **state)
{
	int was;

	(void)state;
	abi_begin();
	abi_hold();
	abi_hold();
	abi_begin();
	abi_hold();
	abi_end();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
	abi_end();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_open, fix_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(posts),
		TEST(posts_what_is_done_at_once),
		TEST(posts_receives),
		TEST(posts_to_a_dead_context),
		TEST(pieces),
		TEST(atomic_pieces),
		TEST(datagram_pieces),
		TEST(the_srq_of_xrc),
		TEST(refused_pieces),
		TEST(pieces_of_a_dead_context),
		TEST(no_pieces_unless_asked_for),
		TEST(polls),
		TEST(arms),
		TEST(reads_each_field),
		TEST(reads_one_after_another),
		TEST(reads_two),
		TEST(waits_for_another_reader),
		TEST(completion_events),
		TEST(asynchronous_events),
		TEST(cancellation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
