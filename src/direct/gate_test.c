/* SPDX-License-Identifier: BSD-2-Clause */
/* A process inside a region is waited for; one that stays inside is shut out, and
 * reaches memory only by records from then on. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/fix.h"
#include "sys/hang_testing.h"
#include "sys/waiter_testing.h"
#include "verbs/mkey.h"

static const struct sim_conf direct = { .pipe_only = false,
					.timeout = 10,
					.retry_cnt = 1 };

static uint64_t inside_word(const struct fix *f, uint32_t key)
{
	return (uint64_t)key << INSIDE_KEY_AT |
	       (uint64_t)f->p.qp[1]->qpn << INSIDE_QPN_AT | 1;
}

/* Simulates a copy by A to B's memory that has begun. */
static void enter(struct fix *f)
{
	atomic_store(pair_peer(f, 0)->reach.inside, inside_word(f, f->mr[1]->mkey.key));
}

/* Sends requests, one per 100 ms, until A writes directly again; at most 1.5 s. */
static void again_directly(struct fix *f, uint64_t wr_id)
{
	for (int i = 0; i < 15 && !pair_peer(f, 0)->reach.vm; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, wr_id, 0, 9000, 0);
		fix_wc(f, 0, wr_id, IBV_WC_SUCCESS);
		pair_run(f, 100 * MS);
	}
	assert_true(pair_peer(f, 0)->reach.vm);
}

static void who_is_stopped_is_shut_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct gate *g = &pair_peer(f, 1)->reach.gate;
	const struct exports *exports = pair_peer(f, 0)->reach.exports;
	uint64_t start = clock_ns();
	uint32_t head;

	(void)state;
	enter(f);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	assert_true(clock_ns() - start > direct_of(&f->s->node[1].core)->patience_ns);
	assert_true(g->shut);
	/* A goes on: its copy fails at the gate, and it sends records instead. */
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	assert_true(pair_peer(f, 0)->reach.vm);
	head = pair_peer(f, 0)->out.head;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 9000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 9000);
	assert_int_not_equal(pair_peer(f, 0)->out.head, head);
	assert_false(pair_peer(f, 0)->reach.vm);
	/* B gives A a new gate, but not at once each time. The export table keeps its
	 * address, since A's threads may be reading it. */
	again_directly(f, 2);
	assert_ptr_equal(pair_peer(f, 0)->reach.exports, exports);
	assert_false(g->shut);
	enter(f);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	assert_true(g->shut);
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 9000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 9000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_false(pair_peer(f, 0)->reach.vm);
	assert_true(g->shut);
	/* B does not wait for A a second time, and B's access to A's memory is as
	 * before. */
	direct_of(&f->s->node[1].core)->patience_ns = UINT64_MAX;
	direct_of(&f->s->node[1].core)->give_up_ns = UINT64_MAX;
	enter(f);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	assert_true(pair_peer(f, 1)->reach.vm);
	fix_close(f);
}

/* Control calls wait only for copies to their own region or by their own QP. */
static void only_who_can_write_there_is_waited_for(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct core *core = &f->s->node[1].core;
	struct mr *other = sim_mr(f->s, 1, f->mem[1], 4096, FIX_ALL);

	(void)state;
	enter(f);
	assert_int_equal(mr_dereg(other), 0);
	direct_fence(core, f->p.qp[1]->qpn + 1);
	assert_false(pair_peer(f, 1)->reach.gate.shut);
	direct_fence(core, f->p.qp[1]->qpn);
	assert_true(pair_peer(f, 1)->reach.gate.shut);
	fix_close(f);
}

static void *come_and_go(void *arg)
{
	struct fix *f = arg;
	_Atomic uint64_t *word = pair_peer(f, 0)->reach.inside;
	uint64_t first = atomic_load(word);
	const struct turn *turn = &f->s->node[1].core.turn;
	uint32_t was = turn_ended(turn);

	/* The deregistering thread has found A inside, and has looked a second time. */
	while (turn_ended(turn) - was < 3)
		sched_yield();
	/* Once more, as if it had been allowed to. */
	atomic_store(word, (first & ~(uint64_t)INSIDE_COUNT) | 2);
	return NULL;
}

