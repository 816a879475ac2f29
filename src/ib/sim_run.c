/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_run.c - lets virtual time pass and the two NICs do their work; see sim.h. */
#include <poll.h>
#include <string.h>

#include "host/host.h"
#include "ib/ib.h"
#include "ib/sim.h"
#include "ib/sim_own.h"
#include "net/batch.h"
#include "net/ip_addr.h"
#include "shm/peers.h"
#include "sys/clock.h"
#include "sys/source.h"
#include "verbs/device_testing.h"
#include "verbs/due.h"
#include "verbs/transport.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

static void packet_of(struct sim_node *n, const struct dgram *d, struct sim_packet *p)
{
	struct ib_pkt pkt = { 0 };
	uint8_t buf[8192];
	size_t at = 0;

	for (unsigned i = 0; i < d->iovcnt; i++) {
		memcpy(buf + at, d->iov[i].iov_base, d->iov[i].iov_len);
		at += d->iov[i].iov_len;
	}
	MUST(at == d->len);
	MUST(ib_parse(&pkt, buf, at - TRAILER_LEN) == 0);
	p->f = pkt.f;
	p->side = n->side;
	p->now = n->sim->now;
	p->payload = (uint32_t)pkt.payload_len;
	p->len = d->len;
	p->d = d;
}

static unsigned deliver(struct sim_node *n, unsigned count)
{
	struct sim *s = n->sim;

	for (unsigned i = 0; i < count; i++) {
		struct dgram *d = &n->batch.v[i];
		struct sim_packet p;

		packet_of(n, d, &p);
		if (!s->tap || s->tap(s->tap_arg, &p))
			MUST(n->link->ops->send(n->link, d, 1, s->now) == 1);
	}
	return count;
}

static void set_due(struct sim_node *n, const struct qp *qp, uint64_t at)
{
	for (unsigned i = 0; i < n->nqps; i++)
		if (n->qps[i] == qp)
			n->due[i] = at;
}

static void commit(struct sim_node *n, const struct sim_part *p, unsigned taken)
{
	unsigned got = taken < p->first ? 0 : taken - p->first;
	uint64_t at, now = n->sim->now;
	struct qp *qp = p->qp;

	qp->sched.planned = false;
	lock_take(&qp->lock);
	at = qp->transport->commit(qp, p->first, got < p->n ? got : p->n, now);
	lock_give(&qp->lock);
	set_due(n, qp, at);
	if (got < p->n)
		due_add(&n->core, qp);
}

static void flush(struct sim_node *n)
{
	struct sim *s = n->sim;
	struct batch *b = &n->batch;
	unsigned taken = b->n;

	if (b->n == 0)
		return;
	if (s->take_every && ++s->sends % s->take_every == 0)
		taken = s->take_but_last ? b->n - 1 : b->n / 2;
	deliver(n, taken);
	for (struct sim_part *p = n->part; p < n->part + n->parts; p++)
		commit(n, p, taken);
	n->parts = 0;
	batch_reset(b);
}

/* Plans what qp may send now into the batch. */
static void plan(struct sim_node *n, struct qp *qp)
{
	uint64_t now = n->sim->now, at;
	unsigned first;

	if (qp->sched.planned)
		flush(n);
	first = n->batch.n;
	lock_take(&qp->lock);
	qp->transport->run(qp, now);
	if (qp->transport->output(qp, &n->batch, now))
		due_add(&n->core, qp);
	qp->sched.planned = n->batch.n > first;
	at = qp->sched.planned ? NEVER : qp->transport->run(qp, now);
	lock_give(&qp->lock);
	set_due(n, qp, at);
	if (qp->sched.planned)
		n->part[n->parts++] = (struct sim_part){ qp, first, n->batch.n - first };
}

static struct source *rings_of(struct sim_node *n)
{
	return peers_source(peers_of(&n->core));
}

