/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that both processes have mapped: who posts does the work, at once, with the
 * same bytes, rights, order and ends as any other way. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/late_testing.h"
#include "direct/map.h"
#include "direct/words.h"
#include "local/fix.h"

enum { LEN = 512 << 10, USES = 40 };

static const struct sim_conf conf = { .pipe_only = false, .timeout = 10, .retry_cnt = 1 };

/* B's memory is a file's. */
struct shared {
	struct fix *f;
	int fd;
	uint8_t *at;
	struct mr *mr;
};

static struct shared share(int access, int flags)
{
	struct shared s = { .f = pair_open(IBV_QPT_RC, &conf),
			    .fd = memfd_create("shared", MFD_CLOEXEC) };

	assert_int_equal(ftruncate(s.fd, LEN), 0);
	s.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, s.fd, 0);
	assert_ptr_not_equal(s.at, MAP_FAILED);
	s.mr = sim_mr(s.f->s, 1, s.at, LEN, access);
	return s;
}

static void unshare_(struct shared *s)
{
	if (s->mr)
		assert_int_equal(mr_dereg(s->mr), 0);
	fix_close(s->f);
	munmap(s->at, LEN);
	close(s->fd);
}

/* A's request, of len bytes at from of its memory and at to of the shared. */
static void post(struct shared *s, enum ibv_wr_opcode op, uint64_t wr_id, size_t from,
		 size_t to, uint32_t len)
{
	struct ibv_sge sge = sim_sge(s->f->mr[0], from, len);
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = op,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = s->mr->mkey.base + to;
		wr.wr.atomic.rkey = s->mr->mkey.key;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = s->mr->mkey.base + to;
		wr.wr.rdma.rkey = s->mr->mkey.key;
	}
	sim_send(s->f->p.qp[0], &wr);
}

static void done(struct shared *s, uint64_t wr_id)
{
	fix_wc(s->f, 0, wr_id, IBV_WC_SUCCESS);
}

/* Without a turn. */
static void done_at_once(struct shared *s, uint64_t wr_id)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(s->f->p.cq[0], 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static uint64_t times(const struct shared *s)
{
	return pair_q(s->f, 0)->at_once;
}

static struct mapping *map_of(const struct shared *s)
{
	struct reach *r = &pair_peer(s->f, 0)->reach;

	return atomic_load(&r->map[map_place(s->mr->mkey.key)]);
}

/* Often enough that it is asked for. */
static void use(struct shared *s)
{
	for (unsigned i = 0; i < USES; i++) {
		post(s, IBV_WR_RDMA_WRITE, 1000 + i, 0, 0, 8);
		done(s, 1000 + i);
		fix_quiet(s->f);
	}
}

static struct shared mapped(int access)
{
	struct shared s = share(access, MAP_SHARED);

	use(&s);
	assert_non_null(map_of(&s));
	assert_true(times(&s) > 0);
	return s;
}

static void the_same_bytes(void **state)
{
	static const uint32_t len[] = { 1,    2,    4,	  7,	8,     9,    63,
					64,   65,   80,	  200,	1500,  2047, 2048,
					2049, 4095, 4096, 4097, 65535, 65536 };
	struct shared s = mapped(FIX_ALL);
	uint8_t *mine = s.f->mem[0];

	(void)state;
	pair_stop(s.f, 1); /* it takes no part */
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (size_t off = 0; off < 9; off++) {
			uint64_t before = times(&s);

			memset(s.at, 0xee, LEN);
			post(&s, IBV_WR_RDMA_WRITE, i, 3, 100 + off, len[i]);
			done_at_once(&s, i);
			assert_memory_equal(s.at + 100 + off, mine + 3, len[i]);
			assert_int_equal(s.at[99 + off], 0xee);
			assert_int_equal(s.at[100 + off + len[i]], 0xee);
			post(&s, IBV_WR_RDMA_READ, i, LEN + 5, 90 + off, len[i]);
			done_at_once(&s, i);
			assert_memory_equal(s.at + 90 + off, mine + LEN + 5, len[i]);
			assert_int_equal(times(&s), before + 2);
		}
	unshare_(&s);
}

static void atomics(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t v = 40, got;

	(void)state;
	pair_stop(s.f, 1);
	memcpy(s.at + 64, &v, 8);
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 64, 8);
	done_at_once(&s, 1);
	memcpy(&got, s.f->mem[0], 8);
	assert_int_equal(got, 40);
	memcpy(&got, s.at + 64, 8);
	assert_int_equal(got, 45);
	post(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 0, 64, 8); /* it is not 5 */
	done_at_once(&s, 2);
	memcpy(&got, s.at + 64, 8);
	assert_int_equal(got, 45);
	v = 5;
	memcpy(s.at + 64, &v, 8);
	post(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 0, 64, 8);
	done_at_once(&s, 3);
	memcpy(&got, s.at + 64, 8);
	assert_int_equal(got, 77);
	/* What is not aligned the other refuses. */
	pair_go(s.f, 1);
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 68, 8);
	fix_wc(s.f, 0, 4, IBV_WC_REM_INV_REQ_ERR);
	unshare_(&s);
}

