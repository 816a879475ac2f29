/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/mkey.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka wants the four above */
#include <cmocka.h>

#include "verbs/core.h"
#include "verbs/exports.h"
#include "verbs/mr.h"

static void del(struct core *core, struct mkey *mk)
{
	turn_take(&core->turn);
	mkey_del(&core->mkeys, mk);
	turn_give(&core->turn);
}

static void a_key_finds_what_it_was_given_for(void **state)
{
	struct core core;
	struct mkey a = { .valid = true }, b = { .valid = true };

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(mkey_add(&core.mkeys, &a), 0);
	assert_int_equal(mkey_add(&core.mkeys, &b), 0);
	assert_int_not_equal(a.key, 0);
	assert_int_not_equal(a.key >> 8, b.key >> 8);
	assert_ptr_equal(mkey_find(&core.mkeys, a.key), &a);
	assert_ptr_equal(mkey_find(&core.mkeys, b.key), &b);
	assert_null(mkey_find(&core.mkeys, a.key ^ 1));
	assert_null(mkey_find(&core.mkeys, 0));
	assert_null(mkey_find(&core.mkeys, UINT32_MAX));
	del(&core, &a);
	assert_null(mkey_find(&core.mkeys, a.key));
	assert_ptr_equal(mkey_find(&core.mkeys, b.key), &b);
	core_fini(&core);
}

/* A freed index is unused for a while, and then comes back with another generation. */
static void a_stale_key_stays_dead(void **state)
{
	struct core core;
	struct mkey mk = { .valid = true };
	uint32_t first, n = 0;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(mkey_add(&core.mkeys, &mk), 0);
	first = mk.key;
	do {
		del(&core, &mk);
		assert_int_equal(mkey_add(&core.mkeys, &mk), 0);
		assert_int_not_equal(mk.key, first);
		assert_null(mkey_find(&core.mkeys, first));
		n++;
	} while (mk.key >> 8 != first >> 8);
	assert_int_equal(n, MKEY_REST);
	core_fini(&core);
}

/* An index goes through all 256 generations before a key comes again. */
static void a_stale_key_stays_dead_for_256_lives_of_its_index(void **state)
{
	bool seen[256] = { false };
	struct core core;
	struct mkey mk = { .valid = true };
	uint32_t index;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(mkey_add(&core.mkeys, &mk), 0);
	index = mk.key >> 8;
	for (int lives = 0; lives < 256; lives++) {
		assert_false(seen[mk.key & 0xff]);
		seen[mk.key & 0xff] = true;
		do {
			del(&core, &mk);
			assert_int_equal(mkey_add(&core.mkeys, &mk), 0);
		} while (mk.key >> 8 != index);
	}
	assert_true(seen[mk.key & 0xff]);
	core_fini(&core);
}

enum { MANY = 1000 };

static void take_many(struct core *core, struct mkey mk[MANY])
{
	assert_int_equal(core_init(core, 1), 0);
	for (int i = 0; i < MANY; i++) {
		mk[i] = (struct mkey){ .valid = true };
		assert_int_equal(mkey_add(&core->mkeys, &mk[i]), 0);
	}
}

/* A key reveals nothing about the next key, or about other processes' keys. */
static void keys_cannot_be_guessed(void **state)
{
	static struct mkey a[MANY], b[MANY];
	struct core core[2];
	unsigned near = 0, same_step = 0, shared = 0;

	(void)state;
	take_many(&core[0], a);
	take_many(&core[1], b);
	for (int i = 2; i < MANY; i++) {
		uint32_t step = (a[i].key >> 8) - (a[i - 1].key >> 8);

		near += step + 2 < 5;
		same_step += step == (a[i - 1].key >> 8) - (a[i - 2].key >> 8);
	}
	for (int i = 0; i < MANY; i++)
		shared += mkey_find(&core[1].mkeys, a[i].key) != NULL;
	assert_true(near < 20);
	assert_true(same_step < 10);
	assert_true(shared < 50);
	core_fini(&core[0]);
	core_fini(&core[1]);
}

/* The first 16 pages of keys, which have a place each in verbs/exports.h. */
static void the_first_65536_keys_have_a_place_in_the_export_table(void **state)
{
	static struct mkey mk[EXPORT_MRS + 1];
	static bool used[EXPORT_MRS];
	struct core core;
	unsigned n = 0;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	for (int i = 0; i < EXPORT_MRS; i++)
		assert_int_equal(mkey_add(&core.mkeys, &mk[i]), 0);
	for (int i = 0; i < EXPORT_MRS; i++) {
		assert_true(mkey_is_exported(&core.mkeys, mk[i].key));
		n += !used[mk[i].key >> 8 & (EXPORT_MRS - 1)];
		used[mk[i].key >> 8 & (EXPORT_MRS - 1)] = true;
	}
	assert_int_equal(n, EXPORT_MRS);
	assert_int_equal(mkey_add(&core.mkeys, &mk[EXPORT_MRS]), 0);
	assert_false(mkey_is_exported(&core.mkeys, mk[EXPORT_MRS].key));
	core_fini(&core);
}

static void a_window_s_tag_is_not_used_again_at_once(void **state)
{
	struct core core;
	struct mkey mk = { .is_mw = true };
	uint32_t index, tag;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(mkey_add(&core.mkeys, &mk), 0);
	index = mk.key >> 8;
	mk.key = index << 8 | 0xff; /* changes the generation, as a bind does */
	assert_ptr_equal(mkey_find(&core.mkeys, mk.key), &mk);
	tag = mk.key & 0xff;
	do {
		del(&core, &mk);
		assert_int_equal(mkey_add(&core.mkeys, &mk), 0);
	} while (mk.key >> 8 != index);
	assert_int_not_equal(mk.key & 0xff, tag);
	core_fini(&core);
}

static void a_hundred_thousand_at_once(void **state)
{
	enum { N = 100000 };
	struct core core;
	struct mkey *mk = calloc(N, sizeof(*mk));

	(void)state;
	assert_non_null(mk);
	assert_int_equal(core_init(&core, 1), 0);
	for (int i = 0; i < N; i++)
		assert_int_equal(mkey_add(&core.mkeys, &mk[i]), 0);
	for (int i = 0; i < N; i++)
		if (mkey_find(&core.mkeys, mk[i].key) != &mk[i])
			fail_msg("key %#x", mk[i].key);
	for (int i = 0; i < N; i++)
		del(&core, &mk[i]);
	for (int i = 0; i < N; i++)
		assert_null(mkey_find(&core.mkeys, mk[i].key));
	core_fini(&core);
	free(mk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_finds_what_it_was_given_for),
		cmocka_unit_test(a_stale_key_stays_dead),
		cmocka_unit_test(a_stale_key_stays_dead_for_256_lives_of_its_index),
		cmocka_unit_test(keys_cannot_be_guessed),
		cmocka_unit_test(the_first_65536_keys_have_a_place_in_the_export_table),
		cmocka_unit_test(a_window_s_tag_is_not_used_again_at_once),
		cmocka_unit_test(a_hundred_thousand_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
