/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "verbs/core.h"
#include "verbs/mr.h"

enum {
	REGION = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
	WRITE = IBV_ACCESS_REMOTE_WRITE,
	READ = IBV_ACCESS_REMOTE_READ,
	QPN = 0x4001,
};

static struct core core;
static struct pd *pd;
static struct mr *mr;
static uint8_t buf[1000];

static void begin(void)
{
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(pd_alloc(&core, NULL, &pd), 0);
	assert_int_equal(mr_reg(pd, buf, sizeof(buf), 0x10000, REGION, &mr), 0);
}

static void end(void)
{
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(pd_free(pd), 0);
	core_fini(&core);
}

static struct mw *alloc(enum ibv_mw_type type)
{
	struct mw *mw = NULL;

	assert_int_equal(mw_alloc(pd, type, &mw), 0);
	return mw;
}

static uint32_t next_tag(uint32_t rkey)
{
	return (rkey & ~0xffu) | ((rkey + 1) & 0xff);
}

static struct ibv_mw_bind_info part(uint64_t addr, uint64_t length, unsigned access)
{
	return (struct ibv_mw_bind_info){ &mr->ibv, addr, length, access };
}

static enum ibv_wc_status bind(struct mw *mw, uint32_t *rkey,
			       struct ibv_mw_bind_info info)
{
	uint32_t new = next_tag(*rkey);
	enum ibv_wc_status status;

	turn_is_held(&core);
	status = mw_bind(&core, new, mw->ibv.handle, mw->ibv.type, QPN, pd, &info);
	if (status == IBV_WC_SUCCESS)
		*rkey = new;
	return status;
}

static enum mr_why check(uint32_t key, uint32_t qpn, uint64_t va, uint64_t len,
			 int access)
{
	uint8_t *host;

	return mr_check(&core, key, pd, qpn, va, len, access, &host);
}

static void a_window_shows_its_part_only(void **state)
{
	struct mw *mw;
	uint8_t *host;
	uint32_t rkey;

	(void)state;
	begin();
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(check(rkey, 1, 0x10000, 1, WRITE), MR_INVALID);
	assert_int_equal(bind(mw, &rkey, part(0x10064, 50, WRITE)), IBV_WC_SUCCESS);
	assert_int_equal(mr_check(&core, rkey, pd, 1, 0x10064 + 10, 40, WRITE, &host),
			 MR_OK);
	assert_ptr_equal(host, buf + 100 + 10);
	assert_int_equal(check(rkey, 1, 0x10064, 51, WRITE), MR_RANGE);
	assert_int_equal(check(rkey, 1, 0x10063, 1, WRITE), MR_RANGE);
	assert_int_equal(check(rkey, 1, 0x10064, 1, READ), MR_ACCESS);
	/* The rkey of a window is no lkey. */
	assert_int_equal(check(rkey, 1, 0x10064, 1, 0), MR_ACCESS);
	assert_int_equal(check(mw->ibv.rkey, 1, 0x10064, 1, WRITE), MR_NO_KEY);
	mw_dealloc(mw);
	end();
}

/* Programs pass IBV_ACCESS_LOCAL_WRITE for a window as for its region; it means nothing
 * there. */
static void local_write_says_nothing(void **state)
{
	struct mw *mw;
	uint32_t rkey;

	(void)state;
	begin();
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, part(0x10000, 50, WRITE | REGION)),
			 IBV_WC_SUCCESS);
	assert_int_equal(check(rkey, 1, 0x10000, 50, WRITE), MR_OK);
	assert_int_equal(check(rkey, 1, 0x10000, 50, READ), MR_ACCESS);
	assert_int_equal(check(rkey, 1, 0x10000, 50, IBV_ACCESS_LOCAL_WRITE), MR_ACCESS);
	mw_dealloc(mw);
	end();
}

static void a_region_with_windows_stays(void **state)
{
	struct mw *a, *b;
	uint32_t ka, kb;

	(void)state;
	begin();
	a = alloc(IBV_MW_TYPE_1);
	b = alloc(IBV_MW_TYPE_2);
	ka = a->ibv.rkey;
	kb = b->ibv.rkey;
	assert_int_equal(bind(a, &ka, part(0x10000, 10, READ)), 0);
	assert_int_equal(bind(a, &ka, part(0x10000, 20, READ)), 0);
	assert_int_equal(bind(b, &kb, part(0x10000, 10, READ)), 0);
	assert_int_equal(mr_dereg(mr), -EBUSY);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REGION),
			 -EBUSY);
	assert_int_equal(bind(a, &ka, part(0, 0, 0)), IBV_WC_SUCCESS);
	assert_int_equal(check(ka, 1, 0x10000, 1, READ), MR_INVALID);
	assert_int_equal(mr_dereg(mr), -EBUSY);
	assert_int_equal(mw_dealloc(b), 0);
	assert_int_equal(check(kb, QPN, 0x10000, 1, READ), MR_NO_KEY);
	mw_dealloc(a);
	end();
}

