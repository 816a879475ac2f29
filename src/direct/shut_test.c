/* SPDX-License-Identifier: BSD-2-Clause */
/* B's QP fails while A fetches the payload of B's SEND by its mapping. B's program may
 * use the memory again once its SEND has failed; A must not take what is stored then for
 * the payload. */
#include <pthread.h>
#include <sched.h>

#include "direct/shared_fix.h"
#include "verbs/exports.h"

enum { BYTES = 8192, PAYLOAD = 0x11, LATER = 0xee };

static struct {
	struct shared s;
	struct exported_qp open;
	atomic_uint began, shut, ended;
} t;

static struct core *core_of_b(void)
{
	return &t.s.f->s->node[1].core;
}

/* The end of B: each time that A begins, the QP fails at some time, and then the program
 * uses its memory again. */
static void *fails_again_and_again(void *arg)
{
	const uint32_t qpn = t.s.f->p.qp[1]->qpn;

	(void)arg;
	for (unsigned i = 1;; i++) {
		while (atomic_load(&t.began) != i) {
			if (atomic_load(&t.began) == UINT32_MAX)
				return NULL;
		}
		for (volatile unsigned n = 0; n < i % 600; n++)
			;
		exports_shut_qp(core_of_b(), qpn); /* before the SEND's completion */
		memset(t.s.at, LATER, BYTES);	   /* after it */
		atomic_store(&t.shut, i);
		while (atomic_load(&t.ended) != i)
			;
		memset(t.s.at, PAYLOAD, BYTES);
		exports_put_qp(core_of_b(), qpn, &t.open);
		atomic_store(&t.shut, 0);
	}
}

static void nothing_is_taken_from_a_failed_send(void **state)
{
	enum { ROUNDS = 5000 };
	unsigned fetched = 0, wrong = 0, i;
	struct shared s =
		share(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, MAP_SHARED);
	struct range from = { 0, 0, BYTES };
	struct span to = { .n = 1, .v = { { s.f->mem[0], BYTES } } };
	struct by by;
	pthread_t b;

	(void)state;
	use(&s);
	assert_non_null(map_of(&s));
	t.s = s;
	assert_true(exports_get_qp(core_of_b()->exports, s.f->p.qp[1]->qpn, &t.open));
	by = (struct by){ &pair_peer(s.f, 0)->reach, pair_qp(s.f, 0), t.open.path };
	from.va = s.mr->mkey.base;
	from.key = s.mr->mkey.key;
	memset(s.at, PAYLOAD, BYTES);
	atomic_store(&t.began, 0); /* the test runs twice */
	atomic_store(&t.ended, 0);
	assert_int_equal(pthread_create(&b, NULL, fails_again_and_again, NULL), 0);
	for (i = 1; i < ROUNDS && wrong == 0; i++) {
		bool did;

		atomic_store(&t.began, i);
		for (volatile unsigned n = 0; n < 150; n++)
			;
		did = reach_fetch(&by, &from, &to);
		fetched += did;
		for (unsigned k = 0; did && k < BYTES; k++)
			if (s.f->mem[0][k] != PAYLOAD) {
				wrong++;
				break;
			}
		while (atomic_load(&t.shut) != i)
			;
		atomic_store(&t.ended, i);
		while (atomic_load(&t.shut))
			;
	}
	atomic_store(&t.began, UINT32_MAX);
	pthread_join(b, NULL);
	print_message("%u fetches, %u done, %u with what was stored later\n", i, fetched,
		      wrong);
	assert_int_equal(wrong, 0);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_taken_from_a_failed_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
