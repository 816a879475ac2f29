/* SPDX-License-Identifier: BSD-2-Clause */
/* What every control call returns for an object that is freed, for an object of another
 * context, and for a dead context (live.c, and the calls' own files). */
#include <string.h>

#include "abi/fix.h"

int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned index, int *type);

enum kind { CONTEXT, PD, CQ, CHANNEL, SRQ, QP, AH, MR, MW, DM, TD, XRCD, KINDS };

/* --- each call on one object ----------------------------------------------- */

/* Returns the errno of a call, whatever the way in which the call returns it. */
static int of_pointer(const void *made)
{
	assert_null(made);
	return errno;
}

static int of_minus(int rc)
{
	assert_int_equal(rc, -1);
	return errno;
}

static int of_errno(int rc)
{
	assert_int_equal(rc, errno);
	return rc;
}

/* For a call that returns nothing: it must do nothing. */
static int of_nothing(void)
{
	return errno;
}

#define CALL(name, type, how)                                                            \
	static int name(void *object)                                                    \
	{                                                                                \
		type *o = object;                                                        \
		return how;                                                              \
	}

static struct ibv_ah_attr ah_attr;
static struct ibv_device_attr device_attr;
static struct ibv_device_attr_ex device_attr_ex;
static struct ibv_port_attr port_attr;
static struct ibv_srq_attr srq_attr;
static struct ibv_qp_attr qp_attr;
static struct ibv_qp_init_attr qp_init;
static struct ibv_qp_init_attr_ex qp_init_ex;
static struct ibv_cq_init_attr_ex cq_init_ex;
static struct ibv_srq_init_attr srq_init;
static struct ibv_srq_init_attr_ex srq_init_ex;
static struct ibv_modify_cq_attr modify_cq;
static struct ibv_td_init_attr td_init;
static struct ibv_parent_domain_init_attr parent_init;
static struct ibv_xrcd_init_attr xrcd_init;
static struct ibv_alloc_dm_attr dm_init = { .length = 64 };
static struct ibv_values_ex values;
static struct ibv_gid_entry entry;
static struct ibv_async_event event;
static struct ibv_mw_bind bind;
static struct ibv_sge sge;
static struct ibv_wc wc;
static struct ibv_grh grh;
static union ibv_gid gid;
static int type;
static uint32_t number;
static uint8_t mac[6];
static uint16_t vid;
static __be16 pkey;

CALL(close_device, struct ibv_context, of_errno(ibv_close_device(o)))
CALL(alloc_pd, struct ibv_context, of_pointer(ibv_alloc_pd(o)))
CALL(create_cq, struct ibv_context, of_pointer(ibv_create_cq(o, 1, NULL, NULL, 0)))
CALL(create_cq_ex, struct ibv_context, of_pointer(abi_create_cq_ex(o, &cq_init_ex)))
CALL(create_channel, struct ibv_context, of_pointer(ibv_create_comp_channel(o)))
CALL(create_qp_ex, struct ibv_context, of_pointer(abi_create_qp_ex(o, &qp_init_ex)))
CALL(create_srq_ex, struct ibv_context, of_pointer(abi_create_srq_ex(o, &srq_init_ex)))
CALL(alloc_td, struct ibv_context, of_pointer(abi_alloc_td(o, &td_init)))
CALL(alloc_parent, struct ibv_context,
     of_pointer(abi_alloc_parent_domain(o, &parent_init)))
CALL(open_xrcd, struct ibv_context, of_pointer(abi_open_xrcd(o, &xrcd_init)))
CALL(alloc_dm, struct ibv_context, of_pointer(abi_alloc_dm(o, &dm_init)))
CALL(import_pd, struct ibv_context, of_pointer(ibv_import_pd(o, 1)))
CALL(import_dm, struct ibv_context, of_pointer(ibv_import_dm(o, 1)))
CALL(query_device, struct ibv_context, of_errno(ibv_query_device(o, &device_attr)))
CALL(query_device_ex, struct ibv_context,
     of_errno(abi_query_device_ex(o, NULL, &device_attr_ex, sizeof(device_attr_ex))))
CALL(query_port, struct ibv_context, of_errno((ibv_query_port)(o, 1, (void *)&port_attr)))
CALL(query_port_ex, struct ibv_context,
     of_errno(abi_query_port(o, 1, &port_attr, sizeof(port_attr))))
