/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues and their tables: what is refused, the moves between states, and who keeps
 * whom. */
#include "raw/fix.h"

static struct ibv_wq_init_attr attr_of_wq(void)
{
	return (struct ibv_wq_init_attr){
		.wq_context = &t,
		.wq_type = IBV_WQT_RQ,
		.max_wr = 4,
		.max_sge = 1,
		.pd = &t.pd->ibv,
		.cq = (struct ibv_cq *)&t.rcq->ex,
	};
}

static struct wq *make_wq(void)
{
	const struct ibv_wq_init_attr a = attr_of_wq();
	struct wq *wq = NULL;

	assert_int_equal(wq_create(&t.ctx, &a, &wq), 0);
	return wq;
}

static int move(struct wq *wq, enum ibv_wq_state to)
{
	const struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to };

	return wq_modify(wq, &a, t.now);
}

/* --- queues ---------------------------------------------------------------- */

static void a_queue_begins_in_reset(void **state)
{
	struct wq *wq;

	(void)state;
	need_tap();
	wq = make_wq();
	assert_ptr_equal(wq_of(&wq->ibv), wq);
	assert_ptr_equal(wq->ibv.context, &t.ibv);
	assert_ptr_equal(wq->ibv.wq_context, &t);
	assert_ptr_equal(wq->ibv.pd, &t.pd->ibv);
	assert_ptr_equal(wq->ibv.cq, &t.rcq->ex);
	assert_int_equal(wq->ibv.state, IBV_WQS_RESET);
	assert_int_equal(wq->ibv.wq_num, wq->qp->qpn);
	assert_true(live_is(&wq->live, LIVE_WQ));
	assert_false(live_is(&wq->qp->live, LIVE_QP)); /* no program can name it */
	assert_int_equal(wq_destroy(wq), 0);
}

static void queues_that_are_refused(void **state)
{
	struct {
		struct ibv_wq_init_attr attr;
		int rc;
	} row[8];
	struct wq *wq = NULL;

	(void)state;
	need_tap();
	for (int i = 0; i < 8; i++)
		row[i].attr = attr_of_wq();
	row[0].attr.wq_type = (enum ibv_wq_type)1, row[0].rc = -EOPNOTSUPP;
	row[1].attr.comp_mask = 2, row[1].rc = -EINVAL;
	row[2].attr.pd = NULL, row[2].rc = -EINVAL;
	row[3].attr.cq = NULL, row[3].rc = -EINVAL;
	row[4].attr.max_wr = 0, row[4].rc = -EINVAL;
	row[5].attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	row[5].attr.create_flags = IBV_WQ_FLAGS_DELAY_DROP, row[5].rc = -EOPNOTSUPP;
	row[6].attr.max_wr = UINT32_MAX, row[6].rc = -EINVAL;
	row[7].attr.max_sge = UINT32_MAX, row[7].rc = -EINVAL;
	for (int i = 0; i < 8; i++)
		assert_int_equal(wq_create(&t.ctx, &row[i].attr, &wq), row[i].rc);
	assert_null(wq);
}

/* Flags count only if the mask names them. */
static void flags_without_the_mask(void **state)
{
	struct ibv_wq_init_attr a = attr_of_wq();
	struct wq *wq;

	(void)state;
	need_tap();
	a.create_flags = IBV_WQ_FLAGS_DELAY_DROP;
	assert_int_equal(wq_create(&t.ctx, &a, &wq), 0);
	assert_int_equal(wq_destroy(wq), 0);
}

static void a_device_without_raw_packets(void **state)
{
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	const struct device_kind *was = &device_roce;
	const struct ibv_wq_init_attr a = attr_of_wq();
	struct wq_table *out;
	struct wq *wq;

	(void)state;
	need_tap();
	t.dev->kind = &device_ib;
	assert_int_equal(wq_create(&t.ctx, &a, &wq), -EOPNOTSUPP);
	assert_int_equal(wq_table_create(&t.ctx, &table, &out), -EOPNOTSUPP);
	t.dev->kind = was;
}

