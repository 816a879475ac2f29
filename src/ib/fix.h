/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: a connected pair, memory at both ends, and a script of the packets
 * that are lost.  Every packet on the cable is logged. */
#ifndef IB_FIX_H
#define IB_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/sim.h"
#include "net/ip_addr.h"
#include "verbs/due.h"
#include "verbs/mr.h"
#include "wire/aeth.h"

enum {
	FIX_MEM = 1 << 20,
	FIX_LOG = 8192,
	FIX_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

#define MS  1000000ull
#define SEC 1000000000ull

struct fix {
	struct sim *s;
	struct sim_conf conf;
	enum ibv_qp_type type;
	struct sim_pair p;
	uint8_t *mem[2];
	struct mr *mr[2];
	/* Every packet that was sent, lost ones too. */
	struct sim_packet log[FIX_LOG];
	unsigned n;
	/* Loses the nth packet (from 1) of this name that this side sends; nth 0: all. */
	struct {
		int side;
		const char *name;
		unsigned nth, seen;
	} lose[8];
	unsigned nlose;
};

static inline const char *fix_name(const struct sim_packet *p)
{
	return ib_op(p->f.opcode)->name;
}

static inline bool fix_tap(void *arg, const struct sim_packet *p)
{
	struct fix *f = arg;
	bool pass = true;

	assert_true(f->n < FIX_LOG);
	f->log[f->n++] = *p;
	for (unsigned i = 0; i < f->nlose; i++)
		if (f->lose[i].side == p->side &&
		    (!f->lose[i].name || strcmp(f->lose[i].name, fix_name(p)) == 0) &&
		    (++f->lose[i].seen == f->lose[i].nth || f->lose[i].nth == 0))
			pass = false;
	return pass;
}

static inline void fix_lose(struct fix *f, int side, const char *name, unsigned nth)
{
	f->lose[f->nlose].side = side;
	f->lose[f->nlose].name = name;
	f->lose[f->nlose].seen = 0;
	f->lose[f->nlose++].nth = nth;
}

static inline struct fix *fix_open(enum ibv_qp_type type, const struct sim_conf *conf)
{
	struct fix *f = calloc(1, sizeof(*f));

	if (conf)
		f->conf = *conf;
	f->type = type;
	f->s = sim_open(&f->conf);
	f->p = sim_pair(f->s, type, &f->conf);
	for (int i = 0; i < 2; i++) {
		f->mem[i] = aligned_alloc(4096, FIX_MEM);
		for (size_t j = 0; j < FIX_MEM; j++)
			f->mem[i][j] = (uint8_t)(j * 7 + j / 251 + (size_t)i * 101);
		f->mr[i] = sim_mr(f->s, i, f->mem[i], FIX_MEM, FIX_ALL);
	}
	f->s->tap = fix_tap;
	f->s->tap_arg = f;
	return f;
}

/* A has rnr_retry and retry_cnt 0: what had to be repeated would end its QP. */
static inline struct fix *fix_strict(struct fix *f)
{
	f->p.qp[0]->attr.rnr_retry = ib_qp(f->p.qp[0])->req.s.rnr_left = 0;
	f->p.qp[0]->attr.retry_cnt = ib_qp(f->p.qp[0])->req.s.retry_left = 0;
	return f;
}

static inline void fix_close(struct fix *f)
{
	sim_unpair(f->s, &f->p);
	for (int i = 0; i < 2; i++) {
		if (f->mr[i])
			assert_int_equal(mr_dereg(f->mr[i]), 0);
		free(f->mem[i]);
	}
	sim_close(f->s);
	free(f);
}

/* Posts a work request of A, for len bytes at offset at on both sides. */
static inline void fix_post(struct fix *f, enum ibv_wr_opcode opcode, uint64_t wr_id,
			    size_t at, uint32_t len, unsigned flags)
{
	struct ibv_sge sge = sim_sge(f->mr[0], at, len);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = flags | IBV_SEND_SIGNALED,
		.imm_data = 0x12345678,
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = f->mr[1]->mkey.base + at;
		wr.wr.atomic.rkey = f->mr[1]->mkey.key;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = f->mr[1]->mkey.base + at;
		wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	}
	sim_send(f->p.qp[0], &wr);
}