/* Inline data needs no key; a list is done one by one, however long. */
static void inline_data_and_lists(void **state)
{
	enum { MANY = 300 };
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s), v[MANY];
	struct ibv_send_wr wr[MANY], *bad;
	struct ibv_sge sge[MANY];

	(void)state;
	pair_stop(s.f, 1);
	for (uint64_t i = 0; i < MANY; i++) {
		v[i] = i * 77;
		sge[i] = (struct ibv_sge){ (uintptr_t)&v[i], 8, 0 };
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < MANY ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags =
				IBV_SEND_INLINE | (i + 1 < MANY ? 0u : IBV_SEND_SIGNALED),
			.wr.rdma = { s.mr->mkey.base + 8 * i, s.mr->mkey.key },
		};
	}
	assert_int_equal(qp_post_send(s.f->p.qp[0], wr, &bad), 1);
	done_at_once(&s, MANY - 1);
	assert_int_equal(times(&s), before + MANY);
	assert_memory_equal(s.at, v, sizeof(v));
	unshare_(&s);
}

/* A call does so much at once, the engine the rest: qp->lock is not for ever. */
static void a_call_does_so_much_at_once(void **state)
{
	enum { MANY = 7, AT_ONCE = 4, EACH = 65536 };
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);
	struct ibv_send_wr wr[MANY];
	struct ibv_sge sge[MANY];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		sge[i] = sim_sge(s.f->mr[0], i * EACH, EACH);
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < MANY ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { s.mr->mkey.base + i * EACH, s.mr->mkey.key },
		};
	}
	sim_send(s.f->p.qp[0], wr);
	for (unsigned i = 0; i < MANY; i++)
		done(&s, i);
	assert_int_equal(times(&s), before + AT_ONCE);
	assert_memory_equal(s.at, s.f->mem[0], MANY * EACH);
	unshare_(&s);
}

/* The result finds no memory: it was executed all the same, and once. */
static void an_atomic_whose_result_has_no_place(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(s.f->s, 0, gone, 4096, FIX_ALL), *was = s.f->mr[0];
	uint64_t v = 1;

	(void)state;
	memcpy(s.at, &v, 8);
	munmap(gone, 4096);
	s.f->mr[0] = mr;
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 0, 8);
	fix_wc(s.f, 0, 1, IBV_WC_LOC_PROT_ERR);
	fix_quiet(s.f);
	assert_int_equal(s.f->p.qp[0]->state, IBV_QPS_ERR);
	memcpy(&v, s.at, 8);
	assert_int_equal(v, 6);
	assert_int_equal(mr_dereg(mr), 0);
	s.f->mr[0] = was;
	unshare_(&s);
}

static void what_is_not_allowed_the_other_refuses(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct shared s =
			mapped(i == 1 ? FIX_ALL & ~IBV_ACCESS_REMOTE_READ : FIX_ALL);
		uint64_t before = times(&s);

		switch (i) {
		case 0: /* one byte behind its end */
			post(&s, IBV_WR_RDMA_WRITE, 1, 0, LEN - 7, 8);
			break;
		case 1:
			post(&s, IBV_WR_RDMA_READ, 1, 0, 0, 8);
			break;
		case 2: /* before its beginning */
			post(&s, IBV_WR_RDMA_WRITE, 1, 0, (size_t)-1, 8);
			break;
		case 3: { /* the QP has other rights now */
			struct ibv_qp_attr a = { .qp_access_flags = 0 };

			assert_int_equal(qp_modify(s.f->p.qp[1], &a, IBV_QP_ACCESS_FLAGS,
						   s.f->s->now),
					 0);
			direct_fence(&s.f->s->node[1].core, s.f->p.qp[1]->qpn);
			post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
			fix_wc(s.f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
			break;
		}
		}
		if (i < 3)
			fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(times(&s), before);
		unshare_(&s);
	}
}

