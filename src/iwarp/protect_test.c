/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that a peer may not reach, and the Terminate that it gets; what atomics do. */
#include "iwarp/fix.h"

#include <sys/mman.h>

enum wrong {
	KEY,
	GENERATION,
	BELOW,
	BEYOND,
	WRAP,
	RIGHTS,
	QP_RIGHTS,
	OTHER_PD,
	GONE,
	WRONGS
};

struct goal {
	struct fix *f;
	struct pd *pd;
	struct mr *mr;
	void *map;
	uint32_t stag;
	uint64_t to;
};

/* 8 or 16 bytes that cannot be reached, for this reason. */
static struct goal make_target(enum wrong w)
{
	struct goal t = { .f = fix_raw(NULL, false) };
	struct mkey *mk = &t.f->mr[1]->mkey;

	t.stag = mk->key;
	t.to = mk->base;
	switch (w) {
	case KEY:
		t.stag = 0x7f7f7f00;
		break;
	case GENERATION:
		t.stag ^= 1;
		break;
	case BELOW:
		t.to -= 1;
		break;
	case BEYOND:
		t.to += FIX_MEM - 7;
		break;
	case WRAP:
		t.to = UINT64_MAX - 6;
		break;
	case RIGHTS:
		t.mr = sim_mr(t.f->s, 1, t.f->mem[1], 4096, IBV_ACCESS_LOCAL_WRITE);
		t.stag = t.mr->mkey.key;
		break;
	case QP_RIGHTS:
		t.f->p.qp[1]->attr.qp_access_flags = 0;
		break;
	case OTHER_PD:
		assert_int_equal(pd_alloc(&t.f->s->node[1].core, &t.f->s->node[1].ibv,
					  &t.pd),
				 0);
		assert_int_equal(mr_reg(t.pd, t.f->mem[1], 4096, (uintptr_t)t.f->mem[1],
					FIX_ALL, &t.mr),
				 0);
		t.stag = t.mr->mkey.key;
		break;
	case GONE:
		t.map = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		t.mr = sim_mr(t.f->s, 1, t.map, 8192, FIX_ALL);
		munmap(t.map, 8192);
		t.stag = t.mr->mkey.key;
		t.to = t.mr->mkey.base;
		break;
	case WRONGS:
		break;
	}
	return t;
}

static void close_target(struct goal *t)
{
	if (t->mr)
		assert_int_equal(mr_dereg(t->mr), 0);
	if (t->pd)
		assert_int_equal(pd_free(t->pd), 0);
	fix_close(t->f);
}

static void writes(void **state)
{
	static const enum rdmap_error want[WRONGS] = {
		[KEY] = TERM_DDP_STAG,		 [GENERATION] = TERM_DDP_STAG,
		[BELOW] = TERM_DDP_BOUNDS,	 [BEYOND] = TERM_DDP_BOUNDS,
		[WRAP] = TERM_DDP_WRAP,		 [RIGHTS] = TERM_RDMAP_ACCESS,
		[QP_RIGHTS] = TERM_RDMAP_ACCESS, [OTHER_PD] = TERM_DDP_STREAM,
		[GONE] = TERM_RDMAP_LOCAL,
	};

	(void)state;
	for (enum wrong w = 0; w < WRONGS; w++) {
		struct goal t = make_target(w);
		struct ddp d = { .tagged = true,
				 .last = true,
				 .version = 1,
				 .ulp = 0x40,
				 .stag = t.stag,
				 .to = t.to };

		raw_segment(t.f, &d, "0123456789abcdef", 16);
		raw_refused(t.f, want[w], w == GONE ? NULL : &d, IBV_EVENT_QP_ACCESS_ERR);
		close_target(&t);
	}
}

