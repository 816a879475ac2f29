/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: a connected pair with memory at both ends, and checks. */
#ifndef IWARP_FIX_H
#define IWARP_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/iw_qp.h"
#include "iwarp/sim.h"

enum {
	FIX_MEM = 1 << 20,
	FIX_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct fix {
	struct sim *s;
	struct sim_pair p;
	uint8_t *mem[2];
	struct mr *mr[2];
	struct stream *raw; /* fix_raw(): the peer of B, played by the test */
};

static inline struct fix *fix_make(void)
{
	struct fix *f = calloc(1, sizeof(*f));

	f->s = sim_open();
	f->p = sim_pair(f->s, NULL);
	for (int i = 0; i < 2; i++) {
		f->mem[i] = aligned_alloc(4096, FIX_MEM);
		for (size_t j = 0; j < FIX_MEM; j++)
			f->mem[i][j] = (uint8_t)(j * 7 + j / 251 + (size_t)i * 101);
		f->mr[i] = sim_mr(f->s, i, f->mem[i], FIX_MEM, FIX_ALL);
	}
	return f;
}

static inline struct fix *fix_open(const struct sim_conf *conf)
{
	static const struct sim_conf none;
	struct fix *f = fix_make();

	sim_connect(f->s, &f->p, conf ? conf : &none);
	return f;
}

/* Connects B, as the responder unless initiator, to a peer that the test plays. */
static inline struct fix *fix_raw(const struct sim_conf *conf, bool initiator)
{
	static const struct sim_conf none;
	struct fix *f = fix_make();

	f->raw = sim_connect_raw(f->s, &f->p, conf ? conf : &none, initiator);
	return f;
}

static inline void fix_close(struct fix *f)
{
	sim_unpair(&f->p);
	if (f->raw)
		f->raw->ops->close(f->raw);
	for (int i = 0; i < 2; i++) {
		if (f->mr[i])
			assert_int_equal(mr_dereg(f->mr[i]), 0);
		free(f->mem[i]);
	}
	sim_close(f->s);
	free(f);
}

static inline struct ibv_sge fix_sge(const struct mr *mr, size_t off, size_t n)
{
	return (struct ibv_sge){ mr->mkey.base + off, (uint32_t)n, mr->mkey.key };
}

static inline void fix_send(struct fix *f, int side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	assert_int_equal(qp_post_send(f->p.qp[side], wr, &bad), 0);
}

/* Posts a work request of A, for len bytes at offset at on both sides. */
static inline void fix_post(struct fix *f, enum ibv_wr_opcode opcode, uint64_t wr_id,
			    size_t at, uint32_t len, unsigned flags)
{
	struct ibv_sge sge = fix_sge(f->mr[0], at, len);
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
	fix_send(f, 0, &wr);
}

static inline void fix_recv(struct fix *f, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = fix_sge(f->mr[1], at, len);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(f->p.qp[1], &wr, &bad), 0);
}