static void nothing_is_overtaken(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);

	(void)state;
	fix_recv(s.f, 8, 0, 100);
	memset(s.at, 0xee, 100);
	pair_stop(s.f, 1);
	fix_post(s.f, IBV_WR_SEND, 1, 0, 100, 0);
	post(&s, IBV_WR_RDMA_WRITE, 2, 0, 0, 8);
	pair_run(s.f, 1 * MS);
	assert_int_equal(times(&s), before);
	assert_int_equal(s.at[0], 0xee);
	pair_go(s.f, 1);
	done(&s, 1);
	done(&s, 2);
	fix_quiet(s.f);
	assert_memory_equal(s.at, s.f->mem[0], 8);
	unshare_(&s);
}

/* A SEND that was executed and not acknowledged is no obstacle, and completes first. */
static void what_was_executed_is_followed_at_once(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct core *b = &s.f->s->node[1].core;
	uint64_t before = times(&s);

	(void)state;
	fix_recv(s.f, 8, 0, 100);
	pair_stop(s.f, 1);
	fix_post(s.f, IBV_WR_SEND, 1, 0, 100, 0);
	pair_run(s.f, 1000);
	turn_take(&b->turn);
	local_input(b->local, s.f->s->now); /* it takes it in, and says nothing */
	turn_give(&b->turn);
	post(&s, IBV_WR_RDMA_WRITE, 2, 0, 0, 8);
	assert_int_equal(times(&s), before + 1);
	done_at_once(&s, 1);
	done_at_once(&s, 2);
	pair_go(s.f, 1);
	fix_quiet(s.f);
	unshare_(&s);
}

/* --- what goes away ------------------------------------------------------ */

static void a_file_that_is_cut_is_an_error(void **state)
{
	struct shared s = mapped(FIX_ALL);

	(void)state;
	assert_int_equal(ftruncate(s.fd, 4096), 0);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 4096);
	done_at_once(&s, 1);
	post(&s, IBV_WR_RDMA_WRITE, 2, 0, 4000, 200);
	fix_wc(s.f, 0, 2, IBV_WC_REM_OP_ERR);
	assert_true(map_of(&s)->bad);
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

/* A thread of A's is inside, so to speak. */
static _Atomic uint64_t *enter(struct shared *s, uint32_t key)
{
	_Atomic uint64_t *word = &s->f->s->node[0].core.board->thread[9].inside;

	atomic_store(word, (uint64_t)key << INSIDE_KEY_AT |
				   (uint64_t)s->f->p.qp[1]->qpn << INSIDE_QPN_AT | 1);
	return word;
}

/* B's control call has found somebody inside, and has looked again. */
static void until_it_waits(const struct shared *s, uint32_t turns)
{
	while (turn_ended(&s->f->s->node[1].core.turn) - turns < 3)
		usleep(100);
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

/* A stopped process cannot be shut out of what it has mapped, but it may die. */
static void who_stays_inside(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *a = &pair_peer(s.f, 1)->reach;
	_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);
	pid_t was = a->pid;

	(void)state;
	s.f->s->node[1].core.direct->give_up_ns = 300000000;
	assert_int_equal(mr_dereg(s.mr), -EBUSY);
	assert_false(a->gate.shut);
	a->pid = fork();
	if (a->pid == 0)
		_exit(0);
	assert_int_equal(waitpid(a->pid, NULL, 0), a->pid);
	assert_int_equal(mr_dereg(s.mr), 0);
	a->pid = was;
	s.mr = NULL;
	atomic_store(word, 0);
	unshare_(&s);
}

/* Its process lives, but as another program: nobody is inside any more. */
static void who_becomes_another_program(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *a = &pair_peer(s.f, 1)->reach;
	_Atomic uint64_t *word = enter(&s, s.mr->mkey.key);
	struct core *b = &s.f->s->node[1].core;
	pid_t was = a->pid;
	int ends[2];

	(void)state;
	b->direct->give_up_ns = 300000000;
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
	/* While it is connected it is what it was. */
	assert_int_equal(mr_dereg(s.mr), -EBUSY);
	turn_take(&b->turn);
	local_gone(b->local, s.f->s->node[0].core.slot);
	turn_give(&b->turn);
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
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
	struct core *b = &s.f->s->node[1].core;

	(void)state;
	b->direct->give_up_ns = 300000000;
	pair_peer(s.f, 1)->reach.pid = getpid();
	turn_take(&b->turn);
	local_gone(b->local, s.f->s->node[0].core.slot);
	turn_give(&b->turn);
	assert_int_equal(mr_dereg(s.mr), -EBUSY);
	atomic_store(word, 0);
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
	unshare_(&s);
}

/* A thread of A's that stands in the middle of a WRITE; what it writes is 0x77. */
struct held {
	struct shared s;
	struct late late;
	struct mr *late_mr, *own;
	pthread_t thread;
};

