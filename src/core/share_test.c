/* SPDX-License-Identifier: BSD-2-Clause */
/* share_test.c - target QPs of XRC that several handles name, in two processes. Messages
 * between the processes lie in a queue, which is delivered when a verb waits, or when
 * the test says so. */
#include "core/share.h"

#include "core/qp_fixture.h"
#include <stdio.h>
#include <sys/mman.h>

#include "core/opened.h"
#include "core/share_own.h"
#include "core/shared.h"
#include "core/xrc.h"

enum { QUEUE = 256, MS = 1000000, RANDOM_HANDLES = 8 };

static struct {
	struct fix *f[2]; /* f[0] is the process that has created the QP */
	struct xrcd *xrcd[2];
	struct {
		int to;
		struct share_msg m;
	} queue[QUEUE];
	unsigned first, last;
	int full; /* so many times from now on the connection is full */
	/* One of so many messages is refused as by a full connection, or is taken and
	 * lost. 0: none is. */
	int spoil, lose;
	unsigned seed;
	bool stopped; /* the QP's process does not run */
	uint64_t now;
	int prepared;
	struct qp *qp;
} lab;

static uint64_t lab_now(void)
{
	return lab.now;
}

static int lab_pass(void *arg, uint16_t slot, const struct iovec *part, unsigned n)
{
	(void)arg;
	assert_int_equal(n, 1);
	if (slot != FIX_SLOT && slot != FIX_SLOT + 1)
		return -ESRCH;
	if (lab.full > 0) {
		lab.full--;
		return -EAGAIN;
	}
	if (lab.spoil && rand_r(&lab.seed) % lab.spoil == 0)
		return -EAGAIN;
	if (lab.lose && rand_r(&lab.seed) % lab.lose == 0)
		return 0;
	assert_true(lab.last - lab.first < QUEUE);
	lab.queue[lab.last % QUEUE].to = slot - FIX_SLOT;
	memcpy(&lab.queue[lab.last++ % QUEUE].m, part->iov_base, part->iov_len);
	return 0;
}

static void deliver(void)
{
	while (lab.first != lab.last &&
	       !(lab.stopped && lab.queue[lab.first % QUEUE].to == 0)) {
		const struct share_msg m = lab.queue[lab.first % QUEUE].m;
		const int to = lab.queue[lab.first++ % QUEUE].to;
		struct core *core = &lab.f[to]->core;

		turn_take(&core->turn);
		assert_true(share_heard(core, (uint16_t)(FIX_SLOT + !to), &m, sizeof(m)));
		turn_give(&core->turn);
	}
}

static void run(void)
{
	lab.now += 10 * MS;
	for (int i = 0; i < 2; i++) {
		struct core *core = &lab.f[i]->core;

		turn_take(&core->turn);
		if (!(lab.stopped && i == 0) && share_deadline(core) <= lab.now)
			share_run(core, lab.now);
		turn_give(&core->turn);
	}
	deliver();
}

static void settle(void)
{
	for (int i = 0; i < 30; i++)
		run();
}

static void lab_settle(void *arg)
{
	(void)arg;
}

static void lab_wait(void *arg, struct lock_cond *c, uint32_t seen)
{
	(void)arg;
	(void)c;
	(void)seen;
	run();
}

static int lab_prepare(void *arg, struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	(void)arg;
	(void)attr;
	(void)mask;
	assert_ptr_equal(qp, lab.qp);
	lab.prepared++;
	return 0;
}

static const struct share_ops ops = {
	.pass = lab_pass,
	.prepare = lab_prepare,
	.settle = lab_settle,
	.wait = lab_wait,
	.now = lab_now,
};

static struct xrcd *domain(struct fix *f, int fd)
{
	const struct ibv_xrcd_init_attr a = {
		IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, O_CREAT
	};
	struct xrcd *x;

	assert_int_equal(xrcd_open(&f->ctx, &a, &x), 0);
	return x;
}

static struct qp *target(struct fix *f, struct xrcd *x)
{
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_XRC_RECV);
	struct qp *qp;

	a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	a.xrcd = &x->ibv;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	return qp;
}

