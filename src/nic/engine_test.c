/* SPDX-License-Identifier: BSD-2-Clause */
/* Turns of the engine, with QPs that only count and a link that is full when
 * the test says so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "core/core.h"
#include "core/due.h"
#include "core/qp.h"
#include "core/timeout.h"
#include "core/transport.h"
#include "ib/ib.h"
#include "link/ip_addr.h"
#include "local/local.h"
#include "nic/conn.h"
#include "nic/nic_own.h"
#include "sys/clock.h"

enum { QPS = 3, WIRE = 1000, US = 1000, LONG = 8000 };

/* A QP that wants to send n datagrams; the k-th is k + 1 bytes long. */
struct fake {
	struct qp qp;
	unsigned n, sent, runs;
	uint64_t next;	  /* what run() answers */
	uint64_t silence; /* it fails if nothing comes by then; 0: no */
	bool failed;
	bool hurried;
	bool piped;	/* all of its datagrams are long, and to this process */
	unsigned asked; /* for output */
	uint64_t went_out;
};

static struct {
	struct nic *nic;
	struct nic_link nl;
	struct engine *e;
	struct link link, other; /* which is never full */
	struct context ctx, other_ctx;
	struct fake fake[QPS];
	unsigned room;	  /* what the link takes */
	unsigned share;	  /* what a QP gives at a time */
	unsigned waiting; /* what came in: no packet of anybody's */
	int error;
	unsigned n; /* on the wire */
	struct {
		const struct qp *qp;
		uint32_t len;
	} wire[WIRE];
} t;

static struct fake *fake_of(struct qp *qp)
{
	return container_of(qp, struct fake, qp);
}

static bool fake_output(struct qp *qp, struct batch *b, uint64_t now)
{
	static uint8_t bytes[LONG];
	struct fake *f = fake_of(qp);
	unsigned i;

	(void)now;
	f->hurried = qp->core->hurry;
	f->asked++;
	for (i = f->sent; i < f->n && i - f->sent < t.share && batch_has_room(b, 1, 0);
	     i++) {
		struct dgram *d = batch_next(b);

		d->link = qp->ctx->link;
		ip_of(d)->ifindex = (uint32_t)(f - t.fake) + 1;
		d->len = f->piped ? LONG : i + 1;
		d->here = f->piped;
		d->to_slot = t.nic->core.slot;
		d->iov[0] = (struct iovec){ bytes, d->len };
		d->iovcnt = 1;
		batch_commit(b, d);
	}
	return i < f->n;
}

static uint64_t fake_commit(struct qp *qp, unsigned first, unsigned n, uint64_t now)
{
	struct fake *f = fake_of(qp);

	assert_true(first + n <= t.e->batch.n);
	f->sent += n;
	f->went_out = now;
	f->runs += !qp->core->leaving;
	return f->next > now ? f->next : NEVER;
}

static uint64_t fake_run(struct qp *qp, uint64_t now)
{
	struct fake *f = fake_of(qp);

	f->runs++;
	if (f->silence && silent_until(qp->core, f->silence, now)) {
		f->failed = true;
		f->silence = 0;
	}
	if (f->silence)
		return f->silence;
	return f->next > now ? f->next : NEVER;
}

static const struct transport fake_transport = {
	.name = "fake",
	.output = fake_output,
	.commit = fake_commit,
	.run = fake_run,
};

static int link_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	unsigned i, all = n, *room = link == &t.other ? &all : &t.room;

	(void)now;
	if (t.error)
		return t.error;
	for (i = 0; i < n && room[0] > 0; i++, room[0]--) {
		uint32_t who = ip_of(&v[i])->ifindex;

		assert_true(t.n < WIRE);
		t.wire[t.n].qp = who ? &t.fake[who - 1].qp : NULL;
		t.wire[t.n++].len = v[i].len;
	}
	return (int)i;
}

static int link_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	static uint8_t bytes[4];
	unsigned i;

	(void)link;
	(void)now;
	for (i = 0; i < n && t.waiting; i++, t.waiting--) {
		v[i] = (struct dgram){ .len = sizeof(bytes),
				       .iovcnt = 1,
				       .one = { bytes, sizeof(bytes) } };
		v[i].iov = &v[i].one;
	}
	return (int)i;
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
	.resolve = ip_resolve,
};