static inline void fix_recv(struct fix *f, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(f->mr[1], at, len);

	sim_recv(f->p.qp[1], wr_id, &sge, 1);
}

/* Waits for the next completion of that side, and checks wr_id and status. */
static inline struct ibv_wc fix_wc(struct fix *f, int side, uint64_t wr_id,
				   enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(sim_wait(f->s, f->p.cq[side], 1000 * SEC, &wc));
	if (wc.status != status || wc.wr_id != wr_id)
		print_error("wr_id %lu, status %d, vendor_err %u\n", wc.wr_id, wc.status,
			    wc.vendor_err);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static inline void fix_no_wc(struct fix *f, int side)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(f->p.cq[side], 1, &wc), 0);
}

/* The addresses that side sends from and to. */
static inline struct ip_addr *fix_path(struct fix *f, int side)
{
	return (struct ip_addr *)&f->p.qp[side]->path.addr;
}

/* A datagram that the test builds itself. */
struct fix_raw {
	uint8_t buf[128];
	struct iovec iov;
	struct dgram d;
};

/* Gives the n bytes at r->buf the addresses that side sends with, as a link does. */
static inline void fix_address(const struct fix *f, int side, size_t n, struct fix_raw *r)
{
	r->iov = (struct iovec){ r->buf, n };
	r->d.iov = &r->iov;
	r->d.iovcnt = 1;
	r->d.len = (uint32_t)n;
	r->d.link = f->s->node[!side].link;
	r->d.addr = f->p.qp[side]->path.addr;
	ip_of(&r->d)->from.port = 0xc000;
	ip_of(&r->d)->to.port = 4791;
}

/* 9.9.3, class E: other QPs use the SRQ as well, so a receive of `room` bytes into
 * which a bad message of len bytes went completes in error instead of serving the next
 * message. */
static inline void fix_srq_receive_fails(enum ibv_qp_type type, struct ib_fields p,
					 uint32_t room, uint32_t len)
{
	struct fix *f = fix_open(type, NULL);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_cap cap = { .max_send_wr = 8, .max_send_sge = 1 };
	struct ibv_sge sge = sim_sge(f->mr[1], 0, room);
	struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct sim_node *b = &f->s->node[1];
	struct srq *srq;
	struct qp *qp;

	assert_int_equal(srq_create(&b->ctx, b->pd, &a, &srq), 0);
	qp = sim_qp(f->s, 1, type, f->p.cq[1], f->p.cq[1], srq, &cap);
	sim_bring(f->s, qp, type == IBV_QPT_UD ? NULL : f->p.qp[0], &f->conf);
	assert_int_equal(srq_post(srq, &wr, &bad), 0);
	p.pkey = 0xffff;
	p.dest_qp = qp->qpn;
	sim_inject(f->s, 0, &p, f->mem[0], len);
	fix_wc(f, 1, 8, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	sim_destroy(f->s, qp);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

/* Runs until nothing happens any more. */
static inline void fix_quiet(struct fix *f)
{
	assert_true(sim_run(f->s, 1000 * SEC));
}

/* Checks the i-th packet on the cable (from 0): its sender, name and PSN. */
static inline const struct sim_packet *fix_saw(const struct fix *f, unsigned i, int side,
					       const char *name, uint32_t psn)
{
	const struct sim_packet *p = &f->log[i];

	assert_true(i < f->n);
	assert_string_equal(fix_name(p), name);
	assert_int_equal(p->side, side);
	assert_int_equal(p->f.psn, psn);
	return p;
}

/* Counts the packets of this name that side sent; NULL: all packets. */
static inline unsigned fix_count(const struct fix *f, int side, const char *name)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->n; i++)
		n += f->log[i].side == side &&
		     (!name || strcmp(name, fix_name(&f->log[i])) == 0);
	return n;
}

static inline void fix_same(const struct fix *f, size_t at, size_t len)
{
	assert_memory_equal(f->mem[0] + at, f->mem[1] + at, len);
}

static inline struct ib_qp *fix_ib(const struct fix *f, int side)
{
	return ib_qp(f->p.qp[side]);
}

static inline void fix_modify(struct fix *f, int side, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = { .qp_state = to };

	assert_int_equal(qp_modify(f->p.qp[side], &a, IBV_QP_STATE, f->s->now), 0);
}

#endif
