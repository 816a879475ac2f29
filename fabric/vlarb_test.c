/* SPDX-License-Identifier: BSD-2-Clause */
/* Which VL sends next: by weight, by priority, and for VLs that are in no table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/vlarb.h"
#include "sys/rand.h"

enum { VLS = 8, KB4 = 64, LONG = 200000 };

static struct world {
	struct vlarb a;
	uint8_t low[2 * VLARB_ENTRIES], high[2 * VLARB_ENTRIES], limit;
	uint64_t blocks[VLS];
} w;

static int begin(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	return 0;
}

static void entry(uint8_t *table, unsigned i, uint8_t vl, uint8_t weight)
{
	table[2 * i] = vl;
	table[2 * i + 1] = weight;
}

static struct vlarb_pick send(unsigned wait, uint32_t blocks)
{
	const struct vlarb_tables t = { { w.low, w.high }, w.limit };
	struct vlarb_pick p = vlarb_pick(&w.a, &t, wait);

	assert_true(wait >> p.vl & 1);
	vlarb_sent(&w.a, &p, blocks);
	w.blocks[p.vl] += blocks;
	return p;
}

static void row(unsigned wait, uint32_t blocks, const char *vls)
{
	for (; *vls; vls++)
		assert_int_equal(send(wait, blocks).vl, *vls - '0');
}

static void by_weight(void **state)
{
	(void)state;
	entry(w.low, 0, 0, 3 * KB4);
	entry(w.low, 3, 1, KB4);
	row(3, KB4, "000100010001");
}

/* Weight that an entry has left lets one more packet go; the packet may be longer than
 * that, and the excess is not charged later. */
static void the_last_may_be_longer(void **state)
{
	(void)state;
	entry(w.low, 0, 0, KB4 + 1);
	entry(w.low, 1, 1, 1);
	row(3, KB4, "001001");
}

/* The entries form a ring, in which a VL may have several. */
static void it_goes_round(void **state)
{
	(void)state;
	for (unsigned i = 0; i < VLARB_ENTRIES; i++)
		entry(w.low, i, (uint8_t)(i % 3), 1);
	row(7, 4, "0120120101201201");
}

/* An entry whose VL has no packet is skipped, and loses the weight that it had left. */
static void none_waits_there(void **state)
{
	(void)state;
	entry(w.low, 0, 0, 2 * KB4);
	entry(w.low, 1, 1, KB4);
	entry(w.low, 2, 2, KB4);
	row(7, KB4, "0");
	row(6, KB4, "12");
	row(7, KB4, "0012");
	row(1, KB4, "000000");
	row(4, KB4, "22");
}

static void high_goes_first(void **state)
{
	(void)state;
	entry(w.low, 0, 0, 255);
	entry(w.high, 0, 1, 255);
	w.limit = VLARB_UNBOUNDED;
	for (unsigned i = 0; i < LONG; i++)
		assert_int_equal(send(3, KB4).vl, 1);
	row(1, KB4, "00");
	row(3, KB4, "11");
}

static void limit_of_high(void **state)
{
	(void)state;
	entry(w.low, 0, 0, 1);
	entry(w.low, 1, 2, 1);
	entry(w.high, 0, 1, 255);
	w.limit = 0; /* one packet, however short */
	row(7, 1, "101210121012");
	w.limit = 2; /* 8 KiB */
	row(7, KB4, "1101121101");
}

/* When no VL of the low table has a packet, the limit of the high table begins anew. */
static void limit_without_low(void **state)
{
	(void)state;
	entry(w.low, 0, 0, 1);
	entry(w.high, 0, 1, 255);
	w.limit = 2;
	row(2, KB4, "111");
	row(3, KB4, "1011");
}

static void in_both_tables(void **state)
{
	(void)state;
	entry(w.low, 0, 0, KB4);
	entry(w.low, 1, 1, KB4);
	entry(w.high, 0, 0, KB4);
	row(3, KB4, "00010001");
}

