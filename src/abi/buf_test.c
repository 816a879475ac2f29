/* SPDX-License-Identifier: BSD-2-Clause */
#include "abi/buf.h"

#include <string.h>
#include <unistd.h>

#include "abi/fix.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

enum { WRITE = IBV_ACCESS_LOCAL_WRITE };

static void a_buffer_is_registered(void **state)
{
	struct buf *buf = NULL;
	uint8_t *at = abi_alloc_buf(fix.pd, 10000, &buf);
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(at);
	assert_int_equal((uintptr_t)at % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	memset(at, 7, 10000);
	mr = abi_reg_buf_mr(fix.pd, buf, at + 1, 9999, WRITE);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, at + 1);
	assert_int_equal(mr->length, 9999);
	assert_int_equal(mr_of(mr)->mkey.base, (uintptr_t)at + 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(abi_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	abi_free_buf(buf);
	abi_free_buf(buf); /* ignored */
	abi_free_buf(NULL);
	assert_int_equal(abi_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, EINVAL);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at, 1, WRITE), EINVAL);
}

static void buffers_are_checked(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(fix.ibv);
	struct buf *buf;
	uint8_t *at = abi_alloc_buf(fix.pd, 100, &buf);

	(void)state;
	fix_null(abi_alloc_buf(fix.pd, 100, NULL), EINVAL);
	fix_null(abi_alloc_buf(NULL, 100, &buf), EINVAL);
	fix_null(abi_alloc_buf(fix.pd, 0, &buf), EINVAL);
	fix_null(abi_alloc_buf(fix.pd, SIZE_MAX, &buf), ENOMEM);
	fix_null(abi_reg_buf_mr(other, buf, at, 100, WRITE), EINVAL);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at, 101, WRITE), EINVAL);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at + 1, 100, WRITE), EINVAL);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at - 1, 1, WRITE), EINVAL);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at, SIZE_MAX, WRITE), EINVAL);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at, 100, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	abi_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

/* A handler that has interrupted a call of its thread frees and exports nothing, as the
 * table of objects may be locked. */
static void a_handler_frees_no_buffer(void **state)
{
	struct buf *buf;
	struct ibv_mr *mr;
	uint8_t *at = abi_alloc_buf(fix.pd, 100, &buf);

	(void)state;
	inside_begin();
	errno = 0;
	abi_free_buf(buf);
	assert_int_equal(errno, EDEADLK);
	errno = 0;
	assert_int_equal(abi_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, EDEADLK);
	abi_end();
	mr = abi_reg_buf_mr(fix.pd, buf, at, 100, WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	abi_free_buf(buf);
}

static void a_struct_describes_a_region(void **state)
{
	struct buf_mr_attr a = { .length = 8, .access = WRITE, .addr = fix.memory };
	struct ibv_mr *mr;

	(void)state;
	fix_null(abi_reg_mr_ex(fix.pd, NULL), EINVAL);
	fix_null(abi_reg_mr_ex(NULL, &a), EINVAL);
	fix_null(abi_reg_mr_ex(fix.pd, &a), EINVAL); /* no address */
	a.comp_mask = BUF_MR_ADDR;
	mr = abi_reg_mr_ex(fix.pd, &a);
	assert_int_equal(mr_of(mr)->mkey.base, (uintptr_t)fix.memory);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	a.comp_mask = BUF_MR_ADDR | BUF_MR_IOVA;
	a.iova = 0x1000;
	mr = abi_reg_mr_ex(fix.pd, &a);
	assert_int_equal(mr_of(mr)->mkey.base, 0x1000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	a.comp_mask = BUF_MR_IOVA | BUF_MR_FD | BUF_MR_FD_OFFSET;
	fix_null(abi_reg_mr_ex(fix.pd, &a), EOPNOTSUPP);
	a.comp_mask = BUF_MR_ADDR | BUF_MR_DMAH;
	fix_null(abi_reg_mr_ex(fix.pd, &a), EOPNOTSUPP);
	a.comp_mask = BUF_MR_ADDR | 1ull << 40;
	fix_null(abi_reg_mr_ex(fix.pd, &a), EOPNOTSUPP);
	a.comp_mask = BUF_MR_ADDR | BUF_MR_BUF;
	fix_null(abi_reg_mr_ex(fix.pd, &a), EINVAL);
	a.comp_mask = BUF_MR_ADDR | BUF_MR_BUF | BUF_MR_FD;
	fix_null(abi_reg_mr_ex(fix.pd, &a), EINVAL);
}

/* In a domain that allows memory which a confidential guest shares, buffers are as in any
 * other. */
static void a_parent_domain_allows_shared_memory(void **state)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = fix.pd, .comp_mask = PARENT_ALLOWS_CC_UNPROTECTED
	};
	struct ibv_pd *parent = abi_alloc_parent_domain(fix.ibv, &attr);
	struct ibv_mr *mr;
	struct buf *buf;
	void *at;

	(void)state;
	assert_non_null(parent);
	at = abi_alloc_buf(parent, 4096, &buf);
	fix_null(abi_reg_buf_mr(fix.pd, buf, at, 4096, WRITE), EINVAL);
	mr = abi_reg_buf_mr(parent, buf, at, 4096, WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	abi_free_buf(buf);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	attr.comp_mask = PARENT_ALLOWS_CC_UNPROTECTED << 1;
	fix_null(abi_alloc_parent_domain(fix.ibv, &attr), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_buffer_is_registered, fix_open,
						fix_close),
		cmocka_unit_test_setup_teardown(buffers_are_checked, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(a_handler_frees_no_buffer, fix_open,
						fix_close),
		cmocka_unit_test_setup_teardown(a_struct_describes_a_region, fix_open,
						fix_close),
		cmocka_unit_test_setup_teardown(a_parent_domain_allows_shared_memory,
						fix_open, fix_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