/* The error for a READ or atomic request. */
static const enum rdmap_error of_request[WRONGS] = {
	[KEY] = TERM_RDMAP_STAG,	 [GENERATION] = TERM_RDMAP_STAG,
	[BELOW] = TERM_RDMAP_BOUNDS,	 [BEYOND] = TERM_RDMAP_BOUNDS,
	[WRAP] = TERM_RDMAP_WRAP,	 [RIGHTS] = TERM_RDMAP_ACCESS,
	[QP_RIGHTS] = TERM_RDMAP_ACCESS, [OTHER_PD] = TERM_RDMAP_STREAM,
	[GONE] = TERM_RDMAP_LOCAL,
};

static void reads(void **state)
{
	(void)state;
	for (enum wrong w = 0; w < WRONGS; w++) {
		struct goal t = make_target(w);
		struct ddp d = raw_untagged(RDMAP_READ_REQUEST, 1, 1, 0);
		struct rdmap_read r = { .len = 16, .src_stag = t.stag, .src_to = t.to };
		uint8_t body[RDMAP_READ_LEN];

		rdmap_read_build(body, &r);
		raw_segment(t.f, &d, body, sizeof(body));
		raw_refused(t.f, of_request[w], w == GONE ? NULL : &d,
			    IBV_EVENT_QP_ACCESS_ERR);
		close_target(&t);
	}
}

static void atomics(void **state)
{
	(void)state;
	for (enum wrong w = 0; w < WRONGS; w++) {
		struct goal t = make_target(w);
		struct ddp d = raw_untagged(RDMAP_ATOMIC_REQUEST, 1, 1, 0);
		struct rdmap_atomic a = { .stag = t.stag, .to = t.to };
		uint8_t body[RDMAP_ATOMIC_LEN];

		rdmap_atomic_build(body, &a);
		raw_segment(t.f, &d, body, sizeof(body));
		raw_refused(t.f, of_request[w], w == GONE ? NULL : &d,
			    IBV_EVENT_QP_ACCESS_ERR);
		close_target(&t);
	}
}

static void atomics_that_do_not_exist(void **state)
{
	(void)state;
	for (uint8_t op = 0; op < 16; op++) {
		struct fix *f = fix_raw(NULL, false);
		struct ddp d = raw_untagged(RDMAP_ATOMIC_REQUEST, 1, 1, 0);
		struct rdmap_atomic a = { .op = op,
					  .stag = f->mr[1]->mkey.key,
					  .to = f->mr[1]->mkey.base };
		uint8_t body[RDMAP_ATOMIC_LEN];
		struct raw_got g;

		if (op == RDMAP_FETCH_ADD)
			a.to += 4; /* misaligned */
		rdmap_atomic_build(body, &a);
		raw_segment(f, &d, body, sizeof(body));
		if (op == RDMAP_CMP_SWAP) {
			assert_true(raw_next(f, &g));
			assert_int_equal(g.d.ulp, 0x4b);
		} else {
			raw_refused(f, TERM_RDMAP_OPERATION, &d, IBV_EVENT_QP_REQ_ERR);
		}
		fix_close(f);
	}
}

