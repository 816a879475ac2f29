/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that post and poll at the same time drive one engine, whose QPs only record
 * the time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "driver/conn.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/sources.h"
#include "driver/tuning.h"
#include "ib/ib.h"
#include "net/batch.h"
#include "shm/peers.h"
#include "sys/clock.h"
#include "verbs/due.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

enum { THREADS = 6, ROUNDS = 20000 };

static struct {
	struct nic *nic;
	struct nic_link nl;
	struct link link;
	struct context ctx;
	struct qp qp[THREADS];
	bool full; /* the link takes nothing */
	/* guarded by the turn */
	uint64_t last;
	unsigned turns, back;
} t;

static bool fake_output(struct qp *qp, struct batch *b, uint64_t now)
{
	(void)qp;
	(void)b;
	(void)now;
	return false;
}

static uint64_t fake_run(struct qp *qp, uint64_t now)
{
	(void)qp;
	t.turns++;
	if (now < t.last)
		t.back++;
	t.last = now;
	return NEVER;
}

static const struct transport fake_transport = {
	.name = "fake",
	.output = fake_output,
	.run = fake_run,
};

static int link_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	(void)link;
	(void)v;
	(void)now;
	return t.full ? 0 : (int)n;
}

static int link_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	(void)link;
	(void)v;
	(void)n;
	(void)now;
	return 0;
}

static uint64_t link_deadline(struct link *link)
{
	(void)link;
	return NEVER;
}

static const struct link_ops link_ops = {
	.send = link_send,
	.recv = link_recv,
	.deadline = link_deadline,
};

static const struct nic_link_ops nl_ops = { .carries = NULL };
static const struct source_ops nl_source = { .input = links_input };

static int begin(void **state)
{
	struct nic *nic = calloc(1, sizeof(*nic));
	struct engine *e = &nic->engine;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.nic = nic;
	assert_int_equal(core_init(&nic->core, 1), 0);
	heap_init(&e->timers);
	nic->core.timers = &e->timers;
	assert_int_equal(ib_open(&nic->core, 0), 0);
	assert_int_equal(peers_open(&nic->core, NULL, LOCAL_OFF, "so", NULL, NULL), 0);
	assert_int_equal(conns_open(&nic->conns, &nic->core, NULL, NULL), 0);
	assert_int_equal(cm_open(&nic->cm, &nic->core, NULL, NULL, 1), 0);
	t.link = (struct link){ .ops = &link_ops, .run_max = 1, .mtu = 9000 };
	t.ctx.link = &t.link;
	e->core = &nic->core;
	links_init(&nic->links, &nic->core);
	t.nl = (struct nic_link){ .ops = &nl_ops, .link = &t.link };
	links_add(&nic->links, &t.nl, &nl_source);
	assert_int_equal(cm_use_link(nic->cm, NULL, &t.link, 4791), 0);
	sources_open(nic);
	for (int i = 0; i < THREADS; i++) {
		t.qp[i].core = &nic->core;
		t.qp[i].ctx = &t.ctx;
		t.qp[i].transport = &fake_transport;
		lock_init(&t.qp[i].lock);
	}
	return 0;
}

static int end(void **state)
{
	struct nic *nic = t.nic;

	(void)state;
	heap_fini(&nic->engine.timers);
	conns_close(nic->conns);
	cm_close(nic->cm);
	peers_close(&nic->core);
	ib_close(&nic->core);
	core_fini(&nic->core);
	free(nic);
	return 0;
}

static void *post_and_poll(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		nic_post(t.nic, arg, false);
		if (i % 4 == 0)
			(void)nic_poll(t.nic);
	}
	return NULL;
}

static void time_does_not_go_back(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, post_and_poll,
						&t.qp[i]),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_true(t.turns >= ROUNDS);
	assert_int_equal(t.back, 0);
}

/* --- a poller's patience ----------------------------------------------------------- */

/* Returns how often a poll that finds nothing gives the processor away.  All polls before
 * it were in vain for long, and other threads use up their time slices. */
static long naps_in_a_poll(void)
{
	struct spin *spin = &t.nic->engine.pollers.spin;
	struct rusage before, after;

	*spin = (struct spin){ .nap_until = NEVER };
	getrusage(RUSAGE_THREAD, &before);
	assert_true(nic_poll(t.nic));
	getrusage(RUSAGE_THREAD, &after);
	return after.ru_nvcsw - before.ru_nvcsw;
}

/* A program that has just taken a completion is not idle, although no turn of a poll has
 * found it: the post did the work, or the engine's thread. */
static void a_poller_that_gets_completions(void **state)
{
	(void)state;
	nic_polled(t.nic);
	assert_int_equal(naps_in_a_poll(), 0);
	assert_int_equal(naps_in_a_poll(), 1);
}