static void lab_open(void)
{
	int fd = memfd_create("xrc", 0);

	memset(&lab, 0, sizeof(lab));
	for (int i = 0; i < 2; i++) {
		lab.f[i] = fix_open(8);
		lab.f[i]->core.slot = (uint16_t)(FIX_SLOT + i);
		assert_int_equal(share_open(&lab.f[i]->core, &ops, NULL), 0);
		list_add_tail(&lab.f[i]->core.contexts, &lab.f[i]->ctx.node);
		lab.xrcd[i] = domain(lab.f[i], fd);
	}
	lab.f[1]->dev->guid = lab.f[0]->dev->guid;
	close(fd);
	lab.qp = target(lab.f[0], lab.xrcd[0]);
}

/* Closes all, and checks that no handle is left. */
static void lab_close(void)
{
	settle();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(lab.f[i]->core.qps.count, 0);
		assert_true(list_empty(&lab.f[i]->core.xrc.share->openers));
		assert_true(list_empty(&lab.f[i]->core.xrc.share->opened));
		assert_int_equal(xrcd_close(lab.xrcd[i]), 0);
		assert_true(list_empty(&lab.f[i]->core.xrc.domains));
		share_close(&lab.f[i]->core);
		list_del(&lab.f[i]->ctx.node);
		fix_close(lab.f[i]);
	}
}

static int try_open(int who, uint32_t qpn, struct qp **out)
{
	const struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qpn,
		.xrcd = &lab.xrcd[who]->ibv,
		.qp_type = IBV_QPT_XRC_RECV,
		.qp_context = &lab,
	};

	return opened_open(&lab.f[who]->ctx, &a, out);
}

static struct qp *opened(int who)
{
	struct qp *h;

	assert_int_equal(try_open(who, lab.qp->qpn, &h), 0);
	return h;
}

static int to(struct qp *h, enum ibv_qp_state state)
{
	const struct ibv_qp_attr a = fix_attr(state);

	return opened_modify(h, &a,
			     state == IBV_QPS_INIT  ? TO_INIT_RC
			     : state == IBV_QPS_RTR ? TO_RTR_RC
						    : IBV_QP_STATE);
}

static enum ibv_qp_state state_by(struct qp *h)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(opened_query(h, &a, &init), 0);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	assert_ptr_equal(init.qp_context, &lab);
	return a.qp_state;
}

static void fails(int event)
{
	turn_take(&lab.f[0]->core.turn);
	lock_take(&lab.qp->lock);
	qp_fail(lab.qp, false, event, lab.now);
	lock_give(&lab.qp->lock);
	turn_give(&lab.f[0]->core.turn);
}

static void gone(int who, int other)
{
	struct core *core = &lab.f[who]->core;

	turn_take(&core->turn);
	share_gone(core, (uint16_t)(FIX_SLOT + other));
	turn_give(&core->turn);
}

/* --- by each kind of opener: another process, and the QP's own -------------------------
 */

