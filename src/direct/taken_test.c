/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that both processes have mapped, and that is taken away from the process
 * using it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "direct/shared_fix.h"
#include "sys/hang_testing.h"
#include "sys/waiter_testing.h"
#include "verbs/exports.h"

static void a_file_that_is_cut_is_an_error(void **state)
{
	struct shared s = mapped(FIX_ALL);
	const struct reach *r = reach_of(&s);
	uint64_t serial = maps_serial(r);

	(void)state;
	assert_int_equal(ftruncate(s.fd, 4096), 0);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 4096);
	done_at_once(&s, 1);
	assert_int_equal(maps_serial(r), serial);
	post(&s, IBV_WR_RDMA_WRITE, 2, 0, 4000, 200);
	fix_wc(s.f, 0, 2, IBV_WC_REM_OP_ERR);
	assert_true(map_of(&s)->bad);
	assert_int_not_equal(maps_serial(r), serial);
	unshare_(&s);
}

static void a_region_that_is_gone_is_not_reached(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);
	struct mkey old = s.mr->mkey;

	(void)state;
	assert_int_equal(mr_dereg(s.mr), 0);
	memset(s.at, 0xee, 8);
	s.mr = calloc(1, sizeof(*s.mr));
	s.mr->mkey = old;
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(s.at[0], 0xee);
	assert_int_equal(times(&s), before);
	free(s.mr);
	s.mr = NULL;
	unshare_(&s);
}

/* The same key, other rights: mapped anew, where it is used again. */
static void a_region_that_has_changed_is_looked_at_again(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before;

	(void)state;
	assert_int_equal(mr_rereg(s.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  FIX_ALL & ~IBV_ACCESS_REMOTE_ATOMIC),
			 0);
	before = times(&s);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	done(&s, 1);
	assert_int_equal(times(&s), before);
	use(&s);
	assert_true(times(&s) > before);
	unshare_(&s);
}

static void *deregister(void *arg)
{
	struct shared *s = arg;

	return (void *)(intptr_t)mr_dereg(s->mr);
}

/* Simulates a thread of A that is inside. */
static _Atomic uint64_t *enter(struct shared *s, uint32_t key)
{
	_Atomic uint64_t *word = &s->f->s->node[0].core.exports->thread[9].inside;

	atomic_store(word, (uint64_t)key << INSIDE_KEY_AT |
				   (uint64_t)s->f->p.qp[1]->qpn << INSIDE_QPN_AT | 1);
	return word;
}

/* B's control call has found a thread inside, and has looked again. */
static void until_it_waits(const struct shared *s, uint32_t turns)
{
	while (turn_ended(&s->f->s->node[1].core.turn) - turns < 3)
		sched_yield();
}

static void who_is_inside_is_waited_for(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct shared s = mapped(FIX_ALL);
		_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);
		void *rc = &s;
		uint32_t turns;
		pthread_t t;

		assert_int_equal(mr_dereg(s.f->mr[1]), 0); /* nobody is in this one */
		s.f->mr[1] = NULL;
		direct_of(&s.f->s->node[1].core)->patience_ns = UINT64_MAX;
		direct_of(&s.f->s->node[1].core)->give_up_ns = UINT64_MAX;
		turns = turn_ended(&s.f->s->node[1].core.turn);
		assert_int_equal(pthread_create(&t, NULL, deregister, &s), 0);
		until_it_waits(&s, turns);
		assert_int_equal(pthread_tryjoin_np(t, &rc), EBUSY);
		/* It leaves, or does so and comes again. */
		atomic_store(word, i ? atomic_load(word) + 1 : 0);
		assert_int_equal(pthread_join(t, &rc), 0);
		assert_ptr_equal(rc, NULL);
		s.mr = NULL;
		atomic_store(word, 0);
		unshare_(&s);
	}
}

enum { GIVE_UP_NS = 300000000 };

/* B's region stays, since a thread is in it that does not leave. */
static void stays(struct shared *s)
{
	direct_of(&s->f->s->node[1].core)->give_up_ns = GIVE_UP_NS;
	assert_int_equal(mr_dereg(s->mr), -EBUSY);
}

static void goes(struct shared *s)
{
	assert_int_equal(mr_dereg(s->mr), 0);
	s->mr = NULL;
}

/* A call has given up on a thread, which has then left and entered 256 times: its word is
 * the same, and it is waited for as any other. */
