/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues and indirection tables: which objects the calls take, and how they fail.
 * (What the queues do is in raw/wq_test.c and raw/spread_test.c.) */
#include "abi/fix.h"
#include "abi/packet_fix.h"
#include "verbs/limits.h"

static struct ibv_wq_init_attr attr_of_wq(void)
{
	return (struct ibv_wq_init_attr){ .wq_type = IBV_WQT_RQ,
					  .max_wr = 4,
					  .max_sge = 1,
					  .pd = fix.pd,
					  .cq = fix.cq };
}

static struct ibv_wq *make_wq(void)
{
	struct ibv_wq_init_attr attr = attr_of_wq();
	struct ibv_wq *wq = abi_create_wq(fix.ibv, &attr);

	assert_non_null(wq);
	return wq;
}

static void a_queue_takes_receives(void **state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE,
				    .wq_state = IBV_WQS_RDY };
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)fix.memory, 64, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wq *wq = make_wq();
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(abi_modify_wq(wq, &attr), 0);
	assert_string_equal(fix_said(), "flush");
	assert_int_equal(ibv_post_wq_recv(wq, &wr, &bad), 0);
	attr.wq_state = IBV_WQS_ERR;
	assert_int_equal(abi_modify_wq(wq, &attr), 0);
	assert_int_equal(ibv_poll_cq(fix.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(abi_destroy_wq(wq), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void queues_that_are_refused(void **state)
{
	struct ibv_wq_init_attr attr = attr_of_wq();

	(void)state;
	fix_null(abi_create_wq(fix.ibv, NULL), EINVAL);
	fix_null(abi_create_wq(NULL, &attr), EBADF);
	attr.max_wr = 0;
	fix_null(abi_create_wq(fix.ibv, &attr), EINVAL);
	attr = attr_of_wq();
	attr.pd = NULL;
	fix_null(abi_create_wq(fix.ibv, &attr), EINVAL);
	attr = attr_of_wq();
	attr.cq = NULL;
	fix_null(abi_create_wq(fix.ibv, &attr), EINVAL);
}

static void objects_of_another_context(void **state)
{
	struct ibv_context *two = ibv_open_device(fix.dev[FIX_ROCE]);
	struct ibv_wq *wq = make_wq();
	struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &wq };
	struct ibv_wq_init_attr attr = attr_of_wq();

	(void)state;
	fix_null(abi_create_wq(two, &attr), EINVAL);
	fix_null(abi_create_rwq_ind_table(two, &table), EINVAL);
	assert_int_equal(abi_destroy_wq(wq), 0);
	assert_int_equal(ibv_close_device(two), 0);
}

static void queues_that_are_gone(void **state)
{
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE };
	struct ibv_wq *wq = make_wq();
	struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &wq };

	(void)state;
	fix_errno(abi_modify_wq(wq, NULL), EINVAL);
	fix_errno(abi_modify_wq(NULL, &attr), EINVAL);
	fix_errno(abi_destroy_wq(NULL), ENOENT);
	assert_int_equal(abi_destroy_wq(wq), 0);
	fix_errno(abi_modify_wq(wq, &attr), EINVAL);
	fix_errno(abi_destroy_wq(wq), ENOENT);
	fix_null(abi_create_rwq_ind_table(fix.ibv, &table), EINVAL);
}

static void tables(void **state)
{
	struct ibv_wq *wq = make_wq(), *queues[2] = { wq, NULL };
	struct ibv_rwq_ind_table_init_attr attr = { .log_ind_tbl_size = 1,
						    .ind_tbl = queues };
	struct ibv_rwq_ind_table *table;

	(void)state;
	fix_null(abi_create_rwq_ind_table(fix.ibv, NULL), EINVAL);
	fix_null(abi_create_rwq_ind_table(NULL, &attr), EBADF);
	fix_null(abi_create_rwq_ind_table(fix.ibv, &attr), EINVAL); /* no second queue */
	attr.log_ind_tbl_size = RSS_TABLE_LOG + 1; /* then the queues are not read */
	fix_null(abi_create_rwq_ind_table(fix.ibv, &attr), EINVAL);
	attr.log_ind_tbl_size = 1;
	attr.ind_tbl = NULL;
	fix_null(abi_create_rwq_ind_table(fix.ibv, &attr), EINVAL);
	attr.ind_tbl = queues;
	queues[1] = wq;
	table = abi_create_rwq_ind_table(fix.ibv, &attr);
	assert_non_null(table);
	fix_errno(abi_destroy_wq(wq), EBUSY);
	assert_int_equal(abi_destroy_rwq_ind_table(table), 0);
	fix_errno(abi_destroy_rwq_ind_table(table), ENOENT);
	fix_errno(abi_destroy_rwq_ind_table(NULL), ENOENT);
	assert_int_equal(abi_destroy_wq(wq), 0);
}

static void a_qp_over_a_table(void **state)
{
	static uint8_t key[RSS_KEY];
	struct ibv_wq *wq = make_wq();
	struct ibv_rwq_ind_table_init_attr how = { .ind_tbl = &wq };
	struct ibv_rwq_ind_table *table = abi_create_rwq_ind_table(fix.ibv, &how);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = fix.pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				  .rx_hash_key_len = RSS_KEY,
				  .rx_hash_key = key },
	};
	struct ibv_qp *qp = abi_create_qp_ex(fix.ibv, &attr);

	(void)state;
	assert_non_null(qp);
	fix_errno(abi_destroy_rwq_ind_table(table), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(abi_destroy_rwq_ind_table(table), 0);
	fix_null(abi_create_qp_ex(fix.ibv, &attr), EINVAL); /* the table is gone */
	assert_int_equal(abi_destroy_wq(wq), 0);
}

static void rate_limits(void **state)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000 };
	struct ibv_qp *raw = raw_qp(), *rc = fix_qp(IBV_QPT_RC);

	(void)state;
	fix_errno(abi_modify_qp_rate_limit(raw, NULL), EINVAL);
	fix_errno(abi_modify_qp_rate_limit(NULL, &limit), EINVAL);
	fix_errno(abi_modify_qp_rate_limit(rc, &limit), EOPNOTSUPP);
	fix_errno(abi_modify_qp_rate_limit(raw, &limit), EINVAL); /* not in RTS */
	limit.max_burst_sz = 1;
	fix_errno(abi_modify_qp_rate_limit(raw, &limit), EINVAL);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(raw), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_queue_takes_receives, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(queues_that_are_refused, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(objects_of_another_context, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(queues_that_are_gone, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(tables, open_packets, close_packets),
		cmocka_unit_test_setup_teardown(a_qp_over_a_table, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(rate_limits, open_packets, close_packets),
	};

	return may_have_packets() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
