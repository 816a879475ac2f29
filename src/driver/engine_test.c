/* SPDX-License-Identifier: BSD-2-Clause */
/* Turns of the engine: what is sent, when, and which QPs wait. */
#include "driver/engine_fix.h"
#include "net/batch.h"

static void what_is_due_goes_out(void **state)
{
	struct engine_did did;

	(void)state;
	turn_is_held(t.e->core);
	wants(0, 2);
	wants(2, 3);
	t.fake[2].next = 700 * US;
	did = engine_output(t.e, NULL, 100 * US, 64);
	assert_int_equal(did.output, 5);
	assert_int_equal(did.next, 700 * US);
	all_went_out();
	assert_int_equal(engine_output(t.e, NULL, 101 * US, 64).output, 0);
}

static void a_full_link_gets_the_rest_later(void **state)
{
	uint64_t now = 100 * US;
	struct engine_did did;

	(void)state;
	turn_is_held(t.e->core);
	t.room = 3;
	wants(0, 2);
	wants(1, 2);
	wants(2, 2);
	did = engine_output(t.e, NULL, now, 64);
	assert_int_equal(did.next, now + 100 * US);
	assert_int_equal(did.output, 6);
	assert_int_equal(did.refused, 3);
	assert_int_equal(t.n, 3);
	t.room = WIRE;
	did = engine_turn(t.e, now + 50 * US, false);
	assert_int_equal(did.output, 0);
	assert_int_equal(did.refused, 0);
	assert_int_equal(t.n, 3);
	assert_int_equal(engine_turn(t.e, now + 100 * US, false).next, NEVER);
	all_went_out();
}

static void a_full_link_holds_up_its_own_qps_alone(void **state)
{
	uint64_t now = 100 * US;

	(void)state;
	turn_is_held(t.e->core);
	t.room = 1;
	t.fake[1].qp.ctx = &t.other_ctx;
	wants(0, 3);
	wants(1, 3);
	engine_output(t.e, NULL, now, 64);
	assert_int_equal(t.fake[0].sent, 1);
	assert_int_equal(t.fake[1].sent, 3);
	wants(1, 2);
	wants(2, 1);
	engine_output(t.e, NULL, now + 50 * US, 64);
	assert_int_equal(t.fake[1].sent, 5);
	assert_int_equal(t.fake[2].sent, 0);
	t.room = WIRE;
	engine_turn(t.e, now + 150 * US, false);
	all_went_out();
}

/* A ring takes a limited number of datagrams: a QP whose ring is full is asked again
 * only when there may be room. */
static void a_full_pipe_is_left_alone(void **state)
{
	enum { MANY = 240 };
	uint64_t now = 100 * US;
	unsigned turns = 0;

	(void)state;
	turn_is_held(t.e->core);
	t.share = 4;
	t.fake[0].piped = true;
	wants(0, MANY);
	wants(1, 8);
	while (t.fake[0].sent < MANY) {
		unsigned sent = t.fake[0].sent, asked = t.fake[0].asked;
		struct engine_did did = engine_turn(t.e, now, false);

		assert_in_range(t.fake[0].sent - sent, 1, MANY / 2);
		/* One call for each share of 4 datagrams, and one that finds the ring
		 * full. */
		assert_in_range(t.fake[0].asked - asked, 1,
				(t.fake[0].sent - sent) / t.share + 2);
		/* A post does not ask the QP either. */
		asked = t.fake[0].asked;
		if (t.fake[0].sent < MANY) {
			engine_output(t.e, &t.fake[0].qp, now, ENGINE_INLINE);
			assert_int_equal(t.fake[0].asked, asked);
			assert_in_range(did.next, now + 1, now + 50 * US);
		}
		now += 50 * US;
		assert_true(++turns < MANY);
	}
	assert_int_equal(t.fake[1].sent, 8); /* QPs with another way do not wait */
	assert_int_equal(t.n, 8);
}

/* A turn sends at most about as much as it may, even if the QPs have more than a batch
 * holds. */
static void a_turn_is_bounded(void **state)
{
	struct engine_did did;

	(void)state;
	turn_is_held(t.e->core);
	wants(0, 200);
	wants(1, 200);
	did = engine_output(t.e, NULL, 0, 64);
	assert_in_range(did.output, 64, 64 + BATCH_MAX);
	assert_int_equal(did.next, 0); /* the next turn is due at once */
	while (due_any(&t.nic->core))
		engine_output(t.e, NULL, 0, 64);
	all_went_out();
}