static void who_was_given_up_and_comes_again_is_waited_for(void **state)
{
	enum { NAPS = 2000 }; /* longer than the time in which nobody is given up */
	struct shared s = mapped(FIX_ALL);
	struct direct *d = direct_of(&s.f->s->node[1].core);
	struct export_thread *me =
		container_of(enter(&s, s.mr->mkey.key), struct export_thread, inside);
	uint32_t turns;
	void *rc = NULL;
	pthread_t t;

	(void)state;
	stays(&s);
	atomic_fetch_add(&me->entries, 256);
	d->patience_ns = d->give_up_ns = UINT64_MAX;
	turns = turn_ended(&d->core->turn);
	assert_int_equal(pthread_create(&t, NULL, deregister, &s), 0);
	while (turn_ended(&d->core->turn) - turns < NAPS) {
		assert_int_equal(pthread_tryjoin_np(t, &rc), EBUSY);
		sched_yield();
	}
	atomic_store(&me->inside, 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_ptr_equal(rc, NULL);
	s.mr = NULL;
	unshare_(&s);
}

/* A stopped process cannot be shut out of what it has mapped, but it may die. */
static void who_stays_inside(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *a = &pair_peer(s.f, 1)->reach;
	_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);
	pid_t was = a->pid;

	(void)state;
	stays(&s);
	assert_false(a->gate.shut);
	a->pid = fork();
	if (a->pid == 0)
		_exit(0);
	assert_int_equal(waitpid(a->pid, NULL, 0), a->pid);
	goes(&s);
	a->pid = was;
	atomic_store(word, 0);
	unshare_(&s);
}

static void disconnects(struct shared *s)
{
	struct core *b = &s->f->s->node[1].core;

	turn_take(&b->turn);
	peers_gone(peers_of(b), s->f->s->node[0].core.slot);
	turn_give(&b->turn);
}

/* Its process lives, but as another program: nobody is inside any more. */
static void who_becomes_another_program(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *a = &pair_peer(s.f, 1)->reach;
	_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);
	pid_t was = a->pid;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	a->pid = fork();
	if (a->pid == 0) {
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &was, 1), 0); /* by now it has */
	close(ends[0]);
	was = a->pid;
	stays(&s); /* while it is connected it is what it was */
	disconnects(&s);
	goes(&s);
	assert_int_equal(kill(was, SIGKILL), 0);
	assert_int_equal(waitpid(was, NULL, 0), was);
	atomic_store(word, 0);
	unshare_(&s);
}

/* ... and as what it was, though it has closed its descriptors. */
static void who_closes_its_connection_is_inside_still(void **state)
{
	struct shared s = mapped(FIX_ALL);
	_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);

	(void)state;
	pair_peer(s.f, 1)->reach.pid = getpid();
	disconnects(&s);
	stays(&s);
	atomic_store(word, 0);
	goes(&s);
	unshare_(&s);
}

/* Memory of ours that a thread of ours reads is not freed under it. */
static void a_region_of_ours_waits_for_our_threads(void **state)
{
	struct shared s = mapped(FIX_ALL), t = { .f = s.f };
	_Atomic uint64_t *word = enter(&s, 1);
	struct waiter thread;

	(void)state;
	direct_of(&s.f->s->node[0].core)->give_up_ns = UINT64_MAX;
	t.mr = sim_mr(s.f->s, 0, s.f->mem[0], 4096, FIX_ALL);
	waiter_start(&thread, deregister, &t);
	for (int i = 0; i < 3; i++)
		assert_true(waiter_sleeps(&thread));
	atomic_store(word, 0);
	assert_null(waiter_join(&thread));
	unshare_(&s);
}

static void the_other_ends(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *r = reach_of(&s);
	unsigned place = map_place(s.mr->mkey.key);

	(void)state;
	sim_leave(s.f->s, 1);
	s.f->p.qp[1] = NULL;
	fix_quiet(s.f);
	assert_null(atomic_load(&r->map[place]));
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	fix_wc(s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	unshare_(&s);
}

/* A mapping that has failed once is not used, though its region is as it was. */
static void a_mapping_that_is_bad_is_not_used(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);

	(void)state;
	map_of(&s)->bad = true;
	maps_changed(reach_of(&s));
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	done(&s, 1);
	use(&s); /* nor asked for again */
	assert_null(map_of(&s));
	assert_int_equal(times(&s), before);
	unshare_(&s);
}

/* A thread of A's that uses the region of that key in a third process. */
static void who_is_inside_another_process(void **state)
{
	struct shared s = mapped(FIX_ALL);
	_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);
	uint16_t slot = s.f->s->node[1].core.slot;

	(void)state;
	atomic_store(word, (uint64_t)s.mr->mkey.key << INSIDE_KEY_AT |
				   (uint64_t)qpn_make(slot == 1 ? 2 : 1, 5)
					   << INSIDE_QPN_AT |
				   1);
	direct_of(&s.f->s->node[1].core)->give_up_ns = 0;
	goes(&s);
	atomic_store(word, 0);
	unshare_(&s);
}