static inline struct ibv_wc fix_wc(struct fix *f, int side, uint64_t wr_id,
				   enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(sim_wait(f->s, f->p.cq[side], 100 * SEC, &wc));
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

static inline void fix_same(const struct fix *f, size_t at, size_t len)
{
	assert_memory_equal(f->mem[0] + at, f->mem[1] + at, len);
}

static inline struct iw_qp *fix_iw(const struct fix *f, int side)
{
	return iw_qp(f->p.qp[side]);
}

/* --- a peer played by the test -------------------------------------------- */

static inline void raw_bytes(struct fix *f, const void *p, size_t n)
{
	struct iovec v = { (void *)(uintptr_t)p, n };

	assert_int_equal(f->raw->ops->send(f->raw, &v, 1, f->s->now), n);
}

/* Sends an FPDU with this header and payload, with a CRC if agreed. */
static inline void raw_segment(struct fix *f, const struct ddp *d, const void *p,
			       size_t n)
{
	uint8_t fpdu[2048] = { 0 };
	size_t at = 2 + ddp_build(fpdu + 2, d);

	if (n)
		memcpy(fpdu + at, p, n);
	at += n;
	fpdu[0] = (uint8_t)((at - 2) >> 8);
	fpdu[1] = (uint8_t)(at - 2);
	at += mpa_pad(at - 2);
	if (fix_iw(f, 1)->p.crc)
		mpa_crc_put(mpa_crc(MPA_CRC_START, fpdu, at), fpdu + at);
	raw_bytes(f, fpdu, at + MPA_CRC_LEN);
}

/* A segment that B has sent, without CRC and markers: its header, and the payload. */
struct raw_got {
	struct ddp d;
	uint8_t at[2048];
	size_t n;
};

static inline bool raw_any(struct fix *f, struct raw_got *g)
{
	uint8_t fpdu[2048];
	struct iovec v = { fpdu, 2 };
	size_t len, ulpdu;
	int hdr;

	sim_run(f->s, 100 * MS);
	if (f->raw->ops->recv(f->raw, &v, 1, f->s->now) != 2)
		return false;
	ulpdu = (size_t)fpdu[0] << 8 | fpdu[1];
	len = mpa_fpdu_len(ulpdu);
	assert_true(len <= sizeof(fpdu));
	v = (struct iovec){ fpdu + 2, len - 2 };
	assert_int_equal(f->raw->ops->recv(f->raw, &v, 1, f->s->now), len - 2);
	hdr = ddp_parse(&g->d, fpdu + 2, ulpdu);
	assert_true(hdr > 0);
	g->n = ulpdu - (size_t)hdr;
	memcpy(g->at, fpdu + 2 + hdr, g->n);
	return true;
}

/* The next segment that is no nudge. */
static inline bool raw_next(struct fix *f, struct raw_got *g)
{
	while (raw_any(f, g))
		if (g->d.ulp != 0x40 || g->n > 0)
			return true;
	return false;
}

static inline struct ddp raw_untagged(uint8_t opcode, uint32_t qn, uint32_t msn,
				      uint32_t mo)
{
	return (struct ddp){ .last = true,
			     .version = 1,
			     .qn = qn,
			     .msn = msn,
			     .mo = mo,
			     .ulp = (uint8_t)(0x40 | opcode) };
}

/* Checks that B has sent a Terminate with error, about d (NULL: about no segment), raised
 * event (-1: none), and closes. */
static inline void raw_refused(struct fix *f, enum rdmap_error error, const struct ddp *d,
			       int event)
{
	struct rdmap_term t;
	struct raw_got g;
	struct ddp told;

	assert_true(raw_next(f, &g));
	assert_false(g.d.tagged);
	assert_int_equal(g.d.ulp, 0x47);
	assert_int_equal(g.d.qn, 2);
	assert_int_equal(g.d.msn, 1);
	assert_int_equal(g.d.mo, 0);
	assert_true(g.d.last);
	assert_int_equal(rdmap_term_parse(&t, g.at, g.n), 0);
	if (t.error != error)
		print_error("it says %s\n", rdmap_error_str(t.error));
	assert_int_equal(t.error, error);
	assert_int_equal(t.has_ddp, d != NULL);
	if (d) {
		assert_true(ddp_parse(&told, t.ddp, t.ddp_len) > 0);
		assert_memory_equal(&told, d, sizeof(told));
	}
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), event);
	assert_int_equal(sim_event(f->s, 1), -1);
	/* Then FIN comes; B closes although the peer does not answer it. */
	assert_int_equal(f->raw->ops->recv(f->raw, &(struct iovec){ g.at, 1 }, 1,
					   f->s->now),
			 -ESHUTDOWN);
	assert_non_null(f->s->node[1].conn[0].qp);
	sim_run(f->s, 2 * SEC);
	assert_null(f->s->node[1].conn[0].qp);
	assert_int_equal(f->s->node[1].ended[IW_END_ERROR], 1);
}

#endif
