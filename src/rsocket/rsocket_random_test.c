/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends with buffers, queues and messages of random sizes. WRITEs and their
 * completions arrive in order, each at a random time. The streams must arrive whole, no
 * receive may be missing, and no end may wait for ever. Without RNR (iWARP) a WRITE may
 * complete before it arrives. A seed repeats a run: sys/seeds_testing.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/streamend.h"
#include "sys/seeds_testing.h"

enum { SEEDS = 300, STEPS = 10000000, FLIGHT = 64, MAPS = 2, MAP = 512 };

struct end {
	struct rs_stream s;
	struct end *peer;
	struct rs_write out[FLIGHT]; /* seen: executed by the peer; done: completed */
	uint8_t *data[FLIGHT];
	unsigned posted, seen, done;
	uint32_t receives;	/* receives that are posted */
	uint32_t inbox[FLIGHT]; /* immediates that are not polled yet */
	unsigned put, got;
	uint64_t wrote, read, total;
	uint8_t map[MAP], expected[MAP];
	void *shared;
};

static uint32_t rnd;

static uint32_t any(uint32_t below)
{
	rnd ^= rnd << 13;
	rnd ^= rnd >> 17;
	rnd ^= rnd << 5;
	return rnd % below;
}

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 7 + at / 256);
}

static void make(struct end *e, struct end *peer, bool no_rnr)
{
	struct rs_memory m = {
		.rbuf_size = 2 * (1 + any(800)),
		.sbuf_size = 1 + any(900),
		.sq = (uint16_t)(1 + any(20)),
		.rq = (uint16_t)(2 + any(30)),
		.iomaps = MAPS,
		.rbuf_key = 1,
		.shared_key = 2,
		.no_rnr = no_rnr,
	};

	memset(e, 0, sizeof(*e));
	e->peer = peer;
	e->shared = calloc(1, RS_TARGETS * sizeof(struct rs_sge) +
				      MAPS * sizeof(struct rs_iomap));
	m.shared = e->shared;
	m.rbuf = malloc(m.rbuf_size);
	m.sbuf = malloc(m.sbuf_size);
	assert_true(e->shared && m.rbuf && m.sbuf);
	rs_init(&e->s, &m);
	e->receives = m.rq + (no_rnr ? RS_CONTROLS_SENT + 0u : RS_CONTROLS);
	e->total = any(20000);
}

static void drop(struct end *e)
{
	while (e->seen < e->posted)
		free(e->data[e->seen++ % FLIGHT]);
	free(e->s.m.rbuf);
	free(e->s.m.sbuf);
	free(e->shared);
}

static unsigned flying(const struct end *e)
{
	return e->posted - (e->seen < e->done ? e->seen : e->done);
}

static void post(struct end *e, const struct rs_write *w)
{
	unsigned i = e->posted++ % FLIGHT;

	assert_true(flying(e) < FLIGHT);
	e->out[i] = *w;
	e->data[i] = malloc(w->len + 1);
	assert_non_null(e->data[i]);
	memcpy(e->data[i], w->from ? w->from : w->image, w->len);
}

static bool try_send(struct end *e)
{
	uint32_t n = rs_room(&e->s, 1 + any(400));
	struct rs_write w;

	if (n > e->total - e->wrote)
		n = (uint32_t)(e->total - e->wrote);
	if (!n || flying(e) > FLIGHT - 8)
		return false;
	rs_send(&e->s, n, false, &w);
	for (uint32_t i = 0; i < n; i++)
		e->s.m.sbuf[(size_t)(w.from - e->s.m.sbuf) + i] = pattern(e->wrote + i);
	post(e, &w);
	e->wrote += n;
	return true;
}

static bool try_direct(struct end *e)
{
	uint64_t offset = any(MAP);
	struct rs_write w;

	if (flying(e) > FLIGHT - 8 || !rs_send_direct(&e->s, offset, 1 + any(40), &w) ||
	    !w.len)
		return false;
	assert_true(offset + w.len <= MAP);
	for (uint32_t i = 0; i < w.len; i++) {
		uint8_t v = (uint8_t)any(256);

		e->s.m.sbuf[(size_t)(w.from - e->s.m.sbuf) + i] = v;
		e->peer->expected[offset + i] = v;
	}
	post(e, &w);
	return true;
}