struct replacing {
	struct shared *s;
	struct lent lent;
};

static void *map_again(void *arg)
{
	struct replacing *r = arg;

	assert_true(reach_map(&pair_peer(r->s->f, 0)->reach, &r->lent, r->s->fd));
	return NULL;
}

static void *map_no_more(void *arg)
{
	struct replacing *r = arg;

	maps_close(&pair_peer(r->s->f, 0)->reach);
	return NULL;
}

/* ... and so is who is inside by those that unmap. */
static void a_mapping_waits_for_our_threads(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct shared s = mapped(FIX_ALL);
		struct replacing r = { &s, map_of(&s)->lent };
		struct mapping *was = map_of(&s);
		_Atomic uint64_t *word = enter(&s, 1);
		struct waiter t;

		direct_of(&s.f->s->node[0].core)->patience_ns = UINT64_MAX;
		direct_of(&s.f->s->node[0].core)->give_up_ns = UINT64_MAX;
		waiter_start(&t, i ? map_no_more : map_again, &r);
		while (map_of(&s) == was)
			sched_yield();
		for (int k = 0; k < 3; k++)
			assert_true(waiter_sleeps(&t));
		atomic_store(word, 0);
		waiter_join(&t);
		unshare_(&s);
	}
}

/* ... which ends, before the thread that is inside leaves. */
static void *expect_end(void *(*fn)(void *), void *arg)
{
	pthread_t t;
	void *rc;

	assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	return rc;
}

static void a_region_of_ours_does_not_wait_for_ever(void **state)
{
	struct shared s = mapped(FIX_ALL), t = { .f = s.f };
	_Atomic uint64_t *word = enter(&s, 1);

	(void)state;
	direct_of(&s.f->s->node[0].core)->give_up_ns = 50000000;
	t.mr = sim_mr(s.f->s, 0, s.f->mem[0], 4096, FIX_ALL);
	for (int i = 0; i < 2; i++)
		assert_int_equal((intptr_t)expect_end(deregister, &t), -EBUSY);
	atomic_store(word, 0);
	assert_int_equal(mr_dereg(t.mr), 0);
	unshare_(&s);
}

/* What a thread may use stays mapped, and no longer than it may. */
static void a_mapping_does_not_wait_for_ever(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct direct *d = direct_of(&s.f->s->node[0].core);
	struct replacing r = { &s, map_of(&s)->lent };
	struct mapping *was = map_of(&s);
	_Atomic uint64_t *word = enter(&s, 1);

	(void)state;
	d->patience_ns = 20000000;
	s.at[0] = 0x5a;
	expect_end(map_again, &r);
	assert_ptr_not_equal(map_of(&s), was);
	assert_int_equal(was->at[0], 0x5a);
	atomic_store(word, 0);
	map_no_more(&r);
	assert_true(list_empty(&d->left));
	unshare_(&s);
}

/* ... nor longer than the device.  The turn does not wait twice. */
static void a_device_closes_with_what_is_left_mapped(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct direct *d = direct_of(&s.f->s->node[0].core);
	struct replacing r = { &s, map_of(&s)->lent };
	_Atomic uint64_t *word = enter(&s, 1);

	(void)state;
	d->patience_ns = 0;
	expect_end(map_again, &r);
	d->patience_ns = UINT64_MAX;
	expect_end(map_no_more, &r);
	assert_false(list_empty(&d->left));
	atomic_store(word, 0);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_is_cut_is_an_error),
		cmocka_unit_test(a_region_that_is_gone_is_not_reached),
		cmocka_unit_test(a_region_that_has_changed_is_looked_at_again),
		cmocka_unit_test(who_is_inside_is_waited_for),
		cmocka_unit_test(who_was_given_up_and_comes_again_is_waited_for),
		cmocka_unit_test(who_stays_inside),
		cmocka_unit_test(who_becomes_another_program),
		cmocka_unit_test(who_closes_its_connection_is_inside_still),
		cmocka_unit_test(a_region_of_ours_waits_for_our_threads),
		cmocka_unit_test(the_other_ends),
		cmocka_unit_test(a_mapping_that_is_bad_is_not_used),
		cmocka_unit_test(who_is_inside_another_process),
		cmocka_unit_test(a_mapping_waits_for_our_threads),
		cmocka_unit_test(a_region_of_ours_does_not_wait_for_ever),
		cmocka_unit_test(a_mapping_does_not_wait_for_ever),
		cmocka_unit_test(a_device_closes_with_what_is_left_mapped),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
