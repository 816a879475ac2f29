/* SPDX-License-Identifier: BSD-2-Clause */
/* shared_fix.h - for unit tests: two processes A and B, and file memory of B for A to
 * map. */
#ifndef DIRECT_SHARED_FIX_H
#define DIRECT_SHARED_FIX_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "direct/map.h"
#include "direct/share.h"
#include "direct/threads_fix.h"
#include "shm/fix.h"

enum { LEN = 512 << 10, USES = 40 };

/* A pair of which B registers memory of a file. Memory that A may not write to is lent
 * only if nobody may. */
struct shared {
	struct fix *f;
	int fd;
	uint8_t *at;
	struct mr *mr;
};

static inline struct shared share(int access, int flags)
{
	struct shared s = {
		.f = pair_open(IBV_QPT_RC,
			       &(const struct sim_conf){ .timeout = 10, .retry_cnt = 1 }),
		.fd = memfd_create("shared", MFD_CLOEXEC | MFD_ALLOW_SEALING)
	};

	assert_int_equal(ftruncate(s.fd, LEN), 0);
	s.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, s.fd, 0);
	assert_ptr_not_equal(s.at, MAP_FAILED);
	if (!(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)))
		assert_int_equal(fcntl(s.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	s.mr = sim_mr(s.f->s, 1, s.at, LEN, access);
	return s;
}

/* A pair of which B registers private memory, made mappable. */
static inline struct shared share_private(int access)
{
	struct shared s = { .f = pair_open(IBV_QPT_RC,
					   &(const struct sim_conf){ .timeout = 10,
								     .retry_cnt = 1 }),
			    .fd = -1 };

	s.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	assert_ptr_not_equal(s.at, MAP_FAILED);
	count_threads();
	share_start(&s.f->s->node[1].core, false);
	s.mr = sim_mr(s.f->s, 1, s.at, LEN, access);
	return s;
}

static inline void unshare_(struct shared *s)
{
	if (s->mr)
		assert_int_equal(mr_dereg(s->mr), 0);
	fix_close(s->f);
	munmap(s->at, LEN);
	if (s->fd >= 0)
		close(s->fd);
}

/* Posts a request of A by that key, of len bytes, from offset `from` of A's memory to
 * offset `to` of the shared memory. */
static inline void post_by(struct shared *s, enum ibv_wr_opcode op, uint64_t wr_id,
			   size_t from, size_t to, uint32_t len, uint32_t key)
{
	struct ibv_sge sge = sim_sge(s->f->mr[0], from, len);
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = op,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = s->mr->mkey.base + to;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = s->mr->mkey.base + to;
		wr.wr.rdma.rkey = key;
	}
	sim_send(s->f->p.qp[0], &wr);
}

static inline void post(struct shared *s, enum ibv_wr_opcode op, uint64_t wr_id,
			size_t from, size_t to, uint32_t len)
{
	post_by(s, op, wr_id, from, to, len, s->mr->mkey.key);
}

static inline void done(struct shared *s, uint64_t wr_id)
{
	fix_wc(s->f, 0, wr_id, IBV_WC_SUCCESS);
}

/* Checks that the request completed at once, without a turn. */
static inline void done_at_once(struct shared *s, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(s->f->p.cq[0], 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static inline uint64_t times(const struct shared *s)
{
	return pair_qp(s->f, 0)->tp.traffic.done;
}

static inline struct reach *reach_of(const struct shared *s)
{
	return &pair_peer(s->f, 0)->reach;
}

static inline struct mapping *map_of(const struct shared *s)
{
	return atomic_load(&reach_of(s)->map[map_place(s->mr->mkey.key)]);
}

/* Uses the region often enough for A to ask for its mapping. */
static inline void use(struct shared *s)
{
	for (unsigned i = 0; i < USES; i++) {
		post(s, IBV_WR_RDMA_WRITE, 1000 + i, 0, 0, 8);
		done(s, 1000 + i);
		fix_quiet(s->f);
	}
}

static inline struct shared mapped(int access)
{
	struct shared s = share(access, MAP_SHARED);

	use(&s);
	assert_non_null(map_of(&s));
	assert_true(times(&s) > 0);
	return s;
}

#endif