static void type_2_belongs_to_its_qp(void **state)
{
	struct mw *mw;
	uint32_t rkey;

	(void)state;
	turn_is_held(&core);
	begin();
	mw = alloc(IBV_MW_TYPE_2);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, part(0x10000, 10, READ)), 0);
	assert_int_equal(check(rkey, QPN, 0x10000, 10, READ), MR_OK);
	assert_int_equal(check(rkey, QPN + 1, 0x10000, 10, READ), MR_QP);
	/* A type 2 window is bound once, until it is invalidated. */
	assert_int_equal(bind(mw, &rkey, part(0x10000, 20, READ)), IBV_WC_MW_BIND_ERR);
	assert_int_equal(mkey_invalidate(&core, rkey, pd, QPN + 1), -EACCES);
	assert_int_equal(mkey_invalidate(&core, rkey, pd, QPN), 0);
	assert_int_equal(check(rkey, QPN, 0x10000, 10, READ), MR_INVALID);
	assert_int_equal(mkey_invalidate(&core, rkey, pd, QPN), -EACCES);
	assert_int_equal(mkey_invalidate(&core, rkey, pd, 0), 0);
	assert_int_equal(bind(mw, &rkey, part(0x10000, 20, READ)), 0);
	assert_int_equal(mkey_invalidate(&core, rkey, pd, 0), 0);
	/* A type 2 window's binding ends with its QP. */
	assert_int_equal(bind(mw, &rkey, part(0x10000, 20, READ)), 0);
	mw_forget_qp(&core, QPN + 1);
	assert_int_equal(check(rkey, QPN, 0x10000, 10, READ), MR_OK);
	mw_forget_qp(&core, QPN);
	assert_int_equal(check(rkey, QPN, 0x10000, 10, READ), MR_INVALID);
	mw_dealloc(mw);
	end();
}

static void only_type_2_is_invalidated(void **state)
{
	struct mw *mw;
	struct pd *other;
	uint32_t rkey;

	(void)state;
	turn_is_held(&core);
	begin();
	assert_int_equal(pd_alloc(&core, NULL, &other), 0);
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, part(0x10000, 10, READ)), 0);
	assert_int_equal(mkey_invalidate(&core, rkey, pd, 0), -EACCES);
	assert_int_equal(mkey_invalidate(&core, mr->ibv.rkey, pd, 0), -EACCES);
	assert_int_equal(mkey_invalidate(&core, 0x777, pd, 0), -EACCES);
	assert_int_equal(check(rkey, 0, 0x10000, 10, READ), MR_OK);
	mw_dealloc(mw);
	mw = alloc(IBV_MW_TYPE_2);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, part(0x10000, 10, READ)), 0);
	assert_int_equal(mkey_invalidate(&core, rkey, other, 0), -EACCES);
	mw_dealloc(mw);
	assert_int_equal(pd_free(other), 0);
	end();
}

static void a_window_is_within_its_region(void **state)
{
	struct mw *mw;
	uint32_t rkey;

	(void)state;
	begin();
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, part(0x10000, 1001, READ)), IBV_WC_MW_BIND_ERR);
	assert_int_equal(bind(mw, &rkey, part(0x10001, 1000, READ)), IBV_WC_MW_BIND_ERR);
	assert_int_equal(bind(mw, &rkey, part(0xffff, 1, READ)), IBV_WC_MW_BIND_ERR);
	assert_int_equal(bind(mw, &rkey, part(0x10001, UINT64_MAX, READ)),
			 IBV_WC_MW_BIND_ERR);
	assert_int_equal(bind(mw, &rkey, part(0x10000, 1000, READ)), 0);
	/* A refused bind has changed nothing. */
	assert_int_equal(bind(mw, &rkey, part(0x10000, 1001, READ)), IBV_WC_MW_BIND_ERR);
	assert_int_equal(check(rkey, 0, 0x10000, 1000, READ), MR_OK);
	mw_dealloc(mw);
	end();
}

static void the_region_must_allow_windows(void **state)
{
	struct ibv_mw_bind_info info = { .addr = 0x10000, .length = 10 };
	struct mr *closed, *read_only;
	struct pd *other;
	struct mr *foreign;
	struct mw *mw;
	uint32_t rkey;

	(void)state;
	begin();
	assert_int_equal(pd_alloc(&core, NULL, &other), 0);
	assert_int_equal(mr_reg(pd, buf, 100, 0x10000, 3, &closed), 0);
	assert_int_equal(mr_reg(pd, buf, 100, 0x10000, IBV_ACCESS_MW_BIND, &read_only),
			 0);
	assert_int_equal(mr_reg(other, buf, 100, 0x10000, REGION, &foreign), 0);
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_MW_BIND_ERR);
	info.mr = &closed->ibv;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_MW_BIND_ERR);
	info.mr = &foreign->ibv;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_MW_BIND_ERR);
	info.mr = &read_only->ibv;
	info.mw_access_flags = WRITE;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_MW_BIND_ERR);
	info.mw_access_flags = READ;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_SUCCESS);
	mw_dealloc(mw);
	mr_dereg(closed);
	mr_dereg(read_only);
	mr_dereg(foreign);
	assert_int_equal(pd_free(other), 0);
	end();
}

