/* SPDX-License-Identifier: BSD-2-Clause */
/* Long WRITEs and READs of memory that both processes have mapped: the posting thread or
 * the engine copies them there, and does not ask the kernel. */
#include "direct/shared_fix.h"
#include "verbs/exports.h"
#include "verbs/transport.h"

enum { LONG_ONE = 300001 };

static struct reach *reach(const struct shared *s)
{
	return &pair_peer(s->f, 0)->reach;
}

/* The peer's nonce is set to an address where nothing is mapped, so that every copy by
 * the kernel would fail. */
static struct shared mapped_alone(void)
{
	struct shared s = mapped(FIX_ALL);

	reach(&s)->nonce.at = 8;
	return s;
}

/* From now on the posting thread does nothing. */
static void leave_it_to_the_engine(struct shared *s)
{
	atomic_store(&s->f->p.qp[0]->tp.at_once, false);
}

/* No system call was tried, and the posting thread did so much. */
static void went_by_the_mapping(const struct shared *s, uint64_t at_once)
{
	assert_true(reach(s)->vm);
	assert_int_equal(times(s), at_once);
	assert_int_equal(atomic_load(&map_of(s)->bad), false);
}

static void the_same_bytes(bool by_the_engine)
{
	struct shared s = mapped_alone();
	uint8_t *mine = s.f->mem[0];
	uint64_t at_once = times(&s);

	if (by_the_engine)
		leave_it_to_the_engine(&s);
	memset(s.at, 0xee, LEN);
	post(&s, IBV_WR_RDMA_WRITE, 1, 3, 7, LONG_ONE);
	done(&s, 1);
	assert_memory_equal(s.at + 7, mine + 3, LONG_ONE);
	assert_int_equal(s.at[6], 0xee);
	assert_int_equal(s.at[7 + LONG_ONE], 0xee);
	post(&s, IBV_WR_RDMA_READ, 2, 100, 6, LONG_ONE + 2);
	done(&s, 2);
	assert_memory_equal(s.at + 6, mine + 100, LONG_ONE + 2);
	went_by_the_mapping(&s, by_the_engine ? at_once : at_once + 2);
	unshare_(&s);
}

static void the_poster_copies(void **state)
{
	(void)state;
	the_same_bytes(false);
}

static void the_engine_copies(void **state)
{
	(void)state;
	the_same_bytes(true);
}

/* Memory of both, longer than what one post copies. */
static struct shared large(struct shared *s, size_t len, uint8_t **mine)
{
	struct shared l = { .f = s->f, .fd = memfd_create("large", MFD_CLOEXEC) };

	assert_int_equal(ftruncate(l.fd, (off_t)len), 0);
	l.at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, l.fd, 0);
	*mine = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(l.at, MAP_FAILED);
	assert_ptr_not_equal(*mine, MAP_FAILED);
	for (size_t i = 0; i < len; i++)
		(*mine)[i] = (uint8_t)(i * 7 + i / 251);
	l.mr = sim_mr(s->f->s, 1, l.at, len, FIX_ALL);
	use(&l);
	assert_non_null(map_of(&l));
	return l;
}

/* The poster begins a request; the engine does the rest, and what was posted behind. */
static void the_engine_goes_on(void **state)
{
	const uint32_t len = POST_AT_ONCE + 70001;
	struct shared s = mapped(FIX_ALL), l;
	struct mr *was = s.f->mr[0];
	uint64_t at_once;
	uint8_t *mine;

	(void)state;
	l = large(&s, len, &mine);
	reach(&s)->nonce.at = 8;
	s.f->mr[0] = sim_mr(s.f->s, 0, mine, len, FIX_ALL);
	at_once = times(&l);
	post(&l, IBV_WR_RDMA_WRITE, 1, 0, 0, len);
	post(&l, IBV_WR_RDMA_WRITE, 2, 1, 0, 8);
	assert_memory_equal(l.at, mine, POST_AT_ONCE);
	assert_int_equal(l.at[POST_AT_ONCE], 0);
	done(&l, 1);
	done(&l, 2);
	assert_memory_equal(l.at, mine + 1, 8);
	assert_memory_equal(l.at + 8, mine + 8, len - 8);
	memset(l.at, 0x33, len);
	post(&l, IBV_WR_RDMA_READ, 3, 0, 0, len);
	done(&l, 3);
	assert_memory_equal(l.at, mine, len);
	went_by_the_mapping(&l, at_once);
	assert_int_equal(mr_dereg(s.f->mr[0]), 0);
	s.f->mr[0] = was;
	assert_int_equal(mr_dereg(l.mr), 0);
	munmap(l.at, len);
	munmap(mine, len);
	close(l.fd);
	unshare_(&s);
}

