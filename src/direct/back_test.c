/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of private memory that another process has mapped, and that is made private
 * again while a thread of that process is in the middle of using it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "direct/late_testing.h"
#include "direct/shared_fix.h"
#include "sys/hang_testing.h"
#include "sys/procmaps.h"
#include "verbs/post.h"

enum { HELD_LEN = 60000, BEFORE_LATE = 1000, PIECE = 2048 };

/* A thread of A that blocks in the middle of a WRITE of the byte 0x77 to B's region. */
struct held {
	struct shared s;
	struct late late;
	struct mr *late_mr, *own;
	pthread_t thread;
};

static void *write_late(void *arg)
{
	struct held *h = arg;

	post(&h->s, IBV_WR_RDMA_WRITE, 1, LATE_PAGE - BEFORE_LATE, 0, HELD_LEN);
	return NULL;
}

static void *read_late(void *arg)
{
	struct held *h = arg;

	post(&h->s, IBV_WR_RDMA_READ, 1, LATE_PAGE - BEFORE_LATE, 0, HELD_LEN);
	return NULL;
}

/* The atomic is executed, and then blocks on the page for its result, which is late. */
static void *add_late(void *arg)
{
	struct held *h = arg;

	post(&h->s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, LATE_PAGE, 0, 8);
	return NULL;
}

static struct shared mapped_private(void)
{
	struct shared s = share_private(FIX_ALL);

	use(&s);
	assert_non_null(map_of(&s));
	return s;
}

static bool hold(struct held *h, void *(*fn)(void *))
{
	*h = (struct held){ .late.fd = -1 };
	if (!late_open(&h->late, 0x77))
		return false;
	h->s = mapped_private();
	h->late_mr = sim_mr(h->s.f->s, 0, h->late.at, LATE_SIZE, FIX_ALL);
	h->own = h->s.f->mr[0];
	h->s.f->mr[0] = h->late_mr;
	direct_of(&h->s.f->s->node[1].core)->patience_ns = 20000000;
	memset(h->s.at, 0xee, LEN);
	assert_int_equal(pthread_create(&h->thread, NULL, fn, h), 0);
	assert_true(late_reached(&h->late));
	/* A and B are one process here: the thread counts as A's, not as one of B's
	 * program. */
	count_threads();
	return true;
}

static void expect(const struct held *h, size_t from, size_t to, uint8_t with)
{
	for (; from < to; from++)
		assert_int_equal(h->s.at[from], with);
}

/* The blocked thread continues; its stores go nowhere. */
static void let_go(struct held *h)
{
	uint8_t *was = malloc(LEN);

	memcpy(was, h->s.at, LEN);
	assert_true(late_give(&h->late));
	assert_int_equal(pthread_join(h->thread, NULL), 0);
	assert_memory_equal(h->s.at, was, LEN);
	free(was);
}

static void leave(struct held *h)
{
	h->s.f->mr[0] = h->own;
	assert_int_equal(mr_dereg(h->late_mr), 0);
	late_close(&h->late);
	unshare_(&h->s);
}

static void dereg(struct held *h)
{
	assert_int_equal(mr_dereg(h->s.mr), 0);
	h->s.mr = NULL;
}

/* Checks that the copy has come as far as the late page. */
static void expect_begun(const struct held *h)
{
	expect(h, BEFORE_LATE, LEN, 0xee);
}

static void a_region_goes_under_a_writer(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	dereg(&h);
	expect_begun(&h);
	memset(h.s.at, 0x11, LEN);
	let_go(&h);
	fix_wc(h.s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	leave(&h);
}

/* What the READ took from the old mapping must not be reported as the region's bytes. */
static void a_region_goes_under_a_reader(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h, read_late))
		skip();
	dereg(&h);
	memset(h.s.at, 0x11, LEN);
	let_go(&h);
	fix_wc(h.s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	leave(&h);
}

/* Nobody can tell whether the atomic reached the region, so it ends as if no answer had
 * come. */
static void a_region_goes_under_an_atomic(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h, add_late))
		skip();
	dereg(&h);
	let_go(&h);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

/* B's QP goes while A's thread is inside by it: the region stays, is reached without its
 * mapping, and the wait for the thread is bounded. */