CALL(query_rt_values, struct ibv_context, of_errno(abi_query_rt_values(o, &values)))
CALL(query_pkey, struct ibv_context, of_minus(ibv_query_pkey(o, 1, 0, &pkey)))
CALL(get_pkey_index, struct ibv_context, of_minus(ibv_get_pkey_index(o, 1, 0xffff)))
CALL(query_gid, struct ibv_context, of_minus(ibv_query_gid(o, 1, 0, &gid)))
CALL(query_gid_type, struct ibv_context, of_minus(ibv_query_gid_type(o, 1, 0, &type)))
CALL(query_gid_ex, struct ibv_context,
     of_errno(_ibv_query_gid_ex(o, 1, 0, &entry, 0, sizeof(entry))))
CALL(query_gid_table, struct ibv_context,
     of_errno(-(int)_ibv_query_gid_table(o, &entry, 1, 0, sizeof(entry))))
CALL(init_ah, struct ibv_context,
     of_errno(ibv_init_ah_from_wc(o, 1, &wc, &grh, &ah_attr)))
CALL(resolve_mac, struct ibv_context,
     of_errno(ibv_resolve_eth_l2_from_gid(o, &ah_attr, mac, &vid)))
CALL(get_async_event, struct ibv_context, of_minus(ibv_get_async_event(o, &event)))

CALL(dealloc_pd, struct ibv_pd, of_errno(ibv_dealloc_pd(o)))
CALL(reg_mr, struct ibv_pd,
     of_pointer(ibv_reg_mr_iova2(o, fix.memory, 1, 0, IBV_ACCESS_LOCAL_WRITE)))
CALL(alloc_null_mr, struct ibv_pd, of_pointer(abi_alloc_null_mr(o)))
CALL(advise_mr, struct ibv_pd, of_errno(abi_advise_mr(o, 0, 0, &sge, 1)))
CALL(reg_dm_mr, struct ibv_pd, of_pointer(abi_reg_dm_mr(o, NULL, 0, 1, 0)))
CALL(alloc_mw, struct ibv_pd, of_pointer(abi_alloc_mw(o, IBV_MW_TYPE_1)))
CALL(create_ah, struct ibv_pd, of_pointer(ibv_create_ah(o, &ah_attr)))
CALL(create_ah_from_wc, struct ibv_pd, of_pointer(ibv_create_ah_from_wc(o, &wc, &grh, 1)))
CALL(create_qp, struct ibv_pd, of_pointer(ibv_create_qp(o, &qp_init)))
CALL(create_srq, struct ibv_pd, of_pointer(ibv_create_srq(o, &srq_init)))
CALL(import_mr, struct ibv_pd, of_pointer(ibv_import_mr(o, 1)))
CALL(unimport_pd, struct ibv_pd, (ibv_unimport_pd(o), of_nothing()))

CALL(destroy_cq, struct ibv_cq, of_errno(ibv_destroy_cq(o)))
CALL(resize_cq, struct ibv_cq, of_errno(ibv_resize_cq(o, 8)))
CALL(modify_a_cq, struct ibv_cq, of_errno(abi_modify_cq(o, &modify_cq)))
CALL(destroy_channel, struct ibv_comp_channel, of_errno(ibv_destroy_comp_channel(o)))
CALL(destroy_srq, struct ibv_srq, of_errno(ibv_destroy_srq(o)))
CALL(modify_srq, struct ibv_srq, of_errno(ibv_modify_srq(o, &srq_attr, 0)))
CALL(query_srq, struct ibv_srq, of_errno(ibv_query_srq(o, &srq_attr)))
CALL(get_srq_num, struct ibv_srq, of_errno(abi_get_srq_num(o, &number)))
CALL(destroy_qp, struct ibv_qp, of_errno(ibv_destroy_qp(o)))
CALL(modify_qp, struct ibv_qp, of_errno(ibv_modify_qp(o, &qp_attr, 0)))
CALL(query_qp, struct ibv_qp, of_errno(ibv_query_qp(o, &qp_attr, 0, &qp_init)))
CALL(attach, struct ibv_qp, of_errno(ibv_attach_mcast(o, &gid, 0)))
CALL(detach, struct ibv_qp, of_errno(ibv_detach_mcast(o, &gid, 0)))
CALL(bind_mw, struct ibv_qp, of_errno(abi_bind_mw(o, NULL, &bind)))
CALL(destroy_ah, struct ibv_ah, of_errno(ibv_destroy_ah(o)))
CALL(dereg_mr, struct ibv_mr, of_errno(ibv_dereg_mr(o)))
CALL(unimport_mr, struct ibv_mr, (ibv_unimport_mr(o), of_nothing()))
CALL(dealloc_mw, struct ibv_mw, of_errno(abi_dealloc_mw(o)))
CALL(free_dm, struct ibv_dm, of_errno(abi_free_dm(o)))
CALL(unimport_dm, struct ibv_dm, (ibv_unimport_dm(o), of_nothing()))
CALL(dealloc_td, struct ibv_td, of_errno(abi_dealloc_td(o)))
CALL(close_xrcd, struct ibv_xrcd, of_errno(abi_close_xrcd(o)))

