/* SPDX-License-Identifier: BSD-2-Clause */
/* What a QP remembers of the region that it reached last (struct reached) is not used for
 * another region, nor after the mapping has gone. */
#include "direct/shared_fix.h"

/* Writes 8 bytes of 0x77 to the start of the region, or of one whose key differs. */
static void write_by(struct shared *s, uint64_t wr_id, uint32_t key)
{
	memset(s->f->mem[0], 0x77, 8);
	post_by(s, IBV_WR_RDMA_WRITE, wr_id, 0, 0, 8, key);
}

/* Key 0 is no region's, and a region that is not mapped leaves nothing to remember. */
static void key_0_is_not_remembered(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct mr *other = sim_mr(s.f->s, 1, s.at, LEN, FIX_ALL);

	(void)state;
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	done_at_once(&s, 1);
	write_by(&s, 2, other->mkey.key);
	done(&s, 2);
	memset(s.at, 0xee, 8);
	write_by(&s, 3, 0);
	fix_wc(s.f, 0, 3, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(s.at[0], 0xee);
	assert_int_equal(mr_dereg(other), 0);
	unshare_(&s);
}

/* Nor by the next connection. */
static void reset_forgets(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct shm_qp *q = pair_shm(s.f, 0);

	(void)state;
	assert_int_equal(q->allowed.far.key, s.mr->mkey.key);
	pair_again(s.f, 0);
	assert_false(q->allowed.known);
	assert_int_equal(q->allowed.far.key, 0);
	assert_int_equal(q->allowed.far.serial, 0);
	unshare_(&s);
}

/* The mapping has gone: a WRITE goes another way. */
static void is_not_used(struct shared *s, uint64_t serial, uint64_t before)
{
	assert_int_not_equal(maps_serial(reach_of(s)), serial);
	write_by(s, 1, s->mr->mkey.key);
	done(s, 1);
	assert_int_equal(s->at[0], 0x77);
	assert_int_equal(times(s), before);
}

static void mappings_that_are_closed(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t serial = maps_serial(reach_of(&s)), before = times(&s);

	(void)state;
	maps_close(reach_of(&s));
	is_not_used(&s, serial, before);
	unshare_(&s);
}

static void a_mapping_that_is_replaced(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t serial = maps_serial(reach_of(&s)), before = times(&s);

	(void)state;
	map_of(&s)->bad = true;
	(void)reach_used(reach_of(&s), s.mr->mkey.key);
	assert_null(map_of(&s));
	is_not_used(&s, serial, before);
	unshare_(&s);
}

static unsigned uses_until_asked(struct reach *r, uint32_t key)
{
	unsigned n = 1;

	while (!reach_used(r, key))
		n++;
	return n;
}

/* Two keys of one place drive each other out, and what is known of them. */
static void what_is_refused_is_asked_for_seldom(void **state)
{
	static const uint32_t key[] = { 0x100, 0x200100 };
	struct reach r = { .exports = (void *)&r };
	unsigned uses = 0, last = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		last = uses_until_asked(&r, key[i % 2]);
		uses += last;
		reach_is_refused(&r, key[i % 2]);
	}
	assert_int_equal(last, 1024);
	assert_true(uses > 10 * 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_0_is_not_remembered),
		cmocka_unit_test(what_is_refused_is_asked_for_seldom),
		cmocka_unit_test(reset_forgets),
		cmocka_unit_test(mappings_that_are_closed),
		cmocka_unit_test(a_mapping_that_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