static void turn(struct sim_node *n)
{
	uint64_t now = n->sim->now;
	struct dgram in[64];
	struct qp *qp;
	int got;

	if (n->stopped)
		return;
	turn_take(&n->core.turn);
	if (n->host) {
		host_run(n->host);
		peers_input(peers_of(&n->core), now);
	}
	while ((got = n->link->ops->recv(n->link, in, 64, now)) > 0)
		ib_input_all(&n->core, in, (unsigned)got, now);
	for (unsigned i = 0; i < n->nqps; i++)
		if (n->due[i] <= now)
			due_add(&n->core, n->qps[i]);
	while (due_any(&n->core) ||
	       (n->host && peers_loopback(peers_of(&n->core), now))) {
		while ((qp = due_next(&n->core))) {
			plan(n, qp);
			if (n->batch.n >= BATCH_MAX / 2)
				flush(n);
		}
	}
	flush(n);
	if (n->host) {
		peers_flush(peers_of(&n->core));
		(void)rings_of(n)->ops->sleeps(rings_of(n), true);
	}
	turn_give(&n->core.turn);
}

static bool host_waits(const struct sim_node *n)
{
	struct pollfd p = { host_fd(n->host), POLLIN, 0 };

	/* An alarm that the host set by the real clock is waited for before virtual time
	 * goes on. */
	return poll(&p, 1, host_has_alarm(n->host) ? -1 : 0) == 1;
}

static uint64_t next_time(struct sim *s)
{
	uint64_t at = NEVER;

	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];
		uint64_t link = n->link->ops->deadline(n->link);
		uint64_t local = n->host ? source_at(rings_of(n)) : NEVER;

		if (n->stopped)
			continue;
		if (due_any(&n->core) || (n->host && (local <= s->now || host_waits(n))))
			return s->now + 1;
		if (link < at)
			at = link;
		if (local < at)
			at = local;
		for (unsigned j = 0; j < n->nqps; j++)
			if (n->due[j] < at)
				at = n->due[j];
	}
	return at;
}

/* Steps once, but not past end: then the time becomes end. */
static bool step_until(struct sim *s, uint64_t end)
{
	uint64_t at = next_time(s);

	if (at == NEVER)
		return false;
	if (at > end) {
		s->now = end;
		return true;
	}
	if (at > s->now)
		s->now = at;
	turn(&s->node[0]);
	turn(&s->node[1]);
	return true;
}

bool sim_step(struct sim *s)
{
	return step_until(s, NEVER);
}

bool sim_run(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;

	while (s->now < end)
		if (!step_until(s, end))
			return true;
	return false;
}

bool sim_wait(struct sim *s, struct cq *cq, uint64_t ns, struct ibv_wc *wc)
{
	uint64_t end = s->now + ns;

	while (cq_poll(cq, 1, wc) == 0)
		if (s->now >= end || !step_until(s, end))
			return cq_poll(cq, 1, wc) == 1;
	return true;
}

int sim_event(struct sim *s, int side)
{
	struct ibv_async_event ev;

	if (async_get(&s->node[side].ctx, &ev) != 0)
		return -1;
	async_ack(&ev);
	return (int)ev.event_type;
}

void sim_inject(struct sim *s, int side, const struct ib_fields *f, const void *payload,
		uint32_t len)
{
	const struct sim_node *n = &s->node[side], *peer = &s->node[!side];
	uint8_t buf[8192] = { 0 };
	struct ib_fields fields = *f;
	struct iovec iov = { buf, 0 };
	struct dgram d = { .link = n->link, .iov = &iov, .iovcnt = 1 };
	size_t at;

	fields.pad = (uint8_t)(-len & 3);
	at = ib_build(buf, &fields);
	if (len)
		memcpy(buf + at, payload, len);
	at += len + fields.pad;
	memcpy(ip_of(&d)->from.ip, device_gid(n->dev, 1).raw, 16);
	memcpy(ip_of(&d)->to.ip, device_gid(peer->dev, 1).raw, 16);
	d.len = (uint32_t)at + TRAILER_LEN;
	iov.iov_len = d.len;
	MUST(n->link->ops->seal(n->link, &d) == 0);
	MUST(n->link->ops->send(n->link, &d, 1, s->now) == 1);
}
