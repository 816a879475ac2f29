/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "verbs/core.h"
#include "verbs/like.h"
#include "verbs/verr.h"
#include "verbs/wr_op.h"

static char text[LIKE_TEXT];

/* The order of the tests matters: a process begins once. */

static void t_off(void **state)
{
	const struct caps before = caps;

	(void)state;
	like_begin("");
	assert_memory_equal(&caps, &before, sizeof(caps));
	assert_string_equal(like_limit_text(LIKE_max_sge, text), "");
	assert_string_equal(like_op_text(IBV_WR_SEND_WITH_IMM, text), "");
	assert_int_equal(like_lacks(LIKE_SRQ, "x"), 0);
	assert_string_equal(like_spec(), "");
	assert_int_equal(like_depth(LIKE_DEPTH_cqe, 100, 4096), 100);
	assert_false(like_has_vendor());
	assert_int_equal(like_vendor_err(IBV_WC_RETRY_EXC_ERR, VERR_TIMEOUT),
			 VERR_TIMEOUT);
}

static void t_limits(void **state)
{
	(void)state;
	like_begin("irdma,siw");
	assert_string_equal(like_spec(), "irdma,siw");
	assert_true(caps.as_hardware);
	assert_int_equal(caps.max_qp_wr, 4063);
	assert_int_equal(caps.max_sge, 6);
	assert_int_equal(caps.max_sge_rd, 1);
	assert_int_equal(caps.max_inline, 80);
	assert_int_equal(caps.max_rd_atomic, 128);
	assert_int_equal(caps.max_dest_rd_atomic, 127);
	assert_int_equal(caps.max_gids, 32);
	assert_int_equal(caps.atomic_cap, IBV_ATOMIC_NONE);
	assert_int_equal(caps.max_msg, INT32_MAX);
	assert_true(caps.max_mr_size == 1ull << 45);
	assert_string_equal(like_limit_text(LIKE_max_sge, text), "; siw has max_sge 6");
	like_begin("mlx5"); /* too late */
	assert_string_equal(like_spec(), "irdma,siw");
}

static void t_features(void **state)
{
	(void)state;
	assert_int_equal(like_lacks(LIKE_SRQ, "create_srq"), -EOPNOTSUPP);
	assert_int_equal(like_lacks(LIKE_UD, "create_qp"), -EOPNOTSUPP);
	assert_int_equal(kind_qp_types(&device_roce), 1u << IBV_QPT_RC);
	assert_int_equal(like_lacks_type(IBV_QPT_UC), -EOPNOTSUPP);
	assert_int_equal(like_lacks_type(IBV_QPT_XRC_SEND), -EOPNOTSUPP);
	assert_int_equal(like_lacks_type(IBV_QPT_RC), 0);
	assert_int_equal(wr_op(IBV_WR_ATOMIC_CMP_AND_SWP)->types, 0);
	assert_int_equal(wr_op(IBV_WR_RDMA_WRITE_WITH_IMM)->types, 0);
	assert_int_equal(wr_op(IBV_WR_FLUSH)->types, 0);
	assert_string_equal(like_op_text(IBV_WR_ATOMIC_CMP_AND_SWP, text),
			    "irdma has no atomics (URNIC_LIKE)");
	assert_string_equal(like_op_text(IBV_WR_SEND, text), "");
	assert_string_equal(like_op_text(99, text), "");
	assert_int_equal(wr_op(IBV_WR_RDMA_READ)->traits & (WR_FEW | WR_DATA), WR_FEW);
	assert_true(wr_op_allowed(wr_op(IBV_WR_RDMA_WRITE), IBV_QPT_RC));
}

static void drop_ipc_lock(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
}

/* Two devices are named: vendor_err is urnic's, and the depth that which is not rounded.
 */
static void t_reported(void **state)
{
	(void)state;
	assert_int_equal(like_depth(LIKE_DEPTH_cqe, 100, 4096), 100);
	assert_false(like_has_vendor());
	assert_int_equal(like_vendor_err(IBV_WC_RETRY_EXC_ERR, VERR_TIMEOUT),
			 VERR_TIMEOUT);
}

/* Pages are counted for each region, as the kernel does, whole ones. */
static void t_memlock(void **state)
{
	static struct core core;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct rlimit most = { 4 * page, 4 * page };
	uint8_t *at = mmap(NULL, 100 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *none = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_ptr_not_equal(none, MAP_FAILED);
	drop_ipc_lock();
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &most), 0);
	assert_int_equal(like_pin(&core, at, 3 * page, 0), 0);
	assert_int_equal(like_pin(&core, at + page - 1, 2, 0), -ENOMEM);
	assert_int_equal(like_pin(&core, at, page, 0), 0);
	assert_int_equal(core.counts.pinned, 4);
	assert_int_equal(like_pin(&core, at, 1, 0), -ENOMEM);
	assert_int_equal(like_pin(&core, at, 100 * page, IBV_ACCESS_ON_DEMAND), 0);
	like_unpin(&core, at, 100 * page, IBV_ACCESS_ON_DEMAND);
	like_unpin(&core, at, 3 * page, 0);
	assert_int_equal(like_pin(&core, at + page - 1, 2, 0), 0);
	assert_int_equal(like_pin(&core, at, 0, 0), 0);
	assert_int_equal(core.counts.pinned, 3);
	assert_int_equal(like_pin(&core, none, page, 0), -EFAULT);
	assert_int_equal(core.counts.pinned, 3);
}

/* Are pages of memory there? */
static bool is_there(uint8_t *at, size_t n)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char there[16];
	size_t got = 0;

	assert_int_equal(mincore(at, n * page, there), 0);
	for (size_t i = 0; i < n; i++)
		got += there[i] & 1;
	assert_true(got == 0 || got == n);
	return got == n;
}

static void t_pages_are_brought_in(void **state)
{
	static struct core core;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(like_pin(&core, at + page, 2 * page,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
			 0);
	assert_false(is_there(at, 4));
	assert_int_equal(like_pin(&core, at + page + 7, 2 * page - 8,
				  IBV_ACCESS_LOCAL_WRITE),
			 0);
	assert_true(is_there(at + page, 2));
	assert_false(is_there(at, 1));
	assert_false(is_there(at + 3 * page, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_off),      cmocka_unit_test(t_limits),
		cmocka_unit_test(t_features), cmocka_unit_test(t_reported),
		cmocka_unit_test(t_memlock),  cmocka_unit_test(t_pages_are_brought_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