static void who_comes_back_has_been_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	pthread_t t;

	(void)state;
	direct_of(&f->s->node[1].core)->patience_ns = UINT64_MAX;
	direct_of(&f->s->node[1].core)->give_up_ns = UINT64_MAX;
	enter(f);
	assert_int_equal(pthread_create(&t, NULL, come_and_go, f), 0);
	direct_fence(&f->s->node[1].core, f->p.qp[1]->qpn);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_false(pair_peer(f, 1)->reach.gate.shut);
	atomic_store(pair_peer(f, 0)->reach.inside, 0);
	fix_close(f);
}

static void *deregister(void *arg)
{
	struct fix *f = arg;

	return (void *)(intptr_t)mr_dereg(f->mr[1]);
}

static void until_shut(struct fix *f, struct gate *g)
{
	struct turn *turn = &f->s->node[1].core.turn;
	bool shut;

	do {
		sched_yield();
		turn_take(turn);
		shut = g->shut;
		turn_give(turn);
	} while (!shut);
}

/* The counts in the gate's page say that a call of A has begun and has not ended. */
static void a_call_under_way_is_waited_for(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct gate *g = &pair_peer(f, 1)->reach.gate;
	uint64_t one = 1;
	void *rc = NULL;
	pthread_t t;

	(void)state;
	direct_of(&f->s->node[1].core)->give_up_ns = UINT64_MAX;
	enter(f);
	g->page->counts.begun = 1;
	assert_int_equal(pthread_create(&t, NULL, deregister, f), 0);
	until_shut(f, g);
	assert_int_equal(pthread_tryjoin_np(t, &rc), EBUSY);
	atomic_store(pair_peer(f, 0)->reach.inside, 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_ptr_equal(rc, NULL);
	/* The gate's page is sealed: no process can write to it any more. */
	assert_int_equal(pwrite(g->fd, &one, sizeof(one), 0), -1);
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	fix_close(f);
}

/* The wait ends with EBUSY: the region stays, and can be deregistered later. */
static void a_call_that_does_not_end_is_told(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct core *core = &f->s->node[1].core;
	uint32_t key = f->mr[1]->mkey.key;

	(void)state;
	direct_of(core)->give_up_ns = 400000000;
	pair_peer(f, 1)->reach.gate.page->counts.begun = 1;
	enter(f);
	assert_int_equal(mr_rereg(f->mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_LOCAL_WRITE),
			 -EBUSY);
	assert_int_equal(f->mr[1]->mkey.access, FIX_ALL); /* the region is unchanged */
	assert_ptr_equal(mkey_find(&core->mkeys, key), &f->mr[1]->mkey);
	assert_int_equal(mr_dereg(f->mr[1]), -EBUSY);
	assert_null(mkey_find(&core->mkeys, key));
	assert_int_equal(mr_dereg(f->mr[1]), -EBUSY);
	assert_int_equal(mr_rereg(f->mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_LOCAL_WRITE),
			 -EINVAL);
	atomic_store(pair_peer(f, 0)->reach.inside, 0);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	fix_close(f);
}

/* A call has given up on A, which is where it was: the next call answers at once. */
static void who_was_given_up_is_not_waited_for_again(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct direct *d = direct_of(&f->s->node[1].core);
	_Atomic uint64_t *word = pair_peer(f, 0)->reach.inside;

	(void)state;
	d->give_up_ns = 10000000;
	pair_peer(f, 1)->reach.gate.page->counts.begun = 1;
	enter(f);
	assert_int_equal(direct_fence(d->core, f->p.qp[1]->qpn), -EBUSY);
	d->patience_ns = d->give_up_ns = UINT64_MAX;
	assert_int_equal(direct_fence(d->core, f->p.qp[1]->qpn), -EBUSY);
	assert_int_equal(mr_dereg(f->mr[1]), -EBUSY);
	atomic_store(word, 0);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	fix_close(f);
}

static void lose_connection(struct fix *f)
{
	struct core *core = &f->s->node[1].core;

	turn_take(&core->turn);
	peers_gone(peers_of(core), f->s->node[0].core.slot);
	turn_give(&core->turn);
}

/* A's program closes its descriptors in the middle of a copy: its connection ends, but
 * the copy goes on and is waited for. */
static void an_end_of_its_connection_is_not_its_death(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct core *core = &f->s->node[1].core;
	_Atomic uint64_t *word = pair_peer(f, 0)->reach.inside;
	struct gate *g = &pair_peer(f, 1)->reach.gate;

	(void)state;
	direct_of(core)->give_up_ns = 400000000;
	enter(f);
	g->page->counts.begun = 1;
	lose_connection(f);
	assert_int_equal(mr_dereg(f->mr[1]), -EBUSY);
	atomic_store(word, 0);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	fix_close(f);
}

/* The process of A is dead, so its copy is over, whatever the gate's page says. */
static void the_dead_are_not_waited_for(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct peer *p = pair_peer(f, 1);

	(void)state;
	p->reach.pid = fork();
	if (p->reach.pid == 0)
		_exit(0);
	assert_int_equal(waitpid(p->reach.pid, NULL, 0), p->reach.pid);
	enter(f);
	p->reach.gate.page->counts.begun = 1;
	lose_connection(f);
	assert_int_equal(mr_dereg(f->mr[1]), 0); /* or EBUSY */
	atomic_store(pair_peer(f, 0)->reach.inside, 0);
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	fix_close(f);
}

/* Pins the gate's page: the kernel refers to the page for as long as the pipe holds
 * it. */
static void pin(const struct gate *g, const int pipe[2])
{
	loff_t begin = 0;

	/* splice() instead of a mapping, since a page with a writable mapping cannot be
	 * sealed */
	assert_int_equal(splice(g->fd, &begin, pipe[1], NULL, 4096, 0), 4096);
}

static void unpin(const int pipe[2])
{
	uint8_t drop[4096];

	assert_int_equal(read(pipe[0], drop, sizeof(drop)), sizeof(drop));
}

static bool is_sealed(const struct gate *g)
{
	return fcntl(g->fd, F_GET_SEALS) & F_SEAL_WRITE;
}

/* A thread that waits for the kernel to let the page go sleeps without the turn: the
 * wait goes on while another thread has the turn. Now and then the waiting thread wants
 * the turn itself; then the test tries again. */
static void the_turn_is_free_while_the_kernel_is_waited_for(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct turn *turn = &f->s->node[1].core.turn;
	struct gate *g = &pair_peer(f, 1)->reach.gate;
	bool sealed = false;
	struct waiter t;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	direct_of(&f->s->node[1].core)->give_up_ns = UINT64_MAX;
	pin(g, ends);
	enter(f);
	waiter_start(&t, deregister, f);
	until_shut(f, g);
	while (!sealed) {
		assert_true(waiter_sleeps(&t));
		turn_take(turn);
		assert_false(is_sealed(g));
		unpin(ends);
		while (!is_sealed(g) && lock_look(&turn->lock) != LOCK_AWAITED)
			sched_yield();
		sealed = is_sealed(g);
		if (!sealed)
			pin(g, ends);
		turn_give(turn);
	}
	assert_null(waiter_join(&t));
	atomic_store(pair_peer(f, 0)->reach.inside, 0);
	close(ends[0]);
	close(ends[1]);
	f->mr[1] = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	fix_close(f);
}

static void nothing_passes_a_gate_that_is_shut(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	struct peer *p = pair_peer(f, 1);
	uint64_t word = 7, here = 0;
	struct iovec from = { &word, 8 },
		     to[2] = { { p->reach.gate.page, 8 }, { &here, 8 } };

	(void)state;
	from.iov_len = 8;
	assert_int_equal(process_vm_writev(getpid(), &from, 1, to, 2, 0), 8);
	gate_end(&p->reach, false);
	assert_int_equal(process_vm_writev(getpid(), &from, 1, to, 2, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(here, 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_stopped_is_shut_out),
		cmocka_unit_test(only_who_can_write_there_is_waited_for),
		cmocka_unit_test(who_comes_back_has_been_out),
		cmocka_unit_test(a_call_under_way_is_waited_for),
		cmocka_unit_test(a_call_that_does_not_end_is_told),
		cmocka_unit_test(who_was_given_up_is_not_waited_for_again),
		cmocka_unit_test(an_end_of_its_connection_is_not_its_death),
		cmocka_unit_test(the_dead_are_not_waited_for),
		cmocka_unit_test(the_turn_is_free_while_the_kernel_is_waited_for),
		cmocka_unit_test(nothing_passes_a_gate_that_is_shut),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
