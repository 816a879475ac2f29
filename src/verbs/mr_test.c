/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/waiter_testing.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/exports.h"
#include "verbs/mr.h"

enum {
	RW = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static struct core core;
static struct pd *pd;

static void begin(void)
{
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(pd_alloc(&core, NULL, &pd), 0);
}

static void end(void)
{
	assert_int_equal(pd_free(pd), 0);
	assert_int_equal(core.counts.pds, 0);
	assert_int_equal(core.counts.mrs, 0);
	core_fini(&core);
}

static uint8_t *map(size_t pages, int prot)
{
	uint8_t *p = mmap(NULL, pages * 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static struct mr *reg(void *addr, size_t length, uint64_t iova, int access)
{
	struct mr *mr = NULL;

	assert_int_equal(mr_reg(pd, addr, length, iova, access, &mr), 0);
	assert_non_null(mr);
	return mr;
}

static void refused(void *addr, size_t length, uint64_t iova, int access, int rc)
{
	struct mr *mr = NULL;

	assert_int_equal(mr_reg(pd, addr, length, iova, access, &mr), rc);
	assert_null(mr);
}

static enum mr_why check(uint32_t key, uint64_t va, uint64_t len, int access)
{
	uint8_t *host;

	return mr_check(&core, key, pd, 0, va, len, access, &host);
}

static void a_pd_in_use_stays(void **state)
{
	static uint8_t buf[100];
	struct mr *mr;

	(void)state;
	begin();
	mr = reg(buf, sizeof(buf), (uintptr_t)buf, 0);
	assert_int_equal(pd_free(pd), -EBUSY);
	assert_ptr_equal(mr->ibv.pd, &pd->ibv);
	assert_ptr_equal(mr->ibv.addr, buf);
	assert_int_equal(mr->ibv.length, sizeof(buf));
	assert_int_equal(mr->ibv.lkey, mr->ibv.rkey);
	assert_int_equal(mr_dereg(mr), 0);
	end();
}

static void access_flags_are_judged(void **state)
{
	static uint8_t buf[100];
	uintptr_t va = (uintptr_t)buf;

	(void)state;
	begin();
	refused(buf, 100, va, IBV_ACCESS_REMOTE_WRITE, -EINVAL);
	refused(buf, 100, va, IBV_ACCESS_REMOTE_ATOMIC, -EINVAL);
	refused(buf, 100, va, RW | 1 << 10, -EINVAL);
	/* Of no device: FLUSH is not available. */
	refused(buf, 100, va, RW | IBV_ACCESS_FLUSH_GLOBAL, -EOPNOTSUPP);
	refused(buf, 100, va, RW | IBV_ACCESS_FLUSH_PERSISTENT, -EOPNOTSUPP);
	refused(buf, 100, va, RW | 1 << 19, -EINVAL);
	refused(buf, 100, va, RW | 1 << 30, -EINVAL);
	mr_dereg(reg(buf, 100, va, IBV_ACCESS_REMOTE_READ));
	mr_dereg(reg(buf, 100, va, RW | IBV_ACCESS_REMOTE_ATOMIC));
	mr_dereg(reg(buf, 100, va, RW | IBV_ACCESS_RELAXED_ORDERING | 1 << 29));
	mr_dereg(reg(buf, 100, va, RW | IBV_ACCESS_HUGETLB));
	end();
}

static void ranges_end_where_they_end(void **state)
{
	static uint8_t buf[100];
	const uint64_t va = 0x1000;
	uint8_t *host = NULL;
	struct mr *mr;
	uint32_t key;

	(void)state;
	begin();
	mr = reg(buf, sizeof(buf), va, RW);
	key = mr->ibv.rkey;
	assert_int_equal(mr_check(&core, key, pd, 5, va + 10, 90, IBV_ACCESS_REMOTE_WRITE,
				  &host),
			 MR_OK);
	assert_ptr_equal(host, buf + 10);
	assert_int_equal(check(key, va, 100, 0), MR_OK);
	assert_int_equal(check(key, va, 101, 0), MR_RANGE);
	assert_int_equal(check(key, va + 1, 100, 0), MR_RANGE);
	assert_int_equal(check(key, va - 1, 2, 0), MR_RANGE);
	assert_int_equal(check(key, va + 100, 1, 0), MR_RANGE);
	assert_int_equal(check(key, va + 50, UINT64_MAX, 0), MR_RANGE);
	assert_int_equal(check(key, UINT64_MAX, 2, 0), MR_RANGE);
	assert_int_equal(check(key, (uintptr_t)buf, 1, 0), MR_RANGE);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(check(key, va, 1, 0), MR_NO_KEY);
	end();
}

static void rights_and_pds_are_kept_apart(void **state)
{
	static uint8_t buf[100];
	uintptr_t va = (uintptr_t)buf;
	struct pd *other;
	uint8_t *host = NULL;
	struct mr *mr;
	uint32_t key;

	(void)state;
	begin();
	assert_int_equal(pd_alloc(&core, NULL, &other), 0);
	mr = reg(buf, 100, va, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	key = mr->ibv.lkey;
	assert_int_equal(check(key, va, 8, 0), MR_OK);
	assert_int_equal(check(key, va, 8, IBV_ACCESS_LOCAL_WRITE), MR_OK);
	assert_int_equal(check(key, va, 8, IBV_ACCESS_REMOTE_READ), MR_OK);
	assert_int_equal(check(key, va, 8, IBV_ACCESS_REMOTE_WRITE), MR_ACCESS);
	assert_int_equal(check(key, va, 8, IBV_ACCESS_REMOTE_ATOMIC), MR_ACCESS);
	assert_int_equal(check(key, va, 8,
			       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE),
			 MR_ACCESS);
	assert_int_equal(check(key ^ 1, va, 8, 0), MR_NO_KEY);
	assert_int_equal(mr_check(&core, key, other, 0, va, 8, 0, &host), MR_PD);
	assert_null(host);
	mr_dereg(mr);
	assert_int_equal(pd_free(other), 0);
	end();
}

static void zero_based_begins_at_zero(void **state)
{
	static uint8_t buf[100];
	uint8_t *host;
	struct mr *mr;

	(void)state;
	begin();
	mr = reg(buf, 100, (uintptr_t)buf, RW | IBV_ACCESS_ZERO_BASED);
	assert_int_equal(mr_check(&core, mr->ibv.rkey, pd, 0, 7, 93,
				  IBV_ACCESS_REMOTE_READ, &host),
			 MR_OK);
	assert_ptr_equal(host, buf + 7);
	assert_int_equal(check(mr->ibv.rkey, 7, 94, 0), MR_RANGE);
	assert_int_equal(check(mr->ibv.rkey, (uintptr_t)buf, 1, 0), MR_RANGE);
	mr_dereg(mr);
	end();
}

static void memory_must_be_there(void **state)
{
	uint8_t *p = map(3, PROT_READ | PROT_WRITE), *hole = map(3, PROT_READ);
	uint8_t *ro = map(1, PROT_READ), *none = map(1, PROT_NONE);

	(void)state;
	begin();
	munmap(hole + 4096, 4096);
	munmap(p + 2 * 4096, 4096);
	refused(hole, 3 * 4096, 0, 0, -EFAULT);
	refused(p, 3 * 4096, 0, RW, -EFAULT);
	refused(p, 2 * 4096 + 1, 0, RW, -EFAULT);
	mr_dereg(reg(p, 2 * 4096, 0, RW));
	mr_dereg(reg(ro, 4096, 0, IBV_ACCESS_REMOTE_READ));
	refused(ro, 4096, 0, RW, -EFAULT);
	refused(none, 4096, 0, 0, -EFAULT);
	refused((void *)8, 8, 0, RW, -EFAULT);
	/* The last page may be read-only while the first one is writable. */
	assert_int_equal(mprotect(p + 4096, 4096, PROT_READ), 0);
	mr_dereg(reg(p, 4096, 0, RW));
	refused(p, 4097, 0, RW, -EFAULT);
	end();
	munmap(p, 2 * 4096);
	munmap(hole, 4096);
	munmap(hole + 2 * 4096, 4096);
	munmap(ro, 4096);
	munmap(none, 4096);
}

static void *register_none(void *arg)
{
	sigset_t all, now;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	refused(arg, 4096, 0, 0, -EFAULT);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	assert_int_equal(sigismember(&now, SIGSEGV), 1);
	return NULL;
}

/* The check also works in a thread that blocks all signals. */
static void who_blocks_signals_may_ask(void **state)
{
	uint8_t *none = map(1, PROT_NONE);
	pthread_t t;

	(void)state;
	begin();
	assert_int_equal(pthread_create(&t, NULL, register_none, none), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	munmap(none, 4096);
	end();
}

static void on_demand_needs_no_memory(void **state)
{
	uint8_t *host, *p = map(1, PROT_NONE);
	struct mr *mr;

	(void)state;
	begin();
	mr_dereg(reg(p, 4096, (uintptr_t)p, RW | IBV_ACCESS_ON_DEMAND));
	mr = reg(NULL, SIZE_MAX, 99, RW | IBV_ACCESS_ON_DEMAND);
	assert_int_equal(mr_check(&core, mr->ibv.rkey, pd, 0, (uintptr_t)p, 4096,
				  IBV_ACCESS_REMOTE_READ, &host),
			 MR_OK);
	assert_ptr_equal(host, p);
	mr_dereg(mr);
	refused(NULL, SIZE_MAX, 0, RW, -EINVAL);
	end();
	munmap(p, 4096);
}

static void ranges_do_not_wrap(void **state)
{
	static _Alignas(4096) uint8_t buf[8192];

	(void)state;
	begin();
	refused(buf, SIZE_MAX - 10, 0, RW | IBV_ACCESS_ON_DEMAND, -EINVAL);
	refused((void *)(UINTPTR_MAX - 100), 100, 0, RW | IBV_ACCESS_ON_DEMAND, -EINVAL);
	refused(buf, 100, UINT64_MAX - 98, RW, -EINVAL);
	mr_dereg(reg(buf, 100, UINT64_MAX - 99, RW));
	refused(buf, 0, 0, RW, -EINVAL);
	mr_dereg(reg(buf + 1, 0, 0, RW));
	end();
}

/* The probes must leave the memory's content unchanged. */
static void registration_leaves_the_contents_alone(void **state)
{
	uint8_t *p = map(2, PROT_READ | PROT_WRITE);

	(void)state;
	begin();
	p[0] = 0xa5;
	p[8191] = 0x5a;
	mr_dereg(reg(p, 8192, 0, RW));
	assert_int_equal(p[0], 0xa5);
	assert_int_equal(p[8191], 0x5a);
	end();
	munmap(p, 8192);
}

static void large_regions_register_at_once(void **state)
{
	const size_t size = (size_t)64 << 30;
	uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char in_core[16];
	struct mr *mr;

	(void)state;
	if (p == MAP_FAILED)
		skip();
	begin();
	mr = reg(p, size, (uintptr_t)p, RW);
	assert_int_equal(check(mr->ibv.rkey, (uintptr_t)p + size - 1, 1,
			       IBV_ACCESS_REMOTE_WRITE),
			 MR_OK);
	/* Only the first and the last pages were populated. */
	assert_int_equal(mincore(p + 65536 * 1024, sizeof(in_core) * 4096, in_core), 0);
	assert_int_equal(in_core[8] & 1, 0);
	mr_dereg(mr);
	end();
	munmap(p, size);
}

static void rereg_changes_what_it_is_told(void **state)
{
	static uint8_t a[100], b[200];
	struct pd *other;
	struct mr *mr;
	uint32_t key;

	(void)state;
	begin();
	assert_int_equal(pd_alloc(&core, NULL, &other), 0);
	mr = reg(a, 100, (uintptr_t)a, RW);
	key = mr->ibv.rkey;
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_REMOTE_READ),
			 0);
	assert_int_equal(check(key, (uintptr_t)a, 1, IBV_ACCESS_REMOTE_WRITE), MR_ACCESS);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b, 200, 0),
			 0);
	assert_int_equal(check(key, (uintptr_t)b, 200, 0), MR_OK);
	assert_int_equal(check(key, (uintptr_t)a, 1, 0), MR_RANGE);
	assert_ptr_equal(mr->ibv.addr, b);
	assert_int_equal(mr->ibv.length, 200);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_int_equal(check(key, (uintptr_t)b, 1, 0), MR_PD);
	assert_ptr_equal(mr->ibv.pd, &other->ibv);
	assert_int_equal(pd->users, 0);
	assert_int_equal(pd_free(other), -EBUSY);
	mr_dereg(mr);
	assert_int_equal(pd_free(other), 0);
	end();
}

static uint32_t moving;
static unsigned asked;
static struct mr_found found;

/* Looks the region up as a thread without the turn does. */
static enum mr_why look(struct core *of, uint64_t len, int access)
{
	uint8_t *host;