static void moves_between_states(void **state)
{
	static const struct {
		enum ibv_wq_state to;
		int rc;
	} row[] = {
		{ IBV_WQS_RESET, 0 },	      { IBV_WQS_RDY, 0 },
		{ IBV_WQS_RDY, 0 },	      { IBV_WQS_ERR, 0 },
		{ IBV_WQS_ERR, 0 },	      { IBV_WQS_RDY, -EINVAL },
		{ IBV_WQS_UNKNOWN, -EINVAL }, { (enum ibv_wq_state)17, -EINVAL },
		{ IBV_WQS_RESET, 0 },	      { IBV_WQS_ERR, -EINVAL },
		{ IBV_WQS_RDY, 0 },	      { IBV_WQS_RESET, 0 },
	};
	enum ibv_wq_state now = IBV_WQS_RESET;
	struct wq *wq;
	int rc;

	(void)state;
	need_tap();
	wq = make_wq();
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		rc = move(wq, row[i].to);
		if (rc != row[i].rc)
			fail_msg("row %zu: %d", i, rc);
		now = row[i].rc ? now : row[i].to;
		assert_int_equal(wq->ibv.state, now);
	}
	assert_int_equal(wq_destroy(wq), 0);
}

static void changes_that_are_refused(void **state)
{
	struct ibv_wq_attr a = { .wq_state = IBV_WQS_RDY };
	struct wq *wq;

	(void)state;
	need_tap();
	wq = make_wq();
	assert_int_equal(wq_modify(wq, &a, t.now), 0); /* nothing is asked for */
	a.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_FLAGS;
	a.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS;
	assert_int_equal(wq_modify(wq, &a, t.now), -EOPNOTSUPP);
	a.attr_mask = IBV_WQ_ATTR_STATE | 1u << 30;
	assert_int_equal(wq_modify(wq, &a, t.now), -EINVAL);
	a.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
	a.curr_wq_state = IBV_WQS_ERR;
	assert_int_equal(wq_modify(wq, &a, t.now), -EINVAL);
	assert_int_equal(wq->ibv.state, IBV_WQS_RESET);
	a.curr_wq_state = IBV_WQS_RESET;
	assert_int_equal(wq_modify(wq, &a, t.now), 0);
	assert_int_equal(wq->ibv.state, IBV_WQS_RDY);
	t.ctx.dead = true;
	assert_int_equal(move(wq, IBV_WQS_ERR), -EIO);
	t.ctx.dead = false;
	assert_int_equal(wq_destroy(wq), 0);
}

static void flags_of_a_queue(void **state)
{
	struct ibv_wq_init_attr init = attr_of_wq();
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_FLAGS };
	struct wq *wq;

	(void)state;
	need_tap();
	init.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	init.create_flags = IBV_WQ_FLAGS_SCATTER_FCS | IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
	assert_int_equal(wq_create(&t.ctx, &init, &wq), 0);
	assert_int_equal(wq->qp->create_flags, IBV_QP_CREATE_SCATTER_FCS);
	a.flags_mask = a.flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	assert_int_equal(wq_modify(wq, &a, t.now), 0);
	assert_int_equal(wq->qp->create_flags,
			 IBV_QP_CREATE_SCATTER_FCS | IBV_QP_CREATE_CVLAN_STRIPPING);
	a.flags = 0;
	a.attr_mask =
		IBV_WQ_ATTR_CURR_STATE; /* flags count only if the mask names them */
	a.curr_wq_state = IBV_WQS_RESET;
	assert_int_equal(wq_modify(wq, &a, t.now), 0);
	assert_true(wq->qp->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING);
	a.attr_mask |= IBV_WQ_ATTR_FLAGS;
	a.curr_wq_state = IBV_WQS_ERR; /* a change that is refused changes nothing */
	assert_int_equal(wq_modify(wq, &a, t.now), -EINVAL);
	assert_true(wq->qp->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING);
	a.curr_wq_state = IBV_WQS_RESET;
	assert_int_equal(wq_modify(wq, &a, t.now), 0);
	assert_int_equal(wq->qp->create_flags, IBV_QP_CREATE_SCATTER_FCS);
	assert_int_equal(wq_destroy(wq), 0);
}

