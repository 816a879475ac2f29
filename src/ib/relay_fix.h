/* SPDX-License-Identifier: BSD-2-Clause */
/* relay_fix.h - for tests of XRC between processes: node 1 has the target QP; node 0
 * has the SRQ and also sends the requests.  The messages between the two processes go
 * through a queue that the test delivers from, in virtual time. */
#ifndef IB_RELAY_FIX_H
#define IB_RELAY_FIX_H

#include "ib/fix.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ib/ib.h"
#include "ib/relay.h"
#include "ib/xrc.h"
#include "ib/xrc_msg.h"
#include "verbs/rq.h"
#include "verbs/xrc.h"

enum { SIZE = 1 << 18, QUEUE = 4096, MSG_MAX = 64000 };

struct msg {
	int to;
	uint16_t from_slot;
	size_t len;
	uint8_t *bytes;
};

struct lab {
	struct sim *s;
	struct sim_conf conf;
	struct xrcd *xrcd[2];
	struct cq *scq, *rcq;
	struct srq *srq;
	struct mr *mr;
	uint8_t *mem;
	struct qp *from, *to;
	struct msg queue[QUEUE];
	unsigned first, last;
	int full;	/* pass() refuses this many messages */
	bool stopped;	/* node 0 receives no messages */
	unsigned spoil; /* one message in so many is followed by garbage; 0: none */
	unsigned seed;
};

static struct lab *the;

static inline int pass(void *arg, uint16_t slot, const struct iovec *part, unsigned n)
{
	const struct sim_node *node = arg;
	struct msg *m = &the->queue[the->last % QUEUE];

	if (the->full > 0) {
		the->full--;
		return -EAGAIN;
	}
	if (slot != 1 && slot != 2)
		return -ESRCH;
	assert_true(the->last - the->first < QUEUE);
	*m = (struct msg){ slot - 1, node->core.slot, 0, malloc(MSG_MAX) };
	for (unsigned i = 0; i < n; i++) {
		assert_true(part[i].iov_len <= MSG_MAX - m->len);
		memcpy(m->bytes + m->len, part[i].iov_base, part[i].iov_len);
		m->len += part[i].iov_len;
	}
	the->last++;
	return 0;
}

/* Delivers a damaged copy of m, as no process of ours would send it. */
static inline void spoil(struct lab *x, const struct msg *m)
{
	struct core *core = &x->s->node[m->to].core;
	size_t len = m->len;
	uint8_t *bytes = malloc(len);

	memcpy(bytes, m->bytes, len);
	for (int i = 0; i < 4; i++)
		bytes[(size_t)rand_r(&x->seed) % (len < 90 ? len : 90)] ^=
			(uint8_t)(1 << rand_r(&x->seed) % 8);
	if (rand_r(&x->seed) % 4 == 0)
		len = (size_t)rand_r(&x->seed) % len;
	ib_xrc_heard(core, m->from_slot, bytes, len, x->s->now);
	free(bytes);
}

static inline bool deliver(struct lab *x)
{
	struct msg *m = &x->queue[x->first % QUEUE];
	struct core *core;

	if (x->first == x->last || (x->stopped && m->to == 0))
		return false;
	core = &x->s->node[m->to].core;
	turn_take(&core->turn);
	if (x->spoil && x->first % x->spoil == 0)
		spoil(x, m);
	ib_xrc_heard(core, m->from_slot, m->bytes, m->len, x->s->now);
	turn_give(&core->turn);
	free(m->bytes);
	x->first++;
	return true;
}

static inline void run_timers(struct lab *x)
{
	for (int i = 0; i < 2; i++) {
		struct core *core = &x->s->node[i].core;

		turn_take(&core->turn);
		if (ib_xrc_deadline(core, x->s->now) <= x->s->now)
			ib_xrc_run(core);
		turn_give(&core->turn);
	}
}