	if (mr_again(of, &found, moving, 0, len, access))
		return MR_OK;
	return mr_check_inside(of, &found, moving, pd, 0, len, access, &host);
}

/* While a region changes, mr_check_inside() refuses it to threads without the turn. */
static int look_inside(struct core *of, const struct mkey *mk)
{
	assert_int_equal(mk->key, moving);
	assert_int_equal(look(of, 1, 0), MR_INVALID);
	asked++;
	return 0;
}

static struct mr *changing;
static unsigned passed;

/* A thread may be reading the region's fields up to here. */
static void pass_readers(struct core *of)
{
	assert_int_equal(look(of, 1, 0), MR_INVALID);
	assert_int_equal(changing->mkey.access, RW);
	passed++;
}

static void who_has_no_turn_waits_for_a_rereg(void **state)
{
	static uint8_t buf[100];
	struct mr *mr;

	(void)state;
	begin();
	core.exports = mmap(NULL, sizeof(*core.exports), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(core.exports, MAP_FAILED);
	core.region.wait = look_inside;
	mr = reg(buf, 100, 0, RW);
	moving = mr->ibv.lkey;
	assert_int_equal(look(&core, 100, IBV_ACCESS_LOCAL_WRITE), MR_OK);
	assert_non_null(mr_again(&core, &found, moving, 0, 100, RW));
	changing = mr;
	core.region.pass = pass_readers;
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
	assert_int_equal(asked, 1);
	assert_int_equal(passed, 1);
	core.region.pass = NULL;
	assert_int_equal(look(&core, 1, 0), MR_OK);
	assert_int_equal(look(&core, 1, IBV_ACCESS_LOCAL_WRITE), MR_ACCESS);
	assert_int_equal(look(&core, 101, 0), MR_RANGE);
	core.region.wait = NULL;
	munmap(core.exports, sizeof(*core.exports));
	core.exports = NULL;
	mr_dereg(mr);
	assert_int_equal(look(&core, 1, 0), MR_NO_KEY);
	end();
}

static void a_bad_rereg_changes_nothing(void **state)
{
	static uint8_t a[100];
	uint8_t *ro = map(1, PROT_READ);
	struct mr *mr;

	(void)state;
	begin();
	mr = reg(a, 100, (uintptr_t)a, RW);
	assert_int_equal(mr_rereg(mr, 0, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(mr, 8, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, RW), -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 100,
				  0),
			 -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, a, 0, 0),
			 -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_REMOTE_WRITE),
			 -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, ro, 4096, 0),
			 -EFAULT);
	assert_int_equal(check(mr->ibv.rkey, (uintptr_t)a, 100, RW), MR_OK);
	assert_int_equal(pd->users, 1);
	mr_dereg(mr);
	end();
	munmap(ro, 4096);
}