static void a_handle_is_the_qp(void **state)
{
	(void)state;
	for (int who = 0; who < 2; who++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr a;
		struct qp *h;

		lab_open();
		h = opened(who);
		assert_int_equal(h->ex.qp_base.qp_num, lab.qp->qpn);
		assert_int_equal(h->ex.qp_base.state, IBV_QPS_UNKNOWN);
		assert_ptr_equal(h->ex.qp_base.qp_context, &lab);
		assert_ptr_equal(h->ex.qp_base.context, &lab.f[who]->ibv);
		assert_int_equal(state_by(h), IBV_QPS_RESET);
		assert_int_equal(to(h, IBV_QPS_RTR), -EINVAL);
		assert_int_equal(to(h, IBV_QPS_INIT), 0);
		assert_int_equal(lab.qp->state, IBV_QPS_INIT);
		assert_int_equal(to(h, IBV_QPS_RTR), 0);
		assert_int_equal(lab.qp->state, IBV_QPS_RTR);
		assert_int_equal(lab.prepared, 3);
		assert_int_equal(opened_query(h, &a, &init), 0);
		assert_int_equal(a.dest_qp_num, 0x1234);
		assert_int_equal(a.rq_psn, 77);
		fails(IBV_EVENT_QP_REQ_ERR);
		deliver();
		assert_int_equal(fix_event(lab.f[0], &lab.qp->ex.qp_base),
				 IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(fix_event(lab.f[who], &h->ex.qp_base),
				 IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(state_by(h), IBV_QPS_ERR);
		opened_destroy(h);
		settle();
		assert_int_equal(lab.f[0]->core.qps.count, 1);
		assert_false(shared_leave(lab.qp));
		assert_int_equal(qp_destroy(lab.qp), 0);
		lab_close();
	}
}

static void a_handle_posts_nothing(void **state)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	assert_int_equal(qp_post_recv(h, &recv, &bad_recv), -EINVAL);
	assert_int_equal(qp_post_send(h, &send, &bad_send), -EINVAL);
	assert_int_equal(xrcd_close(lab.xrcd[1]), -EBUSY);
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

static void the_last_handle_ends_the_qp(void **state)
{
	(void)state;
	for (int who = 0; who < 2; who++) {
		struct qp *a, *b;

		lab_open();
		a = opened(who);
		b = opened(!who);
		assert_true(shared_leave(lab.qp));
		/* Handle a or b uses the domain. */
		assert_int_equal(xrcd_close(lab.xrcd[0]), -EBUSY);
		assert_int_equal(to(a, IBV_QPS_INIT), 0);
		assert_int_equal(state_by(b), IBV_QPS_INIT);
		/* Raises an event; the creator's handle is closed. */
		fails(IBV_EVENT_QP_FATAL);
		deliver();
		assert_int_equal(fix_event(lab.f[who], &a->ex.qp_base),
				 IBV_EVENT_QP_FATAL);
		assert_int_equal(fix_event(lab.f[!who], &b->ex.qp_base),
				 IBV_EVENT_QP_FATAL);
		assert_int_equal(fix_event(lab.f[0], NULL), -1);
		opened_destroy(a);
		settle();
		assert_int_equal(fake.closed, 0);
		opened_destroy(b);
		settle();
		assert_int_equal(fake.closed, 1);
		lab_close();
	}
}

/* A handle also keeps the QP's XRC domain: the program may close its own handle of the
 * domain. */
static void the_qp_keeps_its_domain(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	assert_true(shared_leave(lab.qp));
	assert_int_equal(xrcd_close(lab.xrcd[0]), 0);
	assert_false(list_empty(&lab.f[0]->core.xrc.domains));
	opened_destroy(h);
	settle();
	assert_true(list_empty(&lab.f[0]->core.xrc.domains));
	lab.xrcd[0] = domain(lab.f[0], -1);
	lab_close();
}

static void what_cannot_be_opened(void **state)
{
	struct xrcd *other, *own;
	struct qp *h, *rc, *b;
	struct ibv_qp_open_attr a;

	(void)state;
	lab_open();
	assert_int_equal(try_open(1, qpn_make(FIX_SLOT, 9999), &h), -EINVAL);
	assert_int_equal(try_open(1, qpn_make(FIX_SLOT + 1, 9999), &h), -EINVAL);
	/* No process has that slot. */
	assert_int_equal(try_open(1, qpn_make(77, 5), &h), -EINVAL);
	assert_int_equal(try_open(1, 1u << 24 | lab.qp->qpn, &h), -EINVAL);
	rc = fix_qp(lab.f[0], IBV_QPT_RC);
	assert_int_equal(try_open(1, rc->qpn, &h), -EINVAL);
	assert_int_equal(try_open(0, rc->qpn, &h), -EINVAL);
	assert_int_equal(qp_destroy(rc), 0);
	/* Unnamed domains (without a file) look the same to another process, so it may
	 * not open their QPs. */
	other = domain(lab.f[0], -1);
	own = lab.xrcd[0];
	b = target(lab.f[0], other);
	assert_int_equal(try_open(0, b->qpn, &h), -EINVAL);
	assert_int_equal(try_open(1, b->qpn, &h), -EINVAL);
	lab.xrcd[0] = domain(lab.f[0], -1);
	assert_int_equal(try_open(0, b->qpn, &h), -EINVAL);
	assert_int_equal(xrcd_close(lab.xrcd[0]), 0);
	lab.xrcd[0] = other;
	assert_int_equal(try_open(0, b->qpn, &h), 0);
	opened_destroy(h);
	lab.xrcd[0] = own;
	assert_int_equal(qp_destroy(b), 0);
	assert_int_equal(xrcd_close(other), 0);
	/* The attributes that ibv_open_qp requires. */
	a = (struct ibv_qp_open_attr){ .comp_mask = 7,
				       .qp_num = lab.qp->qpn,
				       .xrcd = &lab.xrcd[1]->ibv,
				       .qp_type = IBV_QPT_XRC_RECV };
	for (unsigned bit = 1; bit < 16; bit <<= 1) {
		a.comp_mask = (IBV_QP_OPEN_ATTR_RESERVED - 1) & ~bit;
		if (bit == IBV_QP_OPEN_ATTR_CONTEXT)
			continue;
		assert_int_equal(opened_open(&lab.f[1]->ctx, &a, &h), -EINVAL);
	}
	a.comp_mask = IBV_QP_OPEN_ATTR_RESERVED;
	assert_int_equal(opened_open(&lab.f[1]->ctx, &a, &h), -EOPNOTSUPP);
	a.comp_mask = IBV_QP_OPEN_ATTR_RESERVED - 1;
	a.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(opened_open(&lab.f[1]->ctx, &a, &h), -EINVAL);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* --- ends ------------------------------------------------------------------------------
 */

static void the_end_of_the_qp_is_told(void **state)
{
	struct qp *h[2];

	(void)state;
	lab_open();
	h[0] = opened(0);
	h[1] = opened(1);
	lab.full = 1;
	assert_int_equal(qp_destroy(lab.qp), 0); /* the creator's context is closed */
	settle();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fix_event(lab.f[i], &h[i]->ex.qp_base),
				 IBV_EVENT_QP_FATAL);
		assert_int_equal(state_by(h[i]), IBV_QPS_ERR);
		assert_int_equal(to(h[i], IBV_QPS_RESET), -EIO);
		opened_destroy(h[i]);
	}
	lab_close();
}

static void the_end_of_its_process_is_seen(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	gone(1, 0);
	gone(0, 1); /* both ends are told that the connection has ended */
	assert_int_equal(fix_event(lab.f[1], &h->ex.qp_base), IBV_EVENT_QP_FATAL);
	assert_int_equal(fix_event(lab.f[1], NULL), -1);
	assert_int_equal(state_by(h), IBV_QPS_ERR);
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

static void an_opener_that_ends_has_closed(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	assert_true(shared_leave(lab.qp));
	gone(0, 1);
	assert_int_equal(fake.closed, 1);
	gone(1, 0);
	assert_int_equal(fix_event(lab.f[1], &h->ex.qp_base), IBV_EVENT_QP_FATAL);
	opened_destroy(h);
	lab_close();
}

static void another_context_takes_the_qp_over(void **state)
{
	struct context second;
	struct qp *h;

	(void)state;
	lab_open();
	second = lab.f[0]->ctx;
	h = opened(1);
	assert_true(shared_leave(lab.qp));
	list_del(&lab.f[0]->ctx.node);
	list_add_tail(&lab.f[0]->core.contexts, &second.node);
	shared_forget_context(&lab.f[0]->ctx);
	assert_ptr_equal(lab.qp->ctx, &second);
	list_del(&second.node);
	shared_forget_context(&second); /* the process has no other context */
	assert_int_equal(fake.closed, 1);
	settle();
	assert_int_equal(fix_event(lab.f[1], &h->ex.qp_base), IBV_EVENT_QP_FATAL);
	opened_destroy(h);
	list_add_tail(&lab.f[0]->core.contexts, &lab.f[0]->ctx.node);
	lab_close();
}

static void a_process_that_is_stopped_is_not_waited_for_for_ever(void **state)
{
	struct qp *h, *none;

	(void)state;
	lab_open();
	h = opened(1);
	lab.stopped = true;
	assert_int_equal(to(h, IBV_QPS_INIT), -ETIMEDOUT);
	assert_int_equal(try_open(1, lab.qp->qpn, &none), -ETIMEDOUT);
	lab.stopped = false;
	settle(); /* the handle that was opened after the timeout is closed */
	assert_int_equal(lab.f[0]->core.xrc.share->nopeners[FIX_SLOT + 1], 1);
	/* The modify was carried out all the same. */
	assert_int_equal(state_by(h), IBV_QPS_INIT);
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* Two connections may join two processes for a moment, so a message to open can come
 * after the end. */
static void a_handle_that_opens_after_its_end_is_closed(void **state)
{
	struct share_msg m = { .what = SHARE_ASK, .op = SHARE_OPEN, .id = 99, .seq = 1 };
	struct core *core;

	(void)state;
	lab_open();
	core = &lab.f[0]->core;
	m.qpn = lab.qp->qpn;
	assert_true(xrcd_name(lab.xrcd[1], &m.name));
	turn_take(&core->turn);
	assert_true(share_heard(core, FIX_SLOT + 1, &m, sizeof(m)));
	assert_int_equal(core->xrc.share->nopeners[FIX_SLOT + 1], 1);
	turn_give(&core->turn);
	deliver();
	assert_int_equal(core->xrc.share->nopeners[FIX_SLOT + 1], 0);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

static void whoever_waits_is_not_left_where_all_is_lost(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	lab.stopped = true;
	lab.f[1]->core.dead = true;
	assert_int_equal(to(h, IBV_QPS_INIT), -EIO);
	assert_true(lab.now < 1000 * MS);
	share_break(&lab.f[1]->core);
	assert_int_not_equal(lab.f[1]->core.xrc.share->answered.changes, 0);
	lab.f[1]->core.dead = lab.stopped = false;
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* --- invalid and lost messages
 * ---------------------------------------------------------- */

static void garbage_harms_nobody(void **state)
{
	const char *env = getenv("URNIC_TEST_SEED");
	unsigned seed = env ? (unsigned)atoi(env) : 1;
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	print_message("URNIC_TEST_SEED=%u\n", seed);
	for (int i = 0; i < 20000; i++) {
		struct share_msg m = { .what = (uint8_t)(SHARE_ASK + rand_r(&seed) % 4),
				       .op = (uint8_t)(rand_r(&seed) % 6),
				       .qpn = lab.qp->qpn,
				       .id = (uint32_t)rand_r(&seed) % 3 + 100,
				       .seq = (uint32_t)rand_r(&seed) % 4 };
		uint8_t *byte = (uint8_t *)&m;
		int at = rand_r(&seed) % 2;

		for (int k = rand_r(&seed) % 4; k; k--)
			byte[8 + (size_t)rand_r(&seed) % (sizeof(m) - 8)] ^=
				(uint8_t)(1 << rand_r(&seed) % 8);
		if (m.id == 1)
			continue; /* the id of handle h, which these messages would change
				   */
		turn_take(&lab.f[at]->core.turn);
		share_heard(&lab.f[at]->core, (uint16_t)(FIX_SLOT + !at), &m,
			    rand_r(&seed) % 8 ? sizeof(m) : (size_t)rand_r(&seed) % 40);
		turn_give(&lab.f[at]->core.turn);
		deliver();
	}
	assert_int_equal(to(h, IBV_QPS_INIT), 0);
	assert_int_equal(lab.qp->state, IBV_QPS_INIT);
	opened_destroy(h);
	gone(0, 1);
	gone(1, 0);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* Two processes open and close handles at random; connections are full, and messages get
 * lost, as an answer does when the connection is full. The QP lives as long as it has a
 * handle, each handle shows its state, and each handle is told of each event once. */
static void handles_come_and_go(unsigned seed)
{
	struct qp *h[RANDOM_HANDLES] = { NULL };
	int who[RANDOM_HANDLES] = { 0 }, left = 0;
	bool creator = true;

	lab_open();
	lab.seed = seed;
	for (int i = 0; creator || left; i++) {
		const int k = rand_r(&seed) % RANDOM_HANDLES, what = rand_r(&seed) % 8;

		lab.spoil = rand_r(&seed) % 3 ? 0 : 2;
		lab.lose = rand_r(&seed) % 3 ? 0 : 2;
		if (!h[k] && what < 4 && i < 200) {
			who[k] = rand_r(&seed) % 2;
			h[k] = opened(who[k]);
			left++;
		} else if (h[k] && what < 3) {
			opened_destroy(h[k]);
			h[k] = NULL;
			left--;
		} else if (h[k] && what < 6) {
			/* RTR to RTR would be refused. */
			const enum ibv_qp_state to_state =
				lab.qp->state == IBV_QPS_RESET	? IBV_QPS_INIT
				: lab.qp->state == IBV_QPS_INIT ? IBV_QPS_RTR
								: IBV_QPS_RESET;
			int rc = to(h[k], to_state);

			assert_int_equal(rc, 0);
			assert_int_equal(lab.qp->state, to_state);
			assert_int_equal(state_by(h[k]), to_state);
		} else if (what == 6 && left) {
			/* The event's message must not be lost after it was taken. */
			lab.lose = 0;
			turn_take(&lab.f[0]->core.turn);
			qp_raise(lab.qp, IBV_EVENT_COMM_EST);
			turn_give(&lab.f[0]->core.turn);
			settle();
			for (int n = left + creator; n; n--) {
				struct ibv_async_event e;
				int side = async_get(&lab.f[0]->ctx, &e) ? 1 : 0;

				if (side)
					assert_int_equal(async_get(&lab.f[1]->ctx, &e),
							 0);
				assert_int_equal(e.event_type, IBV_EVENT_COMM_EST);
				async_ack(&e);
			}
			assert_int_equal(fix_event(lab.f[0], NULL), -1);
			assert_int_equal(fix_event(lab.f[1], NULL), -1);
		} else if (what == 7 && creator && left) {
			assert_true(shared_leave(lab.qp));
			creator = false;
		}
		lab.lose = lab.spoil = 0;
		settle();
		assert_int_equal(lab.f[0]->core.qps.count, creator || left);
		if (i > 400 && creator && !left) {
			assert_int_equal(qp_destroy(lab.qp), 0);
			creator = false;
		}
	}
	lab_close();
}

static void handles_come_and_go_at_random(void **state)
{
	const char *env = getenv("URNIC_TEST_SEED");

	(void)state;
	for (unsigned seed = 1; seed <= 40 && !env; seed++) {
		print_message("URNIC_TEST_SEED=%u\n", seed);
		handles_come_and_go(seed);
	}
	if (env)
		handles_come_and_go((unsigned)atoi(env));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_is_the_qp),
		cmocka_unit_test(a_handle_posts_nothing),
		cmocka_unit_test(the_last_handle_ends_the_qp),
		cmocka_unit_test(the_qp_keeps_its_domain),
		cmocka_unit_test(what_cannot_be_opened),
		cmocka_unit_test(the_end_of_the_qp_is_told),
		cmocka_unit_test(the_end_of_its_process_is_seen),
		cmocka_unit_test(an_opener_that_ends_has_closed),
		cmocka_unit_test(another_context_takes_the_qp_over),
		cmocka_unit_test(a_process_that_is_stopped_is_not_waited_for_for_ever),
		cmocka_unit_test(a_handle_that_opens_after_its_end_is_closed),
		cmocka_unit_test(whoever_waits_is_not_left_where_all_is_lost),
		cmocka_unit_test(garbage_harms_nobody),
		cmocka_unit_test(handles_come_and_go_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
