/* SPDX-License-Identifier: BSD-2-Clause */
/* share_fix.h - target QPs of XRC that several handles name, in two processes: messages
 * go through a queue that waits until a verb waits, or until the test delivers. */
#ifndef VERBS_SHARE_FIX_H
#define VERBS_SHARE_FIX_H

#include <sys/mman.h>

#include "verbs/opened.h"
#include "verbs/qp_fixture.h"
#include "verbs/qp_kind.h"
#include "verbs/share.h"
#include "verbs/share_own.h"
#include "verbs/shared.h"
#include "verbs/xrc.h"

/* SPOILED_MAX: a verb gives up after five seconds, and asks every 100 ms. */
enum { QUEUE = 256, MS = 1000000, SPOILED_MAX = 30 };

static struct {
	struct fix *f[2]; /* 0: the QP's process */
	struct xrcd *xrcd[2];
	struct {
		int to;
		struct share_msg m;
	} queue[QUEUE];
	unsigned first, last;
	int full; /* so many times nothing is taken */
	/* Of so many messages one is not taken, and one is taken and lost; 0: none.
	 * spoiled: how many that were; SPOILED_MAX at most. */
	int spoil, lose, spoiled;
	unsigned seed;
	bool stopped; /* the QP's process */
	uint64_t now;
	int prepared;
	struct qp *qp;
} lab;

static inline uint64_t lab_now(void)
{
	return lab.now;
}

static inline int lab_pass(void *arg, uint16_t slot, const struct iovec *part, unsigned n)
{
	(void)arg;
	assert_int_equal(n, 1);
	if (slot != FIX_SLOT && slot != FIX_SLOT + 1)
		return -ESRCH;
	if (lab.full > 0) {
		lab.full--;
		return -EAGAIN;
	}
	if (lab.spoiled < SPOILED_MAX && lab.spoil &&
	    rand_r(&lab.seed) % lab.spoil == 0) {
		lab.spoiled++;
		return -EAGAIN;
	}
	if (lab.spoiled < SPOILED_MAX && lab.lose && rand_r(&lab.seed) % lab.lose == 0) {
		lab.spoiled++;
		return 0;
	}
	assert_true(lab.last - lab.first < QUEUE);
	lab.queue[lab.last % QUEUE].to = slot - FIX_SLOT;
	memcpy(&lab.queue[lab.last++ % QUEUE].m, part->iov_base, part->iov_len);
	return 0;
}

static inline void deliver(void)
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

static inline void run(void)
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

static inline void settle(void)
{
	for (int i = 0; i < 30; i++)
		run();
}

static inline void lab_settle(void *arg)
{
	(void)arg;
}

static inline void lab_wait(void *arg, struct lock_cond *c, uint32_t seen)
{
	(void)arg;
	(void)c;
	(void)seen;
	run();
}

static inline int lab_prepare(void *arg, struct qp *qp, const struct ibv_qp_attr *attr,
			      int mask)
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

static inline struct xrcd *domain(struct fix *f, int fd)
{
	const struct ibv_xrcd_init_attr a = {
		IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, O_CREAT
	};
	struct xrcd *x;

	assert_int_equal(xrcd_open(&f->ctx, &a, &x), 0);
	return x;
}

static inline struct qp *target(struct fix *f, struct xrcd *x)
{
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_XRC_RECV);
	struct qp *qp;

	a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	a.xrcd = &x->ibv;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	return qp;
}

static inline void lab_open(void)
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

/* The creator's handle is destroyed. True: the QP lives on. */
static inline bool shared_leave(struct qp *qp)
{
	return qp->kind->leave(qp);
}

/* No handle is left. */
static inline void lab_close(void)
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

static inline int try_open(int who, uint32_t qpn, struct qp **out)
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

static inline struct qp *opened(int who)
{
	struct qp *h;

	assert_int_equal(try_open(who, lab.qp->qpn, &h), 0);
	return h;
}

static inline int to(struct qp *h, enum ibv_qp_state state)
{
	const struct ibv_qp_attr a = fix_attr(state);

	return opened_modify(h, &a,
			     state == IBV_QPS_INIT  ? TO_INIT_RC
			     : state == IBV_QPS_RTR ? TO_RTR_RC
						    : IBV_QP_STATE);
}

static inline enum ibv_qp_state state_by(struct qp *h)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(opened_query(h, &a, &init), 0);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	assert_ptr_equal(init.qp_context, &lab);
	return a.qp_state;
}

static inline void fails(int event)
{
	turn_take(&lab.f[0]->core.turn);
	lock_take(&lab.qp->lock);
	qp_fail(lab.qp, false, event, lab.now);
	lock_give(&lab.qp->lock);
	turn_give(&lab.f[0]->core.turn);
}

static inline void gone(int who, int other)
{
	struct core *core = &lab.f[who]->core;

	turn_take(&core->turn);
	share_gone(core, (uint16_t)(FIX_SLOT + other));
	turn_give(&core->turn);
}

#endif