static const struct nic_link_ops nl_ops = { .carries = NULL };

NO_TSA static int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.nic = calloc(1, sizeof(*t.nic));
	t.e = &t.nic->engine;
	assert_int_equal(core_init(&t.nic->core, 1), 0);
	heap_init(&t.e->timers);
	assert_int_equal(heap_reserve(&t.e->timers, QPS), 0);
	t.nic->core.timers = &t.e->timers;
	assert_int_equal(ib_open(&t.nic->core, 0), 0);
	assert_int_equal(local_open(&t.nic->core, NULL, LOCAL_PIPE, NULL, NULL, NULL), 0);
	assert_int_equal(conns_open(&t.nic->conns, &t.nic->core, NULL, NULL), 0);
	assert_int_equal(cm_open(&t.nic->core, NULL, NULL, 1), 0);
	t.link = (struct link){ .ops = &link_ops, .run_max = 1, .mtu = 9000 };
	t.ctx.link = &t.link;
	t.other = t.link;
	t.other_ctx.link = &t.other;
	t.e->core = &t.nic->core;
	links_init(&t.nic->links, &t.nic->core);
	t.nl = (struct nic_link){ .ops = &nl_ops, .link = &t.link };
	links_add(&t.nic->links, &t.nl);
	assert_int_equal(cm_use_link(&t.nic->core, NULL, &t.link, &ib_transport, 4791),
			 0);
	t.e->sleeping = t.e->watching = true; /* and so is told of deadlines */
	sources_open(t.nic);
	t.room = WIRE;
	t.share = BATCH_MAX;
	for (int i = 0; i < QPS; i++) {
		t.fake[i].qp.core = &t.nic->core;
		t.fake[i].qp.ctx = &t.ctx;
		t.fake[i].qp.transport = &fake_transport;
		t.fake[i].next = NEVER;
		lock_init(&t.fake[i].qp.lock);
	}
	turn_take(&t.nic->core.turn);
	return 0;
}

NO_TSA static int end(void **state)
{
	(void)state;
	turn_give(&t.nic->core.turn);
	heap_fini(&t.e->timers);
	conns_close(t.nic->conns);
	cm_close(&t.nic->core);
	local_close(&t.nic->core);
	ib_close(&t.nic->core);
	core_fini(&t.nic->core);
	free(t.nic);
	return 0;
}

static void wants(int i, unsigned n)
{
	t.fake[i].n += n;
	due_add(&t.nic->core, &t.fake[i].qp);
}

/* Each QP's datagrams went out once and in order. */
static void all_went_out(void)
{
	unsigned n[QPS] = { 0 };

	for (unsigned i = 0; i < t.n; i++)
		for (int k = 0; k < QPS; k++)
			if (t.wire[i].qp == &t.fake[k].qp)
				assert_int_equal(t.wire[i].len, ++n[k]);
	for (int k = 0; k < QPS; k++)
		assert_int_equal(n[k], t.fake[k].n);
}

static void what_is_due_goes_out(void **state)
{
	struct engine_did did;

	(void)state;
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

	(void)state;
	t.room = 3;
	wants(0, 2);
	wants(1, 2);
	wants(2, 2);
	assert_int_equal(engine_output(t.e, NULL, now, 64).next, now + 100 * US);
	assert_int_equal(t.n, 3);
	t.room = WIRE;
	assert_int_equal(engine_turn(t.e, now + 50 * US, false).output, 0);
	assert_int_equal(t.n, 3);
	assert_int_equal(engine_turn(t.e, now + 100 * US, false).next, NEVER);
	all_went_out();
}