static bool try_read(struct end *e)
{
	const uint8_t *at;
	uint32_t n = rs_unread(&e->s, 0, &at), wanted = 1 + any(300);

	if (n > wanted)
		n = wanted;
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(at[i], pattern(e->read + i));
	rs_consume(&e->s, n);
	e->read += n;
	return n;
}

static bool try_grant(struct end *e)
{
	struct rs_write w;

	if (!rs_grant_due(&e->s) || flying(e) > FLIGHT - 8)
		return false;
	rs_send_grant(&e->s, &w);
	post(e, &w);
	return true;
}

/* Delivers e's next WRITE to the peer. */
static bool arrive(struct end *e)
{
	struct rs_write *w = &e->out[e->seen % FLIGHT];
	struct end *p = e->peer;

	if (e->seen == e->posted)
		return false;
	if (w->len)
		memcpy((void *)(uintptr_t)w->addr, e->data[e->seen % FLIGHT], w->len);
	free(e->data[e->seen++ % FLIGHT]);
	if (w->has_imm) {
		assert_true(p->receives > 0); /* there is no RNR */
		p->receives--;
		p->inbox[p->put++ % FLIGHT] = w->imm;
	}
	return true;
}

static bool poll_one(struct end *e)
{
	if (e->got == e->put)
		return false;
	e->receives++;
	assert_int_not_equal(rs_received(&e->s, e->inbox[e->got++ % FLIGHT]),
			     RS_EV_BROKEN);
	return true;
}

static bool complete(struct end *e)
{
	const struct rs_write *w = &e->out[e->done % FLIGHT];

	if (e->done == (e->s.m.no_rnr ? e->posted : e->seen))
		return false;
	e->done++;
	rs_sent(&e->s, w->control, w->sbuf_bytes);
	return true;
}

static void map(struct end *e)
{
	struct rs_iomap m = { 0, { (uintptr_t)e->map, 3, MAP } };
	struct rs_write w;

	assert_true(rs_may_control(&e->s));
	rs_send_iomap(&e->s, any(MAPS), &m, &w);
	post(e, &w);
}

static bool step(struct end *e)
{
	switch (any(8)) {
	case 0:
		return try_send(e);
	case 1:
		return try_read(e);
	case 2:
		return try_grant(e);
	case 3:
		return complete(e);
	case 4:
		return any(8) == 0 && try_direct(e);
	case 5:
		return poll_one(e);
	default:
		return arrive(e);
	}
}

static void run(uint32_t seed, bool no_rnr)
{
	static struct end a, b;
	struct rs_conn ca, cb;
	int idle = 0, steps = 0;

	rnd = seed * 2654435761u + 1;
	make(&a, &b, no_rnr);
	make(&b, &a, no_rnr);
	rs_self(&a.s, &ca);
	rs_self(&b.s, &cb);
	rs_start(&a.s, &cb);
	rs_start(&b.s, &ca);
	map(&a);
	map(&b);
	while (a.read < b.total || b.read < a.total) {
		idle = step(any(2) ? &a : &b) ? 0 : idle + 1;
		assert_true(idle < 2000 && ++steps < STEPS);
	}
	while (arrive(&a) || arrive(&b) || poll_one(&a) || poll_one(&b) || complete(&a) ||
	       complete(&b))
		;
	assert_memory_equal(a.map, a.expected, MAP);
	assert_memory_equal(b.map, b.expected, MAP);
	assert_int_equal(a.s.used, 0);
	assert_int_equal(a.s.data_out, 0);
	assert_int_equal(a.s.control_out, 0);
	drop(&a);
	drop(&b);
}

static void run_all(bool no_rnr)
{
	const struct seeds s = seeds_chosen(SEEDS);

	for (uint64_t seed = s.first; seed <= s.last; seed++) {
		seed_show(seed);
		run((uint32_t)seed, no_rnr);
	}
}

static void streams_are_whole(void **state)
{
	(void)state;
	run_all(false);
}

static void streams_are_whole_without_rnr(void **state)
{
	(void)state;
	run_all(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_are_whole),
		cmocka_unit_test(streams_are_whole_without_rnr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