/* The same holds for a QP that has many datagrams and gives a few at a time. */
static void so_is_one_of_small_portions(void **state)
{
	struct engine_did did;

	(void)state;
	turn_is_held(t.e->core);
	t.share = 32;
	wants(0, 900);
	did = engine_output(t.e, NULL, 0, ENGINE_TX);
	assert_in_range(t.n, ENGINE_TX, ENGINE_TX + 32);
	assert_int_equal(did.output, t.n);
	while (due_any(&t.nic->core))
		engine_output(t.e, NULL, 0, ENGINE_TX);
	all_went_out();
}

static struct {
	struct source source;
	bool has;
} own;

static unsigned own_input(struct source *s, enum source_depth depth,
			  struct source_got *got, uint64_t now)
{
	(void)s;
	(void)depth;
	(void)got;
	(void)now;
	own.has = false;
	return 1;
}

static bool own_flush(struct source *s)
{
	(void)s;
	return own.has;
}

/* What output brings for this process waits for the next turn, if this one has done
 * enough.  The thread, which is awake and about to sleep, must not miss it. */
static void no_thread_sleeps_over_its_own(void **state)
{
	static const struct source_ops ops = { .input = own_input, .flush = own_flush };

	(void)state;
	turn_is_held(t.e->core);
	t.e->thread.sleeping = false;
	source_init(&own.source, &ops);
	engine_add(t.e, &own.source);
	wants(0, ENGINE_TX);
	own.has = true;
	assert_int_equal(engine_output(t.e, NULL, 100 * US, ENGINE_TX).output, ENGINE_TX);
	assert_true(own.has);
	assert_false(due_any(&t.nic->core));
	assert_int_equal(engine_deadline(t.e), 0);
	engine_turn(t.e, 101 * US, false);
	assert_false(own.has);
	assert_int_equal(engine_deadline(t.e), NEVER);
	own.has = true; /* a turn that has done little takes it in itself */
	wants(0, 1);
	engine_output(t.e, NULL, 102 * US, ENGINE_TX);
	assert_false(own.has);
	assert_int_equal(engine_deadline(t.e), NEVER);
	all_went_out();
}

static void timers(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.fake[0].next = 300 * US;
	wants(0, 1);
	engine_turn(t.e, 100 * US, false);
	assert_int_equal(t.fake[0].runs, 2);
	engine_turn(t.e, 299 * US, false);
	assert_int_equal(t.fake[0].runs, 2);
	/* A later deadline does not move the heap's timer: it fires early, and is set
	 * again. */
	t.fake[0].next = 500 * US;
	wants(0, 1);
	assert_int_equal(engine_turn(t.e, 299 * US, false).next, 300 * US);
	assert_int_equal(engine_turn(t.e, 300 * US, false).next, 500 * US);
	all_went_out();
}

static uint64_t a_millisecond_later(void)
{
	return 1100 * US;
}

/* The process is stopped between the beginning of the turn and the send: the QP's timer
 * starts when the packets have gone out. */
/* What was posted waits for the next turn, which says so, and until when the thread may
 * sleep. */
static void gathered_posts_go_out_with_the_next_turn(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.fake[0].n = 3;
	engine_gather(t.e, &t.fake[0].qp);
	assert_int_equal(engine_deadline(t.e), 0);
	engine_output(t.e, NULL, 50 * US, ENGINE_INLINE);
	assert_int_equal(t.fake[0].sent, 0);
	assert_true(engine_turn(t.e, 100 * US, false).gathered);
	assert_int_equal(t.fake[0].sent, 3);
	assert_false(engine_turn(t.e, 200 * US, false).gathered);
	assert_int_equal(engine_deadline(t.e), NEVER);
}

static void timers_run_from_when_packets_went_out(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.nic->core.round.clock = a_millisecond_later;
	wants(0, 1);
	engine_turn(t.e, 100 * US, false);
	assert_int_equal(t.fake[0].went_out, 1100 * US);
}

/* A poller sends before it reads the sockets, so a packet that it reads may answer one
 * that it has just sent. */
static void an_answer_is_not_before_its_question(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.nic->core.round.clock = a_millisecond_later;
	engine_turn(t.e, 100 * US, true);
	assert_int_equal(t.heard_at, 100 * US);
	wants(0, 1);
	engine_turn(t.e, 100 * US, true);
	assert_int_equal(t.heard_at, t.fake[0].went_out);
}