/* gone: errno for an object that does not exist. dead: errno for a dead context; 0: the
 * call works with one, or waits. */
static const struct row {
	const char *name;
	enum kind on;
	int (*call)(void *object);
	int gone, dead;
} rows[] = {
#define ROW(name, on, gone, dead)                                                        \
	{                                                                                \
#name, on, name, gone, dead                                              \
	}
	ROW(close_device, CONTEXT, EBADF, 0),
	ROW(alloc_pd, CONTEXT, EBADF, EIO),
	ROW(create_cq, CONTEXT, EBADF, EIO),
	ROW(create_cq_ex, CONTEXT, EBADF, EIO),
	ROW(create_channel, CONTEXT, EBADF, EIO),
	ROW(create_qp_ex, CONTEXT, EBADF, EIO),
	ROW(create_srq_ex, CONTEXT, EBADF, EIO),
	ROW(alloc_td, CONTEXT, EBADF, EIO),
	ROW(alloc_parent, CONTEXT, EBADF, EIO),
	ROW(open_xrcd, CONTEXT, EBADF, EIO),
	ROW(alloc_dm, CONTEXT, EBADF, EIO),
	ROW(import_pd, CONTEXT, EBADF, EIO),
	ROW(import_dm, CONTEXT, EBADF, EIO),
	ROW(query_device, CONTEXT, EBADF, EIO),
	ROW(query_device_ex, CONTEXT, EBADF, EIO),
	ROW(query_port, CONTEXT, EBADF, EIO),
	ROW(query_port_ex, CONTEXT, EBADF, EIO),
	ROW(query_rt_values, CONTEXT, EBADF, EIO),
	ROW(query_pkey, CONTEXT, EBADF, EIO),
	ROW(get_pkey_index, CONTEXT, EBADF, EIO),
	ROW(query_gid, CONTEXT, EBADF, EIO),
	ROW(query_gid_type, CONTEXT, EBADF, EIO),
	ROW(query_gid_ex, CONTEXT, EBADF, EIO),
	ROW(query_gid_table, CONTEXT, EBADF, EIO),
	ROW(init_ah, CONTEXT, EBADF, EIO),
	ROW(resolve_mac, CONTEXT, EBADF, EIO),
	ROW(get_async_event, CONTEXT, EBADF, 0),
	ROW(dealloc_pd, PD, ENOENT, EIO),
	ROW(reg_mr, PD, EINVAL, EIO),
	ROW(alloc_null_mr, PD, EINVAL, EIO),
	ROW(advise_mr, PD, EINVAL, EIO),
	ROW(reg_dm_mr, PD, EINVAL, EIO),
	ROW(alloc_mw, PD, EINVAL, EIO),
	ROW(create_ah, PD, EINVAL, EIO),
	ROW(create_ah_from_wc, PD, EINVAL, EIO),
	ROW(create_qp, PD, EINVAL, EIO),
	ROW(create_srq, PD, EINVAL, EIO),
	ROW(import_mr, PD, EINVAL, EIO),
	ROW(unimport_pd, PD, ENOENT, EIO),
	ROW(destroy_cq, CQ, ENOENT, EIO),
	ROW(resize_cq, CQ, EINVAL, EIO),
	ROW(modify_a_cq, CQ, EINVAL, EIO),
	ROW(destroy_channel, CHANNEL, ENOENT, EIO),
	ROW(destroy_srq, SRQ, ENOENT, EIO),
	ROW(modify_srq, SRQ, EINVAL, EIO),
	ROW(query_srq, SRQ, EINVAL, EIO),
	ROW(get_srq_num, SRQ, EINVAL, EIO),
	ROW(destroy_qp, QP, ENOENT, EIO),
	ROW(modify_qp, QP, EINVAL, EIO),
	ROW(query_qp, QP, EINVAL, EIO),
	ROW(attach, QP, EINVAL, EIO),
	ROW(detach, QP, EINVAL, EIO),
	ROW(bind_mw, QP, EINVAL, EIO),
	ROW(destroy_ah, AH, ENOENT, EIO),
	ROW(dereg_mr, MR, ENOENT, EIO),
	ROW(unimport_mr, MR, ENOENT, EIO),
	ROW(dealloc_mw, MW, ENOENT, EIO),
	ROW(free_dm, DM, ENOENT, 0), /* device memory is the process's own */
	ROW(unimport_dm, DM, ENOENT, EIO),
	ROW(dealloc_td, TD, ENOENT, EIO),
	ROW(close_xrcd, XRCD, ENOENT, EIO),
#undef ROW
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* --- one object of each kind ----------------------------------------------- */

static void make_all(void *of[KINDS])
{
	struct ibv_ah_attr path = fix_path();

	xrcd_init = (struct ibv_xrcd_init_attr){
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = 0100, /* 0100 is O_CREAT */
	};
	of[CONTEXT] = ibv_open_device(fix.dev[FIX_ROCE]);
	fix.ibv = of[CONTEXT];
	of[PD] = fix.pd = ibv_alloc_pd(of[CONTEXT]);
	of[CHANNEL] = ibv_create_comp_channel(of[CONTEXT]);
	of[CQ] = fix.cq = ibv_create_cq(of[CONTEXT], 4, NULL, of[CHANNEL], 0);
	of[SRQ] = fix_srq();
	of[QP] = fix_qp(IBV_QPT_UD);
	of[AH] = ibv_create_ah(of[PD], &path);
	of[MR] = fix_mr(IBV_ACCESS_LOCAL_WRITE);
	of[MW] = abi_alloc_mw(of[PD], IBV_MW_TYPE_1);
	of[DM] = abi_alloc_dm(of[CONTEXT], &dm_init);
	of[TD] = abi_alloc_td(of[CONTEXT], &td_init);
	of[XRCD] = abi_open_xrcd(of[CONTEXT], &xrcd_init);
	for (int i = 0; i < KINDS; i++)
		assert_non_null(of[i]);
}

static void free_all(void *of[KINDS])
{
	errno = 0;
	assert_int_equal(abi_close_xrcd(of[XRCD]), 0);
	assert_int_equal(abi_dealloc_td(of[TD]), 0);
	assert_int_equal(abi_free_dm(of[DM]), 0);
	assert_int_equal(abi_dealloc_mw(of[MW]), 0);
	assert_int_equal(ibv_dereg_mr(of[MR]), 0);
	assert_int_equal(ibv_destroy_ah(of[AH]), 0);
	assert_int_equal(ibv_destroy_qp(of[QP]), 0);
	assert_int_equal(ibv_destroy_srq(of[SRQ]), 0);
	assert_int_equal(ibv_destroy_cq(of[CQ]), 0);
	assert_int_equal(ibv_destroy_comp_channel(of[CHANNEL]), 0);
	assert_int_equal(ibv_dealloc_pd(of[PD]), 0);
	assert_int_equal(ibv_close_device(of[CONTEXT]), 0);
}

static void is(const struct row *row, int got, int expected)
{
	if (got != expected)
		fail_msg("%s: errno %d, not %d", row->name, got, expected);
	assert_int_equal(inside_calls, 0);
	assert_int_equal(inside_held, 0);
}

static int run(const struct row *row, void *object)
{
	errno = 0;
	return row->call(object);
}

static void none(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++)
		is(&rows[i], run(&rows[i], NULL), rows[i].gone);
}