static void a_qp_goes_under_a_writer(void **state)
{
	struct held h;
	struct core *core;
	uint32_t qpn;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	core = &h.s.f->s->node[1].core;
	qpn = h.s.f->p.qp[1]->qpn;
	fix_modify(h.s.f, 1, IBV_QPS_ERR);
	assert_int_equal(direct_fence(core, qpn), 0);
	direct_of(core)->patience_ns = UINT64_MAX;
	direct_of(core)->give_up_ns = UINT64_MAX;
	/* The thread is not waited for a second time. */
	assert_int_equal(direct_fence(core, qpn), 0);
	expect_begun(&h);
	let_go(&h);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

/* Another region has the same pages: its key leaves the export table for a moment
 * only. */
static void its_neighbour_stays(void **state)
{
	struct held h;
	struct mr *other;
	struct exported_mr e;
	struct core *core;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	core = &h.s.f->s->node[1].core;
	other = sim_mr(h.s.f->s, 1, h.s.at + LEN / 2, LEN / 2, FIX_ALL);
	dereg(&h);
	assert_true(exports_get_mr(core->exports, other->mkey.key, &e));
	assert_int_equal(e.key, other->mkey.key);
	assert_int_equal(e.host, (uintptr_t)h.s.at + LEN / 2);
	expect_begun(&h);
	let_go(&h);
	assert_int_equal(mr_dereg(other), 0);
	leave(&h);
}

static bool is_file(const struct shared *s)
{
	const uint64_t at = (uintptr_t)s->at;
	struct procmap m;
	struct procmaps maps;
	bool is = false;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		is |= m.lo < at + LEN && at < m.hi && m.perms[3] == 's';
	procmaps_close(&maps);
	return is;
}

/* Simulates a thread of A that is inside by the other region's key and does not leave.
 * Its WRITE would be executed twice if the pages were taken from it, so both regions
 * must stay. */
static void expect_both_stay(struct held *h, int (*take)(struct held *h), uint32_t key,
			     uint32_t qpn, uint64_t give_up_ns)
{
	_Atomic uint64_t *word = &h->s.f->s->node[0].core.exports->thread[9].inside;
	struct core *core = &h->s.f->s->node[1].core;
	uint64_t torn = atomic_load(&core->exports->torn);

	direct_of(core)->give_up_ns = give_up_ns;
	atomic_store(word,
		     (uint64_t)key << INSIDE_KEY_AT | (uint64_t)qpn << INSIDE_QPN_AT | 1);
	assert_int_equal(take(h), -EBUSY);
	assert_int_equal(atomic_load(&core->exports->torn), torn);
	assert_true(is_file(&h->s));
	atomic_store(word, 0);
	assert_int_equal(take(h), 0);
	let_go(h);
}

static int take_region(struct held *h)
{
	int rc = mr_dereg(h->s.mr);

	if (!rc)
		h->s.mr = NULL;
	return rc;
}

static int take_qp(struct held *h)
{
	return direct_fence(&h->s.f->s->node[1].core, h->s.f->p.qp[1]->qpn);
}

static void another_region_has_a_writer(uint64_t give_up_ns)
{
	struct held h;
	struct mr *other;

	if (!hold(&h, write_late))
		skip();
	other = sim_mr(h.s.f->s, 1, h.s.at + LEN / 2, LEN / 2, FIX_ALL);
	expect_both_stay(&h, take_region, other->mkey.key, h.s.f->p.qp[1]->qpn,
			 give_up_ns);
	assert_int_equal(mr_dereg(other), 0);
	leave(&h);
}

static void another_qp_has_a_writer(uint64_t give_up_ns)
{
	struct held h;

	if (!hold(&h, write_late))
		skip();
	fix_modify(h.s.f, 1, IBV_QPS_ERR);
	expect_both_stay(&h, take_qp, h.s.mr->mkey.key, h.s.f->p.qp[1]->qpn ^ 1,
			 give_up_ns);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

static void another_region_has_a_writer_too(void **state)
{
	(void)state;
	another_region_has_a_writer(100000000);
}

static void another_qp_has_a_writer_too(void **state)
{
	(void)state;
	another_qp_has_a_writer(100000000);
}

/* The wait for the one thread has taken all the time that the call has, so there is
 * little patience with the other. */
static void another_region_has_a_writer_when_time_is_up(void **state)
{
	(void)state;
	another_region_has_a_writer(0);
}

static void another_qp_has_a_writer_when_time_is_up(void **state)
{
	(void)state;
	another_qp_has_a_writer(0);
}

/* Another thread of B's program may touch the pages while they move, so they stay where
 * they are, and deregistration answers EBUSY. */
static void not_with_other_threads(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	threads_end();
	direct_of(&h.s.f->s->node[1].core)->give_up_ns = 100000000;
	assert_int_equal(mr_dereg(h.s.mr), -EBUSY);
	assert_true(late_give(&h.late));
	assert_int_equal(pthread_join(h.thread, NULL), 0);
	dereg(&h);
	leave(&h);
}

/* The region is lent again by the same key: from then on threads that are inside by that
 * key are waited for again. */
static void a_region_that_is_lent_again(void **state)
{
	struct held h;
	struct reach *r;
	struct mkey old;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	r = &pair_peer(h.s.f, 1)->reach;
	old = h.s.mr->mkey;
	assert_int_equal(mr_rereg(h.s.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  FIX_ALL & ~IBV_ACCESS_REMOTE_ATOMIC),
			 0);
	assert_int_equal(h.s.mr->mkey.key, old.key);
	let_go(&h);
	fix_quiet(h.s.f);
	gate_is_lent(r, old.key);
	for (unsigned i = 0; i < EXPORT_THREADS; i++)
		assert_int_equal(r->harmless[i], 0);
	leave(&h);
}

/* The program moves a region's memory by mremap(), registers it at the new address, and
 * deregisters the old region: the memory stays a file's for the new region, and is
 * private when that has gone, too. */
static void a_region_that_was_moved(void **state)
{
	struct shared s = share_private(FIX_ALL);
	struct mr *old = s.mr;
	uint8_t *to;

	(void)state;
	to = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_equal(mremap(s.at, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	s.at = to;
	s.mr = sim_mr(s.f->s, 1, s.at, LEN, FIX_ALL);
	use(&s);
	assert_non_null(map_of(&s));
	assert_int_equal(mr_dereg(old), 0);
	memset(s.at, 0, LEN);
	memset(s.f->mr[0]->mkey.host, 0x5a, 64);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 64);
	done_at_once(&s, 1);
	for (unsigned i = 0; i < 65; i++)
		assert_int_equal(s.at[i], i < 64 ? 0x5a : 0);
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
	assert_false(is_file(&s));
	assert_int_equal(s.at[0], 0x5a);
	unshare_(&s);
}

/* The program makes a call before which private memory must be private again (here
 * share_make_private()), while a WRITE of A's is under way: the memory stays a file's,
 * the WRITE is not executed twice, and nobody waits for long. */
static void a_region_in_use_stays_with_its_writer(void **state)
{
	const struct extent all = { 0, UINT64_MAX };
	struct held h;
	struct core *core;
	uint64_t torn;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	core = &h.s.f->s->node[1].core;
	torn = atomic_load(&core->exports->torn);
	assert_false(share_make_private(&all));
	assert_int_equal(atomic_load(&core->exports->torn), torn);
	assert_true(is_file(&h.s));
	assert_true(late_give(&h.late));
	assert_int_equal(pthread_join(h.thread, NULL), 0);
	fix_wc(h.s.f, 0, 1, IBV_WC_SUCCESS);
	expect(&h, 0, HELD_LEN, 0x77);
	expect(&h, HELD_LEN, LEN, 0xee);
	leave(&h);
}

/* Simulates a process_vm_writev of another process that does not end. */
static void a_region_in_use_is_not_waited_for_for_long(void **state)
{
	const struct extent all = { 0, UINT64_MAX };
	struct shared s = mapped_private();
	struct core *core = &s.f->s->node[1].core;
	struct reach *r = &pair_peer(s.f, 1)->reach;

	(void)state;
	direct_of(core)->patience_ns = 20000000;
	direct_of(core)->give_up_ns = UINT64_MAX;
	atomic_store(r->theirs, (uint64_t)s.mr->mkey.key << INSIDE_KEY_AT |
					(uint64_t)s.f->p.qp[1]->qpn << INSIDE_QPN_AT | 1);
	assert_false(share_make_private(&all));
	assert_false(r->gate.shut);
	assert_true(is_file(&s));
	atomic_store(r->theirs, 0);
	assert_true(share_make_private(&all));
	assert_false(is_file(&s));
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_goes_under_a_writer),
		cmocka_unit_test(a_region_goes_under_a_reader),
		cmocka_unit_test(a_region_goes_under_an_atomic),
		cmocka_unit_test(a_qp_goes_under_a_writer),
		cmocka_unit_test(its_neighbour_stays),
		cmocka_unit_test(another_region_has_a_writer_too),
		cmocka_unit_test(another_qp_has_a_writer_too),
		cmocka_unit_test(another_region_has_a_writer_when_time_is_up),
		cmocka_unit_test(another_qp_has_a_writer_when_time_is_up),
		cmocka_unit_test(not_with_other_threads),
		cmocka_unit_test(a_region_that_is_lent_again),
		cmocka_unit_test(a_region_that_was_moved),
		cmocka_unit_test(a_region_in_use_stays_with_its_writer),
		cmocka_unit_test(a_region_in_use_is_not_waited_for_for_long),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