/* Posts two requests of len bytes while it seems that a thread sleeps for qp->lock. */
static void post_while_awaited(struct shared *s, uint32_t len)
{
	struct ibv_sge sge = sim_sge(s->f->mr[0], 0, len);
	struct qp *qp = s->f->p.qp[0];
	struct ibv_send_wr second = { .wr_id = 2 };
	struct ibv_send_wr first = { .wr_id = 1,
				     .next = &second,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = { s->mr->mkey.base, s->mr->mkey.key } };

	lock_take(&qp->lock);
	atomic_store(&qp->lock.word, LOCK_AWAITED);
	assert_ptr_equal(qp->transport->at_once(qp, &first), &second);
	lock_give(&qp->lock);
}

/* A thread that waits for the QP need not wait for a whole list, nor for all of a long
 * request. */
static void it_stops_for_who_waits(void **state)
{
	enum { STRETCH = 256 << 10 };
	struct shared s = mapped_alone();
	uint64_t at_once = times(&s);

	(void)state;
	memset(s.at, 0xee, LEN);
	post_while_awaited(&s, 8);
	done_at_once(&s, 1);
	assert_int_equal(times(&s), at_once + 1);
	post_while_awaited(&s, LONG_ONE);
	assert_memory_equal(s.at, s.f->mem[0], STRETCH);
	assert_int_equal(s.at[STRETCH], 0xee);
	due_add(s.f->p.qp[0]->core, s.f->p.qp[0]);
	done(&s, 1);
	assert_memory_equal(s.at, s.f->mem[0], LONG_ONE);
	went_by_the_mapping(&s, at_once + 1);
	unshare_(&s);
}

/* One copy takes bytes of several SGEs. */
static void several_sges(void **state)
{
	struct shared s = mapped_alone();
	struct ibv_sge sge[] = { sim_sge(s.f->mr[0], 5, 70001),
				 sim_sge(s.f->mr[0], 200000, 1),
				 sim_sge(s.f->mr[0], 100000, 80000) };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = sge,
				  .num_sge = 3,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { s.mr->mkey.base, s.mr->mkey.key } };
	uint64_t at_once = times(&s);

	(void)state;
	sim_send(s.f->p.qp[0], &wr);
	done(&s, 1);
	assert_memory_equal(s.at, s.f->mem[0] + 5, 70001);
	assert_int_equal(s.at[70001], s.f->mem[0][200000]);
	assert_memory_equal(s.at + 70002, s.f->mem[0] + 100000, 80000);
	went_by_the_mapping(&s, at_once);
	unshare_(&s);
}

/* A region is deregistered while its mapping exists: a WRITE does not go by the
 * mapping. */
static void a_region_that_has_gone(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t va = s.mr->mkey.base;
	uint32_t key = s.mr->mkey.key;
	struct ibv_sge sge = sim_sge(s.f->mr[0], 0, LONG_ONE);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { va, key } };

	(void)state;
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
	memset(s.at, 0xee, LEN);
	sim_send(s.f->p.qp[0], &wr);
	fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(s.at[i], 0xee);
	unshare_(&s);
}

/* The file is cut: the copy faults, and so does the peer, which executes the WRITE
 * next. */
static void a_file_that_was_cut(void **state)
{
	struct shared s = mapped(FIX_ALL);

	(void)state;
	assert_int_equal(ftruncate(s.fd, 100000), 0);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, LONG_ONE);
	fix_wc(s.f, 0, 1, IBV_WC_REM_OP_ERR);
	assert_memory_equal(s.at, s.f->mem[0], 65536);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_poster_copies),
		cmocka_unit_test(the_engine_copies),
		cmocka_unit_test(the_engine_goes_on),
		cmocka_unit_test(it_stops_for_who_waits),
		cmocka_unit_test(several_sges),
		cmocka_unit_test(a_region_that_has_gone),
		cmocka_unit_test(a_file_that_was_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