static void a_flush_does_not_wait(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.fake[0].next = 1000 * US;
	t.fake[1].next = 9000 * US;
	wants(0, 1);
	wants(1, 1);
	engine_output(t.e, NULL, 100 * US, 64);
	assert_false(t.fake[0].hurried);
	t.fake[0].n++; /* would be sent when its timer fires */
	t.fake[1].n++;
	assert_int_equal(engine_flush(t.e, 200 * US).output, 1);
	assert_true(t.fake[0].hurried);
	assert_false(t.fake[1].hurried);
	assert_false(t.nic->core.round.hurry);
}

static bool told(struct cm_owner *owner, const struct cm_event *ev)
{
	(void)owner;
	(void)ev;
	return true;
}

/* Its first MAD waits to be sent. */
static void a_connection_begins(void) REQUIRES(t.e->core->turn)
{
	const struct cm_target to = { .space = 0x0106,
				      .dst_port = 7,
				      .route = { .src = { [15] = 1 },
						 .dst = { [15] = 2 } } };
	const struct cm_param self = { .qpn = 5 };
	static struct cm_owner owner = { told };
	struct cm_conn *c;

	assert_int_equal(cm_ib_proto.connect(t.nic->cm, &to, &self, &owner, &c, 0), 0);
}

/* Messages of connection management are sent in the same turn, repeated in time, and
 * wait while the link is full. */
static void mads_go_out(void **state)
{
	uint64_t again;

	(void)state;
	turn_is_held(t.e->core);
	a_connection_begins();
	wants(0, 1);
	again = engine_output(t.e, NULL, 0, 64).next;
	assert_int_equal(t.n, 2);
	assert_int_equal(t.wire[0].len + t.wire[1].len, 280 + 1);
	assert_in_range(again, 32000 * US, 64000 * US);
	(void)engine_turn(t.e, again - 1, false);
	assert_int_equal(t.n, 2);
	t.link.full_until = again + 1;
	assert_int_equal(engine_turn(t.e, again, false).next, again + 1);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.link.took_at, 0);
	(void)engine_turn(t.e, again + 1, false);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.link.took_at, again + 1);
	assert_int_equal(t.wire[2].len, 280);
}

static void at_the_end_a_locked_qp_stays(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	wants(0, 1);
	wants(1, 1);
	t.nic->core.leaving = true;
	lock_take(&t.fake[0].qp.lock);
	assert_int_equal(engine_flush(t.e, 0).output, 1);
	lock_give(&t.fake[0].qp.lock);
	assert_ptr_equal(t.wire[0].qp, &t.fake[1].qp);
	assert_int_equal(t.fake[1].runs, 0);
}

/* Nor does anybody wait for the lock of a CQ, which a poll may have. */
static void nor_does_a_qp_whose_cq_is_locked(void **state)
{
	struct cq cq;

	(void)state;
	turn_is_held(t.e->core);
	brief_init(&cq.lock);
	brief_take(&cq.lock);
	for (int recv = 0; recv < 2; recv++) {
		struct qp *qp = &t.fake[recv].qp;

		*(recv ? &qp->recv_cq : &qp->send_cq) = &cq;
		wants(recv, 1);
	}
	wants(2, 1);
	t.nic->core.leaving = true;
	assert_int_equal(engine_flush(t.e, 0).output, 1);
	assert_ptr_equal(t.wire[0].qp, &t.fake[2].qp);
	for (int recv = 0; recv < 2; recv++)
		t.fake[recv].qp.recv_cq = t.fake[recv].qp.send_cq = NULL;
	brief_give(&cq.lock);
}

static void a_broken_link_is_the_end(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.error = -EBADF;
	wants(0, 1);
	engine_output(t.e, NULL, 0, 64);
	assert_true(engine_lost(t.e));
	assert_true(t.nic->core.dead);
	t.error = 0;
	wants(0, 1);
	assert_int_equal(engine_turn(t.e, 0, false).output, 0);
}

/* A program that closed the descriptor by which its MADs go is told so, too. */
static void a_broken_link_is_the_end_for_mads(void **state)
{
	(void)state;
	turn_is_held(t.e->core);
	t.error = -EBADF;
	a_connection_begins();
	engine_output(t.e, NULL, 0, 64);
	assert_true(engine_lost(t.e));
	assert_true(t.nic->core.dead);
}

/* A source of rings. */
static struct {
	struct source source;
	unsigned waiting, asked, flushed;
	bool answers; /* input makes a QP due */
} ring;

static unsigned ring_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	const unsigned n = ring.waiting;

	(void)s;
	(void)got;
	(void)now;
	if (depth == SOURCE_QUICK)
		return n;
	ring.asked++;
	if (n && ring.answers)
		wants(0, 1);
	ring.waiting = 0;
	return n;
}