/* Delivers only a few messages at a time, so that they mix with packets and timers. */
static inline bool wait(struct lab *x, struct cq *cq, uint64_t ns, struct ibv_wc *wc)
{
	const uint64_t until = x->s->now + ns;

	while (x->s->now < until) {
		if (cq_poll(cq, 1, wc) == 1)
			return true;
		for (int i = 0; i < 3 && deliver(x); i++)
			;
		run_timers(x);
		if (sim_run(x->s, 20000)) /* nothing happened in that time */
			x->s->now += 20000;
	}
	return false;
}

static inline void expect(struct lab *x, struct cq *cq, uint64_t wr_id,
			  enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(wait(x, cq, 100 * SEC, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static inline struct lab *lab_open(const struct sim_conf *conf)
{
	struct lab *x = the = calloc(1, sizeof(*x));
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_xrcd_init_attr da = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = memfd_create("xrc", 0),
		.oflags = O_CREAT,
	};

	if (conf)
		x->conf = *conf;
	x->s = sim_open(&x->conf);
	/* Both nodes show the same device */
	x->s->node[0].dev->guid = x->s->node[1].dev->guid;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ib_xrc_open(&x->s->node[i].core, pass, &x->s->node[i],
					     1000),
				 0);
		assert_int_equal(xrcd_open(&x->s->node[i].ctx, &da, &x->xrcd[i]), 0);
	}
	close(da.fd);
	x->scq = sim_cq(x->s, 0, 300);
	x->rcq = sim_cq(x->s, 0, 300);
	assert_int_equal(srq_create_xrc(&x->s->node[0].ctx, x->s->node[0].pd, x->xrcd[0],
					x->rcq, &sa, &x->srq),
			 0);
	x->mem = malloc(SIZE);
	for (int i = 0; i < SIZE; i++)
		x->mem[i] = (uint8_t)(i * 7 + i / 256);
	x->mr = sim_mr(x->s, 0, x->mem, SIZE,
		       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	sim_xrc(x->s, x->scq, x->xrcd[1], &x->conf, &x->from, &x->to);
	return x;
}

/* Closes all but the QPs, which were destroyed before. */
static inline void lab_close_but_qps(struct lab *x)
{
	x->stopped = false;
	x->spoil = 0;
	while (deliver(x))
		;
	if (!x->seed) /* garbage may have made more stand-ins */
		assert_true(list_empty(&x->s->node[0].core.xrc.stand_ins));
	if (x->srq)
		assert_int_equal(srq_destroy(x->srq), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(xrcd_close(x->xrcd[i]), 0);
		ib_xrc_close(&x->s->node[i].core);
	}
	assert_int_equal(mr_dereg(x->mr), 0);
	assert_int_equal(cq_destroy(x->scq), 0);
	assert_int_equal(cq_destroy(x->rcq), 0);
	free(x->mem);
	sim_close(x->s);
	free(x);
}

static inline void lab_close(struct lab *x)
{
	sim_destroy(x->s, x->to);
	sim_destroy(x->s, x->from);
	lab_close_but_qps(x);
}

static inline void receive(struct lab *x, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(x->mr, at, len);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(srq_post(x->srq, &wr, &bad), 0);
}

static inline void post(struct lab *x, enum ibv_wr_opcode op, uint64_t wr_id, size_t at,
			uint32_t len, size_t there)
{
	struct ibv_sge sge = sim_sge(x->mr, at, len);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = x->srq->num,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = x->mr->mkey.base + there;
		wr.wr.atomic.rkey = x->mr->mkey.key;
		wr.wr.atomic.compare_add = 5;
	} else if (op != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = x->mr->mkey.base + there;
		wr.wr.rdma.rkey = x->mr->mkey.key;
	}
	sim_send(x->from, &wr);
}

static inline void gone(struct lab *x, int node, uint16_t slot)
{
	struct core *core = &x->s->node[node].core;

	turn_take(&core->turn);
	ib_xrc_gone(core, slot, x->s->now);
	turn_give(&core->turn);
}

#endif
