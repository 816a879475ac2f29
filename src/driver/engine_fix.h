/* SPDX-License-Identifier: BSD-2-Clause */
/* engine_fix.h - for tests: turns of the engine, with QPs that only count and a link that
 * is full when the test says so. */
#ifndef DRIVER_ENGINE_FIX_H
#define DRIVER_ENGINE_FIX_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "driver/conn.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/sources.h"
#include "ib/ib.h"
#include "net/batch.h"
#include "net/ip_addr.h"
#include "shm/peers.h"
#include "shm/shm.h"
#include "sys/clock.h"
#include "verbs/core.h"
#include "verbs/due.h"
#include "verbs/qp.h"
#include "verbs/round.h"
#include "verbs/transport.h"

enum { QPS = 3, WIRE = 1000, US = 1000, LONG = 8000 };

/* A QP that wants to send n datagrams; datagram k is k + 1 bytes long. */
struct fake {
	struct qp qp;
	unsigned n, sent, runs;
	uint64_t next;	  /* the time that run() returns */
	uint64_t silence; /* the QP fails if no input comes by then; 0: it does not */
	bool failed;
	bool hurried;
	bool piped;	/* its datagrams are long, and go to this process by a ring */
	unsigned asked; /* calls of output() */
	uint64_t went_out;
};

static struct {
	struct nic *nic;
	struct nic_link nl;
	struct engine *e;
	struct link link, other; /* other: never full */
	struct context ctx, other_ctx;
	struct fake fake[QPS];
	unsigned room;	  /* datagrams that the link takes */
	unsigned share;	  /* datagrams that a QP gives per call */
	unsigned waiting; /* packets that have come in, for no QP */
	uint64_t heard_at;
	int error;
	unsigned n; /* datagrams that were sent */
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
	f->hurried = qp->core->round.hurry;
	f->asked++;
	for (i = f->sent; i < f->n && i - f->sent < t.share && batch_has_room(b, 1, 0);
	     i++) {
		struct dgram *d = batch_next(b);

		d->link = qp->ctx->link;
		ip_of(d)->ifindex = (uint32_t)(f - t.fake) + 1;
		d->len = f->piped ? LONG : i + 1;
		d->same_host = f->piped;
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

	assert_true(first + n <= t.e->out.batch.n);
	f->sent += n;
	f->went_out = now;
	f->runs += !qp->core->leaving;
	return f->next > now ? f->next : NEVER;
}

static uint64_t fake_run(struct qp *qp, uint64_t now)
{
	struct fake *f = fake_of(qp);

	f->runs++;
	if (f->silence && silent_until(&qp->core->round, f->silence, now)) {
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
	t.heard_at = now;
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
static const struct peers_ops rings = { 0 };

static const struct source_ops nl_source = { .input = links_input };

NO_TSA static int begin(void **state)
{
	static const struct cm_site site = { .lost = nic_lost };

	(void)state;
	memset(&t, 0, sizeof(t));
	t.nic = calloc(1, sizeof(*t.nic));
	t.e = &t.nic->engine;
	assert_int_equal(core_init(&t.nic->core, 1), 0);
	heap_init(&t.e->timers);
	assert_int_equal(heap_reserve(&t.e->timers, QPS), 0);
	t.nic->core.timers = &t.e->timers;
	assert_int_equal(ib_open(&t.nic->core, 0), 0);
	assert_int_equal(peers_open(&t.nic->core, NULL, LOCAL_PIPE, NULL, &rings, NULL),
			 0);
	assert_int_equal(conns_open(&t.nic->conns, &t.nic->core, NULL, NULL), 0);
	assert_int_equal(cm_open(&t.nic->cm, &t.nic->core, NULL, &site, 1), 0);
	t.link = (struct link){ .ops = &link_ops, .run_max = 1, .mtu = 9000 };
	t.ctx.link = &t.link;
	t.other = t.link;
	t.other_ctx.link = &t.other;
	t.e->core = &t.nic->core;
	links_init(&t.nic->links, &t.nic->core);
	t.nl = (struct nic_link){ .ops = &nl_ops, .link = &t.link };
	links_add(&t.nic->links, &t.nl, &nl_source);
	assert_int_equal(cm_use_link(t.nic->cm, NULL, &t.link, 4791), 0);
	t.e->thread.sleeping = t.e->thread.watching =
		true; /* so the engine sets deadlines for the thread */
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
	cm_close(t.nic->cm);
	peers_close(&t.nic->core);
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

/* Checks that each QP's datagrams were sent once and in order. */
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