static void a_full_link_holds_up_its_own_qps_alone(void **state)
{
	uint64_t now = 100 * US;

	(void)state;
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

/* More than a batch holds, and a turn that is to end early. */
/* Its ring has room for so many; it is asked again when there may be more. */
static void a_full_pipe_is_left_alone(void **state)
{
	enum { MANY = 60 };
	uint64_t now = 100 * US;
	unsigned turns = 0;

	(void)state;
	t.share = 4;
	t.fake[0].piped = true;
	wants(0, MANY);
	wants(1, 8);
	while (t.fake[0].sent < MANY) {
		unsigned sent = t.fake[0].sent, asked = t.fake[0].asked;
		struct engine_did did = engine_turn(t.e, now, false);

		assert_in_range(t.fake[0].sent - sent, 1, MANY / 2);
		/* Each time for four, and once in vain. */
		assert_in_range(t.fake[0].asked - asked, 1,
				(t.fake[0].sent - sent) / t.share + 2);
		/* A post does not change that. */
		asked = t.fake[0].asked;
		if (t.fake[0].sent < MANY) {
			engine_output(t.e, &t.fake[0].qp, now, ENGINE_INLINE);
			assert_int_equal(t.fake[0].asked, asked);
			assert_in_range(did.next, now + 1, now + 50 * US);
		}
		now += 50 * US;
		assert_true(++turns < MANY);
	}
	assert_int_equal(t.fake[1].sent, 8); /* nobody else waits */
	assert_int_equal(t.n, 8);
}

static void a_turn_is_bounded(void **state)
{
	struct engine_did did;

	(void)state;
	wants(0, 200);
	wants(1, 200);
	did = engine_output(t.e, NULL, 0, 64);
	assert_in_range(did.output, 64, 64 + BATCH_MAX);
	assert_int_equal(did.next, 0); /* at once */
	while (due_any(&t.nic->core))
		engine_output(t.e, NULL, 0, 64);
	all_went_out();
}

/* ... also of a QP that gives a few at a time, and has many. */
static void so_is_one_of_small_portions(void **state)
{
	struct engine_did did;

	(void)state;
	t.share = 32;
	wants(0, 900);
	did = engine_output(t.e, NULL, 0, ENGINE_TX);
	assert_in_range(t.n, ENGINE_TX, ENGINE_TX + 32);
	assert_int_equal(did.output, t.n);
	while (due_any(&t.nic->core))
		engine_output(t.e, NULL, 0, ENGINE_TX);
	all_went_out();
}

static void timers(void **state)
{
	(void)state;
	t.fake[0].next = 300 * US;
	wants(0, 1);
	engine_turn(t.e, 100 * US, false);
	assert_int_equal(t.fake[0].runs, 2);
	engine_turn(t.e, 299 * US, false);
	assert_int_equal(t.fake[0].runs, 2);
	/* A later one need not move it: it fires early, and is set again. */
	t.fake[0].next = 500 * US;
	wants(0, 1);
	assert_int_equal(engine_turn(t.e, 299 * US, false).next, 300 * US);
	assert_int_equal(engine_turn(t.e, 300 * US, false).next, 500 * US);
	all_went_out();
}

/* --- silence ------------------------------------------------------------- */

static void fails_if_silent(int i, uint64_t at)
{
	t.nic->core.heard = 0;
	t.fake[i].silence = at;
	t.fake[i].failed = false;
	wants(i, 1);
	engine_turn(t.e, at - 1, false);
	assert_false(t.fake[i].failed);
}

/* The answer lies in the socket when the timeout is over: it comes first, for
 * whoever has the turn, and though it is not the first there. */
static void silence_is_judged_when_all_is_heard(void **state)
{
	uint64_t at = 100 * US;

	(void)state;
	for (int later = 0; later < 2; later++, at += 100 * US) {
		fails_if_silent(0, at);
		t.waiting = 5 * LINK_RX;
		while (t.waiting) {
			assert_true(engine_turn(t.e, at, later).next <= at);
			assert_false(t.fake[0].failed);
		}
		for (int i = 0; i < 3; i++)
			engine_turn(t.e, at, later);
		assert_true(t.fake[0].failed);
	}
	all_went_out();
}

/* What comes in while it is looked at is of no account. */
static void an_endless_stream_is_no_answer(void **state)
{
	const uint64_t at = 100 * US;

	(void)state;
	fails_if_silent(0, at);
	for (int i = 0; i < 100; i++) {
		t.waiting = LINK_RX;
		engine_turn(t.e, at + (uint64_t)i, i % 2);
	}
	assert_true(t.fake[0].failed);
}

/* A poster takes nothing in. */
static void who_does_not_look_does_not_judge(void **state)
{
	const uint64_t at = 100 * US;

	(void)state;
	fails_if_silent(0, at);
	for (int i = 0; i < 5; i++) {
		wants(0, 1);
		assert_true(engine_output(t.e, &t.fake[0].qp, at, 64).next <= at);
		engine_flush(t.e, at);
	}
	assert_false(t.fake[0].failed);
	engine_turn(t.e, at, false);
	engine_turn(t.e, at, false);
	assert_true(t.fake[0].failed);
}

static uint64_t a_millisecond_later(void)
{
	return 1100 * US;
}

/* The process was stopped between the beginning of the turn and the send. */
static void timers_run_from_when_packets_went_out(void **state)
{
	(void)state;
	t.nic->core.clock = a_millisecond_later;
	wants(0, 1);
	engine_turn(t.e, 100 * US, false);
	assert_int_equal(t.fake[0].went_out, 1100 * US);
}

static void a_flush_does_not_wait(void **state)
{
	(void)state;
	t.fake[0].next = 1000 * US;
	t.fake[1].next = 9000 * US;
	wants(0, 1);
	wants(1, 1);
	engine_output(t.e, NULL, 100 * US, 64);
	assert_false(t.fake[0].hurried);
	t.fake[0].n++; /* it would go with the timer */
	t.fake[1].n++;
	assert_int_equal(engine_flush(t.e, 200 * US).output, 1);
	assert_true(t.fake[0].hurried);
	assert_false(t.fake[1].hurried);
	assert_false(t.nic->core.hurry);
}

static bool told(struct cm_owner *owner, const struct cm_event *ev)
{
	(void)owner;
	(void)ev;
	return true;
}

/* What connection management has to say goes out with the rest, and again in time;
 * while the link is full it waits. */
static void mads_go_out(void **state)
{
	const struct cm_target to = { .space = 0x0106,
				      .dst_port = 7,
				      .way = { .src = { [15] = 1 },
					       .dst = { [15] = 2 } } };
	const struct cm_param self = { .qpn = 5 };
	struct cm_owner owner = { told };
	struct cm_conn *c;
	uint64_t again;

	(void)state;
	assert_int_equal(cm_ib_proto.connect(t.nic->core.cm, &to, &self, &owner, &c, 0),
			 0);
	wants(0, 1);
	again = engine_output(t.e, NULL, 0, 64).next;
	assert_int_equal(t.n, 2);
	assert_int_equal(t.wire[0].len + t.wire[1].len, 280 + 1);
	assert_in_range(again, 32000 * US, 64000 * US);
	assert_int_equal(engine_turn(t.e, again - 1, false).output, 0);
	t.link.full_until = again + 1;
	assert_int_equal(engine_turn(t.e, again, false).next, again + 1);
	assert_int_equal(t.n, 2);
	assert_int_equal(engine_turn(t.e, again + 1, false).output, 1);
	assert_int_equal(t.wire[2].len, 280);
}

static void at_the_end_a_locked_qp_stays(void **state)
{
	(void)state;
	wants(0, 1);
	wants(1, 1);
	t.nic->core.leaving = true;
	lock_take(&t.fake[0].qp.lock);
	assert_int_equal(engine_flush(t.e, 0).output, 1);
	lock_give(&t.fake[0].qp.lock);
	assert_ptr_equal(t.wire[0].qp, &t.fake[1].qp);
	assert_int_equal(t.fake[1].runs, 0);
}

static void a_broken_link_is_the_end(void **state)
{
	(void)state;
	t.error = -EBADF;
	wants(0, 1);
	engine_output(t.e, NULL, 0, 64);
	assert_true(engine_lost(t.e));
	assert_true(t.nic->core.dead);
	t.error = 0;
	wants(0, 1);
	assert_int_equal(engine_turn(t.e, 0, false).output, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_due_goes_out),
		TEST(a_full_link_gets_the_rest_later),
		TEST(a_full_link_holds_up_its_own_qps_alone),
		TEST(a_full_pipe_is_left_alone),
		TEST(a_turn_is_bounded),
		TEST(so_is_one_of_small_portions),
		TEST(silence_is_judged_when_all_is_heard),
		TEST(an_endless_stream_is_no_answer),
		TEST(who_does_not_look_does_not_judge),
		TEST(timers),
		TEST(timers_run_from_when_packets_went_out),
		TEST(a_flush_does_not_wait),
		TEST(mads_go_out),
		TEST(at_the_end_a_locked_qp_stays),
		TEST(a_broken_link_is_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