/* A window's rkey does not work as an lkey, whatever its rights. */
static void flags_of_regions_mean_nothing(void **state)
{
	const unsigned all =
		ACCESS_KNOWN & ~(unsigned)(IBV_ACCESS_ZERO_BASED | ACCESS_FLUSH |
					   IBV_ACCESS_REMOTE_ATOMIC);
	struct ibv_mw_bind_info info;
	struct mw *mw;
	uint32_t rkey;

	(void)state;
	begin();
	info = part(0x10000, 10, all);
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_SUCCESS);
	assert_int_equal(mw->mkey.access, READ | WRITE);
	info.mw_access_flags = READ | IBV_ACCESS_FLUSH_GLOBAL; /* the region lacks it */
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_MW_BIND_ERR);
	info.mw_access_flags = 1u << 18;
	assert_int_equal(bind(mw, &rkey, info), IBV_WC_MW_BIND_ERR);
	mw_dealloc(mw);
	end();
}

static void refused(uint32_t key, uint32_t handle, enum ibv_mw_type type, struct pd *of,
		    struct ibv_mw_bind_info info)
{
	turn_is_held(&core);
	assert_int_equal(mw_bind(&core, key, handle, type, QPN, of, &info),
			 IBV_WC_MW_BIND_ERR);
}

static void keys_and_types_must_fit(void **state)
{
	struct ibv_mw_bind_info info;
	struct mw *one, *two, *none = NULL;
	struct pd *other;

	(void)state;
	begin();
	info = part(0x10000, 10, READ);
	assert_int_equal(mw_alloc(pd, (enum ibv_mw_type)3, &none), -EINVAL);
	assert_null(none);
	assert_int_equal(pd_alloc(&core, NULL, &other), 0);
	one = alloc(IBV_MW_TYPE_1);
	two = alloc(IBV_MW_TYPE_2);
	refused(one->ibv.rkey, one->ibv.handle, IBV_MW_TYPE_2, pd, info);
	refused(one->ibv.rkey, two->ibv.handle, IBV_MW_TYPE_1, pd, info);
	refused(mr->ibv.rkey, one->ibv.handle, IBV_MW_TYPE_1, pd, info);
	refused(one->ibv.rkey, one->ibv.handle, IBV_MW_TYPE_1, other, info);
	info.length = 0;
	refused(two->ibv.rkey, two->ibv.handle, IBV_MW_TYPE_2, pd, info);
	assert_int_equal(mr->mkey.windows, 0);
	mw_dealloc(one);
	mw_dealloc(two);
	assert_int_equal(pd_free(other), 0);
	end();
}

/* Of the key that a bind names only the generation counts, which may be the old one. */
static void a_bind_chooses_the_generation(void **state)
{
	struct mw *mw;
	uint32_t key;

	(void)state;
	turn_is_held(&core);
	begin();
	mw = alloc(IBV_MW_TYPE_2);
	key = mw_key(mw, ~mw->ibv.rkey);
	assert_int_equal(key, mw->ibv.rkey ^ 0xff);
	for (int i = 0; i < 2; i++) {
		struct ibv_mw_bind_info info = part(0x10000, 10, READ);

		assert_int_equal(mw_bind(&core, key, mw->ibv.handle, IBV_MW_TYPE_2, QPN,
					 pd, &info),
				 IBV_WC_SUCCESS);
		assert_int_equal(check(key, QPN, 0x10000, 10, READ), MR_OK);
		assert_int_equal(check(mw->ibv.rkey, QPN, 0x10000, 10, READ), MR_NO_KEY);
		assert_int_equal(mkey_invalidate(&core, key, pd, QPN), 0);
	}
	mw_dealloc(mw);
	end();
}

static void zero_based_windows_begin_at_zero(void **state)
{
	struct mw *mw;
	uint8_t *host;
	uint32_t rkey;

	(void)state;
	begin();
	mw = alloc(IBV_MW_TYPE_1);
	rkey = mw->ibv.rkey;
	assert_int_equal(bind(mw, &rkey, part(0x10064, 50, READ | IBV_ACCESS_ZERO_BASED)),
			 0);
	assert_int_equal(mr_check(&core, rkey, pd, 0, 5, 45, READ, &host), MR_OK);
	assert_ptr_equal(host, buf + 105);
	assert_int_equal(check(rkey, 0, 5, 46, READ), MR_RANGE);
	mw_dealloc(mw);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_shows_its_part_only),
		cmocka_unit_test(local_write_says_nothing),
		cmocka_unit_test(a_region_with_windows_stays),
		cmocka_unit_test(type_2_belongs_to_its_qp),
		cmocka_unit_test(only_type_2_is_invalidated),
		cmocka_unit_test(a_window_is_within_its_region),
		cmocka_unit_test(the_region_must_allow_windows),
		cmocka_unit_test(flags_of_regions_mean_nothing),
		cmocka_unit_test(keys_and_types_must_fit),
		cmocka_unit_test(a_bind_chooses_the_generation),
		cmocka_unit_test(zero_based_windows_begin_at_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