/* No subnet manager has written the tables. */
static void no_tables(void **state)
{
	(void)state;
	row(0xb, 10, "130130");
	row(0x80, 10, "77");
}

/* A VL whose weight is 0 counts as one in no table: it sends when no other VL has a
 * packet. */
static void in_no_table(void **state)
{
	(void)state;
	entry(w.low, 0, 0, 1);
	entry(w.low, 1, 1, 0);
	entry(w.high, 0, 2, 0);
	entry(w.low, 2, 15, 255);
	row(0xf, 10, "0000");
	row(0xe, 10, "123123");
	row(0xf, 10, "0");
}

/* The share of each VL is that of its weight, whatever the lengths of the packets. */
static void shares(void **state)
{
	uint64_t seed = 1, sum = 0, blocks = 0;
	struct prng r;
	const char *s = getenv("URNIC_TEST_SEED");

	(void)state;
	seed = s ? strtoull(s, NULL, 0) : seed;
	for (unsigned round = 0; round < 20; round++, seed++) {
		begin(NULL);
		sum = blocks = 0;
		rand_seed(&r, seed);
		for (unsigned i = 0; i < VLS; i++) {
			entry(w.low, i, (uint8_t)i, (uint8_t)(64 + rand_below(&r, 192)));
			sum += w.low[2 * i + 1];
		}
		for (unsigned i = 0; i < LONG; i++)
			blocks += send(0xff, 1).vl < VLS;
		for (unsigned i = 0; i < VLS; i++) {
			double is = (double)w.blocks[i] / (double)blocks,
			       want = (double)w.low[2 * i + 1] / (double)sum;

			if (is < want * 0.98 || is > want * 1.02)
				fail_msg("seed %llu: VL %u has %f and not %f",
					 (unsigned long long)seed, i, is, want);
		}
	}
}

/* With any tables and any VLs waiting, a waiting VL is picked; if the high table is
 * limited, each VL in a table gets its turn. */
static void nobody_starves(void **state)
{
	struct prng r;

	(void)state;
	rand_seed(&r, 7);
	for (unsigned round = 0; round < 300; round++) {
		unsigned named = 0;

		begin(NULL);
		for (unsigned i = 0; i < VLARB_ENTRIES; i++) {
			entry(w.low, i, (uint8_t)rand_below(&r, 16),
			      (uint8_t)rand_below(&r, 256));
			entry(w.high, i, (uint8_t)rand_below(&r, 16),
			      (uint8_t)(rand_below(&r, 2) * rand_below(&r, 256)));
			named |= w.low[2 * i + 1] ? 1u << (w.low[2 * i] & 15) : 0;
			named |= w.high[2 * i + 1] ? 1u << (w.high[2 * i] & 15) : 0;
		}
		w.limit = (uint8_t)rand_below(&r, 255);
		for (unsigned i = 0; i < 1000; i++)
			(void)send(1 + (unsigned)rand_below(&r, 255),
				   1 + (uint32_t)rand_below(&r, 66));
		memset(w.blocks, 0, sizeof(w.blocks));
		for (unsigned i = 0; i < 60000; i++)
			(void)send(0xff, 1 + (uint32_t)rand_below(&r, 66));
		for (unsigned i = 0; i < VLS; i++)
			if (named >> i & 1)
				assert_true(w.blocks[i] > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(by_weight, begin),
		cmocka_unit_test_setup(the_last_may_be_longer, begin),
		cmocka_unit_test_setup(it_goes_round, begin),
		cmocka_unit_test_setup(none_waits_there, begin),
		cmocka_unit_test_setup(high_goes_first, begin),
		cmocka_unit_test_setup(limit_of_high, begin),
		cmocka_unit_test_setup(limit_without_low, begin),
		cmocka_unit_test_setup(in_both_tables, begin),
		cmocka_unit_test_setup(no_tables, begin),
		cmocka_unit_test_setup(in_no_table, begin),
		cmocka_unit_test_setup(shares, begin),
		cmocka_unit_test_setup(nobody_starves, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
