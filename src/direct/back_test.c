/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of private memory that another process has mapped, and that is made private
 * again while a thread of that process is in the middle of using it. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "core/post.h"
#include "direct/late_testing.h"
#include "direct/shared_fix.h"
#include "sys/hang_testing.h"
#include "sys/procmaps.h"

enum { HELD_LEN = 60000, BEFORE_LATE = 1000, PIECE = 2048 };

/* A thread of A that is blocked inside the region; it writes 0x77. */
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

/* Executed; then it has no memory for its result yet. */
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
	count_threads(); /* it is another process's */
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

/* The copy has reached the page that is late. */
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

/* What it has read until then is not taken for the region's. */
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

/* Nobody can tell whether the region has seen it. */
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

/* The region stays, and is reached without being mapped; the QP goes, in time. */
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
	assert_int_equal(direct_fence(core, qpn), 0); /* nor is it waited for again */
	expect_begun(&h);
	let_go(&h);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

/* Another key for the same pages; it leaves the export table only for a moment. */
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

/* Simulates a thread of A inside by that other key, which does not end: its WRITE
 * would be done twice. */
static void expect_both_stay(struct held *h, int (*take)(struct held *h), uint32_t key,
			     uint32_t qpn)
{
	_Atomic uint64_t *word = &h->s.f->s->node[0].core.exports->thread[9].inside;
	struct core *core = &h->s.f->s->node[1].core;
	uint64_t torn = atomic_load(&core->exports->torn);

	direct_of(core)->give_up_ns = 100000000;
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

static void another_region_has_a_writer_too(void **state)
{
	struct held h;
	struct mr *other;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	other = sim_mr(h.s.f->s, 1, h.s.at + LEN / 2, LEN / 2, FIX_ALL);
	expect_both_stay(&h, take_region, other->mkey.key, h.s.f->p.qp[1]->qpn);
	assert_int_equal(mr_dereg(other), 0);
	leave(&h);
}

static void another_qp_has_a_writer_too(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	fix_modify(h.s.f, 1, IBV_QPS_ERR);
	expect_both_stay(&h, take_qp, h.s.mr->mkey.key, h.s.f->p.qp[1]->qpn ^ 1);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

/* Where another thread of the program may touch it the memory stays where it is. */
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

/* The same key, lent again: who is inside by it then is waited for. */
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

/* Moved by the program, registered where it is now, deregistered where it was: it is the
 * region's memory all the same, and private when that has gone, too. */
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

/* The program does something that private memory would take otherwise, and goes on with
 * the region: nothing is done to it twice, and nobody waits for long. */
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

/* Simulates a system call of another process that does not end. */
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
		cmocka_unit_test(not_with_other_threads),
		cmocka_unit_test(a_region_that_is_lent_again),
		cmocka_unit_test(a_region_that_was_moved),
		cmocka_unit_test(a_region_in_use_stays_with_its_writer),
		cmocka_unit_test(a_region_in_use_is_not_waited_for_for_long),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