/* A QP that always has a datagram to send. */
static bool one_output(struct qp *qp, struct batch *b, uint64_t now)
{
	static uint8_t bytes[4];
	struct dgram *d = batch_next(b);

	(void)now;
	d->link = qp->ctx->link;
	d->len = sizeof(bytes);
	d->iov[0] = (struct iovec){ bytes, sizeof(bytes) };
	d->iovcnt = 1;
	batch_commit(b, d);
	return false;
}

static uint64_t one_commit(struct qp *qp, unsigned first, unsigned n, uint64_t now)
{
	(void)qp;
	(void)first;
	(void)n;
	(void)now;
	return NEVER;
}

static uint64_t one_run(struct qp *qp, uint64_t now)
{
	(void)qp;
	(void)now;
	return NEVER;
}

static const struct transport one_transport = {
	.name = "one",
	.output = one_output,
	.commit = one_commit,
	.run = one_run,
};

/* Whoever makes room in a full link may need the poller's processor. */
static void a_poller_at_a_full_link(void **state)
{
	struct qp *qp = &t.qp[0];

	(void)state;
	qp->transport = &one_transport;
	assert_int_equal(heap_reserve(&t.nic->engine.timers, 1), 0);
	due_add(&t.nic->core, qp);
	assert_int_equal(naps_in_a_poll(), 0); /* the datagram was sent */
	t.full = true;
	due_add(&t.nic->core, qp);
	assert_int_equal(naps_in_a_poll(), 1);
	t.full = false;
	qp->transport = &fake_transport;
}

/* --- a call that waits for an event ---------------------------------------------- */

/* A source whose input is read when its descriptor was readable, as a peer's messages
 * are: host/ asks no socket in each turn. */
static struct {
	struct source source;
	int fd[2];
	unsigned heard;
} bell;

static unsigned bell_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)depth;
	(void)got;
	(void)now;
	bell.heard += s->ready == bell.fd[0];
	return 0;
}

static unsigned bell_fds(struct source *s, struct source_fd *fd)
{
	(void)s;
	*fd = (struct source_fd){ .fd = bell.fd[0], .is = SOURCE_KICK };
	return 1;
}

static const struct source_ops bell_ops = { SOURCE_SOCKETS, .input = bell_input,
					    .fds = bell_fds };

static bool bell_was_heard(void *arg)
{
	(void)arg;
	return bell.heard;
}

/* Whatever wakes a thread that waits, the thread takes it in: it does not spin until the
 * engine's thread, which is not there, has done so. */
static void a_call_that_waits_hears_what_woke_it(void **state)
{
	int rc = 0;

	(void)state;
	assert_int_equal(pipe(bell.fd), 0);
	source_init(&bell.source, &bell_ops);
	engine_add(&t.nic->engine, &bell.source);
	assert_int_equal(write(bell.fd[1], "", 1), 1);
	/* It waits for a moment only. */
	for (int i = 0; i < 100 && !rc; i++)
		rc = nic_await(&t.nic->core, -1, bell_was_heard, NULL);
	assert_int_equal(rc, 1);
	assert_int_equal(bell.source.ready, -1);
	close(bell.fd[0]);
	close(bell.fd[1]);
}

/* --- another thread's turn between reading the clock and taking the turn
 * --------------- */

/* The next reading of the clock returns after another thread's turn. */
static _Atomic bool delayed;

static void *another_turn(void *arg)
{
	nic_post(t.nic, arg, false);
	due_add(&t.nic->core, &t.qp[2]); /* the QP whose time counts */
	return NULL;
}

/* Stands in for libc's function. If a thread reads the clock while it holds the turn, no
 * other thread can have one in between. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	long rc = syscall(SYS_clock_gettime, clock, ts);
	pthread_t thread;

	if (atomic_exchange(&delayed, false)) {
		assert_int_equal(pthread_create(&thread, NULL, another_turn, &t.qp[1]),
				 0);
		pthread_join(thread, NULL);
	}
	return (int)rc;
}

static void poll_once(void)
{
	assert_true(nic_poll(t.nic));
}

static void flush_once(void)
{
	nic_flush(t.nic);
}

static void post_once(void)
{
	nic_post(t.nic, &t.qp[0], false);
}

static void the_clock_is_read_in_the_turn(void **state)
{
	static void (*const calls[])(void) = { poll_once, flush_once, post_once };

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		turn_take(&t.nic->core.turn);
		due_add(&t.nic->core, &t.qp[0]);
		turn_give(&t.nic->core.turn);
		t.turns = 0;
		delayed = true;
		calls[i]();
		assert_false(delayed);
		assert_true(t.turns >= 2);
		assert_int_equal(t.back, 0);
	}
}

/* --- a thread that sleeps ------------------------------------------------- */

static uint64_t wakes_at;

static uint64_t run_later(struct qp *qp, uint64_t now)
{
	(void)qp;
	(void)now;
	return wakes_at;
}

static const struct transport posts = {
	.name = "posts",
	.output = fake_output,
	.run = run_later,
};