static void gone(void **state)
{
	void *of[KINDS];

	(void)state;
	make_all(of);
	free_all(of);
	fix_said();
	for (size_t i = 0; i < ROWS; i++)
		is(&rows[i], run(&rows[i], of[rows[i].on]), rows[i].gone);
	assert_string_equal(fix_said(), "");
}

static void dead(void **state)
{
	void *of[KINDS];

	(void)state;
	make_all(of);
	fix_said();
	abi_of(of[CONTEXT])->ctx.dead = true;
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].dead)
			is(&rows[i], run(&rows[i], of[rows[i].on]), rows[i].dead);
	assert_string_equal(fix_said(), "");
	abi_of(of[CONTEXT])->ctx.dead = false;
	free_all(of);
}

/* --- further objects that a call names ----------------------------------- */

/* Each argument is refused before anything is made: an object of another context, and one
 * that is freed. */
static void name_all(void *other[KINDS], struct ibv_qp *qp, struct ibv_mw *mw)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 4,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = other[PD],
	};
	struct ibv_parent_domain_init_attr parent = { .pd = other[PD] };
	struct ibv_srq_init_attr_ex srq = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = other[PD],
		.cq = other[CQ],
		.xrcd = other[XRCD],
	};
	struct ibv_mw_bind b = { .bind_info = { .mr = other[MR] } };
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE);

	fix_null(ibv_create_cq(fix.ibv, 4, NULL, other[CHANNEL], 0), EBADF);
	fix_null(abi_create_cq_ex(fix.ibv, &cq), EINVAL);
	fix_null(abi_alloc_parent_domain(fix.ibv, &parent), EINVAL);
	parent = (struct ibv_parent_domain_init_attr){ .pd = fix.pd, .td = other[TD] };
	fix_null(abi_alloc_parent_domain(fix.ibv, &parent), EINVAL);
	fix_null(abi_create_srq_ex(fix.ibv, &srq), EINVAL);
	fix_errno(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other[PD], NULL, 0, 0) ==
				  IBV_REREG_MR_ERR_INPUT
			  ? errno
			  : 0,
		  EINVAL);
	fix_null(abi_reg_dm_mr(fix.pd, other[DM], 0, 8, IBV_ACCESS_ZERO_BASED), EINVAL);
	fix_errno(abi_bind_mw(qp, other[MW], &b), EINVAL);
	fix_errno(abi_bind_mw(qp, mw, &b), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Each object that a QP uses, one at a time. */
static void name_in_qp(void *other[KINDS], struct ibv_srq *srq, struct ibv_xrcd *xrcd)
{
	const struct ibv_qp_init_attr_ex good = {
		.send_cq = fix.cq,
		.recv_cq = fix.cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = fix.pd,
		.srq = srq,
	};
	struct ibv_qp_init_attr_ex a[5] = { good, good, good, good, good };
	struct ibv_qp *qp;

	a[0].pd = other[PD];
	a[1].send_cq = other[CQ];
	a[2].recv_cq = other[CQ];
	a[3].srq = other[SRQ];
	a[4] = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV,
					     .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					     .xrcd = other[XRCD] };
	for (int i = 0; i < 5; i++)
		fix_null(abi_create_qp_ex(fix.ibv, &a[i]), EINVAL);
	a[0] = good;
	qp = abi_create_qp_ex(fix.ibv, &a[0]);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	a[4].xrcd = xrcd;
	qp = abi_create_qp_ex(fix.ibv, &a[4]);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Each of the three objects that an XRC SRQ uses. */
static void name_in_srq(void *other[KINDS], struct ibv_xrcd *xrcd)
{
	const struct ibv_srq_init_attr_ex good = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = fix.pd,
		.cq = fix.cq,
		.xrcd = xrcd,
	};
	struct ibv_srq_init_attr_ex a[3] = { good, good, good };
	struct ibv_srq *srq;

	a[0].pd = other[PD];
	a[1].cq = other[CQ];
	a[2].xrcd = other[XRCD];
	for (int i = 0; i < 3; i++)
		fix_null(abi_create_srq_ex(fix.ibv, &a[i]), EINVAL);
	a[0] = good;
	srq = abi_create_srq_ex(fix.ibv, &a[0]);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void anothers(void **state)
{
	struct ibv_context *ibv;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	void *other[KINDS];

	(void)state;
	make_all(other);
	ibv = fix.ibv = ibv_open_device(fix.dev[FIX_ROCE]);
	pd = fix.pd = ibv_alloc_pd(ibv);
	cq = fix.cq = ibv_create_cq(ibv, 4, NULL, NULL, 0);
	srq = fix_srq();
	qp = fix_qp(IBV_QPT_RC);
	mw = abi_alloc_mw(pd, IBV_MW_TYPE_1);
	xrcd = abi_open_xrcd(ibv, &xrcd_init);
	for (int freed = 0; freed < 2; freed++) {
		name_all(other, qp, mw);
		name_in_qp(other, srq, xrcd);
		name_in_srq(other, xrcd);
		if (!freed)
			free_all(other);
	}
	assert_int_equal(abi_close_xrcd(xrcd), 0);
	assert_int_equal(abi_dealloc_mw(mw), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ibv), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(none, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(gone, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(dead, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(anothers, fix_begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