static bool ring_flush(struct source *s)
{
	(void)s;
	ring.flushed++;
	return ring.waiting;
}

static bool ring_sleep(struct source *s, bool sleeps)
{
	(void)s;
	(void)sleeps;
	return false;
}

static const struct source_ops ring_ops = { SOURCE_RINGS, .brief = true,
					    .input = ring_input, .flush = ring_flush,
					    .sleeps = ring_sleep };
static const struct source_ops dumb_ops = { SOURCE_RINGS, .input = ring_input,
					    .flush = ring_flush, .sleeps = ring_sleep };

static void add_ring(const struct source_ops *ops)
{
	memset(&ring, 0, sizeof(ring));
	source_init(&ring.source, ops);
	engine_add(t.e, &ring.source);
	t.e->thread.sleeping = t.e->thread.watching = false;
}

/* Runs a whole turn that finds input in the ring.  Returns how many glances may follow.
 */
static unsigned glances_after(uint64_t now) REQUIRES(t.e->core->turn)
{
	unsigned n;

	ring.waiting = 1;
	engine_turn(t.e, now, true);
	for (n = 0; engine_may_glance(t.e); n++)
		assert_true(engine_is_quiet(t.e));
	return n;
}

/* While rings are busy, most turns of pollers look at rings alone, and change nothing
 * where these are quiet. */
static void pollers_glance(void **state)
{
	uint64_t now = 1000 * US;
	struct engine_did did;

	(void)state;
	turn_is_held(t.e->core);
	add_ring(&ring_ops);
	engine_turn(t.e, now, true);
	assert_false(engine_may_glance(t.e));
	assert_int_equal(glances_after(now), 32);
	assert_int_equal(ring.asked, 2);

	/* Sockets wait for whole turns, and not for long. */
	t.heard_at = 0;
	for (int i = 0; i < 2; i++)
		glances_after(++now);
	assert_int_equal(t.heard_at, now);

	ring.waiting = 1;
	engine_turn(t.e, now, true);
	assert_true(engine_may_glance(t.e));
	ring.waiting = 1;
	ring.answers = true;
	assert_false(engine_is_quiet(t.e));
	did = engine_take_rings(t.e, now);
	assert_true(did.ring);
	assert_int_equal(did.output, 1);
	all_went_out();

	/* 50 us later the rings are no longer busy. */
	engine_turn(t.e, now + 49 * US, true);
	assert_true(engine_may_glance(t.e));
	engine_turn(t.e, now + 50 * US, true);
	assert_false(engine_may_glance(t.e));
}

/* ... unless there is more to do, or somebody sleeps who must be told of deadlines. */
static void not_all_turns_are_glances(void **state)
{
	const uint64_t now = 1000 * US;

	(void)state;
	turn_is_held(t.e->core);
	add_ring(&ring_ops);
	ring.waiting = 1;
	engine_turn(t.e, now, true);
	assert_true(engine_may_glance(t.e));
	due_add(&t.nic->core, &t.fake[0].qp);
	assert_false(engine_may_glance(t.e));
	due_forget(t.e->core, &t.fake[0].qp);
	t.nic->core.round.must_hear = true;
	assert_false(engine_may_glance(t.e));
	t.nic->core.round.must_hear = false;
	t.e->thread.sleeping = t.e->thread.watching = true;
	assert_false(engine_may_glance(t.e));
	t.e->thread.sleeping = false;
	assert_true(engine_may_glance(t.e));
	t.e->broken = true;
	assert_false(engine_may_glance(t.e));
	t.e->broken = false;
	add_ring(&dumb_ops);
	assert_int_equal(glances_after(now), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_due_goes_out),
		TEST(a_full_link_gets_the_rest_later),
		TEST(a_full_link_holds_up_its_own_qps_alone),
		TEST(a_full_pipe_is_left_alone),
		TEST(a_turn_is_bounded),
		TEST(so_is_one_of_small_portions),
		TEST(no_thread_sleeps_over_its_own),
		TEST(timers),
		TEST(gathered_posts_go_out_with_the_next_turn),
		TEST(timers_run_from_when_packets_went_out),
		TEST(an_answer_is_not_before_its_question),
		TEST(a_flush_does_not_wait),
		TEST(mads_go_out),
		TEST(at_the_end_a_locked_qp_stays),
		TEST(nor_does_a_qp_whose_cq_is_locked),
		TEST(a_broken_link_is_the_end),
		TEST(a_broken_link_is_the_end_for_mads),
		TEST(pollers_glance),
		TEST(not_all_turns_are_glances),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