/* Posts while the thread sleeps. Returns whether that woke it. */
static bool post_wakes(uint64_t next, bool send)
{
	struct engine_thread *thread = &t.nic->engine.thread;
	struct ibv_sge sge = { 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
			   *bad;

	atomic_store(&thread->kicked, false);
	wakes_at = next;
	if (send)
		assert_int_equal(nic_post_send(t.nic, &t.qp[0], &wr, &bad, false), 0);
	else
		nic_post(t.nic, &t.qp[0], false);
	return atomic_load(&thread->kicked);
}

static void a_post_wakes_the_thread_in_time(void **state)
{
	enum { SIZE = 8 };
	static struct swqe wqe[SIZE];
	static struct ibv_sge sge[SIZE];
	struct engine_thread *thread = &t.nic->engine.thread;
	struct qp *qp = &t.qp[0];

	(void)state;
	qp->transport = &posts;
	qp->wr_type = IBV_QPT_RC;
	qp->state = IBV_QPS_RTS;
	qp->sq = (struct sq){
		.size = SIZE, .cap = SIZE, .max_sge = 1, .wqe = wqe, .sge = sge
	};
	thread->kick_tx = -1; /* only `kicked` counts */
	thread->sleeping = true;
	for (int send = 0; send < 2; send++) {
		/* The timer of before stays. */
		const uint64_t until = UINT64_MAX / 4 - (send ? 10 : 0);

		thread->sleep_until = until;
		thread->watching = true;
		assert_false(post_wakes(NEVER, send));
		assert_false(post_wakes(until, send));
		assert_true(post_wakes(until - 1, send));
		thread->watching = false; /* it wakes up soon by itself */
		assert_false(post_wakes(until - 1, send));
	}
}

/* --- posts that wait for a poll --------------------------------------------- */

static unsigned outputs;

static bool count_output(struct qp *qp, struct batch *b, uint64_t now)
{
	(void)qp;
	(void)b;
	(void)now;
	outputs++;
	return false;
}

static const struct transport plans = {
	.name = "plans",
	.output = count_output,
	.commit = one_commit,
	.run = one_run,
};

/* Posts n requests one by one; returns how often the QP was asked to send. */
static unsigned post_each(struct qp *qp, unsigned n)
{
	outputs = 0;
	for (unsigned i = 0; i < n; i++) {
		qp->sq.head++;
		nic_post(t.nic, qp, false);
	}
	return outputs;
}

static unsigned poll_sends(void)
{
	outputs = 0;
	poll_once();
	return outputs;
}

static void posts_gather(void **state)
{
	struct qp *qp = &t.qp[0];

	(void)state;
	assert_int_equal(heap_reserve(&t.nic->engine.timers, 1), 0);
	qp->transport = &plans;
	qp->sq.head = qp->sq.tail = (uint32_t)-2;
	/* Few are under way: each goes out at once. */
	assert_int_equal(post_each(qp, GATHER_LEAST), GATHER_LEAST);
	assert_int_equal(poll_sends(), 0);
	assert_int_equal(post_each(qp, GATHER_MOST - 1), 0);
	assert_int_equal(poll_sends(), 1);
	assert_int_equal(poll_sends(), 0);
	assert_int_equal(post_each(qp, GATHER_MOST), 1);
	qp->sq.tail = qp->sq.head; /* all are answered */
	assert_int_equal(post_each(qp, 1), 1);
}

/* No poll is to be expected, or a request waits for nothing. */
static void posts_do_not_gather(void **state)
{
	struct engine_thread *thread = &t.nic->engine.thread;
	struct transport stream = plans;
	struct qp *qp = &t.qp[0];

	(void)state;
	assert_int_equal(heap_reserve(&t.nic->engine.timers, 1), 0);
	qp->transport = &plans;
	thread->watching = true;
	assert_int_equal(post_each(qp, 2 * GATHER_LEAST), 2 * GATHER_LEAST);
	thread->watching = false;
	assert_int_equal(post_each(qp, 1), 0);
	outputs = 0;
	nic_flush(t.nic);
	assert_int_equal(outputs, 1);
	/* Its state has changed, and nothing was posted. */
	outputs = 0;
	nic_post(t.nic, qp, false);
	assert_int_equal(outputs, 1);
	stream.stream = true;
	qp->transport = &stream;
	assert_int_equal(post_each(qp, 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(posts_gather, begin, end),
		cmocka_unit_test_setup_teardown(posts_do_not_gather, begin, end),
		cmocka_unit_test_setup_teardown(a_poller_that_gets_completions, begin,
						end),
		cmocka_unit_test_setup_teardown(a_poller_at_a_full_link, begin, end),
		cmocka_unit_test_setup_teardown(time_does_not_go_back, begin, end),
		cmocka_unit_test_setup_teardown(a_call_that_waits_hears_what_woke_it,
						begin, end),
		cmocka_unit_test_setup_teardown(the_clock_is_read_in_the_turn, begin,
						end),
		cmocka_unit_test_setup_teardown(a_post_wakes_the_thread_in_time, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
