/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: two processes of one host whose QPs use src/shm, in virtual time.
 * Requests are posted by the thread that posts (post()), as driver/ does. */
#ifndef SHM_FIX_H
#define SHM_FIX_H

#include "local/fix.h"
#include "shm/shm.h"
#include "shm/shm_qp.h"

static inline struct fix *open_pair(struct sim_conf conf)
{
	struct fix *f;

	conf.pipe_only = conf.segments = true;
	f = pair_open(IBV_QPT_RC, &conf);
	for (int i = 0; i < 2; i++)
		assert_ptr_equal(f->p.qp[i]->transport, &shm_transport);
	return f;
}

static inline struct fix *plain_pair(void)
{
	return open_pair((struct sim_conf){ .psn = { 0xfffff0, 7 } });
}

static inline struct ibv_send_wr send_wr(uint64_t id, struct ibv_sge *sge, int n,
					 unsigned flags)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = IBV_WR_SEND,
		.sg_list = sge,
		.num_sge = n,
		.send_flags = flags | IBV_SEND_SIGNALED,
	};
}

/* Posts as driver/ does. */
static inline void post_now(struct qp *qp, struct ibv_send_wr *wr)
{
	enum post_left left;

	wr = qp->transport->post(qp, wr, &left);
	if (wr)
		sim_send(qp, wr);
	else if (left == POST_DUE)
		due_add(qp->core, qp);
}

/* One SGE, of len bytes at offset `at` of side's memory. */
static inline void post_at(struct fix *f, int side, uint64_t id, size_t at, uint32_t len,
			   unsigned flags)
{
	struct ibv_sge sge = sim_sge(f->mr[side], at, len);
	struct ibv_send_wr wr = send_wr(id, &sge, 1, flags);

	if (flags & IBV_SEND_INLINE)
		sge.addr = (uintptr_t)f->mem[side] + at;
	post_now(f->p.qp[side], &wr);
}

static inline void recv_at(struct fix *f, int side, uint64_t id, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(f->mr[side], at, len);

	sim_recv(f->p.qp[side], id, &sge, 1);
}

static inline void came(struct fix *f, int side, uint64_t id, size_t to, size_t from,
			uint32_t len)
{
	assert_int_equal(fix_wc(f, side, id, IBV_WC_SUCCESS).byte_len, len);
	assert_memory_equal(f->mem[side] + to, f->mem[!side] + from, len);
}

#endif