enum { HELD_LEN = 60000, BEFORE_LATE = 1000, PIECE = 2048 };

static void *write_late(void *arg)
{
	struct held *h = arg;

	post(&h->s, IBV_WR_RDMA_WRITE, 1, LATE_PAGE - BEFORE_LATE, 0, HELD_LEN);
	return NULL;
}

static bool hold(struct held *h)
{
	*h = (struct held){ .late.fd = -1 };
	if (!late_open(&h->late, 0x77))
		return false;
	h->s = mapped(FIX_ALL);
	h->late_mr = sim_mr(h->s.f->s, 0, h->late.at, LATE_SIZE, FIX_ALL);
	h->own = h->s.f->mr[0];
	h->s.f->mr[0] = h->late_mr;
	h->s.f->s->node[1].core.direct->give_up_ns = 50000000;
	memset(h->s.at, 0xee, LEN);
	assert_int_equal(pthread_create(&h->thread, NULL, write_late, h), 0);
	assert_true(late_reached(&h->late));
	return true;
}

/* It goes on, and ends the piece that it was at. */
static void let_go(struct held *h)
{
	assert_true(late_give(&h->late));
	assert_int_equal(pthread_join(h->thread, NULL), 0);
	for (size_t i = 0; i < HELD_LEN; i++)
		assert_int_equal(h->s.at[i], i < PIECE ? 0x77 : 0xee);
}

static void leave(struct held *h)
{
	h->s.f->mr[0] = h->own;
	assert_int_equal(mr_dereg(h->late_mr), 0);
	late_close(&h->late);
	unshare_(&h->s);
}

static void who_stands_in_a_copy_of_a_region_that_goes(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h))
		skip();
	assert_int_equal(mr_dereg(h.s.mr), -EBUSY);
	let_go(&h);
	assert_int_equal(mr_dereg(h.s.mr), 0);
	h.s.mr = NULL;
	fix_wc(h.s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	leave(&h);
}

/* The caller is told that it may still be written to. */
static void who_stands_in_a_copy_by_a_qp_that_goes(void **state)
{
	struct held h;
	uint32_t qpn;

	(void)state;
	if (!hold(&h))
		skip();
	qpn = h.s.f->p.qp[1]->qpn;
	fix_modify(h.s.f, 1, IBV_QPS_ERR);
	assert_int_equal(direct_fence(&h.s.f->s->node[1].core, qpn), -EBUSY);
	let_go(&h);
	assert_int_equal(direct_fence(&h.s.f->s->node[1].core, qpn), 0);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

/* Nothing was taken away: all of it comes. */
static void who_stood_in_a_copy_ends_it(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h))
		skip();
	assert_true(late_give(&h.late));
	assert_int_equal(pthread_join(h.thread, NULL), 0);
	done_at_once(&h.s, 1);
	for (size_t i = 0; i < HELD_LEN + 9; i++)
		assert_int_equal(h.s.at[i], i < HELD_LEN ? 0x77 : 0xee);
	leave(&h);
}

/* Memory of ours that a thread of ours reads is not freed under it. */
static void a_region_of_ours_waits_for_our_threads(void **state)
{
	struct shared s = mapped(FIX_ALL), t = { .f = s.f };
	_Atomic uint64_t *word = enter(&s, 1);
	void *rc = &s;
	pthread_t thread;

	(void)state;
	t.mr = sim_mr(s.f->s, 0, s.f->mem[0], 4096, FIX_ALL);
	assert_int_equal(pthread_create(&thread, NULL, deregister, &t), 0);
	usleep(50000);
	assert_int_equal(pthread_tryjoin_np(thread, &rc), EBUSY);
	atomic_store(word, 0);
	assert_int_equal(pthread_join(thread, &rc), 0);
	assert_ptr_equal(rc, NULL);
	unshare_(&s);
}

static void the_other_ends(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *r = &pair_peer(s.f, 0)->reach;
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

/* --- what is lent, and what is taken ------------------------------------- */

static void what_is_not_shared_is_not_lent(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct shared s = share(i ? FIX_ALL | IBV_ACCESS_ON_DEMAND : FIX_ALL,
					i ? MAP_SHARED : MAP_PRIVATE);

		use(&s);
		assert_null(map_of(&s));
		assert_int_equal(times(&s), 0);
		assert_false(pair_peer(s.f, 1)->reach.lent);
		unshare_(&s);
	}
}