/* RFC 7306, 5.1: adds to fields without carry between them, compares parts. */
static void masked_atomics(void **state)
{
	static const struct {
		uint8_t op;
		uint64_t was, data, mask, cmp, cmask, is;
	} v[] = {
		{ 0, 0x00ff00ff, 0x00010001, 0, 0, 0, 0x01000100 },
		{ 0, 0x00ff00ff, 0x00010001, 1ull << 63, 0, 0, 0x01000100 },
		{ 0, 0x0000ffff, 0x00010001, 0x8000, 0, 0, 0x00010000 },
		{ 0, ~0ull, 1, 0x80, 0, 0, ~0ull << 8 },
		{ 2, 0x1234, 0xffff, 0xff00, 0x1200, 0xff00, 0xff34 },
		{ 2, 0x1234, 0xffff, 0xff00, 0x1300, 0xff00, 0x1234 },
		{ 2, 5, 9, ~0ull, 5, ~0ull, 9 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct fix *f = fix_raw(NULL, false);
		struct ddp d = raw_untagged(RDMAP_ATOMIC_REQUEST, 1, 1, 0);
		struct rdmap_atomic a = {
			v[i].op,   0xabcd,    f->mr[1]->mkey.key, f->mr[1]->mkey.base,
			v[i].data, v[i].mask, v[i].cmp,		  v[i].cmask
		};
		struct rdmap_atomic_response r;
		uint8_t body[RDMAP_ATOMIC_LEN];
		struct raw_got g;

		*(uint64_t *)(void *)f->mem[1] = v[i].was;
		rdmap_atomic_build(body, &a);
		raw_segment(f, &d, body, sizeof(body));
		assert_true(raw_next(f, &g));
		assert_int_equal(g.d.qn, 3);
		assert_int_equal(g.d.msn, 1);
		rdmap_atomic_response_parse(&r, g.at);
		assert_int_equal(r.id, 0xabcd);
		assert_int_equal(r.orig, v[i].was);
		assert_int_equal(*(uint64_t *)(void *)f->mem[1], v[i].is);
		fix_close(f);
	}
}

static void more_reads_than_ird(void **state)
{
	struct sim_conf c = { .ird = { 0, 2 }, .stream = { .depth = 8000 } };
	struct fix *f = fix_raw(&c, false);
	struct ddp d = raw_untagged(RDMAP_READ_REQUEST, 1, 1, 0);
	struct rdmap_read r = { .len = 60000,
				.src_stag = f->mr[1]->mkey.key,
				.src_to = f->mr[1]->mkey.base };
	uint8_t body[RDMAP_READ_LEN];
	struct raw_got g;
	size_t got = 0;

	(void)state;
	rdmap_read_build(body, &r);
	/* The first request might be an RTR, which is not counted. */
	d.tagged = true;
	d.ulp = 0x40;
	raw_segment(f, &d, NULL, 0);
	for (uint32_t i = 0; i < 3; i++) {
		d = raw_untagged(RDMAP_READ_REQUEST, 1, i + 1, 0);
		raw_segment(f, &d, body, sizeof(body));
		sim_run(f->s, MS);
	}
	/* Requests that came before are answered before. */
	while (raw_next(f, &g) && g.d.tagged) {
		assert_memory_equal(g.at, f->mem[1] + got % 60000, g.n);
		got += g.n;
	}
	assert_int_equal(got, 2 * 60000);
	assert_int_equal(g.d.ulp, 0x47);
	assert_memory_equal(g.at, "\x12\x02\xc0\x00", 4);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

/* An RTR is not counted while its response waits: it and IRD more may come together. */
static void an_rtr_and_ird(void **state)
{
	struct sim_conf c = { .rtr = MPA_RTR_READ, .ird = { 0, 1 } };
	struct fix *f = fix_raw(&c, false);
	struct rdmap_read r = { .len = 16,
				.src_stag = f->mr[1]->mkey.key,
				.src_to = f->mr[1]->mkey.base };
	uint8_t body[RDMAP_READ_LEN] = { 0 };
	struct raw_got g;

	(void)state;
	for (uint32_t msn = 1; msn <= 3; msn++) {
		struct ddp d = raw_untagged(RDMAP_READ_REQUEST, 1, msn, 0);

		raw_segment(f, &d, body, sizeof(body));
		rdmap_read_build(body, &r);
	}
	for (size_t i = 0; i < 2; i++) {
		assert_true(raw_next(f, &g));
		assert_int_equal(g.d.ulp, 0x40 | RDMAP_READ_RESPONSE);
		assert_int_equal(g.n, i * 16);
	}
	assert_true(raw_next(f, &g)); /* the third was one too many */
	assert_memory_equal(g.at, "\x12\x02\xc0\x00", 4);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes),
		cmocka_unit_test(reads),
		cmocka_unit_test(atomics),
		cmocka_unit_test(atomics_that_do_not_exist),
		cmocka_unit_test(masked_atomics),
		cmocka_unit_test(more_reads_than_ird),
		cmocka_unit_test(an_rtr_and_ird),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