static void *dereg_thread(void *mr)
{
	assert_int_equal(mr_dereg(mr), 0);
	return NULL;
}

/* A thread that mr_check() let in may touch the memory until it gives the turn. */
static void dereg_waits_for_the_turn(void **state)
{
	static uint8_t buf[100];
	struct waiter thread;
	struct mr *leaving;
	uint32_t key;

	(void)state;
	begin();
	leaving = reg(buf, 100, (uintptr_t)buf, RW);
	key = leaving->ibv.rkey;
	turn_take(&core.turn);
	assert_int_equal(check(key, (uintptr_t)buf, 1, 0), MR_OK);
	waiter_start(&thread, dereg_thread, leaving);
	assert_true(waiter_sleeps(&thread));
	assert_true(waiter_sleeps(&thread));
	turn_give(&core.turn);
	waiter_join(&thread);
	assert_int_equal(check(key, (uintptr_t)buf, 1, 0), MR_NO_KEY);
	end();
}

static void every_refusal_has_words(void **state)
{
	(void)state;
	for (int i = MR_OK; i <= MR_QP; i++)
		assert_true(mr_why_str((enum mr_why)i)[0] != '?');
}

/* URNIC_LIKE: what is on demand is not pinned. */
static void pins_follow_a_rereg(void **state)
{
	uint8_t *at = map(1, PROT_READ | PROT_WRITE);
	struct mr *mr;

	(void)state;
	begin();
	caps.as_hardware = true;
	mr = reg(at, 4096, (uintptr_t)at, RW);
	assert_int_equal(core.counts.pinned, 1);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  RW | IBV_ACCESS_ON_DEMAND),
			 0);
	assert_int_equal(core.counts.pinned, 0);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RW), 0);
	assert_int_equal(core.counts.pinned, 1);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(core.counts.pinned, 0);
	caps.as_hardware = false;
	munmap(at, 4096);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pd_in_use_stays),
		cmocka_unit_test(access_flags_are_judged),
		cmocka_unit_test(ranges_end_where_they_end),
		cmocka_unit_test(rights_and_pds_are_kept_apart),
		cmocka_unit_test(zero_based_begins_at_zero),
		cmocka_unit_test(memory_must_be_there),
		cmocka_unit_test(who_blocks_signals_may_ask),
		cmocka_unit_test(on_demand_needs_no_memory),
		cmocka_unit_test(ranges_do_not_wrap),
		cmocka_unit_test(registration_leaves_the_contents_alone),
		cmocka_unit_test(large_regions_register_at_once),
		cmocka_unit_test(rereg_changes_what_it_is_told),
		cmocka_unit_test(who_has_no_turn_waits_for_a_rereg),
		cmocka_unit_test(a_bad_rereg_changes_nothing),
		cmocka_unit_test(dereg_waits_for_the_turn),
		cmocka_unit_test(every_refusal_has_words),
		cmocka_unit_test(pins_follow_a_rereg),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