/* Two mappings of a file side by side are one; what is elsewhere in it is not. */
static void as_far_as_the_file_goes_on(void **state)
{
	struct shared s = share(FIX_ALL, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct lent lent;
	int fd;

	(void)state;
	assert_ptr_equal(mmap(s.at + LEN / 2, 4096, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, s.fd, 0),
			 s.at + LEN / 2);
	fd = reach_lend(r, s.mr->mkey.key, &lent);
	assert_true(fd >= 0);
	assert_int_equal(lent.lo, (uintptr_t)s.at);
	assert_int_equal(lent.hi, (uintptr_t)s.at + LEN / 2);
	assert_int_equal(lent.offset, 0);
	close(fd);
	unshare_(&s);
}

/* The program has closed its descriptor, and the file has no name: who may not open it
 * by its mapping lends nothing.  It is lent for reading if that is all it is for. */
static void a_descriptor_is_found_or_not(void **state)
{
	struct shared s = share(IBV_ACCESS_REMOTE_READ, MAP_SHARED);
	struct reach *r = &pair_peer(s.f, 1)->reach;
	struct lent lent;
	int fd = reach_lend(r, s.mr->mkey.key, &lent);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	assert_int_equal(reach_lend(r, s.mr->mkey.key + 1, &lent), -1);
	close(s.fd);
	fd = reach_lend(r, s.mr->mkey.key, &lent);
	if (fd >= 0)
		close(fd);
	s.fd = -1;
	unshare_(&s);
}

static void what_is_said_may_be_a_lie(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct reach *r = &pair_peer(s.f, 0)->reach;
	struct lent good = map_of(&s)->lent, l;
	int other = memfd_create("short", MFD_CLOEXEC), ends[2];

	(void)state;
	assert_int_equal(ftruncate(other, 4096), 0);
	assert_int_equal(pipe(ends), 0);
	l = good, l.version += 2;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.key ^= 1;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.key ^= 1 << 8;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.hi = l.lo;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.hi = l.lo - 1;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.lo = 0, l.hi = UINT64_MAX;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.offset = UINT64_MAX - 4095;
	assert_false(reach_map(r, &l, s.fd));
	l = good, l.offset = 4096;
	assert_false(reach_map(r, &l, s.fd));
	assert_false(reach_map(r, &good, other));
	assert_false(reach_map(r, &good, ends[0]));
	assert_false(reach_map(r, &good, -1));
	/* Elsewhere than the region is: nothing of it is here. */
	l = good, l.lo += 1ull << 40, l.hi += 1ull << 40;
	assert_true(reach_map(r, &l, s.fd));
	memset(s.at, 0xee, 8);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	done(&s, 1);
	assert_memory_equal(s.at, s.f->mem[0], 8);
	/* Where it begins the file may not be a page's: a piece of a page is as good. */
	l = good, l.lo += 100, l.offset += 100;
	assert_true(reach_map(r, &l, s.fd));
	post(&s, IBV_WR_RDMA_WRITE, 2, 3, 200, 8);
	done_at_once(&s, 2);
	assert_memory_equal(s.at + 200, s.f->mem[0] + 3, 8);
	close(other);
	close(ends[0]);
	close(ends[1]);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes),
		cmocka_unit_test(atomics),
		cmocka_unit_test(inline_data_and_lists),
		cmocka_unit_test(a_call_does_so_much_at_once),
		cmocka_unit_test(an_atomic_whose_result_has_no_place),
		cmocka_unit_test(what_is_not_allowed_the_other_refuses),
		cmocka_unit_test(nothing_is_overtaken),
		cmocka_unit_test(what_was_executed_is_followed_at_once),
		cmocka_unit_test(a_file_that_is_cut_is_an_error),
		cmocka_unit_test(a_region_that_is_gone_is_not_reached),
		cmocka_unit_test(a_region_that_has_changed_is_looked_at_again),
		cmocka_unit_test(who_is_inside_is_waited_for),
		cmocka_unit_test(who_stays_inside),
		cmocka_unit_test(who_becomes_another_program),
		cmocka_unit_test(who_closes_its_connection_is_inside_still),
		cmocka_unit_test(who_stands_in_a_copy_of_a_region_that_goes),
		cmocka_unit_test(who_stands_in_a_copy_by_a_qp_that_goes),
		cmocka_unit_test(who_stood_in_a_copy_ends_it),
		cmocka_unit_test(a_region_of_ours_waits_for_our_threads),
		cmocka_unit_test(the_other_ends),
		cmocka_unit_test(what_is_not_shared_is_not_lent),
		cmocka_unit_test(as_far_as_the_file_goes_on),
		cmocka_unit_test(a_descriptor_is_found_or_not),
		cmocka_unit_test(what_is_said_may_be_a_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