static void a_queue_in_error_is_flushed(void **state)
{
	struct wq *wq;

	(void)state;
	need_tap();
	wq = make_wq();
	assert_int_equal(move(wq, IBV_WQS_RDY), 0);
	post_recv(wq->qp, 1, LEN);
	post_recv(wq->qp, 2, LEN);
	nothing(t.rcq);
	assert_int_equal(move(wq, IBV_WQS_ERR), 0);
	expect(t.rcq, 1, IBV_WC_WR_FLUSH_ERR, 0);
	expect(t.rcq, 2, IBV_WC_WR_FLUSH_ERR, 0);
	nothing(t.rcq);
	assert_int_equal(wq_destroy(wq), 0);
}

/* --- tables ---------------------------------------------------------------- */

static void a_table_keeps_its_queues(void **state)
{
	struct wq *one, *two;
	struct ibv_wq *queues[4];
	struct ibv_rwq_ind_table_init_attr a = { .log_ind_tbl_size = 2,
						 .ind_tbl = queues };
	struct wq_table *table, *other;

	(void)state;
	need_tap();
	one = make_wq();
	two = make_wq();
	queues[0] = queues[1] = queues[3] = &one->ibv;
	queues[2] = &two->ibv;
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), 0);
	assert_ptr_equal(wq_table_of(&table->ibv), table);
	assert_ptr_equal(table->ibv.context, &t.ibv);
	assert_true(live_is(&table->live, LIVE_WQ_TABLE));
	a.log_ind_tbl_size = 0;
	assert_int_equal(wq_table_create(&t.ctx, &a, &other), 0);
	assert_int_not_equal(table->ibv.ind_tbl_num, other->ibv.ind_tbl_num);
	assert_int_equal(wq_destroy(one), -EBUSY);
	assert_int_equal(wq_destroy(two), -EBUSY);
	assert_int_equal(wq_table_destroy(table), 0);
	assert_int_equal(wq_destroy(two), 0);
	assert_int_equal(wq_destroy(one), -EBUSY); /* the other table's */
	assert_int_equal(wq_table_destroy(other), 0);
	assert_int_equal(wq_destroy(one), 0);
}

static void tables_that_are_refused(void **state)
{
	struct wq *wq;
	struct ibv_wq *queues[RSS_TABLE_MAX];
	struct ibv_rwq_ind_table_init_attr a = { .ind_tbl = queues };
	struct wq_table *table = NULL;

	(void)state;
	need_tap();
	wq = make_wq();
	for (int i = 0; i < RSS_TABLE_MAX; i++)
		queues[i] = &wq->ibv;
	a.comp_mask = 1;
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), -EINVAL);
	a.comp_mask = 0;
	a.log_ind_tbl_size = RSS_TABLE_LOG + 1;
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), -EINVAL);
	a.log_ind_tbl_size = UINT32_MAX;
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), -EINVAL);
	a.log_ind_tbl_size = RSS_TABLE_LOG;
	a.ind_tbl = NULL;
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), -EINVAL);
	a.ind_tbl = queues;
	t.ctx.dead = true;
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), -EIO);
	t.ctx.dead = false;
	assert_null(table);
	assert_int_equal(wq->users, 0);
	assert_int_equal(wq_table_create(&t.ctx, &a, &table), 0); /* the largest */
	assert_int_equal(wq->users, RSS_TABLE_MAX);
	assert_int_equal(wq_table_destroy(table), 0);
	assert_int_equal(wq_destroy(wq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_queue_begins_in_reset, begin, end),
		cmocka_unit_test_setup_teardown(queues_that_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(flags_without_the_mask, begin, end),
		cmocka_unit_test_setup_teardown(a_device_without_raw_packets, begin, end),
		cmocka_unit_test_setup_teardown(moves_between_states, begin, end),
		cmocka_unit_test_setup_teardown(changes_that_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(flags_of_a_queue, begin, end),
		cmocka_unit_test_setup_teardown(a_queue_in_error_is_flushed, begin, end),
		cmocka_unit_test_setup_teardown(a_table_keeps_its_queues, begin, end),
		cmocka_unit_test_setup_teardown(tables_that_are_refused, begin, end),
	};

	make_tap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
